"""Minimal covers of edges, kept as edges are added and removed.

    covers      (k, W) uint64   sets of vertices
    occurrence  (V, F) uint64   for each vertex the edges that have it, as bits; removed edges have no vertex
    groups      `VertexGroups`  a cover may not have all vertices of a group

A vertex u of a cover is needed while some edge is hit by u alone (a critical edge of u) [MMCS].
"""

from typing import Any, TypeAlias

import numpy as np
from numba import njit, uint64

from holdfast.discovery.kernels.hitting_sets import VertexGroups
from holdfast.tables.arrays import Flags, Ints, Words

Word: TypeAlias = Any

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True)
def _vertices(words: Words, out: Ints) -> int:
    """List the bits that are set."""
    count = 0
    for w in range(len(words)):
        for b in range(64):
            if words[w] >> uint64(b) & _ONE:
                out[count] = w * 64 + b
                count += 1
    return count


@njit(cache=True, nogil=True)
def next_missed_kernel(edges: Words, start: int, covers: Words) -> int:
    """Return the first edge from number `start` on that some cover misses, or the number of edges."""
    for e in range(start, len(edges)):
        for c in range(len(covers)):
            hit: Word = _ZERO
            for w in range(covers.shape[1]):
                hit |= covers[c, w] & edges[e, w]
            if hit == _ZERO:
                return e
    return len(edges)


@njit(cache=True, nogil=True)
def _criticals(chosen: Ints, count: int, occurrence: Words, critical: Words, many: Words) -> None:
    """Fill `critical[i]` with the edges that only `chosen[i]` hits."""
    edges = occurrence.shape[1]
    for f in range(edges):
        once: Word = _ZERO
        twice: Word = _ZERO
        for i in range(count):
            hit = occurrence[chosen[i], f]
            twice |= once & hit
            once |= hit
        many[f] = twice
    for i in range(count):
        for f in range(edges):
            critical[i, f] = occurrence[chosen[i], f] & ~many[f]


@njit(cache=True, nogil=True)
def needed_kernel(covers: Words, doubted: Words, occurrence: Words, keep: Flags) -> None:
    """Set `keep` to False for the covers with a doubted vertex that is not needed any more."""
    chosen = np.empty(covers.shape[1] * 64, np.int64)
    for c in range(len(covers)):
        doubts: Word = _ZERO
        for w in range(covers.shape[1]):
            doubts |= doubted[c, w]
        if doubts == _ZERO:
            continue
        count = _vertices(covers[c], chosen)
        for i in range(count):
            if doubted[c, chosen[i] // 64] >> uint64(chosen[i] % 64) & _ONE == _ZERO:
                continue
            needed = False
            for f in range(occurrence.shape[1]):
                alone = occurrence[chosen[i], f]
                if alone == _ZERO:
                    continue
                for j in range(count):
                    if j != i:
                        alone &= ~occurrence[chosen[j], f]
                if alone != _ZERO:
                    needed = True
                    break
            if not needed:
                keep[c] = False
                break


@njit(cache=True, nogil=True)
def _touched(chosen: Ints, count: int, groups: VertexGroups) -> int:
    """Return the number of groups that the first `count` vertices, in ascending order, belong to."""
    touched, last = 0, -1
    for i in range(count):
        group = groups.of[chosen[i]]
        touched += group != last
        last = group
    return touched


@njit(cache=True, nogil=True)
def extend_kernel(
    covers: Words,
    start: int,
    edge: Words,
    occurrence: Words,
    groups: VertexGroups,
    bound: int,
    critical: Words,
    many: Words,
    out: Words,
    origin: Ints,
) -> tuple[int, int]:
    """Write all minimal extensions of covers that miss a new edge, from cover `start` on, by a vertex of the edge.

    `occurrence` need not have the new edge. Fills `out`, and `origin` with the cover that each extension came from;
    returns (the first cover not done, extensions), and stops where the extensions of a cover might not fit.
    """
    width = covers.shape[1]
    chosen, added = np.empty(width * 64, np.int64), np.empty(width * 64, np.int64)
    made = 0
    choices = _vertices(edge, added)
    for c in range(start, len(covers)):
        if made + choices > len(out):
            return c, made
        count = _vertices(covers[c], chosen)
        _criticals(chosen, count, occurrence, critical, many)
        touched = _touched(chosen, count, groups)
        for a in range(choices):
            vertex = added[a]
            word, bit = vertex // 64, _ONE << uint64(vertex % 64)
            bits = groups.bits[groups.of[vertex]]
            free, taken = bits & ~covers[c, word], bits & covers[c, word]
            # another outcome of the group stays free, and the bound on groups is kept
            others = free & ~bit
            fits = others != _ZERO and (bound == 0 or touched < bound or taken != _ZERO)
            if not fits:
                continue
            minimal = True
            for i in range(count):
                needed = False
                for f in range(occurrence.shape[1]):
                    if critical[i, f] & ~occurrence[vertex, f]:
                        needed = True
                        break
                if not needed:
                    minimal = False
                    break
            if minimal:
                for w in range(width):
                    out[made, w] = covers[c, w]
                out[made, word] |= bit
                origin[made] = c
                made += 1
    return len(covers), made
