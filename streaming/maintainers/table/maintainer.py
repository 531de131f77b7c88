"""The rows of one table with its constraints and rules: seeded once, then kept exact batch by batch.

The `Holding` knows where the rows are; this class never asks. `Maintainer` adds data frames for Python users.

Invariant: after every batch the constraints are those of the definition on the current rows, whatever the history; a
batch that raises leaves everything as it was before the batch.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.constraints import (
    ConstraintChange,
    Family,
    PredicateSpace,
    Reason,
    Schema,
    near_form,
)
from holdfast.constraints.scores import Score
from holdfast.discovery.explained import Explained
from holdfast.discovery.ranking import scores_of
from holdfast.discovery.reported import Reported, ReportedSet
from holdfast.display.constraints import Constraints
from holdfast.display.near import NearConstraints
from holdfast.display.verdicts import Verdicts
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.incoming.key_versions import KeyVersions, versions_definition
from holdfast.streaming.incoming.netting import DELETE, Netted, Records, check, net
from holdfast.streaming.maintainers.certified.denial import DenialMaintainer
from holdfast.streaming.maintainers.certified.maintainer import CertifiedMaintainer
from holdfast.streaming.maintainers.certified.order import OrderMaintainer
from holdfast.streaming.maintainers.holdings.contract import (
    Holding,
    Report,
    Restore,
    RowsDefinition,
    WholeTable,
)
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory
from holdfast.streaming.maintainers.inclusion.column_values import ColumnChange, changed_values
from holdfast.streaming.maintainers.near.changes import NearExample
from holdfast.streaming.maintainers.near.maintainer import NearMaintainer
from holdfast.streaming.maintainers.part import TablePart
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule, RuleMaintainer, coding_space, refuse_uncoded
from holdfast.streaming.maintainers.rules.state import RuleState
from holdfast.streaming.maintainers.table.batch_result import BatchResult
from holdfast.streaming.maintainers.table.bounds import Bounds
from holdfast.streaming.maintainers.table.reasons import Reasons
from holdfast.streaming.maintainers.table.stored_definition import (
    StoredDefinition,
    family_prefix,
    near_prefix,
    table_prefix,
    versions_prefix,
)
from holdfast.tables.arrays import Slots

MAINTAINERS: dict[Family, type[DenialMaintainer] | type[OrderMaintainer]] = {
    Family.DENIAL: DenialMaintainer,
    Family.ORDER: OrderMaintainer,
}
"""The class that maintains the constraints of each family."""


class TableMaintainer:
    """Keeps the constraints and rules of one table.

    Parameters
    ----------
    holding : the rows.
    families : one maintainer for each family of constraints.
    bounds : the families that are maintained, and how large their constraints may be.
    explained : how the seed found the constraints.
    """

    def __init__(
        self, holding: Holding, families: Sequence[CertifiedMaintainer], bounds: Bounds, explained: Explained
    ) -> None:
        self.holding = holding
        self._rows = holding.rows
        self._families = families
        holding.serve(families)
        self.rule_maintainer = RuleMaintainer(holding)
        self.near_maintainer = None if bounds.near is None else holding.near(bounds.near)
        self._versions: KeyVersions | None = None
        self._follows: Callable[[RowSet, RowDelta], list[ColumnChange]] | None = None
        self.bounds = bounds
        self.explained = explained

    @classmethod
    def taken_over(
        cls,
        whole: WholeTable,
        *,
        key: Sequence[str] = (),
        bounds: Bounds,
        rules: Sequence[MonitoredRule] = (),
        space: PredicateSpace | None = None,
        threads: int | None = None,
        report: Report = lambda _: None,
    ) -> Self:
        """Seed a maintainer with a table, whose rows it owns from now on: find the constraints that hold."""
        if bounds.near is not None:
            whole.refuse_near(bounds.near)
        threads = threads or os.cpu_count() or 1
        space = space or whole.space("none" if bounds.max_predicates is None else "auto")
        places = tuple(whole.schema.index(column) for column in key)
        key = [whole.schema.names[c] for c in places]
        widest = bounds.widest(space)
        whole.refuse_key_twice(places)
        bounded = {family: (space.of_family(family), bound) for family, bound in bounds.families.items()}
        definition = RowsDefinition(widest, key, coding_space(widest, rules), threads)
        holding, seeds = whole.seed(definition, bounded, report)
        explained = Explained()
        families: list[CertifiedMaintainer] = []
        for family, seed in seeds.items():
            families.append(MAINTAINERS[family].seed(holding, *bounded[family], seed))
            explained.plan = explained.plan or seed.explained.plan
            explained.steps += seed.explained.steps
        maintainer = cls(holding, families, bounds, explained)
        if maintainer.near_maintainer is not None:
            report("searching for constraints that nearly hold")
            maintainer.near_maintainer.seed()
        if rules:
            report("counting what breaks rules")
            maintainer.rule_maintainer = RuleMaintainer(holding, rules)
            maintainer.rule_maintainer.seed()
        return maintainer

    @classmethod
    def _prepare(cls, bounds: Bounds, rules: Sequence[MonitoredRule]) -> None:
        """Prepare for the first batch; subclasses compile kernels here."""

    # Saving and restoring

    def save(self, table: int = 0, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since the last save, or `everything`, as the first save into a store needs.

        Parameters
        ----------
        table : the number of this table in the store.
        """
        first, prefix = WriteBatch(), table_prefix(table)
        if everything:
            retention = None if self._versions is None else self._versions.retention
            known = StoredDefinition(
                *(self.space, self._rows.coding, self._key, self.bounds, self._versions is not None, retention)
            )
            known.put(table, first)
        yield first
        yield from self.holding.save(prefix, everything=everything)
        for part, prefix_of in self._parts:
            yield from part.save(prefix_of(table), everything=everything)

    def save_rules(self, table: int = 0) -> Iterator[WriteBatch]:
        """Yield what changed of the rules since the last save, between two batches."""
        yield from self.holding.save_between(table_prefix(table))
        yield from self.rule_maintainer.save(table_prefix(table))

    @classmethod
    def restore(
        cls,
        store: Store,
        table: int = 0,
        threads: int | None = None,
        rules: Sequence[MonitoredRule] = (),
        rows: Restore = RowsInMemory.restored,
    ) -> Self:
        """Return the maintainer of a table as it was last saved in a store. O(n log n); of rows in blocks O(blocks).

        Parameters
        ----------
        store, table : the store, and the number of the table in the store.
        threads : by default as many as there are cores.
        rules : the monitored rules; a rule that is new, or was reworded, is counted.
        rows : restores the rows.
        """
        known, threads = StoredDefinition.read(store, table), threads or os.cpu_count() or 1
        cls._prepare(known.bounds, rules)
        refuse_uncoded(known.coding, known.space.schema, rules)
        definition = RowsDefinition(known.space, known.key, known.coding, threads)
        holding = rows(store, table_prefix(table), definition)
        families = [
            MAINTAINERS[family].restore(
                holding, known.space.of_family(family), bound, store, family_prefix(family, table)
            )
            for family, bound in known.bounds.families.items()
        ]
        maintainer = cls(holding, families, known.bounds, Explained())
        if maintainer.near_maintainer is not None:
            maintainer.near_maintainer.restore(store, near_prefix(table))
        maintainer.rule_maintainer = RuleMaintainer(holding, rules)
        maintainer.rule_maintainer.restore(store, table_prefix(table))
        if known.remembers:
            definition = versions_definition(known.space.schema, known.key, threads)
            maintainer._versions = KeyVersions(rows(store, versions_prefix(table), definition), known.retention)
        return maintainer

    @property
    def files(self) -> frozenset[str]:
        """The names of the files with rows and with the versions of keys."""
        return self.holding.files | (frozenset() if self._versions is None else self._versions.holding.files)

    def committed(self) -> None:
        """Remove files of earlier states: the last batch is the earliest from which a restart may resume."""
        self.holding.committed()
        if self._versions is not None:
            self._versions.holding.committed()

    # Values and versions of keys

    def follow_values(self, *, texts: bool, only: Collection[str] | None = None) -> None:
        """Return with each batch the changed values of all columns, or of `only` some; with `texts` as texts."""
        self._follows = partial(changed_values, texts=texts, only=only)

    def remember(self, retention: float | None = None, known: WholeTable | None = None) -> None:
        """Remember the sequence of each key's last change, by which late records are recognised.

        Parameters
        ----------
        retention : for how many seconds a key is remembered whose row was deleted; None for ever.
        known : the versions of the first rows' keys (`key_versions.py`); None for no versions, in memory.
        """
        definition = versions_definition(self.schema, self._key, self.holding.threads)
        held = RowsInMemory(definition.empty()) if known is None else known.held(definition)
        self._versions = KeyVersions(held, retention)

    def remember_as(self, other: "TableMaintainer", retention: float | None = None) -> None:
        """Take over the versions of keys from another maintainer of the same keys."""
        self._versions = other._versions
        if self._versions is not None:
            self._versions.retention = retention

    # The table as it is now

    @property
    def _key(self) -> tuple[str, ...]:
        return tuple(self.schema.names[c] for c in self._rows.key)

    def rows(self) -> tuple[pa.Table, pa.Table]:
        """Return all rows, and the deletes of rows that are still owed. O(n)."""
        return self._rows.arrow()

    @property
    def owed(self) -> int:
        """How many deletes of copies are still owed."""
        return self._rows.owed_copies

    @property
    def space(self) -> PredicateSpace:
        """The column pairs, and their orders, that all families together compare."""
        return self._rows.space

    @property
    def schema(self) -> Schema:
        """The table's name and columns."""
        return self.space.schema

    @property
    def name(self) -> str:
        """The table's name."""
        return self.schema.table

    @property
    def row_count(self) -> int:
        """How many rows the table has."""
        return len(self._rows)

    @property
    def constraints(self) -> Constraints[Reported]:
        """The constraints that hold on the current rows, family by family, fewest columns first. O(constraints)."""
        found = (c for family in self._families for c in ReportedSet(family.space, family.masks))
        return Constraints(found, self.name)

    @property
    def near(self) -> NearConstraints:
        """The constraints that nearly hold on the current rows, fewest columns first."""
        return NearConstraints([] if self.near_maintainer is None else self.near_maintainer.constraints, self.name)

    @property
    def count(self) -> int:
        """How many constraints hold."""
        return sum(self.counts.values())

    @property
    def counts(self) -> dict[Family, int]:
        """How many constraints of each family hold."""
        return {family.space.family: len(family.masks) for family in self._families}

    @property
    def rules(self) -> Verdicts[RuleState]:
        """The state of each monitored rule: counts, whether the rule holds, examples that the last batch changed."""
        return Verdicts(self.rule_maintainer.states)

    def scores(self, constraints: Sequence[Reported]) -> list[Score]:
        """Return the score of each constraint, from 0 to 1, measured on a sample of the current rows. O(n).

        A constraint that compares columns that the table does not have any more has the score 0, not measured.
        """
        return scores_of(constraints, [family.space for family in self._families], self.holding.measured)

    @property
    def effort(self) -> Counter[str]:
        """The costs of the batches since the seed, in counts, all families together."""
        return sum((family.effort for family in self._families), Counter[str]())

    @property
    def near_counts(self) -> tuple[int, int] | None:
        """How many constraints nearly hold, and how many of these have exceptions; None if not maintained."""
        return None if self.near_maintainer is None else self.near_maintainer.counts

    @property
    def near_examples(self) -> list[NearExample]:
        """The rows that are shown as exceptions of constraints that nearly hold."""
        return [] if self.near_maintainer is None else self.near_maintainer.shown.examples

    # A batch

    def apply_records(self, records: Records) -> BatchResult:
        """Net a batch of records in the order of their sequence, and apply the remaining inserts and deletes.

        Raises `InputError`, and changes nothing, if a record has a null in its key, or updates a table without key.
        """
        started = time.perf_counter()
        check(records, self._rows.key)
        self._begin(records)
        try:
            with self.holding.reached():
                return self._applied(records, started)
        except BaseException:
            self._undo()
            raise

    def _applied(self, records: Records, started: float) -> BatchResult:
        codes, relabelled = self._rows.encode(records.table)
        if relabelled:
            self.holding.rebuild()
            for part, _ in self._parts:
                part.rebuild()
        netted = net(records, codes, self._rows, self._latest(records))
        delta = self._rows.change(netted.codes, netted.signs)
        changes = [] if delta.is_empty else self._followed(delta)
        self.rule_maintainer.apply(delta)
        if self.near_maintainer is not None and (delta.copies_in or delta.copies_out):
            self.near_maintainer.follow(delta)
            changes = self._with_exceptions(changes, self.near_maintainer)
        values = () if self._follows is None else self._follows(self._rows, self.holding.with_values(delta))
        self._rows.forget()
        self._remember(records, netted)
        return BatchResult.of(self, netted, delta, changes, values, started)

    def _begin(self, records: Records) -> None:
        """Begin a batch: `_undo` leads back to here."""
        self.holding.begin(self._held, truncated=records.truncated)
        for part, _ in self._parts:
            part.begin()

    def _undo(self) -> None:
        self.holding.undo()
        for part, _ in self._parts:
            part.undo()
        self.holding.serve(self._families)

    @property
    def _parts(self) -> list[tuple[TablePart, Callable[[int], bytes]]]:
        """The parts, each with the function that returns its place in a store by the number of the table."""
        parts: list[tuple[TablePart | None, Callable[[int], bytes]]] = [
            *((family, partial(family_prefix, family.space.family)) for family in self._families),
            (self.near_maintainer, near_prefix),
            (self.rule_maintainer, table_prefix),
            (self._versions, versions_prefix),
        ]
        return [(part, prefix) for part, prefix in parts if part is not None]

    def _held(self) -> Slots:
        """Return the slots of the rows that parts refer to."""
        held = np.unique(np.concatenate([part.held for part, _ in self._parts]))
        return held[held >= 0]

    def _followed(self, delta: RowDelta) -> list[ConstraintChange]:
        """Apply a batch to index and families; return the changes, disappeared constraints of all families first."""
        met = self.holding.met(delta)
        reasons = Reasons(self._rows)
        changes = [
            change
            for family, (words, pairs) in zip(self._families, met, strict=True)
            for change in reasons.of(family, family.apply(delta, words, pairs))
        ]
        self.holding.serve_changed()
        return sorted(changes, key=lambda change: change.appeared)

    def _with_exceptions(self, changes: list[ConstraintChange], near: NearMaintainer) -> list[ConstraintChange]:
        """Return the changes; a violated constraint that nearly holds gets its number of exceptions."""
        forms = [near_form(change.constraint) if change.reason is Reason.VIOLATED else None for change in changes]
        counts = iter(near.exceptions_of([form for form in forms if form is not None]))
        return [
            change if form is None else replace(change, exceptions=next(counts))
            for change, form in zip(changes, forms, strict=True)
        ]

    def _latest(self, records: Records) -> NDArray[np.int64] | None:
        """Return the last sequence, or version, known of each record's key."""
        if self._versions is None:
            return None
        if records.versions is not None and len(records):
            self._versions.forget_before(int(records.versions[0]))
        return self._versions.latest(records.table)

    def _remember(self, records: Records, netted: Netted) -> None:
        if self._versions is None or not len(records):
            return
        if records.versions is not None:  # the rows of the last version: its removals may be in the next batch
            which = np.flatnonzero((records.versions == records.versions[-1]) & (records.operations != DELETE))
            self._versions.note(records.operations, records.versions, which)
        elif records.sequence is not None:
            which = np.setdiff1d(np.arange(len(records)), netted.incomplete)
            self._versions.note(records.operations, records.sequence, which)
