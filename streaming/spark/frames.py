"""Data frames of Spark as blocks: each executor writes its partitions.

Invariant: rows get the types that the same rows have as an Arrow table, and distinct numbers.
"""

from __future__ import annotations

from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from holdfast.constraints import ExternalError, UsageError
from holdfast.discovery.blocks.storage.block import Block, Rows, write_blocks
from holdfast.discovery.blocks.storage.table import BlockTable, Report, Source
from holdfast.streaming.spark.errors import first_line
from holdfast.streaming.spark.executors import Batches, SparkExecutors, answered, answers
from holdfast.tables.frames import encode_arrow
from holdfast.tables.parts import in_chunks
from holdfast.tables.reading import PARQUET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from holdfast.discovery.blocks.storage.location import Storage
    from holdfast.tables import ReadOptions

_MOST_ROWS_OF_LIMIT = 2**31 - 1
_PARTITION = 40
"""The bits of a row's number for its position in its partition."""


def frame_at(spark: SparkSession, address: str, version: int | None = None) -> DataFrame:
    """Return the rows of a Delta table, or of Parquet, at a path or an address."""
    from delta.tables import DeltaTable
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        if DeltaTable.isDeltaTable(spark, address):
            reader = spark.read.format("delta")
            return (reader if version is None else reader.option("versionAsOf", version)).load(address)
        if version is not None:
            raise UsageError(f"{address} is no Delta table, so it has no version {version}")
        if (ending := PurePosixPath(address).suffix.lower()) not in {"", *PARQUET}:
            raise UsageError(
                f"{address} ends in {ending}: Spark reads Parquet and Delta tables from addresses. Bring other files "
                "to a folder that all executors reach, and name its path"
            )
        return spark.read.parquet(address)
    except (PySparkException, Py4JError) as error:
        raise ExternalError(
            f"{address} cannot be read: {first_line(str(error))}\nCheck the address, and that Spark knows its kind "
            "of storage (--conf spark.jars=..., --conf spark.hadoop.fs....)"
        ) from error


def only_columns(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return a data frame with only the named columns, so that Spark reads no others."""
    return frame.select(*(frame["`" + name.replace("`", "``") + "`"] for name in names))


def blocks_of_frame(
    frame: DataFrame,
    name: str,
    options: ReadOptions,
    storage: Storage,
    most: int,
    report: Report = lambda _: None,
) -> tuple[BlockTable, tuple[str, ...]]:
    """Write a data frame into blocks of at most `most` rows; return the table, and warnings."""
    if options.limit is not None:
        if options.limit > _MOST_ROWS_OF_LIMIT:
            raise UsageError(f"a limit of {options.limit} rows: Spark takes {_MOST_ROWS_OF_LIMIT} at most, or none")
        frame = frame.limit(options.limit)
    about = encode_arrow(frame.limit(0).toArrow(), name, name, options)
    report(f"reading {name}")
    source = Source(storage, about.schema, most)
    numbered = frame.toDF(*map(str, range(len(frame.columns))))  # PySpark reads a dot in a name as a field
    written = numbered.mapInArrow(partial(_written, source, options, frame.columns), "answer binary")
    blocks = [block for some in answers(written) for block in some]
    return BlockTable(source, blocks, SparkExecutors(frame.sparkSession), report), about.warnings


def place_in_frame(name: str, row: int) -> str:
    """Return the origin of a row, for messages.

    >>> place_in_frame("orders", (2 << 40) + 6)
    'orders, partition 2, row 7'
    """
    return f"{name}, partition {row >> _PARTITION}, row {(row & (1 << _PARTITION) - 1) + 1}"


def _written(source: Source, options: ReadOptions, names: list[str], batches: Batches) -> Batches:
    from pyspark import TaskContext

    context = TaskContext.get()
    first = (0 if context is None else context.partitionId()) << _PARTITION
    named = (batch.rename_columns(names) for batch in batches)
    yield from answered([block] for block in _cut(source, options, named, first))


def _cut(source: Source, options: ReadOptions, batches: Batches, first: int) -> Iterator[Block]:
    place, name = source.storage.open(), source.schema.table
    for some in in_chunks((pa.Table.from_batches([batch]) for batch in batches), source.most):
        rows = Rows(np.arange(first, first + len(some)), encode_arrow(some, name, name, options))
        yield from write_blocks(place, rows, source.most)
        first += len(some)
