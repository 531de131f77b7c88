"""What do twenty monitored rules cost with each batch, against counting anew by us and by DuckDB?

Tax records with one wrong value in a thousand rows; ten keys and functional dependencies, six rules with inequalities,
four on single rows. Milliseconds of following the rules alone (`rules_ms`) and of the whole batch, medians over batches
of inserts, deletes and both; then all counts are compared with counting anew on the rows of the end, which is timed.
DuckDB counts what it can within 20 seconds a rule; `times_anew` and `times_duckdb` are for inserts.
"""

import statistics
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.measuring import Point, measured

GROWTH = (30_000, 100_000, 300_000, 1_000_000)
BATCHES = 9
LIMIT = 20.0

EQUALITIES = (
    *("Zip -> City", "Zip -> State", "AreaCode -> State", "State, HasChild -> ChildExemp", "State, Salary -> Rate"),
    *("City, Zip -> State", "Zip, HasChild -> City", "AreaCode, Zip -> City", "Salary, State, HasChild -> Rate"),
    "key(Zip, City, AreaCode, Salary, Rate, HasChild, ChildExemp, State)",
)
INEQUALITIES = (
    "not(t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate)",
    "not(t.Zip = s.Zip and t.Salary > s.Salary and t.Rate < s.Rate)",
    "not(t.State = s.State and t.Salary >= s.Salary and t.Rate < s.Rate and t.Zip != s.Zip)",
    "not(t.State = s.State and t.HasChild = s.HasChild and t.Salary < s.Salary and t.Rate > s.Rate)",
    "not(t.City = s.City and t.Salary < s.Salary and t.Rate > s.Rate)",
    "{AreaCode}: Salary ~ Rate",
)
SINGLE = ("not(t.Salary <= 0)", "not(t.Rate < 0)", "not(t.State = 'NY' and t.Rate > 50)", "not(t.State is null)")
RULES = (*EQUALITIES, *INEQUALITIES, *SINGLE)


def points() -> Iterator[Point]:
    for rows in GROWTH:
        yield _point(rows, 1_000, duckdb=rows == GROWTH[-1])
    for batch in (1, 100, 10_000):
        yield _point(GROWTH[-1], batch, duckdb=False)


def _point(rows: int, batch: int, *, duckdb: bool) -> Point:
    run = measured(_history, rows, batch)
    point: Point = {"rows": rows, "rules": len(RULES), "batch": batch, **run.answer, "peak_mb": run.peak_mb}
    if duckdb:
        seconds, stopped = 0.0, 0
        for rule in RULES:
            took = measured(_duckdb, rows, rule, limit=LIMIT)
            seconds += LIMIT if took.answer is None else took.answer
            stopped += took.answer is None
        point |= {"duckdb_seconds": round(seconds, 2), "duckdb_stopped": stopped}
        point["times_duckdb"] = round(1_000 * seconds / point["insert_rules_ms"])
    return point


def _records(rows: int) -> Any:
    from tests.taxes import NARROW, tax_records

    return tax_records(rows, NARROW, error_rate=0.001)


def _history(rows: int, batch: int) -> Point:
    import pyarrow as pa

    from holdfast import Maintainer, check, from_arrow
    from holdfast.streaming.maintainers.rules.maintainer import RuleMaintainer

    records = _records(rows + 3 * BATCHES * batch)
    began = time.perf_counter()
    maintainer = Maintainer.seed(from_arrow(records.slice(0, rows), "tax"), max_predicates=None, rules=RULES)
    answer: Point = {"seed_seconds": round(time.perf_counter() - began, 2)}
    spent = [0.0]
    follow = RuleMaintainer.apply

    def timed(self: RuleMaintainer, delta: Any) -> None:
        started = time.perf_counter()
        follow(self, delta)
        spent[0] = time.perf_counter() - started

    RuleMaintainer.apply = timed  # type: ignore[method-assign]
    first, last = 0, rows
    for name in ("insert", "delete", "update"):
        alone, whole = [], []
        for _ in range(BATCHES):
            inserts = records.slice(last, batch) if name != "delete" else None
            deletes = records.slice(first, batch) if name != "insert" else None
            last += 0 if inserts is None else batch
            first += 0 if deletes is None else batch
            spent[0] = 0.0
            started = time.perf_counter()
            maintainer.apply(inserts=inserts, deletes=deletes)
            whole.append(time.perf_counter() - started)
            alone.append(spent[0])
        answer[f"{name}_rules_ms"] = round(1_000 * statistics.median(alone), 2)
        answer[f"{name}_ms"] = round(1_000 * statistics.median(whole), 2)
    table = from_arrow(pa.table(records.slice(first, last - first)), "tax")
    anew = []
    for _ in range(3):
        started = time.perf_counter()
        found = check(table, RULES, examples=0)
        anew.append(time.perf_counter() - started)
    for state, checked in zip(maintainer.rules, found, strict=True):
        assert state.violating_pairs == checked.violating_pairs, state
        assert state.violating_rows == checked.violating_rows or not state.is_recent, state
    answer["violating_pairs"] = sum(checked.violating_pairs or 0 for checked in found)
    answer["anew_ms"] = round(1_000 * statistics.median(anew), 1)
    answer["times_anew"] = round(answer["anew_ms"] / answer["insert_rules_ms"], 1)
    return answer


def _duckdb(rows: int, rule: str) -> float:
    """Return how long DuckDB takes to count what breaks a rule: pairs by a join, single rows by a filter."""
    import duckdb

    from holdfast import parse_rule_body
    from holdfast.constraints import Condition, DenialConstraint, OrderDependency

    connection = duckdb.connect(config={"threads": 2})
    connection.execute("set enable_progress_bar = false")
    connection.register("records", _records(rows))
    connection.execute("create table tax as select * from records")
    body = parse_rule_body(rule)
    if isinstance(body, Condition):
        query = f"select count(*) from tax t where {body}"
    else:
        denial = body.as_denial() if isinstance(body, OrderDependency) else body
        assert isinstance(denial, DenialConstraint)
        conditions = " and ".join(str(predicate).replace("!=", "<>") for predicate in denial.predicates)
        query = f"select count(*) from tax t, tax s where {conditions} and t.rowid <> s.rowid"
    started = time.perf_counter()
    connection.execute(query).fetchall()
    return time.perf_counter() - started
