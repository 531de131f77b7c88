"""Rich's console as this project uses it: no markup in data, no line breaks of its own, no exit.

Invariant: what is printed comes out as it is, whatever brackets it holds; a closed pipe is an exception that
the command line deals with, as everywhere else.
"""

from typing import NoReturn, TextIO

from rich.console import Console


class _PlainConsole(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Leave the exit code to the command line."""
        raise BrokenPipeError


def console_on(stream: TextIO) -> Console:
    """Return a console on `stream`."""
    return _PlainConsole(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
