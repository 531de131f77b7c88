"""Depth-first enumeration of minimal hitting sets over bitmaps [MMCS].

Arrays, all owned by the caller (E edges, V vertices, W words of vertices, F words of edges, G groups, D levels):

    edges        (E, W) uint64   each edge as a set of vertices, at most one of each group
    occurrence   (V, F) uint64   for each vertex the edges that have it
    groups       `VertexGroups`  a set may not have all vertices of a group
    levels       `Levels`        the path of the search from the root to the present level

The papers keep for every chosen u the edges that only u hits. These are `once & occurrence[u]`, so two bitmaps a level
are enough.

Once a set touches as many groups as it may, the level is *closed*: its candidates are in the few words of these groups,
and only those words of `candidates` and `branch` are valid. So a step at a closed level costs
O(F + bound), whatever the number of groups.

One level before, where one more group may be touched, most groups are useless: together with candidates in touched
groups, a proper part of the new group would have to meet all uncovered edges. As an edge has at most one vertex of a
group, that is possible only for groups with a vertex in none of the edges that no other candidate can meet. Such groups
are found by the union of some of these edges, word by word, instead of by trying vertices.

Integer arithmetic only; words wrap by design.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit, uint64

from holdfast.tables.arrays import Ints, Words

Word: TypeAlias = Any
"""One 64-bit word: `uint64` when compiled."""

_LOOK = 128
_LOOK_WORDS = 1 << 12
MOST_JOINED = 1 << 10
_BLOCK = 64
_SPREAD = 16
_STEP_WORDS = 16
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


class VertexGroups(NamedTuple):
    """Vertices in groups; the vertices of a group are in one word.

    Parameters
    ----------
    of : (V,) the group of each vertex; -1 for bits that are no vertices.
    word, bits : (G,) the word of each group, and its vertices there.
    every : (W,) all vertices.
    """

    of: Ints
    word: Ints
    bits: Words
    every: Words


class Levels(NamedTuple):
    """The state of a search: a row for each level from the root on.

    Parameters
    ----------
    depth : (1,) the level at which to go on; -1 when all is done.
    chosen : (D,) the vertex taken at each level.
    touched : (D,) the number of groups that the set touches.
    sizes, left : (D,) the number of vertices to try at the level, and how many of these are left.
    cursor : (D,) the word in which the next vertex is searched, by its position among the level's words.
    near : (bound + 1,) on closed levels the number of their words, then these words.
    joined : (MOST_JOINED,) room for the numbers of edges.
    candidates : (D, W) the vertices that may still be added.
    branch : (D, W) the vertices still to be tried.
    uncovered : (D, F) the edges that the set does not hit.
    once : (D, F) the edges that the set hits exactly once.
    """

    depth: Ints
    chosen: Ints
    touched: Ints
    sizes: Ints
    left: Ints
    cursor: Ints
    near: Ints
    joined: Ints
    candidates: Words
    branch: Words
    uncovered: Words
    once: Words


@njit(cache=True, nogil=True)
def levels_kernel(depth: int, width: int, per_edge: int, near: int) -> Levels:
    """Return a search with so many levels, words of vertices, words of edges, and words of closed levels; all are 0."""
    per_level = np.zeros((5, depth), np.int64)
    return Levels(
        np.zeros(1, np.int64),
        per_level[0],
        per_level[1],
        per_level[2],
        per_level[3],
        per_level[4],
        np.zeros(near, np.int64),
        np.zeros(MOST_JOINED, np.int64),
        np.zeros((depth, width), np.uint64),
        np.zeros((depth, width), np.uint64),
        np.zeros((depth, per_edge), np.uint64),
        np.zeros((depth, per_edge), np.uint64),
    )


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
def _next_vertex(levels: Levels, level: int, closed: bool) -> Any:
    """Remove the lowest vertex from the vertices to try, of which there is at least one, and return it."""
    place = levels.cursor[level]
    while True:
        word = levels.near[place + 1] if closed else place
        bits = levels.branch[level, word]
        if bits:
            levels.branch[level, word] = bits & (bits - _ONE)
            levels.cursor[level] = place
            return word * 64 + _lowest(bits)
        place += 1


@njit(cache=True, nogil=True)
def _add_vertex(level: int, vertex: int, occurrence: Words, uncovered: Words, once: Words) -> bool:
    """Write the next level's bitmaps for the set with `vertex`; return whether an edge stays uncovered."""
    open_edges = False
    for f in range(occurrence.shape[1]):
        hit, bare = occurrence[vertex, f], uncovered[level, f]
        uncovered[level + 1, f] = bare & ~hit
        once[level + 1, f] = (once[level, f] & ~hit) | (bare & hit)
        open_edges |= (bare & ~hit) != _ZERO
    return open_edges


@njit(cache=True, nogil=True)
def _each_is_needed(level: int, chosen: Ints, occurrence: Words, once: Words) -> bool:
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
def _close(levels: Levels, level: int, groups: VertexGroups) -> None:
    """Restrict the next level to candidates in touched groups, and list the words of these groups."""
    near, count = levels.near, 0
    for k in range(level + 1):
        group = groups.of[levels.chosen[k]]
        word, bits = groups.word[group], groups.bits[group]
        known = False
        for i in range(count):
            known |= near[i + 1] == word
        if not known:
            levels.candidates[level + 1, word] = _ZERO
            count += 1
            near[count] = word
        levels.candidates[level + 1, word] |= levels.candidates[level, word] & bits
    near[0] = count


@njit(cache=True, nogil=True)
def _narrow(levels: Levels, level: int, groups: VertexGroups, bound: int) -> bool:
    """Write the next level's candidates, without those that would fill their group or exceed the bound.

    Returns whether the next level is closed.
    """
    chosen = levels.chosen
    group = groups.of[chosen[level]]
    word = groups.word[group]
    fresh, in_group = 1, 0
    for k in range(level + 1):
        if groups.of[chosen[k]] == group:
            in_group += 1
            if k < level:
                fresh = 0
    touched = levels.touched[level] + fresh
    levels.touched[level + 1] = touched
    closed: bool = bound > 0 and touched == bound
    if closed and fresh:
        _close(levels, level, groups)
    elif closed:
        for i in range(levels.near[0]):
            w = levels.near[i + 1]
            levels.candidates[level + 1, w] = levels.candidates[level, w]
    else:
        for w in range(levels.candidates.shape[1]):
            levels.candidates[level + 1, w] = levels.candidates[level, w]
    if in_group + 1 >= _count_bits(groups.bits[group]):
        levels.candidates[level + 1, word] &= ~groups.bits[group]
    return closed


@njit(cache=True, nogil=True)
def _edges_for_one_group(uncovered: Words, occurrence: Words, words: Ints, met_by: Words, out: Ints) -> int:
    """List uncovered edges without a vertex of `met_by` until `out` is full; return their number.

    Edges are taken from all over the uncovered ones: neighbours have most vertices in common where edges are sorted.
    """
    bare = uncovered.copy()
    for k in range(len(words)):
        left = met_by[k]
        while left:
            met = occurrence[words[k] * 64 + _lowest(left)]
            left &= left - _ONE
            for f in range(len(bare)):
                bare[f] &= ~met[f]
    count = 0
    while True:
        before = count
        for first in range(_SPREAD):
            for f in range(first, len(bare), _SPREAD):
                word = bare[f]
                if word:
                    if count == len(out):
                        return count
                    out[count] = f * 64 + _lowest(word)
                    bare[f] = word & (word - _ONE)
                    count += 1
        if count == before:
            return count


@njit(cache=True, nogil=True)
def _join(edge: Words, joined: Words) -> None:
    """Add the vertices of an edge to a union."""
    for w in range(len(edge)):
        joined[w] |= edge[w]


@njit(cache=True, nogil=True)
def _are_all(vertices: Words, joined: Words) -> Any:
    """Whether a union has every vertex of a set."""
    missing: Word = _ZERO
    for w in range(len(vertices)):
        missing |= vertices[w] & ~joined[w]
    return missing == _ZERO


@njit(cache=True, nogil=True)
def _find_useful(
    edges: Words, listed: Ints, candidates: Words, groups: VertexGroups, decided: Words, useful: Words
) -> int:
    """Add to `useful` the candidates of groups that can meet all listed edges; return the number of words read.

    Groups whose vertices are in `decided` are left out. Edges are read where there are other candidates, until their
    union has every vertex.
    """
    worked, room = 0, np.zeros(_BLOCK, np.uint64)
    for start in range(0, len(candidates), _BLOCK):
        end = min(start + _BLOCK, len(candidates))
        joined = room[: end - start]
        joined[:] = decided[start:end]
        if _are_all(candidates[start:end], joined):
            continue
        for i in range(len(listed)):
            _join(edges[listed[i], start:end], joined)
            worked += end - start
            if i % 16 == 15 and _are_all(groups.every[start:end], joined):
                break
        for w in range(start, end):
            seen, left = joined[w - start], candidates[w]
            if seen == groups.every[w]:
                left = _ZERO
            while left:
                bits = groups.bits[groups.of[w * 64 + _lowest(left)]]
                left &= ~bits
                if seen & bits != bits and seen & bits & ~candidates[w] == _ZERO:
                    useful[w] |= candidates[w] & bits
    return worked


@njit(cache=True, nogil=True)
def drop_useless_kernel(edges: Words, occurrence: Words, levels: Levels, level: int, groups: VertexGroups) -> Any:
    """Drop candidates of untouched groups that cannot be the last group of a set; return the number of words read.

    Of a touched group with two vertices left only one may be added, so each choice among these is tried.
    """
    candidates, useful, width = levels.candidates[level], levels.branch[level], edges.shape[1]
    words, kept = np.zeros(level, np.int64), np.zeros(level, np.uint64)
    either, ways, decided = np.zeros(level, np.bool_), 1, np.zeros(width, np.uint64)
    for k in range(level):
        group = groups.of[levels.chosen[k]]
        words[k] = groups.word[group]
        decided[words[k]] |= groups.bits[group]
        kept[k] = candidates[words[k]] & groups.bits[group]
        # a group with two chosen vertices has at most one vertex left
        either[k] = _count_bits(kept[k]) == 2 and _count_bits(groups.bits[group]) == 3
        if either[k]:
            ways *= 2
    most = min(MOST_JOINED, _BLOCK + 16 * width)
    useful[:] = _ZERO
    worked = width
    met_by = np.zeros(level, np.uint64)
    for way in range(ways):
        choice = way
        for k in range(level):
            met_by[k] = kept[k]
            if either[k]:
                lowest = kept[k] & (~kept[k] + uint64(1))
                met_by[k] = lowest if choice % 2 else kept[k] & ~lowest
                choice //= 2
        count = _edges_for_one_group(levels.uncovered[level], occurrence, words, met_by, levels.joined[:most])
        worked += count + _find_useful(edges, levels.joined[:count], candidates, groups, decided, useful)
    candidates[:] = useful
    for k in range(level):
        candidates[words[k]] |= kept[k]
    return worked


@njit(cache=True, nogil=True)
def _smallest_edge(edges: Words, uncovered: Words, candidates: Words, near: Ints, closed: bool) -> int:
    """Return an uncovered edge with few candidates, or -1 where an edge without candidates was found."""
    words = near[0] if closed else len(candidates)
    look = max(1, min(_LOOK, _LOOK_WORDS // words))
    best, fewest, looked = -2, np.int64(1 << 30), 0
    for f in range(len(uncovered)):
        word = uncovered[f]
        while word:
            edge = f * 64 + _lowest(word)
            word &= word - _ONE
            count = np.int64(0)
            for i in range(words):
                w = near[i + 1] if closed else i
                count += _count_bits(edges[edge, w] & candidates[w])
            if count == 0:
                return -1
            if count < fewest:
                best, fewest = edge, count
            looked += 1
            if looked == look or fewest == 1:
                return best
    return best


@njit(cache=True, nogil=True)
def branch_kernel(edge: Words, levels: Levels, level: int, closed: bool) -> None:
    """Set the candidates of an edge as the vertices to try at a level."""
    size = np.int64(0)
    for i in range(levels.near[0] if closed else len(edge)):
        w = levels.near[i + 1] if closed else i
        tried = edge[w] & levels.candidates[level, w]
        levels.branch[level, w] = tried
        levels.candidates[level, w] &= ~tried
        size += _count_bits(tried)
    levels.sizes[level] = levels.left[level] = size
    levels.cursor[level] = 0


@njit(cache=True, nogil=True)
def enumerate_kernel(
    edges: Words, occurrence: Words, groups: VertexGroups, bound: int, levels: Levels, work: Ints, out: Words
) -> int:
    """Enumerate until `out` is full or all is done; return the number of sets in `out`.

    `bound` 0 allows any number of groups. `work[0]` limits the words to read, so that the caller can report progress or
    stop, and is counted down. `work[1]` counts the vertices tried.
    """
    found = 0
    level = levels.depth[0]
    while level >= 0:
        if levels.left[level] == 0:
            level -= 1
            continue
        if work[0] <= 0:
            break
        work[0] -= _STEP_WORDS + len(levels.uncovered[level])
        work[1] += 1
        vertex = _next_vertex(levels, level, bound > 0 and levels.touched[level] == bound)
        levels.left[level] -= 1
        open_edges = _add_vertex(level, vertex, occurrence, levels.uncovered, levels.once)
        if not _each_is_needed(level, levels.chosen, occurrence, levels.once):
            continue
        levels.chosen[level] = vertex
        closed = open_edges and _narrow(levels, level, groups, bound)
        levels.candidates[level, vertex // 64] |= _ONE << uint64(vertex % 64)
        if not open_edges:
            out[found] = _ZERO
            for k in range(level + 1):
                out[found, levels.chosen[k] // 64] |= _ONE << uint64(levels.chosen[k] % 64)
            found += 1
            if found == len(out):
                break
            continue
        if not closed:
            work[0] -= edges.shape[1]
            if levels.touched[level + 1] == bound - 1:
                work[0] -= drop_useless_kernel(edges, occurrence, levels, level + 1, groups)
        edge = _smallest_edge(edges, levels.uncovered[level + 1], levels.candidates[level + 1], levels.near, closed)
        if edge < 0:
            continue
        level += 1
        branch_kernel(edges[edge], levels, level, closed)
    levels.depth[0] = level
    return found


@njit(cache=True, nogil=True)
def transpose_kernel(rows: Words, out: Words) -> None:
    """Set bit i of `out[b]` for every bit b of `rows[i]`; `out` is all zero before."""
    for start in range(0, len(rows), 64):
        for w in range(rows.shape[1]):
            for i in range(start, min(start + 64, len(rows))):
                bit = _ONE << uint64(i % 64)
                word = rows[i, w]
                while word:
                    out[w * 64 + _lowest(word), start // 64] |= bit
                    word &= word - _ONE
