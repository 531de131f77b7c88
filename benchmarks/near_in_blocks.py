"""What do constraints that nearly hold cost where rows are in blocks, beside the same rows in memory?

Keys and functional dependencies that hold but for 1 % of the rows, contexts of at most three columns, of tax records
with 1 % errors. All tasks run in one process, one after another, so that what is counted is the work itself, in seconds
of the processor: discovery in memory, in blocks that nobody has read yet, and again; then the median of batches of
1,000 inserts and of 1,000 deletes, applied to a maintainer of each. Spark adds its jobs: `jobs` says how many of them
a discovery has. Answers are compared.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from benchmarks.measuring import Point, measured

TABLES = ((200_000, "WIDE", 1 << 16), (1_000_000, "NARROW", 1 << 18))
BATCH, BATCHES = 1_000, 6


def points() -> Iterator[Point]:
    for rows, columns, block_rows in TABLES:
        run = measured(_compared, rows, columns, block_rows)
        table = f"tax {rows:,} x {run.answer.pop('columns')}, 1 % errors"
        yield {"table": table, "block_rows": block_rows, **run.answer, "peak_mb": run.peak_mb}


def _compared(rows: int, columns: str, block_rows: int) -> Point:
    from fractions import Fraction

    import numpy as np

    from holdfast import Maintainer, from_arrow
    from holdfast.discovery.blocks.discover import discover_near_blocks
    from holdfast.discovery.blocks.executors import InProcess
    from holdfast.discovery.blocks.storage.block import Rows, write_blocks
    from holdfast.discovery.blocks.storage.location import Storage
    from holdfast.discovery.blocks.storage.table import BlockTable, Source
    from holdfast.discovery.near.discover import discover_near
    from holdfast.streaming.maintainers.holdings.in_blocks import WholeInBlocks
    from tests import taxes

    class Counted(InProcess):
        """Counts jobs."""

        jobs = 0

        def run(self, work: Any, tasks: Any, *, light: bool = False) -> Any:
            Counted.jobs += 1
            return super().run(work, tasks, light=light)

        def exchange(self, give: Any, tasks: Any, parts: int, take: Any) -> Any:
            Counted.jobs += 1
            return super().exchange(give, tasks, parts, take)

    every = taxes.tax_records(rows + BATCHES * BATCH, getattr(taxes, columns), error_rate=0.01).combine_chunks()
    table, share = from_arrow(every.slice(0, rows), "tax"), Fraction(1, 100)
    found: Point = {"columns": len(table.schema)}
    discover_near(table.taken(np.arange(1_000)), share, families=("key", "fd"))  # compiles
    with tempfile.TemporaryDirectory(prefix="holdfast-near-") as folder:
        storage = Storage.at(folder)
        blocks = list(write_blocks(storage.open(), Rows(np.arange(rows), table), block_rows))
        in_blocks = BlockTable(Source(storage, table.schema, block_rows), blocks, Counted(2))
        expected, found["memory_seconds"] = _timed(lambda: discover_near(table, share, families=("key", "fd")))
        ours, found["first_seconds"] = _timed(lambda: discover_near_blocks(in_blocks, share))
        assert list(ours) == list(expected)
        Counted.jobs = 0
        ours, found["again_seconds"] = _timed(lambda: discover_near_blocks(in_blocks, share))
        found |= {"near": len(ours), "jobs": Counted.jobs}
        asked: Any = {"max_predicates": None, "near": share, "near_orders": False, "threads": 1}
        maintainers = (Maintainer.seed(table, **asked), Maintainer.seed(WholeInBlocks(in_blocks), **asked))
        starts = range(0, BATCHES * BATCH, BATCH)
        found |= _followed("insert", maintainers, [every.slice(rows + start, BATCH) for start in starts])
        found |= _followed("delete", maintainers, [every.slice(start, BATCH) for start in starts])
    return found


def _followed(kind: str, maintainers: Sequence[Any], batches: Sequence[Any]) -> Point:
    """Apply batches to a maintainer in memory and to one in blocks; return milliseconds."""
    took: tuple[list[float], list[float]] = ([], [])
    for batch in batches:
        results = []
        for maintainer, seconds in zip(maintainers, took, strict=True):
            result, one = _timed(partial(maintainer.step, **{f"{kind}s": batch}))
            results.append(result.near)
            seconds.append(one)
        assert results[0] == results[1]
    memory, blocks = (round(1_000 * statistics.median(seconds)) for seconds in took)
    return {f"memory_{kind}_ms": memory, f"blocks_{kind}_ms": blocks}


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what work returns, and the seconds of the processor that it took."""
    started = time.process_time()
    answer = work()
    return answer, round(time.process_time() - started, 3)
