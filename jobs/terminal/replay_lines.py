"""The answer of `replay`: batches as lines for programs or for people, and their totals.

Invariant: a batch has exactly one line of its own, after the lines of its changes.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from holdfast.constraints import (
    Constraint,
    ConstraintChange,
    DenialConstraint,
    Family,
    OrderDependency,
    RowImage,
    json_value,
)
from holdfast.constraints.names import quoted
from holdfast.display.texts import counted
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import json_line
from holdfast.jobs.terminal.sentences import sentence_fields, sentence_lines
from holdfast.streaming.maintainers.near.changes import ENTERED, LEFT

if TYPE_CHECKING:
    from holdfast.jobs.terminal.progress import Progress
    from holdfast.streaming.maintainers.maintainer import BatchResult
    from holdfast.streaming.maintainers.near.changes import NearChange


@dataclass(frozen=True)
class ReplayedBatch:
    """A batch that `replay` has applied.

    Parameters
    ----------
    number, records : its number, from 1, and how many changes it had before netting.
    tables, results : the names of the tables that changed, and the result of each.
    rows, constraints, owed : totals of all tables after the batch.
    across, across_seconds : changes of inclusions across tables, and how long they took.
    """

    number: int
    records: int
    tables: Sequence[str]
    results: Sequence["BatchResult"]
    rows: int
    constraints: int
    owed: int
    across: Sequence[ConstraintChange] = ()
    across_seconds: float = 0.0

    @property
    def changes(self) -> list[ConstraintChange]:
        """The constraints that appeared and disappeared, table by table, then across tables."""
        return [*(change for result in self.results for change in result.changes), *self.across]

    @property
    def near(self) -> list[tuple[str, "NearChange"]]:
        """The changes of near constraints, each with its table."""
        return [
            (table, change) for table, result in zip(self.tables, self.results, strict=True) for change in result.near
        ]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows were inserted and deleted after netting, and how many deletes had an unknown key."""
        return {
            "rows_in": sum(result.rows_in for result in self.results),
            "rows_out": sum(result.rows_out for result in self.results),
            "ignored": sum(result.ignored for result in self.results),
        }

    @property
    def seconds(self) -> float:
        """How many seconds maintenance took, without reading and printing."""
        return sum(result.seconds for result in self.results) + self.across_seconds


def json_lines(applied: ReplayedBatch, answering: Answering) -> Iterator[str]:
    """Yield a batch as JSON lines."""
    for change in applied.changes:
        sentence = sentence_fields(change.constraint, answering)
        yield json_line({"batch": applied.number, **change.fields(), **sentence})
    for table, near in applied.near:
        yield json_line({"batch": applied.number, **near.fields(table), **sentence_fields(near.constraint, answering)})
    now = {"rows": applied.rows, "constraints": applied.constraints, "seconds": round(applied.seconds, 6)}
    yield json_line({"batch": applied.number, **applied.counts, **now})


def text_lines(applied: ReplayedBatch, answering: Answering, *, named: bool) -> Iterator[str]:
    """Yield a batch as text; `named` adds the names of tables to its changes."""
    for change in applied.changes:
        within = named and change.constraint.family is not Family.INCLUSION
        yield f"{change.table + ': ' if within else ''}{_change_text(change)}\n"
        yield from sentence_lines(change.constraint, answering)
    for table, near in applied.near:
        yield f"{table + ': ' if named else ''}{near}\n"
        yield from sentence_lines(near.constraint, answering)
    counts = applied.counts
    parts = [counted(applied.records, "record"), f"{counts['rows_in']:,} in", f"{counts['rows_out']:,} out"]
    parts += [f"{n:,} {name}" for name, n in (("ignored", counts["ignored"]), ("owed", applied.owed)) if n]
    now = f"{counted(applied.rows, 'row')}, {counted(applied.constraints, 'constraint')}"
    yield f"batch {applied.number}: {', '.join(parts)}; {now}; {applied.seconds:.3f} s\n"


@dataclass
class Totals:
    """Sums over all batches."""

    records: int = 0
    appeared: int = 0
    disappeared: int = 0
    seconds: list[float] = field(default_factory=list)
    last: ReplayedBatch | None = None

    def add(self, applied: ReplayedBatch) -> None:
        """Add a batch."""
        appeared = sum(change.appeared for change in applied.changes)
        near = [change.change for _, change in applied.near]
        self.records += applied.records
        self.appeared += appeared + near.count(ENTERED)
        self.disappeared += len(applied.changes) - appeared + near.count(LEFT)
        self.seconds.append(applied.seconds)
        self.last = applied

    def summary(self) -> str:
        """Return the sums as one line."""
        if self.last is None:
            return "no batches: CHANGES has no records"
        batches = counted(len(self.seconds), "batch", "batches")
        now = f"{counted(self.last.rows, 'row')}, {counted(self.last.constraints, 'constraint')}"
        owed = f"; {counted(self.last.owed, 'delete')} of rows that were never there owed" if self.last.owed else ""
        return (
            f"{batches}, {counted(self.records, 'record')}: {self.appeared:,} appeared, {self.disappeared:,} "
            f"disappeared; now {now}{owed}"
        )

    def explain(self, progress: "Progress") -> None:
        """Note how many seconds the batches took."""
        if self.seconds:
            slowest = int(np.argmax(self.seconds))
            progress.note(f"  {sum(self.seconds):8.3f} s  applying all batches")
            progress.note(f"  {float(np.median(self.seconds)):8.3f} s  the median batch")
            progress.note(f"  {self.seconds[slowest]:8.3f} s  the slowest one, batch {slowest + 1}")


def _change_text(change: ConstraintChange) -> str:
    """Return a change with its reason and its proof as one line."""
    cause = ""
    if change.by is not None:
        cause = f" {'from' if change.appeared else 'by'} {change.by}"
    elif change.witness is not None and change.witness.rows:
        rows = " and ".join(_row_text(row, change.constraint) for row in change.witness.rows)
        cause = f" by {'the loss of ' if change.appeared else ''}{rows}"
    elif change.witness is not None:
        missing = json.dumps(json_value(change.witness.value), ensure_ascii=False)
        cause = f", as {missing} is missing no more" if change.appeared else f" by {missing}, which is missing"
    return f"{'+' if change.appeared else '-'} {change.constraint}  ({change.reason.value}{cause})"


def _row_text(row: RowImage, constraint: Constraint) -> str:
    """Return the key of a row, and its values in the columns that the constraint compares."""
    named = constraint.columns if isinstance(constraint, DenialConstraint | OrderDependency) else None
    values = {**row.key, **{name: value for name, value in row.values.items() if named is None or name in named}}
    fields = (f"{quoted(name)}={json.dumps(json_value(value), ensure_ascii=False)}" for name, value in values.items())
    return f"({', '.join(fields)})"
