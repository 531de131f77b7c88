"""Large files in parts that are read separately: row groups of Parquet, and streams of text.

The columns and types of a file are read once; its rows are read where they are needed. The types of delimited text are
known after all rows were read, so its rows are texts, and `inference` determines the types.

Invariant: the parts of a file have every row of `read_table` once, with the same number.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.constraints import ColumnType, InputError, UsageError
from holdfast.constraints.types import STRING
from holdfast.tables.columnar import Table
from holdfast.tables.delimited import DelimitedFile
from holdfast.tables.delta import is_delta_table
from holdfast.tables.options import ReadOptions
from holdfast.tables.reading import (
    PARQUET,
    is_arrow_file,
    parquet_dataset,
    parquet_files,
    parquet_rows,
    read_table,
    table_name,
)
from holdfast.tables.selection import Selection


@dataclass(frozen=True)
class Part:
    """Some rows of a file.

    Parameters
    ----------
    path, options : the file, and how to read it.
    first : the number of the first row, from 0.
    rows : the number of rows; None for all rows.
    fragment, groups : for Parquet, the file of a folder, and its row groups.
    """

    path: Path
    options: ReadOptions
    first: int = 0
    rows: int | None = None
    fragment: int = 0
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class Parts:
    """A file that is read in parts.

    Parameters
    ----------
    table : its name, columns and the warnings of its reader; without rows.
    parts : the parts.
    declared : for delimited text, the type of each column, None where it is to be inferred; else None.
    """

    table: Table
    parts: tuple[Part, ...]
    declared: tuple[ColumnType | None, ...] | None = None

    def locate(self, row: int) -> str:
        """Return where a row is in the file. Reads a text up to the row."""
        part = self.parts[0]
        return f"{part.path}, row {row + 1}" if self.declared is None else place_in_text(part, row)


def parts_of(path: Path, options: ReadOptions, most: int, name: str | None = None) -> Parts:
    """Return a file in parts of about `most` rows, where it can be cut."""
    if is_delta_table(path):
        raise UsageError(f"{path} is a Delta table: it has no parts of its own")
    table = read_table(path, replace(options, limit=0), name)
    if path.is_dir() or path.suffix.lower() in PARQUET:
        return Parts(table, tuple(_row_groups(path, options, most)))
    if is_arrow_file(path):
        return Parts(table, (Part(path, options),))
    file = DelimitedFile(path, options)
    selection = Selection(str(path), file.header.names, options)
    declared = dict(zip(file.header.names, file.header.types, strict=True)) | dict(options.types)
    types = tuple(STRING if selection.as_string(name) else declared.get(name) for name in table.schema.names)
    return Parts(table, (Part(path, options),), types)


def read_typed(part: Part) -> Table:
    """Read a part of a file whose columns have types."""
    if is_arrow_file(part.path):
        return read_table(part.path, part.options)

    def rows(dataset: Any, columns: list[str]) -> pa.Table:
        fragment = list(dataset.get_fragments())[part.fragment].subset(row_group_ids=list(part.groups))
        return fragment.to_table(schema=dataset.schema, columns=columns).slice(0, part.rows)

    return parquet_rows(part.path, part.options, table_name(part.path), rows)


def read_texts(part: Part) -> Iterator[Iterator[pa.Table]]:
    """Yield attempts to read the texts of a delimited file; rows of all but the last are to be discarded."""
    file = DelimitedFile(part.path, part.options)
    return file.streamed(Selection(str(part.path), file.header.names, part.options))


def in_chunks(tables: Iterable[pa.Table], most: int) -> Iterator[pa.Table]:
    """Yield the rows of tables in chunks of `most` rows; the last one may have fewer."""
    waiting: list[pa.Table] = []
    count = 0
    for some in tables:
        waiting.append(some)
        count += len(some)
        while count >= most:
            together = pa.concat_tables(waiting)
            yield together.slice(0, most)
            waiting, count = [together.slice(most)], count - most
    if count:
        yield pa.concat_tables(waiting)


def place_in_text(part: Part, row: int) -> str:
    """Return the line of a row of a delimited file. Reads the file up to the row."""
    return DelimitedFile(part.path, part.options).locate(row)


def _row_groups(path: Path, options: ReadOptions, most: int) -> Iterator[Part]:
    """Yield parts of row groups, small row groups together."""
    first, left = 0, options.limit
    try:
        fragments = list(parquet_dataset(path).get_fragments()) if path.is_file() or parquet_files(path) else []
        for number, fragment in enumerate(fragments):
            groups: list[int] = []
            rows = 0
            for group in fragment.row_groups:
                groups.append(group.id)
                rows += group.num_rows
                if rows >= most or group.id == fragment.row_groups[-1].id:
                    wanted = rows if left is None else min(rows, left)
                    if wanted:
                        yield Part(path, options, first, wanted, number, tuple(groups))
                    first, left = first + rows, None if left is None else left - wanted
                    groups, rows = [], 0
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from error
