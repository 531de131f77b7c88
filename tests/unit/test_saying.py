"""`--sentences`: each constraint in plain words too, for people on a line below, for programs as a field."""

import json
from pathlib import Path

import pytest

from holdfast.jobs.command_line import exit_code_of

PEOPLE = "name,state,salary\nAnn,MA,30\nBob,MA,52\nCid,NY,30\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(PEOPLE)
    return tmp_path


def _answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert exit_code_of([*arguments, "--sentences", "--quiet"]) in {0, 1}
    return capsys.readouterr().out.splitlines()


def test_discover(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("discover", "people.csv", "--family", "dc", "--max-predicates", "1")
    told = ["key                    key(name)", "    No two rows have the same name."]
    assert _answer(capsys, *command) == told
    assert _answer(capsys, *command, "--top", "1") == [f"0.556  {told[0]}", told[1]]
    for more in ((), ("--top", "1")):
        (line,) = map(json.loads, _answer(capsys, *command, *more, "--format", "json"))
        assert line["sentence"] == "No two rows have the same name."


def test_discover_inclusions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "names.csv").write_text("name\nAnn\nBob\nCid\nDee\n")
    command = ("discover", "people.csv", "names.csv", "--family", "ind")
    told = ["people.name in names.name", "    Every value of people.name is a value of names.name."]
    assert _answer(capsys, *command) == told
    (line,) = map(json.loads, _answer(capsys, *command, "--format", "json"))
    assert line["sentence"] == told[1].strip()


def test_check_says_also_what_only_rules_can_say(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("check", "people.csv", "--rule", "not(t.salary <= 0 or t.state is null)", "--rule", "state -> salary")
    lines = _answer(capsys, *command, "--examples", "0")
    assert lines[1::2] == [
        "    There is no row where salary is at most 0, or where state is missing.",
        "    Rows with the same state have the same salary.",
    ]
    answered = [json.loads(line) for line in _answer(capsys, *command, "--format", "json")]
    assert [line["sentence"] for line in answered] == [line.strip() for line in lines[1::2]]


def test_replay(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "more.csv").write_text("name,state,salary\nAnn,NY,30\n")
    command = ("replay", "people.csv", "more.csv", "--family", "dc", "--max-predicates", "1", "--batch-size", "1")
    first, said, *_ = _answer(capsys, *command)
    assert first.startswith("- not(t.name = s.name)  (violated by ")
    assert said == "    No two rows have the same name."
    change, *_ = map(json.loads, _answer(capsys, *command, "--format", "json"))
    assert change["sentence"] == said.strip()


def test_a_sentence_stays_on_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "odd.csv").write_text('"a\nb\x1b[31m"\n1\n2\n')
    assert _answer(capsys, "discover", "odd.csv", "--family", "dc") == [
        "key                    key(`a\\u000ab\\u001b[31m`)",
        "    No two rows have the same `a\\u000ab\\u001b[31m`.",
    ]


def test_without_it_lines_have_the_fields_that_they_always_had(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["discover", "people.csv", "--family", "dc", "--format", "json", "--quiet"]) == 0
    assert all("sentence" not in json.loads(line) for line in capsys.readouterr().out.splitlines())
