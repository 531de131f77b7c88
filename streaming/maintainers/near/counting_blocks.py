"""Counts exceptions where rows are in blocks: with each batch all followed candidates in one job.

The job reads the groups with rows of the batch (`discovery/blocks/counting/near.py`). All rows are counted where rows
were deleted whose values are unknown, as when a table was emptied, or where the batch is a large part of the rows.

Invariant: counts are immutable values, so the counts from before a batch are right once the batch is taken back.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from holdfast.discovery.blocks.counting.near import BlockCounts, unordered_targets
from holdfast.discovery.blocks.storage.lookup import rows_numbered
from holdfast.discovery.near.counting import Candidate, CountedContext
from holdfast.discovery.near.lattice import Tasks
from holdfast.indexes.rows import RowDelta
from holdfast.streaming.maintainers.holdings.residents import Residents
from holdfast.streaming.maintainers.near.counts import Followed, NearCounts
from holdfast.tables.arrays import Slots, Standing

_LARGE = 4
"""A batch of more than a quarter of the rows is large."""


@dataclass(frozen=True)
class _Exceptions:
    """The number of exceptions of a candidate after a batch."""

    count: int


class CountsInBlocks(NearCounts):
    """Counts the exceptions of candidates on all rows of a table in blocks.

    Parameters
    ----------
    rows : the residents, and the blocks.
    """

    def __init__(self, rows: Residents) -> None:
        self._rows = rows
        self.targets = unordered_targets(np.arange(len(rows.space.schema)))

    def counted(self, tasks: Tasks, most: int, enough: int) -> Iterator[CountedContext]:
        """Count candidates on the current rows. At most three jobs."""
        return self._counts.counted(tasks, most, enough) if tasks else iter(())

    def exactly(self, candidates: Collection[Candidate]) -> dict[Candidate, int]:
        """Return the exact exceptions of each candidate. One job."""
        return self._counts.exactly(candidates) if candidates else {}

    def entered(self, counts: Mapping[Candidate, int]) -> Followed:
        """Follow candidates from this batch on."""
        return {candidate: _Exceptions(count) for candidate, count in counts.items()}

    def follow(self, delta: RowDelta, followed: Followed) -> Followed:
        """Apply a batch; return the counts of all followed candidates. One job."""
        before = {candidate: count.count for candidate, count in followed.items()}
        unknown = int(delta.copies.sum()) != delta.copies_in - delta.copies_out  # rows were deleted that have no slot
        if not before:
            return {}
        if unknown or _LARGE * len(delta.changed) > len(self._rows):
            return self.entered(self.exactly(before))
        return self.entered(self._counts.follow(self._rows.table(delta.changed), delta.copies, before))

    def exceptions(self, candidate: Candidate, most: int) -> tuple[Slots, Standing]:
        """Return up to `most` exceptions, which become resident. Two jobs."""
        numbers, standing = self._counts.some(candidate, most)
        if not len(numbers):
            return np.zeros(0, np.int64), standing
        images = rows_numbered(self._rows.blocks.table(), numbers)
        place = np.searchsorted(numbers, images.column("row").to_numpy(), sorter=(order := np.argsort(numbers)))
        slots, first = np.unique(self._rows.bring(images), return_index=True)
        return slots, standing[order[place]][first]

    def anew(self) -> "CountsInBlocks":
        """Return a new counter of the same rows."""
        return CountsInBlocks(self._rows)

    @property
    def _counts(self) -> BlockCounts:
        return BlockCounts(self._rows.blocks.table(), self.targets)
