"""The oracle of denial constraints, tested by hand and against another program."""

from __future__ import annotations

import random
import re
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from tests.oracles import denial
from tests.oracles.values import Column, Row, Value
from tests.unit.test_oracles import NAN, SEEDS, A, B, S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.oracles.denial import Space


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
