"""One table's rows and everything that is kept exact about them: seeded, then followed batch by batch.

Where the rows are is its `Holding`'s business: the maintainer never asks. `Maintainer` adds what Python users see.

Invariant: after every batch the constraints are those of the definition on the current rows, whatever the history; an
exception in a batch leaves everything as it was before it.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.constraints import (
    ConstraintChange,
    DenialConstraint,
    Family,
    NearConstraint,
    PredicateSpace,
    Reason,
    Schema,
    near_form,
)
from holdfast.discovery.explained import Explained
from holdfast.discovery.ranking import scores_on
from holdfast.discovery.reported import Reported, ReportedSet
from holdfast.display.changes import Changes
from holdfast.display.constraints import Constraints
from holdfast.display.near import NearChanges, NearConstraints
from holdfast.display.verdicts import Verdicts
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.incoming.key_versions import KeyVersions, versions_definition
from holdfast.streaming.incoming.netting import DELETE, Netted, Records, check, net
from holdfast.streaming.maintainers.certified.denial import DenialMaintainer
from holdfast.streaming.maintainers.certified.maintainer import CertifiedMaintainer, Effort
from holdfast.streaming.maintainers.certified.order import OrderMaintainer
from holdfast.streaming.maintainers.holdings.contract import (
    NO_SLOTS,
    Holding,
    Report,
    Restore,
    RowsDefinition,
    WholeTable,
)
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory
from holdfast.streaming.maintainers.inclusion.maintainer import ColumnChange, changed_values
from holdfast.streaming.maintainers.near.changes import NearExample
from holdfast.streaming.maintainers.near.maintainer import NearEffort, NearMaintainer
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule, RuleMaintainer, coding_space, refuse_uncoded
from holdfast.streaming.maintainers.rules.state import RuleExample, RuleState
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
"""What maintains the constraints of each family."""


class TableMaintainer:
    """Keeps the constraints and rules of one table.

    Parameters
    ----------
    holding : the rows.
    families : the constraints of each family.
    bounds : which families these are, and how large their constraints may be.
    explained : how the constraints were found.
    """

    def __init__(
        self, holding: Holding, families: Sequence[CertifiedMaintainer], bounds: Bounds, explained: Explained
    ) -> None:
        self.holding = holding
        self._rows = holding.rows
        self._families = families
        holding.serve(families)
        self._rules = RuleMaintainer(holding)
        self._near = None if bounds.near is None else holding.near(bounds.near)
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
        """Take a table over, and find what holds on it; its rows are this maintainer's from now on."""
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
        if maintainer._near is not None:
            report("searching for constraints that nearly hold")
            maintainer._near.seed()
        if rules:
            report("counting what breaks rules")
            maintainer._rules = RuleMaintainer(holding, rules)
            maintainer._rules.seed()
        return maintainer

    @classmethod
    def _prepare(cls, bounds: Bounds, rules: Sequence[MonitoredRule]) -> None:
        """Do what has to be done before the first batch."""

    # What is stored

    def save(self, table: int = 0, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since it was last saved; the first time, and into an empty store, ask for everything.

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
        for family in self._families:
            yield from family.save(family_prefix(family.space.family, table), everything=everything)
        if self._near is not None:
            yield from self._near.save(near_prefix(table), everything=everything)
        yield from self._rules.save(prefix, everything=everything)
        if self._versions is not None:
            yield from self._versions.save(versions_prefix(table), everything=everything)

    def save_rules(self, table: int = 0) -> Iterator[WriteBatch]:
        """Yield what changed of rules since that was last saved, between two batches."""
        yield from self.holding.save_between(table_prefix(table))
        yield from self._rules.save(table_prefix(table))

    @classmethod
    def restore(
        cls,
        store: Store,
        table: int = 0,
        threads: int | None = None,
        rules: Sequence[MonitoredRule] = (),
        rows: Restore = RowsInMemory.restored,
    ) -> Self:
        """Take a table over from a store, as it was when it was last saved. O(n log n); of rows in blocks O(blocks).

        Parameters
        ----------
        store, table : where, and the number of the table in it.
        threads : all cores where it is not given.
        rules : those that are monitored; what is new or worded otherwise is counted.
        rows : takes the rows over.
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
        if maintainer._near is not None:
            maintainer._near.restore(store, near_prefix(table))
        maintainer._rules = RuleMaintainer(holding, rules)
        maintainer._rules.restore(store, table_prefix(table))
        if known.remembers:
            definition = versions_definition(known.space.schema, known.key, threads)
            maintainer._versions = KeyVersions(rows(store, versions_prefix(table), definition), known.retention)
        return maintainer

    @property
    def files(self) -> frozenset[str]:
        """The names of the files that rows are in, and what is known of their keys."""
        return self.holding.files | (frozenset() if self._versions is None else self._versions.holding.files)

    def committed(self) -> None:
        """Remove what only earlier states need: the last batch is the earliest from which a restart may resume."""
        self.holding.committed()
        if self._versions is not None:
            self._versions.holding.committed()

    # What is followed beside constraints and rules

    def follow_values(self, *, texts: bool, only: Collection[str] | None = None) -> None:
        """Tell with each batch what became of the values of each column, or of some; with `texts`, of their texts."""
        self._follows = partial(changed_values, texts=texts, only=only)

    def remember(self, retention: float | None = None, known: WholeTable | None = None) -> None:
        """Remember the sequence of each key's last change, and tell records that come late by it.

        Parameters
        ----------
        retention : for how many seconds a key is remembered whose row is gone; None for ever.
        known : the versions of the first rows' keys (`key_versions.py`); None where there are none, in memory.
        """
        definition = versions_definition(self.schema, self._key, self.holding.threads)
        held = RowsInMemory(definition.empty()) if known is None else known.held(definition)
        self._versions = KeyVersions(held, retention)

    def remember_as(self, other: "TableMaintainer", retention: float | None = None) -> None:
        """Remember what another maintainer of the same keys does."""
        self._versions = other._versions
        if self._versions is not None:
            self._versions.retention = retention

    # What is known of the table

    @property
    def _key(self) -> tuple[str, ...]:
        return tuple(self.schema.names[c] for c in self._rows.key)

    def rows(self) -> tuple[pa.Table, pa.Table]:
        """Return all rows, and the deletes that are owed. O(n)."""
        return self._rows.arrow()

    def owed_rows(self) -> pa.Table:
        """Return the deletes that are owed. O(rows in memory)."""
        return self._rows.owed()

    @property
    def owed(self) -> int:
        """How many deletes of copies are owed."""
        return self._rows.owed_copies

    @property
    def space(self) -> PredicateSpace:
        """Which column pairs are compared, and in which order, by all families together."""
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
        """What holds on the current rows, family by family, fewest columns first. O(constraints)."""
        found = (c for family in self._families for c in ReportedSet(family.space, family.masks))
        return Constraints(found, self.name)

    @property
    def near(self) -> NearConstraints:
        """What nearly holds on the current rows, fewest columns first."""
        return NearConstraints([] if self._near is None else self._near.constraints, self.name)

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
        """What is known of each monitored rule: counts, whether it holds, examples that the last batch changed."""
        return Verdicts(self._rules.states)

    @property
    def rules_gone(self) -> list[tuple[str, RuleExample]]:
        """Examples that were stored of rules that are not monitored any more, or were worded otherwise, by name."""
        return self._rules.gone

    def recount_rules(self) -> None:
        """Count the violating rows of all rules whose last count is of an earlier batch. O(n log n) for each."""
        self._rules.recount()

    def rules_told(self) -> None:
        """Forget which examples came and went: whoever has to know does."""
        self._rules.told()

    def scores(self, constraints: Sequence[Reported]) -> list[float]:
        """Return how much each of some constraints tells, from 0 to 1, by a sample of the current rows. O(n)."""
        found = np.zeros(len(constraints))
        for family in self._families:
            space = family.space
            asked = [i for i, constraint in enumerate(constraints) if constraint.family is space.family]
            if asked:
                words = [space.words(space.mask(_as_denial(constraints[i]))) for i in asked]
                found[asked] = scores_on(np.array(words, np.uint64), self.holding.sample(space), space)
        scores: list[float] = found.tolist()
        return scores

    @property
    def effort(self) -> Effort:
        """What the batches since the seed cost, in counts, all families together."""
        total = Effort()
        for family in self._families:
            for name, count in vars(family.effort).items():
                setattr(total, name, getattr(total, name) + count)
        return total

    @property
    def near_counts(self) -> tuple[int, int] | None:
        """How many constraints nearly hold, and how many of them have exceptions; None where they are not kept."""
        return None if self._near is None else self._near.counts

    @property
    def near_examples(self) -> list[NearExample]:
        """The rows that are shown as exceptions of constraints that nearly hold."""
        return [] if self._near is None else self._near.shown

    def near_strengths(self, some: Sequence[NearConstraint]) -> list[float | None]:
        """Return how strong some constraints are that nearly hold; None of order compatibilities. O(n log n)."""
        return [] if self._near is None else self._near.strengths(some)

    def near_reasons_left(self, some: Sequence[NearConstraint]) -> list[str | None]:
        """Return why constraints left: `implied` or `violated`; None where they are not looked for."""
        return [None] * len(some) if self._near is None else self._near.reasons_left(some)

    @property
    def near_effort(self) -> NearEffort | None:
        """What batches cost the constraints that nearly hold."""
        return None if self._near is None else self._near.effort

    # A batch

    def apply_records(self, records: Records) -> BatchResult:
        """Net a batch of records in the order of their sequence, and follow what is left of it.

        Raises `InputError`, and changes nothing, where a record has a null in its key, or is an update without a key.
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
            self._rules.rebuild()
            if self._near is not None:
                self._near.rebuild()
        netted = net(records, codes, self._rows, self._latest(records))
        delta = self._rows.change(netted.codes, netted.signs)
        changes = [] if delta.is_empty else self._followed(delta)
        self._rules.apply(delta)
        if self._near is not None and (delta.copies_in or delta.copies_out):
            self._near.follow(delta)
            changes = self._with_exceptions(changes, self._near)
        values = () if self._follows is None else self._follows(self._rows, self.holding.with_values(delta))
        self._rows.forget()
        self._remember(records, netted)
        return self._result(netted, delta, changes, values, started)

    def _begin(self, records: Records) -> None:
        """Begin a batch: `_undo` leads back to here."""
        self.holding.begin(self._held, from_nothing=records.from_nothing)
        for family in self._families:
            family.begin()
        self._rules.begin()
        if self._near is not None:
            self._near.begin()
        if self._versions is not None:
            self._versions.begin()

    def _undo(self) -> None:
        self.holding.undo()
        for family in self._families:
            family.undo()
        self._rules.undo()
        if self._near is not None:
            self._near.undo()
        self.holding.serve(self._families)
        if self._versions is not None:
            self._versions.undo()

    def _held(self) -> Slots:
        """Return the slots that certificates and rules refer to."""
        found = [family.certificate.pairs[family.certificate.held].ravel() for family in self._families]
        shown = NO_SLOTS if self._near is None else self._near.held
        held = np.unique(np.concatenate([NO_SLOTS, self._rules.held, shown, *found]))
        return held[held >= 0]

    def _followed(self, delta: RowDelta) -> list[ConstraintChange]:
        """Bring index and families to where the rows are; disappeared constraints of all families come first."""
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
        """Return changes with how many exceptions violated constraints have that nearly hold."""
        forms = [near_form(change.constraint) if change.reason is Reason.VIOLATED else None for change in changes]
        counts = iter(near.exceptions_of([form for form in forms if form is not None]))
        return [
            change if form is None else replace(change, exceptions=next(counts))
            for change, form in zip(changes, forms, strict=True)
        ]

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
            self._versions.note(records.operations, records.versions, which)
        elif records.sequence is not None:
            which = np.setdiff1d(np.arange(len(records)), netted.incomplete)
            self._versions.note(records.operations, records.sequence, which)

    def _result(
        self,
        netted: Netted,
        delta: RowDelta,
        changes: list[ConstraintChange],
        values: Sequence[ColumnChange],
        started: float,
    ) -> BatchResult:
        keyed = bool(self._rows.key)
        return BatchResult(
            Changes(changes),
            rows_in=delta.copies_in,
            rows_out=delta.copies_out,
            inserted=netted.inserted if keyed else delta.copies_in,
            deleted=delta.copies_out - netted.updated,  # without a key nothing is updated
            updated=netted.updated,
            ignored=netted.ignored,
            newly_owed=delta.newly_owed,
            owed=self._rows.owed_copies,
            late=netted.late,
            incomplete=tuple(netted.incomplete.tolist()),
            rows=len(self._rows),
            constraints=self.count,
            seconds=time.perf_counter() - started,
            values=tuple(values),
            rules=tuple(self._rules.states),
            near=NearChanges(() if self._near is None else self._near.changes, self.name),
            near_counts=self.near_counts,
            exceptions_shown=() if self._near is None else self._near.shown_now,
            exceptions_hidden=() if self._near is None else self._near.shown_no_more,
            emptied=self.holding.has_emptied,
        )

    def check_invariants(self) -> None:
        """Assert what all parts promise. Exponential in the columns."""
        self.holding.check_invariants()
        for family in self._families:
            family.check_invariants()
        self._rules.check_invariants()
        if self._near is not None:
            self._near.check_invariants()


def _as_denial(constraint: Reported) -> DenialConstraint:
    return constraint if isinstance(constraint, DenialConstraint) else constraint.as_denial()
