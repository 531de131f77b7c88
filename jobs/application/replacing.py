"""A state that is set aside while another one is seeded in its place: put back where that fails, whenever it does.

    <state>.replaced/about.json   what was set aside, where from, and whether the new state is complete
    <state>.replaced/state        the state
    <state>.replaced/LOCK         held by the process that seeds the new one
    <checkpoint>.replaced         the checkpoints

Once the new state and its backup are complete, a state that was whole is removed, with its checkpoints, its backup and
its blocks. Any other one stays beside the new one (`<state>.aside-1`), its backup is marked (`SET_ASIDE`), and both are
named.

Invariant: at every moment the old state or the complete new one is there; `recovered` finds what a kill left.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from holdfast.constraints import HoldfastError, StateMissing, StateRefused, StateUnreachable
from holdfast.jobs.application.backup import backup_of
from holdfast.jobs.application.blocks import address_of, clear_blocks
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.terminal.progress import Progress
from holdfast.state.commits import state_id_of
from holdfast.state.places import Folder
from holdfast.state.rocks import RocksReader, locked
from holdfast.state.room import way_out
from holdfast.state.snapshots import set_aside

_REPLACED, _ABOUT, _STATE = ".replaced", "about.json", "state"


@dataclass(frozen=True)
class Old:
    """A state that is to be replaced.

    Parameters
    ----------
    flaw : why it cannot be used; empty where it is whole, and is removed in the end.
    state, checkpoint : their folders; None where there is none.
    backups : the names of its folders in the backup.
    others : the names of the application's other folders there, which are marked in the end.
    blocks : the addresses of its blocks.
    is_complete : whether the new state and its backup are complete.
    """

    flaw: str
    state: str | None
    checkpoint: str | None
    backups: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    is_complete: bool = False


def old_state(
    settings: Settings, flaw: str, backups: Iterable[str], others: Iterable[str], blocks: Iterable[str]
) -> Old:
    """Return what there is of a state that is to be replaced."""
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
    """Set a state aside; give what to call once the new one and its backup are complete. Else it is put back."""
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
            with suppress(HoldfastError, OSError):  # what made it fail says more, and the next start goes on here
                _ended(settings, aside, old, progress)
            raise
        _ended(settings, aside, old, progress)


def recovered(settings: Settings, progress: Progress) -> None:
    """End a replacement that was killed: the old state is put back, unless the new one is complete."""
    aside = _aside(settings)
    if not _is_there(aside):
        return
    with locked(aside):
        old = _noted(aside)
        if old is None:
            shutil.rmtree(aside)
            return
        _ended(settings, aside, old, progress)
        if not old.is_complete:
            found = "it is in its place again" if old.state else "there was none before"
            progress.note(f"the seed that was to replace the state {settings.state} was interrupted: {found}")


def interrupted(settings: Settings) -> StateMissing | None:
    """Return what a reader of the state is to know of a replacement that is not complete; None where there is none."""
    aside = _aside(settings)
    if not _is_there(aside):
        return None
    return StateMissing(
        f"the seed that is to replace the state is not complete; the state before it is in {aside / _STATE}: if the "
        "seed was interrupted, holdfast run puts that back"
    )


def keep_aside(place: Path, original: Path) -> Path:
    """Move a folder beside where it belongs, under a name that is not taken; return the new path."""
    number = 1
    while (aside := original.with_name(f"{original.name}.aside-{number}")).exists():
        number += 1
    return _moved(place, aside)


def _aside(settings: Settings) -> Path:
    state = Path(settings.state).absolute()
    return state.with_name(state.name + _REPLACED)


def _checkpoint_aside(old: Old) -> Path | None:
    return None if old.checkpoint is None else Path(f"{old.checkpoint}{_REPLACED}")


def _is_there(aside: Path) -> bool:
    try:
        aside.stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _immovable(aside, error) from error
    return True


def _is_filled(folder: Path) -> bool:
    try:
        return any(True for _ in folder.iterdir())
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _immovable(folder, error) from error


def _note(aside: Path, old: Old) -> None:
    try:
        Folder(aside).put(_ABOUT, json.dumps(asdict(old)).encode())
    except OSError as error:
        raise _immovable(aside, error) from error


def _noted(aside: Path) -> Old | None:
    """Return what is set aside in a folder; None where nothing is."""
    try:
        about = Folder(aside).get(_ABOUT)
    except OSError as error:
        raise _immovable(aside, error) from error
    if about is None and all(path.name == "LOCK" or path.suffix == ".part" for path in aside.iterdir()):
        return None  # killed before anything was moved
    try:
        found = json.loads(about or b"")
        lists = {name: tuple(found[name]) for name in ("backups", "others", "blocks")}
        return Old(found["flaw"], found["state"], found["checkpoint"], **lists, is_complete=found["is_complete"])
    except (ValueError, KeyError, TypeError) as error:
        raise StateRefused(
            f"{aside} has what a holdfast seed --replace had set aside, and its {_ABOUT} cannot be read: move a state "
            "that is in it back into its place, or elsewhere, remove the folder, and start again"
        ) from error


def _move_aside(aside: Path, old: Old) -> None:
    if old.state is not None:
        state = Path(old.state)
        with locked(state):
            _moved(state, aside / _STATE)
    checkpoint = _checkpoint_aside(old)
    if checkpoint is not None and old.checkpoint is not None:
        _moved(Path(old.checkpoint), checkpoint)


def _ended(settings: Settings, aside: Path, old: Old, progress: Progress) -> None:
    if old.is_complete:
        _finish(settings, aside, old, progress)
    else:
        _put_back(settings, aside, old)


def _put_back(settings: Settings, aside: Path, old: Old) -> None:
    """Put everything back. Each step may be the one that an earlier call had ended with."""
    state = Path(settings.state).absolute() if old.state is None else Path(old.state)
    if old.state is None or (aside / _STATE).exists():  # what is in its place is what was begun
        with locked(state) if state.is_dir() else nullcontext():
            begun = _begun(state)
            if begun is not None and begun not in {*old.backups, *old.others}:
                clear_blocks(settings, [address_of(settings, begun)])
                backup_of(settings).at(begun).clear()
            shutil.rmtree(state, ignore_errors=True)
        if old.state is not None:
            _moved(aside / _STATE, state)
    checkpoint = _checkpoint_aside(old)
    if checkpoint is not None and old.checkpoint is not None and checkpoint.exists():
        shutil.rmtree(old.checkpoint, ignore_errors=True)
        _moved(checkpoint, Path(old.checkpoint))
    shutil.rmtree(aside)


def _finish(settings: Settings, aside: Path, old: Old, progress: Progress) -> None:
    """Remove what was whole and is replaced; name what stays."""
    backup, checkpoint = backup_of(settings), _checkpoint_aside(old)
    kept = []
    if old.flaw:
        if old.state is not None and (aside / _STATE).exists():
            kept.append(str(keep_aside(aside / _STATE, Path(old.state))))
        if checkpoint is not None and old.checkpoint is not None and checkpoint.exists():
            kept.append(str(keep_aside(checkpoint, Path(old.checkpoint))))
    else:
        if checkpoint is not None:
            shutil.rmtree(checkpoint, ignore_errors=True)
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
    """Return the state id of a seed that was begun; None where it had none yet."""
    with suppress(HoldfastError), RocksReader(state) as reader:
        return state_id_of(reader)
    return None


def _moved(place: Path, target: Path) -> Path:
    """Rename a folder, for good once this returns."""
    try:
        place.rename(target)
        for folder in {place.parent, target.parent}:
            number = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)
    except OSError as error:
        raise _immovable(place, error) from error
    return target


def _immovable(place: Path, error: OSError) -> StateUnreachable:
    return StateUnreachable(
        f"{place} cannot be set aside or put back ({error}). Nothing is lost: {way_out(error, place)}, and start again"
    )
