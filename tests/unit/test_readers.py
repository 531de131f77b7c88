"""Readers: text files read as Python's csv module reads them, other formats as they were written, bad input refused.

*Differential* for text files: Python's `csv` reader says what the fields are. The rest is pinned by example.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import os
import random
import shutil
import struct
from collections import Counter
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import feather
from pyroaring import BitMap64

from holdfast.constraints import ExternalError, HoldfastError, InputError, UnknownColumn, UsageError, parse_type
from holdfast.tables import ReadOptions, Table, delimited, from_arrow, from_pandas, read_table, table_name
from tests.oracles.values import canonical_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

NAN = float("nan")
AS_TEXT: dict[str, Any] = {"strings": "all"}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file from text or bytes."""

    def written(content: str | bytes, name: str = "t.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return written


def fields(table: Table) -> list[list[Any]]:
    return [list(row.values()) for row in table.rows(range(table.row_count))]


def types(table: Table) -> list[str]:
    return [str(column.type) for column in table.schema]


def by_csv(text: str, delimiter: str = ",") -> tuple[list[str], list[list[str]]]:
    """The header and the records as Python's reader has them; blank lines count in files of one column only."""
    records = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    start = next(i for i, record in enumerate(records) if record)
    header = records[start]
    rows = [r or [""] for r in records[start + 1 :] if r or len(header) == 1]
    return header, rows


def check_text(path: Path, text: str, **options: Any) -> Table:
    header, rows = by_csv(text, options.get("delimiter", ","))
    table = read_table(path, ReadOptions(**AS_TEXT, **options))
    assert list(table.schema.names) == header
    assert fields(table) == [[None if field == "" else field for field in row] for row in rows]
    assert table.row_count == len(rows)
    return table


def refused(path: Path, kind: type[HoldfastError] = InputError, **options: Any) -> str:
    """The message with which a file is refused."""
    with pytest.raises(kind) as caught:
        read_table(path, ReadOptions(**options))
    assert type(caught.value) in {kind, UnknownColumn}
    assert caught.value.exit_code == {InputError: 3, UsageError: 2, UnknownColumn: 2}[kind]
    message = str(caught.value)
    assert str(path) in message
    return message


class TestTextLikePython:
    TEXTS = (
        "a,b\n1,2\n", "a,b\n1,2", "a,b\r\n1,2\r\n3,4\r\n", "a,b\r1,2\r3,4\r", "a,b\n1,2\r\n3,4\r5,6", "\n\na,b\n\n1,2\n\n\n3,4\n\n",
        'a,b\n"1","2"\n', 'a,b\n"x""y","""z"""\n', 'a,b\n"",\n', 'a,b\n"x\ny","p\r\nq"\n"\n","\r"\n', '"a\nb",c\n1,2\n', '"a,b","c""d"\n1,2\n',
        'a,b\nx"y,"z"\n', 'a,b\n x , "y"\n', "a,b\n,\n,\n", "a,b\n", "a,b", "a", "a\n", "a\n\n", "a\n\n\nx\n\n", 'a\n""\nx\n', "a\r\n\r\nx\r\n",
        "a,\n1,2\n", " a ,A\n1,2\n", "a.b,c`d\n1,2\n", "é,日本\nü,語\n", "a,b\n'1','2'\n", "a,b\n\\,\\n\n", 'a,b\n"\\",x\n', "a\tb,c;d\n1,2\n",
        "a\n,\n".replace(",", ";"), "a,b\n\u2028,\x85\n\x0b,\x0c\n\x1c,\x1d\n",
    )  # fmt: skip

    @pytest.mark.parametrize("text", TEXTS)
    def test_corners(self, write: Callable[..., Path], text: str) -> None:
        check_text(write(text), text)

    @pytest.mark.parametrize("bom", ["", "\ufeff"])
    @pytest.mark.parametrize(
        "encoding", ["utf-8", "UTF8", "U8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
    )
    @pytest.mark.parametrize("text", ["é,b\nü,\n", '"é\r\nx",b\r\n"1\r\n\U0001f600",2\r\n', "é\n\nü"])
    def test_unicode_encodings(self, write: Callable[..., Path], text: str, encoding: str, bom: str) -> None:
        bom = "" if encoding in {"utf-16", "utf-32", "utf-8-sig"} else bom  # these write one themselves
        check_text(write((bom + text).encode(encoding)), text, encoding=encoding)

    @pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "iso8859-15", "mac-roman", "shift_jis", "gb18030"])
    def test_other_encodings(self, write: Callable[..., Path], encoding: str) -> None:
        text = 'é,"b\nc"\nü,"x""\r\ny"\n' if encoding != "shift_jis" else 'ソ,"b\nc"\n表,"ソ""\r\n|"\n'
        check_text(write(text.encode(encoding)), text, encoding=encoding)

    @pytest.mark.parametrize("delimiter", [";", "\t", "|", ":", " ", "x"])
    def test_delimiters(self, write: Callable[..., Path], delimiter: str) -> None:
        text = 'a,b,"c,d"\n1,,"2,3"\n",",\'5,6\'\n'.replace(",", delimiter)
        check_text(write(text), text, delimiter=delimiter)

    @pytest.mark.parametrize(
        ("ending", "compress"),
        [
            (".gz", gzip.compress),
            (".bz2", bz2.compress),
            (".zst", lambda b: bytes(pa.compress(b, "zstd", asbytes=True))),
        ],
    )
    def test_compressed(self, write: Callable[..., Path], ending: str, compress: Callable[[bytes], bytes]) -> None:
        text = 'a,b\n1,"x\r\ny"\n'
        table = check_text(write(compress(text.encode()), f"t.csv{ending}"), text)
        assert table.schema.table == "t"

    def test_several_gzip_members(self, write: Callable[..., Path]) -> None:
        path = write(gzip.compress(b"a,b\n1,2\n", mtime=0) + gzip.compress(b"3,4\n", mtime=0), "t.csv.gz")
        assert fields(read_table(path)) == [[1, 2], [3, 4]]

    @pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    @pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
    def test_wide_tables(self, write: Callable[..., Path], quoting: Literal[0, 1, 2], ending: str) -> None:
        out = io.StringIO(newline="")
        writer = csv.writer(out, quoting=quoting, lineterminator=ending)
        writer.writerow([f"column {i}" for i in range(300)])
        writer.writerows([[f"{row}-{i}\n," if i % 7 == 0 else f"{row}-{i}" for i in range(300)] for row in range(50)])
        check_text(write(out.getvalue()), out.getvalue())

    @pytest.mark.parametrize(
        "text",
        [
            "a,b\n" + "1,2\n" * 1_200_000 + "1," + "x" * 5_000_000 + "\n",
            'a,b\n1,"' + "x\n" * 3_000_000 + '"\n2,z\n',
            '"' + "c" * 5_000_000 + '",b\n1,2\n',
        ],
        ids=["long field last", "long quoted field", "long header"],
    )
    def test_records_longer_than_a_block(self, write: Callable[..., Path], text: str) -> None:
        header, rows = by_csv(text)
        table = read_table(write(text), ReadOptions(**AS_TEXT))
        assert list(table.schema.names) == header
        assert table.row_count == len(rows)
        assert list(table.row(len(rows) - 1).values()) == rows[-1]

    @pytest.mark.parametrize("shift", [0, 1])
    def test_a_line_ending_in_quotes_on_the_edge_of_a_block(self, write: Callable[..., Path], shift: int) -> None:
        text = 'a,b\r\n"' + "y" * shift + "\r\n" * (3 << 20) + '",x\r\n' + '1,"\r\n"\r\n' * 300_000
        header, rows = by_csv(text)
        table = read_table(write(text), ReadOptions(**AS_TEXT))
        assert table.row_count == len(rows)
        assert table.row(0) == dict(zip(header, rows[0], strict=True))
        assert set(table["b"].values().to_pylist()) == {"x", "\r\n"}

    @given(text=st.text('ab",\n\r ', max_size=30), one=st.booleans())
    @example(text='\r\n"b""\r\r\n,"', one=True)
    @example(text='"x\n"y"\n"z"\n', one=True)
    @example(text='1,"x\n2,"y"\n', one=False)
    @settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_any_text_in_any_blocks(self, write: Callable[..., Path], text: str, one: bool) -> None:
        header = "a\n" if one else "a,b\n"
        path = write(header + text)
        expected = self.first_fault(header + text)
        small = (16, 40, 1 << 22)
        for sizes in (delimited._BLOCK_SIZES, small):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(delimited, "_BLOCK_SIZES", sizes)
                if expected is None:
                    check_text(path, header + text)
                else:
                    assert f"t.csv, line {expected}: " in refused(path, **AS_TEXT)

    @staticmethod
    def first_fault(text: str) -> int | None:
        """The line on which the first record begins that is ragged or has a quote astray."""
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        width = len(next(reader))
        line = reader.line_num + 1
        try:
            for record in reader:
                if (record or width > 1) and len(record) not in {width, 0}:
                    return line
                line = reader.line_num + 1
        except csv.Error:
            return line
        return None


class TestTextOptions:
    def test_null_tokens(self, write: Callable[..., Path]) -> None:
        path = write('a,b,c\nNA,,x\nNULL,"NA",""\n')
        assert fields(read_table(path)) == [["NA", None, "x"], ["NULL", "NA", None]]
        assert fields(read_table(path, ReadOptions(null_tokens=("NA", "NULL")))) == [[None, "", "x"], [None, None, ""]]
        assert fields(read_table(path, ReadOptions(null_tokens=()))) == [["NA", "", "x"], ["NULL", "NA", ""]]

    def test_null_tokens_do_not_hide_types(self, write: Callable[..., Path]) -> None:
        table = read_table(write("a,b\n?,2024-01-01\n1,?\n"), ReadOptions(null_tokens=("?", "")))
        assert types(table) == ["integer", "date"]
        assert fields(table) == [[None, date(2024, 1, 1)], [1, None]]

    def test_a_blank_line_of_one_column_is_a_null_row(self, write: Callable[..., Path]) -> None:
        assert fields(read_table(write("a\n\n1\n\n"))) == [[None], [1], [None]]

    @pytest.mark.parametrize("size", [1, 20, 60])
    def test_a_large_file_is_read_some_columns_at_a_time(
        self, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, size: int
    ) -> None:
        path = write("a,b,c,d\n" + "".join(f"{i},t{i % 3},{i / 2},\n" for i in range(9)))
        for options in (ReadOptions(), ReadOptions(include=("d", "b", "c")), ReadOptions(include=("b",))):
            expected = read_table(path, options)
            with monkeypatch.context() as patch:
                patch.setattr(delimited, "_BYTES_AT_ONCE", size)
                found = read_table(path, options)
            assert found.schema == expected.schema
            assert found.to_arrow().equals(expected.to_arrow())

    def test_a_file_that_grows_between_two_readings_is_refused(
        self, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write("a,b\n1,2\n")
        monkeypatch.setattr(delimited, "_BYTES_AT_ONCE", 1)
        texts = delimited.DelimitedFile._texts

        def appended(self: Any, chosen: list[str]) -> pa.Table:
            read = texts(self, chosen)
            with path.open("a", encoding="utf-8") as file:
                file.write("3,4\n")
            return read

        monkeypatch.setattr(delimited.DelimitedFile, "_texts", appended)
        with pytest.raises(InputError, match="changed while it was read: it had 1 rows, then 2"):
            read_table(path)

    def test_columns_of_nulls(self, write: Callable[..., Path]) -> None:
        table = read_table(write("a,b\n,\n,\n"))
        assert [(str(c.type), c.assumed) for c in table.schema] == [("string", True)] * 2
        assert fields(table) == [[None, None]] * 2

    @pytest.mark.parametrize("text", ["a,b\n", "a,b", "a,b\r\n\r\n"])
    def test_header_only(self, write: Callable[..., Path], text: str) -> None:
        table = read_table(write(text))
        assert (table.row_count, [c.assumed for c in table.schema]) == (0, [True, True])

    @pytest.mark.parametrize(
        ("header", "name", "type_name"),
        [
            ("age(Integer)", "age", "integer"), ("age int", "age", "integer"), ("age Long", "age", "integer"),
            ("age (double)", "age", "float"), ("age Float", "age", "float"), ("First Name str", "First Name", "string"),
            ("First Name(String)", "First Name", "string"), ("  age\tint ", "age", "integer"), ("a(b)(int)", "a(b)", "integer"),
            ('"price decimal(10,2)"', "price", "decimal(10,2)"), ('"price(decimal(10, 2))"', "price", "decimal(10,2)"),
            ('"price decimal(10, 2)"', "price", "decimal(10,2)"), ('"two\nlines int"', "two\nlines", "integer"),
            ("size(cm)", "size(cm)", "integer"), ("int", "int", "integer"), ("a b", "a b", "integer"), ("age()", "age()", "integer"),
            ("when timestamp", "when", None), ("ok bool", "ok", None),
        ],
    )  # fmt: skip
    def test_typed_headers(self, write: Callable[..., Path], header: str, name: str, type_name: str | None) -> None:
        path = write(f"{header},z\n1,1\n")
        if type_name is None:
            assert "column " + name in refused(path, typed_header=True)
            return
        table = read_table(path, ReadOptions(typed_header=True))
        assert (table.schema.names[0], types(table)[0]) == (name, type_name)

    def test_a_typed_header_is_taken_as_it_stands_unless_asked(self, write: Callable[..., Path]) -> None:
        assert read_table(write("a int,b\n1,2\n")).schema.names == ("a int", "b")

    def test_declared_types_come_before_the_header(self, write: Callable[..., Path]) -> None:
        options = ReadOptions(typed_header=True, types={"a": parse_type("float")}, strings=["b"])
        assert types(read_table(write("a int,b int\n1,2\n"), options)) == ["float", "string"]

    def test_selection(self, write: Callable[..., Path]) -> None:
        path = write("a,b,c\n01,2,3\n")
        assert read_table(path, ReadOptions(include=["c", "a"])).schema.names == ("a", "c")
        assert read_table(path, ReadOptions(exclude=["b"])).schema.names == ("a", "c")
        assert read_table(path, ReadOptions(include=[])).row_count == 1
        assert types(read_table(path, ReadOptions(strings=["c"]))) == ["string", "integer", "string"]
        assert types(read_table(path, ReadOptions(types={"a": parse_type("int")}))) == ["integer"] * 3
        assert [c.ordered for c in read_table(path, ReadOptions(ordered={"a": True})).schema] == [True, None, None]

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
    def test_limit(self, write: Callable[..., Path], encoding: str) -> None:
        path = write('a,b\n1,x\n2,"y\n"\n3,"z\n'.encode(encoding))  # what is behind the limit is not looked at
        assert fields(read_table(path, ReadOptions(limit=2, encoding=encoding))) == [[1, "x"], [2, "y\n"]]
        assert read_table(path, ReadOptions(limit=0, encoding=encoding)).row_count == 0
        refused(path, limit=3, encoding=encoding)

    def test_odd_delimiter_is_pointed_out(self, write: Callable[..., Path]) -> None:
        assert "semicolons" in read_table(write("a;b\n1;2\n")).warnings[0]
        assert read_table(write("a;b\n1;2\n"), ReadOptions(delimiter=";")).warnings == ()

    def test_where_a_row_stands(self, write: Callable[..., Path]) -> None:
        path = write('\n"a\nb",c\n\n"x\ny",1\n\n\nz,2\n')
        table = read_table(path)
        assert [table.locate(i) for i in (0, 1)] == [f"{path}, line 5", f"{path}, line 9"]
        assert table.locate(7) == f"{path}, row 8"

    @pytest.mark.parametrize(
        "options",
        [
            {"delimiter": ""}, {"delimiter": ",,"}, {"delimiter": '"'}, {"delimiter": "\n"}, {"delimiter": "é"},
            {"include": ["a"], "exclude": ["b"]}, {"limit": -1}, {"version": -1},
            {"strings": "State"}, {"include": "State"}, {"exclude": "State"}, {"null_tokens": "NA"},
            {"encoding": "klingon"}, {"encoding": ""}, {"encoding": "rot13"}, {"encoding": "hex"}, {"encoding": "a\x00b"},
        ],
    )  # fmt: skip
    def test_options_that_make_no_sense(self, options: dict[str, Any]) -> None:
        with pytest.raises(UsageError) as caught:
            ReadOptions(**options)
        assert caught.value.exit_code == 2


class TestBadText:
    @pytest.mark.parametrize(
        ("text", "line", "says"),
        [
            ("a,b\n1,2\n3\n", 3, "1 field where the header has 2: '3'"),
            ("a,b\n1,2,3\n", 2, "3 fields where the header has 2"),
            ('a,b\n\n"x\ny",2\n\r\n3\n', 6, "1 field"),
            ('\n"a\nb",c\n1,2\n3\n', 5, "1 field"),
            ("a\n1,2\n", 2, "2 fields where the header has 1"),
            ("a,b\n1,2\n \n", 3, "1 field"),
            ("a,b\r1,2\r3\r", 3, "1 field"),
            ('a,b\n1,"x\n2,y\n', 2, "never closed"),
            ('a,b\n1,2\n3,"', 3, "never closed"),
            ('a\n1\n"', 3, "never closed"),
            ('"a","b\n1,2\n', 1, "never closed"),
            ('"a","b"\n"1","x\n"2","y"\n"3","z"\n', 2, "closing quote is followed by text"),
            ('"a"\n"w"\n"x\n"y"\n"z"\n', 3, "ends on line 4"),
            ('a,b\n1,"x\n2,"y"\n3,z\n', 2, "ends on line 3"),
            ('a,b\n1,2\n"x"y,3\n', 3, "Double the quotes"),
            ('a,b,a\n1,2,3\n', 1, "columns 1 and 3 are both named 'a'"),
            ('"a\nb",c,"a\nb"\n1,2,3\n', 3, "columns 1 and 3 are both named"),
            ("a,,\n1,2,3\n", 1, "columns 2 and 3 are both named ''"),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("packed", [False, True])
    def test_broken_records(self, write: Callable[..., Path], text: str, line: int, says: str, packed: bool) -> None:
        path = write(gzip.compress(text.encode()), "t.csv.gz") if packed else write(text)
        message = refused(path)
        assert message.startswith(f"{path}, line {line}: ")
        assert says in message

    def test_an_open_quote_far_from_the_end(self, write: Callable[..., Path]) -> None:
        path = write('a,b\n1,"x\n' + "2,y\n" * 1_500_000)
        assert refused(path).startswith(f"{path}, line 2: ")
        path = write('a,b\n1,"x\n' + '2,"y"\n' * 1_000_000)
        assert refused(path).startswith(f"{path}, line 2: ")

    def test_quotes_inside_of_fields_are_text(self, write: Callable[..., Path]) -> None:
        text = 'a,b\n5" pipe,x\n6" pipe,"y\n"\n'
        check_text(write(text), text)

    @pytest.mark.parametrize(
        ("content", "encoding", "line", "byte", "suggests"),
        [
            (b"a,b\n1,2\n\xe9,3\n", "utf-8", 3, 9, "--encoding cp1252"),
            (b'a,b\n1,2\n"x\r\n\ry",\xe9\n', "utf-8", 5, 17, "é"),
            (b"a\xe9,b\n1,2\n", "utf-8", 1, 2, "cp1252"),
            (b"a,b\n1,\xed\xa0\x80\n", "utf-8", 2, 7, "cp1252"),
            (b"a,b\n1,\xe2\x82", "utf-8", 2, 7, "cp1252"),
            (b"a,b\n1,\x81\n", "utf-8", 2, 7, "latin-1"),
            ("a,b\n1,é\n".encode(), "ascii", 2, 7, "--encoding utf-8 (it would say '...a,b 1,é...'"),
            (b"a\n\x81\n", "cp1252", 2, 3, "latin-1"),
            ("a,b\n1,é\n".encode("utf-16")[:-1], "utf-16", 2, 17, "cut short"),
            ("a,b\n1,".encode("utf-16-le") + b"\x00\xd8\x0a\x00", "utf-16-le", 2, 13, "cut short"),
            (b"a,b\n" + b"1,2\n" * 600_000 + b"\xff,1\n", "utf-8", 600_002, 2_400_005, "cp1252"),
        ],
    )
    def test_bytes_of_another_encoding(
        self, write: Callable[..., Path], content: bytes, encoding: str, line: int, byte: int, suggests: str
    ) -> None:
        path = write(content)
        message = refused(path, encoding=encoding)
        assert message.startswith(f"{path}, line {line}: byte {byte} (0x")
        assert f"is not {encoding}; " in message
        assert suggests in message
        if len(content) < 1000:
            assert refused(write(gzip.compress(content, mtime=0), "t.csv.gz"), encoding=encoding)

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (b"", "is empty"), (b"\xef\xbb\xbf", "is empty"), (b"\n\r\n\n", "is empty"),
            ("a,b\n1,2\n".encode("utf-16"), "--encoding utf-16"), ("a,b\n1,2\n".encode("utf-16-le"), "byte 2 is zero"),
            (bytes(range(256)), "byte 1 is zero"), (b"\x89PNG\r\n\x1a\n\x00\x00", "byte 9 is zero"),
            (b"PAR1\x00", ".parquet"), (b"ARROW1\x00\x00", ".arrow"), (gzip.compress(b"a\n1\n", mtime=0), ".gz"), (b"PK\x03\x04", "spreadsheet"),
        ],
    )  # fmt: skip
    def test_no_text(self, write: Callable[..., Path], content: bytes, says: str) -> None:
        assert says in refused(write(content))

    def test_damaged_gzip(self, write: Callable[..., Path]) -> None:
        whole = gzip.compress("".join(["a,b\n", *(f"{i},{i * 7919 % 10007}\n" for i in range(200_000))]).encode())
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 0xFF
        for content in (
            b"\x1f\x8b\x08\x00garbagegarbage", b"a,b\n1,2\n", whole[:5], whole[: len(whole) // 2], whole[:-100], whole[:-8],
            whole[:-8] + bytes(8), bytes(flipped),
        ):  # fmt: skip
            assert "is it whole, and compressed as its name says?" in refused(write(content, "t.csv.gz"))
        assert "is empty" in refused(write(b"", "t.csv.gz"))

    @pytest.mark.parametrize(
        ("text", "line", "wrong"),
        [
            ('a,b\n1,2\n"p\nq",3\nx,4\n', 3, "'p\nq'"),
            ("a,b\n\n1,2\n\n1 ,3\n", 5, "'1 '"),
            ("a,b\n9223372036854775808,1\n", 2, "'9223372036854775808'"),
            ("a,b\n1,1\n2.5,1\n", 3, "'2.5'"),
        ],
    )
    @pytest.mark.parametrize("by_header", [False, True])
    def test_a_value_that_does_not_fit(
        self, write: Callable[..., Path], text: str, line: int, wrong: str, by_header: bool
    ) -> None:
        if by_header:
            text = text.replace("a,b", "a(Integer),b", 1)
        path = write(text)
        options: dict[str, Any] = {"typed_header": True} if by_header else {"types": {"a": parse_type("integer")}}
        message = refused(path, **options)
        assert message.startswith(f"{path}, line {line}, column a: {wrong} is not a whole number")
        assert "--strings" in message

    def test_a_header_with_an_impossible_type(self, write: Callable[..., Path]) -> None:
        path = write("\na decimal(99),b\n1,2\n")
        assert refused(path, typed_header=True).startswith(f"{path}, line 2: decimal(99,0): expected")

    def test_an_unknown_type(self) -> None:
        with pytest.raises(UsageError, match="unknown column type 'integr'"):
            parse_type("integr")


OPTIONS_WITH_NAMES: list[dict[str, Any]] = [
    {"include": ["Stat"]}, {"exclude": ["Stat"]}, {"strings": ["Stat"]}, {"types": {"Stat": parse_type("int")}}, {"ordered": {"Stat": True}},
]  # fmt: skip


class TestPaths:
    @pytest.mark.parametrize("options", OPTIONS_WITH_NAMES)
    @pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.arrow", "t"])
    def test_options_that_name_no_column(self, tmp_path: Path, name: str, options: dict[str, Any]) -> None:
        path, data = tmp_path / name, pa.table({"State": ["x"], "b": [1]})
        match path.suffix:
            case ".csv":
                path.write_text("State,b\nx,1\n")
            case ".parquet":
                pq.write_table(data, path)
            case ".arrow":
                feather.write_feather(data, path)
            case _:
                write_deltalake(path, data)
        message = refused(path, UsageError, **options)
        assert "has no column 'Stat'; did you mean 'State'?" in message

    @pytest.mark.parametrize("name", ["nope.csv", "nope.parquet", "file/below.csv", "\x00"])
    def test_missing(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "file").write_text("a\n")
        assert "does not exist" in refused(tmp_path / name, UsageError)

    def test_a_name_that_is_too_long(self, tmp_path: Path) -> None:
        refused(tmp_path / ("x" * 300), InputError)

    def test_a_folder(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("a\n1\n")
        assert "name a file" in refused(tmp_path, UsageError)

    @pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
    @pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.arrow", "closed/t.csv", "closed", "delta"])
    def test_no_permission(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        closed = path if path.suffix and path.parent == tmp_path else tmp_path / name.partition("/")[0]
        match name:
            case "delta":
                write_deltalake(path, pa.table({"a": [1]}))
            case "closed" | "closed/t.csv":
                closed.mkdir()
            case _:
                path.write_text("a\n1\n")
        closed.chmod(0)
        try:
            with pytest.raises((InputError, ExternalError), match="Permission denied") as caught:
                read_table(path)
        finally:
            closed.chmod(0o700)
        assert str(caught.value).startswith(f"{path} cannot be read")

    def test_no_permission_to_a_text_file(self, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
        def denied(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        path = write("a\n1\n")
        monkeypatch.setattr(pa, "input_stream", denied)
        assert refused(path).endswith("Permission denied")

    def test_a_version_of_what_has_none(self, write: Callable[..., Path]) -> None:
        assert "no Delta table" in refused(write("a\n1\n"), UsageError, version=0)

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("a/tax.csv", "tax"),
            ("tax.csv.gz", "tax"),
            ("tax.2024.csv.zst", "tax.2024"),
            ("tax", "tax"),
            ("tax.PARQUET", "tax"),
        ],
    )
    def test_names(self, path: str, name: str) -> None:
        assert table_name(Path(path)) == name

    def test_a_given_name(self, write: Callable[..., Path]) -> None:
        assert read_table(str(write("a\n1\n")), name="other").schema.table == "other"


EVERYTHING = pa.table({
    "i8": pa.array([1, None, -1], pa.int8()),
    "i64": pa.array([2**63 - 1, None, -(2**63)]),
    "u64": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "f32": pa.array([0.5, None, NAN], pa.float32()),
    "f64": pa.array([0.1, None, -0.0]),
    "dec": pa.array([Decimal("1.50"), None, Decimal("-0.01")], pa.decimal128(10, 2)),
    "wide": pa.array([Decimal(10**37), None, Decimal(-1)], pa.decimal128(38, 0)),
    "text": ["x", None, ""],
    "cat": pa.array(["x", None, "x"]).dictionary_encode(),
    "day": [date(1, 1, 1), None, date(9999, 12, 31)],
    "us": pa.array([datetime(1, 1, 1, tzinfo=UTC), None, datetime(9999, 12, 31, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    "naive": pa.array([datetime(2024, 1, 1), None, datetime(1969, 1, 1)], pa.timestamp("us")),  # noqa: DTZ001
    "flag": [True, None, False],
    "none": pa.nulls(3),
})  # fmt: skip
EVERY_TYPE = [
    "integer", "integer", "decimal(20,0)", "float", "float", "decimal(10,2)", "decimal(38,0)", "string", "string", "date",
    "timestamp", "timestamp", "boolean", "string",
]  # fmt: skip
NESTED = {
    "list": [[1], None, []],
    "struct": [{"x": 1}, None, {"x": 2}],
    "bytes": [b"x", None, b""],
    "time": pa.array([1, None, 2], pa.time64("us")),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
}


def plain_rows(data: pa.Table) -> list[list[Any]]:
    """The rows as `Table` gives them: times in UTC, integers beyond 64 bits as decimals."""

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return Decimal(value) if isinstance(value, int) and value >= 2**63 else value

    return [[plain(value) for value in row.values()] for row in data.to_pylist()]


def check_rows(table: Table, data: pa.Table) -> None:
    """The rows are the same, in any order."""
    assert Counter(map(canonical_row, fields(table))) == Counter(map(canonical_row, plain_rows(data)))


class TestFormats:
    @pytest.mark.parametrize("name", ["t.parquet", "t.pq", "t.arrow", "t.feather", "t.ipc"])
    def test_every_type(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        if "p" in path.suffix[:2] or path.suffix == ".pq":
            pq.write_table(EVERYTHING, path, row_group_size=1)
        else:
            feather.write_feather(EVERYTHING, path)
        table = read_table(path)
        assert types(table) == EVERY_TYPE
        check_rows(table, EVERYTHING)
        assert table.schema["none"].assumed
        assert table.locate(1) == f"{path}, row 2"

    def test_nested_columns_are_left_out_with_a_warning(self, tmp_path: Path) -> None:
        data = EVERYTHING.select(["i8"])
        for name, values in NESTED.items():
            data = data.append_column(name, pa.array(values) if isinstance(values, list) else values)
        pq.write_table(data, tmp_path / "t.parquet")
        table = read_table(tmp_path / "t.parquet")
        assert table.schema.names == ("i8",)
        (warning,) = table.warnings
        assert all(name in warning for name in NESTED)
        assert read_table(tmp_path / "t.parquet", ReadOptions(exclude=list(NESTED))).warnings == ()

    @pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
    def test_options(self, tmp_path: Path, name: str) -> None:
        data = pa.table({"a": list(range(1000)), "b": ["x"] * 1000, "a.b": [1.5] * 1000})
        path = tmp_path / name
        (pq.write_table if name.endswith("parquet") else feather.write_feather)(data, path)
        assert read_table(path, ReadOptions(limit=2)).rows([0, 1]) == data.slice(0, 2).to_pylist()
        assert read_table(path, ReadOptions(limit=0)).row_count == 0
        assert read_table(path, ReadOptions(include=["a.b"])).schema.names == ("a.b",)
        assert read_table(path, ReadOptions(exclude=["a"], types={"a": parse_type("int")})).schema.names == ("b", "a.b")
        assert read_table(path, ReadOptions(include=[])).row_count == 1000
        table = read_table(
            path, ReadOptions(strings=["a"], types={"a.b": parse_type("decimal(5,2)")}, ordered={"b": True})
        )
        assert types(table) == ["string", "string", "decimal(5,2)"]
        assert table.row(7) == {"a": "7", "b": "x", "a.b": Decimal("1.50")}

    def test_old_times_of_parquet(self, tmp_path: Path) -> None:
        far = pa.table({"a": [1, 2], "t": [datetime(9999, 12, 31), datetime(2024, 1, 1)]})  # noqa: DTZ001
        pq.write_table(far, tmp_path / "far.parquet", use_deprecated_int96_timestamps=True)
        table = read_table(tmp_path / "far.parquet")
        assert types(table) == ["integer", "timestamp"]
        check_rows(table, far)
        near = pa.table({"t": pa.array([1, None], pa.timestamp("ns"))})
        pq.write_table(near, tmp_path / "near.parquet", use_deprecated_int96_timestamps=True)
        assert read_table(tmp_path / "near.parquet")["t"].values().cast(pa.int64()).to_pylist() == [1, None]

    def test_a_folder_of_parquet_files(self, tmp_path: Path) -> None:
        folder = tmp_path / "t"
        (folder / "year=2024").mkdir(parents=True)
        pq.write_table(pa.table({"a": [1], "b": ["x"]}), folder / "1.parquet")
        pq.write_table(pa.table({"c": [1.5], "a": pa.array([2], pa.int32())}), folder / "year=2024" / "2.parquet")
        for other in ("_SUCCESS", "readme.txt", "_temporary.parquet", ".hidden.parquet"):
            (folder / other).write_text("no table")
        table = read_table(folder)
        assert sorted(map(repr, fields(table))) == ["[1, 'x', None]", "[2, None, 1.5]"]
        assert "left out year" in table.warnings[0]
        pq.write_table(pa.table({"a": ["x"]}), folder / "3.parquet")
        assert "Field a has incompatible types" in refused(folder)

    @pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
    def test_damaged_files(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        data = pa.table({"a": list(range(5000)), "s": [f"text {i}" for i in range(5000)]})
        (pq.write_table if name.endswith("parquet") else feather.write_feather)(data, path)
        whole = path.read_bytes()
        middle = len(whole) // 2
        for content in (
            b"", b"PAR1", b"hello world, this is not a table", whole[:-20], whole[:middle],
            whole[:-60] + b"\xff" * 20 + whole[-40:],
        ):  # fmt: skip
            path.write_bytes(content)
            refused(path)
        if name.endswith("parquet"):
            path.write_bytes(whole[:20] + b"\xff" * 80 + whole[100:])
            refused(path)

    def test_a_text_that_is_no_utf8(self, tmp_path: Path) -> None:
        wrong = pa.array([b"a", b"\xff"]).view(pa.string())
        pq.write_table(pa.table({"s": wrong}), tmp_path / "t.parquet")
        with pytest.raises(InputError, match=r"column s: .*UTF8"):
            read_table(tmp_path / "t.parquet")

    @pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
    def test_a_name_twice(self, tmp_path: Path, name: str) -> None:
        data = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
        if name == "t.parquet":
            pq.write_table(data, tmp_path / name)
        else:
            with pa.OSFile(str(tmp_path / name), "wb") as file, pa.ipc.new_file(file, data.schema) as writer:
                writer.write_table(data)
        assert "duplicate" in refused(tmp_path / name).lower() or "more than one column" in refused(tmp_path / name)


class TestDelta:
    @pytest.fixture
    def history(self, tmp_path: Path) -> Path:
        """Versions: two rows; a third; the first deleted; overwritten."""
        path = tmp_path / "delta"
        write_deltalake(path, pa.table({"a": [1, 2], "s": ["x", None]}))
        write_deltalake(path, pa.table({"a": [3], "s": ["z"]}), mode="append")
        DeltaTable(path).delete("a = 1")
        write_deltalake(path, pa.table({"a": [9], "s": ["o"]}), mode="overwrite")
        return path

    @pytest.mark.parametrize(
        ("version", "rows"),
        [
            (0, [[1, "x"], [2, None]]), (1, [[1, "x"], [2, None], [3, "z"]]), (2, [[2, None], [3, "z"]]), (3, [[9, "o"]]), (None, [[9, "o"]]),
        ],
    )  # fmt: skip
    def test_versions(self, history: Path, version: int | None, rows: list[list[Any]]) -> None:
        table = read_table(history, ReadOptions(version=version))
        assert sorted(fields(table), key=repr) == rows
        assert table.schema.table == "delta"

    @pytest.mark.parametrize("name", ["a%41b", "%25", "100%", "a b#?"])
    def test_any_name_of_a_folder(self, history: Path, tmp_path: Path, name: str) -> None:
        """delta-rs takes `%41` for `A`: it would find nothing, or another table."""
        other = tmp_path / "aAb"
        write_deltalake(other, pa.table({"a": [7], "s": ["wrong"]}))
        odd = tmp_path / name / "tables.d"
        odd.parent.mkdir()
        history.rename(odd)
        (tmp_path / "link").symlink_to(odd)
        for path in (odd, tmp_path / "link"):
            assert sorted(fields(read_table(path, ReadOptions(version=1)))) == [[1, "x"], [2, None], [3, "z"]]
            assert read_table(path).schema.table == path.stem
        assert str(odd) in refused(odd, version=4)

    def test_a_version_that_is_not_there(self, history: Path) -> None:
        assert "at version 4" in refused(history, version=4)

    def test_options(self, history: Path) -> None:
        assert read_table(history, ReadOptions(version=1, limit=2)).row_count == 2
        assert fields(read_table(history, ReadOptions(include=["s"]))) == [["o"]]
        assert types(read_table(history, ReadOptions(strings="all"))) == ["string"] * 2

    def test_every_type(self, tmp_path: Path) -> None:
        data = EVERYTHING.drop_columns(["u64", "none"])
        data = data.append_column("list", pa.array(NESTED["list"])).append_column("bytes", pa.array(NESTED["bytes"]))
        write_deltalake(tmp_path / "t", data)
        table = read_table(tmp_path / "t")
        assert types(table) == [
            t for t, name in zip(EVERY_TYPE, EVERYTHING.column_names, strict=True) if name in data.column_names
        ]
        check_rows(table, data.drop_columns(["list", "bytes"]))
        assert "left out list" in table.warnings[0]

    def test_partitions(self, tmp_path: Path) -> None:
        data = pa.table({"a": [1, 2, 3], "y": ["01", "a/b =", None], "z": [date(2024, 1, 1), date(2024, 1, 1), None]})
        write_deltalake(tmp_path / "t", data, partition_by=["y", "z"])
        check_rows(read_table(tmp_path / "t"), data)

    def test_no_rows(self, tmp_path: Path) -> None:
        write_deltalake(tmp_path / "t", pa.table({"a": pa.array([], pa.int64()), "s": pa.array([], pa.string())}))
        table = read_table(tmp_path / "t")
        assert (types(table), table.row_count) == (["integer", "string"], 0)

    def test_deletion_vectors(self, tmp_path: Path) -> None:
        path = tmp_path / "t"
        write_deltalake(path, pa.table({"a": list(range(10))}))
        mark_deleted(path, [1, 4, 9])
        assert sorted(fields(read_table(path))) == [[0], [2], [3], [5], [6], [7], [8]]

    def test_damaged_tables(self, history: Path, tmp_path: Path) -> None:
        log = Path("_delta_log")

        def each_data_file(content: bytes) -> Callable[[Path], object]:
            return lambda table: [file.write_bytes(content) for file in table.glob("*.parquet")]

        def remove(files: Iterable[Path]) -> None:
            for file in list(files):
                file.unlink()

        damages: list[Callable[[Path], object]] = [
            lambda table: (table / log / f"{1:020}.json").write_text("{garbage"),
            lambda table: (table / log / f"{1:020}.json").write_bytes(b"\xff\x00"),
            lambda table: (table / log / f"{1:020}.json").unlink(),
            lambda table: (table / log / f"{0:020}.json").unlink(),
            lambda table: (table / log / "_last_checkpoint").write_text('{"version": 77, "size": 3}'),
            lambda table: remove((table / log).iterdir()),
            lambda table: remove(table.glob("*.parquet")),
            each_data_file(b""),
            each_data_file(b"junk" * 10),
            each_data_file(b"PAR1" + b"\xff" * 100 + b"PAR1"),
        ]
        for damage in damages:
            copy = tmp_path / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(history, copy)
            damage(copy)
            assert "\n" not in refused(copy)


def mark_deleted(path: Path, rows: list[int]) -> None:
    """Delete rows of a table's only file by a deletion vector that stands in the log itself."""
    log = path / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    add = next(action["add"] for action in actions if "add" in action)
    schema = next(action["metaData"]["schemaString"] for action in actions if "metaData" in action)
    vector = struct.pack("<i", 1681511377) + BitMap64(rows).serialize()
    vector += bytes(-len(vector) % 4)
    alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    words = [int.from_bytes(vector[i : i + 4], "big") for i in range(0, len(vector), 4)]
    inline = "".join(alphabet[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))
    protocol = {
        "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"],
    }  # fmt: skip
    marked = {
        **add,
        "deletionVector": {
            "storageType": "i",
            "pathOrInlineDv": inline,
            "sizeInBytes": len(vector),
            "cardinality": len(rows),
        },
    }
    commit = [
        {"protocol": protocol},
        {"metaData": {
            "id": "0", "format": {"provider": "parquet", "options": {}}, "schemaString": schema, "partitionColumns": [],
            "configuration": {"delta.enableDeletionVectors": "true"}, "createdTime": 0,
        }},
        {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 0}},
        {"add": marked},
    ]  # fmt: skip
    (log / f"{1:020}.json").write_text("\n".join(map(json.dumps, commit)) + "\n")


class TestFrames:
    def test_arrow(self) -> None:
        table = from_arrow(EVERYTHING, "t")
        assert types(table) == EVERY_TYPE
        check_rows(table, EVERYTHING)
        assert from_arrow(EVERYTHING, "t", ReadOptions(limit=1)).row_count == 1
        assert from_arrow(pa.record_batch({"a": [1]}), "t").row(0) == {"a": 1}
        assert table.locate(0) == "t, row 1"

    def test_pandas(self) -> None:
        frame = pd.DataFrame({
            "i": [1, 2],
            "f": [1.5, NAN],
            "t": pd.to_datetime(["2024-01-01", "NaT"]),
            "z": pd.to_datetime(["2024-01-01", "NaT"]).tz_localize("Europe/Rome"),
            "s": ["x", None],
            "o": [None, None],
            "n": pd.array([1, None], "Int64"),
            "b": pd.array([True, None], "boolean"),
            "p": pd.array(["x", None], "string[pyarrow]"),
            "c": pd.Categorical(["x", None], categories=["z", "x"], ordered=True),
            "k": pd.Categorical([7, None]),
            "d": [Decimal("1.5"), None],
            "day": [date(2024, 1, 1), None],
        }, index=[7, 7])  # fmt: skip
        table = from_pandas(frame, "t")
        assert types(table) == [
            "integer", "float", "timestamp(9)", "timestamp(9)", "string", "string", "integer", "boolean", "string", "string", "integer",
            "decimal(2,1)", "date",
        ]  # fmt: skip
        assert list(table.row(0).values()) == [
            1, 1.5, datetime(2024, 1, 1, tzinfo=UTC), datetime(2023, 12, 31, 23, tzinfo=UTC), "x", None, 1, True, "x", "x", 7,
            Decimal("1.5"), date(2024, 1, 1),
        ]  # fmt: skip
        assert list(table.row(1).values()) == [2] + [None] * 12
        assert from_pandas(frame, "t", ReadOptions(limit=1, include=["s", "i"])).rows([0]) == [{"i": 1, "s": "x"}]

    def test_names_of_pandas_columns(self) -> None:
        assert from_pandas(pd.DataFrame([[1, 2]]), "t").schema.names == ("0", "1")
        for names in (["a", "a"], [0, "0"]):
            with pytest.raises(InputError, match=r"more than one column named"):
                from_pandas(pd.DataFrame([[1, 2]], columns=names), "t")
        assert from_pandas(pd.DataFrame(), "t").schema.names == ()
        assert from_pandas(pd.DataFrame({"a": []}), "t").row_count == 0

    @pytest.mark.parametrize(
        "values",
        [
            [1, "x"], ["x", 1], [True, "x"], [True, 1], [1.5, Decimal(1)], [2**53 + 1, 0.5], [2**70], [object()], [1j], ["\ud800"],
            [date(2024, 1, 1), datetime(2024, 1, 1, 5, tzinfo=UTC)], [b"x", "y"], ["y", b"x"],
            [1.5, True], [None, 1.5, True], [np.True_, 2], [False, Decimal(1)], [datetime(2024, 1, 1, tzinfo=UTC), 5],
            [datetime.fromisoformat("2024-01-01"), datetime(2024, 1, 1, tzinfo=UTC)], [pd.Timestamp("2024", tz="UTC"), pd.Timestamp("2024")],
        ],
        ids=lambda values: " and ".join(type(value).__name__ for value in values),
    )  # fmt: skip
    def test_columns_of_mixed_types_are_refused(self, values: list[Any]) -> None:
        with pytest.raises(InputError, match=r"table t, column a: .*Give it one type first") as caught:
            from_pandas(pd.DataFrame({"a": pd.Series(values, dtype=object)}), "t")
        str(caught.value).encode()

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ([1, 1.5, None, np.float32(0.5)], "float"),
            ([1, Decimal("1.5")], "decimal(2,1)"),
            ([True, None, np.False_], "boolean"),
            ([np.str_("a"), "b"], "string"),
            ([pd.Timestamp("2024", tz="UTC"), datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2)))], "timestamp"),
        ],
    )
    def test_columns_of_like_types_are_read(self, values: list[Any], expected: str) -> None:
        assert types(from_pandas(pd.DataFrame({"a": pd.Series(values, dtype=object)}), "t")) == [expected]

    def test_sparse_and_other_frames(self) -> None:
        with pytest.raises(InputError, match="column a"):
            from_pandas(pd.DataFrame({"a": pd.arrays.SparseArray([0, 1])}), "t")
        left_out = from_pandas(pd.DataFrame({"a": pd.to_timedelta([1]), "b": pd.period_range("2024", periods=1)}), "t")
        assert left_out.schema.names == ()
        assert "a (duration" in left_out.warnings[0]
        for wrong in (None, [1], pd.Series([1])):
            with pytest.raises(UsageError, match="expected a pandas data frame"):
                from_pandas(wrong, "t")
        with pytest.raises(UsageError, match="expected an Arrow table"):
            from_arrow({"a": [1]}, "t")


class TestConversions:
    @pytest.mark.parametrize(
        ("values", "type_name", "expected"),
        [
            ([5, None], "decimal(5,2)", [Decimal(5), None]),
            ([0.1, -0.0, None], "decimal(5,2)", [Decimal("0.1"), Decimal(0), None]),
            ([0.1, 1e22], "decimal(38,2)", [Decimal("0.1"), Decimal(10**22)]),
            ([Decimal("0.1"), Decimal("-2.00")], "float", [0.1, -2.0]),
            ([1.0, 2.0**62], "integer", [1, 2**62]),
            ([Decimal("5.00"), None], "integer", [5, None]),
            ([Decimal("5.10")], "decimal(3,1)", [Decimal("5.1")]),
            ([2**53], "float", [2.0**53]),
            (["01", None, "2."], "integer", [1, None, 2]),
            (["2024-01-01", None], "timestamp", [datetime(2024, 1, 1, tzinfo=UTC), None]),
            ([None, None], "decimal(38,2)", [None, None]),
            ([1.5, NAN, None, -0.0, 1e22, 0.1], "string", ["1.5", "nan", None, "0", "1e+22", "0.1"]),
            ([Decimal("1.50"), Decimal("0.00"), Decimal("-100.00")], "string", ["1.5", "0", "-100"]),
            ([Decimal("0.00000001")], "string", ["0.00000001"]),
            ([date(1, 1, 1), None], "string", ["0001-01-01", None]),
            ([datetime(999, 1, 1, 0, 0, 1, 500000, tzinfo=UTC)], "string", ["0999-01-01T00:00:01.5"]),
            ([True, None], "string", ["true", None]),
        ],
    )  # fmt: skip
    def test_without_loss(self, values: list[Any], type_name: str, expected: list[Any]) -> None:
        table = from_arrow(
            pa.table({"a": pa.array(values, from_pandas=False)}), "t", ReadOptions(types={"a": parse_type(type_name)})
        )
        assert types(table) == [type_name]
        assert table["a"].values().to_pylist() == expected

    def test_numbers_of_other_widths(self) -> None:
        data = pa.table(
            {
                "h": pa.array(np.array([1.5], np.float16)),
                "u": pa.array([7], pa.uint64()),
                "c": pa.array([1]).dictionary_encode(),
            }
        )
        to_decimal = dict.fromkeys("huc", parse_type("decimal(4,1)"))
        assert from_arrow(data, "t", ReadOptions(types=to_decimal)).row(0) == {"h": Decimal("1.5"), "u": 7, "c": 1}
        assert from_arrow(data, "t", ReadOptions(**AS_TEXT)).row(0) == {"h": "1.5", "u": "7", "c": "1"}
        assert types(from_arrow(data, "t", ReadOptions(types={"u": parse_type("int")})))[1] == "integer"

    @pytest.mark.parametrize(
        ("values", "type_name", "row"),
        [
            ([5, 70000], "decimal(5,2)", 2), ([0.125], "decimal(5,2)", 1), ([0.5, NAN], "decimal(5,2)", 2),
            ([Decimal(1), Decimal(2**53 + 1)], "float", 2), ([Decimal("5.11")], "decimal(3,1)", 1), (["1", "x"], "integer", 2),
            ([1.5], "integer", None), ([NAN], "integer", None), ([2.0**63], "integer", None), ([Decimal("5.1")], "integer", None),
            ([2**53 + 1], "float", None), ([True], "integer", None), ([date(2024, 1, 1)], "timestamp", None), ([1], "boolean", None),
            ([datetime(9999, 1, 1, tzinfo=UTC)], "timestamp(9)", None),
        ],
        ids=repr,
    )  # fmt: skip
    def test_with_loss_is_refused(self, values: list[Any], type_name: str, row: int | None) -> None:
        where = "t, column a: " if row is None else f"t, row {row}, column a: "
        with pytest.raises(InputError) as caught:
            from_arrow(
                pa.table({"a": pa.array(values, from_pandas=False)}),
                "t",
                ReadOptions(types={"a": parse_type(type_name)}),
            )
        assert str(caught.value).startswith(where)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """100,000 rows of 8 columns, more than one block of Arrow's, with line breaks in quotes throughout."""
    path = tmp_path_factory.mktemp("big") / "big.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([f"c{i}" for i in range(8)])
        for i in range(100_000):
            text = f'line one of {i},\r\nline "two"' + "." * (i % 40)
            writer.writerow(
                [i, i / 8, f"{i:07}", text, "", date.fromordinal(1 + i), f"2024-01-01T00:00:{i % 60:02}", i % 2]
            )
    yield path
    path.unlink()


def test_a_big_file(big: Path) -> None:
    before = pa.total_allocated_bytes()
    table = read_table(big)
    assert pa.total_allocated_bytes() - before < 100 << 20
    assert types(table) == ["integer", "float", "string", "string", "string", "date", "timestamp", "integer"]
    assert table.row_count == 100_000
    with big.open(newline="") as file:
        texts = [row[3] for row in csv.reader(file)][1:]
    assert table["c3"].values().to_pylist() == texts
    assert table["c0"].keys.tolist() == list(range(100_000))
    assert table.locate(50_000) == f"{big}, line {2 + 2 * 50_000}"


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_located_in_any_order_by_few_readings(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(seed)
    path, text, lines = tmp_path / "r.csv", "a,b\n", []
    for number in range(60):
        text += "\n" * dice.randrange(2)
        lines.append(text.count("\n") + 1)
        text += f'{number},"x{dice.choice(["", "", chr(10) * 2])}"\n'
    path.write_text(text)
    table = read_table(path)
    read, records = [], delimited.DelimitedFile.records

    def counted(file: delimited.DelimitedFile) -> Iterator[tuple[int, list[str]]]:
        for record in records(file):
            read.append(record)
            yield record

    monkeypatch.setattr(delimited.DelimitedFile, "records", counted)
    rows = [*range(0, 60, 3), *(dice.randrange(60) for _ in range(200))]
    assert [table.locate(row) for row in rows] == [f"{path}, line {lines[row]}" for row in rows]
    assert len(read) < 4 * 60
