"""Output tables written by Spark, if delta-rs does not reach the storage: half a second a commit or more.

Spark itself leaves out a write whose transaction version the table has already. The settings for that belong to a
session, so each table has its own session. The tables are the same as those of delta-rs, and each of the two continues
where the other ended.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.constraints import StateRefused
from holdfast.streaming.sinks.contract import (
    AMENDED,
    GONE,
    PUT,
    Column,
    Errors,
    OutputTable,
    Retention,
    Row,
    delta_type,
    netted,
)
from holdfast.streaming.sinks.shapes import Shape
from holdfast.streaming.spark.failures import is_conflict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NEWS = "holdfast_news"
_APPLICATION, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
_NOT_COMPILED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_JOINED = ("spark.databricks.delta.optimize.minFileSize", "spark.databricks.delta.optimize.maxFileSize")


class SparkTable(OutputTable):
    """One output table, written by Spark.

    Parameters
    ----------
    spark : any session of the Spark that is to write; `uri` is in any file system that this Spark knows.
    """

    def __init__(
        self,
        spark: "SparkSession",
        uri: str,
        shape: Shape,
        application: str,
        state_id: str,
        retention: Retention = Retention(),  # noqa: B008  (immutable)
    ) -> None:
        self._session = spark.newSession()
        self._session.conf.set("spark.sql.session.timeZone", "UTC")
        self._session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        # A commit has a handful of rows, and Delta's own queries on its log as few: compiling them takes longer.
        for setting, value in _NOT_COMPILED.items():
            self._session.conf.set(setting, value)
        # By default VACUUM lists a handful of folders in 10,000 tasks, which takes minutes.
        tasks = str(spark.sparkContext.defaultParallelism)
        self._session.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", tasks)
        self._session.conf.set("spark.databricks.delta.write.txnVersion.autoReset.enabled", "true")
        self._table = f"delta.{_quoted(uri)}"
        super().__init__(uri, shape, application, state_id, retention, _engine_errors())

    @property
    def published(self) -> int:
        """The last commit of this state that the table has; 0 before the first."""
        version = self._snapshot().transactions().get(self._transactions)
        return int(version.get()) if version.isDefined() else 0

    def _opened(self) -> bool:
        self._log = self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._session._jsparkSession, self.uri)
        return bool(self._snapshot().deltaLog().tableExists())

    def _write(self, rows: Sequence[Row], upto: int) -> None:
        if self.shape.key is None:
            self._append(rows, upto)
        else:
            self._merge(rows, upto)

    def _is_conflict(self, error: BaseException) -> bool:
        return is_conflict(error)

    def _append(self, rows: Sequence[Row], upto: int) -> None:
        (
            self._frame(self.shape.rows(rows))
            .write.format("delta")
            .mode("append")
            .option("txnAppId", self._transactions)
            .option("txnVersion", upto)
            .save(self.uri)
        )

    def _merge(self, rows: Sequence[Row], upto: int) -> None:
        news, what = netted(rows, self.shape)
        self._frame(news.append_column("_what", what)).createOrReplaceTempView(_NEWS)
        self._session.conf.set(_APPLICATION, self._transactions)
        self._session.conf.set(_VERSION, str(upto))
        try:
            self._session.sql(self._merging())
        finally:  # with these settings the next statement would look like a repeated one
            self._session.conf.unset(_APPLICATION)
            self._session.conf.unset(_VERSION)
            self._session.catalog.dropTempView(_NEWS)
        if self.published < upto:  # rows that came and went: a merge that changes nothing may be no commit
            self._append([], upto)

    def _merging(self) -> str:
        names = [_quoted(name) for name, _, _ in self.shape.columns]
        steps = [
            f"MERGE INTO {self._table} old USING {_NEWS} new ON old.{self.shape.key} = new.{self.shape.key}",
            f"WHEN MATCHED AND new._what = {GONE} THEN DELETE",
            f"WHEN MATCHED AND new._what = {PUT} THEN UPDATE SET {_assignments(names)}",
        ]
        if self.shape.amendable:
            amended = _assignments([_quoted(name) for name in self.shape.amendable])
            steps.append(f"WHEN MATCHED AND new._what = {AMENDED} THEN UPDATE SET {amended}")
        values = ", ".join(f"new.{name}" for name in names)
        steps.append(f"WHEN NOT MATCHED AND new._what = {PUT} THEN INSERT ({', '.join(names)}) VALUES ({values})")  # noqa: S608  (names of ours)
        return " ".join(steps)

    def _frame(self, rows: Any) -> "DataFrame":
        return self._session.createDataFrame(rows).coalesce(1)

    def _join(self, size: int) -> None:
        for setting in _JOINED:
            self._session.conf.set(setting, str(size))
        self._session.sql(f"OPTIMIZE {self._table}")

    def _delete(self, condition: str) -> None:
        self._session.sql(f"DELETE FROM {self._table} WHERE {condition}")  # noqa: S608  (a condition of ours)

    def _vacuum(self, hours: int) -> None:
        self._session.sql(f"VACUUM {self._table} RETAIN {hours} HOURS")

    def _created(self, settings: Mapping[str, str]) -> None:
        self._clear_the_place()
        columns = ", ".join(_declared(*column) for column in self.shape.columns)
        partitions = f"PARTITIONED BY ({', '.join(map(_quoted, self.shape.partition_by))}) "
        self._session.sql(
            f"CREATE TABLE {self._table} ({columns}) USING delta "
            + (partitions if self.shape.partition_by else "")
            + f"COMMENT {_text(self.shape.description)} TBLPROPERTIES ({_listed(settings)})"
        )

    def _clear_the_place(self) -> None:
        """Refuse a folder with files; remove a log without any version, as a crash leaves it."""
        path = self._jvm.org.apache.hadoop.fs.Path(self.uri)
        files = path.getFileSystem(self._session._jsparkSession.sessionState().newHadoopConf())
        if not files.exists(path):
            return
        log = self._jvm.org.apache.hadoop.fs.Path(path, "_delta_log")
        names = [found.getPath().getName() for found in files.listStatus(path)]
        if any(name != log.getName() for name in names):
            raise StateRefused(f"{self.uri} has files and is no Delta table: choose another `output`, or empty it")
        if names:
            versions = [found.getPath().getName() for found in files.listStatus(log)]
            if any(name[:20].isdecimal() for name in versions):
                raise StateRefused(f"{self.uri} has a damaged log: restore it, or choose another `output`")
            files.delete(log, True)

    def _configuration(self) -> Mapping[str, str | None]:
        return dict(json.loads(self._snapshot().metadata().json())["metaData"]["configuration"])

    def _columns(self) -> tuple[Mapping[str, str], Sequence[str]]:
        about = json.loads(self._snapshot().metadata().json())["metaData"]
        fields = json.loads(about["schemaString"])["fields"]
        found = {field["name"]: field["type"] if isinstance(field["type"], str) else "nested" for field in fields}
        return found, about["partitionColumns"]

    def _add(self, columns: Sequence[Column]) -> None:
        added = ", ".join(_declared(*column) for column in columns)
        self._session.sql(f"ALTER TABLE {self._table} ADD COLUMNS ({added})")

    def _set(self, settings: Mapping[str, str]) -> None:
        self._session.sql(f"ALTER TABLE {self._table} SET TBLPROPERTIES ({_listed(settings)})")

    def _snapshot(self) -> Any:
        """Return the newest version of the table."""
        given = [getattr(self._log, f"update$default${i}")() for i in (1, 2, 3)]
        return self._log.update(*given)

    @property
    def _jvm(self) -> Any:
        return self._session.sparkContext._jvm


def _engine_errors() -> Errors:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JError, OSError)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _declared(name: str, kind: Any, text: str) -> str:
    return f"{_quoted(name)} {delta_type(kind).upper()} COMMENT {_text(text)}"


def _listed(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{_text(name)} = {_text(value)}" for name, value in settings.items())


def _assignments(names: Sequence[str]) -> str:
    return ", ".join(f"old.{name} = new.{name}" for name in names)
