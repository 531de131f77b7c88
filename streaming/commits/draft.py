"""A commit in the making, for batches, announcements of rules, and seeds.

    parts add          changes of the state, rows for the outputs, and functions to call once the commit is written
    commit             one write; then these functions are called

Invariant: a part of the commit changes its own memory only in such a function. Maintainers note what they save, and
alerts what they decide, before the write: where it fails, the process has to end (`pipeline.py`).
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
    commits : writes commits to the state.
    now : the time of the commit.

    Attributes
    ----------
    change : the changes of the state.
    rows : the rows for the outputs.
    number : the number of the commit.
    seconds : the time of the commit.
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
        """Add the progress of a table."""
        self.change.put("progress", table.encode(), codecs.json_bytes(progress.fields()))

    def when_kept(self, remember: Callable[[], object]) -> None:
        """Call a function once the commit is written."""
        self._kept.append(remember)

    def commit(self, *, source: str = "", batch: LedgerEntry | None = None, status: str = READY) -> None:
        """Write the commit as `Commits.commit` does; then call the functions of `when_kept`."""
        self._commits.commit(self.change, self.rows.payload, source=source, batch=batch, status=status)
        for remember in self._kept:
            remember()
