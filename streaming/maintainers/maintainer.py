"""One table's rows and everything that is kept exact about them: seed, then apply one batch after another.

Invariant: after every batch the constraints are those of the definition on the current rows, whatever the history; an
exception in a batch leaves everything as it was before it.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.constraints import (
    ConstraintChange,
    DenialConstraint,
    Family,
    InclusionDependency,
    PredicateSpace,
    Rule,
    Schema,
    StateRefused,
    UsageError,
)
from holdfast.discovery.denial.meaning import Meaning
from holdfast.discovery.denial.seeding import seed_denial
from holdfast.discovery.detection.check import declared
from holdfast.discovery.detection.forms import form_of
from holdfast.discovery.explained import Explained
from holdfast.discovery.kernels.hulls import FEWEST_PREDICATES
from holdfast.discovery.kernels.order import sort_groups_kernel
from holdfast.discovery.order.seeding import seed_order
from holdfast.discovery.ranking import PairSample, scores_on
from holdfast.discovery.reported import Reported, ReportedSet
from holdfast.display.changes import Changes
from holdfast.display.constraints import Constraints
from holdfast.display.verdicts import Verdicts
from holdfast.indexes.encoding import Codes
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.state import codecs
from holdfast.state.memory import MemoryStore
from holdfast.state.store import Reader, Store, WriteBatch
from holdfast.streaming.key_versions import KeyVersions
from holdfast.streaming.maintainers.batch_result import BatchResult
from holdfast.streaming.maintainers.bounds import Bounds
from holdfast.streaming.maintainers.certified import CertifiedMaintainer, Effort
from holdfast.streaming.maintainers.denial import DenialMaintainer
from holdfast.streaming.maintainers.inclusion import ColumnChange, changed_values
from holdfast.streaming.maintainers.order import OrderMaintainer
from holdfast.streaming.maintainers.reasons import Reasons
from holdfast.streaming.maintainers.rule_state import RuleExample, RuleState
from holdfast.streaming.maintainers.rules import MonitoredRule, RuleMaintainer, coding_space, refuse_uncoded
from holdfast.streaming.maintainers.shared_index import SharedIndex, SpreadIndex
from holdfast.streaming.netting import DELETE, INSERT, UPDATE, Netted, Records, check, net, no_key_is_twice
from holdfast.tables import ReadOptions, Table, as_table, from_arrow, space_of
from holdfast.tables.columnar import encoded
from holdfast.tables.keys import arrow_type_of

Words = NDArray[np.uint64]

_DEFINITION = 2
"""Of the reported set: the first one had constraints that no table can break."""

__all__ = ["DELETE", "INSERT", "UPDATE", "BatchResult", "Bounds", "Maintainer", "Records"]


class Maintainer:
    """Keeps the constraints of one table.

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

    Order dependencies beside them, or alone:

    >>> maintainer = Maintainer.seed(people, name="people", max_predicates=None, max_context=3)
    >>> [str(change) for change in maintainer.apply(inserts=pd.DataFrame({"Zip": ["x0"], "City": ["b"]}))]
    ['- {City}: [] -> Zip (violated)', '- {}: Zip ~ City (violated)']
    """

    def __init__(
        self,
        rows: RowSet,
        families: Sequence[CertifiedMaintainer],
        bounds: Bounds,
        explained: Explained,
        threads: int = 1,
    ) -> None:
        self._rows = rows
        self._families = families
        self._threads = threads
        self._index = self._indexed()
        self._rules = RuleMaintainer(rows)
        self._versions: KeyVersions | None = None
        self._follows: Callable[[RowSet, RowDelta], list[ColumnChange]] | None = None
        self.bounds = bounds
        self.explained = explained

    @classmethod
    def seed(
        cls,
        data: Any,
        *,
        name: str = "table",
        key: Sequence[str] | str = (),
        max_predicates: int | None = 4,
        max_context: int | None = None,
        rules: Sequence[Rule | MonitoredRule | str] | Rule | MonitoredRule | str = (),
        space: PredicateSpace | None = None,
        threads: int | None = None,
        report: Callable[[str], object] = lambda _: None,
    ) -> "Maintainer":
        """Take a table over, and find what holds on it.

        Parameters
        ----------
        data : a table of ours, a pandas or Arrow one, or the path of a file.
        name : what a data frame is called.
        key : the columns, or the column, that identify a row; without them a row is identified by all its columns.
        max_predicates : denial constraints on at most so many column pairs; 0 for all, None for no denial constraints.
        max_context : order dependencies with at most so many columns in the context; 0 for all, None for none.
        rules : declared rules whose violations are counted, or texts such as `Zip -> City`, or one; see `rules`.
        space : which column pairs are compared; measured on the table where it is not given.
        threads : all cores where it is not given.
        report : is told what is being done.
        """
        bounds = Bounds(max_predicates, max_context)
        _compile()
        if rules:
            _compile_rules()
        table = as_table(data, name)
        key = [key] if isinstance(key, str) else key
        return cls._seeded(table, key, bounds, space, threads, report, monitored(rules, table.schema))

    @classmethod
    def _seeded(
        cls,
        table: Table,
        key: Sequence[str],
        bounds: Bounds,
        space: PredicateSpace | None,
        threads: int | None,
        report: Callable[[str], object],
        rules: Sequence[MonitoredRule] = (),
    ) -> "Maintainer":
        threads = threads or os.cpu_count() or 1
        space = space or space_of(table, "none" if bounds.max_predicates is None else "auto")
        key = [table.schema.names[table.schema.index(column)] for column in key]
        widest = bounds.widest(space)
        rows = RowSet(widest, key, coding_space(widest, rules))
        no_key_is_twice(table, rows.key)
        rows.fill(table)
        explained = Explained()
        families: list[CertifiedMaintainer] = []
        for family, bound in bounds.families.items():
            theirs = space.of_family(family)
            search = seed_denial if family is Family.DENIAL else seed_order
            found = search(table, theirs, bound, threads=threads, report=report)
            report("looking for further witnesses")
            named, place = np.unique(found.witnesses, return_inverse=True)
            slots = rows.slots_of(rows.encode(table.taken(named))[0])[place].reshape(found.witnesses.shape)
            families.append(MAINTAINERS[family].seed(rows, theirs, bound, replace(found, witnesses=slots), threads))
            explained.plan = explained.plan or found.explained.plan
            explained.steps += found.explained.steps
        report("building the index")
        maintainer = cls(rows, families, bounds, explained, threads)
        maintainer._monitor(rules, report)
        return maintainer

    def _monitor(self, rules: Sequence[MonitoredRule], report: Callable[[str], object]) -> None:
        if rules:
            report("counting what breaks rules")
            self._rules = self._ruled(rules)
            self._rules.seed()

    def _ruled(self, rules: Sequence[MonitoredRule]) -> RuleMaintainer:
        return RuleMaintainer(self._rows, rules, self._threads)

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
                "definition": _DEFINITION,
                "space": self.space.to_json(),
                "key": [self.schema.names[c] for c in self._rows.key],
                "bounds": self.bounds.fields(),
            }
            if self._rows.coding != self._rows.space:
                meta["coding"] = self._rows.coding.to_json()
            if self._versions is not None:
                meta["remembers"] = {"retention": self._versions.retention}
            first.put("meta", prefix + b"table", codecs.json_bytes(meta))
        yield first
        yield from self._rows.save(prefix, everything=everything)
        for family in self._families:
            yield from family.save(_prefix_of(family.space.family, table), everything=everything)
        yield from self._rules.save(prefix, everything=everything)
        if self._versions is not None:
            yield from self._versions.save(versions_prefix(table), everything=everything)

    def save_rules(self, table: int = 0) -> Iterator[WriteBatch]:
        """Yield what changed of rules since that was last saved, between two batches."""
        yield from self._rules.save(codecs.number(table))

    @classmethod
    def restore(
        cls,
        store: Store,
        table: int = 0,
        threads: int | None = None,
        rules: Sequence[MonitoredRule] = (),
        make_rows: Callable[..., RowSet] = lambda _, *given: RowSet(*given),
    ) -> Self:
        """Take a table over from a store, as it was when it was last saved. O(n log n).

        Parameters
        ----------
        store, table : where, and the number of the table in it.
        threads : all cores where it is not given.
        rules : those that are monitored; what is new or worded otherwise is counted.
        make_rows : makes the rows that are stored under a prefix, of a space, a key and, of the table itself, a coding;
            they are restored then.
        """
        _compile()
        if rules:
            _compile_rules()
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
        bounds = Bounds(**{"max_predicates": None, **meta["bounds"]})
        space, coding = cls.stored_spaces(store, table)
        refuse_uncoded(coding, space.schema, rules)
        rows = make_rows(prefix, space, meta["key"], coding)
        rows.restore(store, prefix)
        threads = threads or os.cpu_count() or 1
        families = [
            MAINTAINERS[family].restore(rows, space.of_family(family), bound, threads, store, _prefix_of(family, table))
            for family, bound in bounds.families.items()
        ]
        maintainer = cls(rows, families, bounds, Explained(), threads)
        maintainer._rules = maintainer._ruled(rules)
        maintainer._rules.restore(store, prefix)
        if "remembers" in meta:
            of_versions = versions_prefix(table)
            maintainer.remember(meta["remembers"]["retention"], partial(make_rows, of_versions))
            assert maintainer._versions is not None
            maintainer._versions.restore(store, of_versions)
        return maintainer

    @staticmethod
    def stored_spaces(store: Reader, table: int) -> tuple[PredicateSpace, PredicateSpace]:
        """Return which columns a stored table has and compares, and what its codes tell beside."""
        meta = codecs.read_json(store.get("meta", codecs.number(table) + b"table") or b"{}")
        space = PredicateSpace.from_json(meta["space"])
        return space, PredicateSpace.from_json(meta["coding"]) if "coding" in meta else space

    @staticmethod
    def reports_otherwise(store: Reader, table: int) -> bool:
        """Return whether an earlier version may have reported constraints of a stored table that this one does not."""
        meta = codecs.read_json(store.get("meta", codecs.number(table) + b"table") or b"{}")
        bound = meta["bounds"].get("max_predicates")
        if meta.get("definition", 1) >= _DEFINITION or bound is None or 0 < bound < FEWEST_PREDICATES:
            return False
        return Meaning(Maintainer.stored_spaces(store, table)[0].of_family(Family.DENIAL)).has_cycle

    def follow_values(self, *, texts: bool, only: Collection[str] | None = None) -> None:
        """Tell with each batch what became of the values of each column, or of some; with `texts`, of their texts."""
        self._follows = partial(changed_values, texts=texts, only=only)

    def remember(
        self,
        retention: float | None = None,
        make_rows: Callable[[PredicateSpace, Sequence[str]], RowSet] = RowSet,
    ) -> None:
        """Remember the sequence of each key's last change, and tell records that come late by it.

        Parameters
        ----------
        retention : for how many seconds a key is remembered whose row is gone; None for ever.
        make_rows : makes the table that has them.
        """
        key = [self.schema.names[c] for c in self._rows.key]
        self._versions = KeyVersions(self.schema, key, retention, make_rows=make_rows)

    def remember_as(self, other: "Maintainer", retention: float | None = None) -> None:
        """Remember what another maintainer of the same keys does."""
        self._versions = other._versions
        if self._versions is not None:
            self._versions.retention = retention

    @property
    def remembers(self) -> bool:
        """Whether sequences of keys are remembered."""
        return self._versions is not None

    @property
    def owed(self) -> int:
        """How many deletes of copies are owed."""
        return self._rows.owed_copies

    def rows(self) -> tuple[pa.Table, pa.Table]:
        """Return all rows, and the deletes that are owed. O(n)."""
        return self._rows.arrow()

    def owed_rows(self) -> pa.Table:
        """Return the deletes that are owed. O(rows in memory)."""
        return self._rows.owed()

    def remember_rows(self, table: Table, sequence: NDArray[np.int64]) -> None:
        """Take the sequences of the first rows over."""
        assert self._versions is not None
        self._versions.begin()
        self._versions.latest(table)
        self._versions.note(np.full(table.row_count, INSERT, np.int8), sequence, np.arange(table.row_count))

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
                found[asked] = scores_on(np.array(words, np.uint64), self._sample(space), space)
        scores: list[float] = found.tolist()
        return scores

    def _sample(self, space: PredicateSpace) -> PairSample:
        return PairSample.of_rows(self._rows, space)

    def _indexed(self) -> "SharedIndex | SpreadIndex":
        return SharedIndex(self._rows, self._families, self._threads)

    @property
    def effort(self) -> Effort:
        """What the batches since the seed cost, in counts, all families together."""
        total = Effort()
        for family in self._families:
            for name, count in vars(family.effort).items():
                setattr(total, name, getattr(total, name) + count)
        return total

    def apply(self, inserts: Any = None, deletes: Any = None) -> Changes:
        """Apply inserts and deletes as one step, and return what that changed.

        Deletes refer to rows that were there before. With a key an insert of a live key replaces its row, and a delete
        needs only the key columns.
        """
        return Changes(self.step(inserts, deletes).changes)

    def step(self, inserts: Any = None, deletes: Any = None) -> BatchResult:
        """Apply inserts and deletes as `apply` does, and return all that is known of it."""
        parts = [(data, operation) for data, operation in ((deletes, DELETE), (inserts, INSERT)) if data is not None]
        tables = [self._arrow(data) for data, _ in parts]
        operations = [np.full(len(t), operation, np.int8) for t, (_, operation) in zip(tables, parts, strict=True)]
        arrays = pa.concat_tables(tables) if tables else self._arrow(pa.table({}))
        table = encoded(
            self.schema.table,
            self.schema.columns,
            {column.name: arrays.column(column.name) for column in self.schema.columns},
            len(arrays),
        )
        return self.apply_records(Records(table, np.concatenate([np.zeros(0, np.int8), *operations])))

    def apply_records(self, records: Records) -> BatchResult:
        """Net a batch of records in the order of their sequence, and follow what is left of it.

        Raises `InputError`, and changes nothing, where a record has a null in its key, or is an update without a key.
        """
        started = time.perf_counter()
        check(records, self._rows.key)
        self._begin(records)
        try:
            codes, relabelled = self._rows.encode(records.table)
            if relabelled:
                self._index.rebuild()
                self._rules.rebuild()
            netted, delta = self._netted(records, codes)
            changes = [] if delta.is_empty else self._followed(delta)
            self._rules.apply(delta)
            values = self._values(delta)
            self._rows.forget()
            self._remember(records, netted)
            return self._result(netted, delta, changes, values, started)
        except BaseException:
            self._rows.undo()
            for family in self._families:
                family.undo()
            self._rules.undo()
            self._index = self._indexed()
            if self._versions is not None:
                self._versions.undo()
            raise

    def _begin(self, records: Records) -> None:  # noqa: ARG002  (what comes matters where rows are elsewhere)
        """Begin a batch: `_undo` leads back to here."""
        self._rows.begin()
        for family in self._families:
            family.begin()
        self._rules.begin()
        if self._versions is not None:
            self._versions.begin()

    def _netted(self, records: Records, codes: Codes) -> tuple[Netted, RowDelta]:
        """Net a batch, and bring the rows to where it leaves them."""
        netted = net(records, codes, self._rows, self._latest(records))
        return netted, self._rows.change(netted.codes, netted.signs)

    def _values(self, delta: RowDelta) -> Sequence[ColumnChange]:
        """Return what became of the values of each column that is followed."""
        return () if self._follows is None else self._follows(self._rows, delta)

    def _followed(self, delta: RowDelta) -> list[ConstraintChange]:
        """Bring index and families to where the rows are; disappeared constraints of all families come first."""
        self._index.follow(delta)
        met = self._index.met(np.concatenate([delta.appeared, delta.doubled]))
        reasons = Reasons(self._rows)
        changes = [
            change
            for family, (words, pairs) in zip(self._families, met, strict=True)
            for change in reasons.of(family, family.apply(delta, words, pairs))
        ]
        self._index.hold()
        return sorted(changes, key=lambda change: change.appeared)

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
            deleted=netted.deleted if keyed else delta.copies_out,
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
            emptied=self._has_emptied,
        )

    @property
    def _has_emptied(self) -> bool:
        """Whether rows went in the batch of which nobody knows the values."""
        return False

    def committed(self) -> None:
        """Give up what only earlier states need: the last batch is where no start goes back behind it."""

    def check_invariants(self) -> None:
        """Assert what all parts promise. Exponential in the columns."""
        self._rows.check_invariants()
        self._index.check_invariants()
        for family in self._families:
            family.check_invariants()
        self._rules.check_invariants()

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


def monitored(
    rules: Sequence[Rule | MonitoredRule | str] | Rule | MonitoredRule | str, schema: Schema
) -> list[MonitoredRule]:
    """Return rules, or one, as they are monitored, texts read for one table; refuse what does not fit it."""
    given = [rules] if isinstance(rules, Rule | MonitoredRule | str) else rules
    made = [declared(rule, rule, {schema.table: schema}) if isinstance(rule, str) else rule for rule in given]
    found = [rule if isinstance(rule, MonitoredRule) else MonitoredRule(rule) for rule in made]
    problems = []
    for number, one in enumerate(found):
        if isinstance(one.rule.body, InclusionDependency):
            problems.append(f"rule {one.rule.name} is about values across tables, which one table's maintainer has not")
        elif one.rule.name in {other.rule.name for other in found[:number]}:
            problems.append(f"two rules are called '{one.rule.name}': rename one")
        else:
            try:
                form_of(one.rule, {schema.table: schema})
            except UsageError as error:
                problems.append(str(error))
    if problems:
        raise UsageError("\n".join(problems))
    return found


MAINTAINERS: dict[Family, type[DenialMaintainer] | type[OrderMaintainer]] = {
    Family.DENIAL: DenialMaintainer,
    Family.ORDER: OrderMaintainer,
}
"""What maintains the constraints of each family."""


def _as_denial(constraint: Reported) -> DenialConstraint:
    return constraint if isinstance(constraint, DenialConstraint) else constraint.as_denial()


def _prefix_of(family: Family, table: int) -> bytes:
    """Return where a family's certificate is stored: that of denial constraints under the table's own number."""
    return codecs.number(table) if family is Family.DENIAL else codecs.number((2 << 32) + table)


def versions_prefix(table: int) -> bytes:
    """Return where it is stored what is known of a table's keys."""
    return codecs.number((1 << 32) + table)


@cache
def _compile() -> None:
    """Run every kernel once on a small table, so that no batch waits for a compiler."""
    rows = pa.table({"a": [1, 1, 2, 3], "b": ["x", "y", "y", None], "c": [0.5, 1.5, 1.5, 2.5]})
    _compile_meaning(from_arrow(pa.table({"a": [1, 1, 2], "b": [1, 2, 2], "c": [2, 1, 2]}), "rows"))
    for bounds in (Bounds(0, 0), Bounds(2)):
        maintainer = Maintainer._seeded(from_arrow(rows, "rows"), (), bounds, None, 1, lambda _: None)
        assert isinstance(maintainer._index, SharedIndex)
        index = maintainer._index.table
        index.hold(index.masks, trees=True)
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
    two, codes = np.zeros(2, np.int32), np.zeros(1, np.int32)  # what small tables do without
    sort_groups_kernel(two, np.array([0, 2]), codes, two.copy())


def _compile_meaning(table: Table) -> None:
    """Run the kernels that only tables with three columns compared across need."""
    space = PredicateSpace(table.schema, ((0, 1), (0, 2), (1, 2)))
    seed_denial(table, space, 4)


@cache
def _compile_rules() -> None:
    """Run the kernels of rules once, those of a first batch and of a later one."""
    rows = pa.table({"a": [1, 1, 2, 3], "b": ["x", "y", "y", None], "c": [0.5, 1.5, 1.5, 2.5]})
    table = from_arrow(rows, "rows")
    texts = ("key(b)", "b -> a", "not(t.b = s.b and t.a < s.a and t.c > s.c)", "not(t.a <= s.a and t.c > s.c)")
    rules = monitored([*texts, "not(t.a != s.c and t.b = s.b)", "not(t.a <= 0)"], table.schema)
    maintainer = Maintainer._seeded(table, (), Bounds(None), None, 1, lambda _: None, rules)
    for part in (rows, rows, rows.slice(1, 2)):
        maintainer.apply(inserts=part)
        maintainer.apply(deletes=part.slice(0, 1))
    maintainer.apply(deletes=rows)
