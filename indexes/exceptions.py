"""How many rows have to be deleted for a constraint to hold, kept up to date as the rows change.

*Exceptions* of a constraint are the least number of live rows, copies counted, without which it holds:

    key X            rows - groups of X                        a hash table of all rows
    {X}: [] -> A     groups of X: size - largest class of A    hash tables of groups and classes

The cost of a batch depends on the groups of the rows that changed.

Invariant: between changes the exceptions are those of the live rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy

import numpy as np

from holdfast.indexes.growing import doubled
from holdfast.indexes.kernels.exceptions import (
    FREE,
    change_classes_kernel,
    insert_alike_kernel,
    rehash_kernel,
    remove_alike_kernel,
    standing_alike_kernel,
    standing_kernel,
)
from holdfast.indexes.kernels.rows import EMPTY
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.tables.arrays import Ints, Slots, Standing

_FEWEST, _AT_ONCE = 1 << 10, 1 << 13


class Exceptions(ABC):
    """The exceptions of one constraint.

    Parameters
    ----------
    rows : the table.
    """

    def __init__(self, rows: RowSet) -> None:
        self._rows = rows
        self.rebuild()

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of exceptions."""

    @abstractmethod
    def rebuild(self) -> None:
        """Count the exceptions of all live rows from scratch. O(n)."""

    @abstractmethod
    def follow(self, delta: RowDelta) -> None:
        """Apply a batch, before the slots of its vanished rows are freed."""

    @abstractmethod
    def standing(self, slots: Slots) -> Standing:
        """Return whether live rows are exceptions. O(rows, and the rows of their groups)."""

    def check_invariants(self) -> None:
        """Assert that the number is that of a count from scratch."""
        anew = copy(self)
        anew.rebuild()
        assert self.count == anew.count


class KeyExceptions(Exceptions):
    """The exceptions of a key.

    Parameters
    ----------
    rows : the table.
    columns : of the key.
    """

    def __init__(self, rows: RowSet, columns: Sequence[int]) -> None:
        self._columns = np.array(columns, np.int64)
        super().__init__(rows)

    @property
    def count(self) -> int:
        """The number of exceptions."""
        return len(self._rows) - self._groups

    def rebuild(self) -> None:
        """Count the exceptions of all live rows from scratch. O(n)."""
        self._hold(self._rows.live(), 0)

    def follow(self, delta: RowDelta) -> None:
        """Apply a batch. Amortised O(rows, and the rows with the same keys)."""
        codes = self._rows.codes
        self._groups -= remove_alike_kernel(codes, self._columns, self._table, delta.vanished)
        if 2 * (self._taken + len(delta.appeared)) > len(self._table):
            self._hold(self._table[self._table >= 0].astype(np.int64), len(delta.appeared))
        self._groups += insert_alike_kernel(codes, self._columns, self._table, delta.appeared)
        self._taken += len(delta.appeared)

    def standing(self, slots: Slots) -> Standing:
        """Return whether live rows are exceptions."""
        found = np.zeros(len(slots), np.int8)
        standing_alike_kernel(self._rows.codes, self._rows.copies, self._columns, self._table, slots, found)
        return found

    def _hold(self, slots: Slots, more: int) -> None:
        """Hold these rows alone, with room for `more` rows."""
        self._table = np.full(doubled(_FEWEST, 2 * (len(slots) + 2 * more) + 2), EMPTY, np.int32)
        self._groups = insert_alike_kernel(self._rows.codes, self._columns, self._table, slots)
        self._taken = len(slots)


class ClassExceptions(Exceptions):
    """The exceptions of a functional dependency; of a constant, where no column is in the context.

    Parameters
    ----------
    rows : the table.
    context : the columns whose values the rows of a group share.
    dependent : the column whose value all rows of a group should share.
    """

    def __init__(self, rows: RowSet, context: Sequence[int], dependent: int) -> None:
        self._columns = np.array([*context, dependent], np.int64)
        super().__init__(rows)

    @property
    def count(self) -> int:
        """The number of exceptions."""
        return len(self._rows) - int(self._totals[0])

    def rebuild(self) -> None:
        """Count the exceptions of all live rows from scratch. O(n)."""
        width = len(self._columns)
        self._totals = np.zeros(3, np.int64)
        self._groups, self._classes = _table(_FEWEST, width - 1), _table(_FEWEST, width)
        live = self._rows.live()
        self._change(live, self._rows.copies[live])

    def follow(self, delta: RowDelta) -> None:
        """Apply a batch. Amortised O(rows, and the classes of their groups)."""
        self._change(delta.changed, delta.copies)

    def standing(self, slots: Slots) -> Standing:
        """Return whether live rows are exceptions."""
        found = np.zeros(len(slots), np.int8)
        standing_kernel(self._rows.codes, slots, self._columns, self._groups, self._classes, found)
        return found

    def _change(self, slots: Slots, amounts: Ints) -> None:
        for start in range(0, len(slots), _AT_ONCE):
            some = slots[start : start + _AT_ONCE]
            self._make_room(len(some))
            counts = amounts[start : start + _AT_ONCE]
            args = self._rows.codes, some, counts, self._columns, self._groups, self._classes, self._totals
            change_classes_kernel(*args)

    def _make_room(self, more: int) -> None:
        """Grow the tables if they might get more than half full with `more` rows."""
        rooms = np.array([len(self._groups), len(self._classes)])
        if (2 * (self._totals[1:] + more) > rooms).any():
            self._grow(self._totals[1:] + more)

    def _grow(self, expected: Ints) -> None:
        """Move groups and classes with rows into tables with room for `expected` of each."""
        groups, classes = self._groups, self._classes
        sizes = (_FEWEST << (int(5 * count // 2) // _FEWEST).bit_length() for count in expected)
        width = len(self._columns)
        self._groups, self._classes = (_table(size, k) for size, k in zip(sizes, (width - 1, width), strict=True))
        self._totals[1:] = rehash_kernel(groups, classes, self._groups, self._classes)


def _table(size: int, columns: int) -> Ints:
    """Return an empty table of groups, or of classes."""
    found = np.empty((size, columns + 3), np.int64)
    found[:, -1] = FREE
    return found
