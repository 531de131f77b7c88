"""The values of all columns of live tables, in files that all executors reach; the driver has their names.

The hash of a value decides its part. A part is a list of immutable files, oldest first; the latest record of a value
counts. A new file is merged with the last files that are not much larger, so there are few files, and a value is
written again about as often as the number of values doubles. Parts that become too large are halved.

    part 0    4,000,000 values    900,000    70,000     one file each
    part 1    4,100,000           ...

Records name columns, not clusters: the driver alone knows the numbers of clusters.

Invariant: a `ValueParts` is a value, and files never change: a change returns another `ValueParts`, and the first stays
valid until the files that only it names are removed.
"""

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from holdfast.constraints import ColumnRef
from holdfast.discovery.blocks.executors import Executors
from holdfast.discovery.blocks.storage.hashing import hashed
from holdfast.discovery.blocks.storage.location import KEPT, Storage, bytes_of
from holdfast.discovery.blocks.storage.table import BlockTable
from holdfast.discovery.blocks.values.records import NOT_FOUND, ValueRecords, part_of
from holdfast.discovery.blocks.values.shared import (
    VALUES_A_PART,
    ClusterCounts,
    PartValues,
    clustered,
    exchanged,
    values_of,
)
from holdfast.discovery.inclusion.clusters import Clusters, Member
from holdfast.discovery.inclusion.seeding import take_values
from holdfast.tables.arrays import Ints

_MUCH_LARGER = 2
_FIRST_LISTED = 8


@dataclass(frozen=True)
class ValueFiles:
    """Where the files are, and where tasks on them run.

    Parameters
    ----------
    executors, storage : where tasks run, and where files are.
    most : the approximate number of values of a part.
    most_changed : the most values of which a state may have records that the files do not have.
    """

    executors: Executors
    storage: Storage
    most: int = VALUES_A_PART
    most_changed: int = 200_000


@dataclass(frozen=True)
class Run:
    """A file.

    Parameters
    ----------
    name : the name of the file.
    values : the number of its records, records without occurrences included.
    """

    name: str
    values: int


Runs = tuple[Run, ...]
"""The files of a part, oldest first."""


@dataclass(frozen=True)
class Emptied:
    """The result of removing columns.

    Parameters
    ----------
    before, after : the clusters of the values of these columns, before, and of those left in other columns, after.
    examples : a value of each cluster of `before`.
    """

    before: ClusterCounts
    after: ClusterCounts
    examples: list[bytes]


@dataclass(frozen=True)
class _Part:
    """A part as tasks get it."""

    storage: Storage
    number: int
    runs: Runs

    def read(self, runs: Runs) -> ValueRecords:
        """Return the records of successive files, merged; kept by the process while there is room."""

        def make() -> tuple[ValueRecords, int]:
            records = ValueRecords.merged([self._stored(run) for run in runs])
            return records, records.nbytes

        return KEPT.get(tuple(run.name for run in runs), make)

    def _stored(self, run: Run) -> ValueRecords:
        until = "a state names them. Seed anew: holdfast seed --replace"
        data = bytes_of(self.storage.open(), run.name, f"the file of values {run.name} is", until)
        return ValueRecords.read(data)

    def with_more(self, records: ValueRecords) -> Runs:
        """Write more records, and return the files of the part."""
        if not len(records):
            return self.runs
        folded = _folded(self.runs, len(records))
        kept, merged = self.runs[: len(self.runs) - folded], self.runs[len(self.runs) - folded :]
        if merged:
            records = ValueRecords.merged([self.read(merged), records])
        if not kept:
            records = records.occurring
        return (*kept, *_written(self.storage, records))


def _folded(runs: Runs, more: int) -> int:
    """Return the number of latest files that new records are merged with.

    >>> [_folded((Run("a", 1000), Run("b", 100), Run("c", 5)), more) for more in (1, 3, 50, 500)]
    [0, 1, 2, 3]
    """
    for count, run in enumerate(reversed(runs)):
        if run.values > _MUCH_LARGER * more:
            return count
        more += run.values
    return len(runs)


def _written(storage: Storage, records: ValueRecords) -> Runs:
    """Write a file, unless there are no records."""
    if not len(records):
        return ()
    run = Run(secrets.token_hex(16), len(records))
    storage.open().put(run.name, records.written())
    return (run,)


class ValueParts:
    """The values of all columns.

    Parameters
    ----------
    files : where the files are.
    parts : the files of each part; empty where no values are in files.
    """

    def __init__(self, files: ValueFiles, parts: Sequence[Runs]) -> None:
        self.files = files
        self.parts = tuple(parts)

    @classmethod
    def seed(
        cls,
        tables: Mapping[str, BlockTable],
        files: ValueFiles,
        *,
        texts: bool = False,
        only: Collection[ColumnRef] | None = None,
    ) -> tuple[Clusters, "ValueParts"]:
        """Write the values of all columns of tables, or of some columns; return their clusters, too.

        One exchange; no value reaches the driver.
        """
        values = values_of(tables, texts=texts, only=only, a_part=files.most)
        clusters, parts = Clusters(values.members), [Runs()] * values.parts
        work = partial(_seeded, files.storage, values.parts, values.members)
        for number, runs, counted in exchanged(values, work):
            parts[number] = runs
            counted.add_to(clusters)
        return clusters, cls(files, parts)

    @classmethod
    def read(cls, described: Sequence[Sequence[tuple[str, int]]], files: ValueFiles) -> "ValueParts":
        """Return the inverse of `described`."""
        return cls(files, [tuple(Run(name, values) for name, values in runs) for runs in described])

    @property
    def described(self) -> list[list[tuple[str, int]]]:
        """The description to store, as plain JSON values."""
        return [[(run.name, run.values) for run in runs] for runs in self.parts]

    @property
    def names(self) -> frozenset[str]:
        """The names of all files."""
        return frozenset(run.name for runs in self.parts for run in runs)

    def counts(self, values: pa.Array, columns: int) -> Ints:
        """Return (m, C) the occurrences of values in each column. O(m log n).

        Tasks look up values of several parts, as few values of each part are requested.
        """
        found = np.zeros((len(values), columns), np.int64)
        asked = {number: places for number, places in self._places(values) if self.parts[number]}
        tasks = [(self._part(number), values.take(pa.array(places))) for number, places in asked.items()]
        cores = self.files.executors.cores
        shares = [tasks[share::cores] for share in range(min(cores, len(tasks)))]
        for answer in self.files.executors.run(_all_looked_up, shares):
            for number, places, of, counts in answer:
                found[asked[number][places], of] = counts
        return found

    def lacking(self, one: int, other: int) -> Iterator[bytes]:
        """Yield values that column `one` has and column `other` lacks; parts are read while values are consumed."""
        waiting = [_Listing(part, one, other) for part in self._in_use]
        at_once = self.files.executors.cores
        while waiting:
            asked, waiting = waiting[:at_once], waiting[at_once:]
            for values, more in self.files.executors.run(_listed, asked):
                yield from values
                waiting += more
            at_once *= 2

    def with_more(self, records: ValueRecords) -> "ValueParts":
        """Return the parts with more records, which replace earlier records. A value without occurrences is removed.

        Parts that become too large are halved.
        """
        here = len(self.parts)
        is_large = sum(run.values for runs in self.parts for run in runs) > self.files.most * here
        count = 2 * here if is_large else here
        which = part_of(records.hashes, here)
        numbers = range(here) if is_large else np.unique(which).tolist()
        tasks = [_Extension(self._part(n), records.take(np.flatnonzero(which == n)), count, here) for n in numbers]
        parts: list[Runs] = [*self.parts, *[()] * (count - here)]
        for answer in self.files.executors.run(_extended, tasks):
            for number, runs in answer:
                parts[number] = runs
        return ValueParts(self.files, parts)

    def placed_anew(self) -> "ValueParts":
        """Return the same number of parts, in new files, with values that an earlier hash placed. O(values)."""
        parts: list[Runs] = [()] * len(self.parts)
        tasks = [(part, len(self.parts)) for part in self._in_use]
        for answer in self.files.executors.run(_placed_anew, tasks):
            for number, runs in answer:
                parts[number] = (*parts[number], *runs)  # no value is in two of them
        return ValueParts(self.files, parts)

    def emptied(
        self, columns: Ints, but: Sequence[bytes], members: Sequence[Member]
    ) -> tuple["ValueParts", list[Emptied]]:
        """Return the parts without occurrences in some columns, and the changes of the clusters of each part.

        Parameters
        ----------
        columns : the numbers of the columns.
        but : values with later records elsewhere, which are not changed.
        members : all columns.
        """
        parts, answers = list(self.parts), []
        tasks = [(columns, members, *spared) for spared in self._sparing(but)]
        for number, runs, emptied in self.files.executors.run(_emptied, tasks):
            parts[number] = runs
            answers.append(emptied)
        return ValueParts(self.files, parts), answers

    def counted(self, but: Sequence[bytes], members: Sequence[Member]) -> Iterator[ClusterCounts]:
        """Yield the clusters of the values of each part, except the values `but`. O(values)."""
        yield from self.files.executors.run(_counted, [(members, *spared) for spared in self._sparing(but)])

    @property
    def _in_use(self) -> list[_Part]:
        """The parts that have files."""
        return [self._part(number) for number, runs in enumerate(self.parts) if runs]

    def _part(self, number: int) -> _Part:
        return _Part(self.files.storage, number, self.parts[number])

    def _places(self, values: pa.Array) -> Iterator[tuple[int, Ints]]:
        """Yield the positions of values in each part that has any of them."""
        which = part_of(hashed(values), max(1, len(self.parts)))
        order = np.argsort(which, kind="stable")
        numbers, starts = np.unique(which[order], return_index=True)
        yield from zip(numbers.tolist(), np.split(order, starts[1:]), strict=False)  # of no values: no number, one part

    def _sparing(self, but: Sequence[bytes]) -> Iterator[tuple[_Part, pa.Array]]:
        """Yield the parts that have files, each with the values of `but` that belong to it."""
        values = pa.array(but, pa.large_binary())
        places = dict(self._places(values))
        for part in self._in_use:
            yield part, values.take(pa.array(places.get(part.number, []), pa.int64()))


# What a task does


@dataclass(frozen=True)
class _Listing:
    """A request for values that one column has and another lacks: a limited number, from a row on."""

    part: _Part
    one: int
    other: int
    start: int = 0
    most: int = _FIRST_LISTED


@dataclass(frozen=True)
class _Extension:
    """A task: add records to a part. `parts` and `into` are the numbers of all parts before and after."""

    part: _Part
    records: ValueRecords
    into: int
    parts: int


def _seeded(storage: Storage, parts: int, members: list[Member], values: PartValues) -> tuple[int, Runs, ClusterCounts]:
    """Write the values of a part; return its number, its files and the clusters of its values."""
    records = ValueRecords.of(values.distinct, values.places, values.columns, values.counts)
    number = int(part_of(records.hashes[:1], parts)[0])
    return number, _written(storage, records), clustered(members, values)


def _all_looked_up(tasks: Sequence[tuple[_Part, pa.Array]]) -> list[tuple[int, Ints, Ints, Ints]]:
    return [_looked_up(task) for task in tasks]


def _looked_up(task: tuple[_Part, pa.Array]) -> tuple[int, Ints, Ints, Ints]:
    """Return the occurrences of values in columns."""
    part, values = task
    records = part.read(part.runs)
    rows = records.rows_of(values, hashed(values))
    known = np.flatnonzero(rows != NOT_FOUND)
    found = records.take(rows[known])
    return part.number, known[found.places], found.columns, found.counts


def _listed(task: _Listing) -> tuple[list[bytes], list[_Listing]]:
    """Return some values, and the request for more, if there may be more."""
    records = task.part.read(task.part.runs)
    rows = np.flatnonzero(records.has(task.one) & ~records.has(task.other))
    rows = rows[np.searchsorted(rows, task.start) :]
    some = rows[: task.most]
    left = [replace(task, start=int(rows[task.most]), most=4 * task.most)] if len(rows) > task.most else []
    return records.values.take(pa.array(some)).to_pylist(), left


def _extended(task: _Extension) -> list[tuple[int, Runs]]:
    """Return the files of a part, or of the parts that it is cut into, with more records."""
    part = task.part
    if task.into == task.parts:
        return [(part.number, part.with_more(task.records))]
    earlier = [part.read(part.runs)] if part.runs else []
    records = ValueRecords.merged([*earlier, task.records]).occurring
    return _divided(part.storage, records, task.into, range(part.number, task.into, task.parts))


def _placed_anew(task: tuple[_Part, int]) -> list[tuple[int, Runs]]:
    """Return the files of the parts that the values of a part are placed in by the present hash."""
    part, parts = task
    return _divided(part.storage, part.read(part.runs).occurring.hashed_anew, parts, range(parts))


def _divided(storage: Storage, records: ValueRecords, parts: int, numbers: Sequence[int]) -> list[tuple[int, Runs]]:
    """Cut records into parts, and write the parts with given numbers."""
    which = part_of(records.hashes, parts)
    return [(number, _written(storage, records.take(np.flatnonzero(which == number)))) for number in numbers]


def _emptied(task: tuple[Ints, Sequence[Member], _Part, pa.Array]) -> tuple[int, Runs, Emptied]:
    """Remove columns from the records of a part."""
    columns, members, part, but = task
    records = _spared(part, but)
    records = records.take(np.unique(records.places[np.isin(records.columns, columns)]))
    before, of_value = _clusters(records, members)
    stripped = records.without(columns)
    after, _ = _clusters(stripped.occurring, members)
    _, first = np.unique(of_value, return_index=True)
    examples = records.values.take(pa.array(first)).to_pylist()
    return (
        part.number,
        part.with_more(stripped),
        Emptied(ClusterCounts.of(before), ClusterCounts.of(after), examples),
    )


def _counted(task: tuple[Sequence[Member], _Part, pa.Array]) -> ClusterCounts:
    members, part, but = task
    return ClusterCounts.of(_clusters(_spared(part, but), members)[0])


def _spared(part: _Part, but: pa.Array) -> ValueRecords:
    """Return the values that occur, except the values `but`."""
    records = part.read(part.runs)
    occurs = np.diff(records.bounds) > 0
    rows = records.rows_of(but, hashed(but))
    occurs[rows[rows != NOT_FOUND]] = False
    return records.take(np.flatnonzero(occurs))


def _clusters(records: ValueRecords, members: Sequence[Member]) -> tuple[Clusters, Ints]:
    """Return the clusters of values, and the cluster of each value."""
    clusters = Clusters(members)
    return clusters, take_values(clusters, len(records), records.places, records.columns, records.counts)
