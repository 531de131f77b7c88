"""What became of the constraints that nearly hold: an index of all changes in memory, details from the files.

    index    commit, time, identity, kind, cause and counts of each change, 42 bytes; ordered by commit
    course   of one constraint: how many exceptions it had when
    movers   the constraints whose exceptions changed most in a time
    details  texts and rows, read for the changes that are shown

Invariant: the index holds each change of the newest `MOST` once; commits come in order, as in `changes.py`.
"""

import json
import threading
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from holdfast.dashboard.reading.arrays import ints, last_of_each, short_ids
from holdfast.dashboard.reading.outputs import Outputs, any_of
from holdfast.dashboard.reading.wording import rows_below
from holdfast.tables.arrays import Positions

MOST = 1_000_000
NEAR_CHANGES = "near_changes"

_KINDS = ("entered", "left", "exceptions")
_ENTERED, _LEFT = 0, 1
_UNKNOWN = -1
_INDEXED = ("commit", "committed_at", "constraint_id", "change", "cause", "exceptions_before", "exceptions")
_DETAILS = (
    *("commit", "committed_at", "source", "batch_id", "constraint_id", "table_name", "shape", "constraint"),
    *("sentence", "change", "exceptions_before", "exceptions", "rows", "share", "examples", "cause"),
)


class NearChanges:
    """The changes of what nearly holds in one application.

    Parameters
    ----------
    outputs : where they are read from.
    most : how many are known, the newest.
    """

    def __init__(self, outputs: Outputs, most: int = MOST) -> None:
        self._outputs = outputs
        self._most = most
        self._lock = threading.Lock()
        self._version = -1
        self._commits = np.zeros(0, np.int64)
        self._times = np.zeros(0, np.int64)
        self._ids = np.zeros(0, np.uint64)
        self._kinds = np.zeros(0, np.int8)
        self._by_data = np.zeros(0, np.bool_)
        self._before = np.zeros(0, np.int64)
        self._exceptions = np.zeros(0, np.int64)

    def refresh(self) -> None:
        """Take in what has come. O(what is new), and O(known) to make room for it."""
        with self._lock:
            version = self._outputs.version(NEAR_CHANGES)
            if version == self._version:
                return
            last = int(self._commits[-1]) if len(self._commits) else -1
            self._add(self._outputs.batches(NEAR_CHANGES, _INDEXED, ds.field("commit") > last))
            self._version = version

    @property
    def total(self) -> int:
        """How many changes are known."""
        return len(self._commits)

    @property
    def left_out(self) -> int:
        """How many older changes the table has."""
        return max(0, self._outputs.count(NEAR_CHANGES) - self.total) if self.total >= self._most else 0

    def course(self, constraint_id: str, points: int) -> list[list[int | None]]:
        """Return how many exceptions a constraint had, as times in ms and counts; None from when it left on. O(known).

        Parameters
        ----------
        points : the most counts; each is the last one of its time.
        """
        with self._lock:
            found = self._positions(constraint_id, None)
            if not len(found):
                return []
            times = self._times[found] // 1_000
            course: list[list[int | None]] = []
            for place in last_of_each(times, points).tolist():
                course.append([int(times[place]), int(self._exceptions[found[place]])])
                if self._kinds[found[place]] == _LEFT:
                    course.append([int(times[place]), None])
            return course

    def page(self, constraint_id: str, until: int | None, offset: int, limit: int) -> dict[str, Any]:
        """Return some changes of a constraint, newest first, and how many there are.

        O(known), and O(files that the page is from).
        """
        with self._lock:
            found = self._positions(constraint_id, until)
            until = int(self._commits[-1]) if until is None and self.total else until
            page = found[::-1][offset : offset + limit]
            return {"total": len(found), "until": until or 0, "rows": self._details(page, [constraint_id])}

    def moved(self, moment_us: int, until_us: int, most: int) -> dict[str, Any]:
        """Return what batches did in a time: how many constraints entered and left, and whose exceptions moved most.

        O(changes of the time), and O(files that the movers are from). Seeds and edits do not count.

        Parameters
        ----------
        most : how many of them are told of.
        """
        with self._lock:
            first, end = np.searchsorted(np.maximum.accumulate(self._times), [moment_us, until_us + 1])
            within = np.arange(first, end)[self._by_data[first:end]]
            kinds = self._kinds[within]
            _, opening, of = np.unique(self._ids[within], return_index=True, return_inverse=True)
            closing = np.zeros(len(opening), np.intp)
            closing[of] = np.arange(len(within))  # the last one of each stays
            opening, closing = within[opening], within[closing]
            known = self._before[opening] != _UNKNOWN
            before = np.where(known, self._before[opening], self._exceptions[opening])
            moved = self._exceptions[closing] - before
            largest = np.argsort(-np.abs(moved), kind="stable")[:most]
            largest = largest[moved[largest] != 0]
            named = {int(self._ids[closing[i]]): int(before[i]) for i in largest.tolist()}
            told = self._details(closing[largest], None)
            return {
                "entered": int((kinds == _ENTERED).sum()),
                "left": int((kinds == _LEFT).sum()),
                "moved": int((moved != 0).sum()),
                "rows": [{**row, "exceptions_before": named[int(row["constraint_id"][:16], 16)]} for row in told],
            }

    def _add(self, found: Iterable[pa.RecordBatch]) -> None:
        """Put new changes behind those that are known."""
        pieces = [_indexed(batch) for batch in found]
        if not pieces:
            return
        columns: list[NDArray[Any]] = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
        order = np.argsort(columns[0], kind="stable")[-self._most :]
        kept = slice(max(0, self.total + len(order) - self._most), None)
        known: list[NDArray[Any]] = [
            *(self._commits, self._times, self._ids, self._kinds),
            *(self._by_data, self._before, self._exceptions),
        ]
        self._commits, self._times, self._ids, self._kinds, self._by_data, self._before, self._exceptions = (
            np.concatenate([old[kept], new[order]]) for old, new in zip(known, columns, strict=True)
        )

    def _positions(self, constraint_id: str, until: int | None) -> Positions:
        matching = self._ids == short_ids(pa.chunked_array([[constraint_id]]))[0]
        if until is not None:
            matching &= self._commits <= until
        return np.flatnonzero(matching)

    def _details(self, page: Positions, ids: Sequence[str] | None) -> list[dict[str, Any]]:
        """Return what is shown of changes, in their order.

        Parameters
        ----------
        ids : the constraints that they are of, where that is known.
        """
        if not len(page):
            return []
        commits = np.unique(self._commits[page]).tolist()
        days = np.unique(self._times[page].astype("datetime64[us]").astype("datetime64[D]")).tolist()
        commit = ds.field("commit")  # the range leaves out files, and many alternatives are slow
        where = any_of("date", days) & (commit >= commits[0]) & (commit <= commits[-1]) & commit.isin(commits)
        if ids is not None:
            where &= any_of("constraint_id", ids)
        else:
            prefixes = (f"{number:016x}" for number in np.unique(self._ids[page]).tolist())
            where &= reduce(or_, (pc.starts_with(ds.field("constraint_id"), pattern=prefix) for prefix in prefixes))
        found = self._outputs.read(NEAR_CHANGES, _DETAILS, where)
        keys = _keys(ints(found["commit"]), short_ids(found["constraint_id"]), _numbered(found["change"]))
        place = {key: row for row, key in enumerate(keys)}
        wanted = _keys(self._commits[page], self._ids[page], self._kinds[page])
        rows = [place[key] for key in wanted if key in place]
        return [_shown(row) for row in found.take(pa.array(rows, pa.int64())).to_pylist()]


def _indexed(batch: pa.RecordBatch) -> list[NDArray[Any]]:
    return [
        ints(batch["commit"]),
        ints(batch["committed_at"].cast(pa.int64())),
        short_ids(batch["constraint_id"]),
        _numbered(batch["change"]),
        np.asarray(pc.equal(batch["cause"], "data").fill_null(fill_value=False).to_numpy(zero_copy_only=False)),
        ints(batch["exceptions_before"].fill_null(_UNKNOWN)),
        ints(batch["exceptions"].fill_null(0)),
    ]


def _numbered(changes: Any) -> NDArray[np.int8]:
    return ints(pc.index_in(changes, pa.array(_KINDS)).fill_null(_UNKNOWN)).astype(np.int8)


def _keys(commits: NDArray[Any], ids: NDArray[Any], kinds: NDArray[Any]) -> list[tuple[int, int, int]]:
    return list(zip(commits.tolist(), ids.tolist(), kinds.tolist(), strict=True))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    shown = {name: row[name] for name in _DETAILS if name not in {"committed_at", "examples"}}
    shown["id"] = f"{row['commit']}-{row['constraint_id'][:16]}-{row['change']}"
    shown["at"] = row["committed_at"].isoformat()
    shown["examples"] = _examples(row["examples"], row["constraint"])
    return shown


def _examples(text: str | None, constraint: str) -> dict[str, Any] | None:
    """Return the rows that became exceptions with a change; None where none are told.

    A row is its values, or an image as in a witness, with its key apart.

    >>> found = _examples('[{"key": {"Id": 3}, "row": {"Zip": "01907"}}, {"Id": 4, "Zip": null}]', "key(Zip)")
    >>> [column["name"] for column in found["columns"]], found["rows"]
    (['Zip', 'Id'], [['01907', '3'], [None, '4']])
    """
    given = json.loads(text) if text else []
    if not given:
        return None
    images = [row if isinstance(row.get("row"), dict) and row.keys() <= _IMAGE else {"row": row} for row in given]
    keys, rows = ([image.get(name) or {} for image in images] for name in ("key", "row"))
    about = [{"undecided": image.get("undecided")} for image in images]
    return {**rows_below(keys, rows, constraint), "about": about}


_IMAGE = {"key", "row", "undecided"}
