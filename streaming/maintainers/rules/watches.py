"""The counts and examples of one monitored rule, by the kind of rule.

keys, functional dependencies   `GroupsWatch`     counted from the sizes of groups
other rules about pairs         `PartnersWatch`   pairs counted from the partners of changed rows, rows now and then
conditions on single rows       `SingleWatch`     counted from the changed rows

Counts of the whole table are made by `counting.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from holdfast.constraints import Rule, Violation
from holdfast.discovery.detection.columns import RowColumns
from holdfast.discovery.detection.counting import breaks_alone, count
from holdfast.discovery.detection.forms import Form, PairForm, RowForm
from holdfast.discovery.detection.grouping import Grouping
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.streaming.maintainers.rules.state import RuleExample, RuleState
from holdfast.streaming.maintainers.table.row_images import RowImages
from holdfast.tables.arrays import Flags, Ints, Slots

Found = tuple[int, ...]
"""The slots of a violation: (t, s), or one row."""

MOST_EXAMPLES = 10
_SECONDS_A_ROW = 5e-7


@dataclass
class ChangedRows:
    """The rows whose copies a batch changed, shared by all rules."""

    rows: RowSet
    delta: RowDelta
    grouping: Grouping = field(init=False)

    def __post_init__(self) -> None:
        self.columns = RowColumns(self.rows, self.delta.changed, self.delta.copies)
        self.grouping = Grouping(self.columns)

    @cached_property
    def is_live(self) -> Flags:
        """Per changed row, whether it is live."""
        found: Flags = self.rows.copies[self.delta.changed] > 0
        return found


class RuleWatch:
    """The counts and examples of one rule.

    Parameters
    ----------
    rows : the rows that have slots.
    rule, form : the rule, and the form of its violations.
    """

    def __init__(self, rows: RowSet, rule: Rule, form: RowForm | PairForm) -> None:
        self.rule = rule
        self.form = form
        self._rows = rows
        self.pairs = 0 if isinstance(form, PairForm) else None
        self.breaking = 0
        self.is_recent = True
        self.counted_at = -np.inf
        self.seen: Slots = np.zeros(0, np.int64)
        self.examples: dict[Found, RuleExample] = {}
        self.added: dict[Found, RuleExample] = {}
        self.removed: dict[Found, RuleExample] = {}

    def counted(self, pairs: int | None, breaking: int) -> None:
        """Set the counts of all rows."""
        self.pairs, self.breaking, self.is_recent = pairs, breaking, True

    def see(self, batch: "ChangedRows", breaking: Flags) -> None:
        """Note the live rows of a batch that violate the rule."""
        self.seen = batch.delta.changed[breaking & batch.is_live]

    @property
    def violations(self) -> int:
        """How many pairs violate the rule; how many rows, if the rule is not about pairs."""
        return self.breaking if self.pairs is None else self.pairs

    @property
    def wants_examples(self) -> bool:
        """Whether the rule has violations, and room for more examples."""
        return bool(self.violations) and len(self.examples) < MOST_EXAMPLES

    def memo(self) -> Any:
        """Return the state that `take_back` restores."""
        return self.pairs, self.breaking, self.is_recent, self.counted_at, dict(self.examples)

    def take_back(self, memo: Any) -> None:
        """Restore the state that `memo` returned."""
        self.pairs, self.breaking, self.is_recent, self.counted_at, examples = memo
        self.examples = dict(examples)

    def drop_dead(self) -> None:
        """Remove the examples whose rows were deleted."""
        copies = self._rows.copies
        for found in [f for f in self.examples if min(copies[slot] for slot in f) < (2 if is_twice(f) else 1)]:
            self.removed[found] = self.examples.pop(found)

    def show(self, found: Found, image: RowImages) -> None:
        """Add a violation to the examples, unless it is one already or there is no room."""
        if found not in self.examples and found[::-1] not in self.examples and len(self.examples) < MOST_EXAMPLES:
            self.examples[found] = self.added[found] = example_of(self.rule.name, found, image)

    def state(self) -> RuleState:
        """Return the state of the rule now."""
        return RuleState(
            self.rule,
            len(self._rows),
            self.pairs,
            self.breaking,
            None,
            self.is_recent,
            tuple(self.added.values()),
            tuple(self.removed.values()),
            tuple(self.examples.values()),
        )

    def fields(self) -> dict[str, Any]:
        """Return the rule's state as it is stored."""
        return {
            "text": self.rule.text,
            "pairs": self.pairs,
            "rows": self.breaking,
            "is_recent": self.is_recent,
            "examples": [list(found) for found in self.examples],
        }

    def take(self, stored: Mapping[str, Any], image: RowImages) -> None:
        """Restore a stored state."""
        self.pairs, self.breaking, self.is_recent = stored["pairs"], stored["rows"], stored["is_recent"]
        for found in stored["examples"]:
            self.show(tuple(found), image)
        self.added.clear()


class SingleWatch(RuleWatch):
    """A condition on single rows."""

    form: RowForm

    def follow(self, batch: ChangedRows) -> None:
        """Apply a batch, by the condition on the changed rows."""
        passes = batch.columns.passing_any(self.form.alternatives)
        self.breaking += int(batch.delta.copies[passes].sum())
        self.see(batch, passes)


class PairsWatch(RuleWatch):
    """A rule about pairs of rows."""

    form: PairForm


class GroupsWatch(PairsWatch):
    """A key or a functional dependency."""


class PartnersWatch(PairsWatch):
    """Any other rule about pairs."""

    seconds_a_row = _SECONDS_A_ROW

    @property
    def seconds_anew(self) -> float:
        """The seconds to count all rows anew, estimated from the last such count."""
        return self.seconds_a_row * len(self._rows)

    def follow(self, batch: ChangedRows, partners: Ints) -> None:
        """Apply a batch; `partners` has, per changed row, with how many rows it violates the rule.

        Partners are counted in both positions, t and s, and include the row itself. Let w be the copies now, d their
        changes, and B(u, v) the sum of u[t] v[s] over all (t, s) that violate the rule. Then
        B(w, w) - B(w - d, w - d) = B(d, w) + B(w, d) - B(d, d), from which a row with itself is subtracted.
        """
        change = batch.delta.copies
        found = breaks_alone(batch.columns, self.form)
        alone = np.zeros(len(change), np.int64) if found is None else found.astype(np.int64)
        has_partner = partners > 2 * alone * batch.is_live
        among = count(batch.columns, batch.grouping, self.form)
        more = int(change @ partners) - among.pairs - 2 * int(change @ alone)
        assert self.pairs is not None
        self.pairs += more
        if not self.pairs:
            self.breaking, self.is_recent = 0, True
        elif more or has_partner.any():
            self.is_recent = False
        self.see(batch, has_partner)


def watch_of(rows: RowSet, rule: Rule, form: Form) -> RuleWatch:
    """Return the watch for a rule, by the form of its violations."""
    if isinstance(form, RowForm):
        return SingleWatch(rows, rule, form)
    assert isinstance(form, PairForm), "inclusions are across tables"
    return PartnersWatch(rows, rule, form) if form.groups is None else GroupsWatch(rows, rule, form)


def example_of(rule: str, found: Found, image: RowImages) -> RuleExample:
    """Return a violation as an example."""
    return RuleExample.of(rule, Violation(tuple(image(slot) for slot in found)))


def is_twice(found: Found) -> bool:
    """Whether the two rows of a violation are copies of one row."""
    return len(found) == 2 and found[0] == found[1]
