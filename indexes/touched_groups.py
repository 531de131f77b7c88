"""The groups with rows of a batch, found by a pass over all rows: no table of groups is kept.

Exceptions of a key or a functional dependency change in these groups alone. The pass costs a few nanoseconds a row; a
table of all groups would be larger than the rows where most groups are small.
"""

from dataclasses import dataclass

import numpy as np

from holdfast.indexes.growing import doubled
from holdfast.indexes.kernels.exceptions import hashed_kernel, like_kernel, more_exceptions_kernel, touched_kernel
from holdfast.indexes.kernels.rows import EMPTY
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.indexes.slot_numbers import SlotNumbers
from holdfast.tables.arrays import Ints, ValueNumbers, Words

_FEWEST, _BITS = 4, 16


class TouchedGroupSearch:
    """Finds the `TouchedGroups` of one batch, before the slots of vanished rows are freed.

    Parameters
    ----------
    rows : the table, as it is now.
    numbers : of its rows, and of vanished rows.
    delta : the batch.
    """

    def __init__(self, rows: RowSet, numbers: SlotNumbers, delta: RowDelta) -> None:
        self._numbers = numbers.numbers
        self._delta = delta
        self._live = np.maximum(rows.copies, 0)
        self._before = self._live.copy()
        self._before[delta.changed] -= delta.copies
        room = len(self._live) + len(delta.changed)
        self._slots, self._groups = np.empty(room, np.int64), np.empty(room, np.int64)
        self._asked = np.empty(len(self._live), np.int64)
        self._hashes: dict[int, Words] = {}
        self._classes: Ints = np.full((int(numbers.known.max(initial=1)), 3), -1, np.int64)
        self._stamp = 0

    def in_columns(self, columns: tuple[int, ...]) -> "TouchedGroups":
        """Return the groups by some columns in which a row changed. O(rows)."""
        size = doubled(_FEWEST, 2 * len(self._delta.changed) + 2)
        changed = self._delta.changed
        hashes = self._hashed(columns[0])
        for column in columns[1:]:
            hashes = hashes + self._hashed(column)
        like = like_kernel(hashes, self._live, changed, np.zeros(_BITS * size, np.bool_), self._asked)
        args = np.array(columns, np.int64), self._live, changed, self._asked[:like], np.full(size, EMPTY, np.int32)
        found = touched_kernel(self._numbers, *args, self._slots, self._groups)
        order = np.argsort(self._groups[:found], kind="stable")
        slots, groups = self._slots[:found][order], self._groups[:found][order]
        starts = np.append(np.flatnonzero(np.diff(groups, prepend=-1)), found)
        return TouchedGroups(slots, starts, self._live[slots], self._before[slots])

    def _hashed(self, column: int) -> Words:
        """Return a hash of each row's value in a column."""
        if column not in self._hashes:
            self._hashes[column] = np.empty(self._numbers.shape[1], np.uint64)
            hashed_kernel(self._numbers[column], self._hashes[column])
        return self._hashes[column]

    def more_of_constant(self, groups: "TouchedGroups", dependent: int) -> int:
        """Return by how much the exceptions of a functional dependency grew."""
        numbers: ValueNumbers = self._numbers[dependent]
        args = groups.slots, groups.starts, groups.now, groups.before, self._classes, self._stamp
        more = more_exceptions_kernel(numbers, *args)
        self._stamp += len(groups.starts)
        return int(more)


@dataclass(frozen=True, eq=False)
class TouchedGroups:
    """Groups in which a row changed.

    Parameters
    ----------
    slots, starts : their rows, group by group.
    now, before : copies of each row.
    """

    slots: Ints
    starts: Ints
    now: Ints
    before: Ints

    @property
    def more_of_key(self) -> int:
        """By how much the exceptions of the key grew."""
        if not len(self.slots):
            return 0
        now, before = (np.add.reduceat(copies, self.starts[:-1]) for copies in (self.now, self.before))
        return int((now - (now > 0) - before + (before > 0)).sum())
