"""The values of all columns of live tables, in files that all executors reach; the driver knows their names.

A value is in the part that its hash says. A part is some immutable files, oldest first: what a later one says of a
value counts. A later file is merged with those before it that are not much larger than it is, so there are few of
them, and a value is written again about as often as all values double. Where parts become too large, they are halved.

    part 0    4,000,000 values    900,000    70,000     one file each
    part 1    4,100,000           ...

Records name columns, and no clusters: which set of columns has which number is the driver's business.

Invariant: a `ValueParts` is a value, and files never change: what is made of it is another one, and whoever keeps the
first has all as it was, until somebody removes the files that only this one names.
"""

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from holdfast.constraints import ColumnRef, ExternalError
from holdfast.discovery.blocks.executors import Executors
from holdfast.discovery.blocks.storage.hashing import hashed
from holdfast.discovery.blocks.storage.location import KEPT, Storage
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
    """Where the files are, and who works on them.

    Parameters
    ----------
    executors, storage : these run the work, and reach that.
    most : values of a part, more or less.
    most_changed : of how many values a state may say something that the files do not.
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
    name : of the file.
    values : how many it tells of, also as gone.
    """

    name: str
    values: int


Runs = tuple[Run, ...]
"""The files of a part, oldest first."""


@dataclass(frozen=True)
class Emptied:
    """What became of the values that some columns had.

    Parameters
    ----------
    before, after : the clusters of these values, and of those that other columns still have.
    examples : one value of each cluster of `before`.
    """

    before: ClusterCounts
    after: ClusterCounts
    examples: list[bytes]


@dataclass(frozen=True)
class _Part:
    """A part as tasks have it."""

    storage: Storage
    number: int
    runs: Runs

    def read(self, runs: Runs) -> ValueRecords:
        """Return what some files that follow each other say together; kept, where there is room."""

        def make() -> tuple[ValueRecords, int]:
            records = ValueRecords.merged([self._stored(run) for run in runs])
            return records, records.nbytes

        return KEPT.get(tuple(run.name for run in runs), make)

    def _stored(self, run: Run) -> ValueRecords:
        place = self.storage.open()
        data = place.get(run.name)
        if data is None:
            raise ExternalError(
                f"the file of values {run.name} is gone from {place}: every executor has to reach this folder, and "
                "nobody may remove its files while a state names them. Seed anew: holdfast seed --replace"
            )
        return ValueRecords.read(data)

    def with_more(self, records: ValueRecords) -> Runs:
        """Return the files of the part once some more records count, which are written."""
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
    """Return how many of the latest files so many records are merged with.

    >>> [_folded((Run("a", 1000), Run("b", 100), Run("c", 5)), more) for more in (1, 3, 50, 500)]
    [0, 1, 2, 3]
    """
    for count, run in enumerate(reversed(runs)):
        if run.values > _MUCH_LARGER * more:
            return count
        more += run.values
    return len(runs)


def _written(storage: Storage, records: ValueRecords) -> Runs:
    """Write a file, unless there is nothing to write."""
    if not len(records):
        return ()
    run = Run(secrets.token_hex(16), len(records))
    storage.open().put(run.name, records.written())
    return (run,)


class ValueParts:
    """The values of all columns.

    Parameters
    ----------
    files : where they are.
    parts : the files of each part; none of it where no values are in files.
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
        """Write the values of all columns of some tables, or of some columns; return their clusters, too.

        One exchange; the driver holds no value.
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
        """What has to be stored of it, as JSON has it."""
        return [[(run.name, run.values) for run in runs] for runs in self.parts]

    @property
    def names(self) -> frozenset[str]:
        """The files."""
        return frozenset(run.name for runs in self.parts for run in runs)

    def counts(self, values: pa.Array, columns: int) -> Ints:
        """Return (m, C) how often each column has each of some values. O(m log n).

        Of many parts few values are asked: a task for each would cost more than its work.
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
        """Yield values that one column has and another one lacks; more parts are asked as long as somebody goes on."""
        waiting = [_Listing(part, one, other) for part in self._in_use]
        at_once = self.files.executors.cores
        while waiting:
            asked, waiting = waiting[:at_once], waiting[at_once:]
            for values, more in self.files.executors.run(_listed, asked):
                yield from values
                waiting += more
            at_once *= 2

    def with_more(self, records: ValueRecords) -> "ValueParts":
        """Return the parts with some records that count from now on. A value without occurrences is gone.

        Where parts are too large, they are halved on the way.
        """
        here = len(self.parts)
        is_large = sum(run.values for runs in self.parts for run in runs) > self.files.most * here
        count = 2 * here if is_large else here
        which = part_of(records.hashes, here)
        numbers = range(here) if is_large else np.unique(which).tolist()
        tasks = [_Extended(self._part(n), records.take(np.flatnonzero(which == n)), count, here) for n in numbers]
        parts: list[Runs] = [*self.parts, *[()] * (count - here)]
        for answer in self.files.executors.run(_extended, tasks):
            for number, runs in answer:
                parts[number] = runs
        return ValueParts(self.files, parts)

    def placed_anew(self) -> "ValueParts":
        """Return as many parts, in new files, of values that an earlier hash placed. O(values), on executors."""
        parts: list[Runs] = [()] * len(self.parts)
        tasks = [(part, len(self.parts)) for part in self._in_use]
        for answer in self.files.executors.run(_placed_anew, tasks):
            for number, runs in answer:
                parts[number] = (*parts[number], *runs)  # no value is in two of them
        return ValueParts(self.files, parts)

    def emptied(
        self, columns: Ints, but: Sequence[bytes], members: Sequence[Member]
    ) -> tuple["ValueParts", list[Emptied]]:
        """Return the parts where nothing occurs in some columns any more, and what became of the values of each part.

        Parameters
        ----------
        columns : by their numbers.
        but : values of which something later is known, and which are left alone.
        members : all columns.
        """
        parts, answers = list(self.parts), []
        tasks = [(columns, members, *spared) for spared in self._sparing(but)]
        for number, runs, emptied in self.files.executors.run(_emptied, tasks):
            parts[number] = runs
            answers.append(emptied)
        return ValueParts(self.files, parts), answers

    def counted(self, but: Sequence[bytes], members: Sequence[Member]) -> Iterator[ClusterCounts]:
        """Yield the clusters of the values of each part but some. O(values)."""
        yield from self.files.executors.run(_counted, [(members, *spared) for spared in self._sparing(but)])

    @property
    def _in_use(self) -> list[_Part]:
        """The parts that have files."""
        return [self._part(number) for number, runs in enumerate(self.parts) if runs]

    def _part(self, number: int) -> _Part:
        return _Part(self.files.storage, number, self.parts[number])

    def _places(self, values: pa.Array) -> Iterator[tuple[int, Ints]]:
        """Yield which of some values are in each part that has any of them."""
        which = part_of(hashed(values), max(1, len(self.parts)))
        order = np.argsort(which, kind="stable")
        numbers, starts = np.unique(which[order], return_index=True)
        yield from zip(numbers.tolist(), np.split(order, starts[1:]), strict=False)  # of no values: no number, one part

    def _sparing(self, but: Sequence[bytes]) -> Iterator[tuple[_Part, pa.Array]]:
        """Yield the parts that have files, each with those of some values that may be in it."""
        values = pa.array(but, pa.large_binary())
        places = dict(self._places(values))
        for part in self._in_use:
            yield part, values.take(pa.array(places.get(part.number, []), pa.int64()))


# What a task does


@dataclass(frozen=True)
class _Listing:
    """Values that one column has and another one lacks: so many at most, from a row on."""

    part: _Part
    one: int
    other: int
    start: int = 0
    most: int = _FIRST_LISTED


@dataclass(frozen=True)
class _Extended:
    """A part that gets more records, and into how many it is cut."""

    part: _Part
    records: ValueRecords
    into: int
    parts: int


def _seeded(storage: Storage, parts: int, members: list[Member], values: PartValues) -> tuple[int, Runs, ClusterCounts]:
    """Write all values of a part, where they were brought together."""
    records = ValueRecords.of(values.distinct, values.places, values.columns, values.counts)
    number = int(part_of(records.hashes[:1], parts)[0])
    return number, _written(storage, records), clustered(members, values)


def _all_looked_up(tasks: Sequence[tuple[_Part, pa.Array]]) -> list[tuple[int, Ints, Ints, Ints]]:
    return [_looked_up(task) for task in tasks]


def _looked_up(task: tuple[_Part, pa.Array]) -> tuple[int, Ints, Ints, Ints]:
    """Return which of some values is how often in which columns."""
    part, values = task
    records = part.read(part.runs)
    rows = records.rows_of(values, hashed(values))
    known = np.flatnonzero(rows != NOT_FOUND)
    found = records.take(rows[known])
    return part.number, known[found.places], found.columns, found.counts


def _listed(task: _Listing) -> tuple[list[bytes], list[_Listing]]:
    """Return some values, and what is to be asked where they are not enough."""
    records = task.part.read(task.part.runs)
    rows = np.flatnonzero(records.has(task.one) & ~records.has(task.other))
    rows = rows[np.searchsorted(rows, task.start) :]
    some = rows[: task.most]
    left = [replace(task, start=int(rows[task.most]), most=4 * task.most)] if len(rows) > task.most else []
    return records.values.take(pa.array(some)).to_pylist(), left


def _extended(task: _Extended) -> list[tuple[int, Runs]]:
    """Return the files of a part, or of what it becomes, once it has more records."""
    part = task.part
    if task.into == task.parts:
        return [(part.number, part.with_more(task.records))]
    earlier = [part.read(part.runs)] if part.runs else []
    records = ValueRecords.merged([*earlier, task.records]).occurring
    return _divided(part.storage, records, task.into, range(part.number, task.into, task.parts))


def _placed_anew(task: tuple[_Part, int]) -> list[tuple[int, Runs]]:
    """Return the files that the values of a part go to, for each part that gets any of them."""
    part, parts = task
    return _divided(part.storage, part.read(part.runs).occurring.hashed_anew, parts, range(parts))


def _divided(storage: Storage, records: ValueRecords, parts: int, numbers: Sequence[int]) -> list[tuple[int, Runs]]:
    """Write each of some parts of records, of so many parts."""
    which = part_of(records.hashes, parts)
    return [(number, _written(storage, records.take(np.flatnonzero(which == number)))) for number in numbers]


def _emptied(task: tuple[Ints, Sequence[Member], _Part, pa.Array]) -> tuple[int, Runs, Emptied]:
    """Take some columns out of the records of a part."""
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
    """Return the values that occur, but some."""
    records = part.read(part.runs)
    occurs = np.diff(records.bounds) > 0
    rows = records.rows_of(but, hashed(but))
    occurs[rows[rows != NOT_FOUND]] = False
    return records.take(np.flatnonzero(occurs))


def _clusters(records: ValueRecords, members: Sequence[Member]) -> tuple[Clusters, Ints]:
    """Return the clusters of some values, and the cluster of each."""
    clusters = Clusters(members)
    return clusters, take_values(clusters, len(records), records.places, records.columns, records.counts)
