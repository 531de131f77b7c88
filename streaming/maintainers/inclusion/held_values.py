"""How often each value occurs in each column: in the store, and in files if one machine cannot hold all values.

    inclusion_values    <canonical value>            cluster, 4 bytes; then 8 bytes for each of its columns: occurrences
                                                     empty: no column has the value, but files may still have it
    inclusion_members   <cluster, 4> <value>         empty: a scan finds the values of a cluster
    meta                inclusion_parts              JSON: "hash", the name of the hash that placed values, and "parts",
                                                     the files of each part (`discovery/blocks/values/parts.py`)

Numbers have their most significant byte last in values, and first in keys. Where there are files, the store has the
values that changed since the files were written: a record of the store counts, and values without a record are as the
files have them. Once the store has too many records, a batch writes all of them into new files, before it is committed;
its commit names the files. Values that the hash of an earlier version placed are placed anew at the start, in files
that the first batch names; until then the store names the old files, which a repeated start reads again.

Invariant: nothing is written to the store here; the changes of a batch are in `written`, and the next batch sees them
once they are in the store.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import StateRefused
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.storage.hashing import HASH, OF_PANDAS
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.values.parts import Emptied, ValueFiles, ValueParts
from holdfast.discovery.blocks.values.records import ValueRecords
from holdfast.discovery.inclusion.clusters import Clusters
from holdfast.discovery.inclusion.seeding import GroupValues
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.tables.arrays import Ints

VALUES, MEMBERS = "inclusion_values", "inclusion_members"
NONE = -1
"""The number that stands for the cluster of a value that no column has."""

_PARTS = b"inclusion_parts"
_CELLS_AT_ONCE = 1 << 22
NO_FILES = ValueParts(ValueFiles(InProcess(), Storage("")), ())
"""All values are in the store."""


@dataclass(frozen=True)
class SortedValues:
    """Values sorted by their bytes, each with its cluster and its record."""

    keys: list[bytes]
    clusters: Ints
    records: list[bytes]

    @classmethod
    def of(cls, group: GroupValues) -> "SortedValues":
        """Return the values of a group, sorted, with their records."""
        order = pc.sort_indices(group.values).to_numpy().astype(np.int64)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        places = rank[group.places]
        by_value = np.lexsort((group.columns, places))
        bounds = np.searchsorted(places[by_value], np.arange(len(order) + 1))
        clusters = group.clusters[order]
        records = _records(clusters, group.counts[by_value], bounds)
        return cls(group.values.take(pa.array(order)).to_pylist(), clusters, records)

    @property
    def members(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the items of `inclusion_members`, in ascending order."""
        order = np.argsort(self.clusters, kind="stable")
        numbers, starts = np.unique(self.clusters[order], return_index=True)
        for number, rows in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            prefix = cluster_key(number)
            for row in rows.tolist():
                yield prefix + self.keys[row], b""


class HeldValues:
    """The values of all columns, as a store and files have them.

    Parameters
    ----------
    store : has all values, or those that changed since the files were written.
    parts : the files.
    outdated : the files that the store still names instead of these.
    """

    def __init__(self, store: Reader, parts: ValueParts = NO_FILES, outdated: frozenset[str] = frozenset()) -> None:
        self._store = store
        self.parts = parts
        self._outdated = outdated
        self._changed = sum(1 for _ in self._stored) if parts.parts else 0
        self.begin()

    @staticmethod
    def restored(store: Reader, files: ValueFiles | None) -> "HeldValues":
        """Return the values that were saved."""
        stored = store.get("meta", _PARTS)
        if stored is None:
            return HeldValues(store)
        if files is None:
            raise StateRefused(
                "the state has the values of inclusions in files on executors' storage: it was seeded with `engine: "
                "spark`. Use it with this engine, or seed anew: holdfast seed --replace"
            )
        parts, by = _read_parts(stored, files)
        if by == OF_PANDAS:
            return HeldValues(store, parts.placed_anew(), parts.names)
        if by != HASH:
            raise StateRefused(
                f"the files of values in {files.storage.open()} were placed by hash {by}, this version of Holdfast "
                f"knows hashes up to {HASH}: use the version that wrote them, or a newer one"
            )
        return HeldValues(store, parts)

    def begin(self) -> None:
        """Begin a batch: the store has the changes of the batches before."""
        self.written = WriteBatch()
        self._is_put = False
        self._before = self.parts, self._changed

    def undo(self) -> None:
        """Take back the changes since `begin`."""
        self.parts, self._changed = self._before
        self.written = WriteBatch()
        self._is_put = False

    def save(self, clusters: Clusters) -> WriteBatch:
        """Return the changes of the batch; if the store has too many records, they are written into new files."""
        if self.parts.parts and self._changed > self.parts.files.most_changed:
            self._file(clusters)
        if self.parts is not self._before[0] or self._outdated:
            put_parts(self.parts, self.written)
            self._is_put = True
        return self.written

    @property
    def replaced(self) -> frozenset[str]:
        """The files that the store named before the batch, and does not name after it."""
        return (self._before[0].names | self._outdated) - self.parts.names if self._is_put else frozenset()

    def remove_replaced(self) -> None:
        """Remove the replaced files: no restart needs them any more."""
        if self.replaced:
            self.parts.files.storage.open().remove(sorted(self.replaced))
            self._before, self._outdated = (self.parts, self._changed), frozenset()

    def looked_up(self, clusters: Clusters, keys: list[bytes]) -> tuple[Ints, Ints]:
        """Return the cluster of each value, `NONE` for a new value, and the (m, C) occurrences."""
        stored = self._store.get_many(VALUES, keys)
        numbers, counts = _decoded(clusters, stored)
        unknown = np.flatnonzero([record is None for record in stored])
        if self.parts.parts and len(unknown):
            self._changed += len(unknown)
            found = self.parts.counts(pa.array([keys[i] for i in unknown.tolist()], pa.large_binary()), counts.shape[1])
            counts[unknown] = found
            occurs = np.flatnonzero(found.any(axis=1))
            value, column = np.nonzero(found)
            numbers[unknown[occurs]] = clusters.numbers(clusters.bits_of(len(found), value, column)[occurs])
        return numbers, counts

    def put(self, keys: list[bytes], old: Ints, new: Ints, after: Ints) -> None:
        """Note the new clusters and (m, C) occurrences of values, each value once in a batch."""
        occurs = after > 0
        records = _records(new, after[occurs], np.concatenate([[0], np.cumsum(occurs.sum(axis=1))]))
        gone = b"" if self.parts.parts else None
        kept = [record if number != NONE else gone for record, number in zip(records, new.tolist(), strict=True)]
        self.written.put_all(VALUES, keys, kept)
        listed_anew = (old != new) | bool(self.parts.parts)  # the store lists a value of the files from now on
        moved = np.flatnonzero(listed_anew)
        for i, one, other in zip(moved.tolist(), old[moved].tolist(), new[moved].tolist(), strict=True):
            if one != NONE:
                self.written.delete(MEMBERS, cluster_key(one) + keys[i])
            if other != NONE:
                self.written.put(MEMBERS, cluster_key(other) + keys[i], b"")

    def untouched(self, cluster: int) -> list[bytes]:
        """Return the values of a cluster in the store, without those that the batch changed."""
        touched = self.written.changes
        return [key for key in self._of_cluster(cluster) if (VALUES, key) not in touched]

    def truncate_files(self, clusters: Clusters, columns: Ints) -> list[Emptied]:
        """Remove all occurrences in the given columns from the files; return the changes of clusters."""
        if not self.parts.parts:
            return []
        put = (key for family, key in self.written.changes if family == VALUES)
        known = dict.fromkeys(chain(self._stored, put))
        self.parts, emptied = self.parts.emptied(columns, list(known), clusters.columns)
        return emptied

    def lacking(self, clusters: Clusters, one: int, other: int) -> Iterator[bytes]:
        """Yield the values that one column has and another column lacks, by a scan of their clusters."""
        for number in clusters.lacking(one, other).tolist():
            yield from self._of_cluster(number)
        for value in self.parts.lacking(one, other):
            if self._store.get(VALUES, value) is None:
                yield value

    def check_invariants(self, clusters: Clusters) -> None:
        """Assert that the clusters are those of the values; the last changes have to be in the store. O(values)."""
        values, occurrences = np.zeros_like(clusters.values), np.zeros_like(clusters.occurrences)
        every = np.arange(clusters.count)
        listed: set[bytes] = set()
        stored = self._store.scan(VALUES)
        while some := list(islice(stored, at_once(clusters))):
            numbers, counts = _decoded(clusters, [record for _, record in some])
            live = np.flatnonzero(numbers != NONE)
            assert self.parts.parts or len(live) == len(some)
            assert ((counts[live] > 0) == clusters.flags(numbers[live])).all()
            np.add.at(values, numbers[live], 1)
            value, column = np.nonzero(counts)
            occurrences += clusters.tallied(every, numbers[value], column, counts[value, column])
            listed.update(cluster_key(int(numbers[i])) + some[i][0] for i in live.tolist())
        assert listed == {key for key, _ in self._store.scan(MEMBERS)}
        for part in self.parts.counted(list(self._stored), clusters.columns):
            numbers = clusters.numbers(part.sets)
            values[numbers] += part.values
            place, columns = np.repeat(numbers, clusters.sizes(numbers)), clusters.columns_of(numbers)
            occurrences += clusters.tallied(every, place, columns.astype(np.int64), part.occurrences)
        assert (values == clusters.values).all()
        assert (occurrences == clusters.occurrences).all()

    def _of_cluster(self, number: int) -> Iterator[bytes]:
        prefix = cluster_key(number)
        for key, _ in self._store.scan(MEMBERS, prefix):
            yield key[len(prefix) :]

    @property
    def _stored(self) -> Iterator[bytes]:
        """The values with a record in the store."""
        return (key for key, _ in self._store.scan(VALUES))

    def _file(self, clusters: Clusters) -> None:
        """Write all records of the store, and those of the batch, into new files."""
        known = dict(self._store.scan(VALUES))
        others, last = WriteBatch(), WriteBatch()
        for (family, key), value in self.written.changes.items():
            if family == VALUES:
                known[key] = value or b""
            elif family != MEMBERS:
                others.changes[family, key] = value
        for family in (VALUES, MEMBERS):
            for key, _ in self._store.scan(family):
                last.delete(family, key)
        last.add(others)
        self.parts = self.parts.with_more(_value_records(clusters, known))
        self.written, self._changed = last, 0


def put_parts(parts: ValueParts, batch: WriteBatch) -> None:
    """Add the names of files to a batch."""
    batch.put("meta", _PARTS, codecs.json_bytes({"hash": HASH, "parts": parts.described}))


def files_in_use(store: Reader) -> frozenset[str]:
    """Return the files of values that a state names; other files in the folder are of batches without a commit."""
    stored = store.get("meta", _PARTS)
    return frozenset() if stored is None else _read_parts(stored, NO_FILES.files)[0].names


def _read_parts(stored: bytes, files: ValueFiles) -> tuple[ValueParts, int]:
    """Return the parts that a state names, and the number of the hash that placed their values."""
    about = codecs.read_json(stored)
    if isinstance(about, list):  # a state from before hashes had numbers
        return ValueParts.read(about, files), OF_PANDAS
    return ValueParts.read(about["parts"], files), int(about["hash"])


def cluster_key(number: int) -> bytes:
    """Return the number of a cluster as a key."""
    return number.to_bytes(4, "big")


def at_once(clusters: Clusters) -> int:
    """Return how many values can be decoded at a time within the memory limit."""
    return max(1, _CELLS_AT_ONCE // max(1, len(clusters.columns)))


def _records(numbers: Ints, counts: Ints, bounds: Ints) -> list[bytes]:
    """Return the records of values: the cluster of each, then its occurrences, `counts[bounds[i]:bounds[i + 1]]`."""
    heads, data = numbers.astype("<u4").tobytes(), codecs.codes(counts)
    ends = (bounds * 8).tolist()
    return [heads[4 * i : 4 * i + 4] + data[ends[i] : ends[i + 1]] for i in range(len(numbers))]


def _decoded(clusters: Clusters, stored: Collection[bytes | None]) -> tuple[Ints, Ints]:
    """Return the cluster of each record, `NONE` without a record, and the (m, C) occurrences."""
    counts = np.zeros((len(stored), len(clusters.columns)), np.int64)
    numbers = np.full(len(stored), NONE, np.int64)
    known = np.flatnonzero([bool(record) for record in stored])
    if not len(known):
        return numbers, counts
    records = [record for record in stored if record]
    data = np.frombuffer(b"".join(records), np.uint8)
    sizes = np.array([len(record) for record in records])
    starts = np.cumsum(sizes) - sizes
    of_each = data[starts[:, None] + np.arange(4)].copy().view("<u4").ravel().astype(np.int64)
    numbers[known] = of_each
    many = clusters.sizes(of_each)
    nth = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    at = np.repeat(starts + 4, many) + 8 * nth
    found = data[at[:, None] + np.arange(8)].view("<i8").ravel()
    counts[np.repeat(known, many), clusters.columns_of(of_each)] = found
    return numbers, counts


def _value_records(clusters: Clusters, stored: dict[bytes, bytes]) -> ValueRecords:
    """Return records of the store in the form of files."""
    keys, records = list(stored), list(stored.values())
    places, columns, counts = [], [], []
    for start in range(0, len(keys), at_once(clusters)):
        _, found = _decoded(clusters, records[start : start + at_once(clusters)])
        value, column = np.nonzero(found)
        places.append(value + start)
        columns.append(column)
        counts.append(found[value, column])
    values = pa.array(keys, pa.large_binary())
    return ValueRecords.of(values, np.concatenate(places), np.concatenate(columns), np.concatenate(counts))
