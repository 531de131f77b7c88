"""The streaming queries of one application: one for each table with a source; the first failure ends all of them.

    Spark calls back with a micro-batch  ->  collect, decode (in parallel)  ->  pipeline (one at a time)

Invariant: a batch that was begun ends, committed or not, before its query is stopped; the run raises the error that a
callback raised.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.constraints import ExternalError, HoldfastError, InputError
from holdfast.display.secrets import masked
from holdfast.state.room import is_of_storage, way_out
from holdfast.streaming.commits.output_rows import Position
from holdfast.streaming.incoming.arrivals import Arrivals, BadRecord, Draft, Target, all_bad, arrivals
from holdfast.streaming.maintainers.maintainer import BatchResult
from holdfast.streaming.pipeline import Pipeline
from holdfast.streaming.spark.failures import CheckpointLost, FollowedSource, explained
from holdfast.streaming.spark.places import read_text
from holdfast.streaming.spark.sources import StreamSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_LOOK_EVERY = 0.2
_LAG_EVERY = 10.0


@dataclass(frozen=True)
class Stream:
    """The stream of one table.

    Parameters
    ----------
    table : the name of the table.
    source, target : the source of records, and the table that they are for.
    checkpoint : the folder where Spark stores the progress of the query.
    """

    table: str
    source: StreamSource
    target: Target
    checkpoint: str


@dataclass(frozen=True)
class Done:
    """A committed batch.

    Parameters
    ----------
    table, position : the table, and the position of the batch in its source.
    result : the result.
    arrived : the records.
    seconds : the seconds, by step.
    """

    table: str
    position: Position
    result: BatchResult
    arrived: Arrivals
    seconds: Mapping[str, float]


class _Stopping(Exception):
    """A batch arrived after the run was stopped; the next run gets it again."""


class Running:
    """Runs the streaming queries.

    Parameters
    ----------
    spark : a session.
    pipeline : applies and commits batches.
    streams : one stream for each table with a source.
    trigger : the arguments of Spark's `trigger`.
    done : called with each committed batch.
    configuration : the name of the configuration file in messages.
    """

    def __init__(
        self,
        spark: "SparkSession",
        pipeline: Pipeline,
        streams: Sequence[Stream],
        trigger: Mapping[str, Any],
        done: Callable[[Done], object] = lambda _: None,
        configuration: str = "CONF",
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._streams = streams
        self._trigger = dict(trigger)
        self._done = done
        self._configuration = configuration
        self._gates = {stream.table: Lock() for stream in streams}
        self._is_stopping = False
        self._failure: BaseException | None = None
        self._behind: dict[str, int | None] = {}

    @property
    def has_failed(self) -> bool:
        """Whether a batch failed."""
        return self._failure is not None

    def run(self, stop: Event, watch: Callable[[], object] = lambda: None) -> None:
        """Run until `stop` is set, all sources are read to their end (with such a trigger), or a query fails.

        Parameters
        ----------
        watch : called several times a second; an error that it raises ends the run.
        """
        queries: dict[str, Any] = {}
        try:
            for stream in self._streams:
                queries[stream.table] = self._started(stream)
            looked = time.monotonic()
            while self._failure is None and any(query.isActive for query in queries.values()):
                if stop.wait(_LOOK_EVERY):
                    break
                watch()
                if time.monotonic() - looked >= _LAG_EVERY:
                    looked = time.monotonic()
                    self._behind = {table: _records_behind(query) for table, query in queries.items()}
                if any(not query.isActive and query.exception() is not None for query in queries.values()):
                    break
        finally:
            self._stop(queries)
        if self._failure is not None:
            raise self._failure
        for table, query in queries.items():
            error = query.exception()
            if error is not None and not stop.is_set():
                stream = next(stream for stream in self._streams if stream.table == table)
                raise self._explained(error, stream) from error

    def _started(self, stream: Stream) -> Any:
        from pyspark.errors import PySparkException

        def on_batch(frame: "DataFrame", batch_id: int) -> None:
            self._on_batch(stream, frame, batch_id)

        try:
            frame = stream.source.frame(self._spark)
            writer = frame.writeStream.foreachBatch(on_batch).queryName(stream.table)
            return writer.option("checkpointLocation", stream.checkpoint).trigger(**self._trigger).start()
        except PySparkException as error:
            raise self._explained(error, stream) from error

    def _explained(self, error: Exception, stream: Stream) -> HoldfastError:
        """Return an error of Spark as one with a message for people."""
        source = stream.source
        followed = FollowedSource(stream.table, source.kind, source.place, stream.checkpoint, self._configuration)
        return explained(error, followed)

    def _stop(self, queries: Mapping[str, Any]) -> None:
        """Wait for the end of batches that were begun, then stop the queries."""
        self._is_stopping = True
        for gate in self._gates.values():
            gate.acquire()
        for gate in self._gates.values():  # batches that wait find that the run is stopping
            gate.release()
        for query in queries.values():
            query.stop()

    def _on_batch(self, stream: Stream, frame: "DataFrame", batch_id: int) -> None:
        with self._gates[stream.table]:
            if self._is_stopping or self._failure is not None:
                raise _Stopping
            try:
                self._apply(stream, frame, batch_id)
            except BaseException as error:
                if self._failure is None:
                    self._failure = error
                raise

    def _apply(self, stream: Stream, frame: "DataFrame", batch_id: int) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        position = self._position(stream, frame, batch_id)
        if self._pipeline.is_done(stream.table, position):
            return
        attempts = self._pipeline.attempts
        is_skipped = attempts.is_skipped(stream.table, position)
        if not is_skipped:
            attempts.refuse_hopeless(stream.table, position, self._configuration)
        try:
            arrived, names, seconds = self._collected(stream, frame, position, is_skipped=is_skipped)
            behind = self._behind.pop(stream.table, None)  # each figure is published once
            result = self._pipeline.batch(stream.table, position, arrived, seconds, behind, names)
        except (PySparkException, Py4JError) as error:
            meant = self._explained(error, stream)
            self._note_failure(stream.table, position, meant)
            raise meant from error
        except MemoryError as error:
            raise ExternalError(
                f"table {stream.table}, batch {batch_id}: there is not enough memory for it ({error}). "
                "Nothing of it was committed: give the process more memory, or let batches take less "
                "(trigger.max_records, trigger.max_bytes), and start again"
            ) from error
        except Exception as error:
            if is_of_storage(error):
                raise ExternalError(
                    f"table {stream.table}, batch {batch_id}: {error}. Nothing is lost: {way_out(error)}, and start "
                    "again"
                ) from error
            self._note_failure(stream.table, position, error)
            if isinstance(error, HoldfastError):
                raise
            raise RuntimeError(
                f"table {stream.table}, batch {batch_id}, from {position.start or 'the start'} to {position.end}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if result is not None:
            self._done(Done(stream.table, position, result, arrived, seconds))

    def _note_failure(self, table: str, position: Position, error: Exception) -> None:
        if isinstance(error, ExternalError | CheckpointLost):  # not an error of the batch, which may be tried again
            return
        with suppress(Exception):  # if this write fails too, the first error says more
            self._pipeline.failed(table, position, masked(f"{type(error).__name__}: {error}"))

    def _collected(
        self, stream: Stream, frame: "DataFrame", position: Position, *, is_skipped: bool
    ) -> tuple[Arrivals, list[str], dict[str, float]]:
        """Return the records of a batch, the names of the files read, and the seconds for reading and decoding."""
        if is_skipped:
            return *self._skipped(stream, frame, position), {}
        began = time.perf_counter()
        rows, names, lost = self._sifted(stream, frame, position)
        read = time.perf_counter()
        if lost:
            more = f" and {len(lost) - 1} more" if lost[1:] else ""
            raise InputError(
                f"table {stream.table}: {lost[0]}{more} came, and is not there any more: put it back where it was, or "
                f"go on without its batch: `holdfast skip-batch {self._configuration} {stream.table}`"
            )
        arrived = arrivals(stream.source.draft(rows, stream.target), stream.target)
        return arrived, names, {"read": read - began, "decode": time.perf_counter() - read}

    def _sifted(
        self, stream: Stream, frame: "DataFrame", position: Position
    ) -> "tuple[pa.Table, list[str], list[str]]":
        """Return the rows of a batch, the names of its files, and the names of files that are missing."""
        rows, lost = stream.source.sifted(self._spark, frame.toArrow(), stream.checkpoint, position)
        names = stream.source.names(rows)
        read = self._pipeline.was_read(stream.table, names)
        if any(read):  # with an earlier checkpoint
            rows = rows.filter([not known for known in read])
            names = [name for name, known in zip(names, read, strict=True) if not known]
        gone = zip(lost, self._pipeline.was_read(stream.table, list(lost)), strict=True)
        return rows, names, [name for name, known in gone if not known]

    def _skipped(self, stream: Stream, frame: "DataFrame", position: Position) -> tuple[Arrivals, list[str]]:
        """Return a batch as bad records; if it cannot even be read, as one bad record with its position."""
        reason = "skipped: the batch kept failing"
        nothing = Draft(np.zeros(0, np.int8), {}, str)
        try:
            rows, names, lost = self._sifted(stream, frame, position)
            draft = stream.source.draft(rows, stream.target)
        except Exception as error:  # noqa: BLE001  (probably the reason why the batch is skipped)
            name = f"{stream.table}: {position.start or 'the start'} to {position.end}"
            meant = self._explained(error, stream)
            bad = (BadRecord(name, None, f"{reason} ({meant})"),)
            return Arrivals(arrivals(nothing, stream.target).records, bad, is_skipped=True), []
        arrived = all_bad(draft, stream.target, reason)
        gone = tuple(BadRecord(name, None, f"{reason}, and this is not there any more") for name in lost)
        return replace(arrived, bad=arrived.bad + gone), [*names, *lost]

    def _position(self, stream: Stream, frame: "DataFrame", batch_id: int) -> Position:
        """Return the position of a batch, from the checkpoint, which has it before the batch begins."""
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        start, end = (self._offsets(stream, number) for number in (batch_id - 1, batch_id))
        return Position(str(query), batch_id, start, end)

    def _offsets(self, stream: Stream, batch_id: int) -> str:
        text = read_text(self._spark, f"{stream.checkpoint}/offsets/{batch_id}")
        return "" if text is None else "\n".join(text.splitlines()[2:])  # below a version and the query's own settings


def _records_behind(query: Any) -> int | None:
    """Return how many records a source had beyond the last batch; None if it does not tell (Kafka does)."""
    progress = query.lastProgress
    if not progress or not progress["sources"]:
        return None
    behind = (progress["sources"][0]["metrics"] or {}).get("maxOffsetsBehindLatest")
    return None if behind is None else int(behind)
