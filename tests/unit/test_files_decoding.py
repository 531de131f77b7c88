"""Files of changes to records: what is read, in which order, and which line is bad."""

from __future__ import annotations

import gzip
import io
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.constraints import Column, Schema, parse_type
from holdfast.streaming.decoding.files import ChangedFile, Kind, draft_of
from holdfast.streaming.incoming.arrivals import Arrivals, Target, arrivals
from holdfast.streaming.incoming.netting import DELETE, INSERT, UPDATE
from holdfast.tables import ReadOptions

WORDS = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}
SCHEMA = Schema(
    "t", (Column("k", parse_type("string")), Column("n", parse_type("integer")), Column("d", parse_type("date")))
)
TARGET = Target(SCHEMA, ("k",))


def came(kind: Kind, *contents: bytes | tuple[str, bytes], known: tuple[str, ...] = (), **options: Any) -> Arrivals:
    """Read files that were written one second after the other, given in some other order."""
    named = [c if isinstance(c, tuple) else (f"/in/{i}.{kind}", c) for i, c in enumerate(contents)]
    files = [ChangedFile(name, content, 100.0 + i) for i, (name, content) in enumerate(named)]
    return arrivals(draft_of(files[::-1], TARGET, kind, ReadOptions(**options), known), TARGET)


def rows(found: Arrivals) -> list[tuple[Any, ...]]:
    table = found.records.table
    columns = [table[name].values().to_pylist() for name in table.schema.names]
    return [
        (WORDS[int(o)], *cells) for o, cells in zip(found.records.operations, zip(*columns, strict=True), strict=True)
    ]


def bad(found: Arrivals) -> dict[str, str]:
    names = [record.record_id for record in found.bad]
    assert len(set(names)) == len(names)
    return {record.record_id: record.reason for record in found.bad}


def parquet(columns: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


# JSON lines


def test_json_lines() -> None:
    lines = [
        '{"k": "a", "n": 1, "d": "2024-02-29", "_op": "update"}',
        "",
        "  \t ",
        '{"n": null, "k": "b\\u2028\\n", "other": {"k": 1}}\r',
        '{"_op": "delete", "k": "a", "n": "rubbish"}',
    ]
    found = came("json", "\n".join(lines).encode())
    assert not found.bad
    assert rows(found) == [
        ("update", "a", 1, date(2024, 2, 29)),
        ("insert", "b\u2028\n", None, None),
        ("delete", "a", None, None),
    ]


def test_bad_lines_of_json_are_named_and_kept() -> None:
    lines = [
        b"",
        b'{"k": "a"',
        b'{"k": "b"}',
        b"[]",
        b'{"k": "c", "n": 1.5}',
        b'{"k": "\xff"}',
        b'{"n": 1}',
        b'{"k": "d", "_op": "x"}',
    ]
    found = came("json", b"\n".join(lines) + b"\n")
    assert rows(found) == [("insert", "b", None, None)]
    reasons = bad(found)
    assert list(reasons) == [f"/in/0.json-{line}" for line in (2, 4, 5, 6, 7, 8)]
    assert reasons["/in/0.json-5"] == "column n: '1.5' is not a whole number within 64 bits (integer)"
    assert reasons["/in/0.json-7"] == "key column k is null or missing: a record needs all key columns"
    assert reasons["/in/0.json-8"] == "_op is 'x': expected insert, update or delete"
    assert [record.raw for record in found.bad][:2] == ['{"k": "a"', "[]"]
    assert found.bad[3].raw == '{"k": "\\xff"}'


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_no_files_and_empty_files(kind: Kind) -> None:
    assert len(came(kind).records) == 0
    found = came(kind, b"", b"", b"")
    assert len(found.records) == 0
    if kind == "json":
        assert not found.bad
    else:
        assert list(bad(found)) == [f"/in/{i}.{kind}" for i in range(3)]
        assert all("empty" in reason or "Parquet" in reason for reason in bad(found).values())


def test_compressed_lines_and_those_that_are_not() -> None:
    whole = gzip.compress(b'{"k": "a"}\nx\n{"k": "b"}')
    found = came("json", ("/in/a b%.json.gz", whole), ("/in/é.json.gz", whole[:-9]), ("/in/c.json.gz", b'{"k": "z"}'))
    assert [row[1] for row in rows(found)] == ["a", "b"]
    assert list(bad(found)) == ["/in/a b%.json.gz-2", "/in/é.json.gz", "/in/c.json.gz"]
    assert "is it whole, and compressed as its name says?" in bad(found)["/in/é.json.gz"]
    assert "/in/c.json.gz cannot be read" in bad(found)["/in/c.json.gz"]


def test_a_file_after_one_without_a_line_end() -> None:
    found = came("json", b'{"k": "a"}', b'{"k": "b"}\n', b'\n\n{"k": "c"}\n{"k": ')
    assert [row[1] for row in rows(found)] == ["a", "b", "c"]
    assert list(bad(found)) == ["/in/2.json-4"]


# Delimited text


def test_csv_with_everything_in_quotes() -> None:
    text = '_op,n,k,d\r\nupdate,1,"a\nb ""c"", d",2024-02-29\r\n,+2,"",\r\ndelete,x,é,\r\n'
    found = came("csv", text.encode())
    assert rows(found) == [("update", 'a\nb "c", d', 1, date(2024, 2, 29)), ("delete", "é", None, None)]
    assert list(bad(found)) == ["/in/0.csv-4"]  # the empty field is null, in quotes or not: no key


def test_bad_lines_of_csv_behind_fields_of_several_lines() -> None:
    text = 'k,n,d\n"a\n\nb",1,\n\nc,x,\nd,2,2024-02-30\ne,3,\n'
    found = came("csv", text.encode())
    assert rows(found) == [("insert", "a\n\nb", 1, None), ("insert", "e", 3, None)]
    reasons = bad(found)
    assert list(reasons) == ["/in/0.csv-6", "/in/0.csv-7"]
    assert reasons["/in/0.csv-7"] == "column d: '2024-02-30' is not a date such as 2024-02-29 (date)"
    assert [record.raw for record in found.bad] == ["c,x,", "d,2,2024-02-30"]


def test_ragged_lines_keep_only_themselves_back() -> None:
    found = came("csv", b"k,n,d\na,1,\nb,2\nc,3,,\nd,4,\n")
    assert rows(found) == [("insert", "a", 1, None), ("insert", "d", 4, None)]
    assert bad(found) == {
        "/in/0.csv-3": "2 fields where the header has 3",
        "/in/0.csv-4": "4 fields where the header has 3",
    }
    assert [record.raw for record in found.bad] == ["b,2", "c,3,,"]


def test_a_quote_that_nothing_closes() -> None:
    text = b'k,n,d\na,1,\n"b,2,\nc,3,\n'  # what it would swallow, nobody knows: all of the file is one bad record
    found = came("csv", text, b"k,n\nz,1\n")
    assert rows(found) == [("insert", "z", 1, None)]
    assert list(bad(found)) == ["/in/0.csv"]
    assert bad(found)["/in/0.csv"].startswith("/in/0.csv, line 3: a field begins with a quote that is never closed")
    assert found.bad[0].raw == text.decode()


def test_other_delimiters_null_tokens_and_compression() -> None:
    found = came(
        "csv",
        ("/in/x.csv.gz", gzip.compress(b"k|n|d\na|-|\n-|1|-\nb,c|2|NULL\n")),
        delimiter="|",
        null_tokens=("-", "NULL"),
    )
    assert rows(found) == [("insert", "b,c", 2, None)]
    assert bad(found) == {
        "/in/x.csv.gz-2": "column d: '' is not a date such as 2024-02-29 (date)",
        "/in/x.csv.gz-3": "key column k is null or missing: a record needs all key columns",
    }


@pytest.mark.parametrize("more", [b"", b"e,7,2024-01-04,4\n"])
def test_texts_that_look_missing_are_null_except_in_columns_of_texts(more: bytes) -> None:
    found = came("csv", b"k,n,d\nNA,NA,-\nb,2,n/a\nc,x,2024-01-03\n" + more, nulls_by_look=True)
    assert rows(found) == [("insert", "NA", None, None), ("insert", "b", 2, None)]
    reasons = {"/in/0.csv-4": "column n: 'x' is not a whole number within 64 bits (integer)"}
    assert bad(found) == reasons | ({"/in/0.csv-5": "4 fields where the header has 3"} if more else {})


def test_bytes_that_are_no_text_of_the_encoding() -> None:
    found = came("csv", b"k,n\na,1\n\xff,2\n", b"k,n\nb,1\n")
    assert rows(found)[-1] == ("insert", "b", 1, None)
    assert all(name.startswith("/in/0.csv") for name in bad(found))
    assert "0.csv" in next(iter(bad(found).values()))
    latin = came("csv", "k\né\n".encode("latin-1"), encoding="latin-1")
    assert rows(latin) == [("insert", "é", None, None)]


def test_columns_that_the_table_has_not() -> None:
    text = b"k,n,extra,note\na,1,2,3\n"
    found = came("csv", text, b"k\nb\n", known=("note",))
    assert rows(found) == [("insert", "b", None, None)]
    assert list(bad(found)) == ["/in/0.csv"]
    assert bad(found)["/in/0.csv"].startswith("/in/0.csv: it has a column that the table does not have, 'extra'")
    assert rows(came("csv", text, known=("note", "extra"))) == [("insert", "a", 1, None)]
    assert rows(came("parquet", parquet({"k": ["a"], "note": [1]}), known=("note",))) == [("insert", "a", None, None)]
    assert list(bad(came("parquet", parquet({"k": ["a"], "note": [1]})))) == ["/in/0.parquet"]


@pytest.mark.parametrize(
    ("kind", "content"),
    [("csv", b"k,n,k\na,1,b\n"), ("csv", b"\x00\x01"), ("parquet", b"PAR1 no"), ("parquet", b"k,n\na,1\n")],
)
def test_a_file_that_is_none_is_one_bad_record(kind: Kind, content: bytes) -> None:
    found = came(kind, content, parquet({"k": ["z"]}) if kind == "parquet" else b"k\nz\n")
    assert rows(found) == [("insert", "z", None, None)]
    ((name, reason),) = bad(found).items()
    assert name.startswith(f"/in/0.{kind}")
    assert "holdfast-" not in reason  # where it was put for a while is nobody's business
    assert found.bad[0].raw


# Parquet


def test_parquet_keeps_its_types_where_files_differ() -> None:
    found = came(
        "parquet",
        parquet({"k": ["a"], "n": pa.array([1], pa.int8()), "_op": ["update"]}),
        parquet({"k": ["b"], "n": ["2"], "d": pa.array([date(2024, 2, 29)])}),
        parquet({"k": ["c", "d"], "n": [3.0, 3.5], "d": ["2024-02-29", None]}),
        parquet({"n": pa.array([Decimal("4.00")]), "k": pa.array(["e"]).dictionary_encode()}),
        parquet({"k": pa.array([], pa.string()), "n": pa.array([], pa.int64())}),
    )
    assert rows(found) == [
        ("update", "a", 1, None),
        ("insert", "b", 2, date(2024, 2, 29)),
        ("insert", "c", 3, date(2024, 2, 29)),
        ("insert", "e", 4, None),
    ]
    assert list(bad(found)) == ["/in/2.parquet-2"]


@pytest.mark.parametrize(("unit", "moment"), [("us", 4 * 10**17), ("ms", 9 * 10**18), ("ms", 10**15)])
def test_a_parquet_file_with_times_that_nothing_has_is_one_bad_record(unit: Any, moment: int) -> None:
    found = came("parquet", parquet({"k": ["a"], "d": pa.array([moment], pa.timestamp(unit))}), parquet({"k": ["z"]}))
    assert rows(found) == [("insert", "z", None, None)]
    assert list(bad(found)) == ["/in/0.parquet"]


# Order


def test_the_sequence_orders_records_of_all_files() -> None:
    found = came(
        "json",
        b'{"k": "a", "_seq": 3}\n{"k": "b", "_seq": 1}\n{"k": "c", "_seq": 1}\nbad',
        b'{"k": "d", "_seq": "2"}\n{"k": "e"}\n{"k": "f", "_seq": "x"}\n{"k": "g", "_seq": 1.5}',
    )
    assert [row[1] for row in rows(found)] == ["b", "c", "d", "a"]
    assert bad(found) == {
        "/in/0.json-4": "not JSON: expected a value at byte 0",
        **{f"/in/1.json-{line}": "_seq is missing or no whole number: a record needs a sequence" for line in (2, 3, 4)},
    }
    assert found.bad[0].raw == "bad"


def test_files_without_a_sequence_stay_in_their_order() -> None:
    found = came("csv", b"k,_seq\na,9\nb,8\n", b"k\nc\nd\n", b"k,_seq\ne,1\nf,0\n")
    assert [row[1] for row in rows(found)] == ["b", "a", "c", "d", "f", "e"]
    assert not found.bad


def test_files_of_one_time_are_in_the_order_of_their_names() -> None:
    files = [ChangedFile(f"/in/{name}.json", f'{{"k": "{name}"}}'.encode(), 7.0) for name in "cab"]
    found = arrivals(draft_of(files, TARGET, "json", ReadOptions()), TARGET)
    assert [row[1] for row in rows(found)] == ["a", "b", "c"]
    assert found.oldest == 7.0


def test_records_are_named_after_they_were_put_in_order() -> None:
    found = came("csv", b"k,_seq\na,2\n,1\n", b"k,_seq\n,0\nb,5\n", b"k,_seq\n")
    assert [row[1] for row in rows(found)] == ["a", "b"]
    assert list(bad(found)) == ["/in/1.csv-2", "/in/0.csv-3"]
    assert found.bad_record(0, "why").record_id == "/in/0.csv-2"
    assert found.bad_record(1, "why").record_id == "/in/1.csv-3"


def test_an_empty_operation_is_no_insert() -> None:
    found = came("csv", b"_op,k\ninsert,a\n,b\n", b"k\nc\n")
    assert [row[1] for row in rows(found)] == ["a", "c"]
    assert bad(found) == {"/in/0.csv-3": "_op is empty: expected insert, update or delete"}
    found = came("parquet", parquet({"k": ["a", "b"], "_op": ["delete", None]}))
    assert list(bad(found).values()) == ["_op is empty: expected insert, update or delete"]
    assert not came("json", b'{"k": "a"}\n').bad
