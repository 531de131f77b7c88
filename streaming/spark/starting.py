"""Starts the Java process of Spark, without the lines that it prints about its own start.

Invariant: every line that it writes is copied to standard error, except those of `_NOISE`; standard output is
for results. Only the settings that Java needs to start are on its command line, which every user of the machine can
read; a session sets all settings later.
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

_NOISE = re.compile(
    rb"WARNING: |(NOTE: )?Picked up |Setting default log level|To adjust logging level|Using Spark's default log4j"
    rb"|Deleted \d+ files and directories"
)
"""Lines of Java about modules and options of Spark, of Spark about its log level, and of Delta about a vacuum."""

_lock = Lock()


_LAUNCHER_SETTINGS = re.compile(
    r"spark\.(master|app\.name|jars.*|files|archives|driver\..*|submit\..*|pyspark\..*|kubernetes\..*|yarn\..*)"
)
_SECRET = re.compile(r"(?i)secret|passw|token|credential|jaas|(access|account|private|api)[._-]?key")


def launch_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for the launcher, whose arguments are not secret.

    >>> launch_settings({"spark.driver.memory": "1g", "spark.hadoop.fs.s3a.secret.key": "x", "spark.sql.x": "y"})
    {'spark.driver.memory': '1g'}
    """
    return {n: v for n, v in settings.items() if _LAUNCHER_SETTINGS.fullmatch(n) and not _SECRET.search(n)}


def start_java(settings: Mapping[str, str]) -> None:
    """Start the Java process for the sessions of this process, unless it runs already."""
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
    """Copy lines to standard error, bypassing Python's buffer: this may still run while Python ends."""
    with os.fdopen(descriptor, "rb") as stream:
        for line in stream:
            if not _NOISE.match(line):
                with suppress(OSError):
                    os.write(2, masked(line.decode(errors="replace")).encode())
