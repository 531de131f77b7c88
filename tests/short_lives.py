"""Options for Java processes that live for seconds, and an archive of the classes that Spark loads in them.

A process of Spark spends 3 to 4 s of a processor on finding and verifying 15,000 classes. Java maps them into memory in
a tenth of that time from an archive, which `python -m tests.short_lives` makes once (`make test` runs it first). Java
itself compares the archive with its class path, and goes on without it where they differ.

`EAGER` turns off what pays for many rows only: compiling queries, planning them anew while they run, and more than one
part of what is shuffled. On a handful of rows these take more than half of a query.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from holdfast.streaming.spark.java import java_home

# A short life is over before the optimising compiler pays. With that compiler off Java has room for 48 MB of compiled
# code, which Spark fills within a minute: from then on Java drops what it compiled, and compiles it anew.
_BASE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
_ROOM_BYTES = 1 << 30
_PATIENCE_SECONDS = 120

EAGER = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def java_options() -> str:
    """Return the options of a Java process with a short life, with the archive where there is one."""
    archive = _archive()
    if not _is_made(archive):
        return f"{_BASE} -Xshare:auto"
    return f'{_BASE} -Xlog:disable -Xlog:all=error:stderr -Xshare:auto "-XX:SharedArchiveFile={archive}"'


def quick_environment() -> dict[str, str]:
    """Return the environment variables for processes that start such Java processes."""
    return {"JAVA_TOOL_OPTIONS": java_options()}


@lru_cache
def _archive() -> Path:
    """Return where the archive for the Java and the Spark of this machine is, or would be."""
    import pyspark

    java = java_home()
    words = [str(java.path), java.version, str(Path(pyspark.__file__).parent), version("pyspark")]
    name = hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]
    return Path(__file__).parents[1] / "build" / "java-classes" / f"{name}.jsa"


def _is_made(archive: Path) -> bool:
    """Whether there is an archive: an empty file says that this Java could not make one."""
    return archive.is_file() and archive.stat().st_size > 0


def main() -> None:
    """Make the archive where it was not tried before: a session, a stream and an output table, in 20 s."""
    archive = _archive()
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    print("an archive of Spark's classes is made once, for the tests", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=archive.parent) as made:
        fresh = Path(made) / archive.name
        _train(Path(made), fresh)
        if not fresh.is_file():
            print("this Java makes no archive: processes of Spark start slower", file=sys.stderr)
            fresh.touch()
        fresh.rename(archive)


def _train(folder: Path, archive: Path) -> None:
    """Let a Java process do a little of what tests do, and note the classes that it loaded when it ends."""
    from pyspark import SparkContext

    from holdfast.streaming.sinks.shapes import CONSTRAINTS
    from holdfast.streaming.spark.delta_table import SparkTable
    from holdfast.streaming.spark.session import session
    from tests.streams import Application

    dumping = f'-Xss16m {_BASE} -Xlog:disable -Xshare:auto "-XX:ArchiveClassesAtExit={archive}"'
    os.environ.pop("JAVA_TOOL_OPTIONS", None)
    spark = session("classes", {"spark.driver.extraJavaOptions": dumping})
    table = SparkTable(spark, str(folder / "table"), CONSTRAINTS, "app", "s")
    for commit in (1, 2):
        table.publish([{"commit": commit, "application": "app", "state_id": "s", "constraint_id": "a"}], commit)
    columns = {"id": "integer", "a": "string"}
    source = {"format": "files", "path": str(folder / "changes"), "encoding": "json"}
    app = Application(folder, [{"name": "t", "key": ["id"], "columns": columns, "source": source}])
    app.put("1.jsonl", b'{"id": 1, "a": "x"}\n{"id": 2, "a": "x"}\n')
    app.drain()
    spark.sparkContext.parallelize([1, 2], 2).map(str).collect()
    gateway: Any = SparkContext._gateway
    spark.stop()
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()  # which ends it
    process.wait(_PATIENCE_SECONDS)


if __name__ == "__main__":
    main()
