"""One monitored rule each: its counts, and the examples that are shown of it.

keys, functional dependencies   `GroupsWatch`     follows the sizes of groups
other rules about pairs         `PartnersWatch`   follows the partners of changed rows; rows are counted now and then
conditions on single rows       `SingleWatch`     asks the changed rows

What the whole table has to say is asked elsewhere (`counting.py`).
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
    """Rows whose copies changed, as all rules share them."""

    rows: RowSet
    delta: RowDelta
    grouping: Grouping = field(init=False)

    def __post_init__(self) -> None:
        self.columns = RowColumns(self.rows, self.delta.changed, self.delta.copies)
        self.grouping = Grouping(self.columns)

    @cached_property
    def is_live(self) -> Flags:
        """Which of the changed rows are live."""
        found: Flags = self.rows.copies[self.delta.changed] > 0
        return found


class Watch:
    """One rule.

    Parameters
    ----------
    rows : its table, or those rows of it that changed or that are shown.
    """

    def __init__(self, rows: RowSet, rule: Rule) -> None:
        self.rule = rule
        self._rows = rows
        self.pairs: int | None = None
        self.breaking = 0
        self.is_recent = True
        self.counted_at = -np.inf
        self.seen: Slots = np.zeros(0, np.int64)
        self.examples: dict[Found, RuleExample] = {}
        self.added: dict[Found, RuleExample] = {}
        self.removed: dict[Found, RuleExample] = {}

    def counted(self, pairs: int | None, breaking: int) -> None:
        """Take over what was counted of all rows."""
        self.pairs, self.breaking, self.is_recent = pairs, breaking, True

    def see(self, batch: "ChangedRows", breaking: Flags) -> None:
        """Take over which rows of a batch break the rule, as far as that can be told quickly."""
        self.seen = batch.delta.changed[breaking & batch.is_live]

    @property
    def violations(self) -> int:
        """How many violations there are, pairs where the rule is about pairs."""
        return self.breaking if self.pairs is None else self.pairs

    @property
    def wants_examples(self) -> bool:
        """Whether there are violations, and room to show more of them."""
        return bool(self.violations) and len(self.examples) < MOST_EXAMPLES

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


class SingleWatch(Watch):
    """A condition on single rows."""

    def __init__(self, rows: RowSet, rule: Rule, form: RowForm) -> None:
        super().__init__(rows, rule)
        self.form = form

    def follow(self, batch: ChangedRows) -> None:
        """Ask the rows that changed."""
        passes = batch.columns.passing_any(self.form.alternatives)
        self.breaking += int(batch.delta.copies[passes].sum())
        self.see(batch, passes)


class PairsWatch(Watch):
    """A rule about pairs of rows."""

    def __init__(self, rows: RowSet, rule: Rule, form: PairForm) -> None:
        super().__init__(rows, rule)
        self.form = form
        self.pairs = 0


class GroupsWatch(PairsWatch):
    """A key or a functional dependency."""


class PartnersWatch(PairsWatch):
    """Any other rule about pairs."""

    def __init__(self, rows: RowSet, rule: Rule, form: PairForm) -> None:
        super().__init__(rows, rule, form)
        self.seconds_a_row = _SECONDS_A_ROW

    @property
    def seconds_anew(self) -> float:
        """How long it takes to count all rows anew, by what it took last."""
        return self.seconds_a_row * len(self._rows)

    def follow(self, batch: ChangedRows, partners: Ints) -> None:
        """Take in with how many rows each changed row breaks the rule, in both places, itself included.

        Let w be the copies now, d how they changed, and B(u, v) the sum of u[t] v[s] over (t, s) that break the rule.
        Then B(w, w) - B(w - d, w - d) = B(d, w) + B(w, d) - B(d, d), of which rows with themselves are no pairs.
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


def watch_of(rows: RowSet, rule: Rule, form: Form) -> Watch:
    """Return how a rule is watched."""
    if isinstance(form, RowForm):
        return SingleWatch(rows, rule, form)
    assert isinstance(form, PairForm), "inclusions are across tables"
    return PartnersWatch(rows, rule, form) if form.groups is None else GroupsWatch(rows, rule, form)


def example_of(rule: str, found: Found, image: RowImages) -> RuleExample:
    """Return a violation as it is shown."""
    return RuleExample.of(rule, Violation(tuple(image.of(slot) for slot in found)))


def is_twice(found: Found) -> bool:
    """Whether a violation is two copies of one row."""
    return len(found) == 2 and found[0] == found[1]
