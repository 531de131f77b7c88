"""An index in memory of the newest rows of an output table of changes; texts and rows are read for a page alone.

    index    commit, time, identity and change of each row, and numbers that a table adds; ordered by commit
    details  texts and witnesses, read from the files for the changes of one page

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
from holdfast.streaming.sinks.shapes import SHAPES
from holdfast.tables.arrays import Positions

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
    details: ClassVar[Sequence[str]]
    """The columns that are read for a page."""
    most: ClassVar[int]

    def __init__(self, outputs: Outputs, most: int | None = None) -> None:
        self._outputs = outputs
        self._most = self.most if most is None else most
        self._lock = threading.Lock()
        self._version = -1
        self._index: Arrays = self._indexed(SHAPES[self.table].arrow.empty_table())

    def refresh(self) -> None:
        """Index new changes. O(new changes), and O(known changes) to make room for them."""
        with self._lock:
            version = self._outputs.version(self.table)
            if version == self._version:
                return
            columns = ("commit", "committed_at", "constraint_id", *self.indexed)
            self._add(self._outputs.batches(self.table, columns, ds.field("commit") > self._last_commit))
            self._version = version

    @property
    def total(self) -> int:
        """How many changes are indexed."""
        return len(self._index["commit"])

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
    def _last_commit(self) -> int:
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
        until = self._last_commit if until is None and self.total else until
        rows = self._details(found[::-1][offset : offset + limit], *where)
        return {"total": len(found), "until": until or 0, "rows": rows}

    def _details(self, page: Positions, *where: ds.Expression) -> list[dict[str, Any]]:
        """Return the details of the changes at some positions, in this order."""
        if not len(page):
            return []
        index = {name: self._index[name][page] for name in ("commit", "time", "id", "change")}
        days = np.unique(index["time"].astype("datetime64[us]").astype("datetime64[D]")).tolist()
        condition = reduce(and_, (any_of("date", days), self._where(page), *where))
        found = self._outputs.read(self.table, self.details, condition)
        keys = (ints(found["commit"]), short_ids(found["constraint_id"]), self._change_numbers(found["change"]))
        rows = {key: row for row, key in enumerate(_keys(*keys))}
        wanted = [rows[key] for key in _keys(index["commit"], index["id"], index["change"]) if key in rows]
        return [self._as_shown(row) for row in found.take(pa.array(wanted, pa.int64())).to_pylist()]

    def _as_shown(self, row: dict[str, Any]) -> dict[str, Any]:
        shown = {name: row[name] for name in self.details if name != "committed_at"}
        shown["id"] = f"{row['commit']}-{row['constraint_id'][:16]}-{row['change']}"
        shown["at"] = row["committed_at"].isoformat()
        return {**shown, **self._shown(row)}

    def _ids_at(self, page: Positions) -> ds.Expression:
        """Return the condition that a row is of a constraint at one of some positions, by the first 16 digits."""
        digits = (f"{number:016x}" for number in np.unique(self._index["id"][page]).tolist())
        return reduce(or_, (pc.starts_with(ds.field("constraint_id"), pattern=first) for first in digits))


def _keys(commits: NDArray[Any], ids: NDArray[Any], changes: NDArray[Any]) -> list[tuple[int, int, int]]:
    return list(zip(commits.tolist(), ids.tolist(), changes.tolist(), strict=True))
