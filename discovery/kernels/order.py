"""Rows that split or swap a target within the groups of a context's partition.

    rows (m,) int32, starts (g + 1,) int64   groups of rows that agree on the context, two rows or more in each
    a, b (n,) int32                          codes of the target's columns

One pass over the rows; for swaps the rows of a group are sorted by `a`. Each group gives at most one pair.
"""

import numpy as np
from numba import njit

from holdfast.tables.arrays import DenseCodes, Ints, Rows

_NONE = np.int32(-1)


@njit(cache=True, nogil=True)
def split_kernel(rows: Rows, starts: Ints, a: DenseCodes, out: Ints) -> int:
    """Fill `out` (limit, 2) with pairs that differ in `a`; return their number."""
    found = 0
    for g in range(len(starts) - 1):
        first = rows[starts[g]]
        for i in range(starts[g] + 1, starts[g + 1]):
            if a[rows[i]] != a[first]:
                out[found, 0], out[found, 1] = first, rows[i]
                found += 1
                break
        if found == len(out):
            break
    return found


@njit(cache=True, nogil=True)
def swap_kernel(rows: Rows, starts: Ints, a: DenseCodes, b: DenseCodes, opposite: bool, out: Ints) -> int:
    """Fill `out` (limit, 2) with pairs that `a` and `b` order in opposite ways (or, `opposite`, in the same way)."""
    found = 0
    sign = -1 if opposite else 1
    for g in range(len(starts) - 1):
        best, best_row = np.int64(-(1 << 40)), _NONE  # the greatest `b` of rows with a smaller `a`
        run, run_row, code = best, _NONE, _NONE
        for i in range(starts[g], starts[g + 1]):
            row = rows[i]
            value = np.int64(b[row]) * sign
            if a[row] != code:
                if run > best:
                    best, best_row = run, run_row
                code, run, run_row = a[row], value, row
            elif value > run:
                run, run_row = value, row
            if value < best:
                out[found, 0], out[found, 1] = best_row, row
                found += 1
                break
        if found == len(out):
            break
    return found


@njit(cache=True, nogil=True)
def group_numbers_kernel(rows: Rows, starts: Ints, group: DenseCodes) -> None:
    """Write the number of its group for every row of a partition."""
    for g in range(len(starts) - 1):
        for i in range(starts[g], starts[g + 1]):
            group[rows[i]] = g


@njit(cache=True, nogil=True)
def in_order_kernel(order: Rows, group: DenseCodes, ends: Ints, out: Rows) -> None:
    """Write the rows that have a group number to `out`, group by group, in the given order.

    `ends` has the position where each group begins, and is changed.
    """
    for i in range(len(order)):
        g = group[order[i]]
        if g >= 0:
            out[ends[g]] = order[i]
            ends[g] += 1


@njit(cache=True, nogil=True)
def sort_groups_kernel(rows: Rows, starts: Ints, a: DenseCodes, out: Rows) -> None:
    """Write the rows of each group sorted by `a`. O(m log m); fast where groups are small."""
    for g in range(len(starts) - 1):
        first, last = starts[g], starts[g + 1]
        if last - first <= 32:
            for i in range(first, last):
                row = rows[i]
                j = i
                while j > first and a[out[j - 1]] > a[row]:
                    out[j] = out[j - 1]
                    j -= 1
                out[j] = row
        else:
            members = rows[first:last]
            out[first:last] = members[np.argsort(a[members])]
