"""A batch of rows against all rows of a table in blocks: the pairs of a row of each that violate constraints.

Where constraints require the first column of an arrangement to be equal, the rows of a block that have a value of the
batch there are indexed, for this batch alone: they are few. Else the process keeps an index of the block
(`indexed.py`). The rows of the batch are held beside the rows of the block and never join them. Tasks send distinct
evidences back.

Invariant: every evidence of a pair of a row of the batch and a row of the table that violates a constraint is in the
answer, with two rows that have it.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import PredicateSpace
from holdfast.constraints.operators import EQUAL
from holdfast.discovery.blocks.search.indexed import IndexedRows, kept_index
from holdfast.discovery.blocks.search.planning import orders_of
from holdfast.discovery.blocks.search.searching import Evidences, compared_of
from holdfast.discovery.blocks.storage.block import Block, Rows, rows_of
from holdfast.discovery.blocks.storage.location import INDEXED_AT_LEAST
from holdfast.discovery.blocks.storage.ranges import rows_meeting
from holdfast.discovery.blocks.storage.table import BlockTable, Order, Source
from holdfast.discovery.detection.forms import Compared
from holdfast.discovery.evidence.current import evidences_with
from holdfast.discovery.evidence.evidences import mirrored
from holdfast.indexes.masks import as_items
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.indexes.table_index import TableIndex
from holdfast.tables import Table
from holdfast.tables.arrays import Ints, Positions, RowNumbers, Words, as_slots

_BYTES_A_CELL, _BYTES_A_ROW_AND_TREE = 16, 64
_COMPARED, _MANY = 1 << 13, 8


@dataclass(frozen=True)
class _Asked:
    """The input that all tasks of a probe share, with the constraints of each arrangement."""

    source: Source
    space: PredicateSpace
    masks: dict[Order, Words]
    batch: Rows


_Task = tuple[Order, Block]


def probe_blocks(table: BlockTable, space: PredicateSpace, batch: Rows, masks: Words) -> Evidences:
    """Return evidences of pairs of a row of a batch and a row of the table, at least of all pairs that violate a mask.

    Each constraint is probed in the arrangement that suits it, where a row of the batch meets few blocks. The rows of
    the table that evidences name are returned, too.
    """
    every = np.arange(len(masks) if batch.table.row_count else 0)
    orders = orders_of(table, compared_of(masks, space), every)
    probed = {order: _both_images(masks[positions], space) for order, positions in orders.items()}
    tasks = [(a.order, block) for a in table.arranged_in(list(orders)) for block in a.blocks]
    work = partial(_probed, _Asked(table.source, space, probed, batch))
    return Evidences.together(list(table.executors.run(work, tasks, light=True)), space)


def _both_images(masks: Words, space: PredicateSpace) -> Words:
    """Return masks with their mirror images: without crossing columns rows are probed as t only."""
    if space.crossing:
        return masks
    every = np.concatenate([masks, mirrored(masks, space)])
    _, first = np.unique(as_items(every), return_index=True)
    return every[first]


# What a task does


class _Indexed(IndexedRows):
    """The rows of a block, or of a part of a block, searchable for violations of some constraints."""

    def __init__(self, read: Rows, gone: RowNumbers, space: PredicateSpace) -> None:
        super().__init__(read, gone, space)
        self.index = TableIndex(self.rows, 1, space)

    def _follow(self, delta: RowDelta) -> None:
        self.index.remove(delta.vanished)
        self.rows.forget()

    def hold(self, masks: Words) -> None:
        """Serve these constraints."""
        if not np.array_equal(self.index.masks, masks):
            self.index.hold(masks, trees=True)


def _indexed(asked: _Asked, order: Order, block: Block) -> AbstractContextManager[_Indexed]:
    """Give the index of a block."""
    gone = asked.source.gone(block)

    def make() -> tuple[_Indexed, int]:
        bytes_a_row = _BYTES_A_CELL * len(asked.source.schema) + 4 * _BYTES_A_ROW_AND_TREE
        read = rows_of(asked.source.written(block), asked.space.schema)
        return _Indexed(read, gone, asked.space), (block.rows + INDEXED_AT_LEAST) * bytes_a_row

    return kept_index(("indexed", asked.space.fingerprint, order, block.name), make, gone)


def _probed(asked: _Asked, task: _Task) -> Evidences:
    """Return the evidences of pairs of a row of the batch and a row of one block that violate a constraint."""
    order, block = task
    meeting = rows_meeting(asked.batch.table, block, compared_of(asked.masks[order], asked.space))
    if not meeting.any():
        return Evidences.none(asked.space)
    some = Rows(asked.batch.numbers[meeting], asked.batch.table.taken(np.flatnonzero(meeting)))
    rows = asked.source.written(block)
    alike = _alike(rows, some.table, order[0]) if _wants_equal(asked, order) else None
    if alike is not None and _MANY * len(alike) <= len(rows):
        rows = rows.take(pa.array(alike)).combine_chunks()
        indexed = _Indexed(rows_of(rows, asked.space.schema), asked.source.gone(block), asked.space)
        return _evidences(asked, order, some, rows, indexed)
    with _indexed(asked, order, block) as indexed:
        return _evidences(asked, order, some, rows, indexed)


def _evidences(asked: _Asked, order: Order, some: Rows, rows: pa.Table, indexed: _Indexed) -> Evidences:
    """Return the evidences of pairs of some rows of the batch and rows of a block, given with their index."""
    indexed.hold(asked.masks[order])
    codes, relabelled = indexed.rows.encode(some.table)
    if relabelled:
        indexed.index.rebuild()
        indexed.index.hold(asked.masks[order], trees=True)
    with indexed.rows.beside(codes) as slots:
        words, witnesses = indexed.index.probe(slots)
    own = int(slots[0])
    pairs = witnesses[:, 0]
    theirs = pairs < own
    numbers = np.empty(pairs.shape, np.int64)
    numbers[theirs] = indexed.numbers_of(as_slots(pairs[theirs]))
    numbers[~theirs] = some.numbers[pairs[~theirs] - own]
    image = rows.take(pa.array(np.unique(indexed.places[pairs[theirs]])))
    return replace(_in_both_orders(words, numbers, asked.space), images=(image,))


def _in_both_orders(words: Words, numbers: Positions, space: PredicateSpace) -> Evidences:
    """Return evidences with their mirror images, where rows were probed as t only."""
    if space.crossing:
        return Evidences(words, numbers)
    return Evidences(np.concatenate([words, mirrored(words, space)]), np.concatenate([numbers, numbers[:, ::-1]]))


def _wants_equal(asked: _Asked, order: Order) -> bool:
    """Whether all constraints of an arrangement require its first column to be equal."""
    if not order:
        return False
    equal = Compared(order[0], order[0], EQUAL)
    return all(equal in compared for compared in compared_of(asked.masks[order], asked.space))


def _alike(rows: pa.Table, batch: Table, column: int) -> Ints:
    """Return which rows have a value in a column that some row of a batch has, null included. O(rows)."""
    theirs, ours = rows.column(str(column)), batch.columns[column].values()
    if pa.types.is_floating(theirs.type):  # zero has no sign
        theirs, ours = pc.add(theirs, 0.0), pc.add(ours, 0.0)
    return np.flatnonzero(pc.is_in(theirs, value_set=ours.cast(theirs.type)).to_numpy())


def probe_among(space: PredicateSpace, batch: Rows, copies: Positions, masks: Words, threads: int = 1) -> Evidences:
    """Return the evidences of pairs of rows of a batch, at least of all pairs that violate a mask.

    The rows are distinct. A row with copies is a pair with itself, which has its number twice. Few rows are compared
    pair by pair; so are rows inserted into an empty table, where masks exclude nothing.
    """
    rows = RowSet(space)
    codes, _ = rows.encode(batch.table)
    rows.change(codes, copies)
    slots = rows.slots_of(codes)
    numbers = np.empty(len(rows.copies), np.int64)
    numbers[slots] = batch.numbers
    if len(slots) <= _COMPARED or (masks == space.words(space.every)).all(axis=1).any():
        words, pairs = evidences_with(rows, space, slots, threads)
        return Evidences(words, numbers[pairs])
    index = TableIndex(rows, threads)
    index.hold(_both_images(masks, space), trees=True)
    words, witnesses = index.probe(slots)
    return _in_both_orders(words, numbers[witnesses[:, 0]], space)
