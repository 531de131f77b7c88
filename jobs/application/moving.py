"""Moves folders of a state: into another folder's place, or aside.

Invariant: a move is on disk when its function returns. While a state is swapped, the folder of the state is the old one
or the new one, complete; where a crash leaves neither in place, the next start moves the old one back.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.constraints import StateUnreachable
from holdfast.state.places import sync_folder
from holdfast.state.rocks import RocksStore, locked
from holdfast.state.room import way_out

NEW, OLD = ".holdfast-new", ".holdfast-old"
"""The endings of the names of the state that is being made, and of the state that it replaces."""


def moved(place: Path, target: Path) -> Path:
    """Rename a folder, and return its new path."""
    with reported(place):
        place.rename(target)
        for folder in {place.parent, target.parent}:
            sync_folder(folder)
    return target


def keep_aside(place: Path, original: Path) -> Path:
    """Move a folder to the first free name beside `original`, such as `state.aside-1`; return its new path."""
    number = 1
    while (aside := original.with_name(f"{original.name}.aside-{number}")).exists():
        number += 1
    return moved(place, aside)


@contextmanager
def reported(place: Path) -> Iterator[None]:
    """Raise `StateUnreachable` with the operator's action where a folder cannot be read or moved."""
    try:
        yield
    except OSError as error:
        raise StateUnreachable(
            f"{place} cannot be set aside or put back ({error}). Nothing is lost: {way_out(error, place)}, and start "
            "again"
        ) from error


def swap(state: Path, made: Path, store: RocksStore) -> None:
    """Replace a state, whose store is open, by the state in another folder."""
    old = state.with_name(state.name + OLD)
    store.close()
    with locked(state):
        moved(state, old)
        moved(made, state)
    shutil.rmtree(old, ignore_errors=True)


def undo_swap(state: Path) -> None:
    """Move the old state back where a crash ended a swap before the new state was in place."""
    old = state.with_name(state.name + OLD)
    if old.exists() and not state.exists():
        old.rename(state)


def remove_leftovers(state: Path) -> None:
    """Remove the folders that a swap left behind; the state is locked by this process."""
    for left in (OLD, NEW):
        shutil.rmtree(state.with_name(state.name + left), ignore_errors=True)
