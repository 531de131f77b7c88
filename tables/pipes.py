"""Files that can be read only once: pipes, such as `/dev/stdin` after a `|`, and named pipes.

A text is read several times: for its header, its rows, and the line of an error. So a pipe is read into memory.

Invariant: within `pipes_kept` a pipe has the same bytes each time that it is opened.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_KEPT: ContextVar[dict[Path, bytes] | None] = ContextVar("kept", default=None)


@contextmanager
def pipes_kept() -> Iterator[None]:
    """Keep the bytes of each pipe that is read, for later reads."""
    if _KEPT.get() is not None:
        yield
        return
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def is_pipe(path: Path) -> bool:
    """Whether a path names a pipe."""
    return path.is_fifo()


def piped(path: Path) -> bytes | None:
    """Return the bytes of a pipe, None for a file."""
    if not is_pipe(path):
        return None
    kept = _KEPT.get()
    if kept is None:
        return path.read_bytes()
    if path not in kept:
        kept[path] = path.read_bytes()
    return kept[path]
