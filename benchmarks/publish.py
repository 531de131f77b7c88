"""What does the nth commit to the output tables cost, and how long does opening one take after 100,000?

Milliseconds of `Publisher.step`: a row for `batches` with each commit, rows for `constraint_changes` and `constraints`
with every tenth; compaction as configured is part of the step that does it. `fresh_ms` is what an append of the same
row costs by a handle opened for it, in the same run. The log stays a minute, which at this pace is some thousand
versions and as many as half an hour of one-second commits, or as by default, where nothing expires during the run.

`opening`: what a start does with a table: open it, ask for its last commit, append. After 100,000 real commits with the
log kept a minute; and with 100,000 versions in the log, which is more than a day of one-second commits to a table
that others follow. That log is written as text, with delta-rs' checkpoints, as appends and compactions would write it.
"""

import datetime
import itertools
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import Point, measured

COMMITS = 5_000
MANY = 100_000
GROUP = 500
MINUTE = datetime.timedelta(minutes=1)
DAYS = datetime.timedelta(days=2)
COMPACT_EVERY = 100


def points() -> Iterator[Point]:
    for log in (MINUTE, DAYS):
        run = measured(_nth, COMMITS, log)
        for point in run.answer:
            yield {"question": "nth commit", "log_kept": _text(log), **point, "peak_mb": run.peak_mb}
    for work in (_long_log, _long_history):
        run = measured(work, MANY)
        yield {"question": "opening", **run.answer, "peak_mb": run.peak_mb}


def _text(log: datetime.timedelta) -> str:
    return "1 minute" if log == MINUTE else "2 days (batches: 1 hour)"


def _nth(commits: int, log: datetime.timedelta) -> list[Point]:
    from holdfast.state.commits import Commits
    from holdfast.state.log import CommitLog
    from holdfast.state.memory import MemoryStore
    from holdfast.state.store import WriteBatch
    from holdfast.streaming.sinks.contract import Retention
    from holdfast.streaming.sinks.deltalake import DeltaLakeTable
    from holdfast.streaming.sinks.publisher import Publisher
    from holdfast.streaming.sinks.shapes import BATCHES, CONSTRAINT_CHANGES, CONSTRAINTS

    folder = Path(tempfile.mkdtemp())
    store = Commits(MemoryStore(), "app")
    state = store.identity.state_id
    shapes = (CONSTRAINT_CHANGES, CONSTRAINTS, BATCHES)
    tables = {s.name: DeltaLakeTable(str(folder / s.name), s, "app", state, None, Retention(log)) for s in shapes}
    publisher = Publisher(store, CommitLog(folder / "log", 0), tables, compact_every=COMPACT_EVERY)
    found = []
    all_ms: list[float] = []
    plain: list[float] = []
    changing: list[float] = []
    fresh: list[float] = []
    for n in range(1, commits + 1):
        store.commit(WriteBatch(), _payload(n, state))
        start = time.perf_counter()
        publisher.step()
        all_ms.append(1_000 * (time.perf_counter() - start))
        (changing if n % 10 == 0 else plain).append(all_ms[-1])
        if n % 50 == 0:
            start = time.perf_counter()
            other = DeltaLakeTable(str(folder / "batches"), BATCHES, "app", "other", None, Retention(log))
            other.publish([{**_batch(n, "other"), "source": "fresh"}], n)
            fresh.append(1_000 * (time.perf_counter() - start))
        if n % GROUP == 0:
            found.append(
                {
                    "commits": n,
                    "ms": _median(all_ms),
                    "p99_ms": round(statistics.quantiles(all_ms, n=100)[98], 1),
                    "batches_only_ms": _median(plain),
                    "three_tables_ms": _median(changing),
                    "fresh_ms": _median(fresh),
                    "log_files": len(list((folder / "batches" / "_delta_log").iterdir())),
                }
            )
            for some in (all_ms, plain, changing, fresh):
                some.clear()
    _check(folder, commits)
    shutil.rmtree(folder)
    return found


def _check(folder: Path, commits: int) -> None:
    from deltalake import DeltaTable

    rows = DeltaTable(folder / "batches").to_pyarrow_table()
    ours = [c for c, s in zip(rows["commit"].to_pylist(), rows["source"].to_pylist(), strict=True) if s != "fresh"]
    assert sorted(ours) == list(range(1, commits + 1))
    assert DeltaTable(folder / "constraint_changes").to_pyarrow_table().num_rows == commits // 10 * 2
    assert DeltaTable(folder / "constraints").to_pyarrow_table().num_rows == 50


def _payload(n: int, state: str) -> dict[str, list[dict[str, Any]]]:
    """Return what a batch publishes; every tenth replaces one of 50 constraints."""
    rows = {"batches": [_batch(n, state)]}
    if n % 10 == 0:
        change = {**_common(n, state), "committed_at": _now(), "date": _now()[:10], "witness": "[]", "cause": "data"}
        coming, going = _constraint(n // 10), _constraint(n // 10 - 50)
        rows["constraint_changes"] = [
            {**change, **coming, "change": "appeared"},
            {**change, **going, "change": "disappeared"},
        ]
        rows["constraints"] = [
            {**_common(n, state), **coming, "since_commit": n},
            {**_common(n, state), "constraint_id": going["constraint_id"], "_gone": True},
        ]
    return rows


def _constraint(number: int) -> dict[str, Any]:
    text = f"not(t.Zip = s.Zip and t.City != s.City and t.Number{number} != s.Number{number})"
    about = {"constraint_id": f"{number:064x}", "table_name": "tax", "family": "dc", "constraint": text, "size": 3}
    return {**about, "sentence": f"a zip code and number {number} have one city", "kind": "functional_dependency"}


def _batch(n: int, state: str) -> dict[str, Any]:
    offsets = {"start_offsets": f'{{"tax": {{"0": {n}}}}}', "end_offsets": f'{{"tax": {{"0": {n + 1}}}}}'}
    counts = {"rows_in": 100, "inserted": 90, "deleted": 5, "updated": 5, "table_rows": 30_000 + n, "constraints": 50}
    about = {"source": "tax", "query_id": "q", "batch_id": n, "seconds": '{"apply":0.012}', "committed_at": _now()}
    return {**_common(n, state), **about, **offsets, **counts}


def _common(n: int, state: str) -> dict[str, Any]:
    return {"commit": n, "application": "app", "state_id": state}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _long_log(versions: int) -> Point:
    """Make a table with so many versions that none has expired, then open it."""
    from deltalake import DeltaTable

    from holdfast.streaming.sinks.deltalake import DeltaLakeTable
    from holdfast.streaming.sinks.shapes import CONSTRAINT_CHANGES

    folder = Path(tempfile.mkdtemp())
    table = DeltaLakeTable(str(folder), CONSTRAINT_CHANGES, "app", "s")
    first = DeltaTable(folder).version() + 1
    table.publish([{**_common(1, "s"), "date": _now()[:10]}], 1)
    add = next(json.loads(line)["add"] for line in _version(folder, first).read_text().splitlines() if '"add"' in line)
    waiting = []
    for version in range(first + 1, versions):
        at = int(1_000 * time.time())
        added = {**add, "path": add["path"].replace("part-00000", f"part-{version}"), "modificationTime": at}
        lines: list[dict[str, Any]] = [{"add": added}]
        lines.append({"txn": {"appId": "s/constraint_changes", "version": version, "lastUpdated": at}})
        waiting.append(added)
        if len(waiting) == COMPACT_EVERY:
            lines += [{"remove": _removed(gone, at)} for gone in waiting]
            waiting = [added]
            lines[0]["add"] = {**added, "dataChange": True}
        lines.append({"commitInfo": {"timestamp": at, "operation": "WRITE", "operationParameters": {"mode": "Append"}}})
        _version(folder, version).write_text("\n".join(map(json.dumps, lines)) + "\n")
        if version % 1_000 == 0 or version == versions - 1:
            DeltaTable(folder).create_checkpoint()
    return {"log_kept": "2 days", **_opened(folder, CONSTRAINT_CHANGES)}


def _removed(added: dict[str, Any], at: int) -> dict[str, Any]:
    kept = {name: added[name] for name in ("path", "partitionValues", "size")}
    return {**kept, "dataChange": False, "deletionTimestamp": at, "extendedFileMetadata": True}


def _version(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020d}.json"


def _long_history(commits: int) -> Point:
    """Make so many real commits with a log that is kept a minute, then open the table."""
    from holdfast.streaming.sinks.contract import Retention
    from holdfast.streaming.sinks.deltalake import DeltaLakeTable
    from holdfast.streaming.sinks.shapes import BATCHES

    folder = Path(tempfile.mkdtemp())
    table = DeltaLakeTable(str(folder), BATCHES, "app", "s", None, Retention(MINUTE))
    groups, tidying, last_tidied = [], [], time.monotonic()
    for start in itertools.count(0, 10_000):
        if start >= commits:
            break
        taken = []
        for n in range(start + 1, start + 10_001):
            begun = time.perf_counter()
            table.publish([_batch(n, "s")], n)
            if n % COMPACT_EVERY == 0:
                table.compact()
            taken.append(1_000 * (time.perf_counter() - begun))
            if time.monotonic() - last_tidied > MINUTE.total_seconds():
                begun = time.perf_counter()
                table.tidy(datetime.datetime.now(datetime.UTC))
                tidying.append(round(time.perf_counter() - begun, 2))
                last_tidied = time.monotonic()
        groups.append(_median(taken))
    opened = _opened(folder, BATCHES, Retention(MINUTE))
    return {"log_kept": "1 minute", "ms_by_10000": groups, "slowest_tidying_s": max(tidying, default=0.0), **opened}


def _opened(folder: Path, shape: Any, *retention: Any) -> Point:
    """Time a start, and commits after it."""
    from holdfast.streaming.sinks.deltalake import DeltaLakeTable

    start = time.perf_counter()
    table = DeltaLakeTable(str(folder), shape, "app", "s", None, *retention)
    last = table.published
    opened = time.perf_counter()
    taken = []
    for n in range(last + 1, last + 101):
        begun = time.perf_counter()
        table.publish([{**_common(n, "s"), **({"date": _now()[:10]} if "date" in shape.names else {})}], n)
        taken.append(1_000 * (time.perf_counter() - begun))
    log_files = len(list((folder / "_delta_log").iterdir()))
    shutil.rmtree(folder)
    return {
        "commits": last,
        "log_files": log_files,
        "open_ms": round(1_000 * (opened - start), 1),
        "first_append_ms": round(taken[0], 1),
        "append_ms": _median(taken[1:]),
        "append_slowest_ms": round(max(taken[1:]), 1),
    }


def _median(taken: list[float]) -> float:
    return round(statistics.median(taken), 1)
