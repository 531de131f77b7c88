"""A console of Rich that adds neither markup nor line breaks, and never exits.

Invariant: texts are printed unchanged, whatever brackets they have; a closed pipe is an exception, which the command
line handles.
"""

from typing import NoReturn, TextIO

from rich.console import Console


class _PlainConsole(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Raise, so that the command line sets the exit code."""
        raise BrokenPipeError


def console_on(stream: TextIO) -> Console:
    """Return a console that writes to a stream."""
    return _PlainConsole(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
