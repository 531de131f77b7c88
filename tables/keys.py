"""Typed Arrow arrays to 64-bit keys, and back.

A key is an `int64` whose order and equality are those of the values (semantics: NaN equals itself and is
above every number, -0.0 is 0.0):

    integer      the value
    float        the IEEE bits, with the lower 63 flipped where negative; NaN canonical, -0.0 as 0.0
    decimal      the unscaled value, up to 18 digits; wider ones: rank among the column's distinct values
    date         days since 1970-01-01
    timestamp    micro- or nanoseconds since 1970-01-01 UTC
    boolean      0 or 1
    string       number of the value in the table's one dictionary (equality only; see `Table.text_ranks`)

Invariant: where a value is null its key is 0 and means nothing; nulls stand apart in `valid`.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.constraints import ColumnType, InputError
from holdfast.constraints.types import (
    BOOLEAN,
    DATE,
    FLOAT,
    INTEGER,
    MAX_DECIMAL_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
)
from holdfast.tables.arrays import Flags, Floats, Ints, Keys

NARROW_DECIMAL = 18
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, in days since 1970-01-01
_DAY = 86_400_000_000
_LOWER_63 = np.int64(0x7FFF_FFFF_FFFF_FFFF)
_NAN_KEY = np.int64(0x7FF8_0000_0000_0000)


def column_type_of(arrow_type: pa.DataType) -> ColumnType | None:
    """Return the column type for an Arrow type, or None for other types (nested, binary, durations).

    >>> str(column_type_of(pa.uint64())), column_type_of(pa.binary())
    ('decimal(20,0)', None)
    """
    types = pa.types
    if types.is_dictionary(arrow_type):
        return column_type_of(arrow_type.value_type)
    if types.is_uint64(arrow_type):
        return ColumnType("decimal", 20, 0)
    if types.is_integer(arrow_type):
        return INTEGER
    if types.is_floating(arrow_type):
        return FLOAT
    if types.is_decimal(arrow_type):
        fits = arrow_type.precision <= MAX_DECIMAL_PRECISION and 0 <= arrow_type.scale <= arrow_type.precision
        return ColumnType("decimal", arrow_type.precision, arrow_type.scale) if fits else None
    if types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type):
        return STRING
    if types.is_date(arrow_type):
        return DATE
    if types.is_timestamp(arrow_type):
        return TIMESTAMP_NS if arrow_type.unit == "ns" else TIMESTAMP
    if types.is_boolean(arrow_type):
        return BOOLEAN
    return STRING if types.is_null(arrow_type) else None


def arrow_type_of(column_type: ColumnType) -> pa.DataType:
    """Return the Arrow type of values of `column_type`."""
    match column_type.name:
        case "integer":
            return pa.int64()
        case "float":
            return pa.float64()
        case "decimal":
            return pa.decimal128(column_type.precision, column_type.scale)
        case "date":
            return pa.date32()
        case "timestamp":
            return pa.timestamp("ns" if column_type.precision == 9 else "us", "UTC")
        case "boolean":
            return pa.bool_()
    return pa.large_string()


def normalised(array: pa.ChunkedArray, column_type: ColumnType) -> pa.Array:
    """Return `array` in the one Arrow type of `column_type`; `InputError` where a value does not fit."""
    target = arrow_type_of(column_type)
    if pa.types.is_dictionary(array.type) and column_type.name != "string":
        array = array.cast(array.type.value_type)
    if pa.types.is_timestamp(array.type) and array.type.tz is None:
        array = array.cast(pa.timestamp(array.type.unit, "UTC"))
    try:
        made = array.cast(target).combine_chunks() if array.type != target else array.combine_chunks()
    except pa.ArrowInvalid as error:
        raise InputError(f"a value does not fit {column_type}: {error}") from error
    if beyond_calendar(made):
        raise InputError(f"a {column_type.name} lies outside the years 1 to 9999: correct it, or leave the column out")
    return made


def beyond_calendar(array: pa.Array) -> bool:
    """Whether a date or time is outside of the years 1 to 9999, which texts and Python values are limited to.

    >>> beyond_calendar(pa.array([-719162, 2932896], pa.date32())), beyond_calendar(pa.array([2932897], pa.date32()))
    (False, True)
    """
    if pa.types.is_date32(array.type):
        numbers, lowest, highest = array.cast(pa.int32()), _FIRST_DAY, _LAST_DAY
    elif pa.types.is_timestamp(array.type) and array.type.unit == "us":
        numbers, lowest, highest = array.cast(pa.int64()), _FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1
    else:
        return False
    ends = pc.min_max(numbers).as_py()
    return ends["min"] is not None and (ends["min"] < lowest or ends["max"] > highest)


def validity(array: pa.Array) -> Flags | None:
    """Return which values are not null, or None if all values are."""
    if array.null_count == 0:
        return None
    return np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False))


def narrow_keys(array: pa.Array, column_type: ColumnType) -> Keys:
    """Return the keys of an array in its own Arrow type, for all types that need no dictionary. O(n)."""
    match column_type.name:
        case "float":
            return float_keys(_filled(array, 0.0).astype(np.float64))
        case "decimal":
            keys = decimal_words(array)[:, 0].copy()
        case "boolean":
            keys = _filled(array, False).astype(np.int64)
        case "date":
            keys = _filled(array.cast(pa.int32()), 0).astype(np.int64)
        case _:
            keys = np.asarray(_filled(array.cast(pa.int64()), 0))
    valid = validity(array)
    if valid is not None and column_type.name == "decimal":
        keys[~valid] = 0
    return keys


def needs_dictionary(column_type: ColumnType) -> bool:
    """Whether keys of the type are positions in a dictionary."""
    return column_type.name == "string" or (column_type.name == "decimal" and column_type.precision > NARROW_DECIMAL)


def ranked_keys(array: pa.Array) -> tuple[Keys, pa.Array]:
    """Return the rank of each value among the distinct values, and these in order. O(n + d log d)."""
    encoded = pc.dictionary_encode(array)
    rank = ranks_of(encoded.dictionary)
    order = np.empty_like(rank)
    order[rank] = np.arange(len(rank))
    return mapped(encoded.indices, rank), encoded.dictionary.take(pa.array(order))


def ranks_of(distinct: pa.Array) -> Keys:
    """Return the rank of each of some distinct values. O(d log d)."""
    ranks = np.empty(len(distinct), np.int64)
    ranks[pc.sort_indices(distinct).to_numpy()] = np.arange(len(distinct))
    return ranks


def with_dictionary(array: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a chunked array as one array with a dictionary. O(n).

    Encoding gives all chunks the one dictionary that they have together, so it is taken as it is: unifying it with
    itself, chunk by chunk, took forty times as long on six million strings.

    >>> with_dictionary(pa.chunked_array([["a", "b"], [], ["b", None, "c"]])).to_pylist()
    ['a', 'b', 'b', None, 'c']
    """
    encoded = pc.dictionary_encode(array)
    if not encoded.num_chunks:
        return pa.array([], array.type).dictionary_encode()
    indices = pa.chunked_array([chunk.indices for chunk in encoded.chunks]).combine_chunks()
    dictionary = encoded.chunk(0).dictionary
    assert all(len(chunk.dictionary) == len(dictionary) for chunk in encoded.chunks)
    return pa.DictionaryArray.from_arrays(indices, dictionary)


def mapped(indices: pa.Array, places: Keys) -> Keys:
    """Return `places[i]` for every index, 0 for a null one."""
    valid = validity(indices)
    if not len(places):
        return np.zeros(len(indices), np.int64)
    keys: Keys = places[_filled(indices, 0)]
    if valid is not None:
        keys[~valid] = 0
    return keys


def float_keys(values: Floats) -> Keys:
    """Return order-preserving keys of floats.

    >>> k = float_keys(np.array([-np.inf, -1.5, -0.0, 0.0, 5e-324, 2.0, np.inf, np.nan]))
    >>> bool(np.all(np.diff(k)[[0, 1, 3, 4, 5, 6]] > 0)), int(k[2] - k[3])
    (True, 0)
    """
    bits = (values + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
    keys = bits ^ ((bits >> 63) & _LOWER_63)
    keys[np.isnan(values)] = _NAN_KEY
    return np.asarray(keys)


def floats(keys: Keys) -> Floats:
    """Return the floats of `float_keys`: its inverse."""
    return np.asarray((keys ^ ((keys >> 63) & _LOWER_63)).view(np.float64))


def narrow_values(keys: Keys, valid: Flags | None, column_type: ColumnType) -> pa.Array:
    """Return the values of `narrow_keys`: its inverse."""
    absent = None if valid is None else ~valid
    match column_type.name:
        case "float":
            return pa.array(floats(keys), mask=absent, from_pandas=False)
        case "decimal":
            words = np.empty((len(keys), 2), np.int64)
            words[:, 0], words[:, 1] = keys, keys >> 63
            present = None if valid is None else pa.array(valid).buffers()[1]
            return pa.Array.from_buffers(arrow_type_of(column_type), len(keys), [present, pa.py_buffer(words)])
        case "boolean":
            return pa.array(keys != 0, mask=absent)
        case "date":
            return pa.array(keys.astype(np.int32), mask=absent).cast(pa.date32())
        case "timestamp":
            return pa.array(keys, mask=absent).cast(arrow_type_of(column_type))
    return pa.array(keys, mask=absent)


def decimal_words(array: pa.Array) -> Ints:
    """Return the low and high words of a decimal128 array, one row a value."""
    words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)
    return np.asarray(words[array.offset : array.offset + len(array)])


def _filled(array: pa.Array, value: object) -> NDArray[np.generic]:
    """Return a numpy array with nulls replaced by `value`."""
    if array.null_count:
        array = pc.fill_null(array, value)
    return np.asarray(array.to_numpy(zero_copy_only=False))
