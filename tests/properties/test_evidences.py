"""Oracle tests: all evidences of random tables, and the boxes they leave, against nested loops."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.constraints import Column, PredicateSpace, Schema
from holdfast.constraints.operators import EQUAL, GREATER, LESS
from holdfast.constraints.types import FLOAT, STRING
from holdfast.discovery.evidence import evidences as evidences_module
from holdfast.discovery.evidence.codes import pair_codes
from holdfast.discovery.evidence.evidences import (
    EvidenceSet,
    TooManyEvidences,
    all_evidences,
    group_evidences,
    mirrored,
    most_evidences,
)
from holdfast.discovery.evidence.hitting_sets import HittingSetSearch, groups_of, transposed
from holdfast.discovery.evidence.sampling import sample_random
from holdfast.discovery.kernels.evidence import RowGroups
from holdfast.indexes import evidence_table
from holdfast.tables import Table, from_arrow, overlap
from tests.oracles import denial as oracle
from tests.oracles.values import Table as OracleTable
from tests.properties.tables import evidence_bits, tables

NAMES = {LESS: "<", EQUAL: "=", GREATER: ">", LESS | GREATER: "!="}


@given(tables(max_rows=8), st.sampled_from([1, 2, 3]))
def test_evidences_are_those_of_all_pairs_and_their_witnesses_have_them(
    both: tuple[OracleTable, Table], threads: int
) -> None:
    theirs, ours = both
    space = PredicateSpace.build(ours.schema, "auto", lambda a, b: overlap(ours, a, b))
    expected_space = oracle.automatic_space(theirs.columns, theirs.rows)
    codes = pair_codes(ours, space)
    words, pairs = all_evidences(codes, space, threads).entries()
    points = [tuple(NAMES[p.outcomes(space.bits(w))] for p in space.pairs) for w in words]
    assert sorted(points) == sorted(oracle.evidences(theirs.rows, expected_space))
    for point, (t, s) in zip(points, codes.table_rows(pairs), strict=True):
        assert t != s
        assert oracle.evidence(theirs.rows[t], theirs.rows[s], expected_space) == point


def _boxes(space: PredicateSpace, words: np.ndarray, bound: int) -> set[str]:
    search = HittingSetSearch(words, groups_of(space), bound)
    return {str(space.canonical(space.constraint(space.every & ~space.bits(s)))) for chunk in search for s in chunk}


@given(tables(max_rows=6), st.integers(0, 3))
def test_hitting_sets_are_the_complements_of_the_maximal_boxes(both: tuple[OracleTable, Table], bound: int) -> None:
    theirs, ours = both
    space = PredicateSpace.build(ours.schema, "auto", lambda a, b: overlap(ours, a, b))
    found = _boxes(space, all_evidences(pair_codes(ours, space), space).entries()[0], bound)
    expected_space = oracle.automatic_space(theirs.columns, theirs.rows)
    boxes = oracle.maximal_boxes(oracle.evidences(theirs.rows, expected_space), expected_space)
    assert found == {
        oracle.text(oracle.written(box, expected_space, theirs.columns), expected_space, theirs.columns)
        for box in boxes
        if not bound or oracle.size(box, expected_space) <= bound
    }


def _subsets(bits: int) -> set[int]:
    return (
        {bits & chosen for chosen in range(bits + 1)}
        if bits < 8
        else {s << 1 for s in _subsets(bits >> 1)} | ({s << 1 | 1 for s in _subsets(bits >> 1)} if bits & 1 else set())
    )


@settings(max_examples=20)
@given(st.data())
def test_hitting_sets_over_several_words(data: st.DataObject) -> None:
    """Thirty columns take two words; a sample of outcomes leaves few boxes, which plain sets can name."""
    schema = Schema("r", tuple(Column(f"c{i}", FLOAT if i % 3 else STRING) for i in range(30)))
    space = PredicateSpace(schema)
    varied = data.draw(st.sets(st.integers(0, 29), min_size=1, max_size=3))
    edges = set()
    for _ in range(data.draw(st.integers(1, 5))):
        outcomes = [(data.draw(st.sampled_from([LESS, EQUAL, GREATER])) if i in varied else LESS) for i in range(30)]
        edges.add(evidence_bits(space, outcomes))
    words = np.array([space.words(e) for e in sorted(edges)], np.uint64)
    found = {space.bits(s) for chunk in HittingSetSearch(words, groups_of(space), 2) for s in chunk}
    vertices = [1 << b for b in range(space.every.bit_length()) if space.every >> b & 1]
    sides = [[v for v in _subsets(p.every) if v not in {0, p.every}] for p in space.pairs]
    sets = [0, *(v for side in sides for v in side)]
    sets += [a | b for one, other in itertools.combinations(sides, 2) for a in one for b in other]
    hitting = [s for s in sets if all(s & e for e in edges)]
    minimal = {s for s in hitting if not any(s & v and all(s & ~v & e for e in edges) for v in vertices)}
    assert found == minimal


@pytest.mark.parametrize(("rows", "expected"), [(0, {"not()"}), (1, {"not()"}), (2, {"not(t.a != s.a)"})])
def test_tables_of_no_one_and_two_equal_rows(rows: int, expected: set[str]) -> None:
    table = from_arrow(pa.table({"a": pa.array([1] * rows, pa.int64())}), "r")
    space = PredicateSpace(table.schema)
    assert _boxes(space, all_evidences(pair_codes(table, space), space).entries()[0], 0) == expected


def test_transposing_is_its_own_inverse() -> None:
    rows = np.random.default_rng(1).integers(0, 2**63, (130, 2)).astype(np.uint64)
    assert (transposed(transposed(rows))[:130, :2] == rows).all()


def test_mirroring_exchanges_less_and_greater() -> None:
    space = PredicateSpace(Schema("r", tuple(Column(f"c{i}", FLOAT if i % 2 else STRING) for i in range(50))))
    rng = np.random.default_rng(2)
    outcomes = [int(rng.choice([LESS, EQUAL, GREATER])) for _ in space.pairs]
    swapped = [{LESS: GREATER, GREATER: LESS}.get(o, o) for o in outcomes]
    words = np.array([space.words(evidence_bits(space, outcomes))], np.uint64)
    assert space.bits(mirrored(words, space)[0]) == evidence_bits(space, swapped)


@pytest.mark.parametrize("crossing", [False, True])
def test_one_row_may_have_more_evidences_than_the_first_table_holds(crossing: bool) -> None:
    rng = np.random.default_rng(4)
    rows = 6_000
    data = pa.table({f"c{i}": np.concatenate([[50], rng.integers(0, 100, rows - 1)]) for i in range(14)})
    table = from_arrow(data, "r")
    space = PredicateSpace(table.schema, ((0, 1),) if crossing else ())
    codes = pair_codes(table, space)
    evidences = EvidenceSet(codes, space)
    every = RowGroups.of(np.arange(rows), np.array([0, rows]))
    evidences.compare_rows(every, codes, 0, 3, both_ways=crossing)
    listed = EvidenceSet(codes, space)
    listed.compare_pairs(np.array([(t, s) for t in range(3) for s in range(0 if crossing else t, rows) if s != t]))
    assert len(evidences) > 6_000
    assert (evidences.entries()[0] == listed.entries()[0]).all()


def test_listed_pairs_have_the_evidences_of_their_rows_over_several_words() -> None:
    rng = np.random.default_rng(5)
    numbers = {f"n{i}": rng.integers(0, 4, 1_000) for i in range(40)}
    texts = {f"s{i}": rng.choice(["a", "b", "c"], 1_000) for i in range(20)}
    table = from_arrow(pa.table({**numbers, **texts}), "r")
    space = PredicateSpace(table.schema, tuple(itertools.combinations(range(10), 2)))
    codes = pair_codes(table, space)
    listed, compared = EvidenceSet(codes, space), EvidenceSet(codes, space)
    rows = codes.rows
    listed.compare_pairs(np.array([(t, s) for t in range(2) for s in range(rows) if s != t]))
    compared.compare_rows(RowGroups.of(np.arange(rows), np.array([0, rows])), codes, 0, 2, both_ways=True)
    assert space.word_count > 3
    assert (compared.entries()[0] == listed.entries()[0]).all()


def test_a_set_grows_to_its_ceiling_keeps_every_evidence_and_then_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    table = from_arrow(pa.table({f"c{i}": rng.random(2_000) for i in range(25)}), "r")
    space = PredicateSpace(table.schema)
    codes = pair_codes(table, space)
    listed = rng.integers(0, 2_000, (60_000, 2))
    listed = listed[listed[:, 0] != listed[:, 1]]
    evidences = EvidenceSet(codes, space, 20_000)
    with pytest.raises(TooManyEvidences) as refused:
        evidences.compare_pairs(listed)
    assert 20_000 <= refused.value.held == len(evidences) <= 40_000
    held, pairs = evidences.entries()
    every = EvidenceSet(codes, space)
    assert every.compare_pairs(pairs) == len(evidences) == len(np.unique(held, axis=0))
    assert (every.entries()[0] == held).all()
    every.compare_pairs(listed)
    assert len(every) > len(evidences)
    monkeypatch.setattr(evidence_table, "_AT_ONCE", 1_000)
    more = EvidenceSet(codes, space, 20_000)
    with pytest.raises(TooManyEvidences):
        more.add(*every.entries())


def test_the_ceiling_of_all_pairs_does_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    table = from_arrow(pa.table({f"c{i}": rng.random(1_000) for i in range(25)}), "r")
    space = PredicateSpace(table.schema)
    monkeypatch.setattr(evidences_module, "MOST_BYTES", 1 << 23)
    for threads in (1, 2, 5):
        assert most_evidences(space, threads) * threads * 32 * 4 <= 1 << 23
        with pytest.raises(TooManyEvidences) as refused:
            all_evidences(pair_codes(table, space), space, threads)
        assert refused.value.held * threads * 32 <= 1 << 23


@pytest.mark.parametrize(("values", "columns"), [(2, 10), (3, 8), (1_000, 9), (10**6, 14)])
def test_the_number_of_evidences_is_judged_from_a_few_pairs(values: int, columns: int) -> None:
    rng = np.random.default_rng(8)
    data = pa.table({f"c{i}": (values * rng.random(3_000) ** 3).astype(np.int64) for i in range(columns)})
    table = from_arrow(data, "r")
    space = PredicateSpace(table.schema)
    codes = pair_codes(table, space)
    variety = sample_random(EvidenceSet(codes, space), codes, rng)
    truth = len(all_evidences(codes, space))
    assert truth / 5 < variety.total < truth * 5
    assert variety.among(1e12, 0) == variety.total
    assert variety.among(10, 0) <= 10
    assert variety.among(1e12, truth * 5) == 0


@given(tables(max_rows=9), st.integers(1, 3), st.integers(0, 9))
def test_groups_that_agree_on_a_column_give_the_evidences_that_say_so(
    both: tuple[OracleTable, Table], threads: int, column: int
) -> None:
    theirs, ours = both
    if not ours.columns:
        return
    column %= len(ours.columns)
    space = PredicateSpace.build(ours.schema, "auto", lambda a, b: overlap(ours, a, b))
    expected_space = oracle.automatic_space(theirs.columns, theirs.rows)
    codes = pair_codes(ours, space)
    order = np.argsort(codes.left[column], kind="stable")
    starts = np.flatnonzero(np.diff(codes.left[column][order], prepend=-1))
    groups = RowGroups.of(order, np.append(starts, codes.rows))
    words, pairs = group_evidences(codes, space, groups, threads).entries()
    found = [tuple(NAMES[p.outcomes(space.bits(w))] for p in space.pairs) for w in words]
    every = oracle.evidences(theirs.rows, expected_space)
    assert sorted(found) == sorted(point for point in every if point[column] == "=")
    for point, (t, s) in zip(found, codes.table_rows(pairs), strict=True):
        assert oracle.evidence(theirs.rows[t], theirs.rows[s], expected_space) == point
