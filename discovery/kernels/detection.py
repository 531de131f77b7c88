"""Counting and listing the pairs of rows that break a rule, group by group.

A group has two lists of rows that agree on the rule's equalities, candidates for t and for s (`partitions.Partition`).

`sweep_kernel` counts pairs with t.x < s.x and t.y < s.y without comparing pairs, nor rows: the rows of a group that are
at one place (x, y) are one *point*, whose weight is their number.
`refine_kernel` splits a group by the values of one column pair after the other until all its rows t break the rule with
all its rows s: such a pair of lists is returned as it is, so that a million pairs are two thousand rows.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from holdfast.discovery.kernels.partitions import Partition
from holdfast.tables.arrays import DenseCodes, Flags, Ints, Rows

SMALL = 256
_LEAST, _GREATEST = np.int32(-(2**31)), np.int32(2**31 - 1)


class Lists(NamedTuple):
    """Pairs of lists of rows, all rows t of a pair breaking the rule with all its rows s.

    Parameters
    ----------
    given : the number of pairs of lists.
    t_rows, t_ends : the rows t of all lists, and where the rows of each list end.
    s_rows, s_ends : the same for s.
    """

    given: int
    t_rows: Rows
    t_ends: Ints
    s_rows: Rows
    s_ends: Ints


class PointSide(NamedTuple):
    """The points of all groups on one side, those of a group in ascending order of (x, y).

    Parameters
    ----------
    starts : (groups + 1,) where the points of each group begin.
    x, y : the place of each point.
    weight : the number of rows, copies included, at each point.
    """

    starts: Ints
    x: DenseCodes
    y: DenseCodes
    weight: Ints


@njit(cache=True, nogil=True)
def _below(sorted_values: DenseCodes, value: int) -> int:
    """Return the number of sorted values below a value."""
    low, high = 0, len(sorted_values)
    while low < high:
        middle = (low + high) // 2
        if sorted_values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def tight_kernel(codes: DenseCodes, ranks: DenseCodes) -> int:
    """Replace codes by their ranks among the codes present; return the number of ranks. `ranks` is all 0."""
    for code in codes:
        ranks[code] = 1
    count = 0
    for code in range(len(ranks)):
        there = ranks[code]
        ranks[code] = count
        count += there
    for i in range(len(codes)):
        codes[i] = ranks[codes[i]]
    return count


@njit(cache=True, nogil=True)
def mixed_kernel(groups: DenseCodes, codes: DenseCodes, first: DenseCodes, mixed: Flags) -> None:
    """Flag the groups whose rows differ in their codes; `first` has a code of each group, -1 before."""
    for row in range(len(groups)):
        group = groups[row]
        if first[group] < 0:
            first[group] = codes[row]
        elif first[group] != codes[row]:
            mixed[group] = True


@njit(cache=True, nogil=True)
def rows_kernel(left: DenseCodes, right: DenseCodes, wanted: Flags, out: Ints) -> int:
    """Write the rows in wanted groups, as t or as s; return their number, -1 if they fill `out`."""
    count = 0
    for row in range(len(left)):
        out[count] = row
        count += wanted[left[row]] | wanted[right[row]]
        if count == len(out):
            return -1
    return count


@njit(cache=True, nogil=True)
def rows_among_kernel(groups: DenseCodes, wanted: Flags, among: Flags, out: Rows) -> int:
    """Write the rows of wanted groups for which `among` is true, all if `among` is empty; return their number."""
    count = 0
    for row in range(len(groups)):
        if (len(among) == 0 or among[row]) and wanted[groups[row]]:
            out[count] = row
            count += 1
    return count


@njit(cache=True, nogil=True)
def by_group_kernel(rows: Rows, groups: DenseCodes, ends: Ints, out: Rows) -> None:
    """Sort rows by group, stably; `ends` has the position where each group begins, and is changed."""
    for row in rows:
        group = groups[row]
        out[ends[group]] = row
        ends[group] += 1


@njit(cache=True, nogil=True)
def number_kernel(
    rows: Rows, groups: DenseCodes, codes: DenseCodes, last: DenseCodes, number: DenseCodes, out: DenseCodes
) -> int:
    """Write a number for each part of a group with equal codes, for rows given group by group; return how many.

    `last` is the group that had each code last, -1 before, and `number` the number of that part.
    """
    count = 0
    for row in rows:
        code = codes[row]
        if last[code] != groups[row]:
            last[code], number[code] = groups[row], count
            count += 1
        out[row] = number[code]
    return count


@njit(cache=True, nogil=True)
def points_kernel(
    rows: Rows,
    groups: DenseCodes,
    places: DenseCodes,
    weight: Ints,
    point: DenseCodes,
    at: DenseCodes,
    weights: Ints,
    starts: Ints,
) -> int:
    """Write a number for each point of rows sorted by (group, place); return the number of points.

    Writes the `point` of each row, the place of each point (`at`), its weight, and where the points of each group begin
    (`starts`, all 0 before). `weight` is empty if all rows weigh 1.
    """
    count, last_group, last_place = 0, np.int32(-1), np.int32(-1)
    for row in rows:
        if groups[row] != last_group or places[row] != last_place:
            last_group, last_place = groups[row], places[row]
            at[count], weights[count] = last_place, 0
            count += 1
        point[row] = count - 1
        weights[count - 1] += weight[row] if len(weight) > 0 else 1
        starts[last_group + 1] = count
    for group in range(1, len(starts)):
        starts[group] = max(starts[group], starts[group - 1])
    return count


@njit(cache=True, nogil=True)
def _with_partner_above(t_x: DenseCodes, t_y: DenseCodes, s_x: DenseCodes, s_y: DenseCodes, kept: Ints) -> int:
    """Write the points t, from the greatest x down, for which a point s is above in x and y; return their number."""
    count, j, greatest = 0, len(s_x) - 1, _LEAST
    for i in range(len(t_x) - 1, -1, -1):
        while j >= 0 and s_x[j] > t_x[i]:
            greatest = max(greatest, s_y[j])
            j -= 1
        if greatest > t_y[i]:
            kept[count] = i
            count += 1
    return count


@njit(cache=True, nogil=True)
def _with_partner_below(t_x: DenseCodes, t_y: DenseCodes, s_x: DenseCodes, s_y: DenseCodes, kept: Ints) -> int:
    """Write the points s, from the least x up, for which a point t is below in x and y; return their number."""
    count, i, least = 0, 0, _GREATEST
    for j in range(len(s_x)):
        while i < len(t_x) and t_x[i] < s_x[j]:
            least = min(least, t_y[i])
            i += 1
        if least < s_y[j]:
            kept[count] = j
            count += 1
    return count


@njit(cache=True, nogil=True)
def _add_at(sums: Ints, place: int, amount: int) -> None:
    """Add an amount at a position of a tree of partial sums."""
    at = place + 1
    while at < len(sums):
        sums[at] += amount
        at += at & -at


@njit(cache=True, nogil=True)
def _sum_below(sums: Ints, place: int) -> int:
    """Return the sum of all positions below a position of a tree of partial sums."""
    total, at = 0, place
    while at > 0:
        total += sums[at]
        at -= at & -at
    return total


@njit(cache=True, nogil=True)
def sweep_kernel(t_side: PointSide, s_side: PointSide, first: int, last: int, as_t: Ints, as_s: Ints) -> None:
    """Write for each point t the weight of all s in its group with t.x < s.x and t.y < s.y, and for s that of such t.

    Groups from `first` to `last` are swept. Points without a partner are left out first, by running extremes, and stay
    0; the others are counted with a tree of partial sums.
    """
    t_starts, t_x, t_y, t_weight = t_side
    s_starts, s_x, s_y, s_weight = s_side
    longest = 0
    for g in range(first, last):
        longest = max(longest, t_starts[g + 1] - t_starts[g], s_starts[g + 1] - s_starts[g])
    room = np.empty((5, longest + 2), np.int64)
    for g in range(first, last):
        t, s = slice(t_starts[g], t_starts[g + 1]), slice(s_starts[g], s_starts[g + 1])
        t_left = _with_partner_above(t_x[t], t_y[t], s_x[s], s_y[s], room[0])
        if t_left == 0:
            continue
        s_left = _with_partner_below(t_x[t], t_y[t], s_x[s], s_y[s], room[1])
        ts, ss = room[0, :t_left] + t_starts[g], room[1, :s_left] + s_starts[g]
        values = np.sort(s_y[ss])
        t_rank, s_rank, sums = room[2], room[3], room[4, : s_left + 2]
        for i in range(t_left):
            t_rank[i] = _below(values, t_y[ts[i]] + 1)
        for j in range(s_left):
            s_rank[j] = _below(values, s_y[ss[j]])
        sums[:] = 0
        total, j = 0, s_left - 1
        for i in range(t_left):
            while j >= 0 and s_x[ss[j]] > t_x[ts[i]]:
                total += s_weight[ss[j]]
                _add_at(sums, s_rank[j], s_weight[ss[j]])
                j -= 1
            as_t[ts[i]] = total - _sum_below(sums, t_rank[i])
        sums[:] = 0
        i = t_left - 1
        for j in range(s_left):
            while i >= 0 and t_x[ts[i]] < s_x[ss[j]]:
                _add_at(sums, t_rank[i], t_weight[ts[i]])
                i -= 1
            as_s[ss[j]] = _sum_below(sums, s_rank[j] + 1)


@njit(cache=True, nogil=True)
def _split(rows: Rows, low: int, high: int, codes: DenseCodes, bound: int) -> int:
    """Move rows with a code below `bound` to the front of a part; return where the others begin."""
    front, back = low, high - 1
    while front <= back:
        if codes[rows[front]] < bound:
            front += 1
        else:
            rows[front], rows[back] = rows[back], rows[front]
            back -= 1
    return front


@njit(cache=True, nogil=True)
def _reach(rows: Rows, low: int, high: int, codes: DenseCodes) -> tuple[int, int]:
    """Return the least and the greatest code of some rows."""
    least, greatest = np.int64(_GREATEST), np.int64(_LEAST)
    for i in range(low, high):
        code = np.int64(codes[rows[i]])
        least, greatest = min(least, code), max(greatest, code)
    return int(least), int(greatest)


@njit(cache=True, nogil=True)
def _partners(t: int, ss: Rows, left: DenseCodes, right: DenseCodes, allowed: Ints, dim: int, out: Rows) -> int:
    """Write the rows s that have an allowed outcome with t on each column pair from `dim` on; return their number."""
    count = 0
    for s in ss:
        breaks = True
        for d in range(dim, len(allowed)):
            a, b = left[d, t], right[d, s]
            outcome = 1 if a < b else (2 if a == b else 4)
            if allowed[d] & outcome == 0:
                breaks = False
                break
        if breaks:
            out[count] = s
            count += 1
    return count


@njit(cache=True, nogil=True)
def _decided(t_least: int, t_greatest: int, s_least: int, s_greatest: int) -> int:
    """Return the outcome that all rows t have with all rows s, 0 where there may be several outcomes."""
    if t_greatest < s_least:
        return 1
    if t_least > s_greatest:
        return 4
    return 2 if t_least == t_greatest and s_least == s_greatest else 0


@njit(cache=True, nogil=True)
def _push(stack: Ints, height: int, dim: int, t_low: int, t_high: int, s_low: int, s_high: int) -> int:
    """Push a part of a group onto the stack; return the height of the stack."""
    stack[height, 0], stack[height, 1], stack[height, 2] = dim, t_low, t_high
    stack[height, 3], stack[height, 4] = s_low, s_high
    return height + 1


@njit(cache=True, nogil=True)
def refine_kernel(  # noqa: PLR0915  (one loop over a stack)
    partition: Partition, left: DenseCodes, right: DenseCodes, allowed: Ints, stack: Ints, state: Ints, out: Lists
) -> int:
    """Write lists of rows t and s all of which break the rule with each other; return the number of pairs of lists.

    Parameters
    ----------
    partition : the groups; the order of rows within a group changes.
    left, right : (D, n) codes of the rows as t and as s, for each column pair that is not an equality.
    allowed : (D,) outcomes, as bits: less 1, equal 2, greater 4.
    stack : (any, 5) parts to look at: column pair, and where its rows t and rows s begin and end.
    state : the next group, and the height of the stack, from which the next call goes on. All groups are done when the
        next group is the number of groups and the height is 0.
    out : room for lists; the longest list has to fit, or the result stays 0.
    """
    t_rows, t_starts, s_rows, s_starts = partition
    _, t_out, t_ends, s_out, s_ends = out
    given, t_filled, s_filled = 0, 0, 0
    groups, dims = len(t_starts) - 1, len(allowed)
    group, height = state[0], state[1]
    while True:
        if height == 0:
            if group == groups:
                break
            if t_starts[group] < t_starts[group + 1] and s_starts[group] < s_starts[group + 1]:
                height = _push(stack, 0, 0, t_starts[group], t_starts[group + 1], s_starts[group], s_starts[group + 1])
            group += 1
            continue
        height -= 1
        dim, t_low, t_high = stack[height, 0], stack[height, 1], stack[height, 2]
        s_low, s_high = stack[height, 3], stack[height, 4]
        t_size, s_size = t_high - t_low, s_high - s_low
        is_small = dim < dims and t_size * s_size <= SMALL
        lists, s_room = (t_size, t_size * s_size) if is_small else (1, s_size)
        is_full = given + lists > len(t_ends) or t_filled + t_size > len(t_out) or s_filled + s_room > len(s_out)
        if is_full and (is_small or dim == dims):
            height += 1
            break
        if dim == dims:
            t_out[t_filled : t_filled + t_size] = t_rows[t_low:t_high]
            s_out[s_filled : s_filled + s_size] = s_rows[s_low:s_high]
            t_filled, s_filled = t_filled + t_size, s_filled + s_size
            t_ends[given], s_ends[given] = t_filled, s_filled
            given += 1
            continue
        if is_small:
            for i in range(t_low, t_high):
                found = _partners(t_rows[i], s_rows[s_low:s_high], left, right, allowed, dim, s_out[s_filled:])
                if found:
                    t_out[t_filled] = t_rows[i]
                    t_filled, s_filled = t_filled + 1, s_filled + found
                    t_ends[given], s_ends[given] = t_filled, s_filled
                    given += 1
            continue
        t_least, t_greatest = _reach(t_rows, t_low, t_high, left[dim])
        s_least, s_greatest = _reach(s_rows, s_low, s_high, right[dim])
        decided = _decided(t_least, t_greatest, s_least, s_greatest)
        if decided > 0:
            if allowed[dim] & decided:
                height = _push(stack, height, dim + 1, t_low, t_high, s_low, s_high)
            continue
        least, greatest = min(t_least, s_least), max(t_greatest, s_greatest)
        bound = least + (greatest - least + 1) // 2
        t_middle = _split(t_rows, t_low, t_high, left[dim], bound)
        s_middle = _split(s_rows, s_low, s_high, right[dim], bound)
        for part in range(4):
            upper_t, upper_s = part & 1, part >> 1
            if upper_t != upper_s and allowed[dim] & (4 if upper_t else 1) == 0:
                continue
            a, b = (t_middle, t_high) if upper_t else (t_low, t_middle)
            c, d = (s_middle, s_high) if upper_s else (s_low, s_middle)
            if a < b and c < d:
                height = _push(stack, height, dim if upper_t == upper_s else dim + 1, a, b, c, d)
    state[0], state[1] = group, height
    return given


@njit(cache=True, nogil=True)
def add_lists_kernel(lists: Lists, weight: Ints, as_t: Ints, as_s: Ints) -> None:
    """Add to every row of the lists the weight of the rows that it breaks the rule with; `weight` is empty if all 1."""
    given, t_out, t_ends, s_out, s_ends = lists
    weighted = len(weight) > 0
    t_start, s_start = 0, 0
    for g in range(given):
        t_sum, s_sum = t_ends[g] - t_start, s_ends[g] - s_start
        if weighted:
            t_sum, s_sum = 0, 0
            for i in range(t_start, t_ends[g]):
                t_sum += weight[t_out[i]]
            for j in range(s_start, s_ends[g]):
                s_sum += weight[s_out[j]]
        for i in range(t_start, t_ends[g]):
            as_t[t_out[i]] += s_sum
        for j in range(s_start, s_ends[g]):
            as_s[s_out[j]] += t_sum
        t_start, s_start = t_ends[g], s_ends[g]


@njit(cache=True, nogil=True)
def expand_kernel(lists: Lists, state: Ints, pairs: Ints) -> int:
    """Write pairs of two different rows of the lists into `pairs`; return their number.

    `state` is the list, and the positions of t and s in it, from which the next call goes on.
    """
    given, t_out, t_ends, s_out, s_ends = lists
    filled = 0
    g, i, j = state[0], state[1], state[2]
    while g < given:
        s_start = s_ends[g - 1] if g > 0 else 0
        while i < t_ends[g]:
            while j < s_ends[g] - s_start:
                if filled == len(pairs):
                    state[0], state[1], state[2] = g, i, j
                    return filled
                if t_out[i] != s_out[s_start + j]:
                    pairs[filled, 0], pairs[filled, 1] = t_out[i], s_out[s_start + j]
                    filled += 1
                j += 1
            i, j = i + 1, 0
        g += 1
    state[0], state[1], state[2] = g, i, j
    return filled
