"""Files wherever Spark reaches them: local disks, object stores, HDFS."""

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
    """Whether a file or a folder is there."""
    system, path = _resolved(spark, place)
    return bool(system.exists(path))


def read_text(spark: "SparkSession", place: str) -> str | None:
    """Return a small file's text, None where it is not there."""
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
    """Return a file's bytes and when it was written, None where it is not there."""
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
    """Copy a file or a folder here for a while, for its owner alone."""
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
