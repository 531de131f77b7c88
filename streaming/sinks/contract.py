"""What every writer of output tables promises, and what is the same for all of them.

A table is one application's, has the columns of its shape, and knows the last commit that it has of a state: its
*transaction*, named `<state id>/<table>`, whose version is the commit's number. A writer writes rows and that version
in one Delta commit, and leaves out rows of commits that the table has. So writers can take over from each other at
any commit, and doing something again changes nothing. The state that was started last is the table's: another one that
still writes is refused.
"""

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from holdfast.constraints import ExternalError, StateRefused
from holdfast.state.room import way_out
from holdfast.streaming.sinks.shapes import Shape

APPLICATION, STATE = "holdfast.application", "holdfast.state"
CHECKPOINT_EVERY = 20
ATTEMPTS = 5
SMALL_FILES, LARGE_FILES = 2 << 20, 64 << 20

Row = Mapping[str, Any]

_PLAIN_LOG = datetime.timedelta(hours=1)


class OutputTable(Protocol):
    """A table that takes rows of commits, and leaves out what it has."""

    @property
    def published(self) -> int:
        """The last commit of this state that the table has; 0 before the first."""

    @property
    def is_new(self) -> bool:
        """Whether it was made just now."""

    def publish(self, rows: Sequence[Row], upto: int) -> None:
        """Write the rows of commits up to `upto`."""

    def compact(self) -> None:
        """Join small files and forget old versions: often, in time that does not grow with the table."""

    def tidy(self, now: datetime.datetime) -> None:
        """Remove old rows and files that no version needs: seldom, may take seconds."""


@dataclass(frozen=True)
class Retention:
    """How long things stay.

    Parameters
    ----------
    log : versions of the table, so that others can follow its change feed from where they are.
    rows : rows of a table whose shape says when they are of age; None: for ever.
    """

    log: datetime.timedelta = datetime.timedelta(days=2)
    rows: datetime.timedelta | None = None

    def of_log(self, shape: Shape) -> datetime.timedelta:
        """Return how long versions of a table stay.

        Each commit lists the log's folder, so a long log makes all commits slow, and nobody follows tables without a
        change feed: their versions stay an hour at most, for those who are just reading one.
        """
        return self.log if shape.change_feed else min(self.log, _PLAIN_LOG)

    def hours_of_log(self, shape: Shape) -> int:
        """Return `of_log` in whole hours, as vacuuming wants it."""
        return -(-self.of_log(shape) // datetime.timedelta(hours=1))

    def oldest_day(self, shape: Shape, now: datetime.datetime) -> datetime.date | None:
        """Return the first day whose rows stay; None where all do. Rows go by whole days, so that files do."""
        if self.rows is None or shape.aged_by is None:
            return None
        return (now.astimezone(datetime.UTC) - self.rows).date()


def transactions(state_id: str, shape: Shape) -> str:
    """Return the name under which a state's commits are counted in a table."""
    return f"{state_id}/{shape.name}"


def properties(shape: Shape, retention: Retention) -> dict[str, str]:
    """Return the properties that make a table one that delta-rs and Spark both write, and that stays fast."""
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
    """Refuse a table of somebody else."""
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
    """Return the columns to add to a table of an earlier version; refuse one that differs otherwise.

    Parameters
    ----------
    found : Delta's name of the type of each column that is there.
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
    """Return what the rows of a merged table come to, one a key, and for each which of `PUT`, `GONE`, `AMENDED` it is.

    A row with `_gone` takes the row of its key away; one with `_amends` changes the columns `shape.amendable` of the
    row that is there, and nothing where there is none.
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
def storage_errors(uri: str, doing: str, kinds: tuple[type[BaseException], ...]) -> Iterator[None]:
    """Turn errors of an engine or the file system into one that says what to do."""
    try:
        yield
    except ExternalError:
        raise
    except kinds as error:
        raise ExternalError(
            f"{uri} could not be {doing} ({first_line(error)}). Nothing is lost: check the storage behind "
            f"`output` ({way_out(first_line(error), uri)}), and start again"
        ) from error


def first_line(error: BaseException) -> str:
    """Return what an error says on one line, without the pages that engines add."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).partition("JVM stacktrace")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    return " ".join(lines[:3])[:500] or type(error).__name__


def check_state(uri: str, configuration: Mapping[str, str | None], state_id: str) -> None:
    """Refuse a table that another state writes to by now: each one that starts says so in its settings."""
    writer = configuration.get(STATE)
    if writer not in {None, state_id}:
        raise StateRefused(
            f"{uri} is written to by another state of this application ({writer}), which was started later: two states "
            "cannot keep one set of tables. Stop one of them, or give it another `output` and another `name`"
        )


def other_writer(uri: str) -> StateRefused:
    """Return the error of a table to which this state's commits come from two sides."""
    return StateRefused(f"{uri}: another process publishes commits of this state too. Stop one of them")
