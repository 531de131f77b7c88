"""64-bit hashes of byte strings, the same on every machine and in every version of Holdfast with this name of a hash.

String i is `data[bounds[i] : bounds[i + 1]]`. It is read as 64-bit words, least significant byte first, the last one
filled up with zeros; numbers are taken modulo 2^64:

    hash = LENGTH * bytes + START
    for each word:  hash = (hash XOR word) * FIRST; hash ^= hash >> 32; hash *= SECOND; hash ^= hash >> 29
    hash ^= hash >> 30; hash *= THIRD; hash ^= hash >> 27; hash *= FOURTH; hash ^= hash >> 31
"""

from typing import Any

import numpy as np
from numba import njit, uint64

from holdfast.tables.arrays import Bytes, Ints, Words

START = np.uint64(0x243F6A8885A308D3)
LENGTH = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xD6E8FEB86659FD93)
SECOND = np.uint64(0xA0761D6478BD642F)
THIRD = np.uint64(0xBF58476D1CE4E5B9)
FOURTH = np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True)
def _word(data: Bytes, start: int) -> Any:
    return (
        uint64(data[start])
        | (uint64(data[start + 1]) << uint64(8))
        | (uint64(data[start + 2]) << uint64(16))
        | (uint64(data[start + 3]) << uint64(24))
        | (uint64(data[start + 4]) << uint64(32))
        | (uint64(data[start + 5]) << uint64(40))
        | (uint64(data[start + 6]) << uint64(48))
        | (uint64(data[start + 7]) << uint64(56))
    )


@njit(cache=True, nogil=True)
def _taken(mixed: Any, word: Any) -> Any:
    mixed = (mixed ^ word) * uint64(FIRST)
    mixed ^= mixed >> uint64(32)
    mixed *= uint64(SECOND)
    return mixed ^ (mixed >> uint64(29))


@njit(cache=True, nogil=True)
def hash_bytes_kernel(data: Bytes, bounds: Ints, out: Words) -> None:
    """Fill `out` with the hash of each string."""
    for i in range(len(out)):
        at, end = bounds[i], bounds[i + 1]
        mixed = uint64(end - at) * uint64(LENGTH) + uint64(START)
        while at + 8 <= end:
            mixed = _taken(mixed, _word(data, at))
            at += 8
        if at < end:
            last = uint64(0)
            for place in range(end - at):
                last |= uint64(data[at + place]) << uint64(8 * place)
            mixed = _taken(mixed, last)
        mixed ^= mixed >> uint64(30)
        mixed *= uint64(THIRD)
        mixed ^= mixed >> uint64(27)
        mixed *= uint64(FOURTH)
        out[i] = mixed ^ (mixed >> uint64(31))
