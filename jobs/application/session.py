"""The Spark session of a job, started beside what does not need it yet."""

import threading
from typing import TYPE_CHECKING

from holdfast.jobs.configuration.secrets import masked
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.terminal.progress import SPOKEN, Voice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Session:
    """A Spark session that is started when it is first needed, or a little before.

    On a thread of its own: on the main one, PySpark takes over what Ctrl-C does.
    """

    def __init__(self, settings: Settings, voice: Voice = SPOKEN) -> None:
        self._settings = settings
        self._level = "INFO" if voice.least == "debug" else "ERROR"
        self._thread = threading.Thread(target=self._start, name="spark", daemon=True)
        self._spark: SparkSession | None = None
        self._failed: Exception | None = None

    def begin(self) -> None:
        """Start it in the background; what goes wrong is told when it is asked for."""
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

            settings = self._settings
            storage = {f"spark.hadoop.{k}": v for k, v in settings.storage_options.items() if k.startswith("fs.")}
            started = session(f"holdfast-{settings.name}", {**storage, **settings.spark}, masked)
            started.sparkContext.setLogLevel(self._level)
            self._spark = started
        except Exception as error:  # noqa: BLE001  (raised where somebody asks for the session)
            self._failed = error
