"""How many pairs and rows break a key or a functional dependency, kept up to date by the sizes of groups.

Rows with equal values in the columns are a group; rows of a group with an equal dependent are a part. All pairs of a
group break a key; all pairs of a group but those within a part break a functional dependency. A row breaks the rule
with another row exactly if its group has two rows, or two dependents. Rows with a null may be left out.

Invariant: between changes all sizes are those of the live rows, copies included.
"""

from collections.abc import Sequence

import numpy as np

from holdfast.indexes.encoding import NULL
from holdfast.indexes.growing import doubled
from holdfast.indexes.kernels.groups import GroupTable, broken_groups_kernel, change_groups_kernel, rehash_groups_kernel
from holdfast.indexes.rows import RowSet
from holdfast.tables.arrays import Flags, Ints, Slots

_FEWEST, _AT_ONCE = 1 << 10, 1 << 14


class GroupCounts:
    """The groups of one table's rows.

    Parameters
    ----------
    rows : the table.
    columns : the columns whose values the rows of a group share.
    dependent : the dependent of a functional dependency; None for a key.
    present : columns; rows with a null in one of these are in no group.
    """

    def __init__(
        self, rows: RowSet, columns: Sequence[int], dependent: int | None = None, present: Sequence[int] = ()
    ) -> None:
        self._rows = rows
        self._present = np.array(present, np.int64)
        self._columns = np.array(columns, np.int64)
        self._all_columns = self._columns if dependent is None else np.array([*columns, dependent], np.int64)
        self.rebuild()

    @property
    def pairs(self) -> int:
        """The number of ordered pairs of rows that break the rule."""
        return int(self._totals[0])

    @property
    def breaking(self) -> int:
        """The number of rows in such pairs."""
        return int(self._totals[1])

    def rebuild(self) -> None:
        """Count all live rows from scratch. O(n)."""
        self._totals = np.zeros(4, np.int64)
        self._groups = _table(_FEWEST, self._columns)
        self._parts = _table(_FEWEST, self._all_columns)
        live = self._rows.live()
        self.change(live, self._rows.copies[live])

    def change(self, slots: Slots, amounts: Ints) -> None:
        """Add copies of rows, or remove them where amounts are negative; codes are still there. Amortised O(rows)."""
        if len(self._present):
            has_values = without_nulls(self._rows, slots, self._present)
            slots, amounts = slots[has_values], amounts[has_values]
        for start in range(0, len(slots), _AT_ONCE):
            some = slots[start : start + _AT_ONCE]
            self._make_room(len(some))
            added = amounts[start : start + _AT_ONCE]
            change_groups_kernel(self._rows.codes, some, added, self._groups, self._parts, self._totals)

    def breaks(self, slots: Slots) -> Flags:
        """Return which rows are in a group that breaks the rule."""
        found = np.zeros(len(slots), np.bool_)
        has_dependent = len(self._all_columns) > len(self._columns)
        broken_groups_kernel(self._rows.codes, slots, self._groups, has_dependent, found)
        return found & without_nulls(self._rows, slots, self._present) if len(self._present) else found

    def check_invariants(self) -> None:
        """Assert that the numbers are those of a count from scratch. O(n)."""
        dependent = next(iter(self._all_columns[len(self._columns) :].tolist()), None)
        anew = GroupCounts(self._rows, self._columns.tolist(), dependent, self._present.tolist())
        assert (anew.pairs, anew.breaking) == (self.pairs, self.breaking)

    def _make_room(self, more: int) -> None:
        """Grow the tables if they might get more than half full with `more` rows."""
        if 2 * (self._totals[2] + more) > len(self._groups.used):
            self._groups, self._totals[2] = _larger(self._groups, more)
        if 2 * (self._totals[3] + more) > len(self._parts.used):
            self._parts, self._totals[3] = _larger(self._parts, more)


def without_nulls(rows: RowSet, slots: Slots, columns: Ints) -> Flags:
    """Return which rows have no null in some columns. O(rows)."""
    found = np.ones(len(slots), np.bool_)
    for column in columns.tolist():
        found &= rows.codes[slots, column] != NULL
    return found


def _table(size: int, columns: Ints) -> GroupTable:
    """Return an empty table."""
    counts, used = np.zeros((size, 2), np.int64), np.zeros(size, np.bool_)
    return GroupTable(columns, np.zeros((size, len(columns)), np.int64), counts, used)


def _larger(table: GroupTable, more: int) -> tuple[GroupTable, int]:
    """Return the groups that have rows in a table with room for `more` groups, and the number of groups."""
    kept = np.flatnonzero(table.counts[:, 0])
    made = _table(doubled(_FEWEST, 2 * (len(kept) + 2 * more)), np.arange(len(table.columns)))
    rehash_groups_kernel(kept, table, made)
    return made._replace(columns=table.columns), len(kept)
