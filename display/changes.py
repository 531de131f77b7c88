"""Constraints that appeared and disappeared, as a notebook shows them: with the reason, and the rows that prove it."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from holdfast.constraints import ConstraintChange, Family, Reason
from holdfast.constraints.sentences import sentence
from holdfast.display.constraints import kind_of
from holdfast.display.html import TableCell
from holdfast.display.listing import Listing
from holdfast.display.texts import counted
from holdfast.display.witness import Witness, compared_columns


class Changes(Listing[ConstraintChange]):
    """The constraints that appeared and disappeared with a batch.

    Examples
    --------
    >>> from holdfast.constraints import RowImage, Violation, parse_constraint
    >>> rows = tuple(RowImage({"id": i}, {"id": i, "zip": "x", "city": city}) for i, city in enumerate("ab"))
    >>> gone = parse_constraint("not(t.zip = s.zip and t.city != s.city)")
    >>> changes = Changes([ConstraintChange(gone, "people", Reason.VIOLATED, witness=Violation(rows))])
    >>> print(changes.bundle()["text/plain"])
    1 change: 0 appeared, 1 disappeared
    - not(t.zip = s.zip and t.city != s.city) (violated)
    >>> "<mark><bdi>a</bdi></mark>" in changes.bundle()["text/html"]
    True
    """

    headings: ClassVar[Sequence[str]] = ("change", "constraint", "why")
    dtypes: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("change", "reason", "family", "table", "kind", "constraint", "sentence", "by"), "string"),
        "witness": "object",
        "id": "string",
    }

    def heading(self, total: int) -> str:
        """Return how many constraints appeared and disappeared."""
        appeared = sum(change.appeared for change in self)
        return f"{counted(total, 'change')}: {appeared:,} appeared, {len(self) - appeared:,} disappeared"

    def cells(self, item: ConstraintChange) -> Sequence[TableCell]:
        """Return the change, the constraint in words and as text, and the reason with its proof."""
        names_its_tables = item.constraint.family is Family.INCLUSION
        text = f"{item.constraint}" if names_its_tables else f"{item.table}: {item.constraint}"
        sign = TableCell("+ appeared", tone="good") if item.appeared else TableCell("− disappeared", tone="bad")
        witnesses = [] if item.witness is None else [Witness.of(item.witness, compared_columns(item.constraint))]
        by = "" if item.by is None else str(item.by)
        return (
            sign,
            TableCell(sentence(item.constraint), text),
            TableCell(_why(item), by, witnesses=witnesses),
        )

    def record(self, item: ConstraintChange) -> Mapping[str, Any]:
        """Return the change, the reason and the proof as plain values."""
        fields = {**item.fields(), "kind": kind_of(item.constraint), "sentence": sentence(item.constraint)}
        return {name: fields[name] for name in self.dtypes}


def _why(change: ConstraintChange) -> str:
    """Return the heading of the constraint or the rows that caused a change."""
    match change.reason:
        case Reason.IMPLIED:
            return "implied by a more general constraint:"
        case Reason.WEAKENED:
            return "remains of a constraint that disappeared:"
        case Reason.VIOLATED:
            is_value = change.witness is not None and not change.witness.rows
            return "violated by a value that is missing:" if is_value else "violated by these rows:"
    if change.witness is None:
        return "no row violates it any more"
    return "the rows that violated it are gone:" if change.witness.rows else "no longer missing:"
