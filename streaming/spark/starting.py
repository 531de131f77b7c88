"""The Java process of Spark, started so that what it says of its own start does not drown what matters.

Invariant: every line that it writes gets to standard error, but for those of `_SAYS_NOTHING`; standard output is for
results. Of the settings only those that Java needs to start are on its command line, which everybody on the machine may
read; a session sets all of them later.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING

from holdfast.display.secrets import masked

if TYPE_CHECKING:
    from collections.abc import Mapping

_SAYS_NOTHING = re.compile(
    rb"WARNING: |(NOTE: )?Picked up |Setting default log level|To adjust logging level|Using Spark's default log4j"
    rb"|Deleted \d+ files and directories"
)
"""Java's own notes on modules and options that Spark asked for, Spark's on its log level, Delta's on a vacuum."""

_lock = Lock()


_FOR_THE_LAUNCHER = re.compile(
    r"spark\.(master|app\.name|jars.*|files|archives|driver\..*|submit\..*|pyspark\..*|kubernetes\..*|yarn\..*)"
)
_SECRET = re.compile(r"(?i)secret|passw|token|credential|jaas|(access|account|private|api)[._-]?key")


def launch_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that are given to the launcher, whose arguments are no secret.

    >>> launch_settings({"spark.driver.memory": "1g", "spark.hadoop.fs.s3a.secret.key": "x", "spark.sql.x": "y"})
    {'spark.driver.memory': '1g'}
    """
    return {n: v for n, v in settings.items() if _FOR_THE_LAUNCHER.fullmatch(n) and not _SECRET.search(n)}


def start_java(settings: Mapping[str, str]) -> None:
    """Start the Java process that a session of this process will use; nothing where there is one."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    with _lock:
        if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
            return
        conf = SparkConf().setAll(list(settings.items()))
        ours, its = os.pipe()
        Thread(target=_pass_on, args=(ours,), name="java's errors", daemon=True).start()
        try:
            launched = SparkConf().setAll(list(launch_settings(settings).items()))
            gateway = launch_gateway(launched, {"stdout": its, "stderr": its})  # type: ignore[no-untyped-call]
        finally:
            os.close(its)
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _pass_on(descriptor: int) -> None:
    """Copy lines to standard error, past Python's own buffer: this may still run while Python ends."""
    with os.fdopen(descriptor, "rb") as stream:
        for line in stream:
            if not _SAYS_NOTHING.match(line):
                with suppress(OSError):
                    os.write(2, masked(line.decode(errors="replace")).encode())
