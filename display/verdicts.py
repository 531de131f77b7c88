"""Rules on rows as they are, as a notebook shows them: how many violations, whether too many, and some of them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from holdfast.constraints import Rule
from holdfast.constraints.sentences import sentence
from holdfast.display.html import Cell
from holdfast.display.listing import Listing
from holdfast.display.texts import counted
from holdfast.display.witness import Witness

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Judged(Protocol):
    """What is known of a rule."""

    @property
    def rule(self) -> Rule:
        """Which one."""

    @property
    def rows(self) -> int:
        """How many rows its table has."""

    @property
    def violating_pairs(self) -> int | None:
        """How many pairs break it."""

    @property
    def violating_rows(self) -> int | None:
        """How many rows break it."""

    @property
    def missing_values(self) -> int | None:
        """Of an inclusion, how many values are missing."""

    @property
    def holds(self) -> bool:
        """Whether there is no violation."""

    @property
    def broken(self) -> bool:
        """Whether there are more than the rule accepts."""

    @property
    def witnesses(self) -> Sequence[Witness]:
        """Return some violations."""


OneRule = TypeVar("OneRule", bound=Judged)


def verdict(one: Judged) -> str:
    """Return `holds`, `violated` (and that is accepted) or `broken`."""
    return "holds" if one.holds else "broken" if one.broken else "violated"


class Verdicts(Listing[OneRule]):
    """Rules, and what breaks them."""

    headings: ClassVar[Sequence[str]] = ("rule", "verdict", "violations", "what must hold", "examples")
    dtypes: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("rule", "table", "constraint", "sentence", "verdict"), "string"),
        **dict.fromkeys(("holds", "broken"), "bool"),
        **dict.fromkeys(("violating_pairs", "violating_rows", "missing_values", "rows"), "Int64"),
        **dict.fromkeys(("severity", "threshold"), "string"),
    }

    def heading(self, total: int) -> str:
        """Say how many rules there are, and how many of them are broken."""
        return f"{counted(total, 'rule')}, {sum(one.broken for one in self):,} broken"

    def cells(self, item: OneRule) -> Sequence[Cell]:
        """Return name, verdict, counts, words and text, and examples."""
        said = verdict(item)
        rule = item.rule
        tone = {"holds": "good", "broken": "bad"}.get(said, "")
        text = "" if rule.text == rule.name else rule.text
        examples = Cell(witnesses=item.witnesses)
        return Cell(rule.name), Cell(said, tone=tone), Cell(_counts(item)), Cell(sentence(rule.body), text), examples

    def record(self, item: OneRule) -> Mapping[str, Any]:
        """Return what is declared, and the counts."""
        rule = item.rule
        declared = (rule.name, rule.table, rule.text, sentence(rule.body), verdict(item), item.holds, item.broken)
        counts = (item.violating_pairs, item.violating_rows, item.missing_values, item.rows)
        return dict(zip(self.dtypes, (*declared, *counts, rule.severity.value, rule.threshold), strict=True))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw how many rows break each rule, with matplotlib; return where."""
        from holdfast.display.plots import bars

        return bars({one.rule.name: one.violating_rows or 0 for one in self}, "violating rows", ax)


def _counts(one: Judged) -> str:
    if one.violating_rows is None:
        return "stopped at the first"
    counts = ((one.violating_pairs, "pair"), (one.violating_rows, "row"), (one.missing_values, "missing value"))
    said = ", ".join(counted(number, what) for number, what in counts if number is not None)
    threshold = one.rule.threshold
    return f"{said} of {counted(one.rows, 'row')}{f' ({threshold})' if threshold else ''}"
