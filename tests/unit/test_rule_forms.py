"""The short forms of rules, and how rules treat nulls: what they declare, what they count, what is refused."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import holdfast
from holdfast.constraints import (
    ConstraintSyntaxError,
    Nulls,
    Rule,
    Schema,
    UsageError,
    parse_rule_body,
    parse_rule_parts,
    with_nulls,
)
from holdfast.constraints.columns import Column
from holdfast.constraints.sentences import sentence
from holdfast.constraints.types import FLOAT, INTEGER, STRING
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.configuration.problems import ConfigurationError
from holdfast.jobs.configuration.rules_files import placed, read_rules
from holdfast.tables import from_arrow

TEXTS = [Column(name, STRING) for name in ("tail", "origin", "city", "state")]
FLIGHTS = Schema("flights", (Column("id", INTEGER), Column("month", INTEGER), Column("delay", FLOAT), *TEXTS))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def declared(*lines: str) -> list[Rule]:
    """Read rules of a YAML file."""
    Path("rules.yaml").write_text("rules:\n" + "".join(f"  - {line}\n" for line in lines), encoding="utf-8")
    return placed(read_rules(Path("rules.yaml"), (), ["flights"]), {"flights": FLIGHTS})


def refused(line: str) -> str:
    """Return why a rule of a YAML file is refused."""
    with pytest.raises(ConfigurationError) as caught:
        declared(line)
    (problem,) = caught.value.problems
    return problem.message


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        ("key: id", ["r: not(t.id = s.id)"]),
        ("unique: tail", ["r: not(t.tail = s.tail)"]),
        ("unique: [origin, tail]", ["r: not(t.origin = s.origin and t.tail = s.tail)"]),
        ("not_null: tail", ["r: not(t.tail is null)"]),
        ("not_null: [tail, origin]", ["r: not(t.tail is null or t.origin is null)"]),
        ("values: {origin: JFK}", ["r: t.origin in ('JFK')"]),
        ("values: {origin: [JFK, LGA, JFK]}", ["r: t.origin in ('JFK', 'LGA')"]),
        (
            'values: {month: [1, 2], origin: ["it\'s"]}',
            ["r: t.month in (1, 2) and t.origin in ('it''s')"],
        ),
        ("values: {delay: [0.10, 1e3, .nan, -.inf]}", ["r: t.delay in (0.10, 1e3, nan, -inf)"]),
        ("values: {delay: 0.1000000000000000000000001}", ["r: t.delay in (0.1000000000000000000000001)"]),
        ("range: {month: [1, 12]}", ["r: not(t.month < 1 or t.month > 12)"]),
        ("range: {month: {min: 1}, delay: {max: 1.5}}", ["r: not(t.month < 1 or t.delay > 1.5)"]),
        ("range: {month: [~, 12]}", ["r: not(t.month > 12)"]),
        ("range: {delay: [-.inf, 1e9]}", ["r: not(t.delay < -inf or t.delay > 1e9)"]),
        ('matches: {tail: "N[0-9]+"}', ["r: t.tail matches 'N[0-9]+'"]),
        ('fd: "origin -> city"', ["r: not(t.origin = s.origin and t.city != s.city)"]),
        (
            'fd: "origin -> city, state"',
            [
                "r.city: not(t.origin = s.origin and t.city != s.city)",
                "r.state: not(t.origin = s.origin and t.state != s.state)",
            ],
        ),
        ("key: tail, nulls: equal", ["r: not(t.tail = s.tail)"]),
        ("key: tail, nulls: apart", ["r: not(t.tail = s.tail) nulls apart"]),
        ("key: tail, nulls: break", ["r: not(t.tail = s.tail) nulls apart", "r.nulls: not(t.tail is null)"]),
        (
            'fd: "origin -> city, state", nulls: break',
            [
                "r.city: not(t.origin = s.origin and t.city != s.city) nulls apart",
                "r.state: not(t.origin = s.origin and t.state != s.state) nulls apart",
                "r.nulls: not(t.origin is null or t.city is null or t.state is null)",
            ],
        ),
        ('od: "{origin}: month ~ delay", nulls: apart', ["r: {origin}: month ~ delay nulls apart"]),
        (
            "forbid: \"t.origin = s.origin and t.month < s.id and t.tail = 'x'\", nulls: apart",
            ["r: not(t.origin = s.origin and t.month < s.id and t.tail = 'x') nulls apart"],
        ),
        ('require: "t.month >= 1", nulls: apart', ["r: not(t.month < 1)"]),
        ('require: "t.month >= 1", nulls: break', ["r: not(t.month < 1 or t.month is null)"]),
        ("values: {origin: JFK}, nulls: break", ["r: t.origin in ('JFK') and t.origin is not null"]),
        ("range: {month: [1, 12]}, nulls: break", ["r: not(t.month < 1 or t.month > 12 or t.month is null)"]),
        (
            'forbid: "t.month < 1 and t.delay > t.id", nulls: break',
            ["r: not(t.month < 1 and t.delay > t.id or t.month is null or t.delay is null or t.id is null)"],
        ),
        (
            'inclusion: "flights.tail in flights.origin", nulls: break',
            ["r: flights.tail in flights.origin", "r.nulls: not(t.tail is null)"],
        ),
    ],
)
def test_what_a_form_declares(form: str, texts: list[str]) -> None:
    rules = declared(f"{{name: r, {form}}}")
    assert [str(rule) for rule in rules] == texts
    assert {rule.table for rule in rules} == {"flights"}
    for rule in rules:
        assert parse_rule_body(rule.text) == rule.body
        assert sentence(rule.body).endswith(".")


@pytest.mark.parametrize(
    ("form", "part"),
    [
        ("not_null: []", "at least one entry"),
        ("not_null: [tail, tail]", "'tail' is named twice"),
        ("unique: {tail: 1}", "expected a list such as [a, b], given a mapping"),
        ("key: 5", 'expected a text, given 5 (in quotes, "5", it is one)'),
        ("values: {}", "at least one entry"),
        ("values: JFK", "expected a mapping such as {state: [MA, NY]}, given 'JFK'"),
        ("range: [1, 12]", "expected a mapping such as {month: [1, 12]}, given a list"),
        ('require: "month > 1"', "a condition names the row of a column: write t.month"),
        ("values: {origin: []}", "at least one entry"),
        ("values: {origin: [JFK, ~]}", "only with 'nulls: break'"),
        ("values: {origin: [[JFK]]}", "expected a number, a text, true or false, given a list"),
        ("values: {origin: [1]}", "a text in quotes"),
        ("values: {month: [JFK]}", "a number without quotes"),
        ("values: {orign: JFK}", "table flights has no column 'orign'; did you mean 'origin'?"),
        ("range: {month: 3}", "[1, 12] or {min: 0}; given 3"),
        ("range: {month: [1, 2, 3]}", "given a list"),
        ("range: {month: [~, ~]}", "given a list"),
        ("range: {month: {least: 1}}", "given a mapping"),
        ("range: {month: [12, 1]}", "12 is above 1"),
        ("range: {delay: [.nan, .inf]}", "nan is above inf"),
        ("range: {month: [1, x]}", "1 and 'x' are of different types"),
        ("range: {origin: [A, Z]}", "the values of origin have no order"),
        ('matches: {tail: "["}', "pattern '[' is no regular expression (RE2): missing ]"),
        ('matches: {tail: "(?=a)"}', "is no regular expression (RE2)"),
        ('matches: {tail: "a)|(b"}', "is no regular expression (RE2)"),
        ('matches: {tail: "\\\\Qa"}', "is no regular expression (RE2)"),
        ('matches: {month: "1"}', "a pattern is for texts, and column month integer has none"),
        ("matches: {tail: 5}", "expected a text, given 5"),
        ('fd: "origin -> city, city"', "'city' is named twice"),
        ('fd: "origin -> city,"', "expected a column's name"),
        ('fd: "origin -> city, origin"', "stands on both sides"),
        ("key: tail, nulls: aprt", "unknown nulls 'aprt'; did you mean 'apart'?"),
        ("not_null: tail, nulls: apart", "'nulls' has no meaning here"),
        ("values: {origin: JFK}, nulls: equal", "is for rules that compare two rows"),
        ('inclusion: "flights.tail in flights.origin", nulls: equal', "is for rules that compare two rows"),
        ("not_null: tail, unique: tail", "given unique and not_null"),
        ("values: {origin: JFK}, max_violating_pairs: 3", "set max_violating_rows instead"),
    ],
)
def test_what_is_refused(form: str, part: str) -> None:
    assert part in refused(f"{{name: r, {form}}}")


def test_an_unknown_form_is_told_from_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="unknown key 'not_nul'; did you mean 'not_null'"):
        declared("{name: r, not_nul: tail}")


def test_names_of_parts_are_names_of_rules() -> None:
    with pytest.raises(ConfigurationError, match=r"'a\.state' is the name of a rule already \(rules.yaml:2\)"):
        declared("{name: a.state, key: id}", '{name: a, fd: "origin -> city, state"}')


def test_a_missing_column_is_a_problem_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        declared('{name: a, fd: "origin -> cty, state", nulls: break}')
    (problem,) = caught.value.problems
    assert problem.message.startswith("rule a.cty: table flights has no column 'cty'; did you mean 'city'?")


def test_the_parts_of_a_text_are_about_one_table() -> None:
    tables = {"flights": FLIGHTS, "places": Schema("places", tuple(TEXTS[1:3]))}
    found = placed(read_rules(None, ["p: origin -> city, state nulls break"], list(tables)), tables)
    assert [(rule.name, rule.table) for rule in found] == [
        ("p.city", "flights"),
        ("p.state", "flights"),
        ("p.nulls", "flights"),
    ]


def test_thresholds_are_of_each_part() -> None:
    pairs, nulls = declared("{name: r, key: tail, nulls: break, max_violating_pairs: 3, max_violating_rows: 1%}")
    assert pairs.threshold == "at most 3 violating pairs; at most 1% violating rows"
    assert nulls.threshold == "at most 1% violating rows"


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("t.month >= 1", ["t.month >= 1: not(t.month < 1)"]),
        ("m: 1 <= t.month and t.month <= 12", ["m: not(t.month < 1 or t.month > 12)"]),
        (
            "(t.month = 1 or t.origin in ('JFK'))",
            ["(t.month = 1 or t.origin in ('JFK')): not(t.month != 1 and t.origin not in ('JFK'))"],
        ),
        (
            "t.tail matches 'N#[0-9]''.*'  # tail numbers",
            ["t.tail matches 'N#[0-9]''.*': t.tail matches 'N#[0-9]''.*'"],
        ),
        ("t.tail is not null", ["t.tail is not null: not(t.tail is null)"]),
        ("t.origin = '->'", ["t.origin = '->': not(t.origin != '->')"]),
        (
            "p: origin -> city, state",
            [
                "p.city: not(t.origin = s.origin and t.city != s.city)",
                "p.state: not(t.origin = s.origin and t.state != s.state)",
            ],
        ),
        (
            "origin -> city, state",
            [
                "origin -> city: not(t.origin = s.origin and t.city != s.city)",
                "origin -> state: not(t.origin = s.origin and t.state != s.state)",
            ],
        ),
        (
            "unique(tail) nulls break",
            [
                "key(tail) nulls apart: not(t.tail = s.tail) nulls apart",
                "not(t.tail is null): not(t.tail is null)",
            ],
        ),
    ],
)
def test_rules_as_texts(line: str, rules: list[str]) -> None:
    found = placed(read_rules(None, [line], ["flights"]), {"flights": FLIGHTS})
    assert [str(rule) for rule in found] == rules


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("t.month < s.month", "say what two rows must not be, as in not(...)"),
        ("month >= 1", "a condition names the row of a column: write t.month"),
        ("not(tail matches 'x')", "a condition names the row of a column: write t.tail"),
        ("t.month in ()", "expected a number or a 'text'"),
        ("t.month in (1", "expected ',' or ')', and the text ends"),
        ("t.tail matches", "expected a pattern in quotes"),
        ("key(tail) nulls", "expected equal, apart or break"),
        ("key(tail) nulls gone", "expected equal, apart or break"),
    ],
)
def test_texts_that_are_no_rules(line: str, part: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_rules(None, [line], ["flights"])
    assert part in caught.value.problems[0].message


def test_several_rules_are_no_one_body() -> None:
    assert len(parse_rule_parts("a -> b, c")) == 2
    with pytest.raises(ConstraintSyntaxError, match="this declares 2 rules: write them one by one"):
        parse_rule_body("a -> b, c")


def test_nulls_are_part_of_a_body_once() -> None:
    (part,) = parse_rule_parts("key(a) nulls apart")
    assert with_nulls([part], None) == (part,)
    with pytest.raises(UsageError, match="no meaning here"):
        with_nulls(parse_rule_parts("not(t.a is null)"), Nulls.APART)


NAN = float("nan")
TABLE = pa.table(
    {
        "k": pa.array([1, 1, None, None, 2]),
        "f": pa.array([NAN, NAN, 1.0, None, 1.0]),
        "v": pa.array(["a", "b", "x", None, None]),
    }
)


@pytest.mark.parametrize(
    ("rule", "pairs", "rows"),
    [
        ("key(k)", 4, 4),
        ("key(k) nulls equal", 4, 4),
        ("key(k) nulls apart", 2, 2),
        ("key(f)", 4, 4),  # NaN equals NaN
        ("key(f) nulls apart", 4, 4),
        ("k -> v", 4, 4),
        ("k -> v nulls apart", 2, 2),
        ("v -> f", 2, 2),
        ("v -> f nulls apart", 0, 0),
        ("{}: k ~ f desc", 5, 5),
        ("{}: k ~ f desc nulls apart", 0, 0),
        ("t.v is not null", None, 2),
        ("t.v in ('a', 'x')", None, 1),
        ("t.v in ('a', 'x') nulls break", None, 3),
        ("t.f in (1)", None, 2),
        ("t.f in (nan, 1)", None, 0),
        ("t.f >= 0 and t.f <= 10", None, 2),  # NaN is above all numbers
        ("t.f >= 0", None, 0),
        ("t.f >= 0 nulls break", None, 1),
        ("t.v matches '[a-w]'", None, 1),
        ("t.v not matches '[a-w]'", None, 2),
        ("t.v matches '[a-w]' nulls break", None, 3),
    ],
)
def test_nulls_and_nan(rule: str, pairs: int | None, rows: int) -> None:
    (found,) = holdfast.check(from_arrow(TABLE, "t"), rule)
    assert (found.violating_pairs, found.violating_rows) == (pairs, rows)


def test_a_pattern_is_of_the_whole_text() -> None:
    table = from_arrow(pa.table({"v": ["ab", "abc", "xab", "AB", "ab\n", "", "a\nb"]}), "t")

    def matching(pattern: str) -> list[int]:
        rules = Rule("r", "t", parse_rule_body("not(t.v matches '{}')".format(pattern.replace("'", "''"))))
        (found,) = holdfast.check(table, rules, examples=10)
        return [row for example in found.examples for row in example.rows]

    assert matching("ab") == [0]
    assert matching("ab|") == [0, 5]
    assert matching("(?i)ab") == [0, 3]
    assert matching(".*ab.*") == [0, 1, 2]
    assert matching("(?s).*b.*") == [0, 1, 2, 4, 6]


def test_many_accepted_values() -> None:
    accepted = ", ".join(map(str, range(0, 2_000, 2)))
    table = from_arrow(pa.table({"v": np.arange(2_000)}), "t")
    assert holdfast.check(table, f"t.v in ({accepted})")[0].violating_rows == 1_000
    with pytest.raises(ConstraintSyntaxError, match="more than 1,000 values: put them into a table"):
        holdfast.check(table, f"t.v in ({accepted}, 3000)")


def test_a_text_of_several_rules_in_python() -> None:
    found = holdfast.check(from_arrow(TABLE, "t"), ["k -> v, f", "key(k) nulls break"])
    assert [one.rule.name for one in found] == ["k -> v", "k -> f", "key(k) nulls apart", "not(t.k is null)"]
    watched = holdfast.Maintainer.seed(from_arrow(TABLE, "t"), max_predicates=None, rules=["k -> v, f"])
    assert [state.rule.name for state in watched.rules] == ["k -> v", "k -> f"]


def test_a_query_for_each_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["query", "p: origin -> city, state nulls break", "--table", "flights"]) == 0
    queries = capsys.readouterr().out.split(";\n")
    assert [query.strip().splitlines()[0].partition(":")[0] for query in queries[:-1]] == [
        "-- p.city",
        "-- p.state",
        "-- p.nulls",
    ]
