"""How many rows have to go for a key or a functional dependency to hold.

Rows that agree on some columns, the context, are a *group*; those of a group that agree on a dependent, too, a *class*.

    groups   (S, K + 3)  int64  the codes of each group, open addressing, S a power of two; copies of its rows; those of
                                its largest class; the place of a class of it
    classes  (P, K + 4)  int64  the codes of each class, P a power of two; copies of its rows; nothing; the place of
                                another class of its group

The last number of a place is FREE where nothing is, and LAST where no class comes behind. Groups and classes stay in
their places when their last rows go, until the tables grow, so every search ends.
"""

from typing import Any

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from holdfast.indexes.kernels.rows import EMPTY, GONE

Codes = NDArray[np.int64]
Ints = NDArray[np.int64]
Places = NDArray[np.int32]

FREE, LAST = -2, -1
NONE, CERTAIN, UNDECIDED = 0, 1, 2
"""Whether a row is in no smallest removal, in all of them, or in some."""
_TOUCHED = -1
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


@njit(cache=True, nogil=True)
def standing_alike_kernel(
    codes: Codes, copies: Ints, columns: Ints, table: Places, slots: Ints, out: NDArray[np.int8]
) -> None:
    """Write whether rows that are in a hash table are exceptions of the key: undecided, where others are like them."""
    for i in range(len(slots)):
        row, alike = codes[slots[i]], 0
        place = _mixed(row, columns) & (len(table) - 1)
        while table[place] != EMPTY and alike < 2:
            if table[place] != GONE and _same(codes[table[place]], row, columns):
                alike += copies[table[place]]
            place = (place + 1) & (len(table) - 1)
        out[i] = UNDECIDED if alike > 1 else NONE


# Functional dependencies


@njit(cache=True, nogil=True)
def _place_of(row: Codes, columns: Ints, table: Codes) -> Any:
    """Return where a row's group, or class, is or would be."""
    place = _mixed(row, columns) & (len(table) - 1)
    while table[place, -1] != FREE:
        same = True
        for k in range(len(columns)):
            same &= table[place, k] == row[columns[k]]
        if same:
            break
        place = (place + 1) & (len(table) - 1)
    return place


@njit(cache=True, nogil=True)
def _take(row: Codes, columns: Ints, table: Codes, place: int, link: int) -> None:
    for k in range(len(columns)):
        table[place, k] = row[columns[k]]
    table[place, -3], table[place, -2], table[place, -1] = 0, 0, link


@njit(cache=True, nogil=True)
def change_classes_kernel(
    codes: Codes, slots: Ints, amounts: Ints, columns: Ints, groups: Codes, classes: Codes, totals: Ints
) -> None:
    """Add copies of rows to their groups and classes, or take them away, and bring the largest classes up to date.

    Parameters
    ----------
    columns : of the context, and the dependent behind them.
    totals : sizes of all largest classes together, and how many groups and classes have a place; brought up to date.
    """
    touched = np.empty(len(slots), np.int64)
    count = 0
    for i in range(len(slots)):
        row = codes[slots[i]]
        group = _place_of(row, columns[:-1], groups)
        if groups[group, -1] == FREE:
            _take(row, columns[:-1], groups, group, LAST)
            totals[1] += 1
        place = _place_of(row, columns, classes)
        if classes[place, -1] == FREE:
            _take(row, columns, classes, place, groups[group, -1])
            groups[group, -1] = place
            totals[2] += 1
        groups[group, -3] += amounts[i]
        classes[place, -3] += amounts[i]
        if groups[group, -2] != _TOUCHED:
            totals[0] -= groups[group, -2]
            groups[group, -2] = _TOUCHED
            touched[count] = group
            count += 1
    for group in touched[:count]:
        largest, at = 0, groups[group, -1]
        while at != LAST:
            largest = max(largest, classes[at, -3])
            at = classes[at, -1]
        totals[0] += largest
        groups[group, -2] = largest


@njit(cache=True, nogil=True)
def standing_kernel(
    codes: Codes, slots: Ints, columns: Ints, groups: Codes, classes: Codes, out: NDArray[np.int8]
) -> None:
    """Write whether rows are exceptions: those that are not of a largest class, and those of several largest ones."""
    for i in range(len(slots)):
        row = codes[slots[i]]
        group, own = _place_of(row, columns[:-1], groups), _place_of(row, columns, classes)
        if classes[own, -3] < groups[group, -2]:
            out[i] = CERTAIN
            continue
        largest, at = 0, groups[group, -1]
        while at != LAST:
            largest += classes[at, -3] == groups[group, -2]
            at = classes[at, -1]
        out[i] = UNDECIDED if largest > 1 else NONE


@njit(cache=True, nogil=True)
def rehash_kernel(groups: Codes, classes: Codes, new_groups: Codes, new_classes: Codes) -> tuple[int, int]:
    """Put groups and classes with rows into tables that are empty; return how many there are."""
    columns = np.arange(classes.shape[1] - 3)
    kept_groups, kept_classes = 0, 0
    for group in range(len(groups)):
        if groups[group, -1] != FREE and groups[group, -3] > 0:
            place = _place_of(groups[group], columns[:-1], new_groups)
            new_groups[place] = groups[group]
            new_groups[place, -1] = LAST
            kept_groups += 1
    for one in range(len(classes)):
        if classes[one, -1] != FREE and classes[one, -3] > 0:
            place = _place_of(classes[one], columns, new_classes)
            group = _place_of(classes[one], columns[:-1], new_groups)
            new_classes[place] = classes[one]
            new_classes[place, -1] = new_groups[group, -1]
            new_groups[group, -1] = place
            kept_classes += 1
    return kept_groups, kept_classes
