"""`holdfast rebuild`: restore a state, or its checkpoints, where either was lost.

    state lost         restored from its backup; or seeded again for the same outputs
    checkpoint lost    a new checkpoint begins where the state's last batch ended

Invariant: a state is replaced only where it is missing, damaged, or behind its own backup; its files are moved aside,
and a note names them. Other problems of a state (`state/judging.py`) end the command before anything is changed.
"""

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.constraints import StateBehindBackup, StateDamaged, StateMissing, StateRefused
from holdfast.jobs.application.backup import backup_of
from holdfast.jobs.application.blocks import rows_of
from holdfast.jobs.application.checkpoints import fits, remove
from holdfast.jobs.application.moving import keep_aside, undo_swap
from holdfast.jobs.application.replacing import recovered
from holdfast.jobs.application.session import Session
from holdfast.jobs.application.streams import checkpoint_of
from holdfast.jobs.configuration.quantities import is_remote
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.terminal.progress import LogOptions, Progress, progress_on
from holdfast.state.commits import Commits
from holdfast.state.judging import refuse_unusable
from holdfast.state.rocks import RocksStore, locked
from holdfast.state.snapshots import Snapshots, backups
from holdfast.state.store import WriteBatch
from holdfast.streaming.commits.table_records import tables_of


def rebuild_state(configuration: Configuration, *, from_source: bool, quiet: bool) -> None:
    """Restore the state from the backup, or seed it again."""
    progress = progress_on(sys.stderr, LogOptions(quiet))
    settings = configuration.settings
    state = Path(settings.state)
    recovered(settings, progress)
    undo_swap(state)
    usable = _is_usable(settings, from_source=from_source)
    if from_source:
        if usable:
            raise StateRefused(f"{state} is whole: to replace it by a new seed: holdfast seed --replace")
        from holdfast.jobs.seed import seed_state

        seed_state(configuration, replace=True, log=LogOptions(quiet))
        return
    if not usable:
        _restore(configuration, state, progress)
    _refuse_missing(settings, state)
    if not _joined(configuration, state, progress) and usable:
        raise StateRefused(
            f"{state} is whole, and so are the checkpoints: there is nothing to rebuild. To replace them by a new "
            "seed: holdfast seed --replace"
        )


def _is_usable(settings: Settings, *, from_source: bool) -> bool:
    """Whether a state can be used. Raise where it can neither be used nor replaced. O(n)."""
    try:
        refuse_unusable(Path(settings.state), settings.name, backup_of(settings))
    except (StateMissing, StateDamaged):
        return False
    except StateBehindBackup:
        if from_source:  # the source may lack commits of the backup
            raise
        return False
    return True


def _restore(configuration: Configuration, state: Path, progress: Progress) -> None:
    """Restore the state from its backup."""
    settings = configuration.settings
    folder = next(iter(backups(backup_of(settings), settings.name)), None)
    if folder is None:
        raise StateRefused(
            f"{settings.backup} has no snapshot of a state of '{settings.name}': name the backup that it was made "
            f"with, or seed anew for the same outputs: holdfast rebuild --from-source {configuration.file}"
        )
    aside = _moved_aside(state, progress)
    with progress.task(f"restoring {state} from {folder}"):
        try:
            restored = Snapshots(folder).restore(state)
        except BaseException:
            if aside is not None:
                aside.rename(state)
            raise
    for problem in restored.damaged:
        progress.note(f"warning: {problem}: an older snapshot was taken")
    progress.note(
        f"restored: {state} is at commit {restored.commit}, from the snapshot at commit {restored.snapshot.commit} "
        f"and {restored.commit - restored.snapshot.commit} logged since; holdfast run {configuration.file} goes on"
    )


def _refuse_missing(settings: Settings, state: Path) -> None:
    """Raise where files of blocks are missing that a state names: backups do not have these."""
    with closing(RocksStore(state)) as store:
        state_id = Commits(store, settings.name).identity.state_id
        rows_of(settings, state_id, Session(settings)).refuse_missing(store)


def _joined(configuration: Configuration, state: Path, progress: Progress) -> bool:
    """Replace checkpoints that do not fit the state by new ones from its last batches; return if there were any."""
    settings = configuration.settings
    if is_remote(settings.checkpoint):
        progress.note(
            f"warning: the checkpoints in {settings.checkpoint} were not looked at: they are not on this machine"
        )
        return False
    with closing(RocksStore(state)) as store:
        commits = Commits(store, settings.name)
        change = WriteBatch()
        for number, record in tables_of(store):
            name = record.name
            place, entry = Path(checkpoint_of(settings, name)), commits.entry(name)
            if fits(place, entry):
                continue
            if entry is not None:
                replace(record, source=_source_at(name, record.source, entry.end)).put(number, change)
                commits.resume(name, change)
            remove(place)
            where = "its start" if entry is None else entry.end
            progress.note(f"table {name}: its checkpoint did not fit the state; a new one begins at {where}")
        if len(change):
            store.write(change)
    return bool(len(change))


def _source_at(table: str, source: Mapping[str, Any], end: str) -> dict[str, Any]:
    """Return the position from which a source continues after the end of a batch; none for files."""
    found = {**source}
    if "start" in source:  # a topic
        found["start"] = end
    elif "version" in source:  # a feed: its last version is read again from its first change on
        at = json.loads(end)
        if at["index"] >= 0:
            raise StateRefused(
                f"table {table}: its checkpoint is lost, and the state ended within version {at['reservoirVersion']} "
                "of its feed, which cannot be read in part: seed anew: holdfast seed --replace"
            )
        found["version"] = at["reservoirVersion"] - 1
    return found


def _moved_aside(state: Path, progress: Progress) -> Path | None:
    """Move the files of a damaged state aside; return their new folder."""
    if not state.exists() or not any(state.iterdir()):
        return None
    with locked(state):
        aside = keep_aside(state, state)
    progress.note(f"{state} could not be used: it is now {aside}, remove it when you have seen it")
    return aside
