"""The place of the rows of a state's tables: where first rows are read to, and stored rows restored from.

There is a class for each place: `RowsOfProcess` here, `StateBlocks` in `blocks.py`, with the same methods; commands
work with either (`StateRows`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.constraints import Column, ColumnRef, Schema
from holdfast.discovery.blocks.storage.table import BlockTable
from holdfast.discovery.blocks.values.parts import ValueFiles, ValueParts
from holdfast.discovery.inclusion.clusters import Clusters
from holdfast.jobs.configuration.quantities import is_remote
from holdfast.jobs.files.changes import column_names
from holdfast.state.store import Reader
from holdfast.streaming.maintainers.holdings.contract import Restore, WholeTable
from holdfast.streaming.maintainers.holdings.in_file import whole_of_file
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory, WholeInMemory
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.table.bounds import Bounds
from holdfast.tables import ReadOptions, Table, from_arrow, read_table
from holdfast.tables.pipes import pipes_kept

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class ReadAs:
    """How first rows are read.

    Parameters
    ----------
    name : the name of the table.
    chosen : returns the options for reading, given the names of the columns that exist.
    report : called with a description of each step.
    bounds : the constraints that will be searched for; None where the rows are needed as a table in any case.
    """

    name: str
    chosen: Callable[[tuple[str, ...]], ReadOptions]
    report: Callable[[str], object] = lambda _: None
    bounds: Bounds | None = None


@dataclass(frozen=True)
class FirstRows:
    """A table's first rows.

    Parameters
    ----------
    rows : the rows, with the monitored columns.
    known : all columns of the seed or the source.
    warnings : the warnings of the reader.
    sequence : the column that orders the records of a key.
    versions : the sequences of all keys, where records have a sequence.
    source : the position where the source begins.
    """

    rows: WholeTable
    known: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    sequence: Column | None = None
    versions: WholeTable | None = None
    source: Mapping[str, Any] | None = None

    @property
    def schema(self) -> Schema:
        """The monitored columns."""
        return self.rows.schema


class RowsOfProcess:
    """Rows in the memory of this process, and in the store of the state.

    Parameters
    ----------
    session : starts Spark, where a file is at an address.

    Attributes
    ----------
    noted : the fields of each table's record that tell where its rows are.
    values : the files with the values of inclusions; None where the store has them.
    clustered : writes the values of inclusions into files, and returns their clusters; None where there are no files.
    """

    noted: Mapping[str, Any] = {}
    values: ValueFiles | None = None
    clustered: Callable[[], tuple[Clusters, ValueParts]] | None = None

    def __init__(self, session: Callable[[], "SparkSession"]) -> None:
        self._session = session

    def file(self, place: str, options: ReadOptions, read_as: ReadAs) -> FirstRows:
        """Read a file, or a Delta table."""
        if is_remote(place):
            from holdfast.streaming.spark.places import fetched

            with fetched(self._session(), place) as path:  # removed at the end of the block
                return _read(path, options, replace(read_as, bounds=None))
        return _read(Path(place), options, read_as)

    def snapshot(self, opened: "DeltaTable", place: str, limit: int | None, read_as: ReadAs) -> FirstRows:
        """Read a version of a Delta table."""
        from holdfast.tables.delta import read_opened

        data = read_opened(opened, place, limit)
        known = tuple(data.column_names)
        table = from_arrow(data, read_as.name, read_as.chosen(known))
        return FirstRows(WholeInMemory(table), known, table.warnings)

    def nothing(self, table: Table) -> WholeInMemory:
        """Return a table without rows."""
        return WholeInMemory(table)

    def restore(self, table: str) -> Restore:  # noqa: ARG002 (one store for all tables)
        """Return the function that restores the stored rows of a table."""
        return RowsInMemory.restored

    def follow(self, table: BlockTable, columns: Collection[ColumnRef]) -> None:
        """Refuse a table in blocks."""
        raise AssertionError(f"{table.schema.table} is in blocks: {columns}")

    def begin(self) -> None:
        """Do nothing: the store has the rows."""

    def refuse_missing(self, store: Reader) -> None:
        """Do nothing: the store has the rows."""

    def sweep(self, store: Reader, restored: Iterable[Maintainer] = ()) -> None:
        """Do nothing: the store has the rows."""


def _read(path: Path, options: ReadOptions, read_as: ReadAs) -> FirstRows:
    with pipes_kept():
        known = column_names(path, options)
        chosen = read_as.chosen(known)
        if read_as.bounds is not None:
            rows = whole_of_file(path, read_as.bounds, chosen, read_as.name)
            return FirstRows(rows, known, rows.warnings)
        table = read_table(path, chosen, read_as.name)
    return FirstRows(WholeInMemory(table), known, table.warnings)
