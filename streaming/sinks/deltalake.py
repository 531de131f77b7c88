"""Output tables written by delta-rs: milliseconds a commit, no JVM.

delta-rs writes transaction records and never refuses a repeat, so the version of the last one is compared before each
write; there is one writer of these tables. A held handle slows with the commits it has seen, so it is opened again
every some dozen, and the table's small files are compacted every some hundred.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.schema import PrimitiveType

from holdfast.constraints import ExternalError, StateRefused
from holdfast.streaming.sinks.shapes import Shape

_REOPEN_EVERY = 50
APPLICATION, STATE = "holdfast.application", "holdfast.state"


class DeltaLakeTable:
    """One output table.

    Parameters
    ----------
    uri : where it is.
    shape : what it looks like.
    application, state_id : whose it is; one of another application is refused.
    storage : options of the object store.
    log_retention_days : how long the table's old versions can be read.
    """

    def __init__(
        self,
        uri: str,
        shape: Shape,
        application: str,
        state_id: str,
        storage: Mapping[str, str] | None = None,
        log_retention_days: int = 2,
    ) -> None:
        self.uri = uri
        self.shape = shape
        self._application = application
        self._transactions = f"{state_id}/{shape.name}"
        self._storage = dict(storage or {})
        self._used = 0
        self._table = self._opened() or self._created(state_id, log_retention_days)
        owner = self._table.metadata().configuration.get(APPLICATION)
        if owner != application:
            raise StateRefused(
                f"{uri} belongs to the application '{owner}', not to '{application}': choose another `output`, or the "
                "name that it was made with"
            )

    @property
    def published(self) -> int:
        """The last commit of this state that the table has; 0 before the first."""
        return self._table.transaction_version(self._transactions) or 0

    def publish(self, rows: Sequence[Mapping[str, Any]], upto: int) -> None:
        """Append rows of commits up to `upto`, or merge them where the table has a key; those it has are left out.

        A row of a merged table with `_gone` takes the row of its key away.
        """
        done = self.published
        fresh = [row for row in rows if row["commit"] > done]
        if not fresh:
            return
        properties = CommitProperties(app_transactions=[Transaction(self._transactions, upto)])
        try:
            if self.shape.key is None:
                self._append(fresh, properties)
            else:
                self._merge(self.shape.key, fresh, properties)
        except (DeltaError, OSError) as error:
            raise ExternalError(
                f"{self.uri} could not be written ({error}). Nothing is lost: mend the storage and start again"
            ) from error
        self._used += 1
        if self._used % _REOPEN_EVERY == 0:
            self._table = DeltaTable(self.uri, storage_options=self._storage)

    def compact(self) -> None:
        """Join small files, and drop what no version needs any more."""
        self._table.optimize.compact()
        self._table.cleanup_metadata()
        self._table = DeltaTable(self.uri, storage_options=self._storage)

    def _append(self, rows: Sequence[Mapping[str, Any]], properties: CommitProperties) -> None:
        write_deltalake(self._table, self.shape.rows(rows), mode="append", commit_properties=properties)

    def _merge(self, key: str, rows: Sequence[Mapping[str, Any]], properties: CommitProperties) -> None:
        """Bring each key to what its last row says."""
        last = {row[key]: row for row in rows}
        gone = [value for value, row in last.items() if row.get("_gone")]
        kept = [{k: v for k, v in row.items() if k != "_gone"} for row in last.values() if not row.get("_gone")]
        marker = self.shape.rows(kept + [{key: value} for value in gone])
        flags = pa.array([False] * len(kept) + [True] * len(gone))
        names = [name for name, _, _ in self.shape.columns]
        (
            self._table.merge(
                marker.append_column("_gone", flags),
                f"old.{key} = new.{key}",
                source_alias="new",
                target_alias="old",
                commit_properties=properties,
            )
            .when_matched_delete("new._gone")
            .when_matched_update({name: f"new.{name}" for name in names}, "not new._gone")
            .when_not_matched_insert({name: f"new.{name}" for name in names}, "not new._gone")
            .execute()
        )

    def _opened(self) -> DeltaTable | None:
        try:
            return DeltaTable(self.uri, storage_options=self._storage)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise ExternalError(f"{self.uri} could not be opened: {error}. Check `output` and permissions") from error

    def _created(self, state_id: str, log_retention_days: int) -> DeltaTable:
        fields = [Field(name, _delta_type(kind), metadata={"comment": text}) for name, kind, text in self.shape.columns]
        try:
            return DeltaTable.create(
                self.uri,
                Schema(fields),
                name=self.shape.name,
                description=self.shape.description,
                partition_by=list(self.shape.partition_by),
                storage_options=self._storage,
                configuration={
                    APPLICATION: self._application,
                    STATE: state_id,
                    "delta.logRetentionDuration": f"interval {log_retention_days} days",
                    "delta.checkpointInterval": "50",
                    "delta.enableChangeDataFeed": str(self.shape.change_feed).lower(),
                },
                raise_if_key_not_exists=False,
            )
        except (DeltaError, OSError) as error:
            raise ExternalError(f"{self.uri} could not be made: {error}. Check `output` and permissions") from error


def _delta_type(kind: pa.DataType) -> PrimitiveType:
    names = {pa.int64(): "long", pa.string(): "string", pa.float64(): "double", pa.date32(): "date"}
    return PrimitiveType(names.get(kind, "timestamp"))
