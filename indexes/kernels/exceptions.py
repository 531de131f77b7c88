"""How many rows have to be deleted for a key or a functional dependency to hold.

Rows with equal values in the context are a *group*; rows of a group with an equal dependent are a *class*.

    groups   (S, K + 3)  int64  the codes of each group, open addressing, S a power of two; the copies of its rows, and
                                of its largest class; the place of its first class
    classes  (P, K + 4)  int64  the codes of each class, P a power of two; the copies of its rows; nothing; the place of
                                the next class of its group

The last number of a place is FREE in a free place, and LAST where no class follows. Groups and classes keep their
places when their last rows are deleted, until the tables grow, so every search ends.
"""

from typing import Any

import numpy as np
from numba import njit, uint64

from holdfast.indexes.kernels.rows import EMPTY, GONE, place_kernel, same_kernel
from holdfast.tables.arrays import Codes, Flags, Ints, Ints32, Outcomes, Words

FREE, LAST = -2, -1
NONE, CERTAIN, UNDECIDED = 0, 1, 2
"""Whether a row is in no smallest set of rows to delete, in all such sets, or in some."""
_TOUCHED = -1
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


# Keys: a hash table of all rows, several of which may have one key


@njit(cache=True, nogil=True)
def insert_alike_kernel(codes: Codes, columns: Ints, table: Ints32, slots: Ints) -> int:
    """Insert rows into a hash table; return how many of them have a key that no row in the table had."""
    new = 0
    for i in range(len(slots)):
        row = codes[slots[i]]
        place = place_kernel(row, columns, len(table))
        free, is_alone = -1, True
        while table[place] != EMPTY:
            if table[place] == GONE:
                if free < 0:
                    free = place
            elif is_alone and same_kernel(codes[table[place]], row, columns):
                is_alone = False
            if free >= 0 and not is_alone:
                break
            place = (place + 1) & (len(table) - 1)
        table[free if free >= 0 else place] = slots[i]
        new += is_alone
    return new


@njit(cache=True, nogil=True)
def remove_alike_kernel(codes: Codes, columns: Ints, table: Ints32, slots: Ints) -> int:
    """Remove rows from a hash table; return how many of them have a key that no row left has."""
    lost = 0
    for i in range(len(slots)):
        row = codes[slots[i]]
        place = place_kernel(row, columns, len(table))
        at, is_alone = -1, True
        while table[place] != EMPTY and (at < 0 or is_alone):
            if table[place] == slots[i]:
                at = place
            elif is_alone and table[place] != GONE and same_kernel(codes[table[place]], row, columns):
                is_alone = False
            place = (place + 1) & (len(table) - 1)
        table[at] = GONE
        lost += is_alone
    return lost


@njit(cache=True, nogil=True)
def standing_alike_kernel(codes: Codes, copies: Ints, columns: Ints, table: Ints32, slots: Ints, out: Outcomes) -> None:
    """Write whether rows of a hash table are exceptions of the key: UNDECIDED where other rows have the same key."""
    for i in range(len(slots)):
        row, alike = codes[slots[i]], 0
        place = place_kernel(row, columns, len(table))
        while table[place] != EMPTY and alike < 2:
            if table[place] != GONE and same_kernel(codes[table[place]], row, columns):
                alike += copies[table[place]]
            place = (place + 1) & (len(table) - 1)
        out[i] = UNDECIDED if alike > 1 else NONE


# Functional dependencies


@njit(cache=True, nogil=True)
def _place_of(row: Codes, columns: Ints, table: Codes) -> Any:
    """Return the place of a row's group or class, or the free place where it belongs."""
    place = place_kernel(row, columns, len(table))
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
    """Add copies of rows to their groups and classes, or remove them, and update the largest classes.

    Parameters
    ----------
    columns : the context, then the dependent.
    totals : the sum of the sizes of all largest classes, and the numbers of groups and classes with a place; updated.
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
    """Write whether rows are exceptions: CERTAIN outside of a largest class, UNDECIDED in one of several largest."""
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
    """Copy the groups and classes that have rows into empty tables; return their numbers."""
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


# Groups with rows of a batch, found without a table of all groups


@njit(cache=True, nogil=True)
def _place_in(numbers: Ints32, columns: Ints, slot: int, table: Ints32, first: Ints) -> Any:
    """Return the place of the group of a row, or the free place where it belongs."""
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
    """Write at least all live rows with the hash of a changed row; return their number.

    The length of `bits`, all False, is a power of two.
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
    """Write the rows whose group has a changed row, and the number of each group; return the number of rows.

    Parameters
    ----------
    numbers : (columns, slots) a number for each value.
    live : copies of each row; changed rows without copies are written as well.
    asked : live rows that include all such rows.
    table : at least twice as many places as changed rows, a power of two, all EMPTY.
    slots, groups : room for all rows of `asked` and `changed`.
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
    """Return by how much the exceptions of a constant in some groups grew with a batch.

    Parameters
    ----------
    numbers : of the dependent, by slot.
    slots, starts : the rows of the groups.
    now, before : copies of each of these rows.
    classes : (numbers, 3): for each number, the group that had it last, and its copies there now and before. The groups
        here have the numbers from `stamp` on, which were not used before.
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
