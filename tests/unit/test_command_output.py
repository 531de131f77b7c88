"""What commands write and where: --output, init, validate, progress, completion."""

from __future__ import annotations

import io
import json
import os
import time
from pathlib import Path

import pytest

from holdfast.jobs import command_line
from holdfast.jobs.init import default_configuration
from holdfast.jobs.terminal.output import json_line, results_to
from holdfast.jobs.terminal.progress import LogOptions, PlainProgress, SilentProgress, TerminalProgress, progress_on
from tests.unit.test_command_line import GOLDEN, Answer, folder, golden, half_written, run

__all__ = ["folder"]  # fixtures


class TestOutput:
    def test_a_file_is_whole_or_not_there(self, tmp_path: Path) -> None:
        file = tmp_path / "out.txt"
        with pytest.raises(RuntimeError, match="half way"):
            half_written(file, RuntimeError("half way"))
        assert list(tmp_path.iterdir()) == []
        file.write_text("old")
        file.chmod(0o640)
        with pytest.raises(KeyboardInterrupt):
            half_written(file, KeyboardInterrupt(), ["old"])
        assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]
        with results_to(file) as stream:
            stream.write("new")
        assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o640)

    def test_links_are_followed_and_new_files_obey_the_mask(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real/file")
        before = os.umask(0o027)
        try:
            with results_to(tmp_path / "link") as stream:
                stream.write("x")
        finally:
            os.umask(before)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real/file").read_text() == "x"
        assert (tmp_path / "real/file").stat().st_mode & 0o777 == 0o640

    def test_places_that_cannot_be_written(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert Answer(capsys, "validate", "c.yaml", "--offline", "--output", "nope/out.txt").code == 2
        assert Answer(capsys, "validate", "c.yaml", "--offline", "--output", ".").code == 2

    def test_a_device_is_written_to_as_it_is(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert Answer(capsys, "validate", "c.yaml", "--offline", "--output", os.devnull).code == 0
        assert not Path(os.devnull).is_file()

    def test_json_lines_hold_any_script(self) -> None:
        assert json.loads(json_line({"a": 'é"\n', "b": None})) == {"a": 'é"\n', "b": None}
        with pytest.raises(ValueError, match="JSON"):
            json_line({"a": float("nan")})


class TestInitAndValidate:
    def test_init_writes_what_validates(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        answer = Answer(capsys, "init")
        assert (answer.code, answer.out) == (0, "")
        assert "holdfast validate holdfast.yaml" in answer.err
        assert (tmp_path / "holdfast.yaml").read_text() == default_configuration()
        assert Answer(capsys, "validate", "holdfast.yaml", "--offline").code == 0

    def test_init_replaces_only_when_told(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "c.yaml").write_text("mine")
        assert Answer(capsys, "init", "c.yaml").code == 2
        assert (folder / "c.yaml").read_text() == "mine"
        assert Answer(capsys, "init", "c.yaml", "--force").code == 0
        assert (folder / "c.yaml").read_text() == default_configuration()
        assert sorted(p.name for p in folder.iterdir()) == ["a.csv", "c.yaml", "rules.txt"]

    @pytest.mark.parametrize(
        "name", ["default", "example_debezium", "example_delta", "example_files", "example_kafka_json"]
    )
    def test_golden(self, folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
        from importlib import resources

        (folder / "c.yaml").write_text(resources.files("holdfast.conf").joinpath(f"{name}.yaml").read_text())
        answer = Answer(capsys, "validate", "c.yaml", "--offline")
        assert answer.code == 0
        golden(f"validate_{name}.txt", answer.out.replace(str(folder.resolve()), "<folder>"))

    @pytest.mark.parametrize(
        ("near", "engine", "said"),
        [
            ("1%", "embedded", None),
            ("{share: 1%, suspects: off}", "embedded", "not searched, nor where exceptions are"),
            (
                "1%",
                "spark",
                "none, nor where exceptions are: both are searched with engine: embedded alone",
            ),
        ],
    )
    def test_where_suspects_are_not_searched_it_is_said(
        self, folder: Path, capsys: pytest.CaptureFixture[str], near: str, engine: str, said: str | None
    ) -> None:
        lines = f"{default_configuration()}engine: {engine}\n".splitlines()
        wanted = [f"    near: {near}" if line.startswith("    near: ") else line for line in lines]
        (folder / "c.yaml").write_text("\n".join(wanted))
        answer = Answer(capsys, "validate", "c.yaml", "--offline")
        assert answer.code == 0, answer.err
        found = [line.split(maxsplit=1)[1] for line in answer.out.splitlines() if line.startswith("  suspects ")]
        assert found == ([] if said is None else [said])

    def test_golden_errors(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "c.yaml").write_text((GOLDEN / "errors.yaml").read_text())
        answer = Answer(capsys, "validate", "c.yaml", "--offline")
        assert (answer.code, answer.out) == (2, "")
        golden("validate_errors.txt", answer.err.replace(str(folder.resolve()), "<folder>"))

    def test_json(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        answer = Answer(capsys, "validate", "c.yaml", "--offline", "--format", "json")
        found = json.loads(answer.out)
        assert (answer.code, answer.err, found["valid"], found["name"]) == (0, "", True, "airport")
        assert [rule["rule"] for rule in found["rules"]] == ["ident_is_unique", "country_of_region", "has_a_name"]
        (folder / "c.yaml").write_text("name: x\nnmae: y\n")
        answer = Answer(capsys, "validate", "c.yaml", "--offline", "--format", "json")
        found = json.loads(answer.out)
        assert (answer.code, answer.err, found["valid"]) == (2, "", False)
        assert {"line": 2, "column": 1, "path": "nmae"}.items() <= found["errors"][-1].items()

    def test_warnings_are_said_unless_quiet(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "c.yaml").write_text(
            "name: a\nstate: s\nbackup: b\noutput: o\ncheckpoint: c\nconstraints: {denial: {}}\n"
            "tables: [{name: t, source: {format: kafka, servers: 'h:1', topic: t, encoding: debezium}}]\n"
        )
        answer = Answer(capsys, "validate", "c.yaml", "--offline")
        assert (answer.code, answer.err[:23]) == (0, "warning: c.yaml:7:10: t")
        assert Answer(capsys, "validate", "c.yaml", "--offline", "--quiet").err == ""


class TestProgress:
    def test_what_suits_a_stream(self) -> None:
        assert isinstance(progress_on(io.StringIO()), PlainProgress)
        assert isinstance(progress_on(io.StringIO(), LogOptions(quiet=True)), SilentProgress)

        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        assert isinstance(progress_on(Terminal()), TerminalProgress)

    def test_plain_lines_come_seldom(self) -> None:
        stream = io.StringIO()
        progress = PlainProgress(stream, seconds=0.05)
        with progress.task("reading", total=1_000) as task:
            for _ in range(1_000):
                task.advance()
            assert len(stream.getvalue().splitlines()) <= 1
            time.sleep(0.06)
            task.describe("writing")
            task.advance(0)
        assert stream.getvalue().splitlines()[-1] == "writing: 1,000 of 1,000 (100%)"

    def test_bars_go_away_and_notes_stay(self) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        stream = Terminal()
        progress = TerminalProgress(stream)
        with progress.task("reading [a]", total=2) as task:
            task.advance()
            task.describe("still [b]")
        progress.note("note [c]")
        assert stream.getvalue().endswith("note [c]\n")

    def test_silence(self) -> None:
        progress = SilentProgress(io.StringIO())
        with progress.task("x") as task:
            task.advance()
            task.describe("y")
        progress.note("z")


def test_shell_completion() -> None:
    finished = run("", _HOLDFAST_COMPLETE="bash_source")
    assert "_HOLDFAST_COMPLETE=bash_complete" in finished.stdout
    assert command_line.OK == 0
