"""Hashes of canonical values: which part of the files a value is in depends on them, so they may never change.

Bytes of values (`tables/canonical.py`) are equal exactly if the values are: -0.0 and 0 have the same bytes, as all NaN
have, and an integer and a string have different ones; so have their hashes, but for one in 2^64.

A change of the hash is a new `HASH`: a state says which one placed its values, and values that another one placed are
placed anew.
"""

import numpy as np
import pyarrow as pa

from holdfast.discovery.kernels.hashing import hash_bytes_kernel
from holdfast.tables.arrays import Hashes

HASH = 1
"""The name of the hash that `hashed` computes."""

OF_PANDAS = 0
"""The name of the hash of states that do not name theirs: that of pandas, whatever its version was."""


def hashed(values: pa.Array) -> Hashes:
    """Return 64 bits of each of some binaries, none of them null: the same ones everywhere and always. O(bytes)."""
    values = values.cast(pa.large_binary())
    _, bounds, data = values.buffers()
    within = np.frombuffer(bounds, np.int64)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    found = np.empty(len(values), np.uint64)
    hash_bytes_kernel(content, within, found)
    return found
