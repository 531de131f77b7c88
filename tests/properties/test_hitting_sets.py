"""The enumeration of minimal hitting sets against its plain twin: edges and vertices around 64, results in small parts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.discovery.evidence import hitting_sets
from holdfast.discovery.evidence.hitting_sets import HittingSetSearch, transposed
from holdfast.discovery.kernels.hitting_sets import VertexGroups
from tests.oracles.hitting_sets import Vertices, minimal_hitting_sets

GROUPS = st.lists(st.integers(2, 3), min_size=1, max_size=5).filter(lambda sizes: sum(sizes) <= 10)


@given(
    GROUPS,
    st.sampled_from([0, 61, 62, 63, 64, 65, 128]),
    st.integers(0, 40),
    st.integers(0, 3),
    st.sampled_from([1, 2, 1 << 14]),
    st.sampled_from([1, 3, 1 << 20]),
    st.integers(0, 2**32 - 1),
)
def test_the_sets_are_those_of_the_definition(
    sizes: list[int], before: int, count: int, bound: int, at_once: int, steps: int, seed: int
) -> None:
    """Bits that are no vertices stand `before` the groups, so that these begin anywhere in a word."""
    rng = np.random.default_rng(seed)
    groups = _groups(sizes, before)
    edges = list({_edge(rng, groups) for _ in range(count)})
    vertices = frozenset().union(*groups)
    within = frozenset(v for v in vertices if rng.random() < 0.8) if seed % 2 else vertices
    expected = minimal_hitting_sets(edges, groups, bound, within)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hitting_sets, "_CHUNK", at_once)
        patch.setattr(hitting_sets, "_WORDS_AT_ONCE", steps)
        words = max(vertices) // 64 + 1
        search = HittingSetSearch(
            _rows(edges, words),
            _as_groups(groups, words),
            bound,
            within=_rows([within], words)[0] if seed % 2 else None,
        )
        chunks = [*search]
    assert all(len(chunk) <= at_once for chunk in chunks)
    found = [_vertices(row) for chunk in chunks for row in chunk]
    assert len(found) == len(set(found))
    assert set(found) == expected


@pytest.mark.parametrize("count", [63, 64, 65, 128, 129, 300])
def test_so_they_are_with_edges_that_fill_words(count: int) -> None:
    rng = np.random.default_rng(count)
    groups = _groups([3, 3, 3, 3, 3, 2])
    drawn: set[Vertices] = set()
    while len(drawn) < count - 1:
        drawn.add(_edge(rng, groups) - groups[0] | {max(groups[0])})
    edges = [*drawn, frozenset(min(group) for group in groups)]  # a single set hits all others; the last one takes more
    expected = minimal_hitting_sets(edges, groups, 0, frozenset().union(*groups))
    found = {_vertices(row) for chunk in HittingSetSearch(_rows(edges, 1), _as_groups(groups, 1)) for row in chunk}
    assert found == expected


@given(GROUPS, st.integers(1, 80), st.integers(0, 2**32 - 1))
def test_an_edge_that_no_vertex_is_in_is_gone(sizes: list[int], count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = _groups(sizes)
    edges = [_edge(rng, groups) for _ in range(count)]
    gone = rng.random(count) < 0.5
    kept = [edge for edge, is_gone in zip(edges, gone, strict=True) if not is_gone]
    occurrence = transposed(_rows(edges, 1)) & _bitmap(~gone)
    search = HittingSetSearch(_rows(edges, 1), _as_groups(groups, 1), occurrence=occurrence)
    expected = minimal_hitting_sets(kept, groups, 0, frozenset().union(*groups))
    assert {_vertices(row) for chunk in search for row in chunk} == expected


@given(st.integers(0, 130), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_transposed_bits(count: int, words: int, seed: int) -> None:
    rows = np.random.default_rng(seed).integers(0, 2**64, (count, words), np.uint64)
    bits = [_vertices(row) for row in rows]
    expected = [frozenset(i for i in range(count) if bit in bits[i]) for bit in range(64 * words)]
    assert [_vertices(row) for row in transposed(rows)] == expected


def _groups(sizes: Sequence[int], at: int = 0) -> list[Vertices]:
    """Return vertices in groups, one behind the other from a bit on; none lies across two words."""
    groups: list[Vertices] = []
    for size in sizes:
        if at // 64 < (at + size - 1) // 64:
            at = -(-at // 64) * 64
        groups.append(frozenset(range(at, at + size)))
        at += size
    return groups


def _edge(rng: np.random.Generator, groups: Sequence[Vertices]) -> Vertices:
    """Return an edge that has a vertex of most groups, at most one of each."""
    drawn = {int(rng.choice(sorted(group))) for group in groups if rng.random() < 0.9}
    return frozenset(drawn or {min(groups[0])})


def _as_groups(groups: Sequence[Vertices], words: int) -> VertexGroups:
    of = np.full(64 * words, -1, np.int64)
    for number, group in enumerate(groups):
        of[sorted(group)] = number
    word = np.array([min(group) // 64 for group in groups], np.int64)
    bits = np.array([sum(1 << v % 64 for v in group) for group in groups], np.uint64)
    return VertexGroups(of, word, bits, _rows([frozenset().union(*groups)], words)[0])


def _rows(sets: Sequence[Vertices], words: int) -> Any:
    numbers = [sum(1 << v for v in vertices) for vertices in sets]
    bits = [[(number >> (64 * w)) & (2**64 - 1) for w in range(words)] for number in numbers]
    return np.array(bits, np.uint64).reshape(len(sets), words)


def _bitmap(flags: Any) -> Any:
    return _rows([frozenset(np.flatnonzero(flags).tolist())], -(-len(flags) // 64))[0]


def _vertices(row: Any) -> Vertices:
    return frozenset(64 * w + bit for w, word in enumerate(row) for bit in range(64) if int(word) >> bit & 1)
