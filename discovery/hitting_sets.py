"""Minimal hitting sets of evidences: the complements of the maximal valid boxes.

An evidence, one outcome per column pair, is an edge; a set `S` of outcomes that meets every edge, and leaves at
least one outcome to every column pair, is what a box must leave out to contain no evidence. So the masks of the
reported denial constraints are exactly the complements of the minimal such sets.

The enumeration is depth first [MMCS]: take an uncovered edge with few candidates, try each of its vertices, and go
back as soon as some chosen vertex is no longer the only one that hits some edge. No result is compared with
another. *Differs from the paper*: one bitmap of edges hit exactly once replaces one of critical edges for each
chosen vertex; a bound on the number of touched groups cuts the search; results come in chunks, and the search can
be left and taken up again.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from holdfast.discovery.kernels.hitting_sets import Words, enumerate_kernel, transpose_kernel

_CHUNK = 1 << 14
_STEPS = 1 << 20
_WORDS_AT_ONCE = 1 << 29


class HittingSetSearch:
    """One enumeration, in chunks.

    Parameters
    ----------
    edges : (E, W) words, distinct; each has vertices of every group.
    group_bits : (G, W) words: which vertices exclude each other from all being taken.
    bound : how many groups a set may touch; 0 for any number.
    within : (W,) the vertices that a set may have; all where it is not given.
    occurrence : the edges of each vertex as bits, where they are at hand already; an edge that is in none is gone.

    Examples
    --------
    Two groups of two vertices, and the edges {0, 2} and {1, 3}:

    >>> words = lambda *rows: np.array(rows, np.uint64).reshape(-1, 1)
    >>> search = HittingSetSearch(words(0b0101, 0b1010), words(0b0011, 0b1100))
    >>> sorted(bin(int(s[0])) for chunk in search for s in chunk)
    ['0b1001', '0b110']
    """

    def __init__(
        self,
        edges: Words,
        group_bits: Words,
        bound: int = 0,
        *,
        within: Words | None = None,
        occurrence: Words | None = None,
    ) -> None:
        self._edges = np.ascontiguousarray(edges, np.uint64)
        self._group_bits = np.ascontiguousarray(group_bits, np.uint64)
        self._bound = bound
        self._occurrence = occurrence
        self._within = np.bitwise_or.reduce(self._group_bits, axis=0) if within is None else within
        self.tried = 0

    def __iter__(self) -> Iterator[Words]:
        """Yield the sets, (n, W) words at a time. A chunk may be empty: then the search has merely gone on."""
        occurrence = transposed(self._edges) if self._occurrence is None else self._occurrence
        present = np.bitwise_or.reduce(occurrence, axis=0)
        if not present.any():
            yield np.zeros((1, self._edges.shape[1]), np.uint64)
            return
        width, per_edge = self._edges.shape[1], len(present)
        levels = int(sum(_bit_count(group) - 1 for group in self._group_bits)) + 2
        depth, chosen = np.zeros(1, np.int64), np.zeros(levels, np.int64)
        taken, candidates, branch = (np.zeros((levels, width), np.uint64) for _ in range(3))
        uncovered, once = (np.zeros((levels, per_edge), np.uint64) for _ in range(2))
        candidates[0] = self._within
        for group in self._group_bits:
            if _bit_count(group) == 1:
                candidates[0] &= ~group
        uncovered[0] = present
        edge = _numbers(present)
        choices = np.bitwise_count(self._edges[edge] & candidates[0]).sum(axis=1)
        branch[0] = self._edges[edge[choices.argmin()]] & candidates[0]
        candidates[0] &= ~branch[0]
        steps = np.zeros(1, np.int64)
        steps_at_once = max(1, min(_STEPS, _WORDS_AT_ONCE // per_edge))
        out = np.zeros((_CHUNK, width), np.uint64)
        while depth[0] >= 0:
            steps[0] = steps_at_once
            found = enumerate_kernel(
                self._edges,
                occurrence,
                self._group_bits,
                self._bound,
                depth,
                chosen,
                taken,
                candidates,
                branch,
                uncovered,
                once,
                steps,
                out,
            )
            self.tried += steps_at_once - int(steps[0])
            yield out[:found].copy()


def transposed(rows: Words) -> Words:
    """Return for every bit the bitmap of the rows that have it: (64 W, ceil(n / 64)) words."""
    out: Words = np.zeros((rows.shape[1] * 64, -(-len(rows) // 64)), np.uint64)
    transpose_kernel(rows, out)
    return out


def _bit_count(words: Words) -> int:
    return int(np.bitwise_count(words).sum())


def _numbers(bits: Words) -> NDArray[np.int64]:
    """Return which bits are set."""
    return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))
