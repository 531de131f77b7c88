"""Where tasks on blocks run: on Spark's executors, or, for small things and for tests, in this process.

Two ways to work: tasks that each answer something small, and an exchange, in which tasks give rows to numbered parts,
and each part is taken as a whole. Tasks are values, and work on them are plain functions of modules, so that they can
be sent anywhere; a task that is done twice answers the same.
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
"""Numbers of parts, each with rows that go there."""
Taken = Iterator[pa.Table]
"""The rows of one part, as they were given, in any order."""


class Executors(Protocol):
    """Runs work on tasks somewhere."""

    @property
    def cores(self) -> int:
        """How many tasks run at a time."""

    def run(self, work: Callable[[Task], Answer], tasks: Sequence[Task], *, light: bool = False) -> Iterator[Answer]:
        """Yield the answer to each task, in any order; tasks that are `light` may go several together."""

    def exchange(
        self,
        give: Callable[[Task], Given],
        tasks: Sequence[Task],
        parts: int,
        take: Callable[[Taken], Iterator[Answer]],
    ) -> Iterator[Answer]:
        """Yield what `take` makes of each of so many parts that got rows."""


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
        """Yield what `take` makes of each part."""
        given: list[list[pa.Table]] = [[] for _ in range(parts)]
        for task in tasks:
            for part, rows in give(task):
                given[part].append(rows)
        for some in given:
            if some:
                yield from take(iter(some))


def by_part(rows: pa.Table, parts: NDArray[np.integer[Any]]) -> Given:
    """Yield the rows of each part, in the order that they have. O(n log n)."""
    order = np.argsort(parts, kind="stable")
    ordered, numbers = rows.take(pa.array(order)).combine_chunks(), parts[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist() if len(numbers) else []
    for start, end in pairwise([*starts, len(numbers)]):
        yield int(numbers[start]), ordered.slice(start, end - start)
