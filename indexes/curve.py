"""Positions on a Z-order curve: rows that are close on the curve are close in several columns at once."""

from collections.abc import Sequence

import numpy as np

from holdfast.tables.arrays import Ints

CELLS = 1 << 10
"""How many cells each column is cut into."""


def interleaved(cells: Sequence[Ints], rows: int) -> Ints:
    """Return the position of each row: the bits of its cells' numbers, taken in turn; 0 where there are no columns.

    >>> interleaved([np.array([0, 1, 1]), np.array([0, 0, 1])], 3).tolist()
    [0, 1, 3]
    """
    place = np.zeros(rows, np.int64)
    for bit in range(CELLS.bit_length() - 1):
        for i, cell in enumerate(cells):
            place |= (cell >> bit & 1) << (bit * len(cells) + i)
    return place
