"""Exceptions of constraints within the groups of a context: the least number of rows without which they hold.

    rows (m,) int32, starts (g + 1,) int64   groups of rows that agree on the context, two rows or more in each
    codes (d, n) int32                       codes of every row by column: equal values, equal codes; ordered alike

Groups of one row have no exceptions, so they are left out. The exceptions of some of the rows are at most those of all,
and those of groups add up: a count ends as soon as what it has seen exceeds `enough`, and is then a lower bound; what
is at most `enough` is exact.

Within a group

- of a key all rows but one are exceptions;
- of a constant all that are not of the largest class;
- of an order compatibility all that are in no longest subsequence of the rows by (a, b) in which b does not fall.
  Its length comes by patience sorting: `tails[l]` is the least b in which a subsequence of l + 1 rows can end. The
  opposite direction takes rows with one a from the greatest b down, and reads b with the other sign.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Rows = NDArray[np.int32]
Codes = NDArray[np.int32]
Ints = NDArray[np.int64]
Marks = NDArray[np.int8]

SAME, OPPOSITE = 1, 2
"""Bits of the two directions of an order compatibility."""

_INSERTION, _QUICK = 24, 256
_DIGIT = 11
_FEWEST, _GROWTH = 64, 4
_SELDOM, _LARGE = 64, 8


@njit(cache=True, nogil=True)
def refine_kernel(rows: Rows, starts: Ints, codes: Codes, sizes: Ints, out: Rows, ends: Ints) -> tuple[int, int]:
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
def constant_kernel(rows: Rows, starts: Ints, codes: Codes, enough: int, classes: Ints, stamp: int) -> int:
    """Return the exceptions of a constant.

    `classes` (distinct, 2): of each code, which group had it last and how often; the groups here are called `stamp` and
    what follows, numbers that were not used before.
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
    rows: Rows, starts: Ints, codes: Codes, targets: Ints, enough: int, classes: Ints, stamp: int, out: Ints
) -> None:
    """Write the exceptions of the constants of some columns; group numbers are used from `stamp` on."""
    for j in range(len(targets)):
        out[j] = constant_kernel(rows, starts, codes[targets[j]], enough, classes, stamp + j * (len(starts) - 1))


@njit(cache=True, nogil=True)
def _by_radix(keys: Ints, other: Ints, size: int, bits: int, counts: Ints) -> Ints:
    """Sort the first keys by their lowest bits, with room in `other`; return the array that has them then."""
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
def _sorted_keys(rows: Rows, a: Codes, b: Codes, shift: int, bits: int, keys: Ints, other: Ints, counts: Ints) -> Ints:
    """Return the keys (a, b) of some rows in order."""
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
    """Take a row into the subsequences; return the length of the longest one."""
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
    """Return how many rows the longest subsequence leaves out; a lower bound where it is more than `left`."""
    mask, length = (1 << shift) - 1, 0
    for i in range(size):
        length = _extended(tails, length, keys[i] & mask)
        if i + 1 - length > left:
            return i + 1 - length
    return size - length


@njit(cache=True, nogil=True)
def _out_of_opposite_order(keys: Ints, size: int, shift: int, left: int, tails: Ints) -> int:
    """Return the same of the opposite direction."""
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
    """Whether a lower bound is enough, or after an eighth of the rows so small that the rest will hardly help."""
    return found > enough or (8 * seen >= rows and 4 * found * rows < 3 * enough * seen)


@njit(cache=True, nogil=True)
def neighbours_kernel(rows: Rows, starts: Ints, a: Codes, b: Codes, wanted: int, enough: int) -> tuple[int, int]:
    """Return how many pairs of neighbouring rows swap in each direction: lower bounds, as no row is in two pairs.

    A pair costs a few nanoseconds, less than sorting its rows. The count ends when it is decided (`_is_decided`) in all
    directions that are `wanted`; what it returns is a lower bound wherever it ends.
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
    rows: Rows, starts: Ints, a: Codes, b: Codes, middle_a: int, middle_b: int, wanted: int, enough: int
) -> tuple[int, int]:
    """Return how many disjoint pairs of rows swap across a middle of `a` and of `b`: lower bounds too.

    A row above the middle of `a` and not of `b` swaps with each one that is above that of `b` and not of `a`: a group
    has as many such pairs as rows of the fewer kind. This refuses columns with one frequent value, of which few
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
    """Return the directions that are wanted and not refused."""
    if same > enough:
        wanted &= ~SAME
    if opposite > enough:
        wanted &= ~OPPOSITE
    return wanted


@njit(cache=True, nogil=True)
def order_kernel(
    rows: Rows,
    starts: Ints,
    a: Codes,
    b: Codes,
    shift: int,
    bits: int,
    middle_a: int,
    middle_b: int,
    wanted: int,
    enough: int,
    keys: Ints,
    other: Ints,
    tails: Ints,
    counts: Ints,
) -> tuple[int, int]:
    """Return the exceptions of `a ~ b` and of its opposite direction, those that are `wanted`.

    `shift` is how many bits codes of `b` have, `bits` how many those of both together. What no disjoint pairs refuse is
    counted; of a large group some rows first, then more and more.
    """
    same, opposite = neighbours_kernel(rows, starts, a, b, wanted, enough)
    wanted = _left(same, opposite, wanted, enough)
    if wanted and len(rows) >= _LARGE * (len(starts) - 1):
        more_same, more_opposite = across_kernel(rows, starts, a, b, middle_a, middle_b, wanted, enough)
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
        left = enough - (min(same, opposite) if wanted == SAME | OPPOSITE else same if wanted == SAME else opposite)
        size = min(last - first, left + (left >> 1) + _FEWEST)
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
    rows: Rows,
    starts: Ints,
    codes: Codes,
    bits: Ints,
    middles: Ints,
    left: Ints,
    right: Ints,
    wanted: Ints,
    enough: int,
    keys: Ints,
    other: Ints,
    tails: Ints,
    counts: Ints,
    out: Ints,
) -> None:
    """Write the exceptions of order compatibilities in both directions; codes have so many `bits`, and a middle."""
    for j in range(len(left)):
        a, b = left[j], right[j]
        out[j, 0], out[j, 1] = order_kernel(
            rows,
            starts,
            codes[a],
            codes[b],
            bits[b],
            bits[a] + bits[b],
            middles[a],
            middles[b],
            wanted[j],
            enough,
            keys,
            other,
            tails,
            counts,
        )


@njit(cache=True, nogil=True)
def removed_classes_kernel(rows: Rows, starts: Ints, codes: Codes, classes: Ints, state: Marks) -> tuple[int, int]:
    """Mark the rows outside the largest class of their group (1), those of several largest ones too (2).

    `classes` is as for `constant_kernel`, and new. Returns the exceptions, and the ordered pairs that differ.
    """
    found, pairs = 0, 0
    for g in range(len(starts) - 1):
        first, last = starts[g], starts[g + 1]
        largest = 0
        for i in range(first, last):
            code = codes[rows[i]]
            if classes[code, 0] != g:
                classes[code, 0], classes[code, 1] = g, 0
            classes[code, 1] += 1
            largest = max(largest, classes[code, 1])
        in_largest = 0
        for i in range(first, last):
            in_largest += classes[codes[rows[i]], 1] == largest
        for i in range(first, last):
            pairs += last - first - classes[codes[rows[i]], 1]
            if classes[codes[rows[i]], 1] < largest:
                state[rows[i]] = 1
            elif in_largest > largest:
                state[rows[i]] = 2
        found += last - first - largest
    return found, pairs


@njit(cache=True, nogil=True)
def _most_up_to(tree: Ints, place: int) -> int:
    """Return the greatest value at places up to one, in a tree of running maxima."""
    most, at = 0, place + 1
    while at > 0:
        most = max(most, tree[at])
        at -= at & -at
    return most


@njit(cache=True, nogil=True)
def _raise_at(tree: Ints, place: int, value: int) -> None:
    """Put a value at a place, unless a greater one is there."""
    at = place + 1
    while at < len(tree):
        tree[at] = max(tree[at], value)
        at += at & -at


@njit(cache=True, nogil=True)
def removed_points_kernel(
    rows: Rows, starts: Ints, a: Ints, b: Ints, trees: Ints, points: Ints, covered: Ints, state: Marks
) -> int:
    """Mark the rows that are in no longest subsequence (1), and in some but not all (2); return the exceptions.

    Parameters
    ----------
    rows : the rows of each group by (a, b), which stand beside them in the same order.
    trees : (longest group + 2, 2), room for two trees of running maxima.
    points : (longest group + 1, 5), room for each point's first row, rank of b and weight, and for the weights of the
        heaviest subsequences that end in it and that begin in it.
    covered : (longest group + 1), room for how many points cover each part of the heaviest subsequences.

    Rows with one (a, b) are a point. A heaviest subsequence through a point covers the weights from `ends - weight` to
    `ends` with it; so it is in all of them exactly if no other such point covers part of that.
    """
    found = 0
    for g in range(len(starts) - 1):
        first, last = starts[g], starts[g + 1]
        values = np.unique(b[first:last])
        count = 0
        for i in range(first, last):
            if i == first or a[i] != a[i - 1] or b[i] != b[i - 1]:
                points[count, 0] = i
                points[count, 1] = np.searchsorted(values, b[i])
                points[count, 2] = 0
                count += 1
            points[count - 1, 2] += 1
        points[count, 0] = last
        ahead, behind = trees[: len(values) + 1, 0], trees[: len(values) + 1, 1]
        ahead[:], behind[:] = 0, 0
        heaviest = 0
        for p in range(count):
            points[p, 3] = _most_up_to(ahead, points[p, 1]) + points[p, 2]
            _raise_at(ahead, points[p, 1], points[p, 3])
            heaviest = max(heaviest, points[p, 3])
        for p in range(count - 1, -1, -1):
            place = len(values) - 1 - points[p, 1]
            points[p, 4] = _most_up_to(behind, place) + points[p, 2]
            _raise_at(behind, place, points[p, 4])
        covered[: heaviest + 1] = 0
        for p in range(count):
            if points[p, 3] + points[p, 4] - points[p, 2] == heaviest:
                covered[points[p, 3] - points[p, 2]] += 1
                covered[points[p, 3]] -= 1
        for at in range(1, heaviest + 1):
            covered[at] += covered[at - 1]
        for p in range(count):
            mark = 0
            if points[p, 3] + points[p, 4] - points[p, 2] != heaviest:
                mark = 1
            else:
                for at in range(points[p, 3] - points[p, 2], points[p, 3]):
                    if covered[at] > 1:
                        mark = 2
                        break
            if mark:
                for i in range(points[p, 0], points[p + 1, 0]):
                    state[rows[i]] = mark
        found += last - first - heaviest
    return found
