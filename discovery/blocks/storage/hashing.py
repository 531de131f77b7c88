"""Hashes of canonical values. They decide which file a value is in, so they must not change.

The bytes of values (`tables/canonical.py`) are equal exactly if the values are: -0.0 and 0 have the same bytes, as all
NaN have; an integer and a string have different bytes. Hashes of different values are equal with probability 2^-64.

A changed hash needs a new name `HASH`: a state stores the name, and values placed by another hash are placed again.
"""

import numpy as np
import pyarrow as pa

from holdfast.discovery.kernels.hashing import hash_bytes_kernel
from holdfast.tables.arrays import Hashes

HASH = 1
"""The name of the hash that `hashed` computes."""

OF_PANDAS = 0
"""The name of the hash of states without a name: that of any version of pandas."""


def hashed(values: pa.Array) -> Hashes:
    """Return a 64-bit hash of each binary, none of them null: the same on all machines and versions. O(bytes)."""
    values = values.cast(pa.large_binary())
    _, bounds, data = values.buffers()
    within = np.frombuffer(bounds, np.int64)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    found = np.empty(len(values), np.uint64)
    hash_bytes_kernel(content, within, found)
    return found
