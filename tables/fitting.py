"""Conversion of a stream's values to the types of its table; values that do not fit are flagged.

A text fits a type exactly if a declared column of a file accepts it (`constraints/values.py`), so that a row has the
same values whether it was read with the seed or later.
"""

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import Column, InputError
from holdfast.constraints.types import STRING
from holdfast.constraints.values import EXPECTED
from holdfast.tables.arrays import Flags
from holdfast.tables.frames import converted, texts_of
from holdfast.tables.inference import parse, reads, shortened
from holdfast.tables.keys import arrow_type_of, column_type_of, normalised, with_dictionary


def fit(values: pa.Array | pa.ChunkedArray, column: Column) -> tuple[pa.Array, Flags | None]:
    """Return values in a column's type, null where a value does not fit, and flags of such values. O(n).

    Examples
    --------
    >>> from holdfast.constraints import parse_type
    >>> typed, wrong = fit(pa.array(["1", None, "x", "+7"]), Column("a", parse_type("integer")))
    >>> typed.to_pylist(), wrong.tolist()
    ([1, None, None, 7], [False, False, True, False])
    """
    array = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    own = column_type_of(array.type)
    if own is None:
        return pa.nulls(len(array), arrow_type_of(column.type)), _flags(pc.is_valid(array))
    try:
        made = array if own == column.type else converted(array, own, column, column.name)
        return normalised(made, column.type), None
    except InputError:
        return _fit_texts(array if own == STRING else texts_of(array), column)


def misfit(text: str, column: Column) -> str:
    """Return the message for a text that does not fit a column.

    >>> from holdfast.constraints import parse_type
    >>> misfit("x1", Column("Zip", parse_type("integer")))
    "column Zip: 'x1' is not a whole number within 64 bits (integer)"
    """
    return f"column {column.name}: '{shortened(text)}' is not {EXPECTED[column.type.name]} ({column.type})"


def _fit_texts(array: pa.ChunkedArray, column: Column) -> tuple[pa.Array, Flags | None]:
    """Read each distinct text alone. O(distinct texts) in Python, for columns with texts that do not fit."""
    coded = with_dictionary(array.cast(pa.large_string()))
    distinct = coded.dictionary
    fitting = pa.array([reads(text, column.type) for text in distinct.to_pylist()], pa.bool_())
    typed = parse(distinct.filter(fitting), column.type)
    places = pc.if_else(fitting, pc.subtract(pc.cumulative_sum(fitting.cast(pa.int64())), 1), None)
    wrong = pc.and_(pc.is_valid(coded.indices), pc.invert(fitting.take(coded.indices)))
    return typed.take(places.take(coded.indices)), _flags(wrong)


def _flags(found: pa.Array | pa.ChunkedArray) -> Flags:
    flags: Flags = pc.fill_null(found, False).to_numpy(zero_copy_only=False) if len(found) else _NONE
    return flags


_NONE = pa.array([], pa.bool_()).to_numpy(zero_copy_only=False)
