"""`holdfast rebuild`: a state that was lost, from its backup, or seeded anew for the same outputs.

Invariant: a state that can be used is never touched; one that cannot is moved aside, and named.
"""

import sys
from pathlib import Path

from holdfast.constraints import HoldfastError, StateRefused
from holdfast.jobs.configuration import Configuration
from holdfast.jobs.progress import Progress, progress_on
from holdfast.state.commits import READY, Commits
from holdfast.state.rocks import RocksStore
from holdfast.state.snapshots import Snapshots, newest_backup


def rebuild_state(configuration: Configuration, *, from_source: bool, quiet: bool) -> None:
    """Restore the state from the backup, or seed it anew."""
    progress = progress_on(sys.stderr, quiet=quiet)
    settings = configuration.settings
    state = Path(settings.state)
    _refuse_usable(state, settings.name)
    if from_source:
        from holdfast.jobs.run import seed_state

        seed_state(configuration, replace=True, quiet=quiet)
        return
    folder = newest_backup(Path(settings.backup), settings.name)
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


def _refuse_usable(state: Path, application: str) -> None:
    """Raise where there is a state that can be used."""
    if not (state / "CURRENT").exists():
        return
    try:
        store = RocksStore(state)
        try:
            status = Commits(store, application).identity.status
        finally:
            store.close()
    except StateRefused as error:
        if "in use by another process" in str(error) or "of the application" in str(error):
            raise
        return
    except HoldfastError:
        return
    if status == READY:
        raise StateRefused(
            f"{state} is whole: there is nothing to rebuild. To throw it away and seed anew: holdfast seed --replace"
        )


def _moved_aside(state: Path, progress: Progress) -> Path | None:
    """Move what is left of a state out of the way; return where it is."""
    if not state.exists() or not any(state.iterdir()):
        return None
    number = 1
    while (aside := state.with_name(f"{state.name}.damaged-{number}")).exists():
        number += 1
    state.rename(aside)
    progress.note(f"{state} could not be used: it is now {aside}, remove it when you have seen it")
    return aside
