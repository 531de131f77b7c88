"""Oracle: what DuckDB answers to the query of a constraint, a rule or a suspect is what nested loops find.

PostgreSQL and Spark answer the same queries in `tests/spark/test_queries.py` and `tests/postgresql/test_queries.py`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.constraints import Condition, NearConstraint, NearShape, parse_near
from holdfast.constraints.conditions import Cell, Comparison
from holdfast.constraints.inclusion import InclusionDependency
from holdfast.constraints.queries import Dialect, query, suspect_query
from tests.oracles import near as near_oracle
from tests.oracles.values import canonical, compare
from tests.properties.rules import rules
from tests.properties.tables import tables
from tests.queries import (
    FORMS,
    NEAR,
    OTHER,
    TABLE,
    Doubted,
    arrow_table,
    counted,
    exceptions,
    expected,
    schema_of,
    violations,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.constraints.rules import Body
    from holdfast.tables import Table
    from tests.oracles.values import Table as OracleTable

DIALECTS = st.sampled_from([Dialect.STANDARD, Dialect.DUCKDB, Dialect.POSTGRESQL])


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        for table in (TABLE, OTHER):
            connection.register(table.name, arrow_table(table))
        yield connection


def answer(text: str, connection: duckdb.DuckDBPyConnection) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names and the lines of DuckDB's answer."""
    found = connection.execute(text)
    return [column[0] for column in found.description], found.fetchall()


def answer_on(
    table: Table, text: str, connection: duckdb.DuckDBPyConnection
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return DuckDB's answer about a table `r`."""
    connection.register("r", table.to_arrow())
    return answer(text, connection)


def compared(body: Body, table: Table) -> Iterator[tuple[str, ...]]:
    """Yield the types of columns that a rule compares with each other: what engines compare is the same for equal types."""
    if isinstance(body, InclusionDependency):
        pairs = [(body.dependent.column, body.referenced.column)]
    elif isinstance(body, Condition):
        comparisons = [atom for atom in body.atoms if isinstance(atom, Comparison)]
        pairs = [(a.left.column, a.right.column) for a in comparisons if isinstance(a.right, Cell)]
    else:
        pairs = [p.column_pair for p in getattr(body, "predicates", ())]
    for left, right in pairs:
        kinds = [table.schema[name].type for name in (left, right)]
        yield tuple("float" if kind.name == "float" else kind.group.value for kind in kinds)


@given(st.data(), st.booleans(), DIALECTS)
def test_rules(connection: duckdb.DuckDBPyConnection, data: st.DataObject, has_schema: bool, dialect: Dialect) -> None:
    theirs, ours = data.draw(tables())
    rule, body = data.draw(rules(theirs))
    # engines compare a float with another number as floats, as a note of the query says
    assume(all(left == right for left, right in compared(body, ours)))
    text = query(body, "r", dialect=dialect, schema=ours.schema if has_schema else None)
    names, lines = answer_on(ours, text, connection)
    assert counted(names, lines) == expected(rule, body, theirs, names, {"r": theirs}), text


@st.composite
def near_constraints(draw: st.DrawFn, table: OracleTable) -> tuple[near_oracle.Near, NearConstraint]:
    names = [column.name for column in table.columns]
    shapes = [shape for shape in NearShape if shape.targets + (shape is NearShape.KEY) <= len(names)]
    shape = draw(st.sampled_from(shapes))
    least = max(shape.targets, 1)
    some = draw(st.lists(st.sampled_from(names), min_size=least, unique=True))
    target, context = some[: shape.targets], some[shape.targets :]
    places = [tuple(map(table.index, part)) for part in (context, target)]
    return near_oracle.Near(shape.value, *places), NearConstraint(shape, context, target)


@given(st.data())
def test_near_constraints(connection: duckdb.DuckDBPyConnection, data: st.DataObject) -> None:
    theirs, ours = data.draw(tables())
    near, constraint = data.draw(near_constraints(theirs))
    names, ((count, *rest),) = answer_on(ours, query(constraint, "r", dialect="duckdb"), connection)
    if constraint.shape in {NearShape.KEY, NearShape.CONSTANT}:
        assert names == ["exceptions", "row_count"]
        assert (count, *rest) == (near_oracle.exceptions(theirs.rows, near), len(theirs.rows))
        return
    rows = theirs.rows
    pairs = [
        (t, s) for t, s in itertools.permutations(range(len(rows)), 2) if near_oracle.violates(rows[t], rows[s], near)
    ]
    assert names == ["violating_rows"]
    assert count == len({row for pair in pairs for row in pair})
    assert near_oracle.exceptions(rows, near) <= count


@given(st.data(), st.booleans())
def test_suspects(connection: duckdb.DuckDBPyConnection, data: st.DataObject, has_schema: bool) -> None:
    theirs, ours = data.draw(tables())
    assume(theirs.rows and len(theirs.columns) > 1)
    some = data.draw(st.lists(st.sampled_from([c.name for c in theirs.columns]), min_size=2, unique=True))
    near = NearConstraint(NearShape.CONSTANT, some[1:], some[:1])
    place = data.draw(st.integers(0, len(theirs.rows) - 1))
    text = suspect_query(Doubted(some[0], (near,)), ours.row(place), "r", schema=ours.schema if has_schema else None)
    names, lines = answer_on(ours, text, connection)
    context = [theirs.index(name) for name in near.context]
    target = theirs.index(near.target[0])
    agreeing = [row for row in theirs.rows if all(compare(row[c], theirs.rows[place][c]) == 0 for c in context)]
    assert counted(names, lines) == {
        (value,): sum(canonical(row[target]) == value for row in agreeing)
        for value in {canonical(row[target]) for row in agreeing}
    }, text


@pytest.mark.parametrize("has_schema", [False, True])
@pytest.mark.parametrize("text", FORMS)
def test_every_form(connection: duckdb.DuckDBPyConnection, text: str, has_schema: bool) -> None:
    names, lines = answer(query(text, "orders", schema=schema_of(TABLE) if has_schema else None), connection)
    assert counted(names, lines) == violations(text, names)


@pytest.mark.parametrize("text", NEAR)
def test_every_near_form(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    _, ((first, *_),) = answer(query(parse_near(text), "orders"), connection)
    assert first == exceptions(text)
