"""Seeds the configured tables from their first rows.

Each table has a record in its state (`TableRecord`): where its source continues, and the settings that the state was
built with, so that a later configuration that contradicts them is refused.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.constraints import Column, ColumnRef, InclusionDependency, Schema
from holdfast.constraints.types import parse_type
from holdfast.discovery.inclusion.seeding import ColumnValues
from holdfast.jobs.application.alerting import alerts_of
from holdfast.jobs.application.blocks import StateRows
from holdfast.jobs.application.first_rows import first_rows
from holdfast.jobs.application.state_rows import FirstRows
from holdfast.jobs.configuration.bounds import bounds_of, suspect_batches
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.configuration.settings import DenialSettings, Settings
from holdfast.jobs.configuration.table_settings import DeltaSource, FilesSource, KafkaSource, TableSettings
from holdfast.state.commits import Commits
from holdfast.streaming.commits.table_records import TableRecord
from holdfast.streaming.maintainers.holdings.contract import WholeTable
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule
from holdfast.streaming.seeding import Earlier, SeededTable, seed, table_rules, value_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.jobs.terminal.progress import Progress


_MANY_NEAR = 5_000


@dataclass(frozen=True)
class TableSeeder:
    """Seeds the tables of one state.

    Parameters
    ----------
    settings, rules : the configuration, and its monitored rules.
    spark : starts a session, where a source has to be queried.
    place : where the rows of the state are.
    """

    settings: Settings
    rules: Sequence[MonitoredRule]
    spark: Callable[[], "SparkSession"]
    place: StateRows
    progress: "Progress"

    def seed(self, commits: Commits, tables: Iterable[SeededTable], earlier: Earlier) -> dict[str, Maintainer]:
        """Write seeded tables into an empty state; return their maintainers by name."""
        alerts, watched = alerts_of(self.settings), self.settings.constraints.inclusion is None
        values = self.place.clustered
        return seed(commits, tables, earlier, rules=self.rules, alerts=alerts, watched=watched, clustered=values)

    def seeded(self, table: TableSettings) -> SeededTable:
        """Read a table, and search it for constraints."""
        with self.progress.task(f"reading table {table.name}") as task:
            first = first_rows(table, self.settings, self.spark, self.place, task.describe)
            for warning in first.warnings:
                self.progress.note(f"warning: {warning}", level="warning")
            for name in table.key or ():
                first.schema.index(name)

            def report(text: str) -> None:
                task.describe(f"seeding table {table.name}: {text}")

            maintainer = self._maintained(first, table, report)
            self.search_suspects(maintainer, report)
        self._note(maintainer, table.name)
        sequence = first.sequence
        record = TableRecord(
            **noted(table, self.settings, first.known, first.schema),
            source=dict(first.source or {}),
            watches_fields=True,
            declared=declared_columns(table),
            sequence=None if sequence is None else {"name": sequence.name, "type": str(sequence.type)},
            **self.place.noted,
        )
        return SeededTable(maintainer, record, self.values(lambda: first.rows, maintainer.schema))

    def values(self, rows: Callable[[], WholeTable], schema: Schema) -> list[ColumnValues] | None:
        """Return the values of the columns that inclusions need: of all columns, or of those that rules name.

        For rows in blocks the values are None: `place` writes them into files once all tables are seeded.

        Parameters
        ----------
        rows : returns the rows of the table.
        """
        refs = frozenset(ColumnRef(schema.table, name) for name in schema.names)
        if self.settings.constraints.inclusion is None:
            refs &= columns_of_values(self.rules)
        return rows().values(refs, self.place.follow) if refs else None

    def _maintained(self, first: FirstRows, table: TableSettings, report: Callable[[str], object]) -> Maintainer:
        """Search a table where its rows are, and remember the sequences of its keys."""
        rows, bounds = first.rows, bounds_of(table, self.settings)
        cross = cross_columns(self.settings, rows.schema) if bounds.max_predicates is not None else "none"
        rules = table_rules(self.rules, table.name)
        maintainer = Maintainer.seeded(
            rows, key=table.key or (), bounds=bounds, rules=rules, space=rows.space(cross), report=report
        )
        if first.sequence is not None or (isinstance(table.source, DeltaSource) and table.key):
            maintainer.remember(retention_of(table), first.versions)
        return maintainer

    def search_suspects(self, maintainer: Maintainer, report: Callable[[str], object]) -> None:
        """Search for suspects of a table, and where exceptions are, if its settings say so, and no search was made."""
        maintainer.follow_suspects(suspect_batches(self.settings).get(maintainer.name))
        if maintainer.near_maintainer is not None:
            report("searching for suspects")
            maintainer.near_maintainer.seed_searches()

    def _note(self, maintainer: Maintainer, name: str) -> None:
        self.progress.note(f"table {name}: {maintainer.row_count:,} rows, {maintainer.count:,} constraints")
        if len(maintainer.near) > _MANY_NEAR:
            self.progress.note(
                f"warning: table {name}: {len(maintainer.near):,} constraints nearly hold: batches take longer and "
                "outputs are larger with each; a smaller near.share or near.max_context leaves some out",
                level="warning",
            )


def retention_of(table: TableSettings) -> float | None:
    """Return how many seconds the sequences of deleted keys are remembered; None for as long as the state exists."""
    return None if table.sequence_retention is None else table.sequence_retention.total_seconds()


def declared_columns(table: TableSettings) -> list[str]:
    """Return the columns whose type the configuration declares."""
    return sorted(name for name, column in table.columns.items() if column.type is not None)


def noted(table: TableSettings, settings: Settings, known: Sequence[str], schema: Schema) -> dict[str, Any]:
    """Return the fields of a table's record that depend on its settings and columns."""
    excluded = [name for name in known if name not in schema]
    return {"settings": relevant_settings(table, settings), "excluded": excluded, "known": list(known)}


def cross_columns(settings: Settings, schema: Schema) -> str | tuple[tuple[str, str], ...]:
    """Return which different columns of a table are compared with each other."""
    cross = (settings.constraints.denial or DenialSettings()).cross_columns
    if isinstance(cross, str):
        return cross
    return tuple(pair for pair in cross if all(name in schema for name in pair))


def monitored_rules(configuration: Configuration) -> list[MonitoredRule]:
    """Return the declared rules of a configuration."""
    return [MonitoredRule(rule, configuration.recounts[rule.name].total_seconds()) for rule in configuration.rules]


def columns_of_values(rules: Sequence[MonitoredRule]) -> set[ColumnRef]:
    """Return the columns that declared inclusions name."""
    found = set()
    for monitored in value_rules(rules):
        assert isinstance(monitored.rule.body, InclusionDependency)
        found |= {monitored.rule.body.dependent, monitored.rule.body.referenced}
    return found


def relevant_settings(table: TableSettings, settings: Settings) -> dict[str, Any]:
    """Return the settings that the state of a table depends on."""
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
        "sequence_retention": retention_of(table),
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
    """Return the column that orders a table's records, as recorded at the seed."""
    sequence = record.sequence
    if sequence is None:
        return None
    if sequence["name"] in schema:
        return schema[sequence["name"]]
    return Column(sequence["name"], parse_type(sequence["type"]))


def _which(source: Any) -> dict[str, Any] | None:
    match source:
        case KafkaSource():
            return {"format": "kafka", "topic": source.topic, "encoding": source.encoding}
        case FilesSource():
            return {"format": "files", "path": source.path, "encoding": source.encoding}
        case DeltaSource():
            return {"format": "delta", "path": source.path}
    return None
