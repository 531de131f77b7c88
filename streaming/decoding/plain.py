"""Encoding `json`: the value has the row, and in `_op` the operation.

    {"_op": "update", "name": "Ann", "salary": 30000.50}

Fields without a column are ignored; a missing column is null; without `_op` the row is inserted.
"""

from collections.abc import Mapping

import pyarrow as pa

from holdfast.streaming.decoding.connect import cells_of, no_schemas
from holdfast.streaming.decoding.messages import messages_of
from holdfast.streaming.decoding.new_fields import new_fields
from holdfast.streaming.decoding.operations import OPERATION, operations_of
from holdfast.streaming.incoming.arrivals import UNREADABLE, Draft, Target, refuse
from holdfast.streaming.incoming.netting import DELETE, INSERT
from holdfast.tables.json_records import fields_of

_NO_VALUE = (
    "a record without a value has no meaning in encoding json; if it deletes the row of its key, use encoding upsert"
)


def decode(batch: pa.Table | pa.RecordBatch, target: Target, topic: str, encodings: Mapping[str, str]) -> Draft:
    """Decode a batch from Kafka. O(bytes)."""
    messages = messages_of(batch, topic)
    wanted = [column.name for column in target.wanted]
    found = fields_of(messages.values, [*wanted, *({OPERATION} - set(wanted))])
    reasons: dict[int, str] = {}
    refuse(reasons, ~messages.values.present, _NO_VALUE)
    reasons = {**found.reasons, **reasons}
    operations, problem = operations_of(found[OPERATION].texts(), INSERT)
    refuse(reasons, operations == UNREADABLE, problem)
    by_key = (operations == DELETE) & bool(target.key)
    needed = {*target.key, *({target.sequence.name} if target.sequence is not None else ())}
    fields = {name: found[name] if name in needed else found[name].where(~by_key) for name in wanted}
    cells, wrong = cells_of(fields, target.wanted, no_schemas(len(messages)), (), encodings)
    new = new_fields(messages.values, found.counts, found.cells(), [*target.known, OPERATION], messages.record_id)
    return messages.draft(operations, cells, {**wrong, **reasons}, new)
