"""Changes of the constraints that nearly hold, and the rows that are shown as their exceptions."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from holdfast.constraints import NearConstraint, RowImage, constraint_fields
from holdfast.constraints.near import has_jumped
from holdfast.display.near import NearChanged
from holdfast.display.texts import counted

ENTERED, LEFT, EXCEPTIONS = "entered", "left", "exceptions"
VIOLATED, IMPLIED = "violated", "implied"
_SIGNS = {ENTERED: "+", LEFT: "-", EXCEPTIONS: "~"}


@dataclass(frozen=True)
class NearChange(NearChanged):
    """A constraint that entered or left the set of those that nearly hold, or has another number of exceptions.

    Parameters
    ----------
    constraint : with the number of exceptions after the batch, also if the constraint left.
    change : `entered`, `left` or `exceptions`.
    before : the number of exceptions before the batch; None if the constraint entered.
    reason : why a constraint left: `violated` by too many rows, or `implied` by a more general one; None if the
        search does not cover it any more.
    """

    constraint: NearConstraint
    change: str
    before: int | None
    reason: str | None = None

    @property
    def is_turn(self) -> bool:
        """Whether the constraint entered, left, or the number of its exceptions jumped."""
        before, now = self.before or 0, self.constraint.exceptions
        return self.change != EXCEPTIONS or bool(has_jumped(before, now) or has_jumped(now, before))

    @property
    def is_restored(self) -> bool:
        """Whether the constraint has no exceptions any more."""
        return self.change == EXCEPTIONS and not self.constraint.exceptions

    @property
    def text(self) -> str:
        """The change in words, to be printed behind the constraint."""
        now = counted(self.constraint.exceptions, "exception")
        before = "" if self.before in {None, self.constraint.exceptions} else f"{self.before:,} to "
        did = "" if self.change == EXCEPTIONS else f"{self.change}, " if self.reason is None else f"{self.reason}, "
        return f"{did}{before}{now} of {self.constraint.rows:,} rows"

    def fields(self, table: str) -> dict[str, Any]:
        """Return the change as plain values, followed by the fields of the constraint."""
        change = {"change": self.change, "reason": self.reason, "before": self.before}
        return {**change, **constraint_fields(self.constraint, table)}

    def __str__(self) -> str:
        return f"{_SIGNS[self.change]} {self.constraint} ({self.text})"


@dataclass(frozen=True, eq=False)
class NearExample:
    """A row that is an exception of a constraint.

    Parameters
    ----------
    constraint : the constraint that nearly holds.
    row : the row.
    undecided : whether another row of the same group could be removed instead.
    """

    constraint: NearConstraint
    row: RowImage
    undecided: bool

    def example_id(self, table: str) -> str:
        """Return an id of the example: the same row of the same constraint has the same id in every state."""
        text = json.dumps([table, str(self.constraint), self.row.to_json()], ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
