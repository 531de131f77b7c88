"""Text that cannot be read, and paths: what is refused, with its place, and where rows of large files are."""

from __future__ import annotations

import csv
import gzip
import os
import random
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyarrow import feather

from holdfast.constraints import ExternalError, InputError, UsageError, parse_type
from holdfast.tables import delimited, read_table, table_name
from tests.unit.test_readers import check_text, refused, types, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["write"]  # fixtures


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
