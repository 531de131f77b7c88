"""Every command meets every state that it may find: what is refused stays as it is, what is replaced is set aside.

States are made unusable for real: locks that are held, formats that are written, files that are damaged or cannot be
read. The commands are those of the command line; none of these cases gets as far as Spark.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import Cache

from holdfast.constraints import (
    BackupDamaged,
    ExternalError,
    HoldfastError,
    StateBehindBackup,
    StateDamaged,
    StateFormatUnknown,
    StateInUse,
    StateMissing,
    StateOfAnotherApplication,
    StateRefused,
    StateTakenOver,
    StateUnreachable,
)
from holdfast.jobs import run as running
from holdfast.jobs import seed as seeding
from holdfast.jobs.application import replacing
from holdfast.jobs.application.opening import OpenState
from holdfast.jobs.application.session import Session
from holdfast.state import codecs, rocks
from holdfast.state.commits import SEEDING, Commits, Identity
from holdfast.state.judging import refuse_unusable
from holdfast.state.log import OWNER, CommitLog
from holdfast.state.places import Folder
from holdfast.state.rocks import RocksReader, RocksStore
from holdfast.state.snapshots import SET_ASIDE, Snapshots, own
from holdfast.state.store import WriteBatch
from tests.streams import Application

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TABLE: dict[str, Any] = {
    "name": "t",
    "key": ["k"],
    "columns": {"k": "integer", "a": "integer"},
    "source": {"format": "files", "path": str(Path(__file__).parent), "encoding": "json"},
}
CHECKPOINT = "checkpoint/t/offsets/0"
COMMANDS: dict[str, list[str]] = {
    "run": ["run", "--available-now"],
    "seed": ["seed"],
    "seed --replace": ["seed", "--replace"],
    "rebuild": ["rebuild"],
    "rebuild --from-source": ["rebuild", "--from-source"],
    "status": ["status"],
    "skip-batch": ["skip-batch", "t"],
    "validate": ["validate"],
}


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeded") / "app"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        _without_spark(patch)
        code, said = Application(folder, [TABLE])("seed")
    assert code == 0, said
    return folder


@pytest.fixture
def app(seeded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Application:
    """An application that was seeded, and follows nothing."""
    _without_spark(monkeypatch)
    monkeypatch.setattr(rocks, "_CACHE", Cache(1 << 20))  # blocks that were read before are not read again
    shutil.copytree(seeded, tmp_path / "app")
    return Application(tmp_path / "app", [TABLE])


def _without_spark(patch: pytest.MonkeyPatch) -> None:
    def refused(_: Session) -> None:
        raise AssertionError("nothing here needs Spark")

    patch.setattr(Session, "begin", lambda _: None)
    patch.setattr(Session, "__call__", refused)
    patch.setattr(running._Run, "_follow", lambda *_, **__: None)


# What states may be like


def _identity(folder: Path) -> Identity:
    with RocksReader(folder / "state") as reader:
        return Identity(**codecs.read_json(reader.get("meta", b"identity") or b""))


def _put(folder: Path, key: bytes, value: bytes) -> None:
    store = RocksStore(folder / "state")
    batch = WriteBatch()
    batch.put("meta", key, value)
    store.write(batch)
    store.close()


def _own_backup(folder: Path) -> Folder:
    return Folder(folder / "backup" / _identity(folder).state_id)


@contextmanager
def whole(_: Path) -> Iterator[None]:
    yield


@contextmanager
def missing(folder: Path) -> Iterator[None]:
    shutil.rmtree(folder / "state")
    yield


@contextmanager
def unfinished(folder: Path) -> Iterator[None]:
    _put(folder, b"identity", codecs.json_bytes(asdict(replace(_identity(folder), status=SEEDING))))
    yield


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    store = RocksStore(folder / "state")
    yield
    store.close()


@contextmanager
def of_another_application(folder: Path) -> Iterator[None]:
    _put(folder, b"identity", codecs.json_bytes(asdict(replace(_identity(folder), application="shop"))))
    yield


@contextmanager
def of_a_newer_format(folder: Path) -> Iterator[None]:
    _put(folder, b"identity", codecs.json_bytes({**asdict(_identity(folder)), "colour": "of a newer version"}))
    _put(folder, b"format", codecs.number(codecs.FORMAT + 1))
    yield


@contextmanager
def with_a_damaged_list(folder: Path) -> Iterator[None]:
    (folder / "state" / "CURRENT").write_bytes(b"MANI")
    yield


@contextmanager
def without_a_list(folder: Path) -> Iterator[None]:
    (folder / "state" / "CURRENT").unlink()
    yield


@contextmanager
def with_damaged_blocks(folder: Path) -> Iterator[None]:
    for file in (folder / "state").glob("*.sst"):
        data = bytearray(file.read_bytes())
        data[5] ^= 1
        file.write_bytes(data)
    yield


@contextmanager
def without_its_files(folder: Path) -> Iterator[None]:
    for file in (folder / "state").glob("*.sst"):
        file.unlink()
    yield


@contextmanager
def behind_its_backup(folder: Path) -> Iterator[None]:
    with RocksReader(folder / "state") as reader:
        last = codecs.read_number(reader.get("meta", b"commit") or b"")
    record = WriteBatch()
    record.put("meta", b"commit", codecs.number(last + 1))
    CommitLog(_own_backup(folder), 0).put(last + 1, codecs.batch_bytes(record))
    yield


@contextmanager
def taken_over(folder: Path) -> Iterator[None]:
    own(_own_backup(folder), replace(_identity(folder), epoch=1))
    yield


@contextmanager
def with_an_unreadable_file(folder: Path) -> Iterator[None]:
    """An input/output error of RocksDB: nobody knows what is in the file."""
    files = sorted((folder / "state").glob("*.sst"))
    for file in files:
        file.rename(file.with_suffix(".away"))
        file.mkdir()
    yield
    for file in files:
        file.rmdir()
        file.with_suffix(".away").rename(file)


@contextmanager
def in_an_unreadable_folder(folder: Path) -> Iterator[None]:
    (folder / "state").rename(folder / "away")
    (folder / "state").touch()
    yield
    (folder / "state").unlink()
    (folder / "away").rename(folder / "state")


@contextmanager
def with_an_unreachable_backup(folder: Path) -> Iterator[None]:
    (folder / "backup").rename(folder / "away")
    (folder / "backup").touch()
    yield
    (folder / "backup").unlink()
    (folder / "away").rename(folder / "backup")


@contextmanager
def with_a_damaged_owner(folder: Path) -> Iterator[None]:
    _own_backup(folder).put(OWNER, b"?")
    yield


WHOLE, SEEDED, RESTORED, REPLACED, KEPT = "whole", "seeded", "restored", "replaced", "kept"
"""What a command that ends well does: nothing, seed a state, restore it, remove an old one, set an old one aside."""

NOTHING_TO_SKIP = (2, "there is nothing to skip")
IS_WHOLE = (4, "is whole")
Expected = str | tuple[int, str]

DAMAGED: dict[str, Expected] = {
    "run": (4, "is damaged"),
    "seed": (4, "is damaged"),
    "seed --replace": KEPT,
    "rebuild": RESTORED,
    "rebuild --from-source": KEPT,
    "status": (4, "is damaged"),
    "skip-batch": (4, "is damaged"),
}


def _always(code: int, words: str, **others: Expected) -> dict[str, Expected]:
    return {**dict.fromkeys(COMMANDS, (code, words)), **others}


STATES: dict[Callable[[Path], Any], tuple[type[HoldfastError] | None, dict[str, Expected]]] = {
    whole: (
        None,
        {
            "run": WHOLE,
            "seed": (4, "holds a state already"),
            "seed --replace": REPLACED,
            "rebuild": IS_WHOLE,
            "rebuild --from-source": IS_WHOLE,
            "status": WHOLE,
            "skip-batch": NOTHING_TO_SKIP,
        },
    ),
    missing: (
        StateMissing,
        {
            "run": (4, "is missing, while"),
            "seed": (4, "is missing, while"),
            "seed --replace": KEPT,
            "rebuild": RESTORED,
            "rebuild --from-source": KEPT,
            "status": (4, "holds no state yet"),
            "skip-batch": (4, "holds no state yet"),
        },
    ),
    unfinished: (
        StateMissing,
        {
            "run": SEEDED,
            "seed": SEEDED,
            "seed --replace": KEPT,
            "rebuild": RESTORED,
            "rebuild --from-source": KEPT,
            "status": (4, "its seed was interrupted"),
            "skip-batch": (4, "is not seeded to the end"),
        },
    ),
    in_use: (StateInUse, _always(4, "is in use by another process", status=WHOLE)),
    of_another_application: (StateOfAnotherApplication, _always(4, "is of the application 'shop'")),
    of_a_newer_format: (
        StateFormatUnknown,
        _always(4, f"has format {codecs.FORMAT + 1}", **{"seed --replace": KEPT}),
    ),
    with_a_damaged_list: (StateDamaged, DAMAGED),
    without_a_list: (StateDamaged, DAMAGED),
    with_damaged_blocks: (StateDamaged, DAMAGED),
    without_its_files: (StateDamaged, DAMAGED),
    behind_its_backup: (
        StateBehindBackup,
        {
            "run": (4, "it lost its last writes"),
            "seed": (4, "holds a state already"),
            "seed --replace": KEPT,
            "rebuild": RESTORED,
            "rebuild --from-source": (4, "it lost its last writes"),
            "status": WHOLE,
            "skip-batch": NOTHING_TO_SKIP,
        },
    ),
    taken_over: (
        StateTakenOver,
        _always(
            4,
            "the state was restored elsewhere",
            seed=(4, "holds a state already"),
            status=WHOLE,
            **{"skip-batch": NOTHING_TO_SKIP},
        ),
    ),
    with_an_unreadable_file: (StateUnreachable, _always(5, "could not be read", status=(4, "or cannot be read"))),
    in_an_unreadable_folder: (StateUnreachable, _always(5, "could not be read")),
    with_an_unreachable_backup: (
        StateUnreachable,
        _always(
            5,
            "cannot be used",
            seed=(4, "holds a state already"),
            status=WHOLE,
            **{"skip-batch": NOTHING_TO_SKIP},
        ),
    ),
    with_a_damaged_owner: (
        BackupDamaged,
        _always(
            4,
            "says who writes to this backup",
            seed=(4, "holds a state already"),
            status=WHOLE,
            **{"skip-batch": NOTHING_TO_SKIP},
        ),
    ),
}
PAIRS = [
    pytest.param(
        state, command, WHOLE if command == "validate" else expected[command], id=f"{state.__name__}-{command}"
    )
    for state, (_, expected) in STATES.items()
    for command in COMMANDS
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_what_is_wrong_with_a_state_is_a_class(app: Application, state: Callable[[Path], Any]) -> None:
    kind = STATES[state][0]
    with state(app.folder):
        if kind is None:
            assert refuse_unusable(app.folder / "state", "app", Folder(app.folder / "backup")).application == "app"
        else:
            with pytest.raises(StateRefused) as found:
                refuse_unusable(app.folder / "state", "app", Folder(app.folder / "backup"))
            assert type(found.value) is kind


@pytest.mark.parametrize(("state", "command", "expected"), PAIRS)
def test_a_command_meets_a_state(
    app: Application, state: Callable[[Path], Any], command: str, expected: Expected
) -> None:
    folder = app.folder
    (folder / CHECKPOINT).parent.mkdir(parents=True)  # no batch was acknowledged: it fits no state
    shutil.rmtree(folder / "checkpoint")
    with state(folder):
        before, content, backup = _files(folder), _content(folder / "state"), _files(folder / "backup")
        code, said = app(*COMMANDS[command])
        assert "Traceback" not in said
        if isinstance(expected, tuple):
            assert (code, expected[1] in said) == (expected[0], True), said
        else:
            assert code == 0, said
        if expected in {WHOLE, SEEDED} or isinstance(expected, tuple):
            assert not list(folder.glob("*.aside-*"))
            assert not list(folder.glob("*.replaced"))
        if isinstance(expected, tuple):  # nothing was changed
            assert _files(folder / "backup") == backup
            if content is not None:
                assert _content(folder / "state") == content
            elif state is not in_an_unreadable_folder:
                kept = {name: data for name, data in _files(folder).items() if name in before and _is_data(name)}
                assert kept == {name: data for name, data in before.items() if _is_data(name)}
        elif expected == RESTORED:
            assert len(list(folder.glob("state.aside-*"))) == (state is not missing)
        elif expected == REPLACED:
            assert len(list((folder / "backup").iterdir())) == 1
            assert not list(folder.glob("*.aside-*"))
        elif expected == KEPT:
            _check_kept(folder, before, said, None if state is missing else content, had_state=state is not missing)
    if expected in {SEEDED, RESTORED, REPLACED, KEPT}:
        assert not list(folder.glob("*.replaced"))
        assert app("run", "--available-now")[0] == 0


def _is_data(name: str) -> bool:
    return name.startswith("state/") and name.endswith(".sst")


def _files(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        return {}
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _content(state: Path) -> dict[tuple[str, bytes], bytes] | None:
    """Return what a store holds; None where it cannot be read."""
    with suppress(HoldfastError, OSError), RocksReader(state) as reader:
        found = {
            (family, key): value
            for family in ("meta", "tables", "ledger", "progress", "outbox", "rows")
            for key, value in reader.scan(family)
        }
        return found or None
    return None


def _check_kept(
    folder: Path,
    before: dict[str, bytes],
    said: str,
    content: dict[tuple[str, bytes], bytes] | None,
    *,
    had_state: bool,
) -> None:
    """Assert that a state and its backup are beside the new ones, and named; `content` is what the state held."""
    states = list(folder.glob("state.aside-*"))
    assert len(states) == had_state
    for state in states:
        assert str(state) in said
        if content is not None:  # files may have been brought together since
            assert _content(state) == content
            continue
        held = _files(state)
        assert {name for name in before if _is_data(name)} <= {f"state/{name}" for name in held}
    backups = list((folder / "backup").iterdir())
    marked = [one for one in backups if (one / SET_ASIDE).exists()]
    assert (len(backups), len(marked)) == (2, 1)
    assert str(marked[0]) in said
    assert {f"backup/{marked[0].name}/{name}" for name in _files(marked[0]) if name != SET_ASIDE} >= {
        name for name in before if name.startswith("backup/")
    }
    assert marked[0].name != _identity(folder).state_id


@pytest.mark.parametrize("name", ["checksum mismatch, Corruption", "is in use by another process, of the application"])
def test_the_words_of_a_folder_decide_nothing(app: Application, tmp_path: Path, name: str) -> None:
    """An input/output error in a folder whose name says something else is neither damage nor a lock."""
    folder = app.folder.rename(tmp_path / name)
    moved = Application(folder, [TABLE])
    with with_an_unreadable_file(folder):
        for command in ("rebuild", "rebuild --from-source", "seed --replace"):
            code, said = moved(*COMMANDS[command])
            assert code == 5, said
    assert moved("run", "--available-now")[0] == 0
    with with_a_damaged_list(folder):
        assert moved("rebuild")[0] == 0
    assert moved("run", "--available-now")[0] == 0


def test_a_store_that_fails_for_a_moment_is_not_replaced(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        broken = OSError(5, "Input/output error")
        patch.setattr(Folder, "names", lambda _: (_ for _ in ()).throw(broken))
        for command in ("rebuild", "rebuild --from-source", "seed --replace", "run"):
            code, said = app(*COMMANDS[command])
            assert (code, "the device failed: check the disk" in said) == (5, True), said
    assert app("run", "--available-now")[0] == 0


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
