"""Near constraints as a notebook shows them: with how many rows are exceptions."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from holdfast.constraints import NearConstraint
from holdfast.display.constraints import Constraints
from holdfast.display.html import Cell
from holdfast.display.texts import counted


def but_for(near: NearConstraint) -> str:
    """Return how many rows are exceptions, in words.

    >>> from holdfast.constraints import NearShape
    >>> but_for(NearConstraint(NearShape.CONSTANT, ("Zip",), ("City",), 3, 55_000))
    '3 of 55,000 rows, 0.00545 %'
    >>> but_for(NearConstraint(NearShape.KEY, ("id",), (), 0, 1))
    'holds'
    """
    if not near.exceptions:
        return "holds"
    return f"{near.exceptions:,} of {counted(near.rows, 'row')}, {100 * float(near.share):.3g} %"


class NearConstraints(Constraints[NearConstraint]):
    """Near constraints of one table.

    Examples
    --------
    >>> from holdfast.constraints import NearShape
    >>> found = NearConstraints([NearConstraint(NearShape.KEY, ("id",), (), 1, 400)], "people")
    >>> print(found.bundle()["text/plain"])
    1 near constraint of people
    key(id)  (1 of 400 rows, 0.25 %)
    >>> found.to_pandas()[["exceptions", "share"]].values.tolist()
    [[1, 0.0025]]
    """

    headings: ClassVar[Sequence[str]] = ("kind", "constraint", "exceptions")
    dtypes: ClassVar[Mapping[str, str]] = {
        **Constraints.dtypes,
        "exceptions": "Int64",
        "rows": "Int64",
        "share": "float64",
    }

    def line(self, item: NearConstraint) -> str:
        """Return the text, and how many rows are exceptions."""
        return f"{item}  ({but_for(item)})"

    def cells(self, item: NearConstraint) -> Sequence[Cell]:
        """Return kind, words and text, and how many rows are exceptions."""
        return *super().cells(item), Cell(but_for(item))

    def record(self, item: NearConstraint) -> Mapping[str, Any]:
        """Return family, kind, text, words and identity, and how many rows are exceptions."""
        fields = item.fields()
        return {**super().record(item), **{name: fields[name] for name in ("exceptions", "rows", "share")}}
