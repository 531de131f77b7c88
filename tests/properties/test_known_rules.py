"""Differential tests: counts that others published, and pairs that DuckDB and Desbordante find on the same rows."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import DenialConstraint, Operator, Predicate, Rule, parse_rule_body
from holdfast.discovery.detection.check import Checked, check_tables
from holdfast.tables import from_arrow, read_table

DATA = Path(__file__).parents[3] / "shared" / "data"

PRICE = (
    "not(t.l_quantity = s.l_quantity and t.l_tax = s.l_tax and t.l_extendedprice > s.l_extendedprice"
    " and t.l_discount < s.l_discount)"
)
ZIP = "zip -> city"
EXEMPTION = "not(t.state = s.state and t.has_child = s.has_child and t.child_exemp != s.child_exemp)"
RATE = "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)"


@pytest.mark.parametrize(
    ("name", "rule", "pairs"),
    [
        ("tax55k_dirty", ZIP, 161_964),
        ("tax55k_dirty", EXEMPTION, 519_846),
        ("tax55k_dirty", RATE, 218_408),  # 51 rates are NaN, above every number
        ("tax55k_clean", ZIP, 0),
        ("tax55k_clean", RATE, 46_002),
    ],
    ids=["dirty zip", "dirty exemption", "dirty rate", "clean zip", "clean rate"],
)
def test_published_counts(name: str, rule: str, pairs: int) -> None:
    path = DATA / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside this checkout")
    _check(path, rule, pairs)


def test_tpch(tmp_path: Path) -> None:
    made = Path(sys.executable).with_name("tpchgen-cli")
    if not made.exists():
        pytest.skip("tpchgen-cli is not installed")
    asked = ["-s", "0.01", "--tables", "lineitem", "--format", "csv", "-o", str(tmp_path)]
    subprocess.run([made, *asked], check=True, capture_output=True)
    _check(tmp_path / "lineitem.csv", PRICE, 1_825_157)


def _check(path: Path, rule: str, pairs: int) -> None:
    table = read_table(path)
    (found,) = check_tables({"t": table}, [Rule("r", "t", parse_rule_body(rule))])
    assert found.violating_pairs == pairs
    listed = np.concatenate([np.zeros((0, 2), np.int64), *found.pairs()])
    assert len(np.unique(listed[:, 0] * table.row_count + listed[:, 1])) == len(listed) == pairs
    assert len(np.unique(listed)) == found.violating_rows


OPERATORS = {str(operator): operator for operator in Operator}
COMPARABLE = ["abc", "de", "fg"]
"""Columns that compare with each other: integers and a float; strings, which have no order; dates."""


def _rows(seed: int, rows: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    words = np.array(["-", "a", "b", "ab", "é", "z"])
    days = np.datetime64("2024-02-27") + rng.integers(0, 5, (2, rows))
    return pa.table(
        {
            "a": rng.integers(0, 4, rows),
            "b": rng.integers(-20, 40, rows),
            "c": rng.integers(-6, 12, rows) / 2,
            "d": pa.array(words[rng.integers(0, 6, rows)]),
            "e": pa.array(words[rng.integers(0, 3, rows)]),
            "f": pa.array(days[0]),
            "g": pa.array(days[1]),
        }
    )


@st.composite
def constraints(draw: st.DrawFn, columns: str = "abcdefg", *, crossing: bool) -> DenialConstraint:
    """Draw a constraint of up to four comparisons, of a column with itself or with any that compares."""
    drawn: dict[tuple[str, str], str] = {}
    groups = [[name for name in group if name in columns] for group in COMPARABLE]
    for _ in range(draw(st.integers(1, 4))):
        group = draw(st.sampled_from([group for group in groups if group]))
        left = draw(st.sampled_from(group))
        right = draw(st.sampled_from(group)) if crossing else left
        operators = ["=", "!="] if group == groups[1] else sorted(OPERATORS)
        drawn[left, right] = draw(st.sampled_from(operators))
    return DenialConstraint([Predicate(left, OPERATORS[op], right) for (left, right), op in drawn.items()])


def _checked(table: pa.Table, constraint: DenialConstraint) -> Checked:
    (found,) = check_tables({"r": from_arrow(table, "r")}, [Rule("r", "r", constraint)], threads=2)
    return found


@given(st.integers(0, 2**32), st.integers(2, 400), constraints(crossing=True))
def test_counts_are_those_of_duckdb(seed: int, rows: int, constraint: DenialConstraint) -> None:
    duckdb = pytest.importorskip("duckdb")
    table = _rows(seed, rows)
    found = _checked(table, constraint)
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("given", table.append_column("row", pa.array(range(rows))))
        where = " and ".join(f"t.{p.left} {p.operator} s.{p.right}" for p in constraint.predicates)
        connection.execute(
            f"create table pairs as select t.row t, s.row s from given t, given s where t.row <> s.row and {where}"
        )
        (pairs,) = connection.execute("select count(*) from pairs").fetchone()
        (broken,) = connection.execute(
            "select count(*) from (select t from pairs union select s from pairs)"
        ).fetchone()
        listed = connection.execute("select t, s from pairs order by t, s").fetchnumpy()
    assert (found.violating_pairs, found.violating_rows) == (pairs, broken)
    ours = np.concatenate([np.zeros((0, 2), np.int64), *found.pairs(1000)])
    order = np.lexsort((ours[:, 1], ours[:, 0]))
    assert (ours[order] == np.stack([listed["t"], listed["s"]], axis=1)).all()


@given(st.integers(0, 2**32), st.integers(2, 100), constraints("abcde", crossing=False))
def test_pairs_are_those_of_desbordante(seed: int, rows: int, constraint: DenialConstraint) -> None:
    """Its verifier gives pairs without their order, and misses some where columns cross."""
    desbordante = pytest.importorskip("desbordante")
    table = _rows(seed, rows)
    found = _checked(table, constraint)
    algorithm = desbordante.dc_verification.algorithms.Default()
    algorithm.load_data(table=table.to_pandas())
    algorithm.execute(denial_constraint=_in_their_words(constraint), do_collect_violations=True)
    assert algorithm.dc_holds() == found.holds
    listed: set[tuple[Any, ...]] = {tuple(sorted(pair)) for some in found.pairs() for pair in some.tolist()}
    assert {tuple(sorted((t - 2, s - 2))) for t, s in algorithm.get_violations()} == listed  # its rows begin at 2


def _in_their_words(constraint: DenialConstraint) -> str:
    words = {"=": "=="}
    predicates = [f"t.{p.left} {words.get(str(p.operator), p.operator)} s.{p.right}" for p in constraint.predicates]
    return f"!({' and '.join(predicates)})"
