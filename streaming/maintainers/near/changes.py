"""What a batch did to the constraints that nearly hold."""

from dataclasses import dataclass
from typing import Any

from holdfast.constraints import NearConstraint, constraint_fields
from holdfast.display.texts import counted

ENTERED, LEFT, EXCEPTIONS = "entered", "left", "exceptions"
_SIGNS = {ENTERED: "+", LEFT: "-", EXCEPTIONS: "~"}


@dataclass(frozen=True)
class NearChange:
    """A constraint that nearly holds now, or did before, or has other exceptions.

    Parameters
    ----------
    constraint : with the exceptions that it has now, one that left too.
    change : `entered`, `left` or `exceptions`.
    before : its exceptions before the batch; None where it entered.
    """

    constraint: NearConstraint
    change: str
    before: int | None

    @property
    def text(self) -> str:
        """What happened to it, after its constraint."""
        now = counted(self.constraint.exceptions, "exception")
        before = "" if self.before in {None, self.constraint.exceptions} else f"{self.before:,} to "
        did = "" if self.change == EXCEPTIONS else f"{self.change}, "
        return f"{did}{before}{now} of {self.constraint.rows:,} rows"

    def fields(self, table: str) -> dict[str, Any]:
        """Return the change as plain values, with the constraint's own fields last."""
        return {"change": self.change, "before": self.before, **constraint_fields(self.constraint, table)}

    def __str__(self) -> str:
        return f"{_SIGNS[self.change]} {self.constraint} ({self.text})"
