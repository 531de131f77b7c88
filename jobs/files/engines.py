"""Where a command reads and searches tables: in this process, or on Spark's executors.

Both engines take the same files and give the same answers. A command looks at its engine only for a search that the
engine does not have.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.constraints import PredicateSpace, Rule, UsageError
from holdfast.jobs.files.addresses import FileOrAddress, paths_of
from holdfast.jobs.terminal.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.discovery.blocks.discover import NearInBlocks
    from holdfast.discovery.blocks.storage.reading import BlocksOfFile
    from holdfast.discovery.detection.check import Checked
    from holdfast.discovery.discover import Discovered
    from holdfast.discovery.inclusion.discover import DiscoveredInclusions
    from holdfast.discovery.near.discover import NearDiscovered
    from holdfast.display.verdicts import Verdicts
    from holdfast.tables import ReadOptions, Table

Report = Callable[[str], object]

BLOCK_ROWS = 1 << 18


@dataclass(frozen=True)
class SparkOptions:
    """How a command uses Spark.

    Parameters
    ----------
    master : the address of a cluster; None for this machine, or for the cluster that `spark-submit` sets.
    settings : settings of Spark, by name.
    work : a folder or an address of an object store that every executor reaches; None for a temporary folder.
    block_rows : the number of rows of a block.
    """

    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    work: str | None = None
    block_rows: int = BLOCK_ROWS


@dataclass(frozen=True)
class NearSearchOptions:
    """Which near constraints to search for.

    Parameters
    ----------
    share : the share of the rows that may be exceptions.
    max_context : the largest number of columns in the context; 0 for any number; None for three, or as many as are
        feasible.
    families : some of `key`, `fd` and `od`.
    threads : how many threads count, in this process.
    """

    share: Fraction
    max_context: int | None
    families: Sequence[str]
    threads: int = 1


class ThisProcess:
    """Reads tables into the memory of this process, and searches them there."""

    def read(self, file: FileOrAddress, reading: "ReadOptions", name: str | None, report: Report) -> "Table":  # noqa: ARG002
        """Read a file as a table called `name`; named after the file where `name` is None."""
        from holdfast.tables import read_table

        return read_table(paths_of([file])[0], reading, name)

    def row_count(self, table: "Table") -> int:
        """Return the number of rows of a table."""
        return table.row_count

    def measured(self, table: "Table", cross_columns: str) -> PredicateSpace:
        """Return the predicate space of a table: which of its columns are worth comparing."""
        from holdfast.tables import space_of

        return space_of(table, cross_columns)

    def discover(self, table: "Table", space: PredicateSpace, bound: int, threads: int, report: Report) -> "Discovered":
        """Find the constraints of a space's family that hold on a table, up to a size; 0 for all sizes."""
        from holdfast.discovery.discover import discover

        return discover(
            table,
            family=space.family,
            space=space,
            max_predicates=bound,
            max_context=bound,
            threads=threads,
            report=report,
        )

    @property
    def near_families(self) -> tuple[str, ...]:
        """The families of near constraints that this engine counts: all."""
        from holdfast.discovery.near.discover import FAMILIES

        return tuple(FAMILIES)

    def near(self, table: "Table", options: NearSearchOptions, report: Report) -> "NearDiscovered":
        """Find the near constraints of a table."""
        from holdfast.discovery.near.discover import discover_near

        return discover_near(
            table,
            options.share,
            options.max_context,
            families=options.families,
            threads=options.threads,
            report=report,
        )

    def check(self, tables: "Mapping[str, Table]", rules: Sequence[Rule], **options: Any) -> "Verdicts[Checked]":
        """Count the violations of rules, with the options of `check_tables`."""
        from holdfast.discovery.detection.check import check_tables

        return check_tables(tables, rules, **options)

    def inclusions(
        self, files: Sequence[FileOrAddress], reading: "ReadOptions", report: Report, warn: Report
    ) -> "DiscoveredInclusions":
        """Read files column by column, and find inclusions."""
        from holdfast.discovery.inclusion.discover import discover_inclusions

        return discover_inclusions(
            paths_of(files), texts=reading.strings == "all", options=reading, report=report, warn=warn
        )

    def inclusions_among(
        self, tables: "Sequence[Table]", reading: "ReadOptions", report: Report
    ) -> "DiscoveredInclusions":
        """Find inclusions among tables that were read."""
        from holdfast.discovery.inclusion.discover import discover_inclusions

        return discover_inclusions(tables, texts=reading.strings == "all", report=report)


class OnSpark:
    """Reads tables into blocks, which Spark's executors write and search. Its methods are those of `ThisProcess`.

    Parameters
    ----------
    spark : the session.
    address : where the blocks are.
    block_rows : the number of rows of a block.
    """

    def __init__(self, spark: "SparkSession", address: str, block_rows: int = BLOCK_ROWS) -> None:
        from holdfast.discovery.blocks.storage.location import Storage
        from holdfast.streaming.spark.executors import SparkExecutors

        self._executors = SparkExecutors(spark)
        self._block_rows = block_rows
        self._storage = Storage.at(address)
        self._storage.open().prepare()

    def read(self, file: FileOrAddress, reading: "ReadOptions", name: str | None, report: Report) -> "BlocksOfFile":
        """Read a file, or a Delta table, into blocks."""
        from holdfast.tables.delta import is_delta_table

        if isinstance(file, Path) and not is_delta_table(file):
            from holdfast.discovery.blocks.storage.reading import read_blocks

            return read_blocks(file, reading, self._storage, self._block_rows, self._executors, report, name)
        from holdfast.streaming.spark.frames import frame_at, place_in_frame
        from holdfast.tables import table_name

        frame = frame_at(self._executors.spark, str(file), reading.version)
        read = self.frame(frame, name or table_name(paths_of([file])[0]), reading, report)
        return replace(read, locate=lambda row: place_in_frame(str(file), row))

    def frame(self, frame: "DataFrame", name: str, reading: "ReadOptions", report: Report) -> "BlocksOfFile":
        """Write a data frame into blocks."""
        from holdfast.discovery.blocks.storage.reading import BlocksOfFile
        from holdfast.streaming.spark.frames import blocks_of_frame

        table, warnings = blocks_of_frame(frame, name, reading, self._storage, self._block_rows, report)
        return BlocksOfFile(table, warnings, lambda row: f"row {row + 1}")

    def row_count(self, table: "BlocksOfFile") -> int:
        """Return the number of rows of a table."""
        return table.table.row_count

    def measured(self, table: "BlocksOfFile", cross_columns: str) -> PredicateSpace:
        """Return the predicate space; crossing pairs are measured on the rows."""
        from holdfast.discovery.blocks.discover import space_of_blocks

        return space_of_blocks(table.table, cross_columns)

    def discover(
        self, table: "BlocksOfFile", space: PredicateSpace, bound: int, threads: int, report: Report
    ) -> "Discovered":
        """Find the constraints of a space's family."""
        from holdfast.discovery.blocks.discover import discover_blocks

        return discover_blocks(table.table, space, bound, threads=threads, report=report)

    @property
    def near_families(self) -> tuple[str, ...]:
        """The families whose counts need no order of values."""
        from holdfast.discovery.blocks.discover import NEAR_FAMILIES

        return NEAR_FAMILIES

    def near(self, table: "BlocksOfFile", options: NearSearchOptions, report: Report) -> "NearInBlocks":
        """Find the near constraints of a table; executors count."""
        from holdfast.discovery.blocks.discover import discover_near_blocks

        return discover_near_blocks(
            table.table, options.share, options.max_context, families=options.families, report=report
        )

    def check(self, tables: "Mapping[str, BlocksOfFile]", rules: Sequence[Rule], **options: Any) -> "Verdicts[Checked]":
        """Count the violations of rules."""
        from holdfast.discovery.blocks.counting.checking import check_blocks

        options.pop("threads", None)
        locate = {name: table.locate for name, table in tables.items()}
        return check_blocks({name: table.table for name, table in tables.items()}, rules, locate=locate, **options)

    def inclusions(
        self, files: Sequence[FileOrAddress], reading: "ReadOptions", report: Report, warn: Report
    ) -> "DiscoveredInclusions":
        """Read files into blocks, and find inclusions."""
        tables = []
        for file in files:
            tables.append(self.read(file, reading, None, report))
            for warning in tables[-1].warnings:
                warn(warning)
        return self.inclusions_among(tables, reading, report)

    def inclusions_among(
        self, tables: "Sequence[BlocksOfFile]", reading: "ReadOptions", report: Report
    ) -> "DiscoveredInclusions":
        """Find inclusions among tables that were read."""
        from holdfast.discovery.blocks.discover import discover_inclusions_in_blocks

        blocks = {read.schema.table: read.table for read in tables}
        return discover_inclusions_in_blocks(blocks, texts=reading.strings == "all", report=report)


Engine: TypeAlias = ThisProcess | OnSpark


@contextmanager
def engine_for(options: SparkOptions | None, progress: Progress) -> Iterator[Engine]:
    """Provide the engine for a command: Spark with these options, else this process. Removes its blocks at the end."""
    if options is None:
        yield ThisProcess()
        return
    from holdfast.streaming.spark.session import running_master, session_for

    is_ours = running_master() is None
    with progress.task("starting Spark"):
        spark = session_for(options.master, options.settings)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with work_folder(options.work, str(spark.sparkContext.master)) as address:
            yield OnSpark(spark, address, options.block_rows)
    finally:
        if is_ours:
            spark.stop()


@contextmanager
def work_folder(named: str | None, master: str) -> Iterator[str]:
    """Provide a new folder below the named one, or a temporary folder where Spark runs on this machine."""
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
        made = tempfile.TemporaryDirectory(prefix="holdfast-blocks-", dir=named, ignore_cleanup_errors=True)
    except OSError as error:
        raise UsageError(f"work folder {named}: no folder can be made there: {error}") from error
    with made as folder:
        yield folder
