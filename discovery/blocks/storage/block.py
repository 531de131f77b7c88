"""Rows of a table in an immutable, columnar file, with what has to be known of it to leave it unread.

A block is an Arrow stream: first the number that each row has in its table, then the columns in the order of the
schema, by position. Nothing in it refers to another block: no codes, no ranks, no dictionary that is shared. Its
*ranges* say for each column between which values its rows are, nulls below every value; they travel with the block's
name, so that whoever plans a search reads no block. So does how many of its rows are gone from the table since the
block was written, and since when; which these are the marks of the table say.

Invariant: a block's file never changes; two blocks have no name in common.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import ExternalError, Schema
from holdfast.discovery.blocks.storage.marks import NOTHING_GONE, Gone
from holdfast.discovery.blocks.storage.packing import packed, unpacked
from holdfast.state.places import Place
from holdfast.tables import EncodedColumn, Table
from holdfast.tables.arrays import RowNumbers
from holdfast.tables.columnar import encoded
from holdfast.tables.keys import arrow_type_of, decimal_words

Key = int | str | None
"""A value as ranges have it: an order-preserving integer, a text, or None for null, which is below them."""


@dataclass(frozen=True)
class Range:
    """Between which values the rows of a block are in one column, both included."""

    low: Key
    high: Key


@dataclass(frozen=True)
class Block:
    """What is known of a block without reading it.

    Parameters
    ----------
    name : of its file.
    rows, size : how many rows it was written with, and bytes of memory once it is read.
    ranges : one for each column.
    first, last : the least and the greatest number of its rows.
    gone : what is known of rows that it was written with and that are gone.
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
    """Some rows of a table that are in memory.

    Parameters
    ----------
    numbers : of each row in its table.
    table : their values.
    """

    numbers: RowNumbers
    table: Table


def write_blocks(place: Place, rows: Rows, most: int) -> Iterator[Block]:
    """Write rows as blocks of at most so many, in their order."""
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
    """Return the rows that a block was written with, as they are carried."""
    data = place.get(block.name)
    if data is None:
        raise ExternalError(
            f"block {block.name} is gone from {place}: every executor has to reach this folder, and nobody may remove "
            "its files while a search goes on. Name another one, and start again"
        )
    return unpacked(data)


def names_of(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Return the names of some blocks."""
    return tuple(block.name for block in blocks)


def versions_of(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Return names of which rows of some blocks are gone."""
    return tuple(block.gone.version for block in blocks)


def carried(rows: Rows) -> pa.Table:
    """Return rows as they are carried: numbers first, columns by position."""
    arrays = [pa.array(rows.numbers), *(column.values() for column in rows.table.columns)]
    return pa.table(arrays, schema=carried_schema(rows.table.schema))


def carried_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow types of rows as they are carried."""
    fields = [(str(c), arrow_type_of(column.type)) for c, column in enumerate(schema.columns)]
    return pa.schema([("row", pa.int64()), *fields])


def rows_of(arrays: pa.Table, schema: Schema) -> Rows:
    """Return carried rows as values that compare: the inverse of `carried`."""
    return Rows(arrays.column("row").to_numpy(), table_of(arrays, schema))


def table_of(arrays: pa.Table, schema: Schema) -> Table:
    """Return carried rows without their numbers."""
    columns = {column.name: arrays.column(str(c)) for c, column in enumerate(schema.columns)}
    return encoded(schema.table, schema.columns, columns, len(arrays))


def ranges_of(table: Table) -> tuple[Range, ...]:
    """Return between which values the rows of a table are in each column."""
    return tuple(map(_range_of, table.columns))


def ranges_together(blocks: Sequence[Block]) -> tuple[Range, ...]:
    """Return between which values the rows of several blocks are in each column."""
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
    """Return what keys are ordered by: nulls first."""
    return (False, 0) if key is None else (True, key)
