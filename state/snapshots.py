"""Copies of a whole store in the backup, which the log goes on from, and the way back from them.

    <folder of the state>/snapshots/<commit, 20 digits>.<epoch, 10 digits>.json   manifest: what the copy is made of
    <folder of the state>/files/<SHA-256>                                         a file of one or several copies
    <folder of the state>/OWNER                                                   who writes to this backup: epoch, host
    <folder of the state>/SET_ASIDE                                               there where another state replaced it

A copy begins as hard links beside the store, which takes as long as a flush; its files then go into the backup, each
once by its content, and its manifest last. A manifest names every file with its size and checksum, and has a checksum
of its own, so a copy is whole or it is none. Some copies are kept, and the log behind the oldest of them.

Invariant: a state that was restored has every commit that the log has, and an epoch above all that wrote to the backup:
a writer with a lower one is refused (`CommitLog.put`).
"""

import hashlib
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from holdfast.constraints import (
    BackupDamaged,
    HoldfastError,
    StateBehindBackup,
    StateDamaged,
    StateRefused,
    StateUnreachable,
)
from holdfast.state import codecs
from holdfast.state.commits import Commits, Identity, base_of
from holdfast.state.log import (
    OWNER,
    CommitLog,
    epochs,
    last_logged,
    logged_after,
    owner,
    refuse_later_epochs,
    sealed,
    unsealed,
)
from holdfast.state.places import Place, place_of
from holdfast.state.rocks import RocksStore
from holdfast.state.room import way_out
from holdfast.state.store import WriteBatch

_SNAPSHOTS, SET_ASIDE = "snapshots", "SET_ASIDE"
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

    def __init__(self, folder: Path | Place, keep: int = 2) -> None:
        self.folder = place_of(folder)
        self._manifests, self._files = self.folder.at(_SNAPSHOTS), self.folder.at("files")
        self._keep = keep

    def all(self) -> list[tuple[str, Snapshot | None]]:
        """Return manifests, the newest first, with the copies that they describe; None where one is damaged."""
        with reached(self.folder):
            found = [name for name in self._manifests.names() if name.endswith(".json")]
            return [(name, _read(self._manifests.get(name) or b"")) for name in sorted(found, reverse=True)]

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
            refuse_later_epochs(self.folder, identity.epoch)  # whose files this one's `_forget` does not know
            self._manifests.put(snapshot.name, sealed(asdict(snapshot)))
            self._forget()
        except OSError as error:
            raise StateUnreachable(
                f"a snapshot could not be written to the backup {self.folder} ({error}). The state is unharmed: "
                f"{way_out(error, self.folder)}, and start again"
            ) from error
        return snapshot

    def restore(self, state: Path) -> Restored:
        """Make a store of the newest copy that is whole and the log behind it; the folder is there at once, or not."""
        with reached(self.folder):
            return self._restored(state)

    def _restored(self, state: Path) -> Restored:
        damaged = []
        for left in state.parent.glob(f".{state.name}.*"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        for name, snapshot in self.all():
            path = self._manifests.path(name)
            if snapshot is None:
                damaged.append(f"{path} is damaged")
                continue
            with tempfile.TemporaryDirectory(prefix=f".{state.name}.", dir=state.parent) as scratch:
                made = Path(scratch, "state")
                made.mkdir(mode=0o700)
                problem = self._filled(made, snapshot) or _damage(made) or self._replayed(made, snapshot, path)
                if problem is not None:
                    damaged.append(problem)
                    continue
                commit = self._taken_over(made, snapshot)
                made.rename(state)
            return Restored(snapshot, commit, tuple(damaged))
        what = "; ".join(damaged) or "it has no snapshot"
        raise BackupDamaged(
            f"{self.folder} cannot be restored: {what}. Restore the file from a copy of the backup, or seed anew: "
            "holdfast rebuild --from-source"
        )

    def _filled(self, made: Path, snapshot: Snapshot) -> str | None:
        """Copy the files of a snapshot; return what is wrong with them."""
        for name, (size, checksum) in snapshot.files.items():
            source = self._files.path(checksum)
            if not self._files.fetch(checksum, made / name):
                return f"{source} is missing"
            if (made / name).stat().st_size != size or _checksum(made / name) != checksum:
                return f"{source} is damaged"
        return None

    def _replayed(self, made: Path, snapshot: Snapshot, path: str) -> str | None:
        """Apply the log to a copy; return why that is not enough: the state was seeded, or took over, behind it."""
        store = RocksStore(made)
        try:
            for _, record in logged_after(self.folder, snapshot.commit):
                if base := base_of(record):
                    return f"{path} is older than the state's last seed, which is commit {base}"
                store.write(record)
            store.write(WriteBatch("log", {key: None for key, _ in store.scan("log")}))  # all of them are in the copy
        finally:
            store.close()
        return None

    def _taken_over(self, made: Path, snapshot: Snapshot) -> int:
        """Make the epoch of a copy the highest; return its last commit."""
        store = RocksStore(made)
        try:
            commit = codecs.read_number(store.get("meta", b"commit") or b"")
            identity = Commits(store, snapshot.identity.application).identity  # one of an earlier format is upgraded
            epoch = max(identity.epoch, _known_epoch(self.folder)) + 1
            taken = replace(identity, epoch=epoch)
            store.write(WriteBatch("meta", {b"identity": codecs.json_bytes(asdict(taken))}))
            _take_over(self.folder, taken)  # until then the log of other epochs counts
            if any(True for _ in logged_after(self.folder, commit)):
                raise StateRefused(
                    f"{self.folder} got further commits while it was restored: another process wrote to it, which is "
                    "refused from now on. Restore it again: holdfast rebuild"
                )
            CommitLog.begin(self.folder, epoch, commit + 1)
        finally:
            store.close()
        return commit

    def _take(self, path: Path, checksum: str) -> None:
        """Copy a file into the backup, where it is not there yet."""
        if self._files.size(checksum) != path.stat().st_size:
            self._files.take(checksum, path)

    def _forget(self) -> None:
        """Remove all copies but the last ones, files that none of these has, and the log that they have."""
        every = self.all()
        kept = [snapshot for _, snapshot in every if snapshot is not None][: self._keep]
        self._manifests.remove(name for name, snapshot in every if snapshot is not None and snapshot not in kept)
        needed = {checksum for snapshot in kept for _, checksum in snapshot.files.values()}
        self._files.remove(name for name in self._files.names() if name not in needed)
        if len(kept) == self._keep:
            CommitLog.forget(self.folder, min(snapshot.commit for snapshot in kept))


def own(folder: Path | Place, identity: Identity) -> None:
    """Say that this process writes to a state's backup; refuse where a later epoch does."""
    place = place_of(folder)
    with reached(place):
        place.prepare()
        refuse_later_epochs(place, identity.epoch)
        _take_over(place, identity)
        place.remove([SET_ASIDE])


def set_aside(folder: Path | Place, why: str) -> None:
    """Mark the backup of a state that another one replaced: it stays, and `backups` does not name it any more."""
    place = place_of(folder)
    with reached(place):
        if place.names():
            place.put(SET_ASIDE, sealed({"why": why}))


@contextmanager
def reached(place: Place) -> Iterator[None]:
    """Say what to do where a folder or an object store does not do what it is asked."""
    try:
        yield
    except HoldfastError:
        raise
    except OSError as error:
        raise StateUnreachable(
            f"the backup {place} cannot be used ({error}): {way_out(error, place)}, and start again"
        ) from error


def _take_over(place: Place, identity: Identity) -> None:
    about = {"state_id": identity.state_id, "epoch": identity.epoch, "host": platform.node()}
    place.put(OWNER, sealed(about))


def _known_epoch(place: Place) -> int:
    """Return the highest epoch that wrote to a backup, as far as it can be read."""
    try:
        owned = int(owner(place).get("epoch", 0))
    except BackupDamaged:
        owned = 0
    return max([owned, *epochs(place)])


def _damage(made: Path) -> str | None:
    """Read a copy whole; return what is wrong with it, though its files are what the manifest says."""
    try:
        store = RocksStore(made)
        try:
            store.verify()
        finally:
            store.close()
    except StateDamaged as error:
        return str(error)
    return None


def refuse_behind(folder: Path | Place, epoch: int, last: int) -> None:
    """Raise where a state lacks commits that its own backup has: its newest writes were lost with a damaged file."""
    place = place_of(folder)
    snapshots = [found.commit for _, found in Snapshots(place).all() if found and found.identity.epoch == epoch]
    with reached(place):
        backed = max([last_logged(place, epoch), *snapshots])
    if backed > last:
        raise StateBehindBackup(
            f"the state ends with commit {last}, while its backup {place} has commit {backed}: it lost its last "
            "writes. Restore it: holdfast rebuild"
        )


def backups(backup: Path | Place, application: str) -> list[Place]:
    """Return the folders of an application's states in a backup, the one with the last commits first.

    Those that were set aside are left out.
    """
    place = place_of(backup)
    found: list[tuple[int, str]] = []
    with reached(place):
        for name in place.names():
            whole = [snapshot for _, snapshot in Snapshots(place.at(name)).all() if snapshot is not None]
            is_known = bool(whole) and whole[0].identity.application == application
            if is_known and place.at(name).size(SET_ASIDE) is None:
                found.append((max(snapshot.commit for snapshot in whole), name))
    return [place.at(name) for _, name in sorted(found, reverse=True)]


def _read(data: bytes) -> Snapshot | None:
    """Return the copy that a manifest describes; None where it is damaged."""
    try:
        about = unsealed(data)
        files = {name: (size, checksum) for name, (size, checksum) in about["files"].items()}
        if not all(_FILE.fullmatch(name) and _CHECKSUM.fullmatch(checksum) for name, (_, checksum) in files.items()):
            return None  # a name would lead out of the folder
        return Snapshot(Identity(**about["identity"]), about["commit"], files)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
