"""A batch of rows against all rows of a table in blocks: pairs of one of each that violate constraints.

Each block is searched by the index that a table in memory has, made once for the constraints at hand and kept by
whoever made it. The batch is looked at beside the rows of a block and never joins them, so the index of a block is as
immutable as the block. What travels back are distinct evidences.

Invariant: every constraint that some pair of a row of the batch and one of the table violates has an evidence in the
answer, with two rows that have it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.blocks.block import Block, Rows, ranges_of, rows_of
from holdfast.discovery.blocks.ranges import BlockRanges
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
    """Return the evidences of pairs of a row of a batch and one of the table, at least of all that violate a mask."""
    if not len(masks) or not batch.table.row_count:
        return Evidences.none(space)
    asked = _Asked(table.source, space, _both_images(masks, space), batch)
    work = partial(_probed, asked)
    return Evidences.together(list(table.executors.run(work, list(_meeting(table, asked)))), space)


def _both_images(masks: Words, space: PredicateSpace) -> Words:
    """Return masks with their mirror images: without crossing columns rows are probed as t only."""
    if space.crossing:
        return masks
    every = np.concatenate([masks, mirrored(masks, space)])
    _, first = np.unique(as_items(every), return_index=True)
    return every[first]


def _meeting(table: BlockTable, asked: _Asked) -> Iterator[Block]:
    """Yield the blocks in which some row can violate a constraint together with one of the batch."""
    batch = Block("", asked.batch.table.row_count, 0, ranges_of(asked.batch.table))
    blocks = table.base.blocks
    ranges = BlockRanges([batch, *blocks], table.schema)
    wanted = np.zeros(len(blocks), np.bool_)
    for compared in compared_of(asked.masks, asked.space):
        wanted |= ranges.possible_with_first(compared)
        if wanted.all():
            break
    yield from (block for block, is_wanted in zip(blocks, wanted, strict=True) if is_wanted)


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
    indexed = _indexed(asked, block)
    codes, relabelled = indexed.rows.encode(asked.batch.table)
    if relabelled:
        indexed.index.rebuild()
    with indexed.rows.beside(codes) as slots:
        words, pairs = indexed.index.probe(slots)
    numbers = np.concatenate([indexed.numbers, asked.batch.numbers])
    found = numbers[pairs[:, 0]]
    if asked.space.crossing:
        return Evidences(words, found)
    return Evidences(np.concatenate([words, mirrored(words, asked.space)]), np.concatenate([found, found[:, ::-1]]))
