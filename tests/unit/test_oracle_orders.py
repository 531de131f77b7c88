"""The oracles of order dependencies and inclusions, tested by hand and against other programs."""

from __future__ import annotations

import random
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from tests.oracles import denial, inclusion, order
from tests.oracles.values import Column, Row, Table, Value
from tests.unit.test_oracle_denial import plain_rows, random_rows
from tests.unit.test_oracles import INF, NAN, SEEDS, A, B, C, S

if TYPE_CHECKING:
    from collections.abc import Sequence


# Order dependencies by hand

REPORTED_ORDERS: list[tuple[list[Column], list[Row], set[str], int]] = [
    ([A, B], [], {"{}: [] -> A", "{}: [] -> B"}, 2),
    ([A, B], [(1, 2)], {"{}: [] -> A", "{}: [] -> B"}, 2),
    ([A], [(1,), (2,)], set(), 0),
    ([A, B], [(1, 1), (2, 2)], {"{B}: [] -> A", "{A}: [] -> B", "{}: A ~ B"}, 0),
    ([A, B], [(1, 2), (2, 1)], {"{B}: [] -> A", "{A}: [] -> B", "{}: A ~ B desc"}, 0),
    ([A, B], [(1, 5), (1, 6)], {"{}: [] -> A"}, 2),
    ([S, A], [("b", None), ("a", 1)], {"{A}: [] -> S", "{S}: [] -> A", "{}: S ~ A desc"}, 0),
    ([S, A], [("Z", 1), ("a", NAN)], {"{A}: [] -> S", "{S}: [] -> A", "{}: S ~ A"}, 0),
    (
        [Column("F", "boolean"), A],
        [(False, 1), (True, 2), (None, 0)],
        {"{A}: [] -> F", "{F}: [] -> A", "{}: F ~ A"},
        0,
    ),
    # no swap and no split in opposite directions: A and B tie or change alone
    ([A, B], [(1, 1), (1, 2), (2, 2)], {"{}: A ~ B"}, 0),
    ([A, B], [(1, 1), (1, 2), (2, 1)], {"{}: A ~ B desc"}, 0),
    # C = 0: A and B rise together; C = 1: they go against each other; no context makes a pair compatible
    (
        [A, B, C],
        [(1, 1, 0), (2, 2, 0), (1, 2, 1), (2, 1, 1)],
        {"{B, C}: [] -> A", "{A, C}: [] -> B", "{A, B}: [] -> C"},
        0,
    ),
    # B is unique and rises within C, and with C; hidden: {B}: A ~ C in both directions
    (
        [A, B, C],
        [(1, 1, 0), (2, 2, 0), (1, 5, 1), (2, 6, 1)],
        {"{B}: [] -> A", "{A, C}: [] -> B", "{B}: [] -> C", "{C}: A ~ B", "{}: B ~ C"},
        2,
    ),
]


@pytest.mark.parametrize(("columns", "rows", "expected", "hidden"), REPORTED_ORDERS)
def test_reported_order_dependencies_by_hand(
    columns: list[Column], rows: list[Row], expected: set[str], hidden: int
) -> None:
    found = order.reported(rows, len(columns))
    assert {order.text(dependency, columns) for dependency in found} == expected
    assert len(order.hidden(rows, len(columns))) == hidden


def test_splits_and_swaps_by_hand() -> None:
    rows: list[Row] = [(1, 5), (1, 6), (2, 4)]
    assert order.violating_pairs(rows, order.OrderDependency((0,), (1,))) == [(0, 1), (1, 0)]
    assert order.violating_pairs(rows, order.OrderDependency((), (0, 1), "same")) == [(0, 2), (1, 2)]
    assert order.violating_pairs(rows, order.OrderDependency((), (0, 1), "opposite")) == []


def test_bound_on_contexts() -> None:
    rows: list[Row] = [(1, 1, 0), (2, 2, 0), (1, 5, 1), (2, 6, 1)]
    assert order.reported(rows, 3) - order.reported(rows, 3, 1) == {order.OrderDependency((0, 2), (1,))}


def test_json_fields_of_order_dependencies() -> None:
    columns = [A, B, Column("c d", "number")]
    constant = order.json_fields(order.OrderDependency((0, 2), (1,)), columns, "r")
    assert constant["constraint"] == "{A, `c d`}: [] -> B"
    assert (constant["kind"], constant["context"], constant["target"]) == ("constant", ["A", "c d"], ["B"])
    assert "direction" not in constant
    assert constant["size"] == 3
    compatible = order.json_fields(order.OrderDependency((), (0, 2), "opposite"), columns, "r")
    assert compatible["constraint"] == "{}: A ~ `c d` desc"
    assert (compatible["kind"], compatible["direction"]) == ("order_compatible", "opposite")
    assert (compatible["context"], compatible["target"], compatible["size"]) == ([], ["A", "c d"], 2)


def test_known_implications_between_order_dependencies() -> None:
    constant = order.OrderDependency((0,), (1,))
    assert order.implies(constant, order.OrderDependency((0, 2), (1,)))
    assert order.implies(constant, order.OrderDependency((0,), (1, 2), "opposite"))
    assert not order.implies(constant, order.OrderDependency((), (1, 2), "same"))
    assert not order.implies(order.OrderDependency((), (1, 2), "same"), order.OrderDependency((), (1, 2), "opposite"))


# Order dependencies: self-checks and differential tests


@pytest.mark.parametrize("seed", SEEDS)
def test_levels_give_the_same_order_dependencies(seed: int) -> None:
    rng = random.Random(seed)
    columns = [A, B, S, Column("F", "boolean")][: rng.randint(1, 4)]
    rows = random_rows(rng, columns, rng.randint(0, 7))
    assert order.reported_by_levels(rows, len(columns)) == order.reported(rows, len(columns))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_order_dependency_is_its_denial_constraint(seed: int) -> None:
    rng = random.Random(seed)
    columns = [A, B, Column("S", "string", ordered=True)]
    rows = random_rows(rng, columns, 6)
    space = denial.own_space(columns)
    for dependency in order.candidates(3):
        named = [(columns[a].name, name, columns[b].name) for a, name, b in order.as_denial(dependency)]
        box = denial.box_of(named, space, columns)
        assert order.violating_pairs(rows, dependency) == denial.violating_pairs(rows, box, space)


THEIR_ORDER = re.compile(r"\{([\d,]*)\} : (?:\[\] -> (\d+)|(\d+)([<>])= ~ (\d+))")


@pytest.mark.parametrize("seed", SEEDS)
def test_order_dependencies_equal_fastod(seed: int) -> None:
    desbordante = pytest.importorskip("desbordante")
    pandas = pytest.importorskip("pandas")
    rng = random.Random(seed)
    columns = [Column(f"c{place}", rng.choice(["number", "string"])) for place in range(rng.randint(2, 5))]
    rows = plain_rows(rng, columns, rng.randint(2, 12))
    algorithm = desbordante.od.algorithms.Fastod()
    algorithm.load_data(table=pandas.DataFrame(rows, columns=[column.name for column in columns]))
    algorithm.execute()
    listed = [*algorithm.get_simple_ods(), *algorithm.get_asc_ods(), *algorithm.get_desc_ods()]
    theirs = [their_order(str(found)) for found in listed]
    mine = order.reported(rows, len(columns))
    assert set(theirs) == mine
    assert len(theirs) == sum(len(dependency.target) for dependency in mine)  # each pair is listed twice there


def their_order(text: str) -> order.OrderDependency:
    match = THEIR_ORDER.match(text)
    assert match is not None, text
    context = tuple(sorted(int(number) - 1 for number in match[1].split(",") if number))
    if match[2]:
        return order.OrderDependency(context, (int(match[2]) - 1,))
    first, second = sorted((int(match[3]) - 1, int(match[5]) - 1))
    return order.OrderDependency(context, (first, second), "same" if match[4] == "<" else "opposite")


# Inclusion dependencies


def table(name: str, columns: Sequence[Column], rows: Sequence[Row]) -> Table:
    return Table(name, tuple(columns), tuple(rows))


def names(found: set[tuple[tuple[str, str], tuple[str, str]]]) -> set[str]:
    return {inclusion.text(*pair) for pair in found}


def test_inclusions_by_hand() -> None:
    orders = table("orders", [Column("id", "number"), Column("cust", "number")], [(1, 10), (2, 10), (3, None)])
    customer = table("customer", [Column("cust", "number")], [(10,), (11,)])
    assert names(inclusion.reported([orders, customer])) == {"orders.cust in customer.cust"}


def test_inclusions_compare_within_a_group_and_exactly() -> None:
    left = table("l", [Column("i", "number"), Column("s", "string")], [(1, "1"), (2**53 + 1, "2")])
    right = table("r", [Column("f", "number")], [(1.0,), (float(2**53),), (2.0,)])
    assert inclusion.reported([left, right]) == set()
    assert inclusion.missing_values(left, 0, right, 0) == [2**53 + 1]
    assert inclusion.missing_occurrences(left, 1, right, 0) == ["1", "2"]
    assert not inclusion.holds(right, 0, left, 0)


def test_inclusions_of_columns_without_values() -> None:
    empty = table("e", [A, Column("X", "string", assumed=True)], [(None, None)])
    full = table("f", [B, S], [(1, "a")])
    assert names(inclusion.reported([empty, full])) == {"e.A in f.B", "e.X in e.A", "e.X in f.B", "e.X in f.S"}


def test_inclusions_count_nan_and_zero_once() -> None:
    left = table("l", [A], [(NAN,), (NAN,), (-0.0,), (7,), (7,)])
    right = table("r", [A], [(0,)])
    assert len(inclusion.missing_occurrences(left, 0, right, 0)) == 4
    assert len(inclusion.missing_values(left, 0, right, 0)) == 2
    assert inclusion.holds(right, 0, left, 0)


def test_inclusions_between_texts() -> None:
    left = table("l", [A], [(1,), (2,)])
    right = table("r", [S, B], [("1", 1.0), ("2", 2.0)])
    assert names(inclusion.reported([left, right])) == {"l.A in r.B", "r.B in l.A"}
    assert names(inclusion.reported([left, right], strings_all=True)) == {"l.A in r.S", "r.S in l.A"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("x", "x"),
        (-5, "-5"),
        (True, "true"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (-0.0, "0.0"),
        (NAN, "nan"),
        (-INF, "-inf"),
        (Decimal("1.10"), "1.1"),
        (Decimal("1E+2"), "100"),
        (Decimal(100), "100"),
        (Decimal("-0.0"), "0"),
        (date(2020, 1, 2), "2020-01-02"),
        (datetime(2020, 1, 2, 3, tzinfo=UTC), "2020-01-02T03:00:00"),
        (datetime(2020, 1, 2, 3, 0, 0, 500000, tzinfo=UTC), "2020-01-02T03:00:00.5"),
    ],
)
def test_source_text_reads_back(value: Value, text: str | None) -> None:
    assert inclusion.source_text(value) == text


def test_json_fields_of_an_inclusion() -> None:
    fields = inclusion.json_fields(("orders", "o id"), ("customer", "id"))
    assert fields["constraint"] == "orders.`o id` in customer.id"
    assert (fields["family"], fields["table"], fields["size"]) == ("ind", "orders", 1)
    assert (fields["dependent"], fields["referenced"]) == ("orders.`o id`", "customer.id")


@pytest.mark.parametrize("seed", SEEDS)
def test_inclusions_equal_spider(seed: int) -> None:
    desbordante = pytest.importorskip("desbordante")
    pandas = pytest.importorskip("pandas")
    rng = random.Random(seed)
    tables = []
    for number in range(rng.randint(1, 3)):
        columns = [Column(f"c{place}", rng.choice(["number", "string"])) for place in range(rng.randint(1, 3))]
        digits = [rng.sample(range(6), rng.randint(1, 4)) for _ in columns]
        rows = [
            tuple(
                rng.choice(chosen) if column.group == "number" else str(rng.choice(chosen))
                for column, chosen in zip(columns, digits, strict=True)
            )
            for _ in range(rng.randint(1, 8))
        ]
        tables.append(table(f"t{number}", columns, rows))
    frames = [pandas.DataFrame(one.rows, columns=[column.name for column in one.columns]) for one in tables]
    algorithm = desbordante.ind.algorithms.Spider()
    algorithm.load_data(tables=frames)
    algorithm.execute()
    theirs = set()
    for found in algorithm.get_inds():
        sides = [(tables[side.table_index], side.column_indices[0]) for side in (found.get_lhs(), found.get_rhs())]
        theirs.add(tuple((one.name, one.columns[place].name) for one, place in sides))
    assert inclusion.reported(tables, strings_all=True) == theirs
