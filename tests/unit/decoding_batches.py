"""Batches as they come from Kafka, for the tests of decoders."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from holdfast.constraints import Column, Schema, parse_type
from holdfast.streaming.decoding import decoder
from holdfast.streaming.incoming.arrivals import TRUNCATE, UNREADABLE, Arrivals, Draft, Target, arrivals
from holdfast.streaming.incoming.netting import DELETE, INSERT, UPDATE

WORDS = {INSERT: "insert", UPDATE: "update", DELETE: "delete", TRUNCATE: "truncate", UNREADABLE: "unreadable"}


def target(columns: str, *key: str) -> Target:
    """Return the target of columns such as `id integer, name string`."""
    pairs = [column.strip().split(" ", 1) for column in columns.split(";")]
    return Target(Schema("t", tuple(Column(name, parse_type(kind)) for name, kind in pairs)), key)


def written(value: Any) -> bytes | None:
    """Return a value as a converter writes it; bytes as they are."""
    if value is None or isinstance(value, bytes):
        return value
    return json.dumps(value, separators=(",", ":")).encode()


def batch(*messages: Any, chunks: int = 1) -> pa.Table:
    """Return a batch of values, or of (key, value)."""
    pairs = [message if isinstance(message, tuple) else (None, message) for message in messages]
    return pa.table(
        {
            "key": pa.array([written(key) for key, _ in pairs], pa.binary()),
            "value": pa.array([written(value) for _, value in pairs], pa.binary()),
            "partition": pa.array([0] * len(pairs), pa.int32()),
            "offset": pa.array(range(len(pairs)), pa.int64()),
            "timestamp": pa.array([1_700_000_000_000 + i for i in range(len(pairs))], pa.timestamp("ms", "UTC")),
        }
    )


def drafted(encoding: str, wanted: Target, *messages: Any, encodings: dict[str, str] | None = None) -> Draft:
    """Decode a batch."""
    return decoder(encoding)(batch(*messages), wanted, "topic", encodings or {})


def arrived(
    encoding: str, wanted: Target, *messages: Any, encodings: dict[str, str] | None = None
) -> tuple[list[tuple[Any, ...]], dict[str, str]]:
    """Return the rows that are to be applied, with their operations, and the reasons of the bad records by offset."""
    found: Arrivals = arrivals(drafted(encoding, wanted, *messages, encodings=encodings), wanted)
    names = wanted.schema.names
    columns = [found.records.table[name].values().to_pylist() for name in names]
    kept = found.records.kept
    rows = [
        (
            WORDS[int(operation)],
            *("kept" if kept is not None and kept[i, c] else columns[c][i] for c in range(len(names))),
        )
        for i, operation in enumerate(found.records.operations)
    ]
    return rows, {bad.record_id.rpartition("-")[2]: bad.reason for bad in found.bad}
