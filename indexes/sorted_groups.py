"""The rows of one table in the order of their groups, searchable for the sizes of groups that other rows are in.

What `GroupCounts` keeps as it changes is looked up here in rows that hardly do: a group is a range of places, found by
two searches, and has its parts in it one after the other. The order stays when rows lose copies, or all of them.

Invariant: the sizes are those of the live rows, copies included, as they were weighed last.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.indexes.kernels.groups import group_sizes_kernel
from holdfast.indexes.rows import RowSet
from holdfast.tables.arrays import Ints, Slots, as_slots


@dataclass(frozen=True)
class Sizes:
    """What is known of groups that were asked for.

    Parameters
    ----------
    groups, parts : how many rows each has, copies included; parts in the order that they were asked for.
    others : how many dependents the rows of a group have that were not asked for, 2 for more.
    other : where it is one, a row with it.
    """

    groups: Ints
    parts: Ints
    others: Ints
    other: Slots


class SortedGroups:
    """The groups of one table's rows. O(n log n) to make.

    Parameters
    ----------
    rows : the table; rows that come later are not in it.
    columns : those that a group agrees on.
    dependent : of a functional dependency, which a part of a group agrees on too; None for a key.
    """

    def __init__(self, rows: RowSet, columns: Sequence[int], dependent: int | None = None) -> None:
        self._rows = rows
        self._columns = np.array(columns, np.int64)
        self._dependent = np.array([] if dependent is None else [dependent], np.int64)
        live = rows.live()
        every = [rows.codes[live, column] for column in (*columns, *self._dependent)]
        self._order = (live[np.lexsort(every[::-1])] if every else live).astype(np.int32)
        self.weigh()

    def weigh(self) -> None:
        """Take over how many copies the rows have now. O(n)."""
        self._before = np.concatenate([[0], np.cumsum(np.maximum(self._rows.copies[self._order], 0))])

    def sizes(self, slots: Slots, group: Ints) -> Sizes:
        """Return the sizes of the groups and parts that some rows are in. O(log n) each.

        Parameters
        ----------
        slots : a row of each part.
        group : the number of its group, from 0 on with none left out.
        """
        keys = [group] if not len(self._dependent) else [self._rows.codes[slots, self._dependent[0]], group]
        by_group = np.lexsort(keys)
        starts = np.searchsorted(group[by_group], np.arange(group.max(initial=-1) + 2))
        count = len(starts) - 1
        groups, others, other = np.zeros((3, count), np.int64)
        found = np.zeros(len(slots), np.int64)
        group_sizes_kernel(
            self._rows.codes,
            self._order,
            self._before,
            self._columns,
            self._dependent,
            slots[by_group],
            starts,
            groups,
            found,
            others,
            other,
        )
        parts = np.zeros(len(slots), np.int64)
        parts[by_group] = found
        return Sizes(groups, parts if len(self._dependent) else groups[group], others, as_slots(other))
