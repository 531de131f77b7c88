"""Where exceptions are: against the definition on small tables, on planted and on random larger tables, and laws."""

import decimal
import itertools
from collections.abc import Sequence
from fractions import Fraction
from math import exp, log
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.constraints import (
    Column,
    Condition,
    NearConstraint,
    NearShape,
    Operator,
    Rule,
    Schema,
    UsageError,
    parse_near,
    parse_type,
)
from holdfast.constraints.conditions import Cell, Comparison, Literal
from holdfast.constraints.elsewhere import literal_of, rules_elsewhere
from holdfast.discovery.kernels.concentration import frequent_values_kernel
from holdfast.discovery.near import concentration
from holdfast.discovery.near.chance import log_tail
from holdfast.discovery.near.discover import discover_near, exceptions_of
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.where import concentrations, concentrations_of
from holdfast.display.concentrations import Concentration, Concentrations
from holdfast.tables import Table, from_arrow, from_pandas
from tests.oracles import concentration as oracle
from tests.oracles import near as near_oracle
from tests.oracles.near import Near
from tests.oracles.values import Row, compare
from tests.oracles.values import Table as OracleTable
from tests.properties.tables import tables

LIMITS = oracle.Limits(
    concentration.FEWEST,
    concentration.LEAST_PART,
    Fraction(concentration.LEAST_LIFT),
    Fraction(concentration.SIGNIFICANT),
    concentration.MOST,
)
LOOSE = oracle.Limits(1, 4, Fraction(5, 4), Fraction(71, 10), 2)
"""Limits with which tables of a few rows have concentrations."""


def _matches(
    found: Sequence[Concentration], expected: Sequence[oracle.Found], names: list[str], rows: Sequence[Row]
) -> None:
    """Compare what was found with the definition; the order of equally significant values may differ by rounding."""
    described = [(one.column, one.exceptions, one.rows, one.holds_elsewhere) for one in found]
    assert described == [(names[one.column], one.exceptions, one.rows, one.holds_elsewhere) for one in expected]
    for one, theirs in zip(found, expected, strict=True):
        assert compare(one.value, rows[theirs.first][theirs.column]) == 0
        assert one.significance == pytest.approx(float(theirs.significance), rel=1e-9, abs=1e-300)
        assert (one.of_exceptions, one.of_rows) == (found[0].of_exceptions, len(rows))


def _near(one: Near, names: list[str]) -> NearConstraint:
    return NearConstraint(NearShape(one.shape), [names[c] for c in one.context], [names[c] for c in one.target])


def _holds(table: Table, rules: Sequence[str]) -> bool:
    return all(checked.holds for checked in holdfast.check(table, list(rules)))


@pytest.mark.parametrize(
    ("text", "column", "pairs", "tests"),
    [
        ("zip -> city", "zip", "t.zip = s.zip and t.city != s.city", ["t.zip != 7", "t.zip is null"]),
        (
            "zip -> city",
            "city",
            "t.zip = s.zip and t.city != s.city",
            ["t.city != 7 and s.city != 7", "t.city is null and s.city != 7"],
        ),
        ("key(zip)", "zip", "t.zip = s.zip", ["t.zip != 7", "t.zip is null"]),
        (
            "{}: zip ~ city desc",
            "zip",
            "t.zip < s.zip and t.city < s.city",
            [
                "t.zip != 7 and s.zip != 7",
                "t.zip != 7 and s.zip is null",
                "t.zip is null and s.zip != 7",
                "t.zip is null and s.zip is null",
            ],
        ),
    ],
)
def test_there_is_no_rule_for_rows_that_cannot_violate_the_constraint(
    text: str, column: str, pairs: str, tests: list[str]
) -> None:
    schema = Schema("r", tuple(Column(name, parse_type("integer")) for name in ("zip", "city")))
    rules = rules_elsewhere(parse_near(text), schema, column, Literal("7", is_text=False), nulls=True, others=True)
    assert list(map(str, rules)) == [f"{pairs} and {test}" for test in tests]


def _loosely(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(concentration, "FEWEST", LOOSE.fewest)
    patch.setattr(concentration, "LEAST_PART", LOOSE.part)
    patch.setattr(concentration, "LEAST_LIFT", float(LOOSE.lift))
    patch.setattr(concentration, "SIGNIFICANT", float(LOOSE.significant))
    patch.setattr(concentration, "MOST", LOOSE.most)


@given(tables(max_columns=3, max_rows=7), st.integers(1, 2))
def test_small_tables_have_the_concentrations_of_the_definition(both: tuple[OracleTable, Table], threads: int) -> None:
    theirs, ours = both
    names = [column.name for column in theirs.columns]
    rows = NearRows.of(ours, names)
    every = list(near_oracle.candidates(len(names)))
    nears = [_near(one, names) for one in every]
    removals = [exceptions_of(ours, near) for near in nears]
    with pytest.MonkeyPatch.context() as patch:
        _loosely(patch)
        found = concentrations(ours, rows, nears, removals, threads=threads)
    for one, concentrated in zip(every, found, strict=True):
        excepted = near_oracle.removed(theirs.rows, one)
        search = oracle.Search(theirs.rows, one, excepted, near_oracle.exceptions(theirs.rows, one), LOOSE)
        _matches(concentrated, search.found(), names, theirs.rows)


@given(tables(max_columns=3, max_rows=6), st.data())
def test_rules_are_violated_by_the_pairs_of_remaining_rows_that_violate_the_constraint(
    both: tuple[OracleTable, Table], data: st.DataObject
) -> None:
    theirs, ours = both
    names = [column.name for column in theirs.columns]
    if not theirs.rows:
        return
    one = data.draw(st.sampled_from(list(near_oracle.candidates(len(names)))))
    column = data.draw(st.integers(0, len(names) - 1))
    left_out = data.draw(st.sampled_from(theirs.rows))[column]
    rest = [i for i, row in enumerate(theirs.rows) if compare(row[column], left_out) != 0]
    expected = {
        frozenset(pair)
        for pair in itertools.combinations(rest, 2)
        if near_oracle.violates(theirs.rows[pair[0]], theirs.rows[pair[1]], one)
    }
    nulls = [theirs.rows[i][column] is None for i in rest]
    encoded = ours[names[column]]
    row = next(i for i, row in enumerate(theirs.rows) if compare(row[column], left_out) == 0)
    literal = None if left_out is None else literal_of(encoded.values([row])[0].as_py(), encoded.column)
    rules = rules_elsewhere(
        _near(one, names), ours.schema, names[column], literal, nulls=any(nulls), others=not all(nulls)
    )
    if one.shape.startswith("order") and not all(theirs.columns[place].is_ordered for place in one.target):
        assert rules == ()
        return
    found: set[frozenset[int]] = set()
    for checked in holdfast.check(ours, [f"not({rule})" for rule in rules]):
        pairs = [frozenset(pair) for some in checked.pairs(100) for pair in some.tolist()]
        assert not found & set(pairs)  # no pair violates two rules
        found |= set(pairs)
    assert found == expected


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.timestamp("ns"), [1, 1_000_000_001, 1_000_000_002, None]),
        (pa.timestamp("us"), [0, 1, -62_135_596_800_000_000, None]),
        (pa.float64(), [0.1, 1e-300, 5e-324, 1e23, -0.0, float("inf"), -float("inf"), float("nan"), None]),
        (pa.int64(), [-(2**63), 2**63 - 1, 0, None]),
        (pa.decimal128(38, 10), ["0.1", "-1234567890123456789012345678.0123456789", None]),
        (pa.string(), ["", "it's", "a\nb", "# no comment", "null", "\\", None]),
        (pa.date32(), [0, -719_162, None]),
    ],
)
def test_literals_are_equal_to_the_values_that_they_are_made_of(kind: pa.DataType, values: list[Any]) -> None:
    cells = [decimal.Decimal(v) if pa.types.is_decimal(kind) and v else v for v in values]
    table = from_arrow(pa.table({"a": pa.array(cells, kind, from_pandas=False)}), "r")
    (column,) = table.columns
    for row in range(len(values) - 1):
        literal = literal_of(column.values([row])[0].as_py(), column.column, int(column.keys[row]) % 1_000)
        rule = Rule("r", "r", Condition.of(Comparison(Cell("t", "a"), Operator.EQUAL, literal)))
        for checked in (holdfast.check(table, rule)[0], holdfast.check(table, rule.text)[0]):
            assert [example.rows for example in checked.examples] == [(row,)]


@given(st.integers(1, 60), st.data())
def test_tails_are_exact(rows: int, data: st.DataObject) -> None:
    valued, drawn = data.draw(st.integers(0, rows)), data.draw(st.integers(0, rows))
    found = data.draw(st.integers(0, rows))
    expected = oracle.tail(rows, valued, drawn, found)
    if expected:
        assert exp(log_tail(rows, valued, drawn, found)) == pytest.approx(float(expected), rel=1e-9)
    else:
        assert log_tail(rows, valued, drawn, found) == -np.inf


def test_tails_below_the_smallest_float_keep_their_order() -> None:
    """Of 55,000 rows 403 have the value, and so have 397 of 418 exceptions, or 398 of them."""
    one, other = (log_tail(55_000, 403, 418, found) for found in (397, 398))
    expected = [oracle.tail(55_000, 403, 418, found) for found in (397, 398)]
    for found, exact in zip((one, other), expected, strict=True):
        digits = len(str(exact.denominator // exact.numerator))
        assert exp(found) == 0.0
        assert found / log(10) == pytest.approx(-digits, abs=1)
    assert other < one


CODES = st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), min_size=1, max_size=3)


@given(CODES, st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=6, unique_by=lambda one: one[0]))
def test_frequent_values_are_those_of_the_twin(codes: list[list[int]], some: list[tuple[int, bool]]) -> None:
    for least in (1, 2, 3):
        expected = []
        for column, values in enumerate(codes):
            for code in dict.fromkeys(values[row] for row, _ in some):
                undecided = [flag for row, flag in some if values[row] == code]
                if len(undecided) >= least:
                    expected.append([column, code, undecided.count(False), undecided.count(True)])
        found, counts = np.empty((len(codes) * (len(some) // least), 4), np.int64), np.zeros((4, 2), np.int64)
        rows = np.array([row for row, _ in some], np.int64)
        flags = np.array([flag for _, flag in some], np.bool_)
        count = frequent_values_kernel(np.array(codes, np.int32), rows, flags, least, counts, found)
        assert found[:count].tolist() == expected
        assert not counts.any()


def orders(rows: int = 500, seed: int = 1) -> pd.DataFrame:
    """Return orders of which one import, 3 % of the rows, has wrong cities; and a row of another import."""
    random = Random(seed)
    table = pd.DataFrame({"zip": [f"z{random.randrange(30):02}" for _ in range(rows)]})
    table["city"] = "city of " + table["zip"]
    table["source"] = [f"import-{7 if i % 33 == 5 else random.randint(1, 6)}" for i in range(rows)]
    table["batch"] = table["source"].str[-1].astype(int) * 10
    table["amount"] = [random.randint(1, 99) for _ in range(rows)]
    wrong = table["source"] == "import-7"
    table.loc[wrong, "city"] = [f"wrong {random.randrange(99)}" for _ in range(int(wrong.sum()))]
    table.loc[100, "city"] = "typo"
    return table


def _of(data: Any, text: str) -> Concentrations:
    table = from_pandas(data, "orders") if isinstance(data, pd.DataFrame) else data
    near = parse_near(text)
    return concentrations_of(table, near, exceptions_of(table, near))


def test_the_source_of_wrong_rows_is_found_once() -> None:
    """`batch` says again what `source` says; the typo is no mark of anything."""
    table = orders()
    (one,) = _of(table, "zip -> city")
    wrong = int((table["source"] == "import-7").sum())
    assert (one.column, one.value, one.exceptions, one.of_exceptions) == ("source", "import-7", wrong, wrong + 1)
    assert (one.rows, one.of_rows, one.holds_elsewhere, one.rules) == (wrong, 500, False, ())
    assert one.significance < 1e-15
    assert str(one) == f'where: source = "import-7": {wrong} of {wrong + 1} exceptions, 3 % of all rows'


def test_a_condition_that_makes_the_constraint_hold_is_a_rule() -> None:
    table = orders().drop(index=100)
    (one,) = _of(table, "zip -> city")
    assert one.rules == (
        "not(t.zip = s.zip and t.city != s.city and t.source != 'import-7' and s.source != 'import-7')",
    )
    assert _holds(from_pandas(table, "orders"), one.rules)
    table.loc[table["source"] != "import-7", "source"] = None
    (one,) = _of(table, "zip -> city")
    assert one.rules == ("not(t.zip = s.zip and t.city != s.city and t.source is null and s.source is null)",)
    table.loc[(table["source"] != "import-7") & (table["amount"] > 50), "source"] = "import-1"
    (one,) = _of(table, "zip -> city")  # a pair of rows takes no "or", so that there is a rule for each combination
    tests = [
        "t.source != 'import-7' and s.source != 'import-7'",
        "t.source is null and s.source != 'import-7'",
        "t.source is null and s.source is null",
    ]
    assert sorted(one.rules) == sorted(f"not(t.zip = s.zip and t.city != s.city and {test})" for test in tests)
    assert _holds(from_pandas(table, "orders"), one.rules)


def test_the_marks_of_wrong_rows_may_be_nulls_and_nan() -> None:
    table = orders().drop(index=100)
    wrong = table["source"] == "import-7"
    table.loc[wrong, "source"] = None
    (one,) = _of(table, "zip -> city")
    assert (one.value, one.condition, one.exceptions) == (None, "source is null", int(wrong.sum()))
    assert one.rules == ("not(t.zip = s.zip and t.city != s.city and t.source is not null and s.source is not null)",)
    rates = pa.array([float("nan") if flag else 0.1 for flag in wrong], pa.float64(), from_pandas=False)
    data = from_arrow(pa.table({"zip": list(table["zip"]), "city": list(table["city"]), "rate": rates}), "r")
    (one,) = _of(data, "zip -> city")
    assert one.rules == ("not(t.zip = s.zip and t.city != s.city and t.rate != nan and s.rate != nan)",)
    assert _holds(data, one.rules)
    assert (one.condition, one.fields()["value"]) == ("rate = nan", "NaN")


def test_the_majority_of_a_group_may_be_wrong() -> None:
    """In one zip code most rows have wrong cities, so that the right ones are the exceptions there."""
    table = orders().drop(index=100)
    right = table[table["zip"] == "z03"].index[:2]
    table = table.drop(index=table[(table["zip"] == "z03") & ~table.index.isin(right)].index)
    many = table.loc[[right[0]] * 4].assign(city="all wrong", source="import-7", batch=70)
    table = pd.concat([table, many], ignore_index=True)
    (one,) = _of(table, "zip -> city")
    assert (one.value, one.of_exceptions - one.exceptions) == ("import-7", 2)
    assert one.holds_elsewhere
    assert _holds(from_pandas(table, "orders"), one.rules)


def test_rows_that_were_imported_twice() -> None:
    """All rows of a pair are undecided, so that half of the 20 exceptions count for the second import."""
    random = Random(3)
    table = pd.DataFrame({"id": range(1_000), "source": [f"import-{random.randint(1, 30)}" for _ in range(1_000)]})
    table = pd.concat([table, table.iloc[50:900:43].assign(source="import-99")], ignore_index=True)
    (one,) = _of(table, "key(id)")
    assert (one.value, one.exceptions, one.of_exceptions, one.rows) == ("import-99", 10, 20, 20)
    assert one.rules == ("not(t.id = s.id and t.source != 'import-99' and s.source != 'import-99')",)
    table["id"] = table["id"].where(table["source"] != "import-99", None)
    table["source"] = "import"
    (one,) = _of(table, "key(id)")  # 20 rows without an id are 19 exceptions
    assert (one.condition, one.exceptions, one.rules) == ("id is null", 19, ("not(t.id = s.id and t.id is not null)",))


def test_rare_values_of_a_target_are_no_finding() -> None:
    """The rows that differ from the majority have a rare value by definition."""
    random = Random(5)
    table = pd.DataFrame(
        {"group": [i // 10 for i in range(3_000)], "flag": [random.random() < 0.05 for _ in range(3_000)]}
    )
    assert exceptions_of(from_pandas(table, "r"), parse_near("group -> flag")).exceptions > 100
    assert _of(table, "group -> flag") == []
    assert _of(table, "{}: [] -> flag") == []
    table["kind"] = [f"kind {i // 10 % 20}" if random.random() > 0.02 else "unknown" for i in range(3_000)]
    (one,) = _of(table, "group -> kind")
    assert (one.condition, one.holds_elsewhere) == ('kind = "unknown"', True)


def test_one_value_of_the_context() -> None:
    table = orders().drop(index=100)
    table.loc[table["zip"] == "z03", "city"] = [f"c{i % 3}" for i in range(int((table["zip"] == "z03").sum()))]
    table["source"] = table["batch"] = 1
    found = {one.condition: one for one in _of(table, "zip -> city")}
    assert set(found) == {'zip = "z03"'}


@pytest.mark.parametrize("seed", range(6))
def test_tables_with_several_causes_have_the_concentrations_of_the_definition(seed: int) -> None:
    """With the limits that users meet: two causes of exceptions that overlap, columns that repeat others, nulls, NaN."""
    random = Random(seed)
    rows: list[Row] = []
    for i in range(240):
        number, cause = random.randrange(6), random.choice(["p", "q", None, *"rstuv" * 3])
        rate = float("nan") if cause == "q" else random.choice([0.0, 0.5, None])
        is_wrong = (cause in {"p", "q"} and random.random() < 0.8) or random.random() < 0.02
        rows.append(
            (number, random.randrange(9) if is_wrong else number * 2, cause, rate, i % 7, cause == "p" or i % 30 == 0)
        )
    names = ["a", "b", "cause", "rate", "day", "flag"]
    kinds = [pa.int64(), pa.int64(), pa.string(), pa.float64(), pa.int64(), pa.bool_()]
    arrays = [
        pa.array(cells, kind, from_pandas=False) for cells, kind in zip(zip(*rows, strict=True), kinds, strict=True)
    ]
    table = from_arrow(pa.table(arrays, names), "r")
    every = [
        Near("constant", (0,), (1,)),
        Near("order", (), (0, 1)),
        Near("constant", (4,), (5,)),
        Near("key", (0, 1), ()),
    ]
    for one in every:
        near = _near(one, names)
        removal = exceptions_of(table, near)
        (found,) = concentrations(table, NearRows.of(table, names), [near], [removal])
        excepted = dict(zip(removal.rows.tolist(), removal.undecided.tolist(), strict=True))
        _matches(found, oracle.Search(rows, one, excepted, removal.exceptions, LIMITS).found(), names, rows)
        assert found or one is not every[0]


def random_table(seed: int) -> Table:
    """Return a table in which errors and values have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    rows = 300
    number = rng.integers(0, 40, rows)
    columns: dict[str, Any] = {"a": number, "b": number // 2, "c": number // 4}
    for name, values in columns.items():
        columns[name] = np.where(rng.random(rows) < 0.03, rng.integers(0, 1_000, rows), values)
    columns |= {f"x{i}": rng.integers(0, size, rows) for i, size in enumerate((4, 30))}
    columns["id"] = np.where(rng.random(rows) < 0.03, rng.integers(0, rows, rows), np.arange(rows))
    columns["sum"] = np.where(rng.random(rows) < 0.04, rng.integers(0, 999, rows), np.arange(rows) + number)
    return from_arrow(pa.table(columns), "r")


def test_errors_at_random_are_not_concentrated() -> None:
    """By chance, one constraint in a thousand may have a concentration; in these 200 tables none has."""
    searched = found = 0
    for seed in range(200):
        families = ("key", "fd") if seed % 4 else ("key", "fd", "od")
        near = discover_near(random_table(seed), Fraction(1, 10), 1, families=families)
        members = [one for one in near if one.exceptions >= concentration.FEWEST]
        searched += len(members)
        found += sum(len(concentrated) > 0 for concentrated in near.concentrations(members))
    assert searched > 1_000
    assert found == 0


def test_neither_the_order_of_rows_nor_threads_matter() -> None:
    table = orders(2_000, seed=9)
    table.loc[table["amount"] == 50, "city"] = "c"
    order = np.random.default_rng(7).permutation(len(table))
    every = []
    for data, threads in ((table, 1), (table, 3), (table.iloc[order].reset_index(drop=True), 2)):
        near = discover_near(from_pandas(data, "r"), Fraction(6, 100), 1, threads=threads)
        every.append([(str(one), list(found)) for one, found in zip(near, near.concentrations(near), strict=True)])
    assert every[0] == every[1] == every[2]
    assert sum(len(found) for _, found in every[0]) > 2


def test_orders_are_refused_where_columns_have_none() -> None:
    near = discover_near(from_pandas(orders(), "r"), Fraction(1, 10), 1, families=["fd"])
    with pytest.raises(UsageError, match="search for the family od too"):
        near.concentrations([parse_near("{}: zip ~ batch")])


def test_notebooks_show_them() -> None:
    (one,) = found = _of(orders(), "zip -> city")
    assert isinstance(found, Concentrations)
    shown = found.bundle()
    assert shown["text/plain"] == f"{{zip}}: [] -> city: 1 value in which the exceptions are concentrated\n{one}"
    assert "15 of 500" in shown["text/html"]
    frame = found.to_pandas()
    columns = ["column", "value", "exceptions", "rows", "holds_elsewhere"]
    assert frame[columns].values.tolist() == [["source", "import-7", one.exceptions, one.rows, False]]
    assert _of(orders(), "batch -> source").to_pandas().empty
