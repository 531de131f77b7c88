"""Kernels that probe and count against their plain twin: evidences of several words, tables that fill, 63 to 65 boxes."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.indexes.kernels.count import Box, count_kernel, first_in_box_kernel
from holdfast.indexes.kernels.evidences import (
    EvidenceArrays,
    Layout,
    insert_all_kernel,
    insert_kernel,
    listed_kernel,
    rehash_kernel,
)
from holdfast.indexes.kernels.probe import Boxes, probe_kernel
from holdfast.indexes.zone_tree import ZoneTree
from holdfast.tables.arrays import as_slots
from tests.oracles.probe import Compared, PlainNotes, Test, breaking, count_in_box, evidence, in_a_box

VALUES = np.array([-(2**63), -1, 0, 1, 2**63 - 1])
WIDTHS = st.lists(st.booleans(), min_size=1, max_size=4) | st.sampled_from(
    [[True] * 21, [True] * 20 + [False] * 2, [False] * 32, [False] * 33, [True] * 22, [True] * 45]
)
"""Pairs with or without an order; 63, 64 and 66 bits, a word that is full, three words."""


@given(WIDTHS, st.integers(1, 4), st.lists(st.tuples(*(st.integers(0, 6) for _ in range(3))), max_size=30))
def test_an_evidence_is_noted_with_pairs_that_share_no_row(
    ordered: list[bool], most: int, noted: list[tuple[int, int, int]]
) -> None:
    words = _words(_space(ordered))
    keys = np.random.default_rng(1).integers(1, 2**63, (7, words)).astype(np.uint64)
    table, plain = _table(16, words, most), PlainNotes(most)
    for number, t, s in noted:
        before = table.held[0]
        insert_kernel(keys[number], t, s, table)
        assert table.held[0] - before == plain.note(_number(keys[number]), t, s)
    assert _noted(table) == plain.found
    larger = _larger(table)
    assert _noted(larger) == plain.found
    assert larger.held[0] == table.held[0] == len(plain.found)
    numbers, pairs = np.hsplit(np.array(noted, np.int64).reshape(-1, 3), [1])
    table = _table(16, words, most)
    insert_all_kernel(keys[numbers[:, 0]], pairs.copy(), table)
    assert _noted(table) == plain.found


@given(WIDTHS, st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_listed_pairs_are_noted_until_the_table_is_half_full(ordered: list[bool], count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    space, codes = _space(ordered), VALUES[rng.integers(0, 5, (9, 2))]
    pairs = rng.integers(0, 9, (count, 2)).astype(np.int32)
    plain, table, at = PlainNotes(2), _table(2, _words(space), 2), 0
    while at < count:
        before = at
        at = listed_kernel(pairs, at, codes, _layout(space), table)
        for t, s in pairs[before:at].tolist():
            plain.note(evidence(codes[t], codes[s], space), t, s)
        assert _noted(table) == plain.found
        assert table.held[0] == len(plain.found)
        assert 2 * table.held[0] <= len(table.words)
        if at < count:
            assert 2 * table.held[0] == len(table.words)
            table = _larger(table)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0, 1, 2, 17, 60]),
    st.sampled_from([1, 2, 63, 64, 65, 130]),
    st.booleans(),
    st.booleans(),
)
def test_a_probe_notes_the_pairs_in_a_box(seed: int, count: int, boxes: int, both_ways: bool, anchored: bool) -> None:
    rng = np.random.default_rng(seed)
    codes, copies, live, tree = _rows(rng, count, by_column=0 if anchored else None)
    tests = _tests(rng, boxes, int(rng.integers(0, 4)))
    anchors = []
    if anchored:  # each box wants the column of places to be equal to one of two columns of x
        equal_to = rng.integers(0, 2, boxes)
        tests += [Test(c, 0, tuple(2 if equal_to[b] == c else 7 for b in range(boxes))) for c in (0, 1)]
        anchors = [0, 1]
    space = _space([True, False, True])
    xs = rng.permutation(live)[: rng.integers(0, count + 1)]
    expected = breaking(xs.tolist(), codes, live.tolist(), copies, tests, boxes)
    pairs = expected | ({(row, x) for x, row in expected} if both_ways else set())
    found = _probe(xs, codes, copies, tests, boxes, anchors, tree, space, both_ways)
    noted = {bits: _disjoint(listed) for bits, listed in _noted(found).items()}
    assert {pair for listed in noted.values() for pair in listed} <= pairs
    assert noted.keys() == {evidence(codes[t], codes[s], space) for t, s in pairs}
    for bits, listed in noted.items():
        assert all(evidence(codes[t], codes[s], space) == bits for t, s in listed)
        if len(listed) < 2:  # as many as there is room for, as far as they share no row
            rows = {row for pair in listed for row in pair}
            others = [(t, s) for t, s in pairs if evidence(codes[t], codes[s], space) == bits]
            assert all(rows & set(pair) for pair in others)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2, 17, 200]), st.booleans())
def test_copies_in_a_box_are_counted(seed: int, count: int, anchored: bool) -> None:
    rng = np.random.default_rng(seed)
    codes, copies, live, tree = _rows(rng, count, by_column=0 if anchored else None)
    tests = _tests(rng, 1, int(rng.integers(0, 4)))
    anchor = -1
    if anchored:
        anchor = int(rng.integers(0, 3))
        tests.append(Test(anchor, 0, (2,)))
    xs = rng.integers(0, len(codes), 6)  # rows of others are asked for, too
    boxes = _boxes(tests, 1, [])
    box = Box(boxes.x_column, boxes.row_column, np.array([test.allowed[0] for test in tests], np.int64))
    out = np.full(len(xs), -1)
    count_kernel(xs, codes, copies, box, anchor, tree.nodes, out)
    assert out.tolist() == [count_in_box(int(x), codes, live.tolist(), copies, tests) for x in xs]
    for x in xs.tolist():
        start, end = sorted(rng.integers(0, len(codes) + 1, 2).tolist())
        possible = (row for row in range(start, end) if copies[row] > (row == x))
        first = next((row for row in possible if in_a_box(codes[x], codes[row], tests, 1)), end)
        assert first_in_box_kernel(x, codes, copies, start, end, box) == first


@pytest.mark.parametrize(("allowed", "most"), [(1, 900), (2, 200), (4, 900), (6, 900)])
def test_nodes_that_hold_no_violation_are_left_out(allowed: int, most: int) -> None:
    """A row that lies behind, among or before all others is compared with few of them."""
    codes = np.stack([np.arange(20_000), np.arange(20_000)], axis=1)
    tree = ZoneTree(codes, as_slots(np.arange(20_000)), np.arange(20_000))
    middle = {1: 19_500, 2: 10_000, 4: 500, 6: 500}[allowed]
    effort = np.zeros(2, np.int64)
    tests = [Test(0, 0, (allowed,))]
    _probe(np.array([middle]), codes, np.ones(20_000), tests, 1, [], tree, _space([True]), False, effort)
    assert 0 < effort[1] < most


def _probe(
    xs: Any,
    codes: Any,
    copies: Any,
    tests: Sequence[Test],
    boxes: int,
    anchors: Sequence[int],
    tree: ZoneTree,
    space: Sequence[Compared],
    both_ways: bool,
    effort: Any = None,
) -> EvidenceArrays:
    """Return the table of what a probe noted, grown where it has to be."""
    table, at = _table(8, _words(space), 2), 0
    effort = np.zeros(2, np.int64) if effort is None else effort
    how = _boxes(tests, boxes, anchors), tree.nodes, _layout(space), both_ways
    while at < len(xs):
        at = probe_kernel(xs, at, codes, copies.astype(np.int64), *how, table, effort)
        assert table.held[0] == (table.filled > 0).sum()
        assert 2 * table.held[0] <= len(table.words)
        if at < len(xs):
            assert 2 * table.held[0] + 4 >= len(table.words)
            table = _larger(table)
    return table


def _space(ordered: Sequence[bool]) -> list[Compared]:
    """Return pairs of two columns, one behind the other, none across two words."""
    space: list[Compared] = []
    for i, is_ordered in enumerate(ordered):
        offset = space[-1].offset + space[-1].width if space else 0
        width = 3 if is_ordered else 2
        if offset // 64 < (offset + width - 1) // 64:
            offset = -(-offset // 64) * 64
        space.append(Compared(i % 2, (i // 2) % 2, is_ordered, offset))
    return space


def _words(space: Sequence[Compared]) -> int:
    return space[-1].offset // 64 + 1


def _layout(space: Sequence[Compared]) -> Layout:
    left, right, offset = (np.array([getattr(pair, name) for pair in space]) for name in ("left", "right", "offset"))
    return Layout(left, right, np.array([pair.ordered for pair in space]), offset // 64, offset % 64)


def _table(size: int, words: int, most: int) -> EvidenceArrays:
    filled, held = np.zeros(size, np.int64), np.zeros(1, np.int64)
    return EvidenceArrays(np.zeros((size, words), np.uint64), np.full((size, most, 2), 99, np.int32), filled, held)


def _larger(table: EvidenceArrays) -> EvidenceArrays:
    larger = _table(2 * len(table.words), table.words.shape[1], table.pairs.shape[1])
    rehash_kernel(table, larger)
    return larger


def _noted(table: EvidenceArrays) -> dict[int, list[tuple[int, int]]]:
    used = np.flatnonzero(table.filled).tolist()
    found = {_number(table.words[i]): [(int(t), int(s)) for t, s in table.pairs[i, : table.filled[i]]] for i in used}
    assert len(found) == len(used)
    return found


def _disjoint(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    rows = [row for pair in pairs for row in set(pair)]
    assert len(rows) == len(set(rows))
    return pairs


def _number(words: Any) -> int:
    return sum(int(word) << (64 * w) for w, word in enumerate(words))


def _rows(rng: np.random.Generator, count: int, by_column: int | None) -> tuple[Any, Any, Any, ZoneTree]:
    """Return codes, copies, live rows and a tree of them; some slots are free, and hold what they held."""
    codes = VALUES[rng.integers(0, 5, (count + 5, 3))] if rng.random() < 0.5 else rng.integers(0, 30, (count + 5, 3))
    live = np.sort(rng.permutation(count + 5)[:count])
    copies = np.zeros(count + 5, np.int64)
    copies[live] = rng.integers(1, 3, count)
    places = np.ascontiguousarray(codes[:, by_column]) if by_column is not None else rng.integers(0, 9, count + 5)
    return codes, copies, live, ZoneTree(codes, as_slots(live), places[live], copies)


def _tests(rng: np.random.Generator, boxes: int, count: int) -> list[Test]:
    """Return tests; boxes allow some outcomes, and most of them all."""
    columns = rng.integers(0, 3, (count, 2)).tolist()
    hard = rng.random() < 0.5
    return [Test(x, row, tuple(_allowed(rng, boxes, hard))) for x, row in columns]


def _allowed(rng: np.random.Generator, boxes: int, hard: bool) -> Iterator[int]:
    for _ in range(boxes):
        yield int(rng.choice([1, 2, 4])) if hard else int(rng.integers(1, 8))


def _boxes(tests: Sequence[Test], boxes: int, anchors: Sequence[int]) -> Boxes:
    """Return tests of so many boxes as kernels take them."""
    allow = np.zeros((len(tests), 8, len(_bits([True] * boxes))), np.uint64)
    for i, test in enumerate(tests):
        for possible in range(8):
            allow[i, possible] = _bits([bool(allowed & possible) for allowed in test.allowed])
    x_column, row_column = (
        np.array([getattr(t, name) for t in tests], np.int64) for name in ("x_column", "row_column")
    )
    return Boxes(x_column, row_column, _bits([True] * boxes), allow, np.array(anchors, np.int64))


def _bits(flags: Sequence[bool]) -> Any:
    number = sum(1 << i for i, flag in enumerate(flags) if flag)
    return np.array([(number >> (64 * w)) & (2**64 - 1) for w in range(-(-len(flags) // 64))], np.uint64)
