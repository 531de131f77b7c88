"""The contract of a place for the rows of one table.

    WholeTable   the rows of a table before the seed: read from a file, or the stored rows of a table that is redefined
    Holding      the rows of a maintained table; a maintainer does not know where they are

`in_memory.py` and `in_blocks.py` have one class of each; another place for rows is another such module.

`Holding.rows` are the rows that have slots: all rows in memory, the residents of a table in blocks. Certificates, rules
and netting refer to rows by their slots.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from holdfast.constraints import ColumnRef, Family, PredicateSpace, Schema
from holdfast.discovery.blocks.storage.table import BlockTable
from holdfast.discovery.inclusion.seeding import ColumnValues
from holdfast.discovery.order.targets import Targets
from holdfast.discovery.seed import Seed
from holdfast.discovery.soundness.measured import Measured
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.maintainers.part import NO_SLOTS
from holdfast.streaming.maintainers.rules.counting import Counting
from holdfast.streaming.maintainers.rules.watches import RuleWatch
from holdfast.tables import Table
from holdfast.tables.arrays import Numbers, Pairs, Slots, Words

if TYPE_CHECKING:
    from holdfast.streaming.maintainers.certified.maintainer import CertifiedMaintainer
    from holdfast.streaming.maintainers.near.maintainer import NearMaintainer
    from holdfast.streaming.maintainers.table.bounds import NearBounds

Report = Callable[[str], object]
CrossColumns = str | Collection[tuple[str, str]]
KeepBlocks = Callable[[BlockTable, Collection[ColumnRef]], object]
"""Takes a table in blocks, and the columns whose values are wanted."""
Bounded = Mapping[Family, tuple[PredicateSpace, int]]
"""The families to search, each with its space and the largest size of its constraints (0: any)."""


@dataclass(frozen=True)
class RowsDefinition:
    """The space, the key and the codes of a table's rows.

    Parameters
    ----------
    space, key, coding : as `RowSet` takes them.
    threads : how many to use in this process.
    """

    space: PredicateSpace
    key: Sequence[str] = ()
    coding: PredicateSpace | None = None
    threads: int = 1

    def empty(self) -> RowSet:
        """Return an empty set of rows."""
        return RowSet(self.space, self.key, self.coding)


class WholeTable(ABC):
    """All rows of a table before the seed; `table` has all columns, and the rows that were read."""

    table: Table | BlockTable

    @property
    def schema(self) -> Schema:
        """The table's name and columns."""
        return self.table.schema

    @abstractmethod
    def space(self, cross_columns: CrossColumns) -> PredicateSpace:
        """Return the predicate space of the table; crossing pairs are measured on the rows."""

    @abstractmethod
    def locate(self, row: int) -> str:
        """Return the origin of the row with this number, for messages."""

    @abstractmethod
    def values(self, columns: Collection[ColumnRef], keep: KeepBlocks) -> list[ColumnValues]:
        """Return the values of the given columns; rows in blocks are given to `keep`, and nothing is returned."""

    @abstractmethod
    def first_null(self, column: str) -> int | None:
        """Return the number of the first row with a null in a column."""

    @abstractmethod
    def nothing(self, schema: Schema) -> "WholeTable":
        """Return an empty table with other columns, in the same place."""

    @abstractmethod
    def made_anew(self, schema: Schema, make: Callable[[Table], Table]) -> "WholeTable":
        """Return the rows with other columns; `make` converts some rows at a time."""

    def replaced_by(self, schema: Schema, make: Callable[[Table], Table]) -> "WholeTable":
        """Return the rows with other columns as `made_anew` does, and remove the old rows."""
        return self.made_anew(schema, make)

    @abstractmethod
    def refuse_key_twice(self, key: tuple[int, ...]) -> None:
        """Raise `InputError` if two rows have one key, or a row has a null in its key. O(n log n)."""

    def refuse_near(self, near: "NearBounds") -> None:  # noqa: B027 (in memory all are counted)
        """Raise `UsageError` if near constraints within these bounds cannot be maintained in this place."""

    @abstractmethod
    def seed(
        self, definition: RowsDefinition, families: Bounded, report: Report
    ) -> tuple["Holding", dict[Family, Seed]]:
        """Return a holding of the rows, and the discovered constraints by family; witnesses are slots."""

    @abstractmethod
    def held(self, definition: RowsDefinition) -> "Holding":
        """Return a holding of the rows without a search for constraints."""


class TableSearch(Protocol):
    """Searches the whole table for pairs of rows that violate constraints.

    Invariant: a constraint that is not returned has no violating pair in the table.
    """

    def find(self, masks: Words, limit: int) -> tuple[Numbers, Pairs]:
        """Return the positions of violated constraints, and about `limit` violating pairs of slots for each."""

    def find_orders(self, targets: Targets, which: Numbers, sets: Words, limit: int) -> tuple[Numbers, Pairs]:
        """Return the same for order dependencies, each given by a target and the columns of its context."""


class Holding(ABC):
    """The rows of one maintained table.

    Parameters
    ----------
    rows : the rows that have slots.
    threads : how many to use in this process.

    Attributes
    ----------
    truncated : whether the last batch deleted rows whose values are unknown.
    """

    def __init__(self, rows: RowSet, threads: int = 1) -> None:
        self.rows = rows
        self.threads = threads
        self.truncated = False

    # A batch, in calling order

    def begin(self, held: Callable[[], Slots] = lambda: NO_SLOTS, *, truncated: bool = False) -> None:  # noqa: ARG002 (see subclasses)
        """Begin a batch: `undo` leads back to here.

        Parameters
        ----------
        held : returns the slots that the parts of the maintainer refer to.
        truncated : whether the table was truncated before the batch.
        """
        self.rows.begin()

    @abstractmethod
    def serve(self, families: Sequence["CertifiedMaintainer"]) -> None:
        """Search for violations of these families' boxes from now on; everything derived from rows is made anew."""

    def rebuild(self) -> None:  # noqa: B027 (nothing, where only executors derive anything)
        """Derive everything anew from the codes of the rows, which were relabelled."""

    @abstractmethod
    def met(self, delta: RowDelta) -> list[tuple[Words, Pairs]]:
        """Apply a batch; return, per family, the evidences of pairs with a new row, and witnesses.

        At least the evidences that violate a box of the family.
        """

    def serve_changed(self) -> None:  # noqa: B027 (nothing, where each batch asks the families)
        """Search for violations of the boxes that the families have after a batch."""

    def with_values(self, delta: RowDelta) -> RowDelta:
        """Return the rows whose values a batch added and removed, as far as they are known (see `truncated`)."""
        return delta

    def undo(self) -> None:
        """Take back the changes of the rows since `begin`; `serve` has to be called afterwards."""
        self.rows.undo()

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Name the place of the rows in an error of reading or writing them."""
        yield

    # The whole table

    @abstractmethod
    def search(self, space: PredicateSpace) -> TableSearch:
        """Return a search of the current rows."""

    @abstractmethod
    def counting(self, watches: Sequence[RuleWatch]) -> Counting:
        """Return the counter of the violations of rules."""

    @abstractmethod
    def near(self, bounds: "NearBounds") -> "NearMaintainer":
        """Return the maintainer of constraints that nearly hold, still to be seeded or restored."""

    @abstractmethod
    def measured(self, space: PredicateSpace) -> Measured:
        """Return what constraints are ranked by: some rows, drawn by lot."""

    @abstractmethod
    def whole(self) -> WholeTable:
        """Return all current rows. In memory O(n)."""

    # Saving

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since the last save, or everything."""
        return self.rows.save(prefix, everything=everything)

    def save_between(self, prefix: bytes) -> Iterator[WriteBatch]:  # noqa: ARG002 (see subclasses)
        """Yield the changes of the holding by counts and examples of rules between two batches."""
        return iter(())

    @property
    def files(self) -> frozenset[str]:
        """The names of the files with the rows."""
        return frozenset()

    def committed(self) -> None:  # noqa: B027 (in memory nothing is kept for earlier states)
        """Remove files that only earlier states need: a restart resumes from the last batch at the earliest."""


Restore = Callable[[Store, bytes, RowsDefinition], Holding]
"""Restores the rows that a store has under a prefix."""


def boxes_of(family: "CertifiedMaintainer", rows: RowSet) -> Words:
    """Return the boxes to search for: with crossed columns, a row is searched in both positions of every box."""
    both_sides = bool(rows.space.crossing)
    return family.masks if both_sides and not family.space.crossing else family.boxes
