"""Oracle tests: the score of a constraint, against its definition written out."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from holdfast.constraints import DenialConstraint, PredicateSpace, parse_denial
from holdfast.discovery import ranking
from holdfast.discovery.discover import discover
from holdfast.discovery.evidence.codes import pair_codes
from holdfast.discovery.ranking import PairSample, coverage, succinctness
from holdfast.tables import Table, from_arrow, overlap
from tests.oracles import denial as oracle
from tests.oracles.values import Table as OracleTable
from tests.properties.tables import tables
from tests.taxes import tax_records

ALLOWED = {"=": "=", "!=": "< > !=", "<": "<", "<=": "< =", ">": ">", ">=": "> ="}


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


@given(tables(max_columns=3, max_rows=8))
def test_coverage_counts_satisfied_predicates(both: tuple[OracleTable, Table]) -> None:
    theirs, table = both
    space = PredicateSpace.build(table.schema, "auto", lambda a, b: overlap(table, a, b))
    pairs_of_space = oracle.automatic_space(theirs.columns, theirs.rows)
    codes = pair_codes(table, space)
    masks = discover(table, space=space, max_predicates=0).constraints.masks
    with pytest.MonkeyPatch.context() as patch:
        listed = list(itertools.permutations(range(codes.rows), 2))

        class Every:
            """Draws each ordered pair of distinct rows once."""

            def __init__(self, seed: int) -> None:
                self.drawn = 0

            def integers(self, low: int, high: int, size: int) -> np.ndarray:
                self.drawn += 1
                left = np.array([t for t, _ in listed])
                right = np.array([s for _, s in listed])
                return left if self.drawn == 1 else (right - left) % codes.rows

        if not listed:
            return
        patch.setattr(np.random, "default_rng", Every)
        patch.setattr(ranking, "_PAIRS", len(listed))
        found = coverage(masks, PairSample.of(codes, space), space)
    for mask, score in zip(masks, found, strict=True):
        constraint = space.constraint(space.bits(mask))
        positions = [space.pairs.index(space.pair(p)) for p in constraint.predicates]
        satisfied = []
        for t, s in listed:
            point = oracle.evidence(theirs.rows[codes.first[t]], theirs.rows[codes.first[s]], pairs_of_space)
            satisfied.append(
                sum(
                    point[q] in ALLOWED[str(p.operator)].split()
                    for q, p in zip(positions, constraint.predicates, strict=True)
                )
            )
        assert score == pytest.approx(np.mean([(k + 1) / constraint.size for k in satisfied]))
        assert 0 < score <= 1


def test_a_wide_table_is_not_counted_in_bytes() -> None:
    rng = np.random.default_rng(3)
    wide = {f"c{i}": np.zeros(6, np.int64) for i in range(300)} | {"a": rng.integers(0, 3, 6), "b": np.arange(6)}
    table = from_arrow(pa.table(wide), "wide")
    found = discover(table, space=PredicateSpace(table.schema), max_predicates=1)
    best = found.top(400)
    assert len(best) == len(found) > 300
    assert all(0 < score <= 1 for score, _ in best)
    assert best[0][0] == 1


def test_the_rules_of_the_tax_records_come_before_accidents() -> None:
    found = discover(from_arrow(tax_records(4_000), "tax"))
    best = found.top(12)
    assert [score for score, _ in best] == sorted((score for score, _ in best), reverse=True)
    texts = {constraint for _, constraint in best}
    assert parse_denial("not(t.Zip = s.Zip and t.State != s.State)") in texts
    assert len(found.top(10_000)) == len(found)
