"""How a benchmark measures: each point in a process of its own, so that peak memory is its own.

Invariant: what is timed asserts its answer; making the workload is outside the timed part.
"""

import multiprocessing
import os
import platform
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

Point = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """What one run took."""

    seconds: float
    peak_mb: int
    answer: Any


def measured(
    work: Callable[..., Any],
    *arguments: Any,
    prepare: Callable[..., Any] | None = None,
    limit: float | None = None,
) -> Measured:
    """Run `work(prepare(*arguments))`, or `work(*arguments)`, in a new process and time `work` alone.

    What takes longer than `limit` seconds, preparing included, is killed: its answer is None.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(there, work, arguments, prepare))
    process.start()
    there.close()
    if not here.poll(limit):
        process.kill()
        process.join()
        return Measured(float(limit or 0), 0, None)
    try:
        seconds, peak, answer = here.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"{work.__name__}{arguments} died with exit code {process.exitcode}") from None
    process.join()
    if isinstance(answer, BaseException):
        raise answer
    return Measured(seconds, peak, answer)


def _run(there: Any, work: Callable[..., Any], arguments: tuple[Any, ...], prepare: Callable[..., Any] | None) -> None:
    given = arguments if prepare is None else (prepare(*arguments),)
    start = time.perf_counter()
    try:
        answer = work(*given)
    except Exception as error:  # noqa: BLE001  (sent to whoever asked)
        answer = error
    seconds = time.perf_counter() - start
    there.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, answer))


def machine() -> Point:
    """Return what the figures depend on."""
    packages = ("numpy", "pyarrow", "numba", "pandas", "duckdb", "desbordante")
    return {
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }
