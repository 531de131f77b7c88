"""Cells that are probably wrong, as a notebook shows them: the value, the expected value, and what says so."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.constraints import NearConstraint, Value, json_value
from holdfast.display.html import TableCell
from holdfast.display.listing import Listing
from holdfast.display.texts import counted


@dataclass(frozen=True)
class Suspect:
    """A cell that is probably wrong. It is a suggestion: nothing is changed.

    Parameters
    ----------
    row : its number, from 0.
    column, value : the cell.
    is_expected : whether the constraints expect a certain value.
    expected : the value that most of them expect; None also where they expect null, or no certain value.
    score : the probability that the cell is wrong, by a model.
    constraints : the near constraints that name the column and that the row violates.
    """

    row: int
    column: str
    value: Value
    is_expected: bool
    expected: Value
    score: float
    constraints: tuple[NearConstraint, ...]

    def fields(self, table: str) -> dict[str, Any]:
        """Return the fields of its JSON line; rows are numbered from 1, as `holdfast exceptions` numbers them."""
        expected = {"expected": json_value(self.expected)} if self.is_expected else {}
        return {
            "table": table,
            "row": self.row + 1,
            "column": self.column,
            "value": json_value(self.value),
            **expected,
            "score": round(self.score, 4),
            "constraints": list(map(str, self.constraints)),
        }

    def __str__(self) -> str:
        expected = f", expected {self.expected!r}" if self.is_expected else ""
        return f"row {self.row + 1}, {self.column}: {self.value!r}{expected} ({self.score:.3f})"


class Suspects(Listing[Suspect]):
    """Cells of one table that are probably wrong, the surest first.

    Examples
    --------
    >>> from holdfast.constraints import NearConstraint, NearShape
    >>> near = NearConstraint(NearShape.CONSTANT, ("zip",), ("city",), 1, 400)
    >>> found = Suspects([Suspect(16, "city", "Lynn", True, "Salem", 0.987, (near,))], "people")
    >>> print(found.bundle()["text/plain"])
    1 suspect cell of people
    row 17, city: 'Lynn', expected 'Salem' (0.987)
    >>> found.to_pandas()[["row", "column", "value", "expected"]].values.tolist()
    [[17, 'city', 'Lynn', 'Salem']]
    """

    headings: ClassVar[Sequence[str]] = ("score", "row", "column", "value", "expected", "constraints")
    dtypes: ClassVar[Mapping[str, str]] = {
        "row": "Int64",
        "column": "string",
        "value": "object",
        "expected": "object",
        "score": "float64",
        "constraints": "object",
    }

    def __init__(self, suspects: Iterable[Suspect] = (), table: str = "") -> None:
        super().__init__(suspects)
        self.table = table

    def heading(self, total: int) -> str:
        """Say how many there are, and of which table."""
        return f"{counted(total, 'suspect cell')}{f' of {self.table}' if self.table else ''}"

    def cells(self, item: Suspect) -> Sequence[TableCell]:
        """Return score, row and column, the values, and the constraints."""
        return (
            TableCell(f"{item.score:.3f}", is_number=True),
            TableCell(f"{item.row + 1:,}", is_number=True),
            TableCell(item.column),
            TableCell(str(item.value)),
            TableCell(str(item.expected) if item.is_expected else ""),
            TableCell("\n".join(map(str, item.constraints))),
        )

    def record(self, item: Suspect) -> Mapping[str, Any]:
        """Return the fields, with values as they are."""
        return {**item.fields(self.table), "value": item.value, "expected": item.expected}
