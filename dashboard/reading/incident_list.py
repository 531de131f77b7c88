"""Which incidents there are: the commits, tables and directions of the changes with a turn."""

from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from holdfast.dashboard.reading.arrays import are_in
from holdfast.dashboard.reading.change_index import ChangeIndex
from holdfast.display.incidents import DIRECTIONS
from holdfast.streaming.commits.incidents import NO_TURN, RESTORED, Group
from holdfast.tables.arrays import Positions


@dataclass(frozen=True)
class IncidentList:
    """Incidents, ordered by commit, table and direction.

    Parameters
    ----------
    commit, time, table_name, recovered : of each incident; tables are numbers.
    tables : the names of the tables.
    """

    commit: NDArray[np.int64]
    time: NDArray[np.int64]
    table_name: NDArray[np.int16]
    recovered: NDArray[np.bool_]
    tables: tuple[str, ...]

    def fitting(self, table: str | None, direction: str | None, until: int | None) -> Positions:
        """Return the positions of the incidents that fit, oldest first."""
        fits = np.ones(len(self.commit), np.bool_)
        if table is not None:
            fits &= self.table_name == (self.tables.index(table) if table in self.tables else -1)
        if direction is not None:
            fits &= self.recovered == DIRECTIONS.index(direction)
        if until is not None:
            fits &= self.commit <= until
        return np.flatnonzero(fits)

    def group(self, place: int) -> Group:
        """Return the commit, the table and the direction of an incident."""
        direction = DIRECTIONS[int(self.recovered[place])]
        return int(self.commit[place]), self.tables[self.table_name[place]], direction


def incident_list(indexes: tuple[ChangeIndex, ...], after: int, muted: NDArray[np.uint64]) -> IncidentList:
    """Return the incidents of later commits. O(known changes of these commits).

    Parameters
    ----------
    indexes : the changes.
    muted : the constraints that are left out, by the first digits of their identities.
    """
    tables = list(dict.fromkeys(name for index in indexes for name in index.tables))
    parts = []
    for index in indexes:
        window = index.window(after)
        chosen = (window["turn"] != NO_TURN) & ~are_in(window["id"], muted)
        numbers = np.array([tables.index(name) for name in index.tables] or [0], np.int16)
        recovered = window["turn"][chosen] == RESTORED
        parts.append(
            (window["commit"][chosen], window["time"][chosen], numbers[window["table_name"][chosen]], recovered)
        )
    commit, time, table, recovered = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((recovered, table, commit))
    commit, time, table, recovered = (column[order] for column in (commit, time, table, recovered))
    new = reduce(or_, (column[1:] != column[:-1] for column in (commit, table, recovered)))
    first = np.flatnonzero(np.concatenate([np.ones(min(len(commit), 1), np.bool_), new]))
    return IncidentList(commit[first], time[first], table[first], recovered[first], tuple(tables))
