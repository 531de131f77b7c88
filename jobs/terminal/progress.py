"""Progress and notes of a command: a bar on a terminal, a line now and then elsewhere, nothing with --quiet.

A job is given a `Progress`, whatever its notes are written to:

    with progress.task("reading tax.csv", total=1_000_000) as task:
        for chunk in chunks:
            task.advance(len(chunk))

With `--log-format json` each line is one object: time, level, event, and either figures or a message.

Invariant: progress goes to standard error only, with secrets masked, and costs a job next to nothing, however often the
job reports it.
"""

import datetime
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO, TypeAlias

from holdfast.display.secrets import masked, masked_settings
from holdfast.display.texts import printable

SECONDS_BETWEEN_LINES = 5.0
LEVELS = ("debug", "info", "warning", "error")

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class LogOptions:
    """Which notes a job writes, and how: --quiet, --log-level, --log-format.

    Parameters
    ----------
    quiet : whether progress and notes are left out, except errors.
    level : the lowest level that is written, one of `LEVELS`.
    as_json : whether lines are JSON objects.
    """

    quiet: bool = False
    level: str = "info"
    as_json: bool = False

    @property
    def lowest_level(self) -> str:
        """The lowest level that is written: errors alone with `quiet`."""
        return "error" if self.quiet else self.level


DEFAULT_LOG = LogOptions()


def progress_on(stream: TextIO, log: LogOptions = DEFAULT_LOG) -> "Progress":
    """Return the progress that suits a stream and the options of a command."""
    if log.as_json:
        return JsonProgress(stream, level=log.lowest_level)
    if log.quiet:
        return SilentProgress(stream)
    return TerminalProgress(stream, log.level) if stream.isatty() else PlainProgress(stream, level=log.level)


def is_written(level: str, lowest: str) -> bool:
    """Whether notes of a level are written where `lowest` is the lowest level that is."""
    return LEVELS.index(level) >= LEVELS.index(lowest)


def json_line(level: str, event: str, text: str, fields: Fields | None) -> str:
    """Return a line for programs: with `fields` the figures, else the text as its message.

    >>> line = json.loads(json_line("warning", "note", "warning: password=hunter2", None))
    >>> line["level"], line["message"]
    ('warning', 'password=***')
    """
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    content = {"message": text.strip().removeprefix(f"{level}: ")} if fields is None else masked_settings(fields)
    safe = {name: masked(value) if isinstance(value, str) else value for name, value in content.items()}
    return json.dumps({"time": now, "level": level, "event": event, **safe}, ensure_ascii=False) + "\n"


class _PlainTask:
    def __init__(self, progress: "PlainProgress", text: str, total: int | None) -> None:
        self.progress = progress
        self.text = text
        self.total = total
        self.done = 0

    def advance(self, amount: int = 1) -> None:
        self.done += amount
        self.progress.maybe(self)

    def describe(self, text: str) -> None:
        self.text = text
        self.progress.maybe(self)

    def __str__(self) -> str:
        if not self.total:
            return f"{self.text}: {self.done:,}" if self.done else self.text
        return f"{self.text}: {self.done:,} of {self.total:,} ({self.done / self.total:.0%})"


class PlainProgress:
    """Writes a line every few seconds at most; work that ends sooner has no line.

    Parameters
    ----------
    stream : where lines are written.
    seconds : the shortest time between two lines of progress.
    level : the lowest level of notes that is written.
    """

    def __init__(self, stream: TextIO, seconds: float = SECONDS_BETWEEN_LINES, level: str = "info") -> None:
        self.stream = stream
        self.level = level
        self.seconds = seconds
        self.last = time.monotonic()

    @contextmanager
    def task(self, text: str, total: int | None = None) -> Iterator[_PlainTask]:
        """Start a piece of work; `total` is None where its amount is not known."""
        yield _PlainTask(self, text, total)

    def maybe(self, task: object) -> None:
        """Write the state of `task`, unless the last line is too recent."""
        now = time.monotonic()
        if now - self.last >= self.seconds:
            self.last = now
            self.note(str(task))

    def note(self, text: str, *, level: str = "info", event: str = "note", fields: Fields | None = None) -> None:
        """Write a line."""
        if is_written(level, self.level):
            self.stream.write(self.line(text, level, event, fields))
            self.stream.flush()

    def line(self, text: str, level: str, event: str, fields: Fields | None) -> str:  # noqa: ARG002  (in words)
        """Return a note as a line."""
        return printable(masked(text)) + "\n"


class SilentProgress(PlainProgress):
    """Writes nothing."""

    def note(self, text: str, *, level: str = "info", event: str = "note", fields: Fields | None = None) -> None:
        """Write nothing."""


class JsonProgress(PlainProgress):
    """Writes lines for programs, one object each."""

    def line(self, text: str, level: str, event: str, fields: Fields | None) -> str:
        """Return a note as a line."""
        return json_line(level, event, text, fields)


class _Bar:
    def __init__(self, bars: Any, number: Any) -> None:
        self.bars = bars
        self.number = number

    def advance(self, amount: int = 1) -> None:
        self.bars.advance(self.number, amount)

    def describe(self, text: str) -> None:
        self.bars.update(self.number, description=printable(text))


class TerminalProgress:
    """Draws a bar for each piece of work, and removes the bar when the work is done.

    Parameters
    ----------
    stream : a terminal.
    level : the lowest level of notes that is written.
    """

    def __init__(self, stream: TextIO, level: str = "info") -> None:
        from holdfast.jobs.terminal.console import console_on

        self.level = level
        self.console = console_on(stream)

    @contextmanager
    def task(self, text: str, total: int | None = None) -> Iterator["_Bar"]:
        """Start a piece of work; `total` is None where its amount is not known."""
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        hidden = not is_written("info", self.level)
        with Bars(*columns, TimeRemainingColumn(), console=self.console, transient=True, disable=hidden) as bars:
            yield _Bar(bars, bars.add_task(printable(text), total=total))

    def note(self, text: str, *, level: str = "info", event: str = "note", fields: Fields | None = None) -> None:  # noqa: ARG002  (in words)
        """Write a line above the bars."""
        if is_written(level, self.level):
            self.console.print(printable(masked(text)), markup=False, highlight=False, soft_wrap=True)


ProgressTask: TypeAlias = _PlainTask | _Bar
Progress: TypeAlias = PlainProgress | TerminalProgress
"""Shows the progress of tasks, and writes notes: `level` is one of `LEVELS`; `event` and `fields` are for programs."""
