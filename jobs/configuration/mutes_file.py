"""Reads the file of muted constraints, which people keep with the configuration.

    - {table: tax, constraint: "Zip -> City", why: "the post office moved two places"}

Invariant: all problems of the file are reported together, with their lines; an empty file mutes nothing.
"""

import os
from pathlib import Path as FilePath

from holdfast.constraints.columns import unknown_name
from holdfast.constraints.errors import UsageError
from holdfast.constraints.mutes import Mute, Mutes
from holdfast.jobs.configuration.problems import ConfigurationError, Enough, Problems, TextPosition
from holdfast.jobs.configuration.reading import content_of, decoded, validated
from holdfast.jobs.configuration.settings import MuteSettings, Settings
from holdfast.jobs.configuration.settings_model import Reading
from holdfast.jobs.configuration.yaml_text import MAX_BYTES, read_yaml, yaml_scalar


def mutes_of(settings: Settings) -> Mutes:
    """Return the muted constraints of a configuration; none where it names no file."""
    if settings.mutes is None:
        return Mutes()
    return read_mutes(settings.mutes, [table.name for table in settings.tables])


def read_mutes(file: str, tables: list[str]) -> Mutes:
    """Read a file of muted constraints.

    Parameters
    ----------
    tables : the names of the tables of the configuration.
    """
    problems = Problems()
    try:
        found = _read(file, tables, problems)
    except Enough:
        found = []
    if problems:
        raise ConfigurationError(file, problems.ordered())
    return Mutes(tuple(found))


def mute_line(table: str, text: str) -> str:
    """Return the line that mutes a constraint.

    >>> mute_line("tax", "{Zip}: [] -> City")
    '- {table: tax, constraint: "{Zip}: [] -> City"}'
    """
    return f"- {{table: {yaml_scalar(table)}, constraint: {yaml_scalar(text)}}}"


class WatchedMutes:
    """The muted constraints of a configuration, read again when their file changes.

    A file that cannot be used leaves the mutes as they were, with its problem.

    Parameters
    ----------
    settings : names the file and the tables.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stamp: tuple[int, int] | None = None
        self._found: tuple[Mutes, str | None] = Mutes(), None

    def __call__(self) -> tuple[Mutes, str | None]:
        """Return the mutes as of now, and the problem of their file."""
        if self._settings.mutes is None:
            return self._found
        try:
            about = FilePath(self._settings.mutes).stat()
            stamp = about.st_mtime_ns, about.st_size
            if stamp != self._stamp:
                self._stamp = stamp
                self._found = mutes_of(self._settings), None
        except (OSError, ConfigurationError) as error:
            self._found = self._found[0], str(error)
        return self._found


def _read(file: str, tables: list[str], problems: Problems) -> list[Mute]:
    content = content_of(file, MAX_BYTES)
    if len(content) > MAX_BYTES:
        problems.add(TextPosition(1, 1), (), f"is larger than {MAX_BYTES >> 20} MiB: this is no file of mutes")
        return []
    text = decoded(content, problems)
    document = read_yaml("" if text is None else text, os.environ, problems)
    items = [] if document.value is None else document.value
    if not isinstance(items, list):
        message = "expected a list of constraints, as in '- {table: tax, constraint: Zip -> City}'"
        problems.add(document.place(()), (), message)
        return []
    reading = Reading(str(FilePath(file).resolve().parent), document, problems)
    found = []
    for i, item in enumerate(items):
        settings = validated(MuteSettings, item, reading, (i,))
        if settings is None:
            continue
        if settings.table not in tables:
            path = (i, "table")
            problems.add(document.place(path), path, unknown_name("there is no table", settings.table, tables))
            continue
        try:
            found.append(Mute(settings.table, settings.constraint, settings.why))
        except UsageError as error:
            path = (i, "constraint")
            problems.add(document.place(path), path, str(error))
    return found
