"""Counts exceptions of candidates where rows are in blocks: with each batch what is followed, all of it in one job.

That job looks at the groups with rows of the batch (`discovery/blocks/counting/near.py`). All rows are counted where
rows left whose values nobody knows, as of a table that was emptied, or where the batch is a large part of them.

Invariant: counts are values, so that those from before a batch are right again once its rows are taken back.
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
from holdfast.streaming.maintainers.near.counts import Count, Followed, NearCounts
from holdfast.tables.arrays import Slots, Standing

_LARGE = 4
"""A batch of more than this part of the rows is large."""


@dataclass(frozen=True)
class _Exceptions:
    """The exceptions of a candidate after a batch."""

    count: int


class CountsInBlocks(NearCounts):
    """Counts candidates on all rows of a table in blocks.

    Parameters
    ----------
    rows : those that changed, and the blocks.
    """

    def __init__(self, rows: Residents) -> None:
        self._rows = rows
        self.targets = unordered_targets(np.arange(len(rows.space.schema)))

    def counted(self, tasks: Tasks, most: int, enough: int) -> Iterator[CountedContext]:
        """Count candidates on the rows as they are now. Three jobs at most."""
        return self._counts.counted(tasks, most, enough) if tasks else iter(())

    def exactly(self, candidates: Collection[Candidate]) -> dict[Candidate, int]:
        """Return the exceptions of some candidates. One job."""
        return self._counts.exactly(candidates) if candidates else {}

    def entered(self, counts: Mapping[Candidate, int]) -> Followed:
        """Follow some candidates from this batch on."""
        return {candidate: _Exceptions(count) for candidate, count in counts.items()}

    def first(self, counts: Mapping[Candidate, int]) -> Followed:
        """Follow the members of a table that is new here. Reads nothing."""
        return self.entered(counts)

    def follow(self, delta: RowDelta, followed: Followed) -> Followed:
        """Follow a batch. One job."""
        before = {candidate: count.count for candidate, count in followed.items()}
        unknown = int(delta.copies.sum()) != delta.copies_in - delta.copies_out  # rows went that are not here
        if not before:
            return {}
        if unknown or _LARGE * len(delta.changed) > len(self._rows):
            return self.entered(self.exactly(before))
        return self.entered(self._counts.follow(self._rows.table(delta.changed), delta.copies, before))

    def outlasts(self, count: Count) -> bool:  # noqa: ARG002 (each candidate)
        """All of them are followed together."""
        return True

    def standing(self, count: Count, slots: Slots) -> None:
        """Say nothing: groups of all rows are not here."""

    def exceptions(self, candidate: Candidate, most: int) -> tuple[Slots, Standing]:
        """Return some exceptions, which become resident. Two jobs."""
        numbers, standing = self._counts.some(candidate, most)
        if not len(numbers):
            return np.zeros(0, np.int64), standing
        images = rows_numbered(self._rows.all_rows(), numbers)
        place = np.searchsorted(numbers, images.column("row").to_numpy(), sorter=(order := np.argsort(numbers)))
        slots, first = np.unique(self._rows.bring(images), return_index=True)
        return slots, standing[order[place]][first]

    def rebuild(self, followed: Followed) -> None:
        """Do nothing: nothing here is derived from codes."""

    def anew(self) -> "CountsInBlocks":
        """Return what counts the same rows."""
        return CountsInBlocks(self._rows)

    def check_invariants(self, followed: Followed) -> None:
        """Nothing is derived here."""

    @property
    def _counts(self) -> BlockCounts:
        return BlockCounts(self._rows.all_rows(), self.targets)
