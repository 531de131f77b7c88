"""The contract of a counter of exceptions: of candidates that are followed with every batch, and of others on demand.

`counting.py` counts rows in memory, `counting_blocks.py` lets executors count rows in blocks.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.constraints import Column, Family, UsageError
from holdfast.discovery.near.concentration import ConcentratingValue
from holdfast.discovery.near.counting import Candidate, Context, CountedContext
from holdfast.discovery.near.lattice import NearMember, Tasks
from holdfast.discovery.near.ranking import swapping
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.swaps import Swaps
from holdfast.discovery.near.targets import NearTargets
from holdfast.indexes.rows import RowDelta
from holdfast.streaming.maintainers.table.bounds import NearBounds
from holdfast.tables.arrays import Slots, Standing


@dataclass(frozen=True)
class SlotSuspect:
    """A cell that is probably wrong.

    Parameters
    ----------
    slot, column : the slot of its row, and the number of its column.
    score : the probability that it is wrong.
    expected : the slot of a row with the expected value; None where no certain value is expected.
    violated : the members that name the column and that the row violates, the strongest first.
    """

    slot: int
    column: int
    score: float
    expected: int | None
    violated: tuple[Candidate, ...]


@dataclass(frozen=True)
class ConcentratingIn:
    """The values in which the exceptions of candidates are concentrated.

    Parameters
    ----------
    rows : the columns that were searched; their `order` has slots.
    found : for each candidate its number of exceptions, and the values.
    """

    rows: NearRows
    found: Sequence[tuple[int, Sequence[ConcentratingValue]]]


class ExceptionCount(Protocol):
    """The number of exceptions of a candidate that is followed."""

    @property
    def count(self) -> int:
        """The least number of rows without which the candidate holds."""


Followed = Mapping[Candidate, ExceptionCount]
"""The candidates that are counted with every batch."""


class NearCounts(ABC):
    """Counts the exceptions of candidates on the rows of one table.

    Attributes
    ----------
    targets : the targets of all candidates.
    """

    targets: NearTargets

    @abstractmethod
    def counted(self, tasks: Tasks, most: int, enough: int) -> Iterator[CountedContext]:
        """Count candidates on the current rows; see `discovery.near.counting.counted`.

        A count of more than `enough` may be taken from a sample of the rows; it is then a lower bound.
        """

    @abstractmethod
    def exactly(self, candidates: Collection[Candidate]) -> dict[Candidate, int]:
        """Return the exact exceptions of each candidate."""

    @abstractmethod
    def entered(self, counts: Mapping[Candidate, int]) -> Followed:
        """Follow candidates from this batch on; `counts` has their exceptions now."""

    def first(self, counts: Mapping[Candidate, int]) -> Followed:
        """Follow the members of a table that was just seeded, or restored with these exceptions."""
        return self.entered(counts)

    @abstractmethod
    def follow(self, delta: RowDelta, followed: Followed) -> Followed:
        """Apply a batch, before the slots of deleted rows are forgotten; return all followed candidates' counts."""

    def outlasts(self, count: ExceptionCount) -> bool:  # noqa: ARG002 (all of them)
        """Whether it costs little to keep following a candidate that is not a member any more."""
        return True

    def standing(self, count: ExceptionCount, slots: Slots) -> Standing | None:  # noqa: ARG002 (unknown)
        """Return whether the given live rows are exceptions of a candidate that is followed; None where unknown."""
        return None

    def swaps(self, members: Sequence[NearMember]) -> dict[Context, Swaps]:
        """Return the swaps that say how strong order compatibilities are; none where these are not counted."""
        assert not swapping(members, self.targets)
        return {}

    @abstractmethod
    def exceptions(self, candidate: Candidate, most: int) -> tuple[Slots, Standing]:
        """Return the slots of up to `most` exceptions of a candidate, certain ones first. O(n log n)."""

    def suspects(self, members: Mapping[Candidate, int], least: float) -> list[SlotSuspect]:  # noqa: ARG002
        """Return the cells with a score of at least `least`, by the members with these exceptions, the surest first.

        O(n) a member. Raises `UsageError` where rows are in a place in which they cannot be searched.
        """
        raise UsageError(
            "suspects are searched where rows are in memory (engine: embedded), and the rows of this table are in "
            "blocks: search a file with its rows"
        )

    def concentrating(self, some: Sequence[Candidate]) -> ConcentratingIn:  # noqa: ARG002
        """Return the values in which the exceptions of candidates are concentrated. O(columns x n), O(n log n) each.

        Raises `UsageError` where rows are in a place in which they cannot be searched.
        """
        raise UsageError(
            "where exceptions are is searched where rows are in memory (engine: embedded), and the rows of this table "
            "are in blocks: search a file with its rows (holdfast exceptions FILE CONSTRAINT)"
        )

    def rebuild(self, followed: Followed) -> None:  # noqa: B027 (nothing, where nothing is derived from codes)
        """Derive everything anew: values have other codes, or a batch was taken back."""

    @abstractmethod
    def anew(self) -> "NearCounts":
        """Return a new counter of the same rows."""

    def check_invariants(self, followed: Followed) -> None:  # noqa: B027 (nothing, where nothing is derived)
        """Assert that what is derived from rows is right. O(n log n)."""


def ordered_in(columns: Iterable[Column], bounds: NearBounds) -> list[bool]:
    """Return, per column, whether order compatibilities with the column are maintained."""
    return [bounds.orders and column.ordered_in(Family.NEAR) for column in columns]
