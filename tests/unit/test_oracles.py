"""The oracles against hand-worked examples, against themselves, and against Desbordante.

Every expected value of the first kind was worked out on paper from the definition. *Self-checks* compare two
ways of the oracle on random tables; *differential* tests compare it with Desbordante. All seeds are fixed.
"""

from __future__ import annotations

import itertools
import math
import random
import re
import sys
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.oracles import changes, denial, inclusion, order, rules
from tests.oracles.values import (
    Column,
    Row,
    Table,
    Value,
    canonical,
    canonical_row,
    compare,
    group_of_type,
    infer,
    outcome,
    parse,
    same,
    same_row,
    type_group,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from tests.oracles.denial import Space

NAN = math.nan
INF = math.inf
A, B, C = (Column(name, "number") for name in "ABC")
S = Column("S", "string")
SEEDS = range(40)


# Values, their order and identity


@pytest.mark.parametrize(
    ("left", "right", "sign"),
    [
        (None, None, 0),
        (None, -INF, -1),
        (None, "", -1),
        (False, None, 1),
        (NAN, NAN, 0),
        (NAN, INF, 1),
        (-INF, -(10**400), -1),
        (INF, 10**400, 1),
        (-0.0, 0.0, 0),
        (0, -0.0, 0),
        (2**53 + 1, 9007199254740992.0, 1),
        (2**53, 9007199254740992.0, 0),
        (Decimal("0.1"), 0.1, -1),  # the float is 0.1000000000000000055...
        (Decimal("0.50"), 0.5, 0),
        (Decimal("1.0"), 1, 0),
        (2**63 - 1, Decimal(2**63), -1),
        (Decimal("NaN"), NAN, 0),
        ("Z", "a", -1),
        ("a", "ab", -1),
        ("\uffff", "\U00010000", -1),  # the other way round in UTF-16
        ("e\u0301", "\u00e9", -1),  # no normalisation
        (False, True, -1),
        (date(2020, 2, 29), date(2020, 3, 1), -1),
        (datetime(2020, 1, 1, 12), datetime(2020, 1, 1, 12, tzinfo=UTC), 0),  # noqa: DTZ001
        (
            datetime(2020, 1, 1, 12, tzinfo=timezone(timedelta(hours=1))),
            datetime(2020, 1, 1, 11, tzinfo=UTC),
            0,
        ),
        (
            datetime(2020, 1, 1, 12, tzinfo=timezone(timedelta(hours=1))),
            datetime(2020, 1, 1, 12, tzinfo=UTC),
            -1,
        ),
    ],
)
def test_compare(left: Value, right: Value, sign: int) -> None:
    assert compare(left, right) == sign
    assert compare(right, left) == -sign
    assert same(left, right) == (sign == 0) == (canonical(left) == canonical(right))


@pytest.mark.parametrize(
    ("left", "right", "ordered", "expected"),
    [
        (1, 2, True, "<"),
        (2, 2, True, "="),
        (3, 2, True, ">"),
        (1, 2, False, "!="),
        ("a", "b", False, "!="),
        ("a", "a", False, "="),
        ("a", "b", True, "<"),
        (None, None, False, "="),
        (None, "a", False, "!="),
        (None, -5, True, "<"),
        (NAN, 5, True, ">"),
        (NAN, None, True, ">"),
        (NAN, NAN, False, "="),
    ],
)
def test_outcome(left: Value, right: Value, ordered: bool, expected: str) -> None:
    assert outcome(left, right, ordered=ordered) == expected


@pytest.mark.parametrize(
    ("left", "right"), [(True, 1), ("1", 1), (date(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)), ("", None)]
)
def test_groups_never_match(left: Value, right: Value) -> None:
    assert not same(left, right)
    assert canonical(left) != canonical(right)


def test_comparing_two_groups_is_an_error() -> None:
    with pytest.raises(ValueError, match="different type groups"):
        compare(1, "1")


def test_row_identity() -> None:
    assert same_row((None, NAN, -0.0, Decimal("1.10")), (None, NAN, 0.0, Decimal("1.1")))
    assert not same_row((None,), ("",))
    assert not same_row((1,), (1, 1))


# Values, the types of text columns


@pytest.mark.parametrize(
    ("texts", "type_name", "values"),
    [
        (["1", "-2", "+3", "0", ""], "integer", (1, -2, 3, 0, None)),
        (["9223372036854775807", "-9223372036854775808"], "integer", (2**63 - 1, -(2**63))),
        (["9223372036854775808", "1"], "decimal(38,0)", (Decimal(2**63), Decimal(1))),
        (["9" * 38], "decimal(38,0)", (Decimal("9" * 38),)),
        (["9" * 39], "float", (1e39,)),
        (["01907", "1907"], "string", ("01907", "1907")),
        (["00"], "string", ("00",)),
        (["1", "2.5"], "float", (1.0, 2.5)),
        (["1.0"], "float", (1.0,)),
        (["1e3", "-2E-1", ".5", "5."], "float", (1000.0, -0.2, 0.5, 5.0)),
        (["inf", "-Infinity", "1"], "float", (INF, -INF, 1.0)),
        (["01907.5"], "string", ("01907.5",)),
        ([" 1"], "string", (" 1",)),
        (["1_000"], "string", ("1_000",)),
        (["١"], "string", ("١",)),
        (["NA", "1"], "string", ("NA", "1")),
        (["NULL", ""], "string", ("NULL", None)),
        (["2020-02-29", ""], "date", (date(2020, 2, 29), None)),
        (["2021-02-29"], "string", ("2021-02-29",)),
        (["20200229"], "integer", (20200229,)),
        (["2020-02-29", "5"], "string", ("2020-02-29", "5")),
        (["2020-01-01T10:00:00", "2020-01-01 10:00:00.5Z"], "timestamp", None),
        (["2020-01-01", "2020-01-01T00:00:00"], "string", ("2020-01-01", "2020-01-01T00:00:00")),
        (["true", "false", ""], "boolean", (True, False, None)),
        (["True"], "string", ("True",)),
        (["true", "1"], "string", ("true", "1")),
    ],
)
def test_inference(texts: list[str], type_name: str, values: tuple[Value, ...] | None) -> None:
    inferred = infer(texts)
    assert (inferred.type_name, inferred.assumed) == (type_name, False)
    if values is not None:
        assert inferred.values == values
        assert [type(value) for value in inferred.values] == [type(value) for value in values]


def test_inference_of_timestamps_reads_naive_as_utc() -> None:
    inferred = infer(["2020-01-01T10:00", "2020-01-01T12:00:00+02:00", "2020-01-01 10:00:00.000Z"])
    assert inferred.type_name == "timestamp"
    assert inferred.values == (datetime(2020, 1, 1, 10, tzinfo=UTC),) * 3


def test_inference_without_values_assumes_string() -> None:
    assert infer(["", ""]) == infer(["NA", "NA"], null_token="NA")
    assert infer([]).type_name == "string"
    assert infer([]).assumed
    assert infer([""]).values == (None,)


def test_inference_with_another_null_token() -> None:
    assert infer(["1", "NA"], null_token="NA").values == (1, None)
    assert infer(["1", ""], null_token="NA").type_name == "string"


def test_inference_of_nan_in_any_case() -> None:
    inferred = infer(["nan", "-NaN", "NAN", "1"])
    assert inferred.type_name == "float"
    assert [same(value, NAN) for value in inferred.values] == [True, True, True, False]


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("integer", "9223372036854775808"),
        ("integer", "1.0"),
        ("integer", ""),
        ("float", "0x1"),
        ("decimal(4,2)", "1.234"),
        ("decimal(4,2)", "100"),
        ("date", "2020-1-1"),
        ("timestamp", "2020-01-01"),
        ("timestamp", "2020-01-01T24:00:00"),
        ("timestamp", "0001-01-01T00:00:00+01:00"),
        ("boolean", "yes"),
    ],
)
def test_a_value_that_does_not_fit_its_type(type_name: str, text: str) -> None:
    with pytest.raises(ValueError):
        parse(type_name, text)


def test_parsing_declared_decimals() -> None:
    assert parse("decimal(4,2)", "-99.99") == Decimal("-99.99")
    assert parse("decimal(4,2)", "1.500") == Decimal("1.5")
    assert group_of_type("decimal(4,2)") == type_group(Decimal(1)) == "number"


# Denial constraints: spaces


def test_default_orders_of_the_groups() -> None:
    groups = ["number", "date", "timestamp", "string", "boolean"]
    assert [Column("X", group).is_ordered for group in groups] == [True, True, True, False, False]
    assert Column("X", "string", ordered=True).is_ordered
    assert not Column("X", "number", ordered=False).is_ordered


@pytest.mark.parametrize(
    ("left", "right", "share"),
    [
        ([1, 1, 2, None], [1, 2, 2, 3], Fraction(2, 5)),  # smaller 1+1+0, larger 2+2+1
        ([1, 2, 3, 4, 5, 6], [1, 2, 3, 7, 8, 9, 10], Fraction(3, 10)),
        ([1, 2, 3, 4, 5, 6], [1, 2, 3, 7, 8, 9, 10, 11], Fraction(3, 11)),
        ([None], [None], Fraction(0)),
        ([], [1], Fraction(0)),
        ([NAN, -0.0], [NAN, 0], Fraction(1)),
        ([0.1], [Decimal("0.1")], Fraction(0)),
    ],
)
def test_share_of_common_values(left: list[Value], right: list[Value], share: Fraction) -> None:
    assert denial.common_share(left, right) == denial.common_share(right, left) == share


def test_automatic_space_takes_thirty_percent_exactly() -> None:
    seed: list[Row] = list(itertools.zip_longest([1, 2, 3, 4, 5, 6], [1, 2, 3, 7, 8, 9, 10]))
    assert [(pair.left, pair.right) for pair in denial.automatic_space([A, B], seed)] == [
        (0, 0),
        (1, 1),
        (0, 1),
    ]
    assert [(pair.left, pair.right) for pair in denial.automatic_space([A, B], [*seed, (None, 11)])] == [
        (0, 0),
        (1, 1),
    ]


def test_automatic_space_keeps_groups_apart() -> None:
    rows: list[Row] = [(1, True, "1"), (0, False, "0")]
    space = denial.automatic_space([A, Column("B", "boolean"), S], rows)
    assert space == denial.own_space([A, Column("B", "boolean"), S])


def test_listed_space_orders_pairs_and_needs_one_group() -> None:
    space = denial.listed_space([A, B, C], [(2, 0)])
    assert [(pair.left, pair.right, pair.ordered) for pair in space] == [
        (0, 0, True),
        (1, 1, True),
        (2, 2, True),
        (0, 2, True),
    ]
    with pytest.raises(ValueError, match="different type groups"):
        denial.listed_space([A, S], [(0, 1)])


def test_a_cross_pair_is_ordered_when_both_columns_are() -> None:
    space = denial.listed_space([S, Column("T", "string", ordered=True)], [(0, 1)])
    assert [pair.ordered for pair in space] == [False, True, False]


# Denial constraints: evidence, boxes, the reported set

TAX = (Column("State", "string"), Column("Salary", "number"), Column("Rate", "number"))
TAX_ROWS: list[Row] = [("NY", 10, 1), ("NY", 20, 2), ("NJ", 10, 3)]
TAX_RULE = [("State", "=", "State"), ("Salary", ">", "Salary"), ("Rate", "<", "Rate")]


def test_evidence_by_hand() -> None:
    space = denial.own_space(TAX)
    assert denial.evidence(TAX_ROWS[0], TAX_ROWS[1], space) == ("=", "<", "<")
    assert denial.evidence(TAX_ROWS[2], TAX_ROWS[1], space) == ("!=", "<", ">")
    assert denial.evidences(TAX_ROWS, space) == {
        ("=", "<", "<"): 1,
        ("=", ">", ">"): 1,
        ("!=", "=", "<"): 1,
        ("!=", "=", ">"): 1,
        ("!=", ">", "<"): 1,
        ("!=", "<", ">"): 1,
    }


def test_evidence_across_columns_is_no_permutation() -> None:
    space = denial.listed_space([A, B], [(0, 1)])
    assert denial.evidence((1, 2), (2, 3), space) == ("<", "<", "<")
    assert denial.evidence((2, 3), (1, 2), space) == (">", ">", "=")


def test_violation_and_holding() -> None:
    space = denial.own_space(TAX)
    box = denial.box_of(TAX_RULE, space, TAX)
    assert denial.holds(TAX_ROWS, box, space)
    rows = [*TAX_ROWS, ("NY", 15, 5)]
    assert denial.violating_pairs(rows, box, space) == [(1, 3)]
    assert denial.violates(rows[1], rows[3], box, space)
    assert not denial.violates(rows[3], rows[1], box, space)


def test_equal_rows_are_two_rows() -> None:
    space = denial.own_space([A])
    key = denial.box_of([("A", "=", "A")], space, [A])
    assert denial.violating_pairs([(1,), (1,)], key, space) == [(0, 1), (1, 0)]


@pytest.mark.parametrize(
    ("strong", "weak", "expected"),
    [
        ([("A", "=", "A")], [("A", "=", "A"), ("S", "!=", "S")], True),
        ([("A", "<=", "A")], [("A", "=", "A")], True),
        ([("A", "!=", "A")], [("A", ">", "A")], True),
        ([("A", "<", "A")], [("A", ">=", "A")], False),
        ([("A", "=", "A")], [("S", "=", "S")], False),
        ([], [("A", "=", "A")], True),
    ],
)
def test_implication(strong: list[tuple[str, str, str]], weak: list[tuple[str, str, str]], expected: bool) -> None:
    space = denial.own_space([A, S])
    first, second = (denial.box_of(listed, space, [A, S]) for listed in (strong, weak))
    assert denial.implies(first, second) == expected
    if first != second:
        assert not denial.implies(second, first)


def test_implication_up_to_mirror() -> None:
    space = denial.own_space([A, B])
    strong = denial.box_of([("B", "<", "B")], space, [A, B])
    weak = denial.box_of([("A", "<", "A"), ("B", ">", "B")], space, [A, B])
    assert not denial.implies(strong, weak)
    assert denial.implies_up_to_mirror(strong, weak, space)


REPORTED: list[tuple[list[Column], list[Row], set[str]]] = [
    ([A], [], set()),
    ([A], [(1,)], set()),
    ([A], [(1,), (2,)], {"not(t.A = s.A)"}),
    ([A], [(1,), (1,)], {"not(t.A != s.A)"}),
    ([A], [(1,), (1,), (2,)], set()),
    ([A], [(None,), (None,)], {"not(t.A != s.A)"}),
    ([A], [(None,), (NAN,), (0,)], {"not(t.A = s.A)"}),
    ([A], [(0.0,), (-0.0,)], {"not(t.A != s.A)"}),
    ([S], [("a",), (None,)], {"not(t.S = s.S)"}),
    # edges {A<,S=} {A>,S=}: hit by {S=} or {A<,A>}
    ([A, S], [(1, "x"), (2, "x")], {"not(t.A = s.A)", "not(t.S != s.S)"}),
    # edges {A<,B<} {A>,B>}: hit by {A<,A>} {A<,B>} {A>,B<} {B<,B>}; the middle two are mirror images
    ([A, B], [(1, 1), (2, 2)], {"not(t.A = s.A)", "not(t.B = s.B)", "not(t.A <= s.A and t.B >= s.B)"}),
    # the same with B falling
    ([A, B], [(1, 2), (2, 1)], {"not(t.A = s.A)", "not(t.B = s.B)", "not(t.A <= s.A and t.B <= s.B)"}),
    # edges {A=,S!=}
    ([A, S], [(1, "x"), (1, "y")], {"not(t.A != s.A)", "not(t.S = s.S)"}),
    # a duplicate row: the edge {A=,S=} beside {A<,S!=} {A>,S!=}
    (
        [A, S],
        [(1, "x"), (1, "x"), (2, "y")],
        {"not(t.A = s.A and t.S != s.S)", "not(t.A != s.A and t.S = s.S)"},
    ),
    ([], [(), ()], set()),
]


@pytest.mark.parametrize(("columns", "rows", "expected"), REPORTED)
def test_reported_set_by_hand(columns: list[Column], rows: list[Row], expected: set[str]) -> None:
    space = denial.own_space(columns)
    assert set(denial.reported(rows, space, columns)) == expected
    assert set(denial.reported(rows, space, columns, method=denial.maximal_boxes_by_search)) == expected


def test_reported_set_across_columns_by_hand() -> None:
    # edges {AA<,AB<,BB<} {AA>,AB=,BB>}: nine covers of two bits, two of them mirror images of each other
    space = denial.listed_space([A, B], [(0, 1)])
    rows: list[Row] = [(1, 2), (2, 3)]
    assert len(denial.maximal_boxes(denial.evidences(rows, space), space)) == 9
    assert set(denial.reported(rows, space, [A, B])) == {
        "not(t.A = s.A)",
        "not(t.B = s.B)",
        "not(t.A <= s.A and t.B >= s.B)",
        "not(t.A > s.B)",
        "not(t.A <= s.A and t.A >= s.B)",
        "not(t.A >= s.A and t.A != s.B)",
        "not(t.B <= s.B and t.A >= s.B)",
        "not(t.B >= s.B and t.A != s.B)",
    }


def test_bound_keeps_small_ones_of_the_complete_set() -> None:
    space = denial.own_space([A, B])
    rows: list[Row] = [(1, 1), (2, 2)]
    assert set(denial.reported(rows, space, [A, B], 1)) == {"not(t.A = s.A)", "not(t.B = s.B)"}
    assert denial.reported(rows, space, [A, B], 2) == denial.reported(rows, space, [A, B])


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([("S", "=", "S")], "key"),
        ([("A", "=", "A"), ("S", "=", "S")], "key"),
        ([("A", "!=", "A")], "constant"),
        ([("A", "=", "A"), ("S", "!=", "S")], "functional_dependency"),
        ([("A", "!=", "A"), ("S", "!=", "S")], "other"),
        ([("A", "=", "A"), ("B", "!=", "B"), ("S", "!=", "S")], "other"),
        ([("A", "=", "A"), ("B", "<", "B"), ("S", "!=", "S")], "other"),
        ([("A", "<=", "A")], "other"),
        ([("A", "=", "B")], "other"),
        ([("A", "=", "B"), ("S", "!=", "S")], "other"),
        ([], "other"),
    ],
)
def test_kind(listed: list[tuple[str, str, str]], expected: str) -> None:
    columns = [A, B, S]
    space = denial.listed_space(columns, [(0, 1)])
    assert denial.kind(denial.box_of(listed, space, columns), space, columns) == expected


def test_text_and_names() -> None:
    columns = [Column("Marital-status", "string"), Column("a`b", "number"), Column("größe", "number")]
    space = denial.own_space(columns)
    box = denial.box_of(
        [("größe", "<=", "größe"), ("a`b", "!=", "a`b"), ("Marital-status", "=", "Marital-status")],
        space,
        columns,
    )
    assert denial.text(box, space, columns) == (
        "not(t.`Marital-status` = s.`Marital-status` and t.`a``b` != s.`a``b` and t.`größe` <= s.`größe`)"
    )
    assert [denial.quoted(name) for name in ("_x1", "1x", "", "a b")] == ["_x1", "`1x`", "``", "`a b`"]


def test_the_written_image_is_the_smaller_text() -> None:
    space = denial.own_space(TAX)
    box = denial.box_of(TAX_RULE, space, TAX)
    assert denial.text(denial.written(box, space, TAX), space, TAX) == (
        "not(t.State = s.State and t.Salary < s.Salary and t.Rate > s.Rate)"
    )
    crossing = denial.listed_space(TAX, [(1, 2)])
    mixed = denial.box_of([*TAX_RULE, ("Salary", "=", "Rate")], crossing, TAX)
    assert denial.written(mixed, crossing, TAX) == mixed


def test_predicates_on_one_pair_are_one_side_of_the_box() -> None:
    space = denial.own_space([A, S])
    box = denial.box_of([("A", "<=", "A"), ("A", "!=", "A")], space, [A, S])
    assert denial.text(box, space, [A, S]) == "not(t.A < s.A)"
    assert denial.size(box, space) == 1
    with pytest.raises(ValueError, match="contradict"):
        denial.box_of([("A", "<", "A"), ("A", ">", "A")], space, [A, S])
    with pytest.raises(ValueError, match="not ordered"):
        denial.box_of([("S", "<", "S")], space, [A, S])


def test_json_fields_of_a_denial_constraint() -> None:
    space = denial.own_space(TAX)
    box = denial.box_of(TAX_RULE[:1], space, TAX)
    # sha256 of ["dc","tax","not(t.State = s.State)"]
    assert denial.json_fields(box, space, TAX, "tax") == {
        "family": "dc",
        "table": "tax",
        "constraint": "not(t.State = s.State)",
        "id": "3e17c88edd9c36e4b136976907a78afaf8c9754e8f80d24751a94c1b64445167",
        "kind": "key",
        "predicates": [{"left": "State", "op": "=", "right": "State"}],
        "size": 1,
    }


# Denial constraints: self-checks and differential tests

NUMBERS: list[Value] = [None, 0, 1, 2.5, NAN, -0.0, Decimal("2.5")]
STRINGS: list[Value] = [None, "", "a", "b"]


def random_rows(rng: random.Random, columns: Sequence[Column], count: int) -> list[Row]:
    domains: dict[str, list[Value]] = {"number": NUMBERS, "string": STRINGS, "boolean": [None, True, False]}
    narrowed: list[list[Value]] = [rng.sample(domains[column.group], rng.randint(1, 3)) for column in columns]
    return [tuple(rng.choice(domain) for domain in narrowed) for _ in range(count)]


def random_space(rng: random.Random, columns: Sequence[Column], rows: Sequence[Row]) -> Space:
    return rng.choice([denial.own_space(columns), denial.automatic_space(columns, rows)])


@pytest.mark.parametrize("seed", SEEDS)
def test_two_methods_give_the_same_maximal_boxes(seed: int) -> None:
    rng = random.Random(seed)
    columns = [[A, S], [A, B], [A, B, S], [S, Column("T", "string"), Column("F", "boolean"), A]][seed % 4]
    rows = random_rows(rng, columns, rng.randint(0, 7))
    space = random_space(rng, columns, rows)
    points = denial.evidences(rows, space)
    found = denial.maximal_boxes(points, space)
    assert found == denial.maximal_boxes_by_search(points, space)
    for box in found:
        assert denial.holds(rows, box, space)
        assert not any(denial.implies(other, box) for other in found - {box})


@pytest.mark.parametrize("seed", SEEDS)
def test_the_reported_set_decides_every_constraint(seed: int) -> None:
    rng = random.Random(seed)
    columns = [A, B, S]
    rows = random_rows(rng, columns, rng.randint(2, 6))
    space = denial.own_space(columns)
    found = denial.reported(rows, space, columns).values()
    for box in denial.all_boxes(space):
        assert denial.holds(rows, box, space) == any(
            denial.implies_up_to_mirror(strong, box, space) for strong in found
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_row_order_and_copies_of_pairs_do_not_matter(seed: int) -> None:
    rng = random.Random(seed)
    columns = [A, B, S]
    rows = random_rows(rng, columns, 6)
    space = denial.listed_space(columns, [(0, 1)])
    shuffled = rng.sample(rows, len(rows))
    assert denial.reported(rows, space, columns) == denial.reported(shuffled, space, columns)
    tripled = [*rows, *rows, *rows]
    doubled = [*rows, *rows]
    assert denial.reported(tripled, space, columns) == denial.reported(doubled, space, columns)


PREDICATE = re.compile(r"t\.(\w+) (\S+) s\.(\w+)")


@pytest.mark.parametrize("seed", SEEDS)
def test_denial_constraints_equal_fastadc(seed: int) -> None:
    desbordante = pytest.importorskip("desbordante")
    pandas = pytest.importorskip("pandas")
    rng = random.Random(seed)
    columns = [Column(f"c{place}", rng.choice(["number", "string"])) for place in range(rng.randint(1, 5))]
    rows = plain_rows(rng, columns, rng.randint(2, 14))
    algorithm = desbordante.dc.algorithms.FastADC()
    algorithm.load_data(table=pandas.DataFrame(rows, columns=[column.name for column in columns]))
    algorithm.execute(
        evidence_threshold=0.0, allow_cross_columns=False, minimum_shared_value=0.3, shard_length=2, threads=2
    )
    space = denial.own_space(columns)
    theirs = set()
    for found in algorithm.get_dcs():
        listed = [(left, name.replace("==", "="), right) for left, name, right in PREDICATE.findall(str(found))]
        box = denial.box_of(listed, space, columns)
        theirs.add(denial.text(denial.written(box, space, columns), space, columns))
    assert set(denial.reported(rows, space, columns)) == theirs


def plain_rows(rng: random.Random, columns: Sequence[Column], count: int) -> list[Row]:
    widths = [rng.randint(1, 5) for _ in columns]
    return [
        tuple(
            rng.randint(0, width) if column.group == "number" else "uvwxyz"[rng.randint(0, width)]
            for column, width in zip(columns, widths, strict=True)
        )
        for _ in range(count)
    ]


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


# Rules

T_SALARY = rules.Field("t", "Salary")
SALARY = (Column("Name", "string"), Column("Salary", "number"), Column("Limit", "number"))
SALARIES = table(
    "pay",
    SALARY,
    [("a", 5, 5), ("b", 0, None), ("c", None, 3), (None, -1, -2), ("e", NAN, 0)],
)


def against(operator: str, constant: Value) -> rules.Comparison:
    return rules.Comparison(T_SALARY, operator, rules.Constant(constant))


@pytest.mark.parametrize(
    ("rule", "violating"),
    [
        (rules.Forbid((against("<=", 0),)), {1, 3}),
        (rules.Forbid((against(">", 0),)), {0, 4}),
        (rules.Forbid((against("=", NAN),)), {4}),
        (rules.Forbid((against("!=", 0),)), {0, 3, 4}),
        (rules.Require((against(">", 0),)), {1, 3}),
        (rules.Require((against("=", 5),)), {1, 3, 4}),
        (rules.Forbid((rules.NullTest(T_SALARY),)), {2}),
        (rules.Forbid((rules.NullTest(T_SALARY, wanted=False),)), {0, 1, 3, 4}),
        (rules.Require((rules.NullTest(T_SALARY, wanted=False),)), {2}),
        (rules.Require((rules.NullTest(T_SALARY),)), {0, 1, 3, 4}),
        (rules.Forbid((against("<=", 0), rules.NullTest(rules.Field("t", "Name")))), {3}),
        (rules.Require((against(">", 0), rules.NullTest(T_SALARY, wanted=False))), {1, 2, 3}),
        (rules.Forbid((rules.Comparison(rules.Field("t", "Name"), "!=", rules.Constant("a")),)), {1, 2, 4}),
        # null below every value: 0 > null, null < 3
        (rules.Forbid((rules.Comparison(T_SALARY, ">", rules.Field("t", "Limit")),)), {3, 4}),
        (rules.Require((rules.Comparison(T_SALARY, "<=", rules.Field("t", "Limit")),)), {3, 4}),
    ],
)
def test_single_row_rules(rule: rules.Rule, violating: set[int]) -> None:
    assert rules.pairs(rule, SALARIES) is None
    assert rules.rows(rule, SALARIES) == violating


def meets(left: str, operator: str, right: str) -> rules.Comparison:
    return rules.Comparison(rules.Field("t", left), operator, rules.Field("s", right))


TAXES = table("tax", TAX, [("NY", 20, 2), ("NY", 15, 5), ("NY", 10, 6), ("NJ", 15, 1), ("NJ", 15, None)])


@pytest.mark.parametrize(
    ("rule", "violating_pairs", "violating_rows"),
    [
        # (20,2) above (15,5) and (10,6), (15,5) above (10,6)
        (
            rules.Forbid((meets("State", "=", "State"), meets("Salary", ">", "Salary"), meets("Rate", "<", "Rate"))),
            3,
            3,
        ),
        (rules.Key(("State",)), 6 + 2, 5),
        (rules.Key(("State", "Salary")), 2, 2),
        (rules.FunctionalDependency(("Salary",), ("Rate",)), 6, 3),
        (rules.FunctionalDependency(("Salary",), ("State", "Rate")), 6, 3),
        (rules.FunctionalDependency(("Salary",), ("State",)), 4, 3),
        (rules.FunctionalDependency((), ("State",)), 12, 5),
        (rules.Ordering((), ("State",)), 12, 5),
        (rules.Ordering(("State",), ("Salary", "Rate"), "same"), 3, 3),
        (rules.Ordering(("State",), ("Salary", "Rate"), "opposite"), 0, 0),
        # strings by code point: NJ < NY, Rate null < 1 < 2 < 5 < 6
        (rules.Ordering((), ("State", "Rate"), "opposite"), 6, 5),
        (
            rules.Forbid(
                (
                    rules.Comparison(rules.Field("t", "State"), "=", rules.Constant("NJ")),
                    meets("Salary", "=", "Salary"),
                )
            ),
            4,
            3,
        ),
        (rules.Forbid((rules.NullTest(rules.Field("s", "Rate")), meets("Salary", "=", "Salary"))), 2, 3),
    ],
)
def test_pair_rules(rule: rules.Rule, violating_pairs: int, violating_rows: int) -> None:
    verdict = rules.judge(rule, TAXES)
    assert (verdict.violating_pairs, verdict.violating_rows) == (violating_pairs, violating_rows)
    assert verdict.missing_values is None
    assert verdict.holds == (violating_rows == 0)
    assert verdict.broken == (not verdict.holds)


def test_inclusion_rules() -> None:
    left = table("l", [A], [(1,), (2,), (2,), (None,), (3,)])
    right = table("r", [A], [(1,)])
    verdict = rules.judge(rules.Inclusion("A", "r", "A"), left, {"r": right})
    assert verdict == rules.Verdict(None, 3, 2, holds=False, broken=True)
    back = rules.judge(rules.Inclusion("A", "l", "A"), right, {"l": left})
    assert back == rules.Verdict(None, 0, 0, holds=True, broken=False)


@pytest.mark.parametrize(
    ("thresholds", "broken"),
    [
        ({}, True),
        ({"max_violating_pairs": 3}, False),
        ({"max_violating_pairs": 2}, True),
        ({"max_violating_rows": 3}, False),
        ({"max_violating_rows": 2}, True),
        ({"max_violating_rows": Fraction(60, 100)}, False),
        ({"max_violating_rows": Fraction(59, 100)}, True),
        ({"max_violating_pairs": Fraction(3, 20)}, False),
        ({"max_violating_pairs": Fraction(2, 20), "max_violating_rows": 5}, True),
    ],
)
def test_thresholds(thresholds: dict[str, rules.Threshold], broken: bool) -> None:
    rule = rules.Ordering(("State",), ("Salary", "Rate"), "same")  # 3 of 20 pairs, 3 of 5 rows
    verdict = rules.judge(
        rule,
        TAXES,
        max_violating_pairs=thresholds.get("max_violating_pairs"),
        max_violating_rows=thresholds.get("max_violating_rows"),
    )
    assert (verdict.holds, verdict.broken) == (False, broken)


def test_a_rule_on_an_empty_table_holds() -> None:
    empty = table("tax", TAX, [])
    share = Fraction(1, 1000)
    assert rules.judge(rules.Key(("State",)), empty, max_violating_rows=share) == rules.Verdict(
        0, 0, None, holds=True, broken=False
    )


def test_order_on_an_unordered_column_is_an_error() -> None:
    with pytest.raises(ValueError, match="not ordered"):
        rules.judge(rules.Forbid((meets("State", "<", "State"),)), TAXES)


@pytest.mark.parametrize("seed", SEEDS)
def test_rules_count_as_their_denial_constraints(seed: int) -> None:
    rng = random.Random(seed)
    columns = [A, B, S]
    one = table("r", columns, random_rows(rng, columns, 7))
    space = denial.listed_space(columns, [(0, 1)])
    key = denial.box_of([("A", "=", "A"), ("S", "=", "S")], space, columns)
    fd = denial.box_of([("S", "=", "S"), ("B", "!=", "B")], space, columns)
    mixed = denial.box_of([("A", "<=", "A"), ("A", ">", "B"), ("S", "!=", "S")], space, columns)
    forbidden = rules.Forbid((meets("A", "<=", "A"), meets("A", ">", "B"), meets("S", "!=", "S")))
    assert rules.pairs(rules.Key(("A", "S")), one) == set(denial.violating_pairs(one.rows, key, space))
    assert rules.pairs(rules.FunctionalDependency(("S",), ("B",)), one) == set(
        denial.violating_pairs(one.rows, fd, space)
    )
    assert rules.pairs(forbidden, one) == set(denial.violating_pairs(one.rows, mixed, space))


# Changes, the netting of a batch


def keyed(operation: str, key: int, row: Row | None, sequence: int) -> changes.KeyedChange:
    return changes.KeyedChange(operation, key, row, sequence)


STORED: dict[Hashable, Row] = {1: (1, "a"), 2: (2, NAN)}

NETTED: list[tuple[list[changes.KeyedChange], dict[Hashable, Row], dict[str, int]]] = [
    ([], STORED, {}),
    ([keyed("insert", 3, (3, "c"), 0)], STORED | {3: (3, "c")}, {"rows_in": 1, "inserted": 1}),
    ([keyed("insert", 1, (1, "b"), 0)], STORED | {1: (1, "b")}, {"rows_in": 1, "rows_out": 1, "updated": 1}),
    ([keyed("update", 3, (3, "c"), 0)], STORED | {3: (3, "c")}, {"rows_in": 1, "inserted": 1}),
    ([keyed("update", 2, (2.0, NAN), 0)], STORED, {}),
    ([keyed("delete", 1, None, 0)], {2: (2, NAN)}, {"rows_out": 1, "deleted": 1}),
    ([keyed("delete", 9, None, 0)], STORED, {"ignored": 1}),
    ([keyed("insert", 3, (3, "c"), 0), keyed("delete", 3, None, 1)], STORED, {"ignored": 1}),
    ([keyed("delete", 1, None, 0), keyed("insert", 1, (1, "a"), 1)], STORED, {}),
    (
        [keyed("insert", 1, (1, "z"), 5), keyed("insert", 1, (1, "y"), 4)],
        STORED | {1: (1, "z")},
        {"rows_in": 1, "rows_out": 1, "updated": 1},
    ),
]


@pytest.mark.parametrize(("batch", "expected", "counted"), NETTED)
def test_netting_with_a_key(
    batch: list[changes.KeyedChange], expected: dict[Hashable, Row], counted: dict[str, int]
) -> None:
    after, _, counts = changes.apply_keyed(STORED, batch)
    assert {key: canonical_row(row) for key, row in after.items()} == {
        key: canonical_row(row) for key, row in expected.items()
    }
    assert asdict(counts) == dict.fromkeys(asdict(counts), 0) | counted | {"rows": len(expected)}


def test_late_records_are_ignored_also_for_deleted_keys() -> None:
    after, kept, counts = changes.apply_keyed({}, [keyed("insert", 1, (1,), 7)], {1: 8, 2: 3})
    assert (after, kept, counts.late, counts.rows) == ({}, {1: 8, 2: 3}, 1, 0)
    after, kept, counts = changes.apply_keyed({}, [keyed("insert", 1, (1,), 9)], {1: 8})
    assert (after, kept, counts.late, counts.inserted) == ({1: (1,)}, {1: 9}, 0, 1)


def test_netting_without_a_key() -> None:
    plus, minus = (changes.KeylessChange(operation, (NAN, 1)) for operation in ("insert", "delete"))
    sums, counts = changes.apply_keyless([], [plus, plus, minus])
    assert [count for _, count in sums] == [1]
    assert (counts.rows_in, counts.rows_out, counts.owed, counts.rows) == (1, 0, 0, 1)
    sums, counts = changes.apply_keyless(sums, [minus, minus, minus])
    assert [count for _, count in sums] == [-2]
    assert (counts.rows_in, counts.rows_out, counts.newly_owed, counts.owed, counts.rows) == (0, 1, 2, 2, 0)
    assert changes.rows_of(sums) == []
    sums, counts = changes.apply_keyless(sums, [plus])
    assert (counts.rows_in, counts.rows_out, counts.newly_owed, counts.owed, counts.rows) == (0, 0, 0, 1, 0)
    sums, counts = changes.apply_keyless(sums, [plus, plus, plus])
    assert (counts.rows_in, counts.owed, counts.rows) == (2, 0, 2)
    assert len(changes.rows_of(sums)) == 2


def test_netting_without_a_key_joins_equal_rows() -> None:
    sums, counts = changes.apply_keyless(
        [((0.0, Decimal("1.0")), 1)], [changes.KeylessChange("delete", (-0.0, Decimal(1)))]
    )
    assert (sums, counts.rows_out, counts.owed) == ([], 1, 0)
    with pytest.raises(ValueError, match="update"):
        changes.apply_keyless([], [changes.KeylessChange("update", (1,))])


# Changes and their reasons

Change = changes.Change


def test_a_violated_key_and_its_release() -> None:
    few: dict[Hashable, Row] = {1: (1,), 2: (2,)}
    many = few | {3: (1,)}
    space = denial.own_space([A])
    assert changes.denial_changes(few, many, space, [A]) == {
        Change("disappeared", "not(t.A = s.A)", "violated", witnesses=frozenset({(1, 3), (3, 1)}))
    }
    assert changes.denial_changes(many, few, space, [A]) == {
        Change("appeared", "not(t.A = s.A)", "released", witnesses=frozenset({3}))
    }
    assert changes.denial_changes(many, many | {3: (3,)}, space, [A]) == {
        Change("appeared", "not(t.A = s.A)", "released", witnesses=frozenset({3}))
    }
    assert changes.denial_changes(many, {3: (1,), 2: (2,)}, space, [A]) == {
        Change("appeared", "not(t.A = s.A)", "released", witnesses=frozenset({1}))
    }


def test_implied_and_weakened() -> None:
    many: dict[Hashable, Row] = {1: (1, "x"), 2: (1, "x"), 3: (2, "y")}
    few: dict[Hashable, Row] = {1: (1, "x"), 3: (2, "y")}
    space = denial.own_space([A, S])
    a_key, s_key = "not(t.A = s.A)", "not(t.S = s.S)"
    a_to_s, s_to_a = "not(t.A = s.A and t.S != s.S)", "not(t.A != s.A and t.S = s.S)"
    assert changes.denial_changes(many, few, space, [A, S]) == {
        Change("appeared", a_key, "released", witnesses=frozenset({2})),
        Change("appeared", s_key, "released", witnesses=frozenset({2})),
        Change("disappeared", a_to_s, "implied", by=frozenset({a_key})),
        Change("disappeared", s_to_a, "implied", by=frozenset({s_key})),
    }
    pairs = frozenset({(1, 2), (2, 1)})
    assert changes.denial_changes(few, many, space, [A, S]) == {
        Change("disappeared", a_key, "violated", witnesses=pairs),
        Change("disappeared", s_key, "violated", witnesses=pairs),
        Change("appeared", a_to_s, "weakened", by=frozenset({a_key})),
        Change("appeared", s_to_a, "weakened", by=frozenset({s_key})),
    }


def test_the_first_pair_weakens_the_box_of_everything() -> None:
    space = denial.own_space([A])
    assert changes.denial_changes({1: (1,)}, {1: (1,), 2: (2,)}, space, [A]) == {
        Change("appeared", "not(t.A = s.A)", "weakened", by=frozenset({"not()"}))
    }
    assert changes.denial_changes({1: (1,), 2: (2,)}, {}, space, [A]) == {
        Change("disappeared", "not(t.A = s.A)", "implied", by=frozenset({"not()"}))
    }


def test_implication_through_the_mirror_image() -> None:
    few: dict[Hashable, Row] = {1: (1, 1), 2: (2, 2)}
    many = few | {3: (1, 2)}
    space = denial.own_space([A, B])
    found = {change.constraint: change for change in changes.denial_changes(few, many, space, [A, B])}
    rising = "not(t.A <= s.A and t.B >= s.B)"
    # (1,2) against (1,1) and (2,2): A= with B> or B<, A< or A> with B=
    assert {name for name, change in found.items() if change.reason == "violated"} == {
        "not(t.A = s.A)",
        "not(t.B = s.B)",
        rising,
    }
    assert found["not(t.A < s.A and t.B > s.B)"].by == {rising}
    assert found["not(t.A = s.A and t.B = s.B)"].by == {"not(t.A = s.A)", "not(t.B = s.B)", rising}


def test_order_changes_by_hand() -> None:
    one: dict[Hashable, Row] = {1: (1, 5)}
    two = one | {2: (1, 6)}
    three = two | {3: (2, 7)}
    assert changes.order_changes(one, two, [A, B]) == {
        Change("disappeared", "{}: [] -> B", "violated", witnesses=frozenset({(1, 2), (2, 1)}))
    }
    split = frozenset({(1, 3), (3, 1), (2, 3), (3, 2)})
    constant = frozenset({"{}: [] -> A"})
    assert changes.order_changes(two, three, [A, B]) == {
        Change("disappeared", "{}: [] -> A", "violated", witnesses=split),
        Change("appeared", "{B}: [] -> A", "weakened", by=constant),
        Change("appeared", "{}: A ~ B", "weakened", by=constant),
    }
    assert changes.order_changes(three, two, [A, B]) == {
        Change("appeared", "{}: [] -> A", "released", witnesses=frozenset({3})),
        Change("disappeared", "{B}: [] -> A", "implied", by=constant),
        Change("disappeared", "{}: A ~ B", "implied", by=constant),
    }


def test_inclusion_changes_by_hand() -> None:
    left = table("l", [A], [(1,), (2,)])
    narrow, wide = table("r", [A], [(1,)]), table("r", [A], [(1,), (2,)])
    assert changes.inclusion_changes([left, narrow], [left, wide]) == {
        Change("appeared", "l.A in r.A", "released", witnesses=frozenset({2}))
    }
    assert changes.inclusion_changes([left, wide], [left, narrow]) == {
        Change("disappeared", "l.A in r.A", "violated", witnesses=frozenset({2}))
    }
    assert changes.inclusion_changes([left, wide], [left, wide]) == set()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_change_has_a_cause(seed: int) -> None:
    rng = random.Random(seed)
    columns = [A, B, S]
    before: dict[Hashable, Row] = dict(enumerate(random_rows(rng, columns, rng.randint(0, 6))))
    after = {name: row for name, row in before.items() if rng.random() < 0.6}
    after |= {10 + name: row for name, row in enumerate(random_rows(rng, columns, rng.randint(0, 3)))}
    space = denial.listed_space(columns, [(0, 1)])
    for bound in (0, 2):
        found = changes.denial_changes(before, after, space, columns, bound)
        for change in found:
            assert change.by or change.witnesses
        current = set(denial.reported(list(before.values()), space, columns, bound))
        current -= {change.constraint for change in found if change.change == "disappeared"}
        current |= {change.constraint for change in found if change.change == "appeared"}
        assert current == set(denial.reported(list(after.values()), space, columns, bound))
    for change in changes.order_changes(before, after, columns, 1):
        assert change.by or change.witnesses


def test_the_oracles_share_nothing_with_the_product() -> None:
    folder = Path(denial.__file__).parent
    for source in folder.glob("*.py"):
        imported = re.findall(r"^\s*(?:from|import)\s+([\w.]+)", source.read_text(encoding="utf-8"), re.MULTILINE)
        for name in imported:
            assert name.startswith("tests.oracles") or name.split(".")[0] in sys.stdlib_module_names, source
