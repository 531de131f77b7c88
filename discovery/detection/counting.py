"""Exact counts of the pairs that break a rule, and of the partners of each row, without listing pairs.

- Equalities alone: the partners of a row are the rows of its group.
- A difference (`!=`): the partners are the rows of the group without those that are equal there too, a sum over more
  equalities, with alternating signs for several differences. Groups without a difference are left out before.
- One or two inequalities are swept within each group (`sweep_kernel`): O(n log n), whatever the number of pairs.
- Other rules (three inequalities and more, many differences) are split into lists of rows that break the rule with each
  other (`listing.py`), and counted by the lengths of the lists.

Invariant: counts are of rows of the table, copies included: a row and itself are no pair, its two copies are two.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from holdfast.constraints.operators import EQUAL, GREATER, LESS
from holdfast.discovery.detection.columns import Columns, Sides, SomeRows
from holdfast.discovery.detection.forms import PairForm
from holdfast.discovery.detection.grouping import Grouping
from holdfast.discovery.detection.listing import lists
from holdfast.discovery.detection.sweeping import swept
from holdfast.discovery.kernels.detection import add_lists_kernel, mixed_kernel, rows_kernel
from holdfast.tables.arrays import DenseCodes, Flags, Ints, Positions

_MOST_DIFFERENCES, _MOST_SWEPT = 3, 2
_FEW = 0.5


@dataclass(frozen=True, eq=False)
class RuleCount:
    """The violations of a rule.

    Parameters
    ----------
    pairs : the number of ordered pairs of distinct rows.
    first, second : which rows are t, and which are s, in at least one pair.
    weight : the copies of each row; None where each row is one.
    """

    pairs: int
    first: Flags
    second: Flags
    weight: Ints | None = None

    @property
    def rows(self) -> int:
        """The number of rows in at least one pair, copies included."""
        breaking = self.first | self.second
        return int(np.count_nonzero(breaking) if self.weight is None else self.weight[breaking].sum())

    def among(self, columns: Columns, rows: Positions) -> "RuleCount":
        """Return the violations among all rows of a table, given those among some rows, which are all violations."""
        first, second = np.zeros((2, columns.rows), np.bool_)
        first[rows], second[rows] = self.first, self.second
        return RuleCount(self.pairs, first, second, columns.weight)


def count(columns: Columns, grouping: Grouping, form: PairForm, threads: int = 1) -> RuleCount:
    """Count the pairs that break a rule. O(n log n), except for three inequalities and more."""
    if any(not compared.allowed for compared in form.compared):
        nothing = np.zeros(columns.rows, np.bool_)
        return RuleCount(0, nothing, nothing, columns.weight)
    some = _where_it_differs(columns, grouping, form)
    if some is None:
        return _counted(columns, grouping, form, threads)
    part = SomeRows(columns, some)
    return _counted(part, Grouping(part), form, threads).among(columns, some)


def _counted(columns: Columns, grouping: Grouping, form: PairForm, threads: int) -> RuleCount:
    """Count by the method that fits the rule's form."""
    alone, weight = breaks_alone(columns, form), columns.weight
    if is_counted_by_lists(form):
        as_t, as_s = _by_lists(columns, grouping, form)
    elif not form.inequalities:
        as_t, as_s = _by_sizes(columns, grouping, form)
    elif form.differences or alone is not None:
        as_t, as_s = _swept(columns, grouping, form, threads)
    else:
        t, s = swept(columns, grouping.groups(form.equalities), form, threads)
        return RuleCount(t.pairs, t.found, s.found, weight)
    if alone is not None:
        as_t -= alone
        if as_s is not as_t:
            as_s -= alone
    pairs = int(as_t.sum() if weight is None else weight @ as_t)
    first = as_t > 0
    return RuleCount(pairs, first, first if as_s is as_t else as_s > 0, weight)


def is_counted_by_lists(form: PairForm) -> bool:
    """Whether counting lists rows that break the rule, so that its time grows with the number of pairs."""
    return len(form.differences) > _MOST_DIFFERENCES or len(form.inequalities) > _MOST_SWEPT


def _where_it_differs(columns: Columns, grouping: Grouping, form: PairForm) -> Positions | None:
    """Return the rows whose groups differ in all columns that have to differ; None where these are most rows."""
    if not (form.differences and form.equalities):
        return None
    groups = grouping.groups(form.equalities)
    wanted = np.ones(groups.count, np.bool_)
    for compared in form.differences:
        sides = columns.alike(compared.left, compared.right)
        first, mixed = np.full(groups.count, -1, np.int32), np.zeros(groups.count, np.bool_)
        mixed_kernel(groups.left, sides.left, first, mixed)
        if not (groups.same and sides.same):
            mixed_kernel(groups.right, sides.right, first, mixed)
        wanted &= mixed
    rows = np.empty(int(_FEW * columns.rows) + 1, np.int64)
    found = rows_kernel(groups.left, groups.right, wanted, rows)
    return rows[:found] if found >= 0 else None


def breaks_alone(columns: Columns, form: PairForm) -> Flags | None:
    """Return which rows break a rule with their own copies; None for no rows."""
    if any(c.left == c.right and not c.allowed & EQUAL for c in form.compared):
        return None
    found = np.ones(columns.rows, np.bool_)
    for tests in (form.t_tests, form.s_tests):
        if (passes := columns.passing(tests)) is not None:
            found &= passes
    for compared in form.compared:
        if compared.left != compared.right:
            sides = columns.ranked(compared.left, compared.right)
            outcome = np.where(sides.left < sides.right, LESS, np.where(sides.left == sides.right, EQUAL, GREATER))
            found &= (outcome & compared.allowed) != 0
    return found


def _by_sizes(columns: Columns, grouping: Grouping, form: PairForm) -> tuple[Ints, Ints]:
    """Count by the sizes of groups."""
    as_t, as_s = np.zeros(columns.rows, np.int64), np.zeros(columns.rows, np.int64)
    t_passing, s_passing = columns.passing(form.t_tests), columns.passing(form.s_tests)
    symmetric = form.is_symmetric
    for sign, groups in _signed_groups(grouping, form):
        as_t += (sign * _sizes(groups.right, groups.count, s_passing, columns.weight))[groups.left]
        if not symmetric:
            as_s += (sign * _sizes(groups.left, groups.count, t_passing, columns.weight))[groups.right]
    if symmetric:
        return as_t, as_t
    for counts, passes in ((as_t, t_passing), (as_s, s_passing)):
        if passes is not None:
            counts[~passes] = 0
    return as_t, as_s


def _signed_groups(grouping: Grouping, form: PairForm) -> Iterator[tuple[int, Sides]]:
    """Yield the groups by the equalities and each subset of the differences, with the sign of their pairs."""
    for size in range(len(form.differences) + 1):
        for some in combinations(form.differences, size):
            more = tuple((compared.left, compared.right) for compared in some)
            yield (-1) ** size, grouping.groups((*form.equalities, *more))


def _sizes(groups: DenseCodes, count: int, passes: Flags | None, weight: Ints | None) -> Ints:
    """Return the number of rows of each group, copies included."""
    if passes is not None:
        groups, weight = groups[passes], None if weight is None else weight[passes]
    return np.bincount(groups, weight, minlength=count).astype(np.int64, copy=False)


def _swept(columns: Columns, grouping: Grouping, form: PairForm, threads: int) -> tuple[Ints, Ints]:
    """Count by sweeping groups."""
    as_t, as_s = np.zeros(columns.rows, np.int64), np.zeros(columns.rows, np.int64)
    for sign, groups in _signed_groups(grouping, form):
        t, s = swept(columns, groups, form, threads)
        as_t += sign * t.of_rows
        as_s += sign * s.of_rows
    return as_t, as_s


def _by_lists(columns: Columns, grouping: Grouping, form: PairForm) -> tuple[Ints, Ints]:
    """Count by lists of rows that break the rule with each other."""
    as_t, as_s = np.zeros(columns.rows, np.int64), np.zeros(columns.rows, np.int64)
    weight = np.zeros(0, np.int64) if columns.weight is None else columns.weight
    for found in lists(columns, grouping, form):
        add_lists_kernel(found, weight, as_t, as_s)
    return as_t, as_s
