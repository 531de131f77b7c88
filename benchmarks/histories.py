"""A history of batches: inserts, deletes and, where there is a key, updates, each timed, with the answer checked."""

import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.measuring import Point, measured

BATCHES = 5
THREADS = 2


def point(about: Point, work: Callable[..., Point], *arguments: Any, **peers: float) -> Point:
    """Return what a history in a process of its own gives, and how many times faster it is than each peer anew."""
    run = measured(work, *arguments)
    found = run.answer
    for name, seconds in peers.items():
        found[f"{name}_seconds"] = round(seconds, 2)
        found[f"times_{name}"] = round(seconds / found["insert_ms"] * 1_000)
        found[f"deletes_times_{name}"] = round(seconds / found["delete_ms"] * 1_000)
    return {**about, **found, "peak_mb": run.peak_mb}


def history(seed: Any, more: Any, space: Any, bounds: Any, batch: int, key: tuple[str, ...] = ()) -> Point:
    """Seed, then insert, delete and update; every answer is checked at the end."""
    import numpy as np
    import pyarrow as pa

    from holdfast import Maintainer, ReadOptions, discover, from_arrow
    from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, Records

    types = ReadOptions(types={column.name: column.type for column in space.schema})

    def encoded(rows: Any) -> Any:
        return from_arrow(rows, space.schema.table, types)

    first = time.perf_counter()
    maintainer = Maintainer.seed(
        encoded(seed),
        key=key,
        max_predicates=bounds.max_predicates,
        max_context=bounds.max_context,
        space=space,
        threads=THREADS,
    )
    seeded = time.perf_counter() - first
    found: Point = {"constraints": len(maintainer.constraints), "seed_seconds": round(seeded, 2)}

    def run(name: str, batches: list[tuple[Any, int]]) -> None:
        before = maintainer.effort
        seconds, changes = [], 0
        for rows, operation in batches:
            table = encoded(rows)
            result = maintainer.apply_records(Records(table, np.full(table.row_count, operation, np.int8)))
            seconds.append(result.seconds)
            changes += len(result.changes)
        found[f"{name}_ms"] = round(statistics.median(seconds) * 1_000, 2)
        found[f"{name}_slowest_ms"] = round(max(seconds) * 1_000, 2)
        found[f"{name}_changes"] = changes
        if name != "insert":
            found[f"{name}_effort"] = dict(maintainer.effort - before)

    def slices(rows: Any, start: int, operation: int) -> list[tuple[Any, int]]:
        return [(rows.slice(start + i * batch, batch), operation) for i in range(batches)]

    batches = min(BATCHES, len(more) // batch)
    count = batches * batch
    seed, more = (table.combine_chunks() for table in (seed, more))
    run("insert", slices(more, 0, INSERT))
    run("delete", slices(seed, 0, DELETE))
    current = pa.concat_tables([seed.slice(count), more.slice(0, count)], promote_options="default")
    if key:
        old, other = seed.slice(count, count), seed.take(pa.array(_successors(seed, key)[count : 2 * count]))
        changed = pa.table({n: (old if n in key else other).column(n) for n in seed.column_names})
        run("update", slices(changed, 0, INSERT))
        current = pa.concat_tables([seed.slice(2 * count), more.slice(0, count), changed], promote_options="default")
    last = encoded(current)
    first = time.perf_counter()
    anew = [
        str(constraint)
        for family, bound in bounds.families.items()
        for constraint in discover(
            last, family=family, space=space, max_predicates=bound, max_context=bound, threads=THREADS
        )
    ]
    found["discover_seconds"] = round(time.perf_counter() - first, 3)
    found["times_discover"] = round(found["discover_seconds"] * 1_000 / found["insert_ms"], 1)
    found["deletes_times_discover"] = round(found["discover_seconds"] * 1_000 / found["delete_ms"], 1)
    assert set(anew) == {str(c) for c in maintainer.constraints}
    assert last.row_count == maintainer.row_count
    return found


def _successors(rows: Any, key: tuple[str, ...]) -> Any:
    """Return for each row another one whose values it may take: of the same first key column, if there are several."""
    import numpy as np

    if len(key) == 1:
        return (np.arange(len(rows)) + 1) % len(rows)
    group = rows.column(key[0]).combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.argsort(group, kind="stable")
    following = np.append(order[1:], order[-1])
    successors = np.empty(len(rows), np.int64)
    successors[order] = np.where(group[order] == group[following], following, order)
    return successors
