"""The first rows of the configured tables: from a file, a Delta snapshot, or none.

What a later start has to know of a table is noted with its state (`TableRecord`): where its source goes on, and the
settings that the state was built with, so that a configuration which contradicts them is refused.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.constraints import Column, ColumnRef, InclusionDependency, Schema
from holdfast.constraints.types import parse_type
from holdfast.discovery.inclusion.seeding import ColumnValues
from holdfast.jobs.application.first_rows import first_rows
from holdfast.jobs.application.state_rows import FirstRows, StateRows
from holdfast.jobs.configuration.bounds import bounds_of
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.configuration.settings import DenialSettings, Settings
from holdfast.jobs.configuration.table_settings import DeltaSource, FilesSource, KafkaSource, TableSettings
from holdfast.streaming.commits.table_records import TableRecord
from holdfast.streaming.maintainers.holdings.contract import WholeTable
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule
from holdfast.streaming.seeding import SeededTable, table_rules, value_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.jobs.terminal.progress import Progress


_MANY_NEAR = 5_000


def seeded_table(
    table: TableSettings,
    settings: Settings,
    rules: Sequence[MonitoredRule],
    spark: Callable[[], "SparkSession"],
    progress: "Progress",
    place: StateRows,
) -> SeededTable:
    """Read and search one table.

    Parameters
    ----------
    rules : those that are monitored.
    spark : starts a session, where a source has to be asked.
    place : where the rows are to be.
    """
    with progress.task(f"reading table {table.name}") as task:
        first = first_rows(table, settings, spark, place, task.describe)
        for warning in first.warnings:
            progress.note(f"warning: {warning}", level="warning")
        for name in table.key or ():
            first.schema.index(name)

        def report(text: str) -> None:
            task.describe(f"seeding table {table.name}: {text}")

        maintainer = _maintained(first, table, settings, table_rules(rules, table.name), report)
        _remember(maintainer, table, first)
    progress.note(f"table {table.name}: {maintainer.row_count:,} rows, {maintainer.count:,} constraints")
    if len(maintainer.near) > _MANY_NEAR:
        progress.note(
            f"warning: table {table.name}: {len(maintainer.near):,} constraints nearly hold: batches take longer and "
            "outputs are larger with each; a smaller near.share or near.max_context leaves some out",
            level="warning",
        )
    sequence = first.sequence
    record = TableRecord(
        **noted(table, settings, first.known, first.schema),
        source=dict(first.source or {}),
        watches_fields=True,
        declared=declared_columns(table),
        sequence=None if sequence is None else {"name": sequence.name, "type": str(sequence.type)},
        **place.noted,
    )
    values = followed_values(lambda: first.rows, maintainer.schema, settings, rules, place)
    return SeededTable(maintainer, record, values)


def _maintained(
    first: FirstRows,
    table: TableSettings,
    settings: Settings,
    rules: Sequence[MonitoredRule],
    report: Callable[[str], object],
) -> Maintainer:
    """Search a table, where its rows are."""
    rows, bounds = first.rows, bounds_of(table, settings)
    cross = cross_columns(settings, rows.schema) if bounds.max_predicates is not None else "none"
    return Maintainer.seeded(
        rows, key=table.key or (), bounds=bounds, rules=rules, space=rows.space(cross), report=report
    )


def declared_columns(table: TableSettings) -> list[str]:
    """Return the columns whose type the configuration gives."""
    return sorted(name for name, column in table.columns.items() if column.type is not None)


def noted(table: TableSettings, settings: Settings, known: Sequence[str], schema: Schema) -> dict[str, Any]:
    """Return what a later start has to know of a table's settings and columns."""
    excluded = [name for name in known if name not in schema]
    return {"settings": relevant_settings(table, settings), "excluded": excluded, "known": list(known)}


def followed_values(
    rows: Callable[[], WholeTable],
    schema: Schema,
    settings: Settings,
    rules: Sequence[MonitoredRule],
    place: StateRows,
) -> list[ColumnValues] | None:
    """Return the values of the columns whose values are followed: of all, or of those that rules name.

    Of rows in blocks none of them: `place` brings them into files once it knows all tables.

    Parameters
    ----------
    rows : returns the rows of the table.
    """
    followed = _followed(schema, settings, rules)
    return rows().values(followed, place.follow) if followed else None


def _followed(schema: Schema, settings: Settings, rules: Sequence[MonitoredRule]) -> frozenset[ColumnRef]:
    """Return the columns of a table whose values are followed."""
    refs = frozenset(ColumnRef(schema.table, name) for name in schema.names)
    return refs if settings.constraints.inclusion is not None else refs & columns_of_values(rules)


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


def relevant_settings(table: TableSettings, settings: Settings) -> dict[str, Any]:
    """Return what of a configuration a table's state depends on."""
    denial = settings.constraints.denial or DenialSettings()
    source, bounds = table.source, bounds_of(table, settings)
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
        "max_predicates": bounds.max_predicates,
        "max_context": bounds.max_context,
        "near": None if bounds.near is None else bounds.near.fields(),
        "inclusion": settings.constraints.inclusion is not None,
        "cross_columns": denial.cross_columns
        if isinstance(denial.cross_columns, str)
        else [list(pair) for pair in denial.cross_columns],
    }


def sequence_of(record: TableRecord, schema: Schema) -> Column | None:
    """Return the column that orders a table's records, as it was noted at the seed."""
    noted = record.sequence
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


def _remember(maintainer: Maintainer, table: TableSettings, first: FirstRows) -> None:
    """Remember the sequences of keys where records may come late, or a version in parts."""
    if first.sequence is None and not (isinstance(table.source, DeltaSource) and table.key):
        return
    retention = None if table.sequence_retention is None else table.sequence_retention.total_seconds()
    maintainer.remember(retention, first.versions)
