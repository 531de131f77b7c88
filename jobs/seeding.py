"""The first rows of the configured tables: from a file, a Delta snapshot, or none.

What a later start has to know of a table is noted with its state (`about`): where its source goes on, and the settings
that the state was built with, so that a configuration which contradicts them is refused.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.constraints import (
    Column,
    ColumnRef,
    ColumnType,
    InclusionDependency,
    InputError,
    Schema,
    UsageError,
)
from holdfast.constraints.columns import unknown_name
from holdfast.constraints.types import parse_type
from holdfast.discovery.inclusion.seeding import ColumnValues, column_values
from holdfast.jobs.change_files import column_names
from holdfast.jobs.configuration import Configuration
from holdfast.jobs.quantities import is_remote
from holdfast.jobs.settings import DenialSettings, Settings
from holdfast.jobs.table_settings import DeltaSource, FilesSource, KafkaSource, TableSettings
from holdfast.streaming.maintainers.maintainer import Bounds, Maintainer
from holdfast.streaming.maintainers.rules import MonitoredRule
from holdfast.streaming.seeding import SeededTable, table_rules, value_rules
from holdfast.tables import ReadOptions, Table, from_arrow, read_table, space_of
from holdfast.tables.keys import NARROW_DECIMAL, arrow_type_of, column_type_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.jobs.progress import Progress

_ORDERED = ("integer", "float", "decimal", "date", "timestamp")


@dataclass(frozen=True)
class _First:
    """A table's first rows.

    Parameters
    ----------
    table : the monitored columns.
    known : all columns that the seed or the source has.
    sequence : what orders the records of one key; with its values where the seed has them.
    source : where the source begins.
    """

    table: Table
    known: tuple[str, ...]
    sequence: Column | None = None
    sequences: Any = None
    source: Mapping[str, Any] | None = None


def seeded_tables(
    settings: Settings,
    rules: Sequence[MonitoredRule],
    spark: Callable[[], "SparkSession"],
    progress: "Progress",
) -> Iterator[SeededTable]:
    """Read and search each table in turn.

    Parameters
    ----------
    rules : those that are monitored.
    spark : starts a session, where a source has to be asked.
    """
    for table in settings.tables:
        yield seeded_table(table, settings, rules, spark, progress)


def seeded_table(
    table: TableSettings,
    settings: Settings,
    rules: Sequence[MonitoredRule],
    spark: Callable[[], "SparkSession"],
    progress: "Progress",
) -> SeededTable:
    """Read and search one table."""
    bounds = bounds_of(settings)
    with progress.task(f"reading table {table.name}") as task:
        first = _first_rows(table, settings, spark)
        for warning in first.table.warnings:
            progress.note(f"warning: {warning}", level="warning")
        for name in table.key or ():
            first.table.schema.index(name)
        cross = cross_columns(settings, first.table.schema) if bounds.max_predicates is not None else "none"
        maintainer = Maintainer.seed(
            first.table,
            key=table.key or (),
            max_predicates=bounds.max_predicates,
            max_context=bounds.max_context,
            rules=table_rules(rules, table.name),
            space=space_of(first.table, cross),
            report=lambda text: task.describe(f"seeding table {table.name}: {text}"),
        )
        _remember(maintainer, table, first)
    progress.note(f"table {table.name}: {maintainer.row_count:,} rows, {maintainer.count:,} constraints")
    about = noted(table, settings, first.known, first.table.schema)
    about |= {"watches_fields": True, "declared": declared_columns(table)}
    if first.sequence is not None:
        about["sequence"] = {"name": first.sequence.name, "type": str(first.sequence.type)}
    values = followed_values(first.table, settings, rules)
    return SeededTable(maintainer, {**about, "source": dict(first.source or {})}, values)


def declared_columns(table: TableSettings) -> list[str]:
    """Return the columns whose type the configuration gives."""
    return sorted(name for name, column in table.columns.items() if column.type is not None)


def noted(table: TableSettings, settings: Settings, known: Sequence[str], schema: Schema) -> dict[str, Any]:
    """Return what a later start has to know of a table's settings and columns."""
    excluded = [name for name in known if name not in schema]
    return {"settings": relevant_settings(table, settings), "excluded": excluded, "known": list(known)}


def followed_values(table: Table, settings: Settings, rules: Sequence[MonitoredRule]) -> list[ColumnValues] | None:
    """Return the values of the columns whose values are followed: of all, or of those that rules name."""
    values = column_values(table)
    if settings.constraints.inclusion is None:
        named = columns_of_values(rules)
        values = [column for column in values if column.member.ref in named]
    return values or None


def cross_columns(settings: Settings, schema: Schema) -> str | tuple[tuple[str, str], ...]:
    """Return which columns of a table are compared with each other."""
    cross = (settings.constraints.denial or DenialSettings()).cross_columns
    if isinstance(cross, str):
        return cross
    return tuple(pair for pair in cross if all(name in schema for name in pair))


def monitored_rules(configuration: Configuration) -> list[MonitoredRule]:
    """Return the declared rules of a configuration."""
    recounts = {rule.name: rule.recount.total_seconds() for rule in configuration.settings.rules}
    return [MonitoredRule(rule, recounts[rule.name]) for rule in configuration.rules]


def columns_of_values(rules: Sequence[MonitoredRule]) -> set[ColumnRef]:
    """Return the columns whose values declared inclusions are about."""
    found = set()
    for monitored in value_rules(rules):
        assert isinstance(monitored.rule.body, InclusionDependency)
        found |= {monitored.rule.body.dependent, monitored.rule.body.referenced}
    return found


def bounds_of(settings: Settings) -> Bounds:
    """Return which families are maintained, and how large their constraints may be."""
    denial, order = settings.constraints.denial, settings.constraints.order
    return Bounds(None if denial is None else denial.max_predicates, None if order is None else order.max_context)


def relevant_settings(table: TableSettings, settings: Settings) -> dict[str, Any]:
    """Return what of a configuration a table's state depends on."""
    denial = settings.constraints.denial or DenialSettings()
    source = table.source
    return {
        "key": list(table.key or ()),
        "columns": {
            name: {
                "type": None if c.type is None else str(c.type),
                "ordered": c.ordered,
                **({} if c.was is None else {"was": c.was}),
            }
            for name, c in sorted(table.columns.items())
        },
        "include": None if table.include is None else list(table.include),
        "exclude": list(table.exclude),
        "sequence": table.sequence,
        "sequence_retention": None if table.sequence_retention is None else table.sequence_retention.total_seconds(),
        "source": _which(source),
        **vars(bounds_of(settings)),
        "inclusion": settings.constraints.inclusion is not None,
        "cross_columns": denial.cross_columns
        if isinstance(denial.cross_columns, str)
        else [list(pair) for pair in denial.cross_columns],
    }


def sequence_of(about: Mapping[str, Any], schema: Schema) -> Column | None:
    """Return the column that orders a table's records, as it was noted at the seed."""
    noted = about.get("sequence")
    if noted is None:
        return None
    if noted["name"] in schema:
        return schema.columns[schema.index(noted["name"])]
    return Column(noted["name"], parse_type(noted["type"]))


def _which(source: Any) -> dict[str, Any] | None:
    match source:
        case KafkaSource():
            return {"format": "kafka", "topic": source.topic, "encoding": source.encoding}
        case FilesSource():
            return {"format": "files", "path": source.path, "encoding": source.encoding}
        case DeltaSource():
            return {"format": "delta", "path": source.path}
    return None


# Reading


def _first_rows(table: TableSettings, settings: Settings, spark: Callable[[], "SparkSession"]) -> _First:
    source = table.source
    if isinstance(source, DeltaSource):
        first = _snapshot(table, source, settings)
    elif table.seed is not None:
        first = _file(table, spark)
    else:
        first = _nothing(table, settings, spark)
    if isinstance(source, KafkaSource):
        from holdfast.jobs.streams import topic_source

        start = topic_source(table, source, settings).pinned_start(spark(), source.start or "earliest")
        first = replace(first, source={"start": start})
    return first


def _file(table: TableSettings, spark: Callable[[], "SparkSession"]) -> _First:
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
    if is_remote(seed.path):
        from holdfast.streaming.spark.places import fetched

        with fetched(spark(), seed.path) as path:
            return _read(table, path, options)
    return _read(table, Path(seed.path), options)


def _read(table: TableSettings, path: Path, options: ReadOptions) -> _First:
    known = column_names(path, options)
    wanted, declared = _wanted(table, known, str(path))
    options = replace(options, types=declared, ordered=_ordered(table, known), include=wanted)
    if options.strings != "all":
        options = replace(options, strings=[name for name in options.strings if name in wanted])
    return _split(table, read_table(path, options, table.name), known)


def _snapshot(table: TableSettings, source: DeltaSource, settings: Settings) -> _First:
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
    from holdfast.tables.delta import read_opened

    data = read_opened(opened, source.path, None if table.seed is None else table.seed.limit)
    known = tuple(data.column_names)
    wanted, declared = _wanted(table, known, source.path)
    options = ReadOptions(types=declared, ordered=_ordered(table, known), include=wanted)
    first = _split(table, from_arrow(data, table.name, options), known)
    return replace(first, source={"version": opened.version(), "table_id": str(metadata.id)})


def _nothing(table: TableSettings, settings: Settings, spark: Callable[[], "SparkSession"]) -> _First:
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
    return _split(table, from_arrow(pa.table(arrays), table.name, options), known)


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


def _split(table: TableSettings, read: Table, known: tuple[str, ...]) -> _First:
    """Take the sequence apart, where it is not monitored."""
    name = table.sequence
    if name is None:
        return _First(read, known)
    if name in read.schema:
        column = read[name].column
        values = read[name]
    else:
        declared = table.columns[name].type if name in table.columns else None
        if declared is None:
            raise UsageError(f"table {table.name}: give the type of the sequence column '{name}' under 'columns'")
        column, values = Column(name, declared), None
    if column.type.name not in _ORDERED or (column.type.name == "decimal" and column.type.precision > NARROW_DECIMAL):
        raise UsageError(
            f"table {table.name}: the sequence column '{name}' is a {column.type}; expected a number of at most 64 "
            "bits, a date or a timestamp"
        )
    is_monitored = (table.include is None or name in table.include) and name not in table.exclude
    if not is_monitored and name in read.schema:
        columns = tuple(c for c in read.columns if c.column.name != name)
        schema = Schema(read.schema.table, tuple(c.column for c in columns))
        read = replace(read, schema=schema, columns=columns)
    return _First(read, known, column, values)


def _remember(maintainer: Maintainer, table: TableSettings, first: _First) -> None:
    """Remember the sequences of keys where records may come late, or a version in parts."""
    if first.sequence is None and not (isinstance(table.source, DeltaSource) and table.key):
        return
    retention = table.sequence_retention
    maintainer.remember(None if retention is None else retention.total_seconds())
    if first.sequences is not None:
        nulls = first.sequences.valid
        if nulls is not None and not nulls.all():
            where = first.table.locate(int((~nulls).argmax()))
            raise InputError(f"{where}: the sequence column {table.sequence} is null; expected a value in every row")
        maintainer.remember_rows(first.table, first.sequences.keys)
