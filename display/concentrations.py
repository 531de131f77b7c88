"""Values in which the exceptions of a near constraint are concentrated, as a notebook shows them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.constraints import NearConstraint, Value, json_value
from holdfast.constraints.names import quoted
from holdfast.display.html import TableCell
from holdfast.display.listing import Listing
from holdfast.display.texts import counted, shown_value

_DIGITS = 9
_SIGNIFICANT_DIGITS = 3


@dataclass(frozen=True)
class Concentration:
    """A value that many more exceptions of a constraint have than chance would give.

    Parameters
    ----------
    column, value : the value; None for null.
    exceptions, of_exceptions : how many of the constraint's exceptions have it, and how many there are. Undecided rows
        count in proportion, rounded down.
    rows, of_rows : how many rows of the table have it, and how many there are.
    significance : the probability that chance gives any value to as many exceptions.
    holds_elsewhere : whether the constraint holds on the rows that do not have the value.
    rules : texts of rules that together say so; none where the constraint does not hold, or where rules cannot compare
        its columns.
    """

    column: str
    value: Value
    exceptions: int
    of_exceptions: int
    rows: int
    of_rows: int
    significance: float
    holds_elsewhere: bool
    rules: tuple[str, ...]

    @property
    def share_of_rows(self) -> float:
        """The share of all rows that have the value."""
        return self.rows / self.of_rows

    @property
    def condition(self) -> str:
        """The column and the value, as people read them."""
        name = quoted(self.column)
        return f"{name} is null" if self.value is None else f"{name} = {shown_value(self.value)}"

    def fields(self) -> dict[str, Any]:
        """Return the fields of its object in JSON lines."""
        return {
            "column": self.column,
            "value": json_value(self.value),
            "exceptions": self.exceptions,
            "rows": self.rows,
            "share_of_rows": round(self.share_of_rows, _DIGITS),
            "significance": float(f"{self.significance:.{_SIGNIFICANT_DIGITS - 1}e}"),
            "holds_elsewhere": self.holds_elsewhere,
            "rules": list(self.rules),
        }

    def lines(self) -> list[str]:
        """Return its lines for people: how many exceptions and rows have the value; the rules, where there are any."""
        share = f"{100 * self.share_of_rows:.3g} % of all rows"
        lines = [f"where: {self.condition}: {self.exceptions:,} of {counted(self.of_exceptions, 'exception')}, {share}"]
        if self.holds_elsewhere:
            lines += [f"holds except where {self.condition}: {rule}" for rule in self.rules]
            if not self.rules:
                lines.append(f"holds except where {self.condition}")
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())


class Concentrations(Listing[Concentration]):
    """Values in which the exceptions of one constraint are concentrated, the surest first.

    Examples
    --------
    >>> from holdfast.constraints import NearShape
    >>> near = NearConstraint(NearShape.CONSTANT, ("zip",), ("city",), 12, 500)
    >>> source = Concentration("source", "import-7", 11, 12, 15, 500, 1e-12, False, ())
    >>> print(Concentrations([source], near).bundle()["text/plain"])
    {zip}: [] -> city: 1 value in which the exceptions are concentrated
    where: source = "import-7": 11 of 12 exceptions, 3 % of all rows
    """

    headings: ClassVar[Sequence[str]] = ("value", "exceptions", "rows", "holds elsewhere")
    dtypes: ClassVar[Mapping[str, str]] = {
        "column": "string",
        "value": "object",
        "exceptions": "Int64",
        "rows": "Int64",
        "share_of_rows": "float64",
        "significance": "float64",
        "holds_elsewhere": "boolean",
        "rules": "object",
    }

    def __init__(self, found: Iterable[Concentration], constraint: NearConstraint) -> None:
        super().__init__(found)
        self.constraint = constraint

    def heading(self, total: int) -> str:
        """Return the constraint, and how many values there are."""
        return f"{self.constraint}: {counted(total, 'value')} in which the exceptions are concentrated"

    def cells(self, item: Concentration) -> Sequence[TableCell]:
        """Return the value, how many exceptions and rows have it, and the rules without it."""
        return (
            TableCell(item.condition),
            TableCell(f"{item.exceptions:,} of {item.of_exceptions:,}", is_number=True),
            TableCell(f"{item.rows:,} of {item.of_rows:,}", is_number=True),
            TableCell("yes" if item.holds_elsewhere else "no", "\n".join(item.rules)),
        )

    def record(self, item: Concentration) -> Mapping[str, Any]:
        """Return the fields, with the value as it is."""
        return {**item.fields(), "value": item.value}
