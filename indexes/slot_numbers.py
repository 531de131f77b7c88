"""A small number for each value of each column of live rows: equal values have equal numbers, in no order.

Counting uses these numbers as positions in arrays, which codes would make too large.

Invariant: live rows have the numbers of their values; a column has at most about twice as many numbers as values.
"""

import numpy as np

from holdfast.indexes.growing import doubled
from holdfast.indexes.kernels.rows import EMPTY, number_kernel
from holdfast.indexes.rows import RowSet
from holdfast.tables.arrays import Ints, Slots, ValueNumbers

_FEWEST = 1 << 10


class SlotNumbers:
    """The numbers of a table's rows.

    Parameters
    ----------
    rows : the table.

    Attributes
    ----------
    numbers : (columns, slots) the number of each row's value.
    known : the number of numbers of each column.
    """

    def __init__(self, rows: RowSet) -> None:
        self._rows = rows
        width = len(rows.space.schema)
        self.known = np.zeros(width, np.int64)
        self._fresh = np.zeros(width, np.int64)  # the number of numbers after the last `rebuild`
        self._tables = [_table(_FEWEST) for _ in range(width)]
        self.numbers: ValueNumbers = np.zeros((width, 0), np.int32)
        self.rebuild()

    def rebuild(self) -> None:
        """Give the values of all live rows new numbers. O(n) a column."""
        for column in range(len(self.known)):
            self._rebuild(column)

    def follow(self, appeared: Slots) -> None:
        """Give the values of new rows numbers; all other rows, vanished rows included, keep theirs until `settle`."""
        self._reach()
        for column in range(len(self.known)):
            self._give(column, appeared)

    def settle(self) -> None:
        """Give values new numbers in columns with many numbers that no live row has. Amortised O(rows)."""
        for column in range(len(self.known)):
            if self.known[column] > 2 * self._fresh[column] + _FEWEST:
                self._rebuild(column)

    def check_invariants(self) -> None:
        """Assert that values are equal exactly if their numbers are. O(n log n)."""
        live = self._rows.live()
        for column, numbers in enumerate(self.numbers):
            both = np.unique(np.column_stack([self._rows.codes[live, column], numbers[live]]), axis=0)
            assert len(np.unique(both[:, 0])) == len(np.unique(both[:, 1])) == len(both)
            assert (numbers[live] < self.known[column]).all()

    def _rebuild(self, column: int) -> None:
        self._reach()
        live = self._rows.live()
        self._tables[column], self.known[column] = _table(_FEWEST), 0
        for start in range(0, len(live), 1 << 16):
            self._give(column, live[start : start + (1 << 16)])
        self._fresh[column] = self.known[column]

    def _give(self, column: int, slots: Slots) -> None:
        values, numbers = self._tables[column]
        if 2 * (self.known[column] + len(slots)) > len(values):
            room = 4 * (self.known[column] + len(slots))
            self._tables[column] = _larger(values, numbers, doubled(len(values), room))
        args = self._rows.codes, slots, column, *self._tables[column], self.known[column], self.numbers[column]
        self.known[column] = number_kernel(*args)

    def _reach(self) -> None:
        """Make room for a number of every slot."""
        width, room = self.numbers.shape
        if room < len(self._rows.copies):
            longer = np.zeros((width, len(self._rows.copies)), np.int32)
            longer[:, :room] = self.numbers
            self.numbers = longer


def _table(size: int) -> tuple[Ints, ValueNumbers]:
    return np.zeros(size, np.int64), np.full(size, EMPTY, np.int32)


def _larger(values: Ints, numbers: ValueNumbers, size: int) -> tuple[Ints, ValueNumbers]:
    """Return a hash table with more room."""
    found_values, found_numbers = _table(size)
    held = np.flatnonzero(numbers != EMPTY)
    order = held[np.argsort(numbers[held])]
    number_kernel(
        values[order][:, None], np.arange(len(order)), 0, found_values, found_numbers, 0, np.empty(len(order), np.int32)
    )
    return found_values, found_numbers
