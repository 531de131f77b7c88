"""The query of each kind of constraint: its answer has a line for what violates the constraint, and none if it holds.

    key                       groups of more than one row                                             O(n log n)
    functional dependency     values of groups that have more than one                                O(n log n)
    two ordered columns       rows that a window of the rows before or behind contradicts             O(n log n)
    any other pairs           a join of the distinct values, each with the number of its rows         up to O(d^2)
    condition on single rows  a filter                                                                O(n)
    inclusion                 the values that are not there                                           O(n log n)

A value of an ordered column has a *place*: the number of distinct values up to it, null being the first. Places are
whole numbers, so that comparisons of places need no rule for nulls, NaN or booleans.

Two rows with equal values are two rows: no query needs an identity of rows, as equal rows are counted. Invariant: the
counts of the answer add up to the violating rows that `holdfast check` counts; of a join, to the violating pairs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.constraints.conditions import Atom, Comparison, Condition
from holdfast.constraints.denial import DenialConstraint
from holdfast.constraints.inclusion import InclusionDependency
from holdfast.constraints.nulls import NullsApart
from holdfast.constraints.operators import EQUAL, LESS, Operator
from holdfast.constraints.order import OrderDependency
from holdfast.constraints.predicates import Predicate
from holdfast.constraints.queries.comparisons import OTHER_NUMBERS, between_rows, within_row
from holdfast.constraints.queries.constants import sql_of
from holdfast.constraints.queries.writer import SqlWriter

MOST_PAIRS = 100
"""So many lines has the answer of a join at most."""


@dataclass(frozen=True)
class Form:
    """A query, what a line of its answer is, and how the lines are ordered."""

    answer: str
    lines: tuple[str, ...]
    order: tuple[str, ...] = ()


def of_denial(writer: SqlWriter, table: str, constraint: DenialConstraint) -> Form:
    """Return the query of a denial constraint, in the fastest form that it has."""
    equal = [p.left for p in constraint.predicates if p.operator is Operator.EQUAL and not p.crosses]
    rest = [p for p in constraint.predicates if p.crosses or p.operator is not Operator.EQUAL]
    strict = [p for p in rest if not p.operator.outcomes & EQUAL]
    if not rest or (
        len(rest) == 1 and not rest[0].crosses and not strict
    ):  # two rows always have t.A <= s.A or t.A >= s.A
        return of_key(writer, table, equal)
    if any(p.crosses for p in rest):
        return of_pairs(writer, table, constraint.predicates, ())
    if len(rest) == 1:
        return of_dependency(writer, table, equal, rest[0].left)
    if len(rest) == 2 and strict and all(p.operator.needs_order for p in rest):
        return of_order(writer, table, equal, rest)
    return of_pairs(writer, table, constraint.predicates, ())


def of_apart(writer: SqlWriter, table: str, apart: NullsApart) -> Form:
    """Return the query of a rule in which a null satisfies no comparison: of the rows without nulls, where it can."""
    tests: list[Atom] = [*apart.tests("t"), *apart.tests("s")]
    if isinstance(apart.body, Condition):
        return of_pairs(writer, table, apart.predicates, [*_tests_of(apart.body), *tests])
    if apart.compared("t") != apart.compared("s"):
        return of_pairs(writer, table, apart.predicates, tests)
    present = " and ".join(f"{cell} is not null" for cell in writer.cells("r", apart.compared("t")))
    constraint = apart.body.as_denial() if isinstance(apart.body, OrderDependency) else apart.body
    return of_denial(writer, f"({' '.join(_all_of(table, 'r'))} where {present})", constraint)


def of_key(writer: SqlWriter, table: str, columns: Sequence[str]) -> Form:
    """Return the groups of more than one row; without columns, all rows of a table of more than one."""
    count = writer.fresh("row_count", columns)
    cells = writer.cells("t", columns)
    grouped = [f"group by {', '.join(cells)}"] if cells else []
    lines = (
        f"select {', '.join([*cells, f'count(*) as {count}'])}",
        f"from {table} as t",
        *grouped,
        "having count(*) > 1",
    )
    return Form("Each line: values that more than one row has, and the number of these rows.", lines)


def of_dependency(writer: SqlWriter, table: str, context: Sequence[str], dependent: str) -> Form:
    """Return the values of groups that have more than one, with their numbers of rows."""
    columns = [*context, dependent]
    count, values = (writer.fresh(name, columns) for name in ("row_count", "value_count"))
    window = f"count(*) over ({partition(writer, 't', context)}) as {values}"
    lines = (
        f"select {', '.join([*writer.cells('v', columns), f'v.{count}'])}",
        "from (",
        *indented(grouped(writer, table, columns, [window], count)),
        ") as v",
        f"where v.{values} > 1",
    )
    order = [*nulls_first(writer.cells("v", context)), f"v.{count} desc"]
    among = f"rows that agree on {', '.join(context)}" if context else "rows"
    return Form(
        f"Each line: one of several values of {dependent} among {among}, and its number of rows.", lines, tuple(order)
    )


def of_order(writer: SqlWriter, table: str, context: Sequence[str], compared: Sequence[Predicate]) -> Form:
    """Return the rows that another row contradicts: `compared` are two predicates, of which one is strict."""
    first, second = compared if not compared[1].operator.outcomes & EQUAL else reversed(compared)  # second: strict
    if not first.operator.outcomes & LESS:
        first, second = first.mirror, second.mirror
    columns = [*context, first.left, second.left]
    names = ("row_count", "place_1", "place_2", "before", "behind")
    count, place_1, place_2, before, behind = (writer.fresh(name, columns) for name in names)
    grouping, comparing = (writer.fresh(name, [table]) for name in ("placed", "compared"))
    # t is before s by the first column; it contradicts where its second place is as the second predicate says
    ends = ("current row", "current row") if first.operator.outcomes & EQUAL else ("1 preceding", "1 following")
    frames = (f"unbounded preceding and {ends[0]}", f"{ends[1]} and unbounded following")
    extremes = ("min", "max") if second.operator is Operator.LESS else ("max", "min")
    windows = [partition(writer, "p", context, f"order by p.{place_1} range between {frame}") for frame in frames]
    places = []
    for column, place in ((first.left, place_1), (second.left, place_2)):
        sorting = f"order by {writer.ordered('t', column)} nulls first"
        places.append(f"dense_rank() over ({partition(writer, 't', context, sorting)}) as {place}")
    shown = [*writer.cells("p", columns), f"p.{count}"]
    lines = (
        f"with {grouping} as (",
        *indented(grouped(writer, table, columns, places, count)),
        f"), {comparing} as (",
        *indented(
            [
                f"select {', '.join([*shown, f'p.{place_1}', f'p.{place_2}'])},",
                f"  {extremes[0]}(p.{place_2}) over ({windows[0]}) as {before},",
                f"  {extremes[1]}(p.{place_2}) over ({windows[1]}) as {behind}",
                f"from {grouping} as p",
            ]
        ),
        ")",
        f"select {', '.join(shown)}",
        f"from {comparing} as p",
        f"where p.{before} {second.operator} p.{place_2} or p.{place_2} {second.operator} p.{behind}",
    )
    order = [*nulls_first(writer.cells("p", context)), f"p.{place_1}", f"p.{place_2}"]
    return Form(
        "Each line: values of rows that are in a violating pair, and the number of these rows.", lines, tuple(order)
    )


def of_pairs(writer: SqlWriter, table: str, predicates: Sequence[Predicate], tests: Sequence[Atom] = ()) -> Form:
    """Return pairs of rows t and s that satisfy all predicates and all tests of single rows, by their values."""
    columns = list(dict.fromkeys([*_columns_of(predicates), *(cell.column for atom in tests for cell in atom.cells)]))
    count, number, pair_count = (writer.fresh(name, columns) for name in ("row_count", "number", "pair_count"))
    straight = [p for p in predicates if not p.crosses]
    places = {name: writer.fresh(f"place_{i}", columns) for i, name in enumerate(_columns_of(straight), 1)}
    ordered = {p.left for p in straight if p.operator.needs_order}
    windows = [
        f"dense_rank() over (order by {(writer.ordered if name in ordered else writer.cell)('t', name)} nulls first)"
        f" as {place}"
        for name, place in places.items()
    ]
    conditions = [
        between_rows(writer, p) if p.crosses else f"t.{places[p.left]} {sql_of(p.operator)} s.{places[p.left]}"
        for p in predicates
    ]
    conditions += [within_row(writer, atom) for atom in tests]
    pairs = f"t.{count} * s.{count}"
    if all(p.operator.outcomes & EQUAL for p in straight):  # equal rows may violate the constraint with each other
        order = ", ".join(nulls_first(writer.cells("t", columns)))
        windows.append(f"row_number() over (order by {order}) as {number}")
        conditions.append(f"(t.{number} <> s.{number} or t.{count} > 1)")
        pairs = f"case when t.{number} = s.{number} then t.{count} * (s.{count} - 1) else {pairs} end"
    grouping = writer.fresh("counted", [table])
    shown = [
        "  " + "".join(f"{cell} as {writer.name(f'{row}_{name}')}, " for name, cell in _named(writer, row, columns))
        for row in "ts"
    ]
    lines = (
        f"with {grouping} as (",
        *indented(grouped(writer, table, columns, windows, count)),
        ")",
        "select",
        *map(str.rstrip, shown),
        f"  {pairs} as {pair_count}",
        f"from {grouping} as t cross join {grouping} as s",
        *where(conditions),
        f"limit {MOST_PAIRS}",
    )
    answer = (
        f"Each line: the values of violating pairs of rows, and the number of these pairs; at most {MOST_PAIRS} lines."
    )
    return Form(answer, lines)


def of_condition(writer: SqlWriter, table: str, condition: Condition) -> Form:
    """Return the rows, or the pairs of rows, that satisfy a forbidden condition."""
    if len(condition.rows) > 1:
        predicates = [atom.predicate for atom in condition.atoms if isinstance(atom, Comparison)]
        return of_pairs(writer, table, [p for p in predicates if p is not None], _tests_of(condition))
    (row,) = condition.rows
    cases = [" and ".join(within_row(writer, atom) for atom in alternative) for alternative in condition.alternatives]
    lines = (*_all_of(table, row), f"where {cases[0]}", *(f"   or {case}" for case in cases[1:]))
    return Form("Each line: a row that satisfies the forbidden condition.", lines)


def of_inclusion(writer: SqlWriter, inclusion: InclusionDependency) -> Form:
    """Return the values that are missing, with the numbers of rows that have them."""
    writer.note(OTHER_NUMBERS)
    dependent, referenced = inclusion.dependent, inclusion.referenced
    cell = writer.cell("t", dependent.column)
    lines = (
        f"select {cell}, count(*) as {writer.fresh('row_count', [dependent.column])}",
        f"from {writer.table_named(dependent.table)} as t",
        f"where {cell} is not null",
        "  and not exists (",
        "    select 1",
        f"    from {writer.table_named(referenced.table)} as s",
        f"    where {writer.cell('s', referenced.column)} = {cell}",
        "  )",
        f"group by {cell}",
    )
    return Form("Each line: a value that is missing, and the number of rows that have the value.", lines)


def grouped(writer: SqlWriter, table: str, columns: Sequence[str], more: Sequence[str], count: str) -> list[str]:
    """Return the lines of a query that groups rows by columns, with the number of rows and more expressions."""
    cells = ", ".join(writer.cells("t", columns))
    first = f"select {cells}, count(*) as {count}{',' if more else ''}"
    return [first, *_listed(more), f"from {table} as t", f"group by {cells}"]


def partition(writer: SqlWriter, row: str, columns: Sequence[str], rest: str = "") -> str:
    """Return what stands in the parentheses of a window over the rows that agree on columns."""
    cells = ", ".join(writer.cells(row, columns))
    return f"partition by {cells} {rest}".rstrip() if cells else rest


def nulls_first(cells: Iterable[str]) -> list[str]:
    """Return terms of an `order by`, in which null comes before all values."""
    return [f"{cell} nulls first" for cell in cells]


def indented(lines: Iterable[str]) -> list[str]:
    """Return lines of an inner query."""
    return [f"  {line}" for line in lines]


def where(conditions: Sequence[str]) -> list[str]:
    """Return the lines of a filter by all conditions."""
    return [f"where {conditions[0]}", *(f"  and {condition}" for condition in conditions[1:])]


def _all_of(table: str, row: str) -> list[str]:
    return [f"select {row}.*", f"from {table} as {row}"]


def _tests_of(condition: Condition) -> list[Atom]:
    """Return the tests of one row alone in a condition on pairs of rows, which has a single alternative."""
    return [atom for atom in condition.atoms if not (isinstance(atom, Comparison) and atom.predicate)]


def _listed(expressions: Sequence[str]) -> list[str]:
    return [f"  {one}{',' if i < len(expressions) else ''}" for i, one in enumerate(expressions, 1)]


def _columns_of(predicates: Iterable[Predicate]) -> list[str]:
    return list(dict.fromkeys(name for p in predicates for name in p.column_pair))


def _named(writer: SqlWriter, row: str, columns: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(columns, writer.cells(row, columns), strict=True))
