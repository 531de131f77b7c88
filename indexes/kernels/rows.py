"""A hash table of rows by the codes of some of their columns.

    codes    (n, C) int64   the rows
    columns  (K,)   int64   the columns whose codes count
    table    (T,)   int32   numbers of rows, T a power of two; EMPTY where free, GONE where a row was removed

No row is in the table twice, and at most half of its places are used (GONE included), so every search ends.
"""

from typing import Any

import numpy as np
from numba import njit, uint64

from holdfast.tables.arrays import Codes, HashTable, Ints

EMPTY, GONE = -1, -2
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def place_kernel(row: Codes, columns: Ints, places: int) -> Any:
    """Return the first place, of a power of two, where a row may be by the codes of some columns."""
    mixed = uint64(0)
    for k in range(len(columns)):
        mixed = (mixed ^ uint64(row[columns[k]])) * _MULTIPLIER
        mixed ^= mixed >> uint64(29)
    return np.int64(mixed & uint64(places - 1))


@njit(cache=True, nogil=True)
def same_kernel(row: Codes, other: Codes, columns: Ints) -> bool:
    """Whether two rows have the same codes in some columns."""
    same = True
    for k in range(len(columns)):
        same &= row[columns[k]] == other[columns[k]]
    return same


@njit(cache=True, nogil=True)
def find_kernel(codes: Codes, columns: Codes, table: HashTable, wanted: Codes, out: Ints) -> None:
    """Fill `out` with the number of each wanted row, -1 where it is not held."""
    for i in range(len(wanted)):
        place = place_kernel(wanted[i], columns, len(table))
        out[i] = -1
        while table[place] != EMPTY:
            slot = table[place]
            if slot >= 0 and same_kernel(codes[slot], wanted[i], columns):
                out[i] = slot
                break
            place = (place + 1) & (len(table) - 1)


@njit(cache=True, nogil=True)
def insert_kernel(codes: Codes, columns: Codes, table: HashTable, slots: Ints) -> None:
    """Insert rows that are not held."""
    for i in range(len(slots)):
        place = place_kernel(codes[slots[i]], columns, len(table))
        while table[place] >= 0:
            place = (place + 1) & (len(table) - 1)
        table[place] = slots[i]


@njit(cache=True, nogil=True)
def remove_kernel(codes: Codes, columns: Codes, table: HashTable, slots: Ints) -> None:
    """Remove rows that are held."""
    for i in range(len(slots)):
        place = place_kernel(codes[slots[i]], columns, len(table))
        while table[place] != slots[i]:
            place = (place + 1) & (len(table) - 1)
        table[place] = GONE


@njit(cache=True, nogil=True)
def first_kernel(codes: Codes, columns: Codes, table: HashTable, out: Ints) -> None:
    """Fill `out` with the position of the first row that has the same codes as each row in some columns."""
    for i in range(len(codes)):
        place = place_kernel(codes[i], columns, len(table))
        while True:
            other = table[place]
            if other == EMPTY:
                table[place] = i
                out[i] = i
                break
            if same_kernel(codes[other], codes[i], columns):
                out[i] = other
                break
            place = (place + 1) & (len(table) - 1)


@njit(cache=True, nogil=True)
def number_kernel(
    codes: Codes, slots: Ints, column: int, values: Codes, numbers: HashTable, known: int, out: HashTable
) -> int:
    """Fill `out[slot]` with the number of each row's value in a column, new values from `known` on; return the count.

    `values` (T,) and `numbers` (T,), EMPTY where free, are a hash table; at most half of it is used.
    """
    for i in range(len(slots)):
        value = codes[slots[i], column]
        mixed = uint64(value) * _MULTIPLIER
        mixed ^= mixed >> uint64(29)
        place = np.int64(mixed & uint64(len(values) - 1))
        while numbers[place] != EMPTY and values[place] != value:
            place = (place + 1) & (len(values) - 1)
        if numbers[place] == EMPTY:
            values[place], numbers[place] = value, known
            known += 1
        out[slots[i]] = numbers[place]
    return known
