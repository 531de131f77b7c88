"""The benchmarks start as their page says; what they measure is not measured here."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import detect, stream

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def runs() -> None:
        raise AssertionError("a benchmark runs")

    for module in (detect, stream):
        monkeypatch.setattr(module, "points", runs)
    return runs


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_runs_nothing(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main([option])
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (0, "")
    named = {file.stem for file in (ROOT / "benchmarks").glob("*.py") if "\ndef points(" in file.read_text()}
    assert named == {line.split()[0] for line in out.rpartition("--changes N")[2].splitlines()[2:]}
    assert "detect              How long until it is known which pairs of rows break a rule" in out


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("given", [["nothing"], ["--all"], ["soak", "--changes", "x"]])
def test_what_is_not_known_is_refused(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(given)
    assert ended.value.code == 2
    assert capsys.readouterr().out == ""


def test_the_process_that_offers_changes_starts(tmp_path: Path) -> None:
    file = tmp_path / "changes.jsonl"
    file.touch()
    ran = subprocess.run(
        stream._offering("127.0.0.1:9", "tax", file, 20), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "Error" not in ran.stderr
    assert ran.returncode == 0
    assert sys.executable in ran.args
