"""An index in memory of the newest rows of an output table of changes; texts and rows are read for a page alone.

    index    commit, time, identity, change and turn of each row, and numbers that a table adds; ordered by commit
    details  texts and witnesses, read from the files for the changes of one page

The *turn* of a change is what it means to people who watch (`streaming/commits/incidents.py`).

Invariant: the index holds each of the newest changes once. Commits only grow, so that new rows have a higher commit
than all known rows; files that were compacted bring nothing new.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from holdfast.dashboard.reading.arrays import ints, short_ids
from holdfast.dashboard.reading.outputs import Outputs, any_of
from holdfast.streaming.commits.incidents import TURNS
from holdfast.streaming.sinks.shapes import SHAPES
from holdfast.tables.arrays import Ints16, Positions

Arrays = dict[str, NDArray[Any]]


class ChangeIndex(ABC):
    """The changes in one output table.

    Parameters
    ----------
    outputs : the output tables.
    most : how many changes are indexed, the newest.
    """

    table: ClassVar[str]
    indexed: ClassVar[Sequence[str]]
    """The columns that the index is made of, beside commit, time and identity."""
    words: ClassVar[Sequence[str]]
    """Those of `indexed` whose values have numbers: a word has one number as long as the index lives."""
    details: ClassVar[Sequence[str]]
    """The columns that are read for a page."""
    most: ClassVar[int]

    def __init__(self, outputs: Outputs, most: int | None = None) -> None:
        self._outputs = outputs
        self._most = self.most if most is None else most
        self._lock = threading.Lock()
        self._vocabulary: dict[str, dict[str | None, int]] = {name: {} for name in self.words}
        self._version = -1
        self._index: Arrays = self._indexed(SHAPES[self.table].arrow.empty_table())

    def refresh(self) -> None:
        """Index new changes. O(new changes), and O(known changes) to make room for them."""
        with self._lock:
            version = self._outputs.version(self.table)
            if version == self._version:
                return
            columns = ("commit", "committed_at", "constraint_id", *self.indexed)
            self._add(self._outputs.batches(self.table, columns, ds.field("commit") > self.last_commit))
            self._version = version

    @property
    def version(self) -> int:
        """The version of the table that is indexed."""
        return self._version

    @property
    def total(self) -> int:
        """How many changes are indexed."""
        return len(self._index["commit"])

    @property
    def tables(self) -> list[str]:
        """The names of tables by their numbers in the index."""
        return [str(name) for name in self._vocabulary["table_name"]]

    def window(self, after: int) -> Arrays:
        """Return the index columns of the changes of later commits. They do not change any more. O(1)."""
        index = self._index
        first = int(np.searchsorted(index["commit"], after, side="right"))
        return {name: column[first:] for name, column in index.items()}

    def last_before(self, moment_us: int) -> int:
        """Return the last commit before a time, in microseconds since 1970; -1 where there is none. O(known)."""
        index = self._index
        first = int(np.searchsorted(np.maximum.accumulate(index["time"]), moment_us))
        return int(index["commit"][first - 1]) if first else -1

    def brief(
        self, commits: NDArray[np.int64], ids: NDArray[np.uint64], columns: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return columns of the changes of some constraints with some commits, in this order, where they are known.

        O(changes of the commits), and O(files with them).
        """
        with self._lock:
            places = [self._place(*pair) for pair in zip(commits.tolist(), ids.tolist(), strict=True)]
            page = np.array([place for place in places if place >= 0], np.int64)
            found = self._found(page, ("commit", "constraint_id", "change", *columns)) if len(page) else []
        return [{name: row[name] for name in ("commit", "constraint_id", *columns)} for row in found]

    def _place(self, commit: int, number: int) -> int:
        """Return the position of a constraint's change with a commit; -1 where it is not known."""
        first, end = np.searchsorted(self._index["commit"], [commit, commit + 1])
        found = np.flatnonzero(self._index["id"][first:end] == np.uint64(number))
        return int(first + found[0]) if len(found) else -1

    @property
    def left_out(self) -> int:
        """How many older changes of the table are not indexed."""
        return max(0, self._outputs.count(self.table) - self.total) if self.total >= self._most else 0

    @abstractmethod
    def _numbered(self, columns: Mapping[str, Any]) -> Arrays:
        """Return further index columns of some rows by name, `change` among them."""

    @abstractmethod
    def _change_numbers(self, changes: Any) -> NDArray[Any]:
        """Return the values of the column `change` as the index has them."""

    @abstractmethod
    def _where(self, page: Positions) -> ds.Expression:
        """Return a condition that the rows of the changes at some positions satisfy, and few other rows."""

    @abstractmethod
    def _shown(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a change that are not plain columns of the table."""

    @property
    def last_commit(self) -> int:
        """The last commit of the index; -1 without changes."""
        return int(self._index["commit"][-1]) if self.total else -1

    def _add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add changes batch by batch, so that texts are dropped once they are numbers."""
        parts = [self._indexed(batch) for batch in batches]
        if not parts:
            return
        new = {name: np.concatenate([part[name] for part in parts]) for name in self._index}
        order = np.argsort(new["commit"], kind="stable")[-self._most :]
        kept = slice(max(0, self.total + len(order) - self._most), None)
        self._index = {name: np.concatenate([known[kept], new[name][order]]) for name, known in self._index.items()}

    def _indexed(self, batch: Any) -> Arrays:
        return {
            "commit": ints(batch["commit"]),
            "time": ints(batch["committed_at"].cast(pa.int64())),
            "id": short_ids(batch["constraint_id"]),
            **self._numbered({name: batch[name] for name in self.indexed}),
        }

    def has(self, constraint_id: str) -> bool:
        """Whether a change of a constraint is known. O(known)."""
        return bool(self._of(constraint_id).any())

    @abstractmethod
    def flaps(self, ids: NDArray[np.uint64]) -> list[int]:
        """Return how often each of some constraints ended and came back, given first digits of identities. O(known)."""

    def flaps_of(self, constraint_id: str) -> int:
        """Return how often a constraint ended and came back. O(known)."""
        return self.flaps(short_ids(pa.array([constraint_id])))[0]

    def _of(self, constraint_id: str) -> NDArray[np.bool_]:
        """Return which changes are of a constraint."""
        matching: NDArray[np.bool_] = self._index["id"] == short_ids(pa.chunked_array([[constraint_id]]))[0]
        return matching

    def _between(self, first_us: int, last_us: int) -> slice:
        """Return the positions of the changes between two times, in microseconds since 1970."""
        first, end = np.searchsorted(np.maximum.accumulate(self._index["time"]), [first_us, last_us + 1])
        return slice(int(first), int(end))

    def _paged(
        self, found: Positions, until: int | None, offset: int, limit: int, *where: ds.Expression
    ) -> dict[str, Any]:
        """Return a page of the changes at some positions, newest first, and how many positions there are.

        Parameters
        ----------
        until : the last commit of the list; None for the newest.
        offset, limit : how many changes stand before the page, and how many it has at most.
        where : further conditions that the rows of these changes satisfy, so that fewer files are read.
        """
        until = self.last_commit if until is None and self.total else until
        rows = self._details(found[::-1][offset : offset + limit], *where)
        return {"total": len(found), "until": until or 0, "rows": rows}

    def _details(self, page: Positions, *where: ds.Expression) -> list[dict[str, Any]]:
        """Return the details of the changes at some positions, in this order."""
        if not len(page):
            return []
        return [self._as_shown(row) for row in self._found(page, self.details, *where)]

    def _found(self, page: Positions, columns: Sequence[str], *where: ds.Expression) -> list[dict[str, Any]]:
        """Return columns of the changes at some positions, in this order; commit, identity and change among them.

        Each row has its turn too, None where it has none.
        """
        index = {name: self._index[name][page] for name in ("commit", "time", "id", "change", "turn")}
        days = np.unique(index["time"].astype("datetime64[us]").astype("datetime64[D]")).tolist()
        condition = reduce(and_, (any_of("date", days), self._where(page), *where))
        found = self._outputs.read(self.table, columns, condition)
        keys = (ints(found["commit"]), short_ids(found["constraint_id"]), self._change_numbers(found["change"]))
        rows = {key: row for row, key in enumerate(_keys(*keys))}
        wanted = zip(_keys(index["commit"], index["id"], index["change"]), index["turn"].tolist(), strict=True)
        places = {rows[key]: TURNS.get(turn) for key, turn in wanted if key in rows}
        taken = found.take(pa.array(list(places), pa.int64())).to_pylist()
        return [{**row, "turn": turn} for row, turn in zip(taken, places.values(), strict=True)]

    def _as_shown(self, row: dict[str, Any]) -> dict[str, Any]:
        shown = {name: row[name] for name in (*self.details, "turn") if name != "committed_at"}
        shown["id"] = f"{row['commit']}-{row['constraint_id'][:16]}-{row['change']}"
        shown["at"] = row["committed_at"].isoformat()
        return {**shown, **self._shown(row)}

    def _numbers(self, name: str, column: Any) -> Ints16:
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded = array.dictionary_encode(null_encoding="encode")
        known = self._vocabulary[name]
        places = [known.setdefault(word, len(known)) for word in encoded.dictionary.to_pylist()]
        return np.array(places, np.int16)[ints(encoded.indices)] if places else np.zeros(0, np.int16)

    def _ids_at(self, page: Positions) -> ds.Expression:
        """Return the condition that a row is of a constraint at one of some positions, by the first 16 digits."""
        digits = (f"{number:016x}" for number in np.unique(self._index["id"][page]).tolist())
        return reduce(or_, (pc.starts_with(ds.field("constraint_id"), pattern=first) for first in digits))


def _keys(commits: NDArray[Any], ids: NDArray[Any], changes: NDArray[Any]) -> list[tuple[int, int, int]]:
    return list(zip(commits.tolist(), ids.tolist(), changes.tolist(), strict=True))
