"""One door for every file format: a path and options in, an encoded table out."""

from pathlib import Path

import pyarrow as pa

from holdfast.constraints import InputError, UsageError
from holdfast.tables.columnar import Table, encoded
from holdfast.tables.delimited import DelimitedFile
from holdfast.tables.delta import is_delta_table, read_delta
from holdfast.tables.frames import encode_arrow
from holdfast.tables.options import ReadOptions
from holdfast.tables.selection import Selection

_COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4")


def read_table(path: str | Path, options: ReadOptions | None = None, name: str | None = None) -> Table:
    """Read a CSV file, a Parquet file or folder, an Arrow file or a Delta table.

    Parameters
    ----------
    path : Parquet by `.parquet` or `.pq`, Arrow by `.arrow` or `.feather`, Delta by its `_delta_log`; all else
        is delimited text, `.gz` and other compressions included.
    options : how to read it.
    name : the table's name; the file's without its endings where it is not given.
    """
    path = Path(path)
    options = options or ReadOptions()
    name = table_name(path) if name is None else name
    if not path.exists():
        raise UsageError(f"{path} does not exist")
    if path.is_dir() and is_delta_table(path):
        return encode_arrow(read_delta(path, options.version, options.limit), name, str(path), options)
    if options.version is not None:
        raise UsageError(f"{path} is no Delta table, so it has no version {options.version}")
    if path.is_dir():
        if not any(path.glob("**/*.parquet")):
            raise UsageError(f"{path} is a folder, and neither a Delta table nor one of Parquet files: name a file")
        return encode_arrow(_parquet(path, options), name, str(path), options)
    match path.suffix.lower():
        case ".parquet" | ".pq":
            return encode_arrow(_parquet(path, options), name, str(path), options)
        case ".arrow" | ".feather" | ".ipc":
            return encode_arrow(_arrow_file(path, options), name, str(path), options)
    return _delimited(path, options, name)


def table_name(path: Path) -> str:
    """Return a table's name from its file's.

    >>> table_name(Path("data/tax.2024.csv.gz")), table_name(Path("tables/airport"))
    ('tax.2024', 'airport')
    """
    if path.suffix.lower() in _COMPRESSIONS:
        path = path.with_suffix("")
    return path.stem if path.suffix else path.name


def _delimited(path: Path, options: ReadOptions, name: str) -> Table:
    file = DelimitedFile(path, options)
    columns, arrays, rows = file.columns(Selection(str(path), file.header.names, options))
    return encoded(name, columns, arrays, rows, warnings=file.warnings(), locate=file.locate)


def _parquet(path: Path, options: ReadOptions) -> pa.Table:
    import pyarrow.dataset as ds

    try:
        dataset = ds.dataset(path, format="parquet")
        selection = Selection(str(path), dataset.schema.names, options)
        columns = selection.chosen(dataset.schema.names)
        if options.limit is not None:
            return dataset.head(options.limit, columns=columns)
        return dataset.to_table(columns=columns)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from error


def _arrow_file(path: Path, options: ReadOptions) -> pa.Table:
    from pyarrow import feather

    try:
        data = feather.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} cannot be read as an Arrow file: {error}") from error
    return data if options.limit is None else data.slice(0, options.limit)
