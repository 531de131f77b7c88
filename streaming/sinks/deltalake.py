"""Output tables written by delta-rs: milliseconds a commit, no JVM.

A commit costs a listing of the log's folder and the commits since the last checkpoint. So checkpoints come every
`CHECKPOINT_EVERY` commits, the handle is opened again as often, and the log is kept short: `compact` removes expired
versions, which would otherwise be looked for after every commit (8 ms for each thousand of files in the log).

delta-rs writes transaction records and never refuses a repeat, so the version of the last one is compared before each
write. Where two processes write all the same, its check for conflicts refuses the later one.
"""

import datetime
import logging
from collections.abc import Callable, Mapping, Sequence
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
    APPLICATION,
    ATTEMPTS,
    CHECKPOINT_EVERY,
    GONE,
    LARGE_FILES,
    PUT,
    SMALL_FILES,
    STATE,
    Retention,
    Row,
    check_owner,
    check_state,
    delta_type,
    missing_columns,
    netted,
    other_writer,
    properties,
    storage_errors,
    transactions,
)
from holdfast.streaming.sinks.shapes import Shape

_log = logging.getLogger(__name__)
_ERRORS = (DeltaError, OSError)
_AFTERWARDS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


class DeltaLakeTable:
    """One output table.

    Parameters
    ----------
    uri : where it is.
    shape : what it looks like.
    application, state_id : whose it is; one of another application is refused.
    storage : options of the object store.
    retention : how long its versions and rows stay.
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
        self.uri = uri
        self.shape = shape
        self._state = state_id
        self._transactions = transactions(state_id, shape)
        self._storage = dict(storage or {})
        self._retention = retention
        self._used = 0
        self._tidied: datetime.date | None = None
        with storage_errors(uri, "opened", _ERRORS):
            opened = self._opened()
        self.is_new = opened is None
        with storage_errors(uri, "made", _ERRORS):
            self._table = opened or self._created(application, state_id)
        check_owner(uri, self._table.metadata().configuration, application)
        with storage_errors(uri, "brought to this version", _ERRORS):
            self._evolve()

    @property
    def published(self) -> int:
        """The last commit of this state that the table has; 0 before the first."""
        return self._table.transaction_version(self._transactions) or 0

    def publish(self, rows: Sequence[Row], upto: int) -> None:
        """Append rows of commits up to `upto`, or merge them where the table has a key; those it has are left out."""
        with storage_errors(self.uri, "written", _ERRORS):
            done = self.published
            fresh = [row for row in rows if row["commit"] > done]
            if fresh:
                self._write(fresh, upto, done)

    def compact(self) -> None:
        """Join small files and forget expired versions. O(small files and log)."""
        self._upkeep(self._join, SMALL_FILES)
        self._upkeep(self._table.cleanup_metadata)

    def tidy(self, now: datetime.datetime) -> None:
        """Remove old rows and join middling files, once a day; remove files that no version needs."""
        if self._tidied != now.date():
            day = self._retention.oldest_day(self.shape, now)
            if day is not None:
                self._upkeep(self._delete_before, day)
            self._upkeep(self._join, LARGE_FILES)
            self._tidied = now.date()
        self._upkeep(self._vacuum)
        self._upkeep(self._table.cleanup_metadata)

    def _write(self, rows: Sequence[Row], upto: int, done: int) -> None:
        write = self._append if self.shape.key is None else self._merge
        commit = CommitProperties(app_transactions=[Transaction(self._transactions, upto)])
        for attempt in range(ATTEMPTS):
            try:
                write(rows, commit)
                break
            except CommitFailedError:
                self._reopen()
                check_state(self.uri, self._table.metadata().configuration, self._state)
                if self.published != done:
                    raise other_writer(self.uri) from None
                if attempt + 1 == ATTEMPTS:
                    raise  # somebody changes the table without pause
        self._used += 1
        if self._used % CHECKPOINT_EVERY == 0:
            self._reopen()

    def _append(self, rows: Sequence[Row], commit: CommitProperties) -> None:
        write_deltalake(
            self._table,
            self.shape.rows(rows),
            mode="append",
            commit_properties=commit,
            post_commithook_properties=_AFTERWARDS,
        )

    def _merge(self, rows: Sequence[Row], commit: CommitProperties) -> None:
        news, what = netted(rows, self.shape)
        every = {name: f"new.{name}" for name, _, _ in self.shape.columns}
        merging = (
            self._table.merge(
                news.append_column("_what", what),
                f"old.{self.shape.key} = new.{self.shape.key}",
                source_alias="new",
                target_alias="old",
                commit_properties=commit,
                post_commithook_properties=_AFTERWARDS,
            )
            .when_matched_delete(f"new._what = {GONE}")
            .when_matched_update(every, f"new._what = {PUT}")
        )
        if self.shape.amendable:
            amended = {name: every[name] for name in self.shape.amendable}
            merging = merging.when_matched_update(amended, f"new._what = {AMENDED}")
        merging.when_not_matched_insert(every, f"new._what = {PUT}").execute()

    def _upkeep(self, work: Callable[..., Any], *given: Any) -> None:
        """Do something that may be left undone till next time; where the storage itself fails, say so."""
        with storage_errors(self.uri, "tidied up", _ERRORS):
            try:
                work(*given)
            except CommitFailedError as error:
                _log.warning("%s: left untidy till next time, since somebody else writes to it: %s", self.uri, error)
            self._reopen()

    def _join(self, size: int) -> None:
        self._table.optimize.compact(target_size=size, post_commithook_properties=_AFTERWARDS)

    def _delete_before(self, day: datetime.date) -> None:
        self._table.delete(f"{self.shape.aged_by} < '{day}'", post_commithook_properties=_AFTERWARDS)

    def _vacuum(self) -> None:
        hours = self._retention.hours_of_log(self.shape)
        self._table.vacuum(
            hours, dry_run=False, enforce_retention_duration=False, full=True, post_commithook_properties=_AFTERWARDS
        )

    def _reopen(self) -> None:
        self._table = DeltaTable(self.uri, storage_options=self._storage)

    def _opened(self) -> DeltaTable | None:
        try:
            return DeltaTable(self.uri, storage_options=self._storage)
        except TableNotFoundError:
            return None

    def _created(self, application: str, state_id: str) -> DeltaTable:
        folder = Path(self.uri)
        if folder.is_dir() and any(path.name != "_delta_log" for path in folder.iterdir()):
            raise StateRefused(f"{self.uri} has files and is no Delta table: choose another `output`, or empty it")
        return DeltaTable.create(
            self.uri,
            Schema([_field(*column) for column in self.shape.columns]),
            name=self.shape.name,
            description=self.shape.description,
            partition_by=list(self.shape.partition_by),
            storage_options=self._storage,
            configuration={APPLICATION: application, STATE: state_id, **properties(self.shape, self._retention)},
            raise_if_key_not_exists=False,
        )

    def _evolve(self) -> None:
        """Add what a later version added, and take over settings that were changed."""
        found = {field.name: _type_name(field) for field in self._table.schema().fields}
        about = self._table.metadata()
        missing = missing_columns(self.uri, self.shape, found, about.partition_columns)
        if missing:
            self._table.alter.add_columns([_field(*column) for column in self.shape.columns if column[0] in missing])
        wanted = {STATE: self._state, **properties(self.shape, self._retention)}
        changed = {name: value for name, value in wanted.items() if about.configuration.get(name) != value}
        if changed:
            self._table.alter.set_table_properties(changed, raise_if_not_exists=False)
        if missing or changed:
            self._reopen()


def _field(name: str, kind: Any, text: str) -> Field:
    return Field(name, PrimitiveType(delta_type(kind)), metadata={"comment": text})


def _type_name(field: Any) -> str:
    return str(getattr(field.type, "type", field.type))
