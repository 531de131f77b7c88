"""A folder with files of changes; a file is written elsewhere, then moved into the folder.

Spark lists the folder and remembers which files were read; the bytes of files are decoded here, so that a wrong line
can be named.

No file is too old. Spark computes the age of a file from the newest time that it has seen: with a real limit, one file
with a time in the future would hide all others. In exchange, a query remembers each file that it has read, in Java's
memory and in its checkpoint.
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from holdfast.constraints import UsageError
from holdfast.streaming.commits.output_rows import Position
from holdfast.streaming.decoding.files import ChangedFile, draft_of
from holdfast.streaming.decoding.files import Kind as FileKind
from holdfast.streaming.incoming.arrivals import Draft, Target
from holdfast.streaming.spark.places import exists, read_file, read_text
from holdfast.streaming.spark.sources import Kind, StreamSource
from holdfast.tables import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_FOREVER = f"{2**63 - 1}ms"
"""The greatest age that Spark accepts, greater than any difference of two times."""
_FILE_SCHEMA = "path string, modificationTime timestamp, length long, content binary"


class FolderSource(StreamSource):
    """A folder with files of changes.

    Parameters
    ----------
    path : the folder.
    kind, reading : the format of the files, and how to read it.
    known : columns of the table that are not monitored.
    max_bytes : the most bytes of a micro-batch; a larger file is a micro-batch of its own.
    options : further options for Spark.
    """

    kind: Kind = "files"

    def __init__(
        self,
        path: str,
        kind: FileKind,
        reading: ReadOptions,
        known: Collection[str] = (),
        max_bytes: int = 64_000_000,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.place = path
        self._kind = kind
        self._reading = reading
        self._known = frozenset(known)
        limit = {"maxBytesPerTrigger": str(max_bytes)}
        if any(name.lower() == "maxfilespertrigger" for name in options or {}):
            limit = {}
        self._options = {**limit, **(options or {}), "maxFileAge": _FOREVER}

    def check(self, spark: "SparkSession") -> None:
        """Raise `UsageError` if the folder does not exist."""
        if not exists(spark, self.place):
            raise UsageError(f"the folder of changes {self.place} does not exist: make it, or correct 'source.path'")

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return the stream of files."""
        return (
            spark.readStream.format("binaryFile")
            .schema(_FILE_SCHEMA)
            .options(**self._options)
            .load(_no_pattern(self.place))
        )

    def sifted(
        self, spark: "SparkSession", arrived: "pa.Table", checkpoint: str, position: Position
    ) -> "tuple[pa.Table, list[str]]":
        """Return the files that Spark listed, each once, and the names of files that are missing.

        Spark reads a name such as `?.json` as a pattern: it returns all files that match, and perhaps not the file
        itself. Missing files are left out without an error.
        """
        import pyarrow as pa

        first = json.loads(position.start)["logOffset"] + 1 if position.start else 0
        last = json.loads(position.end)["logOffset"]
        lacking = dict.fromkeys(p for number in range(first, last + 1) for p in _listed(spark, checkpoint, number))
        wanted = []
        for path in map(_plain, arrived.column("path").to_pylist()):
            wanted.append(path in lacking)
            lacking.pop(path, None)
        parts = [arrived if all(wanted) else arrived.filter(wanted)]
        lost = []
        for path in lacking:
            found = read_file(spark, path)
            if found is None:
                lost.append(path)
            else:
                content, modified = found
                row = {"path": path, "modificationTime": modified, "length": len(content), "content": content}
                parts.append(pa.Table.from_pylist([row], arrived.schema))
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts), lost

    def names(self, arrived: "pa.Table") -> list[str]:
        """Return the paths of files: with a new checkpoint Spark reads all files of the folder again."""
        return [_plain(path) for path in arrived.column("path").to_pylist()]

    def draft(self, arrived: "pa.Table", target: Target) -> Draft:
        """Return the records of a micro-batch."""
        rows = zip(arrived.column("path"), arrived.column("content"), arrived.column("modificationTime"), strict=True)
        files = [ChangedFile(_plain(p.as_py()), c.as_py(), t.as_py().timestamp()) for p, c, t in rows]
        return draft_of(files, target, self._kind, self._reading, self._known)


def _listed(spark: "SparkSession", checkpoint: str, number: int) -> list[str]:
    """Return the files of one entry of Spark's list; every tenth entry also has the files of those before it."""
    place = f"{checkpoint}/sources/0/{number}"
    text = read_text(spark, place) or read_text(spark, f"{place}.compact") or ""
    entries = [json.loads(line) for line in text.split("\n")[1:] if line]
    return [_plain(unquote(entry["path"])) for entry in entries if entry["batchId"] == number]


def _no_pattern(path: str) -> str:
    r"""Return a path with all characters of patterns escaped.

    >>> print(_no_pattern("/data/changes"), _no_pattern("/data/[new] {a,b}"))
    /data/changes /data/\[new\] \{a,b\}
    """
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def _plain(path: str) -> str:
    """Return a path without Spark's prefix `file:`.

    >>> _plain("file:/data/100%20.json"), _plain("file:///data/#1.json"), _plain("s3a://lake/1.json")
    ('/data/100%20.json', '/data/#1.json', 's3a://lake/1.json')
    """
    return "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path
