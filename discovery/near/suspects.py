"""Cells that are probably wrong: what the exceptions of strong functional dependencies have in common.

    strong dependencies  ->  log odds of each cell, by all dependencies that name its column
    ->  at most one wrong cell a row  ->  rows weigh as much as their cells are trusted, and all of it again
    ->  suspects above a score

A row that does not fit in its group says that one of its cells in the context or the dependent is wrong; a row that
fits says that none of them is, as a wrong value would hardly fit by chance. A cell collects what all dependencies say
that name its column: the wrong cell is in all that the row violates and in none that it fits. That one cell of a row
is wrong, or none, makes probabilities of the odds.

A row is trusted entirely as long as it fits in all its groups. So after one count of all rows only those are looked at
that do not fit somewhere, in the groups that have such rows.

Invariant: suspects are a function of the table's rows and the near set alone: not of the order of rows, the codes of
values or the number of threads. Weights and log odds are rounded, so that their sums are exact in any order. Nothing
is changed: suspects are suggestions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from holdfast.constraints import NearShape
from holdfast.discovery.kernels.near import ContextGroups
from holdfast.discovery.kernels.suspects import Asked, Dependent, fitting_kernel
from holdfast.discovery.near.counting import Context, Counter, by_candidate, by_context
from holdfast.discovery.near.lattice import NearMember, counting
from holdfast.discovery.near.ranking import NearScores, needed
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.targets import NearTargets
from holdfast.indexes.threads import mapped
from holdfast.tables.arrays import Flags, Floats, Ints, Ints32, Rows

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
_STEPS_OF_TRUST, _STEPS_OF_ODDS = 1 << 24, 1 << 10
"""Trust and log odds are rounded to these parts of one."""
_KEPT = 16
"""Groups with this many times the rows of the table are kept in memory from round to round."""
_UNKNOWN = -1


@dataclass(frozen=True)
class SuspectCell:
    """A cell that is probably wrong, by numbers of `NearRows`.

    Parameters
    ----------
    row, column : of the rows and columns that have codes.
    score : the probability that it is wrong.
    expected : a row with the value that most dependencies expect; None if they expect none, or several equally.
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

    def find(self, members: Sequence[NearMember], least: float = LEAST_SCORE) -> list[SuspectCell]:
        """Return the suspects with a score of at least `least`, the surest first.

        O(n) for each strong dependency and each context, then O(n) for each context with large groups.
        """
        strong = sorted(self._strong(members), key=self._in_table)
        parts = self._parts(strong)
        asked, trust = np.zeros(0, np.int64), np.ones((len(self._rows.codes), 0))
        for _ in range(_ROUNDS):
            asked, odds = self._fitted(parts, asked, trust)
            scores = self._scores(odds)
            trust = np.rint((1 - scores) * _STEPS_OF_TRUST) / _STEPS_OF_TRUST
        columns, places = np.nonzero(scores >= least)
        if not len(places):
            return []
        names, rows = self._rows.columns[columns], self._rows.order[asked[places]]
        order = np.lexsort((names, rows, -scores[columns, places]))
        columns, places = columns[order], places[order]
        found = self._described(strong, parts, asked, trust, places, columns)
        cells = zip(asked[places].tolist(), columns.tolist(), scores[columns, places].tolist(), *found, strict=True)
        return [SuspectCell(*cell) for cell in cells]

    def _strong(self, members: Sequence[NearMember]) -> Iterator[_Dependency]:
        for member in members:
            shape, target = self._targets.form(member.number)
            if shape is NearShape.CONSTANT and member.context:
                strength = self._ranking.strength(member)
                if strength >= STRONG:
                    yield _Dependency(member, member.context, target[0], strength)

    def _in_table(self, one: _Dependency) -> tuple[list[int], int]:
        """Return the places of a dependency's columns in the table: its order does not depend on codes."""
        columns = self._rows.columns
        return sorted(columns[list(one.context)].tolist()), int(columns[one.dependent])

    def _parts(self, strong: Sequence[_Dependency]) -> list["_Part"]:
        """Return the dependencies in parts, one for each thread; those with like contexts are in one part."""
        by_context = sorted(strong, key=lambda one: (one.context, one.dependent))
        size = max(1, -(-len(strong) // self._threads))
        some = [by_context[start : start + size] for start in range(0, len(strong), size)]
        kept = _KEPT * self._rows.count // max(1, len(some))
        return [_Part(self._rows, self._targets, each, kept) for each in some]

    def _fitted(self, parts: Sequence["_Part"], asked: Ints, trust: Floats) -> tuple[Ints, Ints]:
        """Return the rows that are asked about, with those that newly do not fit, and the log odds of their cells."""
        while True:
            found = mapped(self._threads, partial(_Part.fitted, asked=asked, trust=trust), parts)
            more = np.flatnonzero(np.any([violating for _, violating in found], axis=0)) if found else asked[:0]
            if not len(more):
                return asked, sum((odds for odds, _ in found), np.zeros(trust.shape, np.int64))
            asked = np.concatenate([asked, more])
            trust = np.concatenate([trust, np.ones((len(trust), len(more)))], axis=1)

    def _scores(self, odds: Ints) -> Floats:
        """Return the probability of each cell that it is the one wrong cell of its row."""
        in_table = np.argsort(self._rows.columns)
        exponents = odds[in_table] / _STEPS_OF_ODDS + _WRONG
        most = np.maximum(exponents.max(axis=0, initial=0.0), 0.0)
        weights = np.exp(exponents - most)
        scores: Floats = np.empty(odds.shape)
        scores[in_table] = weights / (weights.sum(axis=0) + np.exp(-most))
        return scores

    def _described(
        self,
        strong: Sequence[_Dependency],
        parts: Sequence["_Part"],
        asked: Ints,
        trust: Floats,
        places: Ints,
        columns: Ints,
    ) -> tuple[list[int | None], list[tuple[NearMember, ...]]]:
        """Return what is expected in the place of each suspect, and the members that it violates."""
        rows = asked[places].tolist()
        violated: list[list[_Dependency]] = [[] for _ in rows]
        votes: list[dict[int, float]] = [{} for _ in rows]
        counter = Counter(self._rows, self._targets)
        fitted = {one: fit for part in parts for one, fit in part.each(asked, trust)}
        for one in strong:
            odds, dependents = fitted[one]
            named = np.flatnonzero(np.isin(columns, one.columns))
            fits = _Fits(self._rows, counter, one)
            for cell in named[odds[places[named]] > 0].tolist():
                violated[cell].append(one)
                if columns[cell] != one.dependent:
                    voted = fits.votes(rows[cell], int(columns[cell]))
                elif (code := int(dependents[places[cell]])) != _UNKNOWN:
                    voted = {code: odds[places[cell]] / _STEPS_OF_ODDS}
                else:
                    voted = {}
                for code, weight in voted.items():
                    votes[cell][code] = votes[cell].get(code, 0.0) + weight
        own = self._rows.codes[columns, rows].tolist()
        expected = self._rows_with(columns.tolist(), list(map(_most, votes, own)))
        return expected, list(map(_strongest_first, violated))

    def _rows_with(self, columns: Sequence[int], codes: Sequence[int | None]) -> list[int | None]:
        """Return for each code of a column a row that has it. O(n) a column."""
        first: dict[int, Ints] = {}
        for column in set(columns):
            first[column] = np.zeros(int(self._rows.distinct[column]), np.int64)
            every = self._rows.codes[column][::-1]
            first[column][every] = np.arange(len(every))[::-1]
        return [None if code is None else int(first[c][code]) for c, code in zip(columns, codes, strict=True)]


class _Part:
    """Some dependencies, which one thread counts."""

    def __init__(self, rows: NearRows, targets: NearTargets, dependencies: Sequence[_Dependency], kept: int) -> None:
        self._rows = rows
        self._dependencies = dependencies
        self._counter = Counter(rows, targets)
        self._room = kept
        self._kept: dict[Context, ContextGroups] = {}
        self._surprise: dict[int, Floats] = {}

    def fitted(self, asked: Ints, trust: Floats) -> tuple[Ints, Flags]:
        """Return the log odds of the cells of rows, and which other rows do not fit."""
        found = np.zeros(trust.shape, np.int64)
        violating = np.zeros(self._rows.codes.shape[1], np.bool_)
        for one, (odds, _) in self.each(asked, trust, violating):
            found[one.dependent] += odds
            found[list(one.context)] += np.rint(_CONTEXT * odds).astype(np.int64)
        return found, violating

    def each(
        self, asked: Ints, trust: Floats, violating: Flags | None = None
    ) -> Iterator[tuple[_Dependency, tuple[Ints, Ints32]]]:
        """Yield for each dependency the log odds of the rows, and the codes that it expects of the dependent."""
        count = self._rows.codes.shape[1]
        places = np.full(count, _UNKNOWN, np.int32)
        places[asked] = np.arange(len(asked))
        if violating is None:
            violating = np.zeros(count, np.bool_)
        for one in self._dependencies:
            columns = sorted(one.columns, key=self._rows.columns.__getitem__)
            weights = np.rint(trust[columns].prod(axis=0) * _STEPS_OF_TRUST) / _STEPS_OF_TRUST
            odds, expected = np.zeros(len(asked)), np.full(len(asked), _UNKNOWN, np.int32)
            dependent = Dependent(self._rows.codes[one.dependent], self._surprise_of(one.dependent))
            sums = np.zeros(len(dependent.surprise))
            groups = self._groups(one.context)
            fitting_kernel(groups, dependent, Asked(places, weights), sums, odds, expected, violating)
            odds[odds > 0] += one.certainty
            yield one, (np.rint(odds * _STEPS_OF_ODDS).astype(np.int64), expected)

    def _groups(self, context: Context) -> ContextGroups:
        if context in self._kept:
            return self._kept[context]
        groups = self._counter.groups(context)
        if len(groups.rows) <= self._room:
            self._room -= len(groups.rows)
            self._kept[context] = groups
        return groups

    def _surprise_of(self, column: int) -> Floats:
        """Return the logarithm of the share of rows that have each code of a column."""
        if column not in self._surprise:
            rows = self._rows
            sizes = np.bincount(rows.codes[column], minlength=int(rows.distinct[column]))
            self._surprise[column] = np.log(np.maximum(sizes, 1) / max(rows.count, 1))
        return self._surprise[column]


class _Fits:
    """Values of a column of a dependency's context with which a row would fit.

    These are the values of the rows that agree with it on all other columns of the dependency.
    """

    def __init__(self, rows: NearRows, counter: Counter, dependency: _Dependency) -> None:
        self._rows = rows
        self._counter = counter
        self._dependency = dependency
        self._members: dict[int, tuple[Rows, Ints, Ints32]] = {}
        self._known: dict[tuple[int, int], dict[int, float]] = {}

    def votes(self, row: int, column: int) -> dict[int, float]:
        """Return the share of the agreeing rows that have each value; of rows without such a group nothing."""
        if column not in self._members:
            others = tuple(sorted(other for other in self._dependency.columns if other != column))
            groups = self._counter.groups(others)
            place = np.full(self._rows.codes.shape[1], _UNKNOWN, np.int32)
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


def suspect_cells(
    rows: NearRows, targets: NearTargets, members: Sequence[NearMember], least: float, *, threads: int = 1
) -> list[SuspectCell]:
    """Return the suspects of some rows by the functional dependencies among members of their near set.

    O(n) for each dependency, its context and each part of that.
    """
    constants = [one for one in members if one.context and targets.form(one.number)[0] is NearShape.CONSTANT]
    count = counting(rows, targets, enough=rows.count, threads=threads)
    counts = by_candidate(count(by_context(needed(constants, targets)), -1))
    return SuspectSearch(rows, targets, NearScores(rows.count, targets, counts), threads).find(constants, least)


def _most(votes: dict[int, float], own: int) -> int | None:
    """Return the value that has most votes besides the cell's own, None if there is none, or several have as many."""
    others = {code: weight for code, weight in votes.items() if code != own}
    most = max(others.values(), default=0.0)
    first = [code for code, weight in others.items() if weight == most]
    return first[0] if len(first) == 1 else None


def _strongest_first(dependencies: Sequence[_Dependency]) -> tuple[NearMember, ...]:
    return tuple(one.member for one in sorted(dependencies, key=lambda one: -one.strength))
