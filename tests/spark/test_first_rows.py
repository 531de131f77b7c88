"""First rows in blocks are those in memory: files with all that settings say of them, snapshots, nothing; same refusals."""

from __future__ import annotations

import gzip
import stat
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from holdfast.constraints import HoldfastError, InputError, StateRefused, UsageError
from holdfast.discovery.blocks.storage.block import read_block, rows_of
from holdfast.discovery.blocks.storage.live import LiveBlocks
from holdfast.jobs.application.blocks import StateBlocks
from holdfast.jobs.application.first_rows import first_rows
from holdfast.jobs.application.state_rows import RowsOfProcess
from holdfast.jobs.configuration.reading import load
from holdfast.state import codecs
from holdfast.state.memory import MemoryStore
from holdfast.state.store import WriteBatch
from holdfast.streaming.maintainers.holdings.in_blocks import WholeInBlocks
from holdfast.streaming.maintainers.holdings.in_memory import WholeInMemory
from tests.streams import Application
from tests.taxes import tax_records

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from holdfast.discovery.blocks.storage.table import BlockTable
    from holdfast.jobs.configuration.settings import Settings

SOURCE = {"source": {"format": "files", "path": "./changes", "encoding": "json"}}
FEED = {"delta.enableChangeDataFeed": "true"}


class Read:
    """A table, read both ways."""

    def __init__(self, folder: Path, spark: SparkSession, table: dict[str, Any], rows: int = 3) -> None:
        app = Application(folder, [{"name": "t", **table}], engine="spark", blocks={"rows": rows})
        self.settings: Settings = load(app.file).settings
        self.blocks = StateBlocks(self.settings, "one", lambda: spark)
        self.blocks.begin()
        self._spark = spark

    def both(self) -> tuple[Any, Any]:
        """Return what is read into memory and into blocks, or what is said in its place."""
        places = (RowsOfProcess(lambda: self._spark), self.blocks)
        answers: list[Any] = []
        for place in places:
            try:
                answers.append(first_rows(self.settings.tables[0], self.settings, lambda: self._spark, place))
            except HoldfastError as error:
                answers.append(error)
        return answers[0], answers[1]

    def check(self) -> BlockTable:
        """Assert that both are the same; return the table in blocks."""
        here, there = self.both()
        assert not isinstance(here, HoldfastError), here
        assert not isinstance(there, HoldfastError), there
        assert isinstance(here.rows, WholeInMemory)
        assert isinstance(there.rows, WholeInBlocks)
        assert there.schema == here.schema
        assert (there.known, there.source, there.sequence) == (here.known, here.source, here.sequence)
        assert [w.rpartition(": ")[2] for w in there.warnings] == [w.rpartition(": ")[2] for w in here.warnings]
        assert rows_in(there.rows.table) == Counter(map(repr, here.rows.table.rows(range(here.rows.table.row_count))))
        assert there.rows.table.row_count == here.rows.table.row_count
        return there.rows.table


def rows_in(table: BlockTable) -> Counter[str]:
    """Return the rows of a table in blocks, and see that their numbers are unique and the blocks small."""
    place = table.source.storage.open()
    found: Counter[str] = Counter()
    numbers: list[int] = []
    for block in table.base.blocks:
        assert 0 < block.rows <= table.source.most
        rows = rows_of(read_block(place, block), table.schema)
        numbers += rows.numbers.tolist()
        found.update(map(repr, rows.table.rows(range(rows.table.row_count))))
    assert len(set(numbers)) == len(numbers)
    return found


CSV = "k;a;b;c\n1;0.50;x;2024-01-01\n2;;y;\n3;7;NONE;2024-01-03\n4;7;x;2024-01-04\n"


@pytest.mark.parametrize(
    ("seed", "more"),
    [
        ({}, {}),
        ({}, {"include": ["c", "k"], "key": ["k"]}),
        ({}, {"exclude": ["a"], "columns": {"b": {"type": "string", "ordered": True}, "k": "decimal(10,2)"}}),
        ({"limit": 2}, {"columns": {"a": "decimal(9,3)"}}),
        ({"strings": "all"}, {}),
        ({"strings": ["k", "a"]}, {"exclude": ["a"]}),
        ({"null_tokens": ["NONE", ""]}, {}),
        ({"null_tokens": "auto"}, {"columns": {"c": {"type": "date"}}}),
        ({"encoding": "utf-16"}, {}),
    ],
)
def test_texts(spark: SparkSession, tmp_path: Path, seed: dict[str, Any], more: dict[str, Any]) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(CSV.encode(seed.get("encoding", "utf-8"))))
    read = Read(tmp_path, spark, {"seed": {"path": "./t.csv.gz", "delimiter": ";", **seed}, **more})
    table = read.check()
    assert len(table.base.blocks) == (1 if "limit" in seed else 2)
    assert stat.S_IMODE((tmp_path / "blocks" / "one" / "t").stat().st_mode) == 0o700


def test_a_typed_header(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a(Integer),b(String)\n1,2\n3,4\n", encoding="utf-8")
    Read(tmp_path, spark, {"seed": {"path": "./t.csv", "typed_header": True}}).check()


@pytest.mark.parametrize("limit", [None, 5])
def test_parquet(spark: SparkSession, tmp_path: Path, limit: int | None) -> None:
    rows = tax_records(25).append_column("nested", pa.array([[1]] * 25))
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=4)
    seed = {"path": "./t.parquet", **({} if limit is None else {"limit": limit})}
    Read(tmp_path, spark, {"seed": seed, "exclude": ["City"], "columns": {"Zip": "string"}}).check()


def test_a_version_of_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    for first in (0, 5, 10):
        rows = tax_records(15).slice(first, 5)
        write_deltalake(tmp_path / "t", rows.append_column("a.b `c`", pa.array(range(5))), mode="append")
    read = Read(tmp_path, spark, {"seed": {"path": "./t", "version": 1}, "exclude": ["State"], "include": None})
    assert read.check().row_count == 10


@pytest.mark.parametrize("version", [None, 1])
def test_the_snapshot_of_a_source(spark: SparkSession, tmp_path: Path, version: int | None) -> None:
    rows = tax_records(12).append_column("at", pa.array([1] * 12, pa.timestamp("us", "UTC")))
    rows = rows.set_column(0, "part", pa.array(["x", "y"] * 6))
    for first in (0, 4, 8):
        write_deltalake(tmp_path / "t", rows.slice(first, 4), mode="append", configuration=FEED, partition_by=["part"])
    seed = {} if version is None else {"seed": {"path": "./t", "version": version}}
    read = Read(tmp_path, spark, {"source": {"format": "delta", "path": "./t"}, "exclude": ["City"], **seed})
    assert read.check().row_count == (12 if version is None else 8)
    _, there = read.both()
    assert there.source == {
        "version": 2 if version is None else 1,
        "table_id": str(DeltaTable(tmp_path / "t").metadata().id),
    }


def test_files_at_addresses(spark: SparkSession, tmp_path: Path) -> None:
    """Hadoop's own view of the local disk stands for any storage that Spark reaches."""
    rows = tax_records(10)
    pq.write_table(rows, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n", encoding="utf-8")
    for name in ("t.parquet", "t.csv"):
        read = Read(tmp_path, spark, {"seed": {"path": f"viewfs://holdfast/{name}"}})
        spark.sparkContext._jsc.hadoopConfiguration().set(
            "fs.viewfs.mounttable.holdfast.linkFallback", f"file://{tmp_path}"
        )
        read.check()


@pytest.mark.parametrize("source", ["json", "parquet"])
def test_nothing(spark: SparkSession, tmp_path: Path, source: str) -> None:
    (tmp_path / "changes").mkdir()
    if source == "parquet":
        pq.write_table(pa.table({"k": [1], "a": [1.5], "_op": ["insert"]}), tmp_path / "changes" / "1.parquet")
    columns = {} if source == "parquet" else {"columns": {"k": "integer", "a": {"type": "string", "ordered": True}}}
    read = Read(tmp_path, spark, {"source": {"format": "files", "path": "./changes", "encoding": source}, **columns})
    table = read.check()
    assert table.base.blocks == ()
    assert table.schema.names == ("k", "a")


@pytest.mark.parametrize("more", [{}, {"exclude": ["c"]}, {"sequence": "d", "columns": {"d": "date"}}])
@pytest.mark.parametrize("sequence", ["c", "a"])
def test_a_sequence(spark: SparkSession, tmp_path: Path, more: dict[str, Any], sequence: str) -> None:
    """What is known of keys is beside the rows, and no other file is there."""
    lines = [f"{number},{number % 3 - 1}.5,{number % 2},2024-01-0{number + 1}\n" for number in range(7)]
    (tmp_path / "t.csv").write_text("k,a,b,c\n" + "".join(lines), encoding="utf-8")
    read = Read(
        tmp_path, spark, {"seed": {"path": "./t.csv"}, "key": ["b", "k"], "sequence": sequence, **SOURCE, **more}
    )
    table, (here, there) = read.check(), read.both()
    known, ours = there.versions.table, here.versions.table
    assert known.schema.names[:2] == ("b", "k")
    assert ours.row_count == (0 if "sequence" in more else 7)
    expected = [repr(list(row.values())) for row in ours.rows(range(ours.row_count))]
    assert all(row["b"] == row["k"] % 2 and row[" gone since"] == 0 for row in ours.rows(range(ours.row_count)))
    place, found = known.source.storage.open(), []
    for block in known.base.blocks:
        rows = rows_of(read_block(place, block), known.schema).table
        found += [repr(list(row.values())) for row in rows.rows(range(rows.row_count))]
    assert sorted(found) == sorted(expected)
    names = {block.name for blocks in (table, there.rows.table, known) for block in blocks.base.blocks}
    earlier = set(place.names()) - names  # of what was read first, to be compared
    assert len(earlier) == len(known.base.blocks)


@pytest.mark.parametrize(
    ("table", "kind", "words"),
    [
        (
            {"seed": {"path": "./t.csv"}, "key": ["b"], "sequence": "c", **SOURCE},
            InputError,
            "t.csv, line 3: the sequence column",
        ),
        (
            {"seed": {"path": "./t.csv"}, "key": ["a"], "sequence": "b", **SOURCE},
            UsageError,
            "expected a number of at most 64",
        ),
        (
            {"seed": {"path": "./t.csv"}, "key": ["a"], "sequence": "z", **SOURCE},
            UsageError,
            "give the type of the sequence",
        ),
        ({"seed": {"path": "./gone.csv"}}, UsageError, "does not exist"),
        ({"seed": {"path": "./t.csv"}, "include": ["z"]}, UsageError, "no column"),
        ({"seed": {"path": "./t.csv"}, "columns": {"b": "integer"}}, InputError, "t.csv, line 3, column b: 'x' is not"),
        ({"seed": {"path": "./p", "version": 1}}, UsageError, "is no Delta table"),
        ({"source": {"format": "delta", "path": "./t"}}, UsageError, "has no change feed"),
        ({"source": {"format": "delta", "path": "./none"}}, UsageError, "is no Delta table"),
    ],
)
def test_refusals(spark: SparkSession, tmp_path: Path, table: dict[str, Any], kind: type, words: str) -> None:
    (tmp_path / "t.csv").write_text("a,b,c\n1,1,1\n2,x,\n", encoding="utf-8")
    write_deltalake(tmp_path / "t", pa.table({"a": [1]}))
    (tmp_path / "p").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "p" / "1.parquet")
    here, there = Read(tmp_path, spark, table).both()
    assert isinstance(here, kind)
    assert isinstance(there, kind), there
    assert words in str(here)
    assert words in str(there)


def test_what_the_state_does_not_name_is_swept_and_what_is_missing_is_told(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,1\n2,x\n3,\n4,\n", encoding="utf-8")
    read = Read(tmp_path, spark, {"seed": {"path": "./t.csv"}}, rows=1)
    blocks, store, about = read.blocks, MemoryStore(), WriteBatch()
    live = LiveBlocks.of(read.check())
    about.put("tables", codecs.number(0), codecs.json_bytes({"name": "t"}))
    for part in (about, *live.save(codecs.number(0), everything=True)):
        store.write(part)
    folder, named = tmp_path / "blocks" / "one" / "t", live.manifest.names
    for left in (folder / "left", folder / "half.1.part", folder.parent / "u" / "left"):
        left.parent.mkdir(exist_ok=True)
        left.write_bytes(b"")
    blocks.refuse_missing(store)
    blocks.sweep(store)
    assert {path.name for path in folder.iterdir()} == named
    assert [path.name for path in folder.parent.iterdir()] == ["t"]
    (folder / min(named)).unlink()
    with pytest.raises(StateRefused, match=f"files with rows .*: 1, the first is t/{min(named)}"):
        blocks.refuse_missing(store)
