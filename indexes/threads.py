"""Threads that all indexes of a process share: as many as the widest of them uses, however many indexes there are.

Invariant: work that is shared does not share work itself, since it would wait for the threads that it takes; when
`mapped` returns or raises, none of its work is under way any more.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def mapped(threads: int, work: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
    """Return what `work` makes of each task, in the order of the tasks.

    Parameters
    ----------
    threads : so many tasks are worked on at a time; with one, the calling thread does them all.
    """
    if threads == 1:
        return [work(task) for task in tasks]
    futures = [_pool(threads).submit(work, task) for task in tasks]
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        wait(futures)
        raise


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return the threads for all who use so many."""
    return ThreadPoolExecutor(threads, "index")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads
