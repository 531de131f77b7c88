"""The change feed of a Delta table, from the version that its state was seeded with.

The stream begins with that version, since the next one may not exist yet; the records of that version are left out. If
the feed cannot be followed from there, the error says why.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.constraints import InputError, UsageError
from holdfast.streaming.decoding.feed import KIND, TIME, VERSION, draft_of
from holdfast.streaming.incoming.arrivals import Draft, Target
from holdfast.streaming.spark.sources import Kind, StreamSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_FEED = "delta.enableChangeDataFeed"


class FeedSource(StreamSource):
    """The change feed of one Delta table.

    Parameters
    ----------
    path, table : the address of the Delta table, and the name of the monitored table.
    seeded : the version that was seeded.
    table_id : the id of the Delta table that was seeded; None if unknown.
    columns : the names of the columns that are read.
    max_bytes : the most bytes of a micro-batch.
    options : further options for Spark.
    """

    kind: Kind = "delta"

    def __init__(
        self,
        path: str,
        table: str,
        seeded: int,
        columns: tuple[str, ...],
        table_id: str | None = None,
        max_bytes: int = 64_000_000,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.place = path
        self._table = table
        self._seeded = seeded
        self._table_id = table_id
        self._columns = columns
        self._options = {"maxBytesPerTrigger": str(max_bytes), **(options or {})}

    def check(self, spark: "SparkSession") -> None:
        """Raise if the table does not exist, was replaced, has no change feed, or lacks a followed column."""
        from delta.tables import DeltaTable

        if not DeltaTable.isDeltaTable(spark, self.place):
            raise UsageError(f"{self.place} is no Delta table: correct 'source.path'")
        detail = DeltaTable.forPath(spark, self.place).detail().select("id", "properties").collect()[0]
        if self._table_id is not None and detail["id"] != self._table_id:
            raise InputError(
                f"{self.place} is another Delta table than the one that was seeded (it was dropped and made anew, or "
                "replaced): seed anew with holdfast seed --replace"
            )
        if str(detail["properties"].get(_FEED, "false")).lower() != "true":
            raise UsageError(
                f"{self.place} has no change feed: switch it on with ALTER TABLE ... SET TBLPROPERTIES ({_FEED} = true)"
                " and seed anew with holdfast seed --replace, since earlier changes are not in it"
            )
        names = spark.read.format("delta").load(self.place).columns
        missing = [name for name in self._columns if name not in names]
        if missing:
            raise InputError(
                f"{self.place} has no column '{missing[0]}' any more: it was dropped or renamed. Leave it out with "
                "'exclude' and start again; where the feed does not go on so, seed anew with holdfast seed --replace"
            )

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return the stream of changes."""
        stream = spark.readStream.format("delta").options(**self._options).option("readChangeFeed", "true")
        frame = stream.option("startingVersion", self._seeded).load(self.place)
        return frame.select(*(f"`{name.replace('`', '``')}`" for name in (*self._columns, KIND, VERSION, TIME)))

    def draft(self, arrived: "pa.Table", target: Target) -> Draft:
        """Return the records of a micro-batch."""
        return draft_of(arrived, [column.name for column in target.wanted], self._table, after=self._seeded)
