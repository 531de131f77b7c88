"""Unary inclusion dependencies of all monitored tables, kept exact from batch to batch [IncIND].

The record of a value has its cluster, and how often each column of the cluster has the value. A batch looks up every
distinct value once and moves it to its new cluster; inclusions change only where clusters gained or lost values.
Clusters are in memory; `held_values.py` keeps the values.

    inclusion_clusters  <cluster, 4>                 columns as bits; values, 8 bytes; occurrences, 8 bytes a column
    meta                inclusion                    the columns, in the order of their numbers, and how they are used

Numbers have their most significant byte last in values, and first in keys. An empty cluster keeps its number.

Invariant: the clusters are those of the current values of the tables.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import ColumnRef, ConstraintChange, InclusionDependency, Reason, Violation, parse_type
from holdfast.constraints.scores import Score
from holdfast.discovery.blocks.values.parts import ValueFiles, ValueParts
from holdfast.discovery.inclusion.clusters import Clusters, Member
from holdfast.discovery.inclusion.result import Inclusions
from holdfast.discovery.inclusion.seeding import GroupValues
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.streaming.maintainers.inclusion.column_values import ColumnChange
from holdfast.streaming.maintainers.inclusion.held_values import (
    MEMBERS,
    NONE,
    VALUES,
    HeldValues,
    SortedValues,
    at_once,
    cluster_key,
    put_parts,
)
from holdfast.tables.arrays import Flags, Ints
from holdfast.tables.canonical import shown
from holdfast.tables.memory import release_freed

CLUSTERS = "inclusion_clusters"
_RECORDS_AT_ONCE = 1 << 16
Load = Callable[[str, Iterable[tuple[bytes, bytes]]], object]
"""Writes sorted keys into a family that has none of them (`state/store.py`)."""


@dataclass
class Moved:
    """Values that a batch changed: their bytes, and which columns had them before and have them after the batch.

    Of values in files whose columns were truncated, only one of each cluster.
    """

    keys: list[bytes]
    before: Flags
    after: Flags


@dataclass
class _BatchChanges:
    """The changes of a batch: the number of clusters before it, truncated columns, moved values, changed counts."""

    clusters: int
    truncated: Ints
    moved: list[Moved] = field(default_factory=list)
    counted: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)

    @property
    def touched(self) -> Ints:
        """The clusters that the batch changed."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(numbers for numbers, _, _ in self.counted)]))


class InclusionMaintainer:
    """The inclusions among the columns of all tables of one store.

    Parameters
    ----------
    values : the values of all columns; this class writes nothing to their store.
    clusters : the clusters of these values.
    texts : whether all values are compared as texts.
    watched : whether only the columns of declared rules are followed, so that no other inclusions are reported.
    """

    def __init__(self, values: HeldValues, clusters: Clusters, *, texts: bool = False, watched: bool = False) -> None:
        self._values = values
        self.clusters = clusters
        self.texts = texts
        self.watched = watched
        self._numbers = _numbers(clusters.columns)
        self._batch = self._begun()

    @staticmethod
    def seed(
        clusters: Clusters, parts: Iterable[GroupValues], load: Load, *, texts: bool = False, watched: bool = False
    ) -> WriteBatch:
        """Write the values of all columns by `load`, part by part; return the rest, for the last write of the seed."""
        for part in parts:
            if len(part.values):
                values = SortedValues.of(part)
                load(VALUES, zip(values.keys, values.records, strict=True))
                load(MEMBERS, values.members)
        release_freed()
        return _everything(clusters, texts=texts, watched=watched)

    @staticmethod
    def seed_files(clusters: Clusters, parts: ValueParts, *, texts: bool = False, watched: bool = False) -> WriteBatch:
        """Return the last write of a seed whose values are in files."""
        last = _everything(clusters, texts=texts, watched=watched)
        put_parts(parts, last)
        return last

    @classmethod
    def restore(cls, store: Reader, files: ValueFiles | None = None) -> "InclusionMaintainer | None":
        """Return the maintainer that was saved; None if inclusions are not maintained. O(clusters + stored values).

        Parameters
        ----------
        files : the files of values, if the store does not have all of them.
        """
        stored = store.get("meta", b"inclusion")
        clusters = stored_clusters(store)
        if stored is None or clusters is None:
            return None
        meta = codecs.read_json(stored)
        held = HeldValues.restored(store, files)
        return cls(held, clusters, texts=meta["texts"], watched=meta["watched"])

    name = ""

    @property
    def inclusions(self) -> Inclusions:
        """The inclusions that hold now, and those that nearly hold. O(C^2)."""
        return Inclusions(self.clusters)

    @property
    def constraints(self) -> list[InclusionDependency]:
        """The inclusions that hold now. O(C^2)."""
        return list(self.inclusions)

    def scores(self, constraints: Sequence[InclusionDependency]) -> list[Score]:
        """Return how likely each inclusion is a foreign key, from 0 to 1."""
        place = {column.ref: number for number, column in enumerate(self.clusters.columns) if not column.dropped}
        pairs = np.array([(place[c.dependent], place[c.referenced]) for c in constraints], np.int64).reshape(-1, 2)
        return [Score(float(score)) for score in self.inclusions.scores(pairs)]

    @property
    def counts(self) -> dict[str, int]:
        """How many inclusions hold with a column of each table on the left. O(C^2)."""
        held = self.clusters.holding.sum(axis=1)
        counts = {table: 0 for table, _ in self._numbers}
        for column, count in zip(self.clusters.columns, held.tolist(), strict=True):
            if not column.dropped:
                counts[column.ref.table] += count
        return counts

    def number_of(self, column: ColumnRef) -> int | None:
        """Return the number of a column; None if its values are not followed."""
        return self._numbers.get((column.table, column.column))

    @property
    def moved(self) -> list[Moved]:
        """The values that the last batch changed."""
        return self._batch.moved

    @property
    def truncated(self) -> Ints:
        """The columns that were truncated before the last batch."""
        return self._batch.truncated

    def save(self) -> WriteBatch:
        """Return the changes of the batch for the store."""
        return self._values.written

    def committed(self) -> None:
        """Remove the files that the last batch replaced: the batch is the earliest from which a restart may resume."""
        self._values.remove_replaced()

    def undo(self) -> None:
        """Take the last `apply` back; no commit names the files that it wrote."""
        for numbers, values, occurrences in reversed(self._batch.counted):
            self.clusters.change(numbers, -values, -occurrences)
        self.clusters.forget_after(self._batch.clusters)
        self._values.undo()
        self._batch = self._begun()

    def apply(self, changes: Sequence[ColumnChange], truncated: Collection[str] = ()) -> list[ConstraintChange]:
        """Apply the changed values of a batch; return the changed inclusions. O(distinct values + C^2).

        The changes saved before have to be in the store. Where this raises, nothing is changed.

        Parameters
        ----------
        changes : the added and removed values; of truncated tables only the values added afterwards.
        truncated : the tables that lost all their rows before. O(their values), on executors if values are in files.
        """
        self._values.begin()
        self._batch = self._begun(truncated)
        try:
            return self._applied([change for change in changes if len(change.counts)])
        except BaseException:
            self.undo()
            raise

    def _applied(self, changes: Sequence[ColumnChange]) -> list[ConstraintChange]:
        if not changes and not len(self.truncated):
            return []
        before = self.clusters.holding
        if changes:
            self._follow(changes)
        self._truncate_others()
        self._finish()
        return self._changes(before, self.clusters.holding)

    def _follow(self, changes: Sequence[ColumnChange]) -> None:
        pooled = pc.dictionary_encode(pa.concat_arrays([change.values for change in changes]))
        places = pooled.indices.to_numpy().astype(np.int64)
        columns = np.repeat(
            [self._numbers[change.table, change.column] for change in changes], [len(c.counts) for c in changes]
        )
        counts = np.concatenate([change.counts for change in changes])
        size = at_once(self.clusters)
        order = np.argsort(places, kind="stable")
        bounds = np.searchsorted(places[order], np.arange(0, len(pooled.dictionary) + size, size))
        for part, start in enumerate(range(0, len(pooled.dictionary), size)):
            some = order[bounds[part] : bounds[part + 1]]
            keys = pooled.dictionary.slice(start, size).to_pylist()
            self._move(keys, places[some] - start, columns[some], counts[some])

    def _truncate_others(self) -> None:
        """Empty the columns of `truncated` for all values that the batch has not moved yet."""
        columns, nothing = self.truncated, np.zeros(0, np.int64)
        if not len(columns):
            return
        size = at_once(self.clusters)
        for cluster in self.clusters.with_any(columns).tolist():
            keys = self._values.untouched(cluster)
            for start in range(0, len(keys), size):
                self._move(keys[start : start + size], nothing, nothing, nothing)
        examples: dict[int, bytes] = {}
        for part in self._values.truncate_files(self.clusters, columns):
            for counted, sign in ((part.before, -1), (part.after, 1)):
                numbers = self.clusters.numbers(counted.sets)
                self._count(numbers, sign * counted.values, sign * counted.occurrences)
                if counted is part.before:
                    examples |= zip(numbers.tolist(), part.examples, strict=True)
        had = self.clusters.flags(np.array(list(examples), np.int64))
        has = had.copy()
        has[:, columns] = False
        self._batch.moved.append(Moved(list(examples.values()), had, has))

    def _finish(self) -> None:
        """Add the changed values and clusters to the changes of the batch."""
        written = self._values.save(self.clusters)
        _put_clusters(self.clusters, self._batch.touched, written)

    def examples(self, dependent: int, referenced: int, most: int = 3) -> list[Any]:
        """Return up to `most` values of one column that another column lacks, by a scan of their clusters."""
        return [shown(value) for value in self.lacking(dependent, referenced, most)]

    def lacking(self, dependent: int, referenced: int, most: int, but: Collection[bytes] = ()) -> list[bytes]:
        """Return the bytes of up to `most` values that one column has and another lacks, as the store has them.

        The values in `but` are left out.
        """
        most = min(most, int(self.clusters.missing[dependent, referenced]))
        found = self._values.lacking(self.clusters, dependent, referenced)
        return list(islice((value for value in found if value not in but), most))

    def _begun(self, truncated: Collection[str] = ()) -> _BatchChanges:
        """Return a batch without changes."""
        numbers = [number for (table, _), number in self._numbers.items() if table in truncated]
        return _BatchChanges(self.clusters.count, np.array(numbers, np.int64))

    def _move(self, keys: list[bytes], places: Ints, columns: Ints, counts: Ints) -> None:
        """Move values to their new clusters."""
        old, before = self._values.looked_up(self.clusters, keys)
        after = before.copy()
        after[:, self.truncated] = 0
        np.add.at(after, (places, columns), counts)
        if (after < 0).any():
            value, column = np.argwhere(after < 0)[0].tolist()
            ref, had = self.clusters.columns[column].ref, int(before[value, column])
            raise AssertionError(f"{ref} has {had} of {shown(keys[value])!r}, fewer than went")
        occurs = after > 0
        live = np.flatnonzero(occurs.any(axis=1))
        new = np.full(len(keys), NONE, np.int64)
        value, column = np.nonzero(occurs)
        new[live] = self.clusters.numbers(self.clusters.bits_of(len(keys), value, column)[live])
        self._count_moved(old, before, new, after)
        self._values.put(keys, old, new, after)
        self._batch.moved.append(Moved(keys, before > 0, occurs))

    def _count_moved(self, old: Ints, before: Ints, new: Ints, after: Ints) -> None:
        """Subtract the values from their old clusters, and add them to their new ones."""
        used = np.unique(np.concatenate([old, new]))
        used = used[used != NONE]
        values = np.zeros(len(used), np.int64)
        occurrences = np.zeros(int(self.clusters.sizes(used).sum()), np.int64)
        for numbers, counts, sign in ((old, before, -1), (new, after, 1)):
            at = np.flatnonzero(numbers != NONE)
            place = np.searchsorted(used, numbers[at])
            values += sign * np.bincount(place, minlength=len(used))
            value, column = np.nonzero(counts[at])
            occurrences += self.clusters.tallied(used, place[value], column, sign * counts[at[value], column])
        self._count(used, values, occurrences)

    def _count(self, numbers: Ints, values: Ints, occurrences: Ints) -> None:
        self.clusters.change(numbers, values, occurrences)
        self._batch.counted.append((numbers, values, occurrences))

    def _changes(self, before: Flags, after: Flags) -> list[ConstraintChange]:
        inclusions = Inclusions(self.clusters)
        changes = []
        for a, b in np.argwhere(before & ~after).tolist():
            lacking = self._first_value(lambda moved: moved.after, a, b)
            assert lacking is not None
            dependency = inclusions.dependency(a, b)
            proof: Violation | None = Violation(value=shown(lacking))
            changes.append(ConstraintChange(dependency, dependency.dependent.table, Reason.VIOLATED, witness=proof))
        for a, b in np.argwhere(after & ~before).tolist():
            held_back = self._first_value(lambda moved: moved.before, a, b)
            dependency = inclusions.dependency(a, b)
            proof = None if held_back is None else Violation(value=shown(held_back))
            changes.append(ConstraintChange(dependency, dependency.dependent.table, Reason.RELEASED, witness=proof))
        return changes

    def _first_value(self, when: Callable[[Moved], Flags], a: int, b: int) -> bytes | None:
        """Return the first changed value that column `a` has and `b` lacks; `when` is before or after the batch."""
        for moved in self._batch.moved:
            found = np.flatnonzero(when(moved)[:, a] & ~when(moved)[:, b])
            if len(found):
                return moved.keys[int(found[0])]
        return None


def stored_columns(store: Reader) -> list[Member]:
    """Return all columns whose values are or were followed; none if inclusions are not maintained."""
    meta = codecs.read_json(store.get("meta", b"inclusion") or b'{"columns": []}')
    return [
        Member(ColumnRef(c["table"], c["column"]), parse_type(c["type"]), c["assumed"], c["dropped"])
        for c in meta["columns"]
    ]


def stored_clusters(store: Reader) -> Clusters | None:
    """Return the clusters that were saved; None if inclusions are not maintained. O(clusters)."""
    if store.get("meta", b"inclusion") is None:
        return None
    clusters = Clusters(stored_columns(store))
    head = -(-len(clusters.columns) // 8)
    scanned = iter(store.scan(CLUSTERS))
    while records := [record for _, record in islice(scanned, _RECORDS_AT_ONCE)]:
        sets = np.frombuffer(b"".join(record[:head] for record in records), np.uint8).reshape(-1, head)
        numbers = clusters.numbers(sets)
        values = codecs.read_codes(b"".join(record[head : head + 8] for record in records))
        clusters.change(numbers, values, codecs.read_codes(b"".join(record[head + 8 :] for record in records)))
    return clusters


def _numbers(columns: Sequence[Member]) -> dict[tuple[str, str], int]:
    """Return the number of each column whose values are followed, by table and name."""
    return {(c.ref.table, c.ref.column): number for number, c in enumerate(columns) if not c.dropped}


def _everything(clusters: Clusters, *, texts: bool, watched: bool) -> WriteBatch:
    """Return a batch with the columns and all clusters."""
    columns = [
        {"table": c.ref.table, "column": c.ref.column, "type": str(c.type), "assumed": c.assumed, "dropped": c.dropped}
        for c in clusters.columns
    ]
    meta = {"columns": columns, "texts": texts, "watched": watched}
    batch = WriteBatch("meta", {b"inclusion": codecs.json_bytes(meta)})
    _put_clusters(clusters, np.arange(clusters.count), batch)
    return batch


def _put_clusters(clusters: Clusters, numbers: Ints, batch: WriteBatch) -> None:
    """Add clusters to a batch. O(their columns)."""
    for start in range(0, len(numbers), _RECORDS_AT_ONCE):
        some = numbers[start : start + _RECORDS_AT_ONCE]
        sets, values = clusters.bits(some), codecs.codes(clusters.values[some])
        occurrences, ends = codecs.codes(clusters.occurrences_of(some)), np.cumsum(8 * clusters.sizes(some)).tolist()
        first = 0
        for i, (number, end) in enumerate(zip(some.tolist(), ends, strict=True)):
            record = sets[i].tobytes() + values[8 * i : 8 * i + 8] + occurrences[first:end]
            batch.put(CLUSTERS, cluster_key(number), record)
            first = end
