"""Oracle and differential tests: all inclusion dependencies, and what is missing of those that do not hold."""

import decimal
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.constraints import UsageError, constraint_fields
from holdfast.discovery.inclusion import seeding
from holdfast.discovery.inclusion.discover import discover_inclusions
from holdfast.tables import Table, from_arrow
from holdfast.tables.canonical import canonical, shown, source_text
from tests.invariants import check_invariants
from tests.oracles import inclusion as oracle
from tests.oracles.values import Table as OracleTable
from tests.oracles.values import same
from tests.properties.tables import DOMAINS, tables

Both = tuple[OracleTable, Table]


@st.composite
def several(draw: st.DrawFn) -> tuple[list[OracleTable], list[Table]]:
    """Draw up to three tables with different names."""
    drawn = draw(st.lists(tables(max_columns=3, max_rows=5), min_size=1, max_size=3))
    names = ["r", "s t", "ü"][: len(drawn)]
    theirs = [OracleTable(name, one.columns, one.rows) for name, (one, _) in zip(names, drawn, strict=True)]
    return theirs, [from_arrow(ours.to_arrow(), name) for name, (_, ours) in zip(names, drawn, strict=True)]


@given(several(), st.booleans(), st.sampled_from([1, 2, 1 << 20]))
def test_the_inclusions_are_those_of_the_definition(
    both: tuple[list[OracleTable], list[Table]], texts: bool, at_once: int
) -> None:
    theirs, ours = both
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seeding, "_VALUES_AT_ONCE", at_once)
        found = discover_inclusions(ours, texts=texts)
    expected = {oracle.text(*pair): pair for pair in oracle.reported(theirs, strings_all=texts)}
    assert sorted(map(str, found)) == sorted(expected)
    assert len(found) == len(expected)
    for dependency in found:
        fields = constraint_fields(dependency, dependency.dependent.table)
        assert fields == oracle.json_fields(*expected[str(dependency)])
    check_invariants(found.constraints.clusters)


@given(several(), st.booleans())
def test_what_is_missing_is_counted(both: tuple[list[OracleTable], list[Table]], texts: bool) -> None:
    theirs, ours = both
    seen = oracle.with_strings_everywhere(theirs) if texts else theirs
    found = discover_inclusions(ours, texts=texts)
    clusters = found.constraints.clusters
    places = [(table, place) for table in seen for place in range(len(table.columns))]
    for a, b in itertools.permutations(range(len(places)), 2):
        missing = oracle.missing_values(*places[a], *places[b])
        assert clusters.missing[a, b] == len(missing)
        assert clusters.missing_occurrences[a, b] == len(oracle.missing_occurrences(*places[a], *places[b]))
        shown_ones = found.missing(found.constraints.dependency(a, b), most=2)
        assert len(shown_ones) == min(2, len(missing))
        assert all(any(same(value, other) for other in missing) for value in shown_ones)


@given(several(), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_inclusions_that_nearly_hold_cover_something(both: tuple[list[OracleTable], list[Table]], least: float) -> None:
    theirs, ours = both
    found = discover_inclusions(ours).constraints
    places = [(table, place) for table in theirs for place in range(len(table.columns))]
    expected = {}
    for a, b in itertools.permutations(range(len(places)), 2):
        missing, nothing = len(oracle.missing_values(*places[a], *places[b])), replace(places[a][0], rows=())
        values = len(oracle.missing_values(*places[a], nothing, places[a][1]))
        if missing and values > missing and 1 - missing / values >= least:
            expected[str(found.dependency(a, b))] = (1 - missing / values, missing)
    near = list(found.near(least))
    assert {str(n.dependency): (n.coverage, n.missing_values) for n in near} == expected
    assert [n.coverage for n in near] == sorted((n.coverage for n in near), reverse=True)


NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from([0.1, 0.5, -0.0, 2.0**53, 2.0**63, 2.0**64, 1e300, float("inf")]),
    st.decimals(allow_nan=False, allow_infinity=False, places=18).filter(lambda d: abs(d) < 10**19),
    st.sampled_from(
        [decimal.Decimal(text) for text in ("0.1", "0.5", "18446744073709551616", "-0.000000000000000001")]
    ),
)


@given(NUMBERS, NUMBERS)
@example(0, decimal.Decimal("10000000000.000000000000000001"))
def test_bytes_are_equal_as_numbers_are(one: float | decimal.Decimal, other: float | decimal.Decimal) -> None:
    assert (_bytes(one) == _bytes(other)) == same(one, other)


@given(NUMBERS, st.integers(0, 17))
def test_a_decimals_scale_does_not_matter(number: float | decimal.Decimal, scale: int) -> None:
    if isinstance(number, decimal.Decimal) and abs(number) < 1:
        short = number.quantize(decimal.Decimal(1).scaleb(-scale))
        assert _bytes(short) == _bytes(short, scale) == _bytes(short, 18, precision=38)


def _bytes(value: float | decimal.Decimal, scale: int = 18, precision: int | None = None) -> bytes:
    kind = pa.int64() if isinstance(value, int) else pa.float64()
    if isinstance(value, decimal.Decimal):
        kind = pa.decimal128(precision or (38 if abs(value) >= 1 or scale > 17 else 18), scale)
    column = from_arrow(pa.table({"a": pa.array([value], kind, from_pandas=False)}), "t").columns[0]
    (made,) = canonical(column, column.counts[0]).to_pylist()
    assert same(shown(made), value)
    return bytes(made)


@given(st.sampled_from(sorted(DOMAINS)), st.booleans())
def test_bytes_show_their_value(kind: str, texts: bool) -> None:
    arrow_type, _, domain = DOMAINS[kind]
    column = from_arrow(pa.table({"a": pa.array(domain, arrow_type, from_pandas=False)}), "t").columns[0]
    keys = column.counts[0]
    values = [shown(one) for one in canonical(column, keys, texts=texts).to_pylist()]
    expected = [source_text(value) for value in domain] if texts else domain
    assert len(values) == len(keys)
    assert all(any(same(value, other) for other in values) for value in expected)


@pytest.mark.parametrize("seed", range(3))
def test_larger_tables_agree_with_spider(seed: int, tmp_path: object) -> None:
    desbordante = pytest.importorskip("desbordante")
    rng = np.random.default_rng(seed)
    people = pd.DataFrame({f"p{i}": rng.integers(0, 10 ** rng.integers(1, 4), 400).astype(str) for i in range(6)})
    visits = pd.DataFrame({f"v{i}": rng.choice(people[f"p{i}"], 300) for i in range(4)})
    visits["own"] = [f"x{i}" for i in range(300)]
    found = discover_inclusions({"people": people, "visits": visits}, texts=True)
    paths = []
    for name, frame in (("people", people), ("visits", visits)):
        paths.append((f"{tmp_path}/{name}.csv", ",", True))
        frame.to_csv(paths[-1][0], index=False)
    algorithm = desbordante.ind.algorithms.Spider()
    algorithm.load_data(tables=paths)
    algorithm.execute()
    columns = [[f"people.{name}" for name in people], [f"visits.{name}" for name in visits]]

    def named(side: Any) -> str:
        return columns[int(side.table_index)][int(side.column_indices[0])]

    theirs = {f"{named(ind.get_lhs())} in {named(ind.get_rhs())}" for ind in algorithm.get_inds()}
    assert {str(dependency) for dependency in found} == theirs
    assert len(theirs) >= 4


def test_tables_of_one_name_or_without_one_are_refused() -> None:
    frame = pd.DataFrame({"a": [1]})
    with pytest.raises(UsageError, match="two tables are called 't'"):
        discover_inclusions([from_arrow(pa.table({"a": [1]}), "t")] * 2)
    with pytest.raises(UsageError, match="frames have no names"):
        discover_inclusions([frame])


def test_likely_foreign_keys_come_first() -> None:
    orders = pd.DataFrame({"id": range(1, 301), "customer_id": [i % 150 + 1 for i in range(300)], "flag": [1, 2] * 150})
    customers = pd.DataFrame({"id": range(1, 201), "grade": [i % 5 for i in range(200)]})
    found = discover_inclusions({"orders": orders, "customers": customers})
    (best, first), *others = found.constraints.top(100)
    assert str(first) == "orders.customer_id in customers.id"
    assert 0.5 < best <= 1
    assert best.sound
    assert others
    assert not any(score.sound for score, _ in others)
