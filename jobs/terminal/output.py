"""Writes results to standard output, or to a file that is complete or not written at all.

Invariant: a file named by --output is replaced in one step, after the last line was written and synced; an error before
that leaves the old file, and no temporary file beside it.
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

Line = Mapping[str, Any]


@contextmanager
def results_to(file: Path | None) -> Iterator[TextIO]:
    """Open a file for results as text; standard output where `file` is None. Devices and pipes are not replaced."""
    if file is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    with bytes_to(file) as stream, _text_on(stream) as text:
        yield text


@contextmanager
def bytes_to(file: Path) -> Iterator[BinaryIO]:
    """Open a file for results as bytes."""
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
        if error.filename is None or Path(os.fsdecode(error.filename)).resolve().parent != file.resolve().parent:
            raise
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error


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
    r"""Return a JSON line: names in the order given, letters of all scripts unescaped.

    >>> json_line({"change": "appeared", "size": 3, "city": "Zürich"})
    '{"change": "appeared", "size": 3, "city": "Zürich"}\n'
    """
    return printable(json.dumps(fields, ensure_ascii=False, allow_nan=False)) + "\n"


def one_line(line: str) -> str:
    r"""Return a line without control characters: a line break inside it is escaped.

    >>> one_line("key  not(t.`a\nb` = s.`a\nb`)\n")
    'key  not(t.`a\\u000ab` = s.`a\\u000ab`)\n'
    """
    return printable(line.removesuffix("\n")).replace("\n", "\\u000a") + "\n"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
