"""Checks the settings of a configuration against each other: tables, folders, rules, alerts.

Each check sees the sections that are valid, so that an invalid section does not hide the problems of others.
Invariant: checks use the settings alone, never the disk or the network (`doctor` does).
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import PurePosixPath
from urllib.parse import unquote

from holdfast.constraints.columns import unknown_name
from holdfast.jobs.configuration.problems import Path
from holdfast.jobs.configuration.quantities import contains, is_remote
from holdfast.jobs.configuration.settings import (
    NEAR,
    SUSPECT,
    AlertSettings,
    BlocksSettings,
    ConstraintsSettings,
    PrometheusSettings,
)
from holdfast.jobs.configuration.table_settings import DeltaSource, FilesSource, KafkaSource, TableSettings

Finding = tuple[Path, str]
"""The path of a setting, and its problem."""

_UNREACHED = (
    "executors of {master} have to reach the blocks of rows: add 'blocks: {{path: ...}}' with a folder that this "
    "machine shares with all of them, or an address of an object store"
)
_NO_VERSION = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".arrow", ".feather")


def check_table(table: TableSettings) -> Iterator[Finding]:
    """Yield the problems of a table; paths start below it."""
    yield from _check_columns(table)
    yield from _check_changes(table)
    seed, source = table.seed, table.source
    if seed is None and source is None:
        yield (), "has neither a seed nor a source, so it would stay empty: add one"
    if seed is not None and seed.version is not None and PurePosixPath(seed.path).suffix.lower() in _NO_VERSION:
        yield ("seed", "version"), "is for Delta tables; this path names a file: remove one of them"
    if isinstance(source, KafkaSource) and seed is not None and source.start is None:
        yield (
            ("source", "start"),
            "is missing, and the table has a seed: say where the seed ends (earliest, a time, or {partition: offset})",
        )
    if isinstance(source, DeltaSource) and seed is not None and seed.path != source.path:
        yield (
            ("seed", "path"),
            "differs from the Delta source: its feed continues its own snapshot; leave it out",
        )


def table_warnings(table: TableSettings) -> Iterator[Finding]:
    """Yield settings of a table that are valid, and may lose records."""
    source = table.source
    if not isinstance(source, KafkaSource):
        return
    if source.encoding == "debezium" and table.key is None:
        yield (), "has no key: every record must hold the whole old row: set REPLICA IDENTITY FULL or declare a key"
    if source.start == "latest":
        yield ("source", "start"), "is latest: records written before the first start are not read"


def _check_columns(table: TableSettings) -> Iterator[Finding]:
    if table.include is not None and table.exclude:
        yield ("exclude",), "stands beside include: give one of the two"
    included, excluded = frozenset(table.include or ()), frozenset(table.exclude)
    for name in table.key or ():
        if name in excluded or (table.include is not None and name not in included):
            where = "is excluded" if name in excluded else "is not in include"
            yield ("key",), f"key column '{name}' {where}: a key's columns must be monitored"
    if table.include is not None:
        for name in table.columns:
            if name not in included and name != table.sequence:
                yield ("columns", name), unknown_name("include does not have", name, table.include)
    source = table.source
    if not isinstance(source, KafkaSource) or source.encoding == "json":
        for name, column in table.columns.items():
            if column.encoding is not None:
                yield (
                    ("columns", name, "encoding"),
                    "is for Kafka records of encoding debezium or upsert",
                )
    if table.seed is None and source is not None and not table.has_schema:
        yield from _check_types_of_empty(table)


def _check_types_of_empty(table: TableSettings) -> Iterator[Finding]:
    """Yield the missing types of a table that starts empty, where no type can be inferred."""
    if not table.columns:
        yield (), "starts empty and its source has no schema: give every column's type under 'columns', or a seed"
        return
    for name, column in table.columns.items():
        if column.type is None:
            yield ("columns", name), "needs its type: the table starts empty and its source has no schema"
    needed = [("key", name) for name in table.key or ()] + [("include", name) for name in table.include or ()]
    if table.sequence is not None:
        needed.append(("sequence", table.sequence))
    for path, name in needed:
        if name not in table.columns:
            yield (path,), unknown_name("'columns' does not have", name, table.columns)


def _check_changes(table: TableSettings) -> Iterator[Finding]:
    source = table.source
    if isinstance(source, KafkaSource) and table.key is None:
        if source.encoding == "upsert":
            yield (
                ("key",),
                "is missing: upsert records are identified by their key; add 'key: [column, ...]'",
            )
        if source.encoding == "debezium-unwrapped":
            yield (
                ("key",),
                "is missing: unwrapped records do not hold the old row; add 'key: [column, ...]'",
            )
    if table.sequence is not None and table.key is None:
        yield ("sequence",), "orders the changes of one key: add 'key: [column, ...]'"
    if table.sequence_retention is not None and table.sequence is None:
        yield ("sequence_retention",), "goes with 'sequence: <column>'"
    if source is None:
        for name in ("sequence", "settle"):
            if getattr(table, name):
                yield (name,), "goes with a source: this table never changes"


def check_names(path: str, names: Sequence[tuple[int, str]]) -> Iterator[Finding]:
    """Yield names that occur twice in a list of sections."""
    first: dict[str, int] = {}
    for position, name in names:
        if name in first:
            yield (path, position, "name"), f"'{name}' is the name of {path}[{first[name]}] already: choose another"
        first.setdefault(name, position)


def check_places(own: dict[str, str], tables: Sequence[tuple[int, TableSettings]]) -> Iterator[Finding]:
    """Yield folders and addresses that lie inside one another."""
    for (first, place), (second, other) in combinations(own.items(), 2):
        if contains(place, other) or contains(other, place):
            relation = "is the same place as" if contains(place, other) and contains(other, place) else "overlaps"
            which = f"{other} " if second == "blocks" else ""  # often not in the file
            yield (second,), f"{which}{relation} '{first}': give each a folder of its own, none inside another"
    if "output" in own and (problem := _escaped(own["output"])):
        yield ("output",), problem
    for position, table in tables:
        if isinstance(table.source, DeltaSource) and (problem := _escaped(table.source.path)):
            yield ("tables", position, "source", "path"), problem
        used = [(("seed", "path"), table.seed.path)] if table.seed else []
        if isinstance(table.source, (FilesSource, DeltaSource)):
            used.append((("source", "path"), table.source.path))
        for where, path in used:
            for name, place in own.items():
                if contains(place, path) or (where[0] == "source" and contains(path, place)):
                    yield ("tables", position, *where), f"overlaps '{name}', which Holdfast writes: use another folder"


def _escaped(place: str) -> str:
    """Return the problem of a path that delta-rs would read as another path; empty where there is none."""
    if is_remote(place) or "%" not in os.path.realpath(place):
        return ""
    from holdfast.tables.delta import escape_in

    escape = escape_in(place)
    if escape is None:
        return ""
    return f"has {escape} in its path, which delta-rs takes for '{unquote(escape)}': give the folder another name"


def check_constraints(
    constraints: ConstraintsSettings, rules: Sequence[object], tables: Sequence[TableSettings]
) -> Iterator[Finding]:
    """Yield the problems of the families that are switched on."""
    if not (constraints.families or rules or any(table.near for table in tables)):
        yield (), "nothing to maintain: add 'constraints' (denial, order, inclusion), 'rules', or 'near' to a table"
    denial = constraints.denial
    if denial is None or isinstance(denial.cross_columns, str):
        return
    known = [table.known_columns for table in tables]
    for i, pair in enumerate(denial.cross_columns):
        if known and all(columns is not None and not columns.issuperset(pair) for columns in known):
            yield (
                ("constraints", "denial", "cross_columns", i),
                f"no table has both '{pair[0]}' and '{pair[1]}'",
            )


def check_engine(
    engine: object, master: str | None, blocks: BlocksSettings | None, tables: Iterable[tuple[int, TableSettings]]
) -> Iterator[Finding]:
    """Yield settings that the engine does not support, and settings that it needs.

    Parameters
    ----------
    master : the address of a Spark cluster; None where the settings do not name one.
    tables : the tables with their indexes in the configuration.
    """
    if engine != "spark":
        if blocks is not None and engine in {None, "embedded"}:  # an unknown engine is a problem of its own
            yield ("blocks",), "is where rows are with 'engine: spark': add that, or remove this"
        return
    for i, table in tables:
        if table.near is not None and table.near.orders:
            yield (
                ("tables", i, "near", "orders"),
                "order compatibilities that nearly hold are kept with 'engine: embedded' alone: say false or remove it",
            )
        if table.near is not None and isinstance(table.near.suspects, int):
            yield (
                ("tables", i, "near", "suspects"),
                "suspects are searched with 'engine: embedded' alone: say off or remove it",
            )
    from holdfast.streaming.spark.session import is_local

    if (blocks is None or blocks.path is None) and master is not None and not is_local(master):
        yield ("engine",), _UNREACHED.format(master=master)


def prometheus_warnings(prometheus: PrometheusSettings) -> Iterator[Finding]:
    """Yield settings that are valid, and show figures to other machines; paths start below the section."""
    if not prometheus.is_local:
        who = f"whoever reaches port {prometheus.port} sees names of tables and rules with their figures"
        yield ("address",), f"is not this machine alone: {who}, without a password"


def check_alert(
    alert: AlertSettings,
    constraints: ConstraintsSettings | None,
    tables: Mapping[str, bool],
    rules: Sequence[str],
) -> Iterator[Finding]:
    """Yield the problems of an alert; paths start below it.

    Parameters
    ----------
    tables : by name of a table, whether near constraints are maintained on it.
    """
    if alert.rule is not None and alert.rule not in rules:
        yield ("rule",), unknown_name("there is no rule", alert.rule, rules)
    if alert.table is not None and alert.table not in tables:
        yield ("table",), unknown_name("there is no table", alert.table, list(tables))
    if set(alert.on) <= set(NEAR) and not (tables.get(alert.table, True) if alert.table else any(tables.values())):
        where = f"table {alert.table}" if alert.table else "a table"
        yield ("on",), f"is about constraints that nearly hold, and none are kept: add 'near: 1%' to {where}"
    if constraints is None or alert.family is None:
        return
    if alert.family not in {family.value for family in constraints.families}:
        yield ("family",), f"'{alert.family}' is not among the families that 'constraints' switches on"


def check_suspect_alert(alert: AlertSettings, searched: Mapping[str, bool], *, in_blocks: bool) -> Iterator[Finding]:
    """Yield the problem of an alert that is about suspects alone, where none are searched; paths start below it.

    Parameters
    ----------
    searched : by name of a table, whether its suspects are searched.
    in_blocks : whether rows are in blocks, where suspects are not searched.
    """
    if set(alert.on) != {SUSPECT} or (searched.get(alert.table, True) if alert.table else any(searched.values())):
        return
    if in_blocks:
        yield ("on",), "is about suspects, which are searched with 'engine: embedded' alone: remove this alert"
        return
    where = f"table {alert.table}" if alert.table else "a table"
    yield ("on",), f"is about suspects, and none are searched: add 'near: 1%' to {where}, without 'suspects: off'"
