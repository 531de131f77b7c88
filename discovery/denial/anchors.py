"""Equalities whose pairs of rows are few enough to compare all: that settles every constraint with these equalities.

A pair of rows violates `not(t.Zip = s.Zip and ...)` only where it agrees on Zip. Once the evidences of all pairs that
agree on Zip are known, every cover of them with that equality holds, and needs no search. Comparing a pair costs a few
nanoseconds, so an *anchor*, one equality or two, pays as soon as it saves enough searches.
"""

import heapq
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.constraints import PredicateSpace
from holdfast.constraints.operators import EQUAL
from holdfast.discovery.evidence.sampling import NO_VARIETY, Variety
from holdfast.discovery.kernels.evidence import PairCodes, RowGroups
from holdfast.indexes.masks import outcomes_of
from holdfast.tables.arrays import DenseCodes, Flags, Floats, Ints, Words

_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Costs:
    """Costs as measured on two cores, in seconds.

    Parameters
    ----------
    outcome : to compare two rows on one column pair.
    validated : to search for violations of one constraint, for each row of the table.
    copied : to copy the code of one row in one column pair.
    kept : to keep one evidence, for each of its words and two more.
    tried : to enumerate with one more evidence, for each vertex tried.
    """

    outcome: float = 5e-10
    validated: float = 3e-8
    copied: float = 1e-8
    kept: float = 1e-6
    tried: float = 5e-11

    def keeping(self, evidences: float, space: PredicateSpace, tried: int = 0) -> float:
        """Return the time to keep evidences and to enumerate with them, with `tried` vertices in an enumeration."""
        return evidences * ((2 + space.word_count) * self.kept + tried * self.tried)


class Anchors:
    """Chooses anchors for one table.

    Parameters
    ----------
    codes, space : the table's rows, and what masks mean.
    variety : how many evidences to expect of pairs.
    """

    def __init__(self, codes: PairCodes, space: PredicateSpace, costs: Costs, variety: Variety = NO_VARIETY) -> None:
        self._codes = codes
        self._costs = costs
        self._variety = variety
        self._space = space
        self._own = [p for p, pair in enumerate(space.pairs) if pair.left == pair.right]
        self._ways = 2 if space.crossing else 1
        self._pairs: dict[tuple[int, ...], float] = {}
        self._settled: list[tuple[int, ...]] = []

    @property
    def last(self) -> str:
        """The names of the columns of the last anchor, for reports."""
        names = self._space.schema.names
        return ", ".join(names[self._space.pairs[p].left] for p in self._settled[-1])

    def unsettled(self, masks: Words) -> Flags:
        """Return which constraints have no anchor that was compared."""
        equal = self._equalities(masks)
        settled = np.zeros(len(masks), np.bool_)
        for anchor in self._settled:
            settled |= equal[list(anchor)].all(axis=0)
        return ~settled

    def choose(self, masks: Words, known: int = 0, tried: int = 0) -> RowGroups | None:
        """Return the groups of the anchor that saves most time on unsettled constraints; None where no anchor does.

        `known` is the number of evidences, `tried` the number of vertices of the last enumeration. The anchor counts
        as compared from now on. O(k P^2) for k constraints.
        """

        def seconds(pairs: float) -> float:
            return self._seconds(pairs) + self._costs.keeping(self._variety.among(pairs, known), self._space, tried)

        saved = self._constraints_with(masks[self.unsettled(masks)]) * self._codes.rows * self._costs.validated
        waiting: list[tuple[float, tuple[int, ...]]] = []
        cheapest = seconds(float(self._codes.rows))
        for i, j in np.argwhere(np.triu(saved > cheapest)).tolist():
            anchor = tuple(self._own[k] for k in ([i] if i == j else [i, j]))
            if anchor not in self._settled:
                waiting.append((seconds(self._fewest_pairs(anchor)) - saved[i, j], anchor))
        heapq.heapify(waiting)
        while waiting and waiting[0][0] < 0:
            gain, anchor = heapq.heappop(waiting)
            if anchor not in self._pairs:  # so far a lower bound
                estimated = self._fewest_pairs(anchor)
                self._pairs[anchor] = float((np.bincount(self._grouped(anchor)).astype(float) ** 2).sum())
                worse = seconds(self._pairs[anchor]) - seconds(estimated)
                heapq.heappush(waiting, (gain + worse, anchor))
                continue
            self._settled.append(anchor)
            return self._groups(anchor)
        return None

    def _constraints_with(self, masks: Words) -> Floats:
        """Return the number of constraints with both of two equalities; on the diagonal, with one."""
        counted = np.zeros((len(self._own), len(self._own)))
        for start in range(0, len(masks), _AT_ONCE):
            equal = self._equalities(masks[start : start + _AT_ONCE])[self._own].astype(np.float32)
            counted += equal @ equal.T
        return counted

    def _equalities(self, masks: Words) -> Flags:
        """Return for every column pair which masks require equality."""
        equal: Flags = outcomes_of(masks, self._space) == EQUAL
        return equal

    def _seconds(self, pairs: float) -> float:
        compared = pairs * len(self._codes.left) * self._costs.outcome * self._ways / 2
        return compared + self._codes.rows * len(self._codes.left) * self._costs.copied

    def _fewest_pairs(self, anchor: tuple[int, ...]) -> float:
        """Return the number of pairs of rows that agree on an anchor, or a lower bound where it was not counted yet."""
        if anchor in self._pairs:
            return self._pairs[anchor]
        return float(self._codes.rows)

    def _grouped(self, anchor: tuple[int, ...]) -> Ints:
        """Return a number from 0 on for each combination of codes."""
        grouped = np.zeros(self._codes.rows, np.int64)
        for p in anchor:
            codes: DenseCodes = self._codes.left[p]
            grouped = grouped * (int(codes.max(initial=0)) + 1) + codes
        return np.asarray(pa.array(grouped).dictionary_encode().indices.to_numpy().astype(np.int64))

    def _groups(self, anchor: tuple[int, ...]) -> RowGroups:
        """Return the rows with a partner (or that occur twice), group by group."""
        grouped = self._grouped(anchor)
        paired = (np.bincount(grouped)[grouped] > 1) | (self._codes.second >= 0)
        rows = np.flatnonzero(paired)
        placed = np.sort(grouped[rows] << 32 | rows)  # the group in the high bits, the row in the low bits
        starts = np.flatnonzero(np.diff(placed >> 32, prepend=-1))
        return RowGroups.of(placed & (1 << 32) - 1, np.append(starts, len(rows)))
