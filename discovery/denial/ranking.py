"""How much a denial constraint tells a person: a score between 0 and 1, the mean of two [FASTDC, 5].

- *succinctness*: four symbols, the fewest possible (two rows, an operator, a column), divided by the distinct symbols
  of this constraint. What can be said shortly overfits least.
- *coverage*: over pairs of rows, the mean share `(k + 1) / size` where the pair satisfies k of its predicates (never
  all). Many pairs that satisfy all but one are support: the rule had many occasions to be broken.

Coverage is measured on a sample of pairs that depends on the table and its order of rows only.
"""

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import PredicateSpace
from holdfast.constraints.operators import EVERY_OUTCOME
from holdfast.discovery.codes import PairCodes
from holdfast.discovery.kernels.evidence import Words
from holdfast.indexes.masks import outcomes_of

Scores = NDArray[np.float64]

_PAIRS = 5_000
_FEWEST_SYMBOLS = 4
_AT_ONCE = 1 << 22


def scores(masks: Words, codes: PairCodes, space: PredicateSpace) -> Scores:
    """Return the score of each constraint. O(k) for k constraints, times the sample."""
    return (succinctness(masks, space) + coverage(masks, codes, space)) / 2


def succinctness(masks: Words, space: PredicateSpace) -> Scores:
    """Return how short each constraint is: 1 for one predicate on one column."""
    operators = np.zeros((8, len(masks)), np.bool_)
    columns = np.zeros((len(space.schema), len(masks)), np.bool_)
    for pair, outcomes in zip(space.pairs, outcomes_of(masks, space), strict=True):
        constrained = outcomes != EVERY_OUTCOME
        columns[pair.left] |= constrained
        columns[pair.right] |= constrained
        operators[outcomes, np.arange(len(masks))] = True
    symbols = 2 + operators[:EVERY_OUTCOME].sum(axis=0) + columns.sum(axis=0)
    return np.asarray(np.minimum(1.0, _FEWEST_SYMBOLS / symbols))


def coverage(masks: Words, codes: PairCodes, space: PredicateSpace) -> Scores:
    """Return how nearly pairs of rows satisfy each constraint: 1 where each satisfies all predicates but one."""
    words, counts = _sampled(codes, space)
    pairs = max(int(counts.sum()), 1)
    sizes = (outcomes_of(masks, space) != EVERY_OUTCOME).sum(axis=0)
    satisfied = np.zeros(len(masks), np.int64)
    step = max(1, _AT_ONCE // max(len(words), 1))
    for start in range(0, len(masks), step):
        some = masks[start : start + step]
        for w in range(masks.shape[1]):  # a word has at most 64 outcomes, which a byte holds; their sum it may not
            satisfied[start : start + step] += np.bitwise_count(some[:, w, None] & words[None, :, w]) @ counts
    # a column pair that is not constrained counts as satisfied above
    # in whole numbers up to the one division, so that the share is at most 1
    return np.asarray((satisfied - (len(space.pairs) - sizes - 1) * pairs) / (np.maximum(sizes, 1) * pairs))


def _sampled(codes: PairCodes, space: PredicateSpace) -> tuple[Words, NDArray[np.int64]]:
    """Return the evidences of random pairs of distinct rows, and how many pairs have each."""
    rng = np.random.default_rng(0)
    if codes.rows < 2:
        return np.zeros((0, space.word_count), np.uint64), np.zeros(0, np.int64)
    left = rng.integers(0, codes.rows, _PAIRS)
    right = (left + rng.integers(1, codes.rows, _PAIRS)) % codes.rows
    every = np.zeros((_PAIRS, space.word_count), np.uint64)
    for p, pair in enumerate(space.pairs):
        a, b = codes.left[p][left], codes.right[p][right]
        outcome = np.where(a == b, 2, np.where(a < b, 1, 4)) if pair.ordered else np.where(a == b, 1, 2)
        every[:, pair.offset // 64] |= outcome.astype(np.uint64) << np.uint64(pair.offset % 64)
    words, counts = np.unique(every, axis=0, return_counts=True)
    return words, counts.astype(np.int64)
