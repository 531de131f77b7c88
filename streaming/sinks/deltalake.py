"""Output tables written by delta-rs: milliseconds a commit, no JVM.

A commit costs a listing of the log's folder, and reading the commits since the last checkpoint. So there is a
checkpoint every `CHECKPOINT_EVERY` commits, the handle is opened again as often, and the log is kept short: `compact`
removes expired versions, instead of a search for them after every commit (8 ms for each thousand files in the log).

delta-rs writes transaction records but does not refuse a repeated one, so the version of the last transaction is
compared before each write. If two processes write nevertheless, the conflict check of delta-rs refuses the later write.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deltalake import (
    CommitProperties,
    DeltaTable,
    Field,
    PostCommitHookProperties,
    Schema,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import PrimitiveType

from holdfast.constraints import StateRefused
from holdfast.streaming.sinks.contract import (
    AMENDED,
    CHECKPOINT_EVERY,
    GONE,
    PUT,
    Column,
    OutputTable,
    Retention,
    Row,
    delta_type,
    netted,
)
from holdfast.streaming.sinks.shapes import Shape

_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


class DeltaLakeTable(OutputTable):
    """One output table, written by delta-rs.

    Parameters
    ----------
    storage : options of the object store.
    """

    def __init__(
        self,
        uri: str,
        shape: Shape,
        application: str,
        state_id: str,
        storage: Mapping[str, str] | None = None,
        retention: Retention = Retention(),  # noqa: B008  (immutable)
    ) -> None:
        self._storage = dict(storage or {})
        self._used = 0
        super().__init__(uri, shape, application, state_id, retention, (DeltaError, OSError))

    @property
    def published(self) -> int:
        """The last commit of this state that the table has; 0 before the first."""
        return self._table.transaction_version(self._transactions) or 0

    def compact(self) -> None:
        """Join small files and forget expired versions. O(small files and log)."""
        super().compact()
        self._upkeep(self._table.cleanup_metadata)

    def _write(self, rows: Sequence[Row], upto: int) -> None:
        commit = CommitProperties(app_transactions=[Transaction(self._transactions, upto)])
        if self.shape.key is None:
            self._append(rows, commit)
        else:
            self._merge(rows, upto, commit)
        self._used += 1
        if self._used % CHECKPOINT_EVERY == 0:
            self._reopen()

    def _append(self, rows: Sequence[Row], commit: CommitProperties) -> None:
        write_deltalake(
            self._table,
            self.shape.rows(rows),
            mode="append",
            commit_properties=commit,
            post_commithook_properties=_HOOKS,
        )

    def _merge(self, rows: Sequence[Row], upto: int, commit: CommitProperties) -> None:
        news, what = netted(rows, self.shape)
        every = {name: f"new.{name}" for name, _, _ in self.shape.columns}
        merging = (
            self._table.merge(
                news.append_column("_what", what),
                f"old.{self.shape.key} = new.{self.shape.key}",
                source_alias="new",
                target_alias="old",
                commit_properties=commit,
                post_commithook_properties=_HOOKS,
            )
            .when_matched_delete(f"new._what = {GONE}")
            .when_matched_update(every, f"new._what = {PUT}")
        )
        if self.shape.amendable:
            amended = {name: every[name] for name in self.shape.amendable}
            merging = merging.when_matched_update(amended, f"new._what = {AMENDED}")
        merging.when_not_matched_insert(every, f"new._what = {PUT}").execute()
        if self.published < upto:  # rows that came and went: a merge that changes nothing is no commit
            self._append([], commit)

    def _is_conflict(self, error: BaseException) -> bool:
        return isinstance(error, CommitFailedError)

    def _join(self, size: int) -> None:
        self._table.optimize.compact(target_size=size, post_commithook_properties=_HOOKS)

    def _delete(self, condition: str) -> None:
        self._table.delete(condition, post_commithook_properties=_HOOKS)

    def _vacuum(self, hours: int) -> None:
        self._table.vacuum(
            hours, dry_run=False, enforce_retention_duration=False, full=True, post_commithook_properties=_HOOKS
        )
        self._reopen()
        self._table.cleanup_metadata()

    def _reopen(self) -> None:
        self._table = DeltaTable(self.uri, storage_options=self._storage)

    def _opened(self) -> bool:
        try:
            self._reopen()
        except TableNotFoundError:
            return False
        return True

    def _created(self, settings: Mapping[str, str]) -> None:
        folder = Path(self.uri)
        if folder.is_dir() and any(path.name != "_delta_log" for path in folder.iterdir()):
            raise StateRefused(f"{self.uri} has files and is no Delta table: choose another `output`, or empty it")
        self._table = DeltaTable.create(
            self.uri,
            Schema([_field(*column) for column in self.shape.columns]),
            name=self.shape.name,
            description=self.shape.description,
            partition_by=list(self.shape.partition_by),
            storage_options=self._storage,
            configuration=dict(settings),
            raise_if_key_not_exists=False,
        )

    def _configuration(self) -> Mapping[str, str | None]:
        return self._table.metadata().configuration

    def _columns(self) -> tuple[Mapping[str, str], Sequence[str]]:
        found = {field.name: str(getattr(field.type, "type", field.type)) for field in self._table.schema().fields}
        return found, self._table.metadata().partition_columns

    def _add(self, columns: Sequence[Column]) -> None:
        self._table.alter.add_columns([_field(*column) for column in columns])

    def _set(self, settings: Mapping[str, str]) -> None:
        self._table.alter.set_table_properties(dict(settings), raise_if_not_exists=False)


def _field(name: str, kind: Any, text: str) -> Field:
    return Field(name, PrimitiveType(delta_type(kind)), metadata={"comment": text})
