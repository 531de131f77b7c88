"""The bytes and lines of a text file: decoding, positions, and quotes that nothing closes.

Arrow parses the file, on several threads and leniently: an open quote takes the rest of the file for one
field, and text behind a closing quote is joined to it, so that one forgotten quote silently swallows lines.
`Blocks` therefore watches the quotes in the bytes on their way to Arrow, at the speed of numpy, and raises a
doubt; only then is the file read again, with Python's own reader, which is exact and knows its lines.

Invariant: a line is what ends in a line feed, a carriage return or both; the first line is line 1.
"""

import codecs
import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa

from holdfast.constraints import InputError
from holdfast.tables.options import ReadOptions
from holdfast.tables.pipes import piped

csv.field_size_limit(2**31 - 1)

_BLOCK = 1 << 20
_BYTE_ORDER_MARK = "\ufeff"
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_FORMATS = (
    (b"PAR1", "is a Parquet file: give it a name that ends in .parquet"),
    (b"ARROW1", "is an Arrow file: give it a name that ends in .arrow"),
    (b"\x1f\x8b", "is compressed with gzip: give it a name that ends in .gz"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd: give it a name that ends in .zst"),
    (b"PK\x03\x04", "is a zip archive or a spreadsheet: extract it, or save it as CSV"),
)


class TextFile:
    """A file of delimited text, perhaps compressed.

    Parameters
    ----------
    path, options : which file; its encoding and delimiter.
    """

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path = path
        self.options = options
        self.codec = codecs.lookup(options.encoding)
        self._piped = piped(path)
        self._wide = self.codec.name.startswith(("utf-16", "utf-32"))

    def open(self) -> pa.NativeFile:
        """Return its bytes, decompressed."""
        if self._piped is None:
            return pa.input_stream(str(self.path), compression="detect")
        return pa.input_stream(pa.BufferReader(self._piped), compression=_COMPRESSIONS.get(self.path.suffix.lower()))

    def blocks(self) -> "Blocks":
        """Return its text in UTF-8, for Arrow."""
        stream = self.open()
        if self.codec.name not in {"utf-8", "utf-8-sig"}:
            stream = pa.transcoding_input_stream(stream, self.codec.name, "utf-8")
        return Blocks(stream, self.options.delimiter)

    def records(self) -> Iterator[tuple[int, int, list[str]]]:
        """Yield (its first line, its last line, fields) of every record; a blank line is a record of no fields.

        `InputError` where a quote is not closed, or something other than the end of a field follows it.
        """
        first = 1
        with self.open() as stream, io.TextIOWrapper(io.BufferedReader(stream), self.codec.name, newline="") as text:
            reader = csv.reader(_unmarked(text), delimiter=self.options.delimiter, strict=True)
            try:
                for record in reader:
                    yield first, reader.line_num, record
                    first = reader.line_num + 1
            except csv.Error as error:
                raise InputError(f"{self.path}, line {first}: {_quote_problem(error, reader.line_num)}") from error

    def refuse_other_format(self) -> None:
        """Raise `InputError` where the first bytes are not those of such a text."""
        with self.open() as stream:
            head = stream.read(_BLOCK)
        for mark, problem in _FORMATS:
            if head.startswith(mark):
                raise InputError(f"{self.path} {problem}")
        if self._wide:
            return
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InputError(f"{self.path} begins with the byte order mark of utf-16: read it with --encoding utf-16")
        if b"\x00" in head:
            at = head.index(b"\x00") + 1
            raise InputError(
                f"{self.path} is no text: byte {at} is zero. Name a text file, or its encoding with --encoding"
            )

    def refuse_undecodable(self) -> None:
        """Raise `InputError` for the first bytes that are not of the encoding."""
        decoder = self.codec.incrementaldecoder()
        position, line, before = 0, 1, ""
        with self.open() as stream:
            while True:
                block = stream.read(_BLOCK)
                state = decoder.getstate()
                try:
                    text = decoder.decode(block, final=not block)
                except UnicodeDecodeError as error:
                    decoder.setstate(state)
                    good = decoder.decode(error.object[len(state[0]) : error.start])
                    self._refuse_byte(error, position - len(state[0]), line + _newlines(before, good))
                if not block:
                    return
                position += len(block)
                line += _newlines(before, text)
                before = text[-1:] or before

    def _refuse_byte(self, error: UnicodeDecodeError, position: int, line: int) -> NoReturn:
        wrong = f"byte {position + error.start + 1} (0x{error.object[error.start]:02x})"
        advice = "the file may be cut short" if self._wide else _suggestion(error, self.codec.name)
        raise InputError(f"{self.path}, line {line}: {wrong} is not {self.options.encoding}; {advice}") from error


class Blocks(io.RawIOBase):
    """Text in UTF-8, block by block, in the form of a Python file for Arrow.

    No block ends in a carriage return: Arrow drops a line feed that begins the next one, even inside quotes.

    Parameters
    ----------
    stream, delimiter : the text, and what separates its fields.
    """

    def __init__(self, stream: pa.NativeFile, delimiter: str) -> None:
        super().__init__()
        self._stream = stream
        self._held = b""
        self._unwatched = b"\n"
        self._quotes = 0
        self._doubt = False
        self._beside_quote = np.zeros(256, np.bool_)
        self._beside_quote[[*delimiter.encode(), *b'\r\n"']] = True

    @property
    def doubtful(self) -> bool:
        """Whether the quotes of what has been read may not pair up. O(1)."""
        return self._doubt or self._quotes % 2 == 1

    def readable(self) -> bool:
        """Files of Python's say so."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, none at the end."""
        block: bytes = self._held + self._stream.read(size - len(self._held))
        self._held = b""
        if len(block) > 1 and block.endswith(b"\r"):
            block, self._held = block[:-1], b"\r"
        if not self._doubt:
            self._watch(block)
        return block

    def close(self) -> None:
        """Close the text."""
        self._stream.close()
        super().close()

    def _watch(self, block: bytes) -> None:
        """Count the quotes up to the last byte but one, which waits for its neighbour.

        As long as all is well, every other quote opens a field and stands behind a delimiter or a newline, and
        the ones between close it and stand before one; a doubled quote closes and opens. Quotes inside of
        unquoted fields are no mistake, but end this count: they, too, raise a doubt.
        """
        window = self._unwatched + (block or b"\n")
        self._unwatched = window[-2:]
        if b'"' not in window:
            return
        text = np.frombuffer(window, np.uint8)
        quotes = np.flatnonzero(text[1:-1] == ord('"')) + 1
        opens = (np.arange(len(quotes)) + self._quotes) % 2 == 0
        self._doubt = not self._beside_quote[text[np.where(opens, quotes - 1, quotes + 1)]].all()
        self._quotes += len(quotes)


def _unmarked(text: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines of a text without its byte order mark."""
    for first in text:
        yield first.removeprefix(_BYTE_ORDER_MARK)
        break
    yield from text


def _quote_problem(error: csv.Error, last_line: int) -> str:
    if "unexpected end of data" in str(error):
        return "a field begins with a quote that is never closed; close it, or double the quotes meant as text"
    if "expected after" in str(error):
        return (
            f"a closing quote is followed by text, in the record that ends on line {last_line}; a quote is missing "
            "or too many. Double the quotes meant as text"
        )
    return str(error)


def _newlines(before: str, text: str) -> int:
    """Return how many lines end in `text`, which follows the character `before`."""
    joined = text.count("\n") + text.count("\r") - text.count("\r\n")
    return joined - (before == "\r" and text.startswith("\n"))


def _suggestion(error: UnicodeDecodeError, tried: str) -> str:
    """Return which encoding to try, and what it would show."""
    data, at = error.object, error.start
    for encoding in ("utf-8", "cp1252", "latin-1"):
        if codecs.lookup(encoding).name == tried.removesuffix("-sig"):
            continue
        try:
            codecs.getincrementaldecoder(encoding)().decode(data)
        except UnicodeDecodeError:
            continue
        shown = " ".join(data[max(0, at - 20) : at + 20].decode(encoding, errors="ignore").split())
        return f"read it with --encoding {encoding} (it would say '...{shown}...' there)"
    return "name its encoding with --encoding"
