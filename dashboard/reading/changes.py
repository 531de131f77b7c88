"""The constraints that appeared and disappeared, newest first, indexed by the words of `constraint_changes`.

Invariant: a word, such as the name of a table, has one number as long as the index lives (see `change_index.py`).
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from holdfast.dashboard.reading.arrays import are_in, ints, last_of_each, marks, places_in, short_ids
from holdfast.dashboard.reading.change_index import Arrays, ChangeIndex
from holdfast.dashboard.reading.meaning import meaning, meaning_columns
from holdfast.dashboard.reading.outputs import Outputs, any_of
from holdfast.dashboard.reading.wording import in_words, witness
from holdfast.streaming.commits.incidents import exact_turns
from holdfast.tables.arrays import Positions

MOST = 3_000_000
CHANGES = "constraint_changes"
WORDS = ("table_name", "family", "kind", "change", "reason", "cause")

_CELLS = ds.field("constraint"), ds.field("sentence"), ds.field("by")


@dataclass(frozen=True)
class ChangeFilter:
    """Which changes a list shows.

    Parameters
    ----------
    filters : the required values of some of `WORDS`, by name.
    text : words of which each must occur in the constraint, its sentence, or the constraint that caused the change.
    constraint_id : the only constraint to show; None for all.
    until : the last commit to show, so that all pages of a list show the same commits.
    day : the last day to show, in UTC.
    muted : the constraints to leave out, by the first digits of their identities.
    """

    filters: Mapping[str, str]
    text: str = ""
    constraint_id: str | None = None
    until: int | None = None
    day: datetime.date | None = None
    muted: NDArray[np.uint64] | None = None


class ConstraintChanges(ChangeIndex):
    """The constraints that appeared and disappeared."""

    table: ClassVar[str] = CHANGES
    indexed: ClassVar[Sequence[str]] = (*WORDS, "exceptions", *meaning_columns(CHANGES))
    words: ClassVar[Sequence[str]] = WORDS
    details: ClassVar[Sequence[str]] = (
        *("commit", "committed_at", "source", "batch_id", "table_name", "referenced_table", "family", "constraint_id"),
        *("constraint", "sentence", "kind", "change", "reason", "by", "witness", "cause", "constraints_after"),
        "exceptions",
    )
    most: ClassVar[int] = MOST

    def __init__(self, outputs: Outputs, most: int | None = None) -> None:
        self._searched: dict[tuple[str, int], Positions] = {}
        super().__init__(outputs, most)

    def values(self, name: str) -> dict[str, int]:
        """Return the values of one of `WORDS`, each with the number of changes that have it."""
        with self._lock:
            counts = np.bincount(self._index[name], minlength=len(self._vocabulary[name]))
            return {word: int(counts[number]) for word, number in self._vocabulary[name].items() if word is not None}

    def page(self, wanted: ChangeFilter, offset: int, limit: int) -> dict[str, Any]:
        """Return a page of changes, newest first, and how many there are. O(known), and O(files of the page)."""
        with self._lock:
            found = self._positions(wanted)
            return self._paged(found, wanted.until, offset, limit)

    def since(self, moment_us: int, until_us: int, muted: NDArray[np.uint64]) -> dict[str, dict[str, int]]:
        """Return how many constraints appeared and disappeared in a span of time, by table, without seeds and edits.

        Parameters
        ----------
        muted : the constraints to leave out, by the first digits of their identities.
        """
        with self._lock:
            within = self._between(moment_us, until_us)
            by_data = self._index["cause"][within] == self.number("cause", "data")
            by_data &= ~are_in(self._index["id"][within], muted)
            found: dict[str, dict[str, int]] = {}
            for table, number in self._vocabulary["table_name"].items():
                of_table = by_data & (self._index["table_name"][within] == number)
                counts = {
                    change: int((of_table & (self._index["change"][within] == self.number("change", change))).sum())
                    for change in ("appeared", "disappeared")
                }
                if any(counts.values()):
                    found[str(table)] = counts
            return found

    def meaning_of(self, ids: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Return how much each of some distinct constraints meant when it last appeared. O(known).

        Parameters
        ----------
        ids : the first digits of identities.
        """
        found = np.zeros(len(ids), np.float32)
        index = self._index
        appeared = index["change"] == self.number("change", "appeared")
        at = places_in(index["id"][appeared], ids)
        asked = at >= 0
        found[at[asked]] = index["meaning"][appeared][asked]  # the last appearance of each remains
        return found

    def flaps(self, ids: NDArray[np.uint64]) -> list[int]:
        """Return how often each of some constraints disappeared and appeared again. O(known).

        Parameters
        ----------
        ids : the first digits of identities.
        """
        index = self._index
        mine = are_in(index["id"], ids)
        appeared = index["change"][mine] == self.number("change", "appeared")
        each = (appeared[index["id"][mine] == number] for number in ids)
        return [int(np.count_nonzero(one[1:] & ~one[:-1])) for one in each]

    def history(self, filters: Mapping[str, str], now: Mapping[str, int], points: int) -> dict[str, list[list[int]]]:
        """Return how many constraints of each family there were, as times in ms and counts. O(known).

        Parameters
        ----------
        filters : the required values of some of `WORDS`.
        now : how many constraints there are now, by family: counts are computed backwards from there.
        points : the largest number of points per family; each is the last count in its part of the time.
        """
        with self._lock:
            found = {}
            for family, number in self._vocabulary["family"].items():
                matching = self._matching(filters) & (self._index["family"] == number)
                if family is None or not matching.any():
                    continue
                times = self._index["time"][matching] // 1_000
                signs = np.where(self._index["change"][matching] == self.number("change", "appeared"), 1, -1)
                counts = np.cumsum(signs)
                counts += now.get(family, 0) - counts[-1]
                last = last_of_each(times, points)
                found[family] = np.column_stack([times[last], counts[last]]).tolist()
            return found

    def _numbered(self, columns: Mapping[str, Any]) -> Arrays:
        self._searched.clear()
        numbers: Arrays = {name: self._numbers(name, columns[name]) for name in WORDS}
        return {**numbers, "turn": exact_turns(columns), "meaning": meaning(columns)}

    def _change_numbers(self, changes: Any) -> NDArray[Any]:
        return self._numbers("change", changes)

    def _where(self, page: Positions) -> ds.Expression:
        commits = np.unique(self._index["commit"][page]).tolist()
        where = any_of("commit", commits)
        return where & self._ids_at(page) if len(commits) == 1 else where  # a seed has thousands in one commit

    def number(self, name: str, word: str) -> int:
        """Return the number of a value of one of `WORDS` in the index; -1 where it has none."""
        return self._vocabulary[name].get(word, -1)

    def _matching(self, filters: Mapping[str, str]) -> NDArray[np.bool_]:
        masks = (self._index[name] == self.number(name, value) for name, value in filters.items())
        return reduce(and_, masks, np.ones(self.total, np.bool_))

    def _positions(self, wanted: ChangeFilter) -> Positions:
        matching = self._matching(wanted.filters)
        if wanted.until is not None:
            matching &= self._index["commit"] <= wanted.until
        if wanted.day is not None:
            matching &= self._index["time"] < np.datetime64(wanted.day + datetime.timedelta(days=1), "us").astype(
                np.int64
            )
        if wanted.muted is not None and len(wanted.muted):
            matching &= ~are_in(self._index["id"], wanted.muted)
        if wanted.constraint_id is not None:
            matching &= self._of(wanted.constraint_id)
        if wanted.text.strip():
            searched = np.zeros(self.total, np.bool_)
            searched[self._search(wanted.text)] = True
            matching &= searched
        return np.flatnonzero(matching)

    def _search(self, text: str) -> Positions:
        """Return the positions of the changes that have all words of a text. Cached until there are new changes."""
        key = " ".join(text.lower().split()), self._version
        if key not in self._searched:
            found = self._outputs.read(CHANGES, ("commit", "constraint_id"), _has_words(text))
            found_marks = marks(ints(found["commit"]), short_ids(found["constraint_id"]))
            if len(self._searched) >= _MOST_SEARCHES:
                self._searched.clear()
            self._searched[key] = np.flatnonzero(np.isin(marks(self._index["commit"], self._index["id"]), found_marks))
        return self._searched[key]

    def _shown(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"by_sentence": in_words(row["by"]), "witness": witness(row["witness"], row["constraint"])}


_MOST_SEARCHES = 32


def _has_words(text: str) -> ds.Expression:
    """Return the condition that each word of a text occurs in one of the texts of a constraint."""
    words = text.split()
    return reduce(and_, (reduce(or_, (_occurs_in(field, word) for field in _CELLS)) for word in words))


def _occurs_in(field: ds.Expression, word: str) -> ds.Expression:
    return pc.coalesce(pc.match_substring(field, word, ignore_case=True), pa.scalar(value=False))
