"""Boxes of outcomes as tests of a new row against any other row.

A denial constraint forbids ordered pairs (t, s). A new row x may be either: as `t` its column A is compared with the
column B of the other row; as `s` the other way round, with less and greater exchanged. So every box becomes a *turned*
box, or two turned boxes where columns are crossed (else the covers hold both mirror images, so that `t` is enough).
"""

from dataclasses import dataclass

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME, GREATER, LESS
from holdfast.indexes.masks import outcomes_of
from holdfast.tables.arrays import Ints, Outcomes, Words

_TURNED = np.array([(o & EQUAL) | (o & LESS) << 2 | (o & GREATER) >> 2 for o in range(8)], np.int8)


@dataclass(frozen=True)
class Tests:
    """The tests that boxes of one space are made of.

    Parameters
    ----------
    x_column, row_column : (T,) the column of the new row, and the column of the other row.
    """

    x_column: Ints
    row_column: Ints

    @classmethod
    def of(cls, space: PredicateSpace) -> "Tests":
        """Return a test for each column pair, then for each crossing pair the test the other way round."""
        pairs = [(p.left, p.right) for p in space.pairs]
        pairs += [(p.right, p.left) for p in space.pairs if p.left != p.right]
        x, row = zip(*pairs, strict=True) if pairs else ((), ())
        return cls(np.array(x, np.int64), np.array(row, np.int64))

    def __len__(self) -> int:
        return len(self.x_column)


def turned_boxes(masks: Words, space: PredicateSpace) -> Outcomes:
    """Return (k, T) or (2 k, T): the outcomes that each mask allows in each test, `EVERY_OUTCOME` in unused tests."""
    own = [i for i, p in enumerate(space.pairs) if p.left == p.right]
    crossing = [i for i, p in enumerate(space.pairs) if p.left != p.right]
    allowed = outcomes_of(masks, space).T
    if not crossing:
        return allowed
    free = np.full((len(masks), len(crossing)), EVERY_OUTCOME, np.int8)
    as_t = np.hstack([allowed[:, own], allowed[:, crossing], free])
    as_s = np.hstack([_TURNED[allowed[:, own]], free, _TURNED[allowed[:, crossing]]])
    return np.vstack([as_t, as_s])
