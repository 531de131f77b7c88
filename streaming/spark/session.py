"""Spark sessions for Holdfast, with Delta and Kafka, in this process or on a cluster.

Invariant: nothing is fetched, changed or imported before a session is started. Settings of the caller override those of
this module, and the master of `spark-submit` overrides both. When a session on a cluster is returned, executors have
run a task, and they fit. Spark takes its Java and its Python from the environment of the process, so `session` sets
JAVA_HOME and PYSPARK_PYTHON there before it starts the JVM.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.constraints import UsageError
from holdfast.streaming.spark.cluster import check_executors, check_jars, check_reachable, check_version, connected
from holdfast.streaming.spark.errors import SparkMismatch
from holdfast.streaming.spark.jars import spark_jars
from holdfast.streaming.spark.java import java_home
from holdfast.streaming.spark.starting import start_java

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


def session_for(
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    *,
    name: str = "holdfast",
) -> SparkSession:
    """Start a Spark session on the cluster of `master`, or return the session that runs already.

    Raises `UsageError` if `spark-submit`, or the running session of this process, has another master.

    Parameters
    ----------
    master : the option `--master`; None for the master of `settings` or `spark-submit`, or else this machine.
    settings, name : as for `session`.
    """
    given = dict(settings or {})
    if master is None:
        return session(name, given)
    elsewhere = submitted_settings().get("spark.master") or running_master()
    if elsewhere not in {None, master}:
        raise UsageError(
            f"the master {master} was asked for, while Spark was started on {elsewhere}: leave one of them out"
        )
    return session(name, {**given, "spark.master": master})


def session(name: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start a Spark session, or return the session that runs in this process.

    Costs 5 to 7 s, and fetching jars that are not in the cache; on a cluster also the time to get executors, to send
    them their Python, and to run one task there. Raises a `SetUpError` if a part is not available.

    Parameters
    ----------
    name : the name of the application.
    settings : settings of Spark that override those of `session_settings`.
    """
    submitted = submitted_settings()
    if not submitted:
        check_spark_home()
    chosen = session_settings(settings, submitted)
    master = chosen["spark.master"]
    os.environ.update(python_environment(chosen) if submitted else launch_environment(chosen))
    from pyspark.sql import SparkSession

    # `SparkSession.builder` is one object for the whole process: a new builder has no earlier settings.
    builder = SparkSession.Builder().appName(name).config(map=dict(chosen))
    if is_local(master):
        start_java(chosen)
        if submitted:
            check_jars()
        return builder.getOrCreate()
    running = running_master() is not None
    check_reachable(master)
    start_java(chosen)
    check_jars()
    started = connected(builder, master)
    if not running:
        check_version(started)
        check_executors(started)
    return started


def submitted_settings() -> dict[str, str]:
    """Return the settings with which `spark-submit` started this process; empty if it did not."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def session_settings(
    settings: Mapping[str, str] | None = None, submitted: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the settings with which a session starts.

    `settings` override the settings of `spark-submit`, as usual in Spark for settings of a program, and both override
    those of this module. The master is always that of `spark-submit`, which runs the driver there. Settings that are
    right only for one machine are left out on a cluster.
    """
    given, outer = dict(settings or {}), dict(submitted or {})
    master = outer.get("spark.master") or given.get("spark.master") or f"local[{cores()}]"
    if is_local(master):
        chosen = _SETTINGS | _LOCAL_SETTINGS | {"spark.sql.shuffle.partitions": str(cores())}
    else:
        chosen = _SETTINGS | (_YARN_SETTINGS if master.startswith("yarn") else {})
    if master.startswith("yarn") and (archives := given.pop("spark.archives", "")):
        chosen["spark.yarn.dist.archives"] = archives  # YARN unpacks archives itself
    if outer:  # Java runs already, with its options and its class path
        return chosen | outer | given | {"spark.master": master}
    if "spark.jars" not in given:
        chosen["spark.jars"] = ",".join(map(str, spark_jars()))
    ours, its = f"-Xss16m {_quiet_logging()}", given.get(_JAVA_OPTIONS)
    options = ours if its is None else f"{ours} {its}"  # of two the last one counts
    return chosen | given | {"spark.master": master, _JAVA_OPTIONS: options}


def is_local(master: str) -> bool:
    """Whether a master means that everything runs in one process on this machine.

    >>> [is_local(master) for master in ("local[2]", "local", "local-cluster[2,1,1024]", "spark://one:7077")]
    [True, True, False, False]
    """
    return master == "local" or master.startswith("local[")


def running_master() -> str | None:
    """Return the master of the session that runs in this process; None without a session."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    running = SparkContext._active_spark_context
    return None if running is None else str(running.master)


def _quiet_logging() -> str:
    """Return the option that lets Spark log only errors, as errors are raised and reported once."""
    file = Path(str(files("holdfast.conf"))) / "log4j2.xml"
    return f'"-Dlog4j2.configurationFile={file.as_uri()}"'


_JAVA_OPTIONS = "spark.driver.extraJavaOptions"  # a smaller stack overflows while a query in Python is stopped


def launch_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for Spark's launcher and its Python workers."""
    local = {"SPARK_LOCAL_IP": "127.0.0.1"} if is_local(settings["spark.master"]) else {}
    return {"JAVA_HOME": str(java_home().path), **python_environment(settings), **local}


def python_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variable with the Python of tasks.

    On a cluster it is the setting `spark.pyspark.python`, or PYSPARK_PYTHON.
    """
    if is_local(settings["spark.master"]):
        return {"PYSPARK_PYTHON": sys.executable}
    named = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    return {"PYSPARK_PYTHON": named or sys.executable}


def cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_spark_home() -> None:
    """Raise `SparkMismatch` if SPARK_HOME has another version of Spark, which PySpark would start instead."""
    named = os.environ.get("SPARK_HOME")
    installed = version("pyspark")
    if named and not Path(named, "jars", f"spark-core_2.13-{installed}.jar").is_file():
        raise SparkMismatch(
            f"SPARK_HOME={named} has no Spark {installed}, the version of the installed pyspark",
            "unset SPARK_HOME, or name a Spark of that version",
        )


_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Values that plans, event logs and pages do not show; the default of Spark shows the keys of accounts.
    "spark.redaction.regex": (
        "(?i)secret|passw|token|credential|signature|sas|jaas|(access|account|private|api|shared|encryption)[._-]?key"
    ),
}
_LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # With the default of 50 the first use of a table takes 15 s on two processors.
    "spark.databricks.delta.snapshotPartitions": "2",
    # A local disk needs no checksum file beside each checkpoint file.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
# YARN unpacks archives into folders that cannot be written, and its containers have no HOME.
_YARN_SETTINGS = {"spark.executorEnv.NUMBA_CACHE_DIR": "./numba-cache"}
