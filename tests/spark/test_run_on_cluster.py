"""A real cluster: `run` with rows in blocks says what it says in memory, also when executors are killed meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.streaming.spark.jars import spark_jars
from tests.cluster import Cluster, driver_environment, executors_killed
from tests.short_lives import java_options
from tests.spark.test_run_blocks import PLAIN, Changes, Twins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_table_is_followed_while_executors_are_killed(
    cluster: Cluster, cluster_spark: SparkSession, tmp_path: Path
) -> None:
    settings = {"spark": {"spark.master": cluster.master}, "blocks": {"rows": 4, "path": "../shared"}}
    twins = Twins(tmp_path, [PLAIN], **settings, constraints={"denial": {"max_predicates": 2}})
    changes = Changes(twins.memory, 11)
    changes.come(2)
    twins.drain()
    changes.come(6)
    with executors_killed(cluster, cluster_spark, kills=4, seconds=3.0):
        twins.blocks.drain()
    twins.memory.drain()
    twins.check()
    changes.check(*twins.both)
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o700


def test_a_table_is_followed_by_spark_submit(cluster: Cluster, tmp_path: Path) -> None:
    twins = Twins(tmp_path, [PLAIN], blocks={"rows": 8})
    changes, app, script = Changes(twins.memory, 12), twins.blocks, tmp_path / "holdfast_main.py"
    changes.come(3)
    script.write_text("from holdfast.jobs.command_line import main\nmain()\n", encoding="utf-8")
    own = {"spark.master", "spark.driver.extraJavaOptions"}
    flags = [f"--conf={name}={value}" for name, value in cluster.settings.items() if name not in own]
    flags += ["--jars", ",".join(map(str, spark_jars())), "--driver-java-options", f"-Xss16m {java_options()}"]
    environment = driver_environment(PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    submit = [str(Path(sys.executable).parent / "spark-submit"), "--master", cluster.master, *flags, str(script)]

    def submitted() -> subprocess.CompletedProcess[str]:
        command = [*submit, "run", str(app.file), "--available-now"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)

    refused = submitted()
    assert refused.returncode == 2, f"{refused.stdout}\n{refused.stderr}\n{cluster.logs()}"
    assert f"executors of {cluster.master} have to reach the blocks of rows" in refused.stdout
    app.configure(blocks={"rows": 8, "path": "../shared"})
    ran = submitted()
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}\n{cluster.logs()}"
    assert len(list((tmp_path / "shared").iterdir())) == 1
    changes.check(app)
