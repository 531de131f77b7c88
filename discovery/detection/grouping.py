"""Groups of rows by the equalities of a rule: rows as t and rows as s that agree on all of them.

A row has the number of a group on each side. Equalities are applied in one order for all rules, the most frequent
first, so that rules share the groups of their common prefixes, which are kept [FACET].
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from holdfast.discovery.detection.columns import Columns, Sides, most_codes
from holdfast.discovery.detection.forms import PairForm
from holdfast.discovery.kernels.detection import by_group_kernel, number_kernel
from holdfast.tables.arrays import DenseCodes, Ints

Pair = tuple[int, int]


class Grouping:
    """The groups of one table's rows.

    Parameters
    ----------
    columns : the table.
    forms : rules whose equalities decide the order in which groups are split.
    """

    def __init__(self, columns: Columns, forms: Iterable[PairForm] = ()) -> None:
        self._columns = columns
        asked = Counter(pair for form in forms for pair in form.equalities)
        self._order = {
            pair: place for place, (pair, _) in enumerate(sorted(asked.items(), key=lambda a: (-a[1], a[0])))
        }

    def groups(self, equalities: Iterable[Pair]) -> Sides:
        """Return for each row its group as t and as s. O(n) for each equality that was not applied before."""
        last = len(self._order)
        return self._of(tuple(sorted(equalities, key=lambda pair: (self._order.get(pair, last), pair))))

    def _of(self, equalities: tuple[Pair, ...]) -> Sides:
        if not equalities:
            none = np.zeros(self._columns.rows, np.int32)
            return Sides(none, none, 1)
        if len(equalities) == 1:
            return self._columns.alike(*equalities[0])
        return self._columns.once.get(("groups", equalities), lambda: self._split(equalities))

    def _split(self, equalities: tuple[Pair, ...]) -> Sides:
        """Split the groups of all equalities but the last by the last equality."""
        above, by = self._of(equalities[:-1]), self._of(equalities[-1:])
        same = above.same and by.same
        groups = above.left if same else np.concatenate([above.left, above.right])
        codes = by.left if same else np.concatenate([by.left, by.right])
        count = above.count * by.count
        if count <= most_codes(self._columns.rows):
            numbers = groups * np.int32(by.count) + codes
        else:
            rows, _ = by_group(np.arange(len(groups), dtype=np.int32), groups, above.count)
            numbers, last = np.empty_like(groups), np.full((2, by.count), -1, np.int32)
            count = number_kernel(rows, groups, codes, last[0], last[1], numbers)
        left = numbers[: self._columns.rows]
        return Sides(left, left if same else numbers[self._columns.rows :], count)


def by_group(rows: DenseCodes, groups: DenseCodes, count: int) -> tuple[DenseCodes, Ints]:
    """Return rows sorted by group, stably, and where each group begins. O(n)."""
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(groups[rows], minlength=count), out=starts[1:])
    found = np.empty_like(rows)
    by_group_kernel(rows, groups, starts[:-1].copy(), found)
    return found, starts
