"""Sources of changes that Spark reads: one module a kind.

A source makes a streaming frame, and selects the rows of a micro-batch that are collected; `draft` then reads them
without Spark. Problems of a source are found before its first batch (`check`), and named.
"""

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.streaming.commits.output_rows import Position
    from holdfast.streaming.incoming.arrivals import Draft, Target


Kind = Literal["files", "delta", "kafka"]


class StreamSource(Protocol):
    """The changes of one table.

    Attributes
    ----------
    kind : the kind of source.
    place : the folder, the Delta table, or the topic and its servers, as messages name it.
    """

    kind: Kind
    place: str

    def check(self, spark: "SparkSession") -> None:
        """Raise an error that names the problem if the source cannot be read."""

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return the stream from its start; with a checkpoint Spark continues from there."""

    def sifted(
        self,
        spark: "SparkSession",  # noqa: ARG002
        arrived: "pa.Table",
        checkpoint: str,  # noqa: ARG002
        position: "Position",  # noqa: ARG002
    ) -> "tuple[pa.Table, Sequence[str]]":
        """Return the rows that belong to a micro-batch, and the names of files that are missing.

        By default all rows that Spark read, and no names: Spark fails if records are missing.
        """
        return arrived, []

    def names(self, arrived: "pa.Table") -> list[str]:  # noqa: ARG002
        """Return the name of the file of each row of a micro-batch: a named file is read only once.

        By default there are no names: the offsets of the source say what was read.
        """
        return []

    def draft(self, arrived: "pa.Table", target: "Target") -> "Draft":
        """Return the records of a micro-batch."""
