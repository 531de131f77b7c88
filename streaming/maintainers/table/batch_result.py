"""What a batch did to one table."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.constraints import ConstraintChange
from holdfast.display.changes import Changes
from holdfast.display.near import NearChanges
from holdfast.display.texts import counted
from holdfast.streaming.maintainers.inclusion.maintainer import ColumnChange
from holdfast.streaming.maintainers.near.changes import NearChange, NearExample
from holdfast.streaming.maintainers.rules.state import RuleState


@dataclass(frozen=True)
class BatchResult:
    """What a batch did.

    Parameters
    ----------
    changes : constraints that disappeared, then those that appeared.
    rows_in, rows_out : rows that entered and left after netting; an update is one of each.
    inserted, deleted, updated : the same by kind; a table without a key knows no updates.
    ignored : deletes of unknown keys.
    newly_owed, owed : deletes of copies that are not there (table without a key): of this batch, and in all.
    rows, constraints : how many there are now.
    seconds : of the work on the batch alone.
    late : records that are older than what is known of their key.
    incomplete : numbers of records that were left out, as they leave cells as they were of rows that are not there.
    values : what became of the values of each column, where they are followed.
    emptied : whether all rows of before went, so that `values` are all that there are.
    rules : what is known of each monitored rule now.
    near : what became of constraints that nearly hold.
    near_counts : how many constraints nearly hold, and how many of them have exceptions.
    exceptions_shown, exceptions_hidden : rows that are shown as exceptions of these since the batch, and no longer.
    left_out : fields that no column has, and that were seen first with this batch: each with its first record.
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
    emptied: bool = False
    rules: tuple[RuleState, ...] = ()
    near: NearChanges[NearChange] = field(default_factory=NearChanges)
    near_counts: tuple[int, int] | None = None
    exceptions_shown: tuple[NearExample, ...] = ()
    exceptions_hidden: tuple[NearExample, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

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
