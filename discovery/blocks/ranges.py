"""Which two blocks can hold a pair of rows that breaks a constraint, by the ranges of their columns alone.

Rows t of one block and s of another one can have `t.A < s.B` only where the least A of the one is below the greatest
B of the other; `=` only where the ranges meet; `!=` unless both have one value, the same. A pair of blocks that cannot
have what a constraint forbids for some column pair is left out. So blocks of rows that are sorted by a column that the
constraint wants equal meet their neighbours at most.

Invariant: a pair of blocks is left out only where none of their rows break the constraint together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import Schema
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME, GREATER, LESS
from holdfast.discovery.blocks.block import Block, order_of
from holdfast.discovery.detection.forms import Compared

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class _Ends:
    """Places of the least and the greatest values of two columns of each block, in the order of all of them."""

    left_low: NDArray[np.int64]
    left_high: NDArray[np.int64]
    right_low: NDArray[np.int64]
    right_high: NDArray[np.int64]


class BlockRanges:
    """The ranges of some blocks.

    Parameters
    ----------
    blocks : in any order.
    schema : their columns.
    """

    def __init__(self, blocks: Sequence[Block], schema: Schema) -> None:
        self._blocks = blocks
        self._schema = schema
        self._ends: dict[tuple[int, int], _Ends | None] = {}

    def possible(self, compared: Iterable[Compared]) -> Flags:
        """Return (k, k): whether rows t of one block and s of another one can be as a constraint forbids. O(k^2)."""
        count = len(self._blocks)
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

    def possible_with_first(self, compared: Sequence[Compared]) -> Flags:
        """Return which of the other blocks can break a constraint together with the first one, in whatever order."""
        possible = self.possible(compared)
        return np.asarray((possible[0] | possible[:, 0])[1:])

    def meeting(self, compared: Sequence[Compared]) -> list[tuple[int, int]]:
        """Return the pairs of blocks, the first one first, whose rows can break a constraint, in whatever order."""
        possible = self.possible(compared)
        found: list[tuple[int, int]] = [(i, j) for i, j in np.argwhere(np.triu(possible | possible.T)).tolist()]
        return found

    def _of(self, left: int, right: int) -> _Ends | None:
        """Return the ends of two columns in one order; None where their keys do not compare."""
        if (left, right) not in self._ends:
            self._ends[left, right] = self._ranked(left, right) if self._compare(left, right) else None
        return self._ends[left, right]

    def _compare(self, left: int, right: int) -> bool:
        a, b = self._schema.columns[left].type, self._schema.columns[right].type
        scaled = {"integer", "decimal"}
        return a == b or (a.name in scaled and b.name in scaled and a.scale == b.scale)

    def _ranked(self, left: int, right: int) -> _Ends:
        ends = [
            [order_of(getattr(block.ranges[column], end)) for block in self._blocks]
            for column in (left, right)
            for end in ("low", "high")
        ]
        place = {key: i for i, key in enumerate(sorted({key for some in ends for key in some}))}
        return _Ends(*(np.array([place[key] for key in some], np.int64) for some in ends))
