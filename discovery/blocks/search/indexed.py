"""The rows of a block as the indexes of a table in memory take them, kept from task to task by the process.

Rows that are marked as gone since are removed from the index. Where rows are back again, as after a batch that was
undone, the index is built again.

Invariant: an index that is kept has exactly the rows of its block that are not gone, or is not kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.blocks.storage.block import Rows
from holdfast.discovery.blocks.storage.location import KEPT
from holdfast.indexes.row_hash import first_equal
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.tables.arrays import RowNumbers, Slots


class IndexedRows(ABC):
    """The distinct rows of a block, or of a part of a block, that are not gone.

    Parameters
    ----------
    read : the rows that the block was written with.
    gone : the numbers of the rows that are gone.
    space : which columns are compared.

    Attributes
    ----------
    rows : the distinct rows.
    places : by slot, the position in the block of a row that is not gone.
    """

    def __init__(self, read: Rows, gone: RowNumbers, space: PredicateSpace) -> None:
        self._numbers = read.numbers
        self._by_number = np.argsort(read.numbers)
        self._gone = gone
        self.rows = RowSet(space)
        codes, _ = self.rows.encode(read.table)
        is_left = ~np.isin(read.numbers, gone)
        left = np.flatnonzero(is_left)
        first, copies = np.unique(left[first_equal(codes[left], range(codes.shape[1]))], return_counts=True)
        self.rows.change(codes[first], copies)
        self._slots = np.where(is_left, self.rows.slots_of(codes), -1)
        self.places = np.zeros(len(self.rows.copies), np.int64)
        self.places[self._slots[first]] = first
        self.rows.begin()

    def remove(self, gone: RowNumbers) -> bool:
        """Remove the rows that are gone since; return False, with nothing removed, where rows are back again."""
        self.rows.begin()  # values that only earlier batches had are forgotten
        if np.array_equal(gone, self._gone):
            return True
        if not np.isin(self._gone, gone).all():
            return False
        numbers = np.setdiff1d(gone, self._gone)
        at = np.searchsorted(self._numbers, numbers, sorter=self._by_number)
        at = self._by_number[np.minimum(at, len(self._numbers) - 1)]
        at = at[self._numbers[at] == numbers]
        slots, copies = np.unique(self._slots[at], return_counts=True)
        self._follow(self.rows.change(self.rows.codes[slots], -copies))
        self._slots[at] = -1
        moved = slots[(self.rows.copies[slots] > 0) & np.isin(self.places[slots], at)]
        if len(moved):
            others = np.flatnonzero(np.isin(self._slots, moved))
            self.places[self._slots[others]] = others
        self._gone = gone
        return True

    def numbers_of(self, slots: Slots) -> RowNumbers:
        """Return for each slot the number of a row of the table."""
        found: RowNumbers = self._numbers[self.places[slots]]
        return found

    @abstractmethod
    def _follow(self, delta: RowDelta) -> None:
        """Apply a removal of rows to the indexes."""


Indexed = TypeVar("Indexed", bound=IndexedRows)


@contextmanager
def kept_index(what: Hashable, make: Callable[[], tuple[Indexed, int]], gone: RowNumbers) -> Iterator[Indexed]:
    """Give the index of a block that the process keeps, without the rows that are gone.

    An index whose use fails is kept no longer, as it may have been changed in part.

    Parameters
    ----------
    what : names the index.
    make : builds the index, and says how many bytes it takes.
    gone : the numbers of the block's rows that are gone.
    """
    try:
        indexed = KEPT.get(what, make)
        if not indexed.remove(gone):
            KEPT.drop(what)
            indexed = KEPT.get(what, make)
            indexed.remove(gone)
        yield indexed
    except BaseException:
        KEPT.drop(what)
        raise
