"""Rows by the equalities of a rule: which rows as t and which as s agree on all of them.

A group is a number that rows have on each side. Equalities are taken in one order for all rules, those that most rules
have first, so that rules share the groups of their common beginnings, which are kept [FACET].
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from holdfast.discovery.detection.columns import Columns, Sides, factorised
from holdfast.discovery.detection.forms import PairForm

Pair = tuple[int, int]

_SPREAD = 4


class Grouping:
    """The groups of one table's rows.

    Parameters
    ----------
    columns : the table.
    forms : the rules that will ask.
    """

    def __init__(self, columns: Columns, forms: Iterable[PairForm] = ()) -> None:
        self._columns = columns
        asked = Counter(pair for form in forms for pair in form.equalities)
        self._order = {
            pair: place for place, (pair, _) in enumerate(sorted(asked.items(), key=lambda a: (-a[1], a[0])))
        }

    def groups(self, equalities: Iterable[Pair]) -> Sides:
        """Return for each row its group as t and as s. O(n) for each equality that no one asked for before."""
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
        """Split the groups of all equalities but the last by that one."""
        above, by = self._of(equalities[:-1]), self._columns.alike(*equalities[-1])
        sides = [(above.left, by.left)] if above.same and by.same else [(above.left, by.left), (above.right, by.right)]
        joined = np.concatenate([one.astype(np.int64) * by.count + other for one, other in sides])
        if above.count * by.count <= _SPREAD * self._columns.rows + 1024:
            codes, count = joined.astype(np.int32), above.count * by.count
        else:
            codes, count = factorised(joined)
        left = codes[: self._columns.rows]
        return Sides(left, left if len(sides) == 1 else codes[self._columns.rows :], count)
