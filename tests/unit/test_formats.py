"""Answers as CSV and as JUnit's XML say what the JSON lines say."""

import csv
import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from holdfast.jobs.command_line import exit_code_of

STAFF = 'name,zip,city,salary\nAnn,01907,"Lynn, MA",1\nBob,01907,Boston,2\n"=1+1\x07",02139,"quo""te",-3\n'
RULES = """
rules:
  - {name: zip_city, table: staff, fd: "zip -> city"}
  - {name: paid, table: staff, require: "t.salary > 0", severity: warning}
  - {name: few, table: staff, require: "t.salary > 0", max_violating_rows: 1}
  - {name: "a <b>", table: staff, key: [name]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "staff.csv").write_text(STAFF)
    (tmp_path / "rules.yaml").write_text(RULES)
    return tmp_path


def _out(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert exit_code_of([*arguments, "--quiet"]) == code
    return capsys.readouterr().out


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("check staff.csv --rules rules.yaml", 1),
        ("discover staff.csv --family dc --max-predicates 2", 0),
        ("discover staff.csv --top 5 --all", 0),
        ("discover staff.csv --near 34%", 0),
        ("discover staff.csv --family ind --min-coverage 0.1", 0),
        ("suspects staff.csv --near 34% --min-score 0", 0),
    ],
)
def test_csv_has_the_fields_of_the_json_lines(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, code: int
) -> None:
    lines = [json.loads(line) for line in _out(capsys, *command.split(), "--format", "json", code=code).splitlines()]
    rows = list(csv.DictReader(io.StringIO(_out(capsys, *command.split(), "--format", "csv", code=code))))
    assert len(rows) == len(lines)
    for row, line in zip(rows, lines, strict=True):
        assert {name: cell for name, cell in row.items() if name in line} == {n: _cell(v) for n, v in line.items()}
        assert all(not cell for name, cell in row.items() if name not in line)


def test_nothing_found_is_an_empty_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "one.csv").write_text("a\n1\n1\n")
    assert _out(capsys, "discover", "one.csv", "--family", "dc", "--kind", "key", "--format", "csv") == ""


def test_junit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = Xml.fromstring(_out(capsys, "check", "staff.csv", "--rules", "rules.yaml", "--format", "junit", code=1))
    (suite,) = root
    assert (suite.attrib, root.get("tests"), root.get("failures")) == (
        {"name": "staff", "tests": "4", "failures": "1"},
        "4",
        "1",
    )
    cases = {str(case.get("name")): case for case in suite}
    assert list(cases) == ["zip_city", "paid", "few", "a <b>"]
    failure = cases["zip_city"].find("failure")
    assert failure is not None
    assert failure.get("message") == "2 pairs, 2 of 3 rows"
    assert '"Lynn, MA"' in str(failure.text)
    for name in ("paid", "few"):
        assert [one.tag for one in cases[name]] == ["system-out"], "a warning, and within its threshold"
    assert not list(cases["a <b>"])
    assert "\x07" not in str([one.text for one in root.iter()])


def test_several_tables_are_several_suites(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "zips.csv").write_text("zip,state\n01907,MA\n")
    rules = ["--rule", "staff.zip in zips.zip", "--rule", "zip -> state"]
    root = Xml.fromstring(_out(capsys, "check", "staff.csv", "zips.csv", *rules, "--format", "junit", code=1))
    assert [(one.get("name"), one.get("failures")) for one in root] == [("staff", "1"), ("zips", "0")]
    assert "02139" in str(root.findtext(".//failure"))


@pytest.mark.parametrize("command", ["discover staff.csv", "suspects staff.csv", "status c.yaml"])
def test_formats_that_a_command_lacks(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert exit_code_of([*command.split(), "--format", "junit"]) == 2
    assert "'junit' is not one of 'text', 'json'" in capsys.readouterr().err
