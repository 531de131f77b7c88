"""A table in blocks, and copies of its rows in other orders for searches.

An *arrangement* is all rows sorted by some columns, in blocks. Rows with the same value of the first column are in one
block, unless they are more than a block holds. So two rows that agree on that column are in one block or, for a very
frequent value, in neighbouring blocks; and the ranges of blocks decide which blocks to compare.

    base          the rows in the order of insertion
    (Zip,)        sorted by Zip: constraints with an equality on Zip are searched in each block alone
    (State, Rate) sorted by State, then Rate: states with many rows take several blocks, cut by Rate

Invariant: every arrangement has every row exactly once.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast.constraints import Schema
from holdfast.discovery.blocks.executors import Executors, Given, Taken, by_part
from holdfast.discovery.blocks.storage.block import (
    Block,
    Rows,
    carried_schema,
    ranges_together,
    read_block,
    rows_of,
    write_block,
    write_blocks,
)
from holdfast.discovery.blocks.storage.location import KEPT, Storage
from holdfast.discovery.blocks.storage.marks import Marks, marked_among, set_of
from holdfast.discovery.blocks.storage.ranges import BlockRanges
from holdfast.tables import Table
from holdfast.tables.arrays import Ints, RowNumbers
from holdfast.tables.parts import in_chunks

Order = tuple[int, ...]
"""Columns by position; the first column decides which rows stay together."""

Report = Callable[[str], object]

_SAMPLED = 20_000
_ORDER = b"order"
_SORTED_AT_ONCE = 8
"""The most blocks whose rows are sorted together."""


@dataclass(frozen=True)
class Source:
    """A table as tasks need it.

    Parameters
    ----------
    storage, schema : where its blocks are, and its columns.
    most : the rows of a block.
    marks : the marks of rows that are gone.
    """

    storage: Storage
    schema: Schema
    most: int
    marks: tuple[Marks, ...] = ()

    def read(self, block: Block) -> pa.Table:
        """Return the rows of a block that are not gone, in the format of blocks."""
        return self.left(block, self.written(block))

    def left(self, block: Block, rows: pa.Table) -> pa.Table:
        """Return the given rows of a block without those that are gone."""
        gone = self.gone(block)
        return rows.filter(pa.array(~np.isin(rows.column("row").to_numpy(), gone))) if len(gone) else rows

    def gone(self, block: Block) -> RowNumbers:
        """Return the numbers of a block's rows that are gone, ascending; kept by the process while there is room."""
        if not block.gone.most:
            return np.zeros(0, np.int64)

        def make() -> tuple[RowNumbers, int]:
            found = marked_among(self.storage, self._numbers(block), self.marks)
            return found, found.nbytes

        return KEPT.get(("gone", block.name), make, block.gone.version)

    def _numbers(self, block: Block) -> BitMap64:
        """Return the numbers of all rows that a block was written with; kept by the process while there is room."""

        def make() -> tuple[BitMap64, int]:
            numbers = self.written(block).column("row").to_numpy()
            return set_of(numbers), numbers.nbytes

        return KEPT.get(("numbers", block.name), make)

    def written(self, block: Block) -> pa.Table:
        """Return the rows that a block was written with; kept by the process while there is room."""

        def make() -> tuple[pa.Table, int]:
            return read_block(self.storage.open(), block), block.size

        return KEPT.get(block.name, make)

    def read_all(self, blocks: Sequence[Block]) -> pa.Table:
        """Return the rows of several blocks."""
        return pa.concat_tables([carried_schema(self.schema).empty_table(), *map(self.read, blocks)])

    def write_sorted(self, rows: pa.Table, order: Order) -> Iterator[Block]:
        """Write rows sorted, as blocks that end where the first column of the order changes, if possible."""
        place = self.storage.open()
        if order and len(rows):
            rows = rows.take(pc.sort_indices(rows, [(str(c), "ascending", "at_start") for c in order]))
        rows = rows.combine_chunks()
        while len(rows) >= 2 * self.most:
            end = _end_of_block(rows.column(str(order[0])), self.most) if order else self.most
            yield write_block(place, rows.slice(0, end), self.schema)
            rows = rows.slice(end)
        if len(rows):
            yield write_block(place, rows, self.schema)


@dataclass(frozen=True)
class Arrangement:
    """All rows of a table, sorted, in blocks.

    Parameters
    ----------
    order : the columns that rows are sorted by; none for the base.
    blocks : the blocks in that order.
    schema : the columns of the table.
    young : the number of last blocks that are small and not sorted; they are searched as one unit.
    """

    order: Order
    blocks: tuple[Block, ...]
    schema: Schema
    young: int = 0

    @cached_property
    def units(self) -> tuple[tuple[Block, ...], ...]:
        """The units of a search: each block alone, all young blocks together."""
        old = len(self.blocks) - self.young
        return (*((block,) for block in self.blocks[:old]), *([self.blocks[old:]] if self.young else []))

    @cached_property
    def ranges(self) -> BlockRanges:
        """The ranges of the units."""
        return BlockRanges([ranges_together(unit) for unit in self.units], self.schema)


class BlockTable:
    """A table in blocks.

    Parameters
    ----------
    source, blocks : where the blocks are, and the blocks of the base.
    executors : where tasks run.
    report : receives what is being done.
    """

    def __init__(
        self, source: Source, blocks: Sequence[Block], executors: Executors, report: Report = lambda _: None
    ) -> None:
        self.source = source
        self.schema = source.schema
        self.executors = executors
        self.row_count = sum(block.rows for block in blocks)
        self._report = report
        self.arrangements: dict[Order, Arrangement] = {(): Arrangement((), tuple(blocks), source.schema)}

    @property
    def base(self) -> Arrangement:
        """The rows in the order of insertion."""
        return self.arrangements[()]

    @property
    def orders(self) -> Collection[Order]:
        """The existing orders."""
        return self.arrangements.keys()

    def without_rows(self) -> Table:
        """Return a table in memory with the name, columns and number of rows, without values."""
        return Table(self.schema, (), self.row_count)

    def arranged(self, order: Order) -> Arrangement:
        """Return the rows in an order. O(n log n) on the executors for a new order."""
        return self.arranged_in([order])[0]

    def arranged_in(self, orders: Sequence[Order]) -> list[Arrangement]:
        """Return the rows in several orders; new orders are sorted together."""
        new = [order for order in orders if order not in self.arrangements]
        for order, blocks in self.sorted_by(new).items():
            self.arrangements[order] = Arrangement(order, tuple(blocks), self.schema)
        return [self.arrangements[order] for order in orders]

    @cached_property
    def heaviest(self) -> list[float]:
        """For each column the share of rows with its most frequent value, estimated from a sample."""
        rows, columns = max(len(self.sample), 1), self.sample.drop_columns(["row"]).columns
        return [max(pc.value_counts(column).field(1).to_pylist(), default=0) / rows for column in columns]

    def fits_a_block(self, column: int) -> bool:
        """Whether the rows with the most frequent value of a column fit into a block, estimated from a sample."""
        return self.heaviest[column] * self.row_count <= self.source.most

    @cached_property
    def sample(self) -> pa.Table:
        """Some rows in the format of blocks, evenly spread over the blocks."""
        most = max(1, _SAMPLED // max(len(self.base.blocks), 1))
        found = list(self.executors.run(partial(_sampled_of, self.source, most), self.base.blocks, light=True))
        return pa.concat_tables([carried_schema(self.schema).empty_table(), *found])

    def sorted_by(self, orders: Sequence[Order]) -> dict[Order, list[Block]]:
        """Write all rows in each order."""
        found: dict[Order, list[Block]] = {order: [] for order in orders}
        if not self.base.blocks or not orders:
            return found
        names = "; ".join(", ".join(self.schema.names[c] for c in order) for order in orders)
        self._report(f"sorting {self.row_count:,} rows by {names}")
        bounds = {order: self._bounds(order[:1] if self.fits_a_block(order[0]) else order) for order in orders}
        parts = sum(len(some) + 1 for some in bounds.values())
        work = partial(_given, self.source, bounds), self.base.blocks, parts, partial(_written, self.source)
        for order, block in self.executors.exchange(*work):
            found[order].append(block)
        return found

    def made_anew(self, schema: Schema, make: Callable[[Table], Table]) -> "BlockTable":
        """Write the rows with other columns, converted block by block by `make`; row numbers stay."""
        source = replace(self.source, schema=schema)
        written = self.executors.run(partial(_made, self.source, source, make), self.base.blocks)
        return BlockTable(source, [block for some in written for block in some], self.executors, self._report)

    def _bounds(self, columns: Order) -> pa.Table:
        """Return the distinct values where parts begin, for parts of about a block each."""
        sample = self.sample.select([str(c) for c in columns])
        keys = [(name, "ascending", "at_start") for name in sample.column_names]
        ordered = sample.take(pc.sort_indices(sample, keys))
        parts = max(1, -(-self.row_count // self.source.most)) if len(ordered) else 1
        places = np.linspace(0, len(ordered), parts + 1)[1:-1].astype(np.int64)
        return ordered.take(pa.array(places)).group_by(ordered.column_names, use_threads=False).aggregate([])


def _made(old: Source, new: Source, make: Callable[[Table], Table], block: Block) -> list[Block]:
    rows = rows_of(old.read(block), old.schema)
    return list(write_blocks(new.storage.open(), Rows(rows.numbers, make(rows.table)), new.most))


def _sampled_of(source: Source, most: int, block: Block) -> pa.Table:
    rows = source.read(block)
    places = np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(np.int64)
    return rows.take(pa.array(np.unique(places)))


def _given(source: Source, bounds: dict[Order, pa.Table], block: Block) -> Given:
    """Yield the rows of a block with the part of each, for each order, the order being a column."""
    arrays, first = source.read(block), 0
    for order, some in bounds.items():
        meant = {_ORDER: ",".join(map(str, order))}
        parts = parts_of(arrays.select(some.column_names), some)
        yield from by_part(arrays.replace_schema_metadata(meant), parts + first)
        first += len(some) + 1


def parts_of(rows: pa.Table, bounds: pa.Table) -> Ints:
    """Return for each row the number of sorted bounds that are not above it. O(n log n).

    >>> parts_of(pa.table({"a": [None, 1, 3, 5]}), pa.table({"a": [1, 4]})).tolist()
    [0, 1, 1, 2]
    """
    if not len(bounds):
        return np.zeros(len(rows), np.int64)
    both = pa.concat_tables([bounds, rows], promote_options="permissive")
    is_row = pa.array(np.arange(len(both)) >= len(bounds))
    both = both.append_column("is row", is_row)  # a bound sorts before rows that are equal to it
    keys = [(name, "ascending", "at_start") for name in both.column_names]
    order = pc.sort_indices(both, keys).to_numpy()
    below = np.cumsum(order < len(bounds))
    parts = np.empty(len(both), np.int64)
    parts[order] = below
    return parts[len(bounds) :]


def _written(source: Source, taken: Taken) -> Iterator[tuple[Order, Block]]:
    """Write the rows of a part, sorted.

    Far more rows than expected are sorted some at a time, into blocks with wide ranges.
    """
    for rows in in_chunks(taken, _SORTED_AT_ONCE * source.most):
        order = tuple(map(int, rows.schema.metadata[_ORDER].split(b",")))
        for block in source.write_sorted(rows.replace_schema_metadata(), order):
            yield order, block


def _end_of_block(column: pa.ChunkedArray, most: int) -> int:
    """Return the best end of a block with at least half and at most twice `most` rows."""
    window = column.slice(most // 2, most + most // 2)
    codes = window.combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    changes = np.flatnonzero(np.diff(codes)) + 1 + most // 2
    return int(changes[np.abs(changes - most).argmin()]) if len(changes) else most
