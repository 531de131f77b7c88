"""What reads records and files of data, as functions of bytes that fuzzing may call."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.constraints import Column, InputError, Schema, parse_type, read_value
from holdfast.streaming.decoding import decoder
from holdfast.streaming.decoding.connect import columns_of
from holdfast.streaming.decoding.files import ChangedFile, Kind, draft_of
from holdfast.streaming.incoming.arrivals import TRUNCATE, Arrivals, Target, arrivals
from holdfast.tables import ReadOptions, Table, read_table
from holdfast.tables.json_records import fields_of, spans_of
from tests.oracles import json_text
from tests.oracles.values import same

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def file_of(data: bytes, name: str) -> Iterator[Path]:
    """Put bytes into a file for a while, in memory where there is such a folder."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        path = Path(folder, name)
        path.write_bytes(data)
        yield path


TYPES = {
    "k": "integer",
    "f": "float",
    "d": "decimal(10,2)",
    "w": "decimal(38,5)",
    "s": "string",
    "t": "timestamp",
    "n": "timestamp(9)",
    "a": "date",
    "b": "boolean",
}


SCHEMA = Schema("t", tuple(Column(name, parse_type(kind)) for name, kind in TYPES.items()))


# Records


def json_records(data: bytes) -> Any:
    """Lines as records, each compared with what Python's reader finds."""
    names = [*TYPES, "", "_op"]
    records = data.split(b"\n")
    found = fields_of(spans_of(pa.array(records, pa.binary())), names)
    texts = {name: found[name].texts() for name in names}
    for array in texts.values():
        array.validate(full=True)
    for row, record in enumerate(records):
        expected = json_text.fields(record)
        assert bool(found.good[row]) == (expected is not None), (record, found.reason(row))
        for name in names:
            value = None if expected is None else expected.get(name)
            if not isinstance(value, (json_text.Members, list)):
                assert texts[name][row].as_py() == json_text.text(value), (record, name)
    return [found.reasons, *(array.to_pylist() for array in texts.values())]


def messages(data: bytes) -> pa.Table:
    """Split bytes into messages: lines; a byte 1 behind the key, a byte 2 where there is no value."""
    pairs = [line.split(b"\x01", 1) for line in data.split(b"\n")[:64]]
    keys = [pair[0] if len(pair) > 1 else None for pair in pairs]
    values = [None if pair[-1] == b"\x02" else pair[-1] for pair in pairs]
    count = len(pairs)
    return pa.table(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([1_700_000_000_000] * count, pa.timestamp("ms", "UTC")),
        }
    )


_WRITTEN = {
    "t": "io.debezium.time.MicroTimestamp",
    "n": "io.debezium.time.NanoTimestamp",
    "a": "io.debezium.time.Date",
    "d": "org.apache.kafka.connect.data.Decimal",
    "w": "io.debezium.data.VariableScaleDecimal",
    "s": "io.debezium.time.NanoTime",
}


_SEQUENCES = {"k": Column("k", parse_type("integer")), "": Column("lsn", parse_type("integer"))}


def topic(encoding: str) -> Callable[[bytes], Any]:
    """Read a topic: the first byte chooses key, sequence and how values are written."""

    def read(data: bytes) -> Any:
        mode = data[0] if data else 0
        keys = ((), ("k",), ("s",), ("k", "a"))[mode & 3]
        if not keys and encoding in {"upsert", "debezium-unwrapped"}:
            keys = ("k",)
        sequence = _SEQUENCES[""] if mode & 4 else None
        target = Target(SCHEMA, keys, sequence, store_raw=not mode & 16)
        batch = messages(data[1:])
        draft = decoder(encoding)(batch, target, "topic", _WRITTEN if mode & 8 else {})
        found = arrivals(draft, target)
        if not (draft.operations == TRUNCATE).any():
            rows = Counter(draft.record_id(row) for row in range(len(draft)))  # a change may have two
            assert len(found.records) + sum(rows[bad.record_id] for bad in found.bad) == len(draft)
        if encoding in {"json", "upsert"}:
            assert len(draft) == len(batch)
        if encoding == "json" and not mode & 8:
            _as_the_oracle(batch, found, target)
        first = next((value for value in batch["value"].to_pylist() if value is not None), b"")
        said = [str(column) for column in columns_of(first) or ()]
        return said, arrived(found)

    return read


def arrived(found: Arrivals) -> Any:
    """Return what arrived, after looking at every value of it."""
    table = found.records.table.to_arrow()
    table.validate(full=True)
    for bad in found.bad:
        assert bad.reason
        assert bad.record_id
        bad.reason.encode(), (bad.raw or "").encode(), bad.record_id.encode()
    assert len({bad.record_id for bad in found.bad}) == len(found.bad)
    return found.records.operations.tolist(), readable(table), found.bad, found.skipped


def readable(table: pa.Table) -> list[list[str]]:
    """Return all values as texts: NaN is no equal of NaN, and nanoseconds have no value in Python."""
    return [column.cast(pa.large_string()).to_pylist() for column in table.columns]


def _as_the_oracle(batch: pa.Table, found: Arrivals, target: Target) -> None:
    """Compare with Python's reader of JSON, and with the reader of one text at a time."""
    bad = {int(record.record_id.rpartition("-")[2]) for record in found.bad}
    values = {column.name: found.records.table[column.name].values().to_pylist() for column in target.schema}
    row = 0
    for offset, record in enumerate(batch["value"].to_pylist()):
        expected = None if record is None else _expected(record, target)
        assert (offset in bad) == (expected is None), (record, expected)
        if expected is None:
            continue
        for name, value in expected.items():
            if name in target.schema and TYPES[name] != "timestamp(9)":
                given = values[name][row]
                assert same(given, value), (record, name, value, given)
        row += 1


def _expected(record: bytes, target: Target) -> dict[str, Any] | None:
    """Return the typed values of a record of encoding json, None where it is bad."""
    fields = json_text.fields(record)
    if fields is None:
        return None
    operation = _text_of(fields.get("_op"))
    if operation not in {None, "insert", "update", "delete"} or (operation == "update" and not target.key):
        return None
    made: dict[str, Any] = {}
    for column in target.wanted:
        text = _text_of(fields.get(column.name))
        only_key = operation == "delete" and bool(target.key)
        if only_key and column.name not in target.key and column is not target.sequence:
            text = None
        try:
            made[column.name] = None if text is None else read_value(text, column.type)
        except ValueError:
            return None
        needed = column.name in target.key or column is target.sequence
        if needed and made[column.name] is None:
            return None
    return made


def _text_of(value: Any) -> str | None:
    if isinstance(value, (json_text.Members, list)):
        return "[nested]"  # no value of any type but string, which the seeds do not nest
    return json_text.text(value)


# Files


def changes(kind: Kind, *endings: str) -> Callable[[bytes], Any]:
    """Read files of changes: the first byte chooses the ending of the name and the options."""

    def read(data: bytes) -> Any:
        mode = data[0] if data else 0
        name = f"/in/x{endings[mode % len(endings)]}"
        target = Target(SCHEMA, ("k",) if mode & 64 else ())
        options = ReadOptions(delimiter=";" if mode & 128 else ",")
        middle = len(data) // 2
        parts = [data[1:]] if not mode & 32 else [data[1:middle], data[middle:]]
        files = [ChangedFile(f"{i}{name}", part, float(i)) for i, part in enumerate(parts)]
        draft = draft_of(files, target, kind, options, ("x",))
        found = arrivals(draft, target)
        assert len(found.records) + len(found.bad) == len(draft)
        return arrived(found)

    return read


def table_file(*endings: str) -> Callable[[bytes], Any]:
    """Read a table from a file: the first bytes choose the name's ending and the options."""

    def read(data: bytes) -> Any:
        mode = int.from_bytes(data[:2].ljust(2), "big")
        options = ReadOptions(
            delimiter=",;\t|"[mode & 3],
            encoding=("utf-8", "utf-8", "utf-16", "latin-1", "cp1252", "utf-8-sig", "shift_jis", "utf-32")[
                mode >> 2 & 7
            ],
            null_tokens=("",) if mode & 32 else ("NA", ""),
            typed_header=bool(mode & 64),
            strings="all" if mode & 128 else frozenset(),
            limit=3 if mode & 256 else None,
        )
        with file_of(data[2:], f"x{endings[(mode >> 9) % len(endings)]}") as path:
            try:
                table = read_table(path, options)
            except InputError as error:
                raise InputError(str(error).replace(str(path.parent), "")) from error
            return seen(table)

    return read


def seen(table: Table) -> Any:
    """Return a table's types and values, after looking at every one."""
    made = table.to_arrow()
    made.validate(full=True)
    if table.row_count:
        assert table.locate(table.row_count - 1)
    return [str(column) for column in table.schema], table.row_count, readable(made), len(table.warnings)
