"""Typed Arrow data (and with it Parquet, Delta and pandas) into typed columns of ours.

Columns without a type of ours (nested, binary, map, durations, times of day) are left out with a warning.
"""

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import Column, ColumnType, InputError
from holdfast.constraints.types import STRING, TIMESTAMP_NS
from holdfast.tables.columnar import Table, encoded
from holdfast.tables.inference import parse
from holdfast.tables.keys import arrow_type_of, column_type_of
from holdfast.tables.options import ReadOptions
from holdfast.tables.selection import Selection


def encode_arrow(data: pa.Table, name: str, source: str, options: ReadOptions) -> Table:
    """Encode the columns that `options` choose."""
    repeated = {n for n in data.column_names if data.column_names.count(n) > 1}
    if repeated:
        raise InputError(f"{source} has more than one column named '{min(repeated)}'; rename one")
    selection = Selection(source, data.column_names, options)
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
        try:
            arrays[column_name] = array if wanted == own else converted(array, own, wanted)
        except InputError as error:
            raise InputError(f"{source}, column {column_name}: {error}") from error
    warnings = [f"{source}: left out {', '.join(left_out)}: nested, binary and such columns are not monitored"]
    return encoded(
        name,
        columns,
        arrays,
        data.num_rows,
        warnings=warnings if left_out else (),
        locate=lambda row: f"{source}, row {row + 1}",
    )


def from_arrow(data: pa.Table | pa.RecordBatch, name: str, options: ReadOptions | None = None) -> Table:
    """Encode an Arrow table.

    Examples
    --------
    >>> t = from_arrow(pa.table({"a": [1, 2], "b": [[1], [2]]}), "t")
    >>> t.schema.names, t.warnings
    (('a',), ('t: left out b (list<item: int64>): nested, binary and such columns are not monitored',))
    """
    data = pa.table(data) if not isinstance(data, pa.Table) else data
    options = options or ReadOptions()
    if options.limit is not None:
        data = data.slice(0, options.limit)
    return encode_arrow(data, name, name, options)


def from_pandas(frame: object, name: str, options: ReadOptions | None = None) -> Table:
    """Encode a pandas data frame; its index is not a column, and its missing values (NaN, NaT, None) are nulls."""
    try:
        data = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        problem = "; ".join(str(part) for part in error.args)
        raise InputError(
            f"table {name}: a column holds values of mixed types: {problem}. Give it one type first"
        ) from error
    return from_arrow(data, name, options)


def converted(array: pa.ChunkedArray, own: ColumnType, wanted: ColumnType) -> pa.ChunkedArray:
    """Return typed values as another declared type, without loss; `InputError` where that cannot be."""
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    try:
        if wanted == STRING:
            return _texts(array)
        if own == STRING:
            coded = pc.dictionary_encode(array.cast(pa.string())).unify_dictionaries().combine_chunks()
            if not len(coded):
                return pa.chunked_array([], arrow_type_of(wanted))
            return pa.chunked_array([parse(coded.dictionary, wanted).take(coded.indices)])
        if own.group is not wanted.group:
            raise InputError(f"its type is {own}, which cannot be read as {wanted}; leave its type out or use string")
        if own.name == "timestamp" and array.type.tz is None:
            array = array.cast(pa.timestamp(array.type.unit, "UTC"))
        return array.cast(arrow_type_of(wanted), safe=True)
    except (pa.ArrowInvalid, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"a value of type {own} does not fit the declared type {wanted}: {error}") from error


def _texts(array: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the shortest texts that read back as the values."""
    if pa.types.is_timestamp(array.type):
        unit = "ns" if column_type_of(array.type) == TIMESTAMP_NS else "us"
        text = pc.strftime(array.cast(pa.timestamp(unit)), format="%Y-%m-%dT%H:%M:%S")
        return pc.replace_substring_regex(text, r"\.0*$|(\.[0-9]*[1-9])0*$", r"\1")
    if pa.types.is_floating(array.type):
        array = array.cast(pa.float64())
    return array.cast(pa.large_string())
