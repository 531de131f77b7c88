"""Which rows are the exceptions: those of the smallest removals, certain where all of these have them.

    key         every row of a group of two or more is undecided: any one of them may stay
    constant    rows outside the largest class of their group; where several classes are largest, theirs are undecided
    order       rows in no longest subsequence are certain, those in some but not all are undecided

Invariant: certain rows are in every smallest removal, undecided ones in some and not in all, all others in none.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import NearConstraint, NearShape
from holdfast.discovery.kernels.near import Ints, removed_classes_kernel, removed_points_kernel
from holdfast.discovery.near.counting import Counter, Groups
from holdfast.discovery.near.rows import NearRows

_UNDECIDED = 2


@dataclass(frozen=True, eq=False)
class Removal:
    """The exceptions of a constraint.

    Parameters
    ----------
    rows : of the table, in ascending order.
    undecided : which of them some smallest removal leaves where they are.
    exceptions : how many rows a smallest removal has.
    violating_pairs : ordered pairs of rows that break the constraint; None of an order compatibility.
    """

    rows: Ints
    undecided: NDArray[np.bool_]
    exceptions: int
    violating_pairs: int | None

    def first(self, count: int) -> list[tuple[int, bool]]:
        """Return some of the rows, certain ones first, and whether each is undecided."""
        chosen = np.sort(np.argsort(self.undecided, kind="stable")[:count])
        return list(zip(self.rows[chosen].tolist(), self.undecided[chosen].tolist(), strict=True))


def removal(rows: NearRows, counter: Counter, near: NearConstraint, names: list[str]) -> Removal:
    """Return the exceptions of a constraint, whatever their number. O(n log n).

    Parameters
    ----------
    counter : of the rows; asked for constraints of one context after the other it keeps the groups.
    names : of the columns of `rows`.
    """
    groups = counter.groups(tuple(sorted(names.index(name) for name in near.context)))
    state = np.zeros(rows.count, np.int8)
    target = [names.index(name) for name in near.target]
    pairs: int | None = None
    if near.shape is NearShape.KEY:
        sizes = np.diff(groups.starts)
        state[groups.rows] = _UNDECIDED
        exceptions, pairs = groups.key_exceptions, int((sizes * (sizes - 1)).sum())
    elif near.shape is NearShape.CONSTANT:
        room = np.full((int(rows.distinct[target[0]]), 2), -1, np.int64)
        exceptions, pairs = removed_classes_kernel(groups.rows, groups.starts, rows.codes[target[0]], room, state)
    else:
        exceptions = _ordered(rows, groups, target, near.shape is NearShape.ORDER_DESC, state)
    found = np.flatnonzero(state)
    found = found[np.argsort(rows.order[found])]
    return Removal(rows.order[found], state[found] == _UNDECIDED, exceptions, pairs)


def _ordered(rows: NearRows, groups: Groups, target: list[int], opposite: bool, state: NDArray[np.int8]) -> int:
    """Note the exceptions of an order compatibility; return how many rows a smallest removal has."""
    members = groups.rows
    a, b = (rows.codes[column][members].astype(np.int64) for column in target)
    if opposite:
        b = int(rows.distinct[target[1]]) - b
    sizes = np.diff(groups.starts)
    shift = int(rows.distinct[target[1]]).bit_length()
    bits = shift + int(rows.distinct[target[0]]).bit_length()
    group, key = np.repeat(np.arange(len(sizes)), sizes), a << shift | b
    by = np.argsort(group << bits | key) if len(sizes).bit_length() + bits < 64 else np.lexsort((key, group))
    size = int(sizes.max(initial=0))
    trees, points = np.zeros((size + 2, 2), np.int64), np.empty((size + 1, 5), np.int64)
    covered = np.empty(size + 1, np.int64)
    return int(removed_points_kernel(members[by], groups.starts, a[by], b[by], trees, points, covered, state))
