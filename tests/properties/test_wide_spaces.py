"""Spaces of many column pairs: enumerations with small bounds against counting, and a plain end of what is too much."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.constraints import Column, PredicateSpace, Schema, UsageError
from holdfast.constraints.types import INTEGER, STRING
from holdfast.discovery.denial import enumerating
from holdfast.discovery.discover import discover
from holdfast.discovery.evidence import hitting_sets
from holdfast.discovery.evidence.codes import pair_codes
from holdfast.discovery.evidence.evidences import EvidenceSet, all_evidences
from holdfast.discovery.evidence.hitting_sets import HittingSetSearch, groups_of
from holdfast.discovery.evidence.sampling import Variety, sample_neighbours
from holdfast.discovery.order import contexts
from holdfast.tables import Table, from_arrow, space_of


def _table(rows: int, columns: int, values: int, seed: int = 1) -> Table:
    rng = np.random.default_rng(seed)
    return from_arrow(pa.table({f"c{i}": rng.integers(0, values, rows) for i in range(columns)}), "r")


def _minimal_covers(edges: list[int], sides: list[list[int]], bound: int) -> set[int]:
    """Return the minimal covers of edges that touch at most `bound` groups, by trying all; `sides` are their parts."""

    def covers(chosen: int) -> bool:
        return all(chosen & edge for edge in edges)

    tried = {0}
    for count in range(1, bound + 1):
        for groups in itertools.combinations(sides, count):
            tried.update(sum(parts) for parts in itertools.product(*groups))
    return {
        chosen
        for chosen in tried
        if covers(chosen)
        and not any(chosen >> bit & 1 and covers(chosen & ~(1 << bit)) for bit in range(chosen.bit_length()))
    }


@settings(max_examples=25)
@given(st.data())
def test_covers_within_a_bound_are_those_of_trying_all(data: st.DataObject) -> None:
    """Up to three words; all parts of all column pairs that vary are tried."""
    columns = data.draw(st.integers(2, 4))
    few = data.draw(st.sampled_from([1, 2, 3]))
    types = [data.draw(st.sampled_from([INTEGER, STRING])) for _ in range(columns)]
    padding = 43 if data.draw(st.booleans()) else 0  # columns that always differ, so that words follow each other
    schema = Schema("r", tuple(Column(f"c{i}", kind) for i, kind in enumerate([*types, *[INTEGER] * padding])))
    space = PredicateSpace(schema)
    seed = data.draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(space.pairs)).tolist()
    varied = set(order[:columns])
    edges = set()
    for _ in range(data.draw(st.integers(1, 12))):
        bits = 0
        for number, pair in enumerate(space.pairs):
            bits |= 1 << pair.offset + (int(rng.integers(0, pair.width)) if number in varied else 0)
        edges.add(bits)
    bound = min(few, len(space.pairs))
    words = np.array([space.words(edge) for edge in sorted(edges)], np.uint64)
    found = [space.bits(s) for chunk in HittingSetSearch(words, groups_of(space), bound) for s in chunk]
    sides = [
        [part << pair.offset for part in range(1, (1 << pair.width) - 1)]
        for number, pair in enumerate(space.pairs)
        if number in varied or number == order[-1]
    ]
    # every column that does not vary has the same outcome in all edges, so one of them stands for all
    alone = {1 << pair.offset for number, pair in enumerate(space.pairs) if number not in varied}
    expected = _minimal_covers(sorted(edges), sides, bound)
    assert len(found) == len(set(found))
    assert {s for s in found if s not in alone} == {s for s in expected if s not in alone}
    assert {s for s in found if s in alone} == (alone if alone & expected else set())


@pytest.mark.parametrize("bound", [1, 2, 3])
@pytest.mark.parametrize("values", [2, 9])
def test_a_bounded_enumeration_is_what_the_bound_leaves_of_the_unbounded_one(bound: int, values: int) -> None:
    """Differential: with a bound, groups of no use are dropped before they are tried; without one, none is."""
    table = _table(9, 6, values)
    space = space_of(table)
    words, _ = all_evidences(pair_codes(table, space), space).entries()
    groups = groups_of(space)
    bounded = np.concatenate(list(HittingSetSearch(words, groups, bound)))
    every = np.concatenate(list(HittingSetSearch(words, groups)))
    touched = sum(((every[:, w] & bits) != 0).astype(int) for w, bits in zip(groups.word, groups.bits, strict=True))
    within = every[touched <= bound]
    assert len(within) < len(every)
    assert {tuple(s) for s in bounded.tolist()} == {tuple(s) for s in within.tolist()}
    assert len(bounded) == len(within)


def test_a_search_goes_on_where_it_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(8, 5, 3)
    space = space_of(table)
    words, _ = all_evidences(pair_codes(table, space), space).entries()
    at_once = {tuple(s) for chunk in HittingSetSearch(words, groups_of(space), 2) for s in chunk.tolist()}
    monkeypatch.setattr(hitting_sets, "_WORDS_AT_ONCE", 50)
    monkeypatch.setattr(hitting_sets, "_CHUNK", 3)
    chunks = [chunk.tolist() for chunk in HittingSetSearch(words, groups_of(space), 2)]
    assert len(chunks) > 10
    assert sorted(tuple(s) for chunk in chunks for s in chunk) == sorted(at_once)


def test_a_vertex_of_the_last_group_but_one_is_decided_by_few_edges() -> None:
    """The union of some edges shows that no further group is useful; the groups of the set itself never fill it."""
    table = _table(60, 45, 10)
    space = space_of(table)
    words, _ = all_evidences(pair_codes(table, space), space).entries()
    assert len(space.pairs) > 1_000
    search = HittingSetSearch(words, groups_of(space), 2)
    assert sum(map(len, search)) < 100
    assert search.words_read < 150 * space.word_count * search.tried


def test_few_rows_of_many_columns_are_sampled_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing pairs reads the codes of all column pairs, however few the pairs are."""
    table = _table(200, 60, 10)
    space = space_of(table)
    codes = pair_codes(table, space)
    evidences, sizes = EvidenceSet(codes, space, 1 << 13), []
    compare = EvidenceSet.compare_pairs

    def counted(into: EvidenceSet, pairs: np.ndarray) -> int:
        sizes.append(len(pairs))
        return compare(into, pairs)

    monkeypatch.setattr(EvidenceSet, "compare_pairs", counted)
    sample_neighbours(evidences, codes, Variety(1.0, 4e4), np.random.default_rng(1))
    assert len(evidences) > 1 << 10
    assert min(sizes[:-1]) >= 64


def test_a_hundred_crossing_columns_are_searched_for_constraints_of_one_predicate() -> None:
    """Where the search tried each column pair in words of all others, this took minutes."""
    found = discover(_table(20, 100, 10), max_predicates=1)
    assert len(found.space.pairs) > 4_000
    assert len(found) == 0


def test_constraints_of_one_predicate_of_many_columns_are_those_that_hold() -> None:
    rng = np.random.default_rng(3)
    low = {f"a{i}": rng.integers(0, 5, 12) for i in range(20)}
    high = {f"b{i}": rng.integers(4, 99, 12) for i in range(20)}
    table = from_arrow(pa.table({**low, **high}), "r")
    space = PredicateSpace(table.schema, tuple(itertools.combinations(range(40), 2)))
    found = discover(table, space=space, max_predicates=1)
    outcome = {"<": np.less, "<=": np.less_equal, "=": np.equal}
    outcome |= {"!=": np.not_equal, ">=": np.greater_equal, ">": np.greater}
    data = {**low, **high}
    others = ~np.eye(12, dtype=bool)
    expected = set()
    for pair in found.space.pairs:
        left, right = (found.space.schema.names[c] for c in (pair.left, pair.right))
        holding = {
            name
            for name, compare in outcome.items()
            if not (compare(data[left][:, None], data[right][None]) & others).any()
        }
        weaker = {"<": {"<=", "!="}, "=": {"<=", ">="}, ">": {">=", "!="}}
        maximal = {name for name in holding if not weaker.get(name, set()) & holding}
        if left == right:
            maximal -= {">", ">="} if maximal & {"<", "<="} else set()
        expected |= {f"not(t.{left} {name} s.{right})" for name in maximal}
    assert len(expected) > 100
    assert {str(one) for one in found} == expected


@pytest.mark.parametrize("bound", [2, 4])
def test_a_wide_table_ends_with_what_to_set(monkeypatch: pytest.MonkeyPatch, bound: int) -> None:
    """Expected of the share that is done: some million constraints with two predicates, and years with four."""
    monkeypatch.setattr(hitting_sets, "_WORDS_BEFORE_A_FORECAST", 1 << 22)
    monkeypatch.setattr(hitting_sets, "_WORDS_AT_ONCE", 1 << 22)
    monkeypatch.setattr(enumerating, "_MOST_WORDS_EXPECTED", 1 << 22)
    monkeypatch.setattr(enumerating, "_FEW_WORDS", 1 << 10)
    with pytest.raises(UsageError, match=r"4,\d\d\d column pairs expected, .*--max-predicates.*--no-cross-columns"):
        discover(_table(20, 100, 10), max_predicates=bound)


def test_a_search_without_an_end_is_left_with_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hitting_sets, "_WORDS_BEFORE_A_FORECAST", 1 << 16)
    monkeypatch.setattr(hitting_sets, "_WORDS_AT_ONCE", 1 << 16)
    monkeypatch.setattr(enumerating, "_MOST_WORDS_READ", 1 << 22)
    with pytest.raises(UsageError, match=r"column pairs are expected to take many hours: .*--max-predicates"):
        discover(_table(60, 40, 3), max_predicates=3)


@pytest.mark.parametrize("expected", ["constraints", "hours"])
def test_order_dependencies_of_a_wide_table_end_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch, expected: str
) -> None:
    if expected == "constraints":
        monkeypatch.setattr(contexts, "_WORDS_HELD_BEFORE_A_FORECAST", 1 << 8)
        monkeypatch.setattr(contexts, "_MOST_WORDS_EXPECTED", 1 << 15)
        words = "order dependencies expected, too many to keep"
    else:
        monkeypatch.setattr(contexts, "_WORDS_BEFORE_A_FORECAST", 1 << 8)
        monkeypatch.setattr(contexts, "_MOST_WORDS_READ", 1 << 15)
        words = "targets are expected to take many hours"
    with pytest.raises(UsageError, match=f"{words}: .*--max-context"):
        discover(_table(12, 25, 10), family="od")
