"""Oracle tests: the score of a constraint, against its definition written out."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from holdfast.constraints import DenialConstraint, PredicateSpace, parse_denial
from holdfast.discovery.discover import discover
from holdfast.discovery.ranking import succinctness
from holdfast.tables import Table, from_arrow
from tests.oracles.values import Table as OracleTable
from tests.properties.tables import tables
from tests.taxes import tax_records


def _short(constraint: DenialConstraint) -> float:
    symbols = {p.operator for p in constraint.predicates} | constraint.columns | {1, 2}
    return min(1.0, 4 / len(symbols))


@given(tables(max_columns=4, max_rows=8))
def test_short_constraints_score_high(both: tuple[OracleTable, Table]) -> None:
    _, table = both
    found = discover(table, max_predicates=0)
    masks = found.constraints.masks
    assert succinctness(masks, found.space).tolist() == pytest.approx(
        [_short(c) for c in found if isinstance(c, DenialConstraint)]
    )


def test_a_wide_table_is_not_counted_in_bytes() -> None:
    rng = np.random.default_rng(3)
    wide = {f"c{i}": np.zeros(6, np.int64) for i in range(300)} | {"a": rng.integers(0, 3, 6), "b": np.arange(6)}
    table = from_arrow(pa.table(wide), "wide")
    found = discover(table, space=PredicateSpace(table.schema), max_predicates=1)
    best = found.top(400)
    assert len(best) == len(found) > 300
    assert all(0 < score <= 1 for score, _ in best)
    assert {constraint.size for _, constraint in best} == {1}
    assert best.sound == len(found)


def test_the_rules_of_the_tax_records_come_before_accidents() -> None:
    found = discover(from_arrow(tax_records(4_000), "tax"))
    best = found.top(12)
    assert [score for score, _ in best] == sorted((score for score, _ in best), reverse=True)
    texts = {constraint for _, constraint in best}
    assert parse_denial("not(t.Zip = s.Zip and t.State != s.State)") in texts
    assert len(found.top(10_000)) == len(found)
