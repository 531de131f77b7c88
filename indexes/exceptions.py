"""How many rows have to go for a constraint to hold, kept up to date as the rows change.

*Exceptions* of a constraint are the least number of live rows, copies counted, without which it holds:

    key X            rows - groups of X                        a hash table of all rows
    {X}: [] -> A     groups of X: size - largest class of A    hash tables of groups and classes
    {X}: A ~ B       groups of X: size - longest sequence      all rows in the order of X, A, B
                     of B that never falls, by A and B

A batch costs what it touches: groups of the rows that changed. An order is moved as a whole, four bytes a row.

Invariant: between changes the exceptions are those of the live rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.indexes.kernels.exceptions import (
    FREE,
    change_classes_kernel,
    groups_kernel,
    insert_alike_kernel,
    longest_kernel,
    places_kernel,
    rehash_kernel,
    remove_alike_kernel,
)
from holdfast.indexes.kernels.rows import EMPTY
from holdfast.indexes.rows import RowDelta, RowSet, Slots

Ints = NDArray[np.int64]

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
        """How many rows have to go."""

    @abstractmethod
    def rebuild(self) -> None:
        """Count all live rows anew. O(n log n) at most."""

    @abstractmethod
    def follow(self, delta: RowDelta) -> None:
        """Count what changed, before the slots of vanished rows are forgotten."""

    @abstractmethod
    def anew(self) -> "Exceptions":
        """Return the same counted anew. O(n log n) at most."""

    def check_invariants(self) -> None:
        """Assert that all is as counted anew."""
        assert self.count == self.anew().count


class KeyExceptions(Exceptions):
    """Those of a key.

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
        """How many rows have to go."""
        return len(self._rows) - self._groups

    def rebuild(self) -> None:
        """Count all live rows anew. O(n)."""
        self._hold(self._rows.live(), 0)

    def follow(self, delta: RowDelta) -> None:
        """Count what changed. Amortised O(rows, and those that are like them)."""
        codes = self._rows.codes
        self._groups -= remove_alike_kernel(codes, self._columns, self._table, delta.vanished)
        if 2 * (self._taken + len(delta.appeared)) > len(self._table):
            self._hold(self._table[self._table >= 0].astype(np.int64), len(delta.appeared))
        self._groups += insert_alike_kernel(codes, self._columns, self._table, delta.appeared)
        self._taken += len(delta.appeared)

    def anew(self) -> Exceptions:
        """Return the same counted anew."""
        return KeyExceptions(self._rows, self._columns.tolist())

    def _hold(self, slots: Slots, more: int) -> None:
        """Hold these rows alone, with room for some more."""
        size = _FEWEST
        while size < 2 * (len(slots) + 2 * more) + 2:
            size *= 2
        self._table = np.full(size, EMPTY, np.int32)
        self._groups = insert_alike_kernel(self._rows.codes, self._columns, self._table, slots)
        self._taken = len(slots)


class ClassExceptions(Exceptions):
    """Those of a functional dependency; of a constant, where no column is in the context.

    Parameters
    ----------
    rows : the table.
    context : columns that a group agrees on.
    dependent : the column that all rows of a group are to agree on.
    """

    def __init__(self, rows: RowSet, context: Sequence[int], dependent: int) -> None:
        self._columns = np.array([*context, dependent], np.int64)
        super().__init__(rows)

    @property
    def count(self) -> int:
        """How many rows have to go."""
        return len(self._rows) - int(self._totals[0])

    def rebuild(self) -> None:
        """Count all live rows anew. O(n)."""
        width = len(self._columns)
        self._totals = np.zeros(3, np.int64)
        self._groups, self._classes = _table(_FEWEST, width - 1), _table(_FEWEST, width)
        live = self._rows.live()
        self._change(live[:_AT_ONCE], self._rows.copies[live[:_AT_ONCE]])
        if len(live) > _AT_ONCE:  # of so many groups and classes, room for as many of all rows at once
            self._grow(self._totals[1:] * len(live) // _AT_ONCE)
        self._change(live[_AT_ONCE:], self._rows.copies[live[_AT_ONCE:]])

    def follow(self, delta: RowDelta) -> None:
        """Count what changed. Amortised O(rows, and the classes of their groups)."""
        self._change(delta.changed, delta.copies)

    def anew(self) -> Exceptions:
        """Return the same counted anew."""
        *context, dependent = self._columns.tolist()
        return ClassExceptions(self._rows, context, dependent)

    def _change(self, slots: Slots, amounts: Ints) -> None:
        for start in range(0, len(slots), _AT_ONCE):
            some = slots[start : start + _AT_ONCE]
            self._make_room(len(some))
            counts = amounts[start : start + _AT_ONCE]
            args = self._rows.codes, some, counts, self._columns, self._groups, self._classes, self._totals
            change_classes_kernel(*args)

    def _make_room(self, more: int) -> None:
        """Leave half of each table free, whatever comes."""
        rooms = np.array([len(self._groups), len(self._classes)])
        if (2 * (self._totals[1:] + more) > rooms).any():
            self._grow(self._totals[1:] + more)

    def _grow(self, expected: Ints) -> None:
        """Take tables with room for so many groups and classes; those that have no rows any more are left out."""
        groups, classes = self._groups, self._classes
        sizes = (_FEWEST << (int(5 * count // 2) // _FEWEST).bit_length() for count in expected)
        width = len(self._columns)
        self._groups, self._classes = (_table(size, k) for size, k in zip(sizes, (width - 1, width), strict=True))
        self._totals[1:] = rehash_kernel(groups, classes, self._groups, self._classes)


class OrderExceptions(Exceptions):
    """Those of an order compatibility.

    Parameters
    ----------
    rows : the table; codes of both columns compare as their values do.
    context : columns that a group agrees on.
    pair : the columns of which the second one is never to fall, or never to rise, where the first one rises.
    descending : whether it is never to rise.
    """

    def __init__(self, rows: RowSet, context: Sequence[int], pair: tuple[int, int], *, descending: bool) -> None:
        self._context = np.array(context, np.int64)
        self._columns = np.array([*context, *pair], np.int64)
        self._signs = np.ones(len(self._columns), np.int64)
        self._signs[-1] = -1 if descending else 1
        super().__init__(rows)

    @property
    def count(self) -> int:
        """How many rows have to go."""
        return len(self._rows) - self._staying

    def rebuild(self) -> None:
        """Count all live rows anew. O(n log n)."""
        live = self._rows.live()
        self._order = live[np.lexsort([live, *self._keys(self._rows.codes[live])])].astype(np.int32)
        self._weights = self._rows.copies[self._order]
        starts = np.ones(len(live), np.bool_)
        if len(live):
            ahead = self._rows.codes[self._order[:, None], self._context]
            starts[1:] = (ahead[1:] != ahead[:-1]).any(axis=1)
        begins = np.flatnonzero(starts)
        self._staying = self._longest(np.column_stack([begins, [*begins[1:], len(live)][: len(begins)]]))

    def follow(self, delta: RowDelta) -> None:
        """Count what changed. O(rows, and the groups they are in), and a copy of the order."""
        slots, copies = delta.changed, self._rows.copies[delta.changed]
        places = self._places_of(slots)
        is_gone, is_new = np.isin(slots, delta.vanished), np.isin(slots, delta.appeared)
        self._staying -= self._longest(self._groups_at(places, slots))
        gone = np.sort(places[is_gone])
        come = np.lexsort([slots[is_new], *self._keys(self._rows.codes[slots[is_new]])])
        come_at = places[is_new][come]
        come_at -= np.searchsorted(gone, come_at)
        self._order = np.insert(np.delete(self._order, gone), come_at, slots[is_new][come].astype(np.int32))
        self._weights = np.insert(np.delete(self._weights, gone), come_at, copies[is_new][come])
        places -= np.searchsorted(gone, places)
        left = ~(is_gone | is_new)
        places[left] += np.searchsorted(come_at, places[left], "right")
        self._weights[places[left]] = copies[left]
        places[np.flatnonzero(is_new)[come]] = come_at + np.arange(len(come_at))
        places[is_gone] = self._places_of(slots[is_gone])
        self._staying += self._longest(self._groups_at(places, slots))

    def anew(self) -> Exceptions:
        """Return the same counted anew."""
        *context, a, b = self._columns.tolist()
        return OrderExceptions(self._rows, context, (a, b), descending=bool(self._signs[-1] < 0))

    def _keys(self, codes: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return what rows are sorted by, the last first; complements have the other order, and are in range."""
        ordered = zip(self._columns[::-1], self._signs[::-1], strict=True)
        return [codes[:, c] if sign > 0 else ~codes[:, c] for c, sign in ordered]

    def _places_of(self, slots: Slots) -> Ints:
        found = np.empty(len(slots), np.int64)
        places_kernel(self._rows.codes, self._order, slots, self._columns, self._signs, found)
        return found

    def _groups_at(self, places: Ints, slots: Slots) -> Ints:
        """Return where the groups of some rows begin and end, each once; rows stand, or would, at these places."""
        if not len(self._context):
            return np.array([[0, len(self._order)]])
        found = np.empty((len(slots), 2), np.int64)
        groups_kernel(self._rows.codes, self._order, places, slots, self._context, found)
        found = found[found[:, 0] < found[:, 1]]
        return found[np.unique(found[:, 0], return_index=True)[1]]

    def _longest(self, groups: Ints) -> int:
        found: int = longest_kernel(
            self._rows.codes, self._order, self._weights, self._columns[-1], self._signs[-1], groups.astype(np.int64)
        )
        return found


def _table(size: int, columns: int) -> NDArray[np.int64]:
    """Return an empty table of groups, or of classes."""
    found = np.empty((size, columns + 3), np.int64)
    found[:, -1] = FREE
    return found
