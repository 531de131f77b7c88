"""Tasks on Spark's executors.

A job has one partition for each task, with one row: the number of the task. The tasks themselves are sent with the
work, so Spark's scheduler decides where each task runs, and repeats it if an executor is lost. Errors of the data or of
a storage are sent back as answers, and raised here with their own class.

Invariant: tasks and answers are plain values; executors change nothing in this process.
"""

from __future__ import annotations

import gc
import pickle
import re
import socket
from contextlib import contextmanager
from functools import partial
from itertools import chain, count
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

from holdfast.constraints import ExternalError, HoldfastError, InputError, UsageError
from holdfast.discovery.blocks.storage.packing import packed, unpacked
from holdfast.discovery.denial.enumerating import FEWER
from holdfast.discovery.evidence.evidences import TooManyEvidences
from holdfast.streaming.spark.errors import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from holdfast.discovery.blocks.executors import Given, Taken

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_ANSWER = "answer"
_ANSWERS = pa.schema([(_ANSWER, pa.binary())])
_GIVEN = pa.schema([("part", pa.int32()), ("rows", pa.binary())])

Batches: TypeAlias = "Iterator[pa.RecordBatch]"


class SparkExecutors:
    """The executors of a session.

    Parameters
    ----------
    spark : the session.
    cores : how many tasks run at a time; by default as Spark says.
    """

    def __init__(self, spark: SparkSession, cores: int | None = None) -> None:
        self.spark = spark
        self._cores = cores

    @property
    def cores(self) -> int:
        """How many tasks run at a time."""
        return self._cores or max(1, self.spark.sparkContext.defaultParallelism)

    def run(self, work: Callable[[Task], Answer], tasks: Sequence[Task], *, light: bool = False) -> Iterator[Answer]:
        """Yield the answer of each task; light tasks are grouped into as many Spark tasks as run at a time."""
        if light and len(tasks) > self.cores:
            tasks = [task for first in range(self.cores) for task in tasks[first :: self.cores]]
            numbered = self._numbered(tasks, self.cores)
        else:
            numbered = self._numbered(tasks, len(tasks))
        if tasks:
            yield from answers(numbered.mapInArrow(partial(_done, work, tasks), "answer binary"))

    def exchange(
        self,
        give: Callable[[Task], Given],
        tasks: Sequence[Task],
        parts: int,
        take: Callable[[Taken], Iterator[Answer]],
    ) -> Iterator[Answer]:
        """Yield the answers of `take` for each of `parts` parts that got rows from `give`.

        The rows of a task for a part are one value, which Spark moves without reading it.
        """
        if tasks:
            given = self._numbered(tasks, len(tasks)).mapInArrow(partial(_given, give, tasks), "part int, rows binary")
            moved = given.repartitionById(parts, "part")
            yield from answers(moved.mapInArrow(partial(_taken, take), "answer binary"))

    def _numbered(self, tasks: Sequence[Any], together: int) -> DataFrame:
        return self.spark.range(0, len(tasks), 1, numPartitions=together)


def answers(frame: DataFrame) -> Iterator[Any]:
    """Yield the answers of tasks, or raise the error that one of them returned."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        given = frame.toArrow()
    except (PySparkException, Py4JError) as error:
        raise _explained(error) from error
    for answer in given.column(_ANSWER):
        found = pickle.loads(answer.as_buffer())  # noqa: S301  (made by Holdfast on executors of this session)
        if isinstance(found, _Refused):
            raise found.error
        yield found


class _Refused:
    """An error of a task with a message for people."""

    def __init__(self, error: HoldfastError) -> None:
        self.error = error


def _done(work: Callable[[Any], Any], tasks: Sequence[Any], batches: Batches) -> Batches:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            with _refusing() as refused:
                answer = work(tasks[number])
            yield refused[0] if refused else answer_batch(answer)
    _keep_what_stays()


def _given(give: Callable[[Any], Given], tasks: Sequence[Any], batches: Batches) -> Batches:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for part, rows in give(tasks[number]):
                yield pa.record_batch(
                    [pa.array([part], pa.int32()), pa.array([packed(rows)], pa.binary())], schema=_GIVEN
                )
    _keep_what_stays()


def _taken(take: Callable[[Taken], Iterator[Any]], batches: Batches) -> Batches:
    given = (one for batch in batches for one in batch.column("rows"))
    first = next(given, None)
    if first is not None:
        yield from answered(take(unpacked(one.as_buffer()) for one in chain([first], given)))
    _keep_what_stays()


_ended_tasks = count(1)


def _keep_what_stays() -> None:
    """Exempt the objects of this worker from garbage collection after its first, second, fourth, eighth ... task.

    PySpark collects garbage after every task of a reused worker. Modules and compiled kernels live as long as the
    worker; traversing them each time takes 60 ms, more than a small task takes.
    """
    number = next(_ended_tasks)
    if not number & (number - 1):
        gc.freeze()


def answer_batch(answer: Any) -> pa.RecordBatch:
    """Return an answer in the form in which tasks return it."""
    return pa.record_batch([pa.array([pickle.dumps(answer)], pa.binary())], schema=_ANSWERS)


def answered(made: Iterator[Any]) -> Batches:
    """Yield answers in the form in which tasks return them, and the error that ends them, if any."""
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
    """Catch an error with a message for people, and give it in the form in which tasks return it."""
    refused: list[pa.RecordBatch] = []
    try:
        yield refused
    except HoldfastError as error:
        refused.append(answer_batch(_Refused(error)))
    except OSError as error:
        refused.append(answer_batch(_Refused(_out_of_reach(f"{socket.gethostname()}: {error}"))))


def _out_of_reach(what: str) -> ExternalError:
    return ExternalError(
        f"{what}\nEvery executor has to read the files, and to read and write the folder of blocks (--work, or "
        "'blocks.path'): check both there, and start again"
    )


def _explained(error: Exception) -> Exception:
    """Return the error of a job as one with a message for people."""
    from pyspark.errors import PythonException

    raised = _RAISED.findall(str(error))
    if raised:
        kind, text = raised[-1]
        if kind in _OWN_ERRORS:
            return _OWN_ERRORS[kind](text)
        if not kind:
            return _out_of_reach(text)
        if kind == TooManyEvidences.__name__:
            return UsageError(f"{text} in one task, too many to keep: {FEWER}")
    if isinstance(error, PythonException):
        return error
    return ExternalError(
        f"Spark: {first_line(str(error))}\nSee the logs of the executors. Where a Python worker was killed, there was "
        "too little memory for it: give executors more beside Java's, or let blocks have fewer rows (--block-rows, or "
        "'blocks.rows'); then start again"
    )


_OWN_ERRORS: dict[str, type[HoldfastError]] = {kind.__name__: kind for kind in (UsageError, InputError, ExternalError)}
_RAISED = re.compile(
    r"^(?:holdfast\.[\w.]+\.(\w+)|(?:\w*OSError|PermissionError|FileNotFoundError)): (.*)$", re.MULTILINE
)
