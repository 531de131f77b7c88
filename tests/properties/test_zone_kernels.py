"""Kernels of zone trees against their plain twin: any rows in and out, nodes that run out, numbers at the ends of int64.

What is read from a tree: its rows in order, the zone and the weight of each node, and that each node is in the tree, in
the list of nodes given back, or was never used.
"""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.indexes.kernels.zones import (
    DEPTH,
    FANOUT,
    Tree,
    build_kernel,
    insert_kernel,
    order_kernel,
    remove_kernel,
    weigh_kernel,
)
from tests.oracles.zones import PlainRows, weight, zone

SIZES = (0, 1, 2, 11, 12, 13, 15, 16, 17, 31, 33, 143, 144, 145, 300)
NUMBERS = np.array([-(2**63), -(2**63) + 1, -3, -1, 0, 1, 2, 2**31, 2**63 - 2, 2**63 - 1])
ROWS = 320
GARBAGE = 77


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(SIZES),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from([1, 4, 1_000]),
    st.integers(0, 40),
)
def test_rows_in_and_out(seed: int, first: int, columns: int, counted: bool, places: int, spare: int) -> None:
    rng = np.random.default_rng(seed)
    codes = _numbers(rng, (ROWS, columns), 10)
    place = _numbers(rng, (ROWS,), places)
    copies = rng.integers(1, 4, ROWS) if counted else np.zeros(0, np.int64)
    plain = PlainRows()
    slots = rng.choice(ROWS, first, replace=False)
    ordered = np.array([slot for _, slot in sorted((int(place[s]), int(s)) for s in slots)], np.int64)
    nodes = _nodes(len(ordered) + DEPTH + 2, columns)
    build_kernel(ordered, place[ordered], codes, copies, nodes)
    plain.insert(_rows(ordered, place))
    _agrees(nodes, plain, codes, copies)
    for _ in range(6):
        held = np.array([slot for _, slot in plain.listed()], np.int64)
        gone = rng.permutation(held)[: rng.integers(0, len(held) + 1)]
        asked = np.concatenate([gone, gone[: rng.integers(0, 2)]])  # a row that is gone is missing
        missing = remove_kernel(asked, place[asked], codes, copies, nodes)
        assert missing == plain.remove(_rows(gone, place)) + len(asked) - len(gone)
        _agrees(nodes, plain, codes, copies)
        codes[gone] = _numbers(rng, (len(gone), columns), 10)
        out = np.setdiff1d(np.arange(ROWS), [slot for _, slot in plain.rows])
        come = rng.permutation(out)[: rng.integers(0, len(out) + 1)]
        at = 0
        while at < len(come):
            before = at
            at = insert_kernel(come, place[come], at, codes, copies, nodes)
            plain.insert(_rows(come[before:at], place))
            _agrees(nodes, plain, codes, copies)
            if at < len(come):
                assert nodes.root[2] + DEPTH >= len(nodes.size)  # a row may need a node on each level
                nodes = _larger(nodes, spare)
        if counted and plain.rows:
            changed = rng.choice([slot for _, slot in plain.listed()], 5)
            copies[changed] = rng.integers(0, 9, 5)
            weigh_kernel(changed, place[changed], copies, nodes)
            _agrees(nodes, plain, codes, copies)


@given(st.lists(st.sampled_from(NUMBERS.tolist()), min_size=1), st.booleans(), st.integers(0, 2**32 - 1))
def test_the_order_of_places(drawn: list[int], near: bool, seed: int) -> None:
    places = np.array(drawn, np.int64)
    if near:  # a range of any number of bits
        places = np.random.default_rng(seed).integers(-(2**63), -(2**63) + (1 << (seed % 64)), len(drawn), np.int64)
    slots = np.cumsum(np.random.default_rng(seed).integers(1, 3, len(places)))
    room = np.full_like(slots, GARBAGE), np.full_like(places, GARBAGE)
    found = order_kernel(slots.copy(), places.copy(), *room)
    expected = sorted(zip(places.tolist(), slots.tolist(), strict=True))
    assert list(zip(found[1].tolist(), found[0].tolist(), strict=True)) == expected


def _agrees(nodes: Tree, plain: PlainRows, codes: Any, copies: Any) -> None:
    """Assert that the arrays hold exactly the plain rows."""
    size, leaf, entry, places, first, zones, weights, root = nodes
    used: list[int] = []
    depths: set[int] = set()

    def below(node: int, depth: int) -> list[tuple[int, int]]:
        used.append(node)
        assert size[node] < FANOUT
        if leaf[node]:
            depths.add(depth)
            assert entry[node, : size[node]].tolist() == first[node, : size[node]].tolist()
            rows = [(int(places[node, i]), int(entry[node, i])) for i in range(size[node])]
        else:
            assert size[node] > 0
            rows = []
            for i in range(size[node]):
                part = below(int(entry[node, i]), depth + 1)
                assert part[0] == (places[node, i], first[node, i])
                rows += part
        slots = [slot for _, slot in rows]
        assert weights[node] == weight(slots, copies)
        for k in range(codes.shape[1]):
            assert (zones[node, 0, k], zones[node, 1, k]) == zone(slots, codes, k)
        return rows

    assert below(int(root[0]), 0) == plain.listed()
    assert len(depths) == 1
    assert len(used) == 1 or size[root[0]] > 1
    free = []
    node = int(root[1])
    while node >= 0:
        assert size[node] == 0
        free.append(node)
        node = int(entry[node, 0])
    assert sorted(used + free) == list(range(root[2]))
    assert root[2] <= len(size)
    assert not size[root[2] :].any()


def _nodes(count: int, columns: int) -> Tree:
    """Return nodes that nobody has used; only their sizes are known to be 0."""
    shapes: tuple[tuple[int, ...], ...] = ((count, FANOUT), (count, FANOUT), (count, FANOUT), (count, 2, columns))
    entry, place, first, zones = (np.full(shape, GARBAGE, np.int64) for shape in shapes)
    size, leaf, weights, root = np.zeros(count, np.int64), np.full(count, 1), np.full(count, GARBAGE), np.full(3, -9)
    return Tree(size, leaf, entry.astype(np.int32), place, first.astype(np.int32), zones, weights, root)


def _larger(nodes: Tree, spare: int) -> Tree:
    more = _nodes(DEPTH + 1 + spare, nodes.zone.shape[2])
    *larger, _ = (np.concatenate([a, b]) for a, b in zip(nodes, more, strict=True))
    return Tree._make([*larger, nodes.root])


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], different: int) -> Any:
    """Return numbers, of which so many are different; those at the ends of int64 where there are few."""
    return (
        NUMBERS[rng.integers(0, different, shape)] if different <= len(NUMBERS) else rng.integers(0, different, shape)
    )


def _rows(slots: Any, place: Any) -> list[tuple[int, int]]:
    return [(int(place[slot]), int(slot)) for slot in slots]
