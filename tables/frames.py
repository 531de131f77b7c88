"""Conversion of typed Arrow data (and so of Parquet, Delta and pandas) to encoded tables.

Columns of other types than ours (nested, binary, map, durations, times of day) are left out with a warning.
"""

import datetime
import decimal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import Column, ColumnType, InputError, UsageError
from holdfast.constraints.types import STRING, TIMESTAMP_NS
from holdfast.tables.columnar import Table, encoded
from holdfast.tables.inference import typed
from holdfast.tables.keys import arrow_type_of, column_type_of, with_dictionary
from holdfast.tables.options import ReadOptions
from holdfast.tables.selection import Selection


def encode_arrow(
    data: pa.Table, name: str, source: str, options: ReadOptions, names: Sequence[str] | None = None
) -> Table:
    """Encode the columns that `options` choose; `names` are all columns of the source, if `data` has fewer."""
    _refuse_unreadable_names(data.schema, source)
    repeated = {n for n in data.column_names if data.column_names.count(n) > 1}
    if repeated:
        raise InputError(f"{source} has more than one column named '{min(repeated)}'; rename one")
    selection = Selection(source, data.column_names if names is None else names, options)
    columns: list[Column] = []
    arrays: dict[str, pa.ChunkedArray] = {}
    left_out = []
    for column_name in selection.chosen(data.column_names):
        array = data.column(column_name)
        own = column_type_of(array.type)
        if own is None:
            left_out.append(f"{column_name} ({array.type})")
            continue
        wanted = STRING if selection.as_string(column_name) else options.types.get(column_name, own)
        ordered = options.ordered.get(column_name)
        assumed = pa.types.is_null(array.type) and column_name not in options.types
        columns.append(Column(column_name, wanted, ordered, assumed))
        arrays[column_name] = array if wanted == own else converted(array, own, columns[-1], source)
    warnings = [f"{source}: left out {', '.join(left_out)}: nested, binary and such columns are not monitored"]
    return encoded(
        name,
        columns,
        arrays,
        data.num_rows,
        warnings=warnings if left_out else (),
        locate=_rows_of(source),
    )


def _refuse_unreadable_names(schema: pa.Schema, source: str) -> None:
    """Raise `InputError` for names that are not UTF-8, which Arrow decodes only on access."""
    try:
        for field in schema:
            _ = field.name, str(field), getattr(field.type, "tz", None)
    except UnicodeError as error:
        raise InputError(f"{source} names a column, or a zone of times, in what is no UTF-8: {error}") from error


def from_arrow(data: pa.Table | pa.RecordBatch, name: str, options: ReadOptions | None = None) -> Table:
    """Encode an Arrow table.

    Examples
    --------
    >>> t = from_arrow(pa.table({"a": [1, 2], "b": [[1], [2]]}), "t")
    >>> t.schema.names, t.warnings
    (('a',), ('t: left out b (list<item: int64>): nested, binary and such columns are not monitored',))
    """
    if not isinstance(data, pa.Table | pa.RecordBatch):
        raise UsageError(f"table {name}: expected an Arrow table, not {type(data).__name__}")
    data = data if isinstance(data, pa.Table) else pa.table(data)
    options = options or ReadOptions()
    if options.limit is not None:
        data = data.slice(0, options.limit)
    return encode_arrow(data, name, name, options)


def from_pandas(frame: object, name: str, options: ReadOptions | None = None) -> Table:
    """Encode a pandas data frame; its index is not a column, and its missing values (NaN, NaT, None) are nulls."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise UsageError(f"table {name}: expected a pandas data frame, not {type(frame).__name__}")
    if options is not None and options.limit is not None:
        frame = frame.head(options.limit)
    names = [str(column).encode(errors="backslashreplace").decode() for column in frame.columns]
    repeated = {column for column in names if names.count(column) > 1}
    if repeated:
        raise InputError(f"table {name} has more than one column named '{min(repeated)}'; rename one")
    arrays = [_from_series(frame.iloc[:, i], name, column) for i, column in enumerate(names)]
    return encode_arrow(pa.table(arrays, names), name, name, options or ReadOptions())


def _from_series(series: Any, name: str, column: str) -> pa.ChunkedArray:
    try:
        if series.dtype == object:
            _refuse_mixed(series)
        array = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        problem = str(error).encode(errors="backslashreplace").decode()
        raise InputError(
            f"table {name}, column {column}: it holds values of mixed types, or of one unknown here: {problem}. "
            "Give it one type first, or leave it out"
        ) from error
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _refuse_mixed(series: Any) -> None:
    """Raise where Arrow would silently convert values of one type to another, as `True` to 1.0."""
    values = series.dropna()
    kinds = {type(value) for value in values}
    groups = {_group(kind): kind for kind in kinds}
    if len(groups) > 1:
        raise ValueError(" and ".join(sorted(kind.__name__ for kind in groups.values())))
    if "time" in groups and len({getattr(value, "tzinfo", None) is None for value in values}) > 1:
        raise ValueError("times with an offset and times without")


def _group(kind: type) -> str:
    """Return the group of a Python type; types of one group can be one column."""
    for group, types in _GROUPS:
        if issubclass(kind, types):
            return group
    return kind.__name__


_GROUPS: tuple[tuple[str, tuple[type, ...]], ...] = (  # a bool is an int, and a datetime a date, in Python
    ("boolean", (bool, np.bool_)),
    ("number", (int, float, decimal.Decimal, np.number)),
    ("text", (str,)),
    ("bytes", (bytes, bytearray)),
    ("time", (datetime.datetime, np.datetime64)),
    ("date", (datetime.date,)),
)


def converted(array: pa.ChunkedArray, own: ColumnType, column: Column, source: str) -> pa.ChunkedArray:
    """Return values of type `own` in the column's type, without loss; `InputError` where that is impossible.

    Floats and decimals are converted by their shortest texts: float 0.1 is decimal 0.1, and back.
    """
    wanted = column.type
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if wanted == STRING:
        return texts_of(array)
    if own == STRING:
        return _parsed(array.cast(pa.large_string()), column, source)
    if own.group is not wanted.group:
        raise InputError(
            f"{source}, column {column.name}: its type is {own}, which cannot be read as {wanted}; "
            "leave its type out, or use string"
        )
    if wanted.name == "decimal":
        return _parsed(texts_of(array), column, source)
    if own.name == "decimal" and wanted.name == "float":
        return _floats(array.cast(arrow_type_of(own)), own, column, source)
    if own.name == "timestamp" and array.type.tz is None:
        array = array.cast(pa.timestamp(array.type.unit, "UTC"))
    try:
        return array.cast(arrow_type_of(wanted), safe=True)
    except pa.ArrowException as error:
        raise InputError(
            f"{source}, column {column.name}: a value of type {own} does not fit {wanted}: {error}"
        ) from error


def _rows_of(source: str) -> Callable[[int], str]:
    return lambda row: f"{source}, row {row + 1}"


def _floats(decimals: pa.ChunkedArray, own: ColumnType, column: Column, source: str) -> pa.ChunkedArray:
    made = _parsed(texts_of(decimals), column, source)
    back = _parsed(texts_of(made), Column(column.name, own), source)
    row = pc.index(pc.not_equal(back, decimals), pa.scalar(True)).as_py()
    if row >= 0:
        value = decimals[row].as_py()
        raise InputError(
            f"{_rows_of(source)(row)}, column {column.name}: {value} has more digits than a float; leave its type out"
        )
    return made


def _parsed(texts: pa.ChunkedArray, column: Column, source: str) -> pa.ChunkedArray:
    _, values = typed(texts, column.name, column.type, _rows_of(source), ordered=column.ordered)
    return values


def texts_of(array: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the shortest texts that read back as the values."""
    if pa.types.is_timestamp(array.type):
        unit = "ns" if column_type_of(array.type) == TIMESTAMP_NS else "us"
        text = pc.strftime(array.cast(pa.timestamp(unit)), format="%Y-%m-%dT%H:%M:%S")
        return pc.replace_substring_regex(text, r"\.0*$|(\.[0-9]*[1-9])0*$", r"\1")
    if pa.types.is_decimal(array.type):
        return _decimal_texts(array)
    if pa.types.is_floating(array.type):
        array = pc.add(array.cast(pa.float64()), 0.0)  # -0.0 + 0.0 is 0.0
    return array.cast(pa.large_string())


def _decimal_texts(array: pa.ChunkedArray) -> pa.ChunkedArray:
    coded = with_dictionary(array)
    plain = [format(value, "f") for value in coded.dictionary.to_pylist()]
    texts = pa.array([t.rstrip("0").rstrip(".") if "." in t else t for t in plain], pa.large_string())
    return pa.chunked_array([texts.take(coded.indices)])
