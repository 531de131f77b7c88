"""Publishes commits from the outbox to the output tables: in order, once, after the backup, on a thread of its own.

For each commit, its log record is written to the backup and deleted from the store. Then its rows are written to the
tables, those of successive commits together; then the commit is deleted from the outbox. Tables know their last commit,
so a repeated step changes nothing. After a crash between two steps, the next start publishes the rest first.

Tables are maintained after the publication, so that upkeep does not delay the stream unless it is too far ahead: small
files are joined every `compact_every` writes, old rows and files are removed when nothing waits.
"""

import datetime
import math
import time
from collections.abc import Callable, Mapping
from threading import Condition, Lock, Thread
from typing import Any

from holdfast.constraints import StateRefused
from holdfast.state.commits import Commits
from holdfast.state.log import CommitLog
from holdfast.streaming.sinks.contract import OutputTable
from holdfast.streaming.sinks.shapes import SHAPES

_ROWS_AT_ONCE = 100_000
_ALWAYS_FILLED = ("constraint_changes", "constraints")
_ROWS_STAY = frozenset(name for name, shape in SHAPES.items() if shape.aged_by is None)


class Publisher:
    """Publishes the commits of one store.

    Parameters
    ----------
    commits : the commits of the store; payloads in its outbox are `{table: [row, ...]}`, each row with its `commit`.
    log : the log in the backup.
    tables : the output tables by name.
    most_behind : how many commits may wait before `wait_for_room` blocks.
    compact_every : the writes of a table between two compactions.
    tidy_every : the seconds after which a table is tidied when nothing waits; after twice as many in any case.
    now : the clock.

    Attributes
    ----------
    published : the last commit that is in all tables, as far as this process knows.
    """

    def __init__(
        self,
        commits: Commits,
        log: CommitLog,
        tables: Mapping[str, OutputTable],
        most_behind: int = 100,
        compact_every: int = 100,
        tidy_every: float = 3_600.0,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self.commits = commits
        self._log = log
        self._tables = tables
        self._most_behind = most_behind
        self._compact_every = compact_every
        self._tidy_every = tidy_every
        self._now = now
        self._since_compaction = dict.fromkeys(tables, 0)
        self._tidied = dict.fromkeys(tables, -math.inf)
        self._changed = Condition()
        self._logging = Lock()
        self.published = 0
        self._is_closing = False
        self._is_abandoned = False
        self._failed: BaseException | None = None
        self._thread = Thread(target=self._run, name="publisher", daemon=True)

    @property
    def behind(self) -> int:
        """How many commits are not published yet."""
        return self.commits.last - self.published

    @property
    def has_failed(self) -> bool:
        """Whether an error ended the thread."""
        return self._failed is not None

    def start(self) -> None:
        """Publish all commits that wait, then continue on the thread."""
        self._refuse_lost_tables()
        self._refuse_other_copies()
        while self.step():
            pass
        self.published = self.commits.last
        self._thread.start()

    def notify(self) -> None:
        """Wake the thread: there is a new commit."""
        with self._changed:
            self._changed.notify_all()

    def check(self) -> None:
        """Raise the error that ended the thread, if any."""
        with self._changed:
            if self._failed is not None:
                raise self._failed

    def wait_for_room(self) -> None:
        """Block while too many commits wait; raise the error that ended the thread, if any."""
        with self._changed:
            while self._failed is None and self.behind > self._most_behind:
                self._changed.wait(1.0)
        self.check()

    def close(self) -> None:
        """Publish everything, and end the thread; raise the error that ended it before, if any."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()
        self.check()

    def abandon(self) -> None:
        """End the thread after the current write; the next start publishes the rest."""
        with self._changed:
            self._is_abandoned = True
            self._changed.notify_all()
        self._thread.join()

    def log(self) -> None:
        """Write the records of all commits into the backup that are not there yet.

        This is called before a commit is acknowledged: so a lost state is restored with all acknowledged commits.
        """
        with self._logging:
            for number, record in self.commits.unlogged():
                self._log.put(number, record)
                self.commits.logged(number)

    def step(self) -> bool:
        """Publish some successive commits that wait; return whether there were any."""
        self.log()
        rows: dict[str, list[Mapping[str, Any]]] = {}
        last, count = 0, 0
        for number, payload in self.commits.unpublished():
            for name, some in payload.items():
                rows.setdefault(name, []).extend(some)
                count += len(some)
            last = number
            if count >= _ROWS_AT_ONCE:
                break
        if not last:
            return False
        written = [name for name, some in rows.items() if some]
        for name in written:
            self._tables[name].publish(rows[name], last)
        self.commits.published(last, {name: max(row["commit"] for row in rows[name]) for name in written})
        with self._changed:
            self.published = last
            self._changed.notify_all()
        for name in written:
            self._since_compaction[name] += 1
            if self._since_compaction[name] >= self._compact_every:
                self._tables[name].compact()
                self._since_compaction[name] = 0
        return True

    def tidy(self, after: float = 0.0) -> bool:
        """Tidy the table that was tidied longest ago, if at least `after` seconds ago; return whether one was."""
        name = min(self._tidied, key=self._tidied.__getitem__, default=None)
        if name is None or time.monotonic() - self._tidied[name] < after:
            return False
        self._tables[name].tidy(self._now())
        self._tidied[name] = time.monotonic()
        return True

    def _refuse_lost_tables(self) -> None:
        """Refuse new tables in place of lost ones whose rows have to stay: nothing would write these rows again.

        Tables whose rows expire may be created anew. The seed of every state writes rows to `tables`, so a missing
        commit there shows that new tables were refused before.
        """
        first = next((number for number, _ in self.commits.unpublished()), self.commits.last + 1)
        if first <= self.commits.first:
            return
        had_rows = {*_ALWAYS_FILLED, *(_ROWS_STAY & self.commits.published_to.keys())}
        lost = [name for name, table in self._tables.items() if name in had_rows and table.is_new]
        if "tables" in self._tables and not self._tables["tables"].published:
            lost = [*_ALWAYS_FILLED, "tables"]
        if lost:
            raise StateRefused(
                f"output tables are gone that had commits up to {first - 1} ({', '.join(lost)}): restore the folder "
                "that `output` named, or name another one there and seed anew: holdfast seed --replace"
            )

    def _refuse_other_copies(self) -> None:
        """Refuse older copies of tables, which lack commits, and newer ones, which would leave commits out."""
        for name, commit in self.commits.published_to.items():
            table = self._tables.get(name)
            if table is not None and not table.is_new and table.published < commit:
                raise StateRefused(
                    f"output table {name} has lost its last versions: it had commit {commit}, and ends with "
                    f"{table.published}. Bring them back, or name another folder in `output` and seed anew: "
                    "holdfast seed --replace"
                )
        later = {name: table.published for name, table in self._tables.items() if table.published > self.commits.last}
        if later:
            name = max(later, key=later.__getitem__)
            raise StateRefused(
                f"output table {name} has commit {later[name]} of this state, which itself ends with commit "
                f"{self.commits.last}: it comes from an older copy. Bring the newest one back, or seed anew for the "
                "same outputs: holdfast seed --replace"
            )

    def _run(self) -> None:
        try:
            while not self._is_abandoned:
                if self.step():
                    self.tidy(2 * self._tidy_every)
                    continue
                with self._changed:
                    if self._is_closing and self.published == self.commits.last:
                        return
                if self.tidy(self._tidy_every):
                    continue
                with self._changed:
                    if self.published == self.commits.last and not self._is_closing:
                        self._changed.wait(1.0)
        except BaseException as error:  # noqa: BLE001  (raised by `check`)
            with self._changed:
                self._failed = error
                self._changed.notify_all()
