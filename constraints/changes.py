"""The changes of a micro-batch: constraints that appeared or disappeared, the reason, and rows that prove it.

The set of constraints after a batch is the set before with the changes applied; a batch that changes no constraint
has no changes. Invariant: each reason belongs to one direction, and a `violated` constraint comes with a
live violation.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.constraints.identity import Constraint, constraint_fields
from holdfast.constraints.values import Value, json_value


class Reason(enum.Enum):
    """Why a constraint appeared in or disappeared from the reported set."""

    VIOLATED = "violated"
    IMPLIED = "implied"
    WEAKENED = "weakened"
    RELEASED = "released"


_APPEARS = {Reason.WEAKENED, Reason.RELEASED}


@dataclass(frozen=True)
class RowImage:
    """A row for display: its key columns, if any, and its values.

    Parameters
    ----------
    key : values of the key columns, empty for a table without a key.
    values : values of all monitored columns, by name.
    """

    key: Mapping[str, Value]
    values: Mapping[str, Value]

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON values."""
        image = {name: json_value(value) for name, value in self.values.items()}
        return {"key": {name: json_value(value) for name, value in self.key.items()}, "row": image}


@dataclass(frozen=True)
class Violation:
    """The proof that a constraint does not hold: an ordered pair of rows, or a missing value.

    Parameters
    ----------
    rows : (t, s); for an inclusion, one row that holds the missing value, or none.
    value : for an inclusion, the value that the referenced column lacks.
    """

    rows: tuple[RowImage, ...] = ()
    value: Value = None

    def to_json(self) -> list[Any]:
        """Return the witness as plain JSON values."""
        return [row.to_json() for row in self.rows] or [json_value(self.value)]


@dataclass(frozen=True)
class ConstraintChange:
    """A constraint that appeared or disappeared.

    Parameters
    ----------
    constraint, table : the constraint, and its table.
    reason : `violated` (witness) or `implied` (by) for a disappearance; `weakened` (by) or `released` (the
        removed rows that had held it back, where known) for an appearance.
    by : the constraint that implies it now, or the constraint whose disappearance exposed it.
    witness : the proof.
    exceptions : the number of exceptions of a violated constraint that nearly holds; None where that is not known.
    """

    constraint: Constraint
    table: str
    reason: Reason
    by: Constraint | None = None
    witness: Violation | None = None
    exceptions: int | None = None

    def __post_init__(self) -> None:
        if self.reason is Reason.VIOLATED and self.witness is None:
            raise ValueError(f"{self.constraint} is said to be violated, and no violation is given")
        if self.reason in {Reason.IMPLIED, Reason.WEAKENED} and self.by is None:
            raise ValueError(f"{self.constraint} is {self.reason.value} by another constraint, and none is given")

    @property
    def appeared(self) -> bool:
        """Whether the constraint appeared; else it disappeared."""
        return self.reason in _APPEARS

    def fields(self) -> dict[str, Any]:
        """Return the change as plain values, with the constraint's own fields last."""
        return {
            "change": "appeared" if self.appeared else "disappeared",
            "reason": self.reason.value,
            "by": None if self.by is None else str(self.by),
            "witness": [] if self.witness is None else self.witness.to_json(),
            **({} if self.exceptions is None else {"exceptions": self.exceptions}),
            **constraint_fields(self.constraint, self.table),
        }

    def __str__(self) -> str:
        sign = "+" if self.appeared else "-"
        by = f" by {self.by}" if self.by is not None else ""
        rows = "row" if self.exceptions == 1 else "rows"
        left = "" if self.exceptions is None else f"; holds but for {self.exceptions:,} {rows}"
        return f"{sign} {self.constraint} ({self.reason.value}{by}{left})"
