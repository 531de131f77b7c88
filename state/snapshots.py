"""Snapshots in the backup: copies of a whole store, which the log continues; and restoring a state from them.

    <folder of the state>/snapshots/<commit, 20 digits>.<epoch, 10 digits>.json   manifest: the files of the copy
    <folder of the state>/files/<SHA-256>                                         a file of one or several copies
    <folder of the state>/OWNER                                                   epoch and host of the writer
    <folder of the state>/SET_ASIDE                                               exists if another state replaced it

A copy begins as hard links beside the store, which takes as long as a flush. Its files are then copied into the backup,
each content once, and its manifest last. A manifest has the size and checksum of every file, and a checksum of its own,
so a copy is either complete or ignored. Some copies are kept, and the log after the oldest of them.

Invariant: a restored state has every commit of the log, and an epoch higher than all epochs that wrote to the backup; a
writer with a lower epoch is refused (`CommitLog.put`).
"""

import hashlib
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
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
    identity : the identity of the state.
    commit : the last commit of the copy.
    files : size and SHA-256 by name.
    """

    identity: Identity
    commit: int
    files: Mapping[str, tuple[int, str]]

    @property
    def name(self) -> str:
        """The name of the manifest."""
        return f"{self.commit:020d}.{self.identity.epoch:010d}.json"


@dataclass(frozen=True)
class Restored:
    """The result of restoring a store.

    Parameters
    ----------
    snapshot : the copy that was used.
    commit : the last commit, including those of the log.
    damaged : the problems of copies that could not be used.
    """

    snapshot: Snapshot
    commit: int
    damaged: tuple[str, ...]


class Snapshots:
    """The copies of one state in its backup.

    Parameters
    ----------
    folder : the folder of the state in the backup.
    keep : how many copies are kept.
    """

    def __init__(self, folder: Path | Place, keep: int = 2) -> None:
        self.folder = place_of(folder)
        self._manifests, self._files = self.folder.at(_SNAPSHOTS), self.folder.at("files")
        self._keep = keep

    def all(self) -> list[tuple[str, Snapshot | None]]:
        """Return the names of manifests, the newest first, with their copies; None for a damaged manifest."""
        with reached(self.folder):
            found = [name for name in self._manifests.names() if name.endswith(".json")]
            return [(name, _read(self._manifests.get(name) or b"")) for name in sorted(found, reverse=True)]

    def put(self, linked: Path, identity: Identity, commit: int, base: int = 0) -> Snapshot:
        """Copy the hard links of a store into the backup, then remove copies and log records that are not needed.

        Parameters
        ----------
        base : the first commit of this store: earlier stores had other files with the same names.
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
            refuse_later_epochs(self.folder, identity.epoch)  # `_forget` does not know their files
            self._manifests.put(snapshot.name, sealed(asdict(snapshot)))
            self._forget()
        except OSError as error:
            raise StateUnreachable(
                f"a snapshot could not be written to the backup {self.folder} ({error}). The state is unharmed: "
                f"{way_out(error, self.folder)}, and start again"
            ) from error
        return snapshot

    def restore(self, state: Path) -> Restored:
        """Restore a store from the newest complete copy and the log after it; the folder appears in one step."""
        with reached(self.folder):
            return self._restored(state)

    def _restored(self, state: Path) -> Restored:
        damaged = []
        for left in state.parent.glob(f".{state.name}.*"):  # of a killed process
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
        """Copy the files of a snapshot; return the first problem, None if there is none."""
        for name, (size, checksum) in snapshot.files.items():
            source = self._files.path(checksum)
            if not self._files.fetch(checksum, made / name):
                return f"{source} is missing"
            if (made / name).stat().st_size != size or _checksum(made / name) != checksum:
                return f"{source} is damaged"
        return None

    def _replayed(self, made: Path, snapshot: Snapshot, path: str) -> str | None:
        """Apply the log to a copy; return the problem if the state was seeded after the copy, else None."""
        with closing(RocksStore(made)) as store:
            for _, record in logged_after(self.folder, snapshot.commit):
                if base := base_of(record):
                    return f"{path} is older than the state's last seed, which is commit {base}"
                store.write(record)
            store.write(WriteBatch("log", {key: None for key, _ in store.scan("log")}))  # all of them are in the copy
        return None

    def _taken_over(self, made: Path, snapshot: Snapshot) -> int:
        """Give a copy the highest epoch; return its last commit."""
        with closing(RocksStore(made)) as store:
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
        return commit

    def _take(self, path: Path, checksum: str) -> None:
        """Copy a file into the backup, unless it is there already."""
        if self._files.size(checksum) != path.stat().st_size:
            self._files.take(checksum, path)

    def _forget(self) -> None:
        """Remove all copies but the last ones, and the files and log records that these do not need."""
        every = self.all()
        kept = [snapshot for _, snapshot in every if snapshot is not None][: self._keep]
        self._manifests.remove(name for name, snapshot in every if snapshot is not None and snapshot not in kept)
        needed = {checksum for snapshot in kept for _, checksum in snapshot.files.values()}
        self._files.remove(name for name in self._files.names() if name not in needed)
        if len(kept) == self._keep:
            CommitLog.forget(self.folder, min(snapshot.commit for snapshot in kept))


def own(folder: Path | Place, identity: Identity) -> None:
    """Make this process the owner of a state's backup; refuse if a later epoch owns it."""
    place = place_of(folder)
    with reached(place):
        place.prepare()
        refuse_later_epochs(place, identity.epoch)
        _take_over(place, identity)
        place.remove([SET_ASIDE])


def set_aside(folder: Path | Place, why: str) -> None:
    """Mark the backup of a state that another state replaced: it stays, but `backups` leaves it out."""
    place = place_of(folder)
    with reached(place):
        if place.names():
            place.put(SET_ASIDE, sealed({"why": why}))


@contextmanager
def reached(place: Place) -> Iterator[None]:
    """Turn errors of the backup into errors with a message for people."""
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
    """Return the highest epoch that wrote to a backup, as far as its files can be read."""
    try:
        owned = int(owner(place).get("epoch", 0))
    except BackupDamaged:
        owned = 0
    return max([owned, *epochs(place)])


def _damage(made: Path) -> str | None:
    """Read a complete copy, and return its problem, None if there is none; its checksums are right already."""
    try:
        with closing(RocksStore(made)) as store:
            store.verify()
    except StateDamaged as error:
        return str(error)
    return None


def refuse_behind(folder: Path | Place, epoch: int, last: int) -> None:
    """Raise if a state lacks commits of its own backup: its newest writes were lost with a damaged file."""
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
    """Return the folders of an application's states in a backup, those with the latest commits first.

    Folders that were set aside are left out.
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
    """Return the copy of a manifest; None if the manifest is damaged."""
    try:
        about = unsealed(data)
        files = {name: (size, checksum) for name, (size, checksum) in about["files"].items()}
        if not all(_FILE.fullmatch(name) and _CHECKSUM.fullmatch(checksum) for name, (_, checksum) in files.items()):
            return None  # such a name could be outside of the folder
        return Snapshot(Identity(**about["identity"]), about["commit"], files)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
