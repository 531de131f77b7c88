"""What is known of a monitored rule after a batch."""

import hashlib
import json
from dataclasses import dataclass

from holdfast.constraints import Rule, Violation
from holdfast.display.verdicts import RuleVerdict
from holdfast.display.witness import Witness


@dataclass(frozen=True)
class RuleExample:
    """A live violation that is shown: two rows, one row, or a missing value."""

    example_id: str
    violation: Violation

    @classmethod
    def of(cls, rule: str, violation: Violation) -> "RuleExample":
        """Name a violation of a rule by what it shows: the same rows have the same name in every state."""
        text = json.dumps([rule, violation.to_json()], ensure_ascii=False, separators=(",", ":"))
        return cls(hashlib.sha256(text.encode()).hexdigest(), violation)


@dataclass(frozen=True)
class RuleState(RuleVerdict):
    """A rule on the rows as they are.

    Parameters
    ----------
    rule : which one.
    rows : of its table.
    violating_pairs : ordered pairs of distinct rows; None where the rule is not about pairs.
    violating_rows : rows in at least one violation, as they were counted last.
    is_recent : whether they were counted with this batch.
    missing_values : of an inclusion, distinct ones.
    added, removed : examples that came, and those that are no violations any more.
    examples : all that are shown.
    """

    rule: Rule
    rows: int
    violating_pairs: int | None
    violating_rows: int
    is_recent: bool = True
    missing_values: int | None = None
    added: tuple[RuleExample, ...] = ()
    removed: tuple[RuleExample, ...] = ()
    examples: tuple[RuleExample, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether there is no violation."""
        return not (self.violating_rows if self.violating_pairs is None else self.violating_pairs)

    @property
    def witnesses(self) -> list[Witness]:
        """The examples, with what the rule names before the other columns."""
        return [Witness.of(example.violation, sorted(self.rule.columns)) for example in self.examples]

    def __str__(self) -> str:
        rows = self.violating_rows if self.is_recent else None
        counts = ((self.violating_pairs, "pair"), (rows, "row"), (self.missing_values, "missing value"))
        said = ", ".join(f"{n:,} {what}{'' if n == 1 else 's'}" for n, what in counts if n is not None)
        return f"rule {self.rule.name}: {self.verdict} ({said})"
