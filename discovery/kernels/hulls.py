"""The hulls of boxes: the outcomes that remain where predicates compare values around a cycle.

Transitivity excludes outcomes that the predicates of a box allow one by one.

The values of a pair of rows are *nodes*: column c of row t is node c, column c of row s is node C + c. A predicate
relates two nodes, and relations compose: `t.a < s.b`, `s.b = t.b` and `t.b <= s.c` leave only `t.a < s.c`. The *hull*
of a box allows on each column pair the outcomes that some pair of rows in the box has, whatever values the table holds.

Arrays (N boxes, W words, P column pairs, C columns):

    masks, hulls   (N, W)   uint64   boxes; outcomes that are allowed
    every          (W,)     uint64   all outcomes

Integer arithmetic only.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit, uint64

from holdfast.tables.arrays import Bytes, Flags, Ints, Words

Word: TypeAlias = Any

FEWEST_PREDICATES = 3
"""The least number of predicates from which a relation may follow that is none of them."""

_LESS, _EQUAL, _GREATER = 1, 2, 4
_UNORDERED_EQUAL, _UNORDERED_UNEQUAL = 1, 2
_ORDERED = 7
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


class HullLayout(NamedTuple):
    """The column pairs of a space.

    Parameters
    ----------
    first : (W + 1,) the pairs of word w are from first[w] to first[w + 1].
    word, shift, full : (P,) the word of a pair, the position of its lowest outcome there, its outcomes from bit 0 on.
    left, right : (P,) the columns of a pair.
    pair_at : (C, C) the number of the pair of two columns, or -1.
    """

    first: Ints
    word: Ints
    shift: Words
    full: Words
    left: Ints
    right: Ints
    pair_at: Ints


class Scratch(NamedTuple):
    """Room for the relations of one box.

    Parameters
    ----------
    order : (2C, 2C) 1 where one node is at most another, 2 where it is less.
    apart : (2C, 2C) 1 where two nodes differ.
    place : (2C,) the number of a node among the nodes that the present box relates; -1 between boxes.
    nodes : (2C,) the nodes by these numbers.
    """

    order: Bytes
    apart: Bytes
    place: Ints
    nodes: Ints


@njit(cache=True, nogil=True)
def hulls_kernel(
    masks: Words, every: Words, layout: HullLayout, scratch: Scratch, hulls: Words, satisfiable: Flags
) -> None:
    """Write the hull of each box, and whether a pair of rows can satisfy it; else the hull is the box itself."""
    for i in range(len(masks)):
        hulls[i] = masks[i]
        satisfiable[i] = True
        count, constrained = _number_nodes(masks[i], every, layout, scratch)
        if constrained >= FEWEST_PREDICATES:
            _relate_all(masks[i], every, layout, scratch, count)
            _close(count, scratch.order)
            satisfiable[i] = _is_satisfiable(count, scratch.order, scratch.apart)
            if satisfiable[i]:
                _tighten(hulls[i], count, layout, scratch)
        for n in range(count):
            scratch.place[scratch.nodes[n]] = -1


@njit(cache=True, nogil=True)
def predicates_kernel(masks: Words, every: Words, layout: HullLayout, counts: Ints) -> None:
    """Fill `counts` with the number of predicates of each box."""
    for i in range(len(masks)):
        counts[i] = 0
        for w in range(len(every)):
            if masks[i, w] != every[w]:
                for p in range(layout.first[w], layout.first[w + 1]):
                    counts[i] += masks[i, w] >> layout.shift[p] & layout.full[p] != layout.full[p]


@njit(cache=True, nogil=True)
def _number_nodes(mask: Words, every: Words, layout: HullLayout, scratch: Scratch) -> Any:
    """Write a number for each node that a box relates; return how many nodes, and how many predicates, there are."""
    count, constrained = 0, 0
    for w in range(len(every)):
        if mask[w] == every[w]:
            continue
        for p in range(layout.first[w], layout.first[w + 1]):
            if mask[w] >> layout.shift[p] & layout.full[p] != layout.full[p]:
                constrained += 1
                for node in (layout.left[p], len(layout.pair_at) + layout.right[p]):
                    if scratch.place[node] < 0:
                        scratch.place[node] = count
                        scratch.nodes[count] = node
                        count += 1
    return count, constrained


@njit(cache=True, nogil=True)
def _relate_all(mask: Words, every: Words, layout: HullLayout, scratch: Scratch, count: int) -> None:
    """Write the relations of nodes that the predicates of a box require."""
    scratch.order[:count, :count] = 0
    scratch.apart[:count, :count] = 0
    for w in range(len(every)):
        if mask[w] == every[w]:
            continue
        for p in range(layout.first[w], layout.first[w + 1]):
            allowed = mask[w] >> layout.shift[p] & layout.full[p]
            if allowed != layout.full[p]:
                t, s = scratch.place[layout.left[p]], scratch.place[len(layout.pair_at) + layout.right[p]]
                _relate(allowed, layout.full[p], t, s, scratch.order, scratch.apart)


@njit(cache=True, nogil=True)
def _relate(allowed: Word, full: Word, t: int, s: int, order: Bytes, apart: Bytes) -> None:
    """Write the relation of two nodes that a predicate requires."""
    if full != _ORDERED:
        if allowed == _UNORDERED_EQUAL:
            order[t, s] = max(order[t, s], 1)
            order[s, t] = max(order[s, t], 1)
        else:
            apart[t, s] = apart[s, t] = 1
        return
    least = 1 if allowed & uint64(_EQUAL) else 2
    if not allowed & uint64(_GREATER):
        order[t, s] = max(order[t, s], least)
    if not allowed & uint64(_LESS):
        order[s, t] = max(order[s, t], least)
    if allowed == _LESS | _GREATER:
        apart[t, s] = apart[s, t] = 1


@njit(cache=True, nogil=True)
def _close(count: int, order: Bytes) -> None:
    """Compose relations until no new relation follows."""
    for k in range(count):
        for i in range(count):
            if order[i, k]:
                for j in range(count):
                    if order[k, j]:
                        order[i, j] = max(order[i, j], order[i, k], order[k, j])


@njit(cache=True, nogil=True)
def _is_satisfiable(count: int, order: Bytes, apart: Bytes) -> bool:
    """Whether no node is less than itself, or differs from a node that it has to equal."""
    for i in range(count):
        if order[i, i] == 2:
            return False
        for j in range(count):
            if apart[i, j] and order[i, j] and order[j, i]:
                return False
    return True


@njit(cache=True, nogil=True)
def _may_be_equal(t: int, s: int, count: int, order: Bytes, apart: Bytes) -> bool:
    """Whether two nodes may be equal: then all nodes between them are equal, and none may be less or differ."""
    if order[t, s] == 2 or order[s, t] == 2:
        return False
    for i in range(count):
        if not _is_between(i, t, s, order):
            continue
        for j in range(count):
            if (order[i, j] == 2 or apart[i, j]) and _is_between(j, t, s, order):
                return False
    return True


@njit(cache=True, nogil=True)
def _is_between(node: int, t: int, s: int, order: Bytes) -> bool:
    return node in (t, s) or ((order[t, node] or order[s, node]) and (order[node, t] or order[node, s]))


@njit(cache=True, nogil=True)
def _tighten(hull: Words, count: int, layout: HullLayout, scratch: Scratch) -> None:
    """Remove the outcomes that no pair of rows in a satisfiable box has."""
    columns, order = len(layout.pair_at), scratch.order
    for t in range(count):
        if scratch.nodes[t] >= columns:
            continue
        for s in range(count):
            p = -1 if scratch.nodes[s] < columns else layout.pair_at[scratch.nodes[t], scratch.nodes[s] - columns]
            if p < 0:
                continue
            ordered = layout.full[p] == _ORDERED
            gone: Word = _ZERO
            if not _may_be_equal(t, s, count, order, scratch.apart):
                gone |= uint64(_EQUAL if ordered else _UNORDERED_EQUAL)
            if not ordered and order[t, s] and order[s, t]:
                gone |= uint64(_UNORDERED_UNEQUAL)
            if ordered and order[s, t]:
                gone |= uint64(_LESS)
            if ordered and order[t, s]:
                gone |= uint64(_GREATER)
            hull[layout.word[p]] &= ~(gone << layout.shift[p])


@njit(cache=True, nogil=True)
def rarest_kernel(left_out: Words, counts: Ints, chosen: Ints) -> None:
    """For each set in `left_out` write its outcome with the smallest number in `counts`; -1 for an empty set."""
    for i in range(len(left_out)):
        chosen[i] = -1
        for w in range(left_out.shape[1]):
            word = left_out[i, w]
            for b in range(64):
                if word >> uint64(b) & _ONE:
                    vertex = w * 64 + b
                    if chosen[i] < 0 or counts[vertex] < counts[chosen[i]]:
                        chosen[i] = vertex


@njit(cache=True, nogil=True)
def count_kernel(left_out: Words, counts: Ints) -> None:
    """Add the number of sets that have each outcome to `counts`."""
    for i in range(len(left_out)):
        for w in range(left_out.shape[1]):
            word = left_out[i, w]
            for b in range(64):
                if word >> uint64(b) & _ONE:
                    counts[w * 64 + b] += 1


@njit(cache=True, nogil=True)
def within_other_kernel(
    asked: Words, every: Words, masks: Words, hulls: Words, start: Ints, members: Ints, found: Flags
) -> None:
    """Write for each hull whether it lies in a box with another hull.

    `members[start[v]:start[v + 1]]` are boxes that exclude outcome v; each box that excludes an outcome is listed once.
    """
    width = len(every)
    for i in range(len(asked)):
        for w in range(width):
            left_out = every[w] & ~asked[i, w]
            for b in range(64):
                if found[i] or not left_out >> uint64(b) & _ONE:
                    continue
                for m in range(start[w * 64 + b], start[w * 64 + b + 1]):
                    inside, same = True, True
                    for v in range(width):
                        inside &= asked[i, v] & ~masks[members[m], v] == _ZERO
                        same &= asked[i, v] == hulls[members[m], v]
                    if inside and not same:
                        found[i] = True
                        break
