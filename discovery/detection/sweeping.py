"""Counts of the pairs of one or two inequalities, group by group, in O(n log n) for any number of pairs.

Oriented so that a rule requires t.x < s.x and t.y < s.y, two inequalities span a plane. Its *places* (x, y) are
numbered once for all rules with the same inequalities. The rows of a group at one place are a *point*: they have the
same partners, so points are swept, not rows. On a million tax records `State=, Salary>, Rate<` has some 1,500 points.

Invariant: points are sorted by (group, place), and places by (x, y).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints.operators import EQUAL, GREATER
from holdfast.discovery.detection.columns import Columns, Sides, most_codes
from holdfast.discovery.detection.forms import Compared, PairForm
from holdfast.discovery.detection.grouping import by_group
from holdfast.discovery.kernels.detection import PointSide, points_kernel, sweep_kernel, tight_kernel
from holdfast.discovery.threads import spread
from holdfast.tables.arrays import DenseCodes, Flags, Ints

Scalar = TypeVar("Scalar", np.int64, np.bool_)

_POINTS_A_THREAD = 1 << 14


@dataclass(frozen=True, eq=False)
class _Plane:
    """The places of rows.

    Parameters
    ----------
    place : the place of each row.
    x, y : the coordinates of each place, even numbers.
    """

    place: DenseCodes
    x: DenseCodes
    y: DenseCodes

    @cached_property
    def order(self) -> DenseCodes:
        """The rows sorted by place. O(n)."""
        return by_group(np.arange(len(self.place), dtype=np.int32), self.place, len(self.x))[0]


@dataclass(frozen=True, eq=False)
class _Points:
    """The points of some rows.

    Parameters
    ----------
    starts : (groups + 1,) where the points of each group begin.
    at : the place of each point.
    weight : the number of rows of each point, copies included.
    number : the number of each row's point; a number without a point for rows that are not considered.
    cells : the number of each point, where numbers have gaps; else None.
    count : a number above all numbers.
    """

    starts: Ints
    at: DenseCodes
    weight: Ints
    number: DenseCodes
    cells: Ints | None
    count: int

    def side(self, plane: _Plane, more_x: np.int32, more_y: np.int32) -> PointSide:
        """Return the points as the sweep takes them, with numbers added to x and y."""
        return PointSide(self.starts, plane.x[self.at] + more_x, plane.y[self.at] + more_y, self.weight)


@dataclass(frozen=True, eq=False)
class Swept:
    """The partners of each row within its group by a rule's inequalities, as t or as s.

    Parameters
    ----------
    points, counts : the points of the rows, and the number of partners of each point.
    passes : the rows that pass the rule's tests, others having no partners; None for all rows.
    """

    points: _Points
    counts: Ints
    passes: Flags | None

    @property
    def pairs(self) -> int:
        """The sum of partners over all rows."""
        return int(self.points.weight @ self.counts)

    @property
    def of_rows(self) -> Ints:
        """The number of partners of each row."""
        return self._of_rows(self.counts)

    @property
    def found(self) -> Flags:
        """Which rows have partners."""
        return self._of_rows(self.counts > 0)

    def _of_rows(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        numbered = np.zeros(self.points.count, values.dtype)
        numbered[slice(len(values)) if self.points.cells is None else self.points.cells] = values
        found = numbered[self.points.number]
        if self.passes is not None:
            found[~self.passes] = 0
        return found


def swept(columns: Columns, groups: Sides, form: PairForm, threads: int) -> tuple[Swept, Swept]:
    """Count the partners of each row within its group, as t and as s."""
    x, *others = form.inequalities
    y = others[0] if others else None
    passes = columns.passing(form.t_tests), columns.passing(form.s_tests)
    t_plane, s_plane = _plane(columns, x, y, 0), _plane(columns, x, y, 1)
    t_points = _points(columns, t_plane, groups.left, groups.count, passes[0])
    s_points = t_points
    if t_plane is not s_plane or not groups.same or form.t_tests != form.s_tests:
        s_points = _points(columns, s_plane, groups.right, groups.count, passes[1])
    t_side = t_points.side(t_plane, _strict(x), _strict(y))
    s_side = s_points.side(s_plane, np.int32(1), np.int32(1))
    as_t, as_s = np.zeros(len(t_side.x), np.int64), np.zeros(len(s_side.x), np.int64)
    points = len(as_t) + len(as_s)
    parts = threads if points > _POINTS_A_THREAD else 1
    bounds = np.searchsorted(t_points.starts + s_points.starts, np.linspace(0, points, parts + 1))
    bounds[0], bounds[-1] = 0, groups.count

    def sweep(part: int, _: object) -> None:
        sweep_kernel(t_side, s_side, bounds[part], bounds[part + 1], as_t, as_s)

    if parts == 1:
        sweep(0, None)
    else:
        spread(range(parts), parts, sweep)
    return Swept(t_points, as_t, passes[0]), Swept(s_points, as_s, passes[1])


def _strict(compared: Compared | None) -> np.int32:
    """Return the number added to even numbers of t, where s adds 1, so that t < s is what the rule requires."""
    return np.int32(compared is not None and not compared.allowed & EQUAL)


def _plane(columns: Columns, x: Compared, y: Compared | None, side: int) -> _Plane:
    """Return the places of rows as t (0) or as s (1). O(n log n) for inequalities not used before."""
    axes = tuple((c.left, c.right, c.allowed & GREATER) for c in (x, y) if c is not None)
    if all(left == right for left, right, _ in axes):
        side = 0

    def make() -> _Plane:
        xs = _ascending(columns, x, side)
        ys = np.zeros(columns.rows, np.int32) if y is None else _ascending(columns, y, side)
        place, count = _ranks(xs, ys, most_codes(columns.rows))
        at = np.empty((2, count), np.int32)
        at[0, place], at[1, place] = xs, ys
        return _Plane(place, at[0], at[1])

    return columns.once.get(("plane", axes, side), make)


def _ranks(xs: DenseCodes, ys: DenseCodes, most: int) -> tuple[DenseCodes, int]:
    """Return the rank of each (x, y) among the distinct ones, and their number."""
    (one, ones), (other, others) = (_tight(codes, most) for codes in (xs, ys))
    if ones * others <= most:
        return _tight(one * np.int32(others) + other, most)
    keys = one.astype(np.int64) * others + other
    order = np.argsort(keys)
    keys = keys[order]
    begins = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=begins[1:])
    ranks = np.empty(len(keys), np.int32)
    ranks[order] = np.cumsum(begins, dtype=np.int32) - np.int32(1)
    return ranks, int(np.count_nonzero(begins))


def _tight(codes: DenseCodes, most: int) -> tuple[DenseCodes, int]:
    """Return ranks of codes without gaps, if there are few codes, and a number above all ranks."""
    count = int(codes.max(initial=-1)) + 1
    if count > most:
        return codes, count
    ranks = codes.copy()
    return ranks, tight_kernel(ranks, np.zeros(count, np.int32))


def _ascending(columns: Columns, compared: Compared, side: int) -> DenseCodes:
    """Return even numbers for t, or for s, such that the rule requires t < s or t <= s."""
    sides = columns.ranked(compared.left, compared.right)
    codes = sides.right if side else sides.left
    if compared.allowed & GREATER:
        codes = np.int32(sides.count - 1) - codes
    return np.int32(2) * codes


def _points(columns: Columns, plane: _Plane, groups: DenseCodes, count: int, passes: Flags | None) -> _Points:
    """Return the points of the rows that pass. O(n), without sorting."""
    places = len(plane.x)
    if count * places <= most_codes(columns.rows):
        number = groups * np.int32(places) + plane.place
        taken, weight = number, columns.weight
        if passes is not None:
            taken, weight = number[passes], None if weight is None else weight[passes]
        weights = np.bincount(taken, weight, minlength=count * places)
        cells = np.flatnonzero(weights)
        starts = np.searchsorted(cells, np.arange(count + 1) * places)
        at = (cells % max(places, 1)).astype(np.int32)
        return _Points(starts, at, weights[cells].astype(np.int64), number, cells, count * places)
    rows = plane.order if passes is None else plane.order[passes[plane.order]]
    rows, _ = by_group(rows, groups, count)
    number = np.full(columns.rows, len(rows), np.int32)
    at, weights, starts = np.empty(len(rows), np.int32), np.empty(len(rows), np.int64), np.zeros(count + 1, np.int64)
    one = np.zeros(0, np.int64) if columns.weight is None else columns.weight
    points = points_kernel(rows, groups, plane.place, one, number, at, weights, starts)
    return _Points(starts, at[:points], weights[:points], number, None, len(rows) + 1)
