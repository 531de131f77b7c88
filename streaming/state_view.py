"""What a state says of itself, read without knowing how it is stored; also beside a process that writes to it."""

from typing import Any

from holdfast.constraints import ColumnRef
from holdfast.discovery.blocks.storage.manifest import stored_blocks
from holdfast.state.commits import LedgerEntry, last_batch, last_commit, unpublished_count
from holdfast.state.store import Reader
from holdfast.streaming.alerts.waiting import told
from holdfast.streaming.commits.rule_reports import Line, published_lines
from holdfast.streaming.commits.table_records import TableProgress, TableRecord, progress_of, tables_of
from holdfast.streaming.incoming.attempts import Attempt, failed_batch
from holdfast.streaming.maintainers.inclusion.maintainer import stored_columns
from holdfast.streaming.maintainers.table.stored_definition import StoredDefinition, table_prefix


class StateView:
    """A state as status, seed, rebuild and evolution see it.

    Parameters
    ----------
    store : has the state.
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
        """How many commits wait to be published."""
        return unpublished_count(self._store)

    @property
    def rule_lines(self) -> list[Line]:
        """What was published last of each rule."""
        return [line for _, line in published_lines(self._store)]

    @property
    def alerts(self) -> dict[str, Any]:
        """How many alerts wait, and the last try that failed."""
        return told(self._store)

    @property
    def followed_columns(self) -> set[ColumnRef]:
        """The columns whose values are followed."""
        return {column.ref for column in stored_columns(self._store) if not column.dropped}

    def progress(self, table: str) -> TableProgress:
        """Return how far a table is."""
        return progress_of(self._store, table)

    def last_batch(self, table: str) -> LedgerEntry | None:
        """Return the last batch of a table's source."""
        return last_batch(self._store, table)

    def failed_batch(self, table: str) -> Attempt | None:
        """Return the batch of a table's source that failed, if one did."""
        return failed_batch(self._store, table)

    def definition(self, table: str) -> StoredDefinition:
        """Return what is compared, what identifies a row, which families are maintained."""
        return StoredDefinition.read(self._store, self.numbers[table])

    def blocks(self, table: str) -> int:
        """Return how many blocks a table has. O(blocks)."""
        return len(stored_blocks(self._store, table_prefix(self.numbers[table])))
