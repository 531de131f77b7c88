"""Oracle tests: exactly the pairs, rows and values that break random rules on random tables."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import Rule, parse_rule_body
from holdfast.discovery.detection import columns, counting, listing, sweeping
from holdfast.discovery.detection.check import check_tables
from holdfast.tables import Table, from_arrow
from tests.oracles import rules as oracle
from tests.oracles.values import Table as OracleTable
from tests.properties.rules import rules
from tests.properties.tables import tables


@st.composite
def cases(draw: st.DrawFn) -> tuple[OracleTable, Table, list[tuple[oracle.Rule, Rule]]]:
    """Draw a table and rules on it."""
    theirs, ours = draw(tables(max_columns=4, max_rows=8))
    drawn = draw(st.lists(rules(theirs), min_size=1, max_size=4))
    return theirs, ours, [(their, Rule(f"r{i}", theirs.name, body)) for i, (their, body) in enumerate(drawn)]


@given(
    cases(),
    st.sampled_from([0, 1, 3]),
    st.sampled_from([1, 3, 256]),
    st.sampled_from([1, 2]),
    st.sampled_from([0, 1]),
    st.booleans(),
)
def test_what_breaks_a_rule_is_the_definitions(
    case: tuple[OracleTable, Table, list[tuple[oracle.Rule, Rule]]],
    differences: int,
    chunk: int,
    threads: int,
    few: int,
    sparse: bool,
) -> None:
    table, ours, drawn = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_MOST_DIFFERENCES", differences)
        patch.setattr(counting, "_FEW", few)
        patch.setattr(sweeping, "_POINTS_A_THREAD", 2)
        if sparse:
            patch.setattr(columns, "_FEW_CODES", 0)
            patch.setattr(columns, "_CODES_A_ROW", 0)
        patch.setattr(listing, "_BUFFER", 256)
        checked = check_tables({table.name: ours}, [rule for _, rule in drawn], threads=threads)
        for (their, _), found in zip(drawn, checked, strict=True):
            verdict = oracle.judge(their, table, {table.name: table})
            assert (found.violating_pairs, found.violating_rows) == (verdict.violating_pairs, verdict.violating_rows)
            assert found.missing_values == verdict.missing_values
            assert (found.holds, found.broken) == (verdict.holds, verdict.broken)
            pairs = oracle.pairs(their, table) or set()
            listed = [tuple(pair) for some in found.pairs(chunk) for pair in some.tolist()]
            assert len(listed) == len(set(listed))
            assert set(listed) == pairs
            broken = oracle.rows(their, table, {table.name: table})
            for example in found.examples:
                assert tuple(example.rows) in pairs if len(example.rows) == 2 else set(example.rows) <= broken
            assert bool(found.examples) == (not found.holds)


@given(cases())
def test_the_first_violation_is_one(case: tuple[OracleTable, Table, list[tuple[oracle.Rule, Rule]]]) -> None:
    table, ours, drawn = case
    checked = check_tables({table.name: ours}, [rule for _, rule in drawn], exists=True)
    for (their, _), found in zip(drawn, checked, strict=True):
        assert found.holds == oracle.judge(their, table, {table.name: table}).holds
        for example in found.examples:
            if len(example.rows) == 2:
                assert tuple(example.rows) in (oracle.pairs(their, table) or set())


def _larger(seed: int) -> Table:
    rng = np.random.default_rng(seed)
    rows = 700
    return from_arrow(
        pa.table(
            {
                "a": rng.integers(0, 5, rows),
                "b": rng.integers(0, 40, rows),
                "c": rng.permutation(rows) // 2,
                "d": rng.normal(size=rows).round(2),
                "e": rng.integers(0, 40, rows),
                "f": pa.array(rng.integers(0, 3, rows).astype(str)),
            }
        ),
        "r",
    )


_SHAPES: list[tuple[str, Callable[[Any], Any]]] = [
    ("not(t.a = s.a and t.b != s.b)", lambda v: (v("a", 0) == v("a", 1)) & (v("b", 0) != v("b", 1))),
    (
        "not(t.a = s.a and t.c > s.c and t.d < s.d)",
        lambda v: (v("a", 0) == v("a", 1)) & (v("c", 0) > v("c", 1)) & (v("d", 0) < v("d", 1)),
    ),
    (
        "not(t.c > s.c and t.d < s.d and t.b >= s.b)",
        lambda v: (v("c", 0) > v("c", 1)) & (v("d", 0) < v("d", 1)) & (v("b", 0) >= v("b", 1)),
    ),
    (
        "not(t.b = s.e and t.c <= s.c and t.f != s.f)",
        lambda v: (v("b", 0) == v("e", 1)) & (v("c", 0) <= v("c", 1)) & (v("f", 0) != v("f", 1)),
    ),
    (
        "not(t.a != s.a and t.b != s.b and t.e != s.e and t.f != s.f and t.c < s.c)",
        lambda v: (
            (v("a", 0) != v("a", 1))
            & (v("b", 0) != v("b", 1))
            & (v("e", 0) != v("e", 1))
            & (v("f", 0) != v("f", 1))
            & (v("c", 0) < v("c", 1))
        ),
    ),
    ("not(t.b > s.e and t.d >= s.d)", lambda v: (v("b", 0) > v("e", 1)) & (v("d", 0) >= v("d", 1))),
]


@pytest.mark.parametrize(("text", "breaks"), _SHAPES, ids=[text for text, _ in _SHAPES])
def test_larger_tables_agree_with_all_pairs(text: str, breaks: Callable[[Any], Any]) -> None:
    table = _larger(3)
    arrow = table.to_arrow()
    values = {name: arrow.column(name).to_numpy(zero_copy_only=False) for name in arrow.column_names}
    matrix = breaks(lambda name, side: values[name][:, None] if side == 0 else values[name][None, :])
    np.fill_diagonal(matrix, val=False)
    (found,) = check_tables({"r": table}, [Rule("x", "r", parse_rule_body(text))], threads=2)
    assert found.violating_pairs == np.count_nonzero(matrix)
    assert found.violating_rows == np.count_nonzero(matrix.any(axis=0) | matrix.any(axis=1))
    listed = np.concatenate([np.zeros((0, 2), np.int64), *found.pairs(1000)])
    assert len(listed) == found.violating_pairs
    seen = np.zeros_like(matrix)
    seen[listed[:, 0], listed[:, 1]] = True
    assert (seen == matrix).all()
