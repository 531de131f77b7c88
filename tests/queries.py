"""What the answer of a query has to be, from the definitions; and a table with queries of every form for all engines.

    answer of an engine  ->  how often each tuple of values is there  ==  the same of the oracle's violations

An answer counts rows (`row_count`) or pairs (`pair_count`) of equal values; of a condition on single rows it is the rows.
"""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.constraints import (
    DenialConstraint,
    InclusionDependency,
    NullsApart,
    OrderDependency,
    parse_near,
    parse_rule_body,
)
from holdfast.constraints.conditions import Cell, Condition, MemberTest, NullTest, PatternTest
from holdfast.tables import from_arrow
from tests.oracles import near as near_oracle
from tests.oracles import rules as oracle
from tests.oracles.values import Column, Table, canonical_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.constraints import NearConstraint, Schema
    from holdfast.constraints.conditions import Atom
    from holdfast.constraints.rules import Body
    from tests.oracles.values import Value

Found = Counter[tuple[tuple[object, ...], ...]]
"""How often each tuple of values is in an answer."""

ROWS, PAIRS = "row_count", "pair_count"


def counted(names: Sequence[str], lines: Iterable[Sequence[Any]]) -> Found:
    """Return the answer of an engine; the last column counts, unless there is no count."""
    found: Found = Counter()
    has_count = _kind(names[-1]) in {ROWS, PAIRS}
    for line in lines:
        values = tuple(line[:-1] if has_count else line)
        count = int(line[-1]) if has_count else 1
        assert count > 0, "a line without a violation"
        found[canonical_row(values)] += count
    return found


def expected(rule: oracle.Rule, body: Body, table: Table, names: Sequence[str], tables: Mapping[str, Table]) -> Found:
    """Return what the answer has to be, whose columns have these names."""
    shown = names[:-1] if _kind(names[-1]) in {ROWS, PAIRS} else names
    if _kind(names[-1]) == PAIRS:
        sides = [(name[0], table.index(name[2:])) for name in shown]
        pairs = oracle.pairs(rule, table)
        assert pairs is not None
        return Counter(
            canonical_row([table.rows[t if side == "t" else s][place] for side, place in sides]) for t, s in pairs
        )
    places = [table.index(name) for name in shown]
    violating = oracle.rows(rule, table, tables)
    return Counter(canonical_row([table.rows[row][place] for place in places]) for row in violating)


@dataclass(frozen=True)
class Doubted:
    """A suspect cell."""

    column: str
    constraints: tuple[NearConstraint, ...]


def _kind(name: str) -> str:
    return name.rstrip("_")


# A table, and queries of every form

_NAN = float("nan")
_UTC = datetime.UTC
COLUMNS: dict[str, tuple[pa.DataType, str, str]] = {
    "id": (pa.int64(), "number", "bigint"),
    "x": (pa.float64(), "number", "double precision"),
    "y": (pa.float64(), "number", "double precision"),
    "price": (pa.decimal128(6, 2), "number", "decimal(6,2)"),
    "cost": (pa.decimal128(8, 1), "number", "decimal(8,1)"),
    "left": (pa.string(), "string", "varchar"),
    "Zip code": (pa.string(), "string", "varchar"),
    'odd `"\\': (pa.int64(), "number", "bigint"),
    "row_count": (pa.int64(), "number", "bigint"),
    "day": (pa.date32(), "date", "date"),
    "at": (pa.timestamp("us", "UTC"), "timestamp", "timestamp with time zone"),
    "ok": (pa.bool_(), "boolean", "boolean"),
}
"""By column: the types in Arrow, in the oracle and in PostgreSQL."""

_DAY, _LATER = datetime.date(2024, 2, 29), datetime.date(1, 1, 1)
_NOON, _NIGHT = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=_UTC), datetime.datetime(2024, 3, 1, tzinfo=_UTC)
_ODD = "It's a $ \\ \n%é"
LINES: list[tuple[Value, ...]] = [
    (1, 0.1, 1.0, Decimal("0.10"), Decimal("0.1"), "a", "B", 1, 7, _DAY, _NOON, True),
    (1, 0.1, 1.0, Decimal("0.10"), Decimal("0.1"), "a", "B", 1, 7, _DAY, _NOON, True),
    (2, _NAN, 0.0, Decimal("1.00"), Decimal("1.0"), "B", "a", 2, 7, _LATER, _NIGHT, False),
    (2, -0.0, _NAN, Decimal("1.00"), None, "B", _ODD, 2, 8, None, _NOON, None),
    (None, 0.0, _NAN, None, Decimal("1.0"), None, "a", None, 8, _DAY, None, False),
    (None, None, 0.5, Decimal("-3.50"), Decimal("2.0"), None, None, 3, 7, _LATER, _NIGHT, True),
    (2**53 + 1, float(2**53), 0.1, Decimal("7.77"), Decimal("-9.9"), "é", "a", 3, 9, _DAY, _NIGHT, None),
    (-(2**63), float("inf"), None, Decimal("0.10"), Decimal("5.0"), "ab", "", 1, 9, None, None, True),
]
TABLE = Table(
    "orders", tuple(Column(name, group, ordered=True) for name, (_, group, _) in COLUMNS.items()), tuple(LINES)
)
OTHER = Table(
    "other table", (Column("id", "number"), Column("Zip code", "string")), ((1, "a"), (1, None), (None, "B"), (5, "b"))
)


def arrow_table(table: Table) -> pa.Table:
    """Return a table as engines read it."""
    return pa.table(
        {
            column.name: pa.array([row[i] for row in table.rows], COLUMNS[column.name][0], from_pandas=False)
            for i, column in enumerate(table.columns)
        }
    )


def schema_of(table: Table) -> Schema:
    """Return the schema of a table."""
    return from_arrow(arrow_table(table), table.name).schema


FORMS = [
    "key(id)",
    'key(x, `odd ``"\\`)',
    "key(row_count)",
    "id -> x",
    "left, `Zip code` -> price",
    "{}: [] -> day",
    "{left}: [] -> ok",
    "not(t.left = s.left and t.x < s.x)",
    "not(t.left = s.left and t.x <= s.x)",
    "not(t.x >= s.x)",
    "{}: x ~ y",
    "{}: x ~ y desc",
    "{left}: id ~ ok",
    "{ok, row_count}: day ~ at desc",
    "{}: left ~ `Zip code`",
    '{row_count}: `Zip code` ~ `odd ``"\\`',
    "not(t.row_count = s.row_count and t.price >= s.price and t.x < s.x)",
    "not(t.price > s.price and t.x <= s.x)",
    "not(t.price >= s.price and t.x <= s.x)",
    "not(t.id != s.id and t.x != s.x)",
    "not(t.id < s.id and t.x != s.x and t.left = s.left)",
    "not(t.id < s.id and t.x > s.x and t.price < s.price)",
    "not(t.x = s.y)",
    "not(t.x != s.y and t.left = s.left)",
    "not(t.x < s.y)",
    "not(t.x > s.y)",
    "not(t.left < s.`Zip code`)",
    "not(t.left < s.left and t.`Zip code` > s.`Zip code` and t.id != s.id)",
    "not(t.left < s.left and t.`Zip code` > s.`Zip code`)",
    "not(t.x <= s.y and t.y <= s.x)",
    "not(t.x > s.y and t.left = s.left)",
    "not(t.x >= s.y and t.price = s.price)",
    "not(t.price = s.cost)",
    "not(t.price < s.cost and t.id = s.id)",
    "not(t.left = s.`Zip code`)",
    "not(t.left = 'B' and t.id = s.id and t.x != s.x)",
    "not(t.ok = true and s.ok = false)",
    "not(t.day is null and s.price > 0)",
    "not(t.x <= 0.1)",
    "not(t.x < 0.1)",
    "not(t.x = 0.1)",
    "not(t.x != 0.1)",
    "not(t.x >= 0.1)",
    "not(t.x > 0.1)",
    "not(t.price = 0.1)",
    "not(t.price <= 0.1)",
    "not(t.price != 0.1)",
    "not(t.id < 0.1)",
    "not(t.x = 9007199254740993)",
    "not(t.x < 9007199254740993)",
    "not(t.id >= 9007199254740993)",
    "not(t.id < 1e30)",
    "not(t.id > -1e30)",
    "not(t.x < 1e30)",
    "not(t.x < 1e400)",
    "not(t.x > 1e-400)",
    "not(t.x = nan)",
    "not(t.x != inf)",
    "not(t.x > -inf and t.y < nan)",
    "not(t.price < nan)",
    "not(t.id > -inf)",
    "not(t.left = 'a' or t.x is null and t.price > 0)",
    "not(not(t.left = 'a' and t.x is null))",
    "not(t.`Zip code` = 'It''s a $ \\ \n%é')",
    "not(t.`Zip code` = '')",
    "not(t.day >= '2024-02-29')",
    "not(t.at < '2024-02-29T13:00:00Z')",
    "not(t.at = '2024-02-29 14:30:00+02:00')",
    "not(t.ok = false)",
    "not(s.x < s.y)",
    "not(t.price != t.cost)",
    "not(t.id = t.row_count)",
    "not(t.left < t.`Zip code`)",
    "not(t.left < 'a')",
    "t.left in ('a', 'é')",
    "t.left not in ('a')",
    "not(t.x in (0.1, nan, -1) and t.id is not null)",
    "t.price in (0.1, 1, 2.25)",
    "t.id not in (1, 2, 9007199254740993)",
    "t.day in ('2024-02-29', '0001-01-01')",
    "t.at in ('2024-02-29T12:30:00Z')",
    "t.ok in (true)",
    "t.left matches '[a-z]+'",
    "t.`Zip code` not matches '[bB]|[^$]*[$%](.|\\n)*'",
    "t.`Zip code` matches 'a|'",
    "key(x, left) nulls apart",
    "id -> x nulls apart",
    "{left}: id ~ ok nulls apart",
    "not(t.left = s.left and t.x <= s.x) nulls apart",
    "not(t.x < s.y) nulls apart",
    "not(t.x <= s.y and t.y <= s.x) nulls apart",
    "not(t.ok = true and t.id = s.id and t.x != s.x) nulls apart",
    "orders.id in `other table`.id",
    "`other table`.`Zip code` in orders.left",
    "orders.x in orders.y",
]
"""Constraints and rules of every form; two columns whose texts are ordered need the types on PostgreSQL."""

NEAR = ["key(id, left)", "left -> x", "{}: [] -> ok", "{row_count}: x ~ y", "{}: `Zip code` ~ left desc"]


def violations(text: str, names: Sequence[str]) -> Found:
    """Return what the answer to one of `FORMS` has to be, whose columns have these names."""
    tables = {TABLE.name: TABLE, OTHER.name: OTHER}
    body = parse_rule_body(text)
    if isinstance(body, InclusionDependency):
        dependent, referenced = body.dependent, body.referenced
        rule = oracle.Inclusion(dependent.column, referenced.table, referenced.column)
        return expected(rule, body, tables[dependent.table], names, tables)
    if isinstance(body, Condition) and len(body.alternatives) > 1:
        rows = set().union(*(oracle.rows(_forbidden(atoms), TABLE) for atoms in body.alternatives))
        return Counter(canonical_row(TABLE.rows[row]) for row in rows)
    return expected(_rule(body), body, TABLE, names, tables)


def _rule(body: Body) -> Any:
    """Return a rule of one alternative on one table as the oracle sees it."""
    if isinstance(body, NullsApart):
        return oracle.Apart(_rule(body.body))
    if isinstance(body, OrderDependency):
        direction = None if body.is_constant else "opposite" if body.opposite else "same"
        return oracle.Ordering(body.context, body.target, direction)
    if isinstance(body, DenialConstraint):
        predicates = [
            oracle.Comparison(oracle.Field("t", p.left), str(p.operator), oracle.Field("s", p.right))
            for p in body.predicates
        ]
        return oracle.Forbid(tuple(predicates))
    assert isinstance(body, Condition)
    return _forbidden(body.alternatives[0])


def exceptions(text: str) -> int:
    """Return what the answer to one of `NEAR` has to be: exceptions; of an order, rows in violating pairs."""
    near = parse_near(text)
    places = [tuple(map(TABLE.index, part)) for part in (near.context, near.target)]
    theirs = near_oracle.Near(near.shape.value, *places)
    if near.shape.targets < 2:
        return near_oracle.exceptions(TABLE.rows, theirs)
    rows = TABLE.rows
    return sum(any(near_oracle.violates(t, s, theirs) for s in rows) for t in rows)


def _forbidden(atoms: Sequence[Atom]) -> oracle.Forbid:
    return oracle.Forbid(tuple(map(_condition, atoms)))


def _condition(atom: Atom) -> oracle.Condition:
    if isinstance(atom, NullTest):
        return oracle.NullTest(oracle.Field(atom.cell.row, atom.cell.column), atom.is_null)
    if isinstance(atom, MemberTest):
        kind = COLUMNS[atom.cell.column][1]
        values = tuple(_value(literal.text, kind) for literal in atom.literals)
        return oracle.MemberTest(oracle.Field(atom.cell.row, atom.cell.column), values, atom.is_member)
    if isinstance(atom, PatternTest):
        return oracle.PatternTest(oracle.Field(atom.cell.row, atom.cell.column), atom.pattern, atom.is_match)
    left = oracle.Field(atom.left.row, atom.left.column)
    if isinstance(atom.right, Cell):
        return oracle.Comparison(left, str(atom.operator), oracle.Field(atom.right.row, atom.right.column))
    return oracle.Comparison(
        left, str(atom.operator), oracle.Constant(_value(atom.right.text, COLUMNS[left.column][1]))
    )


def _value(text: str, group: str) -> Value:
    match group:
        case "number":
            return float(text) if "n" in text else Decimal(text)
        case "date":
            return datetime.date.fromisoformat(text)
        case "timestamp":
            return datetime.datetime.fromisoformat(text)
        case "boolean":
            return text == "true"
    return text
