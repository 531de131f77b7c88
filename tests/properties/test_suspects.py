"""Suspects: the kernel against a plain twin, and the search on tables whose wrong cells are known."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.constraints import UsageError
from holdfast.discovery.kernels.near import ContextGroups
from holdfast.discovery.kernels.suspects import FITTING, LEAST, MARGIN, MOST, Dependent, fitting_kernel
from holdfast.discovery.near.discover import discover_near
from holdfast.tables import from_arrow, from_pandas
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


@given(GROUPS)
def test_rows_fit_as_the_twin_has_it(groups: list[list[tuple[int, float]]]) -> None:
    every = [cell for group in groups for cell in group]
    n = len(every) + 1  # the last row is in no group
    rows = np.random.default_rng(0).permutation(n - 1).astype(np.int32)
    starts = np.cumsum([0, *map(len, groups)])
    codes, weights = np.zeros(n, np.int32), np.zeros(n)
    for place, (code, weight) in zip(rows.tolist(), every, strict=True):
        codes[place], weights[place] = code, weight
    surprise = [-0.1, -1.0, -3.0, -9.0]
    odds, expected, sums = np.full(n, 7.0), np.full(n, -1, np.int32), np.zeros(4)
    fitting_kernel(ContextGroups(rows, starts), Dependent(codes, np.array(surprise)), weights, sums, odds, expected)
    assert not sums.any()
    assert odds[-1] == 7.0
    number = 0
    for group in groups:
        for place in range(len(group)):
            row = rows[number]
            number += 1
            wanted, codes_expected = fitting(group, place, surprise)
            found = 0.0 if odds[row] == 7.0 else odds[row]
            assert found == pytest.approx(wanted)
            assert int(expected[row]) in codes_expected


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
        assert one.value == table.loc[one.row, column]
        assert all(column in near.columns for near in one.constraints)
        if column != "zip":  # some zips have the same city
            assert one.is_expected
            assert one.expected == right.loc[one.row, column]


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


def test_the_order_of_rows_does_not_matter() -> None:
    table = zips()
    table.loc[[3, 700], "city"] = "wrong"
    order = np.random.default_rng(7).permutation(len(table))
    turned = table.iloc[order].reset_index(drop=True)
    found, other = (holdfast.suspects(from_pandas(some, "t"), near="1%", min_score=0.5) for some in (table, turned))
    assert len(found) == 2
    assert sorted(one.row for one in found) == sorted(int(order[one.row]) for one in other)


def test_frames_of_spark_are_refused() -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})()
    with pytest.raises(UsageError, match="give a pandas or Arrow data frame"):
        holdfast.suspects(frame)
