"""Cells that are probably wrong: what the exceptions of strong functional dependencies have in common.

    strong dependencies  ->  log odds of each cell, by all dependencies that name its column
    ->  at most one wrong cell a row  ->  rows weigh as much as their cells are trusted, and all of it again
    ->  suspects above a score

A row that does not fit in its group says that one of its cells in the context or the dependent is wrong; a row that
fits says that none of them is, as a wrong value would hardly fit by chance. A cell collects what all dependencies say
that name its column: the wrong cell is in all that the row violates and in none that it fits. That one cell of a row
is wrong, or none, makes probabilities of the odds.

Invariant: suspects are a function of the table's rows and the near set alone. Nothing is changed: they are suggestions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from holdfast.constraints import NearShape
from holdfast.discovery.kernels.suspects import Dependent, fitting_kernel
from holdfast.discovery.near.counting import Context, Counter
from holdfast.discovery.near.lattice import NearMember
from holdfast.discovery.near.ranking import NearScores
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.targets import NearTargets
from holdfast.indexes.threads import mapped
from holdfast.tables.arrays import Floats, Floats32, Ints, Ints32, Rows

STRONG = 0.2
"""The least strength of a dependency that says anything about cells."""
LEAST_SCORE = 0.9
"""Nine of ten suspects with this score are wrong, on tables whose wrong cells are known (`benchmarks/meaning.py`)."""
_WRONG = np.log(0.002)
"""The log odds that a cell is wrong, before any evidence."""
_CONTEXT = 0.9
"""The share of a dependency's log odds that counts for the cells of its context."""
_DOUBT, _MOST_CERTAIN, _LEAST_CHANCE = 2.5, 5.0, 1e-9
_ROUNDS = 3
_PARTS = 4
"""Dependencies are summed in so many parts, whatever the number of threads: sums of floats depend on their order."""
_UNKNOWN = -1


@dataclass(frozen=True)
class SuspectCell:
    """A cell that is probably wrong, by numbers of `NearRows`.

    Parameters
    ----------
    row, column : of the rows and columns that have codes.
    score : the probability that it is wrong.
    expected : the code that most dependencies expect; None if they expect none.
    violated : the members that name the column and that the row violates, the strongest first.
    """

    row: int
    column: int
    score: float
    expected: int | None
    violated: tuple[NearMember, ...]


@dataclass(frozen=True, eq=False)
class _Dependency:
    """A strong functional dependency."""

    member: NearMember
    context: Context
    dependent: int
    strength: float

    @property
    def certainty(self) -> float:
        """What its strength adds to the log odds of a row that does not fit."""
        odds = np.log(self.strength / max(1 - self.strength, _LEAST_CHANCE))
        return float(np.clip(odds - _DOUBT, 0.0, _MOST_CERTAIN))

    @property
    def columns(self) -> tuple[int, ...]:
        return (*self.context, self.dependent)


class SuspectSearch:
    """Finds the cells of a table that are probably wrong.

    Parameters
    ----------
    rows, targets : the table.
    ranking : gives the strength of each member of the near set.
    threads : the number of threads that work.
    """

    def __init__(self, rows: NearRows, targets: NearTargets, ranking: NearScores, threads: int = 1) -> None:
        self._rows = rows
        self._targets = targets
        self._ranking = ranking
        self._threads = threads
        count = max(rows.count, 1)
        shares = [np.bincount(rows.codes[c], minlength=int(rows.distinct[c])) / count for c in range(len(rows.codes))]
        self._surprise = [np.log(np.maximum(share, 1 / count)) for share in shares]

    def find(self, members: Sequence[NearMember], least: float = LEAST_SCORE) -> list[SuspectCell]:
        """Return the suspects with a score of at least `least`, the surest first. O(n) for each strong dependency."""
        strong = sorted(self._strong(members), key=lambda one: one.context)
        shape = self._rows.codes.shape
        trust: Floats32 = np.ones(shape, np.float32)
        for _ in range(_ROUNDS):
            odds: Floats32 = np.zeros(shape, np.float32)
            parts = [strong[part::_PARTS] for part in range(_PARTS)]
            for part in mapped(self._threads, partial(self._odds, trust=trust), parts):
                odds += part
            scores = _scores(odds)
            trust = np.asarray(1 - scores, np.float32)
        columns, rows = np.nonzero(scores >= least)
        order = np.lexsort((columns, rows, -scores[columns, rows]))
        columns, rows = columns[order], rows[order]
        return self._described(strong, trust, rows, columns, scores[columns, rows]) if len(rows) else []

    def _strong(self, members: Sequence[NearMember]) -> Iterator[_Dependency]:
        for member in members:
            shape, target = self._targets.form(member.number)
            if shape is NearShape.CONSTANT and member.context:
                strength = self._ranking.strength(member)
                if strength >= STRONG:
                    yield _Dependency(member, member.context, target[0], strength)

    def _odds(self, some: Sequence[_Dependency], trust: Floats32) -> Floats32:
        """Return the log odds of each cell by some dependencies."""
        found: Floats32 = np.zeros(self._rows.codes.shape, np.float32)
        counter = Counter(self._rows, self._targets)
        for one in some:
            odds, _ = self._fitting(counter, one, trust)
            found[one.dependent] += odds
            for column in one.context:
                found[column] += _CONTEXT * odds
        return found

    def _fitting(self, counter: Counter, one: _Dependency, trust: Floats32) -> tuple[Floats, Ints32]:
        """Return the log odds of each row by a dependency, and the code that it expects of the dependent."""
        rows = self._rows
        odds = np.zeros(rows.codes.shape[1])
        expected = np.full(len(odds), _UNKNOWN, np.int32)
        weights = trust[list(one.columns)].prod(axis=0, dtype=np.float64)
        dependent = Dependent(rows.codes[one.dependent], self._surprise[one.dependent])
        sums = np.zeros(len(dependent.surprise))
        fitting_kernel(counter.groups(one.context), dependent, weights, sums, odds, expected)
        odds[odds > 0] += one.certainty
        return odds, expected

    def _described(
        self, strong: Sequence[_Dependency], trust: Floats32, rows: Ints, columns: Ints, scores: Floats32
    ) -> list[SuspectCell]:
        """Return suspects with what is expected in their place, and the members that they violate."""
        violated: list[list[_Dependency]] = [[] for _ in rows]
        votes: list[dict[int, float]] = [{} for _ in rows]
        counter = Counter(self._rows, self._targets)
        for one in strong:
            named = np.flatnonzero(np.isin(columns, one.columns))
            odds, expected = self._fitting(counter, one, trust)
            broken = named[odds[rows[named]] > 0]
            fits = _Fits(self._rows, Counter(self._rows, self._targets), one)
            for place in broken.tolist():
                row, column = int(rows[place]), int(columns[place])
                violated[place].append(one)
                is_dependent = column == one.dependent
                voted = {int(expected[row]): float(odds[row])} if is_dependent else fits.votes(row, column)
                for code, weight in voted.items():
                    votes[place][code] = votes[place].get(code, 0.0) + weight
        own = self._rows.codes[columns, rows].tolist()
        expected_codes = [_most(voted, code) for voted, code in zip(votes, own, strict=True)]
        cells = zip(
            rows.tolist(),
            columns.tolist(),
            scores.tolist(),
            expected_codes,
            map(_strongest_first, violated),
            strict=True,
        )
        return [SuspectCell(*cell) for cell in cells]


class _Fits:
    """Values of a column of a dependency's context with which a row would fit.

    These are the values of the rows that agree with it on all other columns of the dependency.
    """

    def __init__(self, rows: NearRows, counter: Counter, dependency: _Dependency) -> None:
        self._rows = rows
        self._counter = counter
        self._dependency = dependency
        self._members: dict[int, tuple[Rows, Ints, Ints]] = {}
        self._known: dict[tuple[int, int], dict[int, float]] = {}

    def votes(self, row: int, column: int) -> dict[int, float]:
        """Return the share of the agreeing rows that have each value; of rows without such a group nothing."""
        if column not in self._members:
            others = tuple(sorted(other for other in self._dependency.columns if other != column))
            groups = self._counter.groups(others)
            place = np.full(self._rows.codes.shape[1], _UNKNOWN)
            place[groups.rows] = np.repeat(np.arange(len(groups.starts) - 1), np.diff(groups.starts))
            self._members[column] = groups.rows, groups.starts, place
        members, starts, place = self._members[column]
        group = place[row]
        if group == _UNKNOWN:
            return {}
        if (column, int(group)) not in self._known:
            agreeing = members[starts[group] : starts[group + 1]]
            codes, counts = np.unique(self._rows.codes[column][agreeing], return_counts=True)
            shares = zip(codes.tolist(), (counts / counts.sum()).tolist(), strict=True)
            self._known[column, int(group)] = dict(shares)
        return self._known[column, int(group)]


def _scores(odds: Floats32) -> Floats32:
    """Return the probability of each cell that it is the one wrong cell of its row."""
    exponents = odds + _WRONG
    most = np.maximum(exponents.max(axis=0, initial=0.0), 0.0)
    weights = np.exp(exponents - most)
    return np.asarray(weights / (weights.sum(axis=0) + np.exp(-most)), np.float32)


def _most(votes: dict[int, float], own: int) -> int | None:
    """Return the value that has most votes besides the cell's own, None if there is none."""
    others = {code: weight for code, weight in votes.items() if code != own}
    return max(others, key=lambda code: (others[code], -code)) if others else None


def _strongest_first(dependencies: Sequence[_Dependency]) -> tuple[NearMember, ...]:
    return tuple(one.member for one in sorted(dependencies, key=lambda one: -one.strength))
