"""Random declared rules, as the oracle and as the product see them."""

import datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from holdfast.constraints import (
    Condition,
    DenialConstraint,
    InclusionDependency,
    NullsApart,
    Operator,
    OrderDependency,
    Predicate,
)
from holdfast.constraints.columns import ColumnRef
from holdfast.constraints.conditions import Cell, Comparison, Literal, MemberTest, NullTest, PatternTest
from holdfast.constraints.denial import functional_dependency, key
from holdfast.constraints.nulls import is_pairwise
from holdfast.constraints.rules import Body
from tests.oracles import rules as oracle
from tests.oracles.values import Table as OracleTable
from tests.properties.tables import DOMAINS

OPERATORS = {str(operator): operator for operator in Operator}
MORE_NUMBERS = [
    Decimal("0.1"),
    Decimal("1.5"),
    Decimal(-1),
    Decimal(10**30),
    float("nan"),
    Decimal(9007199254740993),
]

Both = tuple[oracle.Rule, Body]


PATTERNS = ["", "a", "[ab]", "a|", "(?i)A", ".", "[^a]*"]


@st.composite
def rules(draw: st.DrawFn, table: OracleTable) -> Both:
    """Draw a rule on the columns of a table."""
    their, body = draw(_usual(table))
    if is_pairwise(body) and NullsApart(body).predicates and draw(st.booleans()):  # type: ignore[arg-type]
        return oracle.Apart(their), NullsApart(body)  # type: ignore[arg-type]
    return their, body


@st.composite
def _usual(draw: st.DrawFn, table: OracleTable) -> Both:
    """Draw a rule whose nulls are treated as usual."""
    names = [column.name for column in table.columns]
    match draw(st.sampled_from(["pairs", "pairs", "pairs", "mixed", "rows", "key", "fd", "od", "inclusion"])):
        case "pairs":
            return draw(_pair_conditions(table, constants=False))
        case "mixed":
            return draw(_pair_conditions(table, constants=True))
        case "rows":
            return draw(_row_conditions(table))
        case "key":
            some = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
            return oracle.Key(tuple(some)), key(some)
        case "fd" if len(names) > 1:
            some = draw(st.lists(st.sampled_from(names), min_size=2, unique=True))
            return oracle.FunctionalDependency(tuple(some[1:]), (some[0],)), functional_dependency(some[1:], some[0])
        case "od" if len(names) > 1:
            some = draw(st.lists(st.sampled_from(names), min_size=2, unique=True))
            targets = draw(st.integers(1, 2))
            direction = draw(st.sampled_from(["same", "opposite"])) if targets == 2 else None
            order = OrderDependency(some[targets:], some[:targets], opposite=direction == "opposite")
            return oracle.Ordering(tuple(some[targets:]), tuple(some[:targets]), direction), order
    one, other = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    if one == other:
        return oracle.Key((one,)), key([one])
    ours = InclusionDependency(ColumnRef(table.name, one), ColumnRef(table.name, other))
    return oracle.Inclusion(one, table.name, other), ours


def _comparable(table: OracleTable) -> list[tuple[str, str, bool]]:
    return [
        (a.name, b.name, a.is_ordered and b.is_ordered)
        for a in table.columns
        for b in table.columns
        if a.group == b.group
    ]


@st.composite
def _pair_conditions(draw: st.DrawFn, table: OracleTable, *, constants: bool) -> Both:
    drawn: dict[tuple[str, str], str] = {}
    for left, right, ordered in draw(
        st.lists(st.sampled_from(_comparable(table)), min_size=0 if constants else 1, max_size=4)
    ):
        drawn[left, right] = draw(st.sampled_from(sorted(OPERATORS) if ordered else ["=", "!="]))
    theirs: list[oracle.Condition] = [
        oracle.Comparison(oracle.Field("t", a), op, oracle.Field("s", b)) for (a, b), op in drawn.items()
    ]
    predicates = [Predicate(a, OPERATORS[op], b) for (a, b), op in drawn.items()]
    if not constants:
        return oracle.Forbid(tuple(theirs)), DenialConstraint(predicates)
    ours: list[Any] = [Comparison(Cell("t", p.left), p.operator, Cell("s", p.right)) for p in predicates]
    for row in ("t", "s"):
        for their, our in draw(st.lists(_atoms(table, row), min_size=0 if theirs else 1, max_size=2)):
            theirs.append(their)
            ours.append(our)
    return oracle.Forbid(tuple(theirs)), Condition((tuple(ours),))


@st.composite
def _row_conditions(draw: st.DrawFn, table: OracleTable) -> Both:
    row = draw(st.sampled_from(["t", "s"]))
    drawn = draw(st.lists(_atoms(table, row), min_size=1, max_size=3))
    theirs = tuple(their for their, _ in drawn)
    condition = Condition((tuple(our for _, our in drawn),))
    if draw(st.booleans()):
        return oracle.Require(theirs), condition.negated
    return oracle.Forbid(theirs), condition


@st.composite
def _atoms(draw: st.DrawFn, table: OracleTable, row: str) -> tuple[oracle.Condition, Any]:
    column = draw(st.sampled_from(table.columns))
    cell, field = Cell(row, column.name), oracle.Field(row, column.name)  # type: ignore[arg-type]
    kind = draw(st.sampled_from(["null", "cell", "constant", "constant", "member", "pattern"]))
    wanted = draw(st.booleans())
    if kind == "null":
        return oracle.NullTest(field, wanted), NullTest(cell, wanted)
    if kind == "pattern" and column.group == "string":
        pattern = draw(st.sampled_from(PATTERNS))
        return oracle.PatternTest(field, pattern, wanted), PatternTest(cell, pattern, wanted)
    domain: list[Any] = [value for _, group, values in DOMAINS.values() if group == column.group for value in values]
    domain += MORE_NUMBERS if column.group == "number" else ["zz"] if column.group == "string" else []
    if kind == "member":
        some = draw(st.lists(st.sampled_from(domain), min_size=1, max_size=3))
        return oracle.MemberTest(field, tuple(some), wanted), MemberTest(cell, tuple(map(_literal, some)), wanted)
    operator = draw(st.sampled_from(sorted(OPERATORS) if column.is_ordered else ["=", "!="]))
    if kind == "cell":
        others = [
            b for a, b, ordered in _comparable(table) if a == column.name and b != a and (ordered or operator in "!=")
        ]
        if others:
            other = draw(st.sampled_from(others))
            theirs = oracle.Comparison(field, operator, oracle.Field(row, other))
            return theirs, Comparison(cell, OPERATORS[operator], Cell(row, other))  # type: ignore[arg-type]
    value = draw(st.sampled_from(domain))
    return oracle.Comparison(field, operator, oracle.Constant(value)), Comparison(
        cell, OPERATORS[operator], _literal(value)
    )


def _literal(value: Any) -> Literal:
    if isinstance(value, bool):
        return Literal("true" if value else "false", is_text=False)
    if isinstance(value, str):
        return Literal(value, is_text=True)
    if isinstance(value, datetime.date):
        return Literal(value.isoformat(), is_text=True)
    if isinstance(value, float):
        return Literal(repr(value), is_text=False)
    return Literal(format(value, "f") if isinstance(value, Decimal) else str(value), is_text=False)
