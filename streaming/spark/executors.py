"""Tasks on Spark's executors.

A job has as many partitions as tasks, each of one row: the task's number. The tasks themselves travel with the work, so
that Spark's own scheduler decides where each runs, and runs it again where an executor is lost. What goes wrong with
the data or with a storage comes back as an answer, and is raised here as what it is.

Invariant: an executor writes nothing here; what it is given and answers are values.
"""

from __future__ import annotations

import pickle
import re
import socket
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from holdfast.constraints import ExternalError, HoldfastError, InputError, UsageError
from holdfast.discovery.blocks.executors import PART, Batches, Exchange
from holdfast.streaming.spark.errors import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_ANSWER = "answer"
_ANSWERS = pa.schema([(_ANSWER, pa.binary())])


class SparkExecutors:
    """The executors of a session.

    Parameters
    ----------
    spark : the session.
    cores : how many tasks run at a time; what Spark says where it is not given.
    """

    def __init__(self, spark: SparkSession, cores: int | None = None) -> None:
        self._spark = spark
        self._cores = cores

    @property
    def cores(self) -> int:
        """How many tasks run at a time."""
        return self._cores or max(1, self._spark.sparkContext.defaultParallelism)

    def run(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[Answer]:
        """Yield the answer to each task."""
        if tasks:
            yield from answers(self._numbered(tasks).mapInArrow(partial(_done, work, tasks), "answer binary"))

    def exchange(
        self,
        emit: Callable[[Task], Batches],
        tasks: Sequence[Task],
        how: Exchange,
        take: Callable[[Batches], Iterator[Answer]],
    ) -> Iterator[Answer]:
        """Yield what `take` makes of each part."""
        if not tasks:
            return
        from pyspark.sql.pandas.types import from_arrow_schema

        sent = _sent(how.schema)
        rows = self._numbered(tasks).mapInArrow(partial(_emitted, emit, tasks, sent), from_arrow_schema(sent))
        parts = rows.repartitionById(how.parts, PART)
        if how.order:
            parts = parts.sortWithinPartitions(*how.order)
        yield from answers(parts.mapInArrow(partial(_taken, take, how.schema), "answer binary"))

    def delta(self, path: Path, version: int | None) -> DataFrame:
        """Return a Delta table's rows."""
        reader = self._spark.read.format("delta")
        return (reader if version is None else reader.option("versionAsOf", version)).load(str(path))

    def _numbered(self, tasks: Sequence[Any]) -> DataFrame:
        return self._spark.range(0, len(tasks), 1, numPartitions=len(tasks))


def answers(frame: DataFrame) -> Iterator[Any]:
    """Yield what tasks answered, or raise what one of them refused."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        given = frame.toArrow()
    except (PySparkException, Py4JError) as error:
        raise _explained(error) from error
    for answer in given.column(_ANSWER):
        found = pickle.loads(answer.as_buffer())  # noqa: S301  (made by our own code on executors of this session)
        if isinstance(found, _Refused):
            raise found.error
        yield found


class _Refused:
    """What a task raised that says something to people."""

    def __init__(self, error: HoldfastError) -> None:
        self.error = error


def _done(work: Callable[[Any], Any], tasks: Sequence[Any], batches: Batches) -> Batches:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            with _refusing() as refused:
                answer = work(tasks[number])
            yield refused[0] if refused else answer_batch(answer)


def _emitted(emit: Callable[[Any], Batches], tasks: Sequence[Any], sent: pa.Schema, batches: Batches) -> Batches:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for rows in emit(tasks[number]):
                yield _as(rows, sent)


def _taken(take: Callable[[Batches], Iterator[Any]], schema: pa.Schema, batches: Batches) -> Batches:
    taken = take(_as(batch, schema) for batch in batches if len(batch))
    yield from answered(taken)


def answer_batch(answer: Any) -> pa.RecordBatch:
    """Return an answer as tasks give it out."""
    return pa.record_batch([pa.array([pickle.dumps(answer)], pa.binary())], schema=_ANSWERS)


def answered(made: Iterator[Any]) -> Batches:
    """Yield answers as tasks give them out, and what ends them."""
    while True:
        with _refusing() as refused:
            answer = next(made, _END)
        if refused:
            yield refused[0]
            return
        if answer is _END:
            return
        yield answer_batch(answer)


_END = object()


@contextmanager
def _refusing() -> Iterator[list[pa.RecordBatch]]:
    """Keep what is raised that says something to people, as tasks give it out."""
    refused: list[pa.RecordBatch] = []
    try:
        yield refused
    except HoldfastError as error:
        refused.append(answer_batch(_Refused(error)))
    except OSError as error:
        refused.append(answer_batch(_Refused(ExternalError(f"{socket.gethostname()}: {error}\n{_REACH}"))))


_REACH = (
    "Every executor has to read the files, and to read and write the folder of blocks (--work): check both there, and "
    "start again"
)
_ROOM = (
    "See the logs of the executors. Where a Python worker was killed, there was too little memory for it: give "
    "executors more beside Java's, or let blocks have fewer rows (--block-rows); then start again"
)


def _explained(error: Exception) -> Exception:
    """Return what ended a job, as far as it says something to people; else the error as it is."""
    from pyspark.errors import PythonException

    raised = _RAISED.findall(str(error))
    if raised:
        kind, text = raised[-1]
        return ExternalError(f"{text}\n{_REACH}") if kind not in _OURS else _OURS[kind](text)
    return error if isinstance(error, PythonException) else ExternalError(f"Spark: {first_line(str(error))}\n{_ROOM}")


_OURS: dict[str, type[HoldfastError]] = {kind.__name__: kind for kind in (UsageError, InputError, ExternalError)}
_RAISED = re.compile(
    r"^(?:holdfast\.[\w.]+\.(\w+)|(?:\w*OSError|PermissionError|FileNotFoundError)): (.*)$", re.MULTILINE
)


def _sent(schema: pa.Schema) -> pa.Schema:
    """Return the types in which rows go through Spark, which has neither long texts nor nanoseconds."""
    types = [_sent_type(field.type) for field in schema]
    return pa.schema([field.with_type(kind) for field, kind in zip(schema, types, strict=True)])


def _sent_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.record_batch(arrays, schema=schema)
