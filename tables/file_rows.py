"""The rows of a delimited file as typed tables of bounded size, so that a large file is never in memory as a whole.

Types are known after all texts were read, so a file is read twice: the first pass finds the types and counts the rows,
the second pass yields the rows.

Invariant: the columns, their types, the rows and their order are those of `read_table`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from holdfast.constraints import Column, InputError, Schema
from holdfast.constraints.types import STRING
from holdfast.tables.columnar import Table, encoded
from holdfast.tables.inference import Fitting, fitting, inferred, missing_warnings, typed
from holdfast.tables.keys import arrow_type_of
from holdfast.tables.options import ReadOptions
from holdfast.tables.parts import Part, in_chunks, parts_of, place_in_text, read_texts

_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class FileRows:
    """The rows of a delimited file, at least one column of which is read.

    Parameters
    ----------
    table : its name, its columns with their types, and the warnings of its reader; without rows.
    part : the part of the file that is read.
    row_count : the number of rows.
    most : the number of rows of a table; the last table may have fewer.
    """

    table: Table
    part: Part
    row_count: int
    most: int

    @staticmethod
    def of(path: Path, options: ReadOptions, name: str | None = None, most: int = _ROWS_AT_ONCE) -> "FileRows":
        """Find the types of a file's columns, and count its rows. One pass over the file."""
        parts = parts_of(path, options, most, name)
        assert parts.declared is not None, f"{path} is no delimited text"
        (part,), given = parts.parts, parts.table.schema
        types = dict(zip(given.names, parts.declared, strict=True))
        unknown = [column for column, kind in types.items() if kind is None]
        read = unknown or given.names[:1]  # rows are counted in any case
        found, row_count = _fits(replace(part, options=replace(options, include=read, exclude=())), most)
        by_look = options.nulls_by_look
        found_types = {c: inferred([fits[at] for fits in found], nulls_by_look=by_look) for at, c in enumerate(unknown)}
        types |= {name: one.type for name, one in found_types.items()}
        columns = [
            Column(c.name, types[c.name] or STRING, c.ordered, assumed=types[c.name] is None) for c in given.columns
        ]
        arrays = {c.name: pa.chunked_array([], arrow_type_of(c.type)) for c in columns}
        odd, locate = list(parts.table.warnings), parts.locate
        for column in columns:
            if column.name in found_types and not by_look:
                odd += missing_warnings(path, column, found_types[column.name])
        return FileRows(encoded(given.table, columns, arrays, 0, warnings=odd, locate=locate), part, row_count, most)

    @property
    def schema(self) -> Schema:
        """The table's name and columns."""
        return self.table.schema

    def attempts(self) -> Iterator[Iterator[Table]]:
        """Yield attempts to read all rows; rows of all attempts but the last have to be discarded."""
        read = 0

        def tables(attempt: Iterator[pa.Table]) -> Iterator[Table]:
            nonlocal read
            read = 0
            for texts in in_chunks(attempt, self.most):
                yield self._typed(texts, read)
                read += len(texts)

        for attempt in read_texts(self.part):
            yield tables(attempt)
        if read != self.row_count:
            raise changed_meanwhile(self.part.path, f": it had {self.row_count:,} rows, then {read:,}")

    def _typed(self, texts: pa.Table, first: int) -> Table:
        """Return typed rows from texts; `first` is the number of the first row."""

        def locate(row: int) -> str:
            return place_in_text(self.part, first + row)

        arrays = {}
        by_look = self.part.options.nulls_by_look
        for column, given in zip(self.schema.columns, texts.columns, strict=True):
            _, arrays[column.name] = typed(
                given, column.name, column.type, locate, ordered=column.ordered, nulls_by_look=by_look
            )
        return encoded(self.schema.table, self.schema.columns, arrays, len(texts), locate=locate)


def changed_meanwhile(path: Path, how: str = "") -> InputError:
    """Return the error for a file that changed between two passes."""
    return InputError(f"{path} changed while it was read{how}. Read a copy, or wait until nobody writes to it")


def _fits(part: Part, most: int) -> tuple[Sequence[Sequence[Fitting]], int]:
    """Return the types that the texts of each column fit, some rows at a time, and the number of rows."""
    found: list[list[Fitting]] = []
    row_count = 0
    for attempt in read_texts(part):
        found, row_count = [], 0
        for texts in in_chunks(attempt, most):
            found.append([fitting(column) for column in texts.columns])
            row_count += len(texts)
    return found, row_count
