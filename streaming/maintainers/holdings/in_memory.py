"""The rows of one table in the memory of this process."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from holdfast.constraints import ColumnRef, Family, PredicateSpace, Schema
from holdfast.discovery.denial.seeding import seed_denial
from holdfast.discovery.evidence.current import current_codes, evidences_with
from holdfast.discovery.evidence.violations import ViolationSearch
from holdfast.discovery.inclusion.seeding import ColumnValues, column_values
from holdfast.discovery.order.search import OrderSearch
from holdfast.discovery.order.seeding import seed_order
from holdfast.discovery.order.targets import Targets
from holdfast.discovery.seed import Seed
from holdfast.discovery.soundness.measured import Measured
from holdfast.indexes.evidence_table import WITNESSES
from holdfast.indexes.masks import seen_in
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.indexes.table_index import TableIndex
from holdfast.state.store import Reader
from holdfast.streaming.incoming.netting import no_key_is_twice
from holdfast.streaming.maintainers.holdings.contract import (
    Bounded,
    CrossColumns,
    Holding,
    KeepBlocks,
    Report,
    RowsDefinition,
    WholeTable,
    boxes_of,
)
from holdfast.streaming.maintainers.near.counting import LiveCounts
from holdfast.streaming.maintainers.near.counts import ordered_in
from holdfast.streaming.maintainers.near.maintainer import NearMaintainer
from holdfast.streaming.maintainers.rules.counting import CountingInMemory
from holdfast.streaming.maintainers.rules.watches import RuleWatch
from holdfast.streaming.maintainers.table.bounds import NearBounds
from holdfast.tables import Table, space_of
from holdfast.tables.arrays import Numbers, Pairs, Words
from holdfast.tables.columnar import encoded

if TYPE_CHECKING:
    from holdfast.streaming.maintainers.certified.maintainer import CertifiedMaintainer


@dataclass(eq=False)
class WholeInMemory(WholeTable):
    """All rows of a table in memory."""

    table: Table

    @property
    def whole(self) -> Table:
        """The table with all rows."""
        return self.table

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the reader."""
        return self.table.warnings

    def space(self, cross_columns: CrossColumns) -> PredicateSpace:
        """Return the predicate space of the table; crossing pairs are measured on the rows."""
        return space_of(self.whole, cross_columns)

    def locate(self, row: int) -> str:
        """Return the origin of the row with this number, for messages."""
        return self.table.locate(row)

    def values(self, columns: Collection[ColumnRef], keep: KeepBlocks) -> list[ColumnValues]:  # noqa: ARG002
        """Return the values of the given columns."""
        return [column for column in column_values(self.whole) if column.member.ref in columns]

    def first_null(self, column: str) -> int | None:
        """Return the number of the first row with a null in a column."""
        valid = self.whole[column].valid
        return None if valid is None or valid.all() else int((~valid).argmax())

    def nothing(self, schema: Schema) -> "WholeInMemory":
        """Return an empty table with other columns."""
        return WholeInMemory(RowSet(PredicateSpace(schema)).table(np.zeros(0, np.int64)))

    def made_anew(self, schema: Schema, make: Callable[[Table], Table]) -> "WholeInMemory":  # noqa: ARG002 (of `make`)
        """Return the rows with other columns, converted by `make`."""
        return WholeInMemory(make(self.whole))

    def refuse_key_twice(self, key: tuple[int, ...]) -> None:
        """Raise `InputError` if two rows have one key, or a row has a null in its key. O(n log n)."""
        no_key_is_twice(self.whole, key)

    def seed(
        self, definition: RowsDefinition, families: Bounded, report: Report
    ) -> tuple["RowsInMemory", dict[Family, Seed]]:
        """Return a holding of the rows, and the discovered constraints by family."""
        table, rows, seeds = self.whole, definition.empty(), {}
        rows.fill(table)
        for family, (theirs, bound) in families.items():
            search = seed_denial if family is Family.DENIAL else seed_order
            found = search(table, theirs, bound, threads=definition.threads, report=report)
            report("looking for further witnesses")
            named, place = np.unique(found.witnesses, return_inverse=True)
            slots = rows.slots_of(rows.encode(table.taken(named))[0])[place].reshape(found.witnesses.shape)
            seeds[family] = replace(found, witnesses=slots)
        report("building the index")
        return RowsInMemory(rows, definition.threads), seeds

    def held(self, definition: RowsDefinition) -> "RowsInMemory":
        """Return a holding of the rows without a search for constraints."""
        rows = definition.empty()
        rows.fill(self.table)
        return RowsInMemory(rows, definition.threads)


class RowsInMemory(Holding):
    """The rows of one maintained table, all of them with slots.

    One index serves all families, in the space of the table, which has every column pair and every order that some
    family compares. Boxes and evidences are converted between this space and those of families (`indexes/masks.py`).
    """

    def serve(self, families: Sequence["CertifiedMaintainer"]) -> None:
        """Search for violations of these families' boxes from now on. O(n log n)."""
        self._families = families
        self._served: list[Words] = []
        self.index = TableIndex(self.rows, self.threads)
        self.serve_changed()

    def serve_changed(self) -> None:
        """Search for violations of the boxes that the families have after a batch. O(1) if they did not change."""
        boxes, there = [boxes_of(family, self.rows) for family in self._families], self.rows.space
        if len(self._served) != len(boxes) or any(a is not b for a, b in zip(boxes, self._served, strict=True)):
            self._served = boxes
            seen = [seen_in(some, f.space, there) for some, f in zip(boxes, self._families, strict=True)]
            self.index.hold(np.concatenate(seen))
        self.index.renew()

    def rebuild(self) -> None:
        """Make the index anew. O(n log n)."""
        self.index.rebuild()

    def met(self, delta: RowDelta) -> list[tuple[Words, Pairs]]:
        """Apply a batch to the index; return, per family, the evidences of pairs with a new row, and witnesses."""
        self.index.remove(delta.vanished)
        self.index.insert(delta.appeared)
        slots, here = np.concatenate([delta.appeared, delta.doubled]), self.rows.space
        if not len(slots):
            words, pairs = np.zeros((0, here.word_count), np.uint64), np.zeros((0, WITNESSES, 2), np.int64)
        elif self.index.is_used:
            words, pairs = self.index.probe(slots)
        else:
            words, one = evidences_with(self.rows, here, slots, self.threads)
            pairs = one[:, None, :]
        return [(seen_in(words, here, family.space), pairs) for family in self._families]

    def search(self, space: PredicateSpace) -> "SearchInMemory":
        """Return a search of the current rows."""
        return SearchInMemory(self.rows, space, self.threads)

    def counting(self, watches: Sequence[RuleWatch]) -> CountingInMemory:
        """Return the counter of the violations of rules."""
        return CountingInMemory(self.rows, watches, self.threads)

    def near(self, bounds: NearBounds) -> NearMaintainer:
        """Return the maintainer of constraints that nearly hold, still to be seeded or restored."""
        ordered = ordered_in(self.rows.space.schema.columns, bounds)
        return NearMaintainer(self.rows, bounds, LiveCounts(self.rows, ordered, self.threads))

    def measured(self, space: PredicateSpace) -> Measured:
        """Return what constraints are ranked by. O(n), nanoseconds a row."""
        return Measured.of_rows(self.rows, space)

    def whole(self) -> WholeInMemory:
        """Return all current rows. O(n)."""
        live, schema = self.rows.arrow()[0], self.rows.space.schema
        columns = {name: live.column(name) for name in schema.names}
        return WholeInMemory(encoded(schema.table, schema.columns, columns, len(live)))

    @classmethod
    def restored(cls, store: Reader, prefix: bytes, definition: RowsDefinition) -> "RowsInMemory":
        """Return the holding of saved rows. O(n)."""
        rows = definition.empty()
        rows.restore(store, prefix)
        return cls(rows, definition.threads)


class SearchInMemory:
    """Searches rows in memory for violations.

    Parameters
    ----------
    rows, space : the table, and the column pairs that are compared.
    threads : how many to use.
    """

    def __init__(self, rows: RowSet, space: PredicateSpace, threads: int) -> None:
        self._codes = current_codes(rows, space)
        self._space = space
        self._threads = threads
        self._denials: ViolationSearch | None = None
        self._orders: OrderSearch | None = None

    def find(self, masks: Words, limit: int) -> tuple[Numbers, Pairs]:
        """Return the positions of violated constraints, and about `limit` violating pairs of slots for each."""
        self._denials = self._denials or ViolationSearch(self._codes, self._space, self._threads)
        found = self._denials.find(masks, limit)
        return np.unique(found.constraint), self._codes.table_rows(found.pairs)

    def find_orders(self, targets: Targets, which: Numbers, sets: Words, limit: int) -> tuple[Numbers, Pairs]:
        """Return the same for order dependencies, each given by a target and the columns of its context."""
        self._orders = self._orders or OrderSearch(self._codes, targets, self._threads)
        broken, pairs = self._orders.find(which, sets, limit)
        return np.unique(broken), self._codes.table_rows(pairs)
