"""The change feed of a Delta table, from the version that its state was seeded with.

The stream begins with that version, since the next may not exist yet; what it brings of it is left out. Where the feed
cannot be followed from there, nothing is guessed: the error says why.
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
    """One table's feed.

    Parameters
    ----------
    path, table : where it is; what it is called here.
    seeded : the version that the state has.
    table_id : the identity of the Delta table that was seeded; None where it is not known.
    columns : the names that are read.
    max_bytes : how much a micro-batch takes at most.
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
        """Raise where the table is not there, is another one, or has no feed from the seeded version on."""
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

    def draft(self, came: "pa.Table", target: Target) -> Draft:
        """Return the records of a micro-batch."""
        return draft_of(came, [column.name for column in target.wanted], self._table, after=self._seeded)
