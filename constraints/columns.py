"""Columns and the schema of one table.

Invariant: within a schema names are unique (they are compared as they stand, spaces and case included) and
the position of a column is its place in every order that Holdfast writes.
"""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from holdfast.constraints.errors import UnknownColumn, UsageError
from holdfast.constraints.names import quoted
from holdfast.constraints.types import ColumnType, Family


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    name, type : the name and the type in the source or the configuration.
    ordered : whether `<` applies to the values, in every family; None for the default of the type.
    assumed : the type was not inferred from a value, as the column had none.
    """

    name: str
    type: ColumnType
    ordered: bool | None = None
    assumed: bool = False

    def ordered_in(self, family: Family) -> bool:
        """Whether this column's values are ordered in constraints of `family`."""
        return self.type.ordered_in(family) if self.ordered is None else self.ordered

    def __str__(self) -> str:
        return f"{quoted(self.name)} {self.type}"


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of a named table."""

    table: str
    column: str

    def __str__(self) -> str:
        return f"{quoted(self.table)}.{quoted(self.column)}"


@dataclass(frozen=True)
class Schema:
    """A table's name and its columns, in order.

    Examples
    --------
    >>> from holdfast.constraints.types import INTEGER, STRING
    >>> tax = Schema("tax", (Column("State", STRING), Column("Salary", INTEGER)))
    >>> tax.index("Salary")
    1
    >>> tax.index("salary")
    Traceback (most recent call last):
    ...
    holdfast.constraints.errors.UnknownColumn: table tax has no column 'salary'; did you mean 'Salary'? ...
    """

    table: str
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        seen: set[str] = set()
        for column in self.columns:
            if column.name in seen:
                raise UsageError(f"table {self.table} has two columns named '{column.name}': rename one of them")
            seen.add(column.name)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {column.name: i for i, column in enumerate(self.columns)}

    def index(self, name: str) -> int:
        """Return the position of the column called `name`, or raise an error with the nearest name."""
        position = self._positions.get(name)
        if position is None:
            raise UnknownColumn(unknown_name(f"table {self.table} has no column", name, self.names))
        return position

    def require(self, names: Iterable[str]) -> None:
        """Raise `UnknownColumn` for the first name that is not a column."""
        for name in names:
            self.index(name)

    def __getitem__(self, name: str) -> Column:
        return self.columns[self.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def unknown_name(problem: str, given: str, known: Iterable[str]) -> str:
    """Return a message for a name that is not known, with the nearest known name.

    Examples
    --------
    >>> unknown_name("no column", "Slary", ["Salary", "Rate"])
    "no column 'Slary'; did you mean 'Salary'? Known: Salary, Rate"
    """
    known = list(known)
    candidates = known[:_COMPARED] if len(given) <= _LONGEST else []
    lowered = {name.lower(): name for name in reversed(candidates) if len(name) <= _LONGEST}
    near = difflib.get_close_matches(given.lower(), lowered, n=1, cutoff=0.6)
    guess = f"; did you mean '{lowered[near[0]]}'? Known" if near else "; known"
    shown = ", ".join(map(_shortened, known[:20])) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
    return f"{problem} '{_shortened(given)}'{guess}: {shown or 'none'}"


_LONGEST, _COMPARED = 200, 1_000


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 3] + "..."
