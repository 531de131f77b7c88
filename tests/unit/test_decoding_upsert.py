"""Encodings `upsert` and `debezium-unwrapped`: rows by the key of their records."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from holdfast.constraints import UsageError
from tests.unit.decoding_batches import arrived, batch, drafted, target

STATES = target("code string; people integer", "code")
NUMBERS = target("id integer; name string; since date", "id")
PAIRS = target("a integer; b string; c decimal(6,2)", "a", "b")


def struct(payload: Any, **fields: Any) -> dict[str, Any]:
    given = [
        {"field": name, **({"type": kind} if isinstance(kind, str) else kind), "optional": True}
        for name, kind in fields.items()
    ]
    return {"schema": {"type": "struct", "fields": given, "optional": False}, "payload": payload}


def scalar(payload: Any, kind: str, name: str | None = None) -> dict[str, Any]:
    return {"schema": {"type": kind, "optional": False, **({"name": name} if name else {})}, "payload": payload}


DATE = {"type": "int32", "name": "org.apache.kafka.connect.data.Date"}
DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (b"NY", "NY"),
        (b"", ""),
        (b" NY ", " NY "),
        (b"01907", "01907"),
        (b"7", "7"),
        (b"7 ", "7 "),
        (b"1.10", "1.10"),
        (b"true", "true"),
        (b'"NY"', "NY"),
        (b'"N\\u0059"', "NY"),
        ("Böb".encode(), "Böb"),
        ({"code": "NY"}, "NY"),
        ({"code": "NY", "other": 1}, "NY"),
        (struct({"code": "NY"}, code="string"), "NY"),
        (scalar("NY", "string"), "NY"),
    ],
)
def test_keys_of_one_column(key: Any, code: str) -> None:
    rows, bad = arrived(
        "upsert", STATES, (key, {"people": 1}), (key, {"people": 2, "code": code}), (key, None), (key, b"null")
    )
    assert not bad
    assert rows == [("insert", code, 1), ("insert", code, 2), ("delete", code, None), ("delete", code, None)]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, "a record without a key, and its value does not have the key's columns either"),
        (b"\x00\x00\x00\x00\x01\x02A", "its key: the first byte is 0: this looks like Avro"),
        (b"\xff", "its key is not UTF-8"),
        (b'{"code": ', "its key: not JSON: it ends at byte 9"),
        (b'"NY', "its key: not JSON: it ends at byte 3"),
        (b"[1]", "its key does not name a row: expected an object with code, or one value"),
        (b"null", "key column code is null or missing"),
        ({"other": 1}, "key column code is null or missing"),
    ],
)
def test_keys_that_say_nothing(key: Any, reason: str) -> None:
    for value in ({"people": 1}, None):
        rows, bad = arrived("upsert", STATES, (b"MA", {"people": 1}), (key, value), (b"CT", {"people": 2}))
        assert [row[1] for row in rows] == ["MA", "CT"]
        assert list(bad) == ["1"]
        assert bad["1"].startswith(reason)


def test_key_and_value_are_compared() -> None:
    rows, bad = arrived(
        "upsert",
        NUMBERS,
        (b"1", {"id": 1, "name": "a"}),
        (b"1", {"id": 1.0, "name": "b"}),
        (b'"01"', {"id": 1, "name": "c"}),
        (b"1", {"id": 2, "name": "d"}),
        (b"1", {"id": None, "name": "e"}),
        (None, {"id": 3, "name": "f"}),
        (b"x", {"id": 4, "name": "g"}),
        (b"1", [1]),
        (b"1", b'{"id": 1'),
    )
    assert [row[1:3] for row in rows] == [(1, "a"), (1, "b"), (1, "c"), (3, "f")]
    assert bad == {
        "3": "its key says that id is 1, its value that it is 2",
        "4": "its key says that id is 1, its value that it is None",
        "6": "its key says that id is x, its value that it is 4",
        "7": "JSON, but not an object: expected {...} with the columns as its fields",
        "8": "not JSON: it ends at byte 8, before it is whole",
    }


def test_keys_of_several_columns() -> None:
    rows, bad = arrived(
        "upsert",
        PAIRS,
        ({"a": 1, "b": "x"}, {"c": 1.5}),
        (
            struct({"a": 1, "b": "y"}, a="int32", b="string"),
            struct({"a": 1, "b": "y", "c": "AMg="}, a="int32", b="string", c=DECIMAL),
        ),
        ({"b": "x", "a": 1}, None),
        ({"a": 1}, {"b": "z", "c": 2}),
        ({"a": 1}, {"c": 2}),
        (b"1", {"c": 2}),
    )
    assert rows == [
        ("insert", 1, "x", Decimal("1.50")),
        ("insert", 1, "y", Decimal("2.00")),
        ("delete", 1, "x", None),
        ("insert", 1, "z", Decimal("2.00")),
    ]
    assert bad["4"].startswith("key column b is null or missing")
    assert bad["5"] == "its key does not name a row: expected an object with a, b"


def test_types_of_keys_and_values() -> None:
    wanted = target("day date; n integer", "day")
    rows, bad = arrived(
        "upsert",
        wanted,
        (scalar(1, "int32", DATE["name"]), struct({"n": 1, "day": 1}, n="int64", day=DATE)),
        (struct({"day": 1}, day=DATE), struct({"n": 2}, n="int64")),
        (b"1970-01-02", {"n": 3}),
        (struct({"day": 2}, day=DATE), struct({"n": 4, "day": 1}, n="int64", day=DATE)),
        (scalar(1, "int32", DATE["name"]), None),
    )
    second = date(1970, 1, 2)
    assert rows == [("insert", second, 1), ("insert", second, 2), ("insert", second, 3), ("delete", second, None)]
    assert bad == {"3": "its key says that day is 1970-01-03, its value that it is 1970-01-02"}


def test_columns_named_as_a_wrapping() -> None:
    wanted = target("id integer; schema string; payload string", "id")
    rows, bad = arrived(
        "upsert", wanted, (b"1", {"schema": "s", "payload": "p", "id": 1}), (b"2", {"schema": "s", "payload": "p"})
    )
    assert rows == [("insert", 1, "s", "p"), ("insert", 2, "s", "p")]
    assert not bad


@pytest.mark.parametrize("encoding", ["upsert", "debezium-unwrapped"])
def test_a_key_is_needed(encoding: str) -> None:
    with pytest.raises(UsageError, match="needs a key"):
        drafted(encoding, target("a integer"), (b"1", {"a": 1}))


FLAT = {"type": "string"}


@pytest.mark.parametrize("wrap", [True, False])
def test_unwrapped(wrap: bool) -> None:
    def flat(**row: Any) -> Any:
        types = {"id": "int32", "name": "string", "since": {"type": "int32", "name": "io.debezium.time.Date"}}
        return struct(row, **{name: types.get(name, FLAT) for name in row}) if wrap else row

    key = struct({"id": 1}, id="int32") if wrap else {"id": 1}
    rows, bad = arrived(
        "debezium-unwrapped",
        NUMBERS,
        (key, flat(id=1, name="a", since=1, __op="c", __deleted="false")),
        (key, flat(id=1, name="b", since=None, __op="u", __deleted="false")),
        (key, flat(id=1, name="__debezium_unavailable_value", since=2, __op="u")),
        (key, flat(id=1, name="c")),
        (key, flat(id=1, name="c", since="rubbish", __op="d", __deleted="true")),
        (key, flat(id=1, __deleted=True)),
        (key, flat(name="no id", __op="d")),
        (key, None),
        (key, flat(id=2, __op="x")),
        (None, None),
        (key, flat(id=1, name="a", since="rubbish", __op="c")),
        (None, flat(ts_ms=1)),
        (None, flat(id=1, since=0, __op="r", ts_ms=1)),
        encodings={"since": "io.debezium.time.Date"},
    )
    deleted = ("delete", 1, None, None)
    assert rows == [
        ("insert", 1, "a", date(1970, 1, 2)),
        ("update", 1, "b", None),
        ("update", 1, "kept", date(1970, 1, 3)),
        ("insert", 1, "c", None),
        deleted,
        deleted,
        deleted,
        deleted,
        ("insert", 1, None, date(1970, 1, 1)),
    ]
    assert sorted(bad) == ["10", "8", "9"]
    assert bad["8"] == "__op is 'x': expected c, r, u, d, t or m"
    assert bad["9"] == "a delete without a key, neither in the record's key nor in its value"
    assert bad["10"].startswith("column since: 'rubbish' is no whole number of days")


def test_unwrapped_records_that_say_nothing_are_counted() -> None:
    draft = drafted("debezium-unwrapped", NUMBERS, {"ts_ms": 5}, (b"1", {"id": 1, "__op": "t"}), {"id": 1, "__op": "c"})
    assert draft.skipped == 1
    assert [draft.record_id(i) for i in range(2)] == ["topic-0-1", "topic-0-2"]
    assert draft.raw(1) == b'{"id":1,"__op":"c"}'


@pytest.mark.parametrize("encoding", ["upsert", "debezium-unwrapped"])
def test_an_empty_batch(encoding: str) -> None:
    assert len(drafted(encoding, NUMBERS)) == 0
    assert batch().num_rows == 0
