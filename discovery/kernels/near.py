"""Exceptions of constraints within the groups of a context: the least number of rows without which they hold.

Groups of one row have no exceptions, so they are left out. The exceptions of some of the rows are at most those of all,
and those of groups add up: a count ends as soon as it exceeds `enough`, and is then a lower bound; a count of at most
`enough` is exact.

Within a group

- of a key all rows but one are exceptions;
- of a constant all that are not of the largest class;
- of an order compatibility all that are in no longest subsequence of the rows by (a, b) in which b does not fall.
  Its length comes by patience sorting: `tails[l]` is the least b in which a subsequence of l + 1 rows can end. The
  opposite direction takes rows with one a from the greatest b down, and reads b with the other sign.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from holdfast.tables.arrays import DenseCodes, Ints, Rows

SAME, OPPOSITE = 1, 2
"""Bits of the two directions of an order compatibility."""

_INSERTION, _QUICK = 24, 256
_DIGIT = 11
_FEWEST, _GROWTH = 64, 4
_SELDOM, _LARGE = 64, 8


class ContextGroups(NamedTuple):
    """The groups of rows that agree on a context, two rows or more in each.

    Parameters
    ----------
    rows : (m,) the rows, group by group.
    starts : (g + 1,) where each group begins; last the number of rows.
    """

    rows: Rows
    starts: Ints

    @property
    def key_exceptions(self) -> int:
        """The exceptions of the key."""
        return len(self.rows) - (len(self.starts) - 1)

    @property
    def pairs(self) -> int:
        """The number of ordered pairs of two rows of one group."""
        sizes = np.diff(self.starts)
        return int((sizes * (sizes - 1)).sum())


class ColumnCodes(NamedTuple):
    """The columns of n rows.

    Parameters
    ----------
    codes : (d, n) codes of every row by column; equality and order are those of the values.
    bits : (d,) the number of bits that the codes of each column have.
    middles : (d,) for each column the code that best halves the rows, into those up to it and those above it.
    """

    codes: DenseCodes
    bits: Ints
    middles: Ints


class OrderScratch(NamedTuple):
    """Room for counting order compatibilities.

    Three arrays with a number for each row, and one with a number for each digit of the radix sort.
    """

    keys: Ints
    other: Ints
    tails: Ints
    digits: Ints


@njit(cache=True, nogil=True)
def refine_kernel(rows: Rows, starts: Ints, codes: DenseCodes, sizes: Ints, out: Rows, ends: Ints) -> tuple[int, int]:
    """Split every group by code; return (groups, rows) kept in `out`, whose groups begin at `ends[:groups]`.

    `sizes` is all zero, one place a code, and is so again afterwards.
    """
    groups, filled = 0, 0
    for g in range(len(starts) - 1):
        first, last = starts[g], starts[g + 1]
        if last - first == 2:
            if codes[rows[first]] == codes[rows[first + 1]]:
                ends[groups] = filled
                out[filled], out[filled + 1] = rows[first], rows[first + 1]
                groups, filled = groups + 1, filled + 2
            continue
        for i in range(first, last):
            sizes[codes[rows[i]]] += 1
        for i in range(first, last):
            code = codes[rows[i]]
            if sizes[code] > 1:
                ends[groups] = filled
                groups += 1
                size = sizes[code]
                sizes[code] = -filled - 1
                filled += size
            if sizes[code] < 0:
                out[-sizes[code] - 1] = rows[i]
                sizes[code] -= 1
        for i in range(first, last):
            sizes[codes[rows[i]]] = 0
    ends[groups] = filled
    return groups, filled


@njit(cache=True, nogil=True)
def constant_kernel(rows: Rows, starts: Ints, codes: DenseCodes, enough: int, classes: Ints, stamp: int) -> int:
    """Return the exceptions of a constant.

    `classes` (distinct, 2): for each code, the number of the group that had it last, and how often. These groups have
    the numbers from `stamp` on, which were not used before.
    """
    found = 0
    for g in range(len(starts) - 1):
        first, last = starts[g], starts[g + 1]
        if last - first == 2:
            found += codes[rows[first]] != codes[rows[first + 1]]
            if found > enough:
                return int(found)
            continue
        largest, group = 0, stamp + g
        for i in range(first, last):
            code = codes[rows[i]]
            if classes[code, 0] != group:
                classes[code, 0], classes[code, 1] = group, 0
            classes[code, 1] += 1
            if classes[code, 1] > largest:
                largest = classes[code, 1]
            elif found + i + 1 - first - largest > enough:
                return int(found + i + 1 - first - largest)
        found += last - first - largest
    return int(found)


@njit(cache=True, nogil=True)
def constants_kernel(
    rows: Rows, starts: Ints, codes: DenseCodes, targets: Ints, enough: int, classes: Ints, stamp: int, out: Ints
) -> None:
    """Write the exceptions of the constants of some columns; group numbers are used from `stamp` on."""
    for j in range(len(targets)):
        out[j] = constant_kernel(rows, starts, codes[targets[j]], enough, classes, stamp + j * (len(starts) - 1))


@njit(cache=True, nogil=True)
def _by_radix(keys: Ints, other: Ints, size: int, bits: int, counts: Ints) -> Ints:
    """Sort the first `size` keys by their lowest bits, with room in `other`; return the array that holds the result."""
    shift = 0
    while shift < bits:
        counts[:] = 0
        for i in range(size):
            counts[(keys[i] >> shift) & ((1 << _DIGIT) - 1)] += 1
        place = 0
        for digit in range(len(counts)):
            place, counts[digit] = place + counts[digit], place
        for i in range(size):
            digit = (keys[i] >> shift) & ((1 << _DIGIT) - 1)
            other[counts[digit]] = keys[i]
            counts[digit] += 1
        keys, other = other, keys
        shift += _DIGIT
    return keys


@njit(cache=True, nogil=True)
def _sorted_keys(
    rows: Rows, a: DenseCodes, b: DenseCodes, shift: int, bits: int, keys: Ints, other: Ints, counts: Ints
) -> Ints:
    """Return the keys (a, b) of the rows, sorted."""
    size = len(rows)
    if size <= _INSERTION:
        for i in range(size):
            key = (np.int64(a[rows[i]]) << shift) | b[rows[i]]
            j = i
            while j > 0 and keys[j - 1] > key:
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
        return keys
    for i in range(size):
        keys[i] = (np.int64(a[rows[i]]) << shift) | b[rows[i]]
    if size <= _QUICK:
        keys[:size].sort()
        return keys
    return _by_radix(keys, other, size, bits, counts)


@njit(cache=True, nogil=True)
def _extended(tails: Ints, length: int, value: int) -> int:
    """Extend the subsequences by a row; return the length of the longest subsequence."""
    if length == 0 or tails[length - 1] <= value:
        tails[length] = value
        return length + 1
    low, high = 0, length - 1
    while low < high:
        middle = (low + high) >> 1
        if tails[middle] <= value:
            low = middle + 1
        else:
            high = middle
    tails[low] = value
    return length


@njit(cache=True, nogil=True)
def _out_of_order(keys: Ints, size: int, shift: int, left: int, tails: Ints) -> int:
    """Return how many rows the longest subsequence leaves out; a lower bound if that is more than `left`."""
    mask, length = (1 << shift) - 1, 0
    for i in range(size):
        length = _extended(tails, length, keys[i] & mask)
        if i + 1 - length > left:
            return i + 1 - length
    return size - length


@njit(cache=True, nogil=True)
def _out_of_opposite_order(keys: Ints, size: int, shift: int, left: int, tails: Ints) -> int:
    """Return the same for the opposite direction."""
    mask, length, first = (1 << shift) - 1, 0, 0
    while first < size:
        last = first
        while last < size and keys[last] >> shift == keys[first] >> shift:
            last += 1
        for i in range(last - 1, first - 1, -1):
            length = _extended(tails, length, -(keys[i] & mask))
        if last - length > left:
            return last - length
        first = last
    return size - length


@njit(cache=True, nogil=True)
def _is_decided(found: int, enough: int, seen: int, rows: int) -> bool:
    """Whether a lower bound exceeds `enough`, or is so small after an eighth of the rows that it hardly will."""
    return found > enough or (8 * seen >= rows and 4 * found * rows < 3 * enough * seen)


@njit(cache=True, nogil=True)
def neighbours_kernel(
    rows: Rows, starts: Ints, a: DenseCodes, b: DenseCodes, wanted: int, enough: int
) -> tuple[int, int]:
    """Return the number of pairs of neighbouring rows that swap in each direction: lower bounds, as pairs are disjoint.

    A pair costs a few nanoseconds, less than sorting its rows. The count ends when it is decided (`_is_decided`) in all
    directions that are `wanted`; the numbers returned are lower bounds wherever it ends.
    """
    same, opposite, total = 0, 0, len(rows)
    for g in range(len(starts) - 1):
        first, last = starts[g], starts[g + 1]
        while first < last - 1:
            part = min(last - 1, first + _SELDOM)
            for i in range(first, part, 2):
                t, s = rows[i], rows[i + 1]
                a_rises, a_falls, b_rises, b_falls = a[t] < a[s], a[t] > a[s], b[t] < b[s], b[t] > b[s]
                same += (a_rises & b_falls) | (a_falls & b_rises)
                opposite += (a_rises & b_rises) | (a_falls & b_falls)
            first = part if part < last - 1 else last
            if (wanted & SAME == 0 or _is_decided(same, enough, first, total)) and (
                wanted & OPPOSITE == 0 or _is_decided(opposite, enough, first, total)
            ):
                return same, opposite
    return same, opposite


@njit(cache=True, nogil=True)
def across_kernel(
    rows: Rows, starts: Ints, a: DenseCodes, b: DenseCodes, middle_a: int, middle_b: int, wanted: int, enough: int
) -> tuple[int, int]:
    """Return the number of disjoint pairs of rows that swap across a middle of `a` and of `b`: lower bounds too.

    A row above the middle of `a` and not of `b` swaps with each row above the middle of `b` and not of `a`: a group has
    as many such pairs as rows of the rarer kind. This refuses columns with one frequent value, of which few
    neighbours differ. It ends as `neighbours_kernel` does.
    """
    same, opposite, total = 0, 0, len(rows)
    for g in range(len(starts) - 1):
        above, above_a, above_b, seen = 0, 0, 0, 0
        more_same, more_opposite = 0, 0
        first, last = starts[g], starts[g + 1]
        while first < last:
            part = min(last, first + _SELDOM)
            for i in range(first, part):
                is_above_a, is_above_b = a[rows[i]] > middle_a, b[rows[i]] > middle_b
                above_a += is_above_a
                above_b += is_above_b
                above += is_above_a & is_above_b
            seen, first = seen + part - first, part
            more_same = min(above_a, above_b) - above
            more_opposite = min(above, seen - above_a - above_b + above)
            if (wanted & SAME == 0 or _is_decided(same + more_same, enough, first, total)) and (
                wanted & OPPOSITE == 0 or _is_decided(opposite + more_opposite, enough, first, total)
            ):
                return same + more_same, opposite + more_opposite
        same, opposite = same + more_same, opposite + more_opposite
    return same, opposite


@njit(cache=True, nogil=True)
def _left(same: int, opposite: int, wanted: int, enough: int) -> int:
    """Return the wanted directions that are not refused yet."""
    if same > enough:
        wanted &= ~SAME
    if opposite > enough:
        wanted &= ~OPPOSITE
    return wanted


@njit(cache=True, nogil=True)
def order_kernel(
    groups: ContextGroups, columns: ColumnCodes, left: int, right: int, wanted: int, enough: int, scratch: OrderScratch
) -> tuple[int, int]:
    """Return the exceptions of `left ~ right` and of its opposite direction, those that are `wanted`.

    Only directions that disjoint pairs do not refuse are counted; of a large group some rows first, then more and more.
    """
    rows, starts = groups
    a, b, shift = columns.codes[left], columns.codes[right], columns.bits[right]
    bits = columns.bits[left] + shift
    keys, other, tails, counts = scratch
    same, opposite = neighbours_kernel(rows, starts, a, b, wanted, enough)
    wanted = _left(same, opposite, wanted, enough)
    if wanted and len(rows) >= _LARGE * (len(starts) - 1):
        more_same, more_opposite = across_kernel(
            rows, starts, a, b, columns.middles[left], columns.middles[right], wanted, enough
        )
        wanted = _left(more_same, more_opposite, wanted, enough)
        same, opposite = max(same, more_same), max(opposite, more_opposite)
    if wanted == 0:
        return same, opposite
    if wanted & SAME:
        same = 0
    if wanted & OPPOSITE:
        opposite = 0
    for g in range(len(starts) - 1):
        first, last = starts[g], starts[g + 1]
        spare = enough - (min(same, opposite) if wanted == SAME | OPPOSITE else same if wanted == SAME else opposite)
        size = min(last - first, spare + (spare >> 1) + _FEWEST)
        while True:
            ordered = _sorted_keys(rows[first : first + size], a, b, shift, bits, keys, other, counts)
            is_whole = size == last - first
            if wanted & SAME:
                found = _out_of_order(ordered, size, shift, enough - same, tails)
                if is_whole or same + found > enough:
                    same += found
                if same > enough:
                    wanted &= ~SAME
            if wanted & OPPOSITE:
                found = _out_of_opposite_order(ordered, size, shift, enough - opposite, tails)
                if is_whole or opposite + found > enough:
                    opposite += found
                if opposite > enough:
                    wanted &= ~OPPOSITE
            if is_whole or wanted == 0:
                break
            size = min(last - first, size * _GROWTH)
        if wanted == 0:
            break
    return same, opposite


@njit(cache=True, nogil=True)
def orders_kernel(
    groups: ContextGroups,
    columns: ColumnCodes,
    left: Ints,
    right: Ints,
    wanted: Ints,
    enough: int,
    scratch: OrderScratch,
    out: Ints,
) -> None:
    """Write the exceptions of order compatibilities in both directions."""
    for j in range(len(left)):
        out[j, 0], out[j, 1] = order_kernel(groups, columns, left[j], right[j], wanted[j], enough, scratch)
