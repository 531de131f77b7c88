"""The state of a monitored rule after a batch."""

import hashlib
import json
from dataclasses import dataclass

from holdfast.constraints import Violation
from holdfast.display.verdicts import RuleVerdict
from holdfast.display.witness import Witness


@dataclass(frozen=True)
class RuleExample:
    """An example of a rule's violations: two rows, one row, or a missing value."""

    example_id: str
    violation: Violation

    @classmethod
    def of(cls, rule: str, violation: Violation) -> "RuleExample":
        """Return a violation as an example; the same rows have the same id in every state."""
        text = json.dumps([rule, violation.to_json()], ensure_ascii=False, separators=(",", ":"))
        return cls(hashlib.sha256(text.encode()).hexdigest(), violation)


@dataclass(frozen=True)
class RuleState(RuleVerdict):
    """The counts and examples of a rule on the current rows.

    Parameters
    ----------
    violating_rows : how many rows were in at least one violation at the last count.
    is_recent : whether the last count is of this batch.
    added, removed : the examples that were added, and those removed since they are no violations any more.
    examples : all examples.
    """

    violating_rows: int
    is_recent: bool = True
    added: tuple[RuleExample, ...] = ()
    removed: tuple[RuleExample, ...] = ()
    examples: tuple[RuleExample, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the rule has no violation."""
        return not (self.violating_rows if self.violating_pairs is None else self.violating_pairs)

    @property
    def witnesses(self) -> list[Witness]:
        """The examples, with the columns of the rule before the others."""
        return [Witness.of(example.violation, sorted(self.rule.columns)) for example in self.examples]

    def __str__(self) -> str:
        rows = self.violating_rows if self.is_recent else None
        counts = ((self.violating_pairs, "pair"), (rows, "row"), (self.missing_values, "missing value"))
        texts = ", ".join(f"{n:,} {what}{'' if n == 1 else 's'}" for n, what in counts if n is not None)
        return f"rule {self.rule.name}: {self.verdict} ({texts})"
