"""A sample of pairs whose evidences are many and different [Hydra, 4].

Random pairs have the common outcomes. Pairs of rows that agree on a column, or are neighbours in its order, have the
rare outcomes, which random pairs would miss: the rows are sorted by each column, ties at random, and compared with
their neighbours, at a growing distance while that gives new evidences. A large sample takes one distance of each
further column only, and where nearly every random pair has another evidence, fewer rows of each column: the evidences
have to be few enough to enumerate, and a small part of the memory limit.

Deterministic under its seed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from holdfast.discovery.evidence.evidences import EvidenceSet
from holdfast.discovery.kernels.evidence import PairCodes
from holdfast.tables.arrays import Positions

RANDOM_PAIRS = 40_000
_ROWS_A_ROUND = 20_000
_WORTHWHILE = 0.01
_FURTHEST = 8
_LOW = (1 << 32) - 1
_MOST_EVIDENCES = 80_000
_PART = 8
_PAIRS_AT_ONCE = 64


@dataclass(frozen=True)
class Variety:
    """An estimate of the number of evidences, from random pairs.

    Parameters
    ----------
    per_pair : the share of random pairs that had a new evidence.
    total : the estimated number of evidences of all pairs.
    """

    per_pair: float
    total: float

    @classmethod
    def judged(cls, half: int, whole: int, sampled: int, pairs: float) -> "Variety":
        """Estimate from the evidences of half and of all `sampled` pairs out of `pairs`.

        The rate of the second half overestimates, since evidences left are rare; assuming equal frequencies
        underestimates, since rare evidences are not sampled yet. The geometric mean of both was within a factor of 2
        of the truth on real tables, and of 5 on random tables.

        >>> round(Variety.judged(half=9, whole=10, sampled=1_000, pairs=1e6).total)
        17
        """
        if whole == 0 or pairs <= sampled:
            return cls(whole / max(sampled, 1), float(whole))
        growing = whole * (pairs / sampled) ** np.log2(whole / max(half, 1))
        low, high = float(whole), pairs
        while high > low * 1.01:
            middle = (low * high) ** 0.5
            if middle * -np.expm1(-sampled / middle) < whole:
                low = middle
            else:
                high = middle
        return cls(whole / sampled, float((min(growing, pairs) * low) ** 0.5))

    def among(self, pairs: float, known: int) -> float:
        """Return how many new evidences to expect of `pairs` pairs where `known` evidences are known."""
        return min(pairs * self.per_pair, max(self.total - known, 0.0))


NO_VARIETY = Variety(0.0, 0.0)
"""The estimate that no pair has a new evidence."""


def sample_random(into: EvidenceSet, codes: PairCodes, rng: np.random.Generator) -> Variety:
    """Add the evidences of random pairs, in both orders."""
    if codes.rows < 2:
        return NO_VARIETY
    count = max(2, min(RANDOM_PAIRS, into.most // (2 * _PART)))
    left = rng.integers(0, codes.rows, count)
    right = (left + rng.integers(1, codes.rows, count)) % codes.rows
    pairs = np.column_stack([left, right])
    both_ways(into, pairs[: count // 2])
    half = len(into)
    both_ways(into, pairs[count // 2 :])
    return Variety.judged(half, len(into), 2 * count, float(codes.rows) ** 2)


def sample_neighbours(
    into: EvidenceSet,
    codes: PairCodes,
    variety: Variety,
    rng: np.random.Generator,
    report: Callable[[str], object] = lambda _: None,
) -> None:
    """Add the evidences of neighbours in the order of each column, in both orders.

    Of very many column pairs only the first are sampled, which are those of columns with themselves; where few rows of
    each are compared, several columns are sampled at once, as a comparison reads the codes of all column pairs.
    """
    if codes.rows < 2:
        return
    expected = 2 * max(len(codes.left), 1) * max(variety.per_pair, 1e-9)
    most = min(_MOST_EVIDENCES, into.most // _PART)
    rows = max(1, min(_ROWS_A_ROUND, int(most / expected)))
    at_once = max(1, _PAIRS_AT_ONCE // rows)
    for first in range(0, len(codes.left), at_once):
        if len(into) > 2 * into.most // _PART:
            return
        report(f"sampling pairs of rows: column {first + 1} of {len(codes.left)}, {len(into):,} evidences")
        columns = range(first, min(first + at_once, len(codes.left)))
        for parts in zip(*(_neighbours(codes, pair, rows, rng) for pair in columns), strict=True):
            neighbours = np.concatenate(parts)
            if both_ways(into, neighbours) < _WORTHWHILE * len(neighbours) or len(into) > most:
                break


def both_ways(into: EvidenceSet, pairs: Positions) -> int:
    """Add the evidences of pairs and of the exchanged pairs; return how many are new."""
    return into.compare_pairs(np.concatenate([pairs, pairs[:, ::-1]]))


def _neighbours(codes: PairCodes, pair: int, rows: int, rng: np.random.Generator) -> Iterator[Positions]:
    """Yield pairs of neighbours in one column's order, at distance 1, 2 and so on."""
    shuffled = rng.permutation(codes.rows)
    # a sort of integers: the code in the high bits, the position in a random order in the low bits
    order = shuffled[np.sort(codes.left[pair][shuffled].astype(np.int64) << 32 | np.arange(codes.rows)) & _LOW]
    for distance in range(1, min(_FURTHEST, codes.rows - 1) + 1):
        start = np.arange(codes.rows - distance)
        if len(start) > rows:
            start = rng.choice(start, rows, replace=False)
        yield np.column_stack([order[start], order[start + distance]])
