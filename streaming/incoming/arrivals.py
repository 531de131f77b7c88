"""The records of a micro-batch, whatever its source: typed good records, and bad records with their reasons.

    source  ->  Draft: cells as the source has them          streaming/decoding/, streaming/spark/
            ->  Arrivals: records to apply, bad records      here, the same for every source

Invariant: every record of the draft is applied, bad, or counted as skipped; a bad record does not stop the others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.constraints import Column, Schema
from holdfast.streaming.incoming.netting import DELETE, INSERT, UPDATE, Records
from holdfast.tables.arrays import Flags
from holdfast.tables.columnar import encoded
from holdfast.tables.fitting import fit, misfit
from holdfast.tables.keys import arrow_type_of, narrow_keys

TRUNCATE, UNREADABLE = 3, -1
_LONGEST_RAW = 65_536

Cells = Mapping[str, pa.Array]


@dataclass(frozen=True)
class Target:
    """The table that records are for.

    Parameters
    ----------
    schema : the monitored columns.
    key : the columns that identify a row.
    sequence : the column that orders the records of one key, if they may arrive out of order.
    store_raw : whether bad records are stored in their raw form.
    others : columns of the source that are not monitored.
    """

    schema: Schema
    key: tuple[str, ...] = ()
    sequence: Column | None = None
    store_raw: bool = True
    others: tuple[str, ...] = ()

    @property
    def wanted(self) -> tuple[Column, ...]:
        """The columns that are read from records."""
        extra = () if self.sequence is None or self.sequence.name in self.schema else (self.sequence,)
        return (*self.schema.columns, *extra)

    @property
    def known(self) -> tuple[str, ...]:
        """All known columns of the source."""
        return (*(column.name for column in self.wanted), *self.others)


@dataclass(frozen=True)
class BadRecord:
    """A record that could not be read.

    Parameters
    ----------
    record_id : topic-partition-offset, or file-line.
    raw : the raw record, shortened; None if it may not be stored.
    reason : the reason, for people.
    """

    record_id: str
    raw: str | None
    reason: str


@dataclass(frozen=True)
class Draft:
    """Records in their order, with cells as the source has them.

    Parameters
    ----------
    operations : INSERT, UPDATE, DELETE, TRUNCATE (delete all rows), or UNREADABLE.
    cells : texts or typed values by column; a missing column is null. A delete by key needs only the key columns.
    record_id : returns the id of a record.
    raw : returns a record in its raw form, or None.
    reasons : the reasons of UNREADABLE records, by number.
    kept : (records, columns of the schema): cells that were not sent, since they did not change.
    skipped : how many further records say nothing about rows.
    oldest : when the oldest record was written, in seconds since 1970.
    versions : of a feed of inserted and deleted whole rows, the version of each record.
    new_fields : fields without a column, each with the first record that has it.
    refused_columns : columns for which a whole file is one bad record, each with the first such file.
    changes : the number of the change that a record belongs to, if a change may have two records: both are applied, or
        the change is one bad record.
    """

    operations: NDArray[np.int8]
    cells: Cells
    record_id: Callable[[int], str]
    raw: Callable[[int], bytes | str | None] = lambda _: None
    reasons: Mapping[int, str] = field(default_factory=dict)
    kept: Flags | None = None
    skipped: int = 0
    oldest: float | None = None
    versions: NDArray[np.int64] | None = None
    new_fields: Mapping[str, str] = field(default_factory=dict)
    refused_columns: Mapping[str, str] = field(default_factory=dict)
    changes: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.operations)

    def taken(self, rows: NDArray[np.int64]) -> "Draft":
        """Return a draft of the given distinct records, in the order given."""
        taken = pa.array(rows)
        place = np.full(len(self), -1)
        place[rows] = np.arange(len(rows))
        return replace(
            self,
            operations=self.operations[rows],
            cells={name: cells.take(taken) for name, cells in self.cells.items()},
            record_id=lambda row: self.record_id(int(rows[row])),
            raw=lambda row: self.raw(int(rows[row])),
            reasons={int(place[row]): reason for row, reason in self.reasons.items() if place[row] >= 0},
            kept=None if self.kept is None else self.kept[rows],
            versions=None if self.versions is None else self.versions[rows],
            changes=None if self.changes is None else self.changes[rows],
        )


@dataclass(frozen=True)
class Arrivals:
    """The records of a micro-batch, ready to be applied.

    Parameters
    ----------
    records : the records to apply.
    bad : the records for the quarantine.
    skipped, oldest, new_fields, refused_columns : as in the draft.
    is_skipped : whether the whole batch goes into quarantine on request.
    bad_record : returns one of `records` as a bad record, for a reason that is found when it is applied.
    """

    records: Records
    bad: tuple[BadRecord, ...] = ()
    skipped: int = 0
    oldest: float | None = None
    bad_record: Callable[[int, str], BadRecord] = lambda row, reason: BadRecord(str(row), None, reason)
    is_skipped: bool = False
    new_fields: Mapping[str, str] = field(default_factory=dict)
    refused_columns: Mapping[str, str] = field(default_factory=dict)


def refuse(reasons: dict[int, str], records: Flags, reason: str | Callable[[int], str]) -> None:
    """Note why the chosen records cannot be read; a record that has a reason already keeps it."""
    for row in np.flatnonzero(records).tolist():
        reasons.setdefault(row, reason if isinstance(reason, str) else reason(row))


def arrivals(draft: Draft, target: Target) -> Arrivals:
    """Give the cells of a draft their types, and separate bad records. O(records)."""
    count = len(draft)
    operations = draft.operations
    reasons = dict(draft.reasons)
    typed = _typed(draft, target, reasons)
    about_rows = operations != TRUNCATE
    for name in target.key:
        missing = _is_null(typed[name]) & about_rows
        refuse(reasons, missing, f"key column {name} is null or missing: a record needs all key columns")
    if target.sequence is not None:
        name = target.sequence.name
        missing = _is_null(typed[name]) & about_rows
        refuse(reasons, missing, f"sequence column {name} is null or missing: a record needs a sequence")
    if not target.key:
        advice = "an update needs a key that identifies its row: declare a key, or send a delete and an insert"
        refuse(reasons, operations == UPDATE, advice)
    refuse(reasons, ~np.isin(operations, (INSERT, UPDATE, DELETE, TRUNCATE)), "its operation is unknown")
    changes = np.arange(count) if draft.changes is None else draft.changes
    refused: dict[int, int] = {}  # the first bad row of each change
    for row in sorted(reasons):
        refused.setdefault(int(changes[row]), row)
    bad = tuple(_bad(draft, row, target, reasons[row]) for row in refused.values())
    rows = _counting(draft, ~np.isin(changes, list(refused)))
    records = _records(draft, target, typed, rows)
    return Arrivals(
        records,
        bad,
        draft.skipped,
        draft.oldest,
        lambda row, reason: _bad(draft, int(rows[row]), target, reason),
        new_fields=draft.new_fields,
        refused_columns=draft.refused_columns,
    )


def _typed(draft: Draft, target: Target, reasons: dict[int, str]) -> dict[str, pa.Array]:
    """Return the cells with the types of their columns; a cell that does not fit its type is a reason."""
    deletes = (draft.operations == DELETE) & bool(target.key and draft.versions is None)
    typed: dict[str, pa.Array] = {}
    for column in target.wanted:
        cells = draft.cells.get(column.name)
        if cells is None:
            typed[column.name] = pa.nulls(len(draft), arrow_type_of(column.type))
            continue
        if column.name not in target.key and column is not target.sequence and deletes.any():
            cells = pc.if_else(pa.array(deletes), pa.scalar(None, cells.type), cells)
        typed[column.name], wrong = fit(cells, column)
        if wrong is not None:
            for row in np.flatnonzero(wrong).tolist():
                reasons.setdefault(row, misfit(str(readable(cells[row])), column))
    return typed


def all_bad(draft: Draft, target: Target, reason: str) -> Arrivals:
    """Return all records of a draft as bad records."""
    none = arrivals(replace(draft, operations=np.full(len(draft), UNREADABLE, np.int8), reasons={}), target)
    bad = tuple(_bad(draft, row, target, reason) for row in range(len(draft)))
    return Arrivals(none.records, bad, draft.skipped, draft.oldest, is_skipped=True)


def readable(cell: pa.Scalar) -> object:
    """Return a cell's value; a time outside of the years 1 to 9999, which Python does not have, as its number.

    >>> readable(pa.scalar(7)), readable(pa.scalar(4 * 10**17, pa.timestamp("us")))
    (7, '400000000000000000 (timestamp[us])')
    """
    try:
        return cell.as_py()
    except (OverflowError, ValueError):
        return f"{cell.value} ({cell.type})"


def _counting(draft: Draft, good: Flags) -> NDArray[np.int64]:
    """Return the good records, without those before the last truncation."""
    truncations = np.flatnonzero((draft.operations == TRUNCATE) & good)
    first = int(truncations[-1]) + 1 if len(truncations) else 0
    return first + np.flatnonzero(good[first:])


def _records(draft: Draft, target: Target, typed: Cells, rows: NDArray[np.int64]) -> Records:
    taken = pa.array(rows)
    arrays = {column.name: pa.chunked_array([typed[column.name].take(taken)]) for column in target.schema.columns}
    table = encoded(
        target.schema.table,
        target.schema.columns,
        arrays,
        len(rows),
        locate=lambda row: draft.record_id(int(rows[row])),
    )
    sequence = None
    if target.sequence is not None:
        sequence = narrow_keys(typed[target.sequence.name].take(taken), target.sequence.type)
    return Records(
        table,
        draft.operations[rows],
        kept=None if draft.kept is None else draft.kept[rows],
        sequence=sequence,
        versions=None if draft.versions is None else draft.versions[rows],
        truncated=bool((draft.operations == TRUNCATE).any()),
    )


def _is_null(array: pa.Array) -> Flags:
    return np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False))


def _bad(draft: Draft, row: int, target: Target, reason: str) -> BadRecord:
    return BadRecord(draft.record_id(row), _raw(draft, row, target), reason)


def _raw(draft: Draft, row: int, target: Target) -> str | None:
    raw = draft.raw(row) if target.store_raw else None
    if raw is None:
        return None
    whole = raw if isinstance(raw, bytes) else raw.encode(errors="backslashreplace")
    return whole[:_LONGEST_RAW].decode(errors="backslashreplace")
