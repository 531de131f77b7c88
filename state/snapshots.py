"""Copies of a whole store in the backup, which the log goes on from, and the way back from them.

    <folder of the state>/snapshots/<commit, 20 digits>.<epoch, 10 digits>.json   manifest: what the copy is made of
    <folder of the state>/files/<SHA-256>                                         a file of one or several copies
    <folder of the state>/OWNER                                                   who writes to this backup: epoch, host

A copy begins as hard links beside the store, which takes as long as a flush; its files then go into the backup, each
once by its content, and its manifest last. A manifest names every file with its size and checksum, and has a checksum
of its own, so a copy is whole or it is none. Some copies are kept, and the log behind the oldest of them.

Invariant: a state that was restored has every commit that the log has, and an epoch above all that wrote to the backup:
a writer with a lower one is refused (`CommitLog.put`).
"""

import hashlib
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.constraints import ExternalError, StateRefused
from holdfast.state import codecs
from holdfast.state.commits import Commits, Identity, base_of
from holdfast.state.log import CommitLog, last_logged, logged_after, make_private, sealed, unsealed
from holdfast.state.rocks import RocksStore
from holdfast.state.room import way_out
from holdfast.state.store import WriteBatch

ASIDE = ".replaced"
"""Ends the names of folders that are set aside while a new state is seeded."""
_CHUNK = 1 << 20
_FILE, _CHECKSUM = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,200}"), re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Snapshot:
    """A copy of a store.

    Parameters
    ----------
    identity : whose state it is.
    commit : the last one that it has.
    files : size and SHA-256 by name.
    """

    identity: Identity
    commit: int
    files: Mapping[str, tuple[int, str]]

    @property
    def name(self) -> str:
        """The name of its manifest."""
        return f"{self.commit:020d}.{self.identity.epoch:010d}.json"


@dataclass(frozen=True)
class Restored:
    """A store that was made of a backup.

    Parameters
    ----------
    snapshot : the copy that was taken.
    commit : the last commit, with those of the log.
    damaged : copies that could not be taken, and why.
    """

    snapshot: Snapshot
    commit: int
    damaged: tuple[str, ...]


class Snapshots:
    """The copies of one state in its backup.

    Parameters
    ----------
    folder : of the state in the backup.
    keep : how many copies stay.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder = folder
        self._keep = keep

    def all(self) -> list[tuple[Path, Snapshot | None]]:
        """Return manifests, the newest first, with the copies that they describe; None where one is damaged."""
        found = sorted((self.folder / "snapshots").glob("*.json"), reverse=True)
        return [(path, _read(path)) for path in found]

    def put(self, linked: Path, identity: Identity, commit: int, base: int = 0) -> Snapshot:
        """Take a store's hard links into the backup, then forget copies and log records that are not needed.

        Parameters
        ----------
        base : the first commit of this very store: earlier ones had files of the same names.
        """
        known: dict[str, tuple[int, str]] = {}
        for _, earlier in self.all():
            if earlier is not None and earlier.identity.epoch == identity.epoch and earlier.commit >= base:
                known = {**earlier.files, **known}
        try:
            files = {}
            for path in sorted(p for p in linked.iterdir() if p.is_file()):
                size, before = path.stat().st_size, known.get(path.name)
                is_known = path.suffix == ".sst" and before is not None and before[0] == size  # never written again
                checksum = before[1] if before is not None and is_known else _checksum(path)
                self._take(path, checksum)
                files[path.name] = (size, checksum)
            snapshot = Snapshot(identity, commit, files)
            _write(self.folder / "snapshots" / snapshot.name, sealed(asdict(snapshot)))
            self._forget()
        except OSError as error:
            raise ExternalError(
                f"a snapshot could not be written to the backup {self.folder} ({error}). The state is unharmed: "
                f"{way_out(error, self.folder)}, and start again"
            ) from error
        return snapshot

    def restore(self, state: Path) -> Restored:
        """Make a store of the newest copy that is whole and the log behind it; the folder is there at once, or not."""
        damaged = []
        for path, snapshot in self.all():
            if snapshot is None:
                damaged.append(f"{path} is damaged")
                continue
            with tempfile.TemporaryDirectory(prefix=f".{state.name}.", dir=state.parent) as scratch:
                made = Path(scratch, "state")
                made.mkdir(mode=0o700)
                problem = self._filled(made, snapshot) or _damage(made) or self._too_old(path, snapshot)
                if problem is not None:
                    damaged.append(problem)
                    continue
                commit = self._replayed(made, snapshot)
                made.rename(state)
            return Restored(snapshot, commit, tuple(damaged))
        what = "; ".join(damaged) or "it has no snapshot"
        raise StateRefused(
            f"{self.folder} cannot be restored: {what}. Restore the file from a copy of the backup, or seed anew: "
            "holdfast rebuild --from-source"
        )

    def _filled(self, made: Path, snapshot: Snapshot) -> str | None:
        """Copy the files of a snapshot; return what is wrong with them."""
        for name, (size, checksum) in snapshot.files.items():
            source = self.folder / "files" / checksum
            try:
                shutil.copyfile(source, made / name)
            except FileNotFoundError:
                return f"{source} is missing"
            if (made / name).stat().st_size != size or _checksum(made / name) != checksum:
                return f"{source} is damaged"
        return None

    def _too_old(self, path: Path, snapshot: Snapshot) -> str | None:
        """Return why a snapshot is not enough: the state was seeded, or took over another one, behind it."""
        bases = (base_of(record) for _, record in logged_after(self.folder, snapshot.commit))
        newer = next((base for base in bases if base), None)
        return None if newer is None else f"{path} is older than the state's last seed, which is commit {newer}"

    def _replayed(self, made: Path, snapshot: Snapshot) -> int:
        """Apply the log to a copy, and make its epoch the highest; return the last commit."""
        store = RocksStore(made)
        try:
            for _, record in logged_after(self.folder, snapshot.commit):
                store.write(record)
            logged = WriteBatch()
            for key, _ in store.scan("log"):  # what was not in the log is in the copy
                logged.delete("log", key)
            store.write(logged)
            commit = codecs.read_number(store.get("meta", b"commit") or b"")
            identity = Commits(store, snapshot.identity.application).identity  # one of an earlier format is upgraded
            epoch = max(identity.epoch, _known_epoch(self.folder)) + 1
            last = WriteBatch()
            last.put("meta", b"identity", codecs.json_bytes(asdict(replace(identity, epoch=epoch))))
            store.write(last)
            CommitLog.begin(self.folder, epoch, commit + 1)
            _take_over(self.folder, replace(identity, epoch=epoch))
        finally:
            store.close()
        return commit

    def _take(self, path: Path, checksum: str) -> None:
        """Copy a file into the backup, where it is not there yet."""
        target = self.folder / "files" / checksum
        if target.exists() and target.stat().st_size == path.stat().st_size:
            return
        make_private(target.parent)
        with _replacing(target) as part, path.open("rb") as source:
            shutil.copyfileobj(source, part, _CHUNK)

    def _forget(self) -> None:
        """Remove all copies but the last ones, files that none of these has, and the log that they have."""
        every = self.all()
        kept = [snapshot for _, snapshot in every if snapshot is not None][: self._keep]
        for path, snapshot in every:
            if snapshot is not None and snapshot not in kept:
                path.unlink()
        needed = {checksum for snapshot in kept for _, checksum in snapshot.files.values()}
        for file in (self.folder / "files").iterdir():
            if file.name not in needed:
                file.unlink()
        if len(kept) == self._keep:
            CommitLog.forget(self.folder, min(snapshot.commit for snapshot in kept))


def owner(folder: Path) -> dict[str, Any]:
    """Return who writes to a state's backup; nothing where no one did; raise `ValueError` where that is damaged."""
    try:
        found: Any = unsealed((folder / "OWNER").read_bytes())
    except FileNotFoundError:
        return {}
    if not isinstance(found, dict) or type(found.get("epoch")) is not int:
        raise ValueError("it says no epoch")
    return found


def own(folder: Path, identity: Identity) -> None:
    """Say that this process writes to a state's backup; refuse where a later epoch does."""
    try:
        make_private(folder)
        epoch = owner(folder).get("epoch", 0)
    except ValueError as error:
        raise StateRefused(
            f"{folder / 'OWNER'} is damaged, which says who writes to this backup: make sure that no other process "
            "does, remove the file, and start again"
        ) from error
    except OSError as error:
        raise _unusable(folder, error) from error
    if epoch > identity.epoch:
        raise StateRefused(
            f"the backup {folder} is written to by epoch {epoch} of this state, on {owner(folder).get('host')}, and "
            f"this one is epoch {identity.epoch}: the state was restored elsewhere. Use that one, and remove this one"
        )
    try:
        _take_over(folder, identity)
        for part in folder.rglob("*.part"):  # of a process that was killed
            part.unlink(missing_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from error


def _unusable(folder: Path, error: OSError) -> ExternalError:
    return ExternalError(f"the backup {folder} cannot be used ({error}): {way_out(error, folder)}, and start again")


def _take_over(folder: Path, identity: Identity) -> None:
    about = {"state_id": identity.state_id, "epoch": identity.epoch, "host": platform.node()}
    _write(folder / "OWNER", sealed(about))


def _known_epoch(folder: Path) -> int:
    """Return the highest epoch that wrote to a backup, as far as it can be read."""
    try:
        owned = int(owner(folder).get("epoch", 0))
    except ValueError:
        owned = 0
    return max([owned, *(int(path.name) for path in (folder / "log").glob("[0-9]*") if path.name.isdecimal())])


def _damage(made: Path) -> str | None:
    """Read a copy whole; return what is wrong with it, though its files are what the manifest says."""
    try:
        store = RocksStore(made)
        try:
            store.verify()
        finally:
            store.close()
    except StateRefused as error:
        return str(error)
    return None


def refuse_behind(folder: Path, epoch: int, last: int) -> None:
    """Raise where a state lacks commits that its own backup has: its newest writes were lost with a damaged file."""
    snapshots = [found.commit for _, found in Snapshots(folder).all() if found and found.identity.epoch == epoch]
    backed = max([last_logged(folder, epoch), *snapshots])
    if backed > last:
        raise StateRefused(
            f"the state ends with commit {last}, while its backup {folder} has commit {backed}: it lost its last "
            "writes. Restore it: holdfast rebuild"
        )


def backups(backup: Path, application: str) -> list[Path]:
    """Return the folders of an application's states in a backup, the one with the last commits first."""
    found: list[tuple[int, Path]] = []
    for folder in sorted(path.parent for path in backup.glob("*/snapshots")):
        whole = [snapshot for _, snapshot in Snapshots(folder).all() if snapshot is not None]
        if folder.suffix != ASIDE and whole and whole[0].identity.application == application:
            found.append((max(snapshot.commit for snapshot in whole), folder))
    return [folder for _, folder in sorted(found, reverse=True)]


def _read(path: Path) -> Snapshot | None:
    """Return the copy that a manifest describes; None where it is damaged."""
    try:
        about = unsealed(path.read_bytes())
        files = {name: (size, checksum) for name, (size, checksum) in about["files"].items()}
        if not all(_FILE.fullmatch(name) and _CHECKSUM.fullmatch(checksum) for name, (_, checksum) in files.items()):
            return None  # a name would lead out of the folder
        return Snapshot(Identity(**about["identity"]), about["commit"], files)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(target: Path, content: bytes) -> None:
    make_private(target.parent)
    with _replacing(target) as part:
        part.write(content)


@contextmanager
def _replacing(target: Path) -> Iterator[Any]:
    """Write a file beside another one, and put it in its place once it is whole and synced."""
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
