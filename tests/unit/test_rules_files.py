"""Rules files and `--rule`: what is read, what is refused and where, and found constraints as a rules file."""

import csv
import io
import random
from pathlib import Path

import pytest

from holdfast.constraints import (
    Column,
    Condition,
    DenialConstraint,
    InclusionDependency,
    Rule,
    Schema,
    Severity,
    UsageError,
    parse_constraint,
    parse_rule_body,
)
from holdfast.constraints.types import INTEGER, STRING
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.configuration.problems import ConfigurationError
from holdfast.jobs.configuration.rules_files import MAX_BYTES, placed, read_rules
from holdfast.jobs.files.found_rules import rule_lines

TAX = Schema("tax", (*(Column(name, STRING) for name in ("Zip", "City", "Item#")), Column("Salary", INTEGER)))
ORDERS = Schema("orders", (Column("id", INTEGER), Column("customer", INTEGER), Column("Zip", STRING)))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rules(text: str, *tables: Schema, name: str = "rules.txt") -> list[Rule]:
    """Read a rules file, and put its rules on tables (`tax` alone where none is given)."""
    Path(name).write_text(text, encoding="utf-8")
    schemas = {table.table: table for table in tables or (TAX,)}
    return placed(read_rules(Path(name), (), list(schemas)), schemas)


def texts(text: str, *tables: Schema) -> list[str]:
    return [f"{rule.name} | {rule.table} | {rule.text}" for rule in rules(text, *tables)]


def errors(text: str, *tables: Schema, name: str = "rules.txt") -> list[tuple[int, int, str]]:
    """Return line, column and message of everything that is refused."""
    with pytest.raises(ConfigurationError) as caught:
        rules(text, *tables, name=name)
    assert caught.value.exit_code == 2
    assert str(caught.value).startswith(f"{len(caught.value.problems)} error")
    return [(p.place.line, p.place.column, p.message) for p in caught.value.problems]


class TestLines:
    def test_names_comments_and_blank_lines(self) -> None:
        found = texts(
            "\ufeff# the rules of tax\r\n\n"
            "  zip_city :  Zip -> City   # a town's name: 'one'\r\n"
            "key(Zip, City)\n"
            "\t# nothing\n"
            "Zip's own: Item# -> Zip # `\n"
            "`a: b # ``c```: not(t.City = 'x # y' or t.City = 'it''s: # here')#\n"
            "{Zip}: City ~ Salary\n"
            "{}: [] -> `Zip`# a comment\n"
        )
        assert found == [
            "zip_city | tax | not(t.Zip = s.Zip and t.City != s.City)",
            "key(Zip, City) | tax | not(t.Zip = s.Zip and t.City = s.City)",
            "Zip's own | tax | not(t.`Item#` = s.`Item#` and t.Zip != s.Zip)",
            "a: b # `c` | tax | not(t.City = 'x # y' or t.City = 'it''s: # here')",
            "{Zip}: City ~ Salary | tax | {Zip}: City ~ Salary",
            "{}: [] -> `Zip` | tax | {}: [] -> Zip",
        ]

    def test_forms_of_the_papers_have_no_name(self) -> None:
        found = texts(
            "[DC: t0.Zip(String) == t1.Zip(String)  t0.City(String) == t1.City(String)]\n"
            "∀ t, s ∈ tax: ¬(t.Zip = s.Zip ∧ t.City ≠ s.City)\n"
            "\\forall t: \\neg(t.Salary = s.Salary)\n"
        )
        assert [line.split(" | ")[2] for line in found] == [
            "not(t.Zip = s.Zip and t.City = s.City)",
            "not(t.Zip = s.Zip and t.City != s.City)",
            "not(t.Salary = s.Salary)",
        ]

    def test_what_rules_are(self) -> None:
        found = rules("not(t.Salary <= 0)\ntax.Zip in orders.Zip\nkey(id)\n", TAX, ORDERS)
        assert [type(rule.body) for rule in found] == [Condition, InclusionDependency, DenialConstraint]
        assert [rule.table for rule in found] == ["tax", "tax", "orders"]
        assert {(rule.severity, rule.threshold) for rule in found} == {(Severity.ERROR, None)}

    def test_everything_wrong_is_said_at_once(self) -> None:
        found = errors("a: Zip -> \nb: Zip -> City\n\nb: key(Zip)\n: key(Zip)\nc: # key(Zip)\nkey(Zip)\nkey(Zip)\n")
        assert [(line, column) for line, column, _ in found] == [(1, 4), (4, 4), (5, 3), (6, 4), (8, 1)]
        messages = [message for _, _, message in found]
        assert messages[0].endswith("\n  Zip ->\n        ^")
        assert messages[1] == "'b' is the name of a rule already (rules.txt:2): choose another"
        assert "needs a name before its ':'" in messages[2]
        assert "needs a rule after its ':'" in messages[3]
        assert "'key(Zip)' is the name of a rule already" in messages[4]

    def test_a_condition_on_pairs_takes_no_or(self) -> None:
        ((line, _, message),) = errors("x: not(t.Zip = s.Zip or t.City = s.City)")
        assert line == 1
        assert "takes no 'or'" in message

    def test_columns_and_types_are_looked_at_together(self) -> None:
        found = errors(
            "a: Zap -> Cty\nb: not(t.Zip < s.Zip)\nc: not(t.Salary = 'x')\nd: tax.Zip in town.Zip\nkey(Zip)\n"
        )
        assert [line for line, _, _ in found] == [1, 1, 2, 3, 4]
        messages = [message for _, _, message in found]
        assert messages[0].startswith("rule a: table tax has no column 'Cty'; did you mean 'City'?")
        assert messages[1].startswith("rule a: table tax has no column 'Zap'; did you mean 'Zip'?")
        assert messages[2].startswith("rule b: ")
        assert messages[3].startswith("rule c: ")
        assert messages[4].startswith("rule d: there is no table 'town'")


class TestWhichTable:
    def test_the_one_that_has_all_its_columns(self) -> None:
        assert [rule.table for rule in rules("Zip -> City\nZip -> customer\n", TAX, ORDERS)] == ["tax", "orders"]

    @pytest.mark.parametrize(
        ("rule", "part"),
        [
            ("key(Zip)", "tables tax, orders have its columns: name the table in a YAML rules file, as in"),
            ("key(City, customer)", "no table has all its columns (tax has City; orders has customer)"),
            ("key(Cty)", "no table has a column 'Cty'; did you mean 'City'?"),
        ],
    )
    def test_or_none(self, rule: str, part: str) -> None:
        ((line, _, message),) = errors(f"# one\n{rule}\n", TAX, ORDERS)
        assert line == 2
        assert part in message


YAML = """\
rules:
  - {name: a, table: tax, fd: "Zip -> City", max_violating_rows: 0.1%, severity: warning}
  - name: b
    forbid: t.Zip = s.Zip and t.Salary > s.Salary
  - {name: c, require: "t.Salary > 0"}
  - {name: d, key: [Zip, City], max_violating_pairs: 10}
  - {name: e, od: "{Zip}: City ~ Salary"}
  - {name: f, inclusion: tax.Zip in tax.City}
"""


class TestYaml:
    @pytest.mark.parametrize("name", ["rules.yaml", "rules.YML", "rules.txt", "rules"])
    def test_the_rules_of_a_configuration_or_a_list_alone(self, name: str) -> None:
        found = rules("# a comment\n" + YAML, name=name)
        assert [str(rule) for rule in found] == [
            "a: not(t.Zip = s.Zip and t.City != s.City)",
            "b: not(t.Zip = s.Zip and t.Salary > s.Salary)",
            "c: not(t.Salary <= 0)",
            "d: not(t.Zip = s.Zip and t.City = s.City)",
            "e: {Zip}: City ~ Salary",
            "f: tax.Zip in tax.City",
        ]
        assert [rule.threshold for rule in found[:4]] == [
            "at most 0.1% violating rows",
            None,
            None,
            "at most 10 violating pairs",
        ]
        assert [rule.severity.value for rule in found[:2]] == ["warning", "error"]
        assert rules(YAML.partition("\n")[2], name=name) == found

    def test_a_whole_configuration(self) -> None:
        text = "name: tax\nstate: s\nbackup: b\noutput: o\ncheckpoint: c\ntables: [{name: tax, seed: {path: t.csv}}]\n"
        assert rules(text + YAML, name="c.yaml") == rules(YAML)

    def test_everything_wrong_is_said_at_once(self) -> None:
        found = errors(
            "rules:\n"
            "  - {name: a, table: tux, fd: Zip -> City}\n"
            "  - {name: a, fd: 'Zip -> '}\n"
            "  - {name: b, fd: Zip -> City, max_violatin_rows: 3}\n"
            "  - {fd: Zip -> City, severity: high}\n"
            "  - 3\n"
            "rulez: []\n"
        )
        assert [(line, message.splitlines()[0].partition(";")[0]) for line, _, message in found] == [
            (2, "there is no table 'tux'"),
            (3, "'a' is the name of a rule already (rules.txt:2): choose another"),
            (
                3,
                "expected a column's name (in backquotes if it is not plain), and the text ends, at character 8:",
            ),
            (4, "unknown key 'max_violatin_rows'"),
            (5, "is missing: add a name, such as 'name: airport'"),
            (5, "unknown severity 'high'"),
            (6, "expected a mapping of names and values, given 3"),
            (7, "unknown key 'rulez'"),
        ]

    def test_columns_have_their_lines_too(self) -> None:
        found = errors("- {name: a, fd: Zip -> City}\n- name: b\n  fd: Zap -> City\n")
        assert [(line, message.partition("'")[0]) for line, _, message in found] == [
            (3, "rule b: table tax has no column ")
        ]

    def test_several_tables_have_to_be_told_apart(self) -> None:
        ((line, _, message),) = errors("- {name: a, fd: Zip -> City}\n", TAX, ORDERS)
        assert (line, message) == (1, "is missing: add one of tax, orders")
        assert [r.table for r in rules("- {name: a, table: orders, key: [Zip]}\n", TAX, ORDERS)] == ["orders"]

    def test_environment_variables(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LIMIT", "7")
        (rule,) = rules("- {name: a, fd: Zip -> City, max_violating_rows: '${LIMIT}'}")
        assert rule.threshold == "at most 7 violating rows"


class TestFiles:
    @pytest.mark.parametrize(
        ("content", "name", "part"),
        [
            (b"", "r.txt", "has no rule"),
            (b"", "r.yaml", "has no rule"),
            (b"# a\n  \n", "r.txt", "has no rule"),
            (b"a: key(Zip)\nb: key(\xe9)\n", "r.txt", "byte 0xE9 is not UTF-8"),
            (b"- {name: \xe9}\n", "r.yaml", "byte 0xE9 is not UTF-8"),
            (b"rules:\n", "r.txt", "expected a list of rules"),
            (b"rules: []\n", "r.yaml", "expected a list of rules"),
            (b"rules: {a: 1}\n", "r.yaml", "expected a list of rules"),
            (b"name: x\n", "r.yaml", "expected a list of rules"),
            (b"3\n", "r.yaml", "expected a list of rules"),
            (b"rules: [\n", "r.yaml", "not YAML"),
            (b"a" * (MAX_BYTES + 1), "r.txt", "larger than 64 MiB"),
        ],
    )
    def test_what_is_no_rules_file(self, content: bytes, name: str, part: str) -> None:
        Path(name).write_bytes(content)
        with pytest.raises(ConfigurationError, match=part) as caught:
            read_rules(Path(name), (), ["tax"])
        assert len(caught.value.problems) == 1

    def test_what_cannot_be_read(self) -> None:
        for name in (".", "nope.txt"):
            with pytest.raises(ConfigurationError, match="cannot be read"):
                read_rules(Path(name), (), ["tax"])

    def test_many_rules(self) -> None:
        """As many as a search finds, beyond what a configuration needs."""
        columns = tuple(Column(f"c{i}", INTEGER) for i in range(150))
        pairs = [(a, b) for a in range(150) for b in range(a)][:9_000]
        found = [("t", parse_rule_body(f"not(t.c{a} = s.c{a} and t.c{b} > s.c{b})")) for a, b in pairs]
        for several in (False, True):
            text = "".join(rule_lines(found, None, several=several))  # type: ignore[arg-type]
            assert [rule.body for rule in rules(text, Schema("t", columns))] == [body for _, body in found]


class TestCommandLine:
    def test_names_and_bodies(self) -> None:
        found = read_rules(None, ["Zip -> City", " k : key(Zip)", "`a:b`: {Zip}: City ~ Salary"], ["tax"])
        assert [one.rule.name for one in found] == ["Zip -> City", "k", "a:b"]

    def test_together_with_a_file(self) -> None:
        Path("rules.txt").write_text("a: key(Zip)\n")
        found = read_rules(Path("rules.txt"), ["b: key(City)"], ["tax"])
        assert [one.rule.name for one in found] == ["a", "b"]
        with pytest.raises(ConfigurationError, match=r"^1 error in --rule\n--rule: 'a' is the name .* \(rules.txt:1\)"):
            read_rules(Path("rules.txt"), ["a: key(City)"], ["tax"])

    def test_errors_of_both_are_said_together(self) -> None:
        Path("rules.txt").write_text("a: key(\n")
        with pytest.raises(UsageError) as caught:
            read_rules(Path("rules.txt"), ["key(", ""], ["tax"])
        assert "1 error in rules.txt\nrules.txt:1:4: " in str(caught.value)
        assert "2 errors in --rule\n--rule: " in str(caught.value)
        Path("rules.txt").write_text("a: key(Zap)\n")
        with pytest.raises(UsageError) as caught:
            placed(read_rules(Path("rules.txt"), ["key(Cty)"], ["tax"]), {"tax": TAX})
        assert "rules.txt:1:4: rule a: table tax has no column 'Zap'" in str(caught.value)
        assert "--rule: rule key(Cty): table tax has no column 'Cty'" in str(caught.value)


ODD = [
    *(
        "a b",
        " a",
        "a`b",
        "``",
        "#",
        "x #y",
        "a:b",
        "'",
        "it's",
        '"',
        "\\",
        "${HOME}",
        "$${x",
        "é",
        "日本",
        "\U0001f600",
    ),
    *("not", "in", "desc", "true", "null", "t", "s.t", "rules:", "- ", "{", "}", "[]", "->", "a~b", "(x)", "1", "-"),
    *("\u2028", "\x85", "\t", "a\rb", "\ufeff", "\x7f", "\ufffe"),
]


class TestFoundConstraints:
    """What `discover --as-rules` writes."""

    @pytest.mark.parametrize("several", [False, True])
    @pytest.mark.parametrize("table", ["tax", "a:b #`c`", "rules", "not", "a\nb"])
    def test_comes_back_as_it_was(self, table: str, *, several: bool) -> None:
        for name in [*ODD, "a\nb"]:
            quoted = "`" + name.replace("`", "``") + "`"
            at = "`" + table.replace("`", "``") + "`"
            found = [
                (table, parse_constraint(text.replace("NAME", quoted)))
                for text in (
                    "not(t.NAME = s.NAME and t.b != s.b)",
                    "not(t.NAME < s.NAME and t.b >= s.b)",
                    "{b}: [] -> NAME",
                    "{}: NAME ~ b desc",
                    f"{at}.NAME in {at}.b",
                )
            ]
            text = "".join(rule_lines(found, None, several=several))
            back = rules(text, Schema(table, (Column(name, INTEGER), Column("b", INTEGER))))
            assert [rule.body for rule in back] == [constraint for _, constraint in found]
            assert len({rule.name for rule in back}) == 5
            assert {rule.table for rule in back} == {table}

    def test_lines_and_yaml(self) -> None:
        found = [
            ("tax", parse_constraint("not(t.Zip = s.Zip and t.City != s.City)")),
            ("or ders", parse_constraint("{}: [] -> id")),
        ]
        assert list(rule_lines(found, Path("r.txt"), several=False)) == [
            "tax_Zip_City: Zip -> City  # Rows with the same Zip have the same City.\n",
            "or_ders_constant_id: {}: [] -> id  # All rows have the same id.\n",
        ]
        yaml = [
            "rules:\n",
            '  - {name: tax_Zip_City, table: tax, fd: "Zip -> City"}  # Rows with the same Zip have the same City.\n',
            '  - {name: or_ders_constant_id, table: "or ders", od: "{}: [] -> id"}  # All rows have the same id.\n',
        ]
        assert list(rule_lines(found, None, several=True)) == yaml
        assert list(rule_lines(found, Path("r.yml"), several=False)) == yaml
        inclusion = [("a", parse_constraint("a.x in b.y"))]
        assert list(rule_lines(inclusion, Path("r.yaml"), several=False))[1].startswith(
            '  - {name: a_x_in_b_y, inclusion: "a.x in b.y"}  # '
        )


def _random_file(file: str, seed: int) -> None:
    """Write a small table with odd names and repeated values."""
    choose = random.Random(seed)
    names = choose.sample([name for name in [*ODD, "a\nb"] if "\ufffe" not in name], 5)
    rows = [
        [choose.choice(["", "1", "2", "3"]) for _ in range(3)] + [choose.choice("abc") for _ in range(2)]
        for _ in range(12)
    ]
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([names, *rows])
    Path(file).write_text(text.getvalue(), encoding="utf-8", newline="")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", ["dc", "od", "ind"])
@pytest.mark.parametrize("files", [["a b#.csv"], ["it's.csv", "x:`y`.csv"]])
@pytest.mark.parametrize("options", [[], ["--top", "4"]])
def test_what_discover_finds_check_finds_to_hold(
    capsys: pytest.CaptureFixture[str], files: list[str], family: str, seed: int, options: list[str]
) -> None:
    for i, file in enumerate(files):
        _random_file(file, 10 * seed + i)
    searching = ["discover", *files, "--family", family, "--quiet", *options]
    assert exit_code_of([*searching, "--format", "json"]) == 0
    found = capsys.readouterr().out.count("\n")
    for output in ("rules.txt", "rules.yaml"):
        assert exit_code_of([*searching, "--as-rules", "--output", output]) == 0
        code = exit_code_of(["check", *files, "--rules", output, "--format", "json"])
        captured = capsys.readouterr()
        if not found:
            assert code == 2
            continue
        assert (code, captured.out.count("\n")) == (0, found), captured.err
        assert f"{found:,} rule" in captured.err
        assert captured.err.endswith(f": {found:,} ok\n")
