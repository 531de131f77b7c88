"""The records of a state about each table, beside rows and constraints.

    tables    number  `TableRecord` as JSON: facts that a later start needs, written with the seed
    progress  name    `TableProgress` as JSON: counts and times, written with each commit of the table

Values that are None are not stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.streaming.maintainers.near.suspects import SuspectChanges

if TYPE_CHECKING:
    from holdfast.streaming.commits.applied_batch import AppliedBatch


class _Stored:
    """A record that is stored as JSON."""

    def fields(self) -> dict[str, Any]:
        """Return the values by name, without those that are None."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """Return the record with stored values; values that this version does not know are ignored."""
        known = {one.name for one in fields(cls)}  # type: ignore[arg-type]  # (a dataclass)
        return cls(**{name: value for name, value in stored.items() if name in known})


@dataclass(frozen=True)
class TableRecord(_Stored):
    """The facts about a table that a later start needs.

    Parameters
    ----------
    name : the name of the table.
    settings : the settings that the state depends on; a configuration that contradicts them is refused.
    source : the start of the source.
    excluded, known : the columns that are not monitored, and all columns of the seed or the source.
    declared : the columns whose type a configuration declared.
    watches_fields : whether fields that no column has were noted since the seed.
    sequence : name and type of the column that orders records.
    engine, blocks : the engine that holds the rows, and the address of its blocks.
    """

    name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    excluded: list[str] = field(default_factory=list)
    known: list[str] | None = None
    declared: list[str] = field(default_factory=list)
    watches_fields: bool = False
    sequence: Mapping[str, str] | None = None
    engine: str = "embedded"
    blocks: str | None = None

    def put(self, number: int, change: WriteBatch) -> None:
        """Add the record of the table with this number to a batch."""
        change.put("tables", codecs.number(number), codecs.json_bytes(self.fields()))


@dataclass(frozen=True)
class TableProgress(_Stored):
    """Counts and times of a table as of its last commit.

    Parameters
    ----------
    rows, constraints, owed : the numbers of rows, of constraints, and of owed deletes.
    near, near_with_exceptions : how many constraints nearly hold, and how many of these have exceptions; None if they
        are not maintained.
    suspects, suspects_found, suspects_commit : how many suspects the outputs have, how many the last search found, and
        its commit; None if none are searched.
    commit, at : the last commit about the table, and its time.
    changed_commit, changed_at : the last commit that changed the constraints, and its time.
    lag_seconds, lag_records : how far the table is behind its source.
    batches, records, good, quarantined, late : counts since the seed.
    left_out : fields that no column has, each with the first record that has it.
    """

    rows: int | None = None
    constraints: int | None = None
    owed: int = 0
    near: int | None = None
    near_with_exceptions: int | None = None
    suspects: int | None = None
    suspects_found: int | None = None
    suspects_commit: int | None = None
    commit: int | None = None
    at: str | None = None
    changed_commit: int | None = None
    changed_at: str | None = None
    lag_seconds: float | None = None
    lag_records: int | None = None
    batches: int = 0
    records: int = 0
    good: int = 0
    quarantined: int = 0
    late: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)

    def after(self, batch: "AppliedBatch", commit: int, at: str) -> "TableProgress":
        """Return the progress after a batch."""
        result = batch.result
        now = replace(
            self,
            rows=result.rows,
            constraints=batch.constraints,
            owed=result.owed,
            **near_counts(result.near_counts),
            **suspect_counts(result.suspects, commit if result.suspects.is_searched else self.suspects_commit),
            commit=commit,
            at=at,
            lag_seconds=batch.lag_seconds,
            lag_records=self.lag_records if batch.lag_records is None else batch.lag_records,
            batches=self.batches + 1,
            records=self.records + batch.records,
            good=self.good + len(batch.arrived.records) - len(result.incomplete),
            quarantined=self.quarantined + len(batch.bad),
            late=self.late + result.late,
            left_out={**self.left_out, **batch.left_out},
        )
        return replace(now, changed_commit=commit, changed_at=at) if result.changes or batch.across else now


def tables_of(store: Reader) -> list[tuple[int, TableRecord]]:
    """Return the number of each table, and its record."""
    return [(codecs.read_number(key), TableRecord.of(codecs.read_json(one))) for key, one in store.scan("tables")]


def progress_of(store: Reader, table: str) -> TableProgress:
    """Return the progress of a table."""
    return TableProgress.of(codecs.read_json(store.get("progress", table.encode()) or b"{}"))


def suspect_counts(changes: SuspectChanges, commit: int | None) -> dict[str, Any]:
    """Return the values of `TableProgress` about suspects, which were searched with a commit."""
    return {
        "suspects": changes.standing,
        "suspects_found": changes.found,
        "suspects_commit": None if changes.found is None else commit,
    }


def near_counts(counted: tuple[int, int] | None) -> dict[str, Any]:
    """Return the values of `TableProgress` about constraints that nearly hold."""
    near, broken = counted or (None, None)
    return {"near": near, "near_with_exceptions": broken}
