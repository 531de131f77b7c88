"""Cells that are probably wrong, as a notebook shows them: the value, the expected value, and what says so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.constraints import NearConstraint, RowImage, Value, json_value
from holdfast.display.html import TableCell
from holdfast.display.listing import Listing


@dataclass(frozen=True)
class Suspect:
    """A cell that is probably wrong. It is a suggestion: nothing is changed.

    Parameters
    ----------
    row : the number of its row, from 0; None for a row of a live table.
    column, value : the cell.
    is_expected : whether the constraints expect a certain value.
    expected : the value that most of them expect; None also where they expect null, or no certain value.
    score : the probability that the cell is wrong, by a model.
    constraints : the near constraints that name the column and that the row violates.
    image : the row of a live table: its key, if the table has one, and its values.
    """

    row: int | None
    column: str
    value: Value
    is_expected: bool
    expected: Value
    score: float
    constraints: tuple[NearConstraint, ...]
    image: RowImage | None = None

    @property
    def where(self) -> str:
        """The row in words: its number from 1 on, or the values of its key; all values where it has neither."""
        if self.image is None:
            return f"row {(self.row or 0) + 1:,}"
        named = self.image.key or self.image.values
        return ", ".join(f"{name}={value}" for name, value in named.items())

    def fields(self, table: str) -> dict[str, Any]:
        """Return the fields of its JSON line; rows are numbered from 1, as `holdfast exceptions` numbers them.

        A row of a live table has its key and its values in place of a number.
        """
        expected = {"expected": json_value(self.expected)} if self.is_expected else {}
        row = {"row": (self.row or 0) + 1} if self.image is None else self.image.to_json()
        return {
            "table": table,
            **row,
            "column": self.column,
            "value": json_value(self.value),
            **expected,
            "score": round(self.score, 4),
            "constraints": list(map(str, self.constraints)),
        }

    def __str__(self) -> str:
        expected = f", expected {self.expected!r}" if self.is_expected else ""
        return f"{self.where}, {self.column}: {self.value!r}{expected} ({self.score:.3f})"


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

    def heading(self, total: int) -> str:
        """Say how many there are, and of which table."""
        return self._counted(total, "suspect cell")

    def cells(self, item: Suspect) -> Sequence[TableCell]:
        """Return score, row and column, the values, and the constraints."""
        return (
            TableCell(f"{item.score:.3f}", is_number=True),
            self._row(item),
            TableCell(item.column),
            TableCell(str(item.value)),
            TableCell(str(item.expected) if item.is_expected else ""),
            TableCell("\n".join(map(str, item.constraints))),
        )

    def record(self, item: Suspect) -> Mapping[str, Any]:
        """Return the fields, with values as they are."""
        return {**item.fields(self.table), "value": item.value, "expected": item.expected}

    def _row(self, item: Suspect) -> TableCell:
        return TableCell(f"{(item.row or 0) + 1:,}", is_number=True)


class LiveSuspects(Suspects):
    """Cells of a live table that are probably wrong, the surest first; `key` and `values` say which row it is.

    Examples
    --------
    >>> from holdfast.constraints import NearConstraint, NearShape
    >>> near = NearConstraint(NearShape.CONSTANT, ("zip",), ("city",), 1, 400)
    >>> row = RowImage({"id": 7}, {"id": 7, "zip": "01907", "city": "Lynn"})
    >>> found = LiveSuspects([Suspect(None, "city", "Lynn", True, "Salem", 0.987, (near,), row)], "people")
    >>> print(found.bundle()["text/plain"])
    1 suspect cell of people
    id=7, city: 'Lynn', expected 'Salem' (0.987)
    >>> found.to_pandas()[["key", "column", "expected"]].values.tolist()
    [[{'id': 7}, 'city', 'Salem']]
    """

    dtypes: ClassVar[Mapping[str, str]] = {
        "key": "object",
        "values": "object",
        **{name: kind for name, kind in Suspects.dtypes.items() if name != "row"},
    }

    def record(self, item: Suspect) -> Mapping[str, Any]:
        """Return the fields, with values as they are."""
        assert item.image is not None
        row = {"key": dict(item.image.key), "values": dict(item.image.values)}
        return {**super().record(item), **row}

    def _row(self, item: Suspect) -> TableCell:
        return TableCell(item.where)
