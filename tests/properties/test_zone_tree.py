"""Zone trees: rows in and out at random, against a plain set; probes against nested loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.constraints import Column, PredicateSpace, Schema
from holdfast.constraints.types import INTEGER, STRING
from holdfast.indexes import table_index
from holdfast.indexes.rows import RowSet
from holdfast.indexes.table_index import TableIndex
from holdfast.indexes.zone_tree import ZoneTree
from holdfast.tables import Table, from_arrow
from holdfast.tables.arrays import as_slots
from tests.invariants import check_invariants, check_tree
from tests.oracles import denial as oracle
from tests.oracles.values import Column as OracleColumn
from tests.properties.tables import evidence_bits


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(0, 300), st.sampled_from([1, 3, 1000]))
def test_rows_go_in_and_out_and_zones_stay_exact(seed: int, first: int, places: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(-5, 5, (1_000, 3))
    place = rng.integers(0, places, 1_000)
    held = set(rng.choice(1_000, first, replace=False).tolist())
    tree = ZoneTree(codes, _array(held), place[_array(held)])
    check_tree(tree, codes)
    for _ in range(8):
        gone = _some(rng, held)
        tree.remove(codes, gone, place[gone])
        held -= set(gone.tolist())
        check_tree(tree, codes)
        codes[gone] = rng.integers(-5, 5, (len(gone), 3))  # a slot may be given to another row
        come = _some(rng, set(range(1_000)) - held)
        tree.insert(codes, come, place[come])
        held |= set(come.tolist())
        check_tree(tree, codes)
        assert len(tree) == len(held)
    everything = _array(held)
    tree.remove(codes, everything, place[everything])
    check_tree(tree, codes)
    assert len(tree) == 0
    tree.insert(codes, everything, place[everything])
    check_tree(tree, codes)


@given(st.permutations(range(20)), st.lists(st.integers(0, 2), min_size=20, max_size=20))
def test_first_rows_may_come_in_any_order(slots: list[int], places: list[int]) -> None:
    codes, place = np.arange(20).reshape(-1, 1), np.array(places)
    some = np.array(slots[:13])
    tree = ZoneTree(codes, some, place[some])
    check_tree(tree, codes)
    tree.remove(codes, some, place[some])
    check_tree(tree, codes)


def test_ascending_places_keep_the_tree_shallow() -> None:
    codes = np.arange(20_000).reshape(-1, 1)
    tree = ZoneTree(codes, as_slots(np.arange(0)), np.arange(0))
    for start in range(0, 20_000, 1_000):
        tree.insert(codes, as_slots(np.arange(start, start + 1_000)), np.arange(start, start + 1_000))
    check_tree(tree, codes)
    assert len(tree.nodes.size) < 20_000


def test_a_row_that_is_not_there_is_noticed() -> None:
    codes = np.zeros((4, 1), np.int64)
    tree = ZoneTree(codes, np.array([1, 2]), np.array([0, 0]))
    with pytest.raises(AssertionError, match="1 rows"):
        tree.remove(codes, np.array([3]), np.array([0]))


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_a_probe_finds_what_nested_loops_find(seed: int, crossing: bool, coarse: bool) -> None:
    rng = np.random.default_rng(seed)
    columns = [Column("a", INTEGER), Column("b", INTEGER), Column("c", STRING)]
    space = PredicateSpace(Schema("r", tuple(columns)), ((0, 1),) if crossing else ())
    count = int(rng.integers(2, 60))
    values = [
        (int(a), int(b), "xyz"[c])
        for a, b, c in zip(rng.integers(0, 9, count), rng.integers(0, 9, count), rng.integers(0, 3, count), strict=True)
    ]
    rows = RowSet(space)
    codes, _ = rows.encode(_table(values))
    distinct, copies = np.unique(codes, axis=0, return_counts=True)
    rows.change(distinct, copies)
    masks = np.array([space.words(_random_mask(rng, space)) for _ in range(int(rng.integers(1, 6)))], np.uint64)
    index = TableIndex(rows)
    index.is_used = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableIndex, "_pays", lambda *_: True)
        patch.setattr(table_index, "_SELECTIVE", float(rng.integers(0, 60)))
        patch.setattr(table_index, "_MOST_TREES", 1 if coarse else 40)
        index.hold(masks)
    check_invariants(index)
    slots = rows.slots_of(codes)
    new = np.unique(slots[: int(rng.integers(1, count + 1))])
    expected_space = oracle.listed_space(
        [OracleColumn("a", "number"), OracleColumn("b", "number"), OracleColumn("c", "string")],
        [(0, 1)] if crossing else [],
    )
    found, pairs = index.probe(new)
    points = {_point(space, word) for word in found}
    expected = set()
    for i, j in ((i, j) for i in range(count) for j in range(count) if i != j):
        x_is_t, x_is_s = slots[i] in new, slots[j] in new
        point = oracle.evidence(values[i], values[j], expected_space)
        if _violates(point, masks, space) and (x_is_t or (crossing and x_is_s)):
            expected.add(point)
    assert expected <= points
    for word, listed in zip(found, pairs, strict=True):
        known = [(int(t), int(s)) for t, s in listed if t >= 0]
        assert known
        for t, s in known:
            decoded = [tuple(row.values()) for row in rows.values(np.array([t, s]))]
            assert oracle.evidence(decoded[0], decoded[1], expected_space) == _point(space, word)
            assert t != s or rows.copies[t] > 1
            assert t in new or s in new


def _violates(point: tuple[str, ...], masks: np.ndarray, space: PredicateSpace) -> bool:
    outcomes = {"<": 1, "=": 2, ">": 4, "!=": 5}
    evidence = evidence_bits(space, (outcomes[o] for o in point))
    return any(evidence & ~space.bits(mask) == 0 for mask in masks)


def _point(space: PredicateSpace, word: np.ndarray) -> tuple[str, ...]:
    return tuple({1: "<", 2: "=", 4: ">", 5: "!="}[p.outcomes(space.bits(word))] for p in space.pairs)


def _random_mask(rng: np.random.Generator, space: PredicateSpace) -> int:
    mask = 0
    for pair in space.pairs:
        kept = int(rng.integers(1, 1 << pair.width)) if rng.random() < 0.7 else (1 << pair.width) - 1
        mask |= kept << pair.offset
    return mask


def _table(values: list[tuple[int, int, str]]) -> Table:
    import pyarrow as pa

    columns = list(zip(*values, strict=True)) if values else [(), (), ()]
    types = (pa.int64(), pa.int64(), pa.string())
    return from_arrow(pa.table({n: pa.array(c, t) for n, c, t in zip("abc", columns, types, strict=True)}), "r")


def _some(rng: np.random.Generator, members: set[int]) -> np.ndarray:
    listed = np.array(sorted(members), np.int64)
    return rng.permutation(listed)[: int(rng.integers(0, len(listed) + 1))]


def _array(members: set[int]) -> np.ndarray:
    return np.array(sorted(members), np.int64)
