"""Keys that two columns have in common, so that their values can be compared with each other.

Within one type the keys already compare. Across number types they do not: values compare by their exact
mathematical value, so 2^53 + 1 is not 9007199254740992.0, and decimal 0.1 is not float 0.1. There the two
columns get ranks in the order of all their distinct values together. Nulls stay apart, as ever.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import UsageError
from holdfast.tables.columnar import EncodedColumn, Table
from holdfast.tables.keys import Flags, Keys, floats

__all__ = ["common_distinct", "common_keys", "overlap"]

_LIMITS = np.iinfo(np.int64)


def common_keys(left: EncodedColumn, right: EncodedColumn) -> tuple[Keys, Keys]:
    """Return keys of two columns whose order and equality are those of the values. O(n log n).

    Examples
    --------
    >>> import pyarrow as pa
    >>> from holdfast.tables import from_arrow
    >>> t = from_arrow(pa.table({"a": [2**53 + 1, 1, 2], "b": [2.0**53, 1.0, 1.5]}), "t")
    >>> [k.tolist() for k in common_keys(*t.columns)]
    [[4, 0, 2], [3, 0, 1]]
    """
    if _comparable_as_they_are(left, right):
        return left.keys, right.keys
    left_distinct, right_distinct = common_distinct(left, right)
    return _spread(left, left_distinct), _spread(right, right_distinct)


def overlap(table: Table, left: int, right: int) -> tuple[int, int]:
    """Return how much two columns share: the sums of the smaller and of the larger count, over non-null values.

    O(d) where the columns' distinct values are counted already.
    """
    a, b = table.columns[left], table.columns[right]
    _, in_a, in_b = np.intersect1d(*common_distinct(a, b), assume_unique=True, return_indices=True)
    a_counts, b_counts = a.counts[1], b.counts[1]
    smaller = int(np.minimum(a_counts[in_a], b_counts[in_b]).sum())
    return smaller, int(a_counts.sum() + b_counts.sum()) - smaller


def common_distinct(left: EncodedColumn, right: EncodedColumn) -> tuple[Keys, Keys]:
    """Return, for the distinct values of each column in its own order, keys that compare across. O(d log d)."""
    if left.column.type.group is not right.column.type.group:
        raise UsageError(f"columns {left.column} and {right.column} cannot be compared: they are of different groups")
    a, b = left.counts[0], right.counts[0]
    if _comparable_as_they_are(left, right):
        return a, b
    names = {left.column.type.name, right.column.type.name}
    if names == {"integer", "float"}:
        ranks = _ranks_of_parts(*(np.concatenate(p) for p in zip(_parts(left), _parts(right), strict=True)))
    else:
        ranks = _ranks_of_exact([*_exact(left), *_exact(right)])
    return ranks[: len(a)], ranks[len(a) :]


def _comparable_as_they_are(left: EncodedColumn, right: EncodedColumn) -> bool:
    a, b = left.column.type, right.column.type
    if left.dictionary is not None or right.dictionary is not None:
        return left.dictionary is right.dictionary
    scaled = {"integer", "decimal"}
    return a == b or (a.name in scaled and b.name in scaled and a.scale == b.scale)


def _spread(column: EncodedColumn, distinct: Keys) -> Keys:
    """Return for every row the key of its value, 0 where it is null."""
    own = column.counts[0]
    if not len(own):
        return np.zeros(len(column), np.int64)
    places = np.searchsorted(own, column.keys)
    keys: Keys = distinct[np.minimum(places, len(own) - 1)]
    if column.valid is not None:
        keys[~column.valid] = 0
    return keys


def _parts(column: EncodedColumn) -> tuple[Keys, NDArray[np.float64], Flags]:
    """Split integers or floats exactly into (whole part, rest, is NaN), which order as the numbers do.

    The rest has the sign of the number, so -0.5 is (0, -0.5) and comes after -1 and before 0. Beyond 64 bits
    the whole part stays at its limit and the rest is the number itself.
    """
    distinct = column.counts[0]
    if column.column.type.name == "integer":
        return distinct, np.zeros(len(distinct)), np.zeros(len(distinct), np.bool_)
    values = floats(distinct)
    not_a_number = np.isnan(values)
    values = np.where(not_a_number, np.inf, values)
    whole = np.trunc(values)
    above, below = whole >= 2.0**63, whole < -(2.0**63)
    beyond = above | below
    with np.errstate(invalid="ignore"):
        rest = np.where(beyond, values, values - whole)
        limited = np.where(beyond, 0.0, whole).astype(np.int64)
    limited[above], limited[below] = _LIMITS.max, _LIMITS.min
    return limited, rest, not_a_number


def _ranks_of_parts(whole: Keys, rest: NDArray[np.float64], not_a_number: Flags) -> Keys:
    """Return dense ranks of (whole, rest, not_a_number) in lexicographic order."""
    order = np.lexsort((not_a_number, rest, whole))
    differs = np.zeros(len(order), np.int64)
    for part in (whole, rest, not_a_number):
        differs[1:] |= part[order][1:] != part[order][:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(differs)
    return ranks


def _exact(column: EncodedColumn) -> list[Any]:
    """Return the distinct values as exact, comparable Python numbers; NaN as the one above all."""
    distinct = EncodedColumn(column.column, column.counts[0], None, column.dictionary)
    kind = column.column.type
    if kind.name == "timestamp":
        to_nanoseconds = 10 ** (9 - kind.precision)
        return [(0, int(key) * to_nanoseconds) for key in distinct.keys]
    if kind.name == "float":
        return [_exact_float(value) for value in floats(distinct.keys).tolist()]
    return [(0, Fraction(value)) for value in distinct.values().to_pylist()]


def _exact_float(value: float) -> tuple[int, Any]:
    if math.isnan(value):
        return 2, 0
    if value in {float("inf"), float("-inf")}:
        return (1, 0) if value > 0 else (-1, 0)
    return 0, Fraction(value)


def _ranks_of_exact(values: list[Any]) -> Keys:
    rank = {value: i for i, value in enumerate(sorted(set(values)))}
    return np.fromiter((rank[value] for value in values), np.int64, len(values))
