"""The result of applying a batch to one table."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.constraints import ConstraintChange
from holdfast.display.changes import Changes
from holdfast.display.near import NearChanges
from holdfast.display.texts import counted
from holdfast.indexes.rows import RowDelta
from holdfast.streaming.incoming.netting import Netted
from holdfast.streaming.maintainers.inclusion.column_values import ColumnChange
from holdfast.streaming.maintainers.near.changes import NearChange, NearExample
from holdfast.streaming.maintainers.near.concentrations import ConcentrationChanges
from holdfast.streaming.maintainers.near.suspects import SuspectChanges
from holdfast.streaming.maintainers.rules.state import RuleState

if TYPE_CHECKING:
    from holdfast.streaming.commits.output_rows import OutputRows
    from holdfast.streaming.maintainers.table.maintainer import TableMaintainer


@dataclass(frozen=True)
class BatchResult:
    """The result of a batch.

    Parameters
    ----------
    changes : the constraints that disappeared, then those that appeared.
    rows_in, rows_out : how many rows were inserted and deleted after netting; an update counts once in each.
    inserted, deleted, updated : the same by kind; a table without a key has no updates.
    ignored : how many deletes had unknown keys.
    newly_owed, owed : deletes of copies that the table did not have (table without a key): of this batch, and in all.
    rows, constraints : how many the table has after the batch.
    seconds : the time of the work on the batch alone.
    late : how many records were older than the last known change of their key.
    incomplete : numbers of the records left out, since they keep cells of rows that do not exist.
    values : the changed values of each column, where values are followed.
    truncated : whether all earlier rows were deleted, so that `values` has all values of the table.
    rules : the state of each monitored rule.
    near : the changes of constraints that nearly hold.
    near_counts : how many constraints nearly hold, and how many of these have exceptions.
    suspects : the changes of the suspects that are followed.
    concentrations : the changes of the values in which exceptions are concentrated.
    exceptions_shown, exceptions_hidden : rows that are shown as exceptions since this batch, and rows no longer shown.
    left_out : fields that no column has, first seen in this batch: each with its first record.
    published : the rows that the commit of the batch publishes; None before the commit.
    """

    changes: list[ConstraintChange]
    rows_in: int
    rows_out: int
    inserted: int
    deleted: int
    updated: int
    ignored: int
    newly_owed: int
    owed: int
    rows: int
    constraints: int
    seconds: float
    late: int = 0
    incomplete: tuple[int, ...] = ()
    values: tuple[ColumnChange, ...] = ()
    truncated: bool = False
    rules: tuple[RuleState, ...] = ()
    near: NearChanges[NearChange] = field(default_factory=NearChanges)
    near_counts: tuple[int, int] | None = None
    exceptions_shown: tuple[NearExample, ...] = ()
    exceptions_hidden: tuple[NearExample, ...] = ()
    suspects: SuspectChanges = field(default_factory=SuspectChanges)
    concentrations: ConcentrationChanges = field(default_factory=ConcentrationChanges)
    left_out: Mapping[str, str] = field(default_factory=dict)
    published: "OutputRows | None" = None

    @classmethod
    def of(
        cls,
        table: "TableMaintainer",
        netted: Netted,
        delta: RowDelta,
        changes: list[ConstraintChange],
        values: Sequence[ColumnChange],
        started: float,
    ) -> "BatchResult":
        """Return the result of a batch that was just applied to a table; `started` is when, by `perf_counter`."""
        rows, near = table.holding.rows, table.near_maintainer
        keyed = bool(rows.key)
        return cls(
            Changes(changes),
            rows_in=delta.copies_in,
            rows_out=delta.copies_out,
            inserted=netted.inserted if keyed else delta.copies_in,
            deleted=delta.copies_out - netted.updated,  # without a key there are no updates
            updated=netted.updated,
            ignored=netted.ignored,
            newly_owed=delta.newly_owed,
            owed=rows.owed_copies,
            late=netted.late,
            incomplete=tuple(netted.incomplete.tolist()),
            rows=len(rows),
            constraints=table.count,
            seconds=time.perf_counter() - started,
            values=tuple(values),
            rules=tuple(table.rule_maintainer.states),
            near=NearChanges(() if near is None else near.changes, table.name),
            near_counts=table.near_counts,
            exceptions_shown=() if near is None else near.shown.added,
            exceptions_hidden=() if near is None else near.shown.removed,
            suspects=SuspectChanges() if near is None else near.suspects.changes,
            concentrations=ConcentrationChanges() if near is None else near.concentrations.changes,
            truncated=table.holding.truncated,
        )

    def __str__(self) -> str:
        did = f"{counted(self.rows_in, 'row')} in, {self.rows_out:,} out"
        now = f"{counted(self.rows, 'row')}, {counted(self.constraints, 'constraint')}"
        near = f"; {self.near.heading(len(self.near))}" if self.near else ""
        return f"{did}; {now}; {self.seconds:.3f} s; {Changes(self.changes).heading(len(self.changes))}{near}"

    def _repr_mimebundle_(self, **_asked: object) -> dict[str, str]:
        shown = Changes(self.changes).bundle(heading=str(self))
        if not self.near:
            return shown
        near = self.near.bundle()
        return {
            "text/plain": f"{shown['text/plain']}\n{near['text/plain']}",
            "text/html": shown["text/html"] + near["text/html"],
        }

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]
