"""Tells which rows do not fit in the groups of a functional dependency, by the values of its dependent.

Rows weigh as much as they are trusted, from 0 to 1. A row's dependent fits if its value has, among the other rows of
the group, at least the weight of any other value. What is returned are log odds that some cell of the row, of the
context or the dependent, is wrong.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from holdfast.discovery.kernels.near import ContextGroups
from holdfast.tables.arrays import DenseCodes, Floats, Ints32

MARGIN = 1.0
"""So much more weight another value has at least, where a row does not fit."""
FITTING = 0.9
"""So much weight the row's own value has at least among the other rows, where it fits."""
LEAST, MOST = -5.0, 6.0
"""The range of log odds by one dependency."""
_FEW = 0.5


class Dependent(NamedTuple):
    """The dependent of a functional dependency.

    Parameters
    ----------
    codes : (n,) the code of each row.
    surprise : (distinct,) the logarithm of the share of rows that have each code.
    """

    codes: DenseCodes
    surprise: Floats


@njit(cache=True, nogil=True)
def fitting_kernel(
    groups: ContextGroups, dependent: Dependent, weights: Floats, sums: Floats, odds: Floats, expected: Ints32
) -> None:
    """Write for each row of a group its log odds, and the code that has most weight among the others, -1 if it fits.

    `sums` (distinct,) is all zero, and so again afterwards. Rows of no group keep what `odds` and `expected` have.
    """
    codes = dependent.codes
    for g in range(len(groups.starts) - 1):
        members = groups.rows[groups.starts[g] : groups.starts[g + 1]]
        for row in members:
            sums[codes[row]] += weights[row]
        best, second = -1, -1
        for row in members:
            code = codes[row]
            if best < 0 or sums[code] > sums[best]:
                if code != best:
                    best, second = code, best
            elif code != best and (second < 0 or sums[code] > sums[second]):
                second = code
        for row in members:
            code = codes[row]
            own = sums[code] - weights[row]
            other = second if code == best else best
            others = sums[other] if other >= 0 else 0.0
            if others - own >= MARGIN:
                odds[row] = min(MOST, _FEW + np.log(others - own))
                expected[row] = other
            elif own >= others and own >= FITTING:
                odds[row] = max(LEAST, dependent.surprise[code]) * own / (own + 1)
        for row in members:
            sums[codes[row]] = 0.0
