"""Verdicts on rules, as a notebook shows them: the numbers of violations, with some of them as examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from holdfast.constraints import Rule
from holdfast.constraints.sentences import sentence
from holdfast.display.html import TableCell
from holdfast.display.listing import Listing
from holdfast.display.texts import counted
from holdfast.display.witness import Witness

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class RuleVerdict:
    """A rule with the number of its violations.

    Parameters
    ----------
    rule, rows : the rule, and the number of rows of its table.
    violating_pairs : ordered pairs of distinct rows; None where the rule is not about pairs, or was not counted.
    violating_rows : rows in at least one violation; None where counting stopped at the first violation.
    missing_values : the number of distinct missing values of an inclusion; None for other rules.
    """

    rule: Rule
    rows: int
    violating_pairs: int | None
    violating_rows: int | None
    missing_values: int | None = None

    @property
    def holds(self) -> bool:
        """Whether there is no violation."""
        raise NotImplementedError

    @property
    def broken(self) -> bool:
        """Whether there are more violations than the rule accepts."""
        if self.violating_rows is None:
            return True
        return self.rule.broken(self.violating_pairs, self.violating_rows, self.rows)

    @property
    def verdict(self) -> str:
        """`holds`, `violated` (no more than the rule accepts) or `broken`."""
        return "holds" if self.holds else "broken" if self.broken else "violated"

    @property
    def witnesses(self) -> Sequence[Witness]:
        """Some violations."""
        raise NotImplementedError


OneRule = TypeVar("OneRule", bound=RuleVerdict)


class Verdicts(Listing[OneRule]):
    """Rules with their violations."""

    headings: ClassVar[Sequence[str]] = ("rule", "verdict", "violations", "what must hold", "examples")
    dtypes: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("rule", "table", "constraint", "sentence", "verdict"), "string"),
        **dict.fromkeys(("holds", "broken"), "bool"),
        **dict.fromkeys(("violating_pairs", "violating_rows", "missing_values", "rows"), "Int64"),
        **dict.fromkeys(("severity", "threshold"), "string"),
    }

    def heading(self, total: int) -> str:
        """Return how many rules there are, and how many of them are broken."""
        return f"{counted(total, 'rule')}, {sum(item.broken for item in self):,} broken"

    def cells(self, item: OneRule) -> Sequence[TableCell]:
        """Return name, verdict, counts, words and text, and examples."""
        rule = item.rule
        tone = {"holds": "good", "broken": "bad"}.get(item.verdict, "")
        text = "" if rule.text == rule.name else rule.text
        examples = TableCell(witnesses=item.witnesses)
        return (
            TableCell(rule.name),
            TableCell(item.verdict, tone=tone),
            TableCell(_counts(item)),
            TableCell(sentence(rule.body), text),
            examples,
        )

    def record(self, item: OneRule) -> Mapping[str, Any]:
        """Return the rule, its verdict and the counts."""
        rule = item.rule
        declared = (rule.name, rule.table, rule.text, sentence(rule.body), item.verdict, item.holds, item.broken)
        counts = (item.violating_pairs, item.violating_rows, item.missing_values, item.rows)
        return dict(zip(self.dtypes, (*declared, *counts, rule.severity.value, rule.threshold), strict=True))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the number of violating rows of each rule with matplotlib; return the axes."""
        from holdfast.display.plots import bars

        return bars({item.rule.name: item.violating_rows or 0 for item in self}, "violating rows", ax)


def _counts(item: RuleVerdict) -> str:
    if item.violating_rows is None:
        return "stopped at the first"
    counts = ((item.violating_pairs, "pair"), (item.violating_rows, "row"), (item.missing_values, "missing value"))
    numbers = ", ".join(counted(number, noun) for number, noun in counts if number is not None)
    threshold = f" ({item.rule.threshold})" if item.rule.threshold else ""
    return f"{numbers} of {counted(item.rows, 'row')}{threshold}"
