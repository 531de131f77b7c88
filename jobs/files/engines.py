"""Where a command's tables are read and searched: in this process, or on Spark's executors.

Both take the same files and give the same answers; commands know which one they have only where something is not to be
had of it.
"""

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.constraints import PredicateSpace, Rule, Schema, UsageError
from holdfast.jobs.configuration.secrets import masked
from holdfast.jobs.files.addresses import Place, paths_of
from holdfast.jobs.terminal.progress import Progress

if TYPE_CHECKING:
    from holdfast.discovery.blocks.storage.location import Storage
    from holdfast.discovery.blocks.storage.reading import BlocksOfFile
    from holdfast.discovery.detection.check import Checked
    from holdfast.discovery.discover import Discovered
    from holdfast.discovery.inclusion.discover import DiscoveredInclusions
    from holdfast.discovery.near.discover import NearDiscovered
    from holdfast.display.verdicts import Verdicts
    from holdfast.streaming.spark.executors import SparkExecutors
    from holdfast.tables import ReadOptions, Table

Report = Callable[[str], object]
Read = TypeVar("Read")

BLOCK_ROWS = 1 << 18


@dataclass(frozen=True)
class Spread:
    """How work is spread over Spark.

    Parameters
    ----------
    master : of a cluster; None for this machine, or for what `spark-submit` says.
    settings : of Spark.
    work : a folder, or an address of an object store, that every executor reaches; None for a folder of this machine.
    rows : of a block.
    """

    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    work: str | None = None
    rows: int = BLOCK_ROWS


class Engine(ABC, Generic[Read]):
    """Reads tables, and searches them."""

    @abstractmethod
    def read(self, file: Place, reading: "ReadOptions", name: str | None, report: Report) -> Read:
        """Read a file, as a table of a name; of its own where none is given."""

    @abstractmethod
    def schema(self, table: Read) -> Schema:
        """Return a table's columns."""

    @abstractmethod
    def warnings(self, table: Read) -> Sequence[str]:
        """Return what was odd about a file."""

    @abstractmethod
    def measured(self, table: Read, cross_columns: str) -> PredicateSpace:
        """Return which columns of a table are worth comparing."""

    @abstractmethod
    def discover(self, table: Read, space: PredicateSpace, bound: int, threads: int, report: Report) -> "Discovered":
        """Find what holds on a table."""

    @property
    @abstractmethod
    def near_families(self) -> tuple[str, ...]:
        """The families of near constraints that are counted here."""

    @abstractmethod
    def near(
        self,
        table: Read,
        share: Fraction,
        max_context: int,
        families: Sequence[str],
        threads: int,
        report: Report,
    ) -> "NearDiscovered":
        """Find what nearly holds on a table."""

    @abstractmethod
    def check(self, tables: Mapping[str, Read], rules: Sequence[Rule], **asked: Any) -> "Verdicts[Checked]":
        """Count what breaks rules, as `check_tables` does."""

    @abstractmethod
    def inclusions(
        self, files: Sequence[Place], reading: "ReadOptions", report: Report, warn: Report
    ) -> "DiscoveredInclusions":
        """Find which columns of some files are included in which."""


class ThisProcess(Engine["Table"]):
    """Tables in memory."""

    def read(self, file: Place, reading: "ReadOptions", name: str | None, report: Report) -> "Table":  # noqa: ARG002
        """Read a file."""
        from holdfast.tables import read_table

        return read_table(paths_of([file])[0], reading, name)

    def schema(self, table: "Table") -> Schema:
        """Return a table's columns."""
        return table.schema

    def warnings(self, table: "Table") -> Sequence[str]:
        """Return what was odd about a file."""
        return table.warnings

    def measured(self, table: "Table", cross_columns: str) -> PredicateSpace:
        """Return which columns of a table are worth comparing."""
        from holdfast.tables import space_of

        return space_of(table, cross_columns)

    def discover(self, table: "Table", space: PredicateSpace, bound: int, threads: int, report: Report) -> "Discovered":
        """Find what holds on a table."""
        from holdfast.discovery.discover import discover

        family = space.family
        return discover(
            table,
            family=family,
            space=space,
            max_predicates=bound,
            max_context=bound,
            threads=threads,
            report=report,
        )

    @property
    def near_families(self) -> tuple[str, ...]:
        """All families of near constraints."""
        from holdfast.discovery.near.discover import FAMILIES

        return tuple(FAMILIES)

    def near(
        self,
        table: "Table",
        share: Fraction,
        max_context: int,
        families: Sequence[str],
        threads: int,
        report: Report,
    ) -> "NearDiscovered":
        """Find what nearly holds on a table."""
        from holdfast.discovery.near.discover import discover_near

        return discover_near(table, share, max_context, families=families, threads=threads, report=report)

    def check(self, tables: "Mapping[str, Table]", rules: Sequence[Rule], **asked: Any) -> "Verdicts[Checked]":
        """Count what breaks rules."""
        from holdfast.discovery.detection.check import check_tables

        return check_tables(tables, rules, **asked)

    def inclusions(
        self, files: Sequence[Place], reading: "ReadOptions", report: Report, warn: Report
    ) -> "DiscoveredInclusions":
        """Find which columns of some files are included in which."""
        from holdfast.discovery.inclusion.discover import discover_inclusions

        return discover_inclusions(
            paths_of(files), texts=reading.strings == "all", options=reading, report=report, warn=warn
        )


class OnSpark(Engine["BlocksOfFile"]):
    """Tables in blocks.

    Parameters
    ----------
    executors, storage : where tasks run, and where blocks are.
    rows : of a block.
    """

    def __init__(self, executors: "SparkExecutors", storage: "Storage", rows: int) -> None:
        self._executors = executors
        self._storage = storage
        self._rows = rows

    def read(self, file: Place, reading: "ReadOptions", name: str | None, report: Report) -> "BlocksOfFile":
        """Read a file into blocks."""
        from holdfast.discovery.blocks.storage.reading import BlocksOfFile, read_blocks
        from holdfast.tables.delta import is_delta_table

        if isinstance(file, Path) and not is_delta_table(file):
            return read_blocks(file, reading, self._storage, self._rows, self._executors, report, name)
        from holdfast.streaming.spark.frames import blocks_of_frame, frame_at, place_in_frame
        from holdfast.tables import table_name

        frame = frame_at(self._executors.spark, str(file), reading.version)
        called = name or table_name(paths_of([file])[0])
        table, warnings = blocks_of_frame(frame, called, reading, self._storage, self._rows, report)
        return BlocksOfFile(table, warnings, lambda row: place_in_frame(str(file), row))

    def schema(self, table: "BlocksOfFile") -> Schema:
        """Return a table's columns."""
        return table.table.schema

    def warnings(self, table: "BlocksOfFile") -> Sequence[str]:
        """Return what was odd about a file."""
        return table.warnings

    def measured(self, table: "BlocksOfFile", cross_columns: str) -> PredicateSpace:
        """Return which columns of a table are worth comparing."""
        from holdfast.discovery.blocks.discover import space_of_blocks

        return space_of_blocks(table.table, cross_columns)

    def discover(
        self, table: "BlocksOfFile", space: PredicateSpace, bound: int, threads: int, report: Report
    ) -> "Discovered":
        """Find what holds on a table."""
        from holdfast.discovery.blocks.discover import discover_blocks

        return discover_blocks(table.table, space, bound, threads=threads, report=report)

    @property
    def near_families(self) -> tuple[str, ...]:
        """Those that need no order of values."""
        from holdfast.discovery.blocks.discover import NEAR_FAMILIES

        return NEAR_FAMILIES

    def near(
        self,
        table: "BlocksOfFile",
        share: Fraction,
        max_context: int,
        families: Sequence[str],
        threads: int,  # noqa: ARG002  (executors count)
        report: Report,
    ) -> "NearDiscovered":
        """Find what nearly holds on a table."""
        from holdfast.discovery.blocks.discover import discover_near_blocks

        return discover_near_blocks(table.table, share, max_context, families=families, report=report)

    def check(self, tables: "Mapping[str, BlocksOfFile]", rules: Sequence[Rule], **asked: Any) -> "Verdicts[Checked]":
        """Count what breaks rules."""
        from holdfast.discovery.blocks.counting.checking import check_blocks

        asked.pop("threads", None)
        locate = {name: table.locate for name, table in tables.items()}
        return check_blocks({name: table.table for name, table in tables.items()}, rules, locate=locate, **asked)

    def inclusions(
        self, files: Sequence[Place], reading: "ReadOptions", report: Report, warn: Report
    ) -> "DiscoveredInclusions":
        """Find which columns of some files are included in which."""
        from holdfast.discovery.blocks.discover import discover_inclusions_in_blocks

        tables = {}
        for file in files:
            read = self.read(file, reading, None, report)
            for warning in read.warnings:
                warn(warning)
            tables[read.table.schema.table] = read.table
        return discover_inclusions_in_blocks(tables, texts=reading.strings == "all", report=report)


@contextmanager
def engine(spread: Spread | None, progress: Progress) -> Iterator[Engine[Any]]:
    """Give the engine that was asked for, as long as answers are asked for; what it wrote is gone afterwards."""
    if spread is None:
        yield ThisProcess()
        return
    from holdfast.discovery.blocks.storage.location import Storage
    from holdfast.streaming.spark.executors import SparkExecutors
    from holdfast.streaming.spark.session import running_master, session_for

    is_ours = running_master() is None
    with progress.task("starting Spark"):
        spark = session_for(spread.master, spread.settings, shown=masked)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with work_folder(spread.work, str(spark.sparkContext.master)) as address:
            storage = Storage.at(address)
            storage.open().prepare()
            yield OnSpark(SparkExecutors(spark), storage, spread.rows)
    finally:
        if is_ours:
            spark.stop()


@contextmanager
def work_folder(named: str | None, master: str) -> Iterator[str]:
    """Give a folder of its own below the one that was named, or a temporary one where Spark is on this machine."""
    if named is None and not master.startswith("local"):
        raise UsageError(
            f"executors of {master} have to reach the blocks of rows: name a folder that all of them share with this "
            "machine, or an address of an object store (--work)"
        )
    if named is not None and "://" in named:
        from holdfast.discovery.blocks.storage.location import Storage

        address = f"{named.rstrip('/')}/holdfast-{os.urandom(6).hex()}"
        try:
            yield address
        finally:
            Storage.at(address).open().clear()
        return
    try:
        if named is not None:
            Path(named).mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="holdfast-blocks-", dir=named)
    except OSError as error:
        raise UsageError(f"work folder {named}: no folder can be made there: {error}") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
