"""The command line: commands, exit codes, where output goes, and what is said when things go wrong.

Golden texts are renewed with HOLDFAST_RENEW_GOLDEN=1.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from holdfast.constraints import ExternalError, InputError, StateRefused, UsageError
from holdfast.jobs import command_line
from holdfast.jobs.command_line import exit_code_of, holdfast
from holdfast.jobs.demo import pipeline as demo
from holdfast.jobs.init import default_configuration
from holdfast.jobs.terminal.output import json_line, results_to
from holdfast.jobs.terminal.progress import LogOptions, PlainProgress, SilentProgress, TerminalProgress, progress_on

if TYPE_CHECKING:
    from collections.abc import Sequence

GOLDEN = Path(__file__).parent.parent / "golden"
COMMANDS = [
    "discover",
    "check",
    "query",
    "exceptions",
    "suspects",
    "replay",
    "seed",
    "run",
    "status",
    "incidents",
    "rebuild",
    "skip-batch",
    "dashboard",
    "report",
    "init",
    "validate",
    "doctor",
    "demo",
    "pack",
    "jars",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder with a configuration, a table and changes to it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(default_configuration())
    (tmp_path / "a.csv").write_text("A,B\n1,2\n")
    (tmp_path / "rules.txt").write_text("r: A -> B\n")
    return tmp_path


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )


def half_written(file: Path, error: BaseException, seen: Sequence[str] = ()) -> None:
    """Break off while a file is being written."""
    with results_to(file) as stream:
        stream.write("half")
        assert [file.read_text()] == [*seen] if seen else not file.exists()
        raise error


def golden(name: str, text: str) -> None:
    """Compare with a text in tests/golden."""
    file = GOLDEN / name
    if os.environ.get("HOLDFAST_RENEW_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


class Answer:
    """What a command said, in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        self.code = exit_code_of(arguments)
        self.out, self.err = capsys.readouterr()


class TestHelp:
    @pytest.mark.parametrize("command", ["", *COMMANDS])
    def test_golden(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str) -> None:
        monkeypatch.setenv("COLUMNS", "100")
        answer = Answer(capsys, *command.split(), "--help")
        assert (answer.code, answer.err) == (0, "")
        golden(f"help_{command.replace('-', '_')}.txt".replace("_.", "."), answer.out)

    def test_every_command_is_listed_and_explained(self) -> None:
        assert set(holdfast.commands) == set(COMMANDS)
        for command in holdfast.commands.values():
            assert command.short_help
            assert len(command.short_help) < 60
            assert all(getattr(p, "help", None) for p in command.params if isinstance(p, click.Option))

    def test_is_there_at_once_and_without_engines(self) -> None:
        code = (
            "import sys, holdfast.jobs.command_line;"
            "print([m for m in ('numpy', 'pyarrow', 'numba', 'pyspark', 'pandas', 'pydantic', 'deltalake') "
            "if m in sys.modules])"
        )
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        assert found.stdout.strip() == "[]"
        seconds = []
        for _ in range(3):
            start = os.times()
            assert run("--help").returncode == 0
            end = os.times()  # of a processor, so that other work on the machine is left out
            seconds.append(end.children_user + end.children_system - start.children_user - start.children_system)
        assert min(seconds) < 1.0  # half of it on a quiet machine

    def test_version(self) -> None:
        assert run("--version").stdout == "holdfast 0.1.0\n"

    def test_nothing_given(self, capsys: pytest.CaptureFixture[str]) -> None:
        answer = Answer(capsys)
        assert (answer.code, answer.out) == (2, "")
        assert "Usage: holdfast" in answer.err


class TestWrongUsage:
    @pytest.mark.parametrize(
        ("arguments", "part"),
        [
            ("discovr", "Did you mean 'discover'"),
            ("discover a.csv --famly dc", "Did you mean '--family'"),
            ("discover --family dc", "Missing argument"),
            ("discover nope.csv --family dc", "does not exist"),
            ("discover a.csv --family fd", "is not one of"),
            ("discover a.csv", "--family"),
            ("discover a.csv --family dc --max-predicates -1", "-1"),
            ("discover a.csv --family dc --threads 0", "0"),
            ("discover a.csv --family dc --delimiter ab", "one ASCII character"),
            ("discover a.csv --family dc --encoding utf-88", "unknown"),
            ("discover a.csv --family dc --space nope.json", "does not exist"),
            ("check a.csv", "Name rules"),
            ("check a.csv --rule A->", "name"),
            ("check a.csv --rules nope.txt", "does not exist"),
            ("replay a.csv a.csv --family dc", "--batch-size"),
            ("replay a.csv a.csv --family dc --batch-size 0", "0"),
            ("replay . a.csv --family dc --batch-size 1", "two folders"),
            ("replay a.csv a.csv --family dc --batch-size 1 --key A,,B", "names with commas"),
            ("seed nope.yaml", "cannot be read"),
            ("run a.csv", "error in a.csv"),
            ("skip-batch c.yaml airprot", "did you mean 'airport'"),
            ("dashboard c.yaml --port 99999", "99999"),
            ("validate", "Missing argument"),
            ("validate c.yaml --format xml", "is not one of"),
            ("init c.yaml", "--force"),
            ("init nope/c.yaml", "no folder"),
        ],
    )
    def test_exit_code_2(self, folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, part: str) -> None:
        before = sorted(folder.iterdir())
        answer = Answer(capsys, *arguments.split())
        assert (answer.code, answer.out) == (2, "")
        assert part in answer.err
        assert "Traceback" not in answer.err
        assert sorted(folder.iterdir()) == before


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Let `holdfast demo` raise what the test puts into the list."""
    raised: list[BaseException] = []

    def show(**_: Any) -> None:
        raise raised[0]

    monkeypatch.setattr(demo, "show", show)
    return raised


class TestExitCodes:
    @pytest.mark.parametrize(
        ("error", "code", "message"),
        [
            (UsageError("u"), 2, "u\n"),
            (InputError("i: s3://a:b@c"), 3, "i: s3://***@c\n"),
            (StateRefused("s"), 4, "s\n"),
            (ExternalError("e"), 5, "e\n"),
            (KeyboardInterrupt(), 130, "Interrupted.\n"),
            (click.Abort(), 130, "Interrupted.\n"),
            (
                OSError(28, "No space left on device"),
                5,
                "Storage failed: [Errno 28] No space left on device: the disk is full: make room on the disk of this machine, and start again\n",
            ),
            (click.ClickException("c"), 2, "Error: c\n"),
        ],
    )
    def test_of_errors(
        self,
        failing: list[BaseException],
        capsys: pytest.CaptureFixture[str],
        error: BaseException,
        code: int,
        message: str,
    ) -> None:
        failing.append(error)
        answer = Answer(capsys, "demo")
        assert (answer.code, answer.out, answer.err) == (code, "", message)

    @pytest.mark.parametrize(
        "error", [ZeroDivisionError("password=x"), BrokenPipeError(32, "a socket's"), RecursionError()]
    )
    def test_of_defects(
        self,
        failing: list[BaseException],
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        error: Exception,
    ) -> None:
        failing.append(error)
        answer = Answer(capsys, "demo")
        assert answer.code == 70
        assert answer.err.startswith(f"Internal error: {type(error).__name__}")
        assert answer.err.count("\n") == 2
        assert "HOLDFAST_TRACEBACK=1" in answer.err
        assert "password=x" not in answer.err
        monkeypatch.setenv("HOLDFAST_TRACEBACK", "1")
        assert "Traceback (most recent call last)" in Answer(capsys, "demo").err

    def test_bad_input_is_3(
        self, folder: Path, failing: list[BaseException], capsys: pytest.CaptureFixture[str]
    ) -> None:
        from holdfast.tables import read_table

        (folder / "bad.csv").write_text("A,A\n1,2\n")
        with pytest.raises(InputError) as caught:
            read_table(folder / "bad.csv")
        failing.append(caught.value)
        assert Answer(capsys, "demo").code == 3

    def test_of_a_process(self, folder: Path) -> None:
        assert run("validate", "c.yaml").returncode == 0
        (folder / "c.yaml").write_text("name: 1\n")
        failed = run("validate", "c.yaml")
        assert (failed.returncode, failed.stdout) == (2, "")
        assert failed.stderr.startswith("7 errors in c.yaml\nc.yaml:1:1: ")

    def test_control_c(self, folder: Path) -> None:
        code = (
            "from holdfast.jobs import command_line\nfrom holdfast.jobs.demo import pipeline\nimport time\n"
            "pipeline.show = lambda **_: (print('ready', flush=True), time.sleep(60))\ncommand_line.main(['demo'])"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (130, "Interrupted.\n")

    @pytest.mark.parametrize("command", ["demo", "--help", "validate c.yaml", "validate c.yaml --format json"])
    def test_a_closed_pipe_is_silent(self, folder: Path, command: str) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        try:
            finished = subprocess.run(
                [sys.executable, "-m", "holdfast", *command.split()],
                stdout=writer,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                check=False,
                timeout=60,
            )
        finally:
            os.close(writer)
        assert (finished.returncode, finished.stderr) == (0, "")

    @pytest.mark.parametrize(
        ("streams", "code"), [(">&-", 5), (">&- 2>&-", 5), (">&- <&-", 5), ("1</dev/null", 5), ("2>&- <&-", 0)]
    )
    @pytest.mark.parametrize("command", ["validate c.yaml", "--version"])
    def test_closed_streams(self, folder: Path, command: str, streams: str, code: int) -> None:
        """Results that have no place to go are an error; notes that have none are not."""
        shell = f"'{sys.executable}' -m holdfast {command} {streams}"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ran = subprocess.run(
            ["bash", "-c", shell], env=environment, check=False, timeout=60, capture_output=True, text=True
        )
        assert ran.returncode == code
        if "2>" not in streams:
            said = "standard output is closed, so results cannot be written: open standard output, or use the option"
            assert ran.stderr == f"{said} --output\n"

    def test_results_in_a_file_need_no_standard_output(self, folder: Path) -> None:
        """And no file that is opened takes the place of a stream that was closed."""
        shell = f"'{sys.executable}' -m holdfast validate c.yaml --output out.txt <&- >&- 2>&-"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        assert subprocess.run(["bash", "-c", shell], env=environment, check=False, timeout=60).returncode == 0
        assert Path("out.txt").read_text() == run("validate", "c.yaml").stdout

    @pytest.mark.parametrize("command", ["validate c.yaml", "--help"])
    def test_results_that_find_a_full_disk(self, folder: Path, command: str) -> None:
        with Path("/dev/full").open("w") as full:
            ran = subprocess.run(
                [sys.executable, "-m", "holdfast", *command.split()],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                check=False,
                timeout=60,
            )
        assert ran.returncode == 5
        assert "the disk is full" in ran.stderr

    def test_a_full_disk(self, folder: Path) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("no /dev/full here")
        finished = run("validate", "c.yaml", "--output", "/dev/full")
        assert (finished.returncode, finished.stderr) == (
            5,
            "Storage failed: [Errno 28] No space left on device: the disk is full: make room on the disk of this machine, and start again\n",
        )

    def test_names_that_cannot_be_encoded(self, folder: Path) -> None:
        finished = run("validate", "caf\u00e9\U0001f600.yaml", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
        assert finished.returncode == 2
        assert "cannot be read" in finished.stderr


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
        assert Answer(capsys, "validate", "c.yaml", "--output", "nope/out.txt").code == 2
        assert Answer(capsys, "validate", "c.yaml", "--output", ".").code == 2

    def test_a_device_is_written_to_as_it_is(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert Answer(capsys, "validate", "c.yaml", "--output", os.devnull).code == 0
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
        assert Answer(capsys, "validate", "holdfast.yaml").code == 0

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
        answer = Answer(capsys, "validate", "c.yaml")
        assert answer.code == 0
        golden(f"validate_{name}.txt", answer.out.replace(str(folder.resolve()), "<folder>"))

    def test_golden_errors(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "c.yaml").write_text((GOLDEN / "errors.yaml").read_text())
        answer = Answer(capsys, "validate", "c.yaml")
        assert (answer.code, answer.out) == (2, "")
        golden("validate_errors.txt", answer.err.replace(str(folder.resolve()), "<folder>"))

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
        answer = Answer(capsys, "validate", "c.yaml")
        assert answer.code == 0, answer.err
        found = [line.split(maxsplit=1)[1] for line in answer.out.splitlines() if line.startswith("  suspects ")]
        assert found == ([] if said is None else [said])

    def test_json(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        answer = Answer(capsys, "validate", "c.yaml", "--format", "json")
        found = json.loads(answer.out)
        assert (answer.code, answer.err, found["valid"], found["name"]) == (0, "", True, "airport")
        assert [rule["rule"] for rule in found["rules"]] == ["ident_is_unique", "country_of_region", "has_a_name"]
        (folder / "c.yaml").write_text("name: x\nnmae: y\n")
        answer = Answer(capsys, "validate", "c.yaml", "--format", "json")
        found = json.loads(answer.out)
        assert (answer.code, answer.err, found["valid"]) == (2, "", False)
        assert {"line": 2, "column": 1, "path": "nmae"}.items() <= found["errors"][-1].items()

    def test_warnings_are_said_unless_quiet(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "c.yaml").write_text(
            "name: a\nstate: s\nbackup: b\noutput: o\ncheckpoint: c\nconstraints: {denial: {}}\n"
            "tables: [{name: t, source: {format: kafka, servers: 'h:1', topic: t, encoding: debezium}}]\n"
        )
        answer = Answer(capsys, "validate", "c.yaml")
        assert (answer.code, answer.err[:23]) == (0, "warning: c.yaml:7:10: t")
        assert Answer(capsys, "validate", "c.yaml", "--quiet").err == ""


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
