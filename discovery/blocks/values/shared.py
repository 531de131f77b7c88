"""The values that the columns of tables in blocks share: all occurrences of a value are sent to one executor.

Blocks yield their distinct values, column by column, as canonical bytes; the hash of a value decides its part. So each
part has all columns of its values, and answers with their clusters, whose number does not grow with the values.

Invariant: every value is in one part, with all columns that have it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import ColumnRef, InclusionDependency, Value
from holdfast.discovery.blocks.executors import Given, Taken, by_part
from holdfast.discovery.blocks.storage.block import Block, table_of
from holdfast.discovery.blocks.storage.hashing import hashed
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.discovery.blocks.values.records import part_of
from holdfast.discovery.inclusion.clusters import Clusters, Member, members_of
from holdfast.discovery.inclusion.seeding import take_values
from holdfast.tables.arrays import Bits, Ints
from holdfast.tables.canonical import canonical, shown
from holdfast.tables.columnar import Table

Answer = TypeVar("Answer")

_VALUES = pa.schema([("value", pa.large_binary()), ("column", pa.int32()), ("count", pa.int64())])
VALUES_A_PART = 1 << 19
"""The approximate number of values of a part."""
_CELLS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class _Task:
    """A block whose values are wanted, with the numbers of its columns; None for columns to leave out."""

    source: Source
    block: Block
    numbers: tuple[int | None, ...]


@dataclass(frozen=True)
class PartValues:
    """All values of a part; for each line its value, column and occurrences."""

    distinct: pa.Array
    places: Ints
    columns: Ints
    counts: Ints


@dataclass(frozen=True)
class ClusterCounts:
    """The numbers of values of sets of columns, as tasks send them.

    Parameters
    ----------
    sets : distinct sets of columns, as bits.
    values : the number of values of each set.
    occurrences : the occurrences in each column, flat.
    """

    sets: Bits
    values: Ints
    occurrences: Ints

    @classmethod
    def of(cls, clusters: Clusters) -> "ClusterCounts":
        """Return the counts of clusters."""
        return cls(clusters.bits(np.arange(clusters.count)), clusters.values, clusters.occurrences)

    def add_to(self, clusters: Clusters) -> None:
        """Add the counts to clusters of the same columns."""
        if len(self.sets):
            clusters.change(clusters.numbers(self.sets), self.values, self.occurrences)


@dataclass(frozen=True)
class BlockValues:
    """The columns of tables, and the tasks that yield their values."""

    members: list[Member]
    tasks: list[_Task]
    table: BlockTable
    parts: int
    texts: bool


def clusters_of(
    tables: Mapping[str, BlockTable], *, texts: bool = False, only: Collection[ColumnRef] | None = None
) -> Clusters:
    """Return the clusters of all columns of tables, or of some columns."""
    values = values_of(tables, texts=texts, only=only)
    clusters = Clusters(values.members)
    for found in exchanged(values, partial(clustered, values.members)):
        found.add_to(clusters)
    return clusters


def missing_values(
    tables: Mapping[str, BlockTable], dependencies: Sequence[InclusionDependency], most: int, *, texts: bool = False
) -> dict[InclusionDependency, list[Value]]:
    """Return for each inclusion values of its left column that its right column lacks."""
    wanted = {side for dependency in dependencies for side in (dependency.dependent, dependency.referenced)}
    values = values_of(tables, texts=texts, only=wanted)
    refs = [member.ref for member in values.members]
    sides = [(refs.index(d.dependent), refs.index(d.referenced)) for d in dependencies]
    found: dict[InclusionDependency, list[bytes]] = {dependency: [] for dependency in dependencies}
    for answer in exchanged(values, partial(_missing, len(refs), sides, most)):
        for dependency, some in zip(dependencies, answer, strict=True):
            found[dependency] = sorted([*found[dependency], *some])[:most]
    return {dependency: [shown(value) for value in some] for dependency, some in found.items()}


def overlaps_of(table: BlockTable) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the result of `tables.overlap` for every two columns of one type group."""
    values = values_of({table.schema.table: table}, texts=False, only=None)
    width = len(values.members)
    smaller, totals = np.zeros((width, width), np.int64), np.zeros(width, np.int64)
    for shared, counted in exchanged(values, partial(_overlapping, width)):
        smaller += shared
        totals += counted
    return {
        (a, b): (int(smaller[a, b]), int(totals[a] + totals[b] - smaller[a, b]))
        for a in range(width)
        for b in range(a + 1, width)
        if values.members[a].group is values.members[b].group
    }


def values_of(
    tables: Mapping[str, BlockTable],
    *,
    texts: bool,
    only: Collection[ColumnRef] | None,
    a_part: int = VALUES_A_PART,
) -> BlockValues:
    """Return the columns of tables, or some columns, and the tasks that yield their values."""
    members: list[Member] = []
    tasks: list[_Task] = []
    for table in tables.values():
        numbers: list[int | None] = []
        for member in members_of(Table(table.schema, (), 0), texts=texts):
            wanted = only is None or member.ref in only
            numbers.append(len(members) if wanted else None)
            members += [member] if wanted else []
        tasks += [_Task(table.source, block, tuple(numbers)) for block in table.base.blocks]
    first = next(iter(tables.values()))
    cells = sum(table.row_count * len(table.schema) for table in tables.values())
    parts = max(2 * first.executors.cores, -(-cells // a_part))
    return BlockValues(members, tasks, first, parts, texts)


def exchanged(values: BlockValues, take: Callable[[PartValues], Answer]) -> Iterator[Answer]:
    """Yield the answer of `take` for each part that has values."""
    work = partial(_given, values.parts, values.texts)
    return values.table.executors.exchange(work, values.tasks, values.parts, partial(_of_part, take))


# What a task does


def _given(parts: int, texts: bool, task: _Task) -> Given:
    """Yield the distinct values of a block, with the part of each."""
    table = table_of(task.source.read(task.block), task.source.schema)
    some = [_VALUES.empty_table()]
    for number, column in zip(task.numbers, table.columns, strict=True):
        if number is not None:
            keys, counts = column.counts
            values = canonical(column, keys, texts=texts).cast(pa.large_binary())
            arrays = [values, pa.array(np.full(len(values), number, np.int32)), pa.array(counts)]
            some.append(pa.table(arrays, schema=_VALUES))
    rows = pa.concat_tables(some).combine_chunks()
    return by_part(rows, part_of(hashed(rows.column("value").combine_chunks()), parts))


def _of_part(take: Callable[[PartValues], Answer], taken: Taken) -> Iterator[Answer]:
    rows = pa.concat_tables(taken)
    pooled = pc.dictionary_encode(rows.column("value").combine_chunks())
    if isinstance(pooled, pa.ChunkedArray):
        pooled = pooled.combine_chunks()
    yield take(
        PartValues(
            pooled.dictionary,
            pooled.indices.to_numpy().astype(np.int64),
            rows.column("column").to_numpy().astype(np.int64),
            rows.column("count").to_numpy(),
        )
    )


def clustered(members: list[Member], part: PartValues) -> ClusterCounts:
    """Return the clusters of a part."""
    clusters = Clusters(members)
    take_values(clusters, len(part.distinct), part.places, part.columns, part.counts)
    return ClusterCounts.of(clusters)


def _missing(width: int, sides: Sequence[tuple[int, int]], most: int, part: PartValues) -> list[list[bytes]]:
    """Return for each pair of columns the least values of the first that the second lacks."""
    found: list[list[bytes]] = [[] for _ in sides]
    for start, counts in _dense(width, part):
        for i, (left, right) in enumerate(sides):
            places = np.flatnonzero((counts[:, left] > 0) & (counts[:, right] == 0)) + start
            found[i] = sorted([*found[i], *part.distinct.take(pa.array(places)).to_pylist()])[:most]
    return found


def _overlapping(width: int, part: PartValues) -> tuple[np.ndarray, Ints]:
    """Return for every two columns the sum of the smaller counts of their values, and the cells of each column."""
    smaller, totals = np.zeros((width, width), np.int64), np.zeros(width, np.int64)
    for _, counts in _dense(width, part):
        totals += counts.sum(axis=0)
        shared = counts[(counts > 0).sum(axis=1) > 1]
        for a in range(width):
            smaller[a, a + 1 :] += np.minimum(shared[:, a, None], shared[:, a + 1 :]).sum(axis=0)
    return smaller, totals


def _dense(width: int, part: PartValues) -> Iterator[tuple[int, Ints]]:
    """Yield the occurrences of values in all columns, some values at a time, with the position of the first."""
    step = max(1, _CELLS_AT_ONCE // max(width, 1))
    order = np.argsort(part.places, kind="stable")
    places = part.places[order]
    for start in range(0, len(part.distinct), step):
        some = order[np.searchsorted(places, start) : np.searchsorted(places, start + step)]
        counts = np.zeros((min(step, len(part.distinct) - start), width), np.int64)
        np.add.at(counts, (part.places[some] - start, part.columns[some]), part.counts[some])
        yield start, counts
