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

from holdfast.indexes.kernels.rows import EMPTY, GONE
from holdfast.tables.arrays import Codes, Flags, Ints, Ints32, Outcomes, Words

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
def insert_alike_kernel(codes: Codes, columns: Ints, table: Ints32, slots: Ints) -> int:
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
def remove_alike_kernel(codes: Codes, columns: Ints, table: Ints32, slots: Ints) -> int:
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
def standing_alike_kernel(codes: Codes, copies: Ints, columns: Ints, table: Ints32, slots: Ints, out: Outcomes) -> None:
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
def standing_kernel(codes: Codes, slots: Ints, columns: Ints, groups: Codes, classes: Codes, out: Outcomes) -> None:
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


# Groups that a batch touched, of rows that no table has


@njit(cache=True, nogil=True)
def _place_in(numbers: Ints32, columns: Ints, slot: int, table: Ints32, first: Ints) -> Any:
    """Return where the group of a row is, or would be."""
    mixed = uint64(0)
    for k in range(len(columns)):
        mixed = (mixed ^ uint64(numbers[columns[k], slot])) * _MULTIPLIER
        mixed ^= mixed >> uint64(29)
    place = np.int64(mixed & uint64(len(table) - 1))
    while table[place] != EMPTY:
        same, other = True, first[table[place]]
        for k in range(len(columns)):
            same &= numbers[columns[k], slot] == numbers[columns[k], other]
        if same:
            break
        place = (place + 1) & (len(table) - 1)
    return place


@njit(cache=True, nogil=True)
def hashed_kernel(numbers: Ints32, out: Words) -> None:
    """Write a hash of each number of a column."""
    for i in range(len(numbers)):
        mixed = uint64(numbers[i] + 1) * _MULTIPLIER
        out[i] = (mixed ^ (mixed >> uint64(32))) * _MULTIPLIER


@njit(cache=True, nogil=True)
def like_kernel(hashes: Words, live: Ints, changed: Ints, bits: Flags, out: Ints) -> int:
    """Write at least all live rows with the hash of a changed row; return how many they are.

    `bits` is all False, as many as a power of two.
    """
    last = uint64(len(bits) - 1)
    for i in range(len(changed)):
        bits[hashes[changed[i]] & last] = True
    found = 0
    for slot in range(len(live)):
        if live[slot] > 0 and bits[hashes[slot] & last]:
            out[found] = slot
            found += 1
    return found


@njit(cache=True, nogil=True)
def touched_kernel(
    numbers: Ints32, columns: Ints, live: Ints, changed: Ints, asked: Ints, table: Ints32, slots: Ints, groups: Ints
) -> int:
    """Write the rows whose group has a changed row, and the number of each group; return how many they are.

    Parameters
    ----------
    numbers : (columns, slots) a number for each value.
    live : copies of each row; changed rows without copies are written as well.
    asked : live rows, among which all such rows are.
    table : twice as many places as changed rows and more, a power of two, all EMPTY.
    slots, groups : have room for all rows that are asked and the changed ones.
    """
    first = np.empty(len(changed), np.int64)
    count, found = 0, 0
    for i in range(len(changed)):
        place = _place_in(numbers, columns, changed[i], table, first)
        if table[place] == EMPTY:
            table[place], first[count] = count, changed[i]
            count += 1
        if live[changed[i]] == 0:
            slots[found], groups[found] = changed[i], table[place]
            found += 1
    for i in range(len(asked)):
        place = _place_in(numbers, columns, asked[i], table, first)
        if table[place] != EMPTY:
            slots[found], groups[found] = asked[i], table[place]
            found += 1
    return found


@njit(cache=True, nogil=True)
def more_exceptions_kernel(
    numbers: Ints32, slots: Ints, starts: Ints, now: Ints, before: Ints, classes: Ints, stamp: int
) -> int:
    """Return how many more exceptions a constant has in some groups than before a batch.

    Parameters
    ----------
    numbers : of the dependent, by slot.
    slots, starts : the rows of the groups.
    now, before : copies of each of these rows.
    classes : (numbers, 3): of each number, which group had it last, and its copies there now and before; groups here
        are called `stamp` and what follows, numbers that were not used before.
    """
    more = 0
    for g in range(len(starts) - 1):
        rows, rows_before, largest, largest_before = 0, 0, 0, 0
        for i in range(starts[g], starts[g + 1]):
            one = numbers[slots[i]]
            if classes[one, 0] != stamp + g:
                classes[one, 0], classes[one, 1], classes[one, 2] = stamp + g, 0, 0
            classes[one, 1] += now[i]
            classes[one, 2] += before[i]
            largest, largest_before = max(largest, classes[one, 1]), max(largest_before, classes[one, 2])
            rows += now[i]
            rows_before += before[i]
        more += rows - largest - rows_before + largest_before
    return more
