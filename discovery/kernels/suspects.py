"""Tells which rows do not fit in the groups of a functional dependency, by the values of its dependent.

Rows weigh as much as they are trusted, from 0 to 1. A row's dependent fits if its value has, among the other rows of
the group, at least the weight of any other value. What is returned are log odds that some cell of the row, of the
context or the dependent, is wrong.

Most rows fit everywhere and are trusted. Only the others are *asked* about; all rows that are not asked about weigh 1.
Weights are multiples of a power of two, so that their sums are exact, and the order of rows does not matter.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from holdfast.discovery.kernels.near import ContextGroups
from holdfast.tables.arrays import DenseCodes, Flags, Floats, Ints32

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


class Asked(NamedTuple):
    """The rows that are asked about.

    Parameters
    ----------
    places : (n,) the place of each row among the rows that are asked about, -1 of all others.
    weights : (asked,) the weight of each.
    """

    places: Ints32
    weights: Floats


@njit(cache=True, nogil=True)
def fitting_kernel(
    groups: ContextGroups,
    dependent: Dependent,
    asked: Asked,
    sums: Floats,
    odds: Floats,
    expected: Ints32,
    violating: Flags,
) -> None:
    """Write the log odds of each row that is asked about, and the code that has most weight among the other rows.

    That code is -1 where the row fits, and where several codes have most weight. Rows of no group keep what `odds` and
    `expected` have. Rows that do not fit, and are not asked about, are marked as `violating`, in groups with a row that
    is asked about; in all groups where no row is asked about. `sums` (distinct,) is all zero, and so again afterwards.
    """
    codes, every = dependent.codes, not len(asked.weights)
    for g in range(len(groups.starts) - 1):
        members = groups.rows[groups.starts[g] : groups.starts[g + 1]]
        is_asked = False
        for row in members:
            if asked.places[row] >= 0:
                is_asked = True
                break
        if not (is_asked or every):
            continue
        first, second, third = -1, -1, -1
        for row in members:
            code, place = codes[row], asked.places[row]
            sums[code] += 1.0 if place < 0 else asked.weights[place]
            if code == first:
                continue
            if code != second:
                if third >= 0 and code != third and sums[code] <= sums[third]:
                    continue
                third = code
                if second >= 0 and sums[third] <= sums[second]:
                    continue
                second, third = third, second
            if first < 0 or sums[second] > sums[first]:
                first, second = second, first
        if is_asked or second >= 0:
            for row in members:
                code, place = codes[row], asked.places[row]
                own = sums[code] - (1.0 if place < 0 else asked.weights[place])
                other = second if code == first else first
                others = sums[other] if other >= 0 else 0.0
                is_violating = others - own >= MARGIN
                if place < 0:
                    if is_violating:
                        violating[row] = True
                elif is_violating:
                    odds[place] = min(MOST, _FEW + np.log(others - own))
                    rival = second if code not in (first, second) else third
                    is_tied = rival >= 0 and sums[rival] == others
                    expected[place] = -1 if is_tied else other
                elif own >= others and own >= FITTING:
                    odds[place] = max(LEAST, dependent.surprise[code]) * own / (own + 1)
        for row in members:
            sums[codes[row]] = 0.0
