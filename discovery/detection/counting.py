"""Exactly how many pairs break a rule, and with how many rows each row does, without looking at a pair.

- Equalities alone: a row breaks the rule with as many rows as its group has.
- A difference (`!=`) is all of the group but the part that is equal there too: a sum over more equalities, for several
  differences with alternating signs.
- One or two inequalities are swept within each group (`sweep_kernel`): O(n log n), whatever the number of pairs.
- What is left (three inequalities and more, many differences) is split into lists of rows that break it with each other
  (`listing.py`), and the lists are counted by their lengths.

Invariant: counts are of rows of the table, copies included: a row and itself are no pair, its two copies are two.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints.operators import EQUAL, GREATER, LESS
from holdfast.discovery.detection.columns import Codes, Columns, Sides
from holdfast.discovery.detection.forms import Compared, PairForm
from holdfast.discovery.detection.grouping import Grouping
from holdfast.discovery.detection.listing import lists
from holdfast.discovery.kernels.detection import add_lists_kernel, sweep_kernel
from holdfast.discovery.threads import spread
from holdfast.tables.keys import Flags

Ints = NDArray[np.int64]

_MOST_DIFFERENCES, _MOST_SWEPT = 3, 2
_ROWS_A_THREAD = 1 << 16


@dataclass(frozen=True, eq=False)
class Counted:
    """What breaks a rule.

    Parameters
    ----------
    pairs : ordered pairs of distinct rows.
    as_t, as_s : for each row, with how many rows it breaks the rule in either place.
    weight : copies of each row; None where each is one.
    """

    pairs: int
    as_t: Ints
    as_s: Ints
    weight: Ints | None = None

    @property
    def breaking(self) -> Flags:
        """Which rows are in at least one pair."""
        found: Flags = self.as_t > 0
        return found if self.as_t is self.as_s else found | (self.as_s > 0)

    @property
    def rows(self) -> int:
        """How many rows are in at least one pair, copies included."""
        breaking = self.breaking
        return int(np.count_nonzero(breaking) if self.weight is None else self.weight[breaking].sum())


def count(columns: Columns, grouping: Grouping, form: PairForm, threads: int = 1) -> Counted:
    """Count the pairs that break a rule. O(n log n), but for three inequalities and more."""
    if any(not compared.allowed for compared in form.compared):
        nothing = np.zeros(columns.rows, np.int64)
        return Counted(0, nothing, nothing, columns.weight)
    if len(form.differences) > _MOST_DIFFERENCES or len(form.inequalities) > _MOST_SWEPT:
        as_t, as_s = _by_lists(columns, grouping, form)
    elif form.inequalities:
        as_t, as_s = _swept(columns, grouping, form, threads)
    else:
        as_t, as_s = _by_sizes(columns, grouping, form)
    alone = breaks_alone(columns, form)
    if alone is not None:
        as_t -= alone
        if as_s is not as_t:
            as_s -= alone
    pairs = int(as_t.sum() if columns.weight is None else columns.weight @ as_t)
    return Counted(pairs, as_t, as_s, columns.weight)


def breaks_alone(columns: Columns, form: PairForm) -> Flags | None:
    """Return which rows would break a rule with themselves, as their copies do; None for none."""
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
        sizes = _sizes(groups.right, groups.count, s_passing, columns.weight)
        as_t += sign * sizes[groups.left]
        if not symmetric:
            sizes = _sizes(groups.left, groups.count, t_passing, columns.weight)
            as_s += sign * sizes[groups.right]
    if symmetric:
        return as_t, as_t
    for counts, passes in ((as_t, t_passing), (as_s, s_passing)):
        if passes is not None:
            counts[~passes] = 0
    return as_t, as_s


def _signed_groups(grouping: Grouping, form: PairForm) -> Iterator[tuple[int, Sides]]:
    """Yield the groups by the equalities and some of the differences, with the sign that their pairs count with."""
    for size in range(len(form.differences) + 1):
        for some in combinations(form.differences, size):
            more = tuple((compared.left, compared.right) for compared in some)
            yield (-1) ** size, grouping.groups((*form.equalities, *more))


def _sizes(groups: Codes, count: int, passes: Flags | None, weight: Ints | None) -> Ints:
    """Return how many rows each group has, copies included."""
    if passes is not None:
        groups, weight = groups[passes], None if weight is None else weight[passes]
    return np.bincount(groups, weight, minlength=count).astype(np.int64)


def _swept(columns: Columns, grouping: Grouping, form: PairForm, threads: int) -> tuple[Ints, Ints]:
    """Count by sweeping groups."""
    as_t, as_s = np.zeros(columns.rows, np.int64), np.zeros(columns.rows, np.int64)
    x, *others = (_ascending(columns, compared) for compared in form.inequalities)
    flat = np.zeros(columns.rows, np.int32)
    y = others[0] if others else (flat, flat + np.int32(1))
    weight = np.zeros(0, np.int64) if columns.weight is None else columns.weight
    both = columns.passing(form.t_tests), columns.passing(form.s_tests)
    for sign, groups in _signed_groups(grouping, form):
        t_rows, t_starts = _sorted(groups.left, groups.count, x[0], both[0])
        s_rows, s_starts = _sorted(groups.right, groups.count, x[1], both[1])
        parts = threads if columns.rows > _ROWS_A_THREAD else 1
        bounds = np.searchsorted(t_starts + s_starts, np.linspace(0, len(t_rows) + len(s_rows), parts + 1))
        bounds[0], bounds[-1] = 0, groups.count

        def sweep(part: int, _: object) -> None:
            sweep_kernel(
                t_rows, t_starts, s_rows, s_starts, bounds[part], bounds[part + 1],  # noqa: B023  (called at once)
                x[0], y[0], x[1], y[1], weight, sign, as_t, as_s,  # noqa: B023
            )  # fmt: skip

        spread(range(parts), parts, sweep)
    return as_t, as_s


def _ascending(columns: Columns, compared: Compared) -> tuple[Codes, Codes]:
    """Return codes of t and of s such that the rule asks for t < s."""
    sides = columns.ranked(compared.left, compared.right)
    left, right = sides.left, sides.right
    if compared.allowed & GREATER:
        left, right = sides.count - 1 - left, sides.count - 1 - right
    two, strict = np.int32(2), np.int32(not compared.allowed & EQUAL)
    return two * left.astype(np.int32) + strict, two * right.astype(np.int32) + np.int32(1)


def _sorted(groups: Codes, count: int, x: Codes, passes: Flags | None) -> tuple[Codes, Ints]:
    """Return rows in the order of (group, x), and where each group begins."""
    rows = None if passes is None else np.flatnonzero(passes)
    if rows is not None:
        groups, x = groups[rows], x[rows]
    width = int(x.max(initial=0)) + 1
    order = np.argsort(groups.astype(np.int64) * width + x)
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(groups, minlength=count), out=starts[1:])
    return (order if rows is None else rows[order]).astype(np.int32), starts


def _by_lists(columns: Columns, grouping: Grouping, form: PairForm) -> tuple[Ints, Ints]:
    """Count by lists of rows that break the rule with each other."""
    as_t, as_s = np.zeros(columns.rows, np.int64), np.zeros(columns.rows, np.int64)
    weight = np.zeros(0, np.int64) if columns.weight is None else columns.weight
    for found in lists(columns, grouping, form):
        add_lists_kernel(found.given, found.t_rows, found.t_ends, found.s_rows, found.s_ends, weight, as_t, as_s)
    return as_t, as_s
