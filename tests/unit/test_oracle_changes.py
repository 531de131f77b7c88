"""The oracle of a batch of changes, tested by hand: what is left of the records, and why constraints change."""

from __future__ import annotations

import random
from dataclasses import asdict
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from tests.oracles import changes, denial
from tests.oracles.values import Row, canonical_row
from tests.unit.test_oracle_denial import random_rows
from tests.unit.test_oracle_orders import table
from tests.unit.test_oracles import NAN, SEEDS, A, B, S

if TYPE_CHECKING:
    from collections.abc import Hashable


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
