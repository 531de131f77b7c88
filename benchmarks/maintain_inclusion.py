"""What does a batch of changes to TPC-H's lineitem cost the inclusions of all tables, as the tables grow?

Milliseconds of one batch: rows and their values, clusters, and the synced write of what changed; median over batches.
Spider is run once, anew, on the files of scale 0.1. A throughput is that of 10,000 rows of eight columns a batch.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Point, measured
from benchmarks.seed_inclusion import _spider, files_of
from holdfast.tables.arrays import as_slots

KEY = ("l_orderkey", "l_linenumber")
EIGHT = (*KEY, "l_partkey", "l_suppkey", "l_quantity", "l_extendedprice", "l_shipdate", "l_comment")
BATCHES = 10


def points() -> Iterator[Point]:
    peer = measured(_spider, "0.1", prepare=files_of).seconds
    for scale in ("0.1", "1"):
        run = measured(_history, scale, 1_000, None)
        found = {"scale": scale, "batch": 1_000, **run.answer, "peak_mb": run.peak_mb}
        if scale == "0.1":
            found |= {"spider_seconds": round(peer, 2), "times_spider": round(peer * 1_000 / run.answer["insert_ms"])}
        yield found
    run = measured(_history, "0.1", 10_000, EIGHT)
    yield {"scale": "0.1", "batch": 10_000, "columns": 8, **run.answer, "peak_mb": run.peak_mb}


def _history(scale: str, size: int, columns: tuple[str, ...] | None) -> Point:
    """Take rows of lineitem out, batch by batch, and put them back."""
    import numpy as np

    from holdfast import Maintainer, ReadOptions, from_arrow
    from holdfast.discovery.inclusion.seeding import clustering, file_values
    from holdfast.state.rocks import RocksStore
    from holdfast.streaming.maintainers.holdings.in_file import whole_of_file
    from holdfast.streaming.maintainers.inclusion.maintainer import InclusionMaintainer
    from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, Records
    from holdfast.streaming.maintainers.table.bounds import Bounds

    files = files_of(scale)
    file = next(file for file in files if file.stem == "lineitem")
    options = ReadOptions(include=columns)
    folder = Path(tempfile.mkdtemp())
    store = RocksStore(folder / "state")
    clusters, parts = clustering(
        [values for other in files for values in (file_values(file, options) if other == file else file_values(other))]
    )
    store.write(InclusionMaintainer.seed(clusters, parts, store.load))
    del parts
    inclusion = InclusionMaintainer.restore(store)
    assert inclusion is not None
    before = list(map(str, inclusion.constraints))
    maintainer = Maintainer.seed(whole_of_file(file, Bounds(None), options), key=list(KEY), max_predicates=None)
    types = ReadOptions(types={column.name: column.type for column in maintainer.schema})
    maintainer.follow_values(texts=False)
    for _ in maintainer.save(everything=True):
        pass
    taken = np.random.default_rng(1).permutation(maintainer.row_count)[: BATCHES * size]
    rows = maintainer.holding.rows.table(as_slots(taken)).to_arrow()
    point: Point = {"values": int(clusters.values.sum()), "constraints": len(before)}
    for name, operation in (("delete", DELETE), ("insert", INSERT)):
        times = []
        for start in range(0, len(rows), size):
            table = from_arrow(rows.slice(start, size), "lineitem", types)
            records = Records(table, np.full(size, operation, np.int8))
            first = time.perf_counter()
            result = maintainer.apply_records(records)
            inclusion.apply(result.values)
            store.write(inclusion.save())
            times.append(time.perf_counter() - first)
        point[f"{name}_ms"] = round(statistics.median(times) * 1_000, 1)
        point[f"{name}_slowest_ms"] = round(max(times) * 1_000, 1)
        point[f"{name}_rows_per_second"] = round(size / statistics.median(times))
    assert list(map(str, inclusion.constraints)) == before
    if scale == "0.1" and columns is None:
        from tests.invariants import check_invariants

        check_invariants(inclusion)
    store.close()
    shutil.rmtree(folder)
    return point
