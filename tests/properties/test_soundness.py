"""Oracle test: strength and support of constraints against their definition, written out over all pairs of rows."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import DenialConstraint, Family, PredicateSpace, parse_denial
from holdfast.constraints.scores import SOUND
from holdfast.discovery.discover import discover
from holdfast.discovery.ranking import scores_on
from holdfast.discovery.soundness import exact, measured, sampled
from holdfast.discovery.soundness.measured import Measured
from holdfast.discovery.soundness.strength import soundness
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.tables import Table, from_arrow, related
from tests.oracles.values import outcome
from tests.properties.tables import tables
from tests.taxes import tax_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.constraints.predicates import Predicate
    from tests.oracles.values import Column, Row
    from tests.oracles.values import Table as OracleTable

ALLOWED = {"=": "=", "!=": "< > !=", "<": "<", "<=": "< =", ">": ">", ">=": "> ="}


class Definition:
    """Strength and support of constraints on the rows of a table, copies included."""

    def __init__(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        self.names = [column.name for column in columns]
        self.ordered = [column.is_ordered for column in columns]
        self.rows = rows

    def satisfied(self, t: Row, s: Row, predicate: Predicate) -> bool:
        left, right = self.names.index(predicate.left), self.names.index(predicate.right)
        ordered = self.ordered[left] and self.ordered[right]
        return outcome(t[left], s[right], ordered=ordered) in ALLOWED[str(predicate.operator)].split()

    def groups(self, names: Sequence[str]) -> list[list[Row]]:
        """Return the rows in groups that agree on columns."""
        found: list[list[Row]] = []
        places = [self.names.index(name) for name in names]
        for row in self.rows:
            like = (g for g in found if all(outcome(row[p], g[0][p], ordered=False) == "=" for p in places))
            group = next(like, None)
            if group is None:
                found.append([row])
            else:
                group.append(row)
        return found

    def rate(self, others: Sequence[Predicate], last: Predicate) -> tuple[float, float]:
        """Return the rows to which some predicates apply, and the rate of the last one among them."""
        own = [p for p in others if is_agreement(p)]
        groups = self.groups([p.left for p in own])
        pairs = [pair for group in groups for pair in itertools.permutations(group, 2)]
        given = [(t, s) for t, s in pairs if all(self.satisfied(t, s, p) for p in others)]
        hit = sum(self.satisfied(t, s, last) for t, s in given)
        rows = sum(len(group) - 1 for group in groups)
        return (rows * len(given) / len(pairs) if pairs else 0.0), (hit / len(given) if given else 0.0)

    def of(self, constraint: DenialConstraint) -> tuple[float, float]:
        """Return the strength and the support."""
        predicates = list(constraint.predicates)
        if all(map(is_agreement, predicates)):
            return self.of_key([p.left for p in predicates])
        lasts = [p for p in predicates if str(p.operator) != "="] or [p for p in predicates if not is_agreement(p)]
        found = []
        for last in lasts:
            others = [p for p in predicates if p != last]
            support, violated = self.rate(others, last)
            assert not violated
            parts = [[p for p in others if p != without] for without in others]
            least = min((self.rate(part, last)[1] for part in [*parts, []] if others), default=1.0)
            unseen = 2 / (support + 4)
            found.append((max(0.0, 1 - unseen / least) if least else 0.0, support))
        return min(strength for strength, _ in found), min(support for _, support in found)

    def of_key(self, names: Sequence[str]) -> tuple[float, float]:
        n = len(self.rows)
        chance, support = float(n), float("inf")
        for column in names:
            others = len(self.groups([name for name in names if name != column]))
            support = min(support, n - others)
            if len(names) > 1:
                pairs = max(n - others, n * (n / others - 1) / 2)
                chance = min(chance, pairs / len(self.groups([column])))
        return (max(0.0, 1 - 2 / chance) if chance else 0.0), support


def is_agreement(predicate: Predicate) -> bool:
    return predicate.left == predicate.right and str(predicate.operator) == "="


@given(tables(max_columns=3, max_rows=9), st.booleans())
def test_strength_and_support_are_those_of_the_definition(both: tuple[OracleTable, Table], crosses: bool) -> None:
    theirs, table = both
    space = _space(theirs, table, crosses=crosses)
    _compare_with_the_definition(theirs, table, space, Measured.of_table(table, space))


@given(tables(max_columns=3, max_rows=9), st.booleans(), st.integers(1, 9), st.booleans())
def test_close_decisions_are_exact(
    both: tuple[OracleTable, Table], crosses: bool, rows: int, without_listing: bool
) -> None:
    """Few sampled rows and pairs, whose errors leave everything open: all that rows could decide is counted."""
    theirs, table = both
    space = _space(theirs, table, crosses=crosses)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured, "_ROWS", rows)
        patch.setattr(sampled, "_PAIRS", 1)
        patch.setattr(sampled, "_DEVIATIONS", 100)
        patch.setattr(exact, "_MOST_ROWS", 1 << 18 if without_listing else 0)
        _compare_with_the_definition(theirs, table, space, Measured.of_table(table, space))
        live = Maintainer.seed(table, space=space, threads=1)._rows
        _compare_with_the_definition(theirs, table, space, Measured.of_rows(live, space))


def _space(theirs: OracleTable, table: Table, *, crosses: bool) -> PredicateSpace:
    names = table.schema.names
    crossing = [
        (names[a], names[b])
        for a, b in itertools.combinations(range(len(names)), 2)
        if crosses and theirs.columns[a].group == theirs.columns[b].group
    ]
    return PredicateSpace.build(table.schema, crossing)


def _compare_with_the_definition(theirs: OracleTable, table: Table, space: PredicateSpace, on: Measured) -> None:
    found = discover(table, space=space, max_predicates=0)
    assert on.rows == table.row_count
    scored = soundness(found.constraints.masks, on, space)
    if on.rows < 2:
        assert not scored.strength.any()
        return
    definition = Definition(theirs.columns, theirs.rows)
    for constraint, strength, support in zip(found, scored.strength, scored.support, strict=True):
        assert isinstance(constraint, DenialConstraint)
        assert (strength, support) == pytest.approx(definition.of(constraint)), str(constraint)


@given(tables(max_columns=4, max_rows=9))
def test_threads_change_nothing(both: tuple[OracleTable, Table]) -> None:
    _, table = both
    found = discover(table, max_predicates=3)
    on, masks = Measured.of_table(table, found.space), found.constraints.masks
    one, many = (soundness(masks, on, found.space, threads=threads) for threads in (1, 3))
    assert one.strength.tolist() == many.strength.tolist()
    assert one.support.tolist() == many.support.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_decisions_on_a_sample_are_those_on_all_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 480
    order, day = rng.integers(0, n // 3, n), rng.integers(0, 40, n)
    columns = {
        "order": order,
        "customer": rng.integers(0, n // 8, n // 3)[order],
        "day": day,
        "week": day // 7,
        "paid": 3 * day + rng.integers(0, 2, n),
        **{f"noise_{i}": rng.integers(0, 9 + 90 * i, n) for i in range(2)},
    }
    table = from_arrow(pa.table(columns), "r")
    found = discover(table, max_predicates=3)
    masks, space = found.constraints.masks, found.space
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampled, "_PAIRS", 1 << 22)
        of_all = soundness(masks, Measured.of_table(table, space), space)
        patch.setattr(sampled, "_PAIRS", 400)
        patch.setattr(measured, "_ROWS", 160)
        of_some = soundness(masks, Measured.of_table(table, space), space)
        live = Maintainer.seed(table, space=space, threads=1)._rows
        of_live = soundness(masks, Measured.of_rows(live, space), space)
    is_sound = of_all.strength >= SOUND
    assert is_sound.any()
    assert not is_sound.all()
    for scored in (of_some, of_live):
        assert (scored.strength >= SOUND).tolist() == is_sound.tolist()
        large = of_all.support > n / 4
        assert scored.support[large] == pytest.approx(of_all.support[large], rel=0.4)


def test_groups_that_a_sample_of_the_rows_misses_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 of 6,000 rows hardly two have one order number; with all rows, half of them could have broken the rule."""
    rng = np.random.default_rng(8)
    n = 6_000
    order = rng.permutation(np.repeat(np.arange(n // 2), 2))
    columns = {"order": order, "customer": rng.integers(0, 900, n // 2)[order], "item": rng.integers(0, 99, n)}
    table = from_arrow(pa.table(columns), "r")
    space = PredicateSpace.build(table.schema, ())
    rule = np.array([space.words(space.mask(parse_denial("not(t.order = s.order and t.customer != s.customer)")))])
    monkeypatch.setattr(measured, "_ROWS", 300)
    live = Maintainer.seed(table, space=space, threads=1)._rows
    for on in (Measured.of_table(table, space), Measured.of_rows(live, space)):
        (score,) = scores_on(rule.astype(np.uint64), on, space)
        assert (score.sound, score.support) == (True, n // 2)
    (score,) = scores_on(rule.astype(np.uint64), Measured.of_table(table.between(0, 3_000), space, n), space)
    assert score.support == pytest.approx(2 * (3_000 - len(np.unique(order[:3_000]))))


def test_copies_of_a_row_are_rows() -> None:
    """Fifty rows that agree could have disagreed: the constant is as sound as a denial as it is as a near constraint."""
    table = from_arrow(pa.table({"a": [7] * 50, "b": [str(i % 25) for i in range(50)]}), "r")
    (score,) = (score for score, constraint in discover(table).top(9) if str(constraint) == "not(t.a != s.a)")
    (near,) = (score for score, one in discover(table, near=0).top(9) if str(one) == "{}: [] -> a")
    assert (score.support, score.sound) == (near.support, near.sound) == (49, True)


def test_what_holds_by_chance_is_not_sound() -> None:
    """`city` follows `zip` and `pay` rises with `grade` in a city; all else is noise, in which much holds by chance."""
    rng = np.random.default_rng(4)
    n = 3_000
    zips, grade = rng.integers(0, 90, n), rng.integers(0, 40, n)
    city = rng.permutation(30)[zips // 3]
    noise = {f"noise_{i}": rng.integers(0, 40 + 15 * i, n) for i in range(3)}
    columns = {"zip": zips, "city": city, "grade": grade, "pay": 7 * grade + 3 * city, **noise}
    found = discover(from_arrow(pa.table(columns), "r"), space=None, max_predicates=4)
    best = found.top(len(found))
    sound = {str(constraint) for score, constraint in best if score.sound}
    assert "not(t.zip = s.zip and t.city != s.city)" in sound
    assert "not(t.zip = s.zip and t.grade < s.grade and t.pay >= s.pay)" in sound
    assert "not(t.zip = s.zip and t.grade <= s.grade and t.pay > s.pay)" in sound
    assert not [text for text in sound if "noise" in text]
    assert len(sound) < len(found) / 3
    assert [score.sound for score, _ in best] == [True] * len(sound) + [False] * (len(found) - len(sound))


def test_order_dependencies_are_measured_too() -> None:
    rng = np.random.default_rng(5)
    day = rng.integers(0, 300, 2_000)
    columns = {"day": day, "number": 2 * day + 1, "noise": rng.permutation(2_000)}
    found = discover(from_arrow(pa.table(columns), "r"), family=Family.ORDER)
    assert {str(od) for score, od in found.top(len(found)) if score.sound} >= {"{}: day ~ number"}


def test_columns_that_share_values_by_chance_are_not_related() -> None:
    rng = np.random.default_rng(6)
    n = 2_000
    amounts = rng.choice(np.array([0, 0, 0, 1_250, 1_800, 2_400, 3_975, 4_100]), n)
    table = from_arrow(
        pa.table(
            {
                "age": rng.integers(17, 90, n),
                "hours": rng.integers(1, 99, n),
                "paid": amounts,
                "due": rng.permutation(amounts),
                "zeros": np.where(rng.random(n) < 0.9, 0, rng.integers(10**6, 10**9, n)),
                "gender": rng.choice(["M", "F"], n),
                "marital": rng.choice(["M", "S"], n),
                "from": rng.choice(["LAX", "JFK", "ORD", "SEA"], n),
                "to": rng.choice(["LAX", "JFK", "ORD", "BOS"], n),
            }
        ),
        "r",
    )

    def are_related(a: str, b: str) -> bool:
        return related(*(table.columns[table.schema.index(name)] for name in (a, b)))

    assert are_related("paid", "due")
    assert are_related("from", "to")
    assert not are_related("age", "hours")
    assert not are_related("paid", "zeros")
    assert not are_related("gender", "marital")


def test_the_rules_of_the_tax_records_are_sound() -> None:
    found = discover(from_arrow(tax_records(4_000), "tax"))
    best = found.top(20)
    assert best.sound is not None
    assert best.sound < len(found) / 2
    assert "not(t.State != s.State and t.Zip = s.Zip)" in {str(constraint) for _, constraint in best}
