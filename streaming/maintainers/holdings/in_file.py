"""The rows of a large text file, read in parts straight into the maintained rows.

A search for constraints needs the whole table in memory. Without a search, only the maintained rows are in memory.
"""

from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.constraints import ColumnRef, Family, PredicateSpace
from holdfast.discovery.inclusion.seeding import ColumnValues
from holdfast.discovery.seed import Seed
from holdfast.streaming.maintainers.holdings.contract import (
    Bounded,
    CrossColumns,
    KeepBlocks,
    Report,
    RowsDefinition,
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
) -> WholeInMemory:
    """Return the rows of a file: large text is read in parts if no family is searched, everything else into memory.

    Parameters
    ----------
    bounds : the families that are searched.
    large : the least bytes of a file that is read in parts; by default 128 MB.
    """
    options = options or ReadOptions()
    if not bounds.families and options.limit is None and text_size(path) >= max(1, _LARGE if large is None else large):
        rows = FileRows.of(path, options, name)
        if len(rows.schema):
            return WholeInFile(rows)
    return WholeInMemory(read_table(path, options, name))


class WholeInFile(WholeInMemory):
    """All rows of a text file.

    Parameters
    ----------
    rows : reads the file.
    """

    def __init__(self, rows: FileRows) -> None:
        super().__init__(rows.table)
        self.rows = rows
        self._filled: RowSet | None = None

    @cached_property
    def whole(self) -> Table:
        """The table with all rows, read for methods that are rarely called on a large file."""
        return read_table(self.rows.part.path, self.rows.part.options, self.schema.table)

    def space(self, cross_columns: CrossColumns) -> PredicateSpace:
        """Return the predicate space of the table; the rows are read where crossing pairs are measured."""
        return space_of(self.whole if cross_columns in ("auto", "related") else self.table, cross_columns)

    def values(self, columns: Collection[ColumnRef], keep: KeepBlocks) -> list[ColumnValues]:
        """Return the values of the given columns, of the maintained rows if they are read already."""
        if self._filled is None:
            return super().values(columns, keep)
        return values_of_rows(self._filled, columns)

    def refuse_key_twice(self, key: tuple[int, ...]) -> None:
        """Do nothing: `seed` and `held` refuse such rows when all rows are read, without another pass."""

    def seed(
        self, definition: RowsDefinition, families: Bounded, report: Report
    ) -> tuple[RowsInMemory, dict[Family, Seed]]:
        """Return a holding of the rows; if families are searched, the whole table is read into memory first."""
        if families:
            super().refuse_key_twice(tuple(map(self.schema.index, definition.key)))
            return super().seed(definition, families, report)
        report("taking rows over")
        return self.held(definition), {}

    def held(self, definition: RowsDefinition) -> RowsInMemory:
        """Return a holding of the rows without a search for constraints."""
        for attempt in self.rows.attempts():
            self._filled = None  # frees the rows of a failed attempt
            filled = self._filled = definition.empty()
            filled.fill_from(attempt, self.rows.row_count)
            release_freed()
        if definition.key and not filled.key_is_unique():
            super().refuse_key_twice(filled.key)
            raise changed_meanwhile(self.rows.part.path)
        return RowsInMemory(filled, definition.threads)
