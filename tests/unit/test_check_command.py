"""`holdfast check`: what it counts, shows and writes, its exit codes, and what it refuses."""

import json
import random
import stat
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from holdfast.constraints import parse_rule_body
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.files import pairs as pairs_files

TAX = (
    "State,Zip,City,Salary,Rate\n"
    "MA,01907,Swampscott,1000,3.5\n"
    "MA,01907,Lynn,2000,3.0\n"
    "NY,10001,New York,1500,\n"
    'NY,10001,"New\nYork",-5,2.0\n'
)
TOWNS = "City,Mayor\nLynn,Ann\nNew York,Bob\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tax.csv").write_text(TAX)
    (tmp_path / "towns.csv").write_text(TOWNS)
    return tmp_path


class Answer:
    """What `check` said."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        self.code = exit_code_of(["check", *arguments])
        self.out, self.err = capsys.readouterr()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    """Return the JSON lines by their rules' names."""
    answer = Answer(capsys, *arguments, "--format", "json", "--quiet")
    assert answer.code in {0, 1}
    assert answer.err == ""
    return {line["rule"]: line for line in answer.lines}


def ruled(*texts: str) -> list[str]:
    return [part for text in texts for part in ("--rule", text)]


class TestText:
    def test_verdicts_counts_and_rows_below_one_another(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("rules.yaml").write_text(
            "rules:\n"
            '  - {name: zip_city, fd: "Zip -> City", max_violating_rows: 100%}\n'
            '  - {name: paid, require: "t.Salary > 0", severity: warning}\n'
            "  - {name: towns, inclusion: tax.City in tax.State}\n"
        )
        answer = Answer(
            capsys, "tax.csv", "--rules", "rules.yaml", *ruled("key(Salary)", "rate: {State}: Salary ~ Rate")
        )
        assert answer.code == 1
        assert answer.out == (
            "violated          zip_city     4 pairs, 4 of 4 rows (at most 100% violating rows)"
            "  not(t.Zip = s.Zip and t.City != s.City)\n"
            "       Zip      City\n"
            '    t  "01907"  "Swampscott"  tax.csv, line 2\n'
            '    s  "01907"  "Lynn"        tax.csv, line 3\n'
            '    t  "10001"  "New York"    tax.csv, line 4\n'
            '    s  "10001"  "New\\nYork"   tax.csv, line 5\n'
            "broken (warning)  paid         1 of 4 rows                                       "
            "  not(t.Salary <= 0)\n"
            "       Salary\n"
            "    t  -5      tax.csv, line 5\n"
            "broken            towns        4 missing values, 4 of 4 rows                     "
            "  tax.City in tax.State\n"
            '    missing: "Swampscott", "Lynn", "New York"\n'
            "ok                key(Salary)  0 pairs, 0 of 4 rows                              "
            "  not(t.Salary = s.Salary)\n"
            "broken            rate         2 pairs, 4 of 4 rows                              "
            "  {State}: Salary ~ Rate\n"
            "       State  Salary  Rate\n"
            '    t  "MA"   1000    3.5   tax.csv, line 2\n'
            '    s  "MA"   2000    3.0   tax.csv, line 3\n'
            '    t  "NY"   -5      2.0   tax.csv, line 5\n'
            '    s  "NY"   1500    null  tax.csv, line 4\n'
        )
        assert answer.err == "5 rules on 1 table: 1 ok, 1 violated, 1 broken (warning), 2 broken\n"

    def test_several_tables_are_named_and_examples_are_counted(self, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["tax.csv", "towns.csv", *ruled("Zip -> City", "key(Mayor)", "tax.City in towns.City")]
        answer = Answer(capsys, *arguments, "--examples", "1")
        assert answer.code == 1
        assert [line.split() for line in answer.out.splitlines()] == [
            "broken Zip -> City 4 pairs, 4 of 4 rows tax: not(t.Zip = s.Zip and t.City != s.City)".split(),
            ["Zip", "City"],
            't "01907" "Swampscott" tax.csv, line 2'.split(),
            's "01907" "Lynn" tax.csv, line 3'.split(),
            "ok key(Mayor) 0 pairs, 0 of 2 rows towns: not(t.Mayor = s.Mayor)".split(),
            "broken tax.City in towns.City 2 missing values, 2 of 4 rows".split(),
            'missing: "Swampscott"'.split(),
        ]
        assert answer.err == "3 rules on 2 tables: 1 ok, 2 broken\n"
        answer = Answer(capsys, *arguments, "--examples", "0", "--quiet")
        assert (answer.out.count("\n"), answer.err) == (3, "")

    def test_the_first_violation_is_enough(self, capsys: pytest.CaptureFixture[str]) -> None:
        answer = Answer(capsys, "tax.csv", "--exists", *ruled("Zip -> City", "key(Salary)"))
        assert answer.code == 1
        assert "  stopped at the first violation  " in answer.out.splitlines()[0]
        assert "  0 pairs, 0 of 4 rows" in answer.out.splitlines()[-1]

    def test_long_values_and_names(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("long.csv").write_text(f"a,b\n{'x' * 500},1\n{'x' * 500},2\n")
        answer = Answer(capsys, "long.csv", "--rule", f"{'n' * 300}: a -> b", "--rule", "key(b)")
        assert max(map(len, answer.out.splitlines()[1:])) < 160
        assert f'"{"x" * 96}...  1' in answer.out

    def test_columns_in_the_order_of_the_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        answer = Answer(capsys, "tax.csv", "--rule", "not(t.Salary < s.Rate)")
        assert answer.out.splitlines()[1].split() == ["Salary", "Rate"]


class TestJson:
    def test_fields(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = checked(
            capsys, "tax.csv", *ruled("a: Zip -> City", "b: not(t.Salary <= 0)", "c: tax.City in tax.State")
        )
        assert found["a"] == {
            "rule": "a",
            "table": "tax",
            "constraint": "not(t.Zip = s.Zip and t.City != s.City)",
            "violating_pairs": 4,
            "violating_rows": 4,
            "rows": 4,
            "holds": False,
            "broken": True,
            "severity": "error",
            "threshold": None,
            "examples": found["a"]["examples"],
        }
        assert [place["where"] for example in found["a"]["examples"] for place in example] == [
            f"tax.csv, line {line}" for line in (2, 3, 4, 5)
        ]
        assert found["a"]["examples"][1][0]["row"] == {
            "State": "NY",
            "Zip": "10001",
            "City": "New York",
            "Salary": 1500,
            "Rate": None,
        }
        assert (found["b"]["violating_pairs"], found["b"]["violating_rows"]) == (None, 1)
        assert [[row["row"]["Salary"] for row in example] for example in found["b"]["examples"]] == [[-5]]
        assert {name: text for name, text in found["c"].items() if name.startswith(("dependent", "referenced"))} == {
            "dependent_table": "tax",
            "dependent_column": "City",
            "referenced_table": "tax",
            "referenced_column": "State",
        }
        assert (found["c"]["violating_pairs"], found["c"]["violating_rows"], found["c"]["missing_values"]) == (
            None,
            4,
            4,
        )
        assert found["c"]["examples"] == [["Swampscott"], ["Lynn"], ["New York"]]
        assert {"missing_values" in found[name] for name in "ab"} == {False}

    def test_thresholds_decide_what_is_broken_and_severity_the_exit_code(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for limits, broken, code in (
            ("max_violating_pairs: 4", False, 0),
            ("max_violating_pairs: 3", True, 1),
            ("max_violating_rows: 99%", True, 1),
            ("max_violating_rows: 99%, severity: warning", True, 0),
            ("max_violating_rows: 100%, max_violating_pairs: 3", True, 1),
            ("severity: warning", True, 0),
        ):
            Path("rules.yaml").write_text(f'- {{name: a, fd: "Zip -> City", {limits}}}\n')
            for more in ([], ["--exists"]):
                answer = Answer(capsys, "tax.csv", "--rules", "rules.yaml", "--format", "json", *more)
                assert answer.code == code
                (line,) = answer.lines
                assert (line["holds"], line["broken"]) == (False, broken)
                assert line["violating_pairs"] == (None if more and limits == "severity: warning" else 4)
                assert line["severity"] == ("warning" if "warning" in limits else "error")
        assert checked(capsys, "tax.csv", "--rules", "rules.yaml")["a"]["threshold"] is None
        Path("rules.yaml").write_text(
            '- {name: a, fd: "Zip -> City", max_violating_rows: 0.1%, max_violating_pairs: 2}\n'
        )
        threshold = "at most 2 violating pairs; at most 0.1% violating rows"
        assert checked(capsys, "tax.csv", "--rules", "rules.yaml")["a"]["threshold"] == threshold

    def test_exists(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = checked(capsys, "tax.csv", "--exists", *ruled("Zip -> City", "key(Salary)"))
        assert [found["Zip -> City"][name] for name in ("violating_pairs", "violating_rows", "broken")] == [
            None,
            None,
            True,
        ]
        assert len(found["Zip -> City"]["examples"]) == 1
        assert [found["key(Salary)"][name] for name in ("violating_pairs", "violating_rows", "broken")] == [0, 0, False]

    def test_reading_options(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("t.csv").write_text("a;b\n1;x\n1.0;NA\n2;NA\n")
        rules = ruled("a -> b", "not(t.b is null)")
        options = ["t.csv", "--delimiter", ";", *rules]
        assert [line["violating_rows"] for line in checked(capsys, *options).values()] == [2, 0]
        assert [line["violating_rows"] for line in checked(capsys, *options, "--null", "NA").values()] == [2, 2]
        assert [line["violating_rows"] for line in checked(capsys, *options, "--strings", "a").values()] == [0, 0]
        assert [line["rows"] for line in checked(capsys, *options, "--limit", "1").values()] == [1, 1]
        Path("u.csv").write_text("c\n1.0\n2.0\n")
        across = ["t.csv", "u.csv", "--delimiter", ";", "--rule", "t.a in u.c"]
        assert checked(capsys, *across)["t.a in u.c"]["missing_values"] == 0
        assert checked(capsys, *across, "--strings", "all")["t.a in u.c"]["missing_values"] == 2

    def test_an_empty_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("empty.csv").write_text("a,b\n")
        found = checked(capsys, "empty.csv", *ruled("a -> b", "not(t.a = 'x')", "empty.a in empty.b"))
        assert [(line["violating_rows"], line["rows"], line["holds"]) for line in found.values()] == [(0, 0, True)] * 3


class TestOutput:
    def test_results_are_written_where_a_rule_is_broken(self, capsys: pytest.CaptureFixture[str]) -> None:
        answer = Answer(capsys, "tax.csv", "--rule", "Zip -> City", "--format", "json")
        to_file = Answer(capsys, "tax.csv", "--rule", "Zip -> City", "--format", "json", "--output", "out.jsonl")
        assert (to_file.code, to_file.out, to_file.err) == (1, "", answer.err)
        assert Path("out.jsonl").read_text() == answer.out

    def test_warnings_of_readers_are_notes(self, capsys: pytest.CaptureFixture[str]) -> None:
        import pyarrow as pa

        pq.write_table(pa.table({"a": [1], "b": [[1]]}), "nested.parquet")
        answer = Answer(capsys, "nested.parquet", "--rule", "key(a)")
        assert answer.code == 0
        assert answer.err.startswith("warning: nested.parquet: ")
        assert Answer(capsys, "nested.parquet", "--rule", "key(a)", "--quiet").err == ""


def violating(rows: list[tuple[int, int, int]]) -> dict[str, set[tuple[int, int]]]:
    """Return the violating pairs of the rules below by nested loops, rows from 1."""
    pairs = list(permutations(range(len(rows)), 2))
    return {
        "fd": {(i + 1, j + 1) for i, j in pairs if rows[i][0] == rows[j][0] and rows[i][1] != rows[j][1]},
        'a "b", c': {(i + 1, j + 1) for i, j in pairs if rows[i][1] < rows[j][1] and rows[i][2] > rows[j][2]},
    }


class TestPairs:
    def test_all_pairs_of_all_rules(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        choose = random.Random(9)
        rows = [(choose.randrange(9), choose.randrange(9), choose.randrange(9)) for _ in range(60)]
        Path("t.csv").write_text("a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
        Path("rules.txt").write_text(
            'fd: a -> b\n`a "b", c`: not(t.b < s.b and t.c > s.c)\nno: not(t.a > 100)\nnot(t.a < 2)\nt.a in t.b\n'
        )
        expected = violating(rows)
        for at_once in (pairs_files.AT_ONCE, 7):
            monkeypatch.setattr(pairs_files, "AT_ONCE", at_once)
            for name in ("p.csv", "P.CSV", "p.parquet"):
                answer = Answer(capsys, "t.csv", "--rules", "rules.txt", "--pairs", name)
                assert answer.code == 1
                count = sum(map(len, expected.values()))
                assert f"{name}: {count:,} pairs\n" in answer.err
                if name == "p.parquet":
                    table = pq.read_table(name)
                else:
                    from pyarrow.csv import read_csv

                    assert Path(name).read_text().startswith("rule,left,right\n")
                    table = read_csv(name)
                assert table.schema.names == ["rule", "left", "right"]
                assert list(map(str, table.schema.types)) == ["string", "int64", "int64"]
                found = [(line["rule"], line["left"], line["right"]) for line in table.to_pylist()]
                assert len(found) == count
                assert set(found) == {(rule, *pair) for rule, pairs in expected.items() for pair in pairs}
        counts = {
            name: line["violating_pairs"] for name, line in checked(capsys, "t.csv", "--rules", "rules.txt").items()
        }
        assert {name: counts[name] for name in expected} == {name: len(pairs) for name, pairs in expected.items()}

    @pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
    def test_no_pairs(self, capsys: pytest.CaptureFixture[str], name: str) -> None:
        answer = Answer(capsys, "tax.csv", "--rule", "key(Salary)", "--pairs", name)
        assert (answer.code, answer.err.splitlines()[0]) == (0, f"{name}: 0 pairs")
        assert (
            pq.read_table(name).num_rows == 0 if name == "p.parquet" else Path(name).read_text() == "rule,left,right\n"
        )

    def test_the_file_is_whole_or_not_there(
        self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from holdfast.discovery.detection.check import Checked

        Path("p.csv").write_text("old")
        Path("p.csv").chmod(0o640)
        before = sorted(folder.iterdir())

        def breaks(*_: object) -> Any:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(Checked, "pairs", breaks)
            for name in ("p.csv", "p.parquet"):
                answer = Answer(capsys, "tax.csv", "--rule", "Zip -> City", "--pairs", name)
                assert (answer.code, answer.out) == (130, "")
        assert sorted(folder.iterdir()) == before
        assert Path("p.csv").read_text() == "old"
        assert Answer(capsys, "tax.csv", "--rule", "Zip -> City", "--pairs", "p.csv").code == 1
        assert Path("p.csv").read_text().count("\n") == 5
        assert stat.S_IMODE(Path("p.csv").stat().st_mode) == 0o640

    def test_places_that_cannot_be_written(self, capsys: pytest.CaptureFixture[str]) -> None:
        answer = Answer(capsys, "tax.csv", "--rule", "Zip -> City", "--pairs", "nope/p.csv")
        assert (answer.code, answer.out) == (2, "")
        assert "nope/p.csv cannot be written" in answer.err


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "part"),
        [
            ("nope.csv --rule Zip->City", "does not exist"),
            ("tax.csv", "Name rules: --rules FILE, or --rule TEXT."),
            ("tax.csv --rules .", "is a directory"),
            ("tax.csv --rules nope.txt", "does not exist"),
            ("tax.csv --rules tax.csv", "6 errors in tax.csv\ntax.csv:1:1: "),
            ("tax.csv --rule Zip->", "1 error in --rule\n--rule: expected a column's name"),
            ("tax.csv --rule Zip->Cty", "rule Zip->Cty: table tax has no column 'Cty'; did you mean 'City'?"),
            ("tax.csv --rule not(t.Zip<s.Zip)", "have no order in denial constraints"),
            ("tax.csv --rule not(t.Salary='x')", "rule not(t.Salary='x'): "),
            ("tax.csv --rule tax.City->x", "rule tax.City->x: "),
            ("tax.csv --rule tax.City|in|town.City", "there is no table 'town'"),
            ("tax.csv towns.csv --rule key(City)", "tables tax, towns have its columns"),
            ("tax.csv towns.csv --rule Zip->Mayor", "no table has all its columns (tax has Zip; towns has Mayor)"),
            ("tax.csv tax.csv --rule Zip->City", "are both of table 'tax'"),
            ("tax.csv --rule Zip->City --pairs p.txt", "--pairs p.txt: the ending names the format"),
            ("nan.csv --rule Zip->City --pairs p", "does not exist"),
            ("tax.csv --rule Zip->City --pairs p.csv --exists", "leave one of them out"),
            ("tax.csv --rule Zip->City --examples -1", "-1"),
            ("tax.csv --rule Zip->City --delimiter ab", "one ASCII character"),
            (". --rule Zip->City", "is a folder"),
        ],
    )
    def test_usage(self, folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, part: str) -> None:
        before = sorted(folder.iterdir())
        answer = Answer(capsys, *(argument.replace("|", " ") for argument in arguments.split()))
        assert (answer.code, answer.out) == (2, "")
        assert part in answer.err
        assert sorted(folder.iterdir()) == before

    def test_rules_are_read_before_data(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("bad.csv").write_text("A,B\n1\n")
        assert Answer(capsys, "bad.csv", "--rule", "A ->").code == 2
        assert Answer(capsys, "bad.csv", "--rule", "A -> B", "--pairs", "p.txt").code == 2
        answer = Answer(capsys, "bad.csv", "--rule", "A -> B")
        assert (answer.code, answer.out) == (3, "")
        assert "bad.csv, line 2" in answer.err

    def test_all_at_once(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("rules.txt").write_text("a: Zap -> City\nb: not(t.Zip < s.Zip)\nc: key(Zip)\n")
        answer = Answer(capsys, "tax.csv", "--rules", "rules.txt", "--rule", "key(Zap)")
        assert answer.code == 2
        assert answer.err.startswith("2 errors in rules.txt\nrules.txt:1:4: rule a: ")
        assert "\nrules.txt:2:4: rule b: " in answer.err
        assert "\n1 error in --rule\n--rule: rule key(Zap): " in answer.err


class TestAsRules:
    def test_lines_that_check_takes(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("t.csv").write_text("Zip,City\n01907,Lynn\n01907,Lynn\n10001,New York\n")
        assert exit_code_of(["discover", "t.csv", "--family", "dc", "--as-rules", "--quiet"]) == 0
        text = capsys.readouterr().out
        assert text == (
            "rules:\n"
            '  - {name: t_City_Zip, table: t, fd: "City -> Zip"}  # Rows with the same City have the same Zip.\n'
            '  - {name: t_Zip_City, table: t, fd: "Zip -> City"}  # Rows with the same Zip have the same City.\n'
        )
        Path("rules.txt").write_text(text)
        answer = Answer(capsys, "t.csv", "--rules", "rules.txt")
        assert (answer.code, answer.err) == (0, "2 rules on 1 table: 2 ok\n")
        Path("t.csv").write_text("Zip,City\n01907,Lynn\n01907,Swampscott\n10001,New York\n")
        answer = Answer(capsys, "t.csv", "--rules", "rules.txt")
        assert (answer.code, answer.err) == (1, "2 rules on 1 table: 1 ok, 1 broken\n")

    def test_the_order_of_the_most_telling_is_kept(self, capsys: pytest.CaptureFixture[str]) -> None:
        searching = ["discover", "tax.csv", "--family", "dc", "--top", "3", "--quiet"]
        assert exit_code_of([*searching, "--format", "json"]) == 0
        best = [json.loads(line)["constraint"] for line in capsys.readouterr().out.splitlines()]
        assert exit_code_of([*searching, "--as-rules", "--output", "rules.txt"]) == 0
        written = [line.partition(": ")[2].partition("  #")[0] for line in Path("rules.txt").read_text().splitlines()]
        assert [str(parse_rule_body(text)) for text in written] == best

    def test_several_files_name_their_tables(self, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["tax.csv", "towns.csv", "--family", "od", "--as-rules", "--quiet", "--output", "rules.txt"]
        assert exit_code_of(["discover", *arguments]) == 0
        lines = Path("rules.txt").read_text().splitlines()
        assert lines[0] == "rules:"
        assert (
            lines[-1]
            == '  - {name: towns_order_City_Mayor, table: towns, od: "{}: City ~ Mayor"}  # Mayor never falls as City rises.'
        )
        answer = Answer(capsys, "tax.csv", "towns.csv", "--rules", "rules.txt")
        assert answer.code == 0
        assert answer.err.endswith(f"{len(lines) - 1} ok\n")

    @pytest.mark.parametrize(
        ("arguments", "part"),
        [
            ("tax.csv --family dc --format json", "leave out --format"),
            ("tax.csv --family ind --min-coverage 0.5", "leave out --min-coverage"),
            ("tax.csv ./tax.csv --family od", "are both of table 'tax'"),
        ],
    )
    def test_refusals(self, capsys: pytest.CaptureFixture[str], arguments: str, part: str) -> None:
        assert exit_code_of(["discover", *arguments.split(), "--as-rules"]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert part in captured.err


def test_a_device_takes_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    Path("p.csv").symlink_to("/dev/full")
    answer = Answer(capsys, "tax.csv", "--rule", "Zip -> City", "--pairs", "p.csv")
    assert (answer.code, answer.out) == (5, "")
