"""Kernels of stripped partitions against their plain twin: any groups, lists with and without a common side."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.discovery.kernels.evidence import PairCodes
from holdfast.discovery.kernels.partitions import (
    LEAF,
    SMALL,
    Partition,
    Predicates,
    Zones,
    refine_same_kernel,
    refine_two_kernel,
    search_kernel,
)
from tests.oracles.partitions import Group, refined, violating

UNLIMITED = 1 << 62
COUNTS = st.sampled_from([0, 1, 2, 3, 9, 40])


@given(COUNTS, st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_groups_of_one_list_are_split(count: int, values: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = _same(_cut(rng, rng.permutation(count)))
    codes, weight = rng.integers(0, values, count).astype(np.int32), rng.integers(1, 3, count)
    sizes, weights = np.zeros(values, np.int64), np.zeros(values, np.int64)
    rows, starts = _arrays([ts for ts, _ in groups])
    out, ends = np.full(count, 99, np.int32), np.full(count + 1, 99)
    kept, filled = refine_same_kernel(rows, starts, codes, weight, sizes, weights, out, ends)
    assert not sizes.any()
    assert not weights.any()
    found = _lists(out[:filled], ends[: kept + 1])
    assert sorted(_same(found)) == sorted(refined(groups, codes.tolist(), codes.tolist(), weight.tolist()))


@given(COUNTS, COUNTS, st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_groups_of_two_lists_are_split(t_count: int, s_count: int, values: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = max(t_count, s_count)
    of_t, of_s = _cut(rng, rng.permutation(count)[:t_count]), _cut(rng, rng.permutation(count)[:s_count])
    groups = list(zip(of_t, of_s, strict=False))
    t_codes, s_codes = rng.integers(0, values, (2, count)).astype(np.int32)
    t_sizes, s_sizes = np.zeros(values, np.int64), np.zeros(values, np.int64)
    partition = Partition(*_arrays([ts for ts, _ in groups]), *_arrays([ss for _, ss in groups]))
    t_out, s_out = np.full(len(partition.t_rows), 99, np.int32), np.full(len(partition.s_rows), 99, np.int32)
    t_ends, s_ends = np.full((2, len(t_out) + 1), 99)
    out = Partition(t_out, t_ends, s_out, s_ends)
    kept, t_filled, s_filled = refine_two_kernel(partition, t_codes, s_codes, t_sizes, s_sizes, out)
    assert not t_sizes.any()
    assert not s_sizes.any()
    found = zip(_lists(t_out[:t_filled], t_ends[: kept + 1]), _lists(s_out[:s_filled], s_ends[: kept + 1]), strict=True)
    assert sorted(found) == sorted(refined(groups, t_codes.tolist(), s_codes.tolist(), None))


@given(
    st.lists(st.sampled_from([1, 2, 5, LEAF - 1, LEAF, LEAF + 1, 32, 33, 4 * LEAF + 1]), max_size=4),
    st.integers(0, 3),
    st.sampled_from([2, 9, 1_000]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_pairs_are_found_in_every_two_zones_that_hold_one(
    sizes: list[int], predicates: int, values: int, crossing: bool, sort: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    search = _Search(rng, sizes, predicates, values, crossing, sort)
    expected = search.expected()
    pairs, _ = search.find(limit=10_000)
    assert all(pair in places for pair, places in zip(pairs, search.places(pairs, expected), strict=True))
    assert len(pairs) == len(expected)
    few, _ = search.find(limit=2)
    assert few == pairs[:2]


def test_a_search_that_costs_too_much_says_so() -> None:
    search = _Search(np.random.default_rng(1), [4 * LEAF + 1, 20, 4 * LEAF], 2, 3, crossing=False, sort=False)
    every, needed = search.find(limit=10_000)
    assert search.find(limit=10_000, budget=needed) == (every, needed)
    for budget in (0, 399, 400, needed // 2, needed - 1):
        pairs, made = search.find(limit=10_000, budget=budget)
        assert made > budget
        assert pairs == every[: len(pairs)]


@pytest.mark.parametrize(("allowed", "most"), [(1, 40), (2, 40), (4, 40)])
def test_zones_that_cannot_hold_a_pair_are_left_out_whole(allowed: int, most: int) -> None:
    """Rows ascend in one column and descend in the other; what is looked at grows as the rows do, not as the pairs."""
    count = 64 * LEAF
    codes = np.stack([np.arange(count), -np.arange(count) + count]).astype(np.int32)
    search = _Search(np.random.default_rng(0), [count], 2, 2, crossing=False, sort=False)
    search.left = search.right = codes
    search.groups = _same([tuple(range(count))])
    search.predicates = [(0, allowed), (1, allowed)]
    search.weight = np.ones(count, np.int64)
    pairs, made = search.find(limit=10_000)
    assert not pairs
    assert made < most * count


class _Search:
    """Some groups, some predicates over columns of so many values."""

    def __init__(
        self, rng: np.random.Generator, sizes: Sequence[int], predicates: int, values: int, crossing: bool, sort: bool
    ) -> None:
        count = sum(sizes)
        self.left, self.right = rng.integers(0, values, (2, 3, max(count, 1))).astype(np.int32)
        self.crossing = crossing
        if not crossing:
            self.right = self.left
        self.weight = rng.integers(1, 3, count)
        self.predicates = [(int(p), int(rng.integers(1, 7))) for p in rng.permutation(3)[:predicates]]
        ts = _cut_at(np.argsort(self.left[0, :count], kind="stable") if sort else rng.permutation(count), sizes)
        ss = [tuple(rng.permutation(t).tolist()) for t in ts] if crossing else ts
        self.groups: list[Group] = list(zip(ts, ss, strict=True))

    def expected(self) -> list[set[tuple[int, int]]]:
        """Return the pairs of every two zones that hold one; a short group is one zone."""
        found = []
        for ts, ss in self.groups:
            size = len(ts) + 1 if len(ts) * len(ss) <= SMALL else LEAF
            for i in range(0, len(ts), size):
                for j in range(0, len(ss), size):
                    zones = ts[i : i + size], ss[j : j + size]
                    found.append(violating(zones, *self.codes(), self.predicates))
        return [pairs for pairs in found if pairs]

    def places(
        self, pairs: Sequence[tuple[int, int]], expected: Sequence[set[tuple[int, int]]]
    ) -> list[set[tuple[int, int]]]:
        """Return the two zones that each pair is in, each of them once."""
        left = list(expected)
        found: list[set[tuple[int, int]]] = []
        for pair in pairs:
            at = next((i for i, places in enumerate(left) if pair in places), None)
            found.append(set() if at is None else left.pop(at))
        return found

    def codes(self) -> tuple[Any, Any, Any]:
        return self.left.tolist(), self.right.tolist(), self.weight.tolist()

    def find(self, limit: int, budget: int = UNLIMITED) -> tuple[list[tuple[int, int]], int]:
        longest = max((len(rows) for group in self.groups for rows in group), default=1)
        leaves = 1
        while leaves * LEAF < longest:
            leaves *= 2
        zones = np.full((4, len(self.predicates), 2 * leaves), 99, np.int32)
        partition = Partition(*_arrays([ts for ts, _ in self.groups]), *_arrays([ss for _, ss in self.groups]))
        out = np.full((limit, 2), -1)
        predicates = Predicates(*(np.array([predicate[i] for predicate in self.predicates], np.int64) for i in (0, 1)))
        every = np.arange(len(self.weight))
        codes = PairCodes(self.left, self.right, every, np.where(self.weight > 1, every, -1))
        scratch = Zones(*zones), np.zeros((64, 2), np.int64), out
        found, made = search_kernel(partition, not self.crossing, codes, predicates, budget, *scratch)
        return [(int(t), int(s)) for t, s in out[:found]], int(made)


def _cut(rng: np.random.Generator, rows: Any) -> list[tuple[int, ...]]:
    """Return lists of rows, of any length, that none may be."""
    cuts = np.sort(rng.integers(0, len(rows) + 1, 3))
    return [tuple(part.tolist()) for part in np.split(rows, cuts)]


def _cut_at(rows: Any, sizes: Sequence[int]) -> list[tuple[int, ...]]:
    return [tuple(part.tolist()) for part in np.split(rows, np.cumsum(sizes))[: len(sizes)]]


def _same(lists: Sequence[tuple[int, ...]]) -> list[Group]:
    return [(rows, rows) for rows in lists]


def _arrays(lists: Sequence[tuple[int, ...]]) -> tuple[Any, Any]:
    rows = np.array([row for rows in lists for row in rows], np.int32)
    return rows, np.cumsum([0, *map(len, lists)])


def _lists(rows: Any, starts: Any) -> list[tuple[int, ...]]:
    assert starts[0] == 0
    assert starts[-1] == len(rows)
    return [tuple(rows[a:b].tolist()) for a, b in itertools.pairwise(starts)]
