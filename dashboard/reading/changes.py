"""Every constraint that appeared or disappeared, newest first: an index in memory, details from the files.

    index    commit, time, identity and five short words of each change, 31 bytes; ordered by commit
    details  texts and witnesses, read for the changes of one page

Invariant: the index holds each change of the newest `MOST` once. Commits come in order, so that what is new has a
higher one than all that is known; files that were rewritten bring nothing new.
"""

import datetime
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from holdfast.dashboard.reading.arrays import ints, last_of_each, short_ids
from holdfast.dashboard.reading.outputs import Outputs, any_of
from holdfast.dashboard.reading.wording import in_words, witness
from holdfast.tables.arrays import Ints16, Positions

MOST = 3_000_000
CHANGES = "constraint_changes"
WORDS = ("table_name", "family", "kind", "change", "reason", "cause")

_INDEXED = ("commit", "committed_at", "constraint_id", *WORDS)
_DETAILS = (
    *("commit", "committed_at", "source", "batch_id", "table_name", "referenced_table", "family", "constraint_id"),
    *("constraint", "sentence", "kind", "change", "reason", "by", "witness", "cause", "constraints_after"),
    "exceptions",
)
_CELLS = ds.field("constraint"), ds.field("sentence"), ds.field("by")


@dataclass(frozen=True)
class Wanted:
    """Which changes are asked for.

    Parameters
    ----------
    words : the value that some of `WORDS` has to have, by name.
    text : every word of it stands in the constraint, its sentence or what it is due to.
    constraint_id : of one constraint alone.
    until : the last commit that is looked at: pages of one list stay those of one moment.
    day : the last day that is looked at, in UTC.
    """

    words: Mapping[str, str]
    text: str = ""
    constraint_id: str | None = None
    until: int | None = None
    day: datetime.date | None = None


class Changes:
    """The changes of one application.

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
        self._words: dict[str, Ints16] = {name: np.zeros(0, np.int16) for name in WORDS}
        self._vocabulary: dict[str, dict[str | None, int]] = {name: {} for name in WORDS}
        self._searched: dict[tuple[str, int], Positions] = {}

    def refresh(self) -> None:
        """Take in what has come. O(what is new), and O(known) to make room for it."""
        with self._lock:
            version = self._outputs.version(CHANGES)
            if version == self._version:
                return
            last = int(self._commits[-1]) if len(self._commits) else -1
            self._add(self._outputs.batches(CHANGES, _INDEXED, ds.field("commit") > last))
            self._version = version

    @property
    def total(self) -> int:
        """How many changes are known."""
        return len(self._commits)

    @property
    def left_out(self) -> int:
        """How many older changes the table has."""
        return max(0, self._outputs.count(CHANGES) - self.total) if self.total >= self._most else 0

    def values(self, name: str) -> dict[str, int]:
        """Return the values of one of `WORDS`, each with how many changes have it."""
        with self._lock:
            counts = np.bincount(self._words[name], minlength=len(self._vocabulary[name]))
            return {word: int(counts[number]) for word, number in self._vocabulary[name].items() if word is not None}

    def page(self, wanted: Wanted, offset: int, limit: int) -> dict[str, Any]:
        """Return some changes, newest first, and how many there are. O(known), and O(files that the page is from)."""
        with self._lock:
            found = self._positions(wanted)
            until = int(self._commits[-1]) if wanted.until is None and self.total else wanted.until
            page = found[::-1][offset : offset + limit]
            return {"total": len(found), "until": until or 0, "rows": self._details(page)}

    def since(self, moment_us: int, until_us: int) -> dict[str, dict[str, int]]:
        """Return how many constraints appeared and disappeared in a time, by table; seeds and edits do not count."""
        with self._lock:
            first, end = np.searchsorted(np.maximum.accumulate(self._times), [moment_us, until_us + 1])
            within = slice(int(first), int(end))
            by_data = self._words["cause"][within] == self._number("cause", "data")
            found: dict[str, dict[str, int]] = {}
            for table, number in self._vocabulary["table_name"].items():
                of_table = by_data & (self._words["table_name"][within] == number)
                counts = {
                    change: int((of_table & (self._words["change"][within] == self._number("change", change))).sum())
                    for change in ("appeared", "disappeared")
                }
                if any(counts.values()):
                    found[str(table)] = counts
            return found

    def history(self, words: Mapping[str, str], now: Mapping[str, int], points: int) -> dict[str, list[list[int]]]:
        """Return how many constraints of each family there were, as times in ms and counts. O(known).

        Parameters
        ----------
        words : the values that some of `WORDS` have to have.
        now : how many there are, by family: counts go back from there.
        points : the most of a family; each is the last one of its time.
        """
        with self._lock:
            found = {}
            for family, number in self._vocabulary["family"].items():
                matching = self._matching(words) & (self._words["family"] == number)
                if family is None or not matching.any():
                    continue
                times = self._times[matching] // 1_000
                signs = np.where(self._words["change"][matching] == self._number("change", "appeared"), 1, -1)
                counts = np.cumsum(signs)
                counts += now.get(family, 0) - counts[-1]
                last = last_of_each(times, points)
                found[family] = np.column_stack([times[last], counts[last]]).tolist()
            return found

    def _add(self, found: Iterable[pa.RecordBatch]) -> None:
        """Put new changes behind those that are known, a piece at a time: texts are gone once they are numbers."""
        parts: list[list[NDArray[Any]]] = []
        for batch in found:
            columns = [
                ints(batch["commit"]),
                ints(batch["committed_at"].cast(pa.int64())),
                short_ids(batch["constraint_id"]),
            ]
            parts.append([*columns, *(self._numbers(name, batch[name]) for name in WORDS)])
        if not parts:
            return
        commits, *others = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        order = np.argsort(commits, kind="stable")[-self._most :]
        kept = slice(max(0, self.total + len(order) - self._most), None)
        times, ids, *words = (column[order] for column in others)
        self._commits = np.concatenate([self._commits[kept], commits[order]])
        self._times = np.concatenate([self._times[kept], times])
        self._ids = np.concatenate([self._ids[kept], ids])
        for name, numbers in zip(WORDS, words, strict=True):
            self._words[name] = np.concatenate([self._words[name][kept], numbers])
        self._searched.clear()

    def _numbers(self, name: str, column: pa.Array) -> Ints16:
        encoded = column.dictionary_encode(null_encoding="encode")
        known = self._vocabulary[name]
        places = [known.setdefault(word, len(known)) for word in encoded.dictionary.to_pylist()]
        return np.array(places, np.int16)[ints(encoded.indices)] if places else np.zeros(0, np.int16)

    def _number(self, name: str, word: str) -> int:
        return self._vocabulary[name].get(word, -1)

    def _matching(self, words: Mapping[str, str]) -> NDArray[np.bool_]:
        masks = (self._words[name] == self._number(name, word) for name, word in words.items())
        return reduce(and_, masks, np.ones(self.total, np.bool_))

    def _positions(self, wanted: Wanted) -> Positions:
        matching = self._matching(wanted.words)
        if wanted.until is not None:
            matching &= self._commits <= wanted.until
        if wanted.day is not None:
            matching &= self._times < np.datetime64(wanted.day + datetime.timedelta(days=1), "us").astype(np.int64)
        if wanted.constraint_id is not None:
            matching &= self._ids == short_ids(pa.chunked_array([[wanted.constraint_id]]))[0]
        if wanted.text.strip():
            searched = np.zeros(self.total, np.bool_)
            searched[self._search(wanted.text)] = True
            matching &= searched
        return np.flatnonzero(matching)

    def _search(self, text: str) -> Positions:
        """Return which changes have all words of a text; read from the files, and kept until others come."""
        asked = " ".join(text.lower().split()), self._version
        if asked not in self._searched:
            found = self._outputs.read(CHANGES, ("commit", "constraint_id"), _has_words(text))
            marks = _marks(ints(found["commit"]), short_ids(found["constraint_id"]))
            if len(self._searched) >= _MOST_SEARCHES:
                self._searched.clear()
            self._searched[asked] = np.flatnonzero(np.isin(_marks(self._commits, self._ids), marks))
        return self._searched[asked]

    def _details(self, page: Positions) -> list[dict[str, Any]]:
        if not len(page):
            return []
        commits = np.unique(self._commits[page]).tolist()
        days = np.unique(self._times[page].astype("datetime64[us]").astype("datetime64[D]")).tolist()
        where = any_of("commit", commits) & any_of("date", days)
        if len(commits) == 1:  # a seed: thousands of changes in one commit
            prefixes = (
                pc.starts_with(ds.field("constraint_id"), pattern=f"{i:016x}") for i in self._ids[page].tolist()
            )
            where &= reduce(or_, prefixes)
        found = self._outputs.read(CHANGES, _DETAILS, where)
        keys = _keys(ints(found["commit"]), short_ids(found["constraint_id"]), found["change"].to_pylist())
        place = {key: row for row, key in enumerate(keys)}
        wanted = _keys(self._commits[page], self._ids[page], self._said("change", page))
        rows = [place[key] for key in wanted if key in place]
        return [_shown(row) for row in found.take(pa.array(rows, pa.int64())).to_pylist()]

    def _said(self, name: str, page: Positions) -> list[str | None]:
        words = {number: word for word, number in self._vocabulary[name].items()}
        return [words[number] for number in self._words[name][page].tolist()]


_MOST_SEARCHES = 32


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: row[name] for name in _DETAILS if name not in {"committed_at", "witness"}}
    shown["id"] = f"{row['commit']}-{row['constraint_id'][:16]}-{row['change']}"
    shown["at"] = row["committed_at"].isoformat()
    shown["by_sentence"] = in_words(row["by"])
    shown["witness"] = witness(row["witness"], row["constraint"])
    return shown


def _has_words(text: str) -> ds.Expression:
    """Return the condition that all words of a text stand in one of the texts of a constraint."""
    words = text.split()
    return reduce(and_, (reduce(or_, (_stands_in(field, word) for field in _CELLS)) for word in words))


def _stands_in(field: ds.Expression, word: str) -> ds.Expression:
    return pc.coalesce(pc.match_substring(field, word, ignore_case=True), pa.scalar(value=False))


def _keys(commits: NDArray[np.int64], ids: NDArray[np.uint64], changes: Iterable[Any]) -> list[tuple[int, int, Any]]:
    return list(zip(commits.tolist(), ids.tolist(), changes, strict=True))


def _marks(commits: NDArray[np.int64], ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return one number for each commit and constraint."""
    return commits.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) ^ ids
