"""Rules: declared constraints, with thresholds for their violations.

A rule has a body, which is one of the discovered forms (so that a found constraint can be declared as it
stands) or a condition with constants; thresholds, which decide when a violated rule counts as *broken*; and a
severity, which decides whether a broken rule fails a pipeline.

Invariant: what is forbidden is one thing. `require` forbids the opposite of a single-row condition, and so do `values`,
`range`, `matches` and `not_null`; `key`, `unique` and `fd` are denial constraints.
"""

import enum
import re
from dataclasses import dataclass
from fractions import Fraction

from holdfast.constraints.conditions import Condition
from holdfast.constraints.errors import UsageError
from holdfast.constraints.inclusion import InclusionDependency
from holdfast.constraints.nulls import Body, NullsApart, body_text, is_pairwise

__all__ = ["Body", "Rule", "Severity", "Threshold"]


class Severity(enum.Enum):
    """The consequence of a broken rule."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Threshold:
    """The accepted violations: a number, or a share of all.

    Examples
    --------
    >>> Threshold.parse("0.1%").exceeded(5, 1000), Threshold.parse(5).exceeded(5, 1000)
    (True, False)
    """

    count: int = 0
    share: Fraction | None = None

    @classmethod
    def parse(cls, given: int | str) -> "Threshold":
        """Read `5`, `"5"` or `"0.1%"`."""
        text = str(given).strip().replace("_", "")
        if not isinstance(given, bool) and re.fullmatch(r"[0-9]{1,18}", text):
            return cls(count=int(text))
        percent = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,18})?)\s*%", text)
        if percent is None or Fraction(percent[1]) > 100:
            raise UsageError(f"threshold '{given}': expected a whole number such as 10, or a share such as 0.1%")
        return cls(share=Fraction(percent[1]) / 100)

    def exceeded(self, violations: int, total: int) -> bool:
        """Whether `violations` out of `total` are more than the threshold."""
        return violations > (self.count if self.share is None else self.share * total)

    def __str__(self) -> str:
        return str(self.count) if self.share is None else f"{float(self.share * 100):g}%"


@dataclass(frozen=True)
class Rule:
    """A declared constraint.

    Parameters
    ----------
    name : unique among the rules of one application.
    table : the table it is about (for an inclusion, the dependent side's).
    body : what must hold, or the condition that must not occur.
    severity : `ERROR` makes a broken rule the exit code 1 of `check` and `status`.
    max_violating_pairs, max_violating_rows : thresholds; without any, every violation breaks the rule.
    """

    name: str
    table: str
    body: Body
    severity: Severity = Severity.ERROR
    max_violating_pairs: Threshold | None = None
    max_violating_rows: Threshold | None = None

    def __post_init__(self) -> None:
        if not self.name.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in self.name):
            raise UsageError(f"the name of the rule {self.text} is no text in UTF-8")
        if not self.name:
            raise UsageError(f"the rule {self.text} needs a name")
        forbidden = self.body.body if isinstance(self.body, NullsApart) else self.body
        if isinstance(forbidden, Condition):
            if not forbidden.atoms:
                raise UsageError(f"rule {self.name}: the condition names no column")
            if self.is_pairwise and len(forbidden.alternatives) > 1:
                raise UsageError(
                    f"rule {self.name}: a condition on pairs of rows takes no 'or': declare a rule for each part"
                )
        if self.max_violating_pairs is not None and not self.is_pairwise:
            raise UsageError(f"rule {self.name} is not about pairs of rows: set max_violating_rows instead")

    @property
    def is_pairwise(self) -> bool:
        """Whether violations are pairs of rows."""
        return is_pairwise(self.body)

    @property
    def columns(self) -> frozenset[str]:
        """The columns of `table` in the body."""
        if isinstance(self.body, InclusionDependency):
            both = (self.body.dependent, self.body.referenced)
            return frozenset(side.column for side in both if side.table == self.table)
        return self.body.columns

    @property
    def text(self) -> str:
        """The body as a text that `parse_rule_body` reads back."""
        return body_text(self.body)

    @property
    def threshold(self) -> str | None:
        """The thresholds in words; None without thresholds.

        >>> from holdfast.constraints.denial import key
        >>> Rule("k", "tax", key(["Zip"]), max_violating_pairs=Threshold.parse("0.1%")).threshold
        'at most 0.1% violating pairs'
        """
        limits = (("pairs", self.max_violating_pairs), ("rows", self.max_violating_rows))
        return "; ".join(f"at most {limit} violating {what}" for what, limit in limits if limit is not None) or None

    def broken(self, violating_pairs: int | None, violating_rows: int, rows: int) -> bool:
        """Whether the violations exceed a threshold, in a table (or dependent side) of `rows` rows."""
        of_pairs = self.max_violating_pairs, violating_pairs or 0, rows * (rows - 1)
        limits = (of_pairs, (self.max_violating_rows, violating_rows, rows))
        exceeded = [limit.exceeded(found, total) for limit, found, total in limits if limit is not None]
        return any(exceeded) if exceeded else bool(violating_pairs or violating_rows)

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"
