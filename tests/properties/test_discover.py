"""Oracle and differential tests: the complete set, whichever plan finds it."""

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import PredicateSpace, UsageError, constraint_fields, parse_denial
from holdfast.discovery.denial import enumerating, seeding, validating
from holdfast.discovery.denial.anchors import Anchors, Costs
from holdfast.discovery.denial.seeding import seed_denial
from holdfast.discovery.discover import discover
from holdfast.discovery.evidence import evidences, hitting_sets, sampling
from holdfast.discovery.evidence.codes import pair_codes
from holdfast.discovery.evidence.sampling import Variety
from holdfast.discovery.explained import Explained
from holdfast.discovery.reported import ReportedSet
from holdfast.tables import ReadOptions, Table, from_arrow, overlap
from tests.oracles import denial as oracle
from tests.oracles.values import Column as OracleColumn
from tests.oracles.values import Table as OracleTable
from tests.properties.tables import evidence_bits, tables
from tests.taxes import tax_records

NO_ANCHORS = Costs(validated=1e-30)
EVERY_ANCHOR = Costs(validated=1e-30, copied=-1.0)
PLANS = {"all pairs": (1e9, NO_ANCHORS), "sample": (-1, NO_ANCHORS), "sample, anchors": (-1, EVERY_ANCHOR)}
MANY_EVIDENCES = {f"c{i}": np.random.default_rng(i).integers(0, 60, 900) for i in range(14)}


def _take(patch: pytest.MonkeyPatch, plan: str) -> None:
    negligible, costs = PLANS[plan]
    patch.setattr(seeding, "_NEGLIGIBLE_SECONDS", negligible)
    patch.setattr(seeding, "_COSTS", costs)


@given(tables(max_columns=4, max_rows=9), st.integers(0, 4), st.sampled_from(sorted(PLANS)))
def test_the_reported_set_is_that_of_the_definition(both: tuple[OracleTable, Table], bound: int, plan: str) -> None:
    theirs, ours = both
    expected = oracle.automatic_space(theirs.columns, theirs.rows)
    with pytest.MonkeyPatch.context() as patch:
        _take(patch, plan)
        found = list(discover(ours, max_predicates=bound, threads=2))
    reported = oracle.reported(theirs.rows, expected, theirs.columns, bound)
    assert {str(c) for c in found} == set(reported)
    assert len(found) == len(reported)
    for constraint in found:
        box = reported[str(constraint)]
        assert constraint_fields(constraint, "r") == oracle.json_fields(box, expected, theirs.columns, "r")


STRINGS = st.sampled_from([None, "z", "b", "m", "", "é", "\U0001f600", "\uffff"])


@given(st.lists(st.tuples(STRINGS, STRINGS), max_size=7), st.booleans(), st.booleans())
def test_strings_declared_ordered_compare_by_code_point_across_columns_too(
    rows: list[tuple[str | None, str | None]], left: bool, right: bool
) -> None:
    data = pa.table({name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate("ab")})
    table = from_arrow(data, "r", ReadOptions(ordered={"a": left, "b": right}))
    columns = [OracleColumn("a", "string", ordered=left), OracleColumn("b", "string", ordered=right)]
    expected = oracle.reported(rows, oracle.listed_space(columns, [(0, 1)]), columns)
    found = discover(table, space=PredicateSpace(table.schema, ((0, 1),)), max_predicates=0)
    assert {str(c) for c in found} == set(expected)


@given(tables(max_columns=3, max_rows=9), st.sampled_from(sorted(PLANS)))
def test_the_certificate_proves_the_set_complete(both: tuple[OracleTable, Table], plan: str) -> None:
    theirs, ours = both
    space = PredicateSpace.build(ours.schema, "auto", lambda a, b: overlap(ours, a, b))
    expected = oracle.automatic_space(theirs.columns, theirs.rows)
    with pytest.MonkeyPatch.context() as patch:
        _take(patch, plan)
        seed = seed_denial(ours, space, 0)
    points = []
    for words, (t, s) in zip(seed.evidences, seed.witnesses, strict=True):
        point = oracle.evidence(theirs.rows[t], theirs.rows[s], expected)
        assert t != s
        assert evidence_bits(space, ({"<": 1, "=": 2, ">": 4, "!=": 5}[o] for o in point)) == space.bits(words)
        points.append(point)
    boxes = {oracle.written(b, expected, theirs.columns) for b in oracle.maximal_boxes(points, expected)}
    texts = {oracle.text(b, expected, theirs.columns) for b in boxes} - {"not()"}
    assert texts == {str(c) for c in ReportedSet(space, seed.boxes)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("crossing", [False, True])
def test_both_plans_agree_on_larger_tables(seed: int, crossing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    table = from_arrow(tax_records(1_500, seed=seed, error_rate=0.01), "tax")
    names = table.schema.names
    pairs = ((names.index("ChildExemp"), names.index("Bonus")), (names.index("Salary"), names.index("Tax")))
    space = PredicateSpace(table.schema, pairs if crossing else ())
    found = {}
    for plan in PLANS:
        _take(monkeypatch, plan)
        discovered = discover(table, space=space, max_predicates=0 if not crossing else 4, threads=2)
        assert discovered.explained.plan.startswith(plan.partition(",")[0])
        assert any("pairs that agree" in step for step, _ in discovered.explained.steps) == ("anchors" in plan)
        found[plan] = {str(c) for c in discovered}
    assert found["all pairs"] == found["sample"] == found["sample, anchors"]
    assert "not(t.AreaCode = s.AreaCode and t.Phone = s.Phone)" in found["sample"] or any(
        "AreaCode" not in c and "= s.Phone)" in c for c in found["sample"]
    )


def test_a_sample_with_too_many_covers_gives_way_to_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    table = from_arrow(tax_records(500, error_rate=0.1), "tax")
    expected = {str(c) for c in discover(table, max_predicates=0)}
    monkeypatch.setattr(seeding, "_NEGLIGIBLE_SECONDS", -1)
    monkeypatch.setattr(seeding, "_COSTS", Costs(validated=1.0))
    discovered = discover(table, max_predicates=0)
    assert [step for step, _ in discovered.explained.steps if "cheaper" in step]
    (left,) = [step for step, _ in discovered.explained.steps if step.startswith("enumerated") and "more" in step]
    assert left.endswith(" evidences, and there are more")
    assert discovered.explained.plan == "all pairs"
    assert {str(c) for c in discovered} == expected
    counted: dict[object, int] = {}
    for constraint in discovered:
        counted[constraint.kind] = counted.get(constraint.kind, 0) + 1
    assert discovered.constraints.counts() == counted
    assert [c.size for c in discovered] == sorted(c.size for c in discovered) == discovered.constraints.sizes.tolist()


def test_an_explosion_ends_with_a_count_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    table = from_arrow(pa.table({f"c{i}": rng.integers(0, 9, 30) for i in range(12)}), "wide")
    monkeypatch.setattr(enumerating, "_MOST_WORDS", 1_000)
    said: list[str] = []
    with pytest.raises(UsageError, match=r"more than [0-9,]+ constraints .*--max-predicates"):
        discover(table, space=PredicateSpace(table.schema), max_predicates=0, report=said.append)
    assert any("constraints so far" in text for text in said)


@pytest.mark.parametrize(("first", "more"), [(1, 2), (1, 100)])
def test_a_budget_postpones_constraints_and_loses_none(first: int, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = from_arrow(tax_records(1_200, error_rate=0.05), "tax")
    _take(monkeypatch, "all pairs")
    expected = {str(c) for c in discover(table, max_predicates=0)}
    _take(monkeypatch, "sample")
    monkeypatch.setattr(validating, "_COMPARISONS_PER_ROW", first)
    monkeypatch.setattr(validating, "_MORE_COMPARISONS", more)
    monkeypatch.setattr(validating, "_FEW_CONSTRAINTS", 0)
    monkeypatch.setattr(seeding, "_SECONDS_BETWEEN_REPORTS", 0)
    monkeypatch.setattr(sampling, "_ROWS_A_ROUND", 5)
    discovered = discover(table, max_predicates=0, threads=2)
    assert any("undecided" in step for step, _ in discovered.explained.steps)
    assert {str(c) for c in discovered} == expected


def test_steps_are_told_with_how_long_they_took() -> None:
    started = time.perf_counter()
    _, explained = _found()
    took = time.perf_counter() - started
    assert explained.steps
    assert all(seconds >= 0 for _, seconds in explained.steps)
    assert sum(seconds for _, seconds in explained.steps) <= took  # steps follow each other


def _found(max_predicates: int = 3) -> tuple[set[str], Explained]:
    table = from_arrow(pa.table(MANY_EVIDENCES), "r")
    found = discover(table, space=PredicateSpace(table.schema), max_predicates=max_predicates, threads=2)
    return {str(c) for c in found}, found.explained


def test_all_pairs_are_not_compared_where_they_would_have_too_many_evidences(monkeypatch: pytest.MonkeyPatch) -> None:
    _take(monkeypatch, "all pairs")
    expected, explained = _found()
    assert explained.plan == "all pairs"
    _take(monkeypatch, "sample")
    monkeypatch.setattr(evidences, "MOST_BYTES", 1 << 23)
    found, explained = _found()
    assert not [step for step, _ in explained.steps if "of all pairs:" in step]
    assert found == expected


def test_all_pairs_are_left_where_they_turn_out_to_have_too_many_evidences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was expected; then covers are validated in parts, here of four."""
    _take(monkeypatch, "all pairs")
    expected, _ = _found()
    monkeypatch.setattr(evidences, "MOST_BYTES", 1 << 23)
    monkeypatch.setattr(seeding, "sample_random", lambda *_: Variety(0.0, 0.0))
    monkeypatch.setattr(seeding, "_SECONDS_A_PART", 1e-30)
    monkeypatch.setattr(hitting_sets, "_CHUNK", 4)
    found, explained = _found()
    steps = [step for step, _ in explained.steps]
    assert any("of all pairs: too many to keep" in step for step in steps)
    assert any("and there are more" in step for step in steps)
    assert explained.plan.startswith("sample")
    assert found == expected


def test_too_many_evidences_of_a_sample_end_with_a_count_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    _take(monkeypatch, "sample")
    monkeypatch.setattr(evidences, "MOST_BYTES", 1 << 16)
    with pytest.raises(UsageError, match=r"more than [0-9,]+ different outcomes .*--max-predicates"):
        _found()


def test_anchors_whose_pairs_all_have_evidences_of_their_own_are_not_worth_it() -> None:
    table = from_arrow(pa.table(MANY_EVIDENCES), "r")
    space = PredicateSpace(table.schema)
    codes = pair_codes(table, space)
    keys = [space.mask(parse_denial(f"not(t.c0 = s.c0 and t.c{i} = s.c{i} and t.c13 < s.c13)")) for i in range(1, 13)]
    masks = np.array([space.words(mask) for mask in keys], np.uint64)
    costs = Costs(copied=0.0)  # 14,000 pairs agree on c0
    assert Anchors(codes, space, costs, Variety(1e-3, 1e5)).choose(masks) is not None
    assert Anchors(codes, space, costs, Variety(1.0, 1e5)).choose(masks) is None
    assert Anchors(codes, space, costs, Variety(1.0, 1e5)).choose(masks, known=100_000) is not None
    assert Anchors(codes, space, costs, Variety(1e-3, 1e5)).choose(masks, tried=10**9) is None


@pytest.mark.parametrize("columns", [0, 1, 3])
@pytest.mark.parametrize("rows", [0, 1, 2, 5_000])
def test_degenerate_tables(columns: int, rows: int) -> None:
    """No column, no row, one row, all rows equal."""
    data = pa.table({f"c{i}": pa.array([7] * rows, pa.int64()) for i in range(columns)})
    found = [str(c) for c in discover(from_arrow(data, "r"), max_predicates=0)]
    if rows < 2 or not columns:
        assert found == []
    else:
        assert {f"not(t.c{i} != s.c{i})" for i in range(columns)} <= set(found)


def test_wide_tables_take_several_words() -> None:
    rng = np.random.default_rng(3)
    data = pa.table({f"c{i}": rng.integers(0, 4, 60) for i in range(100)})
    discovered = discover(from_arrow(data, "r"), space=PredicateSpace(from_arrow(data, "r").schema), max_predicates=1)
    assert discovered.space.word_count == 5
    assert [str(c) for c in discovered] == []
