"""Encoding `upsert`: compacted topics. A record inserts or replaces the row of its key; without a value it deletes it.

The value is an object, with or without a schema; key columns missing in it are taken from the record's key.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import Column, UsageError
from holdfast.streaming.decoding.connect import cells_of, opened, struct_fields, written
from holdfast.streaming.decoding.keys import key_cells
from holdfast.streaming.decoding.messages import messages_of
from holdfast.streaming.decoding.new_fields import new_fields
from holdfast.streaming.decoding.values import Reasons, alike, as_texts, either
from holdfast.streaming.incoming.arrivals import Draft, Target, refuse
from holdfast.streaming.incoming.netting import DELETE, INSERT
from holdfast.tables.arrays import Flags
from holdfast.tables.fitting import fit
from holdfast.tables.kernels.json import ABSENT, NULL, OBJECT


def decode(batch: pa.Table | pa.RecordBatch, target: Target, topic: str, encodings: Mapping[str, str]) -> Draft:
    """Decode a batch from Kafka. O(bytes)."""
    needs_key(target, "upsert")
    messages = messages_of(batch, topic)
    found = opened(messages.values, [column.name for column in target.wanted])
    deletes = ~messages.values.present | (found.whole.kinds == NULL)
    objects = found.whole.kinds == OBJECT
    forms = [written(struct_fields(schema)) for schema in found.schemas.parsed]
    cells, reasons = cells_of(found.fields, target.wanted, found.schemas, forms, encodings)
    keys, wrong = key_cells(messages.keys, target, encodings)
    refuse(reasons, ~objects & ~deletes, found.reason)
    absent = np.ones(len(messages), np.bool_)
    for name in target.key:
        column = next(column for column in target.wanted if column.name == name)
        given = found.fields[name].kinds != ABSENT
        for row, reason in _differences(keys[name], cells[name], given, column).items():
            reasons.setdefault(row, reason)
        cells[name] = either(cells[name], keys[name])
        absent &= ~given
    reasons = {**wrong, **reasons}
    advice = "a record without a key, and its value does not have the key's columns either"
    refuse(reasons, ~messages.keys.present & absent, advice)
    operations = np.where(deletes, np.int8(DELETE), np.int8(INSERT))
    new = new_fields(found.whole.spans(), found.counts, found.fields.values(), target.known, messages.record_id)
    return messages.draft(operations, cells, reasons, new)


def needs_key(target: Target, encoding: str) -> None:
    """Refuse a table without a key."""
    if not target.key:
        raise UsageError(
            f"table {target.schema.table}: encoding {encoding} needs a key that says which row a record is of: declare "
            "it (key: [column])"
        )


def _differences(keys: pa.Array, cells: pa.Array, given: Flags, column: Column) -> Reasons:
    """Return the reasons of records whose key contradicts their value."""
    one, other = alike(keys, cells)
    same = pc.fill_null(pc.equal(one, other), False)
    rows = np.flatnonzero(given & np.asarray(pc.is_valid(one)) & ~np.asarray(same))
    if not len(rows):
        return {}
    taken = pa.array(rows)
    one, other = one.take(taken), other.take(taken)
    typed = pc.fill_null(pc.equal(fit(one, column)[0], fit(other, column)[0]), False)
    texts = as_texts(one).to_pylist(), as_texts(other).to_pylist()
    return {
        row: f"its key says that {column.name} is {texts[0][i]}, its value that it is {texts[1][i]}"
        for i, row in enumerate(rows.tolist())
        if not typed[i].as_py()
    }
