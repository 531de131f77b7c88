"""The Spark session of a command, started in the background while the command does other work."""

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.terminal.progress import DEFAULT_LOG, LogOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class BackgroundSession:
    """A Spark session that is started when it is first needed, or before that.

    It starts in a thread of its own: in the main thread, PySpark replaces the handler of Ctrl-C.

    Parameters
    ----------
    name, settings : the name of the application, and settings of Spark.
    level : the lowest level that Spark logs; None for Spark's own.
    """

    def __init__(self, name: str, settings: Mapping[str, str], level: str | None = None) -> None:
        self._name = name
        self._settings = settings
        self._level = level
        self._thread = threading.Thread(target=self._start, name="spark", daemon=True)
        self._spark: SparkSession | None = None
        self._failed: Exception | None = None

    def begin(self) -> None:
        """Start the session in the background; an error is raised when the session is needed."""
        if self._thread.ident is None:
            self._thread.start()

    def __call__(self) -> "SparkSession":
        """Return the session."""
        self.begin()
        self._thread.join()
        if self._failed is not None:
            raise self._failed
        assert self._spark is not None
        return self._spark

    def _start(self) -> None:
        try:
            from holdfast.streaming.spark.session import session

            started = session(self._name, self._settings)
            if self._level is not None:
                started.sparkContext.setLogLevel(self._level)
            self._spark = started
        except Exception as error:  # noqa: BLE001  (raised where the session is needed)
            self._failed = error


class Session(BackgroundSession):
    """The session of a configuration."""

    def __init__(self, settings: Settings, log: LogOptions = DEFAULT_LOG) -> None:
        storage = {f"spark.hadoop.{k}": v for k, v in settings.storage_options.items() if k.startswith("fs.")}
        level = "INFO" if log.lowest_level == "debug" else "ERROR"
        super().__init__(f"holdfast-{settings.name}", {**storage, **settings.spark}, level)
