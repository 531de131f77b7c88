"""The Java process of Spark, started so that what it says of its own start does not drown what matters.

Invariant: every line that it writes gets to standard error, but for those of `_SAYS_NOTHING`; standard output is for
results.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_SAYS_NOTHING = re.compile(
    rb"WARNING: |(NOTE: )?Picked up |Setting default log level|To adjust logging level|Using Spark's default log4j"
    rb"|Deleted \d+ files and directories"
)
"""Java's own notes on modules and options that Spark asked for, Spark's on its log level, Delta's on a vacuum."""

_lock = Lock()


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
            gateway = launch_gateway(conf, {"stdout": its, "stderr": its})  # type: ignore[no-untyped-call]
        finally:
            os.close(its)
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _pass_on(descriptor: int) -> None:
    """Copy lines to standard error, past Python's own buffer: this may still run while Python ends."""
    with os.fdopen(descriptor, "rb") as stream:
        for line in stream:
            if not _SAYS_NOTHING.match(line):
                with suppress(OSError):
                    os.write(2, line)
