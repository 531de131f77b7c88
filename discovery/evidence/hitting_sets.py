"""Minimal hitting sets of evidences: the complements of the maximal valid boxes.

An evidence, one outcome per column pair, is an edge. A box contains no evidence exactly if the outcomes that it
excludes meet every edge, and it allows an outcome on every column pair. So the masks of the reported denial
constraints are exactly the complements of the minimal such sets of outcomes.

The enumeration is depth first [MMCS]: take an uncovered edge with few candidates, try each of its vertices, and go
back as soon as some chosen vertex is no longer the only one that hits some edge. No result is compared with
another. *Differs from the paper*: one bitmap of edges hit exactly once replaces one of critical edges for each
chosen vertex; a bound on the number of touched groups cuts the search, and a set that touches as many is extended
within their words alone; results come in chunks, and the search can be left and taken up again.
"""

from collections.abc import Iterator

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.kernels.hitting_sets import (
    Levels,
    VertexGroups,
    branch_kernel,
    drop_useless_kernel,
    enumerate_kernel,
    levels_kernel,
    transpose_kernel,
)
from holdfast.tables.arrays import Words

_CHUNK = 1 << 14
_CHUNK_WORDS = 1 << 22
_WORDS_AT_ONCE = 1 << 26
_WORDS_BEFORE_A_FORECAST = 1 << 30


def groups_of(space: PredicateSpace) -> VertexGroups:
    """Return the outcomes of each column pair, two or three, as a group of vertices. O(column pairs)."""
    offset = np.array([pair.offset for pair in space.pairs], np.int64)
    width = np.array([pair.width for pair in space.pairs], np.int64)
    of = np.full(space.word_count * 64, -1, np.int64)
    for bit in range(3):
        wide = np.flatnonzero(width > bit)
        of[offset[wide] + bit] = wide
    word = offset // 64
    bits = ((np.uint64(1) << width.astype(np.uint64)) - np.uint64(1)) << (offset % 64).astype(np.uint64)
    every = np.zeros(space.word_count, np.uint64)
    np.bitwise_or.at(every, word, bits)
    return VertexGroups(of, word, bits, every)


class HittingSetSearch:
    """One enumeration, in chunks.

    Parameters
    ----------
    edges : (E, W) words, distinct; each has vertices of every group.
    groups : groups of vertices, none of which a set may have in full.
    bound : the number of groups that a set may touch; 0 for any number.
    within : (W,) the vertices that a set may have; all by default.
    occurrence : the edges of each vertex as bits, if known; an edge that no vertex has is ignored.

    Examples
    --------
    Two groups of two vertices, and the edges {0, 2} and {1, 3}:

    >>> from holdfast.constraints import Column, Schema
    >>> from holdfast.constraints.types import STRING
    >>> space = PredicateSpace(Schema("r", (Column("a", STRING), Column("b", STRING))))
    >>> edges = np.array([[0b0101], [0b1010]], np.uint64)
    >>> sorted(bin(int(s[0])) for chunk in HittingSetSearch(edges, groups_of(space)) for s in chunk)
    ['0b1001', '0b110']
    """

    def __init__(
        self,
        edges: Words,
        groups: VertexGroups,
        bound: int = 0,
        *,
        within: Words | None = None,
        occurrence: Words | None = None,
    ) -> None:
        self._edges = np.ascontiguousarray(edges, np.uint64)
        self._groups = groups
        self._bound = bound
        self._occurrence = occurrence
        self._within = within
        self._levels: Levels | None = None
        self.tried = 0
        self.words_read = 0

    def __iter__(self) -> Iterator[Words]:
        """Yield the sets, (n, W) words at a time. A chunk may be empty, so that callers can stop or report."""
        occurrence = transposed(self._edges) if self._occurrence is None else self._occurrence
        present = np.bitwise_or.reduce(occurrence, axis=0)
        if not present.any():
            yield np.zeros((1, self._edges.shape[1]), np.uint64)
            return
        width = self._edges.shape[1]
        self._levels = levels = self._root(present, occurrence)
        work = np.zeros(2, np.int64)
        out = np.zeros((max(1, min(_CHUNK, _CHUNK_WORDS // width)), width), np.uint64)
        while levels.depth[0] >= 0:
            work[0] = _WORDS_AT_ONCE
            found = enumerate_kernel(self._edges, occurrence, self._groups, self._bound, levels, work, out)
            self.words_read += _WORDS_AT_ONCE - int(work[0])
            self.tried = int(work[1])
            yield out[:found].copy()

    def times_ahead(self) -> float:
        """Return an estimate of the whole work of the search divided by the work done so far.

        1 before some seconds of work. Vertices of an edge that are tried later may be combined with the earlier
        vertices, so the rest usually takes longer than estimated.
        """
        if self._levels is None or self.words_read < _WORDS_BEFORE_A_FORECAST:
            return 1.0
        levels, depth = self._levels, int(self._levels.depth[0])
        done, part = 0.0, 1.0
        for level in range(depth + 1):
            part /= max(int(levels.sizes[level]), 1)
            done += part * int(levels.sizes[level] - levels.left[level] - (level < depth))
        return max(1 / done, 1.0) if done else 1.0

    def _root(self, present: Words, occurrence: Words) -> Levels:
        """Return the first level, which tries the vertices of an edge with few."""
        width, per_edge = self._edges.shape[1], len(present)
        sizes = np.bitwise_count(self._groups.bits).astype(np.int64)
        # each vertex of a set is the only one that hits some edge, and none fills its group
        most = np.sort(sizes - 1)[::-1][: self._bound or None].sum()
        depth = int(min(most, np.bitwise_count(present).sum())) + 2
        levels: Levels = levels_kernel(depth, width, per_edge, min(self._bound, len(sizes)) + 1)
        levels.candidates[0] = self._groups.every if self._within is None else self._groups.every & self._within
        levels.uncovered[0] = present
        if self._bound == 1:
            drop_useless_kernel(self._edges, occurrence, levels, 0, self._groups)
        branch_kernel(self._edges[self._smallest(present, levels.candidates[0])], levels, 0, closed=False)
        return levels

    def _smallest(self, present: Words, candidates: Words) -> int:
        """Return the number of an edge with the fewest candidates."""
        best, fewest = -1, np.inf
        edges = np.flatnonzero(np.unpackbits(present.view(np.uint8), bitorder="little"))
        at_once = max(1, _CHUNK_WORDS // len(candidates))
        for start in range(0, len(edges), at_once):
            some = edges[start : start + at_once]
            choices = np.bitwise_count(self._edges[some] & candidates).sum(axis=1)
            if choices.min() < fewest:
                best, fewest = int(some[choices.argmin()]), int(choices.min())
        return best


def transposed(rows: Words) -> Words:
    """Return for every bit the bitmap of the rows that have it: (64 W, ceil(n / 64)) words."""
    out: Words = np.zeros((rows.shape[1] * 64, -(-len(rows) // 64)), np.uint64)
    transpose_kernel(rows, out)
    return out
