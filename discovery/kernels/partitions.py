"""Stripped partitions of rows, refined stably, and the search for violating pairs inside their groups.

Refining by an equality scatters each group by code and keeps the order of rows, so rows that were sorted at the root
stay sorted within every group: no group is ever sorted again. Groups without a pair are dropped.

Within a group the search walks two trees of zones at once (a zone is a run of rows with the least and the greatest code
of each compared column): a pair of zones in which some predicate cannot be satisfied is left out whole.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from holdfast.discovery.kernels.evidence import PairCodes
from holdfast.tables.arrays import DenseCodes, Ints, Pairs, Rows

LEAF = 16
SMALL = 1 << 10


class Partition(NamedTuple):
    """Groups of two lists of rows each: candidates for t and candidates for s.

    Where all columns so far are compared with themselves, both lists are one and the same (`same`).

    Parameters
    ----------
    t_rows, t_starts : the rows, and where each group begins; the last start is the number of rows.
    s_rows, s_starts : the same for s.
    """

    t_rows: Rows
    t_starts: Ints
    s_rows: Rows
    s_starts: Ints

    @property
    def same(self) -> bool:
        """Whether both sides are one list."""
        return self.t_rows is self.s_rows

    @property
    def nbytes(self) -> int:
        """The bytes that the rows take."""
        return self.t_rows.nbytes if self.same else self.t_rows.nbytes + self.s_rows.nbytes


class Predicates(NamedTuple):
    """Predicates over column pairs: column pair `pairs[q]` has an outcome of `allowed[q]`."""

    pairs: Ints
    allowed: Ints


class Zones(NamedTuple):
    """Room for two trees of zones: the least and the greatest code of each predicate's column, by node."""

    t_low: DenseCodes
    t_high: DenseCodes
    s_low: DenseCodes
    s_high: DenseCodes


@njit(cache=True, nogil=True)
def refine_same_kernel(
    rows: Rows,
    starts: Ints,
    codes: DenseCodes,
    weight: Ints,
    sizes: Ints,
    weights: Ints,
    out: Rows,
    ends: Ints,
) -> tuple[int, int]:
    """Split every group by code; return (groups, rows) kept in `out`, whose groups begin at `ends[:groups]`.

    `weight` is 1 for a row, 2 for a row that occurs more than once and so is a pair with itself. `sizes` and `weights`
    are all zero, one element a code, and are so again afterwards.
    """
    groups, filled = 0, 0
    for g in range(len(starts) - 1):
        first, last = starts[g], starts[g + 1]
        for i in range(first, last):
            code = codes[rows[i]]
            sizes[code] += 1
            weights[code] += weight[rows[i]]
        for i in range(first, last):
            code = codes[rows[i]]
            if sizes[code] > 0:
                if weights[code] > 1:
                    ends[groups] = filled
                    groups += 1
                    size = sizes[code]
                    sizes[code] = -filled - 1
                    filled += size
                else:
                    sizes[code] = 0
                weights[code] = 0
            if sizes[code] < 0:
                place = -sizes[code] - 1
                out[place] = rows[i]
                sizes[code] -= 1
        for i in range(first, last):
            sizes[codes[rows[i]]] = 0
    ends[groups] = filled
    return groups, filled


@njit(cache=True, nogil=True)
def refine_two_kernel(
    partition: Partition, t_codes: DenseCodes, s_codes: DenseCodes, t_sizes: Ints, s_sizes: Ints, out: Partition
) -> tuple[int, int, int]:
    """Split every group by equal codes of its two lists; return (groups, rows of t, rows of s) kept in `out`.

    `t_sizes` and `s_sizes` are all zero, one element a code, and are so again afterwards.
    """
    t_rows, t_starts, s_rows, s_starts = partition
    t_out, t_ends, s_out, s_ends = out
    groups, t_filled, s_filled = 0, 0, 0
    for g in range(len(t_starts) - 1):
        for i in range(t_starts[g], t_starts[g + 1]):
            t_sizes[t_codes[t_rows[i]]] += 1
        for i in range(s_starts[g], s_starts[g + 1]):
            s_sizes[s_codes[s_rows[i]]] += 1
        for i in range(t_starts[g], t_starts[g + 1]):
            code = t_codes[t_rows[i]]
            if t_sizes[code] > 0:
                if s_sizes[code] > 0:
                    t_ends[groups], s_ends[groups] = t_filled, s_filled
                    groups += 1
                    t_size, s_size = t_sizes[code], s_sizes[code]
                    t_sizes[code], s_sizes[code] = -t_filled - 1, -s_filled - 1
                    t_filled += t_size
                    s_filled += s_size
                else:
                    t_sizes[code] = 0
            if t_sizes[code] < 0:
                t_out[-t_sizes[code] - 1] = t_rows[i]
                t_sizes[code] -= 1
        for i in range(s_starts[g], s_starts[g + 1]):
            code = s_codes[s_rows[i]]
            if s_sizes[code] < 0:
                s_out[-s_sizes[code] - 1] = s_rows[i]
                s_sizes[code] -= 1
        for i in range(t_starts[g], t_starts[g + 1]):
            t_sizes[t_codes[t_rows[i]]] = 0
        for i in range(s_starts[g], s_starts[g + 1]):
            s_sizes[s_codes[s_rows[i]]] = 0
    t_ends[groups], s_ends[groups] = t_filled, s_filled
    return groups, t_filled, s_filled


@njit(cache=True, nogil=True)
def _satisfies(t: int, s: int, left: DenseCodes, right: DenseCodes, pairs: Ints, allowed: Ints) -> bool:
    """Whether rows t and s satisfy every predicate."""
    for q in range(len(pairs)):
        a, b = left[pairs[q], t], right[pairs[q], s]
        outcome = 1 if a < b else (2 if a == b else 4)
        if allowed[q] & outcome == 0:
            return False
    return True


@njit(cache=True, nogil=True)
def _first_pair(
    t_rows: Rows,
    s_rows: Rows,
    left: DenseCodes,
    right: DenseCodes,
    second: Ints,
    pairs: Ints,
    allowed: Ints,
    out: Ints,
) -> bool:
    """Write the first pair of two short lists that satisfies every predicate into `out`; return whether there is one.

    A row is a pair with itself where two rows of the table are equal to it (`second`). Each array is a parameter, as
    tuples of arrays cost more than the few comparisons of a group.
    """
    for i in range(len(t_rows)):
        t = t_rows[i]
        for j in range(len(s_rows)):
            s = s_rows[j]
            if (t != s or second[t] >= 0) and _satisfies(t, s, left, right, pairs, allowed):
                out[0], out[1] = t, s
                return True
    return False


@njit(cache=True, nogil=True)
def _build_zones(rows: Rows, codes: DenseCodes, pairs: Ints, low: DenseCodes, high: DenseCodes) -> int:
    """Write the least and the greatest codes of a complete binary tree over the rows; return the number of leaves."""
    leaves = 1
    while leaves * LEAF < len(rows):
        leaves *= 2
    for q in range(len(pairs)):
        for leaf in range(leaves):
            least, greatest = np.int32(2**31 - 1), np.int32(-1)
            for i in range(leaf * LEAF, min((leaf + 1) * LEAF, len(rows))):
                code = codes[pairs[q], rows[i]]
                least, greatest = min(least, code), max(greatest, code)
            low[q, leaves + leaf], high[q, leaves + leaf] = least, greatest
        for node in range(leaves - 1, 0, -1):
            low[q, node] = min(low[q, 2 * node], low[q, 2 * node + 1])
            high[q, node] = max(high[q, 2 * node], high[q, 2 * node + 1])
    return leaves


@njit(cache=True, nogil=True)
def _zones_may_violate(a: int, b: int, zones: Zones, allowed: Ints) -> bool:
    """Whether each predicate alone might be satisfied by a row of zone a and a row of zone b."""
    t_low, t_high, s_low, s_high = zones
    for q in range(len(allowed)):
        possible = 0
        if t_low[q, a] < s_high[q, b]:
            possible |= 1
        if t_high[q, a] > s_low[q, b]:
            possible |= 4
        if t_low[q, a] <= s_high[q, b] and s_low[q, b] <= t_high[q, a]:
            possible |= 2
        if possible & allowed[q] == 0:
            return False
    return True


@njit(cache=True, nogil=True)
def search_kernel(
    partition: Partition,
    one_side: bool,
    codes: PairCodes,
    predicates: Predicates,
    budget: int,
    zones: Zones,
    stack: Ints,
    out: Pairs,
) -> tuple[int, int]:
    """Find violating pairs, at most one for each two zones; return (pairs found, comparisons made).

    Stops when `out` is full, or where more than `budget` comparisons were made.

    Parameters
    ----------
    one_side : both lists are the same and no predicate crosses columns, so the zones of `t` are also those of `s`.
    stack : (any, 2) room for the pairs of zones to look at.
    out : (limit, 2) for the pairs.
    """
    t_rows, t_starts, s_rows, s_starts = partition
    t_low, t_high, s_low, s_high = zones
    left, right, _, second = codes
    pairs, allowed = predicates
    found, made = 0, 0
    for g in range(len(t_starts) - 1):
        ts, ss = t_rows[t_starts[g] : t_starts[g + 1]], s_rows[s_starts[g] : s_starts[g + 1]]
        if len(ts) * len(ss) <= SMALL:
            made += len(ts) * len(ss)
            found += _first_pair(ts, ss, left, right, second, pairs, allowed, out[found])
            if found == len(out) or made > budget:
                return found, made
            continue
        t_leaves = _build_zones(ts, left, pairs, t_low, t_high)
        s_leaves = t_leaves
        if one_side:
            for q in range(len(pairs)):
                s_low[q, : 2 * t_leaves] = t_low[q, : 2 * t_leaves]
                s_high[q, : 2 * t_leaves] = t_high[q, : 2 * t_leaves]
        else:
            s_leaves = _build_zones(ss, right, pairs, s_low, s_high)
        made += (len(ts) + len(ss)) * len(pairs)
        stack[0, 0], stack[0, 1], depth = 1, 1, 1
        while depth > 0:
            depth -= 1
            a, b = stack[depth, 0], stack[depth, 1]
            made += 1
            if not _zones_may_violate(a, b, zones, allowed):
                continue
            if a < t_leaves and (b >= s_leaves or a <= b):
                stack[depth, 0], stack[depth, 1] = 2 * a, b
                stack[depth + 1, 0], stack[depth + 1, 1] = 2 * a + 1, b
                depth += 2
            elif b < s_leaves:
                stack[depth, 0], stack[depth, 1] = a, 2 * b
                stack[depth + 1, 0], stack[depth + 1, 1] = a, 2 * b + 1
                depth += 2
            else:
                i, j = (a - t_leaves) * LEAF, (b - s_leaves) * LEAF
                made += LEAF * LEAF
                ts_here, ss_here = ts[i : i + LEAF], ss[j : j + LEAF]
                found += _first_pair(ts_here, ss_here, left, right, second, pairs, allowed, out[found])
                if found == len(out) or made > budget:
                    return found, made
    return found, made
