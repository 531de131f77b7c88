"""Encoding `json`: from records of Kafka to rows."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from holdfast.streaming.decoding import decoder
from holdfast.streaming.incoming.arrivals import arrivals
from tests.unit.decoding_batches import arrived, batch, drafted, target

PEOPLE = target("name string; salary decimal(10,2); hired date", "name")


def test_rows_and_operations() -> None:
    rows, bad = arrived(
        "json",
        PEOPLE,
        {"name": "Ann", "salary": 1, "hired": "2024-02-29"},
        b' {"salary": 1.10, "_op": "update", "_seq": 7, "other": [1, {"salary": 2}], "name": "B\\u00f6b"}\n',
        {"_op": "delete", "name": "Ann", "salary": "rubbish"},
        {"_op": None, "name": "Cid", "hired": None},
    )
    assert rows == [
        ("insert", "Ann", Decimal("1.00"), date(2024, 2, 29)),
        ("update", "Böb", Decimal("1.10"), None),
        ("delete", "Ann", None, None),
        ("insert", "Cid", None, None),
    ]
    assert not bad


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (None, "a record without a value has no meaning in encoding json; if it deletes the row of its key, use "),
        (b"", "not JSON: it is empty"),
        (b"null", "JSON, but not an object: expected {...} with the columns as its fields"),
        (b"[1]", "JSON, but not an object: "),
        (b'{"name": "A"} x', "not JSON: expected nothing more at byte 14"),
        (b'{"name": "A"}{"name": "B"}', "not JSON: expected nothing more at byte 13"),
        (b'{"name": }', "not JSON: expected a value at byte 9"),
        (b'{"name": NaN}', "not JSON: expected a value at byte 9"),
        (b'{"name" "A"}', "not JSON: expected ':' at byte 8"),
        (b'{"name": "A" 1}', "not JSON: expected ',' or an end at byte 13"),
        (b"{name: 1}", "not JSON: expected a field's name in quotes at byte 1"),
        (b'{"name": "A", "salary": 01907}', "not JSON: not a number at byte 25"),
        (b'{"name": "A\n"}', "not JSON: a control character within a text at byte 11"),
        (b'{"name": "\\x"}', "not JSON: an escape that there is not at byte 10"),
        (b'{"name": "\\ud800"}', "half of a surrogate pair at byte 10"),
        (b'{"name": "\xff"}', "not UTF-8 at byte 10"),
        (b'{"name": "A', "not JSON: it ends at byte 11, before it is whole"),
        (b'{"x": ' + b"[" * 300 + b"]" * 300 + b"}", "more than 256 levels deep at byte 261"),
        (b'\xef\xbb\xbf{"name": "A"}', "it begins with a byte order mark"),
        (b"\x00\x00\x00\x00\x01\x02A", "the first byte is 0: this looks like Avro in the Confluent wire format"),
        (b'{"name": "A", "_op": "upsert"}', "_op is 'upsert': expected insert, update or delete"),
        (b'{"name": "A", "_op": 1}', "_op is '1': expected insert, update or delete"),
        (b'{"name": "A", "salary": 1e999}', "column salary: '1e999' is not a number with the declared digits"),
        (b'{"name": "A", "hired": {"y": 1}}', "column hired: '{\"y\": 1}' is not a date"),
        (b'{"salary": 1}', "key column name is null or missing"),
    ],
)
def test_reasons(record: bytes | None, reason: str) -> None:
    rows, bad = arrived("json", PEOPLE, {"name": "before"}, record, {"name": "after"})
    assert [row[1] for row in rows] == ["before", "after"]
    assert list(bad) == ["1"]
    assert bad["1"].startswith(reason)


def test_records_are_put_in_order_and_named() -> None:
    shuffled = batch((b"k", b'{"name": "b"}'), (b"k", None), (b"k", b'{"name": "a"}')).take([2, 1, 0])
    shuffled = shuffled.set_column(2, "partition", pa.array([1, 2, 1], pa.int32()))
    draft = decoder("json")(shuffled, PEOPLE, "my-topic", {})
    assert draft.cells["name"].to_pylist() == ["b", "a", None]
    assert [draft.record_id(i) for i in range(3)] == ["my-topic-1-0", "my-topic-1-2", "my-topic-2-1"]
    assert [draft.raw(i) for i in range(3)] == [b'{"name": "b"}', b'{"name": "a"}', b"k"]
    assert draft.oldest == 1_700_000_000.0


@pytest.mark.parametrize(
    "made", [lambda b: b, lambda b: b.to_batches()[0], lambda b: pa.concat_tables([b, b.slice(1)])]
)
def test_an_empty_batch(made: object) -> None:
    empty = made(batch({"name": "x"})).slice(0, 0)  # type: ignore[operator]
    draft = decoder("json")(empty, PEOPLE, "topic", {})
    assert len(draft) == 0
    assert draft.oldest is None
    assert len(arrivals(draft, PEOPLE).records) == 0


def test_columns_may_be_written_as_configured() -> None:
    rows, bad = arrived(
        "json",
        PEOPLE,
        {"name": "Ann", "hired": 0},
        {"name": "Bob", "hired": "2024-02-29"},
        {"name": "Bob", "hired": "rubbish", "_op": "delete"},
        encodings={"hired": "io.debezium.time.Date"},
    )
    assert rows == [("insert", "Ann", None, date(1970, 1, 1)), ("delete", "Bob", None, None)]
    assert bad["1"].startswith("column hired: '2024-02-29' is no whole number of days since 1970-01-01")


def test_numbers_keep_their_digits() -> None:
    texts = ["1.10", "1e5", "12345678901234567890.123456789", "-0", "100"]
    draft = drafted("json", target("a string"), *(f'{{"a": {text}}}'.encode() for text in texts))
    assert draft.cells["a"].to_pylist() == texts


@pytest.mark.parametrize("encoding", ["json", "debezium"])
def test_numbers_are_read_as_files_have_them(encoding: str) -> None:
    """An exponent is no reason to refuse a whole number; a number beyond all floats is not infinite."""
    records = [b'{"n": 1e2, "x": 1e308}', b'{"n": 1, "x": 1e400}', b'{"n": 15e-1, "x": 1}', b'{"n": 7.0, "x": "inf"}']
    if encoding == "debezium":
        records = [b'{"op": "c", "before": null, "after": ' + record + b"}" for record in records]
    rows, bad = arrived(encoding, target("n integer; x float"), *records)
    assert rows == [("insert", 100, 1e308), ("insert", 7, float("inf"))]
    assert bad == {
        "1": "column x: '1e400' is not a number within 64 bits (float)",
        "2": "column n: '15e-1' is not a whole number within 64 bits (integer)",
    }
