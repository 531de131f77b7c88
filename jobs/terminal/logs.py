"""Logs and warnings of libraries while a command runs, as lines of the command.

Records of Python's `logging` and `warnings` are written from the level of the command on, at least `warning`. delta-rs
and its storage libraries have a log of their own, outside Python. Their failures are raised as errors, so this log is
off unless `RUST_LOG` is set or `--log-level debug` is given.

Invariant: each record is one line in the format of `--log-format`, with secrets masked.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from holdfast.display.secrets import masked
from holdfast.jobs.terminal.output import one_line
from holdfast.jobs.terminal.progress import is_written, json_line

if TYPE_CHECKING:
    import click

IS_JSON, LOWEST_LEVEL = "holdfast.log_is_json", "holdfast.log_level"
"""The keys of a command's context for whether lines are JSON, and for the lowest level that is written."""

_RUST_LOG = "RUST_LOG"
_OFF = "off"


class LogLines(logging.Handler):
    """Writes log records as lines on standard error.

    Attributes
    ----------
    context : the context of the running command, once its arguments are read.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.context: click.Context | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; nothing where standard error is closed."""
        meta = {} if self.context is None else self.context.meta
        level = "error" if record.levelno >= logging.ERROR else "warning"
        if not is_written(level, meta.get(LOWEST_LEVEL, "warning")):
            return
        text = record.getMessage().strip()
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
        if meta.get(IS_JSON, False):
            line = json_line(level, "log", "", {"logger": record.name, "message": text})
        else:
            line = one_line(masked(f"{level}: {text}"))
        with suppress(OSError, ValueError):
            sys.stderr.write(line)
            sys.stderr.flush()


@contextmanager
def logs_written() -> Iterator[LogLines]:
    """Write logs and warnings on standard error as lines of a command, as long as the command runs."""
    lines = LogLines()
    is_ours = _RUST_LOG not in os.environ
    if is_ours:
        os.environ[_RUST_LOG] = _OFF  # delta-rs reads it once, when it is loaded
    logging.getLogger().addHandler(lines)
    logging.captureWarnings(capture=True)
    try:
        yield lines
    finally:
        logging.captureWarnings(capture=False)
        logging.getLogger().removeHandler(lines)
        if is_ours:
            os.environ.pop(_RUST_LOG, None)


def let_rust_log() -> None:
    """Switch the log of delta-rs on, unless the environment sets it."""
    if os.environ.get(_RUST_LOG, _OFF) == _OFF:
        os.environ[_RUST_LOG] = "deltalake=debug"
