"""How often some rows have the values that many of them have."""

from numba import njit

from holdfast.tables.arrays import DenseCodes, Flags, Ints


@njit(cache=True, nogil=True)
def frequent_values_kernel(
    codes: DenseCodes, rows: Ints, undecided: Flags, least: int, counts: Ints, found: Ints
) -> int:
    """Write the values that at least `least` of some rows have; return their number. O(columns x rows).

    `codes` (d, n) has the values by column. `counts` (distinct, 2) is all zero, and is so again afterwards. Each value
    is a line of `found`: column, code, and the number of rows that have it, of those not undecided and of the others.
    """
    count = 0
    for column in range(len(codes)):
        for i in range(len(rows)):
            counts[codes[column, rows[i]], 1 if undecided[i] else 0] += 1
        for i in range(len(rows)):
            code = codes[column, rows[i]]
            if counts[code, 0] + counts[code, 1] >= least:
                found[count, 0], found[count, 1] = column, code
                found[count, 2], found[count, 3] = counts[code, 0], counts[code, 1]
                count += 1
            counts[code, 0], counts[code, 1] = 0, 0
    return count
