"""Output tables: one suite for both writers, who take over from each other at any commit."""

from __future__ import annotations

import datetime
import os
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from holdfast.constraints import UsageError
from holdfast.streaming.sinks.choosing import open_tables, writer_for
from holdfast.streaming.sinks.contract import Retention
from holdfast.streaming.sinks.deltalake import DeltaLakeTable
from holdfast.streaming.sinks.shapes import (
    BATCHES,
    CONSTRAINT_CHANGES,
    CONSTRAINTS,
    QUARANTINE,
    SHAPES,
    SUSPECTS,
    TABLES,
    Shape,
)
from holdfast.streaming.spark.delta_table import SparkTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from holdfast.streaming.sinks.contract import OutputTable

    Open = Callable[..., OutputTable]

KEPT = Retention()
WHEN = "2026-11-18T10:00:00.123456Z"
TEXTS = [
    'it\'s "quoted"',
    "two\nlines\r\n\ttab",
    "`backticks` ${NAME} %20 \\ \\' '' --",
    "emoji 😀 é \u202e \ufeff",
    "NUL \0 inside",
    "x" * 65_536,
    "",
    None,
]


@pytest.fixture(params=["deltalake", "spark"])
def opened(request: pytest.FixtureRequest, spark: SparkSession) -> Open:
    return _opener(request.param, spark)


def _opener(writer: str, spark: SparkSession) -> Open:
    def opened(
        folder: Path, shape: Shape, application: str = "app", state: str = "s", retention: Retention = KEPT
    ) -> OutputTable:
        if writer == "spark":
            return SparkTable(spark, str(folder), shape, application, state, retention)
        return DeltaLakeTable(str(folder), shape, application, state, None, retention)

    return opened


def _row(commit: int, **columns: Any) -> dict[str, Any]:
    return {"commit": commit, "application": "app", "state_id": "s", **columns}


def _read(folder: Path, *columns: str) -> list[Any]:
    rows = DeltaTable(folder).to_pyarrow_table().sort_by("commit").to_pylist()
    return [tuple(row[name] for name in columns) if len(columns) > 1 else row[columns[0]] for row in rows]


@pytest.mark.parametrize("shape", [QUARANTINE, CONSTRAINTS], ids=lambda shape: shape.name)
def test_any_text_comes_out_as_it_went_in(opened: Open, spark: SparkSession, shape: Shape, tmp_path: Path) -> None:
    folder = tmp_path / "it's `a` folder é"
    column = "raw" if shape is QUARANTINE else "constraint"
    rows = [_row(n, constraint_id=f"{n}'\"`\0", constraint=text) for n, text in enumerate(TEXTS, 1)]
    if shape is QUARANTINE:
        rows = [_row(n, raw=text, seen_at=WHEN, date=WHEN[:10]) for n, text in enumerate(TEXTS, 1)]
        rows.append(_row(len(rows) + 1))  # null everywhere, in its partition too
    table = opened(folder, shape)
    table.publish(rows[:3], 3)
    table.publish(rows[3:], len(rows))
    expected = [row.get(column) for row in rows]
    assert _read(folder, column) == expected
    read = spark.read.format("delta").load(str(folder)).orderBy("commit").collect()
    assert [row[column] for row in read] == expected
    if shape is QUARANTINE:
        instant = datetime.datetime(2026, 11, 18, 10, 0, 0, 123456, datetime.UTC)
        assert _read(folder, "seen_at") == [instant] * len(TEXTS) + [None]
        assert [row["seen_at"].timestamp() for row in read[:-1]] == [instant.timestamp()] * len(TEXTS)


def test_repeats_change_nothing(opened: Open, tmp_path: Path) -> None:
    changes, current = opened(tmp_path / "a", CONSTRAINT_CHANGES), opened(tmp_path / "c", CONSTRAINTS)
    for _ in range(2):
        for commit in (1, 2, 3):
            changes.publish([_row(commit, constraint=f"c{commit}", date="2026-11-18")], commit)
            gone = _row(commit, constraint_id=f"c{commit - 1}", _gone=True)
            current.publish([gone, _row(commit, constraint_id=f"c{commit}")], commit)
        changes, current = opened(tmp_path / "a", CONSTRAINT_CHANGES), opened(tmp_path / "c", CONSTRAINTS)
    assert _read(tmp_path / "a", "commit") == [1, 2, 3]
    assert _read(tmp_path / "c", "constraint_id") == ["c3"]
    assert changes.published == current.published == 3
    changes.publish([_row(n, constraint=f"c{n}") for n in (2, 3, 4, 5)], 5)  # a run that begins before
    assert _read(tmp_path / "a", "commit") == [1, 2, 3, 4, 5]
    assert opened(tmp_path / "a", CONSTRAINT_CHANGES, state="other").published == 0


def test_rows_of_a_run_come_to_one_a_key(opened: Open, tmp_path: Path) -> None:
    table = opened(tmp_path / "c", CONSTRAINTS)
    assert table.is_new
    table.publish(
        [
            _row(1, constraint_id="stays", constraint="a", rank=1),
            _row(1, constraint_id="goes", constraint="b"),
            _row(2, constraint_id="goes", _gone=True),
            _row(2, constraint_id="goes", rank=9, _amends=True),
            _row(2, constraint_id="comes back", _gone=True),
            _row(3, constraint_id="comes back", constraint="c"),
            _row(3, constraint_id="comes back", rank=2, score=0.5, _amends=True),
            _row(3, constraint_id="never there", rank=3, _amends=True),
        ],
        3,
    )
    assert not opened(tmp_path / "c", CONSTRAINTS).is_new
    columns = ("constraint_id", "commit", "constraint", "rank", "score")
    assert _read(tmp_path / "c", *columns) == [("stays", 1, "a", 1, None), ("comes back", 3, "c", 2, 0.5)]
    table.publish([_row(4, constraint_id="stays", rank=None, score=0.25, _amends=True)], 4)
    assert _read(tmp_path / "c", *columns) == [("comes back", 3, "c", 2, 0.5), ("stays", 4, "a", None, 0.25)]
    tables = opened(tmp_path / "t", TABLES)
    for rows in (5, 6):
        tables.publish([_row(rows, table_name="t", rows=rows)], rows)
    assert _read(tmp_path / "t", "rows") == [6]


def test_suspects_are_confirmed_and_go(opened: Open, tmp_path: Path) -> None:
    """Commits whose rows came and went are in the table too: a merge that changes nothing may be no commit."""
    table = opened(tmp_path / "table", SUSPECTS)

    def row(commit: int, name: str, **more: Any) -> dict[str, Any]:
        return {"commit": commit, "application": "app", "state_id": "s", "suspect_id": name, **more}

    def amended(commit: int, name: str, score: float) -> dict[str, Any]:
        return row(commit, name, score=score, expected="2", constraints="[]", as_of_commit=commit, _amends=True)

    first = [row(1, name, table_name="t", column="c", score=0.9, since_commit=1, as_of_commit=1) for name in "ab"]
    table.publish(first, 1)
    table.publish([amended(2, "a", 0.95), amended(2, "nobody", 0.95)], 2)
    table.publish([row(3, "c", table_name="t"), row(4, "c", _gone=True)], 4)
    assert table.published == 4
    table.publish([row(5, "b", _gone=True)], 5)
    (left,) = DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist()
    about = {name: left[name] for name in ("commit", "suspect_id", "column", "score", "since_commit", "as_of_commit")}
    assert about == {"commit": 2, "suspect_id": "a", "column": "c", "score": 0.95, "since_commit": 1, "as_of_commit": 2}
    assert opened(tmp_path / "table", SUSPECTS).published == 5


def test_tables_are_the_same_whoever_makes_them(opened: Open, spark: SparkSession, tmp_path: Path) -> None:
    for shape in (CONSTRAINT_CHANGES, CONSTRAINTS):
        opened(tmp_path / shape.name, shape)
        found = DeltaTable(tmp_path / shape.name)
        about = found.metadata()
        assert about.description == shape.description
        assert about.partition_columns == list(shape.partition_by)
        fields = {field.name: (field.type.type, field.metadata["comment"]) for field in found.schema().fields}
        DeltaLakeTable(str(tmp_path / "other" / shape.name), shape, "app", "s")
        other = DeltaTable(tmp_path / "other" / shape.name)
        assert fields == {field.name: (field.type.type, field.metadata["comment"]) for field in other.schema().fields}
        assert about.configuration == other.metadata().configuration
        assert about.configuration["delta.enableDeletionVectors"] == "false"
        assert about.configuration["delta.enableChangeDataFeed"] == "true"


@pytest.mark.parametrize("seed", [1, 2])
def test_writers_take_over_from_each_other_at_any_commit(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    dice = random.Random(seed)
    writers = {name: _opener(name, spark) for name in ("deltalake", "spark")}
    current: dict[str, int] = {}
    history: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = []
    feed: list[tuple[int, str]] = []
    changes_at, current_at = tmp_path / "changes", tmp_path / "current"
    order = ["deltalake", "spark", *dice.choices(["deltalake", "spark"], k=2)]
    for writer in order:
        changes, merged = writers[writer](changes_at, CONSTRAINT_CHANGES), writers[writer](current_at, CONSTRAINTS)
        for commit in range(max(1, len(history) - 1), len(history) + 1):  # replay what the other one did
            for table, rows in zip((changes, merged), history[commit - 1], strict=True):
                table.publish(rows, commit)
        for commit in range(len(history) + 1, len(history) + 1 + dice.randint(1, 2)):
            appended, put = [], []
            for key in dice.sample("abcdef", 2):
                if key in current and dice.random() < 0.5:
                    del current[key]
                    put.append(_row(commit, constraint_id=key, _gone=True))
                else:
                    current[key] = commit
                    put.append(_row(commit, constraint_id=key, constraint=f"{key}{commit}"))
                appended.append(_row(commit, constraint=key, date=f"2026-11-{10 + commit}"))
                feed.append((commit, key))
            history.append((appended, put))
            changes.publish(appended, commit)
            merged.publish(put, commit)
        if dice.random() < 0.4:
            changes.compact()
            merged.compact()
            merged.tidy(datetime.datetime.now(datetime.UTC))
        assert changes.published == merged.published == len(history)
    assert sorted(_read(changes_at, "commit", "constraint")) == sorted(feed)
    assert {(key, commit) for commit, key in _read(current_at, "commit", "constraint_id")} == set(current.items())
    for folder in (changes_at, current_at):
        for followed in (_feed_by_spark(spark, folder), _feed_by_delta_rs(folder)):
            summed: dict[tuple[Any, ...], int] = {}
            for change, *row in followed:
                if change != "update_preimage":
                    sign = -1 if change == "delete" else 1
                    summed[tuple(row)] = summed.get(tuple(row), 0) + sign
                else:
                    summed[tuple(row)] = summed.get(tuple(row), 0) - 1
            left = sorted((row for row, count in summed.items() if count), key=repr)
            assert all(count in {0, 1} for count in summed.values())
            assert left == sorted(_read(folder, "commit", "constraint_id", "constraint"), key=repr)
            # followers see no row twice, whatever was replayed or compacted


def _feed_by_spark(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    feed = spark.read.option("readChangeFeed", "true").option("startingVersion", 0).format("delta").load(str(folder))
    return [tuple(row) for row in feed.select("_change_type", "commit", "constraint_id", "constraint").collect()]


def _feed_by_delta_rs(folder: Path) -> list[tuple[Any, ...]]:
    import pyarrow as pa

    rows = pa.table(DeltaTable(folder).load_cdf(0).read_all()).to_pylist()
    return [(row["_change_type"], row["commit"], row["constraint_id"], row["constraint"]) for row in rows]


def test_a_table_of_an_earlier_version_gets_the_new_columns(opened: Open, spark: SparkSession, tmp_path: Path) -> None:
    older = Shape("batches", "Batches.", [c for c in BATCHES.columns if c[0] not in {"lag_seconds", "seconds"}])
    opened(tmp_path / "b", older).publish([_row(1, source="t")], 1)
    table = opened(tmp_path / "b", BATCHES)
    table.publish([_row(2, source="t", lag_seconds=0.5, seconds="{}")], 2)
    assert _read(tmp_path / "b", "commit", "lag_seconds", "seconds") == [(1, None, None), (2, 0.5, "{}")]
    assert opened(tmp_path / "b", BATCHES).published == 2
    comments = {field.name: field.metadata.get("comment") for field in DeltaTable(tmp_path / "b").schema().fields}
    assert comments["lag_seconds"] == "age of the oldest record of the batch"


def test_somebody_who_joins_files_meanwhile_stops_nothing(opened: Open, tmp_path: Path) -> None:
    table = opened(tmp_path / "c", CONSTRAINTS)
    for commit in range(1, 5):
        table.publish([_row(commit, constraint_id=f"c{commit}")], commit)
        DeltaTable(tmp_path / "c").optimize.compact()
    table.publish([_row(5, constraint_id="c1", _gone=True)], 5)
    table.compact()
    assert _read(tmp_path / "c", "constraint_id") == ["c2", "c3", "c4"]


def test_tidying_removes_old_rows_and_files_and_nothing_else(opened: Open, spark: SparkSession, tmp_path: Path) -> None:
    now = datetime.datetime(2026, 11, 18, 12, tzinfo=datetime.UTC)
    kept = Retention(log=datetime.timedelta(hours=5), rows=datetime.timedelta(days=7))
    days = [f"2026-11-{day:02}" for day in (5, 9, 10, 11, 12, 18)]
    for shape, aged in ((BATCHES, "committed_at"), (QUARANTINE, "seen_at")):
        folder = tmp_path / shape.name
        table = opened(folder, shape, retention=kept)
        rows = [_row(n, **{aged: f"{day}T23:00:00.000000Z"}, date=day) for n, day in enumerate(days, 1)]
        rows = [{name: value for name, value in row.items() if name in shape.names} for row in rows]
        table.publish(rows[:4], 4)
        table.publish(rows[4:], len(days))
        table.publish([_row(99)], 99)  # no age: stays
        table.tidy(now)
        left = list(range(1 + days.index("2026-11-11") if shape.aged_by else 1, len(days) + 1))
        assert _read(folder, "commit") == [*left, 99]
        assert table.published == 99
        table.publish([_row(100)], 100)
        before = DeltaTable(folder).version()
        files = {path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts}
        for path in files:
            os.utime(path, (time.time() - 86_400,) * 2)
        orphan = folder / "part-00000-left-by-a-crash.snappy.parquet"
        orphan.write_bytes(b"half")
        os.utime(orphan, (time.time() - 86_400,) * 2)
        table.tidy(now)
        assert not orphan.exists()
        # old files that a version of the last hour needs are still there
        assert DeltaTable(folder, version=before).to_pyarrow_table().num_rows == len(left) + 2
        assert _read(folder, "commit") == [*left, 99, 100]


def test_the_log_is_cut_and_the_table_goes_on(tmp_path: Path) -> None:
    kept = Retention(log=datetime.timedelta(seconds=1))
    table = DeltaLakeTable(str(tmp_path / "t"), CONSTRAINTS, "app", "s", None, kept)
    for commit in range(1, 121):
        table.publish([_row(commit, constraint_id=f"c{commit % 7}")], commit)
    time.sleep(1.1)
    table.publish([_row(121, constraint_id="c0")], 121)
    table.compact()
    assert len(list((tmp_path / "t" / "_delta_log").glob("*.json"))) < 40
    table = DeltaLakeTable(str(tmp_path / "t"), CONSTRAINTS, "app", "s", None, kept)
    assert table.published == 121
    assert sorted(_read(tmp_path / "t", "constraint_id")) == [f"c{i}" for i in range(7)]


def test_settings_that_change_are_taken_over(opened: Open, tmp_path: Path) -> None:
    opened(tmp_path / "t", CONSTRAINTS)
    opened(tmp_path / "t", CONSTRAINTS, retention=Retention(log=datetime.timedelta(days=3)))
    found = DeltaTable(tmp_path / "t").metadata().configuration
    assert found["delta.logRetentionDuration"] == "interval 259200 seconds"
    version = DeltaTable(tmp_path / "t").version()
    opened(tmp_path / "t", CONSTRAINTS, retention=Retention(log=datetime.timedelta(days=3)))
    assert DeltaTable(tmp_path / "t").version() == version


def test_the_writer_follows_the_storage(spark: SparkSession, tmp_path: Path) -> None:
    reached = ["/a", "rel/ative", "file:///a", "s3://b/a", "s3a://b/a", "abfss://c@d/a", "gs://b/a", "az://c/a"]
    assert {writer_for(place) for place in reached} == {"deltalake"}
    others = ["dbfs:/a", "dbfs://a", "hdfs://h/a", "viewfs://h/a", "wasbs://c@d/a", "oss://b/a"]
    assert {writer_for(place) for place in others} == {"spark"}
    assert {writer_for(place, "spark") for place in reached + others} == {"spark"}
    with pytest.raises(UsageError, match="does not write to hdfs"):
        writer_for("hdfs://h/a", "deltalake")
    with pytest.raises(UsageError, match="can only be written by Spark"):
        open_tables("hdfs://h/a", "app", "s")

    def made(uri: str, shape: Shape, application: str, state: str, retention: Retention) -> OutputTable:
        return SparkTable(spark, uri, shape, application, state, retention)

    shapes = {"batches": BATCHES, "quarantine": QUARANTINE}
    week = datetime.timedelta(days=7)
    for writer in ("spark", "auto", "spark"):
        tables: Sequence[OutputTable] = list(
            open_tables(
                f"file://{tmp_path}/out",
                "app",
                "s",
                writer=writer,
                spark_table=made,
                retentions={"batches": Retention(rows=week)},
                shapes=shapes,
            ).values()
        )
        for table in tables:
            table.publish([_row(table.published + 1)], table.published + 1)
    assert _read(tmp_path / "out" / "batches", "commit") == [1, 2, 3]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["batches", "quarantine"]


def test_every_shape_takes_a_row_and_its_upkeep(tmp_path: Path) -> None:
    day = Retention(rows=datetime.timedelta(days=1))
    for shape in SHAPES.values():
        table = DeltaLakeTable(str(tmp_path / shape.name), shape, "app", "s", None, day)
        key = {shape.key: "k"} if shape.key else {}
        dated = {"date": "2020-01-01"} if "date" in shape.names else {}
        for commit in range(1, 4):
            table.publish([_row(commit, **key, **dated)], commit)
        table.compact()
        table.tidy(datetime.datetime.now(datetime.UTC))
        aged = shape.aged_by == "date"
        assert _read(tmp_path / shape.name, "commit") == ([3] if shape.key else [] if aged else [1, 2, 3])
        assert len(DeltaTable(tmp_path / shape.name).file_uris()) == (0 if aged else 1)
        assert table.published == 3
