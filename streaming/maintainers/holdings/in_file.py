"""The rows of a large text file, taken over in parts: in memory are no rows but those that are maintained.

A search for constraints needs the table whole. Where there is none, rows go from the file to where they are maintained.
"""

from collections.abc import Callable, Collection
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.constraints import ColumnRef, Family, PredicateSpace, Schema
from holdfast.discovery.inclusion.seeding import ColumnValues
from holdfast.discovery.seed import Seed
from holdfast.streaming.maintainers.holdings.contract import (
    Bounded,
    CrossColumns,
    KeepBlocks,
    Report,
    RowsDefinition,
    WholeTable,
)
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory, WholeInMemory
from holdfast.streaming.maintainers.inclusion.column_values import values_of_rows
from holdfast.streaming.maintainers.table.bounds import Bounds
from holdfast.tables import ReadOptions, Table, read_table, space_of
from holdfast.tables.file_rows import FileRows, changed_meanwhile
from holdfast.tables.memory import release_freed
from holdfast.tables.reading import text_size

if TYPE_CHECKING:
    from holdfast.indexes.rows import RowSet

_LARGE = 1 << 27


def whole_of_file(
    path: Path, bounds: Bounds, options: ReadOptions | None = None, name: str | None = None, large: int | None = None
) -> "WholeInMemory | WholeInFile":
    """Return the rows of a file: of large text in parts where no family searches them, else read into memory.

    Parameters
    ----------
    bounds : of what is searched for.
    large : how many bytes a file has at least that is read in parts; 128 MB where it is not given.
    """
    options = options or ReadOptions()
    if not bounds.families and options.limit is None and text_size(path) >= max(1, _LARGE if large is None else large):
        rows = FileRows.of(path, options, name)
        if len(rows.schema):
            return WholeInFile(rows)
    return WholeInMemory(read_table(path, options, name))


class WholeInFile(WholeTable):
    """All rows of a text file.

    Parameters
    ----------
    rows : reads them.
    """

    def __init__(self, rows: FileRows) -> None:
        self.rows = rows
        self._filled: RowSet | None = None

    @property
    def schema(self) -> Schema:
        """The table's name and columns."""
        return self.rows.schema

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader found odd."""
        return self.rows.table.warnings

    def space(self, cross_columns: CrossColumns) -> PredicateSpace:
        """Return the predicate space of the table; with "auto", crossing pairs are measured on the rows."""
        if cross_columns == "auto":
            return self._in_memory.space(cross_columns)
        return space_of(self.rows.table, cross_columns)

    def locate(self, row: int) -> str:
        """Return where the row of a number came from."""
        return self.rows.table.locate(row)

    def values(self, columns: Collection[ColumnRef], keep: KeepBlocks) -> list[ColumnValues]:
        """Return the values of some columns: of the rows that are maintained, where they are."""
        if self._filled is None:
            return self._in_memory.values(columns, keep)
        return values_of_rows(self._filled, columns)

    def first_null(self, column: str) -> int | None:
        """Return the number of the first row with a null in a column."""
        return self._in_memory.first_null(column)

    def nothing(self, schema: Schema) -> WholeInMemory:
        """Return a table of other columns without rows."""
        return WholeInMemory(self.rows.table).nothing(schema)

    def made_anew(self, schema: Schema, make: Callable[[Table], Table]) -> WholeInMemory:
        """Return the rows in other columns, as `make` says."""
        return self._in_memory.made_anew(schema, make)

    replaced_by = made_anew

    def refuse_key_twice(self, key: tuple[int, ...]) -> None:
        """Do nothing: `seed` and `held` refuse such rows once all of them are there, without another pass."""

    def seed(
        self, definition: RowsDefinition, families: Bounded, report: Report
    ) -> tuple[RowsInMemory, dict[Family, Seed]]:
        """Take the rows over; where families are to be searched for, the table is read whole."""
        if families:
            self._in_memory.refuse_key_twice(tuple(map(self.schema.index, definition.key)))
            return self._in_memory.seed(definition, families, report)
        report("taking rows over")
        return self.held(definition), {}

    def held(self, definition: RowsDefinition) -> RowsInMemory:
        """Take the rows over without a search, to be looked up by their key."""
        for attempt in self.rows.attempts():
            self._filled = None  # rows of an attempt that failed go first
            filled = self._filled = definition.empty()
            filled.fill_from(attempt, self.rows.row_count)
            release_freed()
        if definition.key and not filled.key_is_unique():
            self._in_memory.refuse_key_twice(filled.key)
            raise changed_meanwhile(self.rows.part.path)
        return RowsInMemory(filled, definition.threads)

    @cached_property
    def _in_memory(self) -> WholeInMemory:
        """The table read whole, for questions that are rarely asked of a large file."""
        return WholeInMemory(read_table(self.rows.part.path, self.rows.part.options, self.schema.table))
