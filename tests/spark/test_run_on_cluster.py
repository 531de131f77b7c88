"""A real cluster: `run` with rows in blocks says what it says in memory, also when executors are killed meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster import Cluster, executors_killed
from tests.spark.test_run_blocks import FILES, Changes, Twins

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_a_table_is_followed_while_executors_are_killed(
    cluster: Cluster, cluster_spark: SparkSession, tmp_path: Path
) -> None:
    twins = Twins(tmp_path, [FILES], spark={"spark.master": cluster.master}, blocks={"rows": 4, "path": "../shared"})
    changes = Changes(twins, 11)
    changes.come(2)
    twins.drain()
    changes.come(6)
    with executors_killed(cluster, cluster_spark, kills=4, seconds=3.0):
        twins.blocks.drain()
    twins.memory.drain()
    twins.check()
    changes.check(*twins.both)
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o700
