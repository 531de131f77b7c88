"""The blocks of a state: where the rows of its tables are with `engine: spark`, who works on them, which are old.

    <blocks.path>/<state id>/<table>/<block>
                             /=values/<file of values that inclusions need>

Invariant: a folder belongs to one state, and only its process takes files out of it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.constraints import ColumnRef, ExternalError, StateRefused, UsageError
from holdfast.discovery.blocks.live import stored_names
from holdfast.discovery.blocks.storage import Storage
from holdfast.discovery.blocks.table import BlockTable
from holdfast.discovery.blocks.value_parts import ValueFiles, ValueParts
from holdfast.discovery.inclusion.clusters import Clusters
from holdfast.jobs.folders import folder_name
from holdfast.jobs.quantities import is_remote
from holdfast.jobs.secrets import masked
from holdfast.jobs.settings import BlocksSettings, Settings
from holdfast.state import codecs
from holdfast.state.places import Folder, Place, StoreError, object_place
from holdfast.state.store import Reader
from holdfast.streaming.maintainers.block_maintainer import BlockMaintainer, Spread
from holdfast.streaming.maintainers.held_values import files_in_use
from holdfast.streaming.maintainers.maintainer import Maintainer, versions_prefix
from holdfast.streaming.seeding import tables_of

_VALUES = "=values"
"""The folder of values: no table's folder is called so."""

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.streaming.spark.executors import SparkExecutors


@dataclass(frozen=True)
class StateBlocks:
    """The blocks of one state.

    Parameters
    ----------
    settings : say where blocks are, and how large.
    state_id : whose they are.
    session : starts Spark.
    """

    settings: Settings
    state_id: str
    session: Callable[[], "SparkSession"]
    _followed: dict[str, tuple[BlockTable, Collection[ColumnRef]]] = field(default_factory=dict, init=False)

    @property
    def rows(self) -> int:
        """The rows of a block."""
        return (self.settings.blocks or BlocksSettings()).rows

    @cached_property
    def executors(self) -> "SparkExecutors":
        """Where tasks run."""
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
        """Whether all executors are in this machine, so that they reach whatever is here."""
        from holdfast.streaming.spark.session import is_local

        return is_local(str(self.executors.spark.sparkContext.master))

    def storage(self, table: str) -> Storage:
        """Return where the blocks of a table are."""
        return Storage.at(f"{self.address}/{_folder_of(table)}", self.settings.storage_options)

    def spread(self, table: str) -> Spread:
        """Return where the blocks of a table are, and who works on them."""
        return Spread(self.executors, self.storage(table))

    @property
    def values(self) -> ValueFiles:
        """Where the values of inclusions are, and who works on them."""
        return ValueFiles(self.executors, Storage.at(f"{self.address}/{_VALUES}", self.settings.storage_options))

    def follow(self, table: BlockTable, columns: Collection[ColumnRef]) -> None:
        """Let the values of some columns of a table be followed, once `clustered` is asked for."""
        self._followed[table.schema.table] = table, columns

    def clustered(self) -> tuple[Clusters, ValueParts]:
        """Write the values that are followed into files, and return their clusters."""
        tables = {name: table for name, (table, _) in self._followed.items()}
        only = {ref for _, columns in self._followed.values() for ref in columns}
        return ValueParts.seed(tables, self.values, only=only)

    def begin(self) -> None:
        """Make the folder anew, for a state that is seeded: what an interrupted seed left goes."""
        with _reached(self.address):
            place = _place(self.settings, self.address)
            place.clear()
            place.prepare()

    def sweep(self, store: Reader, restored: Iterable[Maintainer] = ()) -> None:
        """Remove files that a state does not name: of batches that were not committed, of blocks that were replaced.

        Tables that were restored may have more by now: rules that are new were counted. It goes with the next commit.
        """
        named = _named(store)
        of_tables = chain.from_iterable(one.all_blocks for one in restored if isinstance(one, BlockMaintainer))
        made = set(chain.from_iterable(blocks.manifest.names for blocks in of_tables))
        with _reached(self.address):
            place = _place(self.settings, self.address)
            for folder in place.names():
                if folder in named:
                    place.at(folder).remove(set(place.at(folder).names()) - named[folder] - made)
                else:
                    place.at(folder).clear()

    @property
    def address(self) -> str:
        """Where they are."""
        return address_of(self.settings, self.state_id)


def blocks_of(settings: Settings, state_id: str, session: Callable[[], "SparkSession"]) -> StateBlocks | None:
    """Return the blocks of a state; None where this process holds its rows."""
    return StateBlocks(settings, state_id, session) if settings.engine == "spark" else None


def address_of(settings: Settings, state_id: str) -> str:
    """Return where the blocks of a state are."""
    return f"{settings.blocks_place}/{state_id}"


def refuse_missing(settings: Settings, address: str, store: Reader) -> None:
    """Raise where a file is gone that the state names. One listing a table."""
    named = _named(store)
    with _reached(address):
        place = _place(settings, address)
        missing = [f"{folder}/{name}" for folder in named for name in named[folder] - set(place.at(folder).names())]
    if missing:
        raise StateRefused(
            f"files with rows that the state names are not in {masked(address)}: {len(missing):,}, the first is "
            f"{min(missing)}. Bring them back, or correct 'blocks.path'. Where they are lost, seed anew: "
            "holdfast seed --replace"
        )


def clear_blocks(settings: Settings, addresses: Iterable[str]) -> None:
    """Remove the blocks of states that are gone."""
    for address in addresses:
        with _reached(address):
            _place(settings, address).clear()


def _named(store: Reader) -> dict[str, set[str]]:
    """Return the names of a state's files, by the folder that they are in."""
    found = {
        _folder_of(about["name"]): stored_names(store, codecs.number(number))
        | stored_names(store, versions_prefix(number))
        for number, about in tables_of(store)
    }
    return {**found, _VALUES: set(files_in_use(store))}


def _folder_of(table: str) -> str:
    return folder_name(table).replace("%", "=")  # which stands for itself in addresses too


def _place(settings: Settings, address: str) -> Place:
    return object_place(address, settings.storage_options, masked) if is_remote(address) else Folder(Path(address))


@contextmanager
def _reached(address: str) -> Iterator[None]:
    """Say what to do where a folder or an object store does not do what it is asked."""
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
