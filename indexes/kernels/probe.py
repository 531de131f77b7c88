"""Which rows violate boxes together with a new one: a walk down a tree of zones, all boxes of the tree at once.

A box is a set of allowed outcomes per *test*: column `x_column[t]` of the new row x against column `row_column[t]` of
the other row, outcomes 1 for less, 2 for equal, 4 for greater. Boxes are bits of words, so a node can have a violation
below only if the AND over all tests of `allow[t, possible outcomes]` has a bit left, and a row violates a box exactly
where its own outcomes leave a bit.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from holdfast.indexes.kernels.evidences import (
    EvidenceArrays,
    Layout,
    Word,
    evidence_kernel,
    insert_kernel,
)
from holdfast.indexes.kernels.zones import DEPTH, FANOUT, Tree
from holdfast.tables.arrays import Codes, Ints, Words

STACK = DEPTH * FANOUT
_ZERO, _ONE = np.uint64(0), np.uint64(1)


class Boxes(NamedTuple):
    """Boxes that one tree serves, as B words of bits, with the T tests that they make.

    Parameters
    ----------
    x_column, row_column : (T,) the column of the new row and the column of the other row.
    every : (B,) the bits of all boxes.
    allow : (T, 8, B) for each test and set of possible outcomes, the boxes that allow an outcome of the set.
    anchors : columns of the new row. Where the tree sorts rows by the codes of a column that every box requires to be
        equal to one of these, only the range of the tree with that code is walked; empty elsewhere.
    """

    x_column: Ints
    row_column: Ints
    every: Words
    allow: Words
    anchors: Ints


@njit(cache=True, nogil=True)
def possible_outcomes(code: int, least: int, greatest: int) -> int:
    """Return the outcomes that a code may have against codes from `least` to `greatest`."""
    return (code < greatest) | ((code >= least) & (code <= greatest)) << 1 | (code > least) << 2


@njit(cache=True, nogil=True)
def range_of(node: int, key: int, tree: Tree) -> tuple[int, int]:
    """Return the first and the last entry of a node below which there may be rows with a sort key."""
    low, high = 0, tree.size[node]
    while low < high:
        middle = (low + high) // 2
        if tree.key[node, middle] < key:
            low = middle + 1
        else:
            high = middle
    first = low
    high = tree.size[node]
    while low < high:
        middle = (low + high) // 2
        if tree.key[node, middle] <= key:
            low = middle + 1
        else:
            high = middle
    if not tree.leaf[node] and first > 0:
        first -= 1  # its last rows may have the key
    return first, low - 1


@njit(cache=True, nogil=True)
def probe_kernel(
    xs: Ints,
    start: int,
    codes: Codes,
    copies: Ints,
    boxes: Boxes,
    tree: Tree,
    layout: Layout,
    both_ways: bool,
    table: EvidenceArrays,
    effort: Ints,
) -> int:
    """Insert the evidences of pairs with rows `xs[start:]` that violate a box, of both orders where `both_ways`.

    Returns the position of the first row that is not done; stops where the table might get more than half full.
    `effort` counts the nodes and the rows that were compared.
    """
    stack = np.empty(STACK, np.int64)
    key = np.empty(table.words.shape[1], np.uint64)
    left_boxes = np.empty_like(boxes.every)
    width, tests = len(boxes.every), len(boxes.row_column)
    leaf, zone, entry = tree.leaf, tree.zone, tree.entry
    for i in range(start, len(xs)):
        x = xs[i]
        if tree.size[tree.root[0]] == 0:
            continue
        for walk in range(max(len(boxes.anchors), 1)):
            stack[0], depth = tree.root[0], 1
            while depth > 0:
                depth -= 1
                node = stack[depth]
                first, last = 0, tree.size[node] - 1
                if len(boxes.anchors):
                    first, last = range_of(node, codes[x, boxes.anchors[walk]], tree)
                for j in range(first, last + 1):
                    below = entry[node, j]
                    effort[leaf[node]] += 1
                    left_over: Word = _ONE
                    for b in range(width):
                        left_boxes[b] = boxes.every[b]
                    for t in range(tests):
                        c = boxes.row_column[t]
                        code = codes[x, boxes.x_column[t]]
                        if leaf[node]:
                            other = codes[below, c]
                            possible = possible_outcomes(code, other, other)
                        else:
                            possible = possible_outcomes(code, zone[below, 0, c], zone[below, 1, c])
                        if possible == 7:
                            continue
                        left_over = _ZERO
                        for b in range(width):
                            left_boxes[b] &= boxes.allow[t, possible, b]
                            left_over |= left_boxes[b]
                        if left_over == _ZERO:
                            break
                    if left_over == _ZERO:
                        continue
                    if not leaf[node]:
                        stack[depth] = below
                        depth += 1
                        continue
                    if below == x and copies[x] < 2:
                        continue
                    if table.held[0] * 2 + 4 >= len(table.words):
                        return i
                    evidence_kernel(x, below, codes, layout, key)
                    insert_kernel(key, x, below, table)
                    if both_ways:
                        evidence_kernel(below, x, codes, layout, key)
                        insert_kernel(key, below, x, table)
    return len(xs)
