"""Finding rows by the codes of some of their columns (`kernels/rows.py`)."""

from collections.abc import Iterable

import numpy as np

from holdfast.indexes.growing import doubled
from holdfast.indexes.kernels.rows import EMPTY, find_kernel, first_kernel, insert_kernel, remove_kernel
from holdfast.tables.arrays import Codes, Ints

_FEWEST = 1 << 10
_ROOM = 2.5  # places for each row when the table is built; below 2 it is rebuilt


class RowHash:
    """The numbers of rows (slots, or numbers of evidences) by the codes of some columns.

    Parameters
    ----------
    columns : the columns whose codes count.
    """

    def __init__(self, columns: Iterable[int]) -> None:
        self._columns = np.array(list(columns), np.int64)
        self._table = np.full(_FEWEST, EMPTY, np.int32)
        self._taken = 0  # places that are not EMPTY

    def find(self, codes: Codes, wanted: Codes) -> Ints:
        """Return the number of each wanted row, -1 where it is not held. O(wanted)."""
        found = np.empty(len(wanted), np.int64)
        find_kernel(codes, self._columns, self._table, np.ascontiguousarray(wanted), found)
        return found

    def insert(self, codes: Codes, slots: Ints) -> None:
        """Insert rows that are not held. Amortised O(slots)."""
        self.reserve(codes, len(slots))
        insert_kernel(codes, self._columns, self._table, slots)
        self._taken += len(slots)

    def reserve(self, codes: Codes, more: int) -> None:
        """Make room for `more` rows. O(rows) where there is none."""
        if (self._taken + more) * 2 > len(self._table):
            held = self._table[self._table >= 0].astype(np.int64)
            self.rebuild(codes, held, more)

    def remove(self, codes: Codes, slots: Ints) -> None:
        """Remove rows, whose codes are those they were inserted with. O(slots)."""
        remove_kernel(codes, self._columns, self._table, slots)

    def rebuild(self, codes: Codes, slots: Ints, more: int = 0) -> None:
        """Hold these rows alone, with room for `more` rows. O(slots)."""
        self._table = np.full(doubled(_FEWEST, _ROOM * (len(slots) + more)), EMPTY, np.int32)
        insert_kernel(codes, self._columns, self._table, slots)
        self._taken = len(slots)


def first_equal(codes: Codes, columns: Iterable[int]) -> Ints:
    """Return for each row the position of the first row with the same codes in some columns. O(rows).

    >>> first_equal(np.array([[1, 5], [2, 5], [1, 5]]), [0, 1]).tolist()
    [0, 1, 0]
    """
    table, found = np.full(doubled(_FEWEST, 2 * len(codes)), EMPTY, np.int32), np.empty(len(codes), np.int64)
    first_kernel(np.ascontiguousarray(codes), np.array(list(columns), np.int64), table, found)
    return found
