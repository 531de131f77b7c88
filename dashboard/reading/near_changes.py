"""The changes of near constraints, newest first, indexed by kind, cause and counts.

course   of one constraint: its number of exceptions over time
movers   the constraints whose number of exceptions changed most in a span of time
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from holdfast.dashboard.reading.arrays import are_in, ints, last_of_each
from holdfast.dashboard.reading.change_index import Arrays, ChangeIndex
from holdfast.dashboard.reading.outputs import any_of
from holdfast.dashboard.reading.wording import rows_below
from holdfast.streaming.commits.incidents import near_turns
from holdfast.tables.arrays import Positions

NEAR_CHANGES = "near_changes"

_KINDS = ("entered", "left", "exceptions")
ENTERED, LEFT = 0, 1
UNKNOWN = -1


class NearConstraintChanges(ChangeIndex):
    """The changes of near constraints: those that entered, left, or have another number of exceptions."""

    table: ClassVar[str] = NEAR_CHANGES
    indexed: ClassVar[Sequence[str]] = ("table_name", "change", "reason", "cause", "exceptions_before", "exceptions")
    words: ClassVar[Sequence[str]] = ("table_name",)
    details: ClassVar[Sequence[str]] = (
        *("commit", "committed_at", "source", "batch_id", "constraint_id", "table_name", "shape", "constraint"),
        *("sentence", "change", "exceptions_before", "exceptions", "rows", "share", "examples", "cause"),
    )
    most: ClassVar[int] = 1_000_000

    def course(self, constraint_id: str, points: int) -> list[list[int | None]]:
        """Return the number of exceptions of a constraint over time: times in ms and counts. O(known changes).

        From when the constraint left, the count is None.

        Parameters
        ----------
        points : the largest number of counts; each is the last count in its part of the time.
        """
        with self._lock:
            found = np.flatnonzero(self._of(constraint_id))
            if not len(found):
                return []
            times = self._index["time"][found] // 1_000
            course: list[list[int | None]] = []
            for place in last_of_each(times, points).tolist():
                course.append([int(times[place]), int(self._index["exceptions"][found[place]])])
                if self._index["change"][found[place]] == LEFT:
                    course.append([int(times[place]), None])
            return course

    def page(self, constraint_id: str, until: int | None, offset: int, limit: int) -> dict[str, Any]:
        """Return a page of the changes of a constraint, newest first, and how many there are.

        O(known changes), and O(files of the page).
        """
        with self._lock:
            matching = self._of(constraint_id)
            if until is not None:
                matching &= self._index["commit"] <= until
            where = any_of("constraint_id", [constraint_id])
            return self._paged(np.flatnonzero(matching), until, offset, limit, where)

    def moved(self, moment_us: int, until_us: int, most: int, muted: NDArray[np.uint64]) -> dict[str, Any]:
        """Return how many constraints entered and left in a span of time, and whose exceptions changed most.

        Seeds and edited configurations do not count. O(changes of the span), and O(files of the changes returned).

        Parameters
        ----------
        most : how many of the constraints whose exceptions changed are returned at most.
        muted : the constraints to leave out, by the first digits of their identities.
        """
        with self._lock:
            span = self._between(moment_us, until_us)
            counted = self._index["by_data"][span] & ~are_in(self._index["id"][span], muted)
            within = np.arange(span.start, span.stop)[counted]
            kinds, ids = self._index["change"][within], self._index["id"][within]
            _, opening, of = np.unique(ids, return_index=True, return_inverse=True)
            closing = np.zeros(len(opening), np.intp)
            closing[of] = np.arange(len(within))  # the last change of each constraint remains
            opening, closing = within[opening], within[closing]
            before, after = self._index["before"][opening], self._index["exceptions"][closing]
            before = np.where(before != UNKNOWN, before, self._index["exceptions"][opening])
            moved = after - before
            largest = np.argsort(-np.abs(moved), kind="stable")[:most]
            largest = largest[moved[largest] != 0]
            opened = {int(self._index["id"][closing[i]]): int(before[i]) for i in largest.tolist()}
            rows = self._details(closing[largest])
            return {
                "entered": int((kinds == ENTERED).sum()),
                "left": int((kinds == LEFT).sum()),
                "moved": int((moved != 0).sum()),
                "rows": [{**row, "exceptions_before": opened[int(row["constraint_id"][:16], 16)]} for row in rows],
            }

    def flaps(self, ids: NDArray[np.uint64]) -> list[int]:
        """Return how often each of some constraints held again without exceptions, after it had held before. O(known).

        Parameters
        ----------
        ids : the first digits of identities.
        """
        mine = are_in(self._index["id"], ids)
        index = {name: self._index[name][mine] for name in ("id", "change", "exceptions", "before")}
        holds = (index["change"] != LEFT) & (index["exceptions"] == 0)
        found = []
        for number in ids:
            of = index["id"] == number
            held = np.concatenate([index["before"][of][:1] == 0, holds[of]])
            found.append(max(0, int(held[:1].sum() + np.count_nonzero(held[1:] & ~held[:-1])) - 1))
        return found

    def _numbered(self, columns: Mapping[str, Any]) -> Arrays:
        return {
            "table_name": self._numbers("table_name", columns["table_name"]),
            "change": self._change_numbers(columns["change"]),
            "by_data": np.asarray(pc.equal(columns["cause"], "data").fill_null(fill_value=False)),
            "before": ints(columns["exceptions_before"].fill_null(UNKNOWN)),
            "exceptions": ints(columns["exceptions"].fill_null(0)),
            "turn": near_turns(columns),
        }

    def _change_numbers(self, changes: Any) -> NDArray[Any]:
        return ints(pc.index_in(changes, pa.array(_KINDS)).fill_null(UNKNOWN)).astype(np.int8)

    def _where(self, page: Positions) -> ds.Expression:
        commits = np.unique(self._index["commit"][page]).tolist()
        commit = ds.field("commit")  # the range leaves out files, and many alternatives are slow
        within = (commit >= commits[0]) & (commit <= commits[-1]) & commit.isin(commits)
        return within & self._ids_at(page)

    def _shown(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"examples": _examples(row["examples"], row["constraint"])}


def _examples(text: str | None, constraint: str) -> dict[str, Any] | None:
    """Return the rows that became exceptions with a change; None where the table lists none.

    A row is given as its values, or as an image with its key and its values, as in a witness.

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
