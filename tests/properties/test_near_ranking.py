"""Oracle test: the strength of near constraints against its definition, written out over plain rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Maintainer
from holdfast.constraints import NearConstraint, NearShape
from holdfast.discovery.kernels.near import ContextGroups
from holdfast.discovery.near.discover import discover_near
from holdfast.discovery.near.swaps import sampled_pairs
from holdfast.tables import from_arrow
from tests.taxes import tax_records

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = dict[str, Any]

VALUES = st.sampled_from([0, 0, 0, 1, 2])
ROWS = st.lists(st.fixed_dictionaries(dict.fromkeys("abcd", VALUES)), min_size=1, max_size=25)


def groups_of(rows: Sequence[Row], columns: Sequence[str]) -> list[list[Row]]:
    found = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in columns)].append(row)
    return list(found.values())


def informative(rows: Sequence[Row], columns: Sequence[str]) -> int:
    return sum(len(group) - 1 for group in groups_of(rows, columns))


def constant(rows: Sequence[Row], columns: Sequence[str], target: Sequence[str], _: bool) -> tuple[float, float]:
    """Return exceptions, and among how many rows."""
    groups = groups_of(rows, columns)
    exceptions = sum(len(group) - max(Counter(row[target[0]] for row in group).values()) for group in groups)
    return exceptions, informative(rows, columns)


def swapping(rows: Sequence[Row], columns: Sequence[str], target: Sequence[str], opposite: bool) -> tuple[float, float]:
    """Return swaps and pairs that differ on both columns, as shares of the informative rows."""
    pairs = differing = swaps = 0
    for group in groups_of(rows, columns):
        for one, other in permutations(range(len(group)), 2):
            pairs += 1
            rise = [group[one][name] - group[other][name] for name in target]
            if rise[0] and rise[1]:
                differing += 1
                swaps += ((rise[0] > 0) == (rise[1] > 0)) == opposite
    by_pair = informative(rows, columns) / pairs if pairs else 0.0
    return swaps * by_pair, differing * by_pair


def strength(rows: Sequence[Row], near: NearConstraint) -> float:
    """Return the strength of a constraint by its definition."""
    parts = [[other for other in near.context if other != name] for name in near.context]
    if near.shape is NearShape.KEY:
        chance = float(len(rows))
        for others in parts if len(parts) > 1 else ():
            (column,) = set(near.context) - set(others)
            groups = len(groups_of(rows, others))
            pairs = max(len(rows) - groups, len(rows) * (len(rows) / groups - 1) / 2)
            chance = min(chance, pairs / len({row[column] for row in rows}))
        rate = informative(rows, near.context) + 2.0
    else:
        counted = constant if near.shape is NearShape.CONSTANT else swapping
        opposite = near.shape is NearShape.ORDER_DESC
        violations, among = counted(rows, near.context, near.target, opposite)
        rate, chance = (violations + 2) / (among + 4), 1.0 if counted is constant else 0.5
        for part in [*parts, *([[]] if near.context else [])]:
            some, of = counted(rows, part, near.target, opposite)
            chance = min(chance, some / of if of else 0.0)
    return max(0.0, 1 - rate / chance) if chance else 0.0


@given(ROWS, st.sampled_from([0, Fraction(1, 10), Fraction(1, 3)]))
def test_strengths_are_those_of_the_definition(rows: list[Row], share: Fraction) -> None:
    table = from_arrow(pa.Table.from_pylist(rows, pa.schema([(name, pa.int64()) for name in "abcd"])), "r")
    found = discover_near(table, Fraction(share), 3)
    for near, member in zip(found, found.found.members, strict=True):
        assert found.ranking.strength(member) == pytest.approx(strength(rows, near)), str(near)


def test_a_column_that_explains_nothing_takes_the_strength() -> None:
    """`noise` splits groups of `zip` at random; `city` follows `zip`, `lucky` is the same nearly everywhere."""
    rng = np.random.default_rng(1)
    n = 4_000
    zips = rng.integers(0, 200, n)
    city = zips // 4
    city[:20] = rng.integers(0, 50, 20)
    columns = {"zip": zips, "city": city, "noise": rng.integers(0, 60, n), "lucky": (rng.random(n) < 0.012).astype(int)}
    found = discover_near(from_arrow(pa.table(columns), "r"), Fraction(1, 100), 3)
    strengths = {str(near): found.ranking.strength(m) for near, m in zip(found, found.found.members, strict=True)}
    assert strengths["{zip}: [] -> city"] > 0.98
    by_chance = [text for text in strengths if "lucky" in text and "{}" not in text]
    assert by_chance
    assert max(strengths[text] for text in by_chance) < 0.5


def test_keys_that_collide_as_chance_has_it_have_no_strength() -> None:
    rng = np.random.default_rng(2)
    n = 5_000
    columns = {
        "order": np.arange(n) // 4,
        "line": np.arange(n) % 4,
        "first": rng.integers(0, 4_000, n),
        "last": rng.integers(0, 4_000, n),
    }
    found = discover_near(from_arrow(pa.table(columns), "r"), Fraction(1, 100), 3, families=["key"])
    strengths = {str(near): found.ranking.strength(m) for near, m in zip(found, found.found.members, strict=True)}
    assert strengths["key(order, line)"] > 0.95
    assert strengths["key(first, last)"] < 0.2


def test_the_rules_that_made_a_table_come_first() -> None:
    table = from_arrow(tax_records(5_000, error_rate=0.01), "tax")
    found = discover_near(table, Fraction(2, 100), 2, threads=2)
    best = {str(near) for _, near in found.top(12)}
    assert {"{Zip}: [] -> City", "{Zip}: [] -> State", "{AreaCode}: [] -> State"} <= best


@pytest.mark.parametrize("most", [1, 7, 1_000])
def test_sampled_pairs_agree_and_differ(most: int) -> None:
    groups = ContextGroups(np.array([4, 2, 9, 1, 7], np.int32), np.array([0, 2, 5]))
    left, right = sampled_pairs(groups, most)
    assert len(left) == len(right) == min(most, 8)
    among = [{4, 2}, {9, 1, 7}]
    pairs = list(zip(left.tolist(), right.tolist(), strict=True))
    assert all(a != b and any({a, b} <= group for group in among) for a, b in pairs)
    if most == 1_000:
        assert sorted(pairs) == sorted(pair for group in among for pair in permutations(group, 2))


@given(ROWS, ROWS, st.sampled_from([0, Fraction(1, 10), Fraction(1, 3)]))
def test_live_strengths_are_those_of_the_definition(rows: list[Row], more: list[Row], share: Fraction) -> None:
    """Of the constraints that nearly hold after rows came and others went."""
    kinds = pa.schema([(name, pa.int64()) for name in "abcd"])
    maintainer = Maintainer.seed(pa.Table.from_pylist(rows, kinds), name="r", max_predicates=None, near=share)
    maintainer.step(inserts=pa.Table.from_pylist(more, kinds), deletes=pa.Table.from_pylist(rows[:3], kinds))
    current = rows[3:] + more
    near = list(maintainer.near)
    assert maintainer.near_maintainer is not None
    for one, found in zip(near, maintainer.near_maintainer.strengths(near), strict=True):
        assert found == pytest.approx(strength(current, one)), str(one)
