"""The pairs of rows that break a rule, in compressed groups: lists of rows t and s, all of which break it together.

The rows are split into groups by the rule's equalities, then by one column pair after the other [FACET]. Groups come as
they are found, as many at a time as fit into buffers of bounded size; pairs are made of them in chunks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.discovery.detection.columns import Codes, Columns
from holdfast.discovery.detection.forms import PairForm
from holdfast.discovery.detection.grouping import Grouping
from holdfast.discovery.kernels.detection import expand_kernel, refine_kernel
from holdfast.tables.keys import Flags

Ints = NDArray[np.int64]

_BUFFER = 1 << 18
_LEVELS = 32


@dataclass(frozen=True, eq=False)
class Lists:
    """Pairs of lists: the rows of the i-th end at `t_ends[i]` and `s_ends[i]`."""

    given: int
    t_rows: Codes
    t_ends: Ints
    s_rows: Codes
    s_ends: Ints


def lists(
    columns: Columns,
    grouping: Grouping,
    form: PairForm,
    t_among: Flags | None = None,
    s_among: Flags | None = None,
) -> Iterator[Lists]:
    """Yield lists of rows that break a rule with each other (or with themselves); what is yielded is used again.

    Parameters
    ----------
    t_among, s_among : the rows that are looked at in either place.
    """
    if any(not compared.allowed for compared in form.compared):
        return
    groups = grouping.groups(form.equalities)
    t_some, s_some = (
        np.flatnonzero(_both(columns.passing(tests), among, columns.rows))
        for tests, among in ((form.t_tests, t_among), (form.s_tests, s_among))
    )
    common = np.zeros(groups.count, np.bool_)
    common[groups.left[t_some]] = True
    also = np.zeros(groups.count, np.bool_)
    also[groups.right[s_some]] = True
    common &= also
    t_rows, t_starts = _by_group(t_some, groups.left, common)
    s_rows, s_starts = _by_group(s_some, groups.right, common)
    asked = (*form.inequalities, *form.differences)
    sides = [columns.ranked(c.left, c.right) if c.needs_order else columns.alike(c.left, c.right) for c in asked]
    left = np.stack([side.left for side in sides]) if sides else np.zeros((0, 1), np.int32)
    right = np.stack([side.right for side in sides]) if sides else np.zeros((0, 1), np.int32)
    allowed = np.array([compared.allowed for compared in asked], np.int64)
    room = max(_BUFFER, len(t_rows), len(s_rows))
    t_out, s_out = np.empty(room, np.int32), np.empty(room, np.int32)
    t_ends, s_ends = np.empty(_BUFFER, np.int64), np.empty(_BUFFER, np.int64)
    stack, state = np.empty((4 * _LEVELS * (len(asked) + 1), 5), np.int64), np.zeros(2, np.int64)
    while True:
        given = refine_kernel(
            t_rows, t_starts, s_rows, s_starts, left, right, allowed, stack, state, t_out, t_ends, s_out, s_ends
        )
        if given:
            yield Lists(given, t_out, t_ends, s_out, s_ends)
        if state[0] == len(t_starts) - 1 and state[1] == 0:
            return


def pairs(found: Iterator[Lists], at_once: int = 1 << 20) -> Iterator[Ints]:
    """Yield (m, 2) pairs of two different rows of some lists, at most so many at once."""
    made, filled = np.empty((at_once, 2), np.int64), 0
    for one in found:
        state = np.zeros(3, np.int64)
        while state[0] < one.given:
            filled += expand_kernel(one.given, one.t_rows, one.t_ends, one.s_rows, one.s_ends, state, made[filled:])
            if filled == at_once:
                yield made.copy()
                filled = 0
    if filled:
        yield made[:filled].copy()


def _both(one: Flags | None, other: Flags | None, rows: int) -> Flags:
    if one is None or other is None:
        alone = one if other is None else other
        return np.ones(rows, np.bool_) if alone is None else alone
    return one & other


def _by_group(rows: Ints, groups: Codes, wanted: Flags) -> tuple[Codes, Ints]:
    """Return rows of wanted groups, group by group, and where each begins."""
    rows = rows[wanted[groups[rows]]]
    order = np.argsort(groups[rows], kind="stable")
    sizes = np.bincount(groups[rows], minlength=len(wanted))[wanted]
    return rows[order].astype(np.int32), np.concatenate([[0], np.cumsum(sizes)])
