"""The clusters of whole tables: one pass over the distinct values of all columns [S-INDD].

Per type group the distinct values of all columns are numbered together; the set of columns of each value is collected
as bits, and equal sets are counted. No value is compared with another value.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.discovery.inclusion.clusters import Clusters, Member, members_of
from holdfast.discovery.inclusion.value_ranges import ValueRange
from holdfast.tables import ReadOptions, Table, read_table
from holdfast.tables.arrays import Ints
from holdfast.tables.canonical import canonical

_VALUES_AT_ONCE = 1 << 18
_BYTES_AT_ONCE = 1 << 27


@dataclass(frozen=True)
class GroupValues:
    """The distinct values of the columns of one type group, or a range of them.

    Parameters
    ----------
    values : canonical bytes, each once.
    places, columns, counts : for each value of each column its position in `values`, the column, and its occurrences.
    clusters : the cluster of each value.
    """

    values: pa.Array
    places: Ints
    columns: Ints
    counts: Ints
    clusters: Ints


@dataclass(frozen=True)
class ColumnValues:
    """The distinct values of one column.

    Parameters
    ----------
    member : the column.
    values, counts : canonical bytes, each once, and how often each occurs.
    range : where the values lie; None where that is not measured.
    """

    member: Member
    values: pa.Array
    counts: Ints
    range: ValueRange | None = None


def column_values(table: Table, *, texts: bool = False) -> list[ColumnValues]:
    """Return the distinct values of each column of a table; with `texts` as texts."""
    members = members_of(table, texts=texts)
    found = []
    for member, column in zip(members, table.columns, strict=True):
        keys, counts = column.counts
        range_ = ValueRange.of(column, texts=texts)
        found.append(ColumnValues(member, canonical(column, keys, texts=texts), counts, range_))
    return found


def file_values(
    path: Path,
    options: ReadOptions | None = None,
    *,
    texts: bool = False,
    warn: Callable[[str], object] = lambda _: None,
) -> list[ColumnValues]:
    """Return the distinct values of each column of a file; of a large file some columns are read at a time."""
    options = options or ReadOptions()
    parts = -(-path.stat().st_size // _BYTES_AT_ONCE) if path.is_file() else 1
    asked = [options]
    if parts > 1:
        names = read_table(path, replace(options, limit=0)).schema.names
        size = -(-len(names) // parts)
        asked = [
            replace(options, include=names[start : start + size], exclude=()) for start in range(0, len(names), size)
        ]
    found = []
    for some in asked:
        table = read_table(path, some)
        for warning in table.warnings:
            warn(warning)
        found += column_values(table, texts=texts)
        del table
        pa.default_memory_pool().release_unused()
    return found


def clustered(tables: Sequence[Table], *, texts: bool = False) -> tuple[Clusters, list[GroupValues]]:
    """Return the clusters of all columns of tables, and their values."""
    clusters, parts = clustering([column for table in tables for column in column_values(table, texts=texts)])
    return clusters, list(parts)


def clustering(columns: list[ColumnValues]) -> tuple[Clusters, Iterator[GroupValues]]:
    """Return the clusters of columns, and their values in parts: clusters are complete after the last part.

    O(values), and a sort where there are many; memory for one part at a time. `columns` is emptied on the way.
    """
    clusters = Clusters([column.member for column in columns])
    return clusters, (_grouped(clusters, part) for part in _parts(columns))


def _parts(columns: list[ColumnValues]) -> Iterator[list[tuple[int, ColumnValues]]]:
    """Yield the columns of each type group with their numbers; many values a range at a time."""
    numbered = [(c, columns[c]) for c in range(len(columns))]
    columns.clear()
    for group in dict.fromkeys(column.member.group for _, column in numbered):
        places = [i for i, (_, column) in enumerate(numbered) if column.member.group is group]
        parts = -(-sum(len(numbered[i][1].counts) for i in places) // _VALUES_AT_ONCE)
        if parts <= 1:
            yield [numbered[i] for i in places]
            continue
        for i in places:
            numbered[i] = numbered[i][0], _sorted(numbered[i][1])
        yield from _ranges([numbered[i] for i in places], parts)


def _ranges(ordered: list[tuple[int, ColumnValues]], parts: int) -> Iterator[list[tuple[int, ColumnValues]]]:
    """Cut columns, each in order, at the same values."""
    share = 100 * parts / sum(len(column.counts) for _, column in ordered)
    sample = pa.concat_arrays([column.values.take(_every(len(column.counts), share)) for _, column in ordered])
    sample = sample.take(pc.sort_indices(sample))
    bounds = [sample[len(sample) * part // parts].as_py() for part in range(1, parts)]
    cuts = [
        [0, *(bisect_left(_Lookup(column.values), bound) for bound in bounds), len(column.counts)]
        for _, column in ordered
    ]
    for part in range(parts):
        yield [
            (c, ColumnValues(column.member, column.values.slice(a, b - a), column.counts[a:b]))
            for (c, column), (a, b) in zip(ordered, ((cut[part], cut[part + 1]) for cut in cuts), strict=True)
        ]


class _Lookup(Sequence[bytes]):
    """An Arrow array as bisection takes it."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, place: Any) -> Any:
        return self._values[place].as_py()


def _every(count: int, share: float) -> pa.Array:
    """Return evenly spaced positions: a sample of a column for bounds between parts."""
    return pa.array(np.linspace(0, count - 1, min(count, int(count * share) + 1)).astype(np.int64))


def _sorted(column: ColumnValues) -> ColumnValues:
    order = pc.sort_indices(column.values)
    return ColumnValues(column.member, column.values.take(order), column.counts[order.to_numpy().astype(np.int64)])


def _grouped(clusters: Clusters, members: Sequence[tuple[int, ColumnValues]]) -> GroupValues:
    """Assign numbers to the distinct values of columns of one type group, and add them to the clusters."""
    pooled = pc.dictionary_encode(
        pa.concat_arrays([column.values for _, column in members])
    )  # in one array, as chunks are slow
    places = pooled.indices.to_numpy().astype(np.int64)
    columns = np.repeat([c for c, _ in members], [len(column.counts) for _, column in members])
    occurrences = np.concatenate([column.counts for _, column in members])
    of_value = take_values(clusters, len(pooled.dictionary), places, columns, occurrences)
    return GroupValues(pooled.dictionary, places, columns, occurrences, of_value)


def take_values(clusters: Clusters, values: int, places: Ints, columns: Ints, counts: Ints) -> Ints:
    """Add new values to clusters: value `places[i]` is `counts[i]` times in column `columns[i]`.

    Returns the cluster of each value.
    """
    of_value = clusters.numbers(clusters.bits_of(values, places, columns))
    used, place = np.unique(of_value, return_inverse=True)
    total = clusters.tallied(used, place[places], columns, counts)
    clusters.change(used, np.bincount(place, minlength=len(used)).astype(np.int64), total)
    return of_value
