"""Checks the checkpoints of sources on this machine: whether they are readable, and continue from the state.

    metadata       JSON, the identity of the query
    offsets/<n>    where batch n ends: a version, settings, then a line for the source
    commits/<n>    exists once batch n was acknowledged

Spark syncs none of these files, and starts a new query where `metadata` is missing. So unreadable files are refused
here, with the operator's action.
"""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from holdfast.constraints import ExternalError, StateRefused
from holdfast.jobs.configuration.quantities import is_remote
from holdfast.state.commits import LedgerEntry
from holdfast.state.room import way_out

_READ = 2


def refuse_damaged(places: Iterable[str]) -> None:
    """Raise where a checkpoint cannot be read; checkpoints on object stores are not checked."""
    for place in places:
        if is_remote(place):
            continue
        try:
            damage = _damage(Path(place))
        except OSError as error:
            raise ExternalError(f"the checkpoint {place} cannot be read ({error}): {way_out(error, place)}") from error
        if damage is not None:
            raise StateRefused(
                f"the checkpoint {place} is damaged: {damage}. A new one can begin where the state ended: holdfast "
                "rebuild"
            )


def fits(place: Path, entry: LedgerEntry | None) -> bool:
    """Whether a checkpoint is readable, and continues from the last batch of the state."""
    done = _numbers(place / "commits")
    if entry is None or entry.batch_id < 0:
        return not done and not any(_numbers(place / "offsets"))
    offsets = place / "offsets" / str(entry.batch_id)
    if not offsets.is_file() or (done and done[-1] > entry.batch_id) or _damage(place) is not None:
        return False
    if query_of(place) != entry.query_id:
        return False
    return "\n".join(offsets.read_text("utf-8", "replace").splitlines()[2:]) == entry.end


def remove(place: Path) -> None:
    """Remove a checkpoint in one step: a partial checkpoint would seem to be a different one."""
    aside = place.with_name(f"{place.name}%removed")  # not a name of a table's folder
    shutil.rmtree(aside, ignore_errors=True)  # left by a removal that was killed
    if place.exists():
        place.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def query_of(place: Path) -> str | None:
    """Return the id of a checkpoint's query; None where it cannot be read, so that Spark would start a new query."""
    try:
        return str(json.loads((place / "metadata").read_bytes())["id"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _damage(place: Path) -> str | None:
    """Return what is damaged in a checkpoint; None where it is readable, or does not exist."""
    offsets, commits = _numbers(place / "offsets"), _numbers(place / "commits")
    if (offsets or commits) and query_of(place) is None:
        return "its 'metadata' is missing or cannot be read"
    if commits and (not offsets or commits[-1] > offsets[-1]):
        return f"batch {commits[-1]} is done, and its offsets are missing"
    for number in offsets[-_READ:]:
        if not _is_readable(place / "offsets" / str(number)):
            return f"'offsets/{number}' cannot be read"
    for number in commits[-1:]:
        if not _is_readable(place / "commits" / str(number)):
            return f"'commits/{number}' cannot be read"
    return None


def _is_readable(path: Path) -> bool:
    try:
        version, *lines = path.read_text("utf-8").splitlines()
        for line in lines:
            if line != "-":
                json.loads(line)
    except ValueError:
        return False
    return version[:1] == "v" and version[1:].isdecimal() and bool(lines)


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdecimal())
