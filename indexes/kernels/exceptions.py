"""How many rows have to go for a key, a functional dependency or an order compatibility to hold.

Rows that agree on some columns, the context, are a *group*; those of a group that agree on a dependent, too, a *class*.

    groups.keys     (S, K)      int64  the codes of each group, open addressing, S a power of two
    groups.counts   (S, 2)      int64  copies of rows of a group, and of its largest class; 0, 0 where there is none
    groups.link     (S,)        int32  the place of a class of the group, -1 where there is none
    classes.keys    (P, K + 1)  int64  the codes of each class, open addressing, P a power of two
    classes.counts  (P, 1)      int64  copies of rows of a class
    classes.link    (P,)        int32  the place of another class of the group, -1 behind the last one

Groups and classes stay in their places when their last rows go, until the tables grow, so every search ends.

An order compatibility has rows in order instead:

    order    (n,)  int32  slots, by the codes of the context, of the first column, of the second one, then by slot
    weights  (n,)  int64  copies of these rows
"""

from typing import Any

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from holdfast.indexes.kernels.rows import EMPTY, GONE

Codes = NDArray[np.int64]
Ints = NDArray[np.int64]
Places = NDArray[np.int32]
Flags = NDArray[np.bool_]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def _mixed(row: Codes, columns: Ints) -> Any:
    mixed = uint64(0)
    for k in range(len(columns)):
        mixed = (mixed ^ uint64(row[columns[k]])) * _MULTIPLIER
        mixed ^= mixed >> uint64(29)
    return np.int64(mixed >> uint64(1))


@njit(cache=True, nogil=True)
def _same(row: Codes, other: Codes, columns: Ints) -> bool:
    same = True
    for k in range(len(columns)):
        same &= row[columns[k]] == other[columns[k]]
    return same


# Keys: a table of all rows, of which any may be like others


@njit(cache=True, nogil=True)
def insert_alike_kernel(codes: Codes, columns: Ints, table: Places, slots: Ints) -> int:
    """Put rows into a hash table; return how many of them were like no row in it."""
    new = 0
    for i in range(len(slots)):
        row = codes[slots[i]]
        place = _mixed(row, columns) & (len(table) - 1)
        free, is_alone = -1, True
        while table[place] != EMPTY:
            if table[place] == GONE:
                if free < 0:
                    free = place
            elif is_alone and _same(codes[table[place]], row, columns):
                is_alone = False
            if free >= 0 and not is_alone:
                break
            place = (place + 1) & (len(table) - 1)
        table[free if free >= 0 else place] = slots[i]
        new += is_alone
    return new


@njit(cache=True, nogil=True)
def remove_alike_kernel(codes: Codes, columns: Ints, table: Places, slots: Ints) -> int:
    """Take rows out of a hash table; return how many of them left none behind that is like them."""
    lost = 0
    for i in range(len(slots)):
        row = codes[slots[i]]
        place = _mixed(row, columns) & (len(table) - 1)
        at, is_alone = -1, True
        while table[place] != EMPTY and (at < 0 or is_alone):
            if table[place] == slots[i]:
                at = place
            elif is_alone and table[place] != GONE and _same(codes[table[place]], row, columns):
                is_alone = False
            place = (place + 1) & (len(table) - 1)
        table[at] = GONE
        lost += is_alone
    return lost


# Functional dependencies


@njit(cache=True, nogil=True)
def _place_of(row: Codes, columns: Ints, keys: Codes, used: Flags) -> int:
    """Return where a row's group, or class, is or would be."""
    place = _mixed(row, columns) & (len(used) - 1)
    while used[place]:
        same = True
        for k in range(len(columns)):
            same &= keys[place, k] == row[columns[k]]
        if same:
            break
        place = (place + 1) & (len(used) - 1)
    return int(place)


@njit(cache=True, nogil=True)
def _taken(row: Codes, columns: Ints, table: Any, totals: Ints, which: int) -> Any:
    """Return the place of a row's group, or class, which gets one if it has none; say whether it is new in `totals`."""
    place = _place_of(row, columns, table.keys, table.used)
    if not table.used[place]:
        table.used[place] = True
        table.link[place] = -1
        totals[which] += 1
        for k in range(len(columns)):
            table.keys[place, k] = row[columns[k]]
    return place


@njit(cache=True, nogil=True)
def change_classes_kernel(
    codes: Codes, slots: Ints, amounts: Ints, columns: Ints, groups: Any, classes: Any, totals: Ints
) -> None:
    """Add copies of rows to their groups and classes, or take them away, and bring the largest classes up to date.

    Parameters
    ----------
    columns : of the context, and the dependent behind them.
    totals : sizes of all largest classes together, and how many groups and classes have a place; brought up to date.
    """
    touched = np.empty(len(slots), np.int64)
    for i in range(len(slots)):
        row = codes[slots[i]]
        group = _taken(row, columns[:-1], groups, totals, 1)
        known = totals[2]
        place = _taken(row, columns, classes, totals, 2)
        if totals[2] > known:
            classes.link[place] = groups.link[group]
            groups.link[group] = place
        groups.counts[group, 0] += amounts[i]
        classes.counts[place, 0] += amounts[i]
        touched[i] = group
    for group in np.unique(touched):
        largest, at = 0, groups.link[group]
        while at >= 0:
            largest = max(largest, classes.counts[at, 0])
            at = classes.link[at]
        totals[0] += largest - groups.counts[group, 1]
        groups.counts[group, 1] = largest


@njit(cache=True, nogil=True)
def rehash_kernel(groups: Any, kept: Ints, classes: Any, kept_classes: Ints, new_groups: Any, new_classes: Any) -> None:
    """Put groups and classes from some places into tables that are empty."""
    columns = np.arange(classes.keys.shape[1])
    for group in kept:
        place = _place_of(groups.keys[group], columns[:-1], new_groups.keys, new_groups.used)
        new_groups.used[place] = True
        new_groups.keys[place] = groups.keys[group]
        new_groups.counts[place] = groups.counts[group]
    for one in kept_classes:
        place = _place_of(classes.keys[one], columns, new_classes.keys, new_classes.used)
        new_classes.used[place] = True
        new_classes.keys[place] = classes.keys[one]
        new_classes.counts[place] = classes.counts[one]
        group = _place_of(classes.keys[one], columns[:-1], new_groups.keys, new_groups.used)
        new_classes.link[place] = new_groups.link[group]
        new_groups.link[group] = place


# Order compatibilities


@njit(cache=True, nogil=True)
def _compared(codes: Codes, slot: int, other: int, columns: Ints, count: int, signs: Ints) -> Any:
    """Return -1, 0 or 1 as one row is before, like or behind another one in the first so many columns."""
    for k in range(count):
        a, b = codes[slot, columns[k]], codes[other, columns[k]]
        if a != b:
            return signs[k] if a > b else -signs[k]
    return 0


@njit(cache=True, nogil=True)
def places_kernel(codes: Codes, order: Places, slots: Ints, columns: Ints, signs: Ints, out: Ints) -> None:
    """Fill `out` with the place of each row in the order, or the one that it would have."""
    for i in range(len(slots)):
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) >> 1
            found = _compared(codes, order[middle], slots[i], columns, len(columns), signs)
            if found < 0 or (found == 0 and order[middle] < slots[i]):
                low = middle + 1
            else:
                high = middle
        out[i] = low


@njit(cache=True, nogil=True)
def groups_kernel(codes: Codes, order: Places, places: Ints, slots: Ints, columns: Ints, out: Ints) -> None:
    """Fill `out` with where the group of each row begins and ends in the order; it is at a place, or would be."""
    for i in range(len(slots)):
        row = codes[slots[i]]
        low, high, step = places[i], places[i], 1
        while low > 0 and _same(codes[order[low - 1]], row, columns):
            high = low - 1
            low = max(0, low - step)
            step *= 2
        while low < high:
            middle = (low + high) >> 1
            if _same(codes[order[middle]], row, columns):
                high = middle
            else:
                low = middle + 1
        out[i, 0] = low
        low, high, step = places[i], places[i], 1
        while high < len(order) and _same(codes[order[high]], row, columns):
            low = high + 1
            high = min(len(order), high + step)
            step *= 2
        while low < high:
            middle = (low + high) >> 1
            if _same(codes[order[middle]], row, columns):
                low = middle + 1
            else:
                high = middle
        out[i, 1] = low


@njit(cache=True, nogil=True)
def longest_kernel(codes: Codes, order: Places, weights: Ints, column: int, sign: int, groups: Ints) -> Any:
    """Return how many copies of rows stay at most, in some groups together, where a column never falls in the order.

    `groups` (g, 2) says where each begins and ends; with `sign` -1 the column never rises. Patience: `ends[i]` is the
    least value that i + 1 copies can end with; the search begins at the last one, near which most values belong.
    """
    most = 0
    for g in range(len(groups)):
        most = max(most, weights[groups[g, 0] : groups[g, 1]].sum())
    ends = np.empty(most, np.int64)
    total = 0
    for g in range(len(groups)):
        length = 0
        for i in range(groups[g, 0], groups[g, 1]):
            value = codes[order[i], column]
            low, high, step = length, length, 1
            while low > 0 and _is_behind(ends[low - 1], value, sign):
                high = low - 1
                low = max(0, low - step)
                step *= 2
            while low < high:
                middle = (low + high) >> 1
                if _is_behind(ends[middle], value, sign):
                    high = middle
                else:
                    low = middle + 1
            for at in range(low, low + weights[i]):
                ends[at] = value
            length = max(length, low + weights[i])
        total += length
    return total


@njit(cache=True, nogil=True)
def _is_behind(value: int, other: int, sign: int) -> bool:
    return value > other if sign > 0 else value < other
