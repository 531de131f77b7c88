"""The rows of one table sorted by their groups, searchable for the sizes of the groups that other rows belong to.

`GroupCounts` keeps sizes for rows that change; this is for rows that hardly do: a group is a range of positions, found
by two binary searches, and its parts follow each other. The order stays when rows lose copies, or all copies.

Invariant: the sizes are those of the live rows, copies included, at the last `weigh`.
"""

from collections.abc import Sequence

import numpy as np

from holdfast.indexes.group_counts import without_nulls
from holdfast.indexes.kernels.groups import RequestedSizes, SortedRows, group_sizes_kernel
from holdfast.indexes.rows import RowSet
from holdfast.tables.arrays import Ints, Slots


class SortedGroups:
    """The groups of one table's rows. Built in O(n log n).

    Parameters
    ----------
    rows : the table; rows inserted later are not included.
    columns : the columns whose values the rows of a group share.
    dependent : the dependent of a functional dependency, whose value the rows of a part share; None for a key.
    present : columns; rows with a null in one of these are in no group.
    """

    def __init__(
        self, rows: RowSet, columns: Sequence[int], dependent: int | None = None, present: Sequence[int] = ()
    ) -> None:
        self._rows = rows
        self._columns = np.array(columns, np.int64)
        self._dependent = np.array([] if dependent is None else [dependent], np.int64)
        live = rows.live()
        live = live[without_nulls(rows, live, np.array(present, np.int64))]
        every = [rows.codes[live, column] for column in (*columns, *self._dependent)]
        self._order = (live[np.lexsort(every[::-1])] if every else live).astype(np.int32)
        self.weigh()

    def weigh(self) -> None:
        """Update the sizes to the present copies of the rows. O(n)."""
        self._before = np.concatenate([[0], np.cumsum(np.maximum(self._rows.copies[self._order], 0))])

    def sizes(self, slots: Slots, group: Ints) -> RequestedSizes:
        """Return the sizes of the groups, and parts in the order given, that rows belong to. O(log n) each.

        Parameters
        ----------
        slots : a row of each part.
        group : the number of its group, from 0 on without gaps.
        """
        keys = [group] if not len(self._dependent) else [self._rows.codes[slots, self._dependent[0]], group]
        by_group = np.lexsort(keys)
        starts = np.searchsorted(group[by_group], np.arange(group.max(initial=-1) + 2))
        count = len(starts) - 1
        groups, others, other = np.zeros((3, count), np.int64)
        found = RequestedSizes(groups, np.zeros(len(slots), np.int64), others, other)
        rows = SortedRows(self._order, self._before, self._columns, self._dependent)
        group_sizes_kernel(self._rows.codes, rows, slots[by_group], starts, found)
        parts = np.zeros(len(slots), np.int64)
        parts[by_group] = found.parts
        return found._replace(parts=parts if len(self._dependent) else groups[group])
