"""One monitored rule each, by what its violations are: counts that follow the rows that changed, and examples.

keys, functional dependencies   `GroupsWatch`     sizes of groups give pairs and rows      indexes/group_counts.py
other rules about pairs         `PartnersWatch`   partners of changed rows, counted for all rules by `PartnerTrees`,
give pairs; rows are counted anew now and then
indexes/counting_index.py
conditions on single rows       `SingleWatch`     changed rows are asked
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import Column, PredicateSpace, Rule, Schema, Violation
from holdfast.constraints.conditions import Atom
from holdfast.constraints.operators import EVERY_OUTCOME
from holdfast.discovery.detection.columns import RowColumns
from holdfast.discovery.detection.counting import breaks_alone, count
from holdfast.discovery.detection.examples import pair_with, some_pairs
from holdfast.discovery.detection.forms import Compared, PairForm, RowForm
from holdfast.discovery.detection.grouping import Grouping
from holdfast.indexes.boxes import Tests
from holdfast.indexes.counting_index import CountingIndex
from holdfast.indexes.group_counts import GroupCounts
from holdfast.indexes.rows import RowDelta, RowSet, Slots
from holdfast.streaming.maintainers.row_images import RowImages
from holdfast.streaming.maintainers.rule_state import RuleExample, RuleState
from holdfast.tables.keys import Flags

Ints = NDArray[np.int64]
Found = tuple[int, ...]
"""The slots of a violation: (t, s), or one row."""

MOST_EXAMPLES = 10
_SECONDS_A_ROW, _MEASURED = 5e-7, 10_000
_MANY_CHANGED, _TRIED = 1024, 128


@dataclass
class ChangedRows:
    """Rows whose copies changed, as all rules share them."""

    rows: RowSet
    delta: RowDelta
    grouping: Grouping = field(init=False)

    def __post_init__(self) -> None:
        self.columns = RowColumns(self.rows, self.delta.changed, self.delta.copies)
        self.grouping = Grouping(self.columns)

    @cached_property
    def everything(self) -> RowColumns:
        """All live rows, as they are now."""
        return RowColumns(self.rows)

    @cached_property
    def live(self) -> Slots:
        """The changed rows that are live."""
        found: Slots = self.delta.changed[self.rows.copies[self.delta.changed] > 0]
        return found


class Watch(ABC):
    """One rule."""

    def __init__(self, rows: RowSet, rule: Rule) -> None:
        self.rule = rule
        self._rows = rows
        self.pairs: int | None = None
        self.breaking = 0
        self.is_recent = True
        self.counted_at = -np.inf
        self.examples: dict[Found, RuleExample] = {}
        self.added: dict[Found, RuleExample] = {}
        self.removed: dict[Found, RuleExample] = {}

    @abstractmethod
    def follow(self, batch: ChangedRows) -> None:
        """Bring the counts to where the rows are."""

    @abstractmethod
    def count(self) -> None:
        """Count all rows anew. O(n log n)."""

    @abstractmethod
    def breaking_among(self, batch: ChangedRows) -> Slots:
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
        for found in [f for f in self.examples if min(copies[slot] for slot in f) < (2 if is_twice(f) else 1)]:
            self.removed[found] = self.examples.pop(found)

    def show(self, found: Found, image: RowImages) -> None:
        """Take a violation as an example, if it is none yet."""
        if found not in self.examples and found[::-1] not in self.examples and len(self.examples) < MOST_EXAMPLES:
            self.examples[found] = self.added[found] = example_of(self.rule.name, found, image)

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
            tuple(self.examples.values()),
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

    def take(self, stored: Mapping[str, Any], image: RowImages) -> None:
        """Be what was stored."""
        self.pairs, self.breaking, self.is_recent = stored["pairs"], stored["rows"], stored["is_recent"]
        for found in stored["examples"]:
            self.show(tuple(found), image)
        self.added.clear()


class PairsWatch(Watch):
    """A rule about pairs of rows."""

    def __init__(self, rows: RowSet, rule: Rule, form: PairForm) -> None:
        super().__init__(rows, rule)
        self.form = form

    def violation_with(self, row: int) -> Found | None:
        """Return a violation with a row. O(n)."""
        return pair_with(self._rows, self.form, row)

    def some(self, most: int) -> list[Found]:
        """Return some violations. O(n log n)."""
        columns = RowColumns(self._rows)
        found = some_pairs(columns, Grouping(columns), self.form, most)
        return [(int(columns.slots[t]), int(columns.slots[s])) for t, s in found]


class GroupsWatch(PairsWatch):
    """A key or a functional dependency."""

    def __init__(self, rows: RowSet, rule: Rule, form: PairForm) -> None:
        super().__init__(rows, rule, form)
        differing = [compared.left for compared in form.differences]
        self._counts = GroupCounts(rows, [column for column, _ in form.equalities], *differing)
        self.count()

    def follow(self, batch: ChangedRows) -> None:
        """Change the sizes of groups. O(rows that changed)."""
        self._counts.change(batch.delta.changed, batch.delta.copies)
        self.count()

    def count(self) -> None:
        """Take over what the groups say. O(1)."""
        self.pairs, self.breaking = self._counts.pairs, self._counts.breaking

    def rebuild(self) -> None:
        """Count the sizes of groups anew. O(n)."""
        self._counts.rebuild()

    def breaking_among(self, batch: ChangedRows) -> Slots:
        """Return live rows of a batch that break the rule."""
        found: Slots = batch.live[self._counts.breaks(batch.live)]
        return found

    @staticmethod
    def fits(form: PairForm) -> bool:
        """Whether a rule is one of these."""
        own = all(compared.left == compared.right for compared in form.compared)
        return own and not (form.inequalities or form.t_tests or form.s_tests) and len(form.differences) <= 1


class PartnersWatch(PairsWatch):
    """Any other rule about pairs; its partners are counted by `PartnerTrees`."""

    def __init__(self, rows: RowSet, rule: Rule, form: PairForm) -> None:
        super().__init__(rows, rule, form)
        self.pairs = 0
        self._seen: Slots = np.zeros(0, np.int64)
        self._seconds_a_row = _SECONDS_A_ROW

    def follow(self, batch: ChangedRows) -> None:
        """Wait for the partners."""
        self._seen = batch.live[:0]

    def rebuild(self) -> None:
        """Nothing is derived here."""

    def counted(self, batch: ChangedRows, partners: Ints, alone: Ints) -> None:
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
        """Count all rows anew. O(n log n)."""
        self._count(RowColumns(self._rows))

    def count_anew(self, batch: ChangedRows) -> None:
        """Count all rows anew after a batch that is so large that this is quicker than to ask its rows."""
        columns = batch.everything
        breaks = np.zeros(len(self._rows.copies), np.bool_)
        breaks[columns.slots[self._count(columns)]] = True
        self._seen = batch.live[breaks[batch.live]]

    @property
    def seconds_anew(self) -> float:
        """How long it takes to count all rows anew, by what it took last."""
        return self._seconds_a_row * len(self._rows)

    def _count(self, columns: RowColumns) -> Flags:
        began = time.perf_counter()
        counted = count(columns, Grouping(columns), self.form)
        self.pairs, self.breaking, self.is_recent = counted.pairs, counted.rows, True
        if columns.rows > _MEASURED:  # of few rows it takes as long as of none
            self._seconds_a_row = (time.perf_counter() - began) / columns.rows
        return counted.first | counted.second

    def breaking_among(self, batch: ChangedRows) -> Slots:  # noqa: ARG002  (seen as it was counted)
        """Return live rows of a batch that break the rule: those with a partner."""
        return self._seen


class SingleWatch(Watch):
    """A condition on single rows."""

    def __init__(self, rows: RowSet, rule: Rule, form: RowForm) -> None:
        super().__init__(rows, rule)
        self._form = form

    def follow(self, batch: ChangedRows) -> None:
        """Ask the rows that changed."""
        self.breaking += int(batch.delta.copies[batch.columns.passing_any(self._form.alternatives)].sum())

    def count(self) -> None:
        """Ask all rows. O(n)."""
        columns = RowColumns(self._rows)
        assert columns.weight is not None
        self.breaking = int(columns.weight[columns.passing_any(self._form.alternatives)].sum())

    def rebuild(self) -> None:
        """Nothing is derived from the rows."""

    def breaking_among(self, batch: ChangedRows) -> Slots:
        """Return live rows of a batch that break the rule."""
        return self._passing(batch.live)

    def violation_with(self, row: int) -> Found | None:
        """Return a violation with a row. O(n)."""
        return (row,)

    def some(self, most: int) -> list[Found]:
        """Return some violations. O(n)."""
        return [(slot,) for slot in self._passing(self._rows.live())[:most].tolist()]

    def _passing(self, slots: Slots) -> Slots:
        found: Slots = slots[RowColumns(self._rows, slots).passing_any(self._form.alternatives)]
        return found


class PartnerTrees:
    """Counts the partners of changed rows for all rules that need it, tables of rows shared where they can be."""

    def __init__(self, rows: RowSet, watches: Sequence[PartnersWatch], threads: int) -> None:
        self._rows = rows
        self._watches = [watch for watch in watches if all(compared.allowed for compared in watch.form.compared)]
        self._threads = threads
        self._seconds_a_row = np.zeros(len(self._watches))
        space = space_with(rows.space, [watch.form for watch in self._watches])
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

    def follow(self, batch: ChangedRows) -> None:
        """Bring the trees to where the rows are, and tell each rule the partners of the rows that changed."""
        slots = batch.delta.changed
        for _, index in self._asked.values():
            index.follow(batch.delta)
        anew = self._quicker_anew(slots)
        partners = np.zeros((len(self._watches), len(slots)), np.int64)
        seconds = np.zeros(len(self._watches))
        for boxes, index in self._asked.values():
            asked = [box for box, (number, _) in enumerate(boxes) if number not in anew]
            for box, (found, took) in index.count(slots, asked).items():
                number, as_t = boxes[box]
                form = self._watches[number].form
                passes = batch.columns.passing(form.t_tests if as_t else form.s_tests)
                partners[number] += (2 if form.is_symmetric else 1) * (found if passes is None else found * passes)
                seconds[number] += took
        self._note_seconds(seconds, len(slots))
        for number, watch in enumerate(self._watches):
            if number in anew:
                watch.count_anew(batch)
                continue
            alone = breaks_alone(batch.columns, watch.form)
            none = np.zeros(len(slots), np.int64)
            watch.counted(batch, partners[number], none if alone is None else alone.astype(np.int64))

    def _quicker_anew(self, slots: Slots) -> set[int]:
        """Return the rules for which counting all rows is quicker than asking for each row that changed.

        By what asking took before; where that is not known, and many rows changed, by asking for a few of them.
        """
        unknown = {number for number, seconds in enumerate(self._seconds_a_row) if not seconds}
        if unknown and len(slots) > _MANY_CHANGED:
            some = slots[:: len(slots) // _TRIED]
            seconds = np.zeros(len(self._watches))
            for boxes, index in self._asked.values():
                asked = [box for box, (number, _) in enumerate(boxes) if number in unknown]
                for box, (_, took) in index.count(some, asked).items():
                    seconds[boxes[box][0]] += took
            self._note_seconds(seconds, len(some))
        asking = self._seconds_a_row * len(slots) / self._threads
        return {number for number, watch in enumerate(self._watches) if asking[number] > watch.seconds_anew}

    def _note_seconds(self, seconds: NDArray[np.float64], rows: int) -> None:
        """Remember how long asking for one row took, of rules that were asked."""
        self._seconds_a_row[seconds > 0] = seconds[seconds > 0] / max(1, rows)

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


def space_with(space: PredicateSpace, forms: Sequence[PairForm]) -> PredicateSpace:
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


def example_of(rule: str, found: Found, image: RowImages) -> RuleExample:
    """Return a violation as it is shown."""
    return RuleExample.of(rule, Violation(tuple(image.of(slot) for slot in found)))


def is_twice(found: Found) -> bool:
    """Whether a violation is two copies of one row."""
    return len(found) == 2 and found[0] == found[1]
