"""Encoding `json`: the value holds the row, and in `_op` what happened to it.

    {"_op": "update", "name": "Ann", "salary": 30000.50}

Fields that are no columns say nothing; a column that is not there is null; without `_op` a row is inserted.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.streaming.decoding.connect import cells_of, no_schemas
from holdfast.streaming.decoding.messages import messages_of
from holdfast.streaming.decoding.new_fields import new_fields
from holdfast.streaming.decoding.operations import OPERATION, operations_of
from holdfast.streaming.incoming.arrivals import UNREADABLE, Draft, Target
from holdfast.streaming.incoming.netting import DELETE, INSERT
from holdfast.tables.json_records import Spans, fields_of

_NO_VALUE = (
    "a record without a value says nothing in encoding json; where it deletes the row of its key, use encoding upsert"
)


def decode(batch: pa.Table | pa.RecordBatch, target: Target, topic: str, encodings: Mapping[str, str]) -> Draft:
    """Decode a batch from Kafka. O(bytes)."""
    messages = messages_of(batch, topic)
    operations, cells, reasons, new = rows_of(messages.values, target, encodings, messages.record_id)
    for row in np.flatnonzero(~messages.values.present).tolist():
        reasons[row] = _NO_VALUE
    return Draft(operations, cells, messages.record_id, messages.raw, reasons, oldest=messages.oldest, new_fields=new)


def rows_of(
    records: Spans,
    target: Target,
    encodings: Mapping[str, str] | None = None,
    record_id: Callable[[int], str] = str,
) -> tuple[NDArray[np.int8], dict[str, pa.Array], dict[int, str], dict[str, str]]:
    """Return the operations, the cells by column, why records are unreadable, and fields that are new. O(bytes).

    >>> from holdfast.constraints import Column, Schema, parse_type
    >>> from holdfast.tables.json_records import spans_of
    >>> target = Target(Schema("t", [Column("a", parse_type("integer"))]))
    >>> operations, cells, reasons, _ = rows_of(spans_of(pa.array([b'{"a": 1}', b'{"a": 1, "_op": "remove"}'])), target)
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
    new = new_fields(records, found.counts, found.cells(), [*target.known, OPERATION], record_id)
    return operations, cells, reasons, new
