"""Declared rules of one table, kept exact from batch to batch by the rows that changed alone.

    keys, functional dependencies   sizes of groups give pairs and rows      indexes/group_counts.py
    other rules about pairs         partners of changed rows, counted in zone trees, give pairs; rows are counted anew
                                    now and then                             indexes/counting_index.py
    conditions on single rows       changed rows are asked

Invariant: after every batch `violating_pairs` is the number of the definition on the current rows, and so is
`violating_rows` where the state says that it is recent; every example is a live violation.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import Column, PredicateSpace, RowImage, Rule, Schema, StateRefused, Violation
from holdfast.constraints.conditions import Atom
from holdfast.constraints.operators import EVERY_OUTCOME
from holdfast.discovery.detection.columns import RowColumns
from holdfast.discovery.detection.counting import breaks_alone, count
from holdfast.discovery.detection.examples import pair_with, some_pairs
from holdfast.discovery.detection.forms import Compared, PairForm, RowForm, form_of
from holdfast.discovery.detection.grouping import Grouping
from holdfast.indexes.boxes import Tests
from holdfast.indexes.counting_index import CountingIndex
from holdfast.indexes.group_counts import GroupCounts
from holdfast.indexes.rows import RowDelta, RowSet, Slots
from holdfast.state import codecs
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.maintainers.rule_state import RuleExample, RuleState

Ints = NDArray[np.int64]
Found = tuple[int, ...]
"""The slots of a violation: (t, s), or one row."""

RULES = "rules"
MOST_EXAMPLES = 10
_SOUGHT, _SOUGHT_A_BATCH = 2, 8


@dataclass(frozen=True)
class MonitoredRule:
    """A rule, and how often its violating rows may be counted anew where each batch cannot tell them.

    Parameters
    ----------
    recount : seconds.
    """

    rule: Rule
    recount: float = 60.0


@dataclass
class _Batch:
    """Rows whose copies changed, as all rules share them."""

    rows: RowSet
    delta: RowDelta
    grouping: Grouping = field(init=False)

    def __post_init__(self) -> None:
        self.columns = RowColumns(self.rows, self.delta.changed, self.delta.copies)
        self.grouping = Grouping(self.columns)

    @cached_property
    def live(self) -> Slots:
        """The changed rows that are live."""
        found: Slots = self.delta.changed[self.rows.copies[self.delta.changed] > 0]
        return found


class _Watch(ABC):
    """One rule."""

    def __init__(self, rows: RowSet, monitored: MonitoredRule) -> None:
        self.rule = monitored.rule
        self.recount = monitored.recount
        self._rows = rows
        self.pairs: int | None = None
        self.breaking = 0
        self.is_recent = True
        self.counted_at = -np.inf
        self.examples: dict[Found, RuleExample] = {}
        self.added: dict[Found, RuleExample] = {}
        self.removed: dict[Found, RuleExample] = {}

    @abstractmethod
    def follow(self, batch: _Batch) -> None:
        """Bring the counts to where the rows are."""

    @abstractmethod
    def count(self) -> None:
        """Count all rows anew. O(n log n)."""

    @abstractmethod
    def breaking_among(self, batch: _Batch) -> Slots:
        """Return live rows of a batch that break the rule, as far as it can be told quickly."""

    @abstractmethod
    def violation_with(self, row: int) -> Found | None:
        """Return a violation with a row."""

    @abstractmethod
    def some(self, most: int) -> list[Found]:
        """Return some violations. O(n log n)."""

    @abstractmethod
    def rebuild(self) -> None:
        """Make what is derived from the rows anew."""

    @property
    def violations(self) -> int:
        """How many violations there are, pairs where the rule is about pairs."""
        return self.breaking if self.pairs is None else self.pairs

    def memo(self) -> Any:
        """Return what `take_back` needs."""
        return self.pairs, self.breaking, self.is_recent, self.counted_at, dict(self.examples)

    def take_back(self, memo: Any) -> None:
        """Be again what it was."""
        self.pairs, self.breaking, self.is_recent, self.counted_at, examples = memo
        self.examples = dict(examples)

    def drop_dead(self) -> None:
        """Take examples away whose rows are gone."""
        copies = self._rows.copies
        for found in [f for f in self.examples if min(copies[slot] for slot in f) < (2 if _is_twice(f) else 1)]:
            self.removed[found] = self.examples.pop(found)

    def show(self, found: Found, image: Callable[[int], RowImage]) -> None:
        """Take a violation as an example, if it is none yet."""
        if found not in self.examples and found[::-1] not in self.examples and len(self.examples) < MOST_EXAMPLES:
            self.examples[found] = self.added[found] = _example(self.rule.name, found, image)

    def state(self) -> RuleState:
        """Return what is known now."""
        return RuleState(
            self.rule,
            len(self._rows),
            self.pairs,
            self.breaking,
            self.is_recent,
            None,
            tuple(self.added.values()),
            tuple(self.removed.values()),
        )

    def fields(self) -> dict[str, Any]:
        """Return what is stored of it."""
        return {
            "text": self.rule.text,
            "pairs": self.pairs,
            "rows": self.breaking,
            "is_recent": self.is_recent,
            "examples": [list(found) for found in self.examples],
        }

    def take(self, stored: Mapping[str, Any], image: Callable[[int], RowImage]) -> None:
        """Be what was stored."""
        self.pairs, self.breaking, self.is_recent = stored["pairs"], stored["rows"], stored["is_recent"]
        for found in stored["examples"]:
            self.show(tuple(found), image)
        self.added.clear()


class _Pairs(_Watch):
    """A rule about pairs of rows."""

    def __init__(self, rows: RowSet, monitored: MonitoredRule, form: PairForm) -> None:
        super().__init__(rows, monitored)
        self.form = form

    def violation_with(self, row: int) -> Found | None:
        return pair_with(self._rows, self.form, row)

    def some(self, most: int) -> list[Found]:
        columns = RowColumns(self._rows)
        found = some_pairs(columns, Grouping(columns), self.form, most)
        return [(int(columns.slots[t]), int(columns.slots[s])) for t, s in found]


class _Groups(_Pairs):
    """A key or a functional dependency."""

    def __init__(self, rows: RowSet, monitored: MonitoredRule, form: PairForm) -> None:
        super().__init__(rows, monitored, form)
        differing = [compared.left for compared in form.differences]
        self._counts = GroupCounts(rows, [column for column, _ in form.equalities], *differing)
        self.count()

    def follow(self, batch: _Batch) -> None:
        self._counts.change(batch.delta.changed, batch.delta.copies)
        self.count()

    def count(self) -> None:
        self.pairs, self.breaking = self._counts.pairs, self._counts.breaking

    def rebuild(self) -> None:
        self._counts.rebuild()

    def breaking_among(self, batch: _Batch) -> Slots:
        found: Slots = batch.live[self._counts.breaks(batch.live)]
        return found

    @staticmethod
    def fits(form: PairForm) -> bool:
        """Whether a rule is one of these."""
        own = all(compared.left == compared.right for compared in form.compared)
        return own and not (form.inequalities or form.t_tests or form.s_tests) and len(form.differences) <= 1


class _Partners(_Pairs):
    """Any other rule about pairs; its partners are counted by `_Trees`."""

    def __init__(self, rows: RowSet, monitored: MonitoredRule, form: PairForm) -> None:
        super().__init__(rows, monitored, form)
        self.pairs = 0
        self._seen: Slots = np.zeros(0, np.int64)

    def follow(self, batch: _Batch) -> None:
        """Wait for the partners."""
        self._seen = batch.live[:0]

    def rebuild(self) -> None:
        """Nothing is derived here."""

    def counted(self, batch: _Batch, partners: Ints, alone: Ints) -> None:
        """Take in with how many rows each changed row breaks the rule, in both places, itself included.

        Let w be the copies now, d how they changed, and B(u, v) the sum of u[t] v[s] over (t, s) that break the rule.
        Then B(w, w) - B(w - d, w - d) = B(d, w) + B(w, d) - B(d, d), of which rows with themselves are no pairs.
        """
        change = batch.delta.copies
        live = self._rows.copies[batch.delta.changed] > 0
        has_partner = partners > 2 * alone * live
        among = count(batch.columns, batch.grouping, self.form)
        more = int(change @ partners) - among.pairs - 2 * int(change @ alone)
        assert self.pairs is not None
        self.pairs += more
        if not self.pairs:
            self.breaking, self.is_recent = 0, True
        elif more or has_partner.any():
            self.is_recent = False
        self._seen = batch.delta.changed[live & has_partner]

    def count(self) -> None:
        columns = RowColumns(self._rows)
        counted = count(columns, Grouping(columns), self.form)
        self.pairs, self.breaking, self.is_recent = counted.pairs, counted.rows, True

    def breaking_among(self, batch: _Batch) -> Slots:  # noqa: ARG002  (seen as it was counted)
        return self._seen


class _Single(_Watch):
    """A condition on single rows."""

    def __init__(self, rows: RowSet, monitored: MonitoredRule, form: RowForm) -> None:
        super().__init__(rows, monitored)
        self._form = form

    def follow(self, batch: _Batch) -> None:
        self.breaking += int(batch.delta.copies[batch.columns.passing_any(self._form.alternatives)].sum())

    def count(self) -> None:
        columns = RowColumns(self._rows)
        assert columns.weight is not None
        self.breaking = int(columns.weight[columns.passing_any(self._form.alternatives)].sum())

    def rebuild(self) -> None:
        """Nothing is derived from the rows."""

    def breaking_among(self, batch: _Batch) -> Slots:
        return self._passing(batch.live)

    def violation_with(self, row: int) -> Found | None:
        return (row,)

    def some(self, most: int) -> list[Found]:
        return [(slot,) for slot in self._passing(self._rows.live())[:most].tolist()]

    def _passing(self, slots: Slots) -> Slots:
        found: Slots = slots[RowColumns(self._rows, slots).passing_any(self._form.alternatives)]
        return found


class _Trees:
    """Counts the partners of changed rows for all rules that need it, tables of rows shared where they can be."""

    def __init__(self, rows: RowSet, watches: Sequence[_Partners], threads: int) -> None:
        self._rows = rows
        self._watches = [watch for watch in watches if all(compared.allowed for compared in watch.form.compared)]
        space = _space(rows.space, [watch.form for watch in self._watches])
        tests = Tests.of(space)
        asked: dict[tuple[Atom, ...], list[tuple[int, bool, NDArray[np.int8]]]] = {}
        for number, watch in enumerate(self._watches):
            form = watch.form
            asked.setdefault(form.s_tests, []).append((number, True, _box(form.compared, tests)))
            if not form.is_symmetric:
                turned = tuple(compared.mirror for compared in form.compared)
                asked.setdefault(form.t_tests, []).append((number, False, _box(turned, tests)))
        self._asked = {
            atoms: (
                [(number, as_t) for number, as_t, _ in boxes],
                CountingIndex(rows, space, np.array([box for *_, box in boxes]), self._among(atoms), threads),
            )
            for atoms, boxes in asked.items()
        }

    def follow(self, batch: _Batch) -> None:
        """Bring the trees to where the rows are, and tell each rule the partners of the rows that changed."""
        slots = batch.delta.changed
        partners = np.zeros((len(self._watches), len(slots)), np.int64)
        for boxes, index in self._asked.values():
            index.follow(batch.delta)
            for (number, as_t), found in zip(boxes, index.count(slots), strict=True):
                form = self._watches[number].form
                passes = batch.columns.passing(form.t_tests if as_t else form.s_tests)
                partners[number] += (2 if form.is_symmetric else 1) * (found if passes is None else found * passes)
        for watch, found in zip(self._watches, partners, strict=True):
            alone = breaks_alone(batch.columns, watch.form)
            watch.counted(batch, found, np.zeros(len(slots), np.int64) if alone is None else alone.astype(np.int64))

    def rebuild(self) -> None:
        """Make the trees anew."""
        for _, index in self._asked.values():
            index.rebuild()

    def check_invariants(self) -> None:
        """Assert what the trees promise. O(n) each."""
        for _, index in self._asked.values():
            index.check_invariants()

    def _among(self, atoms: tuple[Atom, ...]) -> Callable[[Slots], Slots] | None:
        return partial(_chosen, self._rows, atoms) if atoms else None


class RuleMaintainer:
    """The rules of one table.

    Parameters
    ----------
    rows : the table.
    rules : those about it, inclusions left out.
    threads : how many to use.
    now : the clock, in seconds.
    """

    def __init__(
        self,
        rows: RowSet,
        rules: Sequence[MonitoredRule] = (),
        threads: int = 1,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rows = rows
        self._now = now
        self._watches = [_watch(rows, rule) for rule in rules]
        self._trees = _Trees(rows, [w for w in self._watches if isinstance(w, _Partners)], threads)
        self._before: list[Any] = []
        self._touched = False
        self._images: dict[int, RowImage] = {}
        self._saved: dict[str, bytes] = {}
        self.gone: list[tuple[str, RuleExample]] = []

    def seed(self) -> None:
        """Count all rules, and look for examples. O(n log n) for each."""
        for watch in self._watches:
            self._begin_watching(watch)

    @property
    def states(self) -> list[RuleState]:
        """What is known of each rule; what came and went is that of the last batch."""
        return [watch.state() for watch in self._watches]

    def begin(self) -> None:
        """Begin a batch: `undo` leads back to here."""
        self._before = [watch.memo() for watch in self._watches]
        self._touched = False
        for watch in self._watches:
            watch.added, watch.removed = {}, {}

    def undo(self) -> None:
        """Take a batch back, after the rows are as they were. O(n) where it had begun to count."""
        for watch, memo in zip(self._watches, self._before, strict=True):
            watch.take_back(memo)
            watch.added, watch.removed = {}, {}
        if self._touched:
            self.rebuild()

    def rebuild(self) -> None:
        """Make everything that is derived from codes anew, as is needed when they were relabelled. O(n log n)."""
        self._touched = True
        for watch in self._watches:
            watch.rebuild()
        self._trees.rebuild()

    def apply(self, delta: RowDelta) -> None:
        """Follow what a batch did to the rows, before those that vanished are forgotten."""
        if not self._watches or not len(delta.changed):
            return
        self._touched = True
        self._images.clear()
        batch = _Batch(self._rows, delta)
        for watch in self._watches:
            watch.drop_dead()
            watch.follow(batch)
        self._trees.follow(batch)
        self._recount()
        sought = 0
        for watch in self._watches:
            sought += self._look_for_examples(watch, batch, sought)

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since it was last saved."""
        batch = WriteBatch()
        stored = {watch.rule.name: codecs.json_bytes(watch.fields()) for watch in self._watches}
        for name in self._saved.keys() - stored.keys():
            batch.delete(RULES, prefix + name.encode())
        for name, value in stored.items():
            if everything or self._saved.get(name) != value:
                batch.put(RULES, prefix + name.encode(), value)
        self._saved = stored
        if len(batch):
            yield batch

    def restore(self, store: Store, prefix: bytes) -> None:
        """Take over what was saved of these rules; count those that are new or were worded otherwise."""
        self._saved = {key[len(prefix) :].decode(): value for key, value in store.scan(RULES, prefix)}
        stored = {name: codecs.read_json(value) for name, value in self._saved.items()}
        for watch in self._watches:
            known = stored.get(watch.rule.name)
            if known is not None and known["text"] == watch.rule.text:
                watch.take(stored.pop(watch.rule.name), self._image)
            else:
                self._begin_watching(watch)
        self.gone = [
            (name, _example(name, tuple(found), self._image))
            for name, fields in stored.items()
            for found in fields["examples"]
        ]

    def check_invariants(self) -> None:
        """Assert that all counts are as counted anew, and that examples are live. O(n log n)."""
        self._trees.check_invariants()
        for watch in self._watches:
            before = watch.pairs, watch.breaking
            recent = watch.is_recent
            watch.rebuild()
            watch.count()
            assert before[0] == watch.pairs, watch.rule
            assert before[1] == watch.breaking or not recent, watch.rule
            watch.breaking, watch.is_recent = before[1], recent
            assert bool(watch.examples) == bool(watch.violations), watch.rule
            for found in watch.examples:
                assert (self._rows.copies[list(found)] > (1 if _is_twice(found) else 0)).all()

    def _begin_watching(self, watch: _Watch) -> None:
        watch.count()
        watch.counted_at = self._now()
        if watch.violations:
            for found in watch.some(MOST_EXAMPLES):
                watch.show(found, self._image)

    def _recount(self) -> None:
        """Count the rows of one rule anew whose turn it is."""
        now = self._now()
        due = [w for w in self._watches if not w.is_recent and now - w.counted_at >= w.recount]
        if due:
            watch = min(due, key=lambda w: w.counted_at)
            watch.count()
            watch.counted_at = now

    def _look_for_examples(self, watch: _Watch, batch: _Batch, sought: int) -> int:
        """Show violations by new rows, or any where none is shown; return how many searches that took."""
        if not watch.violations or len(watch.examples) == MOST_EXAMPLES:
            return 0
        shown = {slot for found in watch.examples for slot in found}
        searches = 0
        for row in watch.breaking_among(batch).tolist():
            if searches == _SOUGHT or (watch.examples and sought + searches >= _SOUGHT_A_BATCH):
                break
            if row not in shown:
                searches += 1
                if (found := watch.violation_with(row)) is not None:
                    watch.show(found, self._image)
        if not watch.examples:
            for found in watch.some(MOST_EXAMPLES):
                watch.show(found, self._image)
        return searches

    def _image(self, slot: int) -> RowImage:
        if slot not in self._images:
            values = self._rows.values(np.array([slot]))[0]
            key = {name: values[name] for name in (self._rows.space.schema.names[c] for c in self._rows.key)}
            self._images[slot] = RowImage(key, values)
        return self._images[slot]


def coding_space(space: PredicateSpace, rules: Sequence[MonitoredRule]) -> PredicateSpace:
    """Return a space whose codes tell what rules ask of a table's rows, beside what its own space asks."""
    return _space(space, _pair_forms(space.schema, rules))


def refuse_uncoded(coded: PredicateSpace, schema: Schema, rules: Sequence[MonitoredRule]) -> None:
    """Raise `StateRefused` where a rule compares what the codes of a state do not tell."""
    for rule in rules:
        if _space(coded, _pair_forms(schema, [rule])) != coded:
            raise StateRefused(
                f"rule {rule.rule.name} ({rule.rule.text}) compares columns with each other, or the order of texts, "
                "which the state was not seeded to compare: leave it out, or seed anew with it: holdfast seed --replace"
            )


def _pair_forms(schema: Schema, rules: Sequence[MonitoredRule]) -> list[PairForm]:
    forms = [form_of(monitored.rule, {schema.table: schema}) for monitored in rules]
    return [form for form in forms if isinstance(form, PairForm)]


def _space(space: PredicateSpace, forms: Sequence[PairForm]) -> PredicateSpace:
    """Return a space with the column pairs and the orders that some rules compare, beside its own."""
    compared = [c for form in forms for c in form.compared]
    crossing = {(min(c.left, c.right), max(c.left, c.right)) for c in compared if c.left != c.right}
    ordered = {place for c in compared if c.needs_order for place in (c.left, c.right)}
    columns = tuple(
        Column(c.name, c.type, True, c.assumed) if place in ordered and not c.ordered_in(space.family) else c
        for place, c in enumerate(space.schema.columns)
    )
    schema = space.schema if columns == space.schema.columns else Schema(space.schema.table, columns)
    return PredicateSpace(schema, tuple(sorted({*space.crossing, *crossing})), space.family)


def _watch(rows: RowSet, monitored: MonitoredRule) -> _Watch:
    schema = rows.space.schema
    form = form_of(monitored.rule, {schema.table: schema})
    if isinstance(form, RowForm):
        return _Single(rows, monitored, form)
    assert isinstance(form, PairForm), "inclusions are across tables"
    return _Groups(rows, monitored, form) if _Groups.fits(form) else _Partners(rows, monitored, form)


def _box(compared: Sequence[Compared], tests: Tests) -> NDArray[np.int8]:
    """Return what a rule allows in each test of a space, for a row as t against another one as s."""
    box = np.full(len(tests), EVERY_OUTCOME, np.int8)
    for c in compared:
        (test,) = np.flatnonzero((tests.x_column == c.left) & (tests.row_column == c.right))
        box[test] &= c.allowed
    return box


def _chosen(rows: RowSet, atoms: tuple[Atom, ...], slots: Slots) -> Slots:
    passes = RowColumns(rows, slots).passing(atoms)
    return slots if passes is None else slots[passes]


def _example(rule: str, found: Found, image: Callable[[int], RowImage]) -> RuleExample:
    return RuleExample.of(rule, Violation(tuple(image(slot) for slot in found)))


def _is_twice(found: Found) -> bool:
    return len(found) == 2 and found[0] == found[1]
