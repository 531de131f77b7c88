"""Answers to questions counted on all rows, for constraints whose decision is close in a sample.

    context     groups of all rows -> informative rows, pairs in groups
    question    the pairs in these groups that satisfy predicates, counted as `check` counts violations

Pairs are counted without being listed, in O(m log m), where a question has at most two inequalities and three
differences, and at most `_MOST_ROWS` rows are in groups. Otherwise pairs are compared one by one: all of them, or
`_MOST_COMPARED` that are drawn by lot from the groups of all rows.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from holdfast.constraints import NearShape, PredicateSpace
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME, GREATER, LESS
from holdfast.discovery.detection.columns import Columns, SomeRows
from holdfast.discovery.detection.counting import count, is_counted_by_lists
from holdfast.discovery.detection.forms import Compared, PairForm
from holdfast.discovery.detection.grouping import Grouping
from holdfast.discovery.kernels.near import ContextGroups
from holdfast.discovery.near.counting import Context, Counter
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.swaps import sampled_pairs
from holdfast.discovery.near.targets import NearTargets
from holdfast.discovery.soundness.measured import Measured
from holdfast.discovery.soundness.questions import PairRates, Questions
from holdfast.discovery.threads import cut
from holdfast.indexes.masks import outcomes_of
from holdfast.indexes.threads import mapped
from holdfast.tables.arrays import DenseCodes, Flags, Ints, Outcomes, Positions, Rows

_MOST_ROWS, _MOST_COMPARED = 1 << 18, 1 << 17


class EveryRow:
    """All rows of a table that are at hand, in groups that agree on some of its columns.

    Parameters
    ----------
    measured : the table.
    columns : the columns that contexts may have, by their positions in the schema.
    """

    def __init__(self, measured: Measured, columns: Ints) -> None:
        self.columns: Columns = measured.every
        codes = [self.columns.alike(column, column).left for column in columns.tolist()]
        weight = self.columns.weight
        self._has_copies = weight is not None and bool((weight > 1).any())
        self.rows = NearRows.of_codes(codes, columns, self.columns.rows, weight if self._has_copies else None)
        self.scale = measured.rows / max(measured.at_hand, 1)

    def counter(self) -> Counter:
        """Return what finds groups in one thread."""
        return Counter(self.rows, NearTargets(self.rows, frozenset({NearShape.KEY})))

    def informative(self, groups: ContextGroups) -> float:
        """Return the rows besides the first one of each group, for as many rows as the table has."""
        return groups.key_exceptions * self.scale

    def distinct(self, rows: Rows) -> Positions:
        """Return rows in groups without their copies."""
        return np.unique(rows).astype(np.int64) if self._has_copies else rows.astype(np.int64)


def count_informative(
    answers: PairRates, questions: Questions, every: EveryRow, space: PredicateSpace, threads: int
) -> None:
    """Count the informative rows of whole constraints. O(n) for each context."""

    def work(some: Sequence[tuple[Context, Positions]]) -> None:
        counter = every.counter()
        for context, numbers in some:
            answers.informative[numbers] = every.informative(counter.groups(context))

    tasks = questions.by_context(np.flatnonzero(questions.is_whole), every.rows.columns, space)
    mapped(threads, work, cut(tasks, threads))


def count_exactly(
    answers: PairRates, questions: Questions, some: Positions, every: EveryRow, space: PredicateSpace, threads: int
) -> None:
    """Replace the answers to some questions by those of all rows. O(n) for each context, then as the module says."""
    others, last = (outcomes_of(masks[some], space) for masks in (questions.others, questions.last))
    place = np.zeros(len(questions.number), np.int64)
    place[some] = np.arange(len(some))

    def work(part: Sequence[tuple[Context, Positions]]) -> None:
        counter = every.counter()
        for context, numbers in part:
            groups = counter.groups(context)
            answers.informative[numbers] = every.informative(groups)
            pairs = _PairsInGroups(every, groups)
            for number in numbers.tolist():
                given = _compared(others[:, place[number]], space)
                asked = () if questions.is_whole[number] else _compared(last[:, place[number]], space)
                found = pairs.rates(given, asked)
                answers.share[:, number], answers.rate[:, number] = found

    tasks = questions.by_context(some, every.rows.columns, space)
    mapped(threads, work, cut(tasks, threads))


class _PairsInGroups:
    """Counts pairs of rows in the groups of one context."""

    def __init__(self, every: EveryRow, groups: ContextGroups) -> None:
        self._every, self._groups = every.columns, groups
        self._rows = SomeRows(every.columns, every.distinct(groups.rows))
        self._grouping = Grouping(self._rows)
        self._counts: dict[tuple[Compared, ...], int] = {}
        self._satisfied: dict[Compared, Flags] = {}

    def rates(self, others: tuple[Compared, ...], last: tuple[Compared, ...]) -> tuple[float, float]:
        """Return the share of the pairs that satisfy some predicates, and how often these satisfy the last one.

        Without a last one, no pair satisfies it.
        """
        pairs = self._groups.pairs
        if len(self._groups.rows) > _MOST_ROWS or is_counted_by_lists(PairForm(others + last)):
            return self._rates_of_some(others, last)
        satisfied = self._count(others)
        with_last = self._count(tuple(sorted(others + last, key=_by_columns))) if last else 0
        return satisfied / max(pairs, 1), with_last / max(satisfied, 1)

    def _count(self, compared: tuple[Compared, ...]) -> int:
        """Return the number of pairs in groups that satisfy predicates, those of the context among them."""
        if all(one.left == one.right and one.allowed == EQUAL for one in compared):
            return self._groups.pairs
        if compared not in self._counts:
            self._counts[compared] = count(self._rows, self._grouping, PairForm(compared)).pairs
        return self._counts[compared]

    def _rates_of_some(self, others: tuple[Compared, ...], last: tuple[Compared, ...]) -> tuple[float, float]:
        """Return the same by comparing pairs, all or a part of them."""
        satisfied = self._satisfying(others)
        with_last = int((satisfied & self._satisfying(last)).sum()) if last else 0
        found = int(satisfied.sum())
        return found / max(len(satisfied), 1), with_last / max(found, 1)

    @cached_property
    def _some(self) -> tuple[Rows, Rows]:
        """The pairs that are compared."""
        return sampled_pairs(self._groups, _MOST_COMPARED)

    def _satisfying(self, compared: tuple[Compared, ...]) -> Flags:
        """Return which of the pairs that are compared satisfy predicates."""
        t, s = self._some
        found = np.ones(len(t), np.bool_)
        for one in compared:
            if one not in self._satisfied:
                sides = (self._every.ranked if one.needs_order else self._every.alike)(one.left, one.right)
                self._satisfied[one] = _is_allowed(sides.left[t], sides.right[s], one.allowed)
            found &= self._satisfied[one]
        return found


def _is_allowed(a: DenseCodes, b: DenseCodes, allowed: int) -> Flags:
    """Return where the outcome between two codes is allowed."""
    found = (a == b) if allowed & EQUAL else np.zeros(len(a), np.bool_)
    if allowed & LESS:
        found |= a < b
    if allowed & GREATER:
        found |= a > b
    return found


def _compared(outcomes: Outcomes, space: PredicateSpace) -> tuple[Compared, ...]:
    """Return the outcomes that predicates allow, of the column pairs that they compare."""
    allowed = zip(space.pairs, outcomes.tolist(), strict=True)
    return tuple(Compared(pair.left, pair.right, some) for pair, some in allowed if some != EVERY_OUTCOME)


def _by_columns(one: Compared) -> tuple[int, int]:
    return one.left, one.right
