"""How Kafka Connect and Debezium write values in JSON: wrapped in a schema or not, dates as numbers, decimals as bytes.

    {"schema": {"type": "struct", "fields": [...]}, "payload": {...}}

Records are opened first: what is wrapped is taken out, and each distinct schema is parsed once (records that follow
each other nearly always have the same). Then the cells of a column are made typed values, by the name that the schema
gives the column's type, or else the configuration; never by a guess. A value that is none is null, with a reason.

There is no type for a time of day here: such values are texts, `12:30:00` or `12:30:00.25`.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.constraints import Column, ColumnType
from holdfast.constraints.types import (
    BOOLEAN,
    DATE,
    FLOAT,
    INTEGER,
    MAX_DECIMAL_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
)
from holdfast.tables.fitting import misfit
from holdfast.tables.frames import texts_of
from holdfast.tables.json_records import Cells, Fields, Flags, Rows, Spans, fields_of
from holdfast.tables.kernels.base64 import READ, WIDE, beyond_kernel, decimals_kernel
from holdfast.tables.kernels.json import ABSENT, ESCAPED, NULL, NUMBER, OBJECT, firsts_kernel, integers_kernel

SCHEMA, PAYLOAD = "schema", "payload"
DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, in days since 1970-01-01
_SECONDS = 86_400
_KNOWN_SCHEMAS = 64

Reasons = dict[int, str]


@dataclass(frozen=True)
class Written:
    """How the values of a column are written.

    Parameters
    ----------
    name : of the type, as a schema has it; empty where values stand for themselves.
    scale : of a decimal; None where the column's own counts.
    """

    name: str = ""
    scale: int | None = None


PLAIN = Written()


@dataclass(frozen=True)
class Schemas:
    """Which schema each record has.

    Parameters
    ----------
    ids : its number, -1 where it has none.
    parsed : each distinct one.
    """

    ids: NDArray[np.int64]
    parsed: Sequence[Mapping[str, Any]]

    def take(self, rows: Rows) -> "Schemas":
        """Return those of some records; -1 is one without."""
        ids = self.ids[rows] if len(self.ids) else np.full(len(rows), -1, np.int64)
        ids[rows < 0] = -1
        return Schemas(ids, self.parsed)

    def columns(self, read: Callable[[Mapping[str, Any]], Mapping[str, Written]]) -> list[Mapping[str, Written]]:
        """Return what each distinct schema says about columns."""
        return [read(schema) for schema in self.parsed]


@dataclass(frozen=True)
class Opened:
    """Records, taken out of what they were wrapped in.

    Parameters
    ----------
    fields : the wanted fields.
    whole : each record as one cell, absent where it is not JSON.
    counts : how many fields each one has.
    schemas : what they were wrapped with.
    outer : the records as they came.
    """

    fields: Mapping[str, Cells]
    whole: Cells
    counts: NDArray[np.int64]
    schemas: Schemas
    outer: Fields

    def __len__(self) -> int:
        return len(self.whole)

    def reason(self, row: int) -> str:
        """Return why a record is no object."""
        return self.outer.reason(row) or "its payload is not an object: expected {...} with the columns as its fields"


def opened(records: Spans, names: Collection[str]) -> Opened:
    """Find fields of records, or of their payload where they have a schema. O(bytes).

    A record is wrapped where `schema` and `payload` are all that it has.
    """
    outer = fields_of(records, list(dict.fromkeys([*names, SCHEMA, PAYLOAD])), {SCHEMA})
    schema, payload = outer[SCHEMA], outer[PAYLOAD]
    wrapped = (outer.counts == 2) & schema.is_kind(OBJECT, NULL) & (payload.kinds != ABSENT)
    if not wrapped.any():
        fields = {name: outer[name] for name in names}
        return Opened(fields, outer.whole, outer.counts, no_schemas(len(records)), outer)
    inner = fields_of(payload.where(wrapped).spans(), list(names))
    fields = {name: outer[name].where(~wrapped).merged(inner[name]) for name in names}
    whole = payload.where(wrapped).merged(outer.whole)
    counts = np.where(wrapped, inner.counts, outer.counts)
    return Opened(fields, whole, counts, _schemas(schema.where(wrapped)), outer)


def no_schemas(count: int) -> Schemas:
    """Return what records without a schema have."""
    return Schemas(np.full(count, -1, np.int64), ())


def _schemas(cells: Cells) -> Schemas:
    """Parse each distinct schema once."""
    firsts = np.empty(len(cells), np.int64)
    known = np.empty(_KNOWN_SCHEMAS, np.int64)
    firsts_kernel(cells.buffer, cells.kinds, cells.begins, cells.stops, OBJECT, known, firsts)
    rows, ids = np.unique(firsts, return_inverse=True)
    none = int(np.count_nonzero(rows < 0))  # -1 comes first
    return Schemas(ids.reshape(-1) - none, [_parsed(text) for text in cells.take(rows[none:]).texts().to_pylist()])


@lru_cache(maxsize=32)
def _parsed(schema: str) -> Mapping[str, Any]:
    parsed: Mapping[str, Any] = json.loads(schema, parse_int=str)  # Python reads no number of very many digits
    return parsed


def struct_fields(schema: Mapping[str, Any], *names: str) -> list[Mapping[str, Any]]:
    """Return the fields of a struct, or of the first struct with one of these names inside it."""
    given = schema.get("fields")
    fields: list[Mapping[str, Any]] = [
        field for field in (given if isinstance(given, list) else []) if isinstance(field, dict)
    ]
    if not names:
        return fields
    inner = {str(field.get("field")): field for field in fields}
    return next((struct_fields(inner[name]) for name in names if name in inner), [])


def written(fields: Sequence[Mapping[str, Any]]) -> dict[str, Written]:
    """Return how a schema's fields are written."""
    return {str(field.get("field")): written_as(field) for field in fields}


def written_as(schema: Mapping[str, Any]) -> Written:
    """Return how values of a schema are written."""
    name = str(schema.get("name"))
    if name != DECIMAL:
        return Written(name) if name in _READERS else PLAIN
    return Written(DECIMAL, _parameter(schema, "scale"))


def _parameter(schema: Mapping[str, Any], name: str) -> int | None:
    given = schema.get("parameters")
    return _whole(given.get(name)) if isinstance(given, dict) else None


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def cells_of(
    fields: Mapping[str, Cells],
    columns: Sequence[Column],
    schemas: Schemas,
    forms: Sequence[Mapping[str, Written]],
    encodings: Mapping[str, str],
) -> tuple[dict[str, pa.Array], Reasons]:
    """Return the values of columns, and why records have none that can be read.

    Parameters
    ----------
    fields : the cells of each column.
    columns : ours.
    schemas, forms : which schema each record has, and how each one says that columns are written.
    encodings : how columns are written where there is no schema.
    """
    arrays: dict[str, pa.Array] = {}
    reasons: Reasons = {}
    used = np.unique(schemas.ids).tolist()
    for column in columns:
        cells = fields[column.name]
        ways: dict[Written, list[int]] = {}
        for number in used:
            way = forms[number].get(column.name, PLAIN) if number >= 0 else Written(encodings.get(column.name, ""))
            ways.setdefault(way, []).append(number)
        parts = []
        for way, numbers in ways.items():
            rows = None if len(ways) == 1 else np.flatnonzero(np.isin(schemas.ids, numbers))
            array, wrong = _read(cells if rows is None else cells.take(rows), way, column)
            parts.append((rows, array))
            for row, reason in wrong.items():
                reasons.setdefault(row if rows is None else int(rows[row]), reason)
        arrays[column.name] = _together(parts, len(cells))
    return arrays, reasons


def either(first: pa.Array, second: pa.Array) -> pa.Array:
    """Return the first value, or the second where there is none."""
    first, second = alike(first, second)
    return pc.coalesce(first, second)


def alike(first: pa.Array, second: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return arrays in one type: their own, else as texts."""
    return (first, second) if first.type == second.type else (as_texts(first), as_texts(second))


def as_texts(array: pa.Array) -> pa.Array:
    """Return the texts of values."""
    made = texts_of(pa.chunked_array([array])).combine_chunks()
    return made if isinstance(made, pa.Array) else pa.array([], pa.large_string())


def _together(parts: Sequence[tuple[Rows | None, pa.Array]], count: int) -> pa.Array:
    """Put arrays of some rows each together."""
    if not parts:
        return pa.nulls(count, pa.large_string())
    if len(parts) == 1:
        return parts[0][1]
    arrays = [array for _, array in parts]
    if len({array.type for array in arrays}) > 1:
        arrays = [as_texts(array) for array in arrays]
    rows = np.concatenate([rows for rows, _ in parts if rows is not None])
    places = np.empty(count, np.int64)
    places[rows] = np.arange(count)
    return pa.concat_arrays(arrays).take(pa.array(places))


Read = tuple[pa.Array, Reasons]


def _read(cells: Cells, way: Written, column: Column) -> Read:
    reader = _READERS.get(way.name)
    return (cells.texts(), {}) if reader is None else reader(cells, way, column)


def _texts(cells: Cells, way: Written, column: Column) -> Read:  # noqa: ARG001
    return cells.texts(), {}


def _days(cells: Cells, way: Written, column: Column) -> Read:
    days, there, reasons = _numbers(cells, way, column, "days since 1970-01-01", (_FIRST_DAY, _LAST_DAY))
    return pa.array(days.astype(np.int32), pa.int32(), mask=~there).view(pa.date32()), reasons


def _instants(unit: str) -> Callable[[Cells, Written, Column], Read]:
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    ends = (_FIRST_DAY * _SECONDS * per_second, (_LAST_DAY + 1) * _SECONDS * per_second - 1)
    kept = "ns" if unit == "ns" else "us"

    def read(cells: Cells, way: Written, column: Column) -> Read:
        numbers, there, reasons = _numbers(cells, way, column, f"{unit} since 1970-01-01", ends)
        numbers = numbers * 1000 if unit == "ms" else numbers
        return pa.array(numbers, pa.int64(), mask=~there).view(pa.timestamp(kept, "UTC")), reasons

    return read


def _times(unit: str) -> Callable[[Cells, Written, Column], Read]:
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]

    def read(cells: Cells, way: Written, column: Column) -> Read:
        numbers, there, reasons = _numbers(cells, way, column, f"{unit} since midnight")
        distinct, places = np.unique(numbers, return_inverse=True)
        texts = pa.array([_time_of_day(number, per_second) for number in distinct.tolist()], pa.large_string())
        return texts.take(pa.array(places, mask=~there)), reasons

    return read


def _time_of_day(number: int, per_second: int) -> str:
    """Return a time of day, or a duration, as databases write it.

    >>> _time_of_day(45_000_250, 1000), _time_of_day(86_400_000_000, 10**6), _time_of_day(-3_600, 1)
    ('12:30:00.25', '24:00:00', '-01:00:00')
    """
    seconds, rest = divmod(abs(number), per_second)
    fraction = f".{rest:0{len(str(per_second)) - 1}d}".rstrip("0") if rest else ""
    sign = "-" if number < 0 else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"


def _numbers(
    cells: Cells, way: Written, column: Column, meaning: str, ends: tuple[int, int] = (-(2**63), 2**63 - 1)
) -> tuple[NDArray[np.int64], Flags, Reasons]:
    """Return whole numbers, where there are any, and why others are not taken."""
    numbers, whole = np.empty(len(cells), np.int64), np.empty(len(cells), np.bool_)
    integers_kernel(cells.buffer, cells.kinds, cells.begins, cells.stops, numbers, whole)
    low, high = max(ends[0], -(2**63)), min(ends[1], 2**63 - 1)
    there = whole & (numbers >= low) & (numbers <= high)
    reasons = {}
    for row, text in _shown(cells, ~there):
        problem = "lies outside the years 1 to 9999" if whole[row] else f"is no whole number of {meaning}"
        reasons[row] = f"column {column.name}: '{text}' {problem} ({way.name})"
    return np.where(there, numbers, 0), there, reasons


def _shown(cells: Cells, chosen: Flags) -> list[tuple[int, str]]:
    """Return the chosen rows that have a value, with its text, shortened."""
    rows = np.flatnonzero(chosen & (cells.kinds > NULL))
    texts = cells.take(rows).texts().to_pylist()
    return [
        (row, text if len(text) <= 80 else text[:77] + "...") for row, text in zip(rows.tolist(), texts, strict=True)
    ]


def _decimals(cells: Cells, way: Written, column: Column) -> Read:
    numbers = cells.kinds == NUMBER  # decimal.format=NUMERIC
    if numbers.any():
        array, reasons = _decimals(cells.where(~numbers), way, column)
        return either(cells.where(numbers).texts(), as_texts(array)), reasons
    scale = _scale(way, column)
    if scale is None:
        problem = f"takes its scale from the column's type, which is {column.type}: declare it decimal(p,s)"
        return pa.nulls(len(cells), pa.large_string()), dict.fromkeys(
            np.flatnonzero(cells.kinds > NULL).tolist(), f"column {column.name}: {way.name} {problem}"
        )
    words, status = _words(cells)
    there = cells.strings & (status == READ)
    reasons = {}
    for row, text in _shown(cells, ~there):
        problem = "a number of more than 16 bytes" if status[row] == WIDE else "no base64 of a whole number"
        reasons[row] = f"column {column.name}: '{text}' is {problem} ({way.name})"
    if not 0 <= scale <= MAX_DECIMAL_PRECISION:
        return _spelled(words, there, scale), reasons
    own = column.type.name == "decimal" and column.type.scale == scale
    precision = column.type.precision if own else MAX_DECIMAL_PRECISION
    beyond = np.empty(len(cells), np.bool_)
    largest = 10**precision - 1
    beyond_kernel(words, np.uint64(largest & (2**64 - 1)), np.uint64(largest >> 64), beyond)
    for row in np.flatnonzero(beyond & there).tolist():
        reasons[row] = misfit(_decimal_text(_integer(words[row]), scale), column)
    there &= ~beyond
    valid = pa.array(there).buffers()[1]
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(cells), [valid, pa.py_buffer(words)]), reasons


def _scale(way: Written, column: Column) -> int | None:
    if way.scale is not None:
        return way.scale
    return {"decimal": column.type.scale, "integer": 0}.get(column.type.name)


def _variable_decimals(cells: Cells, way: Written, column: Column) -> Read:
    parts = fields_of(cells.spans(), ["scale", "value"])
    scales, whole = np.empty(len(cells), np.int64), np.empty(len(cells), np.bool_)
    given = parts["scale"]
    integers_kernel(given.buffer, given.kinds, given.begins, given.stops, scales, whole)
    words, status = _words(parts["value"])
    there = (status == READ) & parts["value"].strings & whole & (np.abs(scales) <= 10_000)
    plain = cells.kinds == NUMBER
    problem = f"is no object with a scale and at most 16 bytes ({way.name})"
    reasons = {row: f"column {column.name}: '{text}' {problem}" for row, text in _shown(cells, ~there & ~plain)}
    array = _spelled(words, there, np.where(there, scales, 0))
    return (either(cells.where(plain).texts(), array) if plain.any() else array), reasons


def _words(cells: Cells) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return numbers of 128 bits, and what became of each text."""
    if (cells.kinds == ESCAPED).any():
        cells = _without_escapes(cells)
    words, status = np.empty((len(cells), 2), np.int64), np.empty(len(cells), np.uint8)
    decimals_kernel(cells.buffer, cells.strings, cells.begins, cells.stops, words, status)
    return words, status


def _without_escapes(cells: Cells) -> Cells:
    texts = cells.texts()
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[: len(cells) + 1]
    buffer = Spans(np.frombuffer(texts.buffers()[2], np.uint8), offsets[:-1], offsets[1:]).buffer
    return Cells(buffer, np.minimum(cells.kinds, ESCAPED), offsets[:-1].copy(), offsets[1:].copy())


def _spelled(words: NDArray[np.int64], there: Flags, scale: int | NDArray[np.int64]) -> pa.Array:
    """Return decimals as texts. O(n), and O(distinct ones) in Python."""
    scales = np.broadcast_to(np.asarray(scale, np.int64), len(words))
    triples = np.column_stack([words, scales])
    distinct, places = np.unique(triples, axis=0, return_inverse=True)
    texts = [_decimal_text(_integer(row), int(row[2])) for row in distinct]
    return pa.array(texts, pa.large_string()).take(pa.array(places.reshape(-1), mask=~there))


def _integer(words: NDArray[np.int64]) -> int:
    return (int(words[1]) << 64) | (int(words[0]) & (2**64 - 1))


def _decimal_text(number: int, scale: int) -> str:
    """Return a decimal with its point.

    >>> _decimal_text(-12345, 2), _decimal_text(5, 3), _decimal_text(12, -2)
    ('-123.45', '0.005', '1200')
    """
    return format(Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)), "f")


_READERS: dict[str, Callable[[Cells, Written, Column], Read]] = {
    "io.debezium.time.Date": _days,
    "io.debezium.time.Time": _times("ms"),
    "io.debezium.time.MicroTime": _times("us"),
    "io.debezium.time.NanoTime": _times("ns"),
    "io.debezium.time.ZonedTime": _texts,
    "io.debezium.time.Year": _texts,
    "io.debezium.time.Timestamp": _instants("ms"),
    "io.debezium.time.MicroTimestamp": _instants("us"),
    "io.debezium.time.NanoTimestamp": _instants("ns"),
    "io.debezium.time.ZonedTimestamp": _texts,
    "org.apache.kafka.connect.data.Date": _days,
    "org.apache.kafka.connect.data.Time": _times("ms"),
    "org.apache.kafka.connect.data.Timestamp": _instants("ms"),
    DECIMAL: _decimals,
    VARIABLE_DECIMAL: _variable_decimals,
}

_TYPES: dict[str, ColumnType] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), INTEGER),
    **dict.fromkeys(("float", "double", "float32", "float64"), FLOAT),
    "boolean": BOOLEAN,
    "string": STRING,
}
_NAMED_TYPES: dict[str, ColumnType] = {
    **dict.fromkeys(("io.debezium.time.Date", "org.apache.kafka.connect.data.Date"), DATE),
    **dict.fromkeys((f"io.debezium.time.{name}" for name in ("Time", "MicroTime", "NanoTime", "ZonedTime")), STRING),
    "org.apache.kafka.connect.data.Time": STRING,
    **dict.fromkeys(
        (f"io.debezium.time.{name}" for name in ("Timestamp", "MicroTimestamp", "ZonedTimestamp")), TIMESTAMP
    ),
    "org.apache.kafka.connect.data.Timestamp": TIMESTAMP,
    "io.debezium.time.NanoTimestamp": TIMESTAMP_NS,
    VARIABLE_DECIMAL: ColumnType("decimal", MAX_DECIMAL_PRECISION, 9),
}


def columns_of(value: bytes) -> list[Column] | None:
    """Return the columns that a wrapped record's schema has, None where it has no schema. `left_out` has the others.

    >>> fields = [{"field": "id", "type": "int64"}, {"field": "at", "type": "int32", "name": "io.debezium.time.Date"}]
    >>> record = {"schema": {"type": "struct", "fields": fields}, "payload": {"id": 1, "at": 0}}
    >>> [str(column) for column in columns_of(json.dumps(record).encode())]
    ['id integer', 'at date']
    """
    fields = _row_fields(value)
    if fields is None:
        return None
    types = {str(field.get("field")): _type_of(field) for field in fields}
    return [Column(name, column_type) for name, column_type in types.items() if column_type is not None]


def left_out(value: bytes) -> list[str]:
    """Return the columns of a wrapped record that have no type of ours: nested ones, maps and bytes."""
    return [
        f"{field.get('field')} ({field.get('name') or field.get('type')})"
        for field in _row_fields(value) or []
        if _type_of(field) is None
    ]


def _row_fields(value: bytes) -> list[Mapping[str, Any]] | None:
    """Return the schema's fields of the row in a record; added ones (`__op`) are none."""
    found = opened(Spans(np.frombuffer(value, np.uint8), np.zeros(1, np.int64), np.full(1, len(value))), [])
    if found.schemas.ids[0] < 0:
        return None
    schema = found.schemas.parsed[0]
    fields = struct_fields(schema)
    names = {str(field.get("field")) for field in fields}
    if {"before", "after", "op"} <= names:
        fields = struct_fields(schema, "after")
    flattened = bool({"__op", "__deleted"} & names)
    return [field for field in fields if not (flattened and str(field.get("field")).startswith("__"))]


def _type_of(field: Mapping[str, Any]) -> ColumnType | None:
    name, kind = str(field.get("name")), str(field.get("type"))
    if name != DECIMAL or kind != "bytes":
        return _NAMED_TYPES.get(name) or _TYPES.get(kind)
    scale, precision = _parameter(field, "scale"), _parameter(field, "connect.decimal.precision")
    if scale is None or not 0 <= scale <= MAX_DECIMAL_PRECISION:
        return None
    precision = MAX_DECIMAL_PRECISION if precision is None or precision > MAX_DECIMAL_PRECISION else precision
    return ColumnType("decimal", max(precision, scale, 1), scale)
