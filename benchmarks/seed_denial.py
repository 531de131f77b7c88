"""How long does the complete set of denial constraints take, against Desbordante's FastADC on the same rows?

Both without reading the file, two threads, exact, all sizes of constraints; where FastADC takes more than a quarter
of an hour only ours is run. FastADC reads no nulls, so the tables have none. Its constraints are compared with ours as
sets, modulo mirror images. Kernels are compiled before the timed part, as they are once per installation.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import Measured, Point, measured

GROWTH = (30_000, 100_000, 300_000, 1_000_000)
PEER_ROWS = (10_000, 30_000, 100_000)
REAL = (
    ("airport_original", True, "latin-1", None),
    ("adult11", False, "utf-8", None),
    ("adult", False, "utf-8", 5_000),
)
ALONE = ("adult", False, "utf-8", None)
FOLDER = Path(__file__).parents[2] / "shared" / "data"


def points() -> Iterator[Point]:
    for name, crossing, encoding, limit in REAL:
        if not (FOLDER / f"{name}.csv.gz").exists():
            yield {"table": name, "left_out": "the real table is not beside this checkout"}
            continue
        ours = measured(_discovered_in, name, crossing, encoding, limit, prepare=_real)
        theirs = measured(_fast_adc, name, crossing, encoding, limit, prepare=_real_file)
        assert ours.answer == theirs.answer, (len(ours.answer - theirs.answer), len(theirs.answer - ours.answer))
        yield {"table": name, "rows": limit or "all", **_figures(ours), **_compared(ours, theirs)}
    if (FOLDER / f"{ALONE[0]}.csv.gz").exists():
        yield {"table": ALONE[0], "rows": "all", **_figures(measured(_discovered_in, *ALONE, prepare=_real))}
    for rows in PEER_ROWS:
        ours = measured(_discovered, rows, "WIDE", prepare=_tax)
        theirs = measured(_fast_adc, rows, "WIDE", prepare=_tax_file)
        assert ours.answer == theirs.answer, (len(ours.answer - theirs.answer), len(theirs.answer - ours.answer))
        yield {
            "table": "tax x 12",
            "rows": rows,
            **_figures(ours),
            **_compared(ours, theirs),
        }
    for columns, name in (("WIDE", "tax x 12"), ("NARROW", "tax x 8")):
        for rows in GROWTH:
            yield {"table": name, "rows": rows, **_figures(measured(_discovered, rows, columns, prepare=_tax))}


def _figures(ours: Measured) -> Point:
    return {"constraints": len(ours.answer), "seconds": round(ours.seconds, 2), "peak_mb": ours.peak_mb}


def _compared(ours: Measured, theirs: Measured) -> Point:
    return {
        "fastadc_seconds": round(theirs.seconds, 2),
        "fastadc_mb": theirs.peak_mb,
        "times_faster": round(theirs.seconds / ours.seconds, 1),
    }


def _real(name: str, crossing: bool, encoding: str, limit: int | None) -> Any:
    from holdfast import PredicateSpace, ReadOptions, discover, read_table
    from holdfast.tables import overlap

    table = read_table(FOLDER / f"{name}.csv.gz", ReadOptions(typed_header=True, encoding=encoding, limit=limit))
    space = PredicateSpace.build(table.schema, "auto" if crossing else "none", lambda a, b: overlap(table, a, b))
    discover(table, space=space, max_predicates=1, threads=2)
    return table, space


def _discovered_in(loaded: Any) -> frozenset[str]:
    from holdfast import discover

    table, space = loaded
    return frozenset(map(str, discover(table, space=space, max_predicates=0, threads=2)))


def _real_file(name: str, crossing: bool, encoding: str, limit: int | None) -> Any:
    import gzip

    import desbordante

    path = Path(tempfile.mkdtemp()) / f"{name}.csv"
    lines = gzip.decompress((FOLDER / f"{name}.csv.gz").read_bytes()).decode(encoding).splitlines(keepends=True)
    path.write_text("".join(lines[: None if limit is None else limit + 1]), "utf-8")
    algorithm = desbordante.dc.algorithms.FastADC()
    algorithm.load_data(table=(str(path), ",", True))
    return algorithm, _real(name, crossing, encoding, limit)[1]


def _tax(rows: int, columns: str) -> Any:
    from holdfast import discover, from_arrow
    from tests import taxes

    table = taxes.tax_records(rows, getattr(taxes, columns))
    discover(from_arrow(table.slice(0, 500), "warm"), max_predicates=0, threads=2)
    discover(from_arrow(taxes.tax_records(30_000, taxes.NARROW), "warm"), max_predicates=0, threads=2)
    return _encoded(table)


def _encoded(records: Any) -> Any:
    """Encode the records with zip codes as numbers, which FastADC takes them for."""
    from holdfast import ReadOptions, from_arrow
    from holdfast.constraints import parse_type

    return from_arrow(records, "tax", ReadOptions(types={"Zip": parse_type("integer")}))


def _discovered(table: Any) -> frozenset[str]:
    from holdfast import PredicateSpace, discover

    return frozenset(map(str, discover(table, space=PredicateSpace(table.schema), max_predicates=0, threads=2)))


def _tax_file(rows: int, columns: str) -> Any:
    import desbordante
    import pyarrow.csv

    from holdfast import PredicateSpace
    from tests import taxes

    records = taxes.tax_records(rows, getattr(taxes, columns))
    decoded = [c.cast(c.type.value_type) if hasattr(c.type, "value_type") else c for c in records.columns]
    records = records.from_arrays(decoded, records.column_names)
    path = Path(tempfile.mkdtemp()) / "tax.csv"
    pyarrow.csv.write_csv(records, path)
    algorithm = desbordante.dc.algorithms.FastADC()
    algorithm.load_data(table=(str(path), ",", True))
    return algorithm, PredicateSpace(_encoded(records).schema)


def _fast_adc(loaded: Any) -> frozenset[str]:
    from holdfast import parse_denial

    algorithm, space = loaded
    algorithm.execute(
        evidence_threshold=0.0,
        shard_length=350,
        allow_cross_columns=bool(space.crossing),
        minimum_shared_value=0.3,
        threads=2,
    )
    return frozenset(str(space.canonical(parse_denial(str(dc)))) for dc in algorithm.get_dcs())
