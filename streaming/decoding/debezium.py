"""Encoding `debezium`: a change as the database's log has it, with the row before and after.

    {"before": null | {...}, "after": {...}, "source": {...}, "op": "c", "ts_ms": 1700000000000}

    c, r   the row after: an insert (a snapshot's row is one too)
    u      with a key: the row after, and if the key is another one now, the end of the row before; where before is
           missing the record's own key has to have the columns of ours, since then it is the same
           without: the end of the row before, and the row after
    d      the end of the row before; with a key its key is enough
    t      the end of all rows
    m      a message, skipped and counted, as are tombstones, heartbeats and records about transactions

Invariant: of a change that makes two rows, both are drafted or none; they have one record id.

A value that is `__debezium_unavailable_value` did not change and was not read: the cell is kept. It is known as a text
and in base64 (bytes); the forms of arrays, maps and numbers, and a text of one's own (`unavailable.value.placeholder`),
are not.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.constraints import Column
from holdfast.streaming.decoding.connect import Opened, cells_of, opened, struct_fields, written
from holdfast.streaming.decoding.keys import key_cells
from holdfast.streaming.decoding.messages import Messages, messages_of
from holdfast.streaming.decoding.new_fields import new_fields
from holdfast.streaming.decoding.values import Reasons, either
from holdfast.streaming.incoming.arrivals import TRUNCATE, UNREADABLE, Draft, Target
from holdfast.streaming.incoming.netting import DELETE, INSERT, UPDATE
from holdfast.tables.arrays import Flags, Positions
from holdfast.tables.fitting import fit, misfit
from holdfast.tables.json_records import Cells, Fields, fields_of
from holdfast.tables.kernels.json import ABSENT, NULL, OBJECT
from holdfast.tables.kernels.json_cells import equals_kernel, same_kernel

BEFORE, AFTER, OPERATION, TIME = "before", "after", "op", "ts_ms"
_TRANSACTION = ("status", "id", "event_count")
_ENVELOPE = (BEFORE, AFTER, OPERATION, TIME, *_TRANSACTION)

SKIPPED = -2
OPERATIONS = {"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE, "t": TRUNCATE, "m": SKIPPED}

_UNAVAILABLE = (b"__debezium_unavailable_value", b"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")
_FULL = "set REPLICA IDENTITY FULL or declare a key"


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
    """Which records end the row before, and which bring the row after; `moved` ones have another key than before."""

    ends: Flags
    brings: Flags
    moved: Flags


def operations_of(cells: Cells, reasons: Reasons, name: str, missing: int) -> NDArray[np.int8]:
    """Return what the letters of operations mean; unknown ones become reasons."""
    coded = pc.dictionary_encode(cells.texts())
    letters = coded.dictionary.to_pylist()
    known = np.array([*(OPERATIONS.get(letter, UNREADABLE) for letter in letters), missing], np.int8)
    places = np.asarray(pc.fill_null(coded.indices, len(letters)))
    operations: NDArray[np.int8] = known[places]
    for row in np.flatnonzero((operations == UNREADABLE) & (places < len(letters))).tolist():
        reasons.setdefault(row, f"{name} is '{letters[places[row]][:80]}': expected c, r, u, d, t or m")
    return operations


def heartbeats(found: Opened) -> Flags:
    """Return which records say no more than that the connector lives."""
    return np.asarray((found.counts == 1) & (found.fields[TIME].kinds != ABSENT))


def _operations(messages: Messages, found: Opened, reasons: Reasons) -> NDArray[np.int8]:
    """Return what each record does, SKIPPED where it says nothing about rows."""
    operations = operations_of(found.fields[OPERATION], reasons, OPERATION, UNREADABLE)
    silent = found.fields[OPERATION].is_kind(ABSENT, NULL)
    transactions = silent & (found.whole.kinds == OBJECT)
    for name in _TRANSACTION:
        transactions &= found.fields[name].kinds != ABSENT
    ended = ~messages.values.present | (found.whole.kinds == NULL)
    operations[ended | heartbeats(found) | transactions] = SKIPPED
    for row in np.flatnonzero((operations == UNREADABLE) & silent).tolist():
        reasons[row] = (
            "no Debezium envelope: op is missing; for rows alone there are the encodings debezium-unwrapped and json"
            if found.whole.kinds[row] == OBJECT
            else found.reason(row)
        )
    return operations


def _keyed(
    messages: Messages, found: Opened, target: Target, operations: NDArray[np.int8], reasons: Reasons
) -> _Changes:
    brings = _brings(found, operations, reasons)
    updates = (operations == UPDATE) & brings
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
        for row in np.flatnonzero(_of_other_keys(messages, target, updates & ~known)).tolist():
            reasons[row] = (
                f"it does not say which row there was before, and its own key is not that of the table, "
                f"{', '.join(target.key)}: set REPLICA IDENTITY FULL or declare the source's key"
            )
            brings[row] = False
    return _Changes((operations == DELETE) | moved, brings, moved)


def _of_other_keys(messages: Messages, target: Target, chosen: Flags) -> Flags:
    """Return which records have a key without some column of ours, which the change may then have changed."""
    keys = opened(messages.keys.where(chosen), target.key)
    ours = np.ones(len(messages), np.bool_)
    for name in target.key:
        ours &= keys.fields[name].kinds != ABSENT
    return np.asarray((keys.whole.kinds == OBJECT) & ~ours)


def _keyless(found: Opened, operations: NDArray[np.int8], reasons: Reasons) -> _Changes:
    brings = _brings(found, operations, reasons)
    ends = (operations == DELETE) | (operations == UPDATE) & brings
    for row in np.flatnonzero(ends & (found.fields[BEFORE].kinds != OBJECT)).tolist():
        reasons[row] = f"it does not say which row there was before: {_FULL}"
        ends[row] = brings[row] = False
    return _Changes(ends, brings, np.zeros(len(operations), np.bool_))


def _brings(found: Opened, operations: NDArray[np.int8], reasons: Reasons) -> Flags:
    """Return which records bring a row, and refuse those that should and do not."""
    brings = (operations == INSERT) | (operations == UPDATE)
    for row in np.flatnonzero(brings & (found.fields[AFTER].kinds != OBJECT)).tolist():
        reasons[row] = "it does not say which row there is now: after is missing"
        brings[row] = False
    return np.asarray(brings)


def _same(one: Cells, other: Cells) -> Flags:
    same = np.empty(len(one), np.bool_)
    same_kernel(one.buffer, one.kinds, one.begins, one.stops, other.kinds, other.begins, other.stops, same)
    return same


@dataclass
class _Rows:
    """The rows of records: none, one or two of each."""

    messages: Messages
    found: Opened
    target: Target
    encodings: Mapping[str, str]
    operations: NDArray[np.int8]
    changes: _Changes
    reasons: Reasons

    def draft(self) -> Draft:
        """Read the rows, and leave out those of records with a reason, but for one that has it."""
        ends, brings = self.changes.ends.copy(), self.changes.brings.copy()
        alone = (self.operations != SKIPPED) & ~ends & ~brings  # truncations and unreadable ones
        records = np.repeat(np.arange(len(ends)), alone + ends.astype(np.int64) + brings)
        second = np.concatenate([[False], records[1:] == records[:-1]]) if len(records) else np.zeros(0, np.bool_)
        removes = ends[records] & ~second
        operations = np.where(removes, np.int8(DELETE), self.operations[records])
        operations[self.changes.moved[records] & ~removes] = UPDATE
        if not self.target.key:
            operations[brings[records] & ~removes] = INSERT
        before, after = self.found.fields[BEFORE], self.found.fields[AFTER]
        spans = before.where(ends).take(np.where(removes, records, -1)).spans()
        spans = spans.merged(after.where(brings).take(np.where(removes, -1, records)).spans())
        fields = fields_of(spans, [column.name for column in self.target.wanted])
        wrong: Reasons = {}
        sent = {name: fields[name] for name in fields.names}
        if not self.target.key:
            self._refuse_partial(fields, removes, records, wrong)
        kept, sent = not_sent(sent, self.target, np.ones(len(records), np.bool_), wrong, self.changes.moved[records])
        cells = self._cells(sent, records, removes, wrong)
        if second.any():
            cells = self._typed(cells, operations, wrong)
        new = new_fields(
            spans,
            fields.counts,
            fields.cells(),
            self.target.known,
            lambda row: self.messages.record_id(int(records[row])),
        )
        return self._draft(records, operations, cells, kept, wrong, new)

    def _refuse_partial(self, fields: Fields, removes: Flags, records: Positions, wrong: Reasons) -> None:
        """Refuse rows before a change of which only some columns were sent, the others as null or not at all."""
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
        for row in np.flatnonzero(removes & (partial | only_key & beyond & named)).tolist():
            wrong[row] = f"it does not say all about the row there was before: {_FULL}"

    def _cells(
        self, sent: Mapping[str, Cells], records: Positions, removes: Flags, wrong: Reasons
    ) -> dict[str, pa.Array]:
        schemas = self.found.schemas.take(records)
        forms = schemas.columns(lambda schema: written(struct_fields(schema, AFTER, BEFORE)))
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
        """Take the key of deleted rows from the records' keys, where the row before does not have it."""
        spans = self.messages.keys.take(np.where(missing, records, -1))
        keys, misread = key_cells(spans, self.target, self.encodings)
        lost = np.zeros(len(records), np.bool_)
        for name in self.target.key:
            cells[name] = either(cells[name], keys[name])
            lost |= missing & np.asarray(pc.is_null(cells[name]))
        for row in np.flatnonzero(lost).tolist():
            wrong.setdefault(row, misread.get(row, "a delete that does not say of which key"))

    def _typed(
        self, cells: Mapping[str, pa.Array], operations: NDArray[np.int8], wrong: Reasons
    ) -> dict[str, pa.Array]:
        """Type the cells here, so that one bad row of two takes the other with it."""
        made = {}
        brings = (operations == INSERT) | (operations == UPDATE)
        counting = brings | (operations == DELETE) if not self.target.key else brings
        for column in self.target.wanted:
            array = cells[column.name]
            typed, misfits = fit(array, column)
            if misfits is not None:
                misfits = misfits & (counting | (column.name in self.target.key))
                for row in np.flatnonzero(misfits).tolist():
                    wrong.setdefault(row, misfit(str(array[row].as_py()), column))
            if column.name in self.target.key or column is self.target.sequence:
                needed = brings | (operations == DELETE)
                for row in np.flatnonzero(np.asarray(pc.is_null(typed)) & needed).tolist():
                    wrong.setdefault(row, f"column {column.name} is null or missing: a record needs it")
            made[column.name] = typed
        return made

    def _draft(
        self,
        records: Positions,
        operations: NDArray[np.int8],
        cells: Mapping[str, pa.Array],
        kept: Flags | None,
        wrong: Reasons,
        new: Mapping[str, str],
    ) -> Draft:
        by_record: Reasons = dict(self.reasons)
        for row, reason in sorted(wrong.items()):
            by_record.setdefault(int(records[row]), reason)
        bad = np.zeros(len(self.messages), np.bool_)
        bad[list(by_record)] = True
        first = np.ones(len(records), np.bool_)
        first[1:] = records[1:] != records[:-1]
        rows = np.flatnonzero(~bad[records] | first)
        operations[bad[records]] = UNREADABLE
        if len(rows) < len(records):
            taken = pa.array(rows)
            cells = {name: array.take(taken) for name, array in cells.items()}
            records, operations, kept = records[rows], operations[rows], None if kept is None else kept[rows]
        messages = self.messages
        return Draft(
            operations,
            cells,
            lambda row: messages.record_id(int(records[row])),
            lambda row: messages.raw(int(records[row])),
            {row: by_record[int(records[row])] for row in np.flatnonzero(bad[records]).tolist()},
            kept,
            int(np.count_nonzero(self.operations == SKIPPED)),
            messages.oldest,
            new_fields=new,
        )


def not_sent(
    cells: Mapping[str, Cells], target: Target, chosen: Flags, reasons: Reasons, moved: Flags | None = None
) -> tuple[Flags | None, dict[str, Cells]]:
    """Return which cells were not sent since they did not change, and the others.

    Parameters
    ----------
    cells : by column.
    chosen : the rows that count.
    reasons : gets those that cannot be kept: of a table without a key, of a key, of rows whose key changed.
    moved : rows whose key changed.
    """
    kept: Flags | None = None
    left: dict[str, Cells] = {}
    for column in target.wanted:
        found = _unavailable(cells[column.name]) & chosen
        left[column.name] = cells[column.name].where(~found) if found.any() else cells[column.name]
        if not found.any():
            continue
        allowed = bool(target.key) and column.name not in target.key and column.name in target.schema
        for row in np.flatnonzero(found).tolist():
            if not allowed or (moved is not None and moved[row]):
                reasons.setdefault(row, _not_kept(column, target))
        if column.name in target.schema:
            kept = np.zeros((len(chosen), len(target.schema.columns)), np.bool_) if kept is None else kept
            kept[found, target.schema.index(column.name)] = True
    return kept, left


def _not_kept(column: Column, target: Target) -> str:
    why = "its key changed" if target.key else "the table has no key"
    if column.name in target.key or column.name not in target.schema:
        why = "each record is to have it"
    advice = "set REPLICA IDENTITY FULL" if target.key else _FULL
    return f"column {column.name} was not sent, and cannot be kept as it was, since {why}: {advice}"


def _unavailable(cells: Cells) -> Flags:
    found = np.zeros(len(cells), np.bool_)
    for text in _UNAVAILABLE:
        same = np.empty(len(cells), np.bool_)
        equals_kernel(cells.buffer, cells.kinds, cells.begins, cells.stops, np.frombuffer(text, np.uint8), same)
        found |= same
    return found
