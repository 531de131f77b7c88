"""Which rows are the exceptions: those of the smallest removals, certain where all of these have them.

    key         every row of a group of two or more is undecided: any one of them may stay
    constant    rows outside the largest class of their group; where several classes are largest, theirs are undecided
    order       rows in no longest subsequence are certain, those in some but not all are undecided

Invariant: certain rows are in every smallest removal, undecided ones in some and not in all, all others in none. Rows
with equal values share one fate but in keys and between classes: a removal takes all copies of a point or none.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import NearConstraint, NearShape
from holdfast.discovery.kernels.near import Ints, removed_classes_kernel, removed_points_kernel
from holdfast.discovery.near.counting import Counter, Groups
from holdfast.discovery.near.rows import NearRows

_KEPT, _CERTAIN, _UNDECIDED = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Removal:
    """The exceptions of a constraint.

    Parameters
    ----------
    rows : of the table, in ascending order.
    undecided : which of them some smallest removal leaves where they are.
    exceptions : how many rows a smallest removal has.
    """

    rows: Ints
    undecided: NDArray[np.bool_]
    exceptions: int

    def first(self, count: int) -> "Removal":
        """Return some of the rows, certain ones first."""
        chosen = np.sort(np.argsort(self.undecided, kind="stable")[:count])
        return Removal(self.rows[chosen], self.undecided[chosen], self.exceptions)


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
    if near.shape is NearShape.KEY:
        state[groups.rows] = _UNDECIDED
        exceptions = groups.key_exceptions
    elif near.shape is NearShape.CONSTANT:
        room = np.full((int(rows.distinct[target[0]]), 2), -1, np.int64)
        exceptions = int(removed_classes_kernel(groups.rows, groups.starts, rows.codes[target[0]], room, state))
    else:
        exceptions = _ordered(rows, groups, target, near.shape is NearShape.ORDER_DESC, state)
    found = np.flatnonzero(state != _KEPT)
    found = found[np.argsort(rows.order[found])]
    return Removal(rows.order[found], state[found] == _UNDECIDED, exceptions)


def _ordered(rows: NearRows, groups: Groups, target: list[int], opposite: bool, state: NDArray[np.int8]) -> int:  # noqa: FBT001
    """Note the exceptions of an order compatibility; return how many rows a smallest removal has."""
    a, b = (rows.codes[column] for column in target)
    group = np.repeat(np.arange(len(groups.starts) - 1), np.diff(groups.starts))
    members = groups.rows
    turned = (int(rows.distinct[target[1]]) - b[members] if opposite else b[members]).astype(np.int64)
    by = np.lexsort((turned, a[members], group))
    size = int(np.diff(groups.starts).max(initial=0))
    return int(
        removed_points_kernel(
            members[by],
            groups.starts,
            a,
            turned[by],
            np.zeros((size + 2, 2), np.int64),
            np.empty((size + 1, 6), np.int64),
            state,
        )
    )
