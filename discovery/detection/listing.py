"""The pairs of rows that break a rule, compressed: lists of rows t and s, all rows t breaking it with all rows s.

The rows are split into groups by the rule's equalities, then by one column pair after the other [FACET]. Lists are
returned as they are found, as many at a time as fit into buffers of bounded size, and expanded to pairs in chunks.
"""

from collections.abc import Iterator

import numpy as np

from holdfast.discovery.detection.columns import Columns
from holdfast.discovery.detection.forms import PairForm
from holdfast.discovery.detection.grouping import Grouping, by_group
from holdfast.discovery.kernels.detection import SMALL, Lists, expand_kernel, refine_kernel, rows_among_kernel
from holdfast.discovery.kernels.partitions import Partition
from holdfast.tables.arrays import DenseCodes, Flags, Ints

_BUFFER = 1 << 18
_LEVELS = 32


def lists(
    columns: Columns,
    grouping: Grouping,
    form: PairForm,
    t_among: Flags | None = None,
    s_among: Flags | None = None,
) -> Iterator[Lists]:
    """Yield lists of rows that break a rule with each other (or with themselves); their arrays are reused.

    Parameters
    ----------
    t_among, s_among : the rows to consider as t and as s; None for all rows.
    """
    if any(not compared.allowed for compared in form.compared):
        return
    groups = grouping.groups(form.equalities)
    t_among, s_among = (
        _both(columns.passing(tests), among) for tests, among in ((form.t_tests, t_among), (form.s_tests, s_among))
    )
    t_groups = groups.left if t_among is None else groups.left[t_among]
    s_rows = _rows(groups.right, _flags(t_groups, groups.count), s_among)
    t_rows = _rows(groups.left, _flags(groups.right[s_rows], groups.count), t_among)
    t_rows, t_starts = by_group(t_rows, groups.left, groups.count)
    s_rows, s_starts = by_group(s_rows, groups.right, groups.count)
    asked = (*form.inequalities, *form.differences)
    sides = [columns.ranked(c.left, c.right) if c.needs_order else columns.alike(c.left, c.right) for c in asked]
    left, right = np.empty((len(sides), len(t_rows)), np.int32), np.empty((len(sides), len(s_rows)), np.int32)
    for i, side in enumerate(sides):
        np.take(side.left, t_rows, out=left[i])
        np.take(side.right, s_rows, out=right[i])
    allowed = np.array([compared.allowed for compared in asked], np.int64)
    t_places, s_places = (np.arange(len(rows), dtype=np.int32) for rows in (t_rows, s_rows))
    partition = Partition(t_places, t_starts, s_places, s_starts)
    room = max(_BUFFER, len(t_rows), len(s_rows))
    t_out, s_out = np.empty(room, np.int32), np.empty(room, np.int32)
    t_ends, s_ends = np.empty(_BUFFER, np.int64), np.empty(_BUFFER, np.int64)
    stack, state = np.empty((4 * _LEVELS * (len(asked) + 1), 5), np.int64), np.zeros(2, np.int64)
    most = SMALL
    while True:
        out = Lists(0, t_out, t_ends[:most], s_out, s_ends[:most])
        given = refine_kernel(partition, left, right, allowed, stack, state, out)
        if given:
            t_listed, s_listed = t_rows[t_out[: t_ends[given - 1]]], s_rows[s_out[: s_ends[given - 1]]]
            yield Lists(given, t_listed, t_ends, s_listed, s_ends)
        if state[0] == len(t_starts) - 1 and state[1] == 0:
            return
        most = min(2 * most, _BUFFER)  # few lists at first, as they may be enough


def pairs(found: Iterator[Lists], at_once: int = 1 << 20) -> Iterator[Ints]:
    """Yield (m, 2) pairs of two different rows of lists, at most `at_once` at a time."""
    made, filled = np.empty((at_once, 2), np.int64), 0
    for one in found:
        state = np.zeros(3, np.int64)
        while state[0] < one.given:
            filled += expand_kernel(one, state, made[filled:])
            if filled == at_once:
                yield made.copy()
                filled = 0
    if filled:
        yield made[:filled].copy()


def _both(one: Flags | None, other: Flags | None) -> Flags | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _flags(groups: DenseCodes, count: int) -> Flags:
    found = np.zeros(count, np.bool_)
    found[groups] = True
    return found


def _rows(groups: DenseCodes, wanted: Flags, among: Flags | None) -> DenseCodes:
    """Return the rows of wanted groups for which `among` is true, in ascending order. O(n)."""
    rows = np.empty(len(groups), np.int32)
    return rows[: rows_among_kernel(groups, wanted, np.zeros(0, np.bool_) if among is None else among, rows)]
