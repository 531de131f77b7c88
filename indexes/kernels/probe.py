"""Which rows violate boxes together with a new one: a walk down a tree of zones, all boxes of the tree at once.

A box is a set of allowed outcomes per *test*: column `x_column[t]` of the new row x against column `row_column[t]` of
the other, outcomes 1 for less, 2 for equal, 4 for greater. Boxes are bits:

    allow (T, 8, B) uint64   for a test and a set of possible outcomes, the boxes that allow one of them

So a node can hold a violation only if the AND over all tests of `allow[t, possible outcomes]` has a bit left, and a row
violates a box exactly where its own outcomes leave one.

    table   (S, W)       uint64   evidences found, open addressing, S a power of two; free slots are zero
    found   (S, K, 2)    int32    up to K pairs (t, s) that have each
    filled  (S,)         int64    how many
"""

from typing import Any, TypeAlias

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from holdfast.indexes.kernels.zones import DEPTH, FANOUT, Entries

Codes = NDArray[np.int64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Pairs = NDArray[np.int32]
Flags = NDArray[np.bool_]
Word: TypeAlias = Any

STACK = DEPTH * FANOUT
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def note_kernel(key: Words, t: int, s: int, table: Words, found: Pairs, filled: Ints) -> int:
    """Note that the pair (t, s) has an evidence; return 1 where that is new.

    Of an evidence that is known, only pairs of rows that none of its pairs has are noted.
    """
    mixed: Word = _ZERO
    for w in range(len(key)):
        mixed = (mixed ^ key[w]) * _MULTIPLIER
        mixed ^= mixed >> uint64(29)
    place = np.int64(mixed & uint64(len(table) - 1))
    while filled[place] > 0:
        same = True
        for w in range(len(key)):
            same &= table[place, w] == key[w]
        if same:
            if filled[place] < found.shape[1]:
                for k in range(filled[place]):
                    if (
                        found[place, k, 0] == t
                        or found[place, k, 1] == s
                        or found[place, k, 0] == s
                        or found[place, k, 1] == t
                    ):
                        return 0
                found[place, filled[place], 0], found[place, filled[place], 1] = t, s
                filled[place] += 1
            return 0
        place = (place + 1) & (len(table) - 1)
    for w in range(len(key)):
        table[place, w] = key[w]
    found[place, 0, 0], found[place, 0, 1] = t, s
    filled[place] = 1
    return 1


@njit(cache=True, nogil=True)
def evidence_kernel(
    t: int, s: int, codes: Codes, left: Ints, right: Ints, ordered: Flags, word: Ints, shift: Ints, key: Words
) -> None:
    """Compute the evidence of rows (t, s)."""
    key[:] = _ZERO
    for p in range(len(left)):
        a, b = codes[t, left[p]], codes[s, right[p]]
        if ordered[p]:
            outcome = uint64(1) if a < b else (uint64(2) if a == b else uint64(4))
        else:
            outcome = uint64(1) if a == b else uint64(2)
        key[word[p]] |= outcome << uint64(shift[p])


@njit(cache=True, nogil=True)
def pairs_kernel(
    pairs: Pairs,
    start: int,
    codes: Codes,
    left: Ints,
    right: Ints,
    ordered: Flags,
    word: Ints,
    shift: Ints,
    table: Words,
    found: Pairs,
    filled: Ints,
    held: int,
    key: Words,
) -> tuple[int, int]:
    """Note the evidences of listed pairs, from number `start` on; return (the number to go on with, evidences held)."""
    for i in range(start, len(pairs)):
        if held * 2 >= len(table):
            return i, held
        evidence_kernel(pairs[i, 0], pairs[i, 1], codes, left, right, ordered, word, shift, key)
        held += note_kernel(key, pairs[i, 0], pairs[i, 1], table, found, filled)
    return len(pairs), held


@njit(cache=True, nogil=True)
def _possible(code: int, least: int, greatest: int) -> int:
    """Return the outcomes that a code may have against those from `least` to `greatest`."""
    return (code < greatest) | ((code >= least) & (code <= greatest)) << 1 | (code > least) << 2


@njit(cache=True, nogil=True)
def _range(node: int, place: int, leaf: Ints, size: Ints, places: Codes) -> tuple[int, int]:
    """Return the first and the last entry below which there may be rows of a place."""
    low, high = 0, size[node]
    while low < high:
        middle = (low + high) // 2
        if places[node, middle] < place:
            low = middle + 1
        else:
            high = middle
    first = low
    high = size[node]
    while low < high:
        middle = (low + high) // 2
        if places[node, middle] <= place:
            low = middle + 1
        else:
            high = middle
    if not leaf[node] and first > 0:
        first -= 1  # its rows may reach up to the place
    return first, low - 1


@njit(cache=True, nogil=True)
def probe_kernel(
    xs: Ints,
    start: int,
    codes: Codes,
    copies: Ints,
    x_column: Ints,
    row_column: Ints,
    every: Words,
    allow: Words,
    anchors: Ints,
    leaf: Ints,
    size: Ints,
    entry: Entries,
    places: Codes,
    zone: Codes,
    root: Ints,
    left: Ints,
    right: Ints,
    ordered: Flags,
    word: Ints,
    shift: Ints,
    both_ways: bool,
    table: Words,
    found: Pairs,
    filled: Ints,
    held: int,
    key: Words,
    stack: Ints,
    effort: Ints,
) -> tuple[int, int]:
    """Note the evidences of pairs with rows `xs[start:]` that violate a box, of both orders where `both_ways`.

    Zones have one column for each of the rows' columns. Returns (the number to go on with, evidences held); stops where
    the table might get more than half full. `effort` counts nodes and rows looked at.

    Where places are the codes of a column that every box wants to be equal, `anchors` are the columns of the new row
    that it may be equal to; only that range of the tree is walked then.
    """
    boxes = np.empty_like(every)
    width, tests = len(every), len(row_column)
    for i in range(start, len(xs)):
        x = xs[i]
        if size[root[0]] == 0:
            continue
        for walk in range(max(len(anchors), 1)):
            stack[0], depth = root[0], 1
            while depth > 0:
                depth -= 1
                node = stack[depth]
                first, last = 0, size[node] - 1
                if len(anchors):
                    first, last = _range(node, codes[x, anchors[walk]], leaf, size, places)
                for j in range(first, last + 1):
                    below = entry[node, j]
                    effort[leaf[node]] += 1
                    left_over: Word = _ONE
                    for b in range(width):
                        boxes[b] = every[b]
                    for t in range(tests):
                        c = row_column[t]
                        code = codes[x, x_column[t]]
                        if leaf[node]:
                            other = codes[below, c]
                            possible = _possible(code, other, other)
                        else:
                            possible = _possible(code, zone[below, 0, c], zone[below, 1, c])
                        if possible == 7:
                            continue
                        left_over = _ZERO
                        for b in range(width):
                            boxes[b] &= allow[t, possible, b]
                            left_over |= boxes[b]
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
                    if held * 2 + 4 >= len(table):
                        return i, held
                    evidence_kernel(x, below, codes, left, right, ordered, word, shift, key)
                    held += note_kernel(key, x, below, table, found, filled)
                    if both_ways:
                        evidence_kernel(below, x, codes, left, right, ordered, word, shift, key)
                        held += note_kernel(key, below, x, table, found, filled)
    return len(xs), held


@njit(cache=True, nogil=True)
def rehash_kernel(words: Words, pairs: Pairs, counts: Ints, table: Words, found: Pairs, filled: Ints) -> None:
    """Put noted evidences, all different, into a larger table that is empty."""
    for i in range(len(words)):
        note_kernel(words[i], pairs[i, 0, 0], pairs[i, 0, 1], table, found, filled)
        for k in range(1, counts[i]):
            note_kernel(words[i], pairs[i, k, 0], pairs[i, k, 1], table, found, filled)
