"""Encoding `json`: the value holds the row, and in `_op` what happened to it.

    {"_op": "update", "name": "Ann", "salary": 30000.50}

Fields that are no columns say nothing; a column that is not there is null; without `_op` a row is inserted.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.streaming.arrivals import UNREADABLE, Draft, Target
from holdfast.streaming.decoding.connect import cells_of, no_schemas
from holdfast.streaming.decoding.messages import messages_of
from holdfast.streaming.decoding.operations import OPERATION, operations_of
from holdfast.streaming.netting import DELETE, INSERT
from holdfast.tables.json_records import Spans, fields_of

_NO_VALUE = (
    "a record without a value says nothing in encoding json; where it deletes the row of its key, use encoding upsert"
)


def decode(batch: pa.Table | pa.RecordBatch, target: Target, topic: str, encodings: Mapping[str, str]) -> Draft:
    """Decode a batch from Kafka. O(bytes)."""
    messages = messages_of(batch, topic)
    operations, cells, reasons = rows_of(messages.values, target, encodings)
    for row in np.flatnonzero(~messages.values.present).tolist():
        reasons[row] = _NO_VALUE
    return Draft(operations, cells, messages.record_id, messages.raw, reasons, oldest=messages.oldest)


def rows_of(
    records: Spans, target: Target, encodings: Mapping[str, str] | None = None
) -> tuple[NDArray[np.int8], dict[str, pa.Array], dict[int, str]]:
    """Return the operations, the cells by column, and why records are unreadable. O(bytes).

    >>> from holdfast.constraints import Column, Schema, parse_type
    >>> from holdfast.tables.json_records import spans_of
    >>> target = Target(Schema("t", [Column("a", parse_type("integer"))]))
    >>> operations, cells, reasons = rows_of(spans_of(pa.array([b'{"a": 1}', b'{"a": 1, "_op": "remove"}'])), target)
    >>> operations.tolist(), cells["a"].to_pylist(), reasons
    ([0, -1], ['1', '1'], {1: "_op is 'remove': expected insert, update or delete"})
    """
    wanted = [column.name for column in target.wanted]
    found = fields_of(records, [*wanted, *({OPERATION} - set(wanted))])
    reasons = found.reasons
    operations, problem = operations_of(found[OPERATION].texts(), INSERT)
    for row in np.flatnonzero(operations == UNREADABLE).tolist():
        reasons.setdefault(row, problem(row))
    by_key = (operations == DELETE) & bool(target.key)
    needed = {*target.key, *({target.sequence.name} if target.sequence is not None else ())}
    fields = {name: found[name] if name in needed else found[name].where(~by_key) for name in wanted}
    cells, wrong = cells_of(fields, target.wanted, no_schemas(len(records)), (), encodings or {})
    for row, reason in wrong.items():
        reasons.setdefault(row, reason)
    operations[list(reasons)] = UNREADABLE
    return operations, cells, reasons
