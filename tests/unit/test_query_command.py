"""`holdfast query`: what it writes, and what it refuses; the texts of queries, names and constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import holdfast
from holdfast.constraints import Rule, Severity, Threshold, UnknownColumn, UsageError, parse_near, parse_rule_body
from holdfast.constraints.columns import Column, Schema
from holdfast.constraints.denial import DenialConstraint
from holdfast.constraints.operators import Operator
from holdfast.constraints.predicates import Predicate
from holdfast.constraints.queries.writer import _RESERVED, Dialect, SqlWriter
from holdfast.constraints.types import DATE, FLOAT, INTEGER, STRING, TIMESTAMP, TIMESTAMP_NS, ColumnType
from holdfast.jobs.command_line import exit_code_of
from holdfast.tables import from_pandas
from tests.properties.test_suspects import zips
from tests.queries import Doubted

if TYPE_CHECKING:
    from pathlib import Path


def body_of(text: str) -> str:
    """Return a query without its comments."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["query", "zip_city: zip -> city  # as in a rules file", "--table", "sales.people"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("-- zip_city: not(t.zip = s.zip and t.city != s.city)\n-- Rows with the same zip")
    assert "  from sales.people as t\n" in said.out
    assert said.out.endswith(";\n")
    assert said.err == ""


def test_the_answer_is_that_of_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, written = tmp_path / "people.csv", tmp_path / "query.sql"
    file.write_text("zip,city\n01907,Lynn\n01907,Salem\n02139,Cambridge\n,Rome\n,Oslo\n")
    options = ["--table", f"`{file}`", "--dialect", "duckdb", "--output", str(written)]
    assert exit_code_of(["query", "zip -> city", *options]) == 0
    assert capsys.readouterr().out == ""
    assert exit_code_of(["check", str(file), "--rule", "zip -> city", "--quiet"]) == 1
    assert "4 pairs, 4 of 5 rows" in capsys.readouterr().out
    with duckdb.connect() as connection:
        found = connection.execute(written.read_text()).fetchall()
    assert sorted(found, key=str) == [("01907", "Lynn", 1), ("01907", "Salem", 1), (None, "Oslo", 1), (None, "Rome", 1)]


def test_exceptions_in_place_of_violations(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["query", "key(a)", "--near"]) == 0
    assert capsys.readouterr().out.splitlines()[3].startswith("select coalesce(sum(g.row_count - 1), 0) as exceptions,")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["zip ->"], "expected a column's name"),
        (["not(t.a < )"], "at character"),
        (["a.b in c.d", "--table", "x"], "names its tables itself"),
        (["a.b in c.d", "--near"], "exceptions are counted of keys"),
        (["key(a)", "--table", "x..y"], "'x..y' is no name of a table"),
        (["key(a)", "--table", ""], "'' is no name of a table"),
        (["key(a)", "--dialect", "oracle"], "'oracle' is not one of"),
    ],
)
def test_what_is_refused(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["query", *arguments]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("key(a, b)", "group by t.a, t.b\nhaving count(*) > 1"),
        ("a -> b", "count(*) over (partition by t.a) as value_count"),
        ("not(t.a = s.a and t.b < s.b)", "count(*) over (partition by t.a) as value_count"),
        ("not(t.a = s.a and t.b >= s.b)", "group by t.a\nhaving count(*) > 1"),
        ("{a}: b ~ c", "range between unbounded preceding and 1 preceding"),
        ("not(t.b > s.b and t.c >= s.c)", "range between unbounded preceding and current row"),
        ("not(t.b >= s.b and t.c <= s.c)", "cross join"),
        ("not(t.a != s.a and t.b != s.b)", "where t.place_1 <> s.place_1\n  and t.place_2 <> s.place_2\nlimit 100"),
        ("not(t.a = s.b)", "where t.a is not distinct from s.b\n  and (t.number <> s.number or t.row_count > 1)"),
        ("not(t.a = 1 and s.b = 2)", "where t.a = 1\n  and s.b = 2\n  and (t.number"),
        ("not(s.a > 1 or s.b is null)", "select s.*\nfrom r as s\nwhere s.a > 1\n   or s.b is null"),
        ("r.a in q.b", "not exists (\n    select 1\n    from q as s\n    where s.b = t.a"),
    ],
)
def test_each_kind_has_its_form(text: str, part: str) -> None:
    assert part in body_of(holdfast.query(text, "r"))


def test_no_two_rows_at_all() -> None:
    assert body_of(holdfast.query(DenialConstraint([]), "r")).splitlines() == [
        "select count(*) as row_count",
        "from r as t",
        "having count(*) > 1",
    ]


def test_a_rule_has_its_name_table_and_thresholds() -> None:
    rule = Rule(
        "few", "my table", parse_rule_body("key(a)"), Severity.WARNING, Threshold.parse(3), Threshold.parse("1%")
    )
    said = holdfast.query(rule)
    assert said.startswith("-- few: not(t.a = s.a)\n")
    assert "-- The rule accepts at most 3 violating pairs; at most 1% violating rows.\n" in said
    assert '\nfrom "my table" as t\n' in said
    assert "\nfrom r as t\n" in holdfast.query(rule, "r")


def test_a_line_feed_in_a_name_does_not_end_a_comment() -> None:
    name = "a\n; drop table r; --"
    said = holdfast.query(DenialConstraint([Predicate(name, Operator.EQUAL, name)]), "r")
    comments = [line for line in said.splitlines() if line.startswith("--")]
    assert "\\u000a; drop table r; --" in comments[0]
    assert said.splitlines()[len(comments)] == 'select t."a'


@pytest.mark.parametrize(
    ("dialect", "table", "cell"),
    [
        ("standard", 'lake."a.b"', 't."B ""c"'),
        ("duckdb", 'lake."a.b"', 't."B ""c"'),
        ("postgresql", 'lake."a.b"', 't."B ""c"'),
        ("spark", "lake.`a.b`", 't.`B "c`'),
    ],
)
def test_names(dialect: str, table: str, cell: str) -> None:
    said = body_of(holdfast.query('key(`B "c`)', "lake.`a.b`", dialect=dialect))
    assert f"from {table} as t" in said
    assert said.startswith(f"select {cell}, ")


def test_plain_columns_have_no_quotes_and_tables_have_where_they_are_keywords() -> None:
    assert "select t.select, t._a1, count(*)" in holdfast.query("key(select, _a1)", "select")
    assert '\nfrom "select" as t' in holdfast.query("key(select, _a1)", "select")
    with duckdb.connect() as connection:
        found = connection.execute(
            "select keyword_name from duckdb_keywords() where keyword_category in ('reserved', 'type_function')"
        ).fetchall()
    assert {word for (word,) in found} - {"generated", "map", "struct", "columns", "try_cast", "tuple"} <= _RESERVED


def test_a_name_that_no_engine_has() -> None:
    for name in ("", "a\0"):
        with pytest.raises(UsageError, match="is empty or has a NUL character"):
            SqlWriter(Dialect.STANDARD).name(name)
    with pytest.raises(UsageError, match="there is no dialect 'oracle': expected one of standard, duckdb"):
        holdfast.query("key(a)", "r", dialect="oracle")


SCHEMA = Schema(
    "r",
    (
        Column("i", INTEGER),
        Column("x", FLOAT),
        Column("p", ColumnType("decimal", 4, 2)),
        Column("s", STRING),
        Column("d", DATE),
        Column("at", TIMESTAMP),
        Column("ns", TIMESTAMP_NS),
    ),
)


@pytest.mark.parametrize(
    ("test", "where"),
    [
        ("t.i <= 0.1", "t.i <= 0"),
        ("t.i < 0.1", "t.i <= 0"),
        ("t.i >= -0.1", "t.i > -1"),
        ("t.i = 0.1", "1 = 0"),
        ("t.i != 0.1", "t.i is not null"),
        ("t.i < 1e400", "t.i is not null"),
        ("t.i <= -1e400", "1 = 0"),
        ("t.i >= -9223372036854775808", "t.i >= -9223372036854775808"),
        ("t.i > 9223372036854775808", "1 = 0"),
        ("t.p = 0.1", "t.p = 0.10"),
        ("t.p > 0.125", "t.p > 0.12"),
        ("t.p < 100", "t.p is not null"),
        ("t.p < 99.995", "t.p <= 99.99"),
        ("t.p > 1e-400", "t.p > 0.00"),
        ("t.x <= 0.1", "t.x < 0.1e0"),
        ("t.x > 0.1", "t.x >= 0.1e0"),
        ("t.x = 0.1", "1 = 0"),
        ("t.x != 0.1", "t.x is not null"),
        ("t.x < 0.3", "t.x <= 0.3e0"),
        ("t.x >= 0.30000000000000004", "t.x >= 0.30000000000000004e0"),
        ("t.x > 1e400", "t.x >= cast('Infinity' as real)"),
        ("t.x < -1e400", "t.x <= cast('-Infinity' as real)"),
        ("t.x = +5.", "t.x = 5.0"),
        ("t.i = +5.", "t.i = 5"),
        ("t.x = nan", "t.x = cast('NaN' as real)"),
        ("t.s < 'a'", "t.s collate \"C\" < 'a'"),
        ("t.s = 'a'", "t.s = 'a'"),
        ("t.d = '2024-02-29'", "t.d = '2024-02-29'"),
        ("t.at = '2024-02-29'", "t.at = '2024-02-29 00:00:00+00:00'"),
        ("t.at = '2024-02-29T12:30:00.5+02:00'", "t.at = '2024-02-29 10:30:00.500000+00:00'"),
        ("t.ns = '2024-02-29 12:30:00.123456789'", "t.ns = '2024-02-29 12:30:00.123456789+00:00'"),
    ],
)
def test_constants_of_known_types(test: str, where: str) -> None:
    said = holdfast.query(f"not({test})", "r", dialect="postgresql", schema=SCHEMA)
    assert body_of(said).splitlines()[-1] == f"where {where}"


def test_floats_of_32_bits() -> None:
    schema = Schema("r", (Column("x", FLOAT),))
    with duckdb.connect() as connection:
        connection.execute("create table r as select cast(0.1 as float) as x")
        for test, lines in (
            ("t.x > 0.1", 1),
            ("t.x <= 0.1", 0),
            ("t.x = 0.1", 0),
            ("t.x > 0.5", 0),
            ("t.x <= 0.5", 1),
            ("t.x < 16777217", 1),
        ):
            text = holdfast.query(f"not({test})", "r", schema=schema)
            assert len(connection.execute(text).fetchall()) == lines, text


def test_notes() -> None:
    def notes(text: str, **options: object) -> str:
        return "\n".join(line for line in holdfast.query(text, "r", **options).splitlines() if line.startswith("--"))  # type: ignore[arg-type]

    assert 'needs the collation "C"' in notes("{}: a ~ b")
    assert "collation" not in notes("{}: i ~ x", schema=SCHEMA)
    assert "collation" not in notes("{}: s ~ x", dialect="duckdb", schema=SCHEMA)
    assert "time zone" in notes("not(t.a > '2024-02-29')")
    assert "time zone" not in notes("not(t.at > '2024-02-29')", schema=SCHEMA)
    assert "compared as floats" in notes("not(t.i < s.x)", schema=SCHEMA)
    assert "compared as floats" not in notes("not(t.i < s.i and t.x > s.x)", schema=SCHEMA)
    assert "up to 21 digits" in notes("not(t.a > 0.5)")
    assert "digits" not in notes("not(t.a > 5 or t.b = '0.5')")
    assert "digits" not in notes("not(t.x > 0.5)", schema=SCHEMA)
    assert "dialect spark" in notes("key(A)")
    assert "dialect spark" not in notes("key(A)", dialect="duckdb")


def test_a_column_that_the_schema_lacks() -> None:
    with pytest.raises(UnknownColumn, match="did you mean 'x'"):
        holdfast.query("not(t.X = s.X)", "r", schema=SCHEMA)


def test_a_suspect_of_a_table() -> None:
    frame = zips()
    frame.loc[3, "city"] = "wrong"
    table = from_pandas(frame, "people")
    (suspect,) = holdfast.suspects(table, min_score=0.5)
    assert suspect.row is not None
    text = holdfast.suspect_query(suspect, table.row(suspect.row), "people", schema=table.schema)
    assert text.startswith(f"-- The suspect is city of a row that violates {suspect.constraints[0]}.\n")
    with duckdb.connect() as connection:
        connection.register("people", table.to_arrow())
        (expected, most), (value, count) = connection.execute(text).fetchall()
    assert (expected, value, count) == (suspect.expected, "wrong", 1)
    assert most > 1


def test_a_suspect_without_its_row_or_without_a_dependency() -> None:
    suspect = Doubted("city", (parse_near("zip, street -> city"),))
    with pytest.raises(UsageError, match=r"the row has no value of street: give all columns of \{zip, street\}"):
        holdfast.suspect_query(suspect, {"zip": 1})
    with pytest.raises(UsageError, match="violates no functional dependency"):
        holdfast.suspect_query(Doubted("city", (parse_near("key(city)"),)), {"city": "a"})
