"""Depth-first enumeration of minimal hitting sets over bitmaps [MMCS].

Arrays, all owned by the caller (E edges, V vertices, W words of vertices, F words of edges, D levels):

    edges        (E, W) uint64   each edge as a set of vertices
    occurrence   (V, F) uint64   for each vertex the edges that it is in
    group_bits   (G, W) uint64   the vertices of each group
    depth        (1,)   int64    level at which to go on; -1 when all is done
    chosen       (D,)   int64    the vertex taken at each level
    taken        (D, W) uint64   the set so far at each level
    candidates   (D, W) uint64   what may still be added at each level
    branch       (D, W) uint64   what is still to be tried at each level
    uncovered    (D, F) uint64   edges that the set does not hit
    once         (D, F) uint64   edges that it hits exactly once

The papers keep for every chosen u the edges that only u hits. They are `once & occurrence[u]`, so two bitmaps a
level do for all of them. Integer arithmetic only; words wrap by design.
"""

from typing import Any, TypeAlias

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Word: TypeAlias = Any
"""One 64-bit word: `uint64` when compiled."""
Places = NDArray[np.int64]

_LOOK = 128
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True)
def _count_bits(word: Word) -> Any:
    word = word - ((word >> uint64(1)) & uint64(0x5555555555555555))
    word = (word & uint64(0x3333333333333333)) + ((word >> uint64(2)) & uint64(0x3333333333333333))
    word = (word + (word >> uint64(4))) & uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * uint64(0x0101010101010101)) >> uint64(56))


@njit(cache=True, nogil=True)
def _lowest(word: Word) -> Any:
    """Return the number of the lowest bit set."""
    return _count_bits((word & (~word + uint64(1))) - uint64(1))


@njit(cache=True, nogil=True)
def _smallest_edge(edges: Words, uncovered: Words, candidates: Words) -> int:
    """Return an uncovered edge with few candidates, or -1 where one of those looked at has none."""
    best, fewest, looked = -2, np.int64(1 << 30), 0
    for f in range(len(uncovered)):
        word = uncovered[f]
        while word:
            edge = f * 64 + _lowest(word)
            word &= word - _ONE
            count = np.int64(0)
            for w in range(len(candidates)):
                count += _count_bits(edges[edge, w] & candidates[w])
            if count == 0:
                return -1
            if count < fewest:
                best, fewest = edge, count
            looked += 1
            if looked == _LOOK or fewest == 1:
                return best
    return best


@njit(cache=True, nogil=True)
def _add_vertex(level: int, vertex: int, occurrence: Words, uncovered: Words, once: Words) -> bool:
    """Fill the next level's bitmaps with `vertex` added; say whether anything stays uncovered."""
    open_edges = False
    for f in range(occurrence.shape[1]):
        hit, bare = occurrence[vertex, f], uncovered[level, f]
        uncovered[level + 1, f] = bare & ~hit
        once[level + 1, f] = (once[level, f] & ~hit) | (bare & hit)
        open_edges |= (bare & ~hit) != _ZERO
    return open_edges


@njit(cache=True, nogil=True)
def _each_is_needed(level: int, chosen: Places, occurrence: Words, once: Words) -> bool:
    """Whether every vertex chosen before `level` still is the only one that hits some edge."""
    for k in range(level):
        needed = False
        for f in range(occurrence.shape[1]):
            if once[level + 1, f] & occurrence[chosen[k], f]:
                needed = True
                break
        if not needed:
            return False
    return True


@njit(cache=True, nogil=True)
def _narrow(taken: Words, candidates: Words, group_bits: Words, bound: int) -> None:
    """Take away candidates that would fill their group, or touch one group more than the bound."""
    touched = 0
    for g in range(len(group_bits)):
        in_group, of_group = 0, 0
        for w in range(len(taken)):
            in_group += _count_bits(taken[w] & group_bits[g, w])
            of_group += _count_bits(group_bits[g, w])
        touched += in_group > 0
        if in_group + 1 >= of_group:
            for w in range(len(taken)):
                candidates[w] &= ~group_bits[g, w]
    if touched == bound:
        for g in range(len(group_bits)):
            free = True
            for w in range(len(taken)):
                free &= (taken[w] & group_bits[g, w]) == _ZERO
            if free:
                for w in range(len(taken)):
                    candidates[w] &= ~group_bits[g, w]


@njit(cache=True, nogil=True)
def enumerate_kernel(
    edges: Words,
    occurrence: Words,
    group_bits: Words,
    bound: int,
    depth: Places,
    chosen: Places,
    taken: Words,
    candidates: Words,
    branch: Words,
    uncovered: Words,
    once: Words,
    steps: Places,
    out: Words,
) -> int:
    """Go on until `out` is full or all is done; return how many sets `out` holds.

    `bound` 0 allows any number of groups. `steps[0]` limits the vertices tried, so that the caller can report
    progress or stop; it is counted down.
    """
    width = edges.shape[1]
    found = 0
    level = depth[0]
    while level >= 0:
        vertex: Any = np.int64(-1)
        for w in range(width):
            if branch[level, w]:
                vertex = w * 64 + _lowest(branch[level, w])
                branch[level, w] &= branch[level, w] - _ONE
                break
        if vertex < 0:
            level -= 1
            continue
        if steps[0] <= 0:
            branch[level, vertex // 64] |= _ONE << uint64(vertex % 64)
            break
        steps[0] -= 1
        word, bit = vertex // 64, _ONE << uint64(vertex % 64)
        open_edges = _add_vertex(level, vertex, occurrence, uncovered, once)
        if not _each_is_needed(level, chosen, occurrence, once):
            continue
        for w in range(width):
            taken[level + 1, w] = taken[level, w]
            candidates[level + 1, w] = candidates[level, w]
        taken[level + 1, word] |= bit
        candidates[level, word] |= bit
        if not open_edges:
            for w in range(width):
                out[found, w] = taken[level + 1, w]
            found += 1
            if found == len(out):
                break
            continue
        _narrow(taken[level + 1], candidates[level + 1], group_bits, bound)
        edge = _smallest_edge(edges, uncovered[level + 1], candidates[level + 1])
        if edge < 0:
            continue
        chosen[level] = vertex
        level += 1
        for w in range(width):
            branch[level, w] = edges[edge, w] & candidates[level, w]
            candidates[level, w] &= ~edges[edge, w]
    depth[0] = level
    return found


@njit(cache=True, nogil=True)
def transpose_kernel(rows: Words, out: Words) -> None:
    """Set bit i of `out[b]` for every bit b of `rows[i]`; `out` is all zero before."""
    for i in range(len(rows)):
        place, bit = i // 64, _ONE << uint64(i % 64)
        for w in range(rows.shape[1]):
            word = rows[i, w]
            while word:
                out[w * 64 + _lowest(word), place] |= bit
                word &= word - _ONE
