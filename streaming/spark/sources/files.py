"""A folder of files of changes: each is written elsewhere, then renamed in.

Spark lists the folder and remembers which files were read; their bytes are read here, so that a line that is wrong can
be named. No file is ever too old: Spark's own limit of 7 days would drop some silently.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from holdfast.constraints import UsageError
from holdfast.streaming.arrivals import Draft, Target
from holdfast.streaming.decoding.files import ChangedFile, Kind, draft_of
from holdfast.streaming.spark.places import exists
from holdfast.tables import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SHAPE = "path string, modificationTime timestamp, length long, content binary"


class FolderSource:
    """Files in a folder.

    Parameters
    ----------
    path : the folder.
    kind, reading : what the files are, and how to read them.
    known : columns of the table that are not monitored.
    max_bytes : how much a micro-batch takes at most; a larger file makes one of its own.
    options : further options for Spark.
    """

    def __init__(
        self,
        path: str,
        kind: Kind,
        reading: ReadOptions,
        known: Collection[str] = (),
        max_bytes: int = 64_000_000,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self._kind = kind
        self._reading = reading
        self._known = frozenset(known)
        limit = {"maxBytesPerTrigger": str(max_bytes)}
        if any(name.lower() == "maxfilespertrigger" for name in options or {}):
            limit = {}
        self._options = {**limit, **(options or {}), "maxFileAge": "36500d"}

    def check(self, spark: "SparkSession") -> None:
        """Raise `UsageError` where the folder is not there."""
        if not exists(spark, self.path):
            raise UsageError(f"the folder of changes {self.path} does not exist: make it, or correct 'source.path'")

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return the stream of files."""
        return spark.readStream.format("binaryFile").schema(_SHAPE).options(**self._options).load(self.path)

    def draft(self, came: "pa.Table", target: Target) -> Draft:
        """Return the records of a micro-batch."""
        rows = zip(came.column("path"), came.column("content"), came.column("modificationTime"), strict=True)
        files = [ChangedFile(_plain(p.as_py()), c.as_py(), t.as_py().timestamp()) for p, c, t in rows]
        return draft_of(files, target, self._kind, self._reading, self._known)


def _plain(path: str) -> str:
    """Return a path as people write it.

    >>> _plain("file:/data/new%20ones/1.json"), _plain("s3a://lake/1.json")
    ('/data/new ones/1.json', 's3a://lake/1.json')
    """
    parts = urlsplit(path)
    return unquote(parts.path) if parts.scheme == "file" else path
