"""How a job says how far it is: a bar on a terminal, now and then a line elsewhere, nothing with --quiet.

A job is handed a `Progress` and knows nothing of where it goes:

    with progress.task("reading tax.csv", total=1_000_000) as task:
        for chunk in chunks:
            task.advance(len(chunk))

With `--log-format json` each line is one object: time, level, event, and either figures or a message.

Invariant: progress goes to standard error only, and costs a job next to nothing, however often it calls; no secret of
the configuration is in it.
"""

import datetime
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

from holdfast.jobs.configuration.secrets import masked, masked_settings
from holdfast.jobs.terminal.output import printable

SECONDS_BETWEEN_LINES = 5.0
LEVELS = ("debug", "info", "warning", "error")

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Voice:
    """How a job speaks: --quiet, --log-level, --log-format.

    Parameters
    ----------
    level : the least that is said, one of `LEVELS`.
    as_json : whether lines are for machines.
    """

    quiet: bool = False
    level: str = "info"
    as_json: bool = False

    @property
    def least(self) -> str:
        """The least that is said, where `quiet` leaves errors alone."""
        return "error" if self.quiet else self.level


class Task(Protocol):
    """One piece of work under way."""

    def advance(self, amount: int = 1) -> None:
        """Note that so much more is done."""

    def describe(self, text: str) -> None:
        """Change what it is called."""


class Progress(Protocol):
    """Where progress and notes go."""

    def task(self, text: str, total: int | None = None) -> AbstractContextManager[Task]:
        """Start a piece of work; `total` is None where it is not known."""

    def note(self, text: str, *, level: str = "info", event: str = "note", fields: Fields | None = None) -> None:
        """Say something on a line of its own: a warning, what was found.

        Parameters
        ----------
        level : one of `LEVELS`.
        event, fields : for lines that machines read: what it is, and its figures.
        """


SPOKEN = Voice()


def progress_on(stream: TextIO, *, quiet: bool = False) -> Progress:
    """Return the progress that suits `stream`."""
    if quiet:
        return SilentProgress()
    return TerminalProgress(stream) if stream.isatty() else PlainProgress(stream)


def spoken_on(stream: TextIO, voice: Voice, mask: Callable[[str], str] = masked) -> Progress:
    """Return the progress that suits `stream` and what was asked for; `mask` takes secrets out of lines."""
    if voice.as_json:
        return JsonProgress(stream, level=voice.least, mask=mask)
    if voice.quiet:
        return SilentProgress()
    if stream.isatty():
        return TerminalProgress(stream, voice.level, mask)
    return PlainProgress(stream, level=voice.level, mask=mask)


def is_said(level: str, least: str) -> bool:
    """Whether something of a level is said where `least` is the least that is."""
    return LEVELS.index(level) >= LEVELS.index(least)


def json_line(level: str, event: str, text: str, fields: Fields | None, mask: Callable[[str], str] = masked) -> str:
    """Return one line for machines; its figures say all that its text says.

    >>> line = json.loads(json_line("warning", "note", "warning: password=hunter2", None))
    >>> line["level"], line["message"]
    ('warning', 'password=***')
    """
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    said = {"message": text.strip().removeprefix(f"{level}: ")} if fields is None else masked_settings(fields)
    safe = {name: mask(value) if isinstance(value, str) else value for name, value in said.items()}
    return json.dumps({"time": now, "level": level, "event": event, **safe}, ensure_ascii=False) + "\n"


class _SilentTask:
    def advance(self, amount: int = 1) -> None:
        """Do nothing."""

    def describe(self, text: str) -> None:
        """Do nothing."""


class SilentProgress:
    """Says nothing."""

    @contextmanager
    def task(self, text: str, total: int | None = None) -> Iterator[Task]:  # noqa: ARG002
        """Start a piece of work."""
        yield _SilentTask()

    def note(self, text: str, *, level: str = "info", event: str = "note", fields: Fields | None = None) -> None:
        """Say nothing."""


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
    """Writes a line every few seconds at most; work that is done sooner is not mentioned.

    Parameters
    ----------
    stream : takes the lines.
    seconds : at least so long between two.
    level : the least that is said.
    mask : takes secrets out of what is said.
    """

    def __init__(
        self,
        stream: TextIO,
        seconds: float = SECONDS_BETWEEN_LINES,
        level: str = "info",
        mask: Callable[[str], str] = str,
    ) -> None:
        self.stream = stream
        self.level = level
        self.mask = mask
        self.seconds = seconds
        self.last = time.monotonic()

    @contextmanager
    def task(self, text: str, total: int | None = None) -> Iterator[Task]:
        """Start a piece of work."""
        yield _PlainTask(self, text, total)

    def maybe(self, task: object) -> None:
        """Write `task` if the last line is long enough ago."""
        now = time.monotonic()
        if now - self.last >= self.seconds:
            self.last = now
            self.note(str(task))

    def note(self, text: str, *, level: str = "info", event: str = "note", fields: Fields | None = None) -> None:
        """Write a line."""
        if is_said(level, self.level):
            self.stream.write(self.line(text, level, event, fields))
            self.stream.flush()

    def line(self, text: str, level: str, event: str, fields: Fields | None) -> str:  # noqa: ARG002  (in words)
        """Return the line that says something."""
        return printable(self.mask(text)) + "\n"


class JsonProgress(PlainProgress):
    """Writes lines for machines, one object each."""

    def line(self, text: str, level: str, event: str, fields: Fields | None) -> str:
        """Return the line that says something."""
        return json_line(level, event, text, fields, self.mask)


class _Bar:
    def __init__(self, bars: Any, number: Any) -> None:
        self.bars = bars
        self.number = number

    def advance(self, amount: int = 1) -> None:
        self.bars.advance(self.number, amount)

    def describe(self, text: str) -> None:
        self.bars.update(self.number, description=printable(text))


class TerminalProgress:
    """Draws a bar for each piece of work, and takes it away when the work is done.

    Parameters
    ----------
    stream : a terminal.
    level : the least that is said.
    mask : takes secrets out of what is said.
    """

    def __init__(self, stream: TextIO, level: str = "info", mask: Callable[[str], str] = str) -> None:
        from holdfast.jobs.terminal.console import console_on

        self.level = level
        self.mask = mask
        self.console = console_on(stream)

    @contextmanager
    def task(self, text: str, total: int | None = None) -> Iterator[Task]:
        """Start a piece of work."""
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        hidden = not is_said("info", self.level)
        with Bars(*columns, TimeRemainingColumn(), console=self.console, transient=True, disable=hidden) as bars:
            yield _Bar(bars, bars.add_task(printable(text), total=total))

    def note(self, text: str, *, level: str = "info", event: str = "note", fields: Fields | None = None) -> None:  # noqa: ARG002  (in words)
        """Write a line above the bars."""
        if is_said(level, self.level):
            self.console.print(printable(self.mask(text)), markup=False, highlight=False, soft_wrap=True)
