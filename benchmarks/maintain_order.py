"""What does a batch of changes cost order dependencies, against a discovery anew by us and by Desbordante's Fastod?

Seconds of `apply` alone, as in `maintain_denial`: median over batches, and the slowest; the set is compared with a
discovery of ours on the rows of the end, which is timed too. Fastod is run once, on the seed.
"""

from collections.abc import Iterator
from typing import Any

from benchmarks.histories import BATCHES, history, point
from benchmarks.measuring import Point, measured
from benchmarks.seed_order import FOLDER, _fastod, _frame

GROWTH = (30_000, 100_000, 300_000, 1_000_000)


def points() -> Iterator[Point]:
    if (FOLDER / "adult.csv.gz").exists():
        peer = measured(_fastod, "_real", "adult", prepare=_frame).seconds
        for batch in (1_000, 100, 1):
            yield point({"table": "adult 32k x 15", "bound": 0, "batch": batch}, _adult, 0, batch, fastod=peer)
        yield point({"table": "adult 32k x 15", "bound": 3, "batch": 1_000}, _adult, 3, 1_000)
    for rows in GROWTH:
        yield point({"table": f"tax {rows:,} x 8", "bound": 0, "batch": 1_000}, _tax, rows, 1_000, 0.0)
    for rows in (30_000, 1_000_000):
        yield point({"table": f"tax {rows:,} x 8", "bound": 0, "batch": 1}, _tax, rows, 1, 0.0)
    for rows in GROWTH:
        yield point({"table": f"distinct texts {rows:,} x 3", "bound": 0, "batch": 1_000}, _texts, rows, 1_000)
    about = {"table": "tax 100,000 x 8, one wrong value in ten", "bound": 0, "batch": 1_000}
    yield point(about, _tax, 100_000, 1_000, 0.1)
    both = {"table": "tax 100,000 x 8, denial constraints too", "bound": "4 and 0", "batch": 1_000}
    yield point(both, _with_denial, 100_000, 1_000)


def _adult(bound: int, batch: int) -> Point:
    """Keep the last rows back, in an order that has nothing to do with the file's."""
    import numpy as np

    from holdfast import PredicateSpace, ReadOptions, read_table
    from holdfast.streaming.maintainers.maintainer import Bounds

    table = read_table(FOLDER / "adult.csv.gz", ReadOptions(typed_header=True))
    records = table.to_arrow().take(np.random.default_rng(1).permutation(table.row_count))
    kept = len(records) - BATCHES * batch
    return history(
        records.slice(0, kept), records.slice(kept), PredicateSpace(table.schema), Bounds(None, bound), batch
    )


def _tax(rows: int, batch: int, error_rate: float) -> Point:
    from holdfast.streaming.maintainers.maintainer import Bounds

    return _of_taxes(rows, batch, error_rate, Bounds(None, 0))


def _texts(rows: int, batch: int) -> Point:
    """Rows that each bring a text of their own, at a random place in the order of all; the second column follows it."""
    import numpy as np
    import pyarrow as pa

    from holdfast import PredicateSpace, from_arrow
    from holdfast.streaming.maintainers.maintainer import Bounds

    numbers = np.random.default_rng(1).permutation(10 * rows)[: rows + BATCHES * batch]
    records = pa.table(
        {
            "code": [f"C-{number:010d}" for number in numbers.tolist()],
            "total": numbers // 100,
            "kind": numbers % 7,
        }
    )
    space = PredicateSpace(from_arrow(records.slice(0, 1), "texts").schema)
    return history(records.slice(0, rows), records.slice(rows), space, Bounds(None, 0), batch)


def _with_denial(rows: int, batch: int) -> Point:
    from holdfast.streaming.maintainers.maintainer import Bounds

    return _of_taxes(rows, batch, 0.0, Bounds(4, 0))


def _of_taxes(rows: int, batch: int, error_rate: float, bounds: Any) -> Point:
    from holdfast import PredicateSpace, from_arrow
    from tests import taxes

    records = taxes.tax_records(rows + BATCHES * batch, taxes.NARROW)
    seed, more = records.slice(0, rows), records.slice(rows)
    if error_rate:
        more = taxes.tax_records(len(more), taxes.NARROW, first_row=rows, error_rate=error_rate)
    return history(seed, more, PredicateSpace(from_arrow(seed.slice(0, 1), "tax").schema), bounds, batch)
