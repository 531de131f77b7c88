"""Columns of output tables as numpy arrays: integers, times, the first digits of identities, and marks of changes."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.tables.arrays import Positions


def ints(column: Any) -> NDArray[np.int64]:
    """Return a column of integers without nulls."""
    return np.asarray(column.to_numpy(), np.int64) if len(column) else np.zeros(0, np.int64)


def short_ids(column: Any) -> NDArray[np.uint64]:
    """Return the first 16 of the 64 hexadecimal digits of identities, as numbers.

    >>> short_ids(pa.array(["00000000000000ff" + 48 * "a"])).tolist()
    [255]
    """
    short = pc.utf8_slice_codeunits(column.cast(pa.string()), 0, 16)
    whole = short.combine_chunks() if isinstance(short, pa.ChunkedArray) else short
    if not len(whole):
        return np.zeros(0, np.uint64)
    digits = np.frombuffer(whole.buffers()[2], np.uint8)[: 16 * len(whole)]
    numbers = _HEX[digits.reshape(len(whole), 16)]
    return np.asarray((numbers << np.arange(60, -1, -4, dtype=np.uint64)).sum(axis=1, dtype=np.uint64))


def first_digits(constraint_id: str) -> int:
    """Return the first 16 of the 64 hexadecimal digits of an identity, as a number."""
    return int(constraint_id[:16], 16)


def places_in(values: NDArray[Any], known: NDArray[Any]) -> Positions:
    """Return the position of each value among known ones, which are distinct; -1 where it is not among them. O(n).

    >>> places_in(np.array([7, 5, 7]), np.array([9, 7])).tolist()
    [1, -1, 1]
    """
    found = pc.index_in(pa.array(values), value_set=pa.array(known))
    return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def are_in(values: NDArray[Any], known: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values are among known ones. O(n)."""
    return np.asarray(pc.is_in(pa.array(values), value_set=pa.array(known)))


def marks(commits: NDArray[np.int64], ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a number for each pair of commit and constraint."""
    return commits.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) ^ ids


def last_of_each(times: NDArray[np.int64], points: int) -> Positions:
    """Return the last position in each of at most `points` equal spans of time.

    >>> last_of_each(np.array([0, 1, 2, 9, 10]), 2).tolist()
    [2, 4]
    """
    times = np.maximum.accumulate(times)
    width = max(1, -(-int(times[-1] - times[0] + 1) // points))
    spans = (times - times[0]) // width
    return np.flatnonzero(np.append(spans[1:] != spans[:-1], np.True_))


_HEX = np.zeros(256, np.uint64)
_HEX[[ord(digit) for digit in "0123456789abcdef"]] = np.arange(16, dtype=np.uint64)
