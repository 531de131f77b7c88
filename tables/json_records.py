"""JSON records as bytes: their fields as exact texts, in Arrow's layout.

    Arrow binary or string array  ->  Spans      bytes, and where each record is in them
    Spans                         ->  Fields     of each wanted field and record: its kind and its bytes
    Fields                        ->  texts      an Arrow string array a field
                                  ->  Spans      of a field whose values are objects: one level further down

A record is one JSON object (RFC 8259) in UTF-8, with nothing but white space around it, at most `DEEPEST` levels deep;
if a name occurs twice, the last field counts. Numbers keep their digits: `1.10` stays `1.10`. Any other record has a
reason, and no fields. No Python runs for each record: the loops are in `kernels/json_fields.py`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.tables.arrays import Bytes, Flags, Positions
from holdfast.tables.kernels import json as kernels
from holdfast.tables.kernels.json import ABSENT, ESCAPED, OBJECT, OK, STRING
from holdfast.tables.kernels.json_cells import room_kernel, texts_kernel
from holdfast.tables.kernels.json_fields import (
    UNKNOWN,
    ReadScratch,
    States,
    Values,
    WantedFields,
    fields_kernel,
    place_kernel,
)

DEEPEST = 256
_REMEMBERED = 1024

_REASONS = {
    kernels.MISSING: "a record without a value",
    kernels.EMPTY: "not JSON: it is empty",
    kernels.MARKED: "it begins with a byte order mark, which JSON has none of: write UTF-8 without one",
    kernels.BINARY: "the first byte is 0: this looks like Avro in the Confluent wire format, which is not read: "
    "use the JSON converter",
    kernels.NOT_AN_OBJECT: "JSON, but not an object: expected {{...}} with the columns as its fields",
    kernels.NO_VALUE: "not JSON: expected a value at byte {}",
    kernels.NO_NAME: "not JSON: expected a field's name in quotes at byte {}",
    kernels.NO_COLON: "not JSON: expected ':' at byte {}",
    kernels.NO_COMMA: "not JSON: expected ',' or an end at byte {}",
    kernels.TRAILING: "not JSON: expected nothing more at byte {}",
    kernels.CONTROL: "not JSON: a control character within a text at byte {}; it is to be escaped",
    kernels.NO_ESCAPE: "not JSON: an escape that there is not at byte {}",
    kernels.HALF_PAIR: "half of a surrogate pair at byte {}, which is no character",
    kernels.NOT_UTF8: "not UTF-8 at byte {}",
    kernels.NO_NUMBER: "not JSON: not a number at byte {}",
    kernels.TOO_DEEP: f"more than {DEEPEST} levels deep at byte {{}}",
    kernels.CUT: "not JSON: it ends at byte {}, before it is whole",
}


@dataclass(frozen=True)
class Spans:
    """Records in one buffer.

    Parameters
    ----------
    buffer : bytes, read only.
    starts, ends : where each record is; a missing record starts at -1.
    """

    buffer: Bytes
    starts: Positions
    ends: Positions

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> bytes | None:
        start = int(self.starts[row])
        return None if start < 0 else self.buffer[start : int(self.ends[row])].tobytes()

    def __post_init__(self) -> None:
        if self.buffer.flags.writeable:  # kernels are compiled for one kind of buffer alone
            buffer = self.buffer.view()
            buffer.flags.writeable = False
            object.__setattr__(self, "buffer", buffer)

    @property
    def present(self) -> Flags:
        """Which records are present."""
        return np.asarray(self.starts >= 0)

    def take(self, rows: Positions) -> "Spans":
        """Return records by position; -1 is a missing record. O(rows), no bytes are copied."""
        starts, ends = _taken(self.starts, rows), _taken(self.ends, rows)
        starts[rows < 0] = -1
        return Spans(self.buffer, starts, ends)

    def where(self, chosen: Flags) -> "Spans":
        """Return the records with all but the chosen missing."""
        return Spans(self.buffer, np.where(chosen, self.starts, -1), self.ends)

    def merged(self, other: "Spans") -> "Spans":
        """Return the records, with records of `other`, of the same buffer, in place of missing records."""
        mine = self.present
        return Spans(self.buffer, np.where(mine, self.starts, other.starts), np.where(mine, self.ends, other.ends))


@dataclass(frozen=True)
class Cells:
    """The values of one field in many records: their kinds and bytes.

    Parameters
    ----------
    buffer : bytes, read only.
    kinds : ABSENT, NULL, STRING, ESCAPED (a string with escapes), NUMBER, TRUE, FALSE, OBJECT or ARRAY.
    begins, stops : where each value is, for a string between the quotes; undefined where it is null or absent.
    """

    buffer: Bytes
    kinds: Bytes
    begins: Positions
    stops: Positions

    def __len__(self) -> int:
        return len(self.kinds)

    def take(self, rows: Positions) -> "Cells":
        """Return the cells of records by position; -1 is an absent cell."""
        kinds = _taken(self.kinds, rows)
        kinds[rows < 0] = ABSENT
        return Cells(self.buffer, kinds, _taken(self.begins, rows), _taken(self.stops, rows))

    def where(self, chosen: Flags) -> "Cells":
        """Return the cells with all but the chosen absent."""
        return Cells(self.buffer, np.where(chosen, self.kinds, np.uint8(ABSENT)), self.begins, self.stops)

    def merged(self, other: "Cells") -> "Cells":
        """Return the cells, with cells of `other`, of the same buffer, in place of absent cells."""
        mine = self.kinds != ABSENT
        return Cells(
            self.buffer,
            np.where(mine, self.kinds, other.kinds),
            np.where(mine, self.begins, other.begins),
            np.where(mine, self.stops, other.stops),
        )

    @property
    def strings(self) -> Flags:
        """Which cells are strings."""
        return self.is_kind(STRING, ESCAPED)

    def is_kind(self, *kinds: int) -> Flags:
        """Return which cells are of some kinds."""
        found = np.zeros(len(self), np.bool_)
        for kind in kinds:
            found |= self.kinds == kind
        return found

    def spans(self) -> Spans:
        """Return the cells that are objects as records; others are missing."""
        return Spans(self.buffer, np.where(self.kinds == OBJECT, self.begins, -1), self.stops)

    def texts(self) -> pa.LargeStringArray:
        """Return the values as texts: strings without escapes, other values as written; null and absent are null.

        O(bytes). Numbers, objects and arrays keep every digit and space.
        """
        count = len(self.kinds)
        room = room_kernel(self.kinds, self.begins, self.stops)
        values, offsets = np.empty(room, np.uint8), np.empty(count + 1, np.int64)
        valid = np.zeros((count + 7) // 8, np.uint8)
        used = texts_kernel(self.buffer, self.kinds, self.begins, self.stops, values, offsets, valid)
        buffers = (pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(values[:used]))
        return pa.LargeStringArray.from_buffers(count, buffers[1], buffers[2], buffers[0])


@dataclass(frozen=True)
class Fields:
    """The wanted fields of records.

    Parameters
    ----------
    spans : the records.
    names : the wanted fields.
    whole : each record as one cell; absent where it is not JSON.
    counts : the number of fields of each record.
    status, places : OK or an error, and its position in the buffer (`reason` returns the message).
    """

    spans: Spans
    names: tuple[str, ...]
    kinds: Bytes
    begins: Positions
    stops: Positions
    whole: Cells
    counts: Positions
    status: Bytes
    places: Positions

    def __len__(self) -> int:
        return len(self.status)

    def __getitem__(self, name: str) -> Cells:
        f = self._numbers[name]
        return Cells(self.spans.buffer, self.kinds[f], self.begins[f], self.stops[f])

    def cells(self) -> list[Cells]:
        """Return the cells of each field."""
        return [self[name] for name in self._numbers]

    @property
    def good(self) -> Flags:
        """Which records are JSON objects."""
        return np.asarray(self.status == OK)

    def reason(self, row: int) -> str | None:
        """Return the error message of a record, None for a good record. Bytes are counted from 0.

        >>> fields_of(spans_of(pa.array([b'{"a": }'])), ["a"]).reason(0)
        'not JSON: expected a value at byte 6'
        """
        code = int(self.status[row])
        return None if code == OK else _REASONS[code].format(int(self.places[row] - self.spans.starts[row]))

    @property
    def reasons(self) -> dict[int, str]:
        """The error messages of the records that are not good."""
        return {row: self.reason(row) or "" for row in np.flatnonzero(~self.good).tolist()}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: f for f, name in reversed(list(enumerate(self.names)))}


def spans_of(array: pa.Array | pa.ChunkedArray) -> Spans:
    """Return the records of an Arrow array of bytes or strings, sliced, chunked or neither. O(records).

    The bytes are not copied, except those of several chunks.
    """
    if isinstance(array, pa.ChunkedArray):
        chunks = array.chunks if array.num_chunks == 1 else [array.cast(pa.large_binary()).combine_chunks()]
        array = chunks[0]
    if not any(is_type(array.type) for is_type in _WITH_OFFSETS):
        array = array.cast(pa.large_binary())
    count = len(array)
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    _, places, data = array.buffers()
    if not count or places is None:
        return Spans(_NOTHING, np.full(count, -1, np.int64), np.zeros(count, np.int64))
    offsets: Positions = np.frombuffer(places, np.int64 if wide else np.int32).astype(np.int64)
    offsets = offsets[array.offset : array.offset + count + 1]
    starts, ends = offsets[:-1].copy(), offsets[1:].copy()
    if array.null_count:
        starts[np.asarray(array.is_null().to_numpy(zero_copy_only=False))] = -1
    return Spans(_NOTHING if data is None else np.frombuffer(data, np.uint8), starts, ends)


_WITH_OFFSETS = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_string, pa.types.is_large_string)
_NOTHING = np.frombuffer(b"", np.uint8)


def fields_of(spans: Spans, names: Sequence[str], repeating: Collection[str] = ()) -> Fields:
    r"""Find fields of records. O(bytes) for any number of fields.

    Parameters
    ----------
    spans : the records.
    names : the wanted fields.
    repeating : fields whose objects mostly have the same bytes in successive records, and are then only compared.

    Examples
    --------
    >>> found = fields_of(spans_of(pa.array([b'{"a": 1.10, "b": "x\\n"}', b'{"b": null}', b"{"])), ["a", "b"])
    >>> found["a"].texts().to_pylist(), found["b"].texts().to_pylist()
    (['1.10', None, None], ['x\n', None, None])
    >>> found.reason(2)
    'not JSON: it ends at byte 1, before it is whole'
    """
    count, width = len(spans), len(names)
    wanted = _wanted(names, repeating)
    scratch = ReadScratch(
        stack=np.empty(DEEPEST - 1, np.uint8),
        name=np.empty(6 * int(np.diff(wanted.bounds).max(initial=0)) + 8, np.uint8),
        seen=np.empty((_REMEMBERED, 3), np.int64),
        last=np.empty((max(width, 1), 2), np.int64),
    )
    fields = Values(np.zeros((width, count), np.uint8), *np.empty((2, width, count), np.int64))
    wholes = Values(np.empty(count, np.uint8), *np.zeros((2, count), np.int64))
    states = States(np.zeros(count, np.int64), np.empty(count, np.uint8), np.empty(count, np.int64))
    fields_kernel(spans.buffer, spans.starts, spans.ends, wanted, scratch, fields, wholes, states)
    return Fields(spans, tuple(names), *fields, Cells(spans.buffer, *wholes), *states)


def _wanted(names: Sequence[str], repeating: Collection[str]) -> WantedFields:
    """Return fields as kernels take them."""
    texts = [name.encode(errors="surrogatepass") for name in names]
    bounds = np.zeros(len(names) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=bounds[1:])
    joined = np.frombuffer(b"".join(texts), np.uint8)
    table = np.full(1 << max(3, (4 * len(names) - 1).bit_length()), UNKNOWN, np.int64)
    place_kernel(joined, bounds, table)
    return WantedFields(joined, bounds, table, np.array([name in repeating for name in names], np.bool_))


def _taken(values: NDArray[Any], rows: Positions) -> NDArray[Any]:
    """Return values by row, undefined values for -1."""
    return values[rows] if len(values) else np.zeros(len(rows), values.dtype)
