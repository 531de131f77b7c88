"""What does a batch of changes cost, against a discovery anew by us and by Desbordante's FastADC?

Seconds of `apply` alone: median over batches, and the slowest. Each table is seeded once; then come batches of
inserts, of deletes and (where there is a key) of updates that take all else from another row, and the set is compared
with our own discovery on the rows of the end, which is timed too. `times_discover` and `times_fastadc` say how many
times faster a batch of inserts is. Of deletes: evidences without a live pair, those found again, candidates and how
many of them some pair refuted.
"""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import Point, measured
from benchmarks.seed_denial import _fast_adc, _real_file, _tax_file

FOLDER = Path(__file__).parents[2] / "shared" / "data"
BATCHES = 5
GROWTH = (30_000, 100_000, 300_000, 1_000_000)
THREADS = 2


def points() -> Iterator[Point]:
    for bound in (0, 4):
        if (FOLDER / "airport_original.csv.gz").exists():
            peer = measured(_fast_adc, "airport_original", True, "latin-1", None, prepare=_real_file).seconds
            for rows in (1_000, 3_000):
                yield _point({"table": "airport", "bound": bound, "batch": rows}, _airport, bound, rows, peer=peer)
    peer = measured(_fast_adc, 100_000, "WIDE", prepare=_tax_file).seconds
    for bound in (0, 4):
        about = {"table": "tax 100k x 12", "bound": bound, "batch": 1_000}
        yield _point(about, _tax, 100_000, "WIDE", bound, 1_000, peer=peer)
    for rows in GROWTH:
        yield _point({"table": f"tax {rows:,} x 8", "bound": 4, "batch": 1_000}, _tax, rows, "NARROW", 4, 1_000)
    for rows in (30_000, 1_000_000):
        yield _point({"table": f"tax {rows:,} x 8", "bound": 4, "batch": 1}, _tax, rows, "NARROW", 4, 1)
    yield _point({"table": "tax 100k x 12, one wrong value in ten", "bound": 4, "batch": 1_000}, _errors, 100_000)
    for bound in (0, 4):
        about = {"table": "tax 100k x 12, rows that alone witness an evidence", "bound": bound}
        yield {**about, **measured(_timed, "_only_witnesses", (100_000, bound)).answer}
    if (FOLDER / "adult.csv.gz").exists():
        yield _point({"table": "adult 5k x 15", "bound": 0, "batch": 10}, _adult, 5_000, 10)


def _point(about: Point, work: Any, *arguments: Any, peer: float | None = None) -> Point:
    run = measured(_timed, work.__name__, arguments)
    found = run.answer
    if peer is not None:
        found["fastadc_seconds"] = round(peer, 2)
        found["times_fastadc"] = round(peer / found["insert_ms"] * 1_000)
    return {**about, **found, "peak_mb": run.peak_mb}


def _timed(work: str, arguments: tuple[Any, ...]) -> Point:
    found: Point = globals()[work](*arguments)
    return found


def _airport(bound: int, rows: int) -> Point:
    from holdfast import PredicateSpace, ReadOptions, read_table
    from holdfast.tables import overlap

    options = ReadOptions(typed_header=True, encoding="latin-1")
    seed = read_table(FOLDER / "airport_original.csv.gz", options)
    space = PredicateSpace.build(seed.schema, "auto", lambda a, b: overlap(seed, a, b))
    types = {column.name: column.type for column in seed.schema}
    more = read_table(FOLDER / "airport_incremental.csv.gz", _typed(types))
    return _history(seed.to_arrow(), more.to_arrow(), space, bound, rows, key=("ident",))


def _typed(types: Any) -> Any:
    from holdfast import ReadOptions

    return ReadOptions(typed_header=True, encoding="latin-1", types=types)


def _tax(rows: int, columns: str, bound: int, batch: int, error_rate: float = 0.0) -> Point:
    from holdfast import PredicateSpace, from_arrow
    from holdfast.tables import taxes

    records = taxes.tax_records(rows + 10 * BATCHES * batch, getattr(taxes, columns))
    seed, more = records.slice(0, rows), records.slice(rows)
    if error_rate:
        more = taxes.tax_records(len(more), getattr(taxes, columns), first_row=rows, error_rate=error_rate)
    space = PredicateSpace(from_arrow(seed.slice(0, 1), "tax").schema)
    key = ("AreaCode", "Phone") if columns == "WIDE" else ()
    return _history(seed, more, space, bound, batch, key)


def _errors(rows: int) -> Point:
    return _tax(rows, "WIDE", 4, 1_000, error_rate=0.1)


def _only_witnesses(rows: int, bound: int) -> Point:
    """Delete 100 rows, each of the only known pair of some evidence."""
    import numpy as np
    import pandas as pd

    from holdfast import Maintainer, PredicateSpace, discover, from_arrow, from_pandas
    from holdfast.tables import taxes

    table = from_arrow(taxes.tax_records(rows), "tax")
    maintainer = Maintainer.seed(table, max_predicates=bound, space=PredicateSpace(table.schema), threads=THREADS)
    certificate = maintainer._denial.certificate
    held = certificate.held
    alone = certificate.a_witness(held[certificate.witnesses_left(held) == 1])
    slots = np.unique(alone[:, 0])[:100]
    going = pd.DataFrame(maintainer._rows.values(slots))
    constraints = len(maintainer.constraints)
    first = time.perf_counter()
    changes = maintainer.apply(deletes=going)
    seconds = time.perf_counter() - first
    current = from_pandas(pd.DataFrame(maintainer._rows.values(maintainer._rows.live())), "tax")
    anew = discover(current, space=maintainer.space, max_predicates=bound, threads=THREADS)
    assert {str(c) for c in anew} == {str(c) for c in maintainer.constraints}
    return {
        "batch": len(slots),
        "constraints": constraints,
        "delete_ms": round(seconds * 1_000, 2),
        "delete_changes": len(changes),
        "delete_effort": {name: count for name, count in vars(maintainer.effort).items() if count},
    }


def _adult(rows: int, batch: int) -> Point:
    from holdfast import PredicateSpace, ReadOptions, read_table

    table = read_table(FOLDER / "adult.csv.gz", ReadOptions(typed_header=True))
    records = table.to_arrow()
    return _history(records.slice(0, rows), records.slice(rows), PredicateSpace(table.schema), 0, batch, ())


def _history(seed: Any, more: Any, space: Any, bound: int, batch: int, key: tuple[str, ...]) -> Point:
    """Seed, then insert, delete and update; every answer is checked at the end."""
    import numpy as np
    import pyarrow as pa

    from holdfast import Maintainer, ReadOptions, discover, from_arrow
    from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, Records

    types = ReadOptions(types={column.name: column.type for column in space.schema})

    def encoded(rows: Any) -> Any:
        return from_arrow(rows, space.schema.table, types)

    first = time.perf_counter()
    maintainer = Maintainer.seed(encoded(seed), key=key, max_predicates=bound, space=space, threads=THREADS)
    seeded = time.perf_counter() - first
    point: Point = {"constraints": len(maintainer.constraints), "seed_seconds": round(seeded, 2)}
    effort = maintainer.effort

    def run(name: str, batches: list[tuple[Any, int]]) -> None:
        before = vars(effort).copy()
        seconds, changes = [], 0
        for rows, operation in batches:
            table = encoded(rows)
            result = maintainer.apply_records(Records(table, np.full(table.row_count, operation, np.int8)))
            seconds.append(result.seconds)
            changes += len(result.changes)
        point[f"{name}_ms"] = round(statistics.median(seconds) * 1_000, 2)
        point[f"{name}_slowest_ms"] = round(max(seconds) * 1_000, 2)
        point[f"{name}_changes"] = changes
        if name != "insert":
            point[f"{name}_effort"] = {k: v - before[k] for k, v in vars(effort).items() if v != before[k]}

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
    anew = discover(last, space=space, max_predicates=bound, threads=THREADS)
    point["discover_seconds"] = round(time.perf_counter() - first, 3)
    point["times_discover"] = round(point["discover_seconds"] * 1_000 / point["insert_ms"], 1)
    assert {str(c) for c in anew} == {str(c) for c in maintainer.constraints}
    assert last.row_count == maintainer.row_count
    return point


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
