"""Positions of byte strings among sorted byte strings.

    data     (m,)  uint8   bytes of strings, one after the other
    start    (n,)  int64   where the string of each code begins in `data`
    size     (n,)  int64   its number of bytes

Bytes compare as numbers from 0 to 255, and a string is above its prefixes, as with `memcmp`.
"""

from numba import njit

from holdfast.tables.arrays import Bytes, Ints


@njit(cache=True, nogil=True)
def _is_below(data: Bytes, start: Ints, size: Ints, one: int, other: int) -> bool:
    a, b = start[one], start[other]
    common = min(size[one], size[other])
    i = 0
    while i < common and data[a + i] == data[b + i]:
        i += 1
    return bool(data[a + i] < data[b + i]) if i < common else bool(size[one] < size[other])


@njit(cache=True, nogil=True)
def places_kernel(data: Bytes, start: Ints, size: Ints, ordered: Ints, wanted: Ints, out: Ints) -> None:
    """Fill `out` with the number of strings of `ordered` that are below each wanted string.

    `ordered` and `wanted` are codes in ascending order of their strings.
    """
    low = 0
    for i in range(len(wanted)):
        high, step = low, 1  # often near the last position: first by doubled steps
        while high < len(ordered) and _is_below(data, start, size, ordered[high], wanted[i]):
            low = high + 1
            high += step
            step *= 2
        high = min(high, len(ordered))
        while low < high:
            middle = (low + high) // 2
            if _is_below(data, start, size, ordered[middle], wanted[i]):
                low = middle + 1
            else:
                high = middle
        out[i] = low
