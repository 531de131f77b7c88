"""What a batch did to the constraints that nearly hold."""

from collections.abc import Sequence
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
    constraint : as it is now; one that left with the exceptions that it had before.
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
        if self.change == EXCEPTIONS:
            return f"{self.before:,} to {now} of {self.constraint.rows:,} rows"
        return f"{self.change}, {now} of {self.constraint.rows:,} rows"

    def fields(self, table: str) -> dict[str, Any]:
        """Return the change as plain values, with the constraint's own fields last."""
        return {"change": self.change, "before": self.before, **constraint_fields(self.constraint, table)}

    def __str__(self) -> str:
        return f"{_SIGNS[self.change]} {self.constraint} ({self.text})"


def changes_between(before: Sequence[NearConstraint], now: Sequence[NearConstraint]) -> tuple[NearChange, ...]:
    """Return what left, then what entered, then what has other exceptions."""
    had, has = {str(one): one for one in before}, {str(one): one for one in now}
    left = [NearChange(one, LEFT, one.exceptions) for text, one in had.items() if text not in has]
    entered = [NearChange(one, ENTERED, None) for text, one in has.items() if text not in had]
    other = [
        NearChange(one, EXCEPTIONS, had[text].exceptions)
        for text, one in has.items()
        if text in had and had[text].exceptions != one.exceptions
    ]
    return (*left, *entered, *other)
