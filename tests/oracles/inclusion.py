"""Unary inclusion dependencies among all columns of all tables, recomputed from their definition.

Readings taken where the definition leaves room:

- A column whose type is only assumed has no values and is included in every other column. A column without
  values but of a known type is included in the columns of its group alone; an assumed column's group is
  string.
- Columns of different groups have no common value, so all values of the one are missing in the other.
- With strings=all there is one group. The caller gives text columns as texts; typed values become the text
  that `source_text` says. NaN is one value, with one text.
- The shortest text of a number has no trailing zeros of a fraction and no exponent in decimals (`1.10` is
  `1.1`, `1E+2` is `100`), and is Python's `repr` for floats (`1.0`, `1e+16`). Dates are ISO; timestamps are
  `YYYY-MM-DDTHH:MM:SS` in UTC, without a zone, and with a fraction only where it is not zero.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

from tests.oracles.denial import quoted
from tests.oracles.values import Column, Table, constraint_id, same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.oracles.values import Value

ColumnName: TypeAlias = tuple[str, str]


def source_text(value: Value) -> str | None:
    """Return the text of a typed value under strings=all: the shortest that reads back; null stays null."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | Decimal) and math.isnan(value):
        return "nan"
    if isinstance(value, Decimal):
        plain = format(value, "f")
        plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
        return "0" if plain in {"-0", ""} else plain
    if isinstance(value, float):
        return "0.0" if value == 0 else repr(value)
    if isinstance(value, int):
        return str(value)
    return _moment_text(value)


def _moment_text(value: date) -> str:
    if not isinstance(value, datetime):
        return value.isoformat()
    moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    whole = moment.strftime("%H:%M:%S")
    fraction = f".{moment.microsecond:06}".rstrip("0").rstrip(".")
    return f"{moment.date().isoformat()}T{whole}{fraction}"


def with_strings_everywhere(tables: Sequence[Table]) -> list[Table]:
    """Return the tables as strings=all sees them: every value as text, every column a string column."""
    return [
        Table(
            table.name,
            tuple(Column(column.name, "string") for column in table.columns),
            tuple(tuple(source_text(value) for value in row) for row in table.rows),
        )
        for table in tables
    ]


def values_of(table: Table, place: int) -> list[Value]:
    """List the non-null values of a column, every occurrence."""
    return [row[place] for row in table.rows if row[place] is not None]


def missing_occurrences(left: Table, left_place: int, right: Table, right_place: int) -> list[Value]:
    """List the occurrences of non-null left values that are no value of the right column."""
    there = values_of(right, right_place)
    return [value for value in values_of(left, left_place) if not any(same(value, other) for other in there)]


def missing_values(left: Table, left_place: int, right: Table, right_place: int) -> list[Value]:
    """List the distinct left values that are no value of the right column."""
    distinct: list[Value] = []
    for value in missing_occurrences(left, left_place, right, right_place):
        if not any(same(value, other) for other in distinct):
            distinct.append(value)
    return distinct


def holds(left: Table, left_place: int, right: Table, right_place: int) -> bool:
    """Tell whether every non-null value of the left column is a value of the right, group by group."""
    dependent, referenced = left.columns[left_place], right.columns[right_place]
    if not values_of(left, left_place):
        return dependent.assumed or dependent.group == referenced.group
    return not missing_occurrences(left, left_place, right, right_place)


def reported(tables: Sequence[Table], *, strings_all: bool = False) -> set[tuple[ColumnName, ColumnName]]:
    """Return all dependencies across all columns of all tables as (table, column) pairs; `A in A` left out."""
    seen = with_strings_everywhere(tables) if strings_all else tables
    places = [(table, place) for table in seen for place in range(len(table.columns))]
    return {
        ((left.name, left.columns[a].name), (right.name, right.columns[b].name))
        for left, a in places
        for right, b in places
        if (left is not right or a != b) and holds(left, a, right, b)
    }


def text(dependent: ColumnName, referenced: ColumnName) -> str:
    """Write `orders.o_custkey in customer.c_custkey`."""
    return f"{_column_text(dependent)} in {_column_text(referenced)}"


def json_fields(dependent: ColumnName, referenced: ColumnName) -> dict[str, object]:
    """Return the fields of the JSON line of a dependency; its table is its dependent's."""
    constraint = text(dependent, referenced)
    return {
        "family": "ind",
        "table": dependent[0],
        "constraint": constraint,
        "id": constraint_id("ind", dependent[0], constraint),
        "dependent": _column_text(dependent),
        "referenced": _column_text(referenced),
        "dependent_table": dependent[0],
        "dependent_column": dependent[1],
        "referenced_table": referenced[0],
        "referenced_column": referenced[1],
        "size": 1,
    }


def _column_text(name: ColumnName) -> str:
    return ".".join(quoted(part) for part in name)
