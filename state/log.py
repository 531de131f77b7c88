"""The log of commits in the backup: one file a commit, written once.

    <folder of the state>/log/<epoch>/<number of the commit, 20 digits>
    8 bytes length of the record, 32 bytes its SHA-256, the record

    <folder of the state>/log/<epoch>/first   number of the first commit of a later epoch: JSON, `sealed`

An existing file must have the same record, and the owner of the backup must not have a higher epoch: so two writers of
one backup are detected. Commits of an epoch from the first commit of the next epoch on are ignored.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.constraints import BackupDamaged, StateRefused, StateTakenOver, StateUnreachable
from holdfast.state import codecs
from holdfast.state.places import Place, place_of
from holdfast.state.room import way_out
from holdfast.state.store import WriteBatch

_HEAD = 8 + 32
_DIGITS = 20
_FIRST, _LOG, OWNER = "first", "log", "OWNER"


class CommitLog:
    """The log of one epoch.

    Parameters
    ----------
    backup : the folder of the state in the backup.
    epoch : the epoch of the state.
    """

    def __init__(self, backup: Path | Place, epoch: int) -> None:
        self._backup, self._epoch = place_of(backup), epoch
        self._folder = _folder(self._backup, epoch)
        try:
            self._folder.prepare()
        except OSError as error:
            raise StateUnreachable(
                f"the backup {self._folder} cannot be made ({error.strerror or error}): mend what is in its place, or "
                "name another `backup`"
            ) from error

    def put(self, number: int, record: bytes) -> None:
        """Write the record of a commit, unless the same record exists already."""
        name = f"{number:0{_DIGITS}d}"
        whole = len(record).to_bytes(8, "big") + hashlib.sha256(record).digest() + record
        try:
            refuse_later_epochs(self._backup, self._epoch)
            if self._folder.put_new(name, whole):
                return
            found = self._folder.get(name)
            if found is not None and found != whole and _is_whole(found):
                raise StateRefused(
                    f"{self._folder.path(name)} holds another commit {number}: another process writes to this backup. "
                    "Stop one of them"
                )
            self._folder.put(name, whole)  # the file is the same, or was damaged since
        except OSError as error:
            raise StateUnreachable(
                f"commit {number} could not be written to the backup {self._folder} ({error}). It is safe in the "
                f"state: {way_out(error, self._folder)}, and start again"
            ) from error

    @staticmethod
    def begin(backup: Path | Place, epoch: int, first: int) -> None:
        """Begin the log of a new epoch, which has the commits from `first` on."""
        _folder(place_of(backup), epoch).put(_FIRST, sealed({"first": first}))

    @staticmethod
    def forget(backup: Place, upto: int) -> None:
        """Remove the records of commits up to a number: a snapshot has them."""
        for epoch in epochs(backup):
            folder = _folder(backup, epoch)
            folder.remove(f"{number:0{_DIGITS}d}" for number in _numbers(folder) if number <= upto)


def refuse_later_epochs(backup: Place, epoch: int) -> None:
    """Raise if a later epoch writes to a backup."""
    known = owner(backup)
    if known.get("epoch", 0) > epoch:
        raise StateTakenOver(
            f"the backup {backup} is written to by epoch {known['epoch']} of this state, on {known.get('host')}, and "
            f"this one is epoch {epoch}: the state was restored elsewhere, and goes on there. Stop this process, and "
            "remove its state"
        )


def epochs(backup: Place) -> list[int]:
    """Return the epochs that wrote to a backup, in order."""
    return [int(name) for name in backup.at(_LOG).names() if name.isdecimal()]


def owner(backup: Path | Place) -> dict[str, Any]:
    """Return the owner of a state's backup: the process that writes to it; empty if there is none."""
    backup = place_of(backup)
    data = backup.get(OWNER)
    if data is None:
        return {}
    try:
        found = unsealed(data)
        if isinstance(found, dict) and type(found.get("epoch")) is int:
            return found
    except ValueError:
        pass
    raise BackupDamaged(
        f"{backup.path(OWNER)} is damaged, which says who writes to this backup: make sure that no other process "
        "does, remove the file, and start again"
    )


def last_logged(backup: Place, epoch: int) -> int:
    """Return the last commit in the log of an epoch; 0 if it is empty."""
    return max(_numbers(_folder(backup, epoch)), default=0)


def logged_after(backup: Path | Place, after: int) -> Iterator[tuple[int, WriteBatch]]:
    """Yield the commits after a number in the logs of all epochs, in order; refuse a damaged file or a gap."""
    backup = place_of(backup)
    found: dict[int, Place] = {}
    for epoch in epochs(backup):
        folder = _folder(backup, epoch)
        begins = folder.get(_FIRST)
        if begins is not None:
            first = _first(begins, folder.path(_FIRST))
            found = {number: place for number, place in found.items() if number < first}
        found |= {number: folder for number in _numbers(folder) if number > after}
    for expected, number in enumerate(sorted(found), after + 1):
        if number != expected:
            raise BackupDamaged(f"{backup}: commit {expected} is missing, {number} is there: restore the file")
        yield number, _record(found[number], f"{number:0{_DIGITS}d}")


def _numbers(folder: Place) -> list[int]:
    """Return the numbers of the commits in a folder."""
    return [int(name) for name in folder.names() if len(name) == _DIGITS and name.isdecimal()]


def _record(folder: Place, name: str) -> WriteBatch:
    data = folder.get(name) or b""
    if not _is_whole(data):
        raise _damaged(folder.path(name))
    return codecs.read_batch(data[_HEAD:])


def _damaged(path: str) -> BackupDamaged:
    return BackupDamaged(
        f"{path} is damaged: restore the file from a copy of the backup, or seed anew: holdfast rebuild --from-source"
    )


def _is_whole(data: bytes) -> bool:
    record = data[_HEAD:]
    has_length = len(data) >= _HEAD and len(record) == int.from_bytes(data[:8], "big")
    return has_length and hashlib.sha256(record).digest() == data[8:_HEAD]


def _first(data: bytes, path: str) -> int:
    try:
        return int(unsealed(data)["first"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path) from error


def sealed(about: Any) -> bytes:
    """Return a value as JSON with its checksum."""
    content = json.dumps(about, sort_keys=True)
    return json.dumps({"content": content, "sha256": hashlib.sha256(content.encode()).hexdigest()}).encode()


def unsealed(data: bytes) -> Any:
    """Return the inverse of `sealed`; raise `ValueError` if the checksum is wrong.

    >>> unsealed(sealed({"first": 7}))
    {'first': 7}
    """
    try:
        whole = json.loads(data)
        content = whole["content"]
        if hashlib.sha256(content.encode()).hexdigest() == whole["sha256"]:
            return json.loads(content)
    except (KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise ValueError("the checksum is wrong")


def _folder(backup: Place, epoch: int) -> Place:
    return backup.at(_LOG).at(f"{epoch:010d}")
