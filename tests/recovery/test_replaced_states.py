"""States that are replaced: whenever the process is killed, the old state or the complete new state is there."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.constraints import ExternalError
from holdfast.jobs import seed as seeding
from holdfast.jobs.application import replacing
from holdfast.jobs.application.opening import OpenState
from holdfast.state.commits import Commits
from holdfast.state.places import Folder
from holdfast.state.rocks import RocksStore
from holdfast.state.snapshots import SET_ASIDE, Snapshots, own
from tests.recovery.test_state_refusals import _files
from tests.recovery.unusable import CHECKPOINT, COMMANDS, _identity, app, seeded, with_a_damaged_list

if TYPE_CHECKING:
    from tests.streams import Application

__all__ = ["app", "seeded"]  # fixtures

# Seeds that end early

STEPS = [
    *("_note", "_move_aside", "seed_tables", "publish_waiting", "first snapshot", "publishing"),
    *("_note 2", "_finish", "_finish, half done"),
]


class Killed(BaseException):
    """Ends a command as SIGKILL does: nothing that it would tidy up is tidied up."""


def _kill_at(patch: pytest.MonkeyPatch, step: str) -> None:
    """Let a replacement end at a step, as a kill would: what tidies up behind it does nothing."""

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    original = replacing._note
    calls = 0

    def second(*given: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise Killed
        original(*given)

    if step == "_note 2":
        patch.setattr(replacing, "_note", second)
    elif step == "first snapshot":
        patch.setattr(Snapshots, "put", killed)
    elif step == "publishing":
        from holdfast.streaming.sinks.publisher import Publisher

        patch.setattr(Publisher, "start", killed)
    elif step == "_finish, half done":
        patch.setattr(Folder, "clear", killed)
    elif step == "seed_tables":
        patch.setattr(seeding, step, killed)
    elif step == "publish_waiting":
        patch.setattr(OpenState, step, killed)
    else:
        patch.setattr(replacing, step, killed)
    patch.setattr(replacing, "_put_back", killed)
    if step != "_finish, half done":
        patch.setattr(replacing, "_finish", killed)


@pytest.mark.parametrize(
    ("step", "command"),
    [
        *((step, "run") for step in STEPS),
        *(("publish_waiting", command) for command in ("seed", "seed --replace", "rebuild", "status", "skip-batch")),
        *(("_finish", command) for command in ("seed --replace", "status")),
        *(("_move_aside", command) for command in ("seed --replace", "status")),
    ],
)
def test_a_replacement_that_is_killed(
    app: Application, monkeypatch: pytest.MonkeyPatch, step: str, command: str
) -> None:
    folder = app.folder
    first = _identity(folder).state_id
    with monkeypatch.context() as patch, suppress(Killed):
        _kill_at(patch, step)
        app("seed", "--replace")
    is_complete = step in {"publishing", "_finish", "_finish, half done"}
    code, said = app(*COMMANDS[command])
    now = _identity(folder).state_id if (folder / "state").exists() else ""
    if command == "status":
        assert (code, "the seed that is to replace the state is not complete" in said) == (0, True), said
        return
    if command == "seed --replace":
        assert code == 0, said
        assert now != first
    else:
        assert (now == first) == (not is_complete), said
        assert code == {"run": 0, "seed": 4, "rebuild": 4, "skip-batch": 2}[command], said
    if not is_complete and step != "_note":
        assert "was interrupted: it is in its place again" in said
    assert not list(folder.glob("*.replaced*"))
    assert not list(folder.glob("*.aside-*"))
    assert [path.name for path in (folder / "backup").iterdir()] == [now]
    assert app("run", "--available-now")[0] == 0


def test_a_damaged_state_whose_replacement_is_killed_is_in_its_place_again(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    with with_a_damaged_list(app.folder):
        before = _files(app.folder / "state")
        with monkeypatch.context() as patch, suppress(Killed):
            _kill_at(patch, "publish_waiting")
            app("rebuild", "--from-source")
        code, said = app("run", "--available-now")
        assert (code, "is damaged" in said, "was interrupted" in said) == (4, True, True), said
        assert before.items() <= _files(app.folder / "state").items()
        assert app("rebuild")[0] == 0
    assert app("run", "--available-now")[0] == 0


def test_a_state_is_not_put_back_under_a_seed_that_goes_on(app: Application) -> None:
    """Another process replaces the state at this moment: it holds the lock of what it set aside."""
    aside = app.folder / "state.replaced"
    script = """
import fcntl, sys
file = open(sys.argv[1], "ab")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""
    old = replacing.Old("", str(app.folder / "state"), None)
    Folder(aside).put("about.json", json.dumps(asdict(old)).encode())
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(aside / "LOCK")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == b"locked\n"
        for command in ("run", "seed", "seed --replace", "rebuild", "skip-batch"):
            code, said = app(*COMMANDS[command])
            assert (code, "is in use by another process" in said) == (4, True), said
    finally:
        other.communicate()
    assert app("run", "--available-now")[0] == 0
    assert not aside.exists()


def test_what_was_set_aside_and_cannot_be_read_is_named(app: Application) -> None:
    (app.folder / "state").rename(app.folder / "state.replaced")
    code, said = app("run", "--available-now")
    assert (code, "its about.json cannot be read" in said) == (4, True), said
    (app.folder / "state.replaced").rename(app.folder / "state")
    assert app("run", "--available-now")[0] == 0


@pytest.mark.parametrize("with_backup", [True, False])
def test_a_replacement_that_fails_puts_the_state_back(
    app: Application, monkeypatch: pytest.MonkeyPatch, *, with_backup: bool
) -> None:
    folder = app.folder
    (folder / CHECKPOINT).parent.mkdir(parents=True)
    (folder / CHECKPOINT).write_text("v1")
    first, before = _identity(folder), _files(folder / "backup")

    def fails(*_: Any, **__: Any) -> None:
        raise ExternalError("no room")

    with monkeypatch.context() as patch:
        owner, step = (OpenState, "publish_waiting") if with_backup else (seeding, "seed_tables")
        patch.setattr(owner, step, fails)
        code, said = app("seed", "--replace")
        assert (code, said.endswith("no room\n")) == (5, True), said
    assert _identity(folder) == first
    assert (folder / CHECKPOINT).read_text() == "v1"
    assert _files(folder / "backup") == before
    assert not list(folder.glob("*.replaced"))


def test_a_marked_backup_is_its_states_own_again_once_that_runs(app: Application) -> None:
    folder = app.folder
    with with_a_damaged_list(folder):
        assert app("seed", "--replace")[0] == 0
    (old,) = [one for one in (folder / "backup").iterdir() if (one / SET_ASIDE).exists()]
    shutil.rmtree(folder / "state")
    assert app("rebuild")[0] == 0  # of the newer one's backup, though the other one is there
    assert _identity(folder).state_id != old.name
    shutil.rmtree(folder / "state")
    Snapshots(old).restore(folder / "state")
    store = RocksStore(folder / "state")
    own(Folder(old), Commits(store, "app").identity)
    store.close()
    assert not (old / SET_ASIDE).exists()


def test_locks_are_those_of_rocksdb(app: Application) -> None:
    with ExitStack() as held:
        file = held.enter_context((app.folder / "state" / "LOCK").open("ab"))
        child = f"import fcntl; fcntl.lockf(open({file.name!r}, 'ab'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        store = RocksStore(app.folder / "state")
        assert subprocess.run([sys.executable, "-c", child], capture_output=True, check=False).returncode == 1
        store.close()
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
