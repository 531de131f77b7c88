"""Spark sessions as Holdfast needs them: Delta and Kafka work, and a small machine is enough.

Invariant: nothing here is fetched, changed or imported before it is asked for; what a caller sets
wins over what is set here. Spark takes its Java and its Python from the environment of the process,
so `session` sets JAVA_HOME and PYSPARK_PYTHON there before it starts the JVM.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.streaming.spark.errors import SparkMismatch
from holdfast.streaming.spark.jars import spark_jars
from holdfast.streaming.spark.java import java_home
from holdfast.streaming.spark.starting import start_java

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession


def session(name: str, settings: Mapping[str, str] | None = None, shown: Callable[[str], str] = str) -> SparkSession:
    """Start a Spark session, or return the one that runs in this process.

    Costs 5 to 7 s, and the jars where they are not in the cache.

    Parameters
    ----------
    name
        The application's name.
    settings
        Settings of Spark that win over those of `session_settings`.
    shown
        Takes secrets from what Java says on standard error.

    Raises
    ------
    JavaMissing, JarUnavailable, JarMismatch, SparkMismatch
        Where the parts of a session are not to be had.
    """
    check_spark_home()
    chosen = session_settings(settings)
    os.environ.update(launch_environment(chosen["spark.master"]))
    from pyspark.sql import SparkSession

    start_java(chosen, shown)
    # `builder` is one object for the whole process: a new one keeps earlier settings out.
    return SparkSession.Builder().appName(name).config(map=dict(chosen)).getOrCreate()


def session_settings(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings a session starts with; those in `settings` win.

    The driver is bound to the loopback address only where everything runs in this process.
    """
    given = dict(settings or {})
    master = given.get("spark.master", f"local[{cores()}]")
    chosen = {"spark.master": master, **_SETTINGS, "spark.sql.shuffle.partitions": str(cores())}
    if master.startswith("local"):
        chosen |= _LOCAL_SETTINGS
        chosen["spark.driver.extraJavaOptions"] = f"-Xss16m {_quiet_logging()}"
    if "spark.jars" not in given:
        chosen["spark.jars"] = ",".join(map(str, spark_jars()))
    ours, its = chosen[_JAVA_OPTIONS], given.get(_JAVA_OPTIONS)
    return chosen | given | ({} if its is None else {_JAVA_OPTIONS: f"{ours} {its}"})  # of two the last one counts


def _quiet_logging() -> str:
    """Return the option that makes Spark write errors only: what matters is raised, and told once."""
    file = Path(str(files("holdfast.conf"))) / "log4j2.xml"
    return f'"-Dlog4j2.configurationFile={file.as_uri()}"'


_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def launch_environment(master: str) -> dict[str, str]:
    """Return the environment variables that Spark's launcher and its Python workers read.

    On a cluster PYSPARK_PYTHON stays what it is, since the workers' Python stands elsewhere there.
    """
    java = {"JAVA_HOME": str(java_home().path)}
    if not master.startswith("local"):
        return java | {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    return java | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_spark_home() -> None:
    """Refuse a SPARK_HOME that PySpark would start in place of its own Spark, and that differs.

    Raises
    ------
    SparkMismatch
        Where SPARK_HOME is set and has no Spark of the installed version.
    """
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
    # The default of 50 makes a table's first use take 15 s on two processors.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # What plans, event logs and pages do not show: by default not the keys of accounts.
    "spark.redaction.regex": (
        "(?i)secret|passw|token|credential|signature|sas|jaas|(access|account|private|api|shared|encryption)[._-]?key"
    ),
    # A smaller stack, and stopping a query while Python handles its batch overflows the stack.
    "spark.driver.extraJavaOptions": "-Xss16m",
    # A local disk needs no checksum file beside each checkpoint file.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
_LOCAL_SETTINGS = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
