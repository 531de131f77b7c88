"""A batch of one table that was applied, and is not committed yet."""

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
    """An applied batch and its results.

    Parameters
    ----------
    source, position : the table, and the position in its source.
    arrived, result : the records, and their effect on the table.
    across : the changed inclusions, of other tables too.
    counts : how many constraints each table has after the batch, inclusions included.
    took : seconds by step.
    now : the time of the commit, in seconds.
    lag_records : how many records wait behind the batch; None if unknown.
    left_out : fields that no column has, first seen in this batch.
    files : the names of the files read, for a source of files.
    """

    source: str
    position: Position
    arrived: Arrivals
    result: BatchResult
    across: Sequence[ConstraintChange]
    counts: Mapping[str, int]
    took: Mapping[str, float]
    now: float
    lag_records: int | None
    left_out: Mapping[str, str]
    files: Sequence[str] = ()

    @property
    def records(self) -> int:
        """How many records the batch has."""
        return len(self.arrived.records) + len(self.arrived.bad) + self.arrived.skipped

    @property
    def constraints(self) -> int:
        """How many constraints the table has after the batch."""
        return self.counts[self.source]

    @cached_property
    def bad(self) -> list[BadRecord]:
        """The records that could not be read, and records that keep cells of rows that do not exist."""
        return [*self.arrived.bad, *(self.arrived.bad_record(row, _NO_ROW) for row in self.result.incomplete)]

    @property
    def lag_seconds(self) -> float | None:
        """The age of the oldest record."""
        return None if self.arrived.oldest is None else max(0.0, self.now - self.arrived.oldest)
