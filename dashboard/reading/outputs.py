"""The output tables of one application, opened by delta-rs and refreshed as commits arrive.

Invariant: `read` returns rows of the version that `refresh` saw last. A table that does not exist yet is empty; a table
of another application is refused.
"""

import datetime
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from holdfast.constraints import UsageError
from holdfast.streaming.sinks.choosing import writer_for
from holdfast.streaming.sinks.contract import check_owner, storage_errors
from holdfast.streaming.sinks.shapes import SHAPES

_ERRORS = (DeltaError, OSError, pa.ArrowException)
NOT_THERE = -1


class Outputs:
    """Reads the tables.

    Parameters
    ----------
    place : the folder or address of all tables.
    application : the application that the tables belong to.
    storage : options of the object store.
    """

    def __init__(self, place: str, application: str, storage: Mapping[str, str] | None = None) -> None:
        if writer_for(place) == "spark":
            raise UsageError(
                f"{place} can be read by Spark only: this page reads with delta-rs, from folders and from "
                "s3, abfss, az and gs. Read the tables there with Spark"
            )
        self.place = place.rstrip("/")
        self.application = application
        self._storage = dict(storage or {})
        self._opened: dict[str, DeltaTable] = {}
        self._datasets: dict[str, ds.Dataset] = {}
        self._lock = threading.Lock()

    @property
    def are_there(self) -> bool:
        """Whether any table exists."""
        return bool(self._opened)

    @property
    def state(self) -> tuple[int, ...]:
        """The version of each table, which changes when a commit arrives."""
        return tuple(self.version(name) for name in SHAPES)

    def version(self, name: str) -> int:
        """Return the version of a table that is read; `NOT_THERE` where the table does not exist."""
        table = self._opened.get(name)
        return NOT_THERE if table is None else int(table.version())

    def refresh(self) -> bool:
        """Read new commits; return whether there were any. O(new commits), with one listing per table."""
        with self._lock:
            before = self.state
            for name in SHAPES:
                self._refresh(name)
            return self.state != before

    def reopen(self) -> None:
        """Open every table again at its newest version, since files of older versions may have been removed."""
        with self._lock:
            for name in SHAPES:
                self._reopen(name)

    def read(self, name: str, columns: Sequence[str], where: ds.Expression | None = None) -> pa.Table:
        """Return columns of the rows that satisfy a condition. O(files that may have such rows).

        Parameters
        ----------
        columns : names of columns; a column that an older table does not have is null.
        """
        shape = SHAPES[name].arrow
        with storage_errors(f"{self.place}/{name}", "read", _ERRORS):
            dataset = self._dataset(name)
            if dataset is None:
                return shape.empty_table().select(list(columns))
            found = self._rows(dataset, columns, where)
        for column in columns:
            if column not in found.schema.names:
                found = found.append_column(column, pa.nulls(len(found), shape.field(column).type))
        return found.select(list(columns))

    def batches(
        self, name: str, columns: Sequence[str], where: ds.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `read` in batches, in no order, for columns that are too large for memory."""
        with storage_errors(f"{self.place}/{name}", "read", _ERRORS):
            dataset = self._dataset(name)
            if dataset is None:
                return
            shape = pa.schema([SHAPES[name].arrow.field(column) for column in columns])
            there = [column for column in columns if column in dataset.schema.names]
            for batch in dataset.to_batches(columns=there, filter=where, batch_readahead=4):
                yield batch if len(there) == len(columns) else _completed(batch, shape)

    def count(self, name: str) -> int:
        """Return the number of rows of a table. O(files)."""
        return sum(number or 0 for number in self._statistics(name).get("num_records", ()))

    def newest(self, name: str, column: str) -> datetime.datetime | None:
        """Return the latest time in a column, from statistics of files; None where these have none. O(files)."""
        known = [value for value in self._statistics(name).get(f"max.{column}", ()) if value is not None]
        return max(known) if known else None

    def _statistics(self, name: str) -> dict[str, list[Any]]:
        table = self._opened.get(name)
        if table is None:
            return {}
        found: dict[str, list[Any]] = pa.table(table.get_add_actions(flatten=True)).to_pydict()
        return found

    @staticmethod
    def _rows(dataset: ds.Dataset, columns: Sequence[str], where: ds.Expression | None) -> pa.Table:
        there = [column for column in columns if column in dataset.schema.names]
        return dataset.to_table(columns=there, filter=where)

    def _dataset(self, name: str) -> ds.Dataset | None:
        with self._lock:
            table = self._opened.get(name)
            if table is not None and name not in self._datasets:
                self._datasets[name] = table.to_pyarrow_dataset()
            return self._datasets.get(name)

    def _refresh(self, name: str) -> None:
        table = self._opened.get(name)
        if table is None:
            self._reopen(name)
            return
        before = table.version()
        try:
            table.update_incremental()
        except (DeltaError, OSError):  # the table was replaced, or its log no longer reaches back to this version
            self._reopen(name)
        else:
            if table.version() != before:
                self._datasets.pop(name, None)

    def _reopen(self, name: str) -> None:
        uri = f"{self.place}/{name}"
        self._datasets.pop(name, None)
        with storage_errors(uri, "opened", _ERRORS):
            try:
                table = DeltaTable(uri, storage_options=self._storage)
            except TableNotFoundError:
                self._opened.pop(name, None)
                return
            check_owner(uri, table.metadata().configuration, self.application)
            self._opened[name] = table


def _completed(batch: pa.RecordBatch, shape: pa.Schema) -> pa.RecordBatch:
    """Return a batch with a null in each column of a schema that it does not have."""
    names = batch.schema.names
    columns = [batch[field.name] if field.name in names else pa.nulls(len(batch), field.type) for field in shape]
    return pa.record_batch(columns, names=shape.names)


def lately(column: str, since: datetime.datetime | None) -> ds.Expression | None:
    """Return the condition that a time is not before `since`; None where `since` is None."""
    return None if since is None else ds.field(column) >= pa.scalar(since, pa.timestamp("us", "UTC"))


def any_of(name: str, values: Sequence[Any]) -> ds.Expression:
    """Return the condition that a column has one of some values. Unlike `isin`, it skips files by their statistics."""
    return reduce(or_, (ds.field(name) == value for value in values))
