"""Readers: text files read as Python's csv module reads them, other formats as they were written, bad input refused.

*Differential* for text files: Python's `csv` reader says what the fields are. The rest is pinned by example.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.constraints import HoldfastError, InputError, UnknownColumn, UsageError, parse_type
from holdfast.tables import ReadOptions, Table, delimited, read_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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

    def test_texts_that_look_missing(self, write: Callable[..., Path]) -> None:
        text = "n,day,code,word,none\nNA,2024-01-01,NA,a,?\n1,-,DE,?,?\n-3,N/A,FR,b,NA\nNA,2024-01-03,?,,?\n"
        path = write(text)
        table = read_table(path)
        assert types(table) == ["string"] * 5
        number, day = (warning.removeprefix(f"{path}, column ").split(". ") for warning in table.warnings)
        assert number == [
            "n: read as text because of 'NA' in 2 rows; all other values fit the type integer",
            "If this means a missing value, set --null auto (in a configuration, auto for null_tokens)",
        ]
        assert (
            day[0] == "day: read as text because of '-' in 1 row and 'N/A' in 1 row; all other values fit the type date"
        )
        assert day[1].startswith("If these mean missing values, set")
        auto = read_table(path, ReadOptions(nulls_by_look=True))
        assert (types(auto), auto.warnings) == (["integer", "date", "string", "string", "string"], ())
        assert fields(auto)[:2] == [[None, date(2024, 1, 1), "NA", "a", "?"], [1, None, "DE", "?", "?"]]
        declared = ReadOptions(nulls_by_look=True, types={"none": parse_type("float"), "n": parse_type("string")})
        assert [row[0::4] for row in fields(read_table(path, declared))] == [
            ["NA", None],
            ["1", None],
            ["-3", None],
            ["NA", None],
        ]
        with pytest.raises(InputError, match="'\\?' is not a number"):
            read_table(path, ReadOptions(types={"none": parse_type("float")}))

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
