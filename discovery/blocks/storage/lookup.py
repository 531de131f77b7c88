"""Lookup of rows of a table in blocks by values of some columns, by a range of a column, and by row numbers.

A process keeps hashes of the rows of a block; requested rows are looked up by hash, and candidates are compared. So a
lookup costs as much as it finds, once the hashes of a block are computed.

Invariant: rows are found by the equality of the definition: null is a value, NaN is itself, zero has no sign.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints.operators import EQUAL
from holdfast.discovery.blocks.storage.block import Block, Rows, carried, carried_schema, order_of, table_of
from holdfast.discovery.blocks.storage.hashing import hashed
from holdfast.discovery.blocks.storage.location import KEPT
from holdfast.discovery.blocks.storage.ranges import rows_meeting
from holdfast.discovery.blocks.storage.table import BlockTable, Order, Source
from holdfast.discovery.detection.forms import Compared
from holdfast.indexes.encoding import NULL
from holdfast.indexes.row_hash import first_equal
from holdfast.tables import EncodedColumn, Table
from holdfast.tables.arrays import Hashes, Ints, RowNumbers
from holdfast.tables.canonical import canonical

_BYTES_A_ROW = 16
_ODD = np.uint64(0x9E3779B97F4A7C15)
_OF_NULL = np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True)
class Found:
    """Rows of a table that match requested rows.

    Parameters
    ----------
    counts : for each requested row the number of matching rows.
    places, rows : some matching rows in the format of blocks, and the requested row that each matches.
    """

    counts: Ints
    places: Ints
    rows: pa.Table


@dataclass(frozen=True)
class _Asked:
    """The input that all tasks of a lookup share."""

    source: Source
    columns: Order
    wanted: Table
    most: Ints


def find_rows(table: BlockTable, order: Order, columns: Order, wanted: Table, most: Ints) -> Found:
    """Return the rows that equal wanted rows in some columns, at most `most` for each, and the numbers of all.

    Parameters
    ----------
    order : the arrangement to search.
    columns, wanted : the columns to compare, and rows with all columns, all different in these.
    most : the number of rows to return for each wanted row.
    """
    asked = _Asked(table.source, columns, wanted, most)
    counts = np.zeros(wanted.row_count, np.int64)
    places, rows = [np.zeros(0, np.int64)], [carried_schema(table.schema).empty_table()]
    blocks = table.arranged(order).blocks if wanted.row_count else ()
    for answer in table.executors.run(partial(_found, asked), blocks, light=True):
        if answer is not None:
            counts[answer.places] += answer.counts
            there = np.repeat(answer.places, np.minimum(answer.counts, most[answer.places]))
            places.append(there)
            rows.append(answer.rows)
    return _no_more_than(Found(counts, np.concatenate(places), pa.concat_tables(rows)), most)


def rows_numbered(table: BlockTable, numbers: RowNumbers) -> pa.Table:
    """Return the rows with some numbers, in the format of blocks and in any order."""
    wanted = np.unique(numbers)
    tasks = []
    for block in table.base.blocks:
        some = wanted[(wanted >= block.first) & (wanted <= block.last)]
        if len(some):
            tasks.append((block, some))
    found = table.executors.run(partial(_numbered, table.source), tasks, light=True)
    return pa.concat_tables([carried_schema(table.schema).empty_table(), *found])


def rows_between(table: BlockTable, column: int, low: int, high: int) -> pa.Table:
    """Return the rows with values from `low` to `high` in a column of integers, in the format of blocks."""
    blocks = [
        block
        for block in table.base.blocks
        if order_of(block.ranges[column].low) <= (True, high) and (True, low) <= order_of(block.ranges[column].high)
    ]
    found = table.executors.run(partial(_between, table.source, column, low, high), blocks, light=True)
    return pa.concat_tables([carried_schema(table.schema).empty_table(), *found])


def row_hashes(table: Table, columns: Sequence[int]) -> Hashes:
    """Return a hash of each row's values in some columns: rows with equal values have equal hashes in all tables."""
    found = np.zeros(table.row_count, np.uint64)
    for c in columns:
        found = hashed_with(found, value_hashes(table.columns[c]))
    return found


def hashed_with(found: Hashes, more: Hashes) -> Hashes:
    """Return hashes of rows extended by a column, whose hashes are `more`."""
    return _mixed(found * _ODD + more)


def value_hashes(column: EncodedColumn) -> Hashes:
    """Return a hash of each value of a column: equal values have equal hashes in all tables."""
    if column.dictionary is None:
        found = _mixed(column.keys.view(np.uint64) * _ODD)
    else:
        distinct, _ = column.counts
        hashes = np.append(hashed(canonical(column, distinct)), _OF_NULL)
        found = hashes[np.searchsorted(distinct, column.keys)]
    if column.valid is not None:
        found = np.where(column.valid, found, _OF_NULL)
    return np.asarray(found)


# What a task does


def _found(asked: _Asked, block: Block) -> Found | None:
    """Return the matches in a block: (requested rows, numbers of matches), and some matching rows."""
    equal = [Compared(c, c, EQUAL) for c in asked.columns]
    meeting = np.flatnonzero(rows_meeting(asked.wanted, block, [equal]))
    if not len(meeting):
        return None
    wanted = asked.wanted.taken(meeting)
    hashes, positions = _hashed(asked.source, block, asked.columns)
    ours = row_hashes(wanted, asked.columns)
    low, high = np.searchsorted(hashes, ours), np.searchsorted(hashes, ours, "right")
    candidates = np.unique(positions[_ranges(low, high)])
    if not len(candidates):
        return None
    rows = asked.source.left(block, asked.source.written(block).take(pa.array(candidates))).combine_chunks()
    at = _first_like(asked.source, wanted, rows, asked.columns)
    like = np.flatnonzero(at < wanted.row_count)
    if not len(like):
        return None
    order = like[np.argsort(at[like], kind="stable")]
    places, counts = np.unique(at[order], return_counts=True)
    ends = np.cumsum(counts)
    nth = np.arange(len(order)) - np.repeat(ends - counts, counts)
    kept = order[nth < np.repeat(asked.most[meeting[places]], counts)]
    return Found(counts, meeting[places], rows.take(pa.array(kept)))


def _hashed(source: Source, block: Block, columns: Order) -> tuple[Hashes, Ints]:
    """Return the sorted hashes of all rows that a block was written with, and the position of each."""

    def make() -> tuple[tuple[Hashes, Ints], int]:
        hashes = row_hashes(table_of(source.written(block), source.schema), columns)
        order = np.argsort(hashes, kind="stable")
        return (hashes[order], order), _BYTES_A_ROW * block.rows

    return KEPT.get(("hashed", block.name, columns), make)


def _ranges(low: Ints, high: Ints) -> Ints:
    """Return all numbers of ranges."""
    counts = high - low
    starts = np.repeat(low - (np.cumsum(counts) - counts), counts)
    return np.asarray(starts + np.arange(counts.sum()))


def _first_like(source: Source, wanted: Table, rows: pa.Table, columns: Order) -> Ints:
    """Return for each row the wanted row that it equals; the number of wanted rows where there is none."""
    asked = carried(Rows(np.full(wanted.row_count, -1), wanted))
    both = pa.concat_tables([asked, rows], promote_options="permissive")
    table = table_of(both, source.schema)
    codes = np.empty((table.row_count, 2 * len(columns)), np.int64)
    for i, c in enumerate(columns):
        column = table.columns[c]
        valid = np.ones(table.row_count, np.bool_) if column.valid is None else column.valid
        codes[:, 2 * i] = np.where(valid, column.keys, NULL)
        codes[:, 2 * i + 1] = valid
    return first_equal(codes, range(codes.shape[1]))[wanted.row_count :]


def _numbered(source: Source, task: tuple[Block, RowNumbers]) -> pa.Table:
    block, numbers = task
    rows = source.read(block)
    return rows.filter(pa.array(np.isin(rows.column("row").to_numpy(), numbers))).combine_chunks()


def _between(source: Source, column: int, low: int, high: int, block: Block) -> pa.Table:
    rows, field = source.read(block), pc.field(str(column))
    return rows.filter((field >= low) & (field <= high)).combine_chunks()


def _mixed(numbers: Hashes) -> Hashes:
    """Mix the bits of numbers, so that differences affect all bits."""
    numbers = (numbers ^ (numbers >> np.uint64(32))) * _ODD
    return np.asarray(numbers ^ (numbers >> np.uint64(29)))


def _no_more_than(found: Found, most: Ints) -> Found:
    """Return the matches of several blocks, at most `most` rows for each requested row."""
    order = np.argsort(found.places, kind="stable")
    places = found.places[order]
    starts = np.searchsorted(places, places)
    kept = order[np.arange(len(order)) - starts < most[places]]
    return Found(found.counts, found.places[kept], found.rows.take(pa.array(kept)))
