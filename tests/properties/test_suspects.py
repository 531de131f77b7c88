"""Suspects: the kernel against a plain twin, and the search on tables whose wrong cells are known."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.constraints import UsageError
from holdfast.discovery.kernels.near import ContextGroups
from holdfast.discovery.kernels.suspects import FITTING, LEAST, MARGIN, MOST, Asked, Dependent, fitting_kernel
from holdfast.discovery.near.discover import discover_near
from holdfast.discovery.near.suspects import STRONG
from holdfast.tables import from_arrow, from_pandas
from tests.oracles import suspects as oracle
from tests.taxes import tax_records

WEIGHTS = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.0, 1.0])
GROUPS = st.lists(st.lists(st.tuples(st.integers(0, 3), WEIGHTS), min_size=2, max_size=7), max_size=4)


def fitting(group: list[tuple[int, float]], place: int, surprise: list[float]) -> tuple[float, set[int]]:
    """Return the log odds of a row, and the codes that may be expected of it."""
    own = 0.0
    others: dict[int, float] = defaultdict(float)
    for other, (code, weight) in enumerate(group):
        if other == place:
            continue
        if code == group[place][0]:
            own += weight
        else:
            others[code] += weight
    most = max(others.values(), default=0.0)
    if most - own >= MARGIN:
        expected = {code for code, weight in others.items() if weight == most}
        return min(MOST, 0.5 + math.log(most - own)), expected
    if own >= most and own >= FITTING:
        return max(LEAST, surprise[group[place][0]]) * own / (own + 1), {-1}
    return 0.0, {-1}


@given(GROUPS, st.sets(st.integers(0, 27)))
def test_rows_fit_as_the_twin_has_it(groups: list[list[tuple[int, float]]], asked: set[int]) -> None:
    """Rows that are not asked about weigh 1."""
    cells = iter(range(28))
    numbered = [[(next(cells), cell) for cell in group] for group in groups]
    weighted = [[(code, weight if n in asked else 1.0) for n, (code, weight) in group] for group in numbered]
    every = [cell for group in weighted for cell in group]
    n = len(every) + 1  # the last row is in no group
    rows = np.random.default_rng(0).permutation(n - 1).astype(np.int32)
    starts = np.cumsum([0, *map(len, groups)])
    chosen = [number for number in range(n - 1) if number in asked]
    codes, places = np.zeros(n, np.int32), np.full(n, -1, np.int32)
    codes[rows] = [code for code, _ in every]
    places[rows[chosen]] = np.arange(len(chosen))
    weights = np.array([every[number][1] for number in chosen])
    surprise = [-0.1, -1.0, -3.0, -9.0]
    odds, expected, sums = np.full(len(chosen), 7.0), np.full(len(chosen), -1, np.int32), np.zeros(4)
    violating = np.zeros(n, np.bool_)
    about = Asked(places, weights)
    dependent = Dependent(codes, np.array(surprise))
    fitting_kernel(ContextGroups(rows, starts), dependent, about, sums, odds, expected, violating)
    assert not sums.any()
    number = 0
    for some, group in zip(numbered, weighted, strict=True):
        is_read = not chosen or any(cell in asked for cell, _ in some)
        for place in range(len(group)):
            row, to = rows[number], places[rows[number]]
            number += 1
            wanted, most = fitting(group, place, surprise)
            assert violating[row] == (to < 0 and is_read and wanted > 0)
            if to >= 0:
                assert (0.0 if odds[to] == 7.0 else odds[to]) == pytest.approx(wanted)
                assert expected[to] == (min(most) if len(most) == 1 else -1)


def zips(rows: int = 2_000) -> pd.DataFrame:
    """Return a table in which zip codes determine cities and states, and cities determine states."""
    rng = np.random.default_rng(4)
    number = rng.integers(0, 20, rows)
    return pd.DataFrame(
        {
            "zip": [f"z{i}" for i in number],
            "city": [f"c{i // 2}" for i in number],
            "state": [f"s{i // 4}" for i in number],
            "size": rng.integers(0, 500, rows),
        }
    )


@pytest.mark.parametrize("column", ["zip", "city", "state"])
def test_the_wrong_cell_is_named_with_its_right_value(column: str) -> None:
    table = zips()
    right = table.copy()
    rows = [3, 700, 1_999]
    for row in rows:
        table.loc[row, column] = right.loc[right["state"] != right.loc[row, "state"], column].iloc[row % 7]
    found = holdfast.suspects(table, near="1%", min_score=0.5)
    assert {(one.row, one.column) for one in found} == {(row, column) for row in rows}
    for one in found:
        assert one.row is not None
        assert one.value == table[column].tolist()[one.row]
        assert all(column in near.columns for near in one.constraints)
        if column != "zip":  # some zips have the same city
            assert one.is_expected
            assert one.expected == right[column].tolist()[one.row]


def test_a_table_without_exceptions_has_no_suspects() -> None:
    assert holdfast.suspects(zips()) == []
    assert holdfast.suspects(pd.DataFrame({"a": [], "b": []})) == []
    assert holdfast.suspects(pd.DataFrame({"a": [1, 1, 2], "b": [1, 2, 3]}), near=0.5) == []


def test_scores_are_probabilities_and_the_surest_come_first() -> None:
    table = from_arrow(tax_records(5_000, error_rate=0.01), "tax")
    found = discover_near(table, Fraction(2, 100), 2, families=["fd"], threads=2).suspects(0.05)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0.05 <= score <= 1 for score in scores)
    assert len({(one.row, one.column) for one in found}) == len(found)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_suspects_are_wrong_cells_and_many_wrong_cells_are_suspects(seed: int) -> None:
    """Many wrong cells cannot be seen: a city is that of its zip code, and most zip codes have one row or two."""
    dirty, clean = (tax_records(20_000, seed=seed, error_rate=rate) for rate in (0.005, 0.0))
    wrong = {
        (row, name)
        for name in clean.column_names
        for row in np.flatnonzero(np.asarray(pc.not_equal(dirty[name], clean[name]))).tolist()
    }
    assert len(wrong) > 50
    found = {(one.row, one.column) for one in holdfast.suspects(dirty, near="1%", max_context=2)}
    assert len(found & wrong) >= 0.95 * len(found)
    assert len(found & wrong) >= 0.35 * len(wrong)


numbers = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=4, max_size=40)
wrong = st.lists(st.tuples(st.integers(0, 39), st.integers(0, 3), st.integers(0, 4)), max_size=8)


@given(numbers, wrong)
def test_scores_are_those_of_the_definition(rows: list[tuple[int, bool]], changed: list[tuple[int, int, int]]) -> None:
    """Only rows that do not fit somewhere are looked at after the first count: all others change nothing."""
    table = [[number, number // 2, -number, int(extra)] for number, extra in rows]
    for row, column, value in changed:
        table[row % len(table)][column] = value
    columns = {name: [row[c] for row in table] for c, name in enumerate("abcd")}
    near = discover_near(from_arrow(pa.table(columns), "t"), Fraction(2, 5), 2, families=["fd"], threads=1)
    strengths = [(near.constraint(member), near.ranking.strength(member)) for member in near.found.members]
    strong = [
        oracle.Dependency(tuple("abcd".index(name) for name in one.context), "abcd".index(one.target[0]), strength)
        for one, strength in strengths
        if one.context and strength >= STRONG
    ]
    expected = oracle.scores([tuple(row) for row in table], strong)
    found = {(one.row, one.column): one.score for one in near.suspects(0.02)}
    wanted = {(row, "abcd"[c]): score for row, some in enumerate(expected) for c, score in enumerate(some)}
    assert found == pytest.approx({cell: score for cell, score in wanted.items() if score >= 0.02})


def test_neither_the_order_of_rows_nor_the_number_of_threads_matters() -> None:
    table = tax_records(3_000, error_rate=0.05).to_pandas()
    order = np.random.default_rng(7).permutation(len(table))
    turned = table.iloc[order].reset_index(drop=True)

    def described(some: pd.DataFrame, threads: int) -> list[tuple[int, str, str]]:
        found = discover_near(from_pandas(some, "t"), Fraction(1, 20), 2, families=["fd"], threads=threads)
        suspects = found.suspects(0.2)
        texts = [repr((one.value, one.expected, one.score, one.constraints)) for one in suspects]
        rows = [one.row or 0 if some is table else int(order[one.row or 0]) for one in suspects]
        return sorted(zip(rows, (one.column for one in suspects), texts, strict=True))

    found = described(table, 1)
    assert len(found) > 20
    assert described(turned, 1) == found
    assert described(table, 3) == found


def test_frames_of_spark_are_refused() -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})()
    with pytest.raises(UsageError, match="give a pandas or Arrow data frame"):
        holdfast.suspects(frame)
