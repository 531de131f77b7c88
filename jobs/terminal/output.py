"""Where results go: standard output, or a file that is either whole or not there.

Invariant: a file named by --output is replaced in one step, after the last line was written and synced; an
error on the way leaves what was there before, and nothing beside it.
"""

import io
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from holdfast.constraints import UsageError
from holdfast.display.texts import printable

__all__ = ["Line", "bytes_to", "json_line", "one_line", "printable", "replacing", "results_to"]

Line = Mapping[str, Any]


@contextmanager
def results_to(file: Path | None) -> Iterator[TextIO]:
    """Open the place for results.

    Parameters
    ----------
    file : None for standard output; a device or a pipe is written to as it is.
    """
    if file is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    with bytes_to(file) as stream, _text_on(stream) as text:
        yield text


@contextmanager
def bytes_to(file: Path) -> Iterator[BinaryIO]:
    """Open the place for results that are no text."""
    try:
        if file.exists() and not file.is_file():
            if file.is_dir():
                raise UsageError(f"{file} is a folder: name a file")
            with file.open("wb") as stream:
                yield stream
            return
        with _replacing(file) as stream:
            yield stream
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None or Path(os.fsdecode(error.filename)).parent != file.resolve().parent:
            raise
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error


@contextmanager
def replacing(file: Path) -> Iterator[TextIO]:
    """Write a text file beside `file`, and put it in its place when all went well."""
    with _replacing(file) as stream, _text_on(stream) as text:
        yield text


@contextmanager
def _replacing(file: Path) -> Iterator[BinaryIO]:
    target = file.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


@contextmanager
def _text_on(stream: BinaryIO) -> Iterator[TextIO]:
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace")
    yield text
    text.detach()  # flushed, and the stream stays open


def json_line(fields: Line) -> str:
    r"""Return one JSON line: compact, names in the order given, any script as it is.

    >>> json_line({"change": "appeared", "size": 3, "city": "Zürich"})
    '{"change": "appeared", "size": 3, "city": "Zürich"}\n'
    """
    return printable(json.dumps(fields, ensure_ascii=False, allow_nan=False)) + "\n"


def one_line(line: str) -> str:
    r"""Return a line that ends where it should: what would begin another one within it is named too.

    >>> one_line("key  not(t.`a\nb` = s.`a\nb`)\n")
    'key  not(t.`a\\u000ab` = s.`a\\u000ab`)\n'
    """
    return printable(line.removesuffix("\n")).replace("\n", "\\u000a") + "\n"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
