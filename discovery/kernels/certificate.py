"""Witness pairs of evidences, linked by the rows they use, to find the evidences of a row that vanishes.

    pairs     (N, K, 2)      int64  witness pairs of evidence e, -1 where there is none
    counts    (N,)           int64  the number of witnesses of e
    head      (rows,)        int64  first use of each row, -1
    before,
    after     (N * K * 2,)   int64  the uses of one row, as a list; use (e * K + k) * 2 + side is side of pair k of e

A pair of a row with itself is one use.
"""

from numba import njit

from holdfast.tables.arrays import Ints


@njit(cache=True, nogil=True)
def _link(use: int, row: int, head: Ints, before: Ints, after: Ints) -> None:
    before[use], after[use] = -1, head[row]
    if head[row] >= 0:
        before[head[row]] = use
    head[row] = use


@njit(cache=True, nogil=True)
def _unlink(use: int, row: int, head: Ints, before: Ints, after: Ints) -> None:
    if before[use] >= 0:
        after[before[use]] = after[use]
    else:
        head[row] = after[use]
    if after[use] >= 0:
        before[after[use]] = before[use]


@njit(cache=True, nogil=True)
def add_kernel(
    evidences: Ints, wanted: Ints, pairs: Ints, counts: Ints, head: Ints, before: Ints, after: Ints, done: Ints
) -> int:
    """Add witnesses, while there is room, and unless a witness of the evidence has a row of the pair.

    `wanted` (m, 2); fills `done` (m, 4) with (evidence, position, t, s) and returns how many were added.
    """
    most = pairs.shape[1]
    taken = 0
    for i in range(len(evidences)):
        e, t, s = evidences[i], wanted[i, 0], wanted[i, 1]
        if t < 0 or counts[e] == most:
            continue
        place, used = -1, False
        for k in range(most):
            if pairs[e, k, 0] < 0:
                place = k if place < 0 else place
            elif pairs[e, k, 0] == t or pairs[e, k, 1] == s or pairs[e, k, 0] == s or pairs[e, k, 1] == t:
                used = True
        if used:
            continue
        put_witness_kernel(e, place, t, s, pairs, counts, head, before, after)
        done[taken, 0], done[taken, 1], done[taken, 2], done[taken, 3] = e, place, t, s
        taken += 1
    return taken


@njit(cache=True, nogil=True)
def put_witness_kernel(
    e: int, k: int, t: int, s: int, pairs: Ints, counts: Ints, head: Ints, before: Ints, after: Ints
) -> None:
    """Write a pair to an empty position."""
    use = (e * pairs.shape[1] + k) * 2
    pairs[e, k, 0], pairs[e, k, 1] = t, s
    counts[e] += 1
    _link(use, t, head, before, after)
    if s != t:
        _link(use + 1, s, head, before, after)


@njit(cache=True, nogil=True)
def take_witness_kernel(e: int, k: int, pairs: Ints, counts: Ints, head: Ints, before: Ints, after: Ints) -> None:
    """Remove the pair at a position."""
    use = (e * pairs.shape[1] + k) * 2
    t, s = pairs[e, k, 0], pairs[e, k, 1]
    _unlink(use, t, head, before, after)
    if s != t:
        _unlink(use + 1, s, head, before, after)
    pairs[e, k, 0] = pairs[e, k, 1] = -1
    counts[e] -= 1


@njit(cache=True, nogil=True)
def uses_kernel(rows: Ints, head: Ints, after: Ints) -> int:
    """Return the number of uses of rows."""
    total = 0
    for i in range(len(rows)):
        use = head[rows[i]]
        while use >= 0:
            total += 1
            use = after[use]
    return total


@njit(cache=True, nogil=True)
def kill_kernel(
    rows: Ints, with_itself_only: bool, pairs: Ints, counts: Ints, head: Ints, before: Ints, after: Ints, done: Ints
) -> int:
    """Remove all witnesses that use rows (or use a row on both sides); fills `done` as `add_kernel` does."""
    taken = 0
    for i in range(len(rows)):
        use = head[rows[i]]
        while use >= 0:
            following = after[use]
            e, k = use // 2 // pairs.shape[1], use // 2 % pairs.shape[1]
            t, s = pairs[e, k, 0], pairs[e, k, 1]
            if t == s or not with_itself_only:
                take_witness_kernel(e, k, pairs, counts, head, before, after)
                done[taken, 0], done[taken, 1], done[taken, 2], done[taken, 3] = e, k, t, s
                taken += 1
            use = following
    return taken
