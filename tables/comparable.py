"""Common keys of two columns, by which their values can be compared with each other.

Within one type the keys already compare. Across number types they do not: values compare by their exact
mathematical value, so 2^53 + 1 is not 9007199254740992.0, and decimal 0.1 is not float 0.1. There the two
columns get ranks in the order of all their distinct values together. Nulls stay separate.
"""

from collections.abc import Collection, Hashable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.constraints import PredicateSpace, UsageError
from holdfast.tables.arrays import Keys
from holdfast.tables.columnar import EncodedColumn, Table
from holdfast.tables.keys import NARROW_DECIMAL, decimal_words, float_keys, floats, ranks_of

Parts: TypeAlias = tuple[NDArray[np.generic], ...]

_FEWEST_COMMON, _BEYOND_CHANCE = 3, 2
_LIMITS = np.iinfo(np.int64)


def space_of(table: Table, cross_columns: str | Collection[tuple[str, str]] = "auto") -> PredicateSpace:
    """Return the predicate space of a table, crossing pairs measured on its rows.

    Parameters
    ----------
    cross_columns : as `PredicateSpace.build` has it; `related` takes the pairs of `auto` that are `related`.
    """
    if cross_columns == "related":
        return related_space(table, space_of(table))
    return PredicateSpace.build(table.schema, cross_columns, lambda a, b: overlap(table, a, b))


def related_space(table: Table, space: PredicateSpace) -> PredicateSpace:
    """Return a space without the crossing pairs whose values are not related on the rows of a table."""
    crossing = (pair for pair in space.crossing if related(*(table.columns[column] for column in pair)))
    return PredicateSpace(space.schema, tuple(crossing), space.family)


def key_space(column: EncodedColumn) -> Hashable:
    """Return a value that is equal for two columns if their keys compare as their values do."""
    kind = column.column.type
    dictionary = None if column.dictionary is None else id(column.dictionary)
    return dictionary, ("scaled", kind.scale) if kind.name in {"integer", "decimal"} else kind


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
    if key_space(left) == key_space(right):
        return left.keys, right.keys
    left_distinct, right_distinct = common_distinct(left, right)
    return _spread(left, left_distinct), _spread(right, right_distinct)


def overlap(table: Table, left: int, right: int) -> tuple[int, int]:
    """Return the overlap of two columns: the sums of the smaller and of the larger count over non-null values.

    O(d) where the columns' distinct values are counted already.
    """
    a, b = table.columns[left], table.columns[right]
    _, in_a, in_b = np.intersect1d(*common_distinct(a, b), assume_unique=True, return_indices=True)
    a_counts, b_counts = a.counts[1], b.counts[1]
    smaller = int(np.minimum(a_counts[in_a], b_counts[in_b]).sum())
    return smaller, int(a_counts.sum() + b_counts.sum()) - smaller


def related(left: EncodedColumn, right: EncodedColumn) -> bool:
    """Return whether two columns of one type group have values in common beyond chance. O(d)."""
    steps = key_space(left) == key_space(right) and left.column.type.has_steps
    return related_counts(*common_distinct(left, right), left.counts[1], right.counts[1], steps=steps)


def related_counts(left: Keys, right: Keys, left_counts: Keys, right_counts: Keys, *, steps: bool) -> bool:
    """Return whether two columns have values in common beyond chance, by distinct keys and how often each occurs.

    The most frequent common value does not count, as a 0, `no` or `M` may stand for anything. Without it, 30 % of the
    values have to be common, by occurrences, and at least two distinct ones. Of numbers with steps, such as integers,
    there have to be twice as many common ones as two random sets of the same sizes in the same range would have.

    Examples
    --------
    >>> ages, hours, ones = np.arange(17, 91), np.arange(1, 100), np.ones(99, np.int64)
    >>> related_counts(ages, hours, ones[:74], ones, steps=True)
    False
    >>> related_counts(250 * ages, 250 * hours, ones[:74], ones, steps=True)
    True
    """
    _, in_left, in_right = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    if len(in_left) < _FEWEST_COMMON:
        return False
    smaller = np.minimum(left_counts[in_left], right_counts[in_right])
    larger = np.maximum(left_counts[in_left], right_counts[in_right])
    dominant = int(np.lexsort((larger, smaller))[-1])  # whatever the order of the values
    shared = int(smaller.sum() - smaller[dominant])
    every = int(left_counts.sum() + right_counts.sum() - smaller.sum() - larger[dominant])
    if 10 * shared < 3 * every:
        return False
    if not steps:
        return True
    values = int(max(left.max(), right.max())) - int(min(left.min(), right.min())) + 1
    return len(in_left) * values >= _BEYOND_CHANCE * len(left) * len(right)


def common_distinct(left: EncodedColumn, right: EncodedColumn) -> tuple[Keys, Keys]:
    """Return, for the distinct values of each column in its own order, keys that compare across. O(d log d)."""
    if left.column.type.group is not right.column.type.group:
        raise UsageError(f"columns {left.column} and {right.column} cannot be compared: they are of different groups")
    a, b = left.counts[0], right.counts[0]
    if key_space(left) == key_space(right):
        return a, b
    ranks = _ranks(left, right)
    return ranks[: len(a)], ranks[len(a) :]


def _spread(column: EncodedColumn, distinct: Keys) -> Keys:
    """Return for each row the entry of `distinct` for its value; 0 for null."""
    own = column.counts[0]
    if not len(own):
        return np.zeros(len(column), np.int64)
    places = np.searchsorted(own, column.keys)
    keys: Keys = distinct[np.minimum(places, len(own) - 1)]
    if column.valid is not None:
        keys[~column.valid] = 0
    return keys


def _ranks(left: EncodedColumn, right: EncodedColumn) -> Keys:
    """Return dense ranks of the distinct values of two columns, one column's after the other's."""
    types = {left.column.type.name, right.column.type.name}
    if types == {"string"}:
        return _ranks_of_texts([c.dictionary.take(pa.array(c.counts[0])) for c in (left, right)])  # type: ignore[union-attr]
    if types == {"integer", "float"}:
        return _ranks_of_parts(_whole_and_rest(left), _whole_and_rest(right))
    if "float" in types:
        return _ranks_of_parts(_nearest_floats(left), _nearest_floats(right))
    if left.dictionary is None and right.dictionary is None:
        return _ranks_of_parts(_units_and_rest(left), _units_and_rest(right))
    scale = max(left.column.type.scale, right.column.type.scale)
    unscaled = [n * 10 ** (scale - c.column.type.scale) for c in (left, right) for n in _unscaled(c)]
    rank = {value: i for i, value in enumerate(sorted(set(unscaled)))}
    return np.fromiter((rank[value] for value in unscaled), np.int64, len(unscaled))


def _ranks_of_texts(texts: list[pa.Array]) -> Keys:
    encoded = pc.dictionary_encode(pa.concat_arrays(texts))
    return np.asarray(ranks_of(encoded.dictionary)[encoded.indices.to_numpy()])


def _ranks_of_parts(*columns: Parts) -> Keys:
    """Return dense ranks of numbers that are split into parts, which order lexicographically."""
    parts = [np.concatenate(part) for part in zip(*columns, strict=True)]
    order = np.lexsort(parts[::-1])
    differs = np.zeros(len(order), np.int64)
    for part in parts:
        differs[1:] |= part[order][1:] != part[order][:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(differs)
    return ranks


def _whole_and_rest(column: EncodedColumn) -> Parts:
    """Split integers or floats exactly into (whole part, rest, is NaN).

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


def _nearest_floats(column: EncodedColumn) -> Parts:
    """Split numbers exactly into (key of the nearest float, side of the float, rank on that side).

    Rounding to the nearest is monotonic: a float above the nearest float of a decimal is above the decimal.
    """
    distinct = column.counts[0]
    if column.column.type.name == "float":
        return distinct, np.zeros(len(distinct), np.int64), np.zeros(len(distinct), np.int64)
    one = 10**column.column.type.scale
    numbers = _unscaled(column)
    nearest = [number / one for number in numbers]  # exactly rounded, however wide
    ratios = (value.as_integer_ratio() for value in nearest)
    beside = [number * below - above * one for number, (above, below) in zip(numbers, ratios, strict=True)]
    side = np.fromiter(((n > 0) - (n < 0) for n in beside), np.int64, len(beside))
    return float_keys(np.array(nearest, np.float64)), side, np.where(side == 0, 0, np.arange(len(side)))


def _units_and_rest(column: EncodedColumn) -> Parts:
    """Split narrow numbers, or times, into whole units (microseconds) and the rest in 10^-18 (nanoseconds)."""
    distinct, kind = column.counts[0], column.column.type
    if kind.name == "timestamp":
        return np.divmod(distinct, 1000) if kind.precision == 9 else (distinct, np.zeros_like(distinct))
    units, rest = np.divmod(distinct, 10**kind.scale)
    return units, rest * 10 ** (NARROW_DECIMAL - kind.scale)


def _unscaled(column: EncodedColumn) -> list[int]:
    """Return the distinct integers or decimals as integers, in units of their last digit."""
    if column.dictionary is None:
        return [int(key) for key in column.counts[0].tolist()]
    words = decimal_words(column.dictionary)[column.counts[0]]
    low = words[:, 0].astype(np.uint64).tolist()
    return [(above << 64) + below for above, below in zip(words[:, 1].tolist(), low, strict=True)]
