"""Where the rows of one table are, and who answers the questions about all of them.

    WholeTable   rows that nobody maintains yet: read from a file, or the stored rows of a table that is defined anew
    Holding      the rows of a maintained table: a maintainer asks it and never asks where the rows are

`in_memory.py` and `in_blocks.py` have one class of each; another place for rows is one more module like them.

`Holding.rows` is the part of the table whose rows have slots: all of it in memory, the residents where rows are in
blocks. Certificates, rules and netting know rows by their slots.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from holdfast.constraints import ColumnRef, Family, PredicateSpace, Schema
from holdfast.discovery.blocks.storage.table import BlockTable
from holdfast.discovery.inclusion.seeding import ColumnValues
from holdfast.discovery.order.targets import Targets
from holdfast.discovery.ranking import PairSample
from holdfast.discovery.seed import Seed
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.maintainers.rules.counting import Counting
from holdfast.streaming.maintainers.rules.watches import Watch
from holdfast.tables import Table
from holdfast.tables.arrays import Numbers, Pairs, Slots, Words

if TYPE_CHECKING:
    from holdfast.streaming.maintainers.certified.maintainer import CertifiedMaintainer
    from holdfast.streaming.maintainers.near.maintainer import NearMaintainer
    from holdfast.streaming.maintainers.table.bounds import NearBounds

Report = Callable[[str], object]
NO_SLOTS: Slots = np.zeros(0, np.int64)
CrossColumns = str | Collection[tuple[str, str]]
KeepBlocks = Callable[[BlockTable, Collection[ColumnRef]], object]
"""Is given a table in blocks, and the columns of it whose values are wanted."""
Bounded = Mapping[Family, tuple[PredicateSpace, int]]
"""The families to search for, each with its space and the largest size of its constraints (0: any)."""


@dataclass(frozen=True)
class RowsDefinition:
    """What the rows of a table are to tell.

    Parameters
    ----------
    space, key, coding : as of a `RowSet`.
    threads : how many to use in this process.
    """

    space: PredicateSpace
    key: Sequence[str] = ()
    coding: PredicateSpace | None = None
    threads: int = 1

    def empty(self) -> RowSet:
        """Return no rows."""
        return RowSet(self.space, self.key, self.coding)


class WholeTable(ABC):
    """All rows of a table that nobody maintains yet."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The table's name and columns."""

    @abstractmethod
    def space(self, cross_columns: CrossColumns) -> PredicateSpace:
        """Return the predicate space of the table; with "auto", crossing pairs are measured on the rows."""

    @abstractmethod
    def locate(self, row: int) -> str:
        """Return where the row of a number came from."""

    @abstractmethod
    def values(self, columns: Collection[ColumnRef], keep: KeepBlocks) -> list[ColumnValues]:
        """Return the values of some columns; where rows are in blocks, give these to `keep`, and return nothing."""

    @abstractmethod
    def first_null(self, column: str) -> int | None:
        """Return the number of the first row with a null in a column."""

    @abstractmethod
    def nothing(self, schema: Schema) -> "WholeTable":
        """Return a table of other columns without rows, in the same place."""

    @abstractmethod
    def made_anew(self, schema: Schema, make: Callable[[Table], Table]) -> "WholeTable":
        """Return the rows in other columns, as `make` says of some rows at a time."""

    @abstractmethod
    def replaced_by(self, schema: Schema, make: Callable[[Table], Table]) -> "WholeTable":
        """Return the rows in other columns as `made_anew` does, and remove these rows."""

    @abstractmethod
    def refuse_key_twice(self, key: tuple[int, ...]) -> None:
        """Raise `InputError` where two rows have one key, or a row has a null in its key. O(n log n)."""

    def refuse_near(self, near: "NearBounds") -> None:  # noqa: B027 (in memory all of them are counted)
        """Raise `UsageError` where constraints that nearly hold within these bounds are not counted on such rows."""

    @abstractmethod
    def seed(
        self, definition: RowsDefinition, families: Bounded, report: Report
    ) -> tuple["Holding", dict[Family, Seed]]:
        """Take the rows over, and find what holds on them; witnesses are slots."""

    @abstractmethod
    def held(self, definition: RowsDefinition) -> "Holding":
        """Take the rows over without a search, to be looked up by their key."""


class Search(Protocol):
    """Searches the whole table for pairs of rows that violate constraints.

    Invariant: a constraint that is not among the violated ones has no violating pair in the table.
    """

    def find(self, masks: Words, limit: int) -> tuple[Numbers, Pairs]:
        """Return the positions of constraints that are violated, and up to `limit` or so pairs of slots for each."""

    def find_orders(self, targets: Targets, which: Numbers, sets: Words, limit: int) -> tuple[Numbers, Pairs]:
        """Return the same for order dependencies, each a target and the columns of its context."""


class Holding(ABC):
    """The rows of one maintained table.

    Parameters
    ----------
    rows : those that have slots.
    threads : how many to use in this process.

    Attributes
    ----------
    has_emptied : whether rows left with the last batch whose values nobody knows.
    """

    def __init__(self, rows: RowSet, threads: int = 1) -> None:
        self.rows = rows
        self.threads = threads
        self.has_emptied = False

    # A batch, in calling order

    def begin(self, held: Callable[[], Slots] = lambda: NO_SLOTS, *, from_nothing: bool = False) -> None:  # noqa: ARG002 (see subclasses)
        """Begin a batch: `undo` leads back to here.

        Parameters
        ----------
        held : returns the slots that certificates and rules refer to.
        from_nothing : whether the table was emptied before the batch.
        """
        self.rows.begin()

    @abstractmethod
    def serve(self, families: Sequence["CertifiedMaintainer"]) -> None:
        """Search for violations of these families' boxes from now on. Drops everything that is derived from rows."""

    @abstractmethod
    def rebuild(self) -> None:
        """Make everything that is derived from codes anew, as is needed when they were relabelled."""

    @abstractmethod
    def met(self, delta: RowDelta) -> list[tuple[Words, Pairs]]:
        """Follow a batch; return for each family the evidences of pairs with a new row.

        At least those that violate a box of the family, with witnesses.
        """

    @abstractmethod
    def serve_changed(self) -> None:
        """Search for violations of the boxes that the families have after a batch."""

    def with_values(self, delta: RowDelta) -> RowDelta:
        """Return the rows whose values a batch brought and took, as far as they are known (`has_emptied`)."""
        return delta

    def undo(self) -> None:
        """Take back what was done to the rows since `begin`; `serve` is called after that."""
        self.rows.undo()

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Name the place of rows in an error of reading or writing them."""
        yield

    # The whole table

    @abstractmethod
    def search(self, space: PredicateSpace) -> Search:
        """Return what searches the rows as they are now."""

    @abstractmethod
    def counting(self, watches: Sequence[Watch]) -> Counting:
        """Return what counts the violations of rules."""

    @abstractmethod
    def near(self, bounds: "NearBounds") -> "NearMaintainer":
        """Return what keeps the constraints that nearly hold, which is still to be seeded or restored."""

    @abstractmethod
    def sample(self, space: PredicateSpace) -> PairSample:
        """Return random pairs of rows."""

    @abstractmethod
    def whole(self) -> WholeTable:
        """Return all rows as they are now. In memory O(n)."""

    # What is stored

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since it was last saved, or everything."""
        return self.rows.save(prefix, everything=everything)

    def save_between(self, prefix: bytes) -> Iterator[WriteBatch]:  # noqa: ARG002 (see subclasses)
        """Yield what counting and examples of rules changed of the rows between two batches."""
        return iter(())

    @property
    def files(self) -> frozenset[str]:
        """The names of the files that the rows are in."""
        return frozenset()

    def committed(self) -> None:  # noqa: B027 (in memory nothing is kept for earlier states)
        """Remove what only earlier states need: the last batch is the earliest from which a restart may resume."""

    def check_invariants(self) -> None:
        """Assert what is promised. O(n)."""
        self.rows.check_invariants()


Restore = Callable[[Store, bytes, RowsDefinition], Holding]
"""Takes the rows over that a store has under a prefix."""


def boxes_of(family: "CertifiedMaintainer", rows: RowSet) -> Words:
    """Return what to search for: where some columns are crossed, a row stands on both sides of every box."""
    both_sides = bool(rows.space.crossing)
    return family.masks if both_sides and not family.space.crossing else family.boxes
