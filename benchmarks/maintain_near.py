"""What does a batch of changes cost the constraints that nearly hold, beside the denial constraints of the same table?

Milliseconds of `apply` alone, median over batches of 1,000 rows and the slowest, of two maintainers that follow the
same tax records with 1 % errors in turns. One keeps denial constraints of at most four predicates, the other one what
holds but for 1 % of the rows, contexts of at most three columns, with order compatibilities or without. `anew_share` is
the part of the border that is counted anew with a batch. At the end what nearly holds is compared with a discovery
anew, which is timed. Suspects: milliseconds of a processor, on average, of a batch that does not search for suspects
and where exceptions are, of a search for both (`where_cpu_ms` is the part for where exceptions are), and of a batch
where the rule of the outputs says which batches search; `search_share` is the part that searches have of these.
"""

import statistics
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.measuring import Point, measured

BATCH, THREADS = 1_000, 2
GROWTH = (30_000, 100_000, 300_000, 1_000_000)
SUSPECTS = (
    *((rows, 100, 140) for rows in (10_000, 30_000, 100_000, 1_000_000)),
    *((rows, 1_000, 100) for rows in (100_000, 1_000_000)),
)
"""Rows, rows of a batch, batches."""


def points() -> Iterator[Point]:
    tables = [(100_000, "WIDE", False, 50), (100_000, "WIDE", True, 5)]
    for rows, columns, orders, batches in (*tables, *((rows, "NARROW", False, 20) for rows in GROWTH)):
        run = measured(_history, rows, columns, orders, batches)
        table = f"tax {rows:,} x {run.answer.pop('columns')}, 1 % errors"
        yield {"table": table, "orders": orders, **run.answer, "peak_mb": run.peak_mb}
    for rows, batch, batches in SUSPECTS:
        run = measured(_suspects, rows, batch, batches)
        yield {"table": f"tax {rows:,} x 12, 1 % errors", "part": "suspects", **run.answer, "peak_mb": run.peak_mb}
    run = measured(_restarts, 1_000_000)
    yield {"table": "tax 1,000,000 x 8, 1 % errors", "part": "restart", **run.answer, "peak_mb": run.peak_mb}


def _seeded(records: Any, key: tuple[str, ...], families: Any) -> Any:
    from holdfast import Maintainer, from_arrow

    return Maintainer.seed(from_arrow(records, "tax"), key=key, threads=THREADS, **families)


def _history(rows: int, columns: str, orders: bool, batches: int) -> Point:
    """Insert, delete and update, both maintainers in turns."""
    import numpy as np
    import pyarrow as pa

    from holdfast import ReadOptions, discover, from_arrow
    from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, Records
    from tests import taxes

    every = taxes.tax_records(rows + 2 * batches * BATCH, getattr(taxes, columns), error_rate=0.01).combine_chunks()
    seed, more = every.slice(0, rows), every.slice(rows)
    key = ("AreaCode", "Phone") if columns == "WIDE" else ()
    every = None
    found: Point = {"columns": len(seed.column_names), "batch": BATCH, "batches": batches}
    maintainers = {}
    nearly = {"max_predicates": None, "near": "1%", "near_orders": orders}
    for name, families in (("denial", {"max_predicates": 4}), ("near", nearly)):
        started = time.perf_counter()
        maintainers[name] = _seeded(seed, key, families)
        found[f"{name}_seed_seconds"] = round(time.perf_counter() - started, 2)
    near = maintainers["near"]
    found |= {"near": len(near.near), "border": near.near_maintainer.effort.border}
    types = ReadOptions(types={column.name: column.type for column in near.schema})

    def run(kind: str, some: list[Any], operation: int) -> None:
        seconds: dict[str, list[float]] = {name: [] for name in maintainers}
        before = near.near_maintainer.effort
        for one in some:
            table = from_arrow(one, "tax", types)
            for name, maintainer in maintainers.items():
                records = Records(table, np.full(table.row_count, operation, np.int8))
                seconds[name].append(maintainer.apply_records(records).seconds)
        after = near.near_maintainer.effort
        for name, took in seconds.items():
            found[f"{name}_{kind}_ms"] = round(statistics.median(took) * 1_000, 1)
            found[f"{name}_{kind}_slowest_ms"] = round(max(took) * 1_000, 1)
        found[f"{kind}_ratio"] = round(found[f"near_{kind}_ms"] / found[f"denial_{kind}_ms"], 2)
        anew = (after.counted_anew - before.counted_anew) / batches
        found[f"{kind}_anew_share"] = round(anew / max(after.border, 1), 4)
        found[f"{kind}_searches"] = after.searches - before.searches

    def slices(records: Any, start: int) -> list[Any]:
        return [records.slice(start + i * BATCH, BATCH) for i in range(batches)]

    run("insert", slices(more, 0), INSERT)
    run("delete", slices(seed, 0), DELETE)
    if key:
        old, other = seed.slice(batches * BATCH, batches * BATCH), more.slice(batches * BATCH, batches * BATCH)
        if len(old) == len(other):
            changed = pa.table({n: (old if n in key else other).column(n) for n in seed.column_names})
            run("update", slices(changed, 0), INSERT)
    live = from_arrow(near.rows()[0], "tax", types)
    started = time.perf_counter()
    anew = discover(live, near="1%", family="key,fd,od" if orders else "key,fd", threads=THREADS)
    found["anew_seconds"] = round(time.perf_counter() - started, 2)
    found["times_anew"] = round(found["anew_seconds"] * 1_000 / found["near_insert_ms"])
    assert {(str(one), one.exceptions) for one in anew} == {(str(one), one.exceptions) for one in near.near}
    return found


def _suspects(rows: int, batch: int, batches: int) -> Point:
    """Insert batches, some of which search for suspects."""
    import numpy as np

    from holdfast import ReadOptions, from_arrow
    from holdfast.streaming.maintainers.maintainer import INSERT, Records
    from holdfast.streaming.maintainers.near.suspects import SuspectBatches
    from tests import taxes

    every = taxes.tax_records(rows + batches * batch, taxes.WIDE, error_rate=0.01).combine_chunks()
    nearly = {"max_predicates": None, "near": "1%", "near_orders": False}
    maintainer = _seeded(every.slice(0, rows), (), nearly)
    maintainer.follow_suspects(SuspectBatches())
    near = maintainer.near_maintainer
    near.seed_searches()
    follow, where = near.concentrations.follow, [0.0]

    def timed(*given: Any, is_due: bool) -> None:
        started = time.process_time()
        follow(*given, is_due=is_due)
        where[0] += time.process_time() - started

    near.concentrations.follow = timed
    types = ReadOptions(types={column.name: column.type for column in maintainer.schema})
    took: dict[bool, list[float]] = {True: [], False: []}
    for number in range(batches):
        table = from_arrow(every.slice(rows + number * batch, batch), "tax", types)
        records = Records(table, np.full(batch, INSERT, np.int8))
        started = time.process_time()
        result = maintainer.apply_records(records)
        took[result.suspects.is_searched].append(time.process_time() - started)
    plain, every_batch = statistics.mean(took[False]), statistics.mean([*took[True], *took[False]])
    return {
        "batch": batch,
        "batches": batches,
        "plain_cpu_ms": round(plain * 1_000, 1),
        "search_cpu_ms": round((statistics.mean(took[True]) - plain) * 1_000, 1),
        "where_cpu_ms": round(where[0] * 1_000 / len(took[True]), 1),
        "searches": len(took[True]),
        "cpu_ms": round(every_batch * 1_000, 1),
        "search_share": round(1 - plain / every_batch, 3),
        "suspects": result.suspects.found,
    }


def _restarts(rows: int) -> Point:
    """Restore a maintainer without and with what nearly holds."""
    from holdfast import Maintainer, from_arrow
    from holdfast.state.memory import MemoryStore
    from tests import taxes

    table = from_arrow(taxes.tax_records(rows, taxes.NARROW, error_rate=0.01), "tax")
    found: Point = {}
    for name, near in (("without", None), ("with", "1%")):
        maintainer = Maintainer.seed(table, max_predicates=None, near=near, near_orders=False, threads=THREADS)
        store = MemoryStore()
        for batch in maintainer.save(everything=True):
            store.write(batch)
        del maintainer
        started = time.perf_counter()
        Maintainer.restore(store, threads=THREADS)
        found[f"{name}_seconds"] = round(time.perf_counter() - started, 2)
    return found
