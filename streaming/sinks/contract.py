"""The contract of the writers of output tables, and everything that is the same for all writers.

A table belongs to one application, has the columns of its shape, and knows its last commit of each state: a Delta
*transaction* with the name `<state id>/<table>`, whose version is the number of the commit. A writer writes rows and
this version in one Delta commit, and leaves out rows of commits that the table has already. So writers can take over
from each other at any commit, and a repeated write changes nothing. The state that was started last owns the table:
another state that still writes is refused.
"""

import datetime
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from holdfast.constraints import ExternalError, StateRefused
from holdfast.state.room import way_out
from holdfast.streaming.sinks.shapes import Shape
from holdfast.streaming.spark.errors import first_line

APPLICATION, STATE = "holdfast.application", "holdfast.state"
CHECKPOINT_EVERY = 20
ATTEMPTS = 5
SMALL_FILES, LARGE_FILES = 2 << 20, 64 << 20

Row = Mapping[str, Any]
Errors = tuple[type[BaseException], ...]
Column = tuple[str, pa.DataType, str]
"""Name, type and meaning."""

_log = logging.getLogger(__name__)
_PLAIN_LOG = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Retention:
    """How long versions and rows of tables stay.

    Parameters
    ----------
    log : how long versions of the table stay, so that readers can follow its change feed.
    rows : how long rows stay, in a table whose shape has a column with their age; None for ever.
    """

    log: datetime.timedelta = datetime.timedelta(days=2)
    rows: datetime.timedelta | None = None

    def of_log(self, shape: Shape) -> datetime.timedelta:
        """Return how long versions of a table stay.

        Each commit lists the folder of the log, so a long log makes all commits slow. Versions of tables without a
        change feed stay at most an hour, for readers that are reading one.
        """
        return self.log if shape.change_feed else min(self.log, _PLAIN_LOG)

    def oldest_day(self, shape: Shape, now: datetime.datetime) -> datetime.date | None:
        """Return the first day whose rows stay; None if all stay. Rows are deleted by whole days, so that files are."""
        if self.rows is None or shape.aged_by is None:
            return None
        return (now.astimezone(datetime.UTC) - self.rows).date()


def properties(shape: Shape, retention: Retention) -> dict[str, str]:
    """Return the settings of a table that delta-rs and Spark can both write, and that stays fast."""
    log = f"interval {max(1, int(retention.of_log(shape).total_seconds()))} seconds"
    return {
        "delta.enableChangeDataFeed": str(shape.change_feed).lower(),
        "delta.logRetentionDuration": log,
        "delta.deletedFileRetentionDuration": log,  # a week otherwise, and each checkpoint lists them
        "delta.checkpointInterval": str(CHECKPOINT_EVERY),
        "delta.checkpointPolicy": "classic",
        "delta.enableDeletionVectors": "false",  # delta-rs reads none
    }


def check_owner(uri: str, configuration: Mapping[str, str | None], application: str) -> None:
    """Refuse a table of another application, or one that Holdfast did not create."""
    owner = configuration.get(APPLICATION)
    if owner == application:
        return
    if owner is None:
        raise StateRefused(f"{uri} is a Delta table that Holdfast did not make: choose another `output`")
    raise StateRefused(
        f"{uri} belongs to the application '{owner}', not to '{application}': choose another `output`, or the "
        "name that it was made with"
    )


def missing_columns(uri: str, shape: Shape, found: Mapping[str, str], partition_by: Iterable[str]) -> list[str]:
    """Return the columns to add to a table of an earlier version; refuse a table that differs in other ways.

    Parameters
    ----------
    found : Delta's name of the type of each column of the table.
    """
    expected = {name: delta_type(kind) for name, kind, _ in shape.columns}
    wrong = [f"column '{name}' is not of this version" for name in found if name not in expected]
    wrong += [
        f"column '{name}' is {found[name]}, not {kind}"
        for name, kind in expected.items()
        if name in found and found[name] != kind
    ]
    if list(partition_by) != list(shape.partition_by):
        wrong.append(f"it is partitioned by {list(partition_by)}, not by {list(shape.partition_by)}")
    if wrong:
        raise StateRefused(
            f"{uri} is not a table '{shape.name}' as this version writes it ({'; '.join(wrong)}): use the version that "
            "wrote it, or choose another `output`"
        )
    return [name for name in expected if name not in found]


def delta_type(kind: pa.DataType) -> str:
    """Return Delta's name of a type."""
    names = {
        pa.int64(): "long",
        pa.string(): "string",
        pa.float64(): "double",
        pa.date32(): "date",
        pa.bool_(): "boolean",
    }
    return names.get(kind, "timestamp")


PUT, GONE, AMENDED = 0, 1, 2


def netted(rows: Iterable[Row], shape: Shape) -> tuple[pa.Table, pa.Array]:
    """Return the net row of each key of a merged table, and whether each is `PUT`, `GONE` or `AMENDED`.

    A row with `_gone` deletes the row of its key. A row with `_amends` sets the columns `shape.amendable` of the
    existing row, and does nothing if there is none.
    """
    assert shape.key is not None
    last: dict[Any, tuple[int, dict[str, Any]]] = {}
    for row in rows:
        key = row[shape.key]
        what = GONE if row.get("_gone") else AMENDED if row.get("_amends") else PUT
        values = {name: value for name, value in row.items() if name not in {"_gone", "_amends"}}
        if what == AMENDED:
            before, old = last.get(key, (AMENDED, {}))
            if before == GONE:
                continue
            amends = {name: values.get(name) for name in shape.amendable}
            what, values = before, {**old, shape.key: key, **amends}
        last[key] = what, values
    table = shape.rows([{shape.key: key} if what == GONE else row for key, (what, row) in last.items()])
    return table, pa.array([what for what, _ in last.values()], pa.int64())


@contextmanager
def storage_errors(uri: str, doing: str, kinds: Errors) -> Iterator[None]:
    """Turn errors of an engine or the file system into an `ExternalError` that says what to do."""
    try:
        yield
    except ExternalError:
        raise
    except kinds as error:
        problem = first_line(str(error)) or type(error).__name__
        raise ExternalError(
            f"{uri} could not be {doing} ({problem}). Nothing is lost: check the storage behind `output` "
            f"({way_out(problem, uri)}), and start again"
        ) from error


class OutputTable(ABC):
    """One output table, to which rows of commits are written once.

    Parameters
    ----------
    uri : the address of the table.
    shape : the columns and how they are kept.
    application, state_id : the owner of the table; a table of another application is refused.
    retention : how long versions and rows of the table stay.
    errors : the classes of the engine's errors.

    Attributes
    ----------
    is_new : whether the table was made just now.
    """

    def __init__(
        self, uri: str, shape: Shape, application: str, state_id: str, retention: Retention, errors: Errors
    ) -> None:
        self.uri = uri
        self.shape = shape
        self._state = state_id
        self._transactions = f"{state_id}/{shape.name}"
        self._retention = retention
        self._errors = errors
        self._tidied: datetime.date | None = None
        with storage_errors(uri, "opened", errors):
            self.is_new = not self._opened()
        with storage_errors(uri, "made", errors):
            if self.is_new:
                self._created({APPLICATION: application, STATE: state_id, **properties(shape, retention)})
        check_owner(uri, self._configuration(), application)
        with storage_errors(uri, "brought to this version", errors):
            self._evolve()

    @property
    @abstractmethod
    def published(self) -> int:
        """The last commit of this state that the table has; 0 before the first."""

    def publish(self, rows: Sequence[Row], upto: int) -> None:
        """Append rows of commits up to `upto`, or merge them where the table has a key; those it has are left out."""
        with storage_errors(self.uri, "written", self._errors):
            done, attempts = self.published, 0
            fresh = [row for row in rows if row["commit"] > done]
            while fresh:
                self._refuse_another_state()
                try:
                    self._write(fresh, upto)
                    return
                except self._errors as error:
                    attempts += 1
                    if attempts == ATTEMPTS or not self._is_conflict(error):
                        raise
                self._reopen()
                if self.published != done:
                    raise StateRefused(
                        f"{self.uri}: another process publishes commits of this state too. Stop one of them"
                    )

    def compact(self) -> None:
        """Join small files and forget expired versions. O(small files and log)."""
        self._upkeep(self._join, SMALL_FILES)

    def tidy(self, now: datetime.datetime) -> None:
        """Once a day, delete old rows and join medium-sized files; remove files that no version needs."""
        if self._tidied != now.date():
            day = self._retention.oldest_day(self.shape, now)
            if day is not None:
                self._upkeep(self._delete, f"{self.shape.aged_by} < '{day}'")
            self._upkeep(self._join, LARGE_FILES)
            self._tidied = now.date()
        self._upkeep(self._vacuum, -(-self._retention.of_log(self.shape) // datetime.timedelta(hours=1)))

    def _evolve(self) -> None:
        """Add the columns that a later version added, and the settings that were changed."""
        found, partition_by = self._columns()
        missing = missing_columns(self.uri, self.shape, found, partition_by)
        if missing:
            self._add([column for column in self.shape.columns if column[0] in missing])
        wanted, known = {STATE: self._state, **properties(self.shape, self._retention)}, self._configuration()
        changed = {name: value for name, value in wanted.items() if known.get(name) != value}
        if changed:
            self._set(changed)
        if missing or changed:
            self._reopen()

    def _refuse_another_state(self) -> None:
        """Raise if the table's properties name another state of this application: one that was started later."""
        writer = self._configuration().get(STATE)
        if writer not in {None, self._state}:
            raise StateRefused(
                f"{self.uri} is written to by another state of this application ({writer}), which was started later: "
                "two states cannot keep one set of tables. Stop one of them, or give it another `output` and another "
                "`name`"
            )

    def _upkeep(self, work: Callable[..., object], *given: object) -> None:
        """Do upkeep, or leave it for the next time where another process writes to the table meanwhile."""
        with storage_errors(self.uri, "tidied up", self._errors):
            try:
                work(*given)
            except self._errors as error:
                if not self._is_conflict(error):
                    raise
                _log.warning(
                    "%s: left untidy till next time, since another process writes to it: %s",
                    *(self.uri, first_line(str(error))),
                )
            self._reopen()

    @abstractmethod
    def _opened(self) -> bool:
        """Open the table; return whether it exists."""

    @abstractmethod
    def _created(self, settings: Mapping[str, str]) -> None:
        """Create the table; refuse a folder with other files."""

    @abstractmethod
    def _configuration(self) -> Mapping[str, str | None]:
        """Return the table's settings."""

    @abstractmethod
    def _columns(self) -> tuple[Mapping[str, str], Sequence[str]]:
        """Return Delta's name of the type of each column, and the columns that partition the table."""

    @abstractmethod
    def _add(self, columns: Sequence[Column]) -> None:
        """Add columns."""

    @abstractmethod
    def _set(self, settings: Mapping[str, str]) -> None:
        """Change settings."""

    @abstractmethod
    def _write(self, rows: Sequence[Row], upto: int) -> None:
        """Append or merge rows in one commit, with `upto` as the version of the transaction."""

    @abstractmethod
    def _is_conflict(self, error: BaseException) -> bool:
        """Whether a commit failed since another process committed meanwhile."""

    @abstractmethod
    def _join(self, size: int) -> None:
        """Join files smaller than `size` bytes."""

    @abstractmethod
    def _delete(self, condition: str) -> None:
        """Delete the rows that meet a condition of SQL."""

    @abstractmethod
    def _vacuum(self, hours: int) -> None:
        """Remove files that no version of the last hours needs."""

    def _reopen(self) -> None:  # noqa: B027 (Spark looks for the newest version by itself)
        """See the newest version of the table."""
