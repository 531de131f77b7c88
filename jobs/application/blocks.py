"""The blocks of a state: the files with the rows of its tables with `engine: spark`.

    <blocks.path>/<state id>/<table>/<block>
                             /=values/<file of values that inclusions need>

Invariant: a folder belongs to one state, and only the process that holds the state removes files from it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.constraints import ColumnRef, ExternalError, StateRefused, UsageError
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.manifest import stored_names
from holdfast.discovery.blocks.storage.reading import read_blocks
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.discovery.blocks.values.parts import ValueFiles, ValueParts
from holdfast.discovery.inclusion.clusters import Clusters
from holdfast.display.secrets import masked
from holdfast.jobs.application.folders import folder_name
from holdfast.jobs.application.state_rows import FirstRows, ReadAs, RowsOfProcess
from holdfast.jobs.configuration.quantities import is_remote
from holdfast.jobs.configuration.settings import BlocksSettings, Settings
from holdfast.jobs.files.changes import column_names
from holdfast.state.places import Folder, Place, StoreError, object_place
from holdfast.state.store import Reader
from holdfast.streaming.commits.table_records import tables_of
from holdfast.streaming.maintainers.holdings.contract import Restore
from holdfast.streaming.maintainers.holdings.in_blocks import BlockPlace, WholeInBlocks
from holdfast.streaming.maintainers.inclusion.held_values import files_in_use
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.table.stored_definition import table_prefix, versions_prefix
from holdfast.tables import ReadOptions, Table
from holdfast.tables.delta import is_delta_table
from holdfast.tables.reading import PARQUET

_VALUES = "=values"
"""The folder of values, which is not the name of a table's folder."""

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from holdfast.streaming.spark.executors import SparkExecutors


@dataclass(frozen=True)
class StateBlocks:
    """The blocks of one state, written by executors. This process holds only the residents (`residents.py`).

    Parameters
    ----------
    settings : the configuration, with the address and the size of blocks.
    state_id : the id of the state.
    session : starts Spark.
    """

    settings: Settings
    state_id: str
    session: Callable[[], "SparkSession"]
    _followed: dict[str, tuple[BlockTable, Collection[ColumnRef]]] = field(default_factory=dict, init=False)

    @property
    def rows(self) -> int:
        """The number of rows in a block."""
        return (self.settings.blocks or BlocksSettings()).rows

    @cached_property
    def executors(self) -> "SparkExecutors":
        """The executors that run tasks on blocks."""
        from holdfast.streaming.spark.executors import SparkExecutors
        from holdfast.streaming.spark.session import is_local

        spark, given = self.session(), self.settings.blocks
        master = str(spark.sparkContext.master)
        if (given is None or given.path is None) and not is_local(master):
            raise UsageError(
                f"executors of {master} have to reach the blocks of rows: add 'blocks: {{path: ...}}' to the "
                "configuration, with a folder that this machine shares with all of them, or an address of an object "
                "store"
            )
        return SparkExecutors(spark)

    @property
    def is_on_this_machine(self) -> bool:
        """Whether all executors run on this machine, so that they can read its files."""
        from holdfast.streaming.spark.session import is_local

        return is_local(str(self.executors.spark.sparkContext.master))

    def storage(self, table: str) -> Storage:
        """Return the storage of a table's blocks."""
        return Storage.at(f"{self.address}/{_folder_of(table)}", self.settings.storage_options)

    def restore(self, table: str) -> Restore:
        """Return the function that restores the stored rows of a table."""
        return BlockPlace(self.executors, self.storage(table)).restored

    @property
    def noted(self) -> dict[str, Any]:
        """The fields of each table's record that tell where its rows are."""
        return {"engine": "spark", "blocks": self.address}

    def file(self, place: str, options: ReadOptions, read_as: ReadAs) -> FirstRows:
        """Read a file, or a Delta table."""
        if not is_remote(place):
            path = Path(place)
            if is_delta_table(path):
                return self._frame(place, options.version, column_names(path, options), read_as)
            return self._read(path, options, read_as)
        if PurePosixPath(place).suffix.lower() not in {"", *PARQUET} and self.is_on_this_machine:
            from holdfast.streaming.spark.places import fetched

            with fetched(self.executors.spark, place) as path:
                return self._read(path, options, read_as, lambda row: f"{place}, row {row + 1}")
        return self._frame(place, options.version, None, read_as)

    def snapshot(self, opened: "DeltaTable", place: str, limit: int | None, read_as: ReadAs) -> FirstRows:
        """Read a version of a Delta table."""

        def limited(known: tuple[str, ...]) -> ReadOptions:
            return replace(read_as.chosen(known), limit=limit)

        return self._frame(place, opened.version(), None, replace(read_as, chosen=limited))

    def nothing(self, table: Table) -> WholeInBlocks:
        """Return a table without rows."""
        source = Source(self.storage(table.schema.table), table.schema, self.rows)
        return WholeInBlocks(BlockTable(source, [], self.executors))

    def _read(
        self, path: Path, options: ReadOptions, read_as: ReadAs, where: Callable[[int], str] | None = None
    ) -> FirstRows:
        known, name = column_names(path, options), read_as.name
        storage, chosen = self.storage(name), read_as.chosen(known)
        read = read_blocks(path, chosen, storage, self.rows, self.executors, read_as.report, name)
        return FirstRows(WholeInBlocks(read.table, where or read.locate), known, read.warnings)

    def _frame(self, place: str, version: int | None, known: tuple[str, ...] | None, read_as: ReadAs) -> FirstRows:
        from holdfast.streaming.spark.frames import blocks_of_frame, frame_at, only_columns, place_in_frame

        frame, name = frame_at(self.executors.spark, place, version), read_as.name
        known = known or tuple(frame.columns)
        options = read_as.chosen(known)
        wanted = known if options.include is None else [column for column in known if column in options.include]
        read = only_columns(frame, wanted)
        table, warnings = blocks_of_frame(read, name, options, self.storage(name), self.rows, read_as.report)
        return FirstRows(WholeInBlocks(table, partial(place_in_frame, place)), known, warnings)

    @property
    def values(self) -> ValueFiles:
        """The files with the values of inclusions."""
        return ValueFiles(self.executors, Storage.at(f"{self.address}/{_VALUES}", self.settings.storage_options))

    def follow(self, table: BlockTable, columns: Collection[ColumnRef]) -> None:
        """Include the values of some columns of a table in the files that `clustered` writes."""
        self._followed[table.schema.table] = table, columns

    def clustered(self) -> tuple[Clusters, ValueParts]:
        """Write the values of inclusions into files, and return their clusters."""
        tables = {name: table for name, (table, _) in self._followed.items()}
        only = {ref for _, columns in self._followed.values() for ref in columns}
        return ValueParts.seed(tables, self.values, only=only)

    def begin(self) -> None:
        """Create the folder for a state that is seeded; remove the files of an interrupted seed."""
        with _reached(self.address):
            place = _place(self.settings, self.address)
            place.clear()
            place.prepare()

    def refuse_missing(self, store: Reader) -> None:
        """Raise where a file is missing that the state names. One listing per table."""
        named = _named(store)
        with _reached(self.address):
            place = _place(self.settings, self.address)
            missing = [f"{folder}/{name}" for folder in named for name in named[folder] - set(place.at(folder).names())]
        if missing:
            raise StateRefused(
                f"files with rows that the state names are not in {masked(self.address)}: {len(missing):,}, the first "
                f"is {min(missing)}. Bring them back, or correct 'blocks.path'. Where they are lost, seed anew: "
                "holdfast seed --replace"
            )

    def sweep(self, store: Reader, restored: Iterable[Maintainer] = ()) -> None:
        """Remove files that the state does not name: of uncommitted batches, and of blocks that were replaced.

        Files that restored tables have written since, to count new rules, are kept: the next commit names them.
        """
        named = _named(store)
        made = set(chain.from_iterable(maintainer.files for maintainer in restored))
        with _reached(self.address):
            place = _place(self.settings, self.address)
            for folder in place.names():
                if folder in named:
                    place.at(folder).remove(set(place.at(folder).names()) - named[folder] - made)
                else:
                    place.at(folder).clear()

    @property
    def address(self) -> str:
        """The folder or address of the blocks."""
        return address_of(self.settings, self.state_id)


StateRows: TypeAlias = RowsOfProcess | StateBlocks
"""The place of the rows of a state's tables; both classes have the same methods."""


def rows_of(settings: Settings, state_id: str, session: Callable[[], "SparkSession"]) -> StateRows:
    """Return the place of a state's rows: blocks, or this process."""
    return StateBlocks(settings, state_id, session) if settings.engine == "spark" else RowsOfProcess(session)


def address_of(settings: Settings, state_id: str) -> str:
    """Return the folder or address of a state's blocks."""
    return f"{settings.blocks_place}/{state_id}"


def clear_blocks(settings: Settings, addresses: Iterable[str]) -> None:
    """Remove the blocks of states that were removed."""
    for address in addresses:
        with _reached(address):
            _place(settings, address).clear()


def _named(store: Reader) -> dict[str, set[str]]:
    """Return the names of a state's files by folder."""
    found = {
        _folder_of(record.name): stored_names(store, table_prefix(number))
        | stored_names(store, versions_prefix(number))
        for number, record in tables_of(store)
    }
    return {**found, _VALUES: set(files_in_use(store))}


def _folder_of(table: str) -> str:
    return folder_name(table).replace("%", "=")  # '=' needs no quotes in addresses


def _place(settings: Settings, address: str) -> Place:
    return object_place(address, settings.storage_options) if is_remote(address) else Folder(Path(address))


@contextmanager
def _reached(address: str) -> Iterator[None]:
    """Raise `ExternalError` with the operator's action where a folder or an object store fails."""
    try:
        yield
    except StoreError as error:
        raise ExternalError(
            f"blocks: {masked(address)} cannot be used: {error}. Correct 'blocks.path', or 'storage_options', and "
            "start again"
        ) from error
    except OSError as error:
        raise ExternalError(
            f"blocks: {address} cannot be used ({error.strerror or error}): name another folder in 'blocks.path', or "
            "see who may write there, and start again"
        ) from error
