"""What near constraints ask of the rows of their table: exceptions of candidates, with every batch and now and then.

`counting.py` counts on rows in memory, `counting_blocks.py` has executors count rows in blocks.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

from holdfast.constraints import Column, Family
from holdfast.discovery.near.counting import Candidate, CountedContext
from holdfast.discovery.near.lattice import Tasks
from holdfast.discovery.near.targets import NearTargets
from holdfast.indexes.rows import RowDelta
from holdfast.streaming.maintainers.table.bounds import NearBounds
from holdfast.tables.arrays import Slots, Standing


class Count(Protocol):
    """The exceptions of a candidate that is counted with every batch."""

    @property
    def count(self) -> int:
        """How many rows have to go."""


Followed = Mapping[Candidate, Count]
"""What is counted with every batch."""


class NearCounts(ABC):
    """Counts candidates on the rows of one table.

    Attributes
    ----------
    targets : what is counted.
    """

    targets: NearTargets

    @abstractmethod
    def counted(self, tasks: Tasks, most: int, enough: int) -> Iterator[CountedContext]:
        """Count candidates on the rows as they are now; see `discovery.near.counting.counted`.

        A count of more than `enough` may be one of some rows alone, and is then a lower bound.
        """

    @abstractmethod
    def exactly(self, candidates: Collection[Candidate]) -> dict[Candidate, int]:
        """Return the exceptions of some candidates, whatever their number."""

    @abstractmethod
    def entered(self, counts: Mapping[Candidate, int]) -> Followed:
        """Follow some candidates from this batch on, which have so many exceptions now."""

    @abstractmethod
    def first(self, counts: Mapping[Candidate, int]) -> Followed:
        """Follow the members of a table that is new here: seeded, or restored with these exceptions."""

    @abstractmethod
    def follow(self, delta: RowDelta, followed: Followed) -> Followed:
        """Follow a batch, before the slots of vanished rows are forgotten; return all counts as they are now."""

    @abstractmethod
    def outlasts(self, count: Count) -> bool:
        """Whether it costs little to follow a candidate on that is no member any more."""

    @abstractmethod
    def standing(self, count: Count, slots: Slots) -> Standing | None:
        """Return whether some live rows are exceptions of a candidate that is followed; None where nobody knows."""

    @abstractmethod
    def exceptions(self, candidate: Candidate, most: int) -> tuple[Slots, Standing]:
        """Return the slots of up to `most` exceptions of a candidate, certain ones first. O(n log n)."""

    @abstractmethod
    def rebuild(self, followed: Followed) -> None:
        """Follow rows whose values have other codes, or that are as they were before a batch."""

    @abstractmethod
    def anew(self) -> "NearCounts":
        """Return what counts the same rows, and knows nothing of them yet."""

    @abstractmethod
    def check_invariants(self, followed: Followed) -> None:
        """Assert what is promised of what is derived from rows. O(n log n)."""


def ordered_in(columns: Iterable[Column], bounds: NearBounds) -> list[bool]:
    """Return for each column whether order compatibilities that are maintained may name it."""
    return [bounds.orders and column.ordered_in(Family.NEAR) for column in columns]


def by_candidate(counts: Iterable[CountedContext]) -> dict[Candidate, int]:
    """Return the exceptions of each candidate that was counted."""
    return {
        (one.context, number): exceptions
        for one in counts
        for number, exceptions in zip(one.numbers.tolist(), one.exceptions.tolist(), strict=True)
    }
