"""Files that are read in parts are what `read_table` makes of them: types, rows, numbers, places, errors."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import InputError, UsageError, parse_type
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.storage.block import read_block, rows_of
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.reading import read_blocks
from holdfast.tables import ReadOptions, delimited, read_table
from holdfast.tables.inference import fitting, infer, inferred
from tests.taxes import tax_records

TEXTS = {
    "plain": "a,b\n1,x\n2,\n3,z\n",
    "types meet late": "a,b,c,d\n1,2024-01-01,true,\n2,2024-01-02,false,\n2.5,x,1,\n",
    "wide integers": "a\n1\n99999999999999999999\n-5\n",
    "leading zeros": "a,b\n1,01907\n2,02134\n3,7\n",
    "times": "a,b\n2024-01-01T00:00:00,2024-01-01T00:00:00.123456789\n2024-01-02 01:00,2024-01-01T00:00:00\n",
    "quotes and newlines": 'a,b\n"x\ny",1\n"say ""no""",2\nz,3\n',
    "one column, blank lines": "a\n1\n\n3\n\n",
    "header only": "a,b\n",
    "nulls": "a,b\n,\n,\n,\n",
    "some nulls": "a,b\n,1\nx,\n,3\ny,\n",
}


def _same(path: Path, options: ReadOptions, folder: Path, most: int) -> None:
    storage = Storage.at(str(folder))
    storage.open().prepare()
    expected = read_table(path, options)
    found = read_blocks(path, options, storage, most, InProcess())
    table = found.table
    assert table.schema == expected.schema
    assert found.warnings == expected.warnings
    rows: dict[int, dict[str, Any]] = {}
    for block in table.base.blocks:
        assert 0 < block.rows <= most
        some = rows_of(read_block(storage.open(), block), table.schema)
        rows |= dict(zip(some.numbers.tolist(), some.table.rows(range(some.table.row_count)), strict=True))
    assert sorted(rows) == list(range(expected.row_count))
    assert table.row_count == expected.row_count
    assert repr([rows[i] for i in sorted(rows)]) == repr(expected.rows(range(expected.row_count)))
    assert [found.locate(i) for i in sorted(rows)] == [expected.locate(i) for i in sorted(rows)]
    assert set(storage.open().names()) == {block.name for block in table.base.blocks}


@pytest.mark.parametrize("most", [1, 2, 100])
@pytest.mark.parametrize("text", sorted(TEXTS))
def test_texts(text: str, most: int, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(TEXTS[text], encoding="utf-8")
    _same(path, ReadOptions(), tmp_path / "blocks", most)


@pytest.mark.parametrize(
    "options",
    [
        ReadOptions(strings="all"),
        ReadOptions(strings={"a"}),
        ReadOptions(limit=2),
        ReadOptions(limit=0),
        ReadOptions(types={"a": parse_type("float")}),
        ReadOptions(types={"a": parse_type("decimal(5,1)")}, ordered={"b": True}),
        ReadOptions(include=["b"]),
        ReadOptions(exclude=["a"]),
        ReadOptions(null_tokens=("x", "")),
        ReadOptions(nulls_by_look=True),
    ],
)
def test_options_of_texts(options: ReadOptions, tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    text = b"a,b\n1,-\n?,2024-02-29\nNA,null\n" if options.nulls_by_look else b"a,b\n1,x\n2,y\n3,z\n"
    path.write_bytes(gzip.compress(text))
    _same(path, options, tmp_path / "blocks", 2)


def test_typed_headers_and_other_encodings(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("a(Integer);b(String)\n1;é\n2;7\n".encode("latin-1"))
    _same(path, ReadOptions(typed_header=True, delimiter=";", encoding="latin-1"), tmp_path / "blocks", 1)


def test_a_record_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_BLOCK_SIZES", (64, 1 << 12))
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,x\n" * 40 + f"2,{'y' * 500}\n" + "3,z\n" * 3)
    _same(path, ReadOptions(), tmp_path / "blocks", 7)


@pytest.mark.parametrize("rows", [0, 1, 25])
def test_parquet(rows: int, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(tax_records(rows + 1).slice(1), path, row_group_size=4)
    for limit in (None, 0, 7):
        _same(path, ReadOptions(limit=limit), tmp_path / f"blocks{limit}", 6)


def test_a_folder_of_parquet(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", "y", None]}), folder / "1.parquet", row_group_size=2)
    pq.write_table(pa.table({"b": ["z"], "a": pa.array([4], pa.int32()), "c": [1.5]}), folder / "2.parquet")
    _same(folder, ReadOptions(), tmp_path / "blocks", 2)
    _same(folder, ReadOptions(types={"a": parse_type("string")}), tmp_path / "more", 2)


def test_an_arrow_file(tmp_path: Path) -> None:
    from pyarrow import feather

    path = tmp_path / "t.arrow"
    feather.write_feather(tax_records(10), path)
    _same(path, ReadOptions(limit=9), tmp_path / "blocks", 4)


def test_what_cannot_be_read_is_told_as_ever(tmp_path: Path) -> None:
    storage = Storage.at(str(tmp_path / "blocks"))
    storage.open().prepare()
    wrong = {
        "quote.csv": ('a,b\n"x,1\ny,2\n', ReadOptions()),
        "fields.csv": ("a,b\n1,2\n3\n", ReadOptions()),
        "type.csv": ("a,b\n1,2\n3,x\n", ReadOptions(types={"b": parse_type("integer")})),
    }
    for name, (text, options) in wrong.items():
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(InputError) as expected:
            read_table(path, options)
        with pytest.raises(InputError) as found:
            read_blocks(path, options, storage, 1, InProcess())
        assert str(found.value) == str(expected.value)
    with pytest.raises(UsageError, match="no column 'z'"):
        read_blocks(path, ReadOptions(include=["z"]), storage, 1, InProcess())


WORDS = (
    "1 -2 +3 01 1.5 nan 99999999999999999999 2024-01-01 2024-01-01T01:00:00 2024-01-01T01:00:00Z "
    "2024-01-01T00:00:00.000000001 true False x 111111111111111111111111111111111111111"
)
VALUES = st.sampled_from(WORDS.split())


@given(st.lists(st.lists(VALUES, max_size=3), max_size=4))
def test_types_of_parts_are_those_of_the_whole(parts: list[list[str]]) -> None:
    whole = pa.array([text for part in parts for text in part], pa.string()).unique()
    found = inferred([fitting(pa.chunked_array([part], pa.string())) for part in parts]).type
    assert (found is None) == (not len(whole))
    if found is not None:
        assert found == infer(whole)[0]
