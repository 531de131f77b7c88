r"""The fields of JSON records in a buffer of bytes: where they are, and what kinds of values they have.

A record is read to its end whatever fields are wanted, so that the fields found are those of valid JSON.

    {"a": "x\\n", "b": 1.10}        a: ESCAPED  x\\n        b: NUMBER  1.10
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from holdfast.tables.arrays import Bytes, Flags, Ints, Positions
from holdfast.tables.kernels.json import (
    ABSENT,
    BINARY,
    CUT,
    EMPTY,
    MARKED,
    MISSING,
    NO_COLON,
    NO_COMMA,
    NO_NAME,
    NOT_AN_OBJECT,
    OBJECT,
    OK,
    TRAILING,
    read_string,
    read_value,
    same_bytes,
    skip_space,
    unescape,
)

UNKNOWN = -1
"""The number of a name that is no wanted field."""


class WantedFields(NamedTuple):
    """The f wanted fields.

    Parameters
    ----------
    names, bounds : the bytes of all names, and (f + 1,) where the name of each field begins.
    table : a hash table of field numbers, of a power of two places, UNKNOWN where free.
    repeating : (f,) whether the field's objects mostly have the same bytes as in the record before.
    """

    names: Bytes
    bounds: Positions
    table: Positions
    repeating: Flags


class ReadScratch(NamedTuple):
    """Room for reading, and what the record before had.

    Records mostly are written alike.

    Parameters
    ----------
    stack : bounds the depth of objects and arrays.
    name : for a name without its escapes.
    seen : (k, 3) by position in a record, where the name there began in the record before, its length, and the number
        of its field; names mostly are at the same position in all records.
    last : (f, 2) for each repeating field, where the object in the record before begins and stops; an object with the
        same bytes is as valid.
    """

    stack: Bytes
    name: Bytes
    seen: Positions
    last: Positions


class Values(NamedTuple):
    """Values of records, of f fields (f, n) or of the records as wholes (n,).

    Parameters
    ----------
    kinds : the kind of each value, ABSENT to begin with.
    begins, stops : its bytes: of a string the bytes between the quotes; undefined where it is ABSENT or NULL.
    """

    kinds: Bytes
    begins: Positions
    stops: Positions


class States(NamedTuple):
    """The states of n records.

    Parameters
    ----------
    counts : the number of fields of each record.
    status : OK, or the error in the record.
    where : the position of the error.
    """

    counts: Ints
    status: Bytes
    where: Positions


@njit(cache=True, nogil=True)
def place_kernel(names: Bytes, bounds: Positions, table: Positions) -> None:
    """Insert the numbers of fields into an empty hash table, by their names."""
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
    wanted: WantedFields,
    scratch: ReadScratch,
    fields: Values,
    wholes: Values,
    states: States,
) -> None:
    """Find the wanted fields of each record; O(bytes).

    Parameters
    ----------
    starts, ends : (n,) the bytes of each record in the buffer; a missing record starts at -1.
    fields, wholes, states : the results; `wholes` has each record as one value.
    """
    counts, status, where = states
    whole_kinds, whole_begins, whole_stops = wholes
    kinds = fields.kinds
    scratch.seen[:, 2] = -2
    scratch.last[:, 0] = -1
    for r in range(len(starts)):
        start, end = starts[r], ends[r]
        whole_kinds[r] = ABSENT
        counts[r] = 0
        where[r] = start
        if start < 0:
            status[r] = MISSING
            continue
        i = skip_space(buffer, start, end)
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
            i, code, counts[r] = _members(buffer, i + 1, end, wanted, scratch, fields, r)
            whole_kinds[r] = OBJECT
            whole_stops[r] = i
        else:
            kind, begin, stop, i, code = read_value(buffer, i, end, scratch.stack)
            whole_kinds[r] = kind
            whole_begins[r] = begin
            whole_stops[r] = stop
        if code == OK:
            i = skip_space(buffer, i, end)
            if i < end:
                code = TRAILING
            elif whole_kinds[r] != OBJECT:
                code = NOT_AN_OBJECT
        status[r] = code
        where[r] = i
        if code != OK and whole_kinds[r] == OBJECT:
            for f in range(len(kinds)):
                kinds[f, r] = ABSENT
        if code not in (OK, NOT_AN_OBJECT):
            whole_kinds[r] = ABSENT


@njit(cache=True, nogil=True)
def _members(  # noqa: PLR0915 (one walk over an object; parts of it would have to hand back six values)
    buffer: Bytes, i: int, end: int, wanted: WantedFields, scratch: ReadScratch, fields: Values, r: int
) -> Any:
    """Read the object of record r behind its brace.

    Returns the position behind the object, OK and the number of its fields; or the position of an error, the error, and
    the number of fields before it.
    """
    kinds, begins, stops = fields
    stack, name, seen, last = scratch
    repeating = wanted.repeating
    position = 0
    i = skip_space(buffer, i, end)
    if i < end and buffer[i] == 125:
        return i + 1, OK, position
    while True:
        if i >= end:
            return end, CUT, position
        if buffer[i] != 34:
            return i, NO_NAME, position
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
            i, code, escaped = read_string(buffer, i, end)
            if code != OK:
                return i, code, position
            if escaped:
                length = unescape(buffer, begin, i, name, 0)
                field = UNKNOWN if length < 0 else _field(name, 0, length, wanted)
            else:
                field = _field(buffer, begin, i, wanted)
            if position < len(seen):
                seen[position, 0] = begin
                seen[position, 1] = i - begin
                seen[position, 2] = field
            i += 1
        i = skip_space(buffer, i, end)
        if i >= end:
            return end, CUT, position
        if buffer[i] != 58:
            return i, NO_COLON, position
        i = skip_space(buffer, i + 1, end)
        if (
            field >= 0
            and repeating[field]
            and last[field, 0] >= 0
            and same_bytes(buffer, i, end, last[field, 0], last[field, 1])
        ):
            kind, begin, stop, code = OBJECT, i, i + last[field, 1] - last[field, 0], OK
            i = stop
        else:
            kind, begin, stop, i, code = read_value(buffer, i, end, stack)
        if code != OK:
            return i, code, position
        if field >= 0:
            kinds[field, r] = kind
            begins[field, r] = begin
            stops[field, r] = stop
            if kind == OBJECT and repeating[field]:
                last[field, 0] = begin
                last[field, 1] = stop
        position += 1
        i = skip_space(buffer, i, end)
        if i >= end:
            return end, CUT, position
        if buffer[i] == 125:
            return i + 1, OK, position
        if buffer[i] != 44:
            return i, NO_COMMA, position
        i = skip_space(buffer, i + 1, end)


@njit(cache=True, nogil=True)
def _field(text: Bytes, begin: int, stop: int, wanted: WantedFields) -> Any:
    """Return the number of the wanted field with a name, or UNKNOWN."""
    names, bounds, table, _ = wanted
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
