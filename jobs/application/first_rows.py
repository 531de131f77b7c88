"""Reads the first rows of a configured table: from a file, from a Delta snapshot, or none.

Invariant: wherever the rows are (`state_rows.py`), they have the same columns with the same types, and settings that do
not fit are refused alike.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.constraints import Column, ColumnType, InputError, Schema, UsageError
from holdfast.constraints.columns import unknown_name
from holdfast.jobs.application.blocks import StateRows
from holdfast.jobs.application.state_rows import FirstRows, ReadAs
from holdfast.jobs.configuration.bounds import bounds_of
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.configuration.table_settings import DeltaSource, KafkaSource, SeedSettings, TableSettings, nulls_of
from holdfast.streaming.incoming.key_versions import first_versions
from holdfast.streaming.maintainers.table.bounds import Bounds
from holdfast.tables import ReadOptions, Table, from_arrow
from holdfast.tables.keys import NARROW_DECIMAL, arrow_type_of, column_type_of

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

_ORDERED = ("integer", "float", "decimal", "date", "timestamp")


def first_rows(
    table: TableSettings,
    settings: Settings,
    spark: Callable[[], "SparkSession"],
    place: StateRows,
    report: Callable[[str], object] = lambda _: None,
) -> FirstRows:
    """Read a table's first rows.

    Parameters
    ----------
    spark : starts a session, where a source has to be queried.
    place : where the rows will be.
    report : called with a description of each step.
    """
    source = table.source
    reader = _Reader(table, settings, place, report)
    if isinstance(source, DeltaSource):
        first = reader.snapshot(source)
    elif table.seed is not None:
        first = reader.file(table.seed)
    else:
        first = reader.nothing(spark)
    if isinstance(source, KafkaSource):
        from holdfast.jobs.application.streams import topic_source

        start = topic_source(table, source, settings).pinned_start(spark(), source.start or "earliest")
        first = replace(first, source={"start": start})
    return first


@dataclass(frozen=True)
class _Reader:
    """Reads the first rows of a table to a place."""

    table: TableSettings
    settings: Settings
    place: StateRows
    report: Callable[[str], object]

    def file(self, seed: SeedSettings) -> FirstRows:
        """Read a file."""
        options = seed_options(seed)
        bounds = bounds_of(self.table, self.settings) if self.table.sequence is None else None
        return _split(self.table, self.place.file(seed.path, options, self._read_as(options, seed.path, bounds)))

    def snapshot(self, source: DeltaSource) -> FirstRows:
        """Read a version of a Delta table, and return which version it was with the rows."""
        opened, seed = opened_delta(self.table, self.settings), self.table.seed
        metadata = opened.metadata()
        limit = None if seed is None else seed.limit
        read = self.place.snapshot(opened, source.path, limit, self._read_as(ReadOptions(), source.path))
        return replace(_split(self.table, read), source={"version": opened.version(), "table_id": str(metadata.id)})

    def nothing(self, spark: Callable[[], "SparkSession"]) -> FirstRows:
        """Return an empty table, with the columns of the settings or of the source."""
        table = self.table
        columns = {name: c.type for name, c in table.columns.items() if c.type is not None}
        if table.has_schema:
            from holdfast.jobs.application.streams import source_columns

            found = source_columns(table, self.settings, spark)
            for name in columns:
                if found and name not in found and name != table.sequence:
                    raise UsageError(unknown_name(f"table {table.name}: its source has no column", name, list(found)))
            columns = {**found, **columns}
        if not columns:
            raise UsageError(
                f"table {table.name} starts empty, and its source has no records yet that show its columns: declare "
                "their types under 'columns', or a seed"
            )
        known = tuple(columns)
        wanted, _ = _wanted(table, known, f"table {table.name}")
        arrays = {name: pa.array([], arrow_type_of(columns[name])) for name in known if name in wanted}
        options = ReadOptions(types={name: columns[name] for name in arrays}, ordered=_ordered(table, known))
        empty = from_arrow(pa.table(arrays), table.name, options)
        return _split(table, FirstRows(self.place.nothing(empty), known, empty.warnings))

    def _read_as(self, options: ReadOptions, source: str, bounds: Bounds | None = None) -> ReadAs:
        """Return how the columns of a source are read; settings that name other columns are refused."""

        def chosen(known: tuple[str, ...]) -> ReadOptions:
            return reading_of(self.table, options, known, source)

        return ReadAs(self.table.name, chosen, self.report, bounds)


def seed_options(seed: SeedSettings) -> ReadOptions:
    """Return how the file of the first rows is read."""
    return ReadOptions(
        delimiter=seed.delimiter,
        encoding=seed.encoding,
        **nulls_of(seed.null_tokens),
        typed_header=seed.typed_header,
        strings=seed.strings,
        limit=seed.limit,
        version=seed.version,
    )


def reading_of(table: TableSettings, options: ReadOptions, known: tuple[str, ...], source: str) -> ReadOptions:
    """Return options with the columns that a table monitors; refuse settings that name others than the known columns.

    Parameters
    ----------
    source : where the columns are from, for errors.
    """
    wanted, declared = _wanted(table, known, source)
    strings = options.strings if options.strings == "all" else [n for n in options.strings if n in wanted]
    return replace(options, types=declared, ordered=_ordered(table, known), include=wanted, strings=strings)


def opened_delta(table: TableSettings, settings: Settings) -> "DeltaTable":
    """Return the Delta table that a table follows, at the version of its seed; refuse one without a change feed."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    assert isinstance(table.source, DeltaSource)
    path, version = table.source.path, None if table.seed is None else table.seed.version
    try:
        opened = DeltaTable(path, version=version, storage_options=dict(settings.storage_options))
    except TableNotFoundError:
        raise UsageError(f"table {table.name}: {path} is no Delta table: correct 'source.path'") from None
    except (DeltaError, OSError) as error:
        raise InputError(f"table {table.name}: {path} at version {version} cannot be opened: {error}") from error
    if opened.metadata().configuration.get("delta.enableChangeDataFeed", "false").lower() != "true":
        raise UsageError(
            f"table {table.name}: {path} has no change feed at version {opened.version()}: switch it on with ALTER "
            "TABLE ... SET TBLPROPERTIES (delta.enableChangeDataFeed = true), and seed from that version on"
        )
    return opened


def arrived_columns(settings: Settings) -> Callable[[TableSettings], dict[str, ColumnType | None]]:
    """Return a function that returns the current columns of a Delta source, with their types."""

    def arrived(table: TableSettings) -> dict[str, ColumnType | None]:
        if not isinstance(table.source, DeltaSource):
            return {}
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            opened = DeltaTable(table.source.path, storage_options=dict(settings.storage_options))
        except (DeltaError, OSError):  # reported when the source is followed
            return {}
        fields = pa.schema(opened.schema().to_arrow())
        return {field.name: column_type_of(field.type) for field in fields}

    return arrived


def _wanted(table: TableSettings, known: tuple[str, ...], where: str) -> tuple[list[str], dict[str, ColumnType]]:
    """Return the columns to read, the sequence among them, and their declared types."""
    for named in (table.include or (), table.exclude, table.key or (), table.columns):
        for name in named:
            if name not in known and name != table.sequence:
                raise UsageError(unknown_name(f"table {table.name}: {where} has no column", name, list(known)))
    wanted = [name for name in known if table.monitors(name) or name == table.sequence]
    declared = {name: c.type for name, c in table.columns.items() if c.type is not None and name in wanted}
    return wanted, declared


def _ordered(table: TableSettings, known: tuple[str, ...]) -> dict[str, bool]:
    return {name: c.ordered for name, c in table.columns.items() if c.ordered is not None and name in known}


def _split(table: TableSettings, first: FirstRows) -> FirstRows:
    """Check the sequence column, and remove it from the rows where it is not monitored."""
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
    null = read.first_null(name) if is_there else None
    if null is not None:
        raise InputError(f"{read.locate(null)}: the sequence column {name} is null; expected a value in every row")
    versions = first_versions(read, table.key or (), name if is_there else None)
    if is_there and not table.monitors(name):
        read = read.replaced_by(_rest_of(read.schema, name), partial(_left_of, name=name))
    return replace(first, rows=read, sequence=column, versions=versions)


def _left_of(rows: Table, name: str) -> Table:
    columns = tuple(column for column in rows.columns if column.column.name != name)
    return replace(rows, schema=_rest_of(rows.schema, name), columns=columns)


def _rest_of(schema: Schema, name: str) -> Schema:
    return Schema(schema.table, tuple(column for column in schema.columns if column.name != name))
