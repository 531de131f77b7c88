"""Values and their occurrences in columns, as arrays: the records of values that are too many for one machine.

    values   (n,)      canonical bytes, each once, in the order of their hashes
    hashes   (n,)      the hash of each (`hashing.py`), ascending: values are found by bisection, many at once
    bounds   (n + 1,)  the entries of value i are from bounds[i] to bounds[i + 1]
    columns  (e,)      the number of a column
    counts   (e,)      the occurrences of the value in the column

A value without entries is removed: its record replaces older records.

Invariant: no two values are equal, whatever their hashes; counts are above zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.discovery.blocks.storage.hashing import hashed
from holdfast.discovery.blocks.storage.packing import packed, unpacked
from holdfast.tables.arrays import Flags, Hashes, Ints

NOT_FOUND = -1


def part_of(hashes: Hashes, parts: int) -> Ints:
    """Return the part of each value, by its hash."""
    return (hashes % np.uint64(parts)).astype(np.int64)


@dataclass(frozen=True)
class ValueRecords:
    """Some values with their occurrences; the arrays are described in the header of the module."""

    values: pa.Array
    hashes: Hashes
    bounds: Ints
    columns: Ints
    counts: Ints

    @classmethod
    def of(cls, values: pa.Array, places: Ints, columns: Ints, counts: Ints) -> "ValueRecords":
        """Return records of values in any order: value `places[i]` is `counts[i]` times in `columns[i]`. O(n log n)."""
        order = np.lexsort((columns, places))
        places, columns = places[order], columns[order]
        first = np.flatnonzero((np.diff(places, prepend=NOT_FOUND) != 0) | (np.diff(columns, prepend=NOT_FOUND) != 0))
        total = np.add.reduceat(counts[order], first) if len(first) else counts
        bounds = np.searchsorted(places[first], np.arange(len(values) + 1))
        hashes = hashed(values)
        unordered = cls(values, hashes, bounds, columns[first], total)
        return unordered.take(np.argsort(hashes, kind="stable"))

    @classmethod
    def merged(cls, runs: Sequence["ValueRecords"]) -> "ValueRecords":
        """Return the records of successive runs, merged: the last record of each value."""
        if len(runs) == 1:
            return runs[0]
        starts = np.cumsum([0, *(len(run.columns) for run in runs)])
        both = cls(
            pa.concat_arrays([run.values for run in runs]),
            np.concatenate([run.hashes for run in runs]),
            np.concatenate([[0], *(run.bounds[1:] + start for run, start in zip(runs, starts[:-1], strict=True))]),
            np.concatenate([run.columns for run in runs]),
            np.concatenate([run.counts for run in runs]),
        )
        places = pc.dictionary_encode(both.values).indices.to_numpy()
        last = np.zeros(int(places.max(initial=NOT_FOUND)) + 1, np.int64)
        last[places] = np.arange(len(places))
        return both.take(last[np.argsort(both.hashes[last], kind="stable")])

    @classmethod
    def read(cls, data: bytes) -> "ValueRecords":
        """Return the inverse of `written`."""
        value, hashes, columns, counts = (column.combine_chunks() for column in unpacked(data).columns)
        bounds = columns.offsets.to_numpy().astype(np.int64)
        return cls(value, hashes.to_numpy(), bounds, columns.values.to_numpy(), counts.values.to_numpy())

    def written(self) -> bytes:
        """Return the records as an Arrow stream, a row for each value."""
        bounds = pa.array(self.bounds)
        columns = pa.LargeListArray.from_arrays(bounds, pa.array(self.columns, pa.int64()))
        counts = pa.LargeListArray.from_arrays(bounds, pa.array(self.counts, pa.int64()))
        return packed(pa.table([self.values, self.hashes, columns, counts], ["value", "hash", "columns", "counts"]))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def hashed_anew(self) -> "ValueRecords":
        """The records sorted by the present hash. O(n log n)."""
        unordered = replace(self, hashes=hashed(self.values))
        return unordered.take(np.argsort(unordered.hashes, kind="stable"))

    @property
    def nbytes(self) -> int:
        """The bytes of memory that the records take."""
        arrays = (self.values, self.hashes, self.bounds, self.columns, self.counts)
        return sum(int(array.nbytes) for array in arrays)

    @property
    def places(self) -> Ints:
        """The value of each entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.bounds))

    @property
    def occurring(self) -> "ValueRecords":
        """The records of values with occurrences."""
        return self.take(np.flatnonzero(np.diff(self.bounds)))

    def take(self, rows: Ints) -> "ValueRecords":
        """Return the records at some positions; sorted by hash where positions ascend. O(rows)."""
        sizes = np.diff(self.bounds)[rows]
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.repeat(self.bounds[rows] - bounds[:-1], sizes) + np.arange(bounds[-1])
        values = self.values.take(pa.array(rows, pa.int64()))
        return ValueRecords(values, self.hashes[rows], bounds, self.columns[entries], self.counts[entries])

    def without(self, columns: Ints) -> "ValueRecords":
        """Return the records without the occurrences in some columns."""
        stays = ~np.isin(self.columns, columns)
        bounds = np.concatenate([[0], np.cumsum(stays)])[self.bounds]
        return ValueRecords(self.values, self.hashes, bounds, self.columns[stays], self.counts[stays])

    def has(self, column: int) -> Flags:
        """Return for each value whether a column has it."""
        found = np.zeros(len(self), np.bool_)
        found[self.places[self.columns == column]] = True
        return found

    def rows_of(self, values: pa.Array, hashes: Hashes) -> Ints:
        """Return the position of each value, `NOT_FOUND` where there is no record. O(m log n)."""
        found = np.full(len(values), NOT_FOUND, np.int64)
        row = np.searchsorted(self.hashes, hashes)
        left = np.arange(len(values))
        while True:  # repeats only where several values have one hash
            left = left[row[left] < len(self)]
            left = left[self.hashes[row[left]] == hashes[left]]
            if not len(left):
                return found
            is_same = pc.equal(self.values.take(pa.array(row[left])), values.take(pa.array(left)))
            same = is_same.to_numpy(zero_copy_only=False)
            found[left[same]] = row[left[same]]
            left = left[~same]
            row[left] += 1
