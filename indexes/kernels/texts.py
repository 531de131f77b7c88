"""A hash table of texts by their bytes.

Texts to look up or insert are in an array of their own: text i is `given[bounds[i] : bounds[i + 1]]`. At most half of
the places are used, so every search ends. Texts are not removed: to forget texts the table is rebuilt.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, uint64

from holdfast.tables.arrays import Bytes, HashTable, Ints

EMPTY, FREE = -1, -1
_OFFSET = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class TextTable(NamedTuple):
    """Texts with codes.

    Parameters
    ----------
    data : the bytes of texts, one after the other.
    start, size : where the text of each code begins in `data`, and its number of bytes; FREE where there is none.
    table : codes, a power of two places; EMPTY where free.
    """

    data: Bytes
    start: Ints
    size: Ints
    table: HashTable


@njit(cache=True, nogil=True)
def _place(given: Bytes, low: int, high: int, places: int) -> Any:
    mixed = uint64(_OFFSET)
    for i in range(low, high):
        mixed = (mixed ^ uint64(given[i])) * _PRIME
    mixed *= _MULTIPLIER
    return np.int64((mixed >> uint64(32)) & uint64(places - 1))


@njit(cache=True, nogil=True)
def _same(given: Bytes, low: int, high: int, data: Bytes, start: int, size: int) -> bool:
    i = 0 if high - low == size else size + 1
    while i < size and given[low + i] == data[start + i]:
        i += 1
    return i == size


@njit(cache=True, nogil=True)
def find_texts_kernel(given: Bytes, bounds: Ints, texts: TextTable, out: Ints) -> None:
    """Fill `out` with the code of each given text, -1 where it is not held."""
    data, start, size, table = texts
    for i in range(len(out)):
        low, high = bounds[i], bounds[i + 1]
        place = _place(given, low, high, len(table))
        while table[place] != EMPTY and not _same(given, low, high, data, start[table[place]], size[table[place]]):
            place = (place + 1) & (len(table) - 1)
        out[i] = table[place]


@njit(cache=True, nogil=True)
def put_texts_kernel(
    given: Bytes, bounds: Ints, numbers: Ints, codes: Ints, end: int, texts: TextTable, out: Ints
) -> int:
    """Insert given texts that are not held, from `end` on in `data`; return how many of `codes` they took.

    `out` gets the code of each; a text that is listed twice has one code.
    """
    data, start, size, table = texts
    taken = 0
    for n in range(len(numbers)):
        low, high = bounds[numbers[n]], bounds[numbers[n] + 1]
        place = _place(given, low, high, len(table))
        while table[place] != EMPTY and not _same(given, low, high, data, start[table[place]], size[table[place]]):
            place = (place + 1) & (len(table) - 1)
        if table[place] == EMPTY:
            code = codes[taken]
            taken += 1
            start[code], size[code] = end, high - low
            data[end : end + high - low] = given[low:high]
            end += high - low
            table[place] = code
        out[n] = table[place]
    return taken


@njit(cache=True, nogil=True)
def hash_texts_kernel(codes: Ints, texts: TextTable) -> None:
    """Insert the texts of codes, all different, into an empty hash table."""
    data, start, size, table = texts
    for n in range(len(codes)):
        code = codes[n]
        place = _place(data, start[code], start[code] + size[code], len(table))
        while table[place] != EMPTY:
            place = (place + 1) & (len(table) - 1)
        table[place] = code


@njit(cache=True, nogil=True)
def gather_texts_kernel(data: Bytes, start: Ints, size: Ints, codes: Ints, out: Bytes) -> None:
    """Fill `out` with the texts of codes, one after the other."""
    end = 0
    for n in range(len(codes)):
        low, many = start[codes[n]], size[codes[n]]
        out[end : end + many] = data[low : low + many]
        end += many
