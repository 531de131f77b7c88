"""Do the constraints that people mean come first, and are suspects wrong cells?

Rules that experts wrote for the tax table: how many of the 17 are among the first 34 constraints that nearly hold, on
the clean and on the dirty table, among the first 34 denial constraints, and in one list of both. A key on fewer columns
counts for the one that it implies. Denial constraints of other tables, and of random values: how many are sound.
Suspects: how many are
cells that differ between the dirty and the clean table (numbers compared by value, quotes removed), and how many of
these cells they are; on tables without errors, how many there are at all. Errors of our own in other tables: half of
them a value of another row, half a value with a letter more. Two threads; seconds are of one run, without reading.

Constraints that appear on a live table: processor time of scoring one of them, and all at once, as the table grows.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.measuring import Point

FOLDER = Path(__file__).parents[2] / "shared" / "data"
SHARE, FIRST = "1%", 34
THRESHOLDS = (0.99, 0.9, 0.5)
ERRORS = {"hospital10k": 300, "tax55k_clean": 800, "adult": 500}

_PLACES = ("area_code", "state", "zip")
EXPERTS = [
    "{zip}: [] -> city",
    "{zip}: [] -> state",
    "{area_code}: [] -> state",
    "{f_name}: [] -> gender",
    "key(area_code, phone)",
    "{area_code, salary}: [] -> rate",
    "{state, salary}: [] -> rate",
    "{state, single_exemp}: [] -> married_exemp",
    *(f"{{{place}, has_child}}: [] -> child_exemp" for place in _PLACES),
    *(f"{{{place}, marital_status}}: [] -> {exemp}_exemp" for place in _PLACES for exemp in ("single", "married")),
]


def points() -> Iterator[Point]:
    if not (FOLDER / "tax55k_dirty.csv.gz").exists():
        yield {"table": "tax55k_dirty", "left_out": "the real tables are not beside this checkout"}
        return
    for table in ("tax55k_clean", "tax55k_dirty"):
        yield _experts(table)
        yield _one_list(table)
    for table in ("tax55k_clean", "hospital10k", "adult"):
        for cross in ("auto", "related"):
            about = {"table": table, "cross_columns": cross}
            yield {**about, **_sound(FOLDER / f"{table}.csv.gz", cross, experts=table.startswith("tax"))}
    for rows in (60, 300, 1_000, 2_000):
        yield {"table": "random", "rows": rows, **_sound(_random(rows))}
    for rows in (30_000, 100_000, 1_000_000):
        yield {"table": f"tax {rows:,} x 12, live", **_appearing(rows)}
    dirty, clean = _cells("tax55k_dirty"), _cells("tax55k_clean")
    wrong = np.column_stack([(_compared(dirty[name]) != _compared(clean[name])).to_numpy() for name in dirty])
    yield {"table": "tax55k_dirty", **_suspects(dirty, wrong)}
    for table, errors in ERRORS.items():
        cells = _cells(table)
        yield {"table": table, "errors": 0, **_suspects(cells, np.zeros(cells.shape, np.bool_))}
        yield {"table": table, **_suspects(cells, _with_errors(cells, errors))}


def _experts(name: str) -> Point:
    from holdfast.discovery.discover import discover
    from holdfast.discovery.near.discover import NearDiscovered

    cells = _cells(name)
    start = perf_counter()
    found = discover(cells, near=SHARE, threads=2)
    assert isinstance(found, NearDiscovered)
    seconds = perf_counter() - start
    start = perf_counter()
    best = [str(near) for _, near in found.top(len(found))]
    ranked = perf_counter() - start
    best = ["key(area_code, phone)" if text == "key(phone)" else text for text in best]
    places = sorted(best.index(rule) + 1 for rule in EXPERTS if rule in best)
    return {
        "table": name,
        "near_constraints": len(found),
        "experts_rules": len(EXPERTS),
        f"among_the_first_{FIRST}": sum(place <= FIRST for place in places),
        "places": places,
        "seconds": round(seconds, 2),
        "ranking_seconds": round(ranked, 2),
    }


def _one_list(name: str) -> Point:
    """Return the places of the rules in the list that `discover --near 1% --family key,fd,od,dc --top 34` writes."""
    from holdfast.jobs.command_line import exit_code_of

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        search = ["discover", str(FOLDER / f"{name}.csv.gz"), "--near", SHARE, "--family", "key,fd,od,dc"]
        more = ["--no-cross-columns", "--top", str(FIRST), "--examples", "0", "--format", "json", "--threads", "2"]
        start = process_time()
        assert exit_code_of([*search, *more, "--quiet", "--output", str(out)]) == 0
        seconds = process_time() - start
        lines = [json.loads(line) for line in out.read_text().splitlines()]
    texts = [line["constraint"] for line in lines]
    texts = ["key(area_code, phone)" if text == "key(phone)" else text for text in texts]
    return {
        "table": name,
        "one_list": len(lines),
        "denial_constraints_in_it": sum(line["family"] == "dc" for line in lines),
        f"among_the_first_{FIRST}": len({*texts} & {*EXPERTS}),
        "processor_seconds": round(seconds, 2),
    }


def _sound(data: pd.DataFrame | Path, cross_columns: str = "auto", *, experts: bool = False) -> Point:
    """Return how many denial constraints are sound, and what ranking adds to the search."""
    from holdfast.constraints import DenialConstraint, parse_near
    from holdfast.discovery.discover import Discovered, discover
    from holdfast.tables import as_table, space_of

    table = as_table(data, "table")
    start = process_time()
    found = discover(table, space=space_of(table, cross_columns), threads=2)
    assert isinstance(found, Discovered)
    searched = process_time()
    best = found.top(len(found))
    point: Point = {
        "denial_constraints": len(found),
        "sound": best.sound,
        "search_processor_seconds": round(searched - start, 2),
        "ranking_processor_seconds": round(process_time() - searched, 2),
    }
    if not experts:
        return point
    exact = [parse_near(rule).exact for rule in EXPERTS]
    rules = [one if isinstance(one, DenialConstraint) else one.as_denial() for one in exact]
    wanted = {str(found.space.canonical(rule)) for rule in rules}
    places = [place for place, (_, constraint) in enumerate(best, 1) if str(constraint) in wanted]
    return {**point, f"among_the_first_{FIRST}": sum(place <= FIRST for place in places), "places": places}


def _appearing(rows: int) -> Point:
    """Return what it takes to score constraints of a live table: those of its first 100,000 rows."""
    from holdfast.discovery.discover import discover
    from holdfast.discovery.ranking import scores_on
    from holdfast.discovery.soundness.measured import Measured
    from holdfast.indexes.rows import RowSet
    from holdfast.tables import from_arrow
    from tests.taxes import WIDE, tax_records

    found = discover(from_arrow(tax_records(min(rows, 100_000), WIDE), "tax"), threads=2)
    masks, space = found.constraints.masks, found.space
    live = RowSet(space)
    live.fill(from_arrow(tax_records(rows, WIDE), "tax"))

    def seconds(some: Any) -> float:
        start = process_time()
        scores_on(some, Measured.of_rows(live, space), space)
        return process_time() - start

    each = [min(seconds(masks[i : i + 1]) for _ in range(2)) for i in range(len(masks))]
    return {
        "denial_constraints": len(masks),
        "one_ms": round(1_000 * float(np.median(each)), 1),
        "one_mean_ms": round(1_000 * float(np.mean(each)), 1),
        "one_slowest_ms": round(1_000 * max(each), 1),
        "all_ms": round(1_000 * seconds(masks), 1),
    }


def _random(rows: int) -> pd.DataFrame:
    """Return columns of random numbers, which nothing relates."""
    rng = np.random.default_rng(rows)
    sizes = (2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)
    return pd.DataFrame({f"c{i}": rng.integers(0, size, rows).astype(str) for i, size in enumerate(sizes)})


def _suspects(cells: pd.DataFrame, wrong: np.ndarray[Any, np.dtype[np.bool_]]) -> Point:
    import holdfast

    start = perf_counter()
    found = holdfast.suspects(cells, near=SHARE, min_score=min(THRESHOLDS), threads=2)
    seconds = perf_counter() - start
    columns = {name: place for place, name in enumerate(cells.columns)}
    point: Point = {"errors": int(wrong.sum()), "cells": cells.size, "seconds": round(seconds, 2)}
    for least in THRESHOLDS:
        some = [(one.row, columns[one.column]) for one in found if one.score >= least]
        right = sum(bool(wrong[cell]) for cell in some)
        point[f"suspects_{least:g}"] = len(some)
        point[f"precision_{least:g}"] = round(right / len(some), 3) if some else None
        point[f"share_of_errors_{least:g}"] = round(right / wrong.sum(), 3) if wrong.any() else None
    return point


def _with_errors(cells: pd.DataFrame, errors: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Write errors into cells, and return where they are."""
    rng = np.random.default_rng(5)
    wrong = np.zeros(cells.shape, np.bool_)
    for _ in range(errors):
        row, column = (int(rng.integers(size)) for size in cells.shape)
        before, other = (str(cells.iat[place, column]) for place in (row, int(rng.integers(len(cells)))))
        value = other if rng.random() < 0.5 else f"{before}x"
        if value != before:
            cells.iat[row, column] = value
            wrong[row, column] = True
    return wrong


def _cells(name: str) -> pd.DataFrame:
    return pd.read_csv(FOLDER / f"{name}.csv.gz", dtype=str, keep_default_na=False)


def _compared(values: "pd.Series[str]") -> "pd.Series[str]":
    """Return values without quotes, numbers in one form."""
    plain = values.str.replace('"', "").str.strip()
    numbers = pd.to_numeric(plain, errors="coerce")
    return plain.where(numbers.isna(), numbers.map(repr))
