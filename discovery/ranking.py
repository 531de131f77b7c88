"""Scores of denial constraints and order dependencies, from 0 to 1: the mean of two scores [FASTDC, 5].

- *succinctness*: four symbols, the fewest possible (two rows, an operator, a column), divided by the distinct symbols
  of this constraint. Short constraints overfit least.
- *coverage*: over pairs of rows, the mean share `(k + 1) / size` where the pair satisfies k of its predicates (never
  all). Many pairs that satisfy all but one are support: the rule had many occasions to be broken.

Coverage is measured on a sample of pairs that depends on the table and its order of rows only.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import PredicateSpace
from holdfast.constraints.operators import EVERY_OUTCOME
from holdfast.discovery.kernels.evidence import PairCodes
from holdfast.indexes.masks import outcomes_of
from holdfast.indexes.rows import RowSet
from holdfast.tables.arrays import Floats, Ints, Words

_PAIRS = 5_000
_FEWEST_SYMBOLS = 4
_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class PairSample:
    """Random pairs of distinct rows: their evidences, and the number of pairs with each evidence."""

    words: Words
    counts: Ints

    @classmethod
    def of(cls, codes: PairCodes, space: PredicateSpace) -> "PairSample":
        """Draw pairs of a table's rows."""
        left, right = _drawn(codes.rows)
        return cls._compared(space, [(codes.left[p][left], codes.right[p][right]) for p in range(len(space.pairs))])

    @classmethod
    def of_rows(cls, rows: RowSet, space: PredicateSpace) -> "PairSample":
        """Draw pairs of a maintained table's live rows. O(n), nanoseconds a row, and the sample."""
        live = rows.live()
        left, right = (rows.codes[live[drawn]] for drawn in _drawn(len(live)))
        return cls._compared(space, [(left[:, p.left], right[:, p.right]) for p in space.pairs])

    @classmethod
    def _compared(cls, space: PredicateSpace, sides: list[tuple[NDArray[Any], NDArray[Any]]]) -> "PairSample":
        every = np.zeros((len(sides[0][0]) if sides else 0, space.word_count), np.uint64)
        for pair, (a, b) in zip(space.pairs, sides, strict=True):
            outcome = np.where(a == b, 2, np.where(a < b, 1, 4)) if pair.ordered else np.where(a == b, 1, 2)
            every[:, pair.offset // 64] |= outcome.astype(np.uint64) << np.uint64(pair.offset % 64)
        words, counts = np.unique(every, axis=0, return_counts=True)
        return cls(words, counts.astype(np.int64))


def scores_on(masks: Words, sample: PairSample, space: PredicateSpace) -> Floats:
    """Return the score of each constraint by a sample of pairs. O(k s) for k constraints and s pairs."""
    return (succinctness(masks, space) + coverage(masks, sample, space)) / 2


def succinctness(masks: Words, space: PredicateSpace) -> Floats:
    """Return the succinctness of each constraint: 1 for one predicate on one column."""
    operators = np.zeros((8, len(masks)), np.bool_)
    columns = np.zeros((len(space.schema), len(masks)), np.bool_)
    for pair, outcomes in zip(space.pairs, outcomes_of(masks, space), strict=True):
        constrained = outcomes != EVERY_OUTCOME
        columns[pair.left] |= constrained
        columns[pair.right] |= constrained
        operators[outcomes, np.arange(len(masks))] = True
    symbols = 2 + operators[:EVERY_OUTCOME].sum(axis=0) + columns.sum(axis=0)
    return np.asarray(np.minimum(1.0, _FEWEST_SYMBOLS / symbols))


def coverage(masks: Words, sample: PairSample, space: PredicateSpace) -> Floats:
    """Return the coverage of each constraint: 1 where each pair of a sample satisfies all predicates but one."""
    words, counts = sample.words, sample.counts
    pairs = int(counts.sum())
    if not pairs:
        return np.zeros(len(masks))  # no pair supports a constraint
    sizes = (outcomes_of(masks, space) != EVERY_OUTCOME).sum(axis=0)
    satisfied = np.zeros(len(masks), np.int64)
    step = max(1, _AT_ONCE // max(len(words), 1))
    for start in range(0, len(masks), step):
        some = masks[start : start + step]
        for w in range(masks.shape[1]):  # a byte holds the up to 64 outcomes of a word, not always the sum over words
            satisfied[start : start + step] += np.bitwise_count(some[:, w, None] & words[None, :, w]) @ counts
    # a column pair that is not constrained counts as satisfied above
    # in whole numbers up to the one division, so that the share is at most 1
    return np.asarray((satisfied - (len(space.pairs) - sizes - 1) * pairs) / (np.maximum(sizes, 1) * pairs))


def _drawn(rows: int) -> tuple[Ints, Ints]:
    """Return the two sides of random pairs of different rows."""
    if rows < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    rng = np.random.default_rng(0)
    left = rng.integers(0, rows, _PAIRS)
    return left, (left + rng.integers(1, rows, _PAIRS)) % rows
