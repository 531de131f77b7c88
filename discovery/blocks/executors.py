"""Where tasks on blocks run: on Spark's executors, or, for small things and for tests, in this process.

Two ways to work: tasks that each answer something small, and an exchange, in which tasks emit rows that say to which
part they go, and each part is taken as a whole. Tasks are values, and work on them are plain functions of modules, so
that they can be sent anywhere; a task that is done twice answers the same.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

PART = "part"
"""The column that says to which part a row goes."""

Task = TypeVar("Task")
Answer = TypeVar("Answer")
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Exchange:
    """How rows change hands.

    Parameters
    ----------
    schema : of the rows; its first column is `PART`.
    parts : numbers of parts are below this.
    order : the columns by which the rows of a part are sorted; none where any order will do.
    """

    schema: pa.Schema
    parts: int
    order: tuple[str, ...] = ()


class Executors(Protocol):
    """Runs work on tasks somewhere."""

    @property
    def cores(self) -> int:
        """How many tasks run at a time."""

    def run(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[Answer]:
        """Yield the answer to each task, in any order."""

    def exchange(
        self,
        emit: Callable[[Task], Batches],
        tasks: Sequence[Task],
        how: Exchange,
        take: Callable[[Batches], Iterator[Answer]],
    ) -> Iterator[Answer]:
        """Yield what `take` makes of each part of the rows that `emit` makes of tasks."""


class InProcess:
    """Runs everything here, one after another.

    Parameters
    ----------
    cores : how many tasks plans may think run at a time.
    """

    def __init__(self, cores: int = 1) -> None:
        self._cores = cores

    @property
    def cores(self) -> int:
        """How many tasks plans may think run at a time."""
        return self._cores

    def run(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[Answer]:
        """Yield the answer to each task."""
        return map(work, tasks)

    def exchange(
        self,
        emit: Callable[[Task], Batches],
        tasks: Sequence[Task],
        how: Exchange,
        take: Callable[[Batches], Iterator[Answer]],
    ) -> Iterator[Answer]:
        """Yield what `take` makes of each part."""
        rows = pa.Table.from_batches([batch for task in tasks for batch in emit(task)], how.schema)
        for number in range(how.parts):
            part = rows.filter(pc.equal(rows.column(PART), number)).combine_chunks()
            if how.order:
                keys = [(name, "ascending", "at_start") for name in how.order]
                part = part.take(pc.sort_indices(part, keys))
            if len(part):
                yield from take(iter(part.to_batches(max_chunksize=1 << 16)))
