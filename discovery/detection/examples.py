"""A few of the pairs that break a rule, as examples.

Invariant: the pairs break the rule; which pairs are chosen depends on the rows alone.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np

from holdfast.constraints.conditions import Atom
from holdfast.constraints.operators import EQUAL
from holdfast.discovery.detection.columns import Columns, RowColumns
from holdfast.discovery.detection.counting import breaks_alone
from holdfast.discovery.detection.forms import PairForm
from holdfast.discovery.detection.grouping import Grouping
from holdfast.discovery.detection.listing import lists, pairs
from holdfast.indexes.kernels.count import Box, first_in_box_kernel
from holdfast.indexes.rows import RowSet
from holdfast.tables.arrays import Flags, Slots

Pair = tuple[int, int]

_LOOKED_AT, _PAIRS_LOOKED_AT = 1 << 12, 1 << 12


def first_of(flags: Flags, most: int) -> Flags:
    """Return the first flagged rows, some more than pairs are wanted."""
    end = _LOOKED_AT
    while len(some := np.flatnonzero(flags[:end])) < 4 * most and end < len(flags):
        end *= 16
    first = np.zeros(len(flags), np.bool_)
    first[some[: 4 * most]] = True
    return first


def some_pairs(
    columns: Columns,
    grouping: Grouping,
    form: PairForm,
    most: int,
    t_among: Flags | None = None,
    s_among: Flags | None = None,
) -> list[Pair]:
    """Return some pairs that break a rule, as different as possible; two copies of a row are that row twice.

    Parameters
    ----------
    t_among, s_among : the rows to consider as t and as s; None for all rows.
    """
    if not most:
        return []
    found = next(pairs(lists(columns, grouping, form, t_among, s_among), _PAIRS_LOOKED_AT), None)
    some: list[Pair] = [] if found is None else sorted((t, s) for t, s in found.tolist())
    if columns.weight is not None and (alone := breaks_alone(columns, form)) is not None:
        some += [(row, row) for row in np.flatnonzero(alone & (columns.weight > 1))[:most].tolist()]
    return chosen(some, most)


def chosen(some: Sequence[Pair], most: int) -> list[Pair]:
    """Return up to `most` pairs, pairs without a common row first, and no pair in both orders.

    >>> chosen([(1, 2), (1, 3), (2, 1), (4, 5)], 2), chosen([(1, 2), (1, 3), (2, 1)], 3)
    ([(1, 2), (4, 5)], [(1, 2), (1, 3)])
    """
    apart: dict[Pair, None] = {}
    used: set[int] = set()
    for t, s in some:
        if t not in used and s not in used:
            apart[t, s] = None
            used |= {t, s}
    for t, s in some:
        if (s, t) not in apart:
            apart[t, s] = None
    return list(islice(apart, most))


def pair_with(rows: RowSet, form: PairForm, row: int) -> Pair | None:
    """Return a pair of live rows that breaks a rule, one row given by its slot; None without any. O(n)."""
    turned = tuple(compared.mirror for compared in form.compared)
    for is_turned, (compared, own, theirs) in enumerate(
        ((form.compared, form.t_tests, form.s_tests), (turned, form.s_tests, form.t_tests))
    ):
        if not len(_passing(rows, np.array([row]), own)):
            continue
        asked = sorted(compared, key=lambda c: c.allowed != EQUAL)
        box = Box(*(np.array([getattr(c, name) for c in asked], np.int64) for name in ("left", "right", "allowed")))
        other, end = -1, len(rows.copies)
        while (other := first_in_box_kernel(row, rows.codes, rows.copies, other + 1, end, box)) < end:
            if len(_passing(rows, np.array([other]), theirs)):
                return (other, row) if is_turned else (row, other)
    return None


def _passing(rows: RowSet, slots: Slots, tests: tuple[Atom, ...]) -> Slots:
    passes = RowColumns(rows, slots).passing(tests)
    return slots if passes is None else slots[passes]
