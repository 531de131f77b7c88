"""Queries about rows that do not fit: the number of exceptions of a near constraint, and the group of a suspect cell.

    key          rows - groups                                           the exact number
    constant     per group: rows - rows of the most frequent value       the exact number
    order        rows in at least one violating pair                     at least the number

The exceptions of an order compatibility are the rows outside a longest subsequence without swaps. Its length follows
from an array that each row changes, which no construct that the three engines share computes in acceptable time.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.constraints.errors import UsageError
from holdfast.constraints.near import NearConstraint, NearShape
from holdfast.constraints.order import OrderDependency
from holdfast.constraints.queries.constants import equal_to
from holdfast.constraints.queries.exact import Form, grouped, indented, of_denial, where
from holdfast.constraints.queries.writer import SqlWriter
from holdfast.constraints.values import Value


class CellInDoubt(Protocol):
    """A cell that is probably wrong, such as a `Suspect`."""

    @property
    def column(self) -> str:
        """The column of the cell."""

    @property
    def constraints(self) -> tuple[NearConstraint, ...]:
        """The constraints that its row violates, the strongest first."""


def of_near(writer: SqlWriter, table: str, near: NearConstraint) -> Form:
    """Return the number of exceptions; for an order, the number of rows in violating pairs."""
    if near.shape is NearShape.KEY:
        lines = (
            "select coalesce(sum(g.row_count - 1), 0) as exceptions, coalesce(sum(g.row_count), 0) as row_count",
            "from (",
            *indented(_counted(writer, table, near.context)),
            ") as g",
        )
        return Form(_EXCEPTIONS, lines)
    if near.shape is NearShape.CONSTANT:
        return Form(_EXCEPTIONS, _of_constant(writer, table, near.context, near.target[0]))
    return _of_swaps(writer, table, near.exact)


def of_group(writer: SqlWriter, table: str, cell: CellInDoubt, row: Mapping[str, Value]) -> Form:
    """Return the values of the rows that agree with a row, by the strongest dependency that the row violates."""
    dependency = _strongest(cell)
    missing = [name for name in dependency.context if name not in row]
    if missing:
        raise UsageError(f"the row has no value of {', '.join(missing)}: give all columns of {dependency}")
    shown = writer.cell("t", dependency.target[0])
    conditions = [equal_to(writer.cell("t", name), row[name]) for name in dependency.context]
    count = writer.fresh("row_count", dependency.target)
    lines = (
        f"select {shown}, count(*) as {count}",
        f"from {table} as t",
        *where(conditions),
        f"group by {shown}",
    )
    answer = f"Each line: a value of {dependency.target[0]} in these rows, and the number of rows that have the value."
    return Form(answer, lines, (f"{count} desc",))


def dependency_of(cell: CellInDoubt) -> str:
    """Return the text of the dependency by which the group of a cell is found."""
    return str(_strongest(cell))


_EXCEPTIONS = "The answer: the fewest rows without which the constraint holds, and the number of all rows."


def _strongest(cell: CellInDoubt) -> NearConstraint:
    found = [one for one in cell.constraints if one.shape is NearShape.CONSTANT and one.context]
    if not found:
        raise UsageError(f"the suspect cell of {cell.column} violates no functional dependency, so it has no group")
    return found[0]


def _of_constant(writer: SqlWriter, table: str, context: Sequence[str], dependent: str) -> tuple[str, ...]:
    columns = [*context, dependent]
    count = writer.fresh("row_count", columns)
    cells = writer.cells("v", context)
    by_value = grouped(writer, table, columns, [], count)
    return (
        "select coalesce(sum(g.row_count - g.largest), 0) as exceptions, coalesce(sum(g.row_count), 0) as row_count",
        "from (",
        f"  select sum(v.{count}) as row_count, max(v.{count}) as largest",
        "  from (",
        *indented(indented(by_value)),
        "  ) as v",
        *([f"  group by {', '.join(cells)}"] if cells else []),
        ") as g",
    )


def _of_swaps(writer: SqlWriter, table: str, exact: object) -> Form:
    assert isinstance(exact, OrderDependency)
    rows = of_denial(writer, table, exact.as_denial())
    count = writer.fresh("row_count", exact.columns)
    lines = (
        f"select coalesce(sum(q.{count}), 0) as violating_rows",
        "from (",
        *indented(rows.lines),
        ") as q",
    )
    writer.note(
        "Not the exceptions, which are fewer: no query counts the rows outside a longest subsequence without swaps."
    )
    return Form("The answer: the number of rows in at least one violating pair; 0: the constraint holds.", lines)


def _counted(writer: SqlWriter, table: str, columns: Sequence[str]) -> list[str]:
    """Return the numbers of rows of the groups of columns."""
    cells = ", ".join(writer.cells("t", columns))
    return ["select count(*) as row_count", f"from {table} as t", f"group by {cells}"]
