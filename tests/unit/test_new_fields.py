"""Fields that no column has, in every encoding: found wherever they are, each with its first record."""

from __future__ import annotations

import io
import json
import random
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from holdfast.constraints import Column, Schema, parse_type
from holdfast.constraints.mutes import Mutes
from holdfast.jobs.run import _report
from holdfast.jobs.terminal.progress import PlainProgress
from holdfast.streaming.commits.output_rows import Position
from holdfast.streaming.decoding import decoder
from holdfast.streaming.decoding.files import ChangedFile, draft_of
from holdfast.streaming.decoding.new_fields import MOST_NEW
from holdfast.streaming.incoming.arrivals import Arrivals, BadRecord, Target
from holdfast.streaming.maintainers.maintainer import Records
from holdfast.streaming.maintainers.table.batch_result import BatchResult
from holdfast.streaming.spark.running import Done
from holdfast.tables import ReadOptions, from_arrow
from tests.unit.test_alert_deciding import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET = Target(
    Schema("t", (Column("k", parse_type("integer")), Column("a", parse_type("string")))), ("k",), others=("o",)
)
ROWS: list[dict[str, Any]] = [
    {"k": 1, "a": "x"},
    {"k": 2, "o": 7},
    {"k": 3, "a": None, "o": None},
    {"k": 4, "new": {"k": 9}, "a": "y"},
    {"k": 5, "newer": [], "new": 1},
]


def batch(values: list[Any], keys: list[Any] | None = None) -> pa.Table:
    count = len(values)
    return pa.table(
        {
            "key": pa.array(
                [None if key is None else json.dumps(key).encode() for key in keys or [None] * count], pa.binary()
            ),
            "value": pa.array([None if value is None else json.dumps(value).encode() for value in values], pa.binary()),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([1000] * count, pa.timestamp("ms")),
        }
    )


def wrapped(payload: Any) -> dict[str, Any]:
    return {"schema": {"type": "struct", "fields": []}, "payload": payload}


@pytest.mark.parametrize("wrap", [lambda row: row, wrapped])
@pytest.mark.parametrize("encoding", ["json", "upsert", "debezium", "debezium-unwrapped"])
def test_kafka(encoding: str, wrap: Any) -> None:
    if encoding == "json" and wrap is wrapped:
        pytest.skip("rows in encoding json have no schema around them")
    shapes: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        "json": lambda row: {"_op": "insert", **row},
        "upsert": lambda row: row,
        "debezium": lambda row: {"op": "c", "ts_ms": 1, "source": {"new": 1}, "before": None, "after": row},
        "debezium-unwrapped": lambda row: {**row, "__op": "c", "__deleted": "false", "__lsn": 7},
    }
    shape = shapes[encoding]
    keys = [{"k": row["k"]} for row in ROWS]
    found = decoder(encoding)(batch([wrap(shape(row)) for row in ROWS], keys), TARGET, "t", {})
    assert found.new_fields == {"new": "t-0-3", "newer": "t-0-4"}
    assert not found.reasons
    assert not decoder(encoding)(batch([wrap(shape(row)) for row in ROWS[:3]], keys[:3]), TARGET, "t", {}).new_fields


def test_a_name_twice_is_none_that_is_new() -> None:
    value = b'{"k": 1, "a": "x", "a": "y"}'
    made = batch([{}]).set_column(1, "value", pa.array([value], pa.binary()))
    assert not decoder("json")(made, TARGET, "t", {}).new_fields


def test_files_of_json_lines() -> None:
    lines = [json.dumps({**row, "_op": "insert", "_seq": i}) for i, row in enumerate(ROWS)]
    files = [
        ChangedFile("b.json", "\n".join(lines[:4]).encode(), 2.0),
        ChangedFile("a.json", "\n".join(["", lines[0], lines[4]]).encode(), 1.0),
    ]
    found = draft_of(files, TARGET, "json", ReadOptions(), TARGET.others)
    assert found.new_fields == {"new": "a.json-3", "newer": "a.json-3"}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_of_files(kind: Literal["csv", "parquet"]) -> None:
    made = pa.table({"k": [1], "o": [2], "new": [3], "newer": [4], "_op": ["insert"]})
    out = pa.BufferOutputStream()
    (pacsv.write_csv if kind == "csv" else pq.write_table)(made, out)
    found = draft_of([ChangedFile(f"a.{kind}", bytes(out.getvalue()), 1.0)], TARGET, kind, ReadOptions(), TARGET.others)
    assert found.refused_columns == {"new": f"a.{kind}", "newer": f"a.{kind}"}
    assert not found.new_fields
    assert "'new'" in found.reasons[0]


def test_names_are_those_that_reading_each_record_gives() -> None:
    dice = random.Random(4)
    for _ in range(200):
        rows = [dict.fromkeys(dice.sample("abcdefgo", dice.randint(0, 5)), 1) for _ in range(dice.randint(0, 12))]
        expected: dict[str, str] = {}
        for number, row in enumerate(rows):
            for name in row.keys() - {"k", "a", "o"}:
                expected.setdefault(name, f"t-0-{number}")
        given = [{"k": number, **row} for number, row in enumerate(rows)]
        assert decoder("json")(batch(given), TARGET, "t", {}).new_fields == expected


def test_of_very_many_names_some_are_told() -> None:
    found = decoder("json")(batch([{"k": n, f"n{n}": 1} for n in range(1_000)]), TARGET, "t", {}).new_fields
    assert list(found)[:2] == ["n0", "n1"]
    assert len(found) == MOST_NEW


def test_a_file_in_quarantine_is_said_to_be_there() -> None:
    """Nothing of it was applied, so its column is not one that was left out."""
    table = from_arrow(pa.table({"k": pa.array([], pa.int64())}), "t")
    came = Arrivals(
        Records(table, np.array([], np.int8)),
        (BadRecord("a.csv", None, "it has a column that the table does not have, 'new'"),),
        new_fields={"hat": "r-1"},
        refused_columns={"new": "a.csv"},
    )
    done = Done(
        "t",
        Position("q", 0, "", ""),
        BatchResult([], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, left_out=came.new_fields, published=rows_of()),
        came,
        {},
    )
    out = io.StringIO()
    _report(PlainProgress(out), Mutes(), done)
    assert [line.strip() for line in out.getvalue().splitlines()[1:]] == [
        "warning: no column of t has the field 'hat' (first in r-1): it is left out",
        "warning: no column of t is called 'new', as one of a.csv: the file is in quarantine",
    ]
