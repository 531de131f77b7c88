"""Where a run listens, what rights it gives to what it writes, and what names from outside can reach."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from holdfast.constraints import Column, Schema, parse_type
from holdfast.jobs.application.folders import folder_name
from holdfast.jobs.command_line import exit_code_of
from holdfast.state.log import CommitLog
from holdfast.streaming.decoding.files import ChangedFile, draft_of
from holdfast.streaming.incoming.arrivals import Target, arrivals
from holdfast.tables import ReadOptions
from tests.processes import is_loopback, listening
from tests.short_lives import quick_environment
from tests.streams import Application

if TYPE_CHECKING:
    from pathlib import Path

ODD_NAMES = [
    "../../x",
    "a/b",
    ".",
    "..",
    "...",
    "a\nb",
    "x" * 300,
    "ü" * 200,
    "%2e%2e%2f",
    "CON",
    "-rf",
    "\u202egnp.exe",
    "a b",
    "~",
    "$HOME",
    "a\\b",
    "*",
    "a:b",
    "\x1b[31m",
]
COLUMNS = {"k": "integer", "a": "string"}


def table(name: str = "t", **more: object) -> dict[str, object]:
    source = {"format": "files", "path": "./changes", "encoding": "json"}
    return {"name": name, "key": ["k"], "columns": COLUMNS, "source": source, **more}


@pytest.mark.spark
@pytest.mark.slow
def test_all_that_listens_does_so_on_this_machine_alone(tmp_path: Path) -> None:
    app = Application(tmp_path, [table()])
    app.put("1.json", b'{"k": 1, "a": "x"}\n')
    process = app.started()
    try:
        process.wait_for(lambda: len(app.output("batches")) > 0)
        found = listening(process.pid)
        assert process.signal(signal.SIGTERM) == 0, process.said
    except BaseException:
        process.kill()
        raise
    assert found, "Spark's driver takes connections of its own"
    assert [place for place in found if not is_loopback(place[0])] == []


def _open_to_others(root: Path) -> list[str]:
    """Return the files below a folder that others can reach: all folders above them let others in."""
    found, folders = [], [root]
    for folder in folders:
        if folder.stat().st_mode & 0o077 == 0:
            continue
        for inner in folder.iterdir():
            if inner.is_dir():
                folders.append(inner)
            elif inner.stat().st_mode & 0o077:
                found.append(f"{inner}: {stat.filemode(inner.stat().st_mode)}")
    return found


@pytest.mark.spark
@pytest.mark.slow
def test_whatever_the_umask_what_is_written_is_its_owners_alone(tmp_path: Path) -> None:
    names = {name: f"./deep/er/{name}" for name in ("state", "backup", "output", "checkpoint")}
    app = Application(
        tmp_path,
        [table("../../x"), table(".", source={"format": "files", "path": "./changes", "encoding": "json"})],
        **names,
    )
    app.put("1.json", b'{"k": 1, "a": "x"}\nbad\n')
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "holdfast", "run", str(app.file), "--available-now"]
    before = os.umask(0)
    try:
        environment = {
            **os.environ,
            **quick_environment(),
            "TMPDIR": str(tmp_path / "tmp"),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        ended = subprocess.run(command, capture_output=True, check=False, timeout=180, env=environment, cwd=tmp_path)
    finally:
        os.umask(before)
    assert ended.returncode == 0, ended.stderr
    assert {path.name for path in (tmp_path / "deep/er").iterdir()} == {*names}
    assert {path.name for path in (tmp_path / "deep/er/checkpoint").iterdir()} == {"..%2F..%2Fx", "%2E"}
    assert _open_to_others(tmp_path / "deep") == []
    assert {path.name for path in tmp_path.iterdir()} <= {"deep", "changes", "tmp", "holdfast.yaml", "being-written"}


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_table_is_one_folder_whatever_its_name(tmp_path: Path, name: str) -> None:
    made = tmp_path / "checkpoint" / folder_name(name)
    made.mkdir(parents=True)
    assert [path.resolve() for path in (tmp_path / "checkpoint").iterdir()] == [made.resolve()]
    assert folder_name(name) != folder_name(name + "x")
    assert made.resolve().parent == (tmp_path / "checkpoint").resolve()
    assert len({folder_name(other) for other in ODD_NAMES}) == len(ODD_NAMES)


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_a_file_of_any_name_is_read_and_reaches_nothing(tmp_path: Path, name: str, kind: str) -> None:
    target = Target(Schema("t", (Column("k", parse_type("integer")),)), ("k",))
    before = sorted(tmp_path.iterdir())
    found = arrivals(draft_of([ChangedFile(f"s3://b/{name}", b"k\n1\n", 0)], target, kind, ReadOptions()), target)  # type: ignore[arg-type]
    assert len(found.records) + len(found.bad) >= 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["../x", "a/b", ".", "..", "", "a\0b", "x" * 300, "-x", "\u202ex"])
def test_output_is_the_file_that_was_named_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    (inner / "a.csv").write_text("A,B\n1,2\n")
    code = exit_code_of(["discover", "a.csv", f"--output={name}"])
    assert code in {0, 2}, capsys.readouterr().err
    made = {path for path in tmp_path.rglob("*") if path.is_file()} - {inner / "a.csv"}
    assert len(made) == (code == 0)
    assert all(path == (inner / name).resolve() for path in made)


def test_a_link_in_place_of_a_log_record_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    log = CommitLog(tmp_path / "backup", 0)
    folder = tmp_path / "backup" / "log" / f"{0:010d}"
    (folder / f"{1:020d}.{os.getpid()}.part").symlink_to(victim)
    with pytest.raises(OSError, match="could not be written"):
        log.put(1, b"record")
    next_epoch = tmp_path / "backup" / "log" / f"{1:010d}"
    next_epoch.mkdir()
    (next_epoch / "first").symlink_to(victim)
    CommitLog.begin(tmp_path / "backup", 1, 5)
    assert not (next_epoch / "first").is_symlink()
    assert victim.read_text() == "mine"


ESCAPES = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202e\r"


def test_nothing_in_the_data_reaches_a_terminal_as_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"A{ESCAPES}\nB"
    rows = [[name, "C"], [f"x{ESCAPES}", "1"], [f"x{ESCAPES}", "2"]]
    text = "\n".join(",".join('"' + cell + '"' for cell in row) for row in rows)
    file = tmp_path / f"t{ESCAPES.replace('/', '')}.csv"
    file.write_bytes(text.encode())
    rule = f"`r{ESCAPES}`: `{name}` -> C"
    (tmp_path / "rules.txt").write_text(f"bad{ESCAPES}: nonsense{ESCAPES}\n")
    commands = [
        ["discover", str(file)],
        ["discover", str(file), "--format", "json"],
        ["discover", str(file), "--as-rules"],
        ["discover", str(file), str(file), "--family", "ind"],
        ["check", str(file), "--rule", rule],
        ["check", str(file), "--rule", rule, "--format", "json"],
        ["check", str(file), "--rules", "rules.txt"],
        ["check", str(file), "--rule", f"nonsense{ESCAPES}"],
        ["replay", str(file), str(file), "--batch-size", "1"],
        ["discover", f"missing{ESCAPES}"],
        ["validate", str(file)],
        [f"unknown{ESCAPES}"],
    ]
    for command in commands:
        exit_code_of(command)
        said = "".join(capsys.readouterr())
        assert said.strip(), command
        obeyed = [c for c in said if not c.isprintable() and c not in "\n\t"]
        assert not obeyed, (command, obeyed, said)
    code = exit_code_of(["check", str(file), "--rule", rule, "--format", "json"])
    assert code == 1
    assert json.loads(capsys.readouterr().out)["rule"].startswith("r\x1b]0;owned")  # escaped, and nothing is lost
