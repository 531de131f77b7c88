"""Sources as Spark reads them: one module a format.

A source makes a streaming frame and says what of a micro-batch is collected; `draft` then reads it, without Spark. What
is wrong with a source is found before its first batch (`check`), and named.
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
        """Raise a named error where the source cannot be read."""

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return the stream, from its start; a checkpoint goes on where it was."""

    def sifted(
        self,
        spark: "SparkSession",  # noqa: ARG002
        came: "pa.Table",
        checkpoint: str,  # noqa: ARG002
        position: "Position",  # noqa: ARG002
    ) -> "tuple[pa.Table, Sequence[str]]":
        """Return what belongs to a micro-batch of what Spark read, and the names of what it lacks.

        Everything and nothing, unless a source says otherwise: Spark fails where records are gone.
        """
        return came, []

    def names(self, came: "pa.Table") -> list[str]:  # noqa: ARG002
        """Return the name of what each row of a micro-batch is: what has one is read only once, whatever Spark knows.

        Nothing has one, unless a source says otherwise: its offsets tell what was read.
        """
        return []

    def draft(self, came: "pa.Table", target: "Target") -> "Draft":
        """Return the records of a micro-batch."""
