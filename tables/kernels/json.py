"""The syntax of JSON (RFC 8259, UTF-8 included): where a value in a buffer of bytes ends, and what kind it is.

All positions are positions in the buffer; they fit 64 bits, and nothing is computed that could overflow.
"""

from typing import Any

import numpy as np
from numba import njit

from holdfast.tables.arrays import Bytes

ABSENT, NULL, STRING, ESCAPED, NUMBER, TRUE, FALSE, OBJECT, ARRAY = range(9)
"""Kinds of values; a string with escapes is ESCAPED."""

OK = 0
MISSING, EMPTY, MARKED, BINARY, NOT_AN_OBJECT = range(1, 6)
NO_VALUE, NO_NAME, NO_COLON, NO_COMMA, TRAILING = range(6, 11)
CONTROL, NO_ESCAPE, HALF_PAIR, NOT_UTF8, NO_NUMBER, TOO_DEEP, CUT = range(11, 18)
"""The state of a record: OK, or the error in it."""

_NAME_OR_END, _NAME, _VALUE_OR_END, _VALUE, _COMMA_OR_END = range(5)


@njit(cache=True, nogil=True)
def skip_space(buffer: Bytes, i: int, end: int) -> Any:
    """Return the position after white space."""
    while i < end and buffer[i] <= 32 and (buffer[i] == 32 or buffer[i] == 10 or buffer[i] == 13 or buffer[i] == 9):
        i += 1
    return i


@njit(cache=True, nogil=True)
def same_bytes(buffer: Bytes, i: int, end: int, begin: int, stop: int) -> Any:
    """Whether the bytes at `i` are those of `begin` to `stop`: 64 at a time, which compiles to wide instructions."""
    length = stop - begin
    if end - i < length:
        return False
    j = 0
    while j + 64 <= length:
        different = np.uint8(0)
        for k in range(64):
            different |= buffer[i + j + k] ^ buffer[begin + j + k]
        if different:
            return False
        j += 64
    while j < length:
        if buffer[i + j] != buffer[begin + j]:
            return False
        j += 1
    return True


@njit(cache=True, nogil=True)
def read_value(buffer: Bytes, i: int, end: int, stack: Bytes) -> Any:
    """Read a value: its kind, its bytes, the position behind it (or of an error), and OK or the error."""
    if i >= end:
        return ABSENT, i, i, end, CUT
    first = buffer[i]
    if first == 34:
        stop, code, escaped = read_string(buffer, i + 1, end)
        if code != OK:
            return ABSENT, i, i, stop, code
        return ESCAPED if escaped else STRING, i + 1, stop, stop + 1, OK
    if first in (123, 91):
        stop, code = _container(buffer, i, end, stack)
        return OBJECT if first == 123 else ARRAY, i, stop, stop, code
    if first == 45 or 48 <= first <= 57:
        stop, code = _number(buffer, i, end)
        return NUMBER, i, stop, stop, code
    stop = _literal(buffer, i, end)
    if stop < 0:
        return ABSENT, i, i, i, NO_VALUE
    return (TRUE if first == 116 else FALSE if first == 102 else NULL), i, stop, stop, OK


@njit(cache=True, nogil=True)
def _literal(buffer: Bytes, i: int, end: int) -> Any:
    """Return the position behind true, false or null, or -1."""
    if end - i < 4:
        return -1
    a, b, c, d = buffer[i], buffer[i + 1], buffer[i + 2], buffer[i + 3]
    if (a == 116 and b == 114 and c == 117 and d == 101) or (a == 110 and b == 117 and c == 108 and d == 108):
        return i + 4
    if a == 102 and b == 97 and c == 108 and d == 115 and end - i > 4 and buffer[i + 4] == 101:
        return i + 5
    return -1


@njit(cache=True, nogil=True)
def _number(buffer: Bytes, i: int, end: int) -> Any:
    """Read a number: the position behind it and OK, or the position and kind of an error."""
    if buffer[i] == 45:
        i += 1
    if i < end and buffer[i] == 48:
        i += 1
    else:
        i, digits = _digits(buffer, i, end)
        if not digits:
            return i, NO_NUMBER
    if i < end and buffer[i] == 46:
        i, digits = _digits(buffer, i + 1, end)
        if not digits:
            return i, NO_NUMBER
    if i < end and (buffer[i] == 101 or buffer[i] == 69):
        i += 1
        if i < end and (buffer[i] == 43 or buffer[i] == 45):
            i += 1
        i, digits = _digits(buffer, i, end)
        if not digits:
            return i, NO_NUMBER
    if i < end and 48 <= buffer[i] <= 57:  # 01907
        return i, NO_NUMBER
    return i, OK


@njit(cache=True, nogil=True)
def _digits(buffer: Bytes, i: int, end: int) -> Any:
    first = i
    while i < end and 48 <= buffer[i] <= 57:
        i += 1
    return i, i > first


@njit(cache=True, nogil=True)
def read_string(buffer: Bytes, i: int, end: int) -> Any:
    """Read a string behind its quote: the position of the closing quote, OK or an error, and whether it has escapes."""
    escaped = False
    while i < end:
        byte = buffer[i]
        if 35 <= byte < 92 or 93 <= byte < 128:  # most
            i += 1
        elif byte == 34:
            return i, OK, escaped
        elif byte == 92:
            escaped = True
            width, code = _escape(buffer, i, end)
            if code != OK:
                return i, code, escaped
            i += width
        elif byte < 32:
            return i, CONTROL, escaped
        elif byte < 128:
            i += 1
        else:
            width = character_width(buffer, i, end)
            if width == 0:
                return i, NOT_UTF8, escaped
            i += width
    return end, CUT, escaped


@njit(cache=True, nogil=True)
def character_width(buffer: Bytes, i: int, end: int) -> Any:
    """Return the number of bytes of a character beyond ASCII, 0 for invalid bytes (Unicode 15, table 3-7)."""
    first = buffer[i]
    if 0xC2 <= first <= 0xDF:
        width, low, high = 2, 0x80, 0xBF
    elif 0xE0 <= first <= 0xEF:
        width, low, high = 3, 0xA0 if first == 0xE0 else 0x80, 0x9F if first == 0xED else 0xBF
    elif 0xF0 <= first <= 0xF4:
        width, low, high = 4, 0x90 if first == 0xF0 else 0x80, 0x8F if first == 0xF4 else 0xBF
    else:
        return 0
    if end - i < width or not low <= buffer[i + 1] <= high:
        return 0
    for j in range(2, width):
        if not 0x80 <= buffer[i + j] <= 0xBF:
            return 0
    return width


@njit(cache=True, nogil=True)
def _escape(buffer: Bytes, i: int, end: int) -> Any:
    """Return the number of bytes of an escape, or of a pair of surrogates, and OK or the error."""
    if end - i < 2:
        return 0, CUT
    letter = buffer[i + 1]
    if letter != 117:
        return 2, OK if _plain(letter) else NO_ESCAPE
    unit = _unit(buffer, i, end)
    if unit < 0:
        return 0, NO_ESCAPE
    if unit < 0xD800 or unit > 0xDFFF:
        return 6, OK
    if unit < 0xDC00 and 0xDC00 <= _unit(buffer, i + 6, end) <= 0xDFFF:
        return 12, OK
    return 0, HALF_PAIR


@njit(cache=True, nogil=True)
def _plain(letter: int) -> Any:
    """Return the character of an escape by one letter, 0 for other letters."""
    if letter in (34, 92, 47):
        return np.int64(letter)
    if letter == 110:
        return np.int64(10)
    if letter == 116:
        return np.int64(9)
    if letter == 114:
        return np.int64(13)
    if letter == 98:
        return np.int64(8)
    return np.int64(12 if letter == 102 else 0)


@njit(cache=True, nogil=True)
def _unit(buffer: Bytes, i: int, end: int) -> Any:
    """Return the UTF-16 unit of an escape, -1 where there is no such escape."""
    if end - i < 6 or buffer[i] != 92 or buffer[i + 1] != 117:
        return np.int64(-1)
    unit = np.int64(0)
    for j in range(i + 2, i + 6):
        digit = np.int64(buffer[j])
        if 48 <= digit <= 57:
            digit -= 48
        elif 97 <= digit <= 102:
            digit -= 87
        elif 65 <= digit <= 70:
            digit -= 55
        else:
            return np.int64(-1)
        unit = unit * 16 + digit
    return unit


@njit(cache=True, nogil=True)
def unescape(buffer: Bytes, i: int, stop: int, out: Bytes, at: int) -> Any:
    """Write a valid string without its escapes; return the position behind it in `out`, -1 without room."""
    while i < stop:
        if len(out) - at < 4 and len(out) - at < stop - i:
            return -1
        byte = np.int64(buffer[i])
        if byte != 92:
            out[at] = byte
            i += 1
            at += 1
            continue
        letter = buffer[i + 1]
        if letter != 117:
            out[at] = _plain(letter)
            i += 2
            at += 1
            continue
        point = _unit(buffer, i, stop)
        i += 6
        if point >= 0xD800 and point <= 0xDFFF:
            point = 0x10000 + ((point - 0xD800) << 10) + (_unit(buffer, i, stop) - 0xDC00)
            i += 6
        if point < 0x80:
            out[at] = point
            at += 1
            continue
        tail = 1 if point < 0x800 else 2 if point < 0x10000 else 3
        out[at] = (0xC0 if tail == 1 else 0xE0 if tail == 2 else 0xF0) | (point >> (6 * tail))
        for j in range(tail):
            out[at + 1 + j] = 0x80 | ((point >> (6 * (tail - 1 - j))) & 0x3F)
        at += 1 + tail
    return at


@njit(cache=True, nogil=True)
def _container(buffer: Bytes, i: int, end: int, stack: Bytes) -> Any:
    """Read an object or array: the position behind it and OK, or the position and kind of an error."""
    depth = 0
    stack[0] = buffer[i]
    expected = _NAME_OR_END if buffer[i] == 123 else _VALUE_OR_END
    i += 1
    while True:
        i = skip_space(buffer, i, end)
        if i >= end:
            return end, CUT
        byte = buffer[i]
        if expected not in (_NAME, _VALUE) and byte == stack[depth] + 2:  # } and ] follow { and [ by 2
            i += 1
            if depth == 0:
                return i, OK
            depth -= 1
            expected = _COMMA_OR_END
        elif expected == _COMMA_OR_END:
            if byte != 44:
                return i, NO_COMMA
            expected = _NAME if stack[depth] == 123 else _VALUE
            i += 1
        elif expected <= _NAME:
            if byte != 34:
                return i, NO_NAME
            i, code, _ = read_string(buffer, i + 1, end)
            if code != OK:
                return i, code
            i = skip_space(buffer, i + 1, end)
            if i >= end:
                return end, CUT
            if buffer[i] != 58:
                return i, NO_COLON
            i += 1
            expected = _VALUE
        elif byte in (123, 91):
            depth += 1
            if depth == len(stack):
                return i, TOO_DEEP
            stack[depth] = byte
            expected = _NAME_OR_END if byte == 123 else _VALUE_OR_END
            i += 1
        else:
            if byte == 34:
                i, code, _ = read_string(buffer, i + 1, end)
                i += 1
            elif byte == 45 or 48 <= byte <= 57:
                i, code = _number(buffer, i, end)
            else:
                stop = _literal(buffer, i, end)
                if stop < 0:
                    return i, NO_VALUE
                i, code = stop, OK
            if code != OK:
                return i - (byte == 34), code
            expected = _COMMA_OR_END
