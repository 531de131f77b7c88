"""Where tasks on blocks run: on Spark's executors, or, for small tables and for tests, in this process.

Two ways to work: tasks with small answers, and an exchange, in which tasks give rows to numbered parts, and each part
is processed as a whole. Tasks are values and work is plain functions of modules, so that both can be sent anywhere; a
task that runs twice has the same answer.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Task = TypeVar("Task")
Answer = TypeVar("Answer")
Given = Iterator[tuple[int, pa.Table]]
"""Numbers of parts, each with rows for the part."""
Taken = Iterator[pa.Table]
"""The rows of one part, as tasks gave them, in any order."""


class Executors(Protocol):
    """Runs work on tasks somewhere."""

    @property
    def cores(self) -> int:
        """The number of tasks that run at a time."""

    def run(self, work: Callable[[Task], Answer], tasks: Sequence[Task], *, light: bool = False) -> Iterator[Answer]:
        """Yield the answer to each task, in any order; `light` tasks may be sent several together."""

    def exchange(
        self,
        give: Callable[[Task], Given],
        tasks: Sequence[Task],
        parts: int,
        take: Callable[[Taken], Iterator[Answer]],
    ) -> Iterator[Answer]:
        """Yield the answers of `take` for each of the parts that got rows."""


class InProcess:
    """Runs all tasks in this process, one after the other.

    Parameters
    ----------
    cores : the number of tasks that plans assume to run at a time.
    """

    def __init__(self, cores: int = 1) -> None:
        self.cores = cores

    def run(
        self,
        work: Callable[[Task], Answer],
        tasks: Sequence[Task],
        *,
        light: bool = False,  # noqa: ARG002  (one after another)
    ) -> Iterator[Answer]:
        """Yield the answer to each task."""
        return map(work, tasks)

    def exchange(
        self,
        give: Callable[[Task], Given],
        tasks: Sequence[Task],
        parts: int,
        take: Callable[[Taken], Iterator[Answer]],
    ) -> Iterator[Answer]:
        """Yield the answers of `take` for each part that got rows."""
        given: list[list[pa.Table]] = [[] for _ in range(parts)]
        for task in tasks:
            for part, rows in give(task):
                given[part].append(rows)
        for some in given:
            if some:
                yield from take(iter(some))


def by_part(rows: pa.Table, parts: NDArray[np.integer[Any]]) -> Given:
    """Yield the rows of each part, in their order. O(n log n)."""
    order = np.argsort(parts, kind="stable")
    ordered, numbers = rows.take(pa.array(order)).combine_chunks(), parts[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist() if len(numbers) else []
    for start, end in pairwise([*starts, len(numbers)]):
        yield int(numbers[start]), ordered.slice(start, end - start)
