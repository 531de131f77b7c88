"""The batches that were applied to a table, as a notebook shows them: constraints and violations over time."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.display.html import TableCell
from holdfast.display.listing import Listing
from holdfast.streaming.maintainers.table.batch_result import BatchResult

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_COUNTS = ("rows_in", "rows_out", "rows", "constraints", "appeared", "disappeared")


class Batches(Listing[BatchResult]):
    """A list of the results of `Maintainer.step`: append each result to see the history of a table.

    Examples
    --------
    >>> import pandas as pd
    >>> from holdfast import Maintainer
    >>> people = pd.DataFrame({"Zip": ["x1", "x1", "x2"], "City": ["a", "a", "b"]})
    >>> maintainer = Maintainer.seed(people, name="people", rules=["Zip -> City"])
    >>> batches = Batches()
    >>> for city in "ab":
    ...     batches.append(maintainer.step(inserts=pd.DataFrame({"Zip": ["x2"], "City": [city]})))
    >>> batches.to_pandas()[["batch", "rows", "constraints", "disappeared", "Zip -> City"]]
       batch  rows  constraints  disappeared  Zip -> City
    0      1     4            0            2            2
    1      2     5            0            0            4
    """

    noun: ClassVar[tuple[str, str]] = ("batch", "batches")
    headings: ClassVar[Sequence[str]] = (
        *("rows in", "rows out", "rows", "constraints", "appeared", "disappeared", "seconds", "rules"),
    )

    def cells(self, item: BatchResult) -> Sequence[TableCell]:
        """Return the counts, the seconds, and the violations of rules."""
        record = self.record(item)
        numbers = [*(f"{record[name]:,}" for name in _COUNTS), f"{item.seconds:.3f}"]
        rules = "\n".join(str(state).removeprefix("rule ") for state in item.rules)
        return *(TableCell(number, is_number=True) for number in numbers), TableCell(rules)

    def record(self, item: BatchResult) -> Mapping[str, Any]:
        """Return the counts and the seconds."""
        appeared = sum(change.appeared for change in item.changes)
        counts = (item.rows_in, item.rows_out, item.rows, item.constraints, appeared, len(item.changes) - appeared)
        return {**dict(zip(_COUNTS, counts, strict=True)), "seconds": item.seconds}

    def to_pandas(self) -> "pd.DataFrame":
        """Return one row a batch: counts, and the violations of each rule (pairs; rows, if it is not about pairs)."""
        import pandas as pd

        found = pd.DataFrame([dict(self.record(item)) for item in self], columns=[*_COUNTS, "seconds"])
        found.insert(0, "batch", range(1, len(self) + 1))
        rules = {rule: pd.array(violations, "Int64") for rule, violations in self.violations().items()}
        return pd.concat([found, pd.DataFrame(rules, index=found.index)], axis=1)

    def violations(self) -> dict[str, list[int | None]]:
        """Return, per rule, how many pairs (rows, if it is not about pairs) violate it after each batch."""
        names = dict.fromkeys(state.rule.name for item in self for state in item.rules)
        found: dict[str, list[int | None]] = {name: [] for name in names}
        for item in self:
            known = {state.rule.name: state for state in item.rules}
            for name, numbers in found.items():
                state = known.get(name)
                pairs = None if state is None else state.violating_pairs
                numbers.append(state.violating_rows if state is not None and pairs is None else pairs)
        return found

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw how many constraints hold after each batch, with matplotlib; return the axes."""
        from holdfast.display.plots import lines

        return lines({"constraints": [item.constraints for item in self]}, "constraints", ax)

    def plot_rules(self, ax: "Axes | None" = None) -> "Axes":
        """Draw how many violations each rule has after each batch, with matplotlib; return the axes."""
        from holdfast.display.plots import lines

        return lines(self.violations(), "violations", ax)
