"""One state folder in another one's place.

Invariant: at any moment the state is the old one or the new one, whole; what a crash leaves between the two renames is
undone by the next start.
"""

import os
import shutil
from pathlib import Path

from holdfast.state.rocks import RocksStore, locked

NEW, OLD = ".holdfast-new", ".holdfast-old"
"""End the names of the folder that is made, and of the one that goes."""


def unswapped(state: Path) -> None:
    """Take back a swap that a crash left half done."""
    old = state.with_name(state.name + OLD)
    if old.exists() and not state.exists():
        old.rename(state)


def swept(state: Path) -> None:
    """Remove what a crash left beside a state, which is this process's own."""
    for left in (OLD, NEW):
        shutil.rmtree(state.with_name(state.name + left), ignore_errors=True)


def swap(state: Path, made: Path, store: RocksStore) -> None:
    """Let a store take another one's place."""
    old = state.with_name(state.name + OLD)
    store.close()
    with locked(state):
        state.rename(old)
        made.rename(state)
        folder = os.open(state.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    shutil.rmtree(old, ignore_errors=True)
