"""Sets a state aside while a new state is seeded in its place, and puts it back where the seed fails.

    <state>.replaced/about.json   which folders were set aside, and whether the new state is complete
    <state>.replaced/state        the old state
    <state>.replaced/LOCK         locked by the process that seeds the new state
    <checkpoint>.replaced         the old checkpoints

Once the new state and its backup are complete, an old state that was whole is removed, with its checkpoints, its backup
and its blocks. A damaged state stays beside the new one (`<state>.aside-1`), its backup is marked (`SET_ASIDE`), and a
note names both.

Invariant: at every moment the old state or the complete new state exists; `recovered` completes a replacement that was
killed.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from holdfast.constraints import HoldfastError, StateMissing, StateRefused
from holdfast.jobs.application.backup import backup_of
from holdfast.jobs.application.blocks import address_of, clear_blocks
from holdfast.jobs.application.moving import keep_aside, moved, reported
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.terminal.progress import Progress
from holdfast.state.commits import state_id_of
from holdfast.state.places import Folder
from holdfast.state.rocks import RocksReader, locked
from holdfast.state.snapshots import set_aside

_REPLACED, _ABOUT, _STATE = ".replaced", "about.json", "state"


@dataclass(frozen=True)
class Old:
    """A state that is replaced.

    Parameters
    ----------
    flaw : why the state cannot be used; empty where it is whole, and is removed in the end.
    state, checkpoint : the folders of the state and its checkpoints; None where they do not exist.
    backups : the names of the state's folders in the backup.
    others : the names of the application's other folders in the backup, which are marked in the end.
    blocks : the addresses of the state's blocks.
    is_complete : whether the new state and its backup are complete.
    """

    flaw: str
    state: str | None
    checkpoint: str | None
    backups: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    is_complete: bool = False

    def moves(self, aside: Path) -> list[tuple[Path, Path]]:
        """Return the folders that are set aside, each with the path that it is moved to."""
        state = [] if self.state is None else [(Path(self.state), aside / _STATE)]
        return state + ([] if self.checkpoint is None else [(Path(self.checkpoint), _replaced(self.checkpoint))])


def old_state(
    settings: Settings, flaw: str, backups: Iterable[str], others: Iterable[str], blocks: Iterable[str]
) -> Old:
    """Return the description of a state that will be replaced."""
    state, checkpoint = (Path(place).absolute() for place in (settings.state, settings.checkpoint))
    return Old(
        flaw,
        str(state) if _is_filled(state) else None,
        str(checkpoint) if _is_filled(checkpoint) else None,
        tuple(backups),
        tuple(others),
        tuple(sorted(blocks)),
    )


@contextmanager
def replaced(settings: Settings, old: Old, progress: Progress) -> Iterator[Callable[[], None]]:
    """Set a state aside, and put it back at the end unless the function that is provided was called.

    The function is to be called once the new state and its backup are complete.
    """
    aside = _aside(settings)
    _note(aside, old)
    with locked(aside):

        def complete() -> None:
            nonlocal old
            old = replace(old, is_complete=True)
            _note(aside, old)

        try:
            _move_aside(aside, old)
            yield complete
        except BaseException:
            with suppress(HoldfastError, OSError):  # the first error says more, and the next start tries again
                _end(settings, aside, old, progress)
            raise
        _end(settings, aside, old, progress)


def recovered(settings: Settings, progress: Progress) -> None:
    """End a replacement that was killed: put the old state back, unless the new state is complete."""
    aside = _aside(settings)
    if not _is_there(aside):
        return
    with locked(aside):
        old = _noted(aside)
        if old is None:
            shutil.rmtree(aside)
            return
        _end(settings, aside, old, progress)
        if not old.is_complete:
            found = "it is in its place again" if old.state else "there was none before"
            progress.note(f"the seed that was to replace the state {settings.state} was interrupted: {found}")


def interrupted(settings: Settings) -> StateMissing | None:
    """Return the error for readers of a state whose replacement is not complete; None where there is none."""
    aside = _aside(settings)
    if not _is_there(aside):
        return None
    return StateMissing(
        f"the seed that is to replace the state is not complete; the state before it is in {aside / _STATE}: if the "
        "seed was interrupted, holdfast run puts that back"
    )


def _aside(settings: Settings) -> Path:
    return _replaced(str(Path(settings.state).absolute()))


def _replaced(folder: str) -> Path:
    return Path(f"{folder}{_REPLACED}")


def _is_there(aside: Path) -> bool:
    with reported(aside):
        try:
            aside.stat()
        except FileNotFoundError:
            return False
    return True


def _is_filled(folder: Path) -> bool:
    with reported(folder):
        try:
            return any(True for _ in folder.iterdir())
        except FileNotFoundError:
            return False


def _note(aside: Path, old: Old) -> None:
    with reported(aside):
        Folder(aside).put(_ABOUT, json.dumps(asdict(old)).encode())


def _noted(aside: Path) -> Old | None:
    """Return the description in a folder of a replacement; None where nothing was moved into it yet."""
    with reported(aside):
        about = Folder(aside).get(_ABOUT)
    if about is None and all(path.name == "LOCK" or path.suffix == ".part" for path in aside.iterdir()):
        return None
    try:
        found = json.loads(about or b"")
        lists = {name: tuple(found[name]) for name in ("backups", "others", "blocks")}
        return Old(found["flaw"], found["state"], found["checkpoint"], **lists, is_complete=found["is_complete"])
    except (ValueError, KeyError, TypeError) as error:
        raise StateRefused(
            f"{aside} has a state that holdfast seed --replace set aside, and its {_ABOUT} cannot be read: move the "
            "state back into its place, or elsewhere, remove the folder, and start again"
        ) from error


def _move_aside(aside: Path, old: Old) -> None:
    for folder, kept in old.moves(aside):
        with locked(folder) if str(folder) == old.state else nullcontext():
            moved(folder, kept)


def _end(settings: Settings, aside: Path, old: Old, progress: Progress) -> None:
    if old.is_complete:
        _finish(settings, aside, old, progress)
    else:
        _put_back(settings, aside, old)


def _put_back(settings: Settings, aside: Path, old: Old) -> None:
    """Move all folders back. An earlier call may have been killed after any of these steps."""
    state = Path(settings.state).absolute() if old.state is None else Path(old.state)
    if old.state is None or (aside / _STATE).exists():  # else the old state is in its place already
        with locked(state) if state.is_dir() else nullcontext():
            begun = _begun(state)
            if begun is not None and begun not in {*old.backups, *old.others}:
                clear_blocks(settings, [address_of(settings, begun)])
                backup_of(settings).at(begun).clear()
            shutil.rmtree(state, ignore_errors=True)
    for original, kept in old.moves(aside):
        if kept.exists():
            if original != state:  # the new state was removed above, while it was locked
                shutil.rmtree(original, ignore_errors=True)
            moved(kept, original)
    shutil.rmtree(aside)


def _finish(settings: Settings, aside: Path, old: Old, progress: Progress) -> None:
    """Remove the old state where it was whole; else move it beside the new state, and note where it is."""
    backup, kept = backup_of(settings), []
    for original, path in old.moves(aside):
        if not old.flaw:
            shutil.rmtree(path, ignore_errors=True)
        elif path.exists():
            kept.append(str(keep_aside(path, original)))
    if not old.flaw:
        for name in old.backups:
            backup.at(name).clear()
        clear_blocks(settings, old.blocks)
    for name in old.others:
        set_aside(backup.at(name), old.flaw)
        kept.append(str(backup.at(name)))
    if kept:
        why = f" ({old.flaw})" if old.flaw else ""
        progress.note(f"set aside: {', '.join(kept)}; remove this when you have seen it{why}")
    shutil.rmtree(aside)


def _begun(state: Path) -> str | None:
    """Return the id of a state whose seed was begun; None where it has no id yet."""
    with suppress(HoldfastError), RocksReader(state) as reader:
        return state_id_of(reader)
    return None
