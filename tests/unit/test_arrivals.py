"""From drafts to records: typed, the bad ones told apart with their reasons, nothing lost in between."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast.constraints import Column, Schema, parse_type
from holdfast.streaming.incoming.arrivals import TRUNCATE, UNREADABLE, Draft, Target, all_bad, arrivals
from holdfast.streaming.incoming.netting import DELETE, INSERT, UPDATE

LONGEST = 65_536


def target(kind: str, *, key: bool = True, sequence: str | None = None, store_raw: bool = True) -> Target:
    schema = Schema("t", (Column("k", parse_type("string")), Column("v", parse_type(kind))))
    column = None if sequence is None else Column("s", parse_type(sequence))
    return Target(schema, ("k",) if key else (), column, store_raw=store_raw)


def draft(operations: list[int], cells: dict[str, Any], **more: Any) -> Draft:
    arrays = {
        name: values if isinstance(values, pa.Array) else pa.array(values, pa.string())
        for name, values in cells.items()
    }
    return Draft(np.array(operations, np.int8), arrays, lambda row: f"r{row}", lambda row: f"raw {row}", **more)


def keyed(values: Any, kind: str) -> tuple[list[Any], list[str]]:
    """Return the values that arrive, and the names of the bad records."""
    count = len(values)
    came = arrivals(draft([INSERT] * count, {"k": [f"k{i}" for i in range(count)], "v": values}), target(kind))
    assert len(came.records) + len(came.bad) == count
    return came.records.table["v"].values().to_pylist(), [bad.record_id for bad in came.bad]


@pytest.mark.parametrize(
    ("kind", "good", "typed", "bad"),
    [
        (
            "integer",
            ["9223372036854775807", "-9223372036854775808", "+7", "-0", "1e3", "20e-1", None],
            [2**63 - 1, -(2**63), 7, 0, 1000, 2, None],
            ["9223372036854775808", "-9223372036854775809", "1.5", "1e-1", "1e19", "", " 1", "nan", "0x1", "１２"],
        ),
        (
            "decimal(4,2)",
            ["99.99", "-99.99", "0.1", "1e1"],
            [Decimal("99.99"), Decimal("-99.99"), Decimal("0.10"), Decimal("10.00")],
            ["100", "0.001", "99.999", "nan", "inf", ""],
        ),
        (
            "float",
            ["1e308", "-1e-400", "Infinity", "-inf", "1"],
            [1e308, -0.0, float("inf"), float("-inf"), 1.0],
            ["", "1,5", "0x1p3", "infinit", "1_0"],
        ),
        (
            "date",
            ["0001-01-01", "9999-12-31", "2024-02-29"],
            [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)],
            ["0000-01-01", "10000-01-01", "2023-02-29", "2024-2-29", "29.02.2024", "2024-02-29T00:00:00", ""],
        ),
        (
            "timestamp",
            ["0001-01-01T00:00:00", "9999-12-31T23:59:59.999999Z", "2024-02-29 12:00:00+02:00"],
            [
                datetime(1, 1, 1, tzinfo=UTC),
                datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
                datetime(2024, 2, 29, 10, tzinfo=UTC),
            ],
            ["9999-12-31T23:59:60", "2024-02-30T00:00:00", "2024-02-29T25:00:00", "noon", ""],
        ),
        ("boolean", ["true", "FALSE"], [True, False], ["1", "yes", "t", ""]),
    ],
)
def test_texts_at_the_limits_of_their_types(kind: str, good: list[str], typed: list[Any], bad: list[str]) -> None:
    assert keyed(good, kind) == (typed, [])
    found, names = keyed([*bad, good[0]], kind)
    assert found == typed[:1]
    assert names == [f"r{i}" for i in range(len(bad))]


@pytest.mark.parametrize(
    ("kind", "values", "typed", "bad"),
    [
        ("integer", pa.array([2**64 - 1, 5], pa.uint64()), [5], ["r0"]),
        ("integer", pa.array([2.0**63, 1.5, float("nan"), 4.0]), [4], ["r0", "r1", "r2"]),
        (
            "decimal(4,2)",
            pa.array([Decimal("1.005"), Decimal("1.500")], pa.decimal128(10, 3)),
            [Decimal("1.50")],
            ["r0"],
        ),
        ("string", pa.array([b"x", None], pa.binary()), [None], ["r0"]),
        ("string", pa.array([[1], None], pa.list_(pa.int64())), [None], ["r0"]),
        ("boolean", pa.array([1, 0, None]), [None], ["r0", "r1"]),
        ("date", pa.array([datetime(2024, 2, 29, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")), [None], ["r0"]),
        ("timestamp", pa.array([4 * 10**17, None], pa.timestamp("us")), [None], ["r0"]),
        ("timestamp", pa.array([-(10**17), None], pa.timestamp("us", "UTC")), [None], ["r0"]),
        ("date", pa.array([3_000_000, 2_932_896], pa.date32()), [date(9999, 12, 31)], ["r0"]),
    ],
)
def test_values_of_other_types_fit_exactly_or_not_at_all(
    kind: str, values: pa.Array, typed: list[Any], bad: list[str]
) -> None:
    assert keyed(values, kind) == (typed, bad)


def test_keys_and_operations() -> None:
    operations = [INSERT, UPDATE, DELETE, DELETE, INSERT, UNREADABLE, 9, INSERT]
    cells = {"k": ["a", "b", "c", None, None, "d", "e", "f"], "v": ["1", "2", "rubbish", "3", "4", "5", "6", "x"]}
    came = arrivals(
        draft(operations, cells, reasons={5: "the decoder's reason"}, skipped=3, oldest=7.0), target("integer")
    )
    assert came.records.operations.tolist() == [INSERT, UPDATE, DELETE]
    assert came.records.table["v"].values().to_pylist() == [1, 2, None]
    assert [(bad.record_id, bad.reason) for bad in came.bad] == [
        ("r3", "key column k is null or missing: a record needs all key columns"),
        ("r4", "key column k is null or missing: a record needs all key columns"),
        ("r5", "the decoder's reason"),
        ("r6", "its operation is unknown"),
        ("r7", "column v: 'x' is not a whole number within 64 bits (integer)"),
    ]
    assert [bad.raw for bad in came.bad] == [f"raw {i}" for i in range(3, 8)]
    assert (came.skipped, came.oldest) == (3, 7.0)
    assert came.bad_record(2, "why").record_id == "r2"
    assert "r1" in came.records.table.locate(1)


def test_a_missing_key_column_makes_all_bad() -> None:
    came = arrivals(draft([INSERT, DELETE], {"v": ["1", "2"]}), target("integer"))
    assert len(came.records) == 0
    assert len(came.bad) == 2


def test_a_table_without_a_key_needs_whole_rows_and_no_updates() -> None:
    cells = {"k": [None, "b", "c"], "v": [None, "x", "1"]}
    came = arrivals(draft([DELETE, DELETE, UPDATE], cells), target("integer", key=False))
    assert came.records.operations.tolist() == [DELETE]
    assert [bad.record_id for bad in came.bad] == ["r1", "r2"]
    assert "an update needs a key" in came.bad[1].reason


def test_a_sequence_is_needed_and_kept_exactly() -> None:
    cells = {"k": ["a", "b", "c", "d"], "v": ["1"] * 4, "s": ["9223372036854775807", None, "x", "-1"]}
    came = arrivals(draft([INSERT, INSERT, DELETE, DELETE], cells), target("integer", sequence="integer"))
    assert came.records.sequence is not None
    assert came.records.sequence.tolist() == [2**63 - 1, -1]
    assert [bad.reason.split(":")[0] for bad in came.bad] == ["sequence column s is null or missing", "column s"]
    times = {"k": ["a", "b"], "s": ["2024-02-29T12:00:00Z", "2024-02-29T12:00:00.000001Z"]}
    came = arrivals(draft([INSERT, DELETE], times), target("integer", sequence="timestamp"))
    assert came.records.sequence is not None
    assert np.diff(came.records.sequence).tolist() == [1]


def test_all_before_the_last_truncation_is_void_but_bad_records_stay() -> None:
    operations = [INSERT, UNREADABLE, TRUNCATE, INSERT, TRUNCATE, INSERT, UNREADABLE]
    cells = {"k": ["a", "b", None, "c", None, "d", "e"], "v": ["1"] * 7}
    came = arrivals(draft(operations, cells), target("integer"))
    assert came.records.truncated
    assert came.records.table["k"].values().to_pylist() == ["d"]
    assert [bad.record_id for bad in came.bad] == ["r1", "r6"]
    assert came.bad_record(0, "why").record_id == "r5"
    assert not arrivals(draft([INSERT], {"k": ["a"]}), target("integer")).records.truncated
    alone = arrivals(draft([TRUNCATE], {}), target("integer", sequence="integer"))
    assert (len(alone.records), alone.records.truncated, alone.bad) == (0, True, ())


def test_a_draft_of_nothing() -> None:
    came = arrivals(draft([], {}), target("integer", sequence="date"))
    assert (len(came.records), came.bad, came.oldest) == (0, (), None)


def test_a_batch_that_is_skipped_is_bad_as_a_whole() -> None:
    operations = [INSERT, UNREADABLE, TRUNCATE, DELETE]
    came = all_bad(draft(operations, {"k": ["a", "b", None, "c"]}), target("integer"), "because")
    assert (len(came.records), came.records.truncated) == (0, False)
    assert [(bad.record_id, bad.reason) for bad in came.bad] == [(f"r{i}", "because") for i in range(4)]


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (None, None),
        (b"\x00\xff", "\x00\\xff"),
        ("é" * LONGEST, "é" * (LONGEST // 2)),
        ("x" + "é" * LONGEST, "x" + "é" * (LONGEST // 2 - 1) + "\\xc3"),
        (b"x" * (LONGEST + 1), "x" * LONGEST),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_what_is_kept_of_a_bad_record(raw: Any, kept: str | None) -> None:
    came = Draft(np.array([UNREADABLE], np.int8), {}, str, lambda _: raw, {0: "why"})
    assert arrivals(came, target("integer")).bad[0].raw == kept
    assert arrivals(came, target("integer", store_raw=False)).bad[0].raw is None
    assert all_bad(came, target("integer", store_raw=False), "why").bad[0].raw is None
