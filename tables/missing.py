"""Texts that look like missing values, such as `NA`, `NULL`, `-` or `?`, in columns of numbers, dates or booleans.

Invariant: nothing is read as null by its look unless that is asked for (`ReadOptions.nulls_by_look`), and nothing in a
column of texts, as `NA` may be Namibia there.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tables.arrays import Flags

LOOKS = ("na", "n/a", "#n/a", "n.a.", "null", "none", "nil", r"\n", "missing", "unknown", "-", "--", "?", ".")
"""Texts that look like missing values, in lower case."""

_LOOKS = pa.array(LOOKS, pa.large_string())
_LONGEST = max(map(len, LOOKS))


def looks_missing(texts: pa.Array | pa.ChunkedArray) -> Flags:
    """Return which texts look like missing values. O(n), nanoseconds for a long text.

    >>> looks_missing(pa.array(["NA", "1", "n/a", "Nadia"])).tolist()
    [True, False, True, False]
    """
    is_short = pc.fill_null(pc.less_equal(pc.binary_length(texts), _LONGEST), False)
    flags: Flags = is_short.to_numpy(zero_copy_only=False).copy() if len(texts) else np.zeros(0, np.bool_)
    if flags.any():
        lower = pc.utf8_lower(texts.filter(is_short)).cast(pa.large_string())
        flags[flags] = pc.is_in(lower, _LOOKS).to_numpy(zero_copy_only=False)
    return flags


def without_missing(texts: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return texts with null where they look like missing values; the same texts if none does. O(n)."""
    flags = looks_missing(texts.dictionary) if len(texts.dictionary) else None
    if flags is None or not flags.any():
        return texts
    kept = pa.array(~flags)
    places = pc.if_else(kept, pc.subtract(pc.cumulative_sum(kept.cast(pa.int32())), 1), pa.scalar(None, pa.int32()))
    return pa.DictionaryArray.from_arrays(places.take(texts.indices), texts.dictionary.filter(kept))


def null_where_missing(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return texts with null where they look like missing values. O(n).

    >>> null_where_missing(pa.array(["NULL", "1"])).to_pylist()
    [None, '1']
    """
    return pc.if_else(pa.array(looks_missing(texts)), pa.scalar(None, texts.type), texts)


def missing_counts(texts: pa.DictionaryArray) -> dict[str, int]:
    """Return how often each text occurs that looks like a missing value. O(n) if there are any.

    >>> missing_counts(pa.array(["NA", "1", None, "NA", "-"]).dictionary_encode())
    {'NA': 2, '-': 1}
    """
    if not len(texts.dictionary) or not (flags := looks_missing(texts.dictionary)).any():
        return {}
    found = pa.array(flags).take(texts.indices)
    tallied = pc.value_counts(texts.indices.filter(pc.fill_null(found, False)))
    return {texts.dictionary[one["values"]].as_py(): one["counts"] for one in tallied.to_pylist()}
