"""A session starts from the pinned jars, and Delta works in it, change feed included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.streaming.spark.errors import SparkMismatch
from holdfast.streaming.spark.session import check_spark_home, session_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession


def test_delta_table_and_its_change_feed(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/city`"
    spark.sql(
        f"CREATE TABLE {table} (zip STRING, city STRING) USING delta "
        "TBLPROPERTIES (delta.enableChangeDataFeed = true, delta.enableDeletionVectors = false)"
    )
    spark.sql(f"INSERT INTO {table} VALUES ('01907', 'Swampscott'), ('10001', 'New York')")
    spark.sql(f"DELETE FROM {table} WHERE zip = '10001'")

    assert [tuple(row) for row in spark.table(table).collect()] == [("01907", "Swampscott")]
    feed = spark.read.option("readChangeFeed", "true").option("startingVersion", 1)
    changes = feed.format("delta").load(str(tmp_path / "city"))
    assert {(row["_commit_version"], row["_change_type"], row["zip"]) for row in changes.collect()} == {
        (1, "insert", "01907"),
        (1, "insert", "10001"),
        (2, "delete", "10001"),
    }


def test_python_workers_run_this_python(spark: SparkSession) -> None:
    def name_python(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import platform

        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"version": [platform.python_version()]})

    import platform

    answers = spark.range(1, numPartitions=1).mapInArrow(name_python, "version string").collect()
    assert [row["version"] for row in answers] == [platform.python_version()]


def test_driver_listens_on_loopback_only(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_given_settings_win() -> None:
    settings = session_settings({"spark.master": "yarn", "spark.ui.enabled": "true", "spark.jars": ""})
    assert settings["spark.master"] == "yarn"
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.jars"] == ""
    assert "spark.driver.host" not in settings


def test_other_spark_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SparkMismatch, match="unset SPARK_HOME"):
        check_spark_home()
