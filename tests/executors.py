"""Executors for tests whose subject is not Spark: tasks run here, and travel as those of Spark do.

Invariant: nothing is shared between the driver's side and a task: work, tasks and answers are pickled on their way, work
as PySpark pickles it, and rows of an exchange are packed.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import cloudpickle

from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.storage.packing import packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from holdfast.discovery.blocks.executors import Given, Taken

Task = TypeVar("Task")
Answer = TypeVar("Answer")
CORES = 2


class Apart(InProcess):
    """Sends tasks, rows and answers as if they were done elsewhere."""

    def run(self, work: Callable[[Task], Answer], tasks: Sequence[Task], *, light: bool = False) -> Iterator[Answer]:
        """Yield the answer to each task."""
        there, sent = _sent((work, list(tasks)))
        return (_sent(answer) for answer in super().run(there, sent, light=light))

    def exchange(
        self,
        give: Callable[[Task], Given],
        tasks: Sequence[Task],
        parts: int,
        take: Callable[[Taken], Iterator[Answer]],
    ) -> Iterator[Answer]:
        """Yield what `take` makes of each part."""
        give_there, sent, take_there = _sent((give, list(tasks), take))

        def given(task: Any) -> Given:
            for part, rows in give_there(task):
                assert part < parts
                yield part, unpacked(packed(rows))

        return (_sent(answer) for answer in super().exchange(given, sent, parts, take_there))


class ExecutorsHere(Apart):
    """Takes the place of `SparkExecutors` of a session.

    Parameters
    ----------
    spark : the session, which is asked where it runs, and for nothing else.
    """

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(CORES)
        self.spark = spark


def _sent(value: Any) -> Any:
    return pickle.loads(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]
