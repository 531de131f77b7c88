"""Work on parts in threads, all of which end soon when one fails or the caller is interrupted."""

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
    """Return the result of `work` for each part; work should end soon after its second argument, an event, is set."""
    stopped, parts = Event(), list(parts)
    if threads == 1 and len(parts) == 1:  # in the calling thread
        return [work(parts[0], stopped)]
    with ThreadPoolExecutor(threads) as pool:
        try:
            return list(pool.map(lambda part: work(part, stopped), parts))
        except BaseException:
            stopped.set()  # leaving the pool waits for its threads
            raise


def cut(tasks: Sequence[Task], threads: int) -> list[Sequence[Task]]:
    """Cut tasks into runs of neighbours, a few for each thread.

    >>> cut("abcde", 1)
    ['a', 'b', 'c', 'de']
    """
    bounds = np.linspace(0, len(tasks), threads * _PARTS_A_THREAD + 1).astype(int).tolist()
    return [tasks[a:b] for a, b in pairwise(bounds) if a < b]


def shared_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common prefix of two sequences, as walks of sorted tasks reuse their prefixes.

    >>> shared_prefix((1, 2, 5), (1, 2, 3, 5)), shared_prefix((), (1,))
    (2, 0)
    """
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
