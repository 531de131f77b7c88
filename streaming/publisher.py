"""From the outbox to the output tables: in order, once, behind the backup, on a thread of its own.

For each commit: its log record goes to the backup and leaves the store; then its rows go to the tables, those of
commits that follow each other in one write each; then it leaves the outbox. Tables know the last commit they have, so
doing any of this again changes nothing. A crash between two steps is repaired by the next start, which drains
everything first.
"""

from collections.abc import Mapping, Sequence
from threading import Condition, Thread
from typing import Any, Protocol

from holdfast.state.commits import Commits
from holdfast.state.log import CommitLog

_ROWS_AT_ONCE = 100_000


class OutputTable(Protocol):
    """A table that takes rows of commits, and leaves out what it has."""

    def publish(self, rows: Sequence[Mapping[str, Any]], upto: int) -> None:
        """Write the rows of commits up to `upto`."""

    def compact(self) -> None:
        """Join small files."""


class Publisher:
    """Publishes the commits of one store.

    Parameters
    ----------
    commits : the store's way in; its outbox payloads are `{table: [row, ...]}`, each row with its `commit`.
    log : where records go first.
    tables : by name.
    most_behind : how many commits may wait before `wait_for_room` blocks.
    compact_every : commits between two compactions.
    """

    def __init__(
        self,
        commits: Commits,
        log: CommitLog,
        tables: Mapping[str, OutputTable],
        most_behind: int = 100,
        compact_every: int = 200,
    ) -> None:
        self._commits = commits
        self._log = log
        self._tables = tables
        self._most_behind = most_behind
        self._compact_every = compact_every
        self._since_compaction = dict.fromkeys(tables, 0)
        self._changed = Condition()
        self._published = 0
        self._is_closing = False
        self._is_abandoned = False
        self._failed: BaseException | None = None
        self._thread = Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        """Publish what was left, then go on in the background."""
        while self.step():
            pass
        self._published = self._commits.last
        self._thread.start()

    def notify(self) -> None:
        """Say that there is a new commit."""
        with self._changed:
            self._changed.notify_all()

    def wait_for_room(self) -> None:
        """Block while too many commits wait; raise what stopped the thread."""
        with self._changed:
            while self._failed is None and self._commits.last - self._published > self._most_behind:
                self._changed.wait(1.0)
            if self._failed is not None:
                raise self._failed

    def close(self) -> None:
        """Publish everything, and end; raise what stopped the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def abandon(self) -> None:
        """End after what is being written; the next start publishes the rest."""
        with self._changed:
            self._is_abandoned = True
            self._changed.notify_all()
        self._thread.join()

    def step(self) -> bool:
        """Publish a run of commits that wait; say whether there were any."""
        for number, record in self._commits.unlogged():
            self._log.put(number, record)
            self._commits.logged(number)
        rows: dict[str, list[Mapping[str, Any]]] = {}
        last, count = 0, 0
        for number, payload in self._commits.unpublished():
            for name, some in payload.items():
                rows.setdefault(name, []).extend(some)
                count += len(some)
            last = number
            if count >= _ROWS_AT_ONCE:
                break
        if not last:
            return False
        for name, some in rows.items():
            if some:
                self._tables[name].publish(some, last)
                self._since_compaction[name] += 1
                if self._since_compaction[name] >= self._compact_every:
                    self._tables[name].compact()
                    self._since_compaction[name] = 0
        self._commits.published(last)
        with self._changed:
            self._published = last
            self._changed.notify_all()
        return True

    def _run(self) -> None:
        try:
            while not self._is_abandoned:
                if self.step():
                    continue
                with self._changed:
                    if self._is_closing and self._published == self._commits.last:
                        return
                    if self._published == self._commits.last:
                        self._changed.wait(1.0)
        except BaseException as error:  # noqa: BLE001  (raised again where somebody waits)
            with self._changed:
                self._failed = error
                self._changed.notify_all()
