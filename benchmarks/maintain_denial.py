"""What does a batch of changes cost, against a discovery anew by us and by Desbordante's FastADC?

Seconds of `apply` alone: median over batches, and the slowest. Each table is seeded once; then come batches of
inserts, of deletes and (where there is a key) of updates that take all else from another row, and the set is compared
with our own discovery on the rows of the end, which is timed too. `times_discover` and `times_fastadc` say how many
times faster a batch of inserts is. Of deletes: evidences without a live pair, those found again, candidates and how
many of them some pair refuted.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.histories import BATCHES, THREADS, history, point
from benchmarks.measuring import Point, measured
from benchmarks.seed_denial import _fast_adc, _real_file, _tax_file
from holdfast.tables.arrays import as_slots

FOLDER = Path(__file__).parents[2] / "shared" / "data"
GROWTH = (30_000, 100_000, 300_000, 1_000_000)


def points() -> Iterator[Point]:
    for bound in (0, 4):
        if (FOLDER / "airport_original.csv.gz").exists():
            peer = measured(_fast_adc, "airport_original", True, "latin-1", None, prepare=_real_file).seconds
            for rows in (1_000, 3_000):
                yield point({"table": "airport", "bound": bound, "batch": rows}, _airport, bound, rows, fastadc=peer)
    peer = measured(_fast_adc, 100_000, "WIDE", prepare=_tax_file).seconds
    for bound in (0, 4):
        about = {"table": "tax 100k x 12", "bound": bound, "batch": 1_000}
        yield point(about, _tax, 100_000, "WIDE", bound, 1_000, fastadc=peer)
    for rows in GROWTH:
        yield point({"table": f"tax {rows:,} x 8", "bound": 4, "batch": 1_000}, _tax, rows, "NARROW", 4, 1_000)
    for rows in (30_000, 1_000_000):
        yield point({"table": f"tax {rows:,} x 8", "bound": 4, "batch": 1}, _tax, rows, "NARROW", 4, 1)
    yield point({"table": "tax 100k x 12, one wrong value in ten", "bound": 4, "batch": 1_000}, _errors, 100_000)
    for bound in (0, 4):
        about = {"table": "tax 100k x 12, rows that alone witness an evidence", "bound": bound}
        yield {**about, **measured(_only_witnesses, 100_000, bound).answer}
    if (FOLDER / "adult.csv.gz").exists():
        yield point({"table": "adult 5k x 15", "bound": 0, "batch": 10}, _adult, 5_000, 10)


def _airport(bound: int, rows: int) -> Point:
    from holdfast import PredicateSpace, ReadOptions, read_table
    from holdfast.streaming.maintainers.maintainer import Bounds
    from holdfast.tables import overlap

    options = ReadOptions(typed_header=True, encoding="latin-1")
    seed = read_table(FOLDER / "airport_original.csv.gz", options)
    space = PredicateSpace.build(seed.schema, "auto", lambda a, b: overlap(seed, a, b))
    types = {column.name: column.type for column in seed.schema}
    more = read_table(FOLDER / "airport_incremental.csv.gz", _typed(types))
    return history(seed.to_arrow(), more.to_arrow(), space, Bounds(bound), rows, key=("ident",))


def _typed(types: Any) -> Any:
    from holdfast import ReadOptions

    return ReadOptions(typed_header=True, encoding="latin-1", types=types)


def _tax(rows: int, columns: str, bound: int, batch: int, error_rate: float = 0.0) -> Point:
    from holdfast import PredicateSpace, from_arrow
    from holdfast.streaming.maintainers.maintainer import Bounds
    from tests import taxes

    records = taxes.tax_records(rows + 10 * BATCHES * batch, getattr(taxes, columns))
    seed, more = records.slice(0, rows), records.slice(rows)
    if error_rate:
        more = taxes.tax_records(len(more), getattr(taxes, columns), first_row=rows, error_rate=error_rate)
    space = PredicateSpace(from_arrow(seed.slice(0, 1), "tax").schema)
    key = ("AreaCode", "Phone") if columns == "WIDE" else ()
    return history(seed, more, space, Bounds(bound), batch, key)


def _errors(rows: int) -> Point:
    return _tax(rows, "WIDE", 4, 1_000, error_rate=0.1)


def _only_witnesses(rows: int, bound: int) -> Point:
    """Delete 100 rows, each of the only known pair of some evidence."""
    import numpy as np
    import pandas as pd

    from holdfast import Maintainer, PredicateSpace, discover, from_arrow, from_pandas
    from tests import taxes

    table = from_arrow(taxes.tax_records(rows), "tax")
    maintainer = Maintainer.seed(table, max_predicates=bound, space=PredicateSpace(table.schema), threads=THREADS)
    certificate = maintainer._families[0].certificate
    held = certificate.held
    alone = certificate.a_witness(held[certificate.witnesses_left(held) == 1])
    slots = np.unique(alone[:, 0])[:100]
    going = pd.DataFrame(maintainer._rows.values(as_slots(slots)))
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
        "delete_effort": dict(maintainer.effort),
    }


def _adult(rows: int, batch: int) -> Point:
    from holdfast import PredicateSpace, ReadOptions, read_table
    from holdfast.streaming.maintainers.maintainer import Bounds

    table = read_table(FOLDER / "adult.csv.gz", ReadOptions(typed_header=True))
    records = table.to_arrow()
    return history(records.slice(0, rows), records.slice(rows), PredicateSpace(table.schema), Bounds(0), batch, ())
