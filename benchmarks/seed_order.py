"""How long does the complete set of order dependencies take, against Desbordante's Fastod on the same rows?

Both without reading the file, exact; ours with two threads, Fastod has one. Its dependencies are compared with ours as
sets. Fastod is killed after ten minutes; its own limit of time did not end it. With a bound on the
context, which Fastod does not know, ours is run alone, on more and more columns.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import Measured, Point, measured

FOLDER = Path(__file__).parents[2] / "shared" / "data"
REAL = ("adult", "hyod_ncv100k", "hyod_fuel", "hyod_wp")
GROWTH = (30_000, 100_000, 300_000, 1_000_000)
PEER_SECONDS = 600
COLUMNS = (10, 20, 30)
THREADS = 2


def points() -> Iterator[Point]:
    for name in REAL:
        if (FOLDER / f"{name}.csv.gz").exists():
            yield {"table": name, **_both(_real, name)}
        else:
            yield {"table": name, "left_out": "the real table is not beside this checkout"}
    for rows in GROWTH:
        if rows == GROWTH[-1]:
            yield {"table": "tax x 8", "rows": rows, **_both(_tax, rows)}
        else:
            yield {"table": "tax x 8", "rows": rows, **_figures(measured(_discovered, rows, prepare=_tax))}
    for columns in COLUMNS:
        ours = measured(_discovered_small, columns, prepare=_wide)
        yield {"table": "tax, three side by side", "rows": 30_000, "columns": columns, "bound": 3, **_figures(ours)}


def _both(table: Any, *arguments: Any) -> Point:
    ours = measured(_discovered, *arguments, prepare=table)
    theirs = measured(_fastod, table.__name__, *arguments, prepare=_frame, limit=PEER_SECONDS)
    found = {**_figures(ours), "fastod_seconds": round(theirs.seconds, 2), "fastod_mb": theirs.peak_mb}
    if theirs.answer is None:
        found["fastod"] = f"killed after {PEER_SECONDS} s"
    else:
        assert ours.answer == theirs.answer, (len(ours.answer - theirs.answer), len(theirs.answer - ours.answer))
    return {**found, "times_faster": round(theirs.seconds / ours.seconds, 1)}


def _figures(ours: Measured) -> Point:
    constant = sum("->" in text for text in ours.answer)
    return {
        "constant": constant,
        "compatible": len(ours.answer) - constant,
        "seconds": round(ours.seconds, 3),
        "peak_mb": ours.peak_mb,
    }


def _real(name: str) -> Any:
    from holdfast import ReadOptions, discover, from_arrow, read_table
    from tests import taxes

    discover(from_arrow(taxes.tax_records(3_000, taxes.NARROW), "warm"), family="od", max_context=0, threads=THREADS)
    return read_table(FOLDER / f"{name}.csv.gz", ReadOptions(typed_header=True))


def _tax(rows: int) -> Any:
    from holdfast import discover, from_arrow
    from tests import taxes

    discover(from_arrow(taxes.tax_records(3_000, taxes.NARROW), "warm"), family="od", max_context=0, threads=THREADS)
    return from_arrow(taxes.tax_records(rows, taxes.NARROW), "tax")


def _wide(columns: int) -> Any:
    """Return ten columns each of up to three tables of tax records that have nothing to do with each other."""
    import pyarrow as pa

    from holdfast import from_arrow
    from tests import taxes

    _tax(3_000)
    beside: dict[str, Any] = {}
    for block in range(3):
        records = taxes.tax_records(30_000, taxes.WIDE[:10], seed=block + 1)
        beside |= {f"{name}{block}": records.column(name) for name in records.column_names}
    return from_arrow(pa.table(dict(list(beside.items())[:columns])), "tax")


def _discovered(table: Any) -> frozenset[str]:
    from holdfast import discover

    return frozenset(map(str, discover(table, family="od", max_context=0, threads=THREADS)))


def _discovered_small(table: Any) -> frozenset[str]:
    from holdfast import discover

    return frozenset(map(str, discover(table, family="od", max_context=3, threads=THREADS)))


def _frame(table: str, *arguments: Any) -> Any:
    import pyarrow as pa

    encoded = globals()[table](*arguments).to_arrow()
    decoded = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in encoded.columns]
    frame = pa.table(dict(zip(encoded.column_names, decoded, strict=True))).to_pandas()
    return _algorithm(frame), encoded.column_names


def _algorithm(frame: Any) -> Any:
    import desbordante

    algorithm = desbordante.od.algorithms.Fastod()
    algorithm.load_data(table=frame)
    return algorithm


def _fastod(loaded: Any) -> frozenset[str]:
    algorithm, names = loaded
    algorithm.execute()
    listed = [*algorithm.get_simple_ods(), *algorithm.get_asc_ods(), *algorithm.get_desc_ods()]
    return frozenset(_in_our_words(str(text), names) for text in listed)


def _in_our_words(text: str, names: list[str]) -> str:
    """Return one of Fastod's dependencies, which name columns by number, as ours are written."""
    from holdfast import parse_order
    from holdfast.constraints.names import quoted

    match = re.match(r"\{([\d,]*)\} : (?:\[\] -> (\d+)|(\d+)([<>])= ~ (\d+))", text)
    assert match is not None, text

    def name(number: str) -> str:
        return quoted(names[int(number) - 1])

    context = ", ".join(name(number) for number in sorted(match[1].split(","), key=int)) if match[1] else ""
    if match[2]:
        return str(parse_order(f"{{{context}}}: [] -> {name(match[2])}"))
    left, right = sorted((match[3], match[5]), key=int)
    return str(parse_order(f"{{{context}}}: {name(left)} ~ {name(right)}{'' if match[4] == '<' else ' desc'}"))
