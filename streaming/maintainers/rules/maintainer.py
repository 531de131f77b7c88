"""Declared rules of one table, whose violations are counted batch by batch from the changed rows.

Each rule has a `RuleWatch` by its kind (`watches.py`); a `Counting` counts the whole table (`counting.py`).

Invariant: after every batch `violating_pairs` is right for the current rows, and so is `violating_rows` if the rule's
state says that it is recent; every example is a violation by live rows.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.constraints import InclusionDependency, PredicateSpace, Rule, Schema, StateRefused, UsageError
from holdfast.discovery.detection.check import declared
from holdfast.discovery.detection.forms import PairForm, form_of, space_with
from holdfast.indexes.rows import RowDelta
from holdfast.state import codecs
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.maintainers.holdings.contract import Holding
from holdfast.streaming.maintainers.part import TablePart
from holdfast.streaming.maintainers.rules.state import RuleExample, RuleState
from holdfast.streaming.maintainers.rules.watches import (
    MOST_EXAMPLES,
    ChangedRows,
    PairsWatch,
    RuleWatch,
    example_of,
    is_twice,
    watch_of,
)
from holdfast.streaming.maintainers.table.row_images import RowImages
from holdfast.tables.arrays import Slots

__all__ = ["MOST_EXAMPLES", "RULES", "MonitoredRule", "RuleMaintainer", "coding_space", "refuse_uncoded", "uncoded"]

RULES = "rules"
_SOUGHT, _SOUGHT_A_BATCH = 2, 8


@dataclass(frozen=True)
class MonitoredRule:
    """A rule that is monitored.

    Parameters
    ----------
    rule : the rule.
    recount : the least seconds between two counts of all violating rows, if a batch does not tell their number.
    """

    rule: Rule
    recount: float = 60.0


class RuleMaintainer(TablePart):
    """The rules of one table.

    Parameters
    ----------
    holding : the rows of the table.
    rules : the rules about rows of this table; inclusions are elsewhere.
    """

    def __init__(self, holding: Holding, rules: Sequence[MonitoredRule] = ()) -> None:
        self._rows = rows = holding.rows
        schema = rows.space.schema
        self._watches = [watch_of(rows, one.rule, form_of(one.rule, {schema.table: schema})) for one in rules]
        self._recounts = {monitored.rule.name: monitored.recount for monitored in rules}
        self._counting = holding.counting(self._watches)
        self._before: list[Any] = []
        self._touched = False
        self._images = RowImages(rows)
        self._saved: dict[str, bytes] = {}
        self.gone: list[tuple[str, RuleExample]] = []

    def seed(self) -> None:
        """Count all rules, and search for examples. O(n log n) for each."""
        self._begin_watching(self._watches)

    @property
    def held(self) -> Slots:
        """The slots of the rows in examples."""
        return np.array(
            sorted({slot for watch in self._watches for found in watch.examples for slot in found}), np.int64
        )

    @property
    def states(self) -> list[RuleState]:
        """The state of each rule; the added and removed examples are those of the last batch."""
        return [watch.state() for watch in self._watches]

    def begin(self) -> None:
        """Begin a batch: `undo` leads back to here."""
        self._before = [watch.memo() for watch in self._watches]
        self._touched = False
        self._clear_changes()

    def forget_changes(self) -> None:
        """Forget which examples were added and removed: a commit has published them."""
        self.gone = []
        self._clear_changes()

    def undo(self) -> None:
        """Take a batch back, after the rows are as they were before it. O(n) if counting had begun."""
        for watch, memo in zip(self._watches, self._before, strict=True):
            watch.take_back(memo)
        self._clear_changes()
        if self._touched:
            self.rebuild()

    def rebuild(self) -> None:
        """Derive everything anew from the codes of the rows, which were relabelled. O(n log n)."""
        self._touched = True
        self._counting.rebuild()

    def apply(self, delta: RowDelta) -> None:
        """Apply a batch, before the slots of deleted rows are forgotten."""
        if not self._watches:
            return
        if not (delta.copies_in or delta.copies_out):  # rows without slots may have been deleted
            self._recount()
            return
        self._touched = True
        self._images = RowImages(self._rows)
        batch = ChangedRows(self._rows, delta)
        for watch in self._watches:
            watch.drop_dead()
            watch.seen = watch.seen[:0]
        self._counting.follow(batch)
        self._recount()
        self._look_for_examples()

    def recount(self) -> None:
        """Count the violating rows of all rules whose last count is of an earlier batch. O(n log n) for each."""
        self._count([watch for watch in self._watches if not watch.is_recent])

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since the last save, or everything."""
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
        """Restore the saved counts and examples; count the rules that are new or were reworded."""
        self._saved = {key[len(prefix) :].decode(): value for key, value in store.scan(RULES, prefix)}
        stored = {name: codecs.read_json(value) for name, value in self._saved.items()}
        new = []
        for watch in self._watches:
            known = stored.get(watch.rule.name)
            if known is not None and known["text"] == watch.rule.text:
                watch.take(stored.pop(watch.rule.name), self._images)
            else:
                new.append(watch)
        self._begin_watching(new)
        self.gone = [
            (name, example_of(name, tuple(found), self._images))
            for name, fields in stored.items()
            for found in fields["examples"]
        ]

    def check_invariants(self) -> None:
        """Assert that all counts are right, and that examples are violations by live rows. O(n log n)."""
        self._counting.check_invariants()
        known = [(watch.pairs, watch.breaking, watch.is_recent) for watch in self._watches]
        self._counting.rebuild()
        self._counting.count(self._watches)
        for watch, (pairs, breaking, recent) in zip(self._watches, known, strict=True):
            assert pairs == watch.pairs, watch.rule
            assert breaking == watch.breaking or not recent, watch.rule
            watch.breaking, watch.is_recent = breaking, recent
            assert bool(watch.examples) == bool(watch.violations), watch.rule
            for found in watch.examples:
                assert (self._rows.copies[list(found)] > (1 if is_twice(found) else 0)).all()

    def _clear_changes(self) -> None:
        for watch in self._watches:
            watch.added, watch.removed = {}, {}

    def _begin_watching(self, watches: Sequence[RuleWatch]) -> None:
        self._count(watches)
        self._show_some([watch for watch in watches if watch.violations])

    def _count(self, watches: Sequence[RuleWatch]) -> None:
        """Count all rows anew for the given rules."""
        if watches:
            self._counting.count(watches)
        for watch in watches:
            watch.counted_at = time.monotonic()

    def _recount(self) -> None:
        """Count the rules whose number of violating rows is unknown, and one rule whose recount is due."""
        now = time.monotonic()
        stale = [watch for watch in self._watches if not watch.is_recent]
        due = [w for w in stale if w.breaking and now - w.counted_at >= self._recounts[w.rule.name]]
        self._count([w for w in stale if not w.breaking] + sorted(due, key=lambda w: w.counted_at)[:1])

    def _look_for_examples(self) -> None:
        """Add examples with rows of the batch, or any examples to rules that have none."""
        wanted: list[tuple[RuleWatch, int]] = []
        for watch in self._watches:
            if watch.wants_examples:
                shown = {slot for found in watch.examples for slot in found}
                new = [row for row in watch.seen[: _SOUGHT + 2 * MOST_EXAMPLES].tolist() if row not in shown]
                most = max(0, _SOUGHT_A_BATCH - len(wanted)) if watch.examples else _SOUGHT
                wanted += [(watch, row) for row in new[: min(most, _SOUGHT)]]
        of_pairs = [(watch, row) for watch, row in wanted if isinstance(watch, PairsWatch)]
        answers = iter(self._counting.with_rows(of_pairs) if of_pairs else ())
        for watch, row in wanted:
            found = next(answers) if isinstance(watch, PairsWatch) else (row,)
            if found is not None:
                watch.show(found, self._images)
        self._show_some([watch for watch in self._watches if watch.violations and not watch.examples])

    def _show_some(self, watches: Sequence[RuleWatch]) -> None:
        """Search for examples of rules, all of which have violations."""
        if watches:
            for watch, several in zip(watches, self._counting.some(watches, MOST_EXAMPLES), strict=True):
                for found in several:
                    watch.show(found, self._images)


def monitored(
    rules: Sequence[Rule | MonitoredRule | str] | Rule | MonitoredRule | str, schema: Schema
) -> list[MonitoredRule]:
    """Return one or several rules as monitored rules, texts parsed for the table; refuse rules that do not fit it."""
    given = [rules] if isinstance(rules, Rule | MonitoredRule | str) else rules
    made = [
        one for rule in given for one in (declared(rule, {schema.table: schema}) if isinstance(rule, str) else [rule])
    ]
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


def coding_space(space: PredicateSpace, rules: Sequence[MonitoredRule]) -> PredicateSpace:
    """Return the space extended by the column pairs that rules compare, for the codes of the table's rows."""
    return space_with(space, _pair_forms(space.schema, rules))


def uncoded(coded: PredicateSpace, schema: Schema, rules: Sequence[MonitoredRule]) -> list[MonitoredRule]:
    """Return the rules that the codes cannot decide: comparisons of columns with each other, or of texts by order."""
    return [rule for rule in rules if space_with(coded, _pair_forms(schema, [rule])) != coded]


def refuse_uncoded(coded: PredicateSpace, schema: Schema, rules: Sequence[MonitoredRule]) -> None:
    """Raise `StateRefused` if the codes of a state cannot decide a rule."""
    for rule in uncoded(coded, schema, rules):
        raise StateRefused(
            f"rule {rule.rule.name} ({rule.rule.text}) compares columns with each other, or the order of texts, "
            "which the state was not seeded to compare: leave it out, or seed anew with it: holdfast seed --replace"
        )


def _pair_forms(schema: Schema, rules: Sequence[MonitoredRule]) -> list[PairForm]:
    forms = [form_of(monitored.rule, {schema.table: schema}) for monitored in rules]
    return [form for form in forms if isinstance(form, PairForm)]
