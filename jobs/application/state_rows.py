"""Where the rows of a state's tables are, as its configuration says: read, restored and swept there.

One class for each place: `RowsOfProcess` here, `StateBlocks` in `blocks.py`. No command asks which one it has.
"""

from abc import ABC, abstractmethod
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
    name : of the table.
    chosen : returns how the columns of a place are read, by the names of these.
    report : is told what is being done.
    bounds : what is searched for on the rows; None where they are wanted as a table in any case.
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
    rows : the monitored columns.
    known : all columns that the seed or the source has.
    warnings : what was odd about them.
    sequence : what orders the records of one key.
    versions : the versions of their keys, where records have a sequence.
    source : where the source begins.
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


class StateRows(ABC):
    """Where the rows of a state's tables are.

    Attributes
    ----------
    noted : what is noted of each table about that.
    values : where the values of inclusions are in files; None where the store has them.
    clustered : writes the values that are followed into files, and clusters them; None where there are no files.
    """

    noted: Mapping[str, Any] = {}
    values: ValueFiles | None = None
    clustered: Callable[[], tuple[Clusters, ValueParts]] | None = None

    # First rows

    @abstractmethod
    def file(self, place: str, options: ReadOptions, read_as: ReadAs) -> FirstRows:
        """Read a file, or a Delta table."""

    @abstractmethod
    def snapshot(self, opened: "DeltaTable", place: str, limit: int | None, read_as: ReadAs) -> FirstRows:
        """Read a version of a Delta table."""

    @abstractmethod
    def nothing(self, table: Table) -> WholeTable:
        """Return a table without rows."""

    @abstractmethod
    def restore(self, table: str) -> Restore:
        """Return what takes the stored rows of a table over."""

    def follow(self, table: BlockTable, columns: Collection[ColumnRef]) -> None:
        """Let `clustered` read the values of some columns of a table in blocks."""
        raise AssertionError(f"{table.schema.table} is in blocks: {columns}")

    # What blocks need, and the rows in a store do not

    def begin(self) -> None:  # noqa: B027
        """Make room for a state that is seeded: what an interrupted seed left goes."""

    def refuse_missing(self, store: Reader) -> None:  # noqa: B027
        """Raise where rows are gone that the state names."""

    def sweep(self, store: Reader, restored: Iterable[Maintainer] = ()) -> None:  # noqa: B027
        """Remove files that neither the state nor a restored table names."""


class RowsOfProcess(StateRows):
    """Rows that this process holds in memory, and the store beside everything else.

    Parameters
    ----------
    session : starts Spark, where a file is somewhere else.
    """

    def __init__(self, session: Callable[[], "SparkSession"]) -> None:
        self._session = session

    def file(self, place: str, options: ReadOptions, read_as: ReadAs) -> FirstRows:
        """Read a file, or a Delta table."""
        if is_remote(place):
            from holdfast.streaming.spark.places import fetched

            with fetched(self._session(), place) as path:  # which is gone afterwards
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

    def restore(self, table: str) -> Restore:  # noqa: ARG002 (all in one store)
        """Return what takes the stored rows of a table over."""
        return RowsInMemory.restored


def _read(path: Path, options: ReadOptions, read_as: ReadAs) -> FirstRows:
    with pipes_kept():
        known = column_names(path, options)
        chosen = read_as.chosen(known)
        if read_as.bounds is not None:
            rows = whole_of_file(path, read_as.bounds, chosen, read_as.name)
            return FirstRows(rows, known, rows.warnings)
        table = read_table(path, chosen, read_as.name)
    return FirstRows(WholeInMemory(table), known, table.warnings)
