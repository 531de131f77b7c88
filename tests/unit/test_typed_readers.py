"""Sources that keep their types: Parquet, Arrow, Delta, data frames, and conversions of types."""

from __future__ import annotations

import json
import shutil
import struct
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import feather
from pyroaring import BitMap64

from holdfast.constraints import InputError, parse_type
from holdfast.tables import ReadOptions, Table, read_table
from tests.oracles.values import canonical_row
from tests.unit.test_readers import NAN, fields, refused, types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


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
