"""Attribute clustering: which sets of columns have a value in common, and how many values [IncIND, 3].

A *cluster* is a set of columns, with the values that occur in exactly these columns. `A in B` holds if no cluster with
A lacks B, so clusters are enough to decide inclusions. With the number of values of each cluster, and of occurrences in
each column, they give for every two columns the number of missing values, too.

A cluster takes memory for its own columns only:

    starts       (k + 1,)  the entries of cluster c are those from starts[c] to starts[c + 1]
    entries      (e,)      the columns of a cluster, ascending
    occurrences  (e,)      how many occurrences that column has of the cluster's values
    values       (k,)      how many values a cluster has

and its columns as bits, by which it is found (`indexes/interned.py`). Flat occurrences of some clusters are those of
the first one, then those of the second one, each in the order of its columns.

Invariant: no two clusters have the same columns, and none is without columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.constraints import ColumnRef, ColumnType, TypeGroup
from holdfast.constraints.types import STRING
from holdfast.discovery.kernels.clusters import (
    add_values_kernel,
    place_entries_kernel,
    shared_occurrences_kernel,
)
from holdfast.indexes.growing import with_room
from holdfast.indexes.interned import Interned
from holdfast.tables import Table
from holdfast.tables.arrays import Bits, Flags, Ints, Ints32
from holdfast.tables.canonical import binaries

_FEWEST = 64
_CELLS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Member:
    """A column of a clustering.

    Parameters
    ----------
    ref : table and column.
    type : its values are compared with values of the type's group.
    assumed : the type was not inferred from a value.
    dropped : the column was removed, and has no values; its number is not used again.
    """

    ref: ColumnRef
    type: ColumnType
    assumed: bool = False
    dropped: bool = False

    @property
    def group(self) -> TypeGroup:
        """The group of types whose values its values can equal."""
        return self.type.group


def members_of(table: Table, *, texts: bool = False) -> list[Member]:
    """Return the columns of a table; with `texts` all columns are compared as strings."""
    name = table.schema.table
    return [Member(ColumnRef(name, c.name), STRING if texts else c.type, c.assumed and not texts) for c in table.schema]


class Clusters:
    """The clusters of some columns.

    - Looking up: `numbers`, `bits`, `flags`, `columns_of`, `occurrences_of`, `with_any`, `lacking`
    - Changing: `numbers`, `change`, `forget_after`
    - Counting: `totals`, `missing`, `missing_occurrences`, `holding`
    - Checking: `check_invariants`

    Parameters
    ----------
    columns : the columns, in the order of their numbers.
    """

    def __init__(self, columns: Sequence[Member]) -> None:
        self.columns = list(columns)
        width = len(self.columns)
        self.totals: Ints = np.zeros(width, np.int64)
        """How many different values each column has."""
        self.missing: Ints = np.zeros((width, width), np.int64)
        """For every two columns how many values of the one are no values of the other."""
        self._sets = Interned()
        self.count = 0
        """The number of numbered clusters, some of which may have no values any more."""
        self._starts: Ints = np.zeros(_FEWEST, np.int64)
        self._entries: Ints32 = np.zeros(_FEWEST, np.int32)
        self._occurrences: Ints = np.zeros(_FEWEST, np.int64)
        self._values: Ints = np.zeros(_FEWEST, np.int64)
        self._look_at_columns()

    def __len__(self) -> int:
        """Return the number of clusters with values."""
        return int(np.count_nonzero(self.values))

    @property
    def values(self) -> Ints:
        """The number of values of each cluster."""
        return self._values[: self.count]

    @property
    def starts(self) -> Ints:
        """Where the entries of each cluster begin, and where the last entries end."""
        return self._starts[: self.count + 1]

    @property
    def entries(self) -> Ints32:
        """The columns of all clusters."""
        return self._entries[: self._starts[self.count]]

    @property
    def occurrences(self) -> Ints:
        """The flat occurrences of all clusters."""
        return self._occurrences[: self._starts[self.count]]

    @property
    def nbytes(self) -> int:
        """The bytes of memory that the clusters take."""
        arrays = (self._starts, self._entries, self._occurrences, self._values, self.missing)
        return sum(array.nbytes for array in arrays) + self._sets.nbytes

    def numbers(self, sets: Bits) -> Ints:
        """Return the numbers of sets of columns (`bits_of`); new sets get numbers. O(sets x C / 8)."""
        if not len(sets):
            return np.zeros(0, np.int64)
        found, new = self._sets.intern(binaries(sets))
        step = max(1, _CELLS_AT_ONCE // max(1, len(self.columns)))
        for start in range(0, len(new), step):
            self._append(self.bits(new[start : start + step]))
        return found

    def bits(self, numbers: Ints) -> Bits:
        """Return the columns of clusters as bits."""
        return self._sets.gathered(numbers).reshape(len(numbers), self._width)

    def flags(self, numbers: Ints) -> Flags:
        """Return (n, C) flags: the columns of each cluster."""
        return _flags(self.bits(numbers), len(self.columns))

    def bits_of(self, values: int, places: Ints, columns: Ints) -> Bits:
        """Return the set of columns of each value as bits: value `places[i]` is in column `columns[i]`."""
        sets = np.zeros((values, self._width), np.uint8)
        np.bitwise_or.at(sets, (places, columns // 8), (1 << (columns % 8)).astype(np.uint8))
        return sets

    def sizes(self, numbers: Ints) -> Ints:
        """Return the number of columns of each cluster."""
        return self._starts[numbers + 1] - self._starts[numbers]

    def columns_of(self, numbers: Ints) -> Ints32:
        """Return the columns of clusters, flat. O(columns)."""
        return self._entries[self._places(numbers)]

    def occurrences_of(self, numbers: Ints) -> Ints:
        """Return the occurrences of clusters, flat. O(columns)."""
        return self._occurrences[self._places(numbers)]

    def tallied(self, numbers: Ints, places: Ints, columns: Ints, counts: Ints) -> Ints:
        """Return flat occurrences of clusters: the sums of `counts[i]` of cluster `numbers[places[i]]`.

        O(counts), and O(columns of the clusters). Each cluster has the columns that are counted for it.
        """
        ends = np.cumsum(self.sizes(numbers))
        of_each = numbers[places]
        entry = np.empty(len(places), np.int64)
        place_entries_kernel(self._starts, self._entries, of_each, columns, entry)
        entry += (ends - self.sizes(numbers))[places] - self._starts[of_each]
        total = np.zeros(int(ends[-1]) if len(ends) else 0, np.int64)
        np.add.at(total, entry, counts)
        return total

    def change(self, numbers: Ints, values: Ints, occurrences: Ints) -> None:
        """Add to the values and the flat occurrences of clusters, each listed once.

        O(C^2), and for each cluster O(its columns squared).
        """
        self._values[numbers] += values
        self._occurrences[self._places(numbers)] += occurrences
        more = np.zeros(len(self.columns), np.int64)
        add_values_kernel(self._starts, self._entries, numbers, values, more, self.missing)
        self.totals += more
        self.missing += more[:, None]

    def forget_after(self, count: int) -> None:
        """Forget all clusters from number `count` on, which have no values. O(clusters)."""
        assert not self.values[count:].any()
        if self.count > count:
            self._sets.forget_after(count)
            self.count = count

    def with_any(self, columns: Ints) -> Ints:
        """Return the numbers of the clusters with any of the columns, ascending. O(entries)."""
        return self._clusters_at(np.flatnonzero(np.isin(self.entries, columns)))

    def lacking(self, one: int, other: int) -> Ints:
        """Return the numbers of clusters with values that have column `one` and lack column `other`. O(entries)."""
        found = np.setdiff1d(self._with(one), self._with(other), assume_unique=True)
        return found[self.values[found] > 0]

    @property
    def total_occurrences(self) -> Ints:
        """The number of occurrences of each column: its cells that are not null. O(entries)."""
        total = np.zeros(len(self.columns), np.int64)
        np.add.at(total, self.entries, self.occurrences)
        return total

    @property
    def missing_occurrences(self) -> Ints:
        """For every two columns the number of occurrences in the first of values that the second lacks.

        O(C^2), and for each cluster O(its columns squared).
        """
        shared = np.zeros((len(self.columns), len(self.columns)), np.int64)
        shared_occurrences_kernel(self.starts, self.entries, self.occurrences, shared)
        return np.asarray(np.diagonal(shared)[:, None] - shared)

    def missing_occurrences_of(self, one: int, other: int) -> int:
        """Return the number of occurrences in column `one` of values that column `other` lacks. O(entries)."""
        places = np.flatnonzero(self.entries == one)
        lacks = ~np.isin(self._clusters_at(places), self._with(other), assume_unique=True)
        return int(self.occurrences[places[lacks]].sum())

    @property
    def holding(self) -> Flags:
        """For every two columns whether the first is included in the second. O(C^2)."""
        empty = self.totals == 0
        holds = np.where(empty[:, None], self._fit_when_empty, self.missing == 0)
        np.fill_diagonal(holds, val=False)
        holds[self._dropped] = holds[:, self._dropped] = False
        return np.asarray(holds)

    @property
    def _width(self) -> int:
        """The bytes of a set of columns."""
        return -(-len(self.columns) // 8)

    def _append(self, bits: Bits) -> None:
        """Add new clusters without values."""
        cluster, column = np.nonzero(_flags(bits, len(self.columns)))
        first, count = int(self._starts[self.count]), self.count + len(bits)
        self._starts = with_room(self._starts, count + 1)
        self._values = with_room(self._values, count)
        self._entries = with_room(self._entries, first + len(column))
        self._occurrences = with_room(self._occurrences, first + len(column))
        self._starts[self.count + 1 : count + 1] = first + np.searchsorted(cluster, np.arange(1, len(bits) + 1))
        self._values[self.count : count] = 0
        self._entries[first : first + len(column)] = column
        self._occurrences[first : first + len(column)] = 0
        self.count = count

    def _places(self, numbers: Ints) -> Ints:
        """Return the positions of the entries of clusters, flat."""
        sizes = self.sizes(numbers)
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(ends) else 0
        return np.repeat(self._starts[numbers] - (ends - sizes), sizes) + np.arange(total)

    def _clusters_at(self, places: Ints) -> Ints:
        """Return the clusters of entries, given in ascending order, each once."""
        found: Ints = np.searchsorted(self.starts, places, "right") - 1
        return np.asarray(found[np.diff(found, prepend=-1) != 0])

    def _with(self, column: int) -> Ints:
        """Return the clusters that have a column, ascending."""
        return self._clusters_at(np.flatnonzero(self.entries == column))

    def _look_at_columns(self) -> None:
        """Compute which columns are dropped, and in which columns each is included while it has no values."""
        groups = np.array([list(TypeGroup).index(column.group) for column in self.columns], np.int64)
        assumed = np.array([column.assumed for column in self.columns], np.bool_)
        self._fit_when_empty: Flags = (groups[:, None] == groups[None, :]) | assumed[:, None]
        self._dropped: Flags = np.array([column.dropped for column in self.columns], np.bool_)


def _flags(sets: Bits, width: int) -> Flags:
    return np.unpackbits(sets, axis=1, count=width, bitorder="little").astype(np.bool_)
