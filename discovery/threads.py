"""Work on parts in threads, which end soon where one of them fails or somebody interrupts."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Event
from typing import TypeVar

import numpy as np

Part = TypeVar("Part")
Task = TypeVar("Task")
Result = TypeVar("Result")

_PARTS_A_THREAD = 4


def spread(parts: Iterable[Part], threads: int, work: Callable[[Part, Event], Result]) -> list[Result]:
    """Return what `work` makes of each part; it is told to stop by an event that it looks at now and then."""
    stopped, parts = Event(), list(parts)
    if threads == 1 and len(parts) == 1:  # nothing to wait for beside it
        return [work(parts[0], stopped)]
    with ThreadPoolExecutor(threads) as pool:
        try:
            return list(pool.map(lambda part: work(part, stopped), parts))
        except BaseException:
            stopped.set()  # leaving the pool waits for its threads
            raise


def cut(tasks: Sequence[Task], threads: int) -> list[Sequence[Task]]:
    """Return runs of neighbouring tasks, a few for each thread.

    >>> cut("abcde", 1)
    ['a', 'b', 'c', 'de']
    """
    bounds = np.linspace(0, len(tasks), threads * _PARTS_A_THREAD + 1).astype(int).tolist()
    return [tasks[a:b] for a, b in pairwise(bounds) if a < b]
