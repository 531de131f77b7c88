"""What do a restart and a new state cost, and what a commit, as commits pile up?

`saved` is a seeded maintainer written into an empty store, to the end of `close`; `restored` opens it in a new process
and takes the table over; both without making the table and without the seed. `discover_seconds` is our own discovery
on the same table, for scale; `times_discover` says how many times longer a seed takes that is saved. `again_seconds`
restores after updates of a tenth of the rows in batches of 1,000, each saved. Answers: constraints, rows and the sum of
all codes are those of before.

Commits: 20,000 of 100 updated rows each onto a million rows of eight columns, with ledger, outbox and log record as in
a run, each synced; every tenth is followed by what the publisher does. Then the process is killed, and the store is
opened. `cpu` are seconds of processor time, of all threads: they say more where others use the machine too.
"""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import Point, measured

SIZES = ((100_000, "NARROW"), (1_000_000, "NARROW"), (1_000_000, "WIDE"))
BOUND, THREADS = 4, 2
COMMITS, CHANGED = 20_000, 100
_BATCH, _SHARE = 1_000, 10


def points() -> Iterator[Point]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-restart-"))
    try:
        for rows, columns in SIZES:
            name = f"tax {rows:,} x {8 if columns == 'NARROW' else 12}"
            seeded = measured(_seeded, rows, columns, folder / name)
            discovered = measured(_discovered, rows, columns).answer
            restored = measured(_restored, folder / name)
            again = measured(_updated, folder / name)
            back = measured(_restored, folder / name)
            assert restored.answer["state"] == seeded.answer.pop("state")
            assert back.answer["state"] == again.answer["state"]
            seconds = seeded.answer["seed_seconds"] + seeded.answer["saved_seconds"]
            yield {
                "table": name,
                **seeded.answer,
                "discover_seconds": discovered,
                "times_discover": round(seconds / discovered, 2),
                "running_peak_mb": seeded.peak_mb,
                "restored_seconds": restored.answer["seconds"],
                "restored_cpu": restored.answer["cpu"],
                "restored_peak_mb": restored.peak_mb,
                "updates_save_ms": again.answer["save_ms"],
                "again_seconds": back.answer["seconds"],
                "again_cpu": back.answer["cpu"],
                "again_folder_mb": back.answer["folder_mb"],
            }
        child = measured(_committed_and_killed, folder / "commits")
        opened = measured(_opened, folder / "commits").answer
        yield {"table": "1,000,000 rows x 8", "commits": COMMITS, "rows_each": CHANGED, **child.answer, **opened}
    finally:
        shutil.rmtree(folder)


def _table(rows: int, columns: str) -> Any:
    from holdfast import from_arrow
    from tests import taxes

    return from_arrow(taxes.tax_records(rows, getattr(taxes, columns)), "tax")


def _discovered(rows: int, columns: str) -> float:
    from holdfast import PredicateSpace, discover

    table = _table(rows, columns)
    space = PredicateSpace(table.schema)
    discover(_table(100, columns), space=space, max_predicates=BOUND, threads=THREADS)  # loads the kernels
    first = time.perf_counter()
    discover(table, space=space, max_predicates=BOUND, threads=THREADS)
    return round(time.perf_counter() - first, 2)


def _seeded(rows: int, columns: str, path: Path) -> Point:
    from holdfast import Maintainer, PredicateSpace
    from holdfast.state.rocks import RocksStore

    table = _table(rows, columns)
    key = ("AreaCode", "Phone") if columns == "WIDE" else ()
    space = PredicateSpace(table.schema)
    first = time.perf_counter()
    maintainer = Maintainer.seed(table, key=key, max_predicates=BOUND, space=space, threads=THREADS)
    seeded, cpu = time.perf_counter(), time.process_time()
    store = RocksStore(path)
    for batch in maintainer.save(everything=True):
        store.write(batch)
    store.close()
    saved, cpu = time.perf_counter(), time.process_time() - cpu
    return {
        "constraints": len(maintainer.constraints),
        "seed_seconds": round(seeded - first, 2),
        "saved_seconds": round(saved - seeded, 2),
        "saved_cpu": round(cpu, 2),
        "folder_mb": _megabytes(path),
        "state": _sums(maintainer),
    }


def _restored(path: Path) -> Point:
    from holdfast import Maintainer
    from holdfast.state.rocks import RocksStore

    first, cpu = time.perf_counter(), time.process_time()
    store = RocksStore(path)
    maintainer = Maintainer.restore(store, threads=THREADS)
    seconds, cpu = time.perf_counter() - first, time.process_time() - cpu
    store.close()
    return {
        "seconds": round(seconds, 2),
        "cpu": round(cpu, 2),
        "state": _sums(maintainer),
        "folder_mb": _megabytes(path),
    }


def _updated(path: Path) -> Point:
    """Give a tenth of the rows another one's last values, in batches that are saved each."""
    import numpy as np

    from holdfast import Maintainer
    from holdfast.state.rocks import RocksStore
    from holdfast.state.store import WriteBatch

    store = RocksStore(path)
    maintainer = Maintainer.restore(store, threads=THREADS)
    rows = maintainer._rows
    rng = np.random.default_rng(1)
    live = rng.permutation(rows.live())[: len(rows) // _SHARE]
    times = []
    for start in range(0, len(live), _BATCH):
        slots = live[start : start + _BATCH]
        old, new = rows.codes[slots], rows.codes[slots]
        new[:, -1] += 1
        codes, copies = np.unique(np.concatenate([old, new]), axis=0, return_inverse=True)
        signs = np.bincount(copies, np.repeat([-1.0, 1.0], len(slots)), len(codes)).astype(np.int64)
        rows.begin()
        for family in maintainer._families:
            family.begin()
        maintainer._followed(rows.change(codes[signs != 0], signs[signs != 0]))
        rows.forget()
        first = time.perf_counter()
        change = WriteBatch()
        for part in maintainer.save():
            change.add(part)
        store.write(change)
        times.append(time.perf_counter() - first)
    store.close()
    return {"state": _sums(maintainer), "save_ms": round(statistics.median(times) * 1_000, 2)}


def _committed_and_killed(path: Path) -> Point:
    """Commit in a process of its own, which dies without closing anything."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_committing, args=(there, path))
    process.start()
    there.close()
    answer: Point = here.recv()
    process.join()
    return answer


def _committing(there: Any, path: Path) -> None:
    import numpy as np

    from holdfast.state import codecs
    from holdfast.state.commits import Commits, LedgerEntry
    from holdfast.state.pieces import Pieces
    from holdfast.state.rocks import RocksStore
    from holdfast.state.store import WriteBatch

    rng = np.random.default_rng(1)
    sizes = [50, 20_000, 6_000, 260, 2, 40, 20, 100]
    table = rng.integers(0, sizes, (1_000_000, 8))
    held, commits = Pieces("rows"), Commits(RocksStore(path), "benchmark")

    def stored(slots: Any) -> bytes:
        return codecs.codes(np.ones(len(slots), np.int64)) + codecs.codes(table[slots])

    prefix = codecs.number(0)
    for part in held.save_all(prefix, np.arange(len(table)), stored):
        commits.bulk(part)
    commits.commit(WriteBatch(), {})
    outbox = {"batches": [{f"column {i}": "a value of some length" for i in range(20)}]}
    seconds, largest = [], 0.0
    for i in range(COMMITS):
        slots = np.unique(rng.integers(0, len(table), CHANGED))
        table[slots] = rng.integers(0, sizes, (len(slots), 8))
        first = time.perf_counter()
        change = WriteBatch()
        for part in held.save(prefix, slots, lambda slots: np.ones(len(slots), np.bool_), stored):
            change.add(part)
        number = commits.commit(change, outbox, source="s", batch=LedgerEntry("q", i, str(i), str(i + 1), 0))
        seconds.append(time.perf_counter() - first)
        if i % 10 == 9:
            for record, _ in list(commits.unlogged()):
                commits.logged(record)
            commits.published(number)
        if i % 100 == 0:
            largest = max(largest, _megabytes(path, "*.log"))
    cuts = statistics.quantiles(seconds, n=100)
    there.send(
        {
            "commit_p50_ms": round(cuts[49] * 1_000, 2),
            "commit_p99_ms": round(cuts[98] * 1_000, 2),
            "commit_slowest_ms": round(max(seconds) * 1_000, 1),
            "first_2000_p50_ms": round(statistics.median(seconds[:2_000]) * 1_000, 2),
            "last_2000_p50_ms": round(statistics.median(seconds[-2_000:]) * 1_000, 2),
            "log_of_writes_mb": round(largest),
            "folder_mb": _megabytes(path),
        }
    )
    there.close()
    os._exit(9)


def _opened(path: Path) -> Point:
    from holdfast.state.rocks import RocksReader, RocksStore

    first = time.perf_counter()
    with RocksReader(path) as reader:
        reader.get("meta", b"commit")
    read = time.perf_counter()
    store = RocksStore(path)
    opened = time.perf_counter()
    pieces = sum(1 for _ in store.scan("rows"))
    scanned = time.perf_counter()
    store.close()
    return {
        "reader_seconds": round(read - first, 3),
        "opened_seconds": round(opened - read, 3),
        "pieces": pieces,
        "scanned_seconds": round(scanned - opened, 2),
    }


def _sums(maintainer: Any) -> tuple[list[str], int, int]:
    import numpy as np

    rows = maintainer._rows
    codes = rows.codes[rows.live()].view(np.uint64)
    return sorted(map(str, maintainer.constraints)), len(rows), int(codes.sum()) ^ int((codes * codes).sum())


def _megabytes(path: Path, pattern: str = "*") -> float:
    return round(sum(file.stat().st_size for file in path.glob(pattern)) / 2**20, 1)
