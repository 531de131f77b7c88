"""Loops over the values of one JSON field in many records.

buffer         (b,) uint8   the bytes of all records
kinds          (n,) uint8   the kind of each value (`json.py`)
begins, stops  (n,) int64   its bytes: of a string the bytes between the quotes; anything where it is ABSENT or NULL
"""

from typing import Any

import numpy as np
from numba import njit

from holdfast.tables.arrays import Bytes, Flags, Positions
from holdfast.tables.kernels.json import ESCAPED, NULL, NUMBER, STRING, character_width, same_bytes, unescape


@njit(cache=True, nogil=True)
def room_kernel(kinds: Bytes, begins: Positions, stops: Positions) -> Any:
    """Return the number of bytes of the texts of a field, escapes included."""
    room = np.int64(0)
    for r in range(len(kinds)):
        room += stops[r] - begins[r] if kinds[r] > NULL else 0
    return room


@njit(cache=True, nogil=True)
def texts_kernel(
    buffer: Bytes, kinds: Bytes, begins: Positions, stops: Positions, values: Bytes, offsets: Positions, valid: Bytes
) -> Any:
    """Write the texts of one field in Arrow's layout; return their number of bytes.

    `values` has room for all spans (a text without its escapes is shorter), `offsets` one element more than there are
    records, `valid` a bit for each record, all 0. Nulls have no text.
    """
    at = 0
    offsets[0] = 0
    for r in range(len(kinds)):
        kind = kinds[r]
        if kind > NULL:
            valid[r >> 3] |= np.uint8(1 << (r & 7))
            if kind == ESCAPED:
                at = unescape(buffer, begins[r], stops[r], values, at)
            else:
                begin = begins[r]
                length = stops[r] - begin
                for j in range(length):
                    values[at + j] = buffer[begin + j]
                at += length
        offsets[r + 1] = at
    return at


@njit(cache=True, nogil=True)
def firsts_kernel(
    buffer: Bytes, kinds: Bytes, begins: Positions, stops: Positions, wanted: int, known: Positions, out: Positions
) -> None:
    """Fill `out` with the first cell that has the same bytes as each cell of the wanted kind, -1 for other cells.

    `known` (k,) has room for k distinct cells; further cells are compared with these alone. O(bytes) where most cells
    equal the cell before.
    """
    count, latest = 0, 0
    for r in range(len(kinds)):
        out[r] = -1
        if kinds[r] != wanted:
            continue
        for tried in range(count):
            at = (latest + tried) % count
            first = known[at]
            if stops[first] - begins[first] == stops[r] - begins[r] and same_bytes(
                buffer, begins[r], stops[r], begins[first], stops[first]
            ):
                out[r] = first
                latest = at
                break
        if out[r] < 0:
            out[r] = r
            if count < len(known):
                known[count] = r
                latest = count
                count += 1


@njit(cache=True, nogil=True)
def equals_kernel(buffer: Bytes, kinds: Bytes, begins: Positions, stops: Positions, text: Bytes, out: Flags) -> None:
    """Write which strings (without escapes) equal a text."""
    for r in range(len(kinds)):
        same = kinds[r] == STRING and stops[r] - begins[r] == len(text)
        j = 0
        while same and j < len(text):
            same = buffer[begins[r] + j] == text[j]
            j += 1
        out[r] = same


@njit(cache=True, nogil=True)
def integers_kernel(
    buffer: Bytes, kinds: Bytes, begins: Positions, stops: Positions, out: Positions, good: Flags
) -> None:
    """Read whole numbers within 64 bits, written without point and exponent; `good` flags them."""
    for r in range(len(kinds)):
        out[r] = 0
        good[r] = False
        if kinds[r] != NUMBER:
            continue
        i, stop = begins[r], stops[r]
        negative = buffer[i] == 45
        if negative:
            i += 1
        whole = stop - i <= 19
        value = np.int64(0)  # negative: these reach further
        while whole and i < stop:
            digit = np.int64(buffer[i]) - 48
            whole = 0 <= digit <= 9 and (value > -922337203685477580 or (value == -922337203685477580 and digit <= 8))
            if whole:
                value = value * 10 - digit
            i += 1
        if whole and not negative and value == -9223372036854775807 - 1:
            whole = False
        if whole:
            out[r] = value if negative else -value
            good[r] = True


@njit(cache=True, nogil=True)
def utf8_kernel(buffer: Bytes, starts: Positions, ends: Positions, good: Flags) -> None:
    """Write which records are UTF-8."""
    for r in range(len(starts)):
        i, end = starts[r], ends[r]
        good[r] = i >= 0
        while good[r] and i < end:
            width = 1 if buffer[i] < 128 else character_width(buffer, i, end)
            good[r] = width > 0
            i += width


@njit(cache=True, nogil=True)
def same_kernel(
    buffer: Bytes,
    kinds: Bytes,
    begins: Positions,
    stops: Positions,
    other_kinds: Bytes,
    other_begins: Positions,
    other_stops: Positions,
    out: Flags,
) -> None:
    """Write which cells have the same text in two columns."""
    for r in range(len(kinds)):
        out[r] = kinds[r] == other_kinds[r]
        if out[r] and kinds[r] > NULL:
            out[r] = stops[r] - begins[r] == other_stops[r] - other_begins[r] and same_bytes(
                buffer, begins[r], stops[r], other_begins[r], other_stops[r]
            )
