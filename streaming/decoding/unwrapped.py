"""Encoding `debezium-unwrapped`: the row after each change, flattened out of Debezium's envelope.

    {"id": 7, "name": "Ann", "__op": "u", "__deleted": "false"}

A record without a value deletes the row of its key, like a record with `__deleted`. Cells are kept if the connector did
not read their value, since it did not change.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.streaming.decoding.connect import Opened, cells_of, opened, struct_fields, written
from holdfast.streaming.decoding.debezium import TIME, debezium_operations, heartbeats, not_sent
from holdfast.streaming.decoding.keys import filled_from_keys, key_cells
from holdfast.streaming.decoding.messages import SKIPPED, messages_of
from holdfast.streaming.decoding.new_fields import new_fields
from holdfast.streaming.decoding.upsert import needs_key
from holdfast.streaming.decoding.values import Reasons
from holdfast.streaming.incoming.arrivals import Draft, Target, refuse
from holdfast.streaming.incoming.netting import DELETE, INSERT
from holdfast.tables.kernels.json import NULL, OBJECT

OPERATION, DELETED = "__op", "__deleted"
_SERVICE = "__"
"""The beginning of the names of fields that Debezium adds to rows."""


def decode(batch: pa.Table | pa.RecordBatch, target: Target, topic: str, encodings: Mapping[str, str]) -> Draft:
    """Decode a batch from Kafka. O(bytes)."""
    needs_key(target, "debezium-unwrapped")
    messages = messages_of(batch, topic)
    names = [column.name for column in target.wanted]
    found = opened(messages.values, list(dict.fromkeys([*names, OPERATION, DELETED, TIME])))
    reasons: Reasons = {}
    operations = _operations(found, reasons)
    ended = ~messages.values.present | (found.whole.kinds == NULL)
    operations[ended] = DELETE
    if TIME not in names:
        operations[heartbeats(found)] = SKIPPED
    refuse(reasons, (found.whole.kinds != OBJECT) & ~ended, found.reason)
    kept, fields = not_sent(found.fields, target, operations != DELETE, reasons)
    forms = [written(struct_fields(schema)) for schema in found.schemas.parsed]
    cells, wrong = cells_of(fields, target.wanted, found.schemas, forms, encodings)
    deletes = operations == DELETE
    for row, reason in wrong.items():
        if not deletes[row]:
            reasons.setdefault(row, reason)
    if deletes.any():
        keys, wrong = key_cells(messages.keys.where(deletes), target, encodings)
        missing = filled_from_keys(cells, keys, target) & deletes
        advice = "a delete without a key, neither in the record's key nor in its value"
        refuse(reasons, missing, lambda row: wrong.get(row, advice))
    objects = found.whole.spans()
    known = [*target.known, TIME]
    new = new_fields(objects, found.counts, found.fields.values(), known, messages.record_id, _SERVICE)
    return messages.draft(operations, cells, reasons, new, kept)


def _operations(found: Opened, reasons: Reasons) -> NDArray[np.int8]:
    """Return the operation of each record; a record without one inserts or replaces the row of its key."""
    deleted = np.asarray(pc.fill_null(pc.equal(found.fields[DELETED].texts(), "true"), False))
    operations = debezium_operations(found.fields[OPERATION], reasons, OPERATION, INSERT)
    operations[deleted] = DELETE
    return operations
