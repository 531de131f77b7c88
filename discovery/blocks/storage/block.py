"""Rows of a table in an immutable, columnar file, with the ranges that let searches skip the file.

A block is an Arrow stream: the number of each row in its table, then the columns in the order of the schema, named by
position. No block refers to another block: there are no codes, ranks or shared dictionaries. The *ranges* of a block
are the least and the greatest value of each column, nulls below every value; they are kept with its name, so that a
plan reads no block. So are the number of rows that are gone since the block was written, and since when; the marks of
the table have their numbers.

Invariant: a block's file never changes; two blocks have no name in common.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import Schema
from holdfast.discovery.blocks.storage.location import bytes_of
from holdfast.discovery.blocks.storage.marks import NOTHING_GONE, Gone
from holdfast.discovery.blocks.storage.packing import packed, unpacked
from holdfast.state.places import Place
from holdfast.tables import EncodedColumn, Table
from holdfast.tables.arrays import RowNumbers
from holdfast.tables.columnar import encoded
from holdfast.tables.keys import arrow_type_of, decimal_words

Key = int | str | None
"""A value in a range: an order-preserving integer, a text, or None for null, which is below all values."""


@dataclass(frozen=True)
class Range:
    """The least and the greatest value of a column in a block."""

    low: Key
    high: Key


@dataclass(frozen=True)
class Block:
    """The description of a block.

    Parameters
    ----------
    name : the name of its file.
    rows, size : the number of rows that it was written with, and their bytes in memory.
    ranges : a range for each column.
    first, last : the least and the greatest number of its rows.
    gone : its rows that are gone, as far as known.
    """

    name: str
    rows: int
    size: int
    ranges: tuple[Range, ...]
    first: int = 0
    last: int = -1
    gone: Gone = NOTHING_GONE


@dataclass(frozen=True)
class Rows:
    """Some rows of a table in blocks, in memory.

    Parameters
    ----------
    numbers : the row numbers.
    table : the values.
    """

    numbers: RowNumbers
    table: Table


def write_blocks(place: Place, rows: Rows, most: int) -> Iterator[Block]:
    """Write rows as blocks of at most `most` rows, in their order."""
    arrays = carried(rows)
    for start in range(0, rows.table.row_count, most):
        yield write_block(place, arrays.slice(start, most), rows.table.schema)


def write_block(place: Place, arrays: pa.Table, schema: Schema) -> Block:
    """Write rows as one block."""
    table = table_of(arrays, schema)
    name = secrets.token_hex(16)
    place.put(name, packed(arrays.combine_chunks()))
    ends = pc.min_max(arrays.column("row")).as_py() if len(arrays) else {"min": 0, "max": -1}
    return Block(name, table.row_count, arrays.nbytes, ranges_of(table), ends["min"], ends["max"])


def read_block(place: Place, block: Block) -> pa.Table:
    """Return the rows that a block was written with, in the format of blocks."""
    until = "a search goes on. Name another one, and start again"
    return unpacked(bytes_of(place, block.name, f"block {block.name} is", until))


def names_of(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Return the names of blocks."""
    return tuple(block.name for block in blocks)


def versions_of(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Return the versions of the rows of blocks that are gone."""
    return tuple(block.gone.version for block in blocks)


def carried(rows: Rows) -> pa.Table:
    """Return rows in the format of blocks: row numbers, then columns by position."""
    arrays = [pa.array(rows.numbers), *(column.values() for column in rows.table.columns)]
    return pa.table(arrays, schema=carried_schema(rows.table.schema))


def carried_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of the format of blocks."""
    fields = [(str(c), arrow_type_of(column.type)) for c, column in enumerate(schema.columns)]
    return pa.schema([("row", pa.int64()), *fields])


def rows_of(arrays: pa.Table, schema: Schema) -> Rows:
    """Return rows from the format of blocks: the inverse of `carried`."""
    return Rows(arrays.column("row").to_numpy(), table_of(arrays, schema))


def table_of(arrays: pa.Table, schema: Schema) -> Table:
    """Return rows from the format of blocks, without their numbers."""
    columns = {column.name: arrays.column(str(c)) for c, column in enumerate(schema.columns)}
    return encoded(schema.table, schema.columns, columns, len(arrays))


def ranges_of(table: Table) -> tuple[Range, ...]:
    """Return the range of each column of a table."""
    return tuple(map(_range_of, table.columns))


def ranges_together(blocks: Sequence[Block]) -> tuple[Range, ...]:
    """Return the range of each column over several blocks."""
    if len(blocks) == 1:
        return blocks[0].ranges
    return tuple(
        Range(min((r.low for r in ranges), key=order_of), max((r.high for r in ranges), key=order_of))
        for ranges in zip(*(block.ranges for block in blocks), strict=True)
    )


def _range_of(column: EncodedColumn) -> Range:
    present = column.counts[0]
    has_nulls = column.valid is not None and not column.valid.all()
    if not len(present):
        return Range(None, None)
    if column.dictionary is None:
        low, high = int(present.min()), int(present.max())
        return Range(None if has_nulls else low, high)
    if column.column.type.name == "string":
        ends = pc.min_max(column.dictionary.take(pa.array(present))).as_py()
        return Range(None if has_nulls else ends["min"], ends["max"])
    least, greatest = unscaled(column.dictionary.take(pa.array([present.min(), present.max()])))
    return Range(None if has_nulls else least, greatest)


def unscaled(decimals: pa.Array) -> list[int]:
    """Return wide decimals as integers, in units of their last digit."""
    return [(high << 64) + (low & (1 << 64) - 1) for low, high in decimal_words(decimals).tolist()]


def order_of(key: Key) -> tuple[bool, int | str]:
    """Return the sort key of a value in a range: nulls first."""
    return (False, 0) if key is None else (True, key)
