"""How long until it is known which pairs of rows break a rule, against DuckDB and Desbordante on the same rows?

Tables are in memory, two threads, medians of up to five runs in a process of its own. Ours counts pairs and rows and
shows three examples. DuckDB is asked in every way that it can be: as a join, which counts pairs, for the functional
dependency also by groups, which counts both; on texts, and on `enum`s, which are dictionary-encoded as our columns
are. `times_duckdb` is its best time by ours. Desbordante's verifier (Rapidash) collects pairs without their order; only
its `execute` is timed. Counts are compared, and where pairs are listed, checksums of them. What takes longer than a
minute is killed.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import Measured, Point, measured
from benchmarks.seed_inclusion import files_of

FEW, MANY = 0.001, 0.006
"""Shares of wrong records: the latter makes 10.8 million pairs of `RATE` in a million."""
FEWER_ROWS, ROWS = 100_000, 1_000_000
THREADS = 2
PEER_SECONDS = 60
AT_ONCE = 1 << 20
FACTOR, MODULUS = 999_983, 1 << 64

ZIP = (("Zip", "="), ("City", "!="))
RATE = (("State", "="), ("Salary", ">"), ("Rate", "<"))
PRICE = (("l_quantity", "="), ("l_tax", "="), ("l_extendedprice", ">"), ("l_discount", "<"))
TEXTS = ("State", "Zip", "City", "HasChild")
DECLARED = (
    "{State}: Salary ~ Rate",
    "{Zip}: Salary ~ Rate",
    "{AreaCode}: Salary ~ Rate",
    "Zip, City -> State",
    "State, City, Salary -> Rate",
)

Predicates = tuple[tuple[str, str], ...]
Timed = tuple[float, Any]


def points() -> Iterator[Point]:
    yield _counting("Zip -> City", ZIP, ROWS, "join", "groups")
    yield _counting("State=, Salary>, Rate<", RATE, ROWS, "join")
    yield _together()
    yield _lineitem()
    yield _counting("State=, Salary>, Rate<", RATE, FEWER_ROWS, "join")
    for rows in (FEWER_ROWS, ROWS):
        yield _listing(rows)


def _counting(rule: str, predicates: Predicates, rows: int, *ways: str) -> Point:
    ours = measured(_counted, predicates, "tax", rows, FEW)
    _, (pairs, broken) = ours.answer
    found: Point = {"rule": rule, "work": "count", "rows": rows, "pairs": pairs, "violating_rows": broken}
    found |= _figures(ours)
    theirs = {
        f"{way}_{kind}": measured(_duckdb, way, predicates, kind, "tax", rows, FEW, limit=PEER_SECONDS)
        for way in ways
        for kind in ("text", "enum")
    }
    for name, one in theirs.items():
        assert one.answer is None or one.answer[1] == (pairs, broken)[: len(one.answer[1])], (name, one.answer)
    found |= _compared(ours, theirs)
    return found | _verified(predicates, "tax", rows, FEW, (pairs,))


def _listing(rows: int) -> Point:
    ours = measured(_listed, RATE, "tax", rows, MANY)
    _, (pairs, checksum, _) = ours.answer
    found: Point = {"rule": "State=, Salary>, Rate<", "work": "pairs", "rows": rows, "pairs": pairs, **_figures(ours)}
    theirs = measured(_duckdb, "pairs", RATE, "enum", "tax", rows, MANY, limit=PEER_SECONDS)
    assert theirs.answer is None or theirs.answer[1] == (pairs, checksum), theirs.answer
    return found | _compared(ours, {"pairs_enum": theirs})


def _together() -> Point:
    ours = measured(_twenty, ROWS)
    seconds, each = measured(_twenty_and_each, ROWS).answer
    return {
        "rule": "20 rules",
        "work": "count",
        "rows": ROWS,
        "pairs": sum(pairs for pairs, _ in ours.answer[1]),
        "seconds": round(seconds, 4),
        "peak_mb": ours.peak_mb,
        "sum_of_each": round(each, 4),
        "share_of_sum": round(seconds / each, 2),
    }


def _lineitem() -> Point:
    counted, ours = measured(_counted, PRICE, "lineitem"), measured(_listed, PRICE, "lineitem")
    _, (pairs, checksum, unordered) = ours.answer
    assert pairs == counted.answer[1][0] == 1_825_157
    found: Point = {"rule": "Qty=, Tax=, ExtPrice>, Discount<", "work": "pairs", "table": "lineitem, scale 0.01"}
    found |= {"pairs": pairs, **_figures(ours), "count_seconds": round(counted.answer[0], 4)}
    ways = {way: measured(_duckdb, way, PRICE, "text", "lineitem", limit=PEER_SECONDS) for way in ("join", "pairs")}
    assert ways["join"].answer[1] == (pairs,)
    assert ways["pairs"].answer[1] == (pairs, checksum)
    found |= _compared(ours, {"pairs": ways["pairs"]})
    found |= {f"count_{name}": value for name, value in _compared(counted, {"join": ways["join"]}).items()}
    return found | _verified(PRICE, "lineitem", 0, 0.0, (pairs, unordered))


def _figures(ours: Measured) -> Point:
    return {"seconds": round(ours.answer[0], 4), "peak_mb": ours.peak_mb}


def _compared(ours: Measured, theirs: dict[str, Measured]) -> Point:
    """Return DuckDB's times, what was killed said so, and how many times as fast ours is as the best of them."""
    found: Point = {}
    best = float("inf")
    for name, one in theirs.items():
        if one.answer is None:
            found[f"duckdb_{name}"] = f"killed after {PEER_SECONDS} s"
            best = min(best, PEER_SECONDS)
        else:
            found |= {f"duckdb_{name}": round(one.answer[0], 4), f"duckdb_{name}_mb": one.peak_mb}
            best = min(best, one.answer[0])
    return {**found, "times_duckdb": round(best / ours.answer[0], 1)}


def _verified(predicates: Predicates, table: str, rows: int, errors: float, expected: tuple[int, ...]) -> Point:
    """Return what Desbordante takes, its pairs compared with the expected ones."""
    theirs = measured(_desbordante, predicates, table, rows, errors, limit=PEER_SECONDS)
    if theirs.answer is None:
        return {"desbordante": f"killed after {PEER_SECONDS} s"}
    seconds, answer = theirs.answer
    assert answer[: len(expected)] == expected, (answer, expected)
    return {"desbordante": round(seconds, 4), "desbordante_mb": theirs.peak_mb}


def _often(work: Callable[[], Any]) -> Timed:
    """Return the median time of five runs, or of those that begin within two seconds, and the answer."""
    times: list[float] = []
    while len(times) < 5 and sum(times) < 2:
        start = time.perf_counter()
        answer = work()
        times.append(time.perf_counter() - start)
    return statistics.median(times), answer


def _counted(predicates: Predicates, *table: Any) -> Timed:
    made, rule = _table(*table), _rule(predicates)
    return _often(lambda: _counts(made, [rule])[0])


def _listed(predicates: Predicates, *table: Any) -> Timed:
    made, rule = _table(*table), _rule(predicates)

    def work() -> tuple[int, int, int]:
        (found,) = _checked(made, [rule])
        count, checksum, unordered = 0, 0, 0
        for some in found.pairs(AT_ONCE):
            count += len(some)
            t, s = some[:, 0], some[:, 1]
            checksum += int((t * FACTOR ^ s).sum())
            unordered += int(((t + s) * FACTOR ^ abs(t - s)).sum())
        return count, checksum % MODULUS, unordered % MODULUS

    return _often(work)


def _twenty(rows: int) -> Timed:
    made, rules = _table("tax", rows, FEW), _rules()
    return _often(lambda: _counts(made, rules))


def _twenty_and_each(rows: int) -> tuple[float, float]:
    """Return the median times of all rules together and of the sum of each alone, taken in turn."""
    made, rules = _table("tax", rows, FEW), _rules()
    together: list[float] = []
    each: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        found = _counts(made, rules)
        together.append(time.perf_counter() - start)
        start = time.perf_counter()
        alone = [_counts(made, [rule])[0] for rule in rules]
        each.append(time.perf_counter() - start)
        assert alone == found
    return statistics.median(together), statistics.median(each)


def _counts(table: Any, rules: list[Any]) -> list[tuple[int | None, int | None]]:
    return [(found.violating_pairs, found.violating_rows) for found in _checked(table, rules)]


def _checked(table: Any, rules: list[Any]) -> Any:
    from holdfast.discovery.detection.check import check_tables

    return check_tables({"t": table}, rules, threads=THREADS)


def _table(name: str, rows: int = 0, errors: float = 0.0) -> Any:
    """Return a table, all that is needed loaded and compiled."""
    from holdfast import from_arrow, read_table
    from tests.taxes import NARROW, tax_records

    warm = from_arrow(tax_records(3_000, NARROW, error_rate=0.01), "t")
    for found in _checked(warm, [_rule(ZIP), _rule(RATE), *_rules()]):
        list(found.pairs())
    if name == "lineitem":
        return read_table(_file(name))
    return from_arrow(tax_records(rows, NARROW, error_rate=errors), "t")


def _rule(predicates: Predicates) -> Any:
    from holdfast.constraints import Rule, parse_rule_body

    text = " and ".join(f"t.{name} {operator} s.{name}" for name, operator in predicates)
    return Rule("rule", "t", parse_rule_body(f"not({text})"))


def _rules() -> list[Any]:
    """Return the constraints that are found on 10,000 records without errors, and five that people would declare."""
    from holdfast import discover, from_arrow
    from holdfast.constraints import Rule, parse_rule_body
    from tests.taxes import NARROW, tax_records

    clean = from_arrow(tax_records(10_000, NARROW), "t")
    texts = [*sorted(map(str, discover(clean, threads=THREADS))), *DECLARED]
    assert len(texts) == 20
    return [Rule(f"rule {i}", "t", parse_rule_body(text)) for i, text in enumerate(texts)]


def _duckdb(way: str, predicates: Predicates, kind: str, *table: Any) -> Timed:
    import duckdb

    connection = duckdb.connect(config={"threads": THREADS})
    connection.execute("set enable_progress_bar = false")
    connection.register("given", _arrow(*table))
    connection.execute("create table t as select * from given")
    if kind == "enum":
        for name in TEXTS:
            connection.execute(f"create type {name}s as enum (select distinct {name} from t)")
            connection.execute(f"alter table t alter {name} type {name}s")
    where = " and ".join(f"t.{name} {operator} s.{name}" for name, operator in predicates)
    pairs = f"from t, t s where {where}"
    (left, _), (right, _) = predicates[:2]
    query = {
        "join": f"select count(*) {pairs}",
        "pairs": f"select count(*), sum(xor(t.row * {FACTOR}, s.row)) % {MODULUS} {pairs} and t.row <> s.row",
        "groups": f"""
            select coalesce(sum(total * total - squares), 0), coalesce(sum(total) filter (where parts > 1), 0) from (
                select sum(size)::bigint total, sum(size * size)::bigint squares, count(*) parts
                from (select {left}, count(*) size from t group by {left}, {right}) group by {left})
            """,
    }[way]

    def work() -> tuple[int, ...]:
        return tuple(map(int, connection.execute(query).fetchone() or ()))

    return _often(work)


def _desbordante(predicates: Predicates, *table: Any) -> Timed:
    import desbordante
    import numpy as np

    algorithm = desbordante.dc_verification.algorithms.Default()
    algorithm.load_data(table=_arrow(*table).select([name for name, _ in predicates]).to_pandas())
    text = " and ".join(f"t.{name} {'==' if operator == '=' else operator} s.{name}" for name, operator in predicates)

    def work() -> None:
        algorithm.execute(denial_constraint=f"!({text})", do_collect_violations=True)

    seconds, _ = _often(work)
    found = np.array(algorithm.get_violations(), np.int64).reshape(-1, 2) - 2
    unordered = int(((found.sum(axis=1)) * FACTOR ^ abs(found[:, 0] - found[:, 1])).sum()) % MODULUS
    both_ways = all(operator in {"=", "!="} for _, operator in predicates)
    return seconds, (len(found) * (2 if both_ways else 1), unordered)


def _arrow(name: str, rows: int = 0, errors: float = 0.0) -> Any:
    """Return a table with its values as they are, and the number of each row."""
    import pyarrow as pa
    import pyarrow.csv

    from tests.taxes import NARROW, tax_records

    if name == "lineitem":
        made = pyarrow.csv.read_csv(_file(name))
    else:
        encoded = tax_records(rows, NARROW, error_rate=errors)
        decoded = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in encoded.columns]
        made = pa.table(dict(zip(encoded.column_names, decoded, strict=True)))
    return made.append_column("row", pa.array(range(made.num_rows), pa.int64()))


def _file(table: str) -> Path:
    return next(file for file in files_of("0.01") if file.stem == table)
