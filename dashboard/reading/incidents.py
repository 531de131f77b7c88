"""Incidents: what one commit did to the constraints of one table, in one direction, as one entry.

An incident has the constraints that ended or have first exceptions with a commit, or those that recovered
(`turned.py`), the rows that are in most of their witnesses, and the position of the batch in its source. How many of
the constraints are now as before, and how much they mean, is as of the newest commit; the rest never changes.

Invariant: incidents are a function of the output tables; nothing is stored.
"""

import datetime
import json
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.dataset as ds
from numpy.typing import NDArray

from holdfast.dashboard.reading.arrays import are_in, short_ids
from holdfast.dashboard.reading.batch_positions import positions_of
from holdfast.dashboard.reading.change_index import ENDED, NEARLY, RECOVERED
from holdfast.dashboard.reading.changes import CHANGES, ConstraintChanges
from holdfast.dashboard.reading.held import Held
from holdfast.dashboard.reading.meaning import are_sound, meaning_columns
from holdfast.dashboard.reading.near_changes import NearConstraintChanges
from holdfast.dashboard.reading.near_held import NONE, NearHeld
from holdfast.dashboard.reading.outputs import Outputs, any_of
from holdfast.dashboard.reading.turned import TurnedChanges, counts_of, turned
from holdfast.dashboard.reading.twins import Twins
from holdfast.dashboard.reading.wording import rows_below
from holdfast.display import incidents as words
from holdfast.tables.arrays import Positions

NO_IDS = np.zeros(0, np.uint64)
_KNOWS_SOUND = "sound" in meaning_columns(CHANGES)
_MOST_WITNESSES = 2_000
_MOST_CACHED = 500
_MOST_KEPT = 3
_BRIEF = ("table_name", "constraint", "sentence")

Shown = dict[str, Any]
_OfCommit = tuple[str, str]
"""A table and a direction."""


@dataclass(frozen=True)
class Indexes:
    """What incidents are made of: the changes and the current rows of constraints and near constraints."""

    outputs: Outputs
    changes: ConstraintChanges
    held: Held
    near_changes: NearConstraintChanges
    near_held: NearHeld
    twins: Twins

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions of the tables that are read; they may change while a question is answered."""
        return tuple(table.version for table in (self.changes, self.held, self.near_changes, self.near_held))

    def brief(self, chosen: TurnedChanges, means: NDArray[np.float32]) -> list[Shown]:
        """Return the constraints of some changes in words, with how often they ended and came back. O(known).

        Parameters
        ----------
        means : how much each of them means.
        """
        found: dict[tuple[bool, int, int], Shown] = {}
        for is_near, index in ((False, self.changes), (True, self.near_changes)):
            those = chosen.taken(np.flatnonzero(chosen.is_near == is_near))
            more = ("shape",) if is_near else ("family", "kind", "exceptions")
            flaps = dict(zip(those.id.tolist(), index.flaps(those.id) if len(those.id) else (), strict=True))
            for row in index.brief(those.commit, those.id, (*_BRIEF, *more)):
                number = int(row["constraint_id"][:16], 16)
                row |= {"is_near": is_near, "short": words.short_text(row["constraint"]), "flaps": flaps[number]}
                found[is_near, row["commit"], number] = row
        keys = zip(chosen.is_near.tolist(), chosen.commit.tolist(), chosen.id.tolist(), strict=True)
        sound = are_sound(means).tolist() if _KNOWS_SOUND else [None] * len(means)
        turns = [_TURNS[number] for number in chosen.turn.tolist()]
        each = zip(keys, sound, turns, self.turned_back(chosen).tolist(), strict=True)
        return [
            {**found[key], "sound": is_sound, "turn": turn, "turned_back": back}
            for key, is_sound, turn, back in each
            if key in found
        ]

    def means(self, chosen: TurnedChanges) -> NDArray[np.float32]:
        """Return how much the constraints of some changes mean. O(known)."""
        found = np.zeros(len(chosen.id), np.float32)
        ids, of = np.unique(chosen.id[~chosen.is_near], return_inverse=True)
        found[~chosen.is_near] = self.changes.meaning_of(ids)[of]
        found[chosen.is_near] = self.near_held.strengths(chosen.id[chosen.is_near])
        return found

    def turned_back(self, chosen: TurnedChanges) -> NDArray[np.bool_]:
        """Return which constraints are now as they were before the change: hold again, or hold no more."""
        holds = are_in(chosen.id, self.near_held.numbers({"having": NONE}))
        holds[~chosen.is_near] = are_in(chosen.id[~chosen.is_near], self.held.numbers())
        left = chosen.is_near & (chosen.turn == ENDED)
        holds[left] = are_in(chosen.id[left], self.near_held.numbers())
        return np.where(chosen.turn == RECOVERED, ~holds, holds)


class Incidents:
    """The incidents of one application.

    Parameters
    ----------
    indexes : what they are made of.
    """

    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes
        self._lock = threading.Lock()
        self._turned: dict[tuple[int, ...], TurnedChanges] = {}
        self._shared: dict[int, dict[_OfCommit, words.SharedRows | None]] = {}
        self._muted = NO_IDS

    def mute(self, muted: NDArray[np.uint64]) -> None:
        """Leave out constraints, given by the first digits of their identities."""
        with self._lock:
            if not np.array_equal(muted, self._muted):
                self._muted, self._turned, self._shared = muted, {}, {}

    def page(
        self, table: str | None, direction: str | None, until: int | None, offset: int, limit: int
    ) -> dict[str, Any]:
        """Return a page of incidents, newest first, and how many there are. O(known), and O(files of the page)."""
        known = self._known(-1)
        return self._page(known, self._fitting(known, table, direction, until), until, offset, limit)

    def newest(self, after: int, most: int) -> dict[str, Any]:
        """Return the newest incidents of later commits, and how many there are. O(changes of these commits)."""
        known = self._known(after)
        return self._page(known, self._fitting(known, None, None, None), None, 0, most)

    def one(self, commit: int, table: str, direction: str, offset: int, limit: int) -> dict[str, Any]:
        """Return an incident, None where there is none, and a page of its constraints: those that mean most first."""
        known = self._known(commit - 1)
        groups = self._fitting(known, table, direction, commit)
        groups = groups[known.commit[known.starts[groups]] == commit]
        if not len(groups):
            return {"incident": None, "total": 0, "rows": []}
        (first,) = groups.tolist()
        members = known.taken(np.arange(known.starts[first], known.starts[first + 1]))
        (incident,) = self._shown(known, groups)
        means = self._indexes.means(members)
        order = np.argsort(-means, kind="stable")[offset : offset + limit]
        page = members.taken(order)
        rows = self._indexes.brief(page, means[order])
        shared = self._shared_of(commit, table, direction)
        incident["rows"] = None if shared is None or not rows else _as_rows(shared, rows[0]["constraint"])
        return {"incident": incident, "total": len(members.id), "rows": rows}

    def _known(self, after: int) -> TurnedChanges:
        indexes = self._indexes
        with self._lock:
            key = (after, indexes.changes.version, indexes.near_changes.version)
            if key not in self._turned:
                found = turned(indexes.changes, indexes.near_changes, indexes.twins, after, self._muted)
                same = {other: known for other, known in self._turned.items() if other[1:] == key[1:]}
                self._turned = {**dict(list(same.items())[-_MOST_KEPT:]), key: found}
            return self._turned[key]

    @staticmethod
    def _fitting(known: TurnedChanges, table: str | None, direction: str | None, until: int | None) -> Positions:
        """Return the groups that fit, oldest first."""
        first = known.starts[:-1]
        fits = np.ones(len(first), np.bool_)
        if table is not None:
            fits &= known.table_name[first] == (known.tables.index(table) if table in known.tables else -1)
        if direction is not None:
            fits &= known.recovered[first] == (direction == words.RECOVERED)
        if until is not None:
            fits &= known.commit[first] <= until
        return np.flatnonzero(fits)

    def _page(
        self, known: TurnedChanges, groups: Positions, until: int | None, offset: int, limit: int
    ) -> dict[str, Any]:
        last = int(known.commit[-1]) if len(known.commit) else 0
        rows = self._shown(known, groups[::-1][offset : offset + limit])
        return {"total": len(groups), "until": last if until is None else until, "rows": rows}

    def _shown(self, known: TurnedChanges, groups: Positions) -> list[Shown]:
        """Return the incidents of some groups, in this order."""
        if not len(groups):
            return []
        spans = [np.arange(known.starts[one], known.starts[one + 1]) for one in groups.tolist()]
        members = known.taken(np.concatenate(spans))
        ends = np.cumsum([len(span) for span in spans]).tolist()
        means, back = self._indexes.means(members), self._indexes.turned_back(members)
        parts = [slice(end - len(span), end) for span, end in zip(spans, ends, strict=True)]
        firsts = np.array([part.start + int(np.argmax(means[part])) for part in parts])
        brief = {
            (row["commit"], row["constraint_id"][:16]): row
            for row in self._indexes.brief(members.taken(firsts), means[firsts])
        }
        commits = members.commit[firsts].tolist()
        self._learn_shared(commits)
        positions = positions_of(self._indexes.outputs, commits)
        found = []
        for part, first in zip(parts, firsts.tolist(), strict=True):
            commit, number = int(members.commit[first]), f"{int(members.id[first]):016x}"
            table = known.tables[members.table_name[first]]
            direction = words.RECOVERED if members.turn[first] == RECOVERED else words.LOST
            counts: Shown = {**counts_of(members.turn[part]), "again": int(back[part].sum())}
            counts["sound"] = int(are_sound(means[part]).sum()) if _KNOWS_SOUND else None
            where = positions.get(commit, {"source": None, "batch_id": None, "position": None})
            about = {
                "commit": commit,
                "table_name": table,
                "direction": direction,
                "first": brief.get((commit, number)),
            }
            about["at"] = (_EPOCH + datetime.timedelta(microseconds=int(members.time[first]))).isoformat()
            found.append(self._in_words({**about, **counts, **where}))
        return found

    def _in_words(self, row: Shown) -> Shown:
        first = None if row["first"] is None else row["first"]["short"]
        shared = self._shared_of(row["commit"], row["table_name"], row["direction"])
        counts = {name: row[name] for name in ("lost", "nearly", "recovered", "sound", "position")}
        incident = words.Incident(
            row["table_name"], row["commit"], row["direction"], **counts, first=first, shared=shared
        )
        named = None if shared is None else [words.row_in_words(image) for image in shared.rows]
        key = f"{row['commit']}-{row['direction']}-{row['table_name']}"
        return {**row, "key": key, "text": str(incident), "named": named}

    def _shared_of(self, commit: int, table: str, direction: str) -> words.SharedRows | None:
        with self._lock:
            return self._shared.get(commit, {}).get((table, direction))

    def _learn_shared(self, commits: Sequence[int]) -> None:
        """Find the rows that are in most witnesses of some commits, where this is not known."""
        last = self._indexes.changes.last_commit
        with self._lock:
            wanted = sorted({commit for commit in commits if commit not in self._shared})
        if not wanted:
            return
        found = _witnesses(self._indexes.outputs, wanted, self._muted)
        with self._lock:
            kept = self._shared if len(self._shared) <= _MOST_CACHED else {}
            kept = {commit: known for commit, known in kept.items() if commit < last}  # later ones may be incomplete
            self._shared = kept | {
                commit: {key: words.shared_rows(those) for key, those in found.get(commit, {}).items()}
                for commit in wanted
            }


def _witnesses(
    outputs: Outputs, commits: Sequence[int], muted: NDArray[np.uint64]
) -> dict[int, dict[_OfCommit, list[Sequence[Any]]]]:
    """Return the witnesses of some commits by commit, table and direction: at most `_MOST_WITNESSES` each."""
    columns = ("commit", "table_name", "reason", "constraint_id", "witness")
    by_data = (ds.field("cause") == "data") & ds.field("reason").isin(["violated", "released"])
    rows = outputs.read(CHANGES, columns, any_of("commit", commits) & by_data)
    rows = rows.filter(~are_in(short_ids(rows["constraint_id"]), muted)) if len(muted) else rows
    found: dict[int, dict[_OfCommit, list[Sequence[Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows.drop_columns(["constraint_id"]).to_pylist():
        direction = words.LOST if row["reason"] == "violated" else words.RECOVERED
        those = found[row["commit"]][row["table_name"], direction]
        if len(those) < _MOST_WITNESSES:
            those.append(json.loads(row["witness"] or "[]"))
    return found


def _as_rows(shared: words.SharedRows, constraint: str) -> Shown:
    """Return the rows that did it, below one another."""
    keys, rows = ([image[name] or {} for image in shared.rows] for name in ("key", "row"))
    return {**rows_below(keys, rows, constraint), "about": [{"undecided": None} for _ in rows]}


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TURNS = {ENDED: "lost", NEARLY: "nearly", RECOVERED: "recovered"}
