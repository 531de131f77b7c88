"""What a job says, by level, for people and for machines, without secrets."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.terminal.progress import (
    LEVELS,
    JsonProgress,
    LogOptions,
    PlainProgress,
    SilentProgress,
    json_line,
    progress_on,
)

if TYPE_CHECKING:
    from pathlib import Path


def said(log: LogOptions) -> str:
    out = io.StringIO()
    progress = progress_on(out, log)
    for level in LEVELS:
        progress.note(f"{level}: of password=hunter2", level=level)
    return out.getvalue()


class TestLevels:
    @pytest.mark.parametrize("level", LEVELS)
    def test_the_least_that_is_said(self, level: str) -> None:
        expected = LEVELS[LEVELS.index(level) :]
        assert said(LogOptions(level=level)).splitlines() == [f"{one}: of password=***" for one in expected]
        lines = [json.loads(line) for line in said(LogOptions(level=level, as_json=True)).splitlines()]
        assert [(line["level"], line["message"]) for line in lines] == [(one, "of password=***") for one in expected]

    def test_quiet_leaves_errors(self) -> None:
        assert isinstance(progress_on(io.StringIO(), LogOptions(quiet=True)), SilentProgress)
        assert [json.loads(line)["level"] for line in said(LogOptions(quiet=True, as_json=True)).splitlines()] == [
            "error"
        ]

    def test_work_is_mentioned_at_info(self) -> None:
        for level, lines in (("info", 1), ("warning", 0)):
            for kind in (PlainProgress, JsonProgress):
                out = io.StringIO()
                with kind(out, seconds=0, level=level).task("reading", 10) as task:
                    task.advance(5)
                assert out.getvalue().count("reading: 5 of 10") == lines


class TestJson:
    @given(
        st.text(), st.dictionaries(st.text(min_size=1), st.one_of(st.text(), st.integers(), st.booleans(), st.none()))
    )
    def test_every_line_is_one_object(self, text: str, fields: dict[str, Any]) -> None:
        for given_fields in (None, fields):
            line = json_line("info", "note", text, given_fields)
            assert line.endswith("\n")
            assert line.count("\n") == 1
            found = json.loads(line)
            assert found.keys() >= {"time", "level", "event"}
            assert ("message" in found) or given_fields is not None

    def test_figures_keep_their_types(self) -> None:
        found = json.loads(json_line("info", "batch", "x", {"table": "t", "rows": 3, "seconds": 0.25, "lag": None}))
        found.pop("time")
        assert found == {"level": "info", "event": "batch", "table": "t", "rows": 3, "seconds": 0.25, "lag": None}

    def test_secrets(self) -> None:
        found = json.loads(json_line("info", "x", "", {"error": "at s3://me:pw@b/x", "password": "a"}))
        assert (found["error"], found["password"]) == ("at s3://***@b/x", "***")


@pytest.mark.parametrize("command", ["run", "seed"])
def test_an_error_is_a_line_too(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = tmp_path / "c.yaml"
    conf.write_text("name: 5\n")
    assert exit_code_of([command, str(conf), "--log-format", "json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    found = json.loads(line)
    assert (found["level"], found["event"], found["exit_code"]) == ("error", "end", 2)
    assert "expected a text" in found["message"]
    assert exit_code_of([command, str(conf)]) == 2
    plain = capsys.readouterr().err
    assert "expected a text" in plain
    assert not plain.startswith("{")
