"""Which rows are in no smallest removal of a near constraint, in some, or in all of them.

rows (m,) int32, starts (g + 1,) int64   groups of rows that agree on the context, two rows or more in each
"""

import numpy as np
from numba import njit

from holdfast.tables.arrays import DenseCodes, Ints, Rows, Standing


@njit(cache=True, nogil=True)
def removed_classes_kernel(
    rows: Rows, starts: Ints, codes: DenseCodes, classes: Ints, state: Standing
) -> tuple[int, int]:
    """Mark the rows outside the largest class of their group (1), and all rows of several largest classes (2).

    `classes` is as for `near.constant_kernel`, and unused. Returns the exceptions and the ordered pairs that differ.
    """
    found, pairs = 0, 0
    for g in range(len(starts) - 1):
        first, last = starts[g], starts[g + 1]
        largest = 0
        for i in range(first, last):
            code = codes[rows[i]]
            if classes[code, 0] != g:
                classes[code, 0], classes[code, 1] = g, 0
            classes[code, 1] += 1
            largest = max(largest, classes[code, 1])
        in_largest = 0
        for i in range(first, last):
            in_largest += classes[codes[rows[i]], 1] == largest
        for i in range(first, last):
            pairs += last - first - classes[codes[rows[i]], 1]
            if classes[codes[rows[i]], 1] < largest:
                state[rows[i]] = 1
            elif in_largest > largest:
                state[rows[i]] = 2
        found += last - first - largest
    return found, pairs


@njit(cache=True, nogil=True)
def _most_up_to(tree: Ints, place: int) -> int:
    """Return the greatest value at the positions up to `place`, in a tree of running maxima."""
    most, at = 0, place + 1
    while at > 0:
        most = max(most, tree[at])
        at -= at & -at
    return most


@njit(cache=True, nogil=True)
def _raise_at(tree: Ints, place: int, value: int) -> None:
    """Raise the value at a position to at least `value`, in a tree of running maxima."""
    at = place + 1
    while at < len(tree):
        tree[at] = max(tree[at], value)
        at += at & -at


@njit(cache=True, nogil=True)
def removed_points_kernel(
    rows: Rows, starts: Ints, a: Ints, b: Ints, trees: Ints, points: Ints, covered: Ints, state: Standing
) -> int:
    """Mark the rows in no longest subsequence (1), and those in some but not in all (2); return the exceptions.

    Parameters
    ----------
    rows, a, b : the rows of each group sorted by (a, b), and their codes in the same order.
    trees : (longest group + 2, 2), room for two trees of running maxima.
    points : (longest group + 1, 5), room for each point's first row, rank of b and weight, and for the weights of the
        heaviest subsequences that end in the point and that begin in the point.
    covered : (longest group + 1), room for how many points cover each part of the heaviest subsequences.

    Rows with one (a, b) are a point. A heaviest subsequence through a point covers the weights from `ends - weight` to
    `ends` with the point; so the point is in all of them exactly if no other such point covers part of these weights.
    """
    found = 0
    for g in range(len(starts) - 1):
        first, last = starts[g], starts[g + 1]
        values = np.unique(b[first:last])
        count = 0
        for i in range(first, last):
            if i == first or a[i] != a[i - 1] or b[i] != b[i - 1]:
                points[count, 0] = i
                points[count, 1] = np.searchsorted(values, b[i])
                points[count, 2] = 0
                count += 1
            points[count - 1, 2] += 1
        points[count, 0] = last
        ahead, behind = trees[: len(values) + 1, 0], trees[: len(values) + 1, 1]
        ahead[:], behind[:] = 0, 0
        heaviest = 0
        for p in range(count):
            points[p, 3] = _most_up_to(ahead, points[p, 1]) + points[p, 2]
            _raise_at(ahead, points[p, 1], points[p, 3])
            heaviest = max(heaviest, points[p, 3])
        for p in range(count - 1, -1, -1):
            place = len(values) - 1 - points[p, 1]
            points[p, 4] = _most_up_to(behind, place) + points[p, 2]
            _raise_at(behind, place, points[p, 4])
        covered[: heaviest + 1] = 0
        for p in range(count):
            if points[p, 3] + points[p, 4] - points[p, 2] == heaviest:
                covered[points[p, 3] - points[p, 2]] += 1
                covered[points[p, 3]] -= 1
        for at in range(1, heaviest + 1):
            covered[at] += covered[at - 1]
        for p in range(count):
            mark = 0
            if points[p, 3] + points[p, 4] - points[p, 2] != heaviest:
                mark = 1
            else:
                for at in range(points[p, 3] - points[p, 2], points[p, 3]):
                    if covered[at] > 1:
                        mark = 2
                        break
            if mark:
                for i in range(points[p, 0], points[p + 1, 0]):
                    state[rows[i]] = mark
        found += last - first - heaviest
    return found
