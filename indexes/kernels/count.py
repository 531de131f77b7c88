"""How many rows lie in a box with a new one: a walk down a tree of zones, as far as zones lie in it in part.

A box is a set of allowed outcomes per *test*, as in `probe.py`: column `x_column[t]` of the row x against column
`row_column[t]` of the other one, less 1, equal 2, greater 4.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from holdfast.indexes.kernels.probe import _possible, _range
from holdfast.indexes.kernels.zones import Entries

Codes = NDArray[np.int64]
Ints = NDArray[np.int64]


@njit(cache=True, nogil=True)
def count_kernel(
    xs: Ints,
    codes: Codes,
    copies: Ints,
    x_column: Ints,
    row_column: Ints,
    allowed: Ints,
    anchor: int,
    leaf: Ints,
    size: Ints,
    entry: Entries,
    places: Codes,
    zone: Codes,
    weight: Ints,
    root: Ints,
    stack: Ints,
    out: Ints,
) -> None:
    """Fill `out` with the copies of rows in the box of each of some rows `xs`, itself included where it is there.

    Where places are the codes of a column that has to be equal, `anchor` is the column of x that it has to be equal to,
    else -1: only that range of the tree is walked.
    """
    for i in range(len(xs)):
        x, total = xs[i], 0
        stack[0], depth = root[0], 1
        while depth > 0:
            depth -= 1
            node = stack[depth]
            first, last = 0, size[node] - 1
            if anchor >= 0:
                first, last = _range(node, codes[x, anchor], leaf, size, places)
            for j in range(first, last + 1):
                below = entry[node, j]
                is_out, is_in = False, True
                for t in range(len(allowed)):
                    code, c = codes[x, x_column[t]], row_column[t]
                    if leaf[node]:
                        possible = _possible(code, codes[below, c], codes[below, c])
                    else:
                        possible = _possible(code, zone[below, 0, c], zone[below, 1, c])
                    if possible & allowed[t] == 0:
                        is_out = True
                        break
                    if possible & ~allowed[t]:
                        is_in = False
                if is_out:
                    continue
                if leaf[node]:
                    total += copies[below]
                elif is_in:
                    total += weight[below]
                else:
                    stack[depth] = below
                    depth += 1
        out[i] = total


@njit(cache=True, nogil=True)
def first_in_box_kernel(
    x: int, codes: Codes, copies: Ints, start: int, end: int, x_column: Ints, row_column: Ints, allowed: Ints
) -> int:
    """Return the first live row from `start` on that is in the box of row x, `end` where there is none.

    The row itself counts as another one where it has two copies.
    """
    for row in range(start, end):
        if copies[row] < 1 or (row == x and copies[row] < 2):
            continue
        is_in = True
        for t in range(len(allowed)):
            code, other = codes[x, x_column[t]], codes[row, row_column[t]]
            if _possible(code, other, other) & allowed[t] == 0:
                is_in = False
                break
        if is_in:
            return row
    return end
