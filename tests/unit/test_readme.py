"""The README's shell examples give what the README says (its Python examples are doctests)."""

import re
from pathlib import Path

import pytest

from holdfast.jobs.command_line import exit_code_of

README = Path(__file__).parents[2] / "README.md"


def test_discover_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    example = re.search(
        r"\$ cat people\.csv\n(.*?)\n\n\$ holdfast (.*?)\n(.*?)```", README.read_text("utf-8"), re.DOTALL
    )
    assert example is not None
    data, command, expected = example.groups()
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text(data + "\n")
    assert exit_code_of(command.split()) == 0
    shown = capsys.readouterr()
    assert shown.out + shown.err == expected


def test_replay_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = README.read_text("utf-8")
    people = re.search(r"\$ cat people\.csv\n(.*?)\n\n\$", text, re.DOTALL)
    example = re.search(r"\$ cat changes\.csv\n(.*?)\n\n\$ holdfast (.*?)\n(.*?)```", text, re.DOTALL)
    assert people is not None
    assert example is not None
    changes, command, expected = example.groups()
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text(people[1] + "\n")
    Path("changes.csv").write_text(changes + "\n")
    assert exit_code_of(command.split()) == 0
    shown = capsys.readouterr()
    assert _without_seconds(shown.out) == _without_seconds(expected)
    assert not shown.err


def test_order_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = README.read_text("utf-8")
    people = re.search(r"\$ cat people\.csv\n(.*?)\n\n\$", text, re.DOTALL)
    example = re.search(r"\$ holdfast (discover people\.csv --family od .*)\n((?:.+\n)+?)```", text)
    assert people is not None
    assert example is not None
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text(people[1] + "\n")
    assert exit_code_of(example[1].split()) == 0
    shown = capsys.readouterr()
    assert shown.out + shown.err == example[2]


def test_near_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = README.read_text("utf-8")
    example = re.search(r"\$ cat zips\.csv\n(.*?)\n\n\$ holdfast (discover .*?)\n(.*?)```", text, re.DOTALL)
    assert example is not None
    monkeypatch.chdir(tmp_path)
    Path("zips.csv").write_text(example[1] + "\n")
    assert exit_code_of(example[2].split()) == 0
    shown = capsys.readouterr()
    assert shown.out + shown.err == example[3]


def test_inclusion_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = README.read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("orders.csv", "customers.csv"):
        data = re.search(rf"\$ cat {name}\n(.*?)\n\n\$", text, re.DOTALL)
        assert data is not None
        Path(name).write_text(data[1] + "\n")
    example = re.search(r"\$ holdfast (discover orders\.csv .*)\n((?:.+\n)+?)```", text)
    assert example is not None
    assert exit_code_of(example[1].split()) == 0
    shown = capsys.readouterr()
    assert shown.out + shown.err == example[2]


def test_check_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = README.read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("people.csv", "rules.txt"):
        content = re.search(rf"\$ cat {re.escape(name)}\n(.*?)\n\n\$", text, re.DOTALL)
        assert content is not None
        Path(name).write_text(content[1] + "\n")
    example = re.search(r"\$ holdfast (check people\.csv .*)\n((?:.+\n)+?)\$ echo \$\?\n(\d)\n", text)
    assert example is not None
    assert exit_code_of(example[1].split()) == int(example[3])
    shown = capsys.readouterr()
    assert shown.out + shown.err == example[2]


def _without_seconds(text: str) -> str:
    return re.sub(r"; [0-9.]+ s$", "", text, flags=re.MULTILINE)
