"""Encoding `debezium`: every operation, with schema and without, and what is no change."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from holdfast.streaming.decoding.connect import columns_of
from tests.unit.decoding_batches import arrived, batch, drafted, target, written

UNAVAILABLE = "__debezium_unavailable_value"
CUSTOMERS = "id integer; name string; email string; balance decimal(12,2)"
KEYED, KEYLESS = target(CUSTOMERS, "id"), target(CUSTOMERS)

POSTGRES = {
    "version": "2.7.0.Final", "connector": "postgresql", "name": "dbserver1", "ts_ms": 1559033904863, "snapshot": "true",
    "db": "postgres", "sequence": '["24023119","24023128"]', "schema": "inventory", "table": "customers", "txId": 555,
    "lsn": 24023128, "xmin": None,
}  # fmt: skip
MYSQL = {
    "version": "2.7.0.Final", "connector": "mysql", "name": "dbserver1", "ts_ms": 1465491411815, "snapshot": "false",
    "db": "inventory", "sequence": None, "table": "customers", "server_id": 223344, "gtid": None,
    "file": "mysql-bin.000003", "pos": 484, "row": 0, "thread": 7, "query": "UPDATE `customers` SET name = 'x' /* {\"op\":\"d\"} */",
}  # fmt: skip


def bytes_of(number: int) -> str:
    return base64.b64encode(
        number.to_bytes((8 + (number + (number < 0)).bit_length()) // 8, "big", signed=True)
    ).decode()


def row(number: int, name: str | None = "Ann", email: str | None = "a@b.c", balance: str = "1.50") -> dict[str, Any]:
    return {"id": number, "name": name, "email": email, "balance": bytes_of(int(Decimal(balance) * 100))}


ROW_FIELDS: list[dict[str, Any]] = [
    {"type": "int32", "optional": False, "default": 0, "field": "id"},
    {"type": "string", "optional": True, "field": "name"},
    {"type": "string", "optional": True, "field": "email"},
    {
        "type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal", "version": 1,
        "parameters": {"scale": "2", "connect.decimal.precision": "12"}, "field": "balance",
    },
]  # fmt: skip


def envelope_schema(fields: list[dict[str, Any]]) -> dict[str, Any]:
    struct = {"type": "struct", "fields": fields, "optional": True, "name": "dbserver1.inventory.customers.Value"}
    source = {
        "type": "struct",
        "fields": [{"type": "string", "optional": name != "version", "field": name} for name in POSTGRES],
        "optional": False,
        "name": "io.debezium.connector.postgresql.Source",
        "field": "source",
    }
    return {
        "type": "struct",
        "fields": [
            {**struct, "field": "before"},
            {**struct, "field": "after"},
            source,
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
        "optional": False,
        "name": "dbserver1.inventory.customers.Envelope",
        "version": 1,
    }


def change(op: str, before: Any = None, after: Any = None, source: Any = None) -> dict[str, Any]:
    return {
        "before": before, "after": after, "source": source or POSTGRES, "transaction": None, "op": op, "ts_ms": 1559033904863,
        "ts_us": 1559033904863123, "ts_ns": 1559033904863123000,
    }  # fmt: skip


def wrapped(payload: Any, fields: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"schema": envelope_schema(fields or ROW_FIELDS), "payload": payload}


def key_of(number: int, *, wrap: bool = True) -> Any:
    schema = {"type": "struct", "fields": [{"type": "int32", "optional": False, "field": "id"}], "optional": False}
    return {"schema": schema, "payload": {"id": number}} if wrap else {"id": number}


ENCODINGS = {"balance": "org.apache.kafka.connect.data.Decimal"}
FORMS = [pytest.param(wrapped, id="schema"), pytest.param(lambda payload: payload, id="plain")]


@pytest.mark.parametrize("source", [POSTGRES, MYSQL])
@pytest.mark.parametrize("form", FORMS)
def test_changes_with_a_key(form: Any, source: Any) -> None:
    rows, bad = arrived(
        "debezium",
        KEYED,
        (key_of(1), form(change("r", None, row(1), source))),
        (key_of(2), form(change("c", None, row(2, "Böb", None, "-0.01"), source))),
        (key_of(1), form(change("u", row(1), row(1, "Anna"), source))),
        (key_of(1), form(change("u", None, row(1, "Anne"), source))),
        (key_of(1), form(change("u", row(1), row(3), source))),
        (key_of(2), form(change("d", row(2), None, source))),
        (key_of(2), None),
        (key_of(4), form(change("d", {"id": 4}, None, source))),
        (key_of(5), form(change("d", None, None, source))),
        (key_of(6, wrap=False), form(change("d", {"name": "x"}, None, source))),
        encodings=ENCODINGS,
    )
    assert not bad
    assert rows == [
        ("insert", 1, "Ann", "a@b.c", Decimal("1.50")),
        ("insert", 2, "Böb", None, Decimal("-0.01")),
        ("update", 1, "Anna", "a@b.c", Decimal("1.50")),
        ("update", 1, "Anne", "a@b.c", Decimal("1.50")),
        ("delete", 1, None, None, None),
        ("update", 3, "Ann", "a@b.c", Decimal("1.50")),
        ("delete", 2, None, None, None),
        ("delete", 4, None, None, None),
        ("delete", 5, None, None, None),
        ("delete", 6, None, None, None),
    ]


@pytest.mark.parametrize("form", FORMS)
def test_changes_without_a_key(form: Any) -> None:
    rows, bad = arrived(
        "debezium",
        KEYLESS,
        form(change("c", None, row(1))),
        form(change("u", row(1), row(1, "Anna"))),
        form(change("d", row(1, "Anna"))),
        form(change("u", None, row(1, "Anna"))),
        form(change("u", {"id": 1}, row(1, "Anna"))),
        form(change("d", {"id": 1})),
        form(change("d", None)),
        (key_of(1), form(change("d", dict.fromkeys(row(1)) | {"id": 1}))),
        (key_of(1), form(change("d", row(1)))),
        encodings=ENCODINGS,
    )
    ann = (1, "Ann", "a@b.c", Decimal("1.50"))
    anna = (1, "Anna", "a@b.c", Decimal("1.50"))
    assert rows == [("insert", *ann), ("delete", *ann), ("insert", *anna), ("delete", *anna), ("delete", *ann)]
    assert sorted(bad) == ["3", "4", "5", "6", "7"]
    assert all(reason.endswith("set REPLICA IDENTITY FULL or declare a key") for reason in bad.values())


def test_the_two_rows_of_a_change_go_together() -> None:
    wrong = {**row(1), "id": "x"}
    draft = drafted("debezium", KEYLESS, change("u", row(1), row(2)), encodings=ENCODINGS)
    assert draft.record_id(0) == draft.record_id(1) == "topic-0-0"
    rows, bad = arrived(
        "debezium",
        KEYLESS,
        change("u", row(1), wrong),
        change("u", wrong, row(2)),
        change("u", row(1), {**row(1), "balance": "!"}),
        change("c", None, row(9)),
        encodings=ENCODINGS,
    )
    assert [one[1] for one in rows] == [9]
    assert bad["0"] == bad["1"] == "column id: 'x' is not a whole number within 64 bits (integer)"
    assert list(bad) == ["0", "1", "2"]
    moved, refused = arrived(
        "debezium",
        KEYED,
        change("u", row(1), wrong),
        change("u", row(1), {**row(2), "balance": "!"}),
        change("u", {**row(1), "balance": "!"}, row(2)),
        encodings=ENCODINGS,
    )
    assert [one[:2] for one in moved] == [("delete", 1), ("update", 2)]
    assert sorted(refused) == ["0", "1"]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_change_is_counted(form: Any) -> None:
    def value(payload: Any, **fields: str) -> Any:
        schema = {"type": "struct", "fields": [{"type": kind, "field": name} for name, kind in fields.items()]}
        return payload if form(1) == 1 else {"schema": schema, "payload": payload}

    draft = drafted(
        "debezium",
        KEYED,
        (key_of(1), None),
        (key_of(1), b"null"),
        (key_of(1), b'{"schema":null,"payload":null}'),
        ({"serverName": "dbserver1"}, value({"ts_ms": 1559033904863}, ts_ms="int64")),
        value(
            {"status": "BEGIN", "id": "571", "event_count": None, "data_collections": None, "ts_ms": 1}, status="string"
        ),
        value(
            {
                "status": "END",
                "id": "571",
                "event_count": 2,
                "data_collections": [{"data_collection": "s.a", "event_count": 2}],
            },
            status="string",
        ),
        form({"op": "m", "ts_ms": 1, "source": POSTGRES, "message": {"prefix": "p", "content": "Ymx1Yg=="}}),
        form(change("c", None, row(1))),
        encodings=ENCODINGS,
    )
    assert draft.skipped == 7
    assert len(draft) == 1
    assert draft.record_id(0) == "topic-0-7"


def test_an_update_may_hide_a_change_of_another_key() -> None:
    by_email = target(CUSTOMERS, "email")
    rows, bad = arrived(
        "debezium",
        by_email,
        (key_of(1), change("u", row(1), row(1, email="x"))),
        (key_of(1), change("u", None, row(1, email="y"))),
        (key_of(1), change("u", {"id": 1}, row(1, email="y"))),
        ({"email": "z", "id": 1}, change("u", None, row(1, email="z"))),
        (None, change("u", None, row(1, email="w"))),
        (key_of(1), change("c", None, row(1, email="v"))),
        encodings=ENCODINGS,
    )
    assert [(one[0], one[3]) for one in rows] == [
        ("delete", "a@b.c"), ("update", "x"), ("update", "z"), ("update", "w"), ("insert", "v"),
    ]  # fmt: skip
    assert sorted(bad) == ["1", "2"]
    assert bad["1"].endswith("of the table, email: set REPLICA IDENTITY FULL or declare the source's key")


def test_a_truncation_empties_the_table() -> None:
    rows, bad = arrived(
        "debezium", KEYED, change("c", None, row(1)), change("t"), change("c", None, row(2)), encodings=ENCODINGS
    )
    assert [one[:2] for one in rows] == [("insert", 2)]
    assert not bad


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"a": 1}, "no Debezium envelope: op is missing"),
        (row(1), "no Debezium envelope: op is missing"),
        (change("x"), "op is 'x': expected c, r, u, d, t or m"),
        (change("c"), "the row after the change is missing"),
        (change("u", row(1)), "the row after the change is missing"),
        (change("d"), "a delete without a key"),
        (b'{"op": "c"', "not JSON: it ends at byte 10"),
        (b"[]", "JSON, but not an object"),
        (b"\x00\x00\x00\x00\x07abc", "the first byte is 0: this looks like Avro"),
        ({"schema": {}, "payload": 7}, "its payload is not an object"),
        (change("c", None, {**row(1), "balance": "=="}), "column balance: '==' is no base64 of a whole number"),
        (change("c", None, {**row(1), "balance": bytes_of(10**12)}), "column balance: '10000000000.00' is not a number"),
        (change("c", None, {**row(1), "balance": bytes_of(10**60)}), "column balance: '"),
        (change("c", None, {"name": "x"}), "key column id is null or missing"),
        (change("c", None, {**row(1), "id": 1.5}), "column id: '1.5' is not a whole number"),
        (change("c", None, {**row(1), "id": UNAVAILABLE}), "column id was not sent, and cannot be kept"),
        (change("u", row(1), row(2, "x", UNAVAILABLE)), "column email was not sent, and cannot be kept as it was, since its key"),
    ],
)  # fmt: skip
def test_reasons(record: Any, reason: str) -> None:
    rows, bad = arrived(
        "debezium", KEYED, change("c", None, row(8)), record, change("c", None, row(9)), encodings=ENCODINGS
    )
    assert [one[1] for one in rows] == [8, 9]
    assert list(bad) == ["1"]
    assert bad["1"].startswith(reason)


@pytest.mark.parametrize("form", FORMS)
def test_values_that_were_not_sent_are_kept(form: Any) -> None:
    rows, bad = arrived(
        "debezium",
        KEYED,
        form(change("u", None, row(1, UNAVAILABLE))),
        form(change("u", row(1), row(1, "x", UNAVAILABLE))),
        form(change("u", row(1), {**row(1), "balance": base64.b64encode(UNAVAILABLE.encode()).decode()})),
        form(change("u", row(1), row(1))),
        encodings=ENCODINGS,
    )
    assert not bad
    assert rows == [
        ("update", 1, "kept", "a@b.c", Decimal("1.50")),
        ("update", 1, "x", "kept", Decimal("1.50")),
        ("update", 1, "Ann", "a@b.c", "kept"),
        ("update", 1, "Ann", "a@b.c", Decimal("1.50")),
    ]
    rows, bad = arrived("debezium", KEYLESS, form(change("u", row(1), row(1, UNAVAILABLE))), encodings=ENCODINGS)
    assert not rows
    assert bad["0"].startswith("column name was not sent, and cannot be kept as it was, since the table has no key")


def test_schemas_may_change_within_a_batch() -> None:
    other = [*ROW_FIELDS[:3], {"type": "string", "optional": True, "field": "balance"}]
    third = [*ROW_FIELDS[:3], {**ROW_FIELDS[3], "parameters": {"scale": "1"}}]
    rows, bad = arrived(
        "debezium",
        KEYED,
        wrapped(change("c", None, row(1))),
        wrapped(change("c", None, {**row(2), "balance": "2.50"}), other),
        change("c", None, row(3, balance="3.50")),
        wrapped(change("c", None, {**row(4), "balance": bytes_of(45)}), third),
        wrapped(change("c", None, row(5, balance="5.50"))),
        wrapped(change("c", None, {**row(6), "balance": "x"}), other),
        encodings=ENCODINGS,
    )
    assert [str(one[4]) for one in rows] == ["1.50", "2.50", "3.50", "4.50", "5.50"]
    assert bad == {"5": "column balance: 'x' is not a number with the declared digits (decimal(12,2))"}


DAY, SECOND = 86_400, 1
TYPES: list[tuple[str, str, Any, Any]] = [
    ("date", "io.debezium.time.Date", 0, date(1970, 1, 1)),
    ("date", "io.debezium.time.Date", -719162, date(1, 1, 1)),
    ("date", "org.apache.kafka.connect.data.Date", 2932896, date(9999, 12, 31)),
    ("date", "io.debezium.time.Date", 2932897, "lies outside the years 1 to 9999"),
    ("date", "io.debezium.time.Date", -719163, "lies outside the years 1 to 9999"),
    ("date", "io.debezium.time.Date", 2**40, "lies outside the years 1 to 9999"),
    ("date", "io.debezium.time.Date", "2024-02-29", "is no whole number of days since 1970-01-01 (io.debezium.time.Date)"),
    ("date", "io.debezium.time.Date", 1.5, "is no whole number of days"),
    ("date", "io.debezium.time.Date", 2**64, "is no whole number of days"),
    ("string", "io.debezium.time.Date", -1, "1969-12-31"),
    ("timestamp", "io.debezium.time.Timestamp", 1_709_210_096_789, datetime(2024, 2, 29, 12, 34, 56, 789_000, UTC)),
    ("timestamp", "org.apache.kafka.connect.data.Timestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
    ("timestamp", "io.debezium.time.Timestamp", -62_135_596_800_000, datetime(1, 1, 1, tzinfo=UTC)),
    ("timestamp", "io.debezium.time.Timestamp", 253_402_300_799_999, datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)),
    ("timestamp", "io.debezium.time.Timestamp", 253_402_300_800_000, "lies outside the years 1 to 9999"),
    ("timestamp", "io.debezium.time.Timestamp", 2**63 - 1, "lies outside the years 1 to 9999"),
    ("timestamp", "io.debezium.time.MicroTimestamp", 1_709_210_096_789_123, datetime(2024, 2, 29, 12, 34, 56, 789_123, UTC)),
    ("timestamp", "io.debezium.time.MicroTimestamp", -(2**63), "lies outside the years 1 to 9999"),
    ("timestamp", "io.debezium.time.NanoTimestamp", 1_709_210_096_789_123_000, datetime(2024, 2, 29, 12, 34, 56, 789_123, UTC)),
    ("timestamp", "io.debezium.time.NanoTimestamp", 1_709_210_096_789_123_456, "is not a time such as"),
    ("string", "io.debezium.time.NanoTimestamp", 1_709_210_096_789_123_456, "2024-02-29T12:34:56.789123456"),
    ("timestamp", "io.debezium.time.ZonedTimestamp", "2024-02-29T12:34:56.5Z", datetime(2024, 2, 29, 12, 34, 56, 500_000, UTC)),
    ("timestamp", "io.debezium.time.ZonedTimestamp", "2024-02-29T14:34:56+02:00", datetime(2024, 2, 29, 12, 34, 56, 0, UTC)),
    ("timestamp", "io.debezium.time.ZonedTimestamp", "never", "is not a time such as"),
    ("string", "io.debezium.time.ZonedTime", "12:34:56+02:00", "12:34:56+02:00"),
    ("string", "io.debezium.time.Time", 45_296_789, "12:34:56.789"),
    ("string", "org.apache.kafka.connect.data.Time", 0, "00:00:00"),
    ("string", "io.debezium.time.MicroTime", 45_296_000_001, "12:34:56.000001"),
    ("string", "io.debezium.time.MicroTime", -3_020_399_000_000, "-838:59:59"),
    ("string", "io.debezium.time.NanoTime", 86_400_000_000_000, "24:00:00"),
    ("string", "io.debezium.time.NanoTime", 1, "00:00:00.000000001"),
    ("integer", "io.debezium.time.Year", 2024, 2024),
    ("decimal(5,2)", "org.apache.kafka.connect.data.Decimal", bytes_of(-99999), Decimal("-999.99")),
    ("decimal(5,2)", "org.apache.kafka.connect.data.Decimal", bytes_of(100000), "'1000.00' is not a number with the declared"),
    ("decimal(5,2)", "org.apache.kafka.connect.data.Decimal", "AA==", Decimal("0.00")),
    ("decimal(5,2)", "org.apache.kafka.connect.data.Decimal", "AAAAAAAAAAAAAAAA/w==", Decimal("2.55")),
    ("decimal(5,2)", "org.apache.kafka.connect.data.Decimal", 1.25, Decimal("1.25")),
    ("decimal(38,0)", "org.apache.kafka.connect.data.Decimal", bytes_of(10**38 - 1), Decimal(10**38 - 1)),
    ("decimal(38,0)", "org.apache.kafka.connect.data.Decimal", bytes_of(1 - 10**38), Decimal(1 - 10**38)),
    ("decimal(38,0)", "org.apache.kafka.connect.data.Decimal", bytes_of(10**38), "is not a number with the declared"),
    ("decimal(38,0)", "org.apache.kafka.connect.data.Decimal", bytes_of(-(2**127)), "is not a number with the declared"),
    ("decimal(38,0)", "org.apache.kafka.connect.data.Decimal", bytes_of(2**127), "is a number of more than 16 bytes"),
    ("decimal(38,0)", "org.apache.kafka.connect.data.Decimal", "", "is no base64 of a whole number"),
    ("decimal(38,0)", "org.apache.kafka.connect.data.Decimal", "A", "is no base64 of a whole number"),
    ("decimal(38,0)", "org.apache.kafka.connect.data.Decimal", "AB==", "is no base64 of a whole number"),
    ("decimal(38,0)", "org.apache.kafka.connect.data.Decimal", "12.5", "is no base64 of a whole number"),
    ("integer", "org.apache.kafka.connect.data.Decimal", bytes_of(-(2**63)), -(2**63)),
    ("string", "org.apache.kafka.connect.data.Decimal", bytes_of(7), "takes its scale from the column's type, which is string"),
    ("decimal(9,3)", "io.debezium.data.VariableScaleDecimal", {"scale": 2, "value": bytes_of(-12345)}, Decimal("-123.450")),
    ("decimal(9,3)", "io.debezium.data.VariableScaleDecimal", {"scale": -2, "value": bytes_of(7)}, Decimal("700.000")),
    ("decimal(9,3)", "io.debezium.data.VariableScaleDecimal", {"scale": 4, "value": bytes_of(1)}, "'0.0001' is not a number"),
    ("decimal(9,3)", "io.debezium.data.VariableScaleDecimal", 1.5, Decimal("1.500")),
    ("decimal(9,3)", "io.debezium.data.VariableScaleDecimal", "AQ==", "is no object with a scale and at most 16 bytes"),
    ("float", "", "NaN", "nan"),
    ("float", "", 0.1, 0.1),
    ("boolean", "", True, True),
    ("boolean", "", 1, "'1' is not true or false"),
    ("string", "", {"a": [1.10]}, '{"a":[1.1]}'),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "encoding", "value", "expected"), TYPES)
@pytest.mark.parametrize("with_schema", [True, False])
def test_types(kind: str, encoding: str, value: Any, expected: Any, with_schema: bool) -> None:
    wanted = target(f"id integer; v {kind}", "id")
    field: dict[str, Any] = {"type": "int64", "optional": True, "field": "v"}
    if encoding:
        field["name"] = encoding
    if encoding.endswith(".Decimal"):
        scale = kind.partition(",")[2].strip(")") or "0"
        field |= {"type": "bytes", "parameters": {"scale": scale}}
        if kind == "string" and with_schema:
            expected = "7"
    fields = [{"type": "int64", "field": "id"}, field]
    payloads = [
        change("c", None, {"id": 1, "v": value}),
        change("c", None, {"id": 2, "v": None}),
        change("c", None, {"id": 3}),
    ]
    records = [wrapped(payload, fields) if with_schema else payload for payload in payloads]
    rows, bad = arrived("debezium", wanted, *records, encodings={"v": encoding} if encoding else {})
    found = {one[1]: one[2] for one in rows}
    assert found[2] is found[3] is None
    if 1 in found:
        assert str(found[1]) == str(expected)
        assert type(found[1]) is type(expected) or expected == "nan"
    else:
        assert expected in bad["0"]


def test_escapes_in_base64() -> None:
    record = b'{"op":"c","after":{"id":1,"balance":"\\u0041Q=\\u003d"}}'
    rows, _ = arrived("debezium", KEYED, record, encodings=ENCODINGS)
    assert rows == [("insert", 1, None, None, Decimal("0.01"))]


def test_columns_of_a_record() -> None:
    fields = [
        *ROW_FIELDS,
        {"type": "int32", "name": "io.debezium.time.Date", "field": "born"},
        {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "field": "seen"},
        {"type": "int64", "name": "io.debezium.time.NanoTimestamp", "field": "exact"},
        {"type": "string", "name": "io.debezium.time.ZonedTimestamp", "field": "zoned"},
        {"type": "int64", "name": "io.debezium.time.MicroTime", "field": "at"},
        {"type": "int32", "name": "io.debezium.time.Year", "field": "year"},
        {"type": "struct", "fields": [], "name": "io.debezium.data.VariableScaleDecimal", "field": "any"},
        {"type": "double", "field": "rate"},
        {"type": "boolean", "field": "on"},
        {"type": "bytes", "field": "photo"},
        {"type": "array", "items": {"type": "string"}, "field": "tags"},
        {"type": "struct", "fields": [], "name": "io.debezium.data.geometry.Point", "field": "place"},
    ]
    value = written(wrapped(change("c", None, row(1)), fields))
    assert value is not None
    assert [str(column) for column in columns_of(value) or []] == [
        "id integer", "name string", "email string", "balance decimal(12,2)", "born date", "seen timestamp",
        "exact timestamp(9)", "zoned timestamp", "at string", "year integer", "any decimal(38,9)", "rate float", "on boolean",
    ]  # fmt: skip
    for other in (b"", b"{", b"{}", b'{"schema":null,"payload":{}}', json.dumps(change("c", None, row(1))).encode()):
        assert columns_of(other) is None


def test_an_empty_batch() -> None:
    draft = drafted("debezium", KEYED)
    assert len(draft) == draft.skipped == 0
    assert batch().num_rows == 0
    assert len(drafted("debezium", KEYLESS)) == 0
