"""Checks of a cluster before work is sent to it: it answers, it gives executors, and the executors fit.

Invariant: each wait is bounded, and its error says what was found and what to do. An executor fits if its Python has
the driver's version, imports the modules of tasks, and has the driver's code of Holdfast, byte for byte: otherwise the
two could compute different answers.
"""

from __future__ import annotations

import hashlib
import re
import socket
import threading
from contextlib import suppress
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from holdfast.constraints import UsageError
from holdfast.streaming.spark.errors import (
    ClusterUnreachable,
    ExecutorsUnfit,
    JarUnavailable,
    SparkMismatch,
    first_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

WAIT = "spark.holdfast.executorWaitSeconds"
_WAIT_SECONDS = 120
_CONNECT_SECONDS = 5
_IMPORTED = ("numpy", "pyarrow", "pandas", "numba", "pyroaring", "holdfast.indexes.kernels.probe")
_PACK = (
    "send them this program's environment: holdfast pack -o env.tar.gz, then spark.archives=env.tar.gz#env and "
    "spark.pyspark.python=./env/bin/python"
)


def check_reachable(master: str) -> None:
    """Raise `ClusterUnreachable` if no master listens at an address, instead of trying for a minute as Spark does.

    Raises `UsageError` if it is not the address of a cluster.
    """
    failures = []
    for host, port in addresses(master):
        try:
            socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    if failures:
        raise ClusterUnreachable(
            f"no Spark master answers at {master} ({'; '.join(failures)})",
            "start the cluster, or correct the address: spark://HOST:PORT is what the master's page shows",
        )


def addresses(master: str) -> list[tuple[str, int]]:
    """Return the addresses of a master; none for YARN, whose configuration has them.

    >>> addresses("spark://one:7077,two:7078"), addresses("k8s://https://api:6443"), addresses("yarn")
    ([('one', 7077), ('two', 7078)], [('api', 6443)], [])
    """
    kind, _, rest = master.partition("://")
    if kind == "spark":
        pairs = [one.rpartition(":") for one in rest.split(",")]
        if all(host and port.isdecimal() for host, _, port in pairs):
            return [(host.strip("[]"), int(port)) for host, _, port in pairs]
    elif kind == "k8s":
        parts = urlsplit(rest if "://" in rest else f"https://{rest}")
        with suppress(ValueError):
            if parts.hostname:
                return [(parts.hostname, parts.port or 443)]
    elif master == "yarn" or master.startswith("local-cluster["):
        return []
    raise UsageError(
        f"'{master}' is no Spark master; expected spark://HOST:PORT, k8s://https://HOST:PORT, yarn or local[N]"
    )


def check_jars() -> None:
    """Raise `JarUnavailable` if Java lacks Delta's classes, which `spark-submit` has to get from the start."""
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

    java: Any = SparkContext._jvm
    try:
        java.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_DELTA)
    except Py4JJavaError as error:
        raise JarUnavailable(
            "Spark was started without Delta's jars", 'give them to spark-submit: --jars "$(holdfast jars)"'
        ) from error


_DELTA = "io.delta.sql.DeltaSparkSessionExtension"


def connected(builder: SparkSession.Builder, master: str) -> SparkSession:
    """Return the session once the cluster accepted the application; raise `ClusterUnreachable` if it does not."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return builder.getOrCreate()
    except (Py4JError, PySparkException) as error:
        why = "it did not take the application" if "stopped SparkContext" in str(error) else first_line(str(error))
        raise ClusterUnreachable(
            f"Spark could not start on {master} ({why})",
            f"see whether the cluster runs Spark {version('pyspark')}, as this process does, and look into its logs",
        ) from error


def check_version(spark: SparkSession) -> None:
    """Stop a session and raise `SparkMismatch` if its Spark, as of `spark-submit`, has not PySpark's version."""
    if spark.version != version("pyspark"):
        found = spark.version
        spark.stop()
        raise SparkMismatch(
            f"this is Spark {found}, while Holdfast needs {version('pyspark')}", "use the spark-submit of that version"
        )


def check_executors(spark: SparkSession) -> None:
    """Run a small task on every core, and check that executors fit; stop the session if not.

    Raises `ClusterUnreachable` if no executor answers within `spark.holdfast.executorWaitSeconds` (120), and
    `ExecutorsUnfit` if an executor does not fit.
    """
    try:
        seconds = int(spark.conf.get(WAIT, str(_WAIT_SECONDS)) or 0)
    except ValueError as error:
        raise UsageError(f"{WAIT} is {spark.conf.get(WAIT)!r}; expected a number of seconds") from error
    try:
        refuse_unfit(_answers(spark, seconds), code_digest())
    except Exception:
        spark.stop()
        raise


def refuse_unfit(answers: Iterable[dict[str, str]], code: str) -> None:
    """Raise `ExecutorsUnfit` if an executor lacks a module, or has other code than `code`."""
    for answer in answers:
        where = f"the executor on {answer['host']} with {answer['program']} (Python {answer['python']})"
        if lacking := answer.get("lacking"):
            raise ExecutorsUnfit(f"{where} cannot import {lacking}", _PACK)
        if answer["code"] != code:
            raise ExecutorsUnfit(f"{where} has other code of Holdfast than this process", _PACK)


def code_digest() -> str:
    """Return a digest of this installation's code of Holdfast; costs reading the code (10 ms)."""
    root = Path(str(files("holdfast")))
    digest = hashlib.sha256()
    for file in sorted(_sources(root)):
        digest.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _answers(spark: SparkSession, seconds: int) -> list[dict[str, str]]:
    """Return the answers of executors about themselves, within a time."""
    context = spark.sparkContext
    parts = max(2, context.defaultParallelism)
    found: list[dict[str, str]] = []
    failed: list[Exception] = []
    task = _task(_IMPORTED)

    def ask() -> None:
        try:
            context.setJobGroup(_GROUP, "Holdfast looks whether executors fit", interruptOnCancel=True)
            found.extend(context.parallelize(range(parts), parts).mapPartitions(task).collect())
        except Exception as error:  # noqa: BLE001  # raised by the waiting thread
            failed.append(error)

    thread = threading.Thread(target=ask, name="executors", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        number = context._jsc.sc().getExecutorMemoryStatus().size() - 1  # the driver is one of them
        context.cancelJobGroup(_GROUP)
        raise _late(context.getConf(), number, seconds)
    if failed:
        raise _unfit(failed[0], str(context.pythonExec), str(context.master)) from failed[0]
    return found


_GROUP = "holdfast-executors"


def _task(imported: tuple[str, ...]) -> Any:
    """Return a function that runs without Holdfast: as a local function it is pickled by value."""

    def look(_: Iterable[int]) -> Iterator[dict[str, str]]:
        import importlib
        import platform
        import socket
        import sys

        answer = {"host": socket.gethostname(), "program": sys.executable, "python": platform.python_version()}
        try:
            for name in imported:
                importlib.import_module(name)
            answer["code"] = importlib.import_module("holdfast.streaming.spark.cluster").code_digest()
        except Exception as error:  # noqa: BLE001  # any error is the answer
            answer["lacking"] = f"{name} ({type(error).__name__}: {error})"
        yield answer

    return look


def _late(conf: Any, number: int, seconds: int) -> ClusterUnreachable:
    if number > 0:
        return ClusterUnreachable(
            f"{number} executors run, but none has finished a small task within {seconds} s",
            f"where archives are large or the network is slow, raise {WAIT}; see the executors' logs",
        )
    memory, cores = conf.get("spark.executor.memory", "1g"), conf.get("spark.executor.cores", "all")
    return ClusterUnreachable(
        f"{conf.get('spark.master')} took the application, but gave it no executor within {seconds} s "
        f"(asked for: {memory} of memory and {cores} cores each)",
        "see on the cluster's page whether workers are there and have that much free, and in the executors' logs "
        f"whether they reach this machine (spark.driver.host); ask for less, wait for others to end, or raise {WAIT}",
    )


def _unfit(error: Exception, python: str, master: str) -> ExecutorsUnfit | ClusterUnreachable:
    text = str(error)
    if found := re.search(r"worker has different version[^\n]*?(\d+\.\d+)[^\n]*?(\d+\.\d+)", text):
        return ExecutorsUnfit(f"executors have Python {found[1]}, this process has Python {found[2]}", _PACK)
    if found := re.search(r"Cannot run program \"([^\"]*)\"[^\n]*", text):
        return ExecutorsUnfit(f"executors have no Python at {found[1]}", _PACK)
    if found := re.search(r"No module named '([^']*)'", text):
        return ExecutorsUnfit(f"executors' Python ({python}) has no module {found[1]}", _PACK)
    if "Python worker" in text or "pyspark.daemon" in text:
        return ExecutorsUnfit(f"executors' Python ({python}) does not run ({first_line(text)})", _PACK)
    return ClusterUnreachable(
        f"a small task did not run on {master} ({first_line(text)})", "see the logs of the executors"
    )


def _sources(root: Path) -> Iterator[Path]:
    """Return the sources below `root`, also those behind links, which `rglob` leaves out."""
    for path in root.iterdir():
        if path.is_dir():
            yield from _sources(path)
        elif path.suffix == ".py":
            yield path
