"""Incidents, read from the output tables: newest first, or one with its constraints.

An incident is made of the rows of its commit (`streaming/commits/incidents.py`), and does not change. How many of its
constraints are now as before is as of the newest commit.
"""

import datetime
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from holdfast.dashboard.reading.arrays import are_in, short_ids
from holdfast.dashboard.reading.batch_positions import positions_of
from holdfast.dashboard.reading.incident_list import IncidentList, incident_list
from holdfast.dashboard.reading.indexes import Changed, Indexes, changed_of
from holdfast.dashboard.reading.outputs import Outputs
from holdfast.dashboard.reading.wording import rows_below
from holdfast.display import incidents as words
from holdfast.streaming.commits.incidents import COLUMNS, Group, incident, turned
from holdfast.tables.arrays import Positions

NO_IDS = np.zeros(0, np.uint64)
_MOST_CACHED = 500
_MOST_KEPT = 3
_NO_BATCH = {"source": None, "batch_id": None, "position": None}

Shown = dict[str, Any]


@dataclass(frozen=True)
class _Known:
    """An incident, its first constraint, and all its constraints, those that mean most first."""

    incident: words.Incident
    first: Shown
    changed: Changed


class Incidents:
    """The incidents of one application.

    Parameters
    ----------
    indexes : the changes and the constraints.
    """

    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes
        self._lock = threading.Lock()
        self._lists: dict[tuple[int, ...], IncidentList] = {}
        self._known: dict[int, dict[Group, _Known]] = {}
        self._versions: tuple[int, ...] = ()
        self._settled = 0
        self._muted = NO_IDS

    def mute(self, muted: NDArray[np.uint64]) -> None:
        """Leave out constraints, given by the first digits of their identities."""
        with self._lock:
            if not np.array_equal(muted, self._muted):
                self._muted, self._lists, self._known = muted, {}, {}

    def page(
        self, table: str | None, direction: str | None, until: int | None, offset: int, limit: int
    ) -> dict[str, Any]:
        """Return a page of incidents, newest first, and how many there are. O(known), and O(files of the page)."""
        listed = self._listed(-1)
        last = int(listed.commit[-1]) if len(listed.commit) else 0
        found = listed.fitting(table, direction, until)
        rows = self._shown(listed, found[::-1][offset : offset + limit])
        return {"total": len(found), "until": last if until is None else until, "rows": rows}

    def newest(self, after: int, most: int) -> dict[str, Any]:
        """Return the newest incidents of later commits, and how many there are. O(changes of these commits)."""
        listed = self._listed(after)
        every = listed.fitting(None, None, None)
        return {"total": len(every), "rows": self._shown(listed, every[::-1][:most])}

    def one(self, commit: int, table: str, direction: str, offset: int, limit: int) -> dict[str, Any]:
        """Return an incident, None where there is none, and a page of its constraints: those that mean most first."""
        listed = self._listed(commit - 1)
        rows = self._shown(listed, listed.fitting(table, direction, commit))
        if not rows:
            return {"incident": None, "total": 0, "rows": []}
        known = self._learned([commit])[commit, table, direction]
        members = self._indexes.brief(known.changed[offset : offset + limit])
        shared = known.incident.shared
        found = None if shared is None or not members else _as_rows(shared, members[0]["constraint"])
        return {"incident": {**rows[0], "rows": found}, "total": known.incident.total, "rows": members}

    def _listed(self, after: int) -> IncidentList:
        changes, near = self._indexes.changes, self._indexes.near_changes
        with self._lock:
            key = (after, changes.version, near.version)
            if key not in self._lists:
                found = incident_list((changes, near), after, self._muted)
                same = {other: known for other, known in self._lists.items() if other[1:] == key[1:]}
                self._lists = {**dict(list(same.items())[-_MOST_KEPT:]), key: found}
            return self._lists[key]

    def _shown(self, listed: IncidentList, places: Positions) -> list[Shown]:
        """Return incidents as plain values, in this order."""
        commits = sorted(set(listed.commit[places].tolist()))
        known, positions = self._learned(commits), positions_of(self._indexes.outputs, commits)
        groups = {listed.group(place): place for place in places.tolist()}
        every = {group: known[group] for group in groups if group in known}  # files may have been removed
        if not every:
            return []
        starts = np.cumsum([0, *(len(one.changed) for one in every.values())])[:-1]
        changed = np.concatenate([one.changed for one in every.values()])
        back = self._indexes.turned_back(changed)
        firsts = zip(self._indexes.flaps(changed[starts]), back[starts].tolist(), strict=True)
        counts = np.add.reduceat(back, starts, dtype=np.int64).tolist()
        found = []
        for (group, one), count, (flaps, is_back) in zip(every.items(), counts, firsts, strict=True):
            commit, table, direction = group
            batch = positions.get(commit, _NO_BATCH)
            row = {name: getattr(one.incident, name) for name in ("lost", "nearly", "recovered", "sound")}
            row |= {"commit": commit, "table_name": table, "direction": direction, "again": count, **batch}
            row["first"] = {**one.first, "flaps": flaps, "turned_back": is_back}
            row["at"] = (_EPOCH + datetime.timedelta(microseconds=int(listed.time[groups[group]]))).isoformat()
            shared = one.incident.shared
            row["named"] = None if shared is None else [words.row_in_words(image) for image in shared.rows]
            text = str(replace(one.incident, position=batch["position"]))
            found.append({**row, "key": f"{commit}-{direction}-{table}", "text": text})
        return found

    def _learned(self, commits: Sequence[int]) -> dict[Group, _Known]:
        """Return the incidents of commits. O(files with the commits that are not known yet)."""
        known = self._kept()
        wanted = [commit for commit in commits if commit not in known]
        found: dict[int, dict[Group, _Known]] = {commit: {} for commit in wanted}
        if wanted:
            groups = turned(*(_rows(self._indexes.outputs, name, wanted, self._muted) for name in COLUMNS))
            for group, rows in groups.items():
                first = {name: rows[0][name] for name in ("constraint_id", "constraint", "sentence")}
                found[group[0]][group] = _Known(incident(group, rows, None), first, changed_of(rows))
        with self._lock:
            known |= found
        return {group: one for commit in commits for group, one in known[commit].items()}

    def _kept(self) -> dict[int, dict[Group, _Known]]:
        """Return the known incidents by commit, without those that may have got more rows since they were read."""
        indexes = (self._indexes.changes, self._indexes.near_changes)
        versions = tuple(index.version for index in indexes)
        with self._lock:
            if versions != self._versions or len(self._known) > _MOST_CACHED:
                whole = self._settled if len(self._known) <= _MOST_CACHED else 0
                self._known = {commit: those for commit, those in self._known.items() if commit < whole}
                self._versions = versions
                self._settled = min((index.last_commit for index in indexes if index.total), default=0)
            return self._known


def _rows(outputs: Outputs, name: str, commits: Sequence[int], muted: NDArray[np.uint64]) -> pa.Table:
    """Return the rows of commits that may have a turn."""
    commit = ds.field("commit")  # the range leaves out files, and many alternatives are slow
    within = (commit >= commits[0]) & (commit <= commits[-1]) & commit.isin(commits)
    rows = outputs.read(name, COLUMNS[name], within & (ds.field("cause") == "data"))
    return rows.filter(~are_in(short_ids(rows["constraint_id"]), muted))


def _as_rows(shared: words.SharedRows, constraint: str) -> Shown:
    """Return the rows that did it, below one another."""
    keys, rows = ([image[name] or {} for image in shared.rows] for name in ("key", "row"))
    return {**rows_below(keys, rows, constraint), "about": [{"undecided": None} for _ in rows]}


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
