"""Edges and minimal contexts of the targets of order dependencies, as words of the space (`order/targets.py`).

differs  (e, W) uint64   for each evidence the columns in which its rows differ, a bit each
less     (e, W) uint64   the columns in which `t` comes first
edges    (m, W) uint64   of one target: sets of columns, each of which a context has to meet; none contains another
"""

from typing import Any, TypeAlias

import numpy as np
from numba import njit, uint64

from holdfast.discovery.kernels.hitting_sets import (
    VertexGroups,
    branch_kernel,
    enumerate_kernel,
    levels_kernel,
    transpose_kernel,
)
from holdfast.tables.arrays import Flags, Ints, Words

Word: TypeAlias = Any

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_NO_LIMIT = 1 << 62


@njit(cache=True, nogil=True)
def _has(words: Words, bit: int) -> bool:
    bits: Word = words[bit // 64] >> uint64(bit % 64)
    return bool(bits & _ONE != _ZERO)


@njit(cache=True, nogil=True)
def missed_kernel(differs: Words, left: int, right: int, sets: Words, out: Flags) -> None:
    """Write for each difference set whether it contains the target and is disjoint from some context."""
    for d in range(len(differs)):
        out[d] = False
        if not (_has(differs[d], left) and _has(differs[d], right)):
            continue
        for i in range(len(sets)):
            hit: Word = _ZERO
            for w in range(differs.shape[1]):
                hit |= sets[i, w] & differs[d, w]
            if hit == _ZERO:
                out[d] = True
                break


@njit(cache=True, nogil=True)
def breaking_kernel(less: Words, which: Ints, missed: Flags, left: int, right: int, opposite: bool, out: Ints) -> int:
    """List the evidences that break a target, among evidences whose difference set `which[e]` is missed.

    Returns their number. All of them differ in the target's columns: that is a split; a swap needs the right
    directions.
    """
    found = 0
    for e in range(len(less)):
        if missed[which[e]] and (left == right or (_has(less[e], left) == _has(less[e], right)) == opposite):
            out[found] = e
            found += 1
    return found


@njit(cache=True, nogil=True)
def grow_kernel(differs: Words, numbers: Ints, left: int, right: int, edges: Words, proofs: Ints, count: int) -> int:
    """Add the edges of evidences that break a target to its `count` edges; return their new number.

    An edge that contains another edge is left out. `proofs` has the number of an evidence for each edge.
    """
    width = edges.shape[1]
    for e in range(len(differs)):
        edges[count] = differs[e]
        edges[count, left // 64] &= ~(_ONE << uint64(left % 64))
        edges[count, right // 64] &= ~(_ONE << uint64(right % 64))
        idle = False
        for i in range(count):
            outside: Word = _ZERO
            for w in range(width):
                outside |= edges[i, w] & ~edges[count, w]
            if outside == _ZERO:
                idle = True
                break
        if idle:
            continue
        kept = 0
        for i in range(count):
            outside = _ZERO
            for w in range(width):
                outside |= edges[count, w] & ~edges[i, w]
            if outside != _ZERO:
                if kept < i:
                    edges[kept] = edges[i]
                    proofs[kept] = proofs[i]
                kept += 1
        edges[kept] = edges[count]
        proofs[kept] = numbers[e]
        count = kept + 1
    return count


@njit(cache=True, nogil=True)
def held_kernel(sets: Words, within: Words, out: Flags) -> None:
    """Write for each set whether it contains one of the sets `within`."""
    for i in range(len(sets)):
        out[i] = False
        for j in range(len(within)):
            outside: Word = _ZERO
            for w in range(sets.shape[1]):
                outside |= within[j, w] & ~sets[i, w]
            if outside == _ZERO:
                out[i] = True
                break


@njit(cache=True, nogil=True)
def contexts_kernel(edges: Words, groups: VertexGroups, within: Words, bound: int, work: Ints, out: Words) -> int:
    """Fill `out` with the minimal contexts of at most `bound` columns (0: any number) that meet every edge.

    Returns their number, or -1 where `out` has no room for one more. The number of words read is added to `work[0]`.
    """
    count, width = edges.shape
    if count == 0:
        out[0] = _ZERO
        return 1
    for e in range(count):
        if not edges[e].any():
            return 0
    per_edge = (count + 63) // 64
    occurrence = np.zeros((64 * width, per_edge), np.uint64)
    transpose_kernel(edges, occurrence)
    depth = len(groups.word) + 2
    levels = levels_kernel(depth, width, per_edge, depth)
    for e in range(count):
        levels.uncovered[0, e // 64] |= _ONE << uint64(e % 64)
    levels.candidates[0] = within
    branch_kernel(edges[0], levels, 0, False)
    left = np.array([_NO_LIMIT, 0])
    found = enumerate_kernel(edges, occurrence, groups, bound, levels, left, out)
    work[0] += _NO_LIMIT - left[0]
    return -1 if found == len(out) else found
