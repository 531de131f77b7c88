"""What do two executors of one core do in the time of one, and does the driver's memory grow with the table?

A real standalone cluster of as many workers as executors, on this machine, each worker with its executor and its Python
held to one processor; the driver has the machine. The same Parquet file is read into blocks by the executors, then
searched. Kernels are compiled and workers started before anything is timed. Answers are compared
with those in memory, and between the runs. `driver_mb` is the peak of the driver's Python process since its start, and
`heap_mb` what its Java holds after a collection: neither has rows in it.

HOLDFAST_SCALE_ROWS and HOLDFAST_SCALE_PROBED set the numbers of rows.
"""

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.measuring import Point, measured

if TYPE_CHECKING:
    from holdfast.constraints import Rule
    from holdfast.streaming.maintainers.maintainer import Maintainer

ROWS = int(os.environ.get("HOLDFAST_SCALE_ROWS", "1000000"))
PROBED = int(os.environ.get("HOLDFAST_SCALE_PROBED", "5000000"))
BATCH, BATCHES = 10_000, 5
BLOCK_ROWS = 1 << 17
RULES = {
    "zip_city": "Zip -> City",
    "zip_state": "Zip -> State",
    "area_state": "AreaCode -> State",
    "phone": "key(AreaCode, Phone)",
    "exemption": "State, HasChild -> ChildExemp",
    "rate": "State, Salary -> Rate",
    "rate_rises": "not(t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate)",
    "bonus_rises": "not(t.Salary > s.Salary and t.Bonus < s.Bonus)",
    "tax_rises": "not(t.Zip = s.Zip and t.Salary > s.Salary and t.Deduct > s.Deduct and t.Tax < s.Tax)",
    "positive": "not(t.Salary <= 0)",
}
NARROW_BOUND = 4
_SETTINGS = {
    "spark.executor.memory": "1g",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
    "spark.executorEnv.HOLDFAST_CACHE_MB": "4096",
}


def points() -> Iterator[Point]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-scale-"))
    try:
        yield from _scaled(folder)
        yield from _memory(folder)
    finally:
        shutil.rmtree(folder)


def _scaled(folder: Path) -> Iterator[Point]:
    """Time each kind of work on one executor and on two."""
    one, two = (measured(_all_work, str(folder), executors).answer for executors in (1, 2))
    for work in one:
        assert one[work]["answer"] == two[work]["answer"], work
        yield {
            "work": work,
            "rows": one[work]["rows"],
            "one_executor_seconds": one[work]["seconds"],
            "two_executors_seconds": two[work]["seconds"],
            "times": round(one[work]["seconds"] / two[work]["seconds"], 2),
        }


def _memory(folder: Path) -> Iterator[Point]:
    """Show what the driver holds for a table, and for one of five times the rows."""
    for rows in (ROWS, 5 * ROWS):
        found = measured(_search_alone, str(folder), rows).answer
        yield {"work": "driver memory", "rows": rows, **found}
    for rows in (ROWS, 5 * ROWS):
        found = measured(_follow_alone, str(folder), rows).answer
        yield {"work": "driver memory of a live table", "rows": rows, **found}


def _file(folder: Path, rows: int, name: str) -> Path:
    """Make tax records, a million at a time."""
    from tests.taxes import NARROW, WIDE, tax_records

    path = folder / f"{name}-{rows}.parquet"
    if not path.exists():
        columns = WIDE if name == "wide" else NARROW
        step, writer = min(rows, 1_000_000), None
        for first in range(0, rows, step):
            part = tax_records(step, columns, error_rate=0.001 if name == "wide" else 0.0, first_row=first)
            writer = writer or pq.ParquetWriter(path, part.schema)
            writer.write_table(part, row_group_size=BLOCK_ROWS)
        assert writer is not None
        writer.close()
    return path


def _all_work(folder_name: str, executors: int) -> dict[str, dict[str, Any]]:
    """Do everything on so many executors; return seconds and answers."""
    from holdfast.constraints import PredicateSpace, Rule, parse_rule_body
    from holdfast.discovery.blocks.counting.checking import check_blocks
    from holdfast.discovery.blocks.discover import discover_blocks
    from holdfast.discovery.blocks.search.probing import probe_blocks
    from holdfast.discovery.blocks.storage.block import Rows
    from holdfast.discovery.blocks.storage.table import BlockTable
    from holdfast.tables import from_arrow
    from tests.taxes import NARROW, tax_records

    folder = Path(folder_name)
    found: dict[str, dict[str, Any]] = {}

    def timed(work: str, rows: int, do: Callable[[], Any], answer: Callable[[Any], Any] = len) -> Any:
        start = time.perf_counter()
        made = do()
        found[work] = {"seconds": round(time.perf_counter() - start, 2), "rows": rows, "answer": answer(made)}
        return made

    rules = [Rule(name, "wide", parse_rule_body(text)) for name, text in RULES.items()]
    with _Cluster(executors) as cluster:
        warm = cluster.read(_file(folder, 4_000, "wide"), 500)
        discover_blocks(warm, PredicateSpace(warm.schema), 2)
        check_blocks({"wide": warm}, [Rule(r.name, "wide", r.body) for r in rules])
        narrow_file, wide_file = _file(folder, ROWS, "narrow"), _file(folder, ROWS, "wide")
        narrow = timed("read narrow", ROWS, lambda: cluster.read(narrow_file), _rows)
        space = PredicateSpace(narrow.schema)
        again = BlockTable(narrow.source, narrow.base.blocks, narrow.executors)
        timed("sort by a column", ROWS, lambda: again.arranged((narrow.schema.index("Zip"),)), _rows_of_blocks)
        timed(
            "seed narrow",
            ROWS,
            lambda: discover_blocks(narrow, space, NARROW_BOUND),
            lambda discovered: sorted(map(str, discovered)),
        )
        wide = timed("read wide", ROWS, lambda: cluster.read(wide_file), _rows)
        holding = timed(
            "seed wide",
            ROWS,
            lambda: discover_blocks(wide, PredicateSpace(wide.schema), 3),
            lambda discovered: sorted(map(str, discovered)),
        )
        timed(
            "detect 10 rules",
            ROWS,
            lambda: check_blocks({"wide": wide}, rules),
            lambda checked: [(c.violating_pairs, c.violating_rows) for c in checked],
        )
        constraints = [Rule(f"c{i}", "wide", body) for i, body in enumerate(list(holding)[:20])]
        timed(
            "detect 20 constraints",
            ROWS,
            lambda: check_blocks({"wide": wide}, constraints),
            lambda checked: [str(c.rule) for c in checked if c.holds],
        )
        large = cluster.read(_file(folder, PROBED, "narrow"))
        masks = discover_blocks(narrow, space, 3).constraints.masks[:20]
        batch = tax_records(BATCH, NARROW, error_rate=0.001, first_row=PROBED)
        probed = Rows(np.arange(PROBED, PROBED + BATCH), from_arrow(batch, "narrow"))

        def probe() -> Any:
            return probe_blocks(large, space, probed, masks)

        timed("first probe of 10,000 rows", PROBED, probe, lambda e: sorted(map(bytes, e.words)))
        timed("probe of 10,000 rows", PROBED, probe, lambda e: sorted(map(bytes, e.words)))
        live = timed("seed a live table", ROWS, lambda: _live(cluster.read(narrow_file), rules), _standing)
        batches = [_batch(ROWS, number) for number in range(1 + BATCHES)]
        timed("first batch of 10,000 rows", ROWS, lambda: live.step(*batches[0]), lambda _: _standing(live))

        def follow() -> None:
            for batch in batches[1:]:
                live.step(*batch)
                live.committed()

        timed(f"{BATCHES} batches of 10,000 rows", ROWS, follow, lambda _: _standing(live))
    return found


def _live(table: Any, rules: Sequence["Rule"]) -> "Maintainer":
    from holdfast.constraints import Rule
    from holdfast.streaming.maintainers.holdings.in_blocks import WholeInBlocks
    from holdfast.streaming.maintainers.maintainer import Maintainer

    some = [rule for rule in rules if all(column in table.schema for column in rule.columns)]
    mine = [Rule(rule.name, table.schema.table, rule.body) for rule in some]
    return Maintainer.seed(WholeInBlocks(table), max_predicates=NARROW_BOUND, rules=mine)


def _standing(live: "Maintainer") -> list[str]:
    """Return what is known of a live table, as texts."""
    return [str(live.row_count), *sorted(map(str, live.constraints)), *map(str, live.rules)]


def _batch(rows: int, number: int) -> tuple[Any, Any]:
    """Return what is inserted with a batch, and which of the first rows are deleted."""
    from tests.taxes import NARROW, tax_records

    inserts = tax_records(BATCH * 9 // 10, NARROW, first_row=rows + number * BATCH)
    return inserts, tax_records(BATCH // 10, NARROW, first_row=rows // 2 + number * BATCH)


def _rows(table: Any) -> int:
    return int(table.row_count)


def _rows_of_blocks(arrangement: Any) -> int:
    return sum(block.rows for block in arrangement.blocks)


def _search_alone(folder_name: str, rows: int) -> Point:
    """Search a table; return what the driver holds."""
    from holdfast.constraints import PredicateSpace
    from holdfast.discovery.blocks.discover import discover_blocks

    def searched(table: Any) -> int:
        return len(discover_blocks(table, PredicateSpace(table.schema), NARROW_BOUND))

    return _held(folder_name, rows, searched)


def _follow_alone(folder_name: str, rows: int) -> Point:
    """Seed a live table, and follow some batches; return what the driver holds."""

    def followed(table: Any) -> int:
        live = _live(table, ())
        for number in range(BATCHES):
            live.step(*_batch(rows, number))
            live.committed()
        return live.count

    return _held(folder_name, rows, followed)


def _held(folder_name: str, rows: int, work: Callable[[Any], int]) -> Point:
    """Do something with a table on two executors; return what the driver holds."""
    from holdfast.constraints import PredicateSpace
    from holdfast.discovery.blocks.discover import discover_blocks

    folder = Path(folder_name)
    file = _file(folder, rows, "narrow")
    with _Cluster(2) as cluster:
        made = _file(folder, 4_000, "narrow")
        warm = cluster.read(made, 500)
        discover_blocks(warm, PredicateSpace(warm.schema), 2)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        start = time.perf_counter()
        count = work(cluster.read(file))
        seconds = time.perf_counter() - start
        java: Any = cluster.spark._jvm
        java.System.gc()
        runtime = java.Runtime.getRuntime()
        return {
            "constraints": count,
            "seconds": round(seconds, 1),
            "driver_mb_before": before,
            "driver_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "heap_mb": (runtime.totalMemory() - runtime.freeMemory()) >> 20,
        }


class _Cluster:
    """A cluster of its own, and a session on it."""

    def __init__(self, executors: int) -> None:
        self._executors = executors

    def __enter__(self) -> "_Cluster":
        from contextlib import ExitStack

        from holdfast.discovery.blocks.storage.location import Storage
        from holdfast.streaming.spark.executors import SparkExecutors
        from holdfast.streaming.spark.session import session_for
        from tests.cluster import running_cluster
        from tests.processes import tree

        self._ending = ExitStack()
        folder = Path(tempfile.mkdtemp(prefix="holdfast-cluster-"))
        self._ending.callback(shutil.rmtree, folder, ignore_errors=True)
        cluster = self._ending.enter_context(running_cluster(folder, workers=self._executors, memory="2g"))
        for number, daemon in enumerate(cluster.workers.values()):
            for pid in tree(daemon.shell):
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    os.sched_setaffinity(int(thread.name), {number % (os.cpu_count() or 1)})
        self.spark = session_for(cluster.master, {**cluster.settings, **_SETTINGS}, name="scale")
        self._ending.callback(self.spark.stop)
        self.spark.sparkContext.setLogLevel("ERROR")
        cluster.wait_for_executors(self.spark.sparkContext.applicationId, self._executors)
        self._storage = Storage.at(str(folder / "blocks"))
        self._storage.open().prepare()
        self._on = SparkExecutors(self.spark, self._executors)
        return self

    def read(self, path: Path, rows: int = BLOCK_ROWS) -> Any:
        """Read a file into blocks."""
        from holdfast.discovery.blocks.storage.reading import read_blocks
        from holdfast.tables import ReadOptions

        return read_blocks(path, ReadOptions(), self._storage, rows, self._on, name=path.stem.partition("-")[0]).table

    def __exit__(self, *_: object) -> None:
        self._ending.close()
