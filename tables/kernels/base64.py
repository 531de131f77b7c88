"""Whole numbers of up to 128 bits out of base64: big-endian two's complement, as Java's BigInteger writes its bytes.

buffer          (b,)   uint8   texts, one after another or apart
begins, stops   (n,)   int64   where each one is
words           (n, 2) int64   the lower and the upper 64 bits of each number: Arrow's layout of a decimal
status          (n,)   uint8   READ, or why not
"""

from typing import Any

import numpy as np
from numba import njit

from holdfast.tables.arrays import Bytes, Flags, Ints, Positions

READ, NO_BASE64, WIDE = range(3)


@njit(cache=True, nogil=True)
def decimals_kernel(
    buffer: Bytes, chosen: Flags, begins: Positions, stops: Positions, words: Ints, status: Bytes
) -> None:
    """Read the chosen numbers, 0 where one is not read; numbers of more than 16 bytes are WIDE."""
    for r in range(len(begins)):
        words[r, 0] = 0
        words[r, 1] = 0
        status[r] = READ
        if not chosen[r]:
            continue
        stop = stops[r]
        while stop > begins[r] and stops[r] - stop < 2 and buffer[stop - 1] == 61:
            stop -= 1
        digits = stop - begins[r]
        size = digits * 6 // 8
        rest = digits * 6 - size * 8
        if size == 0 or rest == 6 or (stop < stops[r] and (stops[r] - begins[r]) % 4):
            status[r] = NO_BASE64
            continue
        low, high = np.uint64(0), np.uint64(0)
        for i in range(begins[r], stop):
            digit = _digit(buffer[i])
            shift = 6
            if i == stop - 1:  # the rest is padding, and 0
                shift = 6 - rest
                if digit >= 0 and digit & ((1 << rest) - 1):
                    digit = np.int64(-1)
                digit >>= rest
            if digit < 0:
                status[r] = NO_BASE64
                break
            high = (high << np.uint64(shift)) | (low >> np.uint64(64 - shift))
            low = (low << np.uint64(shift)) | np.uint64(digit)
        if status[r] == READ and size > 16:
            status[r] = WIDE
        if status[r] == READ:
            words[r, 0], words[r, 1] = _signed(low, high, size * 8)


@njit(cache=True, nogil=True)
def beyond_kernel(words: Ints, low: np.uint64, high: np.uint64, out: Flags) -> None:
    """Mark the numbers whose absolute value is greater than `high`:`low`."""
    for r in range(len(words)):
        a, b = np.uint64(words[r, 0]), np.uint64(words[r, 1])
        if words[r, 1] < 0:
            b = ~b + np.uint64(a == 0)
            a = ~a + np.uint64(1) if a else a
        out[r] = b > high or (b == high and a > low)


@njit(cache=True, nogil=True)
def _digit(letter: int) -> Any:
    if 65 <= letter <= 90:
        return np.int64(letter - 65)
    if 97 <= letter <= 122:
        return np.int64(letter - 71)
    if 48 <= letter <= 57:
        return np.int64(letter + 4)
    return np.int64(62 if letter == 43 else 63 if letter == 47 else -1)


@njit(cache=True, nogil=True)
def _signed(low: np.uint64, high: np.uint64, bits: int) -> Any:
    """Return the two words of a number whose highest bit of `bits` is its sign."""
    if bits <= 64:
        word = np.int64(low << np.uint64(64 - bits)) >> np.int64(64 - bits)
        return word, word >> np.int64(63)
    return np.int64(low), np.int64(high << np.uint64(128 - bits)) >> np.int64(128 - bits)
