"""A batch of one table that was applied, on its way into a commit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from holdfast.constraints import ConstraintChange
from holdfast.streaming.commits.output_rows import Position
from holdfast.streaming.incoming.arrivals import Arrivals, BadRecord
from holdfast.streaming.maintainers.table.batch_result import BatchResult

_NO_ROW = (
    "it leaves out values that did not change, and there is no row to take them from: seed the table, or read its "
    "source from the beginning"
)


@dataclass(frozen=True)
class AppliedBatch:
    """What a batch did.

    Parameters
    ----------
    source, position : which table, and where its source stands.
    came, result : the records, and what they did to the table.
    across : what changed of inclusions, of other tables too.
    counts : how many constraints each table has now, inclusions among them.
    took : seconds by step.
    now : the time of the commit, in seconds.
    lag_records : how many records wait behind it, where somebody has asked.
    left_out : fields that no column has, and that were seen first with this batch.
    """

    source: str
    position: Position
    came: Arrivals
    result: BatchResult
    across: Sequence[ConstraintChange]
    counts: Mapping[str, int]
    took: Mapping[str, float]
    now: float
    lag_records: int | None
    left_out: Mapping[str, str]

    @property
    def records(self) -> int:
        """How many records came."""
        return len(self.came.records) + len(self.came.bad) + self.came.skipped

    @property
    def constraints(self) -> int:
        """How many constraints the table has now."""
        return self.counts[self.source]

    @cached_property
    def bad(self) -> list[BadRecord]:
        """The records that could not be read, and those that leave cells as they were, of rows that are not there."""
        return [*self.came.bad, *(self.came.bad_record(row, _NO_ROW) for row in self.result.incomplete)]

    @property
    def lag_seconds(self) -> float | None:
        """How old the oldest record is."""
        return None if self.came.oldest is None else max(0.0, self.now - self.came.oldest)
