"""The keys of Kafka records, which name the row of a record.

01907                                    a text that is not JSON, for a key of one column
"01907"   1907   true                    a JSON value, for a key of one column
{"state": "NY", "zip": "10001"}          the columns of the key
{"schema": ..., "payload": ...}          one of the last two forms, with types
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.streaming.decoding.connect import Opened, cells_of, opened, struct_fields, written, written_as
from holdfast.streaming.decoding.values import Reasons, either
from holdfast.streaming.incoming.arrivals import Target, refuse
from holdfast.tables.arrays import Flags
from holdfast.tables.json_records import Cells, Spans
from holdfast.tables.kernels.json import ABSENT, ARRAY, BINARY, FALSE, NULL, NUMBER, OBJECT, STRING, TRUE
from holdfast.tables.kernels.json_cells import utf8_kernel


def key_cells(keys: Spans, target: Target, encodings: Mapping[str, str]) -> tuple[dict[str, pa.Array], Reasons]:
    r"""Return the key columns that record keys have (null if missing), and the reasons of unreadable keys. O(bytes).

    >>> from holdfast.constraints import Column, Schema, parse_type
    >>> from holdfast.tables.json_records import spans_of
    >>> target = Target(Schema("t", [Column("id", parse_type("integer"))]), ("id",))
    >>> cells, reasons = key_cells(spans_of(pa.array([b"7", b'{"id": 8}', b"A1", b"\xff"])), target, {})
    >>> cells["id"].to_pylist(), reasons
    (['7', '8', 'A1', None], {3: 'its key is not UTF-8'})
    """
    found = opened(keys, target.key)
    single = target.key[0] if len(target.key) == 1 else None
    whole = found.whole
    objects = whole.kinds == OBJECT
    fields = {name: found.fields[name].where(objects) for name in target.key}
    reasons: Reasons = {}
    if single is None:
        lost = keys.present & ~objects
    else:
        plain = _plain(keys, found)
        fields[single] = fields[single].merged(plain).merged(whole.where(~objects & (whole.kinds != ARRAY)))
        lost = keys.present & (plain.kinds == ABSENT) & whole.is_kind(ABSENT, ARRAY)
    refuse(reasons, lost, lambda row: _reason(found, row, target))
    forms = [
        written(struct_fields(schema)) if struct_fields(schema) else {single or "": written_as(schema)}
        for schema in found.schemas.parsed
    ]
    columns = [column for column in target.wanted if column.name in target.key]
    cells, wrong = cells_of(fields, columns, found.schemas, forms, encodings)
    return cells, {**{row: f"its key: {reason}" for row, reason in wrong.items()}, **reasons}


def filled_from_keys(cells: dict[str, pa.Array], keys: Mapping[str, pa.Array], target: Target) -> Flags:
    """Take key columns that a record's value does not have from its key; return the records that lack one still."""
    missing = np.zeros(len(cells[target.key[0]]), np.bool_)
    for name in target.key:
        cells[name] = either(cells[name], keys[name])
        missing |= np.asarray(pc.is_null(cells[name]))
    return missing


def _plain(keys: Spans, found: Opened) -> Cells:
    """Return the keys that are plain texts: not JSON and not like JSON, or a JSON scalar between spaces."""
    whole, size = found.outer.whole, keys.ends - keys.starts
    spaced = whole.is_kind(NULL, NUMBER, TRUE, FALSE) & (whole.stops - whole.begins != size)
    text = np.empty(len(keys), np.bool_)
    utf8_kernel(keys.buffer, keys.starts, keys.ends, text)
    first = np.zeros(len(keys), np.uint8)
    some = keys.present & (size > 0)
    first[some] = keys.buffer[keys.starts[some]]
    begun = np.isin(first, np.frombuffer(b'{["', np.uint8)) | (found.outer.status == BINARY)
    chosen = text & (spaced | (whole.kinds == ABSENT)) & ~begun
    return Cells(keys.buffer, np.where(chosen, np.uint8(STRING), np.uint8(ABSENT)), keys.starts, keys.ends)


def _reason(found: Opened, row: int, target: Target) -> str:
    if found.whole.kinds[row] not in {ABSENT, NULL}:
        columns = ", ".join(target.key)
        return f"its key does not name a row: expected an object with {columns}" + (
            ", or one value" if len(target.key) == 1 else ""
        )
    if found.outer.status[row] != BINARY and found.outer.whole.kinds[row] == ABSENT:
        text = np.empty(1, np.bool_)
        spans = found.outer.spans.take(np.array([row]))
        utf8_kernel(spans.buffer, spans.starts, spans.ends, text)
        if not text[0]:
            return "its key is not UTF-8"
    return f"its key: {found.reason(row)}"
