"""Sizes of groups of rows with equal values in some columns, and the pairs that break keys and dependencies.

A group keeps its place when its last row is deleted (`used` stays true) until the table grows, so every search ends.
Rows that hardly change are sorted by their groups instead.
"""

from typing import NamedTuple

from numba import njit

from holdfast.indexes.kernels.rows import place_kernel
from holdfast.tables.arrays import Codes, Flags, Ints, Ints32


class GroupTable(NamedTuple):
    """Groups in a hash table with open addressing of S places, a power of two.

    Parameters
    ----------
    columns : (K,) the columns whose values the rows of a group share.
    keys : (S, K) the codes of each group.
    counts : (S, 2) its rows, copies included, and their different dependents; 0, 0 in a free place.
    used : (S,) whether a place is taken.
    """

    columns: Ints
    keys: Codes
    counts: Ints
    used: Flags


class SortedRows(NamedTuple):
    """Rows sorted by their groups.

    Parameters
    ----------
    order : (n,) slots, by the codes of the columns, then of the dependent.
    before : (n + 1,) the number of copies of rows before each position.
    columns : the columns whose values the rows of a group share.
    dependent : the column whose value the rows of a part share, too; empty for a key, whose groups have no parts.
    """

    order: Ints32
    before: Ints
    columns: Ints
    dependent: Ints


class RequestedSizes(NamedTuple):
    """The sizes of requested groups and parts.

    Parameters
    ----------
    groups, parts : the numbers of rows, copies included.
    others : the number of other dependents that the rows of a group have, 2 for more.
    other : a row of the group with another dependent.
    """

    groups: Ints
    parts: Ints
    others: Ints
    other: Ints


@njit(cache=True, nogil=True)
def _place(row: Codes, table: GroupTable) -> int:
    """Return the place of the group of a row, or the free place where it belongs."""
    columns, keys, _, used = table
    place = place_kernel(row, columns, len(used))
    while used[place]:
        same = True
        for k in range(len(columns)):
            same &= keys[place, k] == row[columns[k]]
        if same:
            break
        place = (place + 1) & (len(used) - 1)
    return int(place)


@njit(cache=True, nogil=True)
def _take(place: int, row: Codes, table: GroupTable) -> int:
    """Write the group of a row into its place, if that is free; return how many places were taken."""
    if table.used[place]:
        return 0
    table.used[place] = True
    for k in range(len(table.columns)):
        table.keys[place, k] = row[table.columns[k]]
    return 1


@njit(cache=True, nogil=True)
def _broken(rows: int, dependents: int, has_dependent: bool) -> int:
    """Return how many rows of a group break the rule: all or none."""
    if has_dependent:
        return rows if dependents > 1 else 0
    return rows if rows > 1 else 0


@njit(cache=True, nogil=True)
def change_groups_kernel(
    codes: Codes, slots: Ints, amounts: Ints, groups: GroupTable, parts: GroupTable, totals: Ints
) -> None:
    """Add copies of rows to their groups, or remove them.

    Parameters
    ----------
    parts : the parts, whose rows share the dependent, too; for a key there are no parts, and their columns are those of
        the groups.
    totals : pairs and rows that break the rule, groups and parts with a place; updated.
    """
    counts, part_counts = groups.counts, parts.counts
    has_dependent = len(parts.columns) > len(groups.columns)
    for i in range(len(slots)):
        row, amount = codes[slots[i]], amounts[i]
        group = _place(row, groups)
        totals[2] += _take(group, row, groups)
        before = counts[group, 0]
        totals[1] -= _broken(before, counts[group, 1], has_dependent)
        totals[0] += amount * (2 * before + amount)
        counts[group, 0] += amount
        if has_dependent:
            part = _place(row, parts)
            totals[3] += _take(part, row, parts)
            had = part_counts[part, 0]
            totals[0] -= amount * (2 * had + amount)
            part_counts[part, 0] += amount
            counts[group, 1] += (had + amount > 0) - (had > 0)
        else:
            totals[0] -= amount
        totals[1] += _broken(counts[group, 0], counts[group, 1], has_dependent)


@njit(cache=True, nogil=True)
def rehash_groups_kernel(kept: Ints, table: GroupTable, larger: GroupTable) -> None:
    """Copy the groups of the places `kept` into an empty table, whose columns are 0 to K - 1 meanwhile."""
    for i in range(len(kept)):
        place = _place(table.keys[kept[i]], larger)
        _take(place, table.keys[kept[i]], larger)
        larger.counts[place] = table.counts[kept[i]]


@njit(cache=True, nogil=True)
def broken_groups_kernel(codes: Codes, slots: Ints, table: GroupTable, has_dependent: bool, out: Flags) -> None:
    """Write whether the groups of rows break the rule."""
    counts = table.counts
    for i in range(len(slots)):
        place = _place(codes[slots[i]], table)
        out[i] = table.used[place] and _broken(counts[place, 0], counts[place, 1], has_dependent) > 0


@njit(cache=True, nogil=True)
def _end(row: Codes, columns: Ints, codes: Codes, order: Ints32, low: int, high: int, past_equal: bool) -> int:
    """Return the first position from `low` on whose row is not below a given row, or, `past_equal`, is above it."""
    while low < high:
        middle = (low + high) // 2
        outcome = 0
        for k in range(len(columns)):
            code, other = codes[order[middle], columns[k]], row[columns[k]]
            if code != other:
                outcome = -1 if code < other else 1
                break
        if outcome < 0 or (past_equal and outcome == 0):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def group_sizes_kernel(codes: Codes, rows: SortedRows, asked: Ints, starts: Ints, out: RequestedSizes) -> None:
    """Write the numbers of rows in groups and in parts, and how many other parts the groups have.

    `asked` has a row of each part, group by group, dependents ascending; `starts` where each group begins.
    """
    order, before, columns, dependent = rows
    groups, parts, others, other = out
    for g in range(len(starts) - 1):
        low = _end(codes[asked[starts[g]]], columns, codes, order, 0, len(order), False)
        high = _end(codes[asked[starts[g]]], columns, codes, order, low, len(order), True)
        groups[g] = before[high] - before[low]
        others[g] = 0
        if len(dependent) == 0:
            continue
        for i in range(starts[g], starts[g + 1]):
            first = _end(codes[asked[i]], dependent, codes, order, low, high, False)
            last = _end(codes[asked[i]], dependent, codes, order, first, high, True)
            parts[i] = before[last] - before[first]
        at, i = low, starts[g]
        while at < high and others[g] < 2:
            row = codes[order[at]]
            end = _end(row, dependent, codes, order, at, high, True)
            while i < starts[g + 1] and codes[asked[i], dependent[0]] < row[dependent[0]]:
                i += 1
            is_asked = i < starts[g + 1] and codes[asked[i], dependent[0]] == row[dependent[0]]
            if not is_asked and before[end] > before[at]:
                others[g] += 1
                other[g] = order[at]
            at = end
