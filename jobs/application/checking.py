"""Checks a configuration against its data: files, folders, servers, and the columns that tables have.

    tables   the seed or the source can be read, and has the columns that are named; a folder of changes exists
    rules    the columns that they name exist, with types that can be compared so

Of a table that is seeded already, the columns are those of the state. A large text file is not read to find the types
of its columns: then rules about it are checked for their columns alone.

Invariant: nothing is written; all problems are found together, each with the line of its setting.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from holdfast.constraints import HoldfastError, Rule, Schema, StateMissing
from holdfast.constraints.columns import unknown_name
from holdfast.jobs.application.first_rows import opened_delta, reading_of, seed_options
from holdfast.jobs.application.machine import broker
from holdfast.jobs.application.opening import read_state
from holdfast.jobs.application.seeding import relevant_settings
from holdfast.jobs.configuration.consistency import Finding
from holdfast.jobs.configuration.problems import ConfigurationError, Problems
from holdfast.jobs.configuration.quantities import is_remote
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.configuration.rules import named_columns
from holdfast.jobs.configuration.rules_files import unfit
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.configuration.table_settings import DeltaSource, FilesSource, KafkaSource, TableSettings
from holdfast.state.rocks import holds_store
from holdfast.streaming.state_view import StateView
from holdfast.tables import from_arrow, read_table
from holdfast.tables.file_rows import FileRows
from holdfast.tables.options import ReadOptions
from holdfast.tables.pipes import is_pipe
from holdfast.tables.reading import text_size

_MOST_BYTES = 64 << 20


class _Known(NamedTuple):
    """What is known of the columns of a table.

    Parameters
    ----------
    names : the names of all columns.
    schema : the monitored columns with their types; None where they are not known.
    """

    names: tuple[str, ...]
    schema: Schema | None


def refuse_misfits(
    configuration: Configuration, *, folders: bool = True, servers: bool = True, replaces: bool = False
) -> None:
    """Raise an error with all problems of a configuration that its data show, if there are any.

    Parameters
    ----------
    folders, servers : whether the folders and the servers that changes come from are checked.
    replaces : whether a state that exists is replaced, so that its tables are read anew.
    """
    settings = configuration.settings
    problems = Problems(secrets=set(configuration.secrets))

    def add(path: tuple[str | int, ...], message: str) -> None:
        problems.add(configuration.locate(path), path, message)

    seeded = {} if replaces else _seeded(configuration)
    known: dict[str, _Known] = {}
    ruled = {table for rule in configuration.rules for table, _ in named_columns(rule)}
    for i, table in enumerate(settings.tables):
        look = _Look(table, settings, is_typed=table.name in ruled)
        findings = list(look.folder()) if folders else []
        findings += look.servers() if servers else ()
        findings += () if table.name in seeded else look.columns()
        for path, message in findings:
            add(("tables", i, *path), message)
        found = seeded.get(table.name, look.known)
        if found is not None:
            known[table.name] = found
    for rule in configuration.rules:
        for message in _rule_misfits(rule, known):
            add(configuration.rule_paths[rule.name], message)
    if problems:
        raise ConfigurationError(configuration.file, problems.ordered())


def _seeded(configuration: Configuration) -> dict[str, _Known | None]:
    """Return the columns of the tables that a state has; None for a table whose columns a setting may change."""
    settings = configuration.settings
    known: dict[str, _Known | None] = {}
    try:
        if not holds_store(Path(settings.state)):
            return {}
        with read_state(configuration) as (store, _):
            view = StateView(store)
            for table in settings.tables:
                record = view.tables.get(table.name)
                if record is None:
                    continue
                known[table.name] = None
                gets_columns = isinstance(table.source, DeltaSource)
                if not gets_columns and record.settings == relevant_settings(table, settings):
                    schema = view.definition(table.name).space.schema
                    known[table.name] = _Known(tuple(record.known or schema.names), schema)
    except StateMissing:  # its seed was interrupted
        return {}
    except HoldfastError:  # said by the command that needs the state
        return dict.fromkeys(table.name for table in settings.tables)
    return known


def _rule_misfits(rule: Rule, known: Mapping[str, _Known]) -> Iterator[str]:
    """Yield the reasons why a rule cannot be monitored, as far as its tables are known."""
    tables = {table for table, _ in named_columns(rule)}
    if not tables <= known.keys():
        return
    missing = [(table, column) for table, column in named_columns(rule) if column not in known[table].names]
    for table, column in missing:
        yield unknown_name(f"table {table} has no column", column, known[table].names)
    schemas = {table: known[table].schema for table in tables}
    typed = {table: schema for table, schema in schemas.items() if schema is not None}
    if not missing and len(typed) == len(schemas):
        yield from unfit(rule, typed)


class _Look:
    """A look at the data of one table.

    Parameters
    ----------
    is_typed : whether the types of the columns are needed too.
    """

    def __init__(self, table: TableSettings, settings: Settings, *, is_typed: bool) -> None:
        self.known: _Known | None = None
        self._is_typed = is_typed
        self._table = table
        self._settings = settings

    def folder(self) -> Iterator[Finding]:
        """Yield the problem of the folder that changes come from."""
        source = self._table.source
        if isinstance(source, FilesSource) and not is_remote(source.path) and not Path(source.path).is_dir():
            yield (
                ("source", "path"),
                f"the folder of changes {source.path} does not exist: make it, or correct the path",
            )

    def servers(self) -> Iterator[Finding]:
        """Yield the problem of the brokers that changes come from: none of them answers."""
        source = self._table.source
        found = [broker(server) for server in source.servers] if isinstance(source, KafkaSource) else []
        if found and all(one.status == "fail" for one in found):
            told = "; ".join(f"{one.check}: {one.found}" for one in found)
            yield ("source", "servers"), f"no broker answers ({told}): check the addresses, and that the brokers run"

    def columns(self) -> Iterator[Finding]:
        """Yield the problems of the first rows, and find the columns of the table."""
        table = self._table
        at: tuple[str, ...] = ("source", "path") if isinstance(table.source, DeltaSource) else ("seed", "path")
        where = str(table.source.path if isinstance(table.source, DeltaSource) else table.seed and table.seed.path)
        try:
            names = self._names()
            if names is None:
                return
            self.known = _Known(names, None)
            misnamed = list(self._misnamed(where, names))
            yield from misnamed
            if self._is_typed and not misnamed:
                self.known = _Known(names, self._schema(names))
        except HoldfastError as error:
            yield at, str(error)

    def _names(self) -> tuple[str, ...] | None:
        """Return the names of the columns of the first rows; None where only the source can say them."""
        table = self._table
        if isinstance(table.source, DeltaSource):
            return tuple(pa.schema(opened_delta(table, self._settings).schema().to_arrow()).names)
        if table.seed is not None and not is_remote(table.seed.path) and not is_pipe(Path(table.seed.path)):
            options = replace(seed_options(table.seed), limit=0, strings=())
            return read_table(table.seed.path, options).schema.names
        return None

    def _misnamed(self, where: str, names: tuple[str, ...]) -> Iterator[Finding]:
        """Yield the settings of columns that the first rows do not have."""
        table = self._table
        for setting in ("include", "exclude", "key", "columns"):
            for name in getattr(table, setting) or ():
                if name not in names and name != table.sequence:
                    at = (setting, name) if setting == "columns" else (setting,)
                    yield at, unknown_name(f"{where} has no column", name, names)

    def _schema(self, names: tuple[str, ...]) -> Schema | None:
        """Return the monitored columns with their types; None for a text file that is too large."""
        table = self._table
        if isinstance(table.source, DeltaSource):
            empty = pa.schema(opened_delta(table, self._settings).schema().to_arrow()).empty_table()
            return from_arrow(empty, table.name, reading_of(table, ReadOptions(), names, "")).schema
        assert table.seed is not None
        path, options = Path(table.seed.path), reading_of(table, seed_options(table.seed), names, table.seed.path)
        size = text_size(path)
        if size > _MOST_BYTES:
            return None
        if size:
            return FileRows.of(path, options, table.name).schema
        return read_table(path, replace(options, limit=0), table.name).schema
