"""Rows that prove a change or a violation, to be compared side by side."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.constraints import (
    Constraint,
    DenialConstraint,
    InclusionDependency,
    NearConstraint,
    OrderDependency,
    Value,
    Violation,
    json_value,
)


@dataclass(frozen=True)
class Witness:
    """A proof: one or two rows, or a value.

    Parameters
    ----------
    rows : the values of each row, by column.
    places : the position or the name of each row.
    compared : the columns that identify the rows or are compared; empty where all columns matter alike.
    value : the missing value, where there are no rows.
    """

    rows: Sequence[Mapping[str, Value]] = ()
    places: Sequence[str] = ()
    compared: Collection[str] = field(default=())
    value: Value = None

    @classmethod
    def of(cls, violation: Violation, compared: Collection[str]) -> "Witness":
        """Return the witness of a violation, of which some columns are compared."""
        rows = [{**row.key, **row.values} for row in violation.rows]
        keys = [name for row in violation.rows for name in row.key]
        return cls(rows, (), (*keys, *compared) if compared else (), violation.value)

    @property
    def names(self) -> list[str]:
        """The columns of all rows, in order."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def headings(self) -> list[str]:
        """The heading of each row: `t` or `s`, as in the constraint's text, and its position."""
        letters = "ts" if len(self.rows) > 1 else ("row",)
        places = [*self.places, *[""] * len(self.rows)]
        return [f"{letter}: {place}" if place else letter for letter, place in zip(letters, places, strict=False)]

    def differs(self, name: str) -> bool:
        """Whether two rows have different values in a column.

        >>> two = Witness([{"a": 1, "b": None}, {"a": 2, "b": None}])
        >>> two.differs("a"), two.differs("b")
        (True, False)
        """
        if len(self.rows) < 2:
            return False
        first, second = (row.get(name) for row in self.rows[:2])
        return (first is None) is not (second is None) or json_value(first) != json_value(second)


def compared_columns(constraint: Constraint) -> list[str]:
    """Return the columns of a row that a constraint compares, in its order."""
    if isinstance(constraint, DenialConstraint):
        return list(dict.fromkeys(name for p in constraint.predicates for name in p.column_pair))
    if isinstance(constraint, OrderDependency | NearConstraint):
        return [*constraint.context, *constraint.target]
    return [constraint.dependent.column] if isinstance(constraint, InclusionDependency) else []
