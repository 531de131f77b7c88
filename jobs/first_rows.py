"""The first rows of a configured table, from a file, a Delta snapshot, or none: into this process, or into blocks.

Invariant: both ways read the same columns with the same types and refuse the same things; in blocks no row comes to
this process.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from holdfast.constraints import Column, ColumnType, InputError, Schema, UsageError
from holdfast.constraints.columns import unknown_name
from holdfast.discovery.blocks.reading import read_blocks
from holdfast.discovery.blocks.table import BlockTable, Source
from holdfast.jobs.blocks import StateBlocks
from holdfast.jobs.change_files import column_names
from holdfast.jobs.quantities import is_remote
from holdfast.jobs.settings import Settings
from holdfast.jobs.table_settings import DeltaSource, KafkaSource, TableSettings
from holdfast.streaming.key_versions import versions_in_blocks
from holdfast.streaming.maintainers.block_maintainer import first_null
from holdfast.tables import ReadOptions, Table, from_arrow, read_table
from holdfast.tables.delta import is_delta_table
from holdfast.tables.keys import NARROW_DECIMAL, arrow_type_of, column_type_of
from holdfast.tables.pipes import pipes_kept
from holdfast.tables.reading import PARQUET

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

Report = Callable[[str], object]
Chosen = Callable[[tuple[str, ...]], ReadOptions]
"""Says how columns of some names are read."""
Rows = Table | BlockTable

_ORDERED = ("integer", "float", "decimal", "date", "timestamp")


@dataclass(frozen=True)
class FirstRows:
    """A table's first rows.

    Parameters
    ----------
    rows : the monitored columns.
    known : all columns that the seed or the source has.
    warnings : what was odd about them.
    locate : says where a row of a number came from.
    sequence : what orders the records of one key.
    sequences : its values where the seed has them; of rows in blocks, blocks of what is known of keys.
    source : where the source begins.
    """

    rows: Rows
    known: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    locate: Callable[[int], str] = lambda row: f"row {row + 1}"
    sequence: Column | None = None
    sequences: Any = None
    source: Mapping[str, Any] | None = None

    @property
    def schema(self) -> Schema:
        """The monitored columns."""
        return self.rows.schema


class Reader(Protocol):
    """Brings rows to where they are held; gives them with the columns that there were, and what was odd."""

    def file(self, place: str, options: ReadOptions, chosen: Chosen, name: str) -> FirstRows:
        """Read a file, or a Delta table, as a table of a name."""

    def snapshot(self, opened: "DeltaTable", place: str, limit: int | None, chosen: Chosen, name: str) -> FirstRows:
        """Read a version of a Delta table."""

    def nothing(self, table: Table) -> Rows:
        """Return a table without rows."""


class IntoMemory:
    """Rows that this process holds.

    Parameters
    ----------
    spark : starts a session, where a file is somewhere else.
    """

    def __init__(self, spark: Callable[[], "SparkSession"]) -> None:
        self._spark = spark

    def file(self, place: str, options: ReadOptions, chosen: Chosen, name: str) -> FirstRows:
        """Read a file, or a Delta table, as a table of a name."""
        if is_remote(place):
            from holdfast.streaming.spark.places import fetched

            with fetched(self._spark(), place) as path:
                return self._read(path, options, chosen, name)
        return self._read(Path(place), options, chosen, name)

    def snapshot(self, opened: "DeltaTable", place: str, limit: int | None, chosen: Chosen, name: str) -> FirstRows:
        """Read a version of a Delta table."""
        from holdfast.tables.delta import read_opened

        data = read_opened(opened, place, limit)
        known = tuple(data.column_names)
        table = from_arrow(data, name, chosen(known))
        return FirstRows(table, known, table.warnings, table.locate)

    def nothing(self, table: Table) -> Table:
        """Return a table without rows."""
        return table

    def _read(self, path: Path, options: ReadOptions, chosen: Chosen, name: str) -> FirstRows:
        with pipes_kept():
            known = column_names(path, options)
            table = read_table(path, chosen(known), name)
        return FirstRows(table, known, table.warnings, table.locate)


class IntoBlocks:
    """Rows that executors write into blocks.

    Parameters
    ----------
    blocks : of the state.
    report : is told what is being done.
    """

    def __init__(self, blocks: StateBlocks, report: Report) -> None:
        self._blocks = blocks
        self._report = report

    def file(self, place: str, options: ReadOptions, chosen: Chosen, name: str) -> FirstRows:
        """Read a file, or a Delta table, as a table of a name."""
        if not is_remote(place):
            path = Path(place)
            if is_delta_table(path):
                return self._frame(place, options.version, column_names(path, options), chosen, name)
            return self._read(path, options, chosen, name)
        if PurePosixPath(place).suffix.lower() not in {"", *PARQUET} and self._blocks.is_on_this_machine:
            from holdfast.streaming.spark.places import fetched

            with fetched(self._blocks.executors.spark, place) as path:
                read = self._read(path, options, chosen, name)
            return replace(read, locate=lambda row: f"{place}, row {row + 1}")
        return self._frame(place, options.version, None, chosen, name)

    def snapshot(self, opened: "DeltaTable", place: str, limit: int | None, chosen: Chosen, name: str) -> FirstRows:
        """Read a version of a Delta table."""

        def limited(known: tuple[str, ...]) -> ReadOptions:
            return replace(chosen(known), limit=limit)

        return self._frame(place, opened.version(), None, limited, name)

    def nothing(self, table: Table) -> BlockTable:
        """Return a table without rows."""
        blocks = self._blocks
        return BlockTable(
            Source(blocks.storage(table.schema.table), table.schema, blocks.rows), [], blocks.executors, self._report
        )

    def _read(self, path: Path, options: ReadOptions, chosen: Chosen, name: str) -> FirstRows:
        known = column_names(path, options)
        blocks = self._blocks
        read = read_blocks(path, chosen(known), blocks.storage(name), blocks.rows, blocks.executors, self._report, name)
        return FirstRows(read.table, known, read.warnings, read.locate)

    def _frame(
        self, place: str, version: int | None, known: tuple[str, ...] | None, chosen: Chosen, name: str
    ) -> FirstRows:
        from holdfast.streaming.spark.frames import blocks_of_frame, frame_at, only_columns, place_in_frame

        blocks = self._blocks
        frame = frame_at(blocks.executors.spark, place, version)
        known = known or tuple(frame.columns)
        options = chosen(known)
        wanted = known if options.include is None else [column for column in known if column in options.include]
        table, warnings = blocks_of_frame(
            *(only_columns(frame, wanted), name, options, blocks.storage(name), blocks.rows, self._report)
        )
        return FirstRows(table, known, warnings, partial(place_in_frame, place))


def first_rows(
    table: TableSettings, settings: Settings, spark: Callable[[], "SparkSession"], reader: Reader
) -> FirstRows:
    """Read a table's first rows.

    Parameters
    ----------
    spark : starts a session, where a source has to be asked.
    reader : brings them to where they are held.
    """
    source = table.source
    if isinstance(source, DeltaSource):
        first = _snapshot(table, source, settings, reader)
    elif table.seed is not None:
        first = _file(table, reader)
    else:
        first = _nothing(table, settings, spark, reader)
    if isinstance(source, KafkaSource):
        from holdfast.jobs.streams import topic_source

        start = topic_source(table, source, settings).pinned_start(spark(), source.start or "earliest")
        first = replace(first, source={"start": start})
    return first


def _file(table: TableSettings, reader: Reader) -> FirstRows:
    seed = table.seed
    assert seed is not None
    options = ReadOptions(
        delimiter=seed.delimiter,
        encoding=seed.encoding,
        null_tokens=seed.null_tokens,
        typed_header=seed.typed_header,
        strings=seed.strings,
        limit=seed.limit,
        version=seed.version,
    )
    return _split(table, reader.file(seed.path, options, _chosen(table, options, seed.path), table.name))


def _snapshot(table: TableSettings, source: DeltaSource, settings: Settings, reader: Reader) -> FirstRows:
    """Return a version of a Delta table, and note which one it was."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    storage = dict(settings.storage_options)
    version = table.seed.version if table.seed else None
    try:
        opened = DeltaTable(source.path, version=version, storage_options=storage)
    except TableNotFoundError:
        raise UsageError(f"table {table.name}: {source.path} is no Delta table: correct 'source.path'") from None
    except (DeltaError, OSError) as error:
        raise InputError(f"table {table.name}: {source.path} at version {version} cannot be opened: {error}") from error
    metadata = opened.metadata()
    if metadata.configuration.get("delta.enableChangeDataFeed", "false").lower() != "true":
        raise UsageError(
            f"table {table.name}: {source.path} has no change feed at version {opened.version()}: switch it on with "
            "ALTER TABLE ... SET TBLPROPERTIES (delta.enableChangeDataFeed = true), and seed from that version on"
        )
    limit = None if table.seed is None else table.seed.limit
    chosen = _chosen(table, ReadOptions(), source.path)
    first = _split(table, reader.snapshot(opened, source.path, limit, chosen, table.name))
    return replace(first, source={"version": opened.version(), "table_id": str(metadata.id)})


def _nothing(
    table: TableSettings, settings: Settings, spark: Callable[[], "SparkSession"], reader: Reader
) -> FirstRows:
    """Return an empty table, its columns from the settings or from the source."""
    columns = {name: c.type for name, c in table.columns.items() if c.type is not None}
    if table.source is not None and table.source.has_schema:
        from holdfast.jobs.streams import source_columns

        found = source_columns(table, settings, spark)
        for name in columns:
            if found and name not in found and name != table.sequence:
                raise UsageError(unknown_name(f"table {table.name}: its source has no column", name, list(found)))
        columns = {**{name: kind for name, kind in found.items() if name not in columns}, **columns}
        columns = {name: columns[name] for name in (*found, *(name for name in columns if name not in found))}
    if not columns:
        raise UsageError(
            f"table {table.name} starts empty, and its source has nothing yet that says its columns: give their types "
            "under 'columns', or a seed"
        )
    known = tuple(columns)
    wanted, _ = _wanted(table, known, f"table {table.name}")
    arrays = {name: pa.array([], arrow_type_of(columns[name])) for name in known if name in wanted}
    options = ReadOptions(types={name: columns[name] for name in arrays}, ordered=_ordered(table, known))
    empty = from_arrow(pa.table(arrays), table.name, options)
    return _split(table, FirstRows(reader.nothing(empty), known, empty.warnings))


def arrived_columns(settings: Settings) -> Callable[[TableSettings], dict[str, ColumnType | None]]:
    """Return what tells the columns that a Delta source has now, with their types."""

    def arrived(table: TableSettings) -> dict[str, ColumnType | None]:
        if not isinstance(table.source, DeltaSource):
            return {}
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            opened = DeltaTable(table.source.path, storage_options=dict(settings.storage_options))
        except (DeltaError, OSError):  # what is wrong with it is said where it is followed
            return {}
        fields = pa.schema(opened.schema().to_arrow())
        return {field.name: column_type_of(field.type) for field in fields}

    return arrived


def _chosen(table: TableSettings, options: ReadOptions, where: str) -> Chosen:
    """Return what says how the columns of a place are read, and refuses settings that name others."""

    def chosen(known: tuple[str, ...]) -> ReadOptions:
        wanted, declared = _wanted(table, known, where)
        strings = options.strings if options.strings == "all" else [n for n in options.strings if n in wanted]
        return replace(options, types=declared, ordered=_ordered(table, known), include=wanted, strings=strings)

    return chosen


def _wanted(table: TableSettings, known: tuple[str, ...], where: str) -> tuple[list[str], dict[str, ColumnType]]:
    """Return the columns to read (the sequence among them), and their declared types."""
    for asked in (table.include or (), table.exclude, table.key or (), table.columns):
        for name in asked:
            if name not in known and name != table.sequence:
                raise UsageError(unknown_name(f"table {table.name}: {where} has no column", name, list(known)))
    monitored = [
        name for name in known if (table.include is None or name in table.include) and name not in table.exclude
    ]
    wanted = [name for name in known if name in monitored or name == table.sequence]
    declared = {name: c.type for name, c in table.columns.items() if c.type is not None and name in wanted}
    return wanted, declared


def _ordered(table: TableSettings, known: tuple[str, ...]) -> dict[str, bool]:
    return {name: c.ordered for name, c in table.columns.items() if c.ordered is not None and name in known}


def _split(table: TableSettings, first: FirstRows) -> FirstRows:
    """Take the sequence apart, where it is not monitored."""
    name, read = table.sequence, first.rows
    if name is None:
        return first
    is_there = name in read.schema
    if is_there:
        column = read.schema[name]
    else:
        declared = table.columns[name].type if name in table.columns else None
        if declared is None:
            raise UsageError(f"table {table.name}: give the type of the sequence column '{name}' under 'columns'")
        column = Column(name, declared)
    if column.type.name not in _ORDERED or (column.type.name == "decimal" and column.type.precision > NARROW_DECIMAL):
        raise UsageError(
            f"table {table.name}: the sequence column '{name}' is a {column.type}; expected a number of at most 64 "
            "bits, a date or a timestamp"
        )
    null = _first_null(read, name) if is_there else None
    if null is not None:
        raise InputError(f"{first.locate(null)}: the sequence column {name} is null; expected a value in every row")
    sequences: Any = None
    if isinstance(read, BlockTable):
        sequences = versions_in_blocks(read, table.key or (), name if is_there else None)
    elif is_there:
        sequences = read[name]
    is_monitored = (table.include is None or name in table.include) and name not in table.exclude
    rows = _without(read, name) if is_there and not is_monitored else read
    return replace(first, rows=rows, sequence=column, sequences=sequences)


def _first_null(rows: Rows, name: str) -> int | None:
    """Return the number of the first row with a null in a column."""
    if isinstance(rows, BlockTable):
        return first_null(rows, rows.schema.index(name))
    valid = rows[name].valid
    return None if valid is None or valid.all() else int((~valid).argmax())


def _without(rows: Rows, name: str) -> Rows:
    """Return rows without a column; where they are in blocks, those with it go."""
    if not isinstance(rows, BlockTable):
        return _left_of(rows, name)
    rest = rows.made_anew(_rest_of(rows.schema, name), partial(_left_of, name=name))
    rows.source.storage.open().remove(block.name for block in rows.base.blocks)
    return rest


def _left_of(rows: Table, name: str) -> Table:
    columns = tuple(column for column in rows.columns if column.column.name != name)
    return replace(rows, schema=_rest_of(rows.schema, name), columns=columns)


def _rest_of(schema: Schema, name: str) -> Schema:
    return Schema(schema.table, tuple(column for column in schema.columns if column.name != name))
