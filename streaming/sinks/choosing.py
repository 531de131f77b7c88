"""The engine that writes the output tables: delta-rs if it reaches the storage, else Spark.

Both write the same tables, and each continues where the other ended, so the choice may change from start to start.
"""

import re
from collections.abc import Callable, Mapping
from typing import Literal

from holdfast.constraints import UsageError
from holdfast.streaming.sinks.contract import OutputTable, Retention
from holdfast.streaming.sinks.deltalake import DeltaLakeTable
from holdfast.streaming.sinks.shapes import SHAPES, Shape

Writer = Literal["auto", "deltalake", "spark"]
MakeSparkTable = Callable[[str, Shape, str, str, Retention], OutputTable]

_REACHED = frozenset({"", "file", "s3", "s3a", "abfs", "abfss", "az", "adl", "gs"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def writer_for(place: str, writer: Writer = "auto") -> Literal["deltalake", "spark"]:
    """Return the engine that writes to an address.

    >>> [writer_for(place) for place in ("var/tables", "s3://bucket/tables", "dbfs:/tables", "hdfs://host/tables")]
    ['deltalake', 'deltalake', 'spark', 'spark']
    """
    scheme = _scheme(place)
    if writer == "spark":
        return "spark"
    if scheme in _REACHED:
        return "deltalake"
    if writer == "auto":
        return "spark"
    raise UsageError(f"publish.writer deltalake does not write to {scheme}: leave it at auto, or use spark")


def open_tables(
    output: str,
    application: str,
    state_id: str,
    *,
    writer: Writer = "auto",
    spark_table: MakeSparkTable | None = None,
    storage: Mapping[str, str] | None = None,
    retentions: Mapping[str, Retention] | None = None,
    shapes: Mapping[str, Shape] = SHAPES,
) -> dict[str, OutputTable]:
    """Open the output tables, and create those that do not exist.

    Parameters
    ----------
    output : the folder of all tables.
    application, state_id : the owner of the tables.
    writer : the engine that the configuration asks for.
    spark_table : opens a table that Spark writes; called only if Spark is to write.
    storage : options of the object store, for delta-rs.
    retentions : how long versions and rows of tables stay; by default `Retention()`.
    shapes : the tables.
    """
    chosen = writer_for(output, writer)
    tables: dict[str, OutputTable] = {}
    for name, shape in shapes.items():
        retention = (retentions or {}).get(name, Retention())
        uri = f"{output.rstrip('/')}/{name}"
        if chosen == "deltalake":
            place = uri.partition("://")[2] if _scheme(uri) == "file" else uri
            tables[name] = DeltaLakeTable(place, shape, application, state_id, storage, retention)
        elif spark_table is None:
            raise UsageError(
                f"{output} can only be written by Spark, which does not run here: start it with holdfast run"
            )
        else:
            tables[name] = spark_table(uri, shape, application, state_id, retention)
    return tables


def _scheme(place: str) -> str:
    found = _SCHEME.match(place)
    return found[1].lower() if found else ""
