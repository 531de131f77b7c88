"""The rows of one table in blocks on a storage, searched and counted by executors.

This process and the state have only the residents (`residents.py`), which are the rows of a batch and those that
certificates and rules refer to, and the manifest of the blocks.

Invariant: the answers are those that `in_memory.py` would give.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import ColumnRef, ExternalError, Family, PredicateSpace, Rule, Schema, UsageError
from holdfast.constraints.denial import key as denial_key
from holdfast.discovery.blocks.counting.checking import check_blocks
from holdfast.discovery.blocks.discover import space_of_blocks
from holdfast.discovery.blocks.executors import Executors
from holdfast.discovery.blocks.search.searching import BlockSearch
from holdfast.discovery.blocks.search.seeding import seed_blocks
from holdfast.discovery.blocks.storage.block import Block, table_of
from holdfast.discovery.blocks.storage.live import LiveBlocks, executors_for
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.lookup import rows_numbered
from holdfast.discovery.blocks.storage.table import BlockTable, Order, Source
from holdfast.discovery.inclusion.seeding import ColumnValues
from holdfast.discovery.order.targets import Targets
from holdfast.discovery.seed import Seed
from holdfast.discovery.soundness.measured import Measured
from holdfast.indexes.masks import seen_in
from holdfast.indexes.rows import RowDelta
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.incoming.netting import key_twice, null_in_key
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
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory
from holdfast.streaming.maintainers.holdings.residents import Residents
from holdfast.streaming.maintainers.near.counting_blocks import CountsInBlocks
from holdfast.streaming.maintainers.near.maintainer import NearMaintainer
from holdfast.streaming.maintainers.part import NO_SLOTS
from holdfast.streaming.maintainers.rules.counting_blocks import CountingInBlocks
from holdfast.streaming.maintainers.rules.watches import RuleWatch
from holdfast.streaming.maintainers.table.bounds import NearBounds
from holdfast.tables import Table
from holdfast.tables.arrays import Numbers, Pairs, Slots, Words
from holdfast.tables.columnar import nowhere

if TYPE_CHECKING:
    from holdfast.streaming.maintainers.certified.maintainer import CertifiedMaintainer

_MORE_RESIDENTS = 4_000


@dataclass(frozen=True)
class BlockPlace:
    """The storage of a table's blocks, and the executors that work on them."""

    executors: Executors
    storage: Storage

    def restored(self, store: Store, prefix: bytes, definition: RowsDefinition) -> Holding:
        """Return the holding of saved rows; versions of keys may have been saved in memory."""
        if not LiveBlocks.are_stored(store, prefix):
            return RowsInMemory.restored(store, prefix, definition)
        blocks = LiveBlocks.restore(store, prefix, self.storage, definition.space.schema, self.executors)
        rows = Residents(definition, blocks)
        rows.restore(store, prefix)
        return RowsInBlocks(rows, definition.threads)


@dataclass(frozen=True)
class WholeInBlocks(WholeTable):
    """All rows of a table in blocks.

    Parameters
    ----------
    where : returns the origin of the row with a number.
    """

    table: BlockTable
    where: Callable[[int], str] = nowhere

    def space(self, cross_columns: CrossColumns) -> PredicateSpace:
        """Return the predicate space of the table; crossing pairs are measured on the rows."""
        return space_of_blocks(self.table, cross_columns)

    def locate(self, row: int) -> str:
        """Return the origin of the row with this number, for messages."""
        return self.where(row)

    def values(self, columns: Collection[ColumnRef], keep: KeepBlocks) -> list[ColumnValues]:
        """Give the table to `keep`, and return nothing. The values of a few rows are read in this process."""
        table = self.table
        executors = executors_for(table.row_count, table.source.most, table.executors)
        keep(BlockTable(table.source, table.base.blocks, executors), columns)
        return []

    def first_null(self, column: str) -> int | None:
        """Return the number of the first row with a null in a column."""
        place = self.schema.index(column)
        having = [block for block in self.table.base.blocks if block.ranges[place].low is None]
        return min(self.table.executors.run(partial(_first_null, self.table.source, place), having), default=None)

    def nothing(self, schema: Schema) -> "WholeInBlocks":
        """Return an empty table with other columns, whose blocks will be in the same storage."""
        return WholeInBlocks(BlockTable(replace(self.table.source, schema=schema), [], self.table.executors))

    def made_anew(self, schema: Schema, make: Callable[[Table], Table]) -> "WholeInBlocks":
        """Write the rows with other columns into new blocks; `make` converts each block. Row numbers stay."""
        return WholeInBlocks(self.table.made_anew(schema, make), self.where)

    def replaced_by(self, schema: Schema, make: Callable[[Table], Table]) -> "WholeInBlocks":
        """Write the rows with other columns as `made_anew` does, and remove the old blocks."""
        made = self.made_anew(schema, make)
        self.table.source.storage.open().remove(block.name for block in self.table.base.blocks)
        return made

    def refuse_key_twice(self, key: tuple[int, ...]) -> None:
        """Raise `InputError` if two rows have one key, or a row has a null in its key."""
        if not key:
            return
        names = [self.schema.names[c] for c in key]
        for name in names:
            null = self.first_null(name)
            if null is not None:
                raise null_in_key(self.locate(null), name)
        rule = Rule("key", self.schema.table, denial_key(names))
        (checked,) = check_blocks({self.schema.table: self.table}, [rule], exists=True, examples=1)
        if not checked.holds:
            (example,) = checked.examples
            one, other = sorted(example.rows)
            raise key_twice(self.locate(other), self.locate(one), names)

    def refuse_near(self, near: NearBounds) -> None:
        """Raise `UsageError` if order compatibilities are to be counted."""
        _refuse_orders(near, self.schema)

    def seed(
        self, definition: RowsDefinition, families: Bounded, report: Report
    ) -> tuple["RowsInBlocks", dict[Family, Seed]]:
        """Return a holding of the blocks, and the discovered constraints by family."""
        order = self._arranged_for_lookup(definition.key)
        seeds = {
            family: seed_blocks(self.table, theirs, bound, threads=definition.threads, report=report)
            for family, (theirs, bound) in families.items()
        }
        rows = Residents(definition, LiveBlocks.of(self.table, order))
        rows.begin()
        witnesses = [seed.witnesses.ravel() for seed in seeds.values()]
        rows.bring(rows_numbered(self.table, np.concatenate([NO_SLOTS, *witnesses])))
        rows.bring(_some(self.table.sample, _MORE_RESIDENTS))  # for further witnesses; the others do not stay resident
        for family, seed in seeds.items():
            slots = rows.slots_numbered(seed.witnesses.ravel()).reshape(seed.witnesses.shape)
            seeds[family] = replace(seed, witnesses=slots)
        return RowsInBlocks(rows, definition.threads), seeds

    def held(self, definition: RowsDefinition) -> "RowsInBlocks":
        """Return a holding of the blocks without a search for constraints."""
        order = self._arranged_for_lookup(definition.key)
        return RowsInBlocks(Residents(definition, LiveBlocks.of(self.table, order)), definition.threads)

    def _arranged_for_lookup(self, key: Sequence[str]) -> Order:
        """Sort the rows for lookups: by the column with the smallest most frequent value."""
        columns = [self.schema.index(name) for name in key] or range(len(self.schema))
        order = (min(columns, key=lambda c: (self.table.heaviest[c], c)),)
        self.table.arranged(order)
        return order


class RowsInBlocks(Holding):
    """The rows of one maintained table in blocks; the residents have slots.

    Parameters
    ----------
    rows : the residents, and the blocks.
    threads : how many to use in this process.
    """

    rows: Residents
    _families: Sequence["CertifiedMaintainer"] = ()

    @property
    def blocks(self) -> LiveBlocks:
        """The blocks."""
        return self.rows.blocks

    def begin(self, held: Callable[[], Slots] = lambda: NO_SLOTS, *, truncated: bool = False) -> None:
        """Begin a batch; residents that no part refers to may be removed."""
        self.rows.held = held
        self.rows.begin()
        self.rows.truncated = self.truncated = truncated

    def serve(self, families: Sequence["CertifiedMaintainer"]) -> None:
        """Search for violations of these families' boxes from now on; only executors derive anything from rows."""
        self._families = families

    def met(self, delta: RowDelta) -> list[tuple[Words, Pairs]]:
        """Return, per family, the evidences of pairs with a new row, and witnesses."""
        slots, here = np.concatenate([delta.appeared, delta.doubled]), self.rows.space
        if not (len(slots) and self._families):
            none = np.zeros((0, 1, 2), np.int64)
            return [(family.boxes[:0], none) for family in self._families]
        boxes = [seen_in(boxes_of(family, self.rows), family.space, here) for family in self._families]
        words, pairs = self.rows.met_by(slots, np.unique(np.concatenate(boxes), axis=0))
        return [(seen_in(words, here, family.space), pairs[:, None, :]) for family in self._families]

    def with_values(self, delta: RowDelta) -> RowDelta:
        """Return the rows whose values a batch added and removed; all live rows if the table was truncated."""
        if not self.truncated:
            return delta
        live = self.rows.live()
        return replace(delta, changed=live, copies=self.rows.copies[live])

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Name the place of blocks in an error of reading or writing them."""
        try:
            yield
        except OSError as error:
            raise ExternalError(
                f"rows of table {self.rows.space.schema.table} cannot be read or written in "
                f"{self.blocks.source.storage.open()}: {error}. Nothing of the batch was applied: see whether there is "
                "room, and who may write there; start again"
            ) from error

    def search(self, space: PredicateSpace) -> "SearchInBlocks":
        """Return a search of the current rows."""
        return SearchInBlocks(self.rows, space)

    def counting(self, watches: Sequence[RuleWatch]) -> CountingInBlocks:
        """Return the counter of the violations of rules."""
        return CountingInBlocks(self.rows, watches)

    def near(self, bounds: NearBounds) -> NearMaintainer:
        """Return the maintainer of constraints that nearly hold, still to be seeded or restored."""
        _refuse_orders(bounds, self.rows.space.schema)
        return NearMaintainer(self.rows, bounds, CountsInBlocks(self.rows))

    def measured(self, space: PredicateSpace) -> Measured:
        """Return what constraints are ranked by: rows of a sample that is renewed now and then."""
        sample = table_of(self.blocks.measured.sample, self.rows.space.schema)
        return Measured.of_table(sample, space, len(self.rows))

    def whole(self) -> WholeInBlocks:
        """Return all current rows."""
        return WholeInBlocks(self.blocks.table())

    def save_between(self, prefix: bytes) -> Iterator[WriteBatch]:
        """Yield the rows that became resident with examples, and the arrangements of blocks made for counts."""
        return self.save(prefix)

    @property
    def files(self) -> frozenset[str]:
        """The names of the files with blocks and marks."""
        return frozenset(self.blocks.manifest.names)

    def committed(self) -> None:
        """Remove the files without a block in use."""
        with suppress(OSError):  # the next start removes files that are left
            self.blocks.source.storage.open().remove(self.blocks.retired())


class SearchInBlocks:
    """Searches rows in blocks for violations.

    Parameters
    ----------
    rows, space : the residents and blocks, and the column pairs that are compared.
    """

    def __init__(self, rows: Residents, space: PredicateSpace) -> None:
        self._rows = rows
        self._search = BlockSearch(rows.blocks.table(), space, images=True)

    def find(self, masks: Words, limit: int) -> tuple[Numbers, Pairs]:
        """Return the positions of violated constraints, and about `limit` violating pairs of slots for each."""
        found = self._search.find(masks, limit)
        return found.constraint, self._rows.pairs_of(found.evidences)

    def find_orders(self, targets: Targets, which: Numbers, sets: Words, limit: int) -> tuple[Numbers, Pairs]:
        """Return the same for order dependencies, each given by a target and the columns of its context."""
        return self.find(targets.masks(which, sets), limit)


def _refuse_orders(near: NearBounds, schema: Schema) -> None:
    if near.orders:
        raise UsageError(
            f"table {schema.table}: order compatibilities that nearly hold are maintained where rows are in memory, "
            "and its rows are in blocks: leave them out (keys and functional dependencies alone: near_orders=False), "
            "or hold the rows in memory (engine: embedded)"
        )


def _some(rows: pa.Table, most: int) -> pa.Table:
    """Return at most `most` rows, evenly spread."""
    return rows.take(pa.array(np.unique(np.linspace(0, max(len(rows) - 1, 0), min(most, len(rows))).astype(np.int64))))


def _first_null(source: Source, column: int, block: Block) -> int:
    rows = source.read(block)
    found: int = pc.min(rows.column("row").filter(pc.is_null(rows.column(str(column))))).as_py()
    return found
