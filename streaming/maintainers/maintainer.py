"""One table's rows and everything that is kept exact about them: seed, then apply one batch after another.

Invariant: after every batch the constraints are those of the definition on the current rows, whatever the history; an
exception in a batch leaves everything as it was before it.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.constraints import (
    ConstraintChange,
    DenialConstraint,
    PredicateSpace,
    Reason,
    RowImage,
    Schema,
    StateRefused,
    Violation,
)
from holdfast.discovery.denial.ranking import PairSample, scores_on
from holdfast.discovery.denial.result import DenialSet
from holdfast.discovery.denial.seeding import DenialSeed, Explained, seed_denial
from holdfast.indexes.row_hash import first_equal
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.state import codecs
from holdfast.state.memory import MemoryStore
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.key_versions import KeyVersions
from holdfast.streaming.maintainers.denial import DenialMaintainer, Effort, Step
from holdfast.streaming.netting import DELETE, INSERT, UPDATE, Netted, Records, check, net, no_key_is_twice
from holdfast.tables import ReadOptions, Table, as_table, from_arrow, space_of
from holdfast.tables.columnar import encoded
from holdfast.tables.keys import arrow_type_of

Words = NDArray[np.uint64]

__all__ = ["DELETE", "INSERT", "UPDATE", "BatchResult", "Maintainer", "Records"]


@dataclass(frozen=True)
class BatchResult:
    """What a batch did.

    Parameters
    ----------
    changes : constraints that disappeared, then those that appeared.
    rows_in, rows_out : rows that entered and left after netting; an update is one of each.
    inserted, deleted, updated : the same by kind; a table without a key knows no updates.
    ignored : deletes of unknown keys.
    newly_owed, owed : deletes of copies that are not there (table without a key): of this batch, and in all.
    rows, constraints : how many there are now.
    seconds : of the work on the batch alone.
    late : records that are older than what is known of their key.
    incomplete : numbers of records that were left out, as they leave cells as they were of rows that are not there.
    """

    changes: list[ConstraintChange]
    rows_in: int
    rows_out: int
    inserted: int
    deleted: int
    updated: int
    ignored: int
    newly_owed: int
    owed: int
    rows: int
    constraints: int
    seconds: float
    late: int = 0
    incomplete: tuple[int, ...] = ()


class Maintainer:
    """Keeps the denial constraints of one table.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"Zip": ["x1", "x1", "x2"], "City": ["a", "a", "b"]})
    >>> maintainer = Maintainer.seed(people, name="people")
    >>> for change in maintainer.apply(inserts=pd.DataFrame({"Zip": ["x2"], "City": ["a"]})):
    ...     print(change)
    - not(t.Zip != s.Zip and t.City = s.City) (violated)
    - not(t.Zip = s.Zip and t.City != s.City) (violated)
    >>> [str(change) for change in maintainer.apply(deletes=pd.DataFrame({"Zip": ["x2"], "City": ["b"]}))]
    ['+ not(t.City != s.City) (released)']
    """

    def __init__(
        self,
        rows: RowSet,
        denial: DenialMaintainer,
        max_predicates: int,
        explained: Explained,
        versions: KeyVersions | None = None,
    ) -> None:
        self._rows = rows
        self._denial = denial
        self._versions = versions
        self.max_predicates = max_predicates
        self.explained = explained
        self._images: dict[int, RowImage] = {}

    @classmethod
    def seed(
        cls,
        data: Any,
        *,
        name: str = "table",
        key: Sequence[str] = (),
        max_predicates: int = 4,
        space: PredicateSpace | None = None,
        threads: int | None = None,
        report: Callable[[str], object] = lambda _: None,
    ) -> "Maintainer":
        """Take a table over, and find what holds on it.

        Parameters
        ----------
        data : a table of ours, a pandas or Arrow one, or the path of a file.
        name : what a data frame is called.
        key : the columns that identify a row; without them a row is identified by all its columns.
        max_predicates : only constraints on at most so many column pairs; 0 for all.
        space : which column pairs are compared; measured on the table where it is not given.
        threads : all cores where it is not given.
        report : is told what is being done.
        """
        _compile()
        return cls._seeded(as_table(data, name), key, max_predicates, space, threads, report)

    @classmethod
    def _seeded(
        cls,
        table: Table,
        key: Sequence[str],
        max_predicates: int,
        space: PredicateSpace | None,
        threads: int | None,
        report: Callable[[str], object],
    ) -> "Maintainer":
        threads = threads or os.cpu_count() or 1
        space = space or space_of(table)
        key = [table.schema.names[table.schema.index(column)] for column in key]
        rows = RowSet(space, key)
        codes, _ = rows.encode(table)
        if key:
            no_key_is_twice(table, codes, rows.key)
        first = first_equal(codes, range(codes.shape[1]))
        distinct, copies = np.unique(first, return_counts=True)
        rows.change(codes[distinct], copies)
        found = seed_denial(table, space, max_predicates, threads=threads, report=report)
        report("building the index")
        slots = rows.slots_of(codes[found.witnesses.ravel()]).reshape(found.witnesses.shape)
        seed = DenialSeed(found.masks, found.evidences, slots, found.explained)
        return cls(rows, DenialMaintainer.seed(rows, max_predicates, seed, threads), max_predicates, found.explained)

    def save(self, table: int = 0, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since it was last saved; the first time, and into an empty store, ask for everything.

        Parameters
        ----------
        table : the number of this table in the store.
        """
        prefix = codecs.number(table)
        first = WriteBatch()
        if everything:
            meta = {
                "format": codecs.FORMAT,
                "space": self.space.to_json(),
                "key": [self.schema.names[c] for c in self._rows.key],
                "max_predicates": self.max_predicates,
            }
            if self._versions is not None:
                meta["remembers"] = {"retention": self._versions.retention}
            first.put("meta", prefix + b"table", codecs.json_bytes(meta))
        yield first
        yield from self._rows.save(prefix, everything=everything)
        yield from self._denial.save(prefix, everything=everything)
        if self._versions is not None:
            yield from self._versions.save(_versions_prefix(table), everything=everything)

    @classmethod
    def restore(cls, store: Store, table: int = 0, threads: int | None = None) -> "Maintainer":
        """Take a table over from a store, as it was when it was last saved. O(n log n)."""
        _compile()
        prefix = codecs.number(table)
        stored = store.get("meta", prefix + b"table")
        if stored is None:
            raise StateRefused(f"the store holds no table number {table}: seed one first")
        meta = codecs.read_json(stored)
        if meta["format"] != codecs.FORMAT:
            raise StateRefused(
                f"the store has format {meta['format']}, this version reads {codecs.FORMAT}: use the version that "
                "wrote it, or seed anew"
            )
        rows = RowSet(PredicateSpace.from_json(meta["space"]), meta["key"])
        rows.restore(store, prefix)
        threads = threads or os.cpu_count() or 1
        denial = DenialMaintainer.restore(rows, meta["max_predicates"], threads, store, prefix)
        maintainer = cls(rows, denial, meta["max_predicates"], Explained())
        if "remembers" in meta:
            maintainer.remember(meta["remembers"]["retention"])
            assert maintainer._versions is not None
            maintainer._versions.restore(store, _versions_prefix(table))
        return maintainer

    def remember(self, retention: float | None = None) -> None:
        """Remember the sequence of each key's last change, and tell records that come late by it.

        Parameters
        ----------
        retention : for how many seconds a key is remembered whose row is gone; None for ever.
        """
        key = [self.schema.names[c] for c in self._rows.key]
        self._versions = KeyVersions(self.schema, key, retention)

    def remember_rows(self, table: Table, sequence: NDArray[np.int64]) -> None:
        """Take the sequences of the first rows over."""
        assert self._versions is not None
        self._versions.begin()
        every = np.arange(table.row_count)
        self._versions.note(table, np.full(table.row_count, INSERT, np.int8), sequence, every)

    @property
    def space(self) -> PredicateSpace:
        """Which column pairs are compared."""
        return self._denial.space

    @property
    def schema(self) -> Schema:
        """The table's name and columns."""
        return self.space.schema

    @property
    def row_count(self) -> int:
        """How many rows the table has."""
        return len(self._rows)

    @property
    def constraints(self) -> DenialSet:
        """What holds on the current rows, fewest predicates first."""
        return DenialSet(self.space, self._denial.masks)

    def scores(self, constraints: Sequence[DenialConstraint]) -> list[float]:
        """Return how much each of some constraints tells, from 0 to 1, by a sample of the current rows."""
        words = [self.space.words(self.space.mask(constraint)) for constraint in constraints]
        masks = np.array(words, np.uint64).reshape(len(constraints), self.space.word_count)
        found: list[float] = scores_on(masks, PairSample.of_rows(self._rows), self.space).tolist()
        return found

    @property
    def effort(self) -> Effort:
        """What the batches since the seed cost, in counts."""
        return self._denial.effort

    def apply(self, inserts: Any = None, deletes: Any = None) -> list[ConstraintChange]:
        """Apply inserts and deletes as one step, and return what that changed.

        Deletes refer to rows that were there before. With a key an insert of a live key replaces its row, and a delete
        needs only the key columns.
        """
        parts = [(data, operation) for data, operation in ((deletes, DELETE), (inserts, INSERT)) if data is not None]
        tables = [self._arrow(data) for data, _ in parts]
        operations = [np.full(len(t), operation, np.int8) for t, (_, operation) in zip(tables, parts, strict=True)]
        if not parts:
            return []
        arrays = pa.concat_tables(tables)
        table = encoded(
            self.schema.table,
            self.schema.columns,
            {column.name: arrays.column(column.name) for column in self.schema.columns},
            len(arrays),
        )
        return self.apply_records(Records(table, np.concatenate(operations))).changes

    def apply_records(self, records: Records) -> BatchResult:
        """Net a batch of records in the order of their sequence, and follow what is left of it.

        Raises `InputError`, and changes nothing, where a record has a null in its key, or is an update without a key.
        """
        started = time.perf_counter()
        check(records, self._rows.key)
        self._rows.begin()
        self._denial.begin()
        if self._versions is not None:
            self._versions.begin()
        try:
            codes, relabelled = self._rows.encode(records.table)
            if relabelled:
                self._denial.index.rebuild()
            netted = net(records, codes, self._rows, self._latest(records))
            delta = self._rows.change(netted.codes, netted.signs)
            changes = [] if delta.is_empty else self._changes(self._denial.apply(delta))
            self._rows.forget()
            self._remember(records, netted)
            return self._result(netted, delta, changes, started)
        except BaseException:
            self._rows.undo()
            self._denial.undo()
            if self._versions is not None:
                self._versions.undo()
            raise

    def _latest(self, records: Records) -> NDArray[np.int64] | None:
        """Return what is known of the records' keys."""
        if self._versions is None:
            return None
        if records.versions is not None and len(records):
            self._versions.forget_before(int(records.versions[0]))
        return self._versions.latest(records.table)

    def _remember(self, records: Records, netted: Netted) -> None:
        if self._versions is None or not len(records):
            return
        if records.versions is not None:  # what the last version wrote: its removals may come with the next batch
            which = np.flatnonzero((records.versions == records.versions[-1]) & (records.operations != DELETE))
            self._versions.note(records.table, records.operations, records.versions, which)
        elif records.sequence is not None:
            which = np.setdiff1d(np.arange(len(records)), netted.incomplete)
            self._versions.note(records.table, records.operations, records.sequence, which)

    def _result(self, netted: Netted, delta: RowDelta, changes: list[ConstraintChange], started: float) -> BatchResult:
        keyed = bool(self._rows.key)
        return BatchResult(
            changes,
            rows_in=delta.copies_in,
            rows_out=delta.copies_out,
            inserted=netted.inserted if keyed else delta.copies_in,
            deleted=netted.deleted if keyed else delta.copies_out,
            updated=netted.updated,
            ignored=netted.ignored,
            newly_owed=delta.newly_owed,
            owed=self._rows.owed_copies,
            late=netted.late,
            incomplete=tuple(netted.incomplete.tolist()),
            rows=len(self._rows),
            constraints=len(self._denial.masks),
            seconds=time.perf_counter() - started,
        )

    def check_invariants(self) -> None:
        """Assert what all parts promise. Exponential in the columns."""
        self._rows.check_invariants()
        self._denial.check_invariants()

    def _changes(self, step: Step) -> list[ConstraintChange]:
        """Give each change its reason and its proof (semantics, Changes)."""
        gone, come = self._denial.reported(step.gone), self._denial.reported(step.come)
        changes = []
        self._images.clear()
        for mask in _sorted(gone):
            violating = _lies_in(step.found, mask)
            if violating.any():
                pair = step.found_pairs[int(violating.argmax())]
                witness = Violation(tuple(self._image(int(slot)) for slot in pair))
                changes.append(self._change(mask, Reason.VIOLATED, witness=witness))
            else:
                changes.append(self._change(mask, Reason.IMPLIED, by=_wider(mask, step.come)))
        for mask in _sorted(come):
            wider = _wider(mask, step.gone)
            if wider is not None:
                changes.append(self._change(mask, Reason.WEAKENED, by=wider))
                continue
            held_back = step.lost_pairs[_lies_in(step.lost, mask)]
            twice = held_back[:, 0] == held_back[:, 1]  # then one of the two copies was removed
            removed = held_back[(held_back >= 0) & (twice[:, None] | (self._rows.copies[held_back] <= 0))]
            proof = Violation((self._image(int(removed[0])),)) if len(removed) else None
            changes.append(self._change(mask, Reason.RELEASED, witness=proof))
        return changes

    def _change(
        self, mask: Words, reason: Reason, by: Words | None = None, witness: Violation | None = None
    ) -> ConstraintChange:
        implying = None if by is None else self.space.canonical(self._constraint(by))
        return ConstraintChange(self._constraint(mask), self.schema.table, reason, implying, witness)

    def _constraint(self, mask: Words) -> DenialConstraint:
        return self.space.constraint(self.space.bits(mask))

    def _image(self, slot: int) -> RowImage:
        if slot not in self._images:
            values = self._rows.values(np.array([slot]))[0]
            key = {name: values[name] for name in (self.schema.names[c] for c in self._rows.key)}
            self._images[slot] = RowImage(key, values)
        return self._images[slot]

    def _arrow(self, data: Any) -> pa.Table:
        """Return a data frame's rows with the columns of the monitored table; those it lacks are null."""
        name = self.schema.table
        named = next((a for a in ("column_names", "columns") if hasattr(data, a)), None)
        given = self.schema.names if named is None else tuple(getattr(data, named))
        options = ReadOptions(types={c.name: c.type for c in self.schema.columns if c.name in given})
        table = as_table(data, name, options)
        unknown = [c for c in table.schema.names if c not in self.schema.names]
        if unknown:
            self.schema.index(unknown[0])  # says what the table has
        arrays = table.to_arrow()
        return pa.table(
            {
                c.name: arrays.column(c.name)
                if c.name in table.schema.names
                else pa.nulls(table.row_count, arrow_type_of(c.type))
                for c in self.schema.columns
            }
        )


def _versions_prefix(table: int) -> bytes:
    return codecs.number((1 << 32) + table)


@cache
def _compile() -> None:
    """Run every kernel once on a small table, so that no batch waits for a compiler."""
    rows = pa.table({"a": [1, 1, 2, 3], "b": ["x", "y", "y", None], "c": [0.5, 1.5, 1.5, 2.5]})
    for bound in (0, 2):
        maintainer = Maintainer._seeded(from_arrow(rows, "rows"), (), bound, None, 1, lambda _: None)
        index = maintainer._denial.index
        index.hold(maintainer._denial.covers.masks, trees=True)
        live = maintainer._rows.live()
        index.remove(live[:1])
        index.insert(live[:1])
        index.probe(live)
        for part in (rows.slice(0, 2), rows.slice(2, 1)):
            maintainer.apply(inserts=part)
            maintainer.apply(deletes=part)
            maintainer.apply(deletes=part, inserts=rows.slice(3, 1))
        store = MemoryStore()
        for written in maintainer.save(everything=True):
            store.write(written)
        RowSet(maintainer.space).restore(store, codecs.number(0))


def _lies_in(words: Words, mask: Words) -> NDArray[np.bool_]:
    """Return which evidences lie in a box."""
    return np.asarray(~(words & ~mask).any(axis=1))


def _wider(mask: Words, masks: Words) -> Words | None:
    """Return a box that holds another one, or None."""
    wider = masks[~(mask & ~masks).any(axis=1)]
    return wider[0] if len(wider) else None


def _sorted(masks: Words) -> Words:
    return masks[np.lexsort(masks.T)]
