"""Delimited text files (CSV), also compressed, into typed columns.

Arrow's reader does the work: quotes, embedded newlines, threads, decompression. What it lacks is here. Its
type inference and its idea of null are not ours, so every field is read as text; it takes an unterminated
quote for a field that reaches to the end of the file; it reports a row and not where it is. On an error the
file is therefore read once more, slowly, to name line and column.

Invariant: a file is either read whole or refused with its path, line and what to do; blank lines are skipped,
except in a file of one column, where a blank line is a null.
"""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.csv as arrow_csv

from holdfast.constraints import Column, ColumnType, InputError, UsageError, parse_type
from holdfast.constraints.types import STRING, is_type_name
from holdfast.tables.inference import typed
from holdfast.tables.options import ReadOptions
from holdfast.tables.selection import Selection

csv.field_size_limit(2**31 - 1)

_HEAD = 1 << 16
_LONGEST_HEADER = 1 << 26
_BYTE_ORDER_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_TYPED_NAME = re.compile(r"(?s)\s*(.*?)\s*\(\s*([^()]+?(?:\([^()]*\))?)\s*\)\s*|\s*(.*\S)\s+(\S+)\s*")


@dataclass(frozen=True)
class Header:
    """The first record of a file.

    Parameters
    ----------
    names, types : the columns; types only where the header says them.
    lines : how many lines of the file it takes, blank ones before it included.
    """

    names: tuple[str, ...]
    types: tuple[ColumnType | None, ...]
    lines: int


class DelimitedFile:
    """A text file with one record a line and a header.

    Parameters
    ----------
    path, options : what to read, and how.
    """

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path = path
        self.options = options
        self.header = self._read_header()

    def columns(self, selection: Selection) -> tuple[list[Column], dict[str, pa.ChunkedArray], int]:
        """Return the chosen columns' types and typed values, and the number of rows."""
        texts = self._texts()
        declared = dict(zip(self.header.names, self.header.types, strict=True)) | dict(self.options.types)
        columns, arrays = [], {}
        for name in selection.chosen(self.header.names):
            place = self.header.names.index(name)
            wanted = STRING if selection.as_string(name) else declared.get(name)
            ordered = self.options.ordered.get(name)
            column, arrays[name] = typed(texts.column(place), name, wanted, self.locate, ordered=ordered)
            columns.append(column)
        return columns, arrays, texts.num_rows

    def warnings(self) -> list[str]:
        """Return what looks odd, yet can be read."""
        for other, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if len(self.header.names) == 1 and other in self.header.names[0] and self.options.delimiter != other:
                return [
                    f"{self.path} has one column, whose name holds {called}: if they separate columns, set --delimiter"
                ]
        return []

    def locate(self, row: int) -> str:
        """Return where a row (from 0) stands, as `path, line 17`. Reads the file up to it."""
        for line, _record in islice(self._records(), row, row + 1):
            return f"{self.path}, line {line}"
        return f"{self.path}, row {row + 1}"

    # Reading

    def _texts(self) -> pa.Table:
        """Return every field as a string, in columns named by their position."""
        places = [str(i) for i in range(len(self.header.names))]
        reading = {
            "read_options": arrow_csv.ReadOptions(
                column_names=places, skip_rows=self.header.lines, encoding=self.options.encoding, block_size=1 << 22
            ),
            "parse_options": arrow_csv.ParseOptions(
                delimiter=self.options.delimiter, newlines_in_values=True, ignore_empty_lines=len(places) > 1
            ),
            "convert_options": arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(places, pa.string()),
                null_values=list(self.options.null_tokens),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        }
        try:
            if self._is_only_header():
                return pa.table({place: pa.array([], pa.string()) for place in places})
            if self.options.limit is None:
                texts = arrow_csv.read_csv(self._open(), **reading)
            else:
                texts = _first_rows(arrow_csv.open_csv(self._open(), **reading), self.options.limit)
        except (pa.ArrowInvalid, UnicodeError) as error:
            self._explain(error)
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error}") from error
        self._refuse_unterminated_quote(texts)
        return texts

    def _open(self) -> pa.NativeFile:
        return pa.input_stream(str(self.path), compression="detect")

    def _is_only_header(self) -> bool:
        """Whether no record follows the header (Arrow refuses such a file)."""
        return next(self._records(), None) is None

    def _decoded(self, stream: pa.NativeFile) -> io.TextIOWrapper:
        encoding = "utf-8-sig" if self.options.encoding.lower().replace("_", "-") in {"utf-8", "utf8"} else None
        return io.TextIOWrapper(io.BufferedReader(stream), encoding or self.options.encoding, newline="")

    def _read_header(self) -> Header:
        try:
            with self._open() as stream:
                head = stream.read(_HEAD)
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error}") from error
        self._refuse_other_encoding(head)
        try:
            with self._open() as stream, self._decoded(stream) as text:
                reader = csv.reader(text, delimiter=self.options.delimiter)
                names = next((record for record in reader if record), None)
                lines = reader.line_num
        except UnicodeError as error:
            self._explain(error)
        except (csv.Error, OSError) as error:
            raise InputError(f"{self.path}, header: {error}") from error
        except LookupError as error:
            raise UsageError(f"unknown encoding '{self.options.encoding}': {error}") from error
        if names is None:
            raise InputError(f"{self.path} is empty: expected a first line with the names of the columns")
        return self._checked_header(names, lines)

    def _checked_header(self, given: list[str], lines: int) -> Header:
        typed_names = [_typed_name(name) if self.options.typed_header else (name, None) for name in given]
        seen: dict[str, int] = {}
        for i, (name, _) in enumerate(typed_names):
            if name in seen:
                raise InputError(
                    f"{self.path}, line {lines}: columns {seen[name] + 1} and {i + 1} are both named '{name}'; rename one"
                )
            seen[name] = i
        return Header(tuple(n for n, _ in typed_names), tuple(t for _, t in typed_names), lines)

    # Explaining

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield (number of its first line, fields) of every record behind the header, with Python's own reader."""
        with self._open() as stream, self._decoded(stream) as text:
            reader = csv.reader(text, delimiter=self.options.delimiter)
            blank_is_record = len(self.header.names) == 1
            line = 0
            for record in reader:
                if line >= self.header.lines and (record or blank_is_record):
                    yield line + 1, record or [""]
                line = reader.line_num

    def _refuse_other_encoding(self, head: bytes) -> None:
        for mark, encoding in _BYTE_ORDER_MARKS:
            if head.startswith(mark) and not self.options.encoding.lower().startswith("utf-16"):
                raise InputError(
                    f"{self.path} begins with the byte order mark of {encoding}: read it with --encoding {encoding}"
                )
        if head.startswith(b"PAR1"):
            raise InputError(f"{self.path} is a Parquet file: give it a name that ends in .parquet")
        if b"\x00" in head and not self.options.encoding.lower().startswith(("utf-16", "utf-32")):
            at = head.index(b"\x00")
            raise InputError(f"{self.path} is no text: byte {at + 1} is zero (a binary file, or another encoding)")

    def _refuse_unterminated_quote(self, texts: pa.Table) -> None:
        """Raise where the last field was opened with a quote that nothing closes.

        Arrow ends it with the file. Only the last record can be such, and it takes as many lines as it has
        newlines, so reading the file's tail once more is enough.
        """
        if not texts.num_rows or self.options.limit is not None:
            return
        last = [str(column[-1].as_py() or "") for column in texts.columns]
        newlines = sum(len(re.findall(r"\r\n|\r|\n", text)) for text in last)
        with self._open() as stream:
            tail = _tail(stream, sum(map(len, last)) * 4 + 4 * len(last) + 64)
        if b'"' not in tail:
            return
        text = tail.decode(self.options.encoding, errors="replace")
        lines = [x for x in re.split(r"(?<=\n)|(?<=\r)(?!\n)", text) if x]
        while lines and len(last) > 1 and not lines[-1].strip("\r\n"):
            lines.pop()
        try:
            for _ in csv.reader(lines[-1 - newlines :], delimiter=self.options.delimiter, strict=True):
                pass
        except csv.Error as error:
            if "unexpected end of data" not in str(error):
                return
            where = self.locate(texts.num_rows - 1)
            raise InputError(
                f"{where}: a field begins with a quote that is never closed; close it, or double the quotes meant as text"
            ) from error

    def _explain(self, error: Exception) -> NoReturn:
        """Raise an `InputError` that names the line."""
        self._explain_bytes()
        width = len(self.header.names)
        try:
            for line, record in self._records():
                if len(record) != width:
                    shown = self.options.delimiter.join(record)
                    raise InputError(
                        f"{self.path}, line {line}: {len(record)} field(s) where the header has {width}: "
                        f"'{shown[:80]}'. check --delimiter and quotes"
                    ) from error
        except csv.Error as problem:
            raise InputError(f"{self.path}: {problem}") from problem
        raise InputError(f"{self.path} cannot be read as delimited text: {error}") from error

    def _explain_bytes(self) -> None:
        """Raise an `InputError` for the first bytes that are not of the encoding."""
        with self._open() as stream:
            data = stream.read()
        try:
            data.decode(self.options.encoding)
        except UnicodeDecodeError as problem:
            line = len(re.findall(rb"\r\n|\r|\n", data[: problem.start])) + 1
            wrong = data[problem.start : problem.start + 1].hex()
            raise InputError(
                f"{self.path}, line {line}: byte {problem.start + 1} (0x{wrong}) is not {self.options.encoding}; "
                f"{_suggestion(data, problem.start)}"
            ) from problem


def _typed_name(given: str) -> tuple[str, ColumnType | None]:
    """Split `age(Integer)` or `age int` into name and type.

    >>> _typed_name("age(Integer)")[0], _typed_name("First Name str")[0], _typed_name("size(cm)")
    ('age', 'First Name', ('size(cm)', None))
    """
    match = _TYPED_NAME.fullmatch(given)
    if match:
        name, type_name = (match[1], match[2]) if match[2] else (match[3], match[4])
        if is_type_name(type_name):
            return name, parse_type(type_name)
    return given, None


def _first_rows(reader: arrow_csv.CSVStreamingReader, limit: int) -> pa.Table:
    batches, rows = [], 0
    for batch in reader:
        if rows >= limit:
            break
        batches.append(batch.slice(0, limit - rows))
        rows += len(batches[-1])
    return pa.Table.from_batches(batches, reader.schema)


def _tail(stream: pa.NativeFile, size: int) -> bytes:
    """Return the last bytes of a stream, which may be compressed."""
    if stream.seekable():
        stream.seek(max(0, stream.size() - size))
    tail = b""
    while block := stream.read(1 << 22):
        tail = (tail + block)[-size:]
    return tail


def _suggestion(data: bytes, at: int) -> str:
    """Return which encoding to try."""
    for encoding in ("cp1252", "latin-1"):
        try:
            text = data[max(0, at - 20) : at + 20].decode(encoding)
            data.decode(encoding)
        except UnicodeDecodeError:
            continue
        shown = " ".join(text.split())
        return f"read it with --encoding {encoding} (it would say '...{shown}...' there)"
    return "name its encoding with --encoding"
