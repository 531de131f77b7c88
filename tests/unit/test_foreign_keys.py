"""Inclusions as foreign keys: by unique values, coverage, names and values, and not by ranges of small whole numbers."""

from __future__ import annotations

import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from holdfast.constraints.types import TypeGroup
from holdfast.discovery.inclusion.discover import discover_inclusions
from holdfast.discovery.inclusion.value_ranges import ValueRange
from holdfast.display.short_forms import foreign_key_form
from holdfast.tables import from_arrow
from tests.flights import FOREIGN_KEYS, flight_tables


def _sound(tables: dict[str, pd.DataFrame]) -> list[str]:
    ranked = discover_inclusions(tables).constraints.foreign_keys()
    assert ranked.sound == sum(score.sound is True for score, _ in ranked)
    return [foreign_key_form(inclusion) for inclusion in (one for score, one in ranked if score.sound)]


@pytest.mark.parametrize("seed", range(3))
def test_the_foreign_keys_of_flights_are_found_and_come_first(seed: int) -> None:
    tables = flight_tables(seed=seed)
    assert set(_sound(tables)) == FOREIGN_KEYS
    found = discover_inclusions(tables).constraints
    first = [foreign_key_form(inclusion) for _, inclusion in found.top(15, least=0.5)]
    assert set(first[: len(FOREIGN_KEYS)]) == FOREIGN_KEYS
    tailnum = next(one for _, one in found.foreign_keys() if one.dependent.column == "tailnum")
    covered = found.coverage_of(tailnum)
    there = tables["flights"]["tailnum"].isin(tables["planes"]["tailnum"])
    assert covered.row_coverage == pytest.approx(there.mean())
    assert 0 < covered.missing_values < 60


def test_numbers_of_rows_refer_by_their_names_only() -> None:
    rng = np.random.default_rng(1)
    customers = pd.DataFrame({"id": range(1, 301), "age": rng.integers(18, 90, 300)})
    orders = pd.DataFrame(
        {
            "id": range(1, 201),
            "customer_id": rng.integers(1, 300, 200),
            "quantity": rng.integers(1, 20, 200),
            "billing_cust": rng.integers(1, 300, 200),
        }
    )
    assert set(_sound({"customers": customers, "orders": orders})) == {
        "orders.customer_id -> customers.id",
        "orders.billing_cust -> customers.id",
    }


def test_numbers_of_rows_that_are_nearly_all_used_refer_whatever_their_names() -> None:
    rng = np.random.default_rng(2)
    people = pd.DataFrame({"id": range(1, 1_001)})
    orders = pd.DataFrame({"buyer": rng.integers(1, 1_001, 3_000), "day": rng.integers(1, 32, 3_000)})
    assert _sound({"people": people, "orders": orders}) == ["orders.buyer -> people.id"]


def test_sparse_numbers_refer_by_their_values() -> None:
    rng = np.random.default_rng(3)
    numbers = rng.choice(10**6, 500, replace=False)
    parts = pd.DataFrame({"sku": numbers, "weight": rng.integers(1, 50, 500)})
    lines = pd.DataFrame({"what": rng.choice(numbers, 900), "weight": rng.integers(1, 50, 900)})
    assert _sound({"parts": parts, "lines": lines}) == ["lines.what -> parts.sku"]


def test_a_table_refers_to_itself_but_not_by_a_copy_of_its_key() -> None:
    staff = pd.DataFrame({"login": [f"user{n:04}" for n in range(300)]})
    staff["copy"] = staff["login"]
    staff["manager"] = [f"user{n // 10:04}" for n in range(300)]
    assert set(_sound({"staff": staff})) == {"staff.manager -> staff.login", "staff.manager -> staff.copy"}


def test_what_is_not_unique_is_no_target_and_too_little_coverage_is_no_key() -> None:
    codes = pd.DataFrame({"code": [f"c{n % 40}" for n in range(80)], "id": [f"x{n}" for n in range(80)]})
    rows = pd.DataFrame({"code": [f"c{n % 40}" for n in range(500)], "x": [f"x{n % 200}" for n in range(500)]})
    assert _sound({"codes": codes, "rows": rows}) == []


def test_ranges_of_all_types() -> None:
    values = {
        "i": pa.array([1, 2, 9, None]),
        "f": pa.array([0.5, float("nan"), float("inf"), 2.0]),
        "d": pa.array([decimal.Decimal("0.10"), decimal.Decimal("0.25"), None, None]),
        "w": pa.array([decimal.Decimal(10**30), decimal.Decimal(1), None, None], pa.decimal128(38, 0)),
        "t": pa.array([0, 3_600_000_000, None, None], pa.timestamp("us", "UTC")),
        "s": pa.array(["a", "abc", None, None]),
        "b": pa.array([True, False, None, None]),
        "n": pa.array([None, None, None, None], pa.int64()),
        "all": pa.array([float("nan")] * 4),
    }
    table = from_arrow(pa.table(values), "t")
    found = {column.column.name: ValueRange.of(column) for column in table.columns}
    measured = {name: (one.count, one.lowest, one.highest, one.step) for name, one in found.items() if name in "ifdwt"}
    assert measured == {
        "i": (3, 1, 9, 1),
        "f": (4, 0.5, 2.0, 1.5),
        "d": (2, 0.1, 0.25, pytest.approx(0.15)),
        "w": (2, 1, 1e30, 1e30),
        "t": (2, 0, 3_600, 3_600),
    }
    assert found["s"] == ValueRange(TypeGroup.STRINGS, 2, length=2.0)
    for one in found.values():
        for other in found.values():
            assert 0 <= one.chance_in(other) <= 1
            assert 0 <= one.reach_in(other) <= 1
