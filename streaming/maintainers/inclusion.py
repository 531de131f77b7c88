"""Unary inclusion dependencies of all monitored tables, kept exact from batch to batch [IncIND].

A value's record says in which cluster it is, and how often each column of it has the value; a batch looks every
distinct value up once, moves it to the cluster that it has now, and the inclusions that change are those of clusters
that gained or lost values. Values are in the store, clusters in memory.

    inclusion_values    <canonical value>            cluster, 4 bytes; then 8 bytes for each of its columns: occurrences
    inclusion_members   <cluster, 4> <value>         nothing: examples come from a scan
    inclusion_clusters  <cluster, 4>                 columns as bits; values, 8 bytes; occurrences, 8 bytes a column
    meta                inclusion                    the columns, in the order of their numbers, and what they are for

All numbers have their most significant byte last, but those of keys first. A cluster keeps its number when it is empty.

Invariant: the clusters are those of the values that the tables have now.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import ColumnRef, ConstraintChange, InclusionDependency, Reason, Violation, parse_type
from holdfast.discovery.inclusion.clusters import Clusters, Flags, Ints, Member
from holdfast.discovery.inclusion.result import Inclusions
from holdfast.discovery.inclusion.seeding import ColumnValues, GroupValues
from holdfast.indexes.encoding import NULL
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.tables.canonical import canonical, shown

VALUES, MEMBERS, CLUSTERS = "inclusion_values", "inclusion_members", "inclusion_clusters"
Load = Callable[[str, Iterable[tuple[bytes, bytes]]], object]
"""Puts sorted keys into a family that has none of them (`state/store.py`)."""

_NONE = -1
_CELLS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class ColumnChange:
    """What a batch did to the values of one column.

    Parameters
    ----------
    table, column : which one, by its name.
    values, counts : canonical values, each once, and how many occurrences came, or went.
    """

    table: str
    column: str
    values: pa.Array
    counts: Ints


@dataclass(frozen=True)
class _Sorted:
    """Values in the order of their bytes, each with its cluster and its record."""

    keys: list[bytes]
    clusters: Ints
    records: list[bytes]


@dataclass
class Moved:
    """Values that a batch touched: their bytes, and whether each column had and has them."""

    keys: list[bytes]
    before: Flags
    after: Flags


@dataclass
class _Batch:
    moved: list[Moved] = field(default_factory=list)
    written: WriteBatch = field(default_factory=WriteBatch)
    touched: set[int] = field(default_factory=set)


class InclusionMaintainer:
    """The inclusions among the columns of all tables of one store.

    Parameters
    ----------
    store : has the values; nothing is written to it here.
    clusters : as the values in the store have them.
    texts : whether all values are compared by their text.
    watched : whether the columns are those of declared rules alone, so that no other inclusion is told.
    """

    def __init__(self, store: Reader, clusters: Clusters, *, texts: bool = False, watched: bool = False) -> None:
        self._store = store
        self.clusters = clusters
        self.texts = texts
        self.watched = watched
        self._numbers = _numbers(clusters.columns)
        self._written = WriteBatch()
        self.moved: list[Moved] = []

    @staticmethod
    def seed(
        clusters: Clusters, parts: Iterable[GroupValues], load: Load, *, texts: bool = False, watched: bool = False
    ) -> WriteBatch:
        """Write the values of all columns by `load`, part by part; return what is to be written with the seed's end."""
        for part in parts:
            if len(part.values):
                values = _in_order(part)
                load(VALUES, zip(values.keys, values.records, strict=True))
                load(MEMBERS, _members(values))
        last = WriteBatch()
        _put_all(clusters, last, texts=texts, watched=watched)
        return last

    @classmethod
    def restore(cls, store: Reader) -> "InclusionMaintainer | None":
        """Take over what was saved; None where inclusions are not maintained. O(clusters)."""
        stored = store.get("meta", b"inclusion")
        if stored is None:
            return None
        meta = codecs.read_json(stored)
        clusters = Clusters(
            [
                Member(ColumnRef(c["table"], c["column"]), parse_type(c["type"]), c["assumed"], c["dropped"])
                for c in meta["columns"]
            ]
        )
        records = [record for _, record in store.scan(CLUSTERS)]
        width = len(clusters.columns)
        head = -(-width // 8)
        if records:
            sets = np.array([np.frombuffer(record[:head], np.uint8) for record in records])
            numbers = clusters.numbers(sets)
            values = np.array([codecs.read_codes(record[head : head + 8])[0] for record in records])
            occurrences = np.zeros((len(records), width), np.int64)
            for row, record in enumerate(records):
                occurrences[row, clusters.members[numbers[row]]] = codecs.read_codes(record[head + 8 :])
            clusters.change(numbers, values, occurrences)
        return cls(store, clusters, texts=meta["texts"], watched=meta["watched"])

    name = ""

    @property
    def inclusions(self) -> Inclusions:
        """What holds now, and what nearly does. O(C^2)."""
        return Inclusions(self.clusters)

    @property
    def constraints(self) -> list[InclusionDependency]:
        """What holds now. O(C^2)."""
        return list(self.inclusions)

    def scores(self, constraints: Sequence[InclusionDependency]) -> list[float]:
        """Return how likely each of some inclusions is a foreign key, from 0 to 1."""
        place = {column.ref: number for number, column in enumerate(self.clusters.columns) if not column.dropped}
        pairs = np.array([(place[c.dependent], place[c.referenced]) for c in constraints], np.int64).reshape(-1, 2)
        scores: list[float] = self.inclusions.scores(pairs).tolist()
        return scores

    @property
    def counts(self) -> dict[str, int]:
        """How many inclusions hold of each table's columns. O(C^2)."""
        held = self.clusters.holding.sum(axis=1)
        counts = {table: 0 for table, _ in self._numbers}
        for column, count in zip(self.clusters.columns, held.tolist(), strict=True):
            if not column.dropped:
                counts[column.ref.table] += count
        return counts

    def number_of(self, column: ColumnRef) -> int | None:
        """Return the number of a column that takes part."""
        return self._numbers.get((column.table, column.column))

    def save(self) -> WriteBatch:
        """Return what the batch changed in the store."""
        return self._written

    def apply(self, changes: Sequence[ColumnChange]) -> list[ConstraintChange]:
        """Follow what a batch did to the values of some columns. O(distinct values), and O(C^2).

        The store has to have what was saved before.
        """
        self._written, self.moved = WriteBatch(), []
        changes = [change for change in changes if len(change.counts)]
        if not changes:
            return []
        before = self.clusters.holding
        batch = _Batch()
        pooled = pc.dictionary_encode(pa.concat_arrays([change.values for change in changes]))
        places = pooled.indices.to_numpy().astype(np.int64)
        columns = np.repeat(
            [self._numbers[change.table, change.column] for change in changes], [len(c.counts) for c in changes]
        )
        counts = np.concatenate([change.counts for change in changes])
        at_once = max(1, _CELLS_AT_ONCE // max(1, len(self.clusters.columns)))
        order = np.argsort(places, kind="stable")
        bounds = np.searchsorted(places[order], np.arange(0, len(pooled.dictionary) + at_once, at_once))
        for part, start in enumerate(range(0, len(pooled.dictionary), at_once)):
            some = order[bounds[part] : bounds[part + 1]]
            keys = pooled.dictionary.slice(start, at_once).to_pylist()
            self._move(keys, places[some] - start, columns[some], counts[some], batch)
        for number in sorted(batch.touched):
            batch.written.put(CLUSTERS, _cluster_key(number), _cluster_record(self.clusters, number))
        self._written, self.moved = batch.written, batch.moved
        return self._changes(before, self.clusters.holding, batch)

    def add_table(self, columns: Sequence[ColumnValues]) -> list[InclusionDependency]:
        """Let the columns of one more table take part, with the values they have; return what holds of them.

        `save` has what is to be written, as after a batch.
        """
        first = len(self.clusters.columns)
        self.clusters.extend([column.member for column in columns])
        self._numbers = _numbers(self.clusters.columns)
        refs = [(column.member.ref, column) for column in columns]
        self.apply([ColumnChange(ref.table, ref.column, column.values, column.counts) for ref, column in refs])
        _put_all(self.clusters, self._written, texts=self.texts, watched=self.watched)
        known = self.inclusions
        pairs = np.argwhere(self.clusters.holding)
        return [known.dependency(a, b) for a, b in pairs.tolist() if max(a, b) >= first]

    def drop_table(self, name: str) -> list[InclusionDependency]:
        """Let the columns of a table take part no more; return what held of them. O(its values).

        `save` has what is to be written, as after a batch.
        """
        gone = [c for c in self.constraints if name in {c.dependent.table, c.referenced.table}]
        of_table = [n for n, c in enumerate(self.clusters.columns) if c.ref.table == name and not c.dropped]
        numbers = np.array(of_table, np.int64)
        batch = _Batch()
        at_once = max(1, _CELLS_AT_ONCE // len(self.clusters.columns))
        for cluster in np.flatnonzero(self.clusters.members[:, numbers].any(axis=1)).tolist():
            prefix = _cluster_key(cluster)
            keys = [key[len(prefix) :] for key, _ in self._store.scan(MEMBERS, prefix)]
            for start in range(0, len(keys), at_once):
                some = keys[start : start + at_once]
                _, counts = self._looked_up(some)
                value, column = np.nonzero(counts[:, numbers])
                self._move(some, value, numbers[column], -counts[value, numbers[column]], batch)
        self.clusters.drop(numbers)
        self._numbers = _numbers(self.clusters.columns)
        self._written = batch.written
        _put_all(self.clusters, self._written, texts=self.texts, watched=self.watched)
        return gone

    def examples(self, dependent: int, referenced: int, most: int = 3) -> list[Any]:
        """Return values of one column that another one lacks: a scan of the clusters that have them."""
        return [shown(value) for value in self.lacking(dependent, referenced, most)]

    def lacking(self, dependent: int, referenced: int, most: int) -> list[bytes]:
        """Return the bytes of values that one column has and another one lacks, as they are in the store."""
        members = self.clusters.members
        found: list[bytes] = []
        for number in np.flatnonzero(members[:, dependent] & ~members[:, referenced] & (self.clusters.values > 0)):
            prefix = _cluster_key(int(number))
            for key, _ in self._store.scan(MEMBERS, prefix):
                if len(found) == most:
                    return found
                found.append(key[len(prefix) :])
        return found

    def check_invariants(self) -> None:
        """Assert that the clusters are those of the values in the store. O(values)."""
        self.clusters.check_invariants()
        values = np.zeros_like(self.clusters.values)
        occurrences = np.zeros_like(self.clusters.occurrences)
        listed = set()
        for key, record in self._store.scan(VALUES):
            number = int.from_bytes(record[:4], "little")
            values[number] += 1
            counts = codecs.read_codes(record[4:])
            assert (counts > 0).all()
            occurrences[number, self.clusters.members[number]] += counts
            listed.add(_cluster_key(number) + key)
        assert listed == {key for key, _ in self._store.scan(MEMBERS)}
        assert (values == self.clusters.values).all()
        assert (occurrences == self.clusters.occurrences).all()

    def _move(self, keys: list[bytes], places: Ints, columns: Ints, counts: Ints, batch: _Batch) -> None:
        """Bring some values to where they are now."""
        old, before = self._looked_up(keys)
        after = before.copy()
        np.add.at(after, (places, columns), counts)
        if (after < 0).any():
            value, column = np.argwhere(after < 0)[0].tolist()
            ref, had = self.clusters.columns[column].ref, int(before[value, column])
            raise AssertionError(f"{ref} has {had} of {shown(keys[value])!r}, fewer than went")
        occurs = after > 0
        live = np.flatnonzero(occurs.any(axis=1))
        new = np.full(len(keys), _NONE, np.int64)
        value, column = np.nonzero(occurs)
        new[live] = self.clusters.numbers(self.clusters.bits_of(len(keys), value, column)[live])
        self._count(old, before, new, after, batch)
        sizes = occurs.sum(axis=1)
        records = _records(new, after[occurs], np.concatenate([[0], np.cumsum(sizes)]))
        kept = [record if number != _NONE else None for record, number in zip(records, new.tolist(), strict=True)]
        batch.written.put_all(VALUES, keys, kept)
        moved = np.flatnonzero(old != new)
        for i, one, other in zip(moved.tolist(), old[moved].tolist(), new[moved].tolist(), strict=True):
            if one != _NONE:
                batch.written.delete(MEMBERS, _cluster_key(one) + keys[i])
            if other != _NONE:
                batch.written.put(MEMBERS, _cluster_key(other) + keys[i], b"")
        batch.moved.append(Moved(keys, before > 0, occurs))

    def _looked_up(self, keys: list[bytes]) -> tuple[Ints, Ints]:
        """Return the cluster of each value, -1 for one that is new, and (m, C) its occurrences."""
        stored = self._store.get_many(VALUES, keys)
        counts = np.zeros((len(keys), len(self.clusters.columns)), np.int64)
        numbers = np.full(len(keys), _NONE, np.int64)
        known = np.flatnonzero([record is not None for record in stored])
        if not len(known):
            return numbers, counts
        records = [record for record in stored if record is not None]
        data = np.frombuffer(b"".join(records), np.uint8)
        sizes = np.array([len(record) for record in records])
        starts = np.cumsum(sizes) - sizes
        numbers[known] = data[starts[:, None] + np.arange(4)].copy().view("<u4").ravel()
        for number in np.unique(numbers[known]).tolist():
            rows = np.flatnonzero(numbers[known] == number)
            columns = np.flatnonzero(self.clusters.members[number])
            found = data[starts[rows][:, None] + np.arange(4, 4 + 8 * len(columns))].copy().view("<i8")
            counts[known[rows][:, None], columns] = found
        return numbers, counts

    def _count(self, old: Ints, before: Ints, new: Ints, after: Ints, batch: _Batch) -> None:
        """Take the values' old places out of the clusters, and put their new ones in."""
        used = np.unique(np.concatenate([old, new]))
        used = used[used != _NONE]
        values = np.zeros(len(used), np.int64)
        occurrences = np.zeros((len(used), after.shape[1]), np.int64)
        for numbers, counts, sign in ((old, before, -1), (new, after, 1)):
            at = np.flatnonzero(numbers != _NONE)
            place = np.searchsorted(used, numbers[at])
            values += sign * np.bincount(place, minlength=len(used))
            value, column = np.nonzero(counts[at])
            np.add.at(occurrences, (place[value], column), sign * counts[at[value], column])
        self.clusters.change(used, values, occurrences)
        batch.touched.update(used.tolist())

    def _changes(self, before: Flags, after: Flags, batch: _Batch) -> list[ConstraintChange]:
        inclusions = Inclusions(self.clusters)
        changes = []
        for a, b in np.argwhere(before & ~after).tolist():
            lacking = _first_value(batch, lambda moved, a=a, b=b: moved.after[:, a] & ~moved.after[:, b])
            assert lacking is not None
            dependency = inclusions.dependency(a, b)
            proof: Violation | None = Violation(value=shown(lacking))
            changes.append(ConstraintChange(dependency, dependency.dependent.table, Reason.VIOLATED, witness=proof))
        for a, b in np.argwhere(after & ~before).tolist():
            held_back = _first_value(batch, lambda moved, a=a, b=b: moved.before[:, a] & ~moved.before[:, b])
            dependency = inclusions.dependency(a, b)
            proof = None if held_back is None else Violation(value=shown(held_back))
            changes.append(ConstraintChange(dependency, dependency.dependent.table, Reason.RELEASED, witness=proof))
        return changes


def _in_order(group: GroupValues) -> _Sorted:
    order = pc.sort_indices(group.values).to_numpy().astype(np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    places = rank[group.places]
    by_value = np.lexsort((group.columns, places))
    bounds = np.searchsorted(places[by_value], np.arange(len(order) + 1))
    clusters = group.clusters[order]
    records = _records(clusters, group.counts[by_value], bounds)
    return _Sorted(group.values.take(pa.array(order)).to_pylist(), clusters, records)


def _members(values: _Sorted) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys of values under their clusters, in ascending order."""
    order = np.argsort(values.clusters, kind="stable")
    numbers, starts = np.unique(values.clusters[order], return_index=True)
    for number, rows in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        prefix = _cluster_key(number)
        for row in rows.tolist():
            yield prefix + values.keys[row], b""


def changed_values(
    rows: RowSet, delta: RowDelta, *, texts: bool = False, only: Collection[str] | None = None
) -> list[ColumnChange]:
    """Return what a batch did to the values of a table's columns, or some, before its rows are forgotten. O(rows)."""
    schema = rows.space.schema
    found = []
    for c, name in enumerate(schema.names):
        if only is not None and name not in only:
            continue
        codes = rows.codes[delta.changed, c]
        present = codes != NULL
        distinct, place = np.unique(codes[present], return_inverse=True)
        counts = np.zeros(len(distinct), np.int64)
        np.add.at(counts, place, delta.copies[present])
        left = np.flatnonzero(counts)
        values = rows.encoding.column(c, distinct[left])
        found.append(ColumnChange(schema.table, name, canonical(values, values.keys, texts=texts), counts[left]))
    return found


def _first_value(batch: _Batch, wanted: Any) -> bytes | None:
    """Return the first value that a batch touched and that is wanted."""
    for moved in batch.moved:
        found = np.flatnonzero(wanted(moved))
        if len(found):
            return moved.keys[int(found[0])]
    return None


def _numbers(columns: Sequence[Member]) -> dict[tuple[str, str], int]:
    """Return the number of each column that takes part, by table and name."""
    return {(c.ref.table, c.ref.column): number for number, c in enumerate(columns) if not c.dropped}


def _put_all(clusters: Clusters, batch: WriteBatch, *, texts: bool, watched: bool) -> None:
    """Add the columns and all clusters to what is to be written."""
    columns = [
        {"table": c.ref.table, "column": c.ref.column, "type": str(c.type), "assumed": c.assumed, "dropped": c.dropped}
        for c in clusters.columns
    ]
    batch.put("meta", b"inclusion", codecs.json_bytes({"columns": columns, "texts": texts, "watched": watched}))
    for number in range(len(clusters.members)):
        batch.put(CLUSTERS, _cluster_key(number), _cluster_record(clusters, number))


def _cluster_key(number: int) -> bytes:
    return number.to_bytes(4, "big")


def _cluster_record(clusters: Clusters, number: int) -> bytes:
    members = clusters.members[number]
    occurrences = codecs.codes(clusters.occurrences[number][members])
    return np.packbits(members, bitorder="little").tobytes() + codecs.codes(clusters.values[[number]]) + occurrences


def _records(numbers: Ints, counts: Ints, bounds: Ints) -> list[bytes]:
    """Lay values out: the cluster of each, then its occurrences, `counts[bounds[i]:bounds[i + 1]]`."""
    heads, data = numbers.astype("<u4").tobytes(), codecs.codes(counts)
    ends = (bounds * 8).tolist()
    return [heads[4 * i : 4 * i + 4] + data[ends[i] : ends[i + 1]] for i in range(len(numbers))]
