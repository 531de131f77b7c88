"""The reader of all file formats: a path and options to an encoded table."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.constraints import InputError, UsageError
from holdfast.tables.columnar import Table, encoded
from holdfast.tables.delimited import DelimitedFile
from holdfast.tables.delta import is_delta_table, read_delta
from holdfast.tables.frames import encode_arrow, from_arrow, from_pandas
from holdfast.tables.options import ReadOptions
from holdfast.tables.pipes import is_pipe
from holdfast.tables.selection import Selection

PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc")
_MOST_AT_HEAD = 2**31 - 1
_MANY_ROWS = 1 << 20
_COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4")


def as_table(data: Any, name: str, options: ReadOptions | None = None) -> Table:
    """Return rows as a table, given as a table, a pandas or Arrow table (named `name`), or the path of a file."""
    if isinstance(data, Table):
        return data
    if isinstance(data, str | Path):
        return read_table(data, options)
    if isinstance(data, pa.Table | pa.RecordBatch):
        return from_arrow(data, name, options)
    return from_pandas(data, name, options)


def read_table(path: str | Path, options: ReadOptions | None = None, name: str | None = None) -> Table:
    """Read a CSV file, a Parquet file or folder, an Arrow file or a Delta table.

    Parameters
    ----------
    path : Parquet by `.parquet` or `.pq`, Arrow by `.arrow` or `.feather`, Delta by its `_delta_log`; all else
        is delimited text, `.gz` and other compressions included. A pipe of text is read whole into memory.
    options : how to read it.
    name : the table's name; by default the file's name without its endings.
    """
    path = Path(path)
    options = options or ReadOptions()
    name = table_name(path) if name is None else name
    try:
        found, is_folder, is_delta = path.exists(), path.is_dir(), is_delta_table(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if not found:
        raise UsageError(f"{path} does not exist")
    if is_delta:
        return encode_arrow(read_delta(path, options.version, options.limit), name, str(path), options)
    if options.version is not None:
        raise UsageError(f"{path} is no Delta table, so it has no version {options.version}")
    if is_folder:
        if not parquet_files(path):
            raise UsageError(f"{path} is a folder, and neither a Delta table nor one of Parquet files: name a file")
        table = _parquet(path, options, name)
        return replace(table, warnings=(*table.warnings, *_partition_warnings(path)))
    if is_pipe(path) and (path.suffix.lower() in PARQUET or is_arrow_file(path)):
        raise UsageError(f"{path} is a pipe: Parquet and Arrow are read from files, only delimited text from pipes")
    if path.suffix.lower() in PARQUET:
        return _parquet(path, options, name)
    if is_arrow_file(path):
        return encode_arrow(_arrow_file(path, options), name, str(path), options)
    return _delimited(path, options, name)


def is_arrow_file(path: Path) -> bool:
    """Whether a file is an Arrow file, by its name."""
    return path.suffix.lower() in _ARROW


def text_size(path: Path) -> int:
    """Return the bytes of a file of delimited text; 0 for other files and pipes."""
    try:
        is_text = path.is_file() and path.suffix.lower() not in PARQUET and not is_arrow_file(path)
        return path.stat().st_size if is_text else 0
    except OSError:  # `read_table` says what is wrong
        return 0


def table_name(path: Path) -> str:
    """Return the name of a table by its file.

    >>> table_name(Path("data/tax.2024.csv.gz")), table_name(Path("tables/airport"))
    ('tax.2024', 'airport')
    """
    if path.suffix.lower() in _COMPRESSIONS:
        path = path.with_suffix("")
    return path.stem if path.suffix else path.name


def table_names(paths: Sequence[Path]) -> list[str]:
    """Return the names of tables by their files, or raise `UsageError` for two files of one name."""
    names = [table_name(path) for path in paths]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise UsageError(
                f"{paths[names.index(name)]} and {paths[i]} are both of table '{name}': name files of different tables"
            )
    return names


def _delimited(path: Path, options: ReadOptions, name: str) -> Table:
    file = DelimitedFile(path, options)
    columns, arrays, rows = file.columns(Selection(str(path), file.header.names, options))
    table = encoded(name, columns, arrays, rows, warnings=file.warnings(), locate=file.locate)
    if rows >= _MANY_ROWS:
        pa.default_memory_pool().release_unused()
    return table


def _parquet(path: Path, options: ReadOptions, name: str) -> Table:
    def rows(dataset: Any, columns: list[str]) -> pa.Table:
        if options.limit is None or options.limit > _MOST_AT_HEAD:
            return dataset.to_table(columns=columns).slice(0, options.limit)
        return dataset.head(options.limit, columns=columns)

    return parquet_rows(path, options, name, rows)


def parquet_rows(path: Path, options: ReadOptions, name: str, rows: Callable[[Any, list[str]], pa.Table]) -> Table:
    """Return the rows that a function takes from the dataset of a file or a folder, given the chosen columns."""
    try:
        dataset = parquet_dataset(path)
        names = dataset.schema.names
        data = rows(dataset, Selection(str(path), names, options).chosen(names))
        for column in data.columns:
            if pa.types.is_decimal(column.type):
                column.validate(full=True)  # a damaged file could have decimals beyond their digits
    except (pa.ArrowException, OSError, UnicodeError) as error:  # the last one of a column's name
        raise InputError(f"{path} cannot be read as Parquet: {error}") from error
    return encode_arrow(data, name, str(path), options, names)


def parquet_dataset(path: Path) -> Any:
    """Return a file or a folder of files as a dataset; columns that a file lacks are null there.

    Times as Spark writes them (INT96) come in nanoseconds; where they reach beyond what 64 bits of those hold,
    as 9999-12-31 does, Arrow would wrap them around, so they come in microseconds instead.
    """
    import pyarrow.dataset as ds

    files = sorted(map(str, parquet_files(path))) if path.is_dir() else [str(path)]
    data = ds.dataset(files, format="parquet")
    if len(files) > 1:
        schemas = [fragment.physical_schema for fragment in data.get_fragments()]
        data = ds.dataset(files, format="parquet", schema=pa.unify_schemas(schemas, promote_options="permissive"))
    old_times = {
        column.path
        for fragment in data.get_fragments()
        for column in fragment.metadata.schema
        if column.physical_type == "INT96" and column.path in data.schema.names
    }
    if not old_times:
        return data
    old_fields = {name: pa.timestamp("us") for name in old_times}
    schema = pa.schema([field.with_type(old_fields.get(field.name, field.type)) for field in data.schema])
    micros = ds.dataset(files, format=ds.ParquetFileFormat(coerce_int96_timestamp_unit="us"), schema=schema)
    fits = [_in_nanoseconds(column) for column in micros.to_table(columns=sorted(old_times)).columns]
    return data if all(fits) else micros


def _in_nanoseconds(times: pa.ChunkedArray) -> bool:
    try:
        times.cast(pa.timestamp("ns"))
    except pa.ArrowInvalid:
        return False
    return True


def _partition_warnings(folder: Path) -> list[str]:
    """Return a warning about columns that are written in the names of folders, as in `year=2024/1.parquet`."""
    parts = {part for file in parquet_files(folder) for part in file.relative_to(folder).parts[:-1]}
    names = sorted({part.partition("=")[0] for part in parts if "=" in part})
    if not names:
        return []
    return [f"{folder}: left out {', '.join(names)}: columns in the names of folders are read of Delta tables only"]


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files in a folder and below it, without those that engines hide."""
    return [
        file
        for file in folder.rglob("*.parquet")
        if not any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)
    ]


def _arrow_file(path: Path, options: ReadOptions) -> pa.Table:
    from pyarrow import feather

    try:
        data = feather.read_table(path)
        data.validate(full=True)  # a damaged one could make Arrow read beyond its buffers
    except (pa.ArrowException, OSError, UnicodeError) as error:  # the last one of a name
        raise InputError(f"{path} cannot be read as an Arrow file: {error}") from error
    return data if options.limit is None else data.slice(0, options.limit)
