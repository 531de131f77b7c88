"""`holdfast`: the commands, and the only place that turns an error into an exit code.

Invariant: every error is a plain sentence on standard error, and the exit code of its kind; standard output has results
alone. Engines are imported by the job that needs them.
"""

import difflib
import errno
import fcntl
import io
import os
import select
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import click

from holdfast import __version__
from holdfast.constraints import ExternalError, HoldfastError
from holdfast.display.secrets import forget, known, masked, without
from holdfast.display.texts import printable
from holdfast.jobs.batch_commands import check, discover, exceptions, query, replay, suspects
from holdfast.jobs.configuration.problems import ConfigurationError
from holdfast.jobs.setup_commands import demo, doctor, init, jars, pack, validate
from holdfast.jobs.stream_commands import dashboard, incidents, rebuild, report, run, seed, skip_batch, status
from holdfast.jobs.terminal.advice import as_typed, configuration_in
from holdfast.jobs.terminal.logs import IS_JSON, LogLines, logs_written
from holdfast.jobs.terminal.progress import json_line
from holdfast.state.room import is_of_storage, way_out

OK, USAGE, INTERNAL, INTERRUPTED = 0, 2, 70, 130

_OF_PANICS = "pyo3_runtime"
"""The module of the error that a panic of a Rust library raises, which is no `Exception`."""

_SECTIONS = {
    "Files": (discover, check, query, exceptions, suspects, replay),
    "Live tables": (seed, run, status, incidents, rebuild, skip_batch, dashboard, report),
    "Setting up": (init, validate, doctor, demo),
    "Spark clusters": (pack, jars),
}


class _Commands(click.Group):
    """Lists the commands by their purpose."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(len(name) for name in self.commands)
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [((command.name or "").ljust(width), command.short_help or "") for command in commands]
                )


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="\b\nExit codes: 0 ok, 1 a rule is broken, 2 usage or configuration, 3 bad input data, 4 state refused,\n"
    "5 an external system failed, 70 internal error, 130 interrupted.",
)
@click.version_option(__version__, prog_name="holdfast", message="%(prog)s %(version)s")
def holdfast() -> None:
    """Keep the exact set of constraints that hold on live tables.

    Constraints are denial constraints (keys, functional dependencies and their like), order dependencies and
    inclusion dependencies. Try: holdfast demo
    """


for _commands in _SECTIONS.values():
    for _command in _commands:
        holdfast.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    _hold_standard_streams()
    sys.exit(exit_code_of(sys.argv[1:] if arguments is None else arguments))


def exit_code_of(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    forget()
    sys.stdout = sys.stdout or _Closed()  # None where it was closed before the start
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if "_HOLDFAST_COMPLETE" in os.environ:
        holdfast.main(prog_name="holdfast")
    if any("\0" in argument for argument in arguments):
        return _say(None, "an argument holds a NUL character, which no name of a file or column has", USAGE)
    with logs_written() as lines:
        return _invoked(arguments, lines)


def _invoked(arguments: Sequence[str], lines: LogLines) -> int:
    """Run a command and return its exit code; `lines` writes the logs of libraries."""
    context: click.Context | None = None
    try:
        with holdfast.make_context("holdfast", list(arguments)) as context:
            lines.context = context
            code = holdfast.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        _flush()
        return done.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return USAGE
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption):
            nearest = difflib.get_close_matches(error.option_name, error.possibilities or (), 1)
            error = click.NoSuchOption(error.option_name, possibilities=nearest, ctx=error.ctx)
        shown = io.StringIO()
        error.show(shown)
        return _say(context, masked(shown.getvalue().rstrip()), USAGE)
    except ConfigurationError as error:  # masked part by part: a setting's name alone is no secret
        return _say(context, without(known(), str(error)), error.exit_code)
    except HoldfastError as error:
        return _say(context, masked(as_typed(str(error), configuration_in(arguments))), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return _say(context, "Interrupted.", INTERRUPTED)
    except BaseException as error:  # the only place for unexpected errors
        if not isinstance(error, Exception) and type(error).__module__ != _OF_PANICS:
            raise
        return _unexpected(context, error)
    return code if isinstance(code, int) else OK


def _unexpected(context: click.Context | None, error: BaseException) -> int:
    """Report an error that is not a `HoldfastError`; return its exit code."""
    if isinstance(error, BrokenPipeError) and _discard_closed_pipes():
        return OK
    if isinstance(error, OSError) and error.errno == errno.EBADF and not _is_writable(sys.stdout):
        return _say(context, str(_no_output()), ExternalError.exit_code)
    if is_of_storage(error):
        text = masked(f"Storage failed: {error}: {way_out(error)}, and start again")
        return _say(context, text, ExternalError.exit_code)
    if isinstance(error, MemoryError):
        text = f"There is not enough memory: give the process more ({error})"
        return _say(context, text, ExternalError.exit_code)
    kind = type(error).__name__
    return _say(
        context,
        f"Internal error: {kind}: {masked(str(error))}\n"
        "This is a defect of Holdfast. HOLDFAST_TRACEBACK=1 shows where it happened.",
        INTERNAL,
    )


def _say(context: click.Context | None, message: str, code: int) -> int:
    """Write an error on standard error; return its exit code."""
    _flush()
    if os.environ.get("HOLDFAST_TRACEBACK", "0") not in {"", "0"}:
        click.echo(printable(masked(traceback.format_exc())), err=True)
    is_json = context is not None and context.meta.get(IS_JSON, False)
    try:
        if is_json:
            click.echo(json_line("error", "end", "", {"message": message, "exit_code": code}), err=True, nl=False)
        else:
            click.echo(printable(message), err=True)
    except BrokenPipeError:
        _discard_closed_pipes()
    return code


def _flush() -> None:
    """Flush standard output; discard what cannot be written, or Python would end with an exit code of its own."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_closed_pipes()
    except OSError:
        _discard(sys.stdout)


def _discard_closed_pipes() -> bool:
    """Discard the output of standard streams whose pipe was closed by its reader; return whether there are any."""
    closed = [stream for stream in (sys.stdout, sys.stderr) if _is_closed_pipe(stream)]
    for stream in closed:
        _discard(stream)
    return bool(closed)


def _discard(stream: TextIO) -> None:
    """Let a stream write to nowhere from now on."""
    with _nowhere() as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def _no_output() -> ExternalError:
    return ExternalError(
        "standard output is closed, so results cannot be written: open standard output, or use the option --output"
    )


class _Closed(io.TextIOBase):
    """Takes the place of a standard output that was closed before the start: writing to it is an error."""

    encoding = "utf-8"

    def write(self, text: str, /) -> int:
        """Raise, so that no result is lost without an error."""
        if text:
            raise _no_output()
        return 0


def _hold_standard_streams() -> None:
    """Open closed standard streams on the null device, so that no file of the command takes their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _is_writable(stream: TextIO) -> bool:
    try:
        return fcntl.fcntl(stream.fileno(), fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except (OSError, ValueError):
        return False


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _is_closed_pipe(stream: TextIO) -> bool:
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    except (OSError, ValueError):
        return False
