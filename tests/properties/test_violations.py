"""Oracle test: violating pairs of any set of constraints, valid or not, of any shape."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import PredicateSpace, parse_denial
from holdfast.discovery.evidence.codes import pair_codes
from holdfast.discovery.evidence.evidences import all_evidences
from holdfast.discovery.evidence.violations import ViolationSearch
from holdfast.tables import Table, from_arrow, overlap
from tests.oracles import denial as oracle
from tests.oracles.values import Table as OracleTable
from tests.properties.tables import tables


@given(tables(max_columns=3, max_rows=40), st.data())
def test_a_pair_is_found_exactly_where_one_violates(both: tuple[OracleTable, Table], data: st.DataObject) -> None:
    theirs, ours = both
    space = PredicateSpace.build(ours.schema, "auto", lambda a, b: overlap(ours, a, b))
    expected = oracle.automatic_space(theirs.columns, theirs.rows)
    boxes = data.draw(
        st.lists(
            st.tuples(
                *(
                    st.one_of(
                        st.just(pair.outcomes),
                        st.just(frozenset({"="})),
                        st.sets(st.sampled_from(sorted(pair.outcomes)), min_size=1).map(frozenset),
                    )
                    for pair in expected
                )
            ),
            min_size=1,
            max_size=5,
        )
    )
    limit = data.draw(st.integers(1, 3))
    masks = np.array(
        [space.words(space.mask(parse_denial(oracle.text(box, expected, theirs.columns)))) for box in boxes], np.uint64
    )
    codes = pair_codes(ours, space)
    found = ViolationSearch(codes, space, data.draw(st.sampled_from([1, 2]))).find(masks, limit)
    assert not len(found.undecided)
    for i, box in enumerate(boxes):
        pairs = found.pairs[found.constraint == i]
        assert len(pairs) <= limit
        assert bool(len(pairs)) == bool(oracle.violating_pairs(theirs.rows, box, expected))
        for t, s in pairs:
            left = codes.first[t]
            right = codes.first[s] if t != s else codes.second[s]
            assert left != right
            assert oracle.violates(theirs.rows[left], theirs.rows[right], box, expected)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("crossing", [False, True])
def test_long_groups_are_searched_like_all_pairs(seed: int, crossing: bool) -> None:
    """Differential: hundreds of rows in few groups, so that zones decide, against the evidences of all pairs."""
    rng = np.random.default_rng(seed)
    rows = 700
    base = rng.integers(0, 60, rows)
    data = {
        "a": base,
        "b": base // 2 + (rng.integers(0, 400, rows) == 0) * rng.integers(0, 30, rows),
        "c": rng.integers(0, 3, rows),
        "d": [None if v == 0 else int(v) for v in rng.integers(0, 90, rows)],
        "e": [f"{v}" for v in base // 20],
    }
    table = from_arrow(pa.table(data), "r")
    space = PredicateSpace(table.schema, ((0, 1), (0, 3)) if crossing else ())
    evidences = all_evidences(pair_codes(table, space), space).entries()[0]
    masks = np.full((400, space.word_count), 0, np.uint64)
    for mask in masks:
        for pair in space.pairs:
            free = rng.random() < 0.5
            outcomes = [1, 2, 3, 4, 5, 6] if pair.ordered else [2, 5]
            mask[pair.offset // 64] |= np.uint64(pair.every if free else pair.bits(int(rng.choice(outcomes))))
    codes = pair_codes(table, space)
    found = ViolationSearch(codes, space, 2).find(masks, 4)
    for i, mask in enumerate(masks):
        violated = bool(((evidences & ~mask) == 0).all(axis=1).any())
        assert violated == bool((found.constraint == i).any()), space.constraint(space.bits(mask))
    assert {*found.constraint.tolist()} == {
        i for i, mask in enumerate(masks) if ((evidences & ~mask) == 0).all(axis=1).any()
    }
    stopped = ViolationSearch(codes, space, 1).find(masks, 4, budget=0)
    assert set(stopped.undecided) == set(np.flatnonzero(stopped.comparisons > 0))


@pytest.mark.parametrize("seed", range(40))
def test_crossing_predicates_inside_long_groups(seed: int) -> None:
    """One long group of a selective equality: its zones have to know both sides of a crossing predicate."""
    rng = np.random.default_rng(seed)
    rows, group = 400, 60
    keys = np.arange(rows)
    keys[:group] = 0
    data = {"k": keys, "b": rng.integers(0, 3, rows), "c": rng.integers(0, 3, rows), "d": rng.permutation(rows)}
    data["b"][:group], data["c"][:group] = 1, 1
    data["c"][rng.choice(group, 2, replace=False)] = 2
    mixed = rng.permutation(rows)
    table = from_arrow(pa.table({name: values[mixed] for name, values in data.items()}), "r")
    space = PredicateSpace(table.schema, ((1, 2), (2, 3)))
    codes = pair_codes(table, space)
    evidences = all_evidences(codes, space).entries()[0]
    masks = np.zeros((300, space.word_count), np.uint64)
    for mask in masks:
        for pair in space.pairs:
            bits = pair.every if rng.random() < 0.6 else pair.bits(int(rng.choice([1, 3, 4, 5, 6])))
            mask[0] |= np.uint64(pair.bits(2) if pair.left == pair.right == 0 else bits)
    found = ViolationSearch(codes, space, 2).find(masks, 3)
    assert {*found.constraint.tolist()} == {
        i for i, mask in enumerate(masks) if ((evidences & ~mask) == 0).all(axis=1).any()
    }


@pytest.mark.parametrize("orders", [0, 1, 3])
def test_orders_of_all_rows_are_kept_within_a_limit_and_found_anew_beyond_it(orders: int) -> None:
    """One order is four bytes a row, or eight where columns are compared across."""
    rows, rng = 500, np.random.default_rng(5)
    table = from_arrow(pa.table({f"c{i}": rng.integers(0, 400, rows) for i in range(6)}), "r")
    space = PredicateSpace(table.schema, ((0, 1), (2, 3)))
    codes = pair_codes(table, space)
    texts = [f"not(t.c{a} < s.c{b} and t.c{c} > s.c{c})" for a, b in ((0, 1), (2, 3)) for c in range(6)]
    masks = np.array([space.words(space.mask(parse_denial(text))) for text in texts], np.uint64)
    most = orders * 8 * codes.rows
    bounded = ViolationSearch(codes, space, 2, most_sorted_bytes=most)
    free = ViolationSearch(codes, space, 2)
    for _ in range(2):
        found, expected = bounded.find(masks, 3), free.find(masks, 3)
        assert (found.constraint == expected.constraint).all()
        assert (found.pairs == expected.pairs).all()
        assert bounded._roots.bytes <= most
    assert free._roots.bytes > 3 * 8 * codes.rows
    assert sum(root.nbytes for root in bounded._roots._held.values()) == bounded._roots.bytes
    assert bounded.most_bytes >= bounded._roots.bytes + 8 * codes.rows
