"""Where the exceptions of a near constraint are: values that many more exceptions have than other rows.

    {zip}: [] -> city   source = 'import-7': 11 of 12 exceptions, 15 of 500 rows

A value *concentrates* the exceptions if chance would hardly give it to so many of them: at most one time in a thousand
there would be any such value, were as many rows drawn from all rows that could be exceptions (the hypergeometric tail,
times the number of values that enough rows have). Rows that are alone in their group cannot be exceptions. Undecided
rows count in proportion, so that the counts add up to the exceptions.

    all values of the exceptions    ->  those that are significant, the most significant first
    ->  each must be significant on the rows without the values before it: no column says again what another one says
    ->  for each: does the constraint hold on the rows without the value?

Exceptions of a target differ from the majority, so that its rare values are frequent among them by definition. So a
value of a target is compared on the rows without the target's most frequent other value. The exceptions of a key are
all rows that could be some: its values are compared on all rows.

Invariant: all counts are exact; the result is a function of the table's rows and of the constraint alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from math import exp, log

import numpy as np

from holdfast.discovery.kernels.concentration import frequent_values_kernel
from holdfast.discovery.kernels.near import ContextGroups
from holdfast.discovery.near.chance import log_tail
from holdfast.discovery.near.counting import Candidate, Context, Counter
from holdfast.discovery.near.removal import Removal, standing_of
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.targets import KEY, NearTargets
from holdfast.discovery.threads import cut
from holdfast.indexes.kernels.exceptions import UNDECIDED
from holdfast.indexes.threads import mapped
from holdfast.tables.arrays import Flags, Ints, Rows

FEWEST = 5
"""The least number of exceptions that have the value; also the least number of rows on which a constraint can fail."""
LEAST_PART = 5
"""A value that fewer than one exception in so many have is not worth naming."""
LEAST_LIFT = 2.0
"""How many times as frequent the value is among the exceptions, at least."""
SIGNIFICANT = 0.001
"""The greatest probability that chance concentrates the exceptions of a constraint in any value."""
MOST = 3
"""So many values of a constraint are named."""
_NO_CODE = -1
_DIGITS = 9
"""Logarithms are equal if so many digits are: the others are lost in computing them."""


@dataclass(frozen=True)
class ConcentratingValue:
    """A value, by numbers of `NearRows`, in which the exceptions of a constraint are concentrated.

    Parameters
    ----------
    column, code : the value.
    exceptions, rows : how many exceptions, and how many rows have the value.
    log_significance : the logarithm of the probability that chance gives any value to as many exceptions.
    holds_elsewhere : whether the constraint holds on the rows without the value.
    """

    column: int
    code: int
    exceptions: int
    rows: int
    log_significance: float
    holds_elsewhere: bool

    @property
    def significance(self) -> float:
        """The probability that chance gives any value to as many exceptions; 0 below the smallest float."""
        return exp(self.log_significance)


@dataclass(frozen=True, eq=False)
class Excepted:
    """The exceptions of a constraint, by positions in `NearRows`.

    Parameters
    ----------
    rows : all rows that are exceptions, certain and undecided ones.
    undecided : which of them are undecided.
    count : the number of exceptions.
    """

    rows: Ints
    undecided: Flags
    count: int

    @classmethod
    def of(cls, removal: Removal, places: Ints) -> "Excepted":
        """Return the exceptions of a removal, with the position of each row of the table."""
        return cls(places[removal.rows], removal.undecided, removal.exceptions)

    @cached_property
    def certain(self) -> int:
        """The number of rows that are not undecided."""
        return len(self.rows) - int(np.count_nonzero(self.undecided))

    def counted(self, certain: int, undecided: int) -> int:
        """Return how many exceptions so many rows are, rounded down: undecided rows count in proportion.

        >>> Excepted(np.arange(7), np.arange(7) >= 3, 5).counted(2, 3)  # two of the four undecided rows are exceptions
        3
        """
        every = len(self.rows) - self.certain
        return certain + (undecided * (self.count - self.certain) // every if every else 0)

    def among(self, flags: Flags) -> int:
        """Return how many exceptions the flagged ones of these rows are, rounded down."""
        certain = int(np.count_nonzero(flags & ~self.undecided))
        return self.counted(certain, int(np.count_nonzero(flags)) - certain)


@dataclass(frozen=True)
class _Frequent:
    """A value that many exceptions have.

    Parameters
    ----------
    exceptions : how many.
    has_all : whether all rows that are exceptions have it.
    """

    column: int
    code: int
    exceptions: int
    has_all: bool


@dataclass(frozen=True)
class _Searched:
    """A constraint whose exceptions are searched.

    Parameters
    ----------
    context, number, target : the constraint, by numbers of columns and targets.
    excepted : its exceptions.
    groups : the groups of the context.
    """

    context: Context
    number: int
    target: tuple[int, ...]
    excepted: Excepted
    groups: ContextGroups


class ConcentrationSearch:
    """Finds where exceptions are, in one thread.

    Parameters
    ----------
    rows, targets : the table, with the targets of the constraints.
    totals : the number of rows by column and code, as `totals_of` counts them.
    """

    def __init__(self, rows: NearRows, targets: NearTargets, totals: Sequence[Ints]) -> None:
        self._rows = rows
        self._targets = targets
        self._totals = totals
        self._counts = np.zeros((int(rows.distinct.max(initial=1)), 2), np.int64)
        self._compared = sum(int(np.count_nonzero(total >= FEWEST)) for total in totals)

    @cached_property
    def _counter(self) -> Counter:
        return Counter(self._rows, self._targets)

    def find(self, context: Context, number: int, excepted: Excepted) -> list[ConcentratingValue]:
        """Return the values in which the exceptions of a target in a context are concentrated, the surest first.

        O(columns x exceptions), and O(n) for each value that is significant.
        """
        if excepted.count < FEWEST:
            return []
        frequent = list(self._frequent(excepted))
        if not frequent:
            return []
        one = _Searched(context, number, self._targets.form(number)[1], excepted, self._counter.groups(context))
        significant = sorted(self._significant(one, frequent), key=partial(self._surest_first, one))
        chosen = list(self._without_repetitions(one, significant))
        found = [self._found(one, value, significance) for value, significance in chosen]
        if not any(value.holds_elsewhere for value in found):
            rest = (scored for scored in significant if scored not in chosen and scored[0].has_all)
            elsewhere = (self._found(one, value, significance) for value, significance in rest)
            found += [value for value in elsewhere if value.holds_elsewhere][:1]
        return found

    def _surest_first(self, one: _Searched, scored: tuple[_Frequent, float]) -> tuple[float, float, bool, int]:
        """Return what values are ordered by; equal ones in a column that the constraint does not name come first."""
        value, significance = scored
        lift = value.exceptions / int(self._totals[value.column][value.code])
        is_named = value.column in one.context or value.column in one.target
        return round(significance, _DIGITS), -lift, is_named, int(self._rows.columns[value.column])

    def _frequent(self, excepted: Excepted) -> Iterator[_Frequent]:
        """Yield the values that enough exceptions have, and more of them than of all rows."""
        least = max(FEWEST, -(-excepted.count // LEAST_PART))
        room = np.empty((len(self._rows.codes) * (len(excepted.rows) // least), 4), np.int64)
        count = frequent_values_kernel(self._rows.codes, excepted.rows, excepted.undecided, least, self._counts, room)
        for column, code, certain, undecided in room[:count].tolist():
            exceptions = excepted.counted(certain, undecided)
            valued = int(self._totals[column][code])
            if exceptions >= least and exceptions * self._rows.count >= LEAST_LIFT * excepted.count * valued:
                has_all = certain + undecided == len(excepted.rows)
                yield _Frequent(column, code, exceptions, has_all)

    def _significant(self, one: _Searched, frequent: Iterable[_Frequent]) -> Iterator[tuple[_Frequent, float]]:
        """Yield the values that are significant, each with the logarithm of its significance."""
        nothing = np.zeros(self._rows.count, np.bool_)
        for value in frequent:
            significance = self._significance(one, value, nothing)
            if significance is not None:
                yield value, significance

    def _significance(self, one: _Searched, value: _Frequent, covered: Flags) -> float | None:
        """Return the logarithm of a value's significance on the rows not covered; None if it is not significant."""
        codes, excepted = self._rows.codes[value.column], one.excepted
        other = self._most_frequent_other(value, excepted) if value.column in one.target else _NO_CODE

        def compared(some: Rows | Ints) -> tuple[Flags, Flags]:
            own = codes[some]
            kept = (own != other) & ~covered[some]
            return kept, kept & (own == value.code)

        rows, valued = map(np.count_nonzero, compared(self._rows.rows if one.number == KEY else one.groups.rows))
        drawn, found = map(excepted.among, compared(excepted.rows))
        if found < FEWEST or found * rows < LEAST_LIFT * drawn * valued:
            return None
        significance = log_tail(int(rows), int(valued), drawn, found) + log(self._compared)
        return min(0.0, significance) if significance <= log(SIGNIFICANT) else None

    def _most_frequent_other(self, value: _Frequent, excepted: Excepted) -> int:
        """Return the code that most rows have besides the value's; of several, one that fewest exceptions have."""
        others = self._totals[value.column].copy()
        others[value.code] = 0
        codes = np.flatnonzero(others == others.max())
        if len(codes) > 1:
            found = np.bincount(self._rows.codes[value.column][excepted.rows], minlength=len(others))
            return int(codes[np.argmin(found[codes])])
        return int(codes[0])

    def _without_repetitions(
        self, one: _Searched, significant: Iterable[tuple[_Frequent, float]]
    ) -> Iterator[tuple[_Frequent, float]]:
        """Yield the first values, and those that are significant on the rows without the values before them."""
        covered = np.zeros(self._rows.count, np.bool_)
        count = 0
        for value, significance in significant:
            if count and self._significance(one, value, covered) is None:
                continue
            yield value, significance
            covered |= self._rows.codes[value.column] == value.code
            count += 1
            if count == MOST:
                return

    def _found(self, one: _Searched, value: _Frequent, significance: float) -> ConcentratingValue:
        """Return a value, with whether the constraint holds on the rows without it."""
        kept = self._rows.codes[value.column] != value.code
        groups = _among(one.groups, kept)
        could_fail = one.number == KEY or len(groups.rows) >= FEWEST
        holds = could_fail and not self._counter.count(groups, one.number, 0)
        rows = int(self._totals[value.column][value.code])
        return ConcentratingValue(value.column, value.code, value.exceptions, rows, significance, holds)


def concentrating_values(
    rows: NearRows, targets: NearTargets, candidates: Sequence[Candidate], *, threads: int = 1
) -> list[tuple[int, list[ConcentratingValue]]]:
    """Return the number of exceptions of each candidate, and the values in which these are concentrated.

    O(n log n) for each candidate, and O(n) for each value that is found.
    """
    totals = totals_of(rows)

    def work(part: Sequence[Candidate]) -> list[tuple[int, list[ConcentratingValue]]]:
        search, counter = ConcentrationSearch(rows, targets, totals), Counter(rows, targets)
        found = []
        for context, number in part:
            shape, target = targets.form(number)
            standing, exceptions, _ = standing_of(rows, counter, shape, context, target)
            places = np.flatnonzero(standing)
            excepted = Excepted(places, standing[places] == UNDECIDED, exceptions)
            found.append((exceptions, search.find(context, number, excepted)))
        return found

    by_context = sorted(range(len(candidates)), key=candidates.__getitem__)
    parts = cut([candidates[place] for place in by_context], threads)
    found = chain.from_iterable(mapped(threads, work, parts))
    in_order = dict(zip(by_context, found, strict=True))
    return [in_order[place] for place in range(len(candidates))]


def totals_of(rows: NearRows) -> list[Ints]:
    """Return the number of rows by column and code. O(columns x n)."""
    return [np.bincount(codes, minlength=int(most)) for codes, most in zip(rows.codes, rows.distinct, strict=True)]


def _among(groups: ContextGroups, kept: Flags) -> ContextGroups:
    """Return groups with the kept rows alone, without groups of fewer than two of them."""
    flags = kept[groups.rows]
    before = np.concatenate([[0], np.cumsum(flags)])[groups.starts]
    sizes = np.diff(before)
    rows = groups.rows[flags][np.repeat(sizes > 1, sizes)]
    return ContextGroups(rows, np.concatenate([[0], np.cumsum(sizes[sizes > 1])]))
