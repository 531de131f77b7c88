"""Files of changes, as bytes, to records in their order: JSON lines, CSV or Parquet.

A record may have `_op` (insert, update or delete; the default is insert) and `_seq` (its place in the order of records;
the default is the order of files and of their lines). A wrong line is one bad record; so is a whole file that cannot be
read at all, or that has columns without a column in the table.
"""

import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.constraints import Column, InputError
from holdfast.constraints.columns import unknown_name
from holdfast.constraints.types import INTEGER, STRING
from holdfast.display.texts import counted
from holdfast.streaming.decoding.new_fields import new_fields
from holdfast.streaming.decoding.operations import OPERATION, operations_of
from holdfast.streaming.incoming.arrivals import UNREADABLE, Draft, Target, refuse
from holdfast.streaming.incoming.netting import INSERT
from holdfast.tables import ReadOptions, read_table
from holdfast.tables.arrays import Flags
from holdfast.tables.delimited import DelimitedFile
from holdfast.tables.fitting import fit
from holdfast.tables.frames import texts_of
from holdfast.tables.json_records import Spans, fields_of
from holdfast.tables.missing import null_where_missing

Kind = Literal["json", "csv", "parquet"]
SEQUENCE = "_seq"
_COMPRESSED = frozenset({".gz", ".bz2", ".zst", ".lz4"})
_LARGEST = 1 << 29
"""The most bytes of one file after decompression, and the most cells."""
_BLOCK = 1 << 20


@dataclass(frozen=True)
class ChangedFile:
    """A file of changes.

    Parameters
    ----------
    path, content : the path and the bytes of the file.
    modified : when the file was written, in seconds since 1970.
    """

    path: str
    content: bytes | memoryview
    modified: float


@dataclass
class _Part:
    """The records of one file.

    Parameters
    ----------
    cells : the cells by column, with `_op` and `_seq` if the file has them.
    line : returns the line number of a record.
    raw : returns a record in its raw form.
    """

    path: str
    count: int
    cells: dict[str, pa.Array] = field(default_factory=dict)
    line: Callable[[int], int] = lambda row: row + 1
    raw: Callable[[int], bytes | str | None] = lambda _: None
    reasons: dict[int, str] = field(default_factory=dict)
    new_fields: dict[str, str] = field(default_factory=dict)
    refused_columns: tuple[str, ...] = ()


def draft_of(
    files: Sequence[ChangedFile], target: Target, kind: Kind, options: ReadOptions, known: Collection[str] = ()
) -> Draft:
    """Return the records of files as a draft.

    Parameters
    ----------
    files : the files, in any order.
    target : the table that the records are for.
    kind, options : the format of the files, and how to read it.
    known : columns of the table that are not monitored: they may be in files, and are not read.
    """
    wanted = {column.name for column in target.wanted} | {OPERATION, SEQUENCE}
    ordered = sorted(files, key=lambda file: (file.modified, file.path))
    parts = _Parts([_part(file, kind, options, wanted, wanted | set(known)) for file in ordered])
    cells, reasons, order = parts.cells, parts.reasons, None
    if options.nulls_by_look and kind == "csv":
        others = {column.name for column in target.wanted if column.type != STRING}
        cells |= {name: null_where_missing(cells[name]) for name in others & cells.keys()}
    operations, problem = operations_of(cells.pop(OPERATION, pa.nulls(parts.count, pa.large_string())), INSERT)
    refuse(reasons, operations == UNREADABLE, problem)
    if SEQUENCE in cells:
        places, wrong = _sequence(cells.pop(SEQUENCE))
        wrong &= parts.has_sequence
        refuse(reasons, wrong, f"{SEQUENCE} is missing or no whole number: a record needs a sequence")
        order = parts.order(places)
    operations[list(reasons)] = UNREADABLE
    draft = Draft(
        operations,
        cells,
        parts.record_id,
        parts.raw,
        reasons,
        oldest=min((file.modified for file in files), default=None),
        new_fields={name: where for part in reversed(parts.parts) for name, where in part.new_fields.items()},
        refused_columns={name: part.path for part in reversed(parts.parts) for name in part.refused_columns},
    )
    return draft if order is None else draft.taken(order)


class _Parts:
    """The records of several files, one file after the other."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self.parts = parts
        self._counts = np.array([part.count for part in parts], np.int64)
        self._starts = np.cumsum(self._counts) - self._counts
        self.count = int(self._counts.sum())
        names = {name for part in parts for name in part.cells}
        self.cells = {name: _joined([(part.cells.get(name), part.count) for part in parts]) for name in names}
        starts = zip(self._starts.tolist(), parts, strict=True)
        self.reasons = {start + row: reason for start, part in starts for row, reason in part.reasons.items()}

    @property
    def has_sequence(self) -> Flags:
        """Which records are of a file with a column of sequences: a file may have none at all."""
        return np.repeat([SEQUENCE in part.cells for part in self.parts], self._counts)

    def order(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the order of the records by sequence; within each file, unless all files have sequences."""
        is_whole = all(SEQUENCE in p.cells or not p.count or p.count == len(p.reasons) for p in self.parts)
        group = np.zeros(self.count, np.int64) if is_whole else np.repeat(np.arange(len(self.parts)), self._counts)
        return np.lexsort((np.arange(self.count), places, group))

    def record_id(self, row: int) -> str:
        """Return the path of a record's file, with its line where the file could be read."""
        part, at = self._found(row)
        line = part.line(at)
        return f"{part.path}-{line}" if line else part.path

    def raw(self, row: int) -> bytes | str | None:
        """Return a record in its raw form."""
        part, at = self._found(row)
        return part.raw(at)

    def _found(self, row: int) -> tuple[_Part, int]:
        number = int(np.searchsorted(self._starts, row, "right")) - 1
        return self.parts[number], row - int(self._starts[number])


def _part(
    file: ChangedFile, kind: Kind, options: ReadOptions, wanted: Collection[str], known: Collection[str]
) -> _Part:
    try:
        content = _content(file)
        if kind == "json":
            return _json(file, content, wanted, known)
        with _written(f"changes.{kind}", content) as path:
            try:
                part = _delimited if kind == "csv" else _parquet
                return _with_words(part(replace(file, content=content), path, options, wanted, known))
            except InputError as error:
                unknown = error.names if isinstance(error, _UnknownColumns) else ()
                reason = str(error).replace(str(path), file.path)
                return replace(_unread(file, reason), refused_columns=tuple(unknown))
    except InputError as error:
        return _unread(file, str(error))


def _unread(file: ChangedFile, reason: str) -> _Part:
    """Return a whole file as one bad record."""
    return _Part(file.path, 1, {}, lambda _: 0, lambda _: bytes(file.content[:65_536]), {0: reason})


def _with_words(part: _Part) -> _Part:
    """Replace nulls in the column of operations by empty texts: only a file without the column inserts by default."""
    if OPERATION in part.cells:
        part.cells[OPERATION] = pc.fill_null(part.cells[OPERATION].cast(pa.large_string()), "")
    return part


@contextmanager
def _written(name: str, content: bytes | memoryview) -> Iterator[Path]:
    """Write bytes to a temporary file with the given name, in a folder that only its owner can read."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        yield path


def _content(file: ChangedFile) -> bytes | memoryview:
    """Return a file's bytes, decompressed by the ending of its name; refuse a file that is too large for a batch."""
    content, size = file.content, len(file.content)
    if size <= _LARGEST and Path(file.path).suffix.lower() in _COMPRESSED:
        parts: list[bytes] = []
        try:
            with pa.CompressedInputStream(pa.BufferReader(content), pa.Codec.detect(file.path.lower()).name) as stream:
                while (part := stream.read(_BLOCK)) and len(parts) * _BLOCK <= _LARGEST:
                    parts.append(part)
        except OSError as error:
            raise InputError(
                f"{file.path} cannot be read: {error}: is it whole, and compressed as its name says?"
            ) from error
        size = sum(map(len, parts))
        content = b"".join(parts) if size <= _LARGEST else b""
    if size > _LARGEST:
        raise InputError(f"{file.path} has more than {_LARGEST >> 20} MiB, decompressed: write it as several files")
    return content


def _json(file: ChangedFile, content: bytes | memoryview, wanted: Collection[str], known: Collection[str]) -> _Part:
    buffer = np.frombuffer(content, np.uint8)
    ends = np.flatnonzero(buffer == ord("\n"))
    if len(buffer) and buffer[-1] != ord("\n"):
        ends = np.append(ends, len(buffer))
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    blank = _blank(buffer, starts)
    lines = np.flatnonzero(~blank)
    spans = Spans(buffer, starts[lines].astype(np.int64), ends[lines].astype(np.int64))
    fields = fields_of(spans, sorted(wanted))
    cells = {name: fields[name].texts() for name in fields.names if fields[name].kinds.any()}
    reasons = {row: fields.reason(row) or "" for row in np.flatnonzero(~fields.good).tolist()}
    new = new_fields(spans, fields.counts, fields.cells(), known, lambda row: f"{file.path}-{int(lines[row]) + 1}")
    return _Part(file.path, len(lines), cells, lambda row: int(lines[row]) + 1, lambda row: spans[row], reasons, new)


def _blank(buffer: NDArray[np.uint8], starts: NDArray[np.int64]) -> Flags:
    """Return which lines have only white space."""
    if not len(starts):
        return np.zeros(0, np.bool_)
    visible = _VISIBLE[buffer]  # one byte each: sums would take eight times the memory
    return np.asarray(~np.logical_or.reduceat(visible, starts))


_VISIBLE = ~np.isin(np.arange(256), np.frombuffer(b" \t\r\n", np.uint8))


def _delimited(
    file: ChangedFile, path: Path, options: ReadOptions, wanted: Collection[str], known: Collection[str]
) -> _Part:
    text = DelimitedFile(path, options)
    names = text.header.names
    _refuse_unknown(path, names, known)
    try:
        table = read_table(path, replace(options, strings="all"), "changes")
    except InputError as error:
        try:
            return _line_by_line(file, text, options, wanted)
        except UnicodeError:  # the file is no text at all, and the error says where
            raise error from None
    cells = {name: table[name].values() for name in names if name in wanted}
    content = bytes(file.content)

    def raw(row: int) -> str:
        return options.delimiter.join("" if v is None else str(v) for v in table.row(row).values())

    return _Part(file.path, table.row_count, cells, _line_of(path.name, content, options), raw)


def _line_by_line(file: ChangedFile, text: DelimitedFile, options: ReadOptions, wanted: Collection[str]) -> _Part:
    """Read a file with wrong lines. O(lines) in Python."""
    names = text.header.names
    lines = list(text.records())
    nulls = set(options.null_tokens)
    reasons = {
        row: f"{counted(len(record), 'field')} where the header has {len(names)}"
        for row, (_, record) in enumerate(lines)
        if len(record) != len(names)
    }
    cells = {
        name: pa.array(
            [None if row in reasons or record[i] in nulls else record[i] for row, (_, record) in enumerate(lines)],
            pa.large_string(),
        )
        for i, name in enumerate(names)
        if name in wanted
    }

    def raw(row: int) -> str:
        return options.delimiter.join(lines[row][1])

    return _Part(file.path, len(lines), cells, lambda row: lines[row][0], raw, reasons)


def _line_of(name: str, content: bytes, options: ReadOptions) -> Callable[[int], int]:
    """Return a function that gives the line in which a record begins; its first call reads the lines."""

    @cache
    def lines() -> list[int]:
        with _written(name, content) as path:
            return [line for line, _ in DelimitedFile(path, options).records()]

    return lambda row: lines()[row]


def _parquet(
    file: ChangedFile,
    path: Path,
    options: ReadOptions,  # noqa: ARG001  (a Parquet file needs none)
    wanted: Collection[str],
    known: Collection[str],
) -> _Part:
    _refuse_too_many(path)
    table = read_table(path, name="changes")
    _refuse_unknown(path, table.schema.names, known)
    cells = {name: table[name].values() for name in table.schema.names if name in wanted}
    return _Part(file.path, table.row_count, cells, raw=lambda row: str(table.row(row)))


def _refuse_too_many(path: Path) -> None:
    """Refuse a file with more cells than a batch has room for, however few its bytes are."""
    import pyarrow.parquet as pq

    try:
        about = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from error
    if about.num_rows * max(1, about.num_columns) > _LARGEST:
        raise InputError(
            f"{path} says that it has {about.num_rows:,} rows of {about.num_columns} columns: write it as several files"
        )


class _UnknownColumns(InputError):
    """A file has columns that the table does not have."""

    def __init__(self, path: Path, names: Sequence[str], known: Collection[str]) -> None:
        super().__init__(
            unknown_name(f"{path}: it has a column that the table does not have,", names[0], sorted(known))
        )
        self.names = names


def _refuse_unknown(path: Path, names: Sequence[str], known: Collection[str]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise _UnknownColumns(path, unknown, known)


def _joined(columns: Sequence[tuple[pa.Array | None, int]]) -> pa.Array:
    """Return one column of several files; as texts if its type is not the same in all files."""
    types = {values.type for values, _ in columns if values is not None}
    kind = types.pop() if len(types) == 1 else pa.large_string()

    def as_kind(values: pa.Array) -> pa.Array:
        if values.type == kind:
            return values
        return texts_of(pa.chunked_array([values])).cast(kind).combine_chunks()

    parts = [pa.nulls(count, kind) if values is None else as_kind(values) for values, count in columns]
    return pa.concat_arrays([part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part for part in parts])


def _sequence(cells: pa.Array) -> tuple[NDArray[np.int64], Flags]:
    places, wrong = fit(cells, Column(SEQUENCE, INTEGER))
    missing = np.asarray(pc.is_null(places))
    return pc.fill_null(places, 0).to_numpy(zero_copy_only=False), missing if wrong is None else wrong | missing
