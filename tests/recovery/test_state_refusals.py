"""Every command meets every state that it may find: what is refused stays as it is, what is replaced is set aside.

States are made unusable for real: locks that are held, formats that are written, files that are damaged or cannot be
read. The commands are those of the command line; none of these cases gets as far as Spark.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.constraints import (
    BackupDamaged,
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
from holdfast.state import codecs
from holdfast.state.judging import refuse_unusable
from holdfast.state.places import Folder
from holdfast.state.rocks import RocksReader
from holdfast.state.snapshots import SET_ASIDE
from tests.recovery.unusable import (
    CHECKPOINT,
    COMMANDS,
    TABLE,
    _identity,
    app,
    behind_its_backup,
    in_an_unreadable_folder,
    in_use,
    missing,
    of_a_newer_format,
    of_another_application,
    seeded,
    taken_over,
    unfinished,
    whole,
    with_a_damaged_list,
    with_a_damaged_owner,
    with_an_unreachable_backup,
    with_an_unreadable_file,
    with_damaged_blocks,
    without_a_list,
    without_its_files,
)
from tests.streams import Application

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["app", "seeded"]  # fixtures


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
