"""Makes the streams of the configured tables' sources."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from holdfast.constraints import ColumnType, Schema
from holdfast.jobs.application.folders import folder_name
from holdfast.jobs.application.seeding import sequence_of
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.configuration.table_settings import DeltaSource, FilesSource, KafkaSource, TableSettings, nulls_of
from holdfast.streaming.commits.table_records import TableRecord
from holdfast.streaming.decoding import decoder
from holdfast.streaming.incoming.arrivals import Target
from holdfast.streaming.spark.running import Stream
from holdfast.streaming.spark.sources import StreamSource
from holdfast.streaming.spark.sources.delta_feed import FeedSource
from holdfast.streaming.spark.sources.files import FolderSource
from holdfast.streaming.spark.sources.kafka import TopicSource
from holdfast.streaming.state_view import StateView
from holdfast.tables import ReadOptions
from holdfast.tables.keys import column_type_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def streams(settings: Settings, schemas: Mapping[str, Schema], view: StateView) -> list[Stream]:
    """Return a stream for each table with a source.

    Parameters
    ----------
    schemas : the monitored columns of each table.
    view : the state that the streams continue from.
    """
    found = []
    for table in settings.tables:
        if table.source is None:
            continue
        schema, record = schemas[table.name], view.tables[table.name]
        left_out = tuple(view.progress(table.name).left_out) if table.new_columns == "ignore" else ()
        target = Target(
            schema,
            tuple(table.key or ()),
            sequence_of(record, schema),
            store_raw=settings.quarantine.store_raw,
            others=(*(name for name in record.known or () if name not in schema), *left_out),  # known already
        )
        source = _source(table, settings, target, record)
        found.append(Stream(table.name, source, target, checkpoint_of(settings, table.name)))
    return found


def checkpoint_of(settings: Settings, table: str) -> str:
    """Return the folder or address of Spark's checkpoint for a table."""
    return f"{settings.checkpoint}/{folder_name(table)}"


def topic_source(table: TableSettings, source: KafkaSource, settings: Settings, start: str = "earliest") -> TopicSource:
    """Return the source for a table's topic."""
    return TopicSource(
        source.servers,
        source.topic,
        decoder(source.encoding),
        {name: column.encoding for name, column in table.columns.items() if column.encoding is not None},
        start,
        settings.trigger.max_records,
        source.options,
    )


def source_columns(
    table: TableSettings, settings: Settings, spark: Callable[[], "SparkSession"]
) -> dict[str, ColumnType]:
    """Return the columns that a source defines, with their types; none while it has no records."""
    if isinstance(table.source, KafkaSource):
        from holdfast.streaming.decoding.connect import columns_of

        source = topic_source(table, table.source, settings)
        source.check(spark())
        value = source.first_value(spark())
        found = None if value is None else columns_of(value)
        return {column.name: column.type for column in found or ()}
    if isinstance(table.source, FilesSource):
        import pyarrow as pa

        frame = spark().read.format("parquet").options(**table.source.options)
        from pyspark.errors import AnalysisException

        try:
            empty = frame.load(table.source.path).limit(0).toArrow()
        except AnalysisException:  # no file yet
            return {}
        kinds = {field.name: column_type_of(field.type) for field in empty.schema if field.name not in {"_op", "_seq"}}
        assert isinstance(empty, pa.Table)
        return {name: kind for name, kind in kinds.items() if kind is not None}
    return {}


def _source(table: TableSettings, settings: Settings, target: Target, record: TableRecord) -> StreamSource:
    source = table.source
    if isinstance(source, KafkaSource):
        return topic_source(table, source, settings, record.source["start"])
    if isinstance(source, FilesSource):
        reading = ReadOptions(delimiter=source.delimiter, **nulls_of(source.null_tokens))
        known = record.known or ()
        return FolderSource(source.path, source.encoding, reading, known, settings.trigger.max_bytes, source.options)
    assert isinstance(source, DeltaSource)
    return FeedSource(
        source.path,
        table.name,
        record.source["version"],
        tuple(column.name for column in target.wanted),
        record.source.get("table_id"),
        settings.trigger.max_bytes,
        source.options,
    )
