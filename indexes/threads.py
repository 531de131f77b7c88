"""Threads that all indexes of a process share: as many as the index with most threads uses.

Invariant: work that runs in these threads does not call `mapped`, as it would wait for the threads that it occupies;
when `mapped` returns or raises, none of its work is running.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def mapped(threads: int, work: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
    """Return the result of `work` for each task, in the order of the tasks.

    Parameters
    ----------
    threads : the number of tasks that run at a time; with one thread the caller runs them all.
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
    """Return the pool with this number of threads."""
    return ThreadPoolExecutor(threads, "index")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads
