"""Near constraints and their changes, as a notebook shows them: with the number of exceptions."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from holdfast.constraints import NearConstraint
from holdfast.constraints.sentences import sentence
from holdfast.display.constraints import Constraints
from holdfast.display.html import TableCell
from holdfast.display.listing import Listing, by_count
from holdfast.display.texts import counted


class NearChanged:
    """A near constraint that entered the near set, left it, or has another number of exceptions.

    Attributes
    ----------
    constraint : the constraint with its current exceptions.
    change : `entered`, `left` or `exceptions`.
    before : the number of exceptions before the batch; None where the constraint entered.
    """

    constraint: NearConstraint
    change: str
    before: int | None


OneChange = TypeVar("OneChange", bound=NearChanged)


def but_for(near: NearConstraint) -> str:
    """Return the number of exceptions and their share of the rows, in words.

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
        """Return the text, and the number of exceptions."""
        return f"{item}  ({but_for(item)})"

    def cells(self, item: NearConstraint) -> Sequence[TableCell]:
        """Return kind, words and text, and the number of exceptions."""
        return *super().cells(item), TableCell(but_for(item))

    def record(self, item: NearConstraint) -> Mapping[str, Any]:
        """Return the row of a near constraint for the data frame."""
        fields = item.fields()
        return {**super().record(item), **{name: fields[name] for name in ("exceptions", "rows", "share")}}


class NearChanges(Listing[OneChange]):
    """The changes of a table's near constraints with a batch.

    Examples
    --------
    >>> import pandas as pd
    >>> from holdfast import Maintainer
    >>> people = pd.DataFrame({"zip": ["x1"] * 4 + ["x2"] * 4, "city": ["a"] * 4 + ["b"] * 4})
    >>> maintainer = Maintainer.seed(people, name="people", near="20%", near_orders=False)
    >>> result = maintainer.step(inserts=pd.DataFrame({"zip": ["x1"], "city": ["c"]}))
    >>> print(result.near.bundle()["text/plain"])
    1 near change: 0 entered, 0 left, 1 with other exceptions
    ~ {zip}: [] -> city (0 to 1 exception of 9 rows)
    >>> result.near.to_pandas()[["change", "exceptions_before", "exceptions"]].values.tolist()
    [['exceptions', 0, 1]]
    """

    headings: ClassVar[Sequence[str]] = ("near change", "constraint", "exceptions")
    dtypes: ClassVar[Mapping[str, str]] = {
        "change": "string",
        **NearConstraints.dtypes,
        "exceptions_before": "Int64",
    }

    def heading(self, total: int) -> str:
        """Return how many constraints entered and left, and how many have another number of exceptions."""
        counts = by_count(self, lambda item: item.change)
        entered, left, others = (counts.get(name, 0) for name in ("entered", "left", "exceptions"))
        return f"{counted(total, 'near change')}: {entered:,} entered, {left:,} left, {others:,} with other exceptions"

    def cells(self, item: OneChange) -> Sequence[TableCell]:
        """Return the change, words and text, and the number of exceptions before and now."""
        text = f"{self.table}: {item.constraint}" if self.table else str(item.constraint)
        return _change_of(item), TableCell(sentence(item.constraint.exact), text), TableCell(_course_of(item))

    def record(self, item: OneChange) -> Mapping[str, Any]:
        """Return the change, the constraint's values, and the number of exceptions before."""
        near = NearConstraints([], self.table).record(item.constraint)
        return {"change": item.change, **near, "exceptions_before": item.before}


def _change_of(item: NearChanged) -> TableCell:
    """Return the cell of a change: a few words, marked as good or bad."""
    if item.change == "entered":
        return TableCell("+ entered", tone="good")
    if item.change == "left":
        return TableCell("− left", tone="bad")
    if item.constraint.exceptions > (item.before or 0):
        return TableCell("▲ more exceptions", tone="bad")
    return TableCell("▼ fewer exceptions", tone="good")


def _course_of(item: NearChanged) -> str:
    """Return the number of exceptions, with the number before where it differs."""
    now = but_for(item.constraint)
    return now if item.before in {None, item.constraint.exceptions} else f"{item.before:,} before, now {now}"
