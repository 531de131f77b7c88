"""Delimited text files (CSV), also compressed, into typed columns.

Arrow's reader does the work: quotes, embedded newlines, threads, decompression. What it lacks is here and in
`textfile`. Its type inference and its idea of null are not ours, so every field is read as text; it lets quotes
pass that nothing closes; it reports a row and not where it is. On an error or a doubt the file is therefore
read once more, slowly, to name line and column.

Invariant: a file is either read whole or refused with its path, line and what to do; blank lines are skipped,
except in a file of one column, where a blank line is an empty field; a quoted field ends where its quote does.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.csv as arrow_csv

from holdfast.constraints import Column, ColumnType, InputError, UsageError, parse_type
from holdfast.constraints.types import STRING, is_type_name
from holdfast.display.texts import counted
from holdfast.tables.inference import kept_as_texts, missing_warnings, typed
from holdfast.tables.options import ReadOptions
from holdfast.tables.selection import Selection
from holdfast.tables.textfile import TextFile

_BLOCK_SIZES = (1 << 22, 1 << 26, 1 << 30)  # Arrow wants every record within two blocks
_TYPES_BEHIND_NAMES = (re.compile(r"\(\s*([^()]+(?:\([^()]*\))?)\s*\)\Z"), re.compile(r"\s(\w+(?:\s*\([^()]*\))?)\Z"))
_LONGEST_TYPE = 80
_BYTES_AT_ONCE = 1 << 28


@dataclass(frozen=True)
class Header:
    """The first record of a file.

    Parameters
    ----------
    names, types : the columns; types only where the header has them.
    lines : the number of lines of the header, blank lines before included.
    """

    names: tuple[str, ...]
    types: tuple[ColumnType | None, ...]
    lines: int


class _Lines:
    """The lines of the first rows of a file, stored where the difference of line and row changes."""

    def __init__(self) -> None:
        self.count = 0
        self._starts: list[int] = []
        self._shifts: list[int] = []

    def of(self, row: int) -> int | None:
        """Return the line of a row; None if the row was not seen."""
        return row + self._shifts[bisect_right(self._starts, row) - 1] if row < self.count else None

    def see(self, lines: Iterable[int]) -> None:
        """Remember the lines of the rows from the first one on."""
        for row, line in enumerate(lines):
            if row < self.count:
                continue
            if not self._shifts or line - row != self._shifts[-1]:
                self._starts.append(row)
                self._shifts.append(line - row)
            self.count = row + 1


class DelimitedFile:
    """A delimited text file with a header; a quoted field may span lines.

    Parameters
    ----------
    path, options : the file, and how to read it.
    """

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path = path
        self.options = options
        self._lines = _Lines()
        self._told: list[str] = []
        try:
            self._text = TextFile(path, options)
        except OSError as error:  # a pipe is read here
            raise self._unreadable(error) from error
        self.header = self._read_header()

    def columns(self, selection: Selection) -> tuple[list[Column], dict[str, pa.ChunkedArray], int]:
        """Return the chosen columns' types and typed values, and the number of rows.

        A large file is read several times, some columns at a time: texts take much more memory than values.
        """
        chosen = selection.chosen(self.header.names)
        places = {name: str(i) for i, name in enumerate(self.header.names)}
        declared = dict(zip(self.header.names, self.header.types, strict=True)) | dict(self.options.types)
        columns: list[Column] = []
        arrays: dict[str, pa.ChunkedArray] = {}
        rows = None
        for some in self._parts(chosen):
            read = self._texts([places[name] for name in some] or ["0"])
            if rows not in {None, read.num_rows}:
                raise InputError(
                    f"{self.path} changed while it was read: it had {rows:,} rows, then {read.num_rows:,}. Read a "
                    "copy, or wait until nobody writes to it"
                )
            texts, rows = {name: read.column(places[name]) for name in some}, read.num_rows
            del read  # to free the texts of a column after it is typed
            for name in some:
                wanted = STRING if selection.as_string(name) else declared.get(name)
                ordered = self.options.ordered.get(name)
                by_look = self.options.nulls_by_look
                column, values = typed(
                    texts.pop(name), name, wanted, self.locate, ordered=ordered, nulls_by_look=by_look
                )
                if wanted is None and not by_look:
                    self._told += missing_warnings(self.path, column, kept_as_texts(column, values))
                arrays[name] = values
                columns.append(column)
            if len(some) < len(chosen):
                pa.default_memory_pool().release_unused()
        assert rows is not None
        return columns, arrays, rows

    def warnings(self) -> list[str]:
        """Return warnings about records that can be read but look wrong, also about columns that were read."""
        for other, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if len(self.header.names) == 1 and other in self.header.names[0] and self.options.delimiter != other:
                return [
                    f"{self.path} has one column, whose name holds {called}: if they separate columns, set --delimiter"
                ]
        return self._told

    def locate(self, row: int) -> str:
        """Return the line of a row (from 0), as `path, line 17`.

        The file is read up to the row. Lines that were seen are remembered, so few readings locate many rows.
        """
        line = self._lines.of(row)
        if line is None:
            most = max(row + 1, 2 * self._lines.count)
            self._lines.see(line for line, _record in islice(self.records(), most))
            line = self._lines.of(row)
        return f"{self.path}, row {row + 1}" if line is None else f"{self.path}, line {line}"

    # Reading

    def _parts(self, chosen: list[str]) -> list[list[str]]:
        """Return the columns that are read together."""
        share = len(chosen) / max(1, len(self.header.names))
        size = self.path.stat().st_size * share if self.options.limit is None and self.path.is_file() else 0
        each = max(1, -(-len(chosen) // max(1, math.ceil(size / _BYTES_AT_ONCE))))
        return [chosen[start : start + each] for start in range(0, len(chosen), each)] or [[]]

    def _read_header(self) -> Header:
        try:
            self._text.refuse_other_format()
            names, lines = next(((r, last) for _, last, r in self._text.records() if r), ([], 0))
        except UnicodeError as error:
            self._explain(error)
        except OSError as error:
            raise self._unreadable(error) from error
        if not names:
            raise InputError(f"{self.path} is empty: expected a first line with the names of the columns")
        return self._checked_header(names, lines)

    def _checked_header(self, given: list[str], lines: int) -> Header:
        at = f"{self.path}, line {lines}"
        try:
            typed_names = [_typed_name(name) if self.options.typed_header else (name, None) for name in given]
        except UsageError as error:
            raise InputError(f"{at}: {error}") from error
        seen: dict[str, int] = {}
        for i, (name, _) in enumerate(typed_names):
            if name in seen:
                raise InputError(f"{at}: columns {seen[name] + 1} and {i + 1} are both named '{name}'; rename one")
            seen[name] = i
        return Header(tuple(n for n, _ in typed_names), tuple(t for _, t in typed_names), lines)

    def _texts(self, chosen: list[str]) -> pa.Table:
        """Return the fields of columns as strings, in columns named by position."""
        for block_size in _BLOCK_SIZES:
            with self._explained(block_size):
                if self._is_only_header():
                    return pa.table({place: pa.array([], pa.string()) for place in chosen})
                return self._parsed(block_size, chosen)
        raise AssertionError  # the last block size returns or raises

    def streamed(self, selection: Selection) -> Iterator[Iterator[pa.Table]]:
        """Yield attempts to read the chosen columns as texts, some rows at a time, until an attempt reads all rows.

        Rows of all attempts but the last have to be discarded.
        """
        names = selection.chosen(self.header.names)
        chosen = [str(self.header.names.index(name)) for name in names]
        is_done = False

        def attempt(block_size: int) -> Iterator[pa.Table]:
            nonlocal is_done
            with self._explained(block_size):
                if not self._is_only_header():
                    for some in self._batches(block_size, chosen or ["0"]):
                        yield some.select(chosen)
                is_done = True

        for block_size in _BLOCK_SIZES:
            yield attempt(block_size)
            if is_done:
                return

    def _is_only_header(self) -> bool:
        """Whether there is nothing but a header, which Arrow refuses."""
        return next(self.records(), None) is None

    def _parsed(self, block_size: int, chosen: list[str]) -> pa.Table:
        if self.options.limit is not None:
            return pa.concat_tables(self._batches(block_size, chosen))
        with self._text.blocks() as blocks:
            texts = arrow_csv.read_csv(blocks, **self._arrow_options(block_size, chosen))
        if blocks.doubtful:
            self._refuse_faults()
        return texts

    def _batches(self, block_size: int, chosen: list[str]) -> Iterator[pa.Table]:
        left = self.options.limit
        with self._text.blocks() as blocks:
            for batch in arrow_csv.open_csv(blocks, **self._arrow_options(block_size, chosen)):
                some = batch if left is None else batch.slice(0, left)
                yield pa.Table.from_batches([some])
                if left is not None and (left := left - len(some)) <= 0:
                    break
        if blocks.doubtful:
            self._refuse_faults(self.options.limit)

    def _arrow_options(self, block_size: int, chosen: list[str]) -> dict[str, Any]:
        places = [str(i) for i in range(len(self.header.names))]
        return {
            "read_options": arrow_csv.ReadOptions(
                column_names=places, skip_rows=self.header.lines, block_size=block_size
            ),
            "parse_options": arrow_csv.ParseOptions(
                delimiter=self.options.delimiter, newlines_in_values=True, ignore_empty_lines=len(places) > 1
            ),
            "convert_options": arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(places, pa.string()),
                null_values=list(self.options.null_tokens),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                include_columns=chosen,
            ),
        }

    # Explaining

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield (number of its first line, fields) of every record after the header."""
        blank_is_record = len(self.header.names) == 1
        for first, _last, record in self._text.records():
            if first > self.header.lines and (record or blank_is_record):
                yield first, record or [""]

    def _refuse_faults(self, limit: int | None = None) -> None:
        """Raise `InputError` for the first faulty record among the first `limit` records."""
        width = len(self.header.names)
        for line, record in islice(self.records(), limit):
            if len(record) != width:
                shown = self.options.delimiter.join(record)
                raise InputError(
                    f"{self.path}, line {line}: {counted(len(record), 'field')} where the header has {width}: "
                    f"'{shown[:80]}'. Correct the line, or check --delimiter and quotes"
                )

    @contextmanager
    def _explained(self, block_size: int) -> Iterator[None]:
        """Explain errors of a read; pass over a record that needs larger blocks, if there are any."""
        try:
            try:
                yield
            except pa.ArrowInvalid as error:
                if "block size" not in str(error) or block_size == _BLOCK_SIZES[-1]:
                    self._explain(error)
                self._refuse_faults()
        except UnicodeError as error:
            self._explain(error)
        except OSError as error:
            raise self._unreadable(error) from error

    def _explain(self, error: Exception) -> NoReturn:
        """Raise an `InputError` that names the line."""
        try:
            self._text.refuse_undecodable()
            if not isinstance(error, UnicodeError):
                self._refuse_faults()
        except OSError as other:
            raise self._unreadable(other) from other
        except UnicodeError as other:  # not of one byte: a text in UTF-16 without its mark
            raise InputError(
                f"{self.path} is not {self.options.encoding}: {other}; name its encoding with --encoding"
            ) from other
        raise InputError(f"{self.path} cannot be read as delimited text: {error}") from error

    def _unreadable(self, error: OSError) -> InputError:
        hint = "" if isinstance(error, PermissionError) else ": is it whole, and compressed as its name says?"
        return InputError(f"{self.path} cannot be read: {error}{hint}")


def _typed_name(given: str) -> tuple[str, ColumnType | None]:
    """Split `age(Integer)` or `age int` into name and type.

    >>> _typed_name("age(Integer)")[0], _typed_name("First Name str")[0], _typed_name("size(cm)")
    ('age', 'First Name', ('size(cm)', None))
    >>> [str(_typed_name(x)[1]) for x in ("price decimal(10,2)", "price(decimal(10, 2))")]
    ['decimal(10,2)', 'decimal(10,2)']
    """
    text = given.strip()
    end = text[-_LONGEST_TYPE:]  # types are short, so that names of any length are split fast
    for form in _TYPES_BEHIND_NAMES:
        match = form.search(end)
        if match and is_type_name(match[1]):
            return text[: len(text) - len(end) + match.start()].rstrip(), parse_type(match[1])
    return given, None
