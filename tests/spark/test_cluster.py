"""A real standalone cluster: tasks import Holdfast on executors, and give the right answer when executors are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.constraints import ExternalError, UsageError
from holdfast.discovery.discover import discover
from holdfast.jobs.command_line import exit_code_of
from holdfast.streaming.spark.cluster import check_reachable, code_digest, refuse_unfit
from holdfast.streaming.spark.errors import ClusterUnreachable, ExecutorsUnfit
from holdfast.streaming.spark.jars import spark_jars
from holdfast.streaming.spark.session import python_environment, session_for, session_settings
from tests.cluster import driver_environment, running_cluster
from tests.processes import command_lines, tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession

    from tests.cluster import Cluster, Executor

PATIENCE_SECONDS = 90
BLOCKS = 4
ROWS = pa.table(
    {
        "block": [i % BLOCKS for i in range(400)],
        "zip": [f"{i * 7 % 61:05}" for i in range(400)],
        "city": [f"city {i * 7 % 61 // 3}" for i in range(400)],
        "salary": [i * 131 % 997 for i in range(400)],
    }
)


def searching(begun: str = "") -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a task that finds the constraints of a block; it is pickled by value, since it is a local function.

    Parameters
    ----------
    begun : a file; the first task that does not find it writes its process there, and waits to be killed.
    """

    def search(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import time
        from contextlib import suppress

        import pyarrow as pa

        from holdfast.discovery.discover import discover

        if begun:
            with suppress(FileExistsError), open(begun, "x") as file:  # noqa: PTH123
                file.write(f"{os.getpid()}\n")
                file.flush()
                time.sleep(60)
                raise AssertionError("nobody killed the executor")
        rows = pa.Table.from_batches(list(batches))
        block = rows["block"][0].as_py()
        found = sorted(str(one) for one in discover(rows.drop_columns("block"), threads=1))
        yield pa.RecordBatch.from_pydict({"block": [block] * len(found), "constraint": found})

    return search


def searched(spark: SparkSession, begun: str = "") -> dict[int, list[str]]:
    """Return the constraints of each block, found on executors."""
    frame = spark.createDataFrame(ROWS).repartitionByRange(BLOCKS, "block")
    found: dict[int, list[str]] = {}
    for row in frame.mapInArrow(searching(begun), "block long, constraint string").collect():
        found.setdefault(row["block"], []).append(row["constraint"])
    return found


def expected() -> dict[int, list[str]]:
    """Return the same, found here."""
    blocks = {n: ROWS.filter(pa.compute.equal(ROWS["block"], n)).drop_columns("block") for n in range(BLOCKS)}
    return {n: sorted(str(one) for one in discover(rows)) for n, rows in blocks.items()}


def test_tasks_search_with_holdfast_on_executors(cluster_spark: SparkSession, cluster: Cluster) -> None:
    assert searched(cluster_spark) == expected()
    application = cluster_spark.sparkContext.applicationId
    assert {executor.worker for executor in cluster.executors(application)} == set(cluster.workers)


def test_same_answer_when_an_executor_is_killed_during_its_task(
    cluster_spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    application = cluster_spark.sparkContext.applicationId
    cluster.wait_for_executors(application, 2)
    with searched_beside(cluster_spark, tmp_path / "begun") as (executor_of_task, answer):
        victim = executor_of_task(cluster)
        cluster.kill(victim)
        assert answer() == expected()
    after = cluster.wait_for_executors(application, 2)
    assert victim.pid not in {one.pid for one in after}


def test_same_answer_when_a_worker_is_killed_with_its_executors(
    cluster_spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    application = cluster_spark.sparkContext.applicationId
    cluster.wait_for_executors(application, 2)
    with searched_beside(cluster_spark, tmp_path / "begun") as (executor_of_task, answer):
        cluster.kill_worker(executor_of_task(cluster).worker)
        try:
            assert answer() == expected()
        finally:
            cluster.start_worker()
    cluster.wait_for_executors(application, 2)


@contextmanager
def searched_beside(
    spark: SparkSession, begun: Path
) -> Iterator[tuple[Callable[[Cluster], Executor], Callable[[], dict[int, list[str]]]]]:
    """Search on a thread; give what tells the executor of the task that waits, and what gives the answer."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(searched, spark, str(begun))

        def executor_of_task(cluster: Cluster) -> Executor:
            end = time.monotonic() + PATIENCE_SECONDS
            while not begun.is_file() or not begun.read_text().endswith("\n"):
                assert not answer.done(), answer.exception()
                assert time.monotonic() < end, cluster.logs()
                time.sleep(0.05)
            pid = int(begun.read_text())
            return next(executor for executor in cluster.executors() if pid in tree(executor.pid))

        yield executor_of_task, lambda: answer.result(PATIENCE_SECONDS)


def test_a_session_on_another_cluster_than_the_running_one_is_refused(cluster_spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="leave one of them out"):
        session_for("spark://127.0.0.1:1")


def test_a_cluster_without_room_for_an_executor(cluster: Cluster) -> None:
    settings = {"spark.executor.memory": "100g", "spark.holdfast.executorWaitSeconds": "5"}
    said = refused(cluster, settings)
    assert "gave it no executor within 5 s (asked for: 100g of memory" in said


def test_executors_with_a_python_that_lacks_everything(cluster: Cluster, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare")
    said = refused(cluster, {"spark.pyspark.python": f"{tmp_path}/bare/bin/python"})
    assert "cannot import numpy (ModuleNotFoundError" in said
    assert "holdfast pack" in said


def test_executors_without_the_python_that_is_named(cluster: Cluster) -> None:
    said = refused(cluster, {"spark.pyspark.python": "./env/bin/python"})
    assert "executors have no Python at ./env/bin/python: send them" in said


def refused(cluster: Cluster, settings: dict[str, str]) -> str:
    """Return what a driver in a process of its own says that gets no session."""
    script = (
        "import json, sys\nfrom holdfast.constraints import ExternalError\n"
        "from holdfast.streaming.spark.session import session_for\n"
        "try:\n    session_for(sys.argv[1], json.loads(sys.argv[2]))\n"
        "except ExternalError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", script, cluster.master, json.dumps(cluster.settings | settings)]
    ran = subprocess.run(command, check=False, env=driver_environment(), capture_output=True, text=True, timeout=300)
    assert ran.stdout, f"{ran.stderr}\n{cluster.logs()}"
    return ran.stdout


def test_a_master_that_nobody_listens_for() -> None:
    with pytest.raises(ClusterUnreachable, match=r"no Spark master answers at spark://127.0.0.1:1 \(127.0.0.1:1: Conn"):
        check_reachable("spark://127.0.0.1:1")


@pytest.mark.parametrize("master", ["foo", "spark://", "spark://host", "mesos://one:5050", "k8s://"])
def test_what_is_no_master(master: str) -> None:
    with pytest.raises(UsageError, match="is no Spark master"):
        check_reachable(master)


def test_executors_with_other_code_are_refused() -> None:
    answer = {"host": "one", "program": "env/bin/python", "python": "3.11.2", "code": code_digest()}
    refuse_unfit([answer], code_digest())
    with pytest.raises(ExecutorsUnfit, match=r"the executor on one with env/bin/python .* has other code of Holdfast"):
        refuse_unfit([answer, answer | {"code": "another"}], code_digest())


def test_settings_of_a_cluster_leave_to_spark_what_is_right_for_one_machine_only() -> None:
    settings = session_settings({"spark.master": "spark://one:7077", "spark.jars": ""})
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.sql.shuffle.partitions"} & set(settings)
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert "spark.executorEnv.NUMBA_CACHE_DIR" not in settings
    sent = {"spark.archives": "env.tar.gz#env", "spark.pyspark.python": "./env/bin/python"}
    settings = session_settings({"spark.master": "yarn", "spark.jars": "", **sent})
    assert settings["spark.executorEnv.NUMBA_CACHE_DIR"]
    assert settings["spark.yarn.dist.archives"] == "env.tar.gz#env"
    assert "spark.archives" not in settings
    assert python_environment(settings) == {"PYSPARK_PYTHON": "./env/bin/python"}


def test_the_master_of_spark_submit_wins_over_the_configuration() -> None:
    submitted = {"spark.master": "spark://one:7077", "spark.jars": "a.jar", "spark.ui.enabled": "true", "spark.x": "1"}
    settings = session_settings({"spark.master": "spark://two:7077", "spark.x": "2"}, submitted)
    assert settings["spark.master"] == "spark://one:7077"
    assert settings["spark.jars"] == "a.jar"
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.x"] == "2"
    assert "spark.driver.extraJavaOptions" not in settings


def test_a_command_by_spark_submit(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, script, work = tmp_path / "rows.parquet", tmp_path / "holdfast_main.py", tmp_path / "work"
    pq.write_table(ROWS, table)
    script.write_text("from holdfast.jobs.command_line import main\nmain()\n")
    settings = {name: value for name, value in cluster.settings.items() if name != "spark.master"}
    flags = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    environment = driver_environment(PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    asked = ["discover", str(table), "--family", "dc"]

    def submitted(*options: str, jars: bool = True) -> subprocess.CompletedProcess[str]:
        given = ["--jars", ",".join(map(str, spark_jars()))] if jars else []
        submit = [str(Path(sys.executable).parent / "spark-submit"), "--master", cluster.master, *given, *flags]
        command = [*submit, str(script), *asked, "--spark", "--work", str(work), *options]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)

    found = tmp_path / "found.txt"  # spark-submit shows what Python says on standard error and output as one
    ran = submitted("--output", str(found))
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}\n{cluster.logs()}"
    assert exit_code_of(asked) == 0
    assert found.read_text() == capsys.readouterr().out
    without = submitted(jars=False)
    assert without.returncode == ExternalError.exit_code
    assert (
        'Spark was started without Delta\'s jars: give them to spark-submit: --jars "$(holdfast jars)"'
        in without.stdout
    )
    elsewhere = submitted("--master", "spark://127.0.0.1:1")
    assert elsewhere.returncode == UsageError.exit_code
    assert "leave one of them out" in elsewhere.stdout


def test_executors_end_with_a_driver_that_is_killed(cluster: Cluster) -> None:
    script = (
        "import json, sys, time\nfrom holdfast.streaming.spark.session import session_for\n"
        "spark = session_for(sys.argv[1], json.loads(sys.argv[2]))\n"
        "print(spark.sparkContext.applicationId, flush=True)\ntime.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, cluster.master, json.dumps(cluster.settings)]
    with subprocess.Popen(command, env=driver_environment(), stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        application = driver.stdout.readline().strip()
        assert cluster.executors(application)
        driver.kill()
    end = time.monotonic() + PATIENCE_SECONDS
    while cluster.executors(application):
        assert time.monotonic() < end, cluster.logs()
        time.sleep(0.1)


def test_nothing_of_a_cluster_is_left(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as told, running_cluster(tmp_path, workers=1) as cluster:  # noqa: PT012  # the block is what is tested
        processes = cluster.processes()
        assert len(processes) >= 4
        raise ZeroDivisionError
    assert not [line for pid in processes for line in command_lines(pid) if line]
    assert {"--- master.log", "--- worker-1.log"} <= set(told.value.__notes__[0].splitlines())


def test_a_cluster_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom tests.cluster import driver_environment, running_cluster\n"
        "with running_cluster(Path(sys.argv[1]), workers=1) as cluster:\n"
        "    print(*cluster.processes(), flush=True)\n    time.sleep(600)\n"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        processes = [int(pid) for pid in started.stdout.readline().split()]
        started.kill()
    assert len(processes) >= 4
    end = time.monotonic() + PATIENCE_SECONDS
    while left := [line for pid in processes for line in command_lines(pid) if line]:
        assert time.monotonic() < end, left
        time.sleep(0.1)
