"""Reads a configuration file: its text, values and settings, then the checks between them.

Invariant: `load` returns a configuration that is complete and consistent, or raises a `ConfigurationError` with all its
problems; it raises no other error, and writes nothing.
"""

import contextlib
import datetime
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from holdfast.constraints import Rule
from holdfast.display.secrets import SHORTEST_SECRET, remember, secrets_in
from holdfast.jobs.configuration import consistency
from holdfast.jobs.configuration.plain_words import note
from holdfast.jobs.configuration.problems import ConfigurationError, Enough, Path, Problem, Problems, TextPosition
from holdfast.jobs.configuration.quantities import StoragePlace
from holdfast.jobs.configuration.rules import build_rules
from holdfast.jobs.configuration.settings import (
    OWN_PLACES,
    AlertSettings,
    BlocksSettings,
    ConstraintsSettings,
    PrometheusSettings,
    RuleSettings,
    Settings,
    blocks_place,
)
from holdfast.jobs.configuration.settings_model import Reading, Section
from holdfast.jobs.configuration.table_settings import TableSettings, has_suspects
from holdfast.jobs.configuration.yaml_text import MAX_BYTES, Document, Keyed, read_yaml

AnySection = TypeVar("AnySection", bound=Section)
_PLACE: TypeAdapter[str] = TypeAdapter(StoragePlace)


@dataclass(frozen=True)
class Configuration:
    """A configuration that can be run.

    Parameters
    ----------
    file : the name of its file, as it was given.
    settings : its sections, with defaults and absolute paths.
    rules : its declared rules, in order.
    recounts : by rule, the shortest time between two recounts of its violating rows.
    warnings : settings that are valid, and may lose records or show figures to others.
    secrets : the secrets in its settings, and in the environment variables that these name.
    rule_paths : by rule, the path of its declaration.
    locate : returns the position of a setting in the file.
    """

    file: str
    settings: Settings
    rules: tuple[Rule, ...]
    warnings: tuple[Problem, ...] = ()
    secrets: frozenset[str] = frozenset()
    recounts: Mapping[str, datetime.timedelta] = field(default_factory=dict)
    rule_paths: Mapping[str, Path] = field(default_factory=dict)
    locate: Callable[[Path], TextPosition] = field(default=lambda _: TextPosition(), compare=False)

    def __repr__(self) -> str:
        return f"Configuration({self.file!r}, {self.settings.name!r})"


def load(file: str | FilePath, environment: Mapping[str, str] | None = None) -> Configuration:
    """Read a configuration file.

    Parameters
    ----------
    file : relative paths in it start at its folder.
    environment : the variables that `${NAME}` stands for; by default those of the process.
    """
    from holdfast.jobs.configuration.mutes_file import mutes_of

    content = content_of(file, MAX_BYTES)
    found = read_configuration(content, str(file), FilePath(file).resolve().parent, environment)
    mutes_of(found.settings)  # refuses a file that cannot be used, before the command does anything else
    return found


def content_of(file: str | FilePath, at_most: int) -> bytes:
    """Return the bytes of a file, at most one byte more than `at_most`."""
    try:
        with FilePath(file).open("rb") as stream:
            return stream.read(at_most + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a file's name"
        raise ConfigurationError(str(file), [Problem(TextPosition(), (), f"cannot be read: {reason}")]) from None


def read_configuration(
    content: bytes, file: str, folder: str | FilePath, environment: Mapping[str, str] | None = None
) -> Configuration:
    """Read a configuration from bytes; `file` is its name in messages."""
    problems = Problems()
    try:
        return _read(content, file, folder, environment, problems)
    except Enough:
        raise ConfigurationError(file, problems.ordered()) from None


def _read(
    content: bytes, file: str, folder: str | FilePath, environment: Mapping[str, str] | None, problems: Problems
) -> Configuration:
    document = _document(content, os.environ if environment is None else environment, problems)
    if not isinstance(document.value, Keyed):
        if not problems:
            given = "nothing" if document.value is None else f"a {type(document.value).__name__}"
            problems.add(
                TextPosition(1, 1),
                (),
                f"expected settings such as 'name: airport', given {given}; 'holdfast init' writes an example",
            )
        raise ConfigurationError(file, problems.ordered())
    reading = Reading(str(folder), document, problems)
    settings = validated(Settings, document.value, reading)
    checked = _Checked(reading)
    checked.everything()
    if problems or settings is None:
        raise ConfigurationError(file, problems.ordered()) from None
    secrets = frozenset(text for text in secrets_in(settings.model_dump()) if len(text) >= SHORTEST_SECRET)
    hidden = secrets | problems.secrets
    remember(hidden)
    return Configuration(
        file,
        settings,
        tuple(checked.rules),
        checked.warnings.ordered(),
        hidden,
        checked.recounts,
        checked.rule_paths,
        document.place,
    )


def _document(content: bytes, environment: Mapping[str, str], problems: Problems) -> Document:
    if len(content) > MAX_BYTES:
        problems.add(TextPosition(1, 1), (), f"is larger than {MAX_BYTES >> 20} MiB: this is no configuration")
        return Document()
    text = decoded(content, problems)
    return Document() if text is None else read_yaml(text, environment, problems)


def decoded(content: bytes, problems: Problems) -> str | None:
    """Return the text of a file; None, and a problem, where the bytes are not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        byte = content[error.start]
        problems.add(TextPosition(line, column), (), f"byte 0x{byte:02X} is not UTF-8: save the file as UTF-8 text")
    return None


def validated(section: type[AnySection], value: Any, reading: Reading, at: Path = ()) -> AnySection | None:
    """Return a section; None, and its problems, where it is not valid."""
    try:
        return section.model_validate(value, context=reading)
    except ValidationError as error:
        note(error, reading, at)
    return None


class _Checked:
    """Checks the sections of a configuration against each other, as far as they are valid."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.top: Keyed = reading.document.value
        self.warnings = Problems(secrets=reading.problems.secrets)
        self.tables = self.sections("tables", TableSettings)
        self.rules: list[Rule] = []
        self.rule_names: list[str] = []
        self.recounts: dict[str, datetime.timedelta] = {}
        self.rule_paths: dict[str, Path] = {}
        self.constraints = validated(ConstraintsSettings, self.top.get("constraints") or {}, reading, ("constraints",))
        self.blocks = None
        if isinstance(given := self.top.get("blocks"), Keyed):
            self.blocks = validated(BlocksSettings, given, reading, ("blocks",))

    def items(self, key: str) -> list[Any]:
        value = self.top.get(key)
        return value if isinstance(value, list) else []

    def sections(self, key: str, section: type[AnySection]) -> list[tuple[int, AnySection]]:
        """Return the valid sections of a list, with their indexes."""
        found = [(i, validated(section, item, self.reading, (key, i))) for i, item in enumerate(self.items(key))]
        return [(i, item) for i, item in found if item is not None]

    def names(self, key: str) -> list[tuple[int, str]]:
        """Return the names of the sections of a list, whether they are valid or not."""
        named = [(i, item.get("name")) for i, item in enumerate(self.items(key)) if isinstance(item, dict)]
        return [(i, str(name)) for i, name in named if isinstance(name, str)]

    def note(self, findings: Iterable[consistency.Finding], below: Path = (), problems: Problems | None = None) -> None:
        for path, message in findings:
            at = (*below, *path)
            target = self.reading.problems if problems is None else problems
            target.add(self.reading.document.place(at), at, message)

    def everything(self) -> None:
        for key in ("tables", "rules"):
            self.note(consistency.check_names(key, self.names(key)))
        for i, table in self.tables:
            self.note(consistency.check_table(table), ("tables", i))
            for finding in consistency.table_warnings(table):
                self.note([finding], ("tables", i), self.warnings)
        self.check_engine()
        self.note(consistency.check_places(self.places(), self.tables))
        if self.constraints is not None:
            tables = [table for _, table in self.tables]
            self.note(consistency.check_constraints(self.constraints, self.items("rules"), tables))
        self.check_rules()
        self.check_alerts()
        if isinstance(given := self.top.get("prometheus"), Keyed):
            prometheus = validated(PrometheusSettings, given, self.reading, ("prometheus",))
            if prometheus is not None:
                self.note(consistency.prometheus_warnings(prometheus), ("prometheus",), self.warnings)

    def places(self) -> dict[str, str]:
        """Return the folders and addresses that Holdfast writes to, as far as they are valid."""
        found: dict[str, str] = {}
        for name in OWN_PLACES:
            value = self.top.get(name)
            with contextlib.suppress(ValidationError):  # a problem of the settings already
                found[name] = _PLACE.validate_python(value, context=self.reading)
        if self.top.get("engine") == "spark" and "state" in found:
            found["blocks"] = blocks_place(found["state"], self.blocks)
        return found

    def check_engine(self) -> None:
        spark = self.top.get("spark")
        master = spark.get("spark.master") if isinstance(spark, Keyed) else None
        given = None if master is None else str(master)
        self.note(consistency.check_engine(self.top.get("engine"), given, self.blocks, self.tables))

    def check_rules(self) -> None:
        columns: dict[str, frozenset[str] | None] = dict.fromkeys(name for _, name in self.names("tables"))
        excluded = {}
        for _, table in self.tables:
            columns[table.name] = table.known_columns
            excluded[table.name] = frozenset(table.exclude)
        declared = dict(self.names("rules"))
        names = {i: [name] for i, name in declared.items()}
        for i, settings in self.sections("rules", RuleSettings):

            def refuse(path: Path, message: str, below: Path = ("rules", i)) -> None:
                self.note([(path, message)], below)

            rules = build_rules(settings, columns, refuse)
            names[i] = [rule.name for rule in rules] or names[i]
            for rule in rules:
                hidden = sorted(rule.columns & excluded.get(rule.table, frozenset()))
                if hidden and columns[rule.table] is None:
                    problem = f"names '{hidden[0]}', which table {rule.table} excludes: monitor it, or remove it here"
                    refuse((settings.form,), problem)
                elif rule.name in self.recounts and [*declared.values()].count(rule.name) < 2:  # check_names has others
                    refuse(("name",), f"'{rule.name}' is the name of a rule already: choose another")
                else:
                    self.rules.append(rule)
                    self.recounts[rule.name] = settings.recount
                    self.rule_paths[rule.name] = ("rules", i, settings.form)
        self.rule_names = [name for several in names.values() for name in several]

    def check_alerts(self) -> None:
        tables = dict.fromkeys((name for _, name in self.names("tables")), True)
        tables |= {table.name: table.near is not None for _, table in self.tables}
        in_blocks = self.top.get("engine") == "spark"
        known = {table.name: not in_blocks and has_suspects(table) for _, table in self.tables}
        searched = {name: known.get(name, not in_blocks) for name in tables}
        for i, alert in self.sections("alerts", AlertSettings):
            self.note(consistency.check_alert(alert, self.constraints, tables, self.rule_names), ("alerts", i))
            self.note(consistency.check_suspect_alert(alert, searched, in_blocks=in_blocks), ("alerts", i))
