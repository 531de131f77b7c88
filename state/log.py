"""The log in the backup: one file a commit, written once.

    <folder of the state>/log/<epoch>/<number of the commit, 20 digits>
    8 bytes length of the record, 32 bytes its SHA-256, the record

A file that is there already must have the same record: two writers of one backup are noticed here, at the latest.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.constraints import ExternalError, StateRefused
from holdfast.state import codecs
from holdfast.state.store import WriteBatch

_HEAD = 8 + 32


class CommitLog:
    """The log of one epoch.

    Parameters
    ----------
    backup : the folder of the state in the backup.
    epoch : of the state.
    """

    def __init__(self, backup: Path, epoch: int) -> None:
        self._folder = backup / "log" / f"{epoch:010d}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ExternalError(
                f"the backup {self._folder} cannot be made ({error.strerror}): mend what is in its place, or name "
                "another `backup`"
            ) from error

    def put(self, number: int, record: bytes) -> None:
        """Write the record of a commit; nothing happens where the same one is there."""
        path = self._folder / f"{number:020d}"
        whole = len(record).to_bytes(8, "big") + hashlib.sha256(record).digest() + record
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(whole)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(part, path)  # put if absent
            except FileExistsError:
                if path.read_bytes() != whole:
                    raise StateRefused(
                        f"{path} holds another commit {number}: another process writes to this backup. Stop one of them"
                    ) from None
            finally:
                part.unlink()
            self._sync()
        except OSError as error:
            raise ExternalError(
                f"commit {number} could not be written to {self._folder} ({error}). It is safe in the state: mend the "
                "backup and start again"
            ) from error

    def records(self, after: int = 0) -> Iterator[tuple[int, WriteBatch]]:
        """Yield the commits behind a number, in order; refuse a damaged file or a gap."""
        expected = after + 1
        for path in sorted(self._folder.glob("[0-9]" * 20)):
            number = int(path.name)
            if number <= after:
                continue
            if number != expected:
                raise StateRefused(f"{self._folder}: commit {expected} is missing, {number} is there: restore the file")
            data = path.read_bytes()
            record = data[_HEAD:]
            if (
                len(data) < _HEAD
                or len(record) != int.from_bytes(data[:8], "big")
                or (hashlib.sha256(record).digest() != data[8:_HEAD])
            ):
                raise StateRefused(f"{path} is damaged: restore the file, or rebuild from the source")
            yield number, codecs.read_batch(record)
            expected += 1

    def _sync(self) -> None:
        """Sync the folder's entries."""
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
