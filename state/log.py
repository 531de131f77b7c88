"""The log in the backup: one file a commit, written once.

    <folder of the state>/log/<epoch>/<number of the commit, 20 digits>
    8 bytes length of the record, 32 bytes its SHA-256, the record

    <folder of the state>/log/<epoch>/first   first commit of an epoch that took over from another one: JSON, `sealed`

A file that is there already must have the same record, and the backup's owner no higher epoch: two writers of one
backup are noticed here, at the latest. What an epoch wrote behind the first commit of the next one does not count.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.constraints import ExternalError, StateRefused
from holdfast.state import codecs
from holdfast.state.room import way_out
from holdfast.state.store import WriteBatch

_HEAD = 8 + 32
_LONGEST_NUMBER = 20
_FIRST, _NUMBER = "first", "[0-9]" * 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW


class CommitLog:
    """The log of one epoch.

    Parameters
    ----------
    backup : the folder of the state in the backup.
    epoch : of the state.
    """

    def __init__(self, backup: Path, epoch: int) -> None:
        self._backup, self._epoch = backup, epoch
        self._folder = _folder(backup, epoch)
        try:
            make_private(self._folder)
        except OSError as error:
            raise ExternalError(
                f"the backup {self._folder} cannot be made ({error.strerror}): mend what is in its place, or name "
                "another `backup`"
            ) from error

    def put(self, number: int, record: bytes) -> None:
        """Write the record of a commit; nothing happens where the same one is there."""
        self._refuse_later_epochs()
        path = self._folder / f"{number:020d}"
        whole = len(record).to_bytes(8, "big") + hashlib.sha256(record).digest() + record
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            with os.fdopen(os.open(part, _NEW, 0o600), "wb") as file:
                file.write(whole)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(part, path)  # put if absent
            except FileExistsError:
                found = path.read_bytes()
                if found != whole and _is_whole(found):
                    raise StateRefused(
                        f"{path} holds another commit {number}: another process writes to this backup. Stop one of them"
                    ) from None
                part.replace(path)  # it is the same, or was damaged since
            self._sync()
        except OSError as error:
            raise ExternalError(
                f"commit {number} could not be written to the backup {self._folder} ({error}). It is safe in the "
                f"state: {way_out(error, self._folder)}, and start again"
            ) from error
        finally:
            part.unlink(missing_ok=True)

    @staticmethod
    def begin(backup: Path, epoch: int, first: int) -> None:
        """Begin the log of an epoch that takes over: the commits from `first` on are its own."""
        folder = _folder(backup, epoch)
        make_private(folder)
        part = folder / f"{_FIRST}.{os.getpid()}.part"
        try:
            with os.fdopen(os.open(part, _NEW, 0o600), "wb") as file:
                file.write(sealed({"first": first}))
                file.flush()
                os.fsync(file.fileno())
            part.replace(folder / _FIRST)
        finally:
            part.unlink(missing_ok=True)

    @staticmethod
    def forget(backup: Path, upto: int) -> None:
        """Remove the records of commits that a snapshot has."""
        for path in (backup / "log").glob(f"*/{_NUMBER}"):
            if int(path.name) <= upto:
                path.unlink()

    def _refuse_later_epochs(self) -> None:
        for later in (self._backup / "log").iterdir():
            if later.name.isdecimal() and int(later.name) > self._epoch:
                raise StateRefused(
                    f"{later} is of a later epoch than this state's, which is {self._epoch}: the state was restored "
                    "elsewhere, and goes on there. Stop this process, and remove its state"
                )

    def _sync(self) -> None:
        """Sync the folder's entries."""
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def make_private(folder: Path) -> None:
    """Make a folder that only its owner may look into, with all that is missing above it."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def last_logged(backup: Path, epoch: int) -> int:
    """Return the last commit that an epoch logged and that is still there; 0 where there is none."""
    return max((int(path.name) for path in _folder(backup, epoch).glob(_NUMBER)), default=0)


def logged_after(backup: Path, after: int) -> Iterator[tuple[int, WriteBatch]]:
    """Yield the commits behind a number that all epochs logged, in order; refuse a damaged file or a gap."""
    found: dict[int, Path] = {}
    for folder in sorted((backup / "log").glob("[0-9]" * 10)):
        begins = folder / _FIRST
        if begins.exists():
            first = _first(begins)
            found = {number: path for number, path in found.items() if number < first}
        found |= {int(path.name): path for path in folder.glob(_NUMBER) if int(path.name) > after}
    for expected, number in enumerate(sorted(found), after + 1):
        if number != expected:
            raise StateRefused(f"{backup}: commit {expected} is missing, {number} is there: restore the file")
        yield number, _record(found[number])


def _record(path: Path) -> WriteBatch:
    data = path.read_bytes()
    if not _is_whole(data):
        raise StateRefused(
            f"{path} is damaged: restore the file from a copy of the backup, or seed anew: holdfast rebuild "
            "--from-source"
        )
    return codecs.read_batch(data[_HEAD:])


def _is_whole(data: bytes) -> bool:
    record = data[_HEAD:]
    has_length = len(data) >= _HEAD and len(record) == int.from_bytes(data[:8], "big")
    return has_length and hashlib.sha256(record).digest() == data[8:_HEAD]


def _first(path: Path) -> int:
    try:
        return int(unsealed(path.read_bytes())["first"])
    except (ValueError, KeyError, TypeError) as error:
        raise StateRefused(
            f"{path} is damaged: restore the file from a copy of the backup, or seed anew: holdfast rebuild "
            "--from-source"
        ) from error


def sealed(about: Any) -> bytes:
    """Return something as JSON with its checksum."""
    content = json.dumps(about, sort_keys=True)
    return json.dumps({"content": content, "sha256": hashlib.sha256(content.encode()).hexdigest()}).encode()


def unsealed(data: bytes) -> Any:
    """Return the inverse of `sealed`; raise `ValueError` where it is damaged.

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


def _folder(backup: Path, epoch: int) -> Path:
    return backup / "log" / f"{epoch:010d}"
