"""Files in any file system that Spark reaches: local disks, object stores, HDFS."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.constraints import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def exists(spark: "SparkSession", place: str) -> bool:
    """Whether a file or a folder exists."""
    system, path = _resolved(spark, place)
    return bool(system.exists(path))


def read_text(spark: "SparkSession", place: str) -> str | None:
    """Return the text of a small file; None if it does not exist."""
    if "://" not in place:
        try:
            return Path(place).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
    system, path = _resolved(spark, place)
    if not system.exists(path):
        return None
    stream = system.open(path)
    try:
        return str(_jvm(spark).org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def read_file(spark: "SparkSession", place: str) -> tuple[bytes, datetime] | None:
    """Return the bytes of a file and the time when it was written; None if it does not exist."""
    if "://" not in place:
        try:
            written = datetime.fromtimestamp(Path(place).stat().st_mtime, UTC)
            return Path(place).read_bytes(), written
        except FileNotFoundError:
            return None
    system, path = _resolved(spark, place)
    if not system.exists(path):
        return None
    written = datetime.fromtimestamp(system.getFileStatus(path).getModificationTime() / 1_000, UTC)
    with fetched(spark, place) as here:
        return here.read_bytes(), written


@contextmanager
def fetched(spark: "SparkSession", place: str) -> Iterator[Path]:
    """Copy a file or a folder to this machine for a while, readable by its owner only."""
    system, path = _resolved(spark, place)
    if not system.exists(path):
        raise UsageError(f"{place} does not exist")
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        here = Path(folder, place.rstrip("/").rsplit("/", 1)[-1])
        system.copyToLocalFile(False, path, _jvm(spark).org.apache.hadoop.fs.Path(here.as_uri()), True)
        yield here


def _resolved(spark: "SparkSession", place: str) -> tuple[Any, Any]:
    path = _jvm(spark).org.apache.hadoop.fs.Path(place)
    return path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()), path


def _jvm(spark: "SparkSession") -> Any:
    return spark.sparkContext._jvm
