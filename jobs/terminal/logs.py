"""What libraries log and warn of while a command runs, as lines of the command.

Python's `logging` and `warnings` are heard, from the level that the command speaks at, at least `warning`. delta-rs and
its storages log on their own, past Python: what fails in them is raised as an error, so their log is off, unless
`RUST_LOG` is set or `--log-level debug` is given.

Invariant: each record is one line in the format of `--log-format`, and no secret is in it.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from holdfast.jobs.configuration.secrets import masked
from holdfast.jobs.terminal.output import one_line
from holdfast.jobs.terminal.progress import is_said, json_line

if TYPE_CHECKING:
    import click

IS_JSON, LEAST = "holdfast.log_is_json", "holdfast.log_level"
"""Under these names the context of a command has whether lines are JSON, and the least level that is said."""

_RUST_LOG = "RUST_LOG"
_OFF = "off"


class Lines(logging.Handler):
    """Writes records as lines on standard error.

    Attributes
    ----------
    context : of the command that runs, once its arguments are read.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.context: click.Context | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; a stream that is closed takes none."""
        meta = {} if self.context is None else self.context.meta
        level = "error" if record.levelno >= logging.ERROR else "warning"
        if not is_said(level, meta.get(LEAST, "warning")):
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
def heard() -> Iterator[Lines]:
    """Write what is logged and warned of on standard error, as lines of a command, for as long as it runs."""
    lines = Lines()
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


def let_rust_speak() -> None:
    """Let delta-rs log what it does, unless the environment says what it is to log."""
    if os.environ.get(_RUST_LOG, _OFF) == _OFF:
        os.environ[_RUST_LOG] = "deltalake=debug"
