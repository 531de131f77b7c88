"""The oracles against hand-worked examples, against themselves, and against Desbordante.

Every expected value of the first kind was worked out on paper from the definition. *Self-checks* compare two
ways of the oracle on random tables; *differential* tests compare it with Desbordante. All seeds are fixed.
"""

from __future__ import annotations

import itertools
import math
import random
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from tests.oracles import denial
from tests.oracles.values import (
    Column,
    Row,
    Value,
    canonical,
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
    from collections.abc import Sequence

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
        (0, 1),
        (1, 1),
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
        (0, 2, True),
        (1, 1, True),
        (2, 2, True),
    ]
    with pytest.raises(ValueError, match="different type groups"):
        denial.listed_space([A, S], [(0, 1)])


def test_a_cross_pair_is_ordered_when_both_columns_are() -> None:
    space = denial.listed_space([S, Column("T", "string", ordered=True)], [(0, 1)])
    assert [pair.ordered for pair in space] == [False, False, True]


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
    assert denial.evidence((2, 3), (1, 2), space) == (">", "=", ">")


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
def test_implication(
    strong: list[tuple[str, str, str]], weak: list[tuple[str, str, str]], expected: bool
) -> None:
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
        "not(t.A >= s.B and t.B <= s.B)",
        "not(t.A != s.B and t.B >= s.B)",
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
