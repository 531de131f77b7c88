"""Snapshots of a state in use: taken between two commits, copied into the backup by a thread.

Invariant: there is one snapshot at a time; its error is raised after the next commit.
"""

import shutil
import time
from threading import Thread

from holdfast.state.commits import Commits
from holdfast.state.rocks import RocksStore
from holdfast.state.snapshots import Snapshots


class Snapshotter:
    """Takes snapshots of one store.

    Parameters
    ----------
    store, commits : the store to copy, and its commits.
    snapshots : the snapshots in the backup.
    every : the seconds between two snapshots.
    """

    def __init__(self, store: RocksStore, commits: Commits, snapshots: Snapshots, every: float) -> None:
        self._store = store
        self._commits = commits
        self._snapshots = snapshots
        self._every = every
        self._at = time.monotonic()
        self._thread: Thread | None = None
        self._failed: BaseException | None = None
        self._brought: float | None = None

    @property
    def age(self) -> float | None:
        """The seconds since the start of the last snapshot that this process completed."""
        return None if self._brought is None else time.monotonic() - self._brought

    def first(self) -> None:
        """Take a snapshot now, unless the backup has one that the log continues."""
        base = self._commits.base
        if not any(snapshot is not None and snapshot.commit >= base for _, snapshot in self._snapshots.all()):
            self._begin()
            self.close()

    def maybe(self) -> None:
        """Begin a snapshot if it is time, between two commits; raise the error of the last one."""
        self._check()
        if time.monotonic() - self._at >= self._every and (self._thread is None or not self._thread.is_alive()):
            self._begin()

    def close(self) -> None:
        """Wait until a running snapshot is in the backup; raise its error."""
        if self._thread is not None:
            self._thread.join()
        self._check()

    def _begin(self) -> None:
        self._at = began = time.monotonic()
        linked, identity, commit = self._store.linked(), self._commits.identity, self._commits.last
        base = self._commits.base

        def put() -> None:
            try:
                self._snapshots.put(linked, identity, commit, base)
                self._brought = began
            except BaseException as error:  # noqa: BLE001  (raised by `_check`)
                self._failed = error
            finally:
                shutil.rmtree(linked, ignore_errors=True)

        self._thread = Thread(target=put, name="snapshot", daemon=True)
        self._thread.start()

    def _check(self) -> None:
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
