"""A read-only view of a state, for code that does not know its layout; also of a state that a process writes to."""

from typing import Any

from holdfast.constraints import ColumnRef
from holdfast.discovery.blocks.storage.manifest import stored_blocks
from holdfast.state.commits import LedgerEntry, last_batch, last_commit, unpublished_count
from holdfast.state.store import Reader
from holdfast.streaming.alerts.waiting import alert_status
from holdfast.streaming.commits.rule_reports import Line, published_lines
from holdfast.streaming.commits.table_records import TableProgress, TableRecord, progress_of, tables_of
from holdfast.streaming.incoming.attempts import Attempt, failed_batch
from holdfast.streaming.maintainers.inclusion.maintainer import stored_columns
from holdfast.streaming.maintainers.table.stored_definition import StoredDefinition, table_prefix


class StateView:
    """A state as the commands status, seed and rebuild, and edited configurations, read it.

    Parameters
    ----------
    store : the store of the state.
    """

    def __init__(self, store: Reader) -> None:
        self._store = store
        self.tables: dict[str, TableRecord] = {}
        self.numbers: dict[str, int] = {}
        for number, record in tables_of(store):
            self.tables[record.name], self.numbers[record.name] = record, number

    @property
    def commit(self) -> int:
        """The number of the last commit."""
        return last_commit(self._store)

    @property
    def commits_to_publish(self) -> int:
        """How many commits are not published yet."""
        return unpublished_count(self._store)

    @property
    def rule_lines(self) -> list[Line]:
        """The last published line of each rule."""
        return [line for _, line in published_lines(self._store)]

    @property
    def alerts(self) -> dict[str, Any]:
        """How many alerts wait, and the last failed attempt to send one."""
        return alert_status(self._store)

    @property
    def followed_columns(self) -> set[ColumnRef]:
        """The columns whose values are followed."""
        return {column.ref for column in stored_columns(self._store) if not column.dropped}

    def progress(self, table: str) -> TableProgress:
        """Return the progress of a table."""
        return progress_of(self._store, table)

    def last_batch(self, table: str) -> LedgerEntry | None:
        """Return the last batch of a table's source."""
        return last_batch(self._store, table)

    def failed_batch(self, table: str) -> Attempt | None:
        """Return the failed batch of a table's source; None if no batch failed."""
        return failed_batch(self._store, table)

    def definition(self, table: str) -> StoredDefinition:
        """Return the stored definition of a table."""
        return StoredDefinition.read(self._store, self.numbers[table])

    def blocks(self, table: str) -> int:
        """Return how many blocks a table has. O(blocks)."""
        return len(stored_blocks(self._store, table_prefix(self.numbers[table])))
