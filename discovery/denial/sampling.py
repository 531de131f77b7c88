"""A sample of pairs whose evidences are many and different [Hydra, 4].

Random pairs see the common outcomes. Pairs of rows that agree on a column, or come next to each other in its order,
see the rare ones, which random pairs would miss: the rows are sorted by each column, ties at random, and compared with
their neighbours, at a growing distance for as long as that still shows new evidences. A sample that is large already
takes just one distance of each further column, and a wide table fewer rows of each column, so that the evidences stay
few enough to enumerate.

Deterministic under its seed.
"""

from collections.abc import Callable, Iterator

import numpy as np

from holdfast.discovery.codes import PairCodes
from holdfast.discovery.evidences import EvidenceSet
from holdfast.discovery.kernels.evidence import Places

_ROWS_A_ROUND = 20_000
_RANDOM_PAIRS = 40_000
_WORTHWHILE = 0.01
_FURTHEST = 8
_LOW = (1 << 32) - 1
_MOST_EVIDENCES = 600_000


def sample(into: EvidenceSet, codes: PairCodes, seed: int, report: Callable[[str], object] = lambda _: None) -> None:
    """Add the evidences of a sample of pairs, both ways round."""
    rng = np.random.default_rng(seed)
    if codes.rows < 2:
        return
    left = rng.integers(0, codes.rows, _RANDOM_PAIRS)
    right = (left + rng.integers(1, codes.rows, _RANDOM_PAIRS)) % codes.rows
    both_ways(into, np.column_stack([left, right]))
    rows = min(_ROWS_A_ROUND, _MOST_EVIDENCES // (2 * max(len(codes.left), 1)))
    for pair in range(len(codes.left)):
        report(f"sampling pairs of rows: column {pair + 1} of {len(codes.left)}, {len(into):,} evidences")
        for neighbours in _neighbours(codes, pair, rows, rng):
            if both_ways(into, neighbours) < _WORTHWHILE * len(neighbours) or len(into) > _MOST_EVIDENCES:
                break


def both_ways(into: EvidenceSet, pairs: Places) -> int:
    """Add the evidences of pairs and of the exchanged pairs; return how many are new."""
    return into.compare_pairs(np.concatenate([pairs, pairs[:, ::-1]]))


def _neighbours(codes: PairCodes, pair: int, rows: int, rng: np.random.Generator) -> Iterator[Places]:
    """Yield pairs of neighbours in one column's order, at distance 1, 2 and so on."""
    shuffled = rng.permutation(codes.rows)
    # one sort of integers: the code above, the place in a random order below
    order = shuffled[np.sort(codes.left[pair][shuffled].astype(np.int64) << 32 | np.arange(codes.rows)) & _LOW]
    for distance in range(1, min(_FURTHEST, codes.rows - 1) + 1):
        start = np.arange(codes.rows - distance)
        if len(start) > rows:
            start = rng.choice(start, rows, replace=False)
        yield np.column_stack([order[start], order[start + distance]])
