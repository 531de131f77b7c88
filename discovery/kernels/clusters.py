"""Clusters as lists of columns.

    starts   (k + 1,)  int64   the entries of cluster c are from starts[c] to starts[c + 1]
    columns  (e,)      int32   the number of a column, ascending within a cluster

Numbers of values and occurrences are summed as int64; there cannot be more than 2^63.
"""

from numba import njit

from holdfast.tables.arrays import Ints, Ints32


@njit(cache=True, nogil=True)
def place_entries_kernel(starts: Ints, columns: Ints32, numbers: Ints, wanted: Ints, out: Ints) -> None:
    """Fill `out` with the entry of column `wanted[i]` in cluster `numbers[i]`, which has the column."""
    for i in range(len(numbers)):
        low, high = starts[numbers[i]], starts[numbers[i] + 1]
        while high - low > 1:
            middle = (low + high) // 2
            if columns[middle] <= wanted[i]:
                low = middle
            else:
                high = middle
        out[i] = low


@njit(cache=True, nogil=True)
def add_values_kernel(starts: Ints, columns: Ints32, numbers: Ints, values: Ints, totals: Ints, missing: Ints) -> None:
    """Add `values[i]` values of cluster `numbers[i]` to the `totals` of its columns, and subtract shared values.

    `missing[a, b]` is right once the growth of `totals[a]` is added.
    """
    for i in range(len(numbers)):
        first, end, more = starts[numbers[i]], starts[numbers[i] + 1], values[i]
        if more == 0:
            continue
        for entry in range(first, end):
            column = columns[entry]
            totals[column] += more
            for other in range(first, end):
                missing[column, columns[other]] -= more


@njit(cache=True, nogil=True)
def shared_occurrences_kernel(starts: Ints, columns: Ints32, occurrences: Ints, shared: Ints) -> None:
    """Add to `shared[a, b]` the number of occurrences that column a has of values that column b has, too."""
    for cluster in range(len(starts) - 1):
        first, end = starts[cluster], starts[cluster + 1]
        for entry in range(first, end):
            many = occurrences[entry]
            if many:
                for other in range(first, end):
                    shared[columns[entry], columns[other]] += many
