"""Encoding `debezium`: a change from the log of a database, with the row before and after it.

    {"before": null | {...}, "after": {...}, "source": {...}, "op": "c", "ts_ms": 1700000000000}

    c, r   insert the row after (r: of a snapshot)
    u      with a key: insert the row after; if the key changed, also delete the row before. If before is missing, the
           record's own key must have the key columns of the table, since then the key did not change
           without a key: delete the row before, and insert the row after
    d      delete the row before; with a key its key is enough
    t      delete all rows
    m      a message, skipped and counted, as are tombstones, heartbeats and records about transactions

Invariant: the two rows of one change have one record id, and one number in `Draft.changes`.

The value `__debezium_unavailable_value` means that the value did not change and was not read: the cell is kept. The
value is recognised as a text and in base64 (bytes), but not in its forms for arrays, maps and numbers, and not if the
connector has another text (`unavailable.value.placeholder`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.constraints import Column
from holdfast.streaming.decoding.connect import Opened, cells_of, opened, struct_fields, written
from holdfast.streaming.decoding.keys import filled_from_keys, key_cells
from holdfast.streaming.decoding.messages import SKIPPED, Messages, messages_of
from holdfast.streaming.decoding.new_fields import new_fields
from holdfast.streaming.decoding.operations import operations_of
from holdfast.streaming.decoding.values import Reasons
from holdfast.streaming.incoming.arrivals import TRUNCATE, UNREADABLE, Draft, Target, refuse
from holdfast.streaming.incoming.netting import DELETE, INSERT, UPDATE
from holdfast.tables.arrays import Flags, Positions
from holdfast.tables.json_records import Cells, Fields, fields_of
from holdfast.tables.kernels.json import ABSENT, NULL, OBJECT
from holdfast.tables.kernels.json_cells import equals_kernel, same_kernel

BEFORE, AFTER, OPERATION, TIME = "before", "after", "op", "ts_ms"
_TRANSACTION = ("status", "id", "event_count")
_ENVELOPE = (BEFORE, AFTER, OPERATION, TIME, *_TRANSACTION)

OPERATIONS = {"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE, "t": TRUNCATE, "m": SKIPPED}

_UNAVAILABLE = (b"__debezium_unavailable_value", b"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")
_NEEDS_FULL_ROWS = "set REPLICA IDENTITY FULL or declare a key"


def decode(batch: pa.Table | pa.RecordBatch, target: Target, topic: str, encodings: Mapping[str, str]) -> Draft:
    """Decode a batch from Kafka. O(bytes)."""
    messages = messages_of(batch, topic)
    found = opened(messages.values, _ENVELOPE)
    reasons: Reasons = {}
    operations = _operations(messages, found, reasons)
    if target.key:
        changes = _keyed(messages, found, target, operations, reasons)
    else:
        changes = _keyless(found, operations, reasons)
    return _Rows(messages, found, target, encodings, operations, changes, reasons).draft()


@dataclass(frozen=True)
class _Changes:
    """Which records delete the row before, which insert the row after, and which change the key (`moved`)."""

    deletes_before: Flags
    inserts_after: Flags
    moved: Flags


def debezium_operations(cells: Cells, reasons: Reasons, name: str, otherwise: int) -> NDArray[np.int8]:
    """Return the operation of each record by its letter, `otherwise` without a letter; unknown letters are refused."""
    texts = cells.texts()
    operations, problem = operations_of(texts, otherwise, OPERATIONS, name, "c, r, u, d, t or m")
    refuse(reasons, (operations == UNREADABLE) & np.asarray(pc.is_valid(texts)), problem)
    return operations


def heartbeats(found: Opened) -> Flags:
    """Return, per record, whether it is a heartbeat of the connector."""
    return np.asarray((found.counts == 1) & (found.fields[TIME].kinds != ABSENT))


def _operations(messages: Messages, found: Opened, reasons: Reasons) -> NDArray[np.int8]:
    """Return the operation of each record, SKIPPED if it says nothing about rows."""
    operations = debezium_operations(found.fields[OPERATION], reasons, OPERATION, UNREADABLE)
    silent = found.fields[OPERATION].is_kind(ABSENT, NULL)
    transactions = silent & (found.whole.kinds == OBJECT)
    for name in _TRANSACTION:
        transactions &= found.fields[name].kinds != ABSENT
    ended = ~messages.values.present | (found.whole.kinds == NULL)
    operations[ended | heartbeats(found) | transactions] = SKIPPED
    unreadable, objects = (operations == UNREADABLE) & silent, found.whole.kinds == OBJECT
    refuse(
        reasons,
        unreadable & objects,
        "no Debezium envelope: op is missing; for rows alone there are the encodings debezium-unwrapped and json",
    )
    refuse(reasons, unreadable & ~objects, found.reason)
    return operations


def _keyed(
    messages: Messages, found: Opened, target: Target, operations: NDArray[np.int8], reasons: Reasons
) -> _Changes:
    inserts_after = _inserts_after(found, operations, reasons)
    updates = (operations == UPDATE) & inserts_after
    both = updates & (found.fields[BEFORE].kinds == OBJECT)
    known, moved = both.copy(), both.copy()
    if both.any():
        before, after = (fields_of(found.fields[name].where(both).spans(), target.key) for name in (BEFORE, AFTER))
        same = both.copy()
        for name in target.key:
            known &= ~before[name].is_kind(ABSENT, NULL)
            same &= _same(before[name], after[name])
        moved = known & ~same
    if (updates & ~known).any():
        others = _of_other_keys(messages, target, updates & ~known)
        refuse(
            reasons,
            others,
            f"the row before the change is missing, and its own key is not that of the table, "
            f"{', '.join(target.key)}: set REPLICA IDENTITY FULL or declare the source's key",
        )
        inserts_after &= ~others
    return _Changes((operations == DELETE) | moved, inserts_after, moved)


def _of_other_keys(messages: Messages, target: Target, chosen: Flags) -> Flags:
    """Return which chosen records have a key without some key column of the table: the change may have changed it."""
    keys = opened(messages.keys.where(chosen), target.key)
    ours = np.ones(len(messages), np.bool_)
    for name in target.key:
        ours &= keys.fields[name].kinds != ABSENT
    return np.asarray((keys.whole.kinds == OBJECT) & ~ours)


def _keyless(found: Opened, operations: NDArray[np.int8], reasons: Reasons) -> _Changes:
    inserts_after = _inserts_after(found, operations, reasons)
    deletes_before = (operations == DELETE) | (operations == UPDATE) & inserts_after
    silent = deletes_before & (found.fields[BEFORE].kinds != OBJECT)
    refuse(reasons, silent, f"the row before the change is missing: {_NEEDS_FULL_ROWS}")
    return _Changes(deletes_before & ~silent, inserts_after & ~silent, np.zeros(len(operations), np.bool_))


def _inserts_after(found: Opened, operations: NDArray[np.int8], reasons: Reasons) -> Flags:
    """Return which records have a row to insert; refuse inserts and updates without a row."""
    inserts_after, has_row = (operations == INSERT) | (operations == UPDATE), found.fields[AFTER].kinds == OBJECT
    refuse(reasons, inserts_after & ~has_row, "the row after the change is missing")
    return np.asarray(inserts_after & has_row)


def _same(one: Cells, other: Cells) -> Flags:
    same = np.empty(len(one), np.bool_)
    same_kernel(one.buffer, one.kinds, one.begins, one.stops, other.kinds, other.begins, other.stops, same)
    return same


@dataclass
class _Rows:
    """The rows of records: none, one or two rows of each record."""

    messages: Messages
    found: Opened
    target: Target
    encodings: Mapping[str, str]
    operations: NDArray[np.int8]
    changes: _Changes
    reasons: Reasons

    def draft(self) -> Draft:
        """Read the rows; those with a reason are UNREADABLE."""
        deletes_before, inserts_after = self.changes.deletes_before.copy(), self.changes.inserts_after.copy()
        alone = (self.operations != SKIPPED) & ~deletes_before & ~inserts_after  # truncations and unreadable records
        records = np.repeat(np.arange(len(deletes_before)), alone + deletes_before.astype(np.int64) + inserts_after)
        second = np.concatenate([[False], records[1:] == records[:-1]]) if len(records) else np.zeros(0, np.bool_)
        removes = deletes_before[records] & ~second
        operations = np.where(removes, np.int8(DELETE), self.operations[records])
        operations[self.changes.moved[records] & ~removes] = UPDATE
        if not self.target.key:
            operations[inserts_after[records] & ~removes] = INSERT
        before, after = self.found.fields[BEFORE], self.found.fields[AFTER]
        spans = before.where(deletes_before).take(np.where(removes, records, -1)).spans()
        spans = spans.merged(after.where(inserts_after).take(np.where(removes, -1, records)).spans())
        fields = fields_of(spans, [column.name for column in self.target.wanted])
        wrong: Reasons = {}
        moved = self.changes.moved[records]
        by_key = removes & bool(self.target.key)  # of a row that is deleted by its key, the key is enough
        needed = {*self.target.key, *(() if self.target.sequence is None else (self.target.sequence.name,))}
        sent = {name: fields[name] if name in needed else fields[name].where(~by_key) for name in fields.names}
        if not self.target.key:
            self._refuse_partial(fields, removes, records, wrong)
        kept, sent = not_sent(sent, self.target, np.ones(len(records), np.bool_), wrong, moved)
        cells = self._cells(sent, records, removes, wrong)
        found = fields.cells()
        new = new_fields(spans, fields.counts, found, self.target.known, lambda row: self._record_id(records, row))
        for row in np.flatnonzero(np.isin(records, list(self.reasons))).tolist():
            wrong[row] = self.reasons[int(records[row])]
        operations[list(wrong)] = UNREADABLE
        return Draft(
            operations,
            cells,
            partial(self._record_id, records),
            lambda row: self.messages.raw(int(records[row])),
            wrong,
            kept,
            int(np.count_nonzero(self.operations == SKIPPED)),
            self.messages.oldest,
            new_fields=new,
            changes=records,
        )

    def _record_id(self, records: Positions, row: int) -> str:
        return self.messages.record_id(int(records[row]))

    def _refuse_partial(self, fields: Fields, removes: Flags, records: Positions, wrong: Reasons) -> None:
        """Refuse a row before a change if only some of its columns were sent."""
        if not removes.any():
            return
        keys = opened(self.messages.keys, fields.names)
        partial, only_key = np.zeros(len(records), np.bool_), removes.copy()
        beyond, named = np.zeros(len(records), np.bool_), np.zeros(len(records), np.bool_)
        for name in fields.names:
            in_key = keys.fields[name].kinds[records] != ABSENT
            partial |= fields[name].kinds == ABSENT
            only_key &= in_key | (fields[name].kinds == NULL)
            beyond |= ~in_key
            named |= in_key
        refused = removes & (partial | only_key & beyond & named)
        refuse(wrong, refused, f"the row before the change is incomplete: {_NEEDS_FULL_ROWS}")

    def _cells(
        self, sent: Mapping[str, Cells], records: Positions, removes: Flags, wrong: Reasons
    ) -> dict[str, pa.Array]:
        schemas = self.found.schemas.take(records)
        forms = [written(struct_fields(schema, AFTER, BEFORE)) for schema in schemas.parsed]
        cells, misread = cells_of(sent, self.target.wanted, schemas, forms, self.encodings)
        by_key = removes if self.target.key else np.zeros(len(records), np.bool_)
        for row, reason in misread.items():
            if not by_key[row]:
                wrong.setdefault(row, reason)
        missing = np.zeros(len(records), np.bool_)
        for name in self.target.key:
            missing |= by_key & np.asarray(pc.is_null(cells[name]))
        if missing.any():
            self._fill_from_keys(cells, missing, records, wrong)
        return cells

    def _fill_from_keys(self, cells: dict[str, pa.Array], missing: Flags, records: Positions, wrong: Reasons) -> None:
        """Take the keys of deleted rows from the records' keys, where missing; refuse deletes without a key."""
        spans = self.messages.keys.take(np.where(missing, records, -1))
        keys, misread = key_cells(spans, self.target, self.encodings)
        lost = filled_from_keys(cells, keys, self.target) & missing
        refuse(wrong, lost, lambda row: misread.get(row, "a delete without a key"))


def not_sent(
    cells: Mapping[str, Cells], target: Target, chosen: Flags, reasons: Reasons, moved: Flags | None = None
) -> tuple[Flags | None, dict[str, Cells]]:
    """Return which cells were not sent since they did not change, and the cells without these.

    Parameters
    ----------
    cells : the cells by column.
    chosen : the rows that are examined.
    reasons : gets the reasons of rows with cells that cannot be kept: without a key, in a key, or if the key changed.
    moved : the rows whose key changed.
    """
    kept: Flags | None = None
    left: dict[str, Cells] = {}
    for column in target.wanted:
        found = _unavailable(cells[column.name]) & chosen
        left[column.name] = cells[column.name].where(~found) if found.any() else cells[column.name]
        if not found.any():
            continue
        allowed = bool(target.key) and column.name not in target.key and column.name in target.schema
        refused = found & (not allowed if moved is None else moved | (not allowed))
        refuse(reasons, refused, _not_kept(column, target))
        if column.name in target.schema:
            kept = np.zeros((len(chosen), len(target.schema.columns)), np.bool_) if kept is None else kept
            kept[found, target.schema.index(column.name)] = True
    return kept, left


def _not_kept(column: Column, target: Target) -> str:
    why = "its key changed" if target.key else "the table has no key"
    if column.name in target.key or column.name not in target.schema:
        why = "each record needs it"
    advice = "set REPLICA IDENTITY FULL" if target.key else _NEEDS_FULL_ROWS
    return f"column {column.name} was not sent, and cannot be kept as it was, since {why}: {advice}"


def _unavailable(cells: Cells) -> Flags:
    found = np.zeros(len(cells), np.bool_)
    for text in _UNAVAILABLE:
        same = np.empty(len(cells), np.bool_)
        equals_kernel(cells.buffer, cells.kinds, cells.begins, cells.stops, np.frombuffer(text, np.uint8), same)
        found |= same
    return found
