"""Which rows are the exceptions of a constraint: the rows of its smallest removals, certain if in all of them.

    key         every row of a group of two or more is undecided: any one row may stay
    constant    rows outside the largest class of their group; where several classes are largest, theirs are undecided
    order       rows in no longest subsequence are certain, those in some but not all are undecided

Invariant: certain rows are in every smallest removal, undecided ones in some and not in all, all others in none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.constraints import NearConstraint, NearShape
from holdfast.discovery.kernels.near import ContextGroups
from holdfast.discovery.kernels.near_removal import removed_classes_kernel, removed_points_kernel
from holdfast.discovery.near.counting import Context, Counter
from holdfast.discovery.near.rows import NearRows
from holdfast.indexes.kernels.exceptions import UNDECIDED
from holdfast.tables.arrays import Flags, Ints, Standing


@dataclass(frozen=True, eq=False)
class Removal:
    """The exceptions of a constraint.

    Parameters
    ----------
    rows : of the table, in ascending order.
    undecided : which of these rows are not in all smallest removals.
    exceptions : the number of rows of a smallest removal.
    violating_pairs : ordered pairs of rows that break the constraint; None of an order compatibility.
    """

    rows: Ints
    undecided: Flags
    exceptions: int
    violating_pairs: int | None

    def first(self, count: int) -> list[tuple[int, bool]]:
        """Return the first rows, certain rows first, and whether each is undecided."""
        chosen = np.sort(np.argsort(self.undecided, kind="stable")[:count])
        return list(zip(self.rows[chosen].tolist(), self.undecided[chosen].tolist(), strict=True))


def removal(rows: NearRows, counter: Counter, near: NearConstraint, names: list[str]) -> Removal:
    """Return the exceptions of a constraint, of any number. O(n log n).

    Parameters
    ----------
    counter : counts the rows; it keeps the groups for further constraints with the context.
    names : the names of the columns of `rows`.
    """
    context = tuple(sorted(names.index(name) for name in near.context))
    standing, exceptions, pairs = standing_of(rows, counter, near.shape, context, [names.index(n) for n in near.target])
    found = np.flatnonzero(standing)
    found = found[np.argsort(rows.order[found])]
    return Removal(rows.order[found], standing[found] == UNDECIDED, exceptions, pairs)


def standing_of(
    rows: NearRows, counter: Counter, shape: NearShape, context: Context, target: Sequence[int]
) -> tuple[Standing, int, int | None]:
    """Return the standing of each row with codes, the number of exceptions, and the violating pairs.

    Parameters
    ----------
    context, target : columns of `rows`.
    """
    groups = counter.groups(context)
    standing = np.zeros(rows.codes.shape[1], np.int8)
    if shape is NearShape.KEY:
        sizes = np.diff(groups.starts)
        standing[groups.rows] = UNDECIDED
        return standing, groups.key_exceptions, int((sizes * (sizes - 1)).sum())
    if shape is NearShape.CONSTANT:
        room = np.full((int(rows.distinct[target[0]]), 2), -1, np.int64)
        found = removed_classes_kernel(groups.rows, groups.starts, rows.codes[target[0]], room, standing)
        return standing, *found
    return standing, _ordered(rows, groups, target, shape is NearShape.ORDER_DESC, standing), None


def _ordered(rows: NearRows, groups: ContextGroups, target: Sequence[int], opposite: bool, standing: Standing) -> int:
    """Write the exceptions of an order compatibility; return the number of rows of a smallest removal."""
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
    return int(removed_points_kernel(members[by], groups.starts, a[by], b[by], trees, points, covered, standing))
