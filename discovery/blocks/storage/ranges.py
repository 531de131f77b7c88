"""Which two blocks can have a pair of rows that breaks a constraint, by the ranges of their columns alone.

Rows t of one block and s of another block can have `t.A < s.B` only where the least A of the first is below the
greatest B of the second; `=` only where the ranges overlap; `!=` unless both have a single value, the same. A pair of
blocks that excludes a comparison of the constraint is left out. So blocks that are sorted by a column with an equality
of the constraint are compared with their neighbours at most.

Invariant: a pair of blocks is left out only where no two of their rows break the constraint.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import Schema
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME, GREATER, LESS
from holdfast.discovery.blocks.storage.block import Block, Range, order_of, unscaled
from holdfast.discovery.detection.forms import Compared
from holdfast.tables import EncodedColumn, Table
from holdfast.tables.arrays import Flags, Ints, Outcomes


@dataclass(frozen=True)
class _Ends:
    """Ranks of the least and the greatest values of two columns of each block, among the values of all blocks."""

    left_low: Ints
    left_high: Ints
    right_low: Ints
    right_high: Ints


class BlockRanges:
    """The ranges of some blocks.

    Parameters
    ----------
    ranges : for each block a range for each column.
    schema : the columns.
    """

    def __init__(self, ranges: Sequence[Sequence[Range]], schema: Schema) -> None:
        self._ranges = ranges
        self._schema = schema
        self._ends: dict[tuple[int, int], _Ends | None] = {}

    def possible(self, compared: Iterable[Compared]) -> Flags:
        """Return (k, k): whether a row t of one block and s of another can break a constraint. O(k^2)."""
        count = len(self._ranges)
        found = np.ones((count, count), np.bool_)
        for one in compared:
            ends = self._of(one.left, one.right)
            if ends is None or one.allowed == EVERY_OUTCOME:
                continue
            can = np.zeros((count, count), np.bool_)
            if one.allowed & LESS:
                can |= ends.left_low[:, None] < ends.right_high[None, :]
            if one.allowed & GREATER:
                can |= ends.left_high[:, None] > ends.right_low[None, :]
            if one.allowed & EQUAL:
                can |= (ends.left_low[:, None] <= ends.right_high[None, :]) & (
                    ends.right_low[None, :] <= ends.left_high[:, None]
                )
            found &= can
        return found

    def meeting(self, compared: Sequence[Compared]) -> list[tuple[int, int]]:
        """Return the pairs of blocks, lower number first, with rows that can break a constraint in either order."""
        possible = self.possible(compared)
        found: list[tuple[int, int]] = [(i, j) for i, j in np.argwhere(np.triu(possible | possible.T)).tolist()]
        return found

    def _of(self, left: int, right: int) -> _Ends | None:
        """Return the ends of the ranges of two columns; None where their keys do not compare."""
        if (left, right) not in self._ends:
            self._ends[left, right] = self._ranked(left, right) if _comparable(self._schema, left, right) else None
        return self._ends[left, right]

    def _ranked(self, left: int, right: int) -> _Ends:
        ends = [
            [order_of(getattr(ranges[column], end)) for ranges in self._ranges]
            for column in (left, right)
            for end in ("low", "high")
        ]
        place = {key: i for i, key in enumerate(sorted({key for some in ends for key in some}))}
        return _Ends(*(np.array([place[key] for key in some], np.int64) for some in ends))


def rows_meeting(table: Table, block: Block, constraints: Iterable[Sequence[Compared]]) -> Flags:
    """Return which rows of a table can break some constraint with a row of a block. O(rows) for each constraint."""
    found = np.zeros(table.row_count, np.bool_)
    sides: dict[tuple[int, int, int], Flags] = {}

    def possible(own: int, other: int, allowed: int) -> Flags:
        if (own, other, allowed) not in sides:
            sides[own, other, allowed] = _possible(table, own, block.ranges[other], allowed)
        return sides[own, other, allowed]

    for compared in constraints:
        as_t, as_s = np.ones((2, table.row_count), np.bool_)
        for one in compared:
            if _comparable(table.schema, one.left, one.right):
                as_t &= possible(one.left, one.right, one.allowed)
                as_s &= possible(one.right, one.left, one.mirror.allowed)
        found |= as_t | as_s
        if found.all():
            break
    return found


def _possible(table: Table, column: int, range_: Range, allowed: int) -> Flags:
    """Return which rows have a value with an allowed outcome against some value of a range."""
    with_low, with_high = (_outcomes(table.columns[column], end) for end in (range_.low, range_.high))
    found = np.zeros(table.row_count, np.bool_)
    if allowed & LESS:
        found |= with_high < 0
    if allowed & GREATER:
        found |= with_low > 0
    if allowed & EQUAL:
        found |= (with_low >= 0) & (with_high <= 0)
    return found


def _outcomes(column: EncodedColumn, end: Any) -> Outcomes:
    """Return whether each value is below (-1), at (0) or above (1) an end of a range."""
    valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
    if end is None:
        return valid.astype(np.int8)
    if column.dictionary is None:
        found = (column.keys > end).astype(np.int8) - (column.keys < end).astype(np.int8)
    elif isinstance(end, str):
        text = pa.scalar(end, column.dictionary.type)
        above, below = (test(column.dictionary, text).to_numpy(zero_copy_only=False) for test in (pc.greater, pc.less))
        found = _by_key(above.astype(np.int8) - below.astype(np.int8), column)
    else:
        values = unscaled(column.dictionary)
        found = _by_key(np.array([(value > end) - (value < end) for value in values], np.int8), column)
    found[~valid] = -1
    return np.asarray(found)


def _by_key(outcomes: Outcomes, column: EncodedColumn) -> Outcomes:
    """Return for each row the outcome of its dictionary entry."""
    return outcomes[column.keys] if len(outcomes) else np.zeros(len(column), np.int8)


def _comparable(schema: Schema, left: int, right: int) -> bool:
    """Whether the keys of two columns compare as their values do."""
    a, b = schema.columns[left].type, schema.columns[right].type
    scaled = {"integer", "decimal"}
    return a == b or (a.name in scaled and b.name in scaled and a.scale == b.scale)
