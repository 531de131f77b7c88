"""What a batch did to the constraints that nearly hold, and which rows are shown as their exceptions."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from holdfast.constraints import NearConstraint, RowImage, constraint_fields
from holdfast.display.near import NearChanged
from holdfast.display.texts import counted

ENTERED, LEFT, EXCEPTIONS = "entered", "left", "exceptions"
VIOLATED, IMPLIED = "violated", "implied"
_SIGNS = {ENTERED: "+", LEFT: "-", EXCEPTIONS: "~"}


@dataclass(frozen=True)
class NearChange(NearChanged):
    """A constraint that nearly holds now, or did before, or has other exceptions.

    Parameters
    ----------
    constraint : with the exceptions that it has now, one that left too.
    change : `entered`, `left` or `exceptions`.
    before : its exceptions before the batch; None where it entered.
    reason : of one that left: `violated` by too many rows, or `implied` by one that says more; None where it is not
        looked for any more.
    """

    constraint: NearConstraint
    change: str
    before: int | None
    reason: str | None = None

    @property
    def is_turn(self) -> bool:
        """Whether more than the number of exceptions changed: it entered, left, got its first ones, or has none now."""
        return self.change != EXCEPTIONS or not self.before or self.is_restored

    @property
    def is_restored(self) -> bool:
        """Whether its last exceptions are gone."""
        return self.change == EXCEPTIONS and not self.constraint.exceptions

    @property
    def text(self) -> str:
        """What happened to it, after its constraint."""
        now = counted(self.constraint.exceptions, "exception")
        before = "" if self.before in {None, self.constraint.exceptions} else f"{self.before:,} to "
        did = "" if self.change == EXCEPTIONS else f"{self.change}, " if self.reason is None else f"{self.reason}, "
        return f"{did}{before}{now} of {self.constraint.rows:,} rows"

    def fields(self, table: str) -> dict[str, Any]:
        """Return the change as plain values, with the constraint's own fields last."""
        said = {"change": self.change, "reason": self.reason, "before": self.before}
        return {**said, **constraint_fields(self.constraint, table)}

    def __str__(self) -> str:
        return f"{_SIGNS[self.change]} {self.constraint} ({self.text})"


@dataclass(frozen=True, eq=False)
class NearExample:
    """A row that is an exception.

    Parameters
    ----------
    constraint : that nearly holds.
    row : the row.
    undecided : whether another row of its group could go in its place.
    """

    constraint: NearConstraint
    row: RowImage
    undecided: bool

    def example_id(self, table: str) -> str:
        """Return a name of what is shown: the same row of the same constraint has the same name in every state."""
        text = json.dumps([table, str(self.constraint), self.row.to_json()], ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
