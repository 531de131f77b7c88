"""Clusters as lists of columns, against a dictionary of sets: counts, undo, more columns, and their memory."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.constraints import ColumnRef
from holdfast.constraints.types import INTEGER
from holdfast.discovery.blocks.values.shared import ClusterCounts
from holdfast.discovery.inclusion import clusters as module
from holdfast.discovery.inclusion.clusters import Clusters, Member
from holdfast.tables.arrays import Bits
from tests.invariants import check_invariants

Sets = list[set[int]]


def _members(first: int, end: int) -> list[Member]:
    return [Member(ColumnRef("t", f"c{number}"), INTEGER) for number in range(first, end)]


def _bits(clusters: Clusters, sets: Iterable[set[int]]) -> Bits:
    every = [sorted(columns) for columns in sets]
    places = np.repeat(np.arange(len(every)), [len(columns) for columns in every])
    return clusters.bits_of(len(every), places, np.array([c for columns in every for c in columns], np.int64))


class ClustersMachine(RuleBasedStateMachine):
    """Per set of columns how many values it has, and how many occurrences each of its columns has of them."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.clusters = Clusters([])
        self.width = 0
        self.order: Sets = []
        self.values: list[int] = []
        self.occurrences: list[dict[int, int]] = []

    @initialize(width=st.integers(1, 20), few=st.sampled_from([1, 64]))
    def columns(self, width: int, few: int) -> None:
        self.patch.setattr(module, "_FEWEST", few)
        self.patch.setattr(module, "_CELLS_AT_ONCE", 30)
        self.clusters, self.width = Clusters(_members(0, width)), width

    @rule(data=st.data())
    def come(self, data: st.DataObject) -> None:
        """Values come into some clusters, and perhaps all of them go again."""
        columns = st.sets(st.integers(0, self.width - 1), min_size=1, max_size=6)
        sets: Sets = data.draw(st.lists(columns, max_size=4, unique_by=frozenset))
        before = self.clusters.count
        numbers = self.clusters.numbers(_bits(self.clusters, sets))
        for columns_of in sets:
            if columns_of not in self.order:
                self.order.append(columns_of)
                self.values.append(0)
                self.occurrences.append(dict.fromkeys(columns_of, 0))
        assert numbers.tolist() == [self.order.index(columns_of) for columns_of in sets]
        values = np.array(data.draw(st.lists(st.integers(1, 3), min_size=len(sets), max_size=len(sets))), np.int64)
        cells = [(i, c) for i, columns_of in enumerate(sets) for c in sorted(columns_of)]
        cells += data.draw(st.lists(st.sampled_from(cells), max_size=5)) if cells else []
        places, column = (np.array([cell[side] for cell in cells], np.int64) for side in (0, 1))
        flat = self.clusters.tallied(numbers, places, column, np.full(len(cells), 2))
        self.clusters.change(numbers, values, flat)
        if data.draw(st.booleans()):
            self.clusters.change(numbers, -values, -flat)
            self.clusters.forget_after(before)
            del self.order[before:], self.values[before:], self.occurrences[before:]
            return
        for number, more in zip(numbers.tolist(), values.tolist(), strict=True):
            self.values[number] += more
        for i, c in cells:
            self.occurrences[int(numbers[i])][c] += 2

    @rule()
    def go(self) -> None:
        """All values of the last cluster go; it keeps its number."""
        if self.order:
            last = np.array([len(self.order) - 1])
            self.clusters.change(last, -self.clusters.values[last], -self.clusters.occurrences_of(last))
            self.values[-1], self.occurrences[-1] = 0, dict.fromkeys(self.order[-1], 0)

    @rule()
    def send(self) -> None:
        """What is counted here is counted into other clusters of the same columns."""
        other = Clusters(self.clusters.columns)
        ClusterCounts.of(self.clusters).add_to(other)
        check_invariants(other)
        self.clusters = other

    @invariant()
    def counts_are_those_of_the_sets(self) -> None:
        clusters, every = self.clusters, range(self.width)
        check_invariants(clusters)
        assert clusters.values.tolist() == self.values
        assert len(clusters) == sum(map(bool, self.values))
        assert clusters.columns_of(np.arange(clusters.count)).tolist() == [c for s in self.order for c in sorted(s)]
        live = list(zip(self.order, self.values, self.occurrences, strict=True))
        assert clusters.totals.tolist() == [sum(v for s, v, _ in live if c in s) for c in every]
        assert clusters.total_occurrences.tolist() == [sum(o.get(c, 0) for _, _, o in live) for c in every]
        occurring = clusters.missing_occurrences
        for a in every:
            assert clusters.with_any(np.array([a])).tolist() == [i for i, s in enumerate(self.order) if a in s]
            for b in every:
                only_a = [(i, v, o[a]) for i, (s, v, o) in enumerate(live) if a in s and b not in s]
                assert clusters.missing[a, b] == sum(v for _, v, _ in only_a)
                assert occurring[a, b] == clusters.missing_occurrences_of(a, b) == sum(o for _, _, o in only_a)
                assert clusters.lacking(a, b).tolist() == [i for i, v, _ in only_a if v]

    def teardown(self) -> None:
        self.patch.undo()


TestClusters = ClustersMachine.TestCase
TestClusters.settings = settings(max_examples=40, stateful_step_count=8)


def test_memory_is_that_of_the_columns_that_clusters_have() -> None:
    """Ten columns of 273 each: a matrix of occurrences would take 2,184 bytes a cluster."""
    count, width, size = 20_000, 273, 10
    dice = np.random.default_rng(1)
    clusters = Clusters(_members(0, width))
    columns = dice.integers(0, width, (count, size))
    bits = clusters.bits_of(count, np.repeat(np.arange(count), size), columns.ravel())
    numbers = np.unique(clusters.numbers(bits))
    clusters.change(numbers, np.ones(len(numbers), np.int64), np.ones(len(clusters.entries), np.int64))
    assert len(clusters) == len(numbers) > 0.99 * count
    fixed = clusters.missing.nbytes
    assert (clusters.nbytes - fixed) / len(clusters) < 450
