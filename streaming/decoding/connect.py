"""Values in JSON by Kafka Connect and Debezium: with or without a schema, dates as numbers, decimals as bytes.

    {"schema": {"type": "struct", "fields": [...]}, "payload": {...}}

First the payload is taken out of its wrapper, and each distinct schema is parsed once (successive records nearly always
have the same schema). Then the cells of a column get typed values, by the name of the column's type in the schema, or
else in the configuration; never by a guess. A value that cannot be read is null, with a reason.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
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
from holdfast.streaming.decoding.values import (
    DECIMAL,
    PLAIN,
    READERS,
    VARIABLE_DECIMAL,
    Reasons,
    Written,
    as_texts,
    read,
)
from holdfast.tables.arrays import Positions
from holdfast.tables.json_records import Cells, Fields, Spans, fields_of
from holdfast.tables.kernels.json import ABSENT, NULL, OBJECT
from holdfast.tables.kernels.json_cells import firsts_kernel

SCHEMA, PAYLOAD = "schema", "payload"
_KNOWN_SCHEMAS = 64


@dataclass(frozen=True)
class Schemas:
    """The schema of each record.

    Parameters
    ----------
    ids : the number of the record's schema, -1 without a schema.
    parsed : the distinct schemas.
    """

    ids: NDArray[np.int64]
    parsed: Sequence[Mapping[str, Any]]

    def take(self, rows: Positions) -> "Schemas":
        """Return the schemas of the given records; the number -1 stands for no record."""
        ids = self.ids[rows] if len(self.ids) else np.full(len(rows), -1, np.int64)
        ids[rows < 0] = -1
        return Schemas(ids, self.parsed)


@dataclass(frozen=True)
class Opened:
    """Records without their wrappers.

    Parameters
    ----------
    fields : the wanted fields.
    whole : each record as one cell, absent if it is not JSON.
    counts : how many fields each record has.
    schemas : the schemas of the wrappers.
    outer : the records with their wrappers.
    """

    fields: Mapping[str, Cells]
    whole: Cells
    counts: NDArray[np.int64]
    schemas: Schemas
    outer: Fields

    def __len__(self) -> int:
        return len(self.whole)

    def reason(self, row: int) -> str:
        """Return why a record is not an object."""
        return self.outer.reason(row) or "its payload is not an object: expected {...} with the columns as its fields"


def opened(records: Spans, names: Collection[str]) -> Opened:
    """Return the named fields of records, or of their payload if they have a schema. O(bytes).

    A record is wrapped if it has exactly the fields `schema` and `payload`.
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
    """Return the schemas of records that have none."""
    return Schemas(np.full(count, -1, np.int64), ())


def _schemas(cells: Cells) -> Schemas:
    """Parse each distinct schema once."""
    firsts = np.empty(len(cells), np.int64)
    known = np.empty(_KNOWN_SCHEMAS, np.int64)
    firsts_kernel(cells.buffer, cells.kinds, cells.begins, cells.stops, OBJECT, known, firsts)
    rows, ids = np.unique(firsts, return_inverse=True)
    none = int(np.count_nonzero(rows < 0))  # -1 is the first
    return Schemas(ids.reshape(-1) - none, [_parsed(text) for text in cells.take(rows[none:]).texts().to_pylist()])


@lru_cache(maxsize=32)
def _parsed(schema: str) -> Mapping[str, Any]:
    parsed: Mapping[str, Any] = json.loads(schema, parse_int=str)  # Python refuses numbers with very many digits
    return parsed


def struct_fields(schema: Mapping[str, Any], *names: str) -> list[Mapping[str, Any]]:
    """Return the fields of a struct, or of the first struct inside it with one of the given names."""
    given = schema.get("fields")
    fields: list[Mapping[str, Any]] = [
        field for field in (given if isinstance(given, list) else []) if isinstance(field, dict)
    ]
    if not names:
        return fields
    inner = {str(field.get("field")): field for field in fields}
    return next((struct_fields(inner[name]) for name in names if name in inner), [])


def written(fields: Sequence[Mapping[str, Any]]) -> dict[str, Written]:
    """Return, by name, how the fields of a schema are written."""
    return {str(field.get("field")): written_as(field) for field in fields}


def written_as(schema: Mapping[str, Any]) -> Written:
    """Return how the values of a schema are written."""
    name = str(schema.get("name"))
    if name != DECIMAL:
        return Written(name) if name in READERS else PLAIN
    return Written(DECIMAL, _parameter(schema, "scale"))


def _parameter(schema: Mapping[str, Any], name: str) -> int | None:
    given = schema.get("parameters")
    return _whole(given.get(name)) if isinstance(given, dict) else None


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def cells_of(
    fields: Mapping[str, Cells],
    columns: Sequence[Column],
    schemas: Schemas,
    forms: Sequence[Mapping[str, Written]],
    encodings: Mapping[str, str],
) -> tuple[dict[str, pa.Array], Reasons]:
    """Return the values of columns, and the reasons of records with values that cannot be read.

    Parameters
    ----------
    fields : the cells of each column.
    columns : the columns of the target.
    schemas, forms : the schema of each record, and how each distinct schema writes columns.
    encodings : how columns are written in records without a schema.
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
            array, wrong = read(cells if rows is None else cells.take(rows), way, column)
            parts.append((rows, array))
            for row, reason in wrong.items():
                reasons.setdefault(row if rows is None else int(rows[row]), reason)
        arrays[column.name] = _together(parts, len(cells))
    return arrays, reasons


def _together(parts: Sequence[tuple[Positions | None, pa.Array]], count: int) -> pa.Array:
    """Return one array from arrays of some rows each."""
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
    """Return the columns in a record's schema that have a type here; None without a schema.

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


def _row_fields(value: bytes) -> list[Mapping[str, Any]] | None:
    """Return the schema's fields of the row in a record, without fields that Debezium adds (`__op`)."""
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
