"""Arrays that grow, and sizes of hash tables."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def with_room(array: NDArray[Any], least: int, fill: int = 0) -> NDArray[Any]:
    """Return an array with at least `least` elements; where it grows, by half, and with `fill` behind its elements.

    Zeros cost no memory until they are written.

    >>> with_room(np.array([1, 2, 3, 4]), 5).tolist(), with_room(np.array([7]), 1, -1).tolist()
    ([1, 2, 3, 4, 0, 0], [7])
    """
    if least <= len(array):
        return array
    shape = (max(least, len(array) * 3 // 2), *array.shape[1:])
    longer = np.full(shape, fill, array.dtype) if fill else np.zeros(shape, array.dtype)
    longer[: len(array)] = array
    return longer


def doubled(fewest: int, least: float) -> int:
    """Return `fewest`, doubled until it is at least `least`: the places of a hash table.

    >>> doubled(4, 3), doubled(4, 9)
    (4, 16)
    """
    while fewest < least:
        fewest *= 2
    return fewest
