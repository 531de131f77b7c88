"""The blocks of a state: where the rows of its tables are with `engine: spark`, who works on them, which are old.

    <blocks.path>/<state id>/<table>/<block>

Invariant: a folder belongs to one state, and only its process takes files out of it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.constraints import ExternalError, StateRefused, UsageError
from holdfast.discovery.blocks.storage import Storage
from holdfast.jobs.folders import folder_name
from holdfast.jobs.quantities import is_remote
from holdfast.jobs.secrets import masked
from holdfast.jobs.settings import BlocksSettings, Settings
from holdfast.state.places import Folder, Place, StoreError, object_place

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
        return Storage.at(f"{self._address}/{_folder_of(table)}", self.settings.storage_options)

    def begin(self) -> None:
        """Make the folder anew, for a state that is seeded: what an interrupted seed left goes."""
        with _reached(self._address):
            place = _place(self.settings, self._address)
            place.clear()
            place.prepare()

    def sweep(self, named: Mapping[str, Collection[str]]) -> None:
        """Remove files that nobody needs any more, or raise where one is missing. One listing a table.

        Parameters
        ----------
        named : the names of the blocks that each table has.
        """
        with _reached(self._address):
            place = _place(self.settings, self._address)
            folders = {_folder_of(table): set(names) for table, names in named.items()}
            there = {folder: set(place.at(folder).names()) for folder in folders}
            missing = sorted(f"{folder}/{name}" for folder in folders for name in folders[folder] - there[folder])
            if missing:
                raise StateRefused(
                    f"{len(missing):,} files with rows that the state names are not in {masked(str(place))} (the first "
                    f"is {missing[0]}): bring them back, or correct 'blocks.path'. Where they are lost, seed anew: "
                    "holdfast seed --replace"
                )
            for folder, names in there.items():
                place.at(folder).remove(names - folders[folder])
            for folder in set(place.names()) - set(folders):
                place.at(folder).clear()

    @property
    def _address(self) -> str:
        return f"{self.settings.blocks_place}/{self.state_id}"


def blocks_of(settings: Settings, state_id: str, session: Callable[[], "SparkSession"]) -> StateBlocks | None:
    """Return the blocks of a state; None where this process holds its rows."""
    return StateBlocks(settings, state_id, session) if settings.engine == "spark" else None


def clear_blocks(settings: Settings, addresses: Iterable[str]) -> None:
    """Remove the blocks of states that are gone."""
    for address in addresses:
        with _reached(address):
            _place(settings, address).clear()


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
