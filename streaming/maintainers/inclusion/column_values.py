"""The distinct values of the columns of one table: added and removed by a batch, or of all live rows."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.constraints import Column, ColumnRef
from holdfast.discovery.inclusion.clusters import Member
from holdfast.discovery.inclusion.seeding import ColumnValues
from holdfast.indexes.encoding import NULL
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.tables import EncodedColumn
from holdfast.tables.arrays import Ints, Slots
from holdfast.tables.canonical import canonical

Count = Callable[[Ints, Ints], tuple[Ints, Ints]]
"""Returns the distinct codes of rows, and the number of copies of each."""


@dataclass(frozen=True)
class ColumnChange:
    """The values that a batch added to one column and removed from it.

    Parameters
    ----------
    table, column : the names of table and column.
    values, counts : canonical values, each once, and how many occurrences were added, or (negative) removed.
    """

    table: str
    column: str
    values: pa.Array
    counts: Ints


def changed_values(
    rows: RowSet, delta: RowDelta, *, texts: bool = False, only: Collection[str] | None = None
) -> list[ColumnChange]:
    """Return the values that a batch added and removed, of all columns or of `only` some. O(rows of the batch).

    The rows that vanished must not be forgotten yet.
    """
    schema = rows.space.schema
    names = schema.names if only is None else only
    return [
        ColumnChange(schema.table, column.name, canonical(values, values.keys, texts=texts), counts)
        for column, values, counts in _counted(rows, delta.changed, delta.copies, names, _summed)
    ]


def values_of_rows(rows: RowSet, columns: Collection[ColumnRef]) -> list[ColumnValues]:
    """Return the values of the given columns of the live rows, as `column_values` does. O(n log n) a column."""
    table, live = rows.space.schema.table, rows.live()
    names = {ref.column for ref in columns if ref.table == table}
    return [
        ColumnValues(
            Member(ColumnRef(table, column.name), column.type, column.assumed), canonical(values, values.keys), counts
        )
        for column, values, counts in _counted(rows, live, rows.copies[live], names, _occurrences)
    ]


def _counted(
    rows: RowSet, slots: Slots, copies: Ints, names: Collection[str], count: Count
) -> Iterator[tuple[Column, EncodedColumn, Ints]]:
    """Yield each named column with its distinct values in the given rows, nulls left out, and their counts."""
    for c, column in enumerate(rows.space.schema.columns):
        if column.name in names:
            codes = rows.codes[slots, c]
            present = codes != NULL
            distinct, counts = count(codes[present], copies[present])
            yield column, rows.encoding.column(c, distinct), counts


def _summed(codes: Ints, copies: Ints) -> tuple[Ints, Ints]:
    """Return the distinct codes whose copies, which may be negative, do not sum up to 0; and these sums."""
    distinct, place = np.unique(codes, return_inverse=True)
    counts = np.zeros(len(distinct), np.int64)
    np.add.at(counts, place, copies)
    left = np.flatnonzero(counts)
    return distinct[left], counts[left]


def _occurrences(codes: Ints, copies: Ints) -> tuple[Ints, Ints]:
    """Return the distinct codes of live rows in ascending order, and the number of copies of each."""
    least = int(codes.min(initial=0))
    again = np.flatnonzero(copies > 1)
    if int(codes.max(initial=0)) - least < len(codes):
        every = np.bincount(codes - least)
        np.add.at(every, codes[again] - least, copies[again] - 1)
        distinct = np.flatnonzero(every)
        return distinct + least, every[distinct]
    distinct, counts = np.unique(codes, return_counts=True)
    np.add.at(counts, np.searchsorted(distinct, codes[again]), copies[again] - 1)
    return distinct, counts
