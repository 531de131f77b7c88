"""Evidences of many pairs of rows, column by column, into one table: of all pairs of a table, or of groups of its rows.

Rows are compared through dense codes, one int32 for each column pair and row, whose order and equality are those of the
values, null lowest. A tile of one row against some hundred others is built column by column, so that the compiler
uses vector instructions; its words then go through a small direct-mapped filter of evidences seen lately, and only
evidences that the filter does not have reach the hash table.

Overflow: none; hashes wrap by design.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, uint64

from holdfast.indexes.kernels.evidences import EvidenceArrays, Layout, Word, hash_kernel, place_kernel, take_kernel
from holdfast.tables.arrays import DenseCodes, Ints, Pairs, Words

TILE = 512
_ZERO = np.uint64(0)


class PairCodes(NamedTuple):
    """Codes of n distinct rows for P column pairs.

    Parameters
    ----------
    left, right : (P, n) codes of the rows as t and as s; for a column with itself both are the same codes.
    first, second : (n,) for each distinct row a row of the table that has these values, and another such row or -1.
    """

    left: DenseCodes
    right: DenseCodes
    first: Ints
    second: Ints

    @property
    def rows(self) -> int:
        """The number of distinct rows."""
        return len(self.first)

    def taken(self, rows: Ints) -> "PairCodes":
        """Return the codes of some of the distinct rows, in the order given."""
        return PairCodes(self.left.take(rows, 1), self.right.take(rows, 1), self.first[rows], self.second[rows])

    def table_rows(self, pairs: Pairs) -> Pairs:
        """Turn pairs of distinct rows into pairs of the table's; a row with itself into two equal rows."""
        found = self.first[pairs]
        same = pairs[:, 0] == pairs[:, 1]
        found[same, 1] = self.second[pairs[same, 0]]
        return np.asarray(found)


class RowGroups(NamedTuple):
    """Groups of rows; the pairs within a group are compared.

    Parameters
    ----------
    numbers : (m,) distinct rows, those of one group side by side.
    begins, ends : (m,) where the group of each row begins and ends.
    """

    numbers: Ints
    begins: Ints
    ends: Ints

    @classmethod
    def of(cls, numbers: Ints, starts: Ints) -> "RowGroups":
        """Return groups that begin at `starts`, whose last element is the number of rows."""
        sizes = np.diff(starts)
        return cls(numbers, np.repeat(starts[:-1], sizes), np.repeat(starts[1:], sizes))


@njit(cache=True, nogil=True)
def _compare(code: int, others: DenseCodes, ordered: bool, shift: int, out: Words) -> None:
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
def groups_kernel(
    codes: PairCodes,
    layout: Layout,
    groups: RowGroups,
    first: int,
    last: int,
    both_ways: bool,
    table: EvidenceArrays,
    recent: Words,
    buffer: Words,
) -> int:
    """Insert the evidences of the rows `first` to `last` against their groups; return the first row that is not done.

    One way only, a row is compared with the rows behind it in its group. A row meets itself only where two rows of the
    table are equal to it. Stops where one more row might fill the table to more than half.

    Parameters
    ----------
    codes : of the rows in the order of the groups.
    recent : (R, W) the filter, R a power of two.
    buffer : (W, TILE) room for the evidences of a tile.
    """
    left, right, _, second = codes
    _, _, ordered, word, shift = layout
    words, witnesses, _, _ = table
    held = table.held[0]
    numbers, begins, ends = groups
    width = words.shape[1]
    filter_mask = uint64(len(recent) - 1)
    key = np.empty(width, np.uint64)
    for t in range(first, last):
        start, end = begins[t] if both_ways else t, ends[t]
        if (held + end - start) * 2 >= len(words):
            table.held[0] = held
            return t
        for low in range(start, end, TILE):
            high = min(low + TILE, end)
            for w in range(width):
                for i in range(high - low):
                    buffer[w, i] = _ZERO
            for p in range(len(left)):
                _compare(left[p, t], right[p, low:high], ordered[p], shift[p], buffer[word[p], : high - low])
            for i in range(high - low):
                if low + i == t and second[t] < 0:
                    continue
                for w in range(width):
                    key[w] = buffer[w, i]
                hashed: Word = hash_kernel(key)
                place = (hashed >> uint64(20)) & filter_mask
                known = True
                for w in range(width):
                    known &= recent[place, w] == key[w]
                if known:
                    continue
                for w in range(width):
                    recent[place, w] = key[w]
                place = place_kernel(key, hashed, words)
                if words[place, 0] == _ZERO:
                    held += take_kernel(place, key, numbers[t], numbers[low + i], words, witnesses)
    table.held[0] = held
    return last


@njit(cache=True, nogil=True)
def _compare_listed(left: DenseCodes, right: DenseCodes, listed: Pairs, ordered: bool, shift: int, out: Words) -> None:
    """Add one column pair's outcomes of listed pairs; without branches, as no outcome foretells the next."""
    at = uint64(shift)
    if ordered:
        for i in range(len(listed)):
            a, b = left[listed[i, 0]], right[listed[i, 1]]
            out[i] |= (uint64(a < b) | uint64(a == b) << uint64(1) | uint64(a > b) << uint64(2)) << at
    else:
        for i in range(len(listed)):
            a, b = left[listed[i, 0]], right[listed[i, 1]]
            out[i] |= (uint64(a == b) | uint64(a != b) << uint64(1)) << at


@njit(cache=True, nogil=True)
def listed_kernel(
    codes: PairCodes, layout: Layout, listed: Pairs, first: int, table: EvidenceArrays, keys: Words
) -> int:
    """Insert the evidences of listed pairs (t, s) from number `first` on; return the number of the first not inserted.

    As many pairs as `keys` has rows are compared at once, one column pair after the other; the column pairs of a word
    are put together in `bits`, as the words of one pair are far from those of the next. Stops where the pairs might
    fill the table to more than half.
    """
    left, right, _, _ = codes
    _, _, ordered, word, shift = layout
    words, witnesses, _, _ = table
    held = table.held[0]
    bits = np.empty(len(keys), np.uint64)
    for start in range(first, len(listed), len(keys)):
        size = min(len(keys), len(listed) - start)
        if (held + size) * 2 >= len(words):
            table.held[0] = held
            return start
        keys[:size] = _ZERO
        pairs = listed[start : start + size]
        p = 0
        while p < len(left):
            at = word[p]
            bits[:size] = _ZERO
            while p < len(left) and word[p] == at:
                _compare_listed(left[p], right[p], pairs, ordered[p], shift[p], bits)
                p += 1
            for i in range(size):
                keys[i, at] = bits[i]
        for i in range(size):
            key = keys[i]
            place = place_kernel(key, hash_kernel(key), words)
            if words[place, 0] == _ZERO:
                held += take_kernel(place, key, pairs[i, 0], pairs[i, 1], words, witnesses)
    table.held[0] = held
    return len(listed)
