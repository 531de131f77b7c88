"""A commit that is being made: batches, announcements of rules and seeds make theirs in the same way.

    parts add to it    what changes in the state, rows for the outputs, and what to remember once the commit is kept
    commit             one write; then the parts remember

Invariant: a part remembers nothing before the commit is kept, so a draft that is not committed leaves no trace.
"""

import datetime
from collections.abc import Callable, Iterable

from holdfast.state import codecs
from holdfast.state.commits import READY, Commits, LedgerEntry
from holdfast.state.store import WriteBatch
from holdfast.streaming.commits.output_rows import OutputRows
from holdfast.streaming.commits.table_records import TableProgress


class CommitDraft:
    """The next commit.

    Parameters
    ----------
    commits : the way into the state.
    now : the time of the commit.

    Attributes
    ----------
    change : what changes in the state.
    rows : for the outputs.
    number : of the commit.
    seconds : its time.
    """

    def __init__(self, commits: Commits, now: datetime.datetime) -> None:
        self._commits = commits
        self._kept: list[Callable[[], object]] = []
        self.change = WriteBatch()
        self.number = commits.last + 1
        self.rows = OutputRows(commits.identity, self.number, now)
        self.seconds = now.timestamp()

    def add(self, parts: Iterable[WriteBatch]) -> None:
        """Add changes of the state."""
        for part in parts:
            self.change.add(part)

    def put_progress(self, table: str, progress: TableProgress) -> None:
        """Add how far a table is."""
        self.change.put("progress", table.encode(), codecs.json_bytes(progress.fields()))

    def when_kept(self, remember: Callable[[], object]) -> None:
        """Let a part remember what it added, once the commit is kept."""
        self._kept.append(remember)

    def commit(self, *, source: str = "", batch: LedgerEntry | None = None, status: str = READY) -> None:
        """Write the commit, as `Commits.commit` does; then let the parts remember."""
        self._commits.commit(self.change, self.rows.payload, source=source, batch=batch, status=status)
        for remember in self._kept:
            remember()
