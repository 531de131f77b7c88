"""Evidences of many pairs of rows, column by column, into one set: all pairs of a table, or of groups of its rows.

Rows are compared through dense codes, one int32 a column pair and row, whose order and equality are those of the
values, null lowest. A tile of one row against some hundred others is built column by column, so that the compiler
uses vector instructions; its words then go through a small direct-mapped filter of evidences seen lately, and only
what that does not know reaches the hash table.

    left, right   (P, n) int32   codes of `t` and of `s` for each column pair
    numbers       (n,)   int64   what each row is called in witnesses; rows of one group stand together
    begins, ends  (n,)   int64   where the group of each row begins and ends
    ordered       (P,)   bool
    word, shift   (P,)   int64   where the pair's lowest bit is
    table         (T, W) uint64  open addressing, T a power of two; free slots are zero (no evidence is)
    witness       (T, 2) int64   a pair of rows for each
    recent        (R, W) uint64  the filter, R a power of two

Overflow: none; hashes wrap by design.
"""

from typing import Any, TypeAlias

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Word: TypeAlias = Any
"""One 64-bit word: `uint64` when compiled."""

Codes = NDArray[np.int32]
Places = NDArray[np.int64]

TILE = 512
_ZERO = np.uint64(0)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def _hash(key: Words) -> Word:
    mixed: Word = _ZERO
    for w in range(len(key)):
        mixed = (mixed ^ key[w]) * _MULTIPLIER
        mixed ^= mixed >> uint64(29)
    return mixed


@njit(cache=True, nogil=True)
def _insert(key: Words, t: int, s: int, hashed: Word, table: Words, witness: Places) -> int:
    """Put an evidence into the table; return 1 where it is new."""
    slots = uint64(len(table) - 1)
    slot = hashed & slots
    while True:
        empty, same = True, True
        for w in range(len(key)):
            empty &= table[slot, w] == _ZERO
            same &= table[slot, w] == key[w]
        if same:
            return 0
        if empty:
            for w in range(len(key)):
                table[slot, w] = key[w]
            witness[slot, 0], witness[slot, 1] = t, s
            return 1
        slot = (slot + uint64(1)) & slots


@njit(cache=True, nogil=True)
def insert_all_kernel(keys: Words, pairs: Places, table: Words, witness: Places) -> int:
    """Put evidences with their witnesses into a table; return how many are new."""
    new = 0
    for i in range(len(keys)):
        new += _insert(keys[i], pairs[i, 0], pairs[i, 1], _hash(keys[i]), table, witness)
    return new


@njit(cache=True, nogil=True)
def _compare(code: int, others: Codes, ordered: bool, shift: int, out: Words) -> None:
    """Add one column pair's outcomes of one row against a tile of others."""
    less, equal, greater = uint64(1) << uint64(shift), uint64(2) << uint64(shift), uint64(4) << uint64(shift)
    if ordered:
        for i in range(len(others)):
            other = others[i]
            out[i] |= less if code < other else (equal if code == other else greater)
    else:
        for i in range(len(others)):
            out[i] |= less if code == others[i] else equal


@njit(cache=True, nogil=True)
def pairs_kernel(
    left: Codes,
    right: Codes,
    ordered: NDArray[np.bool_],
    word: Places,
    shift: Places,
    numbers: Places,
    begins: Places,
    ends: Places,
    first: int,
    last: int,
    both_ways: bool,
    repeated: NDArray[np.bool_],
    table: Words,
    witness: Places,
    held: int,
    recent: Words,
    buffer: Words,
    key: Words,
) -> tuple[int, int]:
    """Add the evidences of rows `first` to `last` against their groups (or, one way only, those behind them there).

    A row meets itself only where it is `repeated`. Returns (the row to go on with, evidences held), and stops
    where one more row might fill the table to more than half.
    """
    pairs = len(left)
    width = table.shape[1]
    filter_mask = uint64(len(recent) - 1)
    for t in range(first, last):
        start, end = begins[t] if both_ways else t, ends[t]
        if (held + end - start) * 2 >= len(table):
            return t, held
        for low in range(start, end, TILE):
            high = min(low + TILE, end)
            for w in range(width):
                for i in range(high - low):
                    buffer[w, i] = _ZERO
            for p in range(pairs):
                _compare(left[p, t], right[p, low:high], ordered[p], shift[p], buffer[word[p], : high - low])
            for i in range(high - low):
                if low + i == t and not repeated[t]:
                    continue
                for w in range(width):
                    key[w] = buffer[w, i]
                hashed = _hash(key)
                place = (hashed >> uint64(20)) & filter_mask
                known = True
                for w in range(width):
                    known &= recent[place, w] == key[w]
                if known:
                    continue
                for w in range(width):
                    recent[place, w] = key[w]
                held += _insert(key, numbers[t], numbers[low + i], hashed, table, witness)
    return last, held


@njit(cache=True, nogil=True)
def listed_kernel(
    left: Codes,
    right: Codes,
    ordered: NDArray[np.bool_],
    word: Places,
    shift: Places,
    listed: Places,
    first: int,
    table: Words,
    witness: Places,
    held: int,
    keys: Words,
) -> tuple[int, int]:
    """Add the evidences of listed pairs (t, s), from `first` on; return as `pairs_kernel` does.

    As many pairs as `keys` has rows are compared at once, one column pair after the other.
    """
    for start in range(first, len(listed), len(keys)):
        size = min(len(keys), len(listed) - start)
        if (held + size) * 2 >= len(table):
            return start, held
        keys[:size] = _ZERO
        for p in range(len(left)):
            in_word, at = word[p], uint64(shift[p])
            for i in range(size):
                a, b = left[p, listed[start + i, 0]], right[p, listed[start + i, 1]]
                if ordered[p]:
                    outcome = uint64(1) if a < b else (uint64(2) if a == b else uint64(4))
                else:
                    outcome = uint64(1) if a == b else uint64(2)
                keys[i, in_word] |= outcome << at
        for i in range(size):
            held += _insert(keys[i], listed[start + i, 0], listed[start + i, 1], _hash(keys[i]), table, witness)
    return len(listed), held
