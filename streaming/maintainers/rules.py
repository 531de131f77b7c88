"""Declared rules of one table, kept exact from batch to batch by the rows that changed alone.

Each rule is watched by what its violations are (`watches.py`).

Invariant: after every batch `violating_pairs` is the number of the definition on the current rows, and so is
`violating_rows` where the state says that it is recent; every example is a live violation.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.constraints import PredicateSpace, Rule, Schema, StateRefused
from holdfast.discovery.detection.forms import PairForm, RowForm, form_of
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.state import codecs
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.maintainers.row_images import RowImages
from holdfast.streaming.maintainers.rule_state import RuleExample, RuleState
from holdfast.streaming.maintainers.watches import (
    MOST_EXAMPLES,
    ChangedRows,
    GroupsWatch,
    PartnersWatch,
    PartnerTrees,
    SingleWatch,
    Watch,
    example_of,
    is_twice,
    space_with,
)

__all__ = ["MOST_EXAMPLES", "RULES", "MonitoredRule", "RuleMaintainer", "coding_space", "refuse_uncoded", "uncoded"]

RULES = "rules"
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
        self._watches = [_watch(rows, monitored.rule) for monitored in rules]
        self._recounts = {monitored.rule.name: monitored.recount for monitored in rules}
        self._trees = PartnerTrees(rows, [w for w in self._watches if isinstance(w, PartnersWatch)], threads)
        self._before: list[Any] = []
        self._touched = False
        self._images = RowImages(rows)
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

    def told(self) -> None:
        """Forget which examples came and went, and those of rules that are gone."""
        self.gone = []
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
        if not self._watches:
            return
        if not len(delta.changed):
            self._recount()
            return
        self._touched = True
        self._images = RowImages(self._rows)
        batch = ChangedRows(self._rows, delta)
        for watch in self._watches:
            watch.drop_dead()
            watch.follow(batch)
        self._trees.follow(batch)
        self._recount()
        sought = 0
        for watch in self._watches:
            sought += self._look_for_examples(watch, batch, sought)

    def recount(self) -> None:
        """Count the rows of all rules anew whose count is of an earlier batch."""
        for watch in self._watches:
            if not watch.is_recent:
                watch.count()
                watch.counted_at = self._now()

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
                watch.take(stored.pop(watch.rule.name), self._images)
            else:
                self._begin_watching(watch)
        self.gone = [
            (name, example_of(name, tuple(found), self._images))
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
                assert (self._rows.copies[list(found)] > (1 if is_twice(found) else 0)).all()

    def _begin_watching(self, watch: Watch) -> None:
        watch.count()
        watch.counted_at = self._now()
        if watch.violations:
            for found in watch.some(MOST_EXAMPLES):
                watch.show(found, self._images)

    def _recount(self) -> None:
        """Count the rows of rules anew whose count says nothing, and of one whose turn it is."""
        now = self._now()
        stale = [watch for watch in self._watches if not watch.is_recent]
        due = [watch for watch in stale if now - watch.counted_at >= self._recounts[watch.rule.name]]
        due = [watch for watch in stale if not watch.breaking] + sorted(due, key=lambda watch: watch.counted_at)[:1]
        for watch in due:
            if not watch.is_recent:
                watch.count()
                watch.counted_at = now

    def _look_for_examples(self, watch: Watch, batch: ChangedRows, sought: int) -> int:
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
                    watch.show(found, self._images)
        if not watch.examples:
            for found in watch.some(MOST_EXAMPLES):
                watch.show(found, self._images)
        return searches


def coding_space(space: PredicateSpace, rules: Sequence[MonitoredRule]) -> PredicateSpace:
    """Return a space whose codes tell what rules ask of a table's rows, beside what its own space asks."""
    return space_with(space, _pair_forms(space.schema, rules))


def uncoded(coded: PredicateSpace, schema: Schema, rules: Sequence[MonitoredRule]) -> list[MonitoredRule]:
    """Return the rules that compare what codes do not tell: columns with each other, or the order of texts."""
    return [rule for rule in rules if space_with(coded, _pair_forms(schema, [rule])) != coded]


def refuse_uncoded(coded: PredicateSpace, schema: Schema, rules: Sequence[MonitoredRule]) -> None:
    """Raise `StateRefused` where a rule compares what the codes of a state do not tell."""
    for rule in uncoded(coded, schema, rules):
        raise StateRefused(
            f"rule {rule.rule.name} ({rule.rule.text}) compares columns with each other, or the order of texts, "
            "which the state was not seeded to compare: leave it out, or seed anew with it: holdfast seed --replace"
        )


def _pair_forms(schema: Schema, rules: Sequence[MonitoredRule]) -> list[PairForm]:
    forms = [form_of(monitored.rule, {schema.table: schema}) for monitored in rules]
    return [form for form in forms if isinstance(form, PairForm)]


def _watch(rows: RowSet, rule: Rule) -> Watch:
    schema = rows.space.schema
    form = form_of(rule, {schema.table: schema})
    if isinstance(form, RowForm):
        return SingleWatch(rows, rule, form)
    assert isinstance(form, PairForm), "inclusions are across tables"
    return GroupsWatch(rows, rule, form) if GroupsWatch.fits(form) else PartnersWatch(rows, rule, form)
