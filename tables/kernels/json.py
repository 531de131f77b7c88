r"""JSON records in a buffer of bytes: where the fields of each one are, and what they say.

    buffer           (b,)   uint8   all records, one after another or apart
    starts, ends     (n,)   int64   the bytes of each record; a record that is not there starts at -1
    kinds            (f, n) uint8   of each wanted field in each record; ABSENT to begin with
    begins, stops    (f, n) int64   its bytes: of a string what is between the quotes, else the whole text; of what is
                                    ABSENT or NULL nothing that counts

A record is read to its end whatever is wanted of it (RFC 8259, UTF-8 included), so what is found was valid. All
positions are places in `buffer`; they fit 64 bits, and nothing is computed that could overflow.

    {"a": "x\n", "b": 1.10}        a: ESCAPED  x\n        b: NUMBER  1.10
"""

from typing import Any

import numpy as np
from numba import njit

from holdfast.tables.arrays import Bytes, Flags, Positions

ABSENT, NULL, STRING, ESCAPED, NUMBER, TRUE, FALSE, OBJECT, ARRAY = range(9)

OK = 0
MISSING, EMPTY, MARKED, BINARY, NOT_AN_OBJECT = range(1, 6)
NO_VALUE, NO_NAME, NO_COLON, NO_COMMA, TRAILING = range(6, 11)
CONTROL, NO_ESCAPE, HALF_PAIR, NOT_UTF8, NO_NUMBER, TOO_DEEP, CUT = range(11, 18)

UNKNOWN = -1
"""Instead of a wanted field's number, for a name that is not wanted."""


@njit(cache=True, nogil=True)
def place_kernel(names: Bytes, bounds: Positions, table: Positions) -> None:
    """Put names, `names[bounds[f]:bounds[f + 1]]`, into a hash table of a power of two places, UNKNOWN where free."""
    for f in range(len(bounds) - 1):
        place = _hash(names, bounds[f], bounds[f + 1]) & (len(table) - 1)
        while table[place] != UNKNOWN:
            place = (place + 1) & (len(table) - 1)
        table[place] = f


@njit(cache=True, nogil=True)
def fields_kernel(
    buffer: Bytes,
    starts: Positions,
    ends: Positions,
    names: Bytes,
    bounds: Positions,
    table: Positions,
    repeating: Flags,
    stack: Bytes,
    scratch: Bytes,
    seen: Positions,
    last: Positions,
    kinds: Bytes,
    begins: Positions,
    stops: Positions,
    wholes: Bytes,
    whole_begins: Positions,
    whole_stops: Positions,
    counts: Positions,
    status: Bytes,
    where: Positions,
) -> None:
    """Find the wanted fields of each record; O(bytes).

    Names stand where they stood in the record before more often than not: `seen` (k, 3) has their bytes and field by
    position. Objects of `repeating` fields mostly have the same bytes as in the record before, `last` (f, 2), and are
    then as valid. `stack` bounds the depth, `scratch` holds a name without its escapes. `wholes` and its places say
    what a record is as a whole, `counts` how many fields it has; `status` is OK or why not, and `where`.
    """
    seen[:, 2] = -2
    last[:, 0] = -1
    for r in range(len(starts)):
        start, end = starts[r], ends[r]
        wholes[r] = ABSENT
        counts[r] = 0
        where[r] = start
        if start < 0:
            status[r] = MISSING
            continue
        i = _skip(buffer, start, end)
        if i >= end:
            status[r] = EMPTY
            continue
        if buffer[i] == 0 and i == start:
            status[r] = BINARY
            continue
        if buffer[i] == 0xEF and end - i > 2 and buffer[i + 1] == 0xBB and buffer[i + 2] == 0xBF:
            status[r] = MARKED
            continue
        if buffer[i] == 123:
            whole_begins[r] = i
            i, code = _members(
                buffer, i + 1, end, names, bounds, table, repeating, stack, scratch, seen, last, kinds, begins, stops,
                counts, r,
            )  # fmt: skip
            wholes[r] = OBJECT
            whole_stops[r] = i
        else:
            kind, begin, stop, i, code = _value(buffer, i, end, stack)
            wholes[r] = kind
            whole_begins[r] = begin
            whole_stops[r] = stop
        if code == OK:
            i = _skip(buffer, i, end)
            if i < end:
                code = TRAILING
            elif wholes[r] != OBJECT:
                code = NOT_AN_OBJECT
        status[r] = code
        where[r] = i
        if code != OK and wholes[r] == OBJECT:
            for f in range(len(kinds)):
                kinds[f, r] = ABSENT
        if code not in (OK, NOT_AN_OBJECT):
            wholes[r] = ABSENT


@njit(cache=True, nogil=True)
def _members(  # noqa: PLR0915 (one walk over an object; parts of it would have to hand back six values)
    buffer: Bytes,
    i: int,
    end: int,
    names: Bytes,
    bounds: Positions,
    table: Positions,
    repeating: Flags,
    stack: Bytes,
    scratch: Bytes,
    seen: Positions,
    last: Positions,
    kinds: Bytes,
    begins: Positions,
    stops: Positions,
    counts: Positions,
    r: int,
) -> Any:
    """Read an object behind its brace; return the place behind it and OK, or the place and kind of an error."""
    position = 0
    i = _skip(buffer, i, end)
    if i < end and buffer[i] == 125:
        return i + 1, OK
    while True:
        if i >= end:
            return end, CUT
        if buffer[i] != 34:
            return i, NO_NAME
        i += 1
        field = UNKNOWN
        known = False
        if position < len(seen) and seen[position, 2] > -2:
            begin, length = seen[position, 0], seen[position, 1]
            known = i + length < end
            j = 0
            while known and j <= length:  # the quote behind it included
                known = buffer[i + j] == buffer[begin + j]
                j += 1
            if known:
                field = seen[position, 2]
                i += length + 1
        if not known:
            begin = i
            i, code, escaped = _string(buffer, i, end)
            if code != OK:
                return i, code
            if escaped:
                length = _unescaped(buffer, begin, i, scratch, 0)
                field = UNKNOWN if length < 0 else _field(scratch, 0, length, names, bounds, table)
            else:
                field = _field(buffer, begin, i, names, bounds, table)
            if position < len(seen):
                seen[position, 0] = begin
                seen[position, 1] = i - begin
                seen[position, 2] = field
            i += 1
        i = _skip(buffer, i, end)
        if i >= end:
            return end, CUT
        if buffer[i] != 58:
            return i, NO_COLON
        i = _skip(buffer, i + 1, end)
        if (
            field >= 0
            and repeating[field]
            and last[field, 0] >= 0
            and _same(buffer, i, end, last[field, 0], last[field, 1])
        ):
            kind, begin, stop, code = OBJECT, i, i + last[field, 1] - last[field, 0], OK
            i = stop
        else:
            kind, begin, stop, i, code = _value(buffer, i, end, stack)
        if code != OK:
            return i, code
        if field >= 0:
            kinds[field, r] = kind
            begins[field, r] = begin
            stops[field, r] = stop
            if kind == OBJECT and repeating[field]:
                last[field, 0] = begin
                last[field, 1] = stop
        position += 1
        counts[r] = position
        i = _skip(buffer, i, end)
        if i >= end:
            return end, CUT
        if buffer[i] == 125:
            return i + 1, OK
        if buffer[i] != 44:
            return i, NO_COMMA
        i = _skip(buffer, i + 1, end)


@njit(cache=True, nogil=True)
def room_kernel(kinds: Bytes, begins: Positions, stops: Positions) -> Any:
    """Return how many bytes the texts of a field have, escapes included."""
    room = np.int64(0)
    for r in range(len(kinds)):
        room += stops[r] - begins[r] if kinds[r] > NULL else 0
    return room


@njit(cache=True, nogil=True)
def texts_kernel(
    buffer: Bytes, kinds: Bytes, begins: Positions, stops: Positions, values: Bytes, offsets: Positions, valid: Bytes
) -> Any:
    """Write the texts of one field in Arrow's layout; return how many bytes they have.

    `values` has room for all spans (a text without its escapes is shorter), `offsets` one place more than there are
    records, `valid` a bit for each, all 0. Nulls have no text.
    """
    at = 0
    offsets[0] = 0
    for r in range(len(kinds)):
        kind = kinds[r]
        if kind > NULL:
            valid[r >> 3] |= np.uint8(1 << (r & 7))
            if kind == ESCAPED:
                at = _unescaped(buffer, begins[r], stops[r], values, at)
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
    """Fill `out` with the first cell that has the same bytes as each one of the wanted kind, -1 for the others.

    `known` (k,) holds as many distinct ones; those beyond are compared with these alone. O(bytes) where most are as the
    one before.
    """
    count, latest = 0, 0
    for r in range(len(kinds)):
        out[r] = -1
        if kinds[r] != wanted:
            continue
        for tried in range(count):
            at = (latest + tried) % count
            first = known[at]
            if stops[first] - begins[first] == stops[r] - begins[r] and _same(
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
    """Say which strings (those without escapes) are a text."""
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
    """Read whole numbers within 64 bits, written without point and exponent; `good` says which ones are."""
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
def _field(text: Bytes, begin: int, stop: int, names: Bytes, bounds: Positions, table: Positions) -> Any:
    place = _hash(text, begin, stop) & (len(table) - 1)
    while table[place] != UNKNOWN:
        f = table[place]
        if bounds[f + 1] - bounds[f] == stop - begin:
            same = True
            for j in range(stop - begin):
                if names[bounds[f] + j] != text[begin + j]:
                    same = False
                    break
            if same:
                return f
        place = (place + 1) & (len(table) - 1)
    return np.int64(UNKNOWN)


@njit(cache=True, nogil=True)
def _hash(text: Bytes, begin: int, stop: int) -> Any:
    mixed = np.int64(stop - begin)
    for j in range(begin, stop):
        mixed = ((mixed << 5) ^ (mixed >> 22) ^ np.int64(text[j])) & 0x7FF_FFFF  # 27 bits: shifted by 5 they stay 32
    return mixed ^ (mixed >> 13)


@njit(cache=True, nogil=True)
def _same(buffer: Bytes, i: int, end: int, begin: int, stop: int) -> Any:
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
def _skip(buffer: Bytes, i: int, end: int) -> Any:
    """Return the place of what follows white space."""
    while i < end and buffer[i] <= 32 and (buffer[i] == 32 or buffer[i] == 10 or buffer[i] == 13 or buffer[i] == 9):
        i += 1
    return i


@njit(cache=True, nogil=True)
def _value(buffer: Bytes, i: int, end: int, stack: Bytes) -> Any:
    """Read one value: its kind, its bytes, the place behind it (or of an error), OK or what is wrong."""
    if i >= end:
        return ABSENT, i, i, end, CUT
    first = buffer[i]
    if first == 34:
        stop, code, escaped = _string(buffer, i + 1, end)
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
    """Return the place behind true, false or null, or -1."""
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
    """Read a number: the place behind it and OK, or the place where it should go on otherwise."""
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
def _string(buffer: Bytes, i: int, end: int) -> Any:
    """Read a string behind its quote: the place of the other one, OK, and whether something is escaped."""
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
            width = _sequence(buffer, i, end)
            if width == 0:
                return i, NOT_UTF8, escaped
            i += width
    return end, CUT, escaped


@njit(cache=True, nogil=True)
def _sequence(buffer: Bytes, i: int, end: int) -> Any:
    """Return how many bytes a character beyond ASCII has, 0 where it is none (Unicode 15, table 3-7)."""
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
    """Return how many bytes an escape (or a pair of them) has, and OK or what is wrong with it."""
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
    """Return what an escape by one letter stands for, 0 where there is none."""
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
    """Return the UTF-16 unit of an escape, -1 where there is none."""
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
def _unescaped(buffer: Bytes, i: int, stop: int, out: Bytes, at: int) -> Any:
    """Write a valid string without its escapes; return the place behind it, -1 where there is no room."""
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


_NAME_OR_END, _NAME, _VALUE_OR_END, _VALUE, _COMMA_OR_END = range(5)


@njit(cache=True, nogil=True)
def _container(buffer: Bytes, i: int, end: int, stack: Bytes) -> Any:
    """Read an object or array: the place behind it and OK, or the place and kind of an error."""
    depth = 0
    stack[0] = buffer[i]
    expected = _NAME_OR_END if buffer[i] == 123 else _VALUE_OR_END
    i += 1
    while True:
        i = _skip(buffer, i, end)
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
            i, code, _ = _string(buffer, i + 1, end)
            if code != OK:
                return i, code
            i = _skip(buffer, i + 1, end)
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
                i, code, _ = _string(buffer, i + 1, end)
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


@njit(cache=True, nogil=True)
def utf8_kernel(buffer: Bytes, starts: Positions, ends: Positions, good: Flags) -> None:
    """Say which records are UTF-8, whatever else they are."""
    for r in range(len(starts)):
        i, end = starts[r], ends[r]
        good[r] = i >= 0
        while good[r] and i < end:
            width = 1 if buffer[i] < 128 else _sequence(buffer, i, end)
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
    """Say which cells are written the same in two columns."""
    for r in range(len(kinds)):
        out[r] = kinds[r] == other_kinds[r]
        if out[r] and kinds[r] > NULL:
            out[r] = stops[r] - begins[r] == other_stops[r] - other_begins[r] and _same(
                buffer, begins[r], stops[r], other_begins[r], other_stops[r]
            )
