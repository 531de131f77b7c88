"""Attribute clustering: which sets of columns have a value in common, and how many values [IncIND, 3].

A *cluster* is a set of columns, with the values that occur in just these. `A in B` holds if no cluster with A lacks B:
clusters are all that has to be known of values. With how many values each has, and how many occurrences each column has
of them, they tell for every two columns how many are missing, too.

    members      (k, C) bool   the columns of each cluster
    values       (k,)   int64  how many values it has
    occurrences  (k, C) int64  how many occurrences each column has of them

Invariant: no two clusters have the same columns, and none is without columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.constraints import ColumnRef, ColumnType, TypeGroup
from holdfast.constraints.types import STRING
from holdfast.tables import Table

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Bits = NDArray[np.uint8]


@dataclass(frozen=True)
class Member:
    """A column that takes part.

    Parameters
    ----------
    ref : table and column.
    type : whose group it is compared within.
    assumed : the type was not measured on a value.
    dropped : it takes part no more, and has no values; its number is not given again.
    """

    ref: ColumnRef
    type: ColumnType
    assumed: bool = False
    dropped: bool = False

    @property
    def group(self) -> TypeGroup:
        """The values that its values can be equal to."""
        return self.type.group


def members_of(table: Table, *, texts: bool = False) -> list[Member]:
    """Return the columns of a table; with `texts` all are compared as strings."""
    name = table.schema.table
    return [Member(ColumnRef(name, c.name), STRING if texts else c.type, c.assumed and not texts) for c in table.schema]


class Clusters:
    """The clusters of some columns.

    Parameters
    ----------
    columns : the columns, in the order of their numbers.
    """

    def __init__(self, columns: Sequence[Member]) -> None:
        self.columns = list(columns)
        width = len(self.columns)
        self.members: Flags = np.zeros((0, width), np.bool_)
        self.values: Ints = np.zeros(0, np.int64)
        self.occurrences: Ints = np.zeros((0, width), np.int64)
        self.missing: Ints = np.zeros((width, width), np.int64)
        self._number: dict[bytes, int] = {}
        self._look_at_columns()

    def __len__(self) -> int:
        return int(np.count_nonzero(self.values))

    def numbers(self, sets: Bits) -> Ints:
        """Return the number of each of some sets of columns (`bits_of`); sets that are new get one. O(sets)."""
        width = sets.shape[1]
        packed = pa.Array.from_buffers(pa.binary(width), len(sets), [None, pa.py_buffer(np.ascontiguousarray(sets))])
        encoded = packed.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        known = len(self._number)
        found = np.array([self._number.setdefault(one, len(self._number)) for one in distinct], np.int64)
        new = [np.frombuffer(one, np.uint8) for one, number in zip(distinct, found, strict=True) if number >= known]
        if new:
            columns = len(self.columns)
            members = np.unpackbits(np.array(new), axis=1, count=columns, bitorder="little").astype(np.bool_)
            self.members = np.concatenate([self.members, members])
            self.values = np.concatenate([self.values, np.zeros(len(new), np.int64)])
            self.occurrences = np.concatenate([self.occurrences, np.zeros((len(new), columns), np.int64)])
        return np.asarray(found[encoded.indices.to_numpy()]) if len(found) else found

    def bits_of(self, values: int, places: Ints, columns: Ints) -> Bits:
        """Return for each of some values the set of columns it is in, a bit each: `places[i]` is in `columns[i]`."""
        sets = np.zeros((values, -(-len(self.columns) // 8)), np.uint8)
        np.bitwise_or.at(sets, (places, columns // 8), (1 << (columns % 8)).astype(np.uint8))
        return sets

    def change(self, numbers: Ints, values: Ints, occurrences: Ints) -> None:
        """Add to the values and occurrences of some clusters, each listed once. O(clusters x C^2)."""
        self.values[numbers] += values
        self.occurrences[numbers] += occurrences
        inside = self.members[numbers].astype(np.float64)  # whole numbers below 2^53: exact
        self.missing += np.rint((inside * values[:, None]).T @ (1.0 - inside)).astype(np.int64)

    def forget_after(self, count: int) -> None:
        """Take the numbers of all clusters but the first ones back: they have no values."""
        assert not self.values[count:].any()
        self.members, self.values = self.members[:count], self.values[:count]
        self.occurrences = self.occurrences[:count]
        while len(self._number) > count:
            self._number.popitem()

    @property
    def totals(self) -> Ints:
        """How many different values each column has."""
        counted: Ints = self.values @ self.members
        return counted

    @property
    def missing_occurrences(self) -> Ints:
        """For every two columns how many occurrences of the one are no value of the other. O(clusters x C^2)."""
        missing = self.occurrences.astype(np.float64).T @ (1.0 - self.members)
        return np.rint(missing).astype(np.int64)

    @property
    def holding(self) -> Flags:
        """For every two columns whether the one is included in the other. O(C^2)."""
        empty = self.totals == 0
        holds = np.where(empty[:, None], self._fit_when_empty, self.missing == 0)
        np.fill_diagonal(holds, val=False)
        holds[self._dropped] = holds[:, self._dropped] = False
        return np.asarray(holds)

    def extend(self, columns: Sequence[Member]) -> None:
        """Let more columns take part, which have no values yet. O(clusters x C)."""
        before, more = len(self.columns), len(columns)
        totals = self.totals
        self.missing = np.pad(self.missing, (0, more))
        self.missing[:before, before:] = totals[:, None]
        self.columns += columns
        self.members = np.pad(self.members, ((0, 0), (0, more)))
        self.occurrences = np.pad(self.occurrences, ((0, 0), (0, more)))
        packed = np.packbits(self.members, axis=1, bitorder="little")
        self._number = {one.tobytes(): number for number, one in enumerate(packed)}
        self._look_at_columns()

    def drop(self, numbers: Ints) -> None:
        """Let columns take part no more, once they have no values."""
        assert not self.totals[numbers].any()
        for number in numbers.tolist():
            self.columns[number] = replace(self.columns[number], dropped=True)
        self._look_at_columns()

    def check_invariants(self) -> None:
        """Assert what the class promises, and that `missing` follows from the clusters."""
        assert len({row.tobytes() for row in self.members}) == len(self.members) == len(self._number)
        assert self.members.any(axis=1).all()
        assert (self.values >= 0).all()
        assert ((self.occurrences > 0) == (self.members & (self.values > 0)[:, None])).all()
        inside = self.members.astype(np.int64)
        assert (self.missing == (inside * self.values[:, None]).T @ (1 - inside)).all()

    def _look_at_columns(self) -> None:
        """Note of the columns which are dropped, and in which ones each is included while it has no values."""
        groups = np.array([list(TypeGroup).index(column.group) for column in self.columns], np.int64)
        assumed = np.array([column.assumed for column in self.columns], np.bool_)
        self._fit_when_empty: Flags = (groups[:, None] == groups[None, :]) | assumed[:, None]
        self._dropped: Flags = np.array([column.dropped for column in self.columns], np.bool_)
