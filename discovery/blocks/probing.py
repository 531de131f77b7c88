"""A batch of rows against all rows of a table in blocks: pairs of one of each that violate constraints.

Each block is searched by the index that a table in memory has, made once for the constraints at hand and kept by
whoever made it. The batch is looked at beside the rows of a block and never joins them, so the index of a block is as
immutable as the block. What travels back are distinct evidences.

Invariant: every constraint that some pair of a row of the batch and one of the table violates has an evidence in the
answer, with two rows that have it.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.blocks.block import Block, Rows, rows_of
from holdfast.discovery.blocks.planning import orders_of
from holdfast.discovery.blocks.ranges import rows_meeting
from holdfast.discovery.blocks.searching import Evidences, compared_of
from holdfast.discovery.blocks.storage import KEPT
from holdfast.discovery.blocks.table import BlockTable, Source
from holdfast.discovery.evidences import mirrored
from holdfast.discovery.kernels.evidence import Places, Words
from holdfast.indexes.masks import as_items
from holdfast.indexes.row_hash import first_equal
from holdfast.indexes.rows import RowSet
from holdfast.indexes.table_index import TableIndex

_BYTES_A_CELL, _BYTES_A_ROW_AND_TREE = 16, 64


@dataclass(frozen=True)
class _Asked:
    """What all tasks of a probe share."""

    source: Source
    space: PredicateSpace
    masks: Words
    batch: Rows


def probe_blocks(table: BlockTable, space: PredicateSpace, batch: Rows, masks: Words) -> Evidences:
    """Return the evidences of pairs of a row of a batch and one of the table, at least of all that violate a mask.

    Each constraint is probed in the arrangement that suits it, where a row of the batch has to do with few blocks.
    """
    found = []
    compared = compared_of(masks, space)
    every = np.arange(len(masks) if batch.table.row_count else 0)
    for order, positions in orders_of(table, compared, every).items():
        blocks = table.arranged(order).blocks
        asked = _Asked(table.source, space, _both_images(masks[positions], space), batch)
        found += list(table.executors.run(partial(_probed, asked), blocks))
    return Evidences.together(found, space)


def _both_images(masks: Words, space: PredicateSpace) -> Words:
    """Return masks with their mirror images: without crossing columns rows are probed as t only."""
    if space.crossing:
        return masks
    every = np.concatenate([masks, mirrored(masks, space)])
    _, first = np.unique(as_items(every), return_index=True)
    return every[first]


# What a task does


@dataclass
class _Indexed:
    """The distinct rows of a block, searchable for some constraints, and the number of a row for each slot."""

    rows: RowSet
    index: TableIndex
    numbers: Places
    masks: Words


def _indexed(asked: _Asked, block: Block) -> _Indexed:
    def make() -> tuple[_Indexed, int]:
        read = rows_of(asked.source.read(block), asked.source.schema)
        rows = RowSet(asked.space)
        codes, _ = rows.encode(read.table)
        first, copies = np.unique(first_equal(codes, range(codes.shape[1])), return_counts=True)
        rows.change(codes[first], copies)
        slots = rows.slots_of(codes[first])
        numbers = np.empty(len(slots), np.int64)
        numbers[slots] = read.numbers[first]
        index = TableIndex(rows, 1, asked.space)
        found = _Indexed(rows, index, numbers, asked.masks[:0])
        return found, block.rows * (_BYTES_A_CELL * codes.shape[1] + 4 * _BYTES_A_ROW_AND_TREE)

    found = KEPT.get(("indexed", asked.space.fingerprint, block.name), make)
    if not np.array_equal(found.masks, asked.masks):
        found.index.hold(asked.masks, trees=True)
        found.masks = asked.masks
    return found


def _probed(asked: _Asked, block: Block) -> Evidences:
    meeting = rows_meeting(asked.batch.table, block, compared_of(asked.masks, asked.space))
    if not meeting.any():
        return Evidences.none(asked.space)
    indexed = _indexed(asked, block)
    some = asked.batch.table.taken(np.flatnonzero(meeting))
    codes, relabelled = indexed.rows.encode(some)
    if relabelled:
        indexed.index.rebuild()
        indexed.index.hold(asked.masks, trees=True)
    with indexed.rows.beside(codes) as slots:
        words, pairs = indexed.index.probe(slots)
    numbers = np.concatenate([indexed.numbers, asked.batch.numbers[meeting]])
    found = numbers[pairs[:, 0]]
    if asked.space.crossing:
        return Evidences(words, found)
    return Evidences(np.concatenate([words, mirrored(words, asked.space)]), np.concatenate([found, found[:, ::-1]]))
