"""How a job says how far it is: a bar on a terminal, now and then a line elsewhere, nothing with --quiet.

A job is handed a `Progress` and knows nothing of where it goes:

    with progress.task("reading tax.csv", total=1_000_000) as task:
        for chunk in chunks:
            task.advance(len(chunk))

Invariant: progress goes to standard error only, and costs a job next to nothing, however often it calls.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TextIO

from holdfast.jobs.output import printable
from holdfast.jobs.secrets import masked

SECONDS_BETWEEN_LINES = 5.0


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

    def note(self, text: str) -> None:
        """Say something on a line of its own: a warning, what was found."""


def progress_on(stream: TextIO, *, quiet: bool = False) -> Progress:
    """Return the progress that suits `stream`."""
    if quiet:
        return SilentProgress()
    return TerminalProgress(stream) if stream.isatty() else PlainProgress(stream)


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

    def note(self, text: str) -> None:
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
    """

    def __init__(self, stream: TextIO, seconds: float = SECONDS_BETWEEN_LINES) -> None:
        self.stream = stream
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

    def note(self, text: str) -> None:
        """Write a line."""
        self.stream.write(printable(masked(text)) + "\n")
        self.stream.flush()


class _Bar:
    def __init__(self, bars: Any, number: Any) -> None:
        self.bars = bars
        self.number = number

    def advance(self, amount: int = 1) -> None:
        self.bars.advance(self.number, amount)

    def describe(self, text: str) -> None:
        self.bars.update(self.number, description=printable(text))


class TerminalProgress:
    """Draws a bar for each piece of work, and takes it away when the work is done."""

    def __init__(self, stream: TextIO) -> None:
        from holdfast.jobs.terminal import console_on

        self.console = console_on(stream)

    @contextmanager
    def task(self, text: str, total: int | None = None) -> Iterator[Task]:
        """Start a piece of work."""
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        with Bars(*columns, TimeRemainingColumn(), console=self.console, transient=True) as bars:
            yield _Bar(bars, bars.add_task(printable(text), total=total))

    def note(self, text: str) -> None:
        """Write a line above the bars."""
        self.console.print(printable(masked(text)), markup=False, highlight=False, soft_wrap=True)
