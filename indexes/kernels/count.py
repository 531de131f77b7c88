"""How many rows lie in a box with a new row: a walk down a tree of zones, as far as zones lie in the box in part.

A box is a set of allowed outcomes per *test*, as in `probe.py`: column `x_column[t]` of the row x against column
`row_column[t]` of the other row, less 1, equal 2, greater 4.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from holdfast.indexes.kernels.probe import STACK, possible_outcomes, range_of
from holdfast.indexes.kernels.zones import Tree
from holdfast.tables.arrays import Codes, Ints


class Box(NamedTuple):
    """One box as T tests.

    Parameters
    ----------
    x_column, row_column : (T,) the column of the row x and the column of the other row.
    allowed : (T,) the sets of allowed outcomes.
    """

    x_column: Ints
    row_column: Ints
    allowed: Ints


@njit(cache=True, nogil=True)
def count_kernel(xs: Ints, codes: Codes, copies: Ints, box: Box, anchor: int, tree: Tree, out: Ints) -> None:
    """Fill `out` with the number of copies of rows in the box of each row of `xs`, the row itself included.

    Where the tree sorts rows by the codes of a column that has to be equal, `anchor` is the column of x that it has to
    be equal to, else -1: only the range of the tree with that code is walked.
    """
    stack = np.empty(STACK, np.int64)
    leaf, zone, entry = tree.leaf, tree.zone, tree.entry
    for i in range(len(xs)):
        x, total = xs[i], 0
        stack[0], depth = tree.root[0], 1
        while depth > 0:
            depth -= 1
            node = stack[depth]
            first, last = 0, tree.size[node] - 1
            if anchor >= 0:
                first, last = range_of(node, codes[x, anchor], tree)
            for j in range(first, last + 1):
                below = entry[node, j]
                is_out, is_in = False, True
                for t in range(len(box.allowed)):
                    code, c = codes[x, box.x_column[t]], box.row_column[t]
                    if leaf[node]:
                        possible = possible_outcomes(code, codes[below, c], codes[below, c])
                    else:
                        possible = possible_outcomes(code, zone[below, 0, c], zone[below, 1, c])
                    if possible & box.allowed[t] == 0:
                        is_out = True
                        break
                    if possible & ~box.allowed[t]:
                        is_in = False
                if is_out:
                    continue
                if leaf[node]:
                    total += copies[below]
                elif is_in:
                    total += tree.weight[below]
                else:
                    stack[depth] = below
                    depth += 1
        out[i] = total


@njit(cache=True, nogil=True)
def first_in_box_kernel(x: int, codes: Codes, copies: Ints, start: int, end: int, box: Box) -> int:
    """Return the first live row from `start` up to `end` that is in the box of row x, `end` where there is none.

    The row itself counts where it has two copies.
    """
    for row in range(start, end):
        if copies[row] < 1 or (row == x and copies[row] < 2):
            continue
        is_in = True
        for t in range(len(box.allowed)):
            code, other = codes[x, box.x_column[t]], codes[row, box.row_column[t]]
            if possible_outcomes(code, other, other) & box.allowed[t] == 0:
                is_in = False
                break
        if is_in:
            return row
    return end
