"""The changes with a turn of constraints and near constraints, each constraint once per commit, in groups.

A group has the changes of one commit, table and direction: those that ended or have first exceptions, or those that
recovered. A constraint that is published as a near constraint too (`twins.py`) is in its group once.
"""

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from holdfast.dashboard.reading.arrays import are_in, marks
from holdfast.dashboard.reading.change_index import ENDED, NEARLY, NO_TURN, RECOVERED, Arrays
from holdfast.dashboard.reading.changes import ConstraintChanges
from holdfast.dashboard.reading.near_changes import NearConstraintChanges
from holdfast.dashboard.reading.twins import Twins
from holdfast.tables.arrays import Positions

_COLUMNS = ("commit", "time", "table_name", "turn", "id")


@dataclass(frozen=True)
class TurnedChanges:
    """The changes, ordered by commit, table and direction.

    Parameters
    ----------
    commit, time, table_name, turn, id, is_near : of each change; tables are numbers.
    tables : the names of the tables.
    """

    commit: NDArray[np.int64]
    time: NDArray[np.int64]
    table_name: NDArray[np.int16]
    turn: NDArray[np.int8]
    id: NDArray[np.uint64]
    is_near: NDArray[np.bool_]
    tables: tuple[str, ...]

    @property
    def recovered(self) -> NDArray[np.bool_]:
        """Which changes are recoveries."""
        found: NDArray[np.bool_] = self.turn == RECOVERED
        return found

    @cached_property
    def starts(self) -> Positions:
        """The position of the first change of each group, and the number of changes."""
        count = len(self.commit)
        keys = (self.commit, self.table_name, self.recovered)
        new = reduce(or_, (column[1:] != column[:-1] for column in keys))
        return np.concatenate([np.zeros(min(count, 1), np.int64), np.flatnonzero(new) + 1, [count]])

    def taken(self, places: Positions) -> "TurnedChanges":
        """Return the changes at some positions."""
        return replace(self, **{name: getattr(self, name)[places] for name in (*_COLUMNS, "is_near")})


def turned(
    changes: ConstraintChanges,
    near_changes: NearConstraintChanges,
    twins: Twins,
    after: int,
    muted: NDArray[np.uint64],
) -> TurnedChanges:
    """Return the changes of later commits with a turn. O(known changes of these commits).

    Parameters
    ----------
    muted : the constraints that are left out, by the first digits of their identities.
    """
    exact, near = (_with_turn(index.window(after), muted) for index in (changes, near_changes))
    tables = dict.fromkeys([*changes.tables, *near_changes.tables])
    place = {name: number for number, name in enumerate(tables)}
    numbers = np.array([place[name] for name in near_changes.tables] or [0], np.int16)
    near = {**near, "table_name": numbers[near["table_name"]]}
    alone = ~_have_twins(near, exact, twins)
    near = {name: column[alone] for name, column in near.items()}
    columns = {name: np.concatenate([exact[name], near[name]]) for name in _COLUMNS}
    is_near = np.repeat([False, True], [len(exact["id"]), len(near["id"])])
    order = np.lexsort((columns["turn"] == RECOVERED, columns["table_name"], columns["commit"]))
    return TurnedChanges(**columns, is_near=is_near, tables=tuple(tables)).taken(order)


def _with_turn(window: Arrays, muted: NDArray[np.uint64]) -> Arrays:
    chosen = window["turn"] != NO_TURN
    if len(muted):
        chosen &= ~are_in(window["id"], muted)
    return {name: window[name][chosen] for name in _COLUMNS}


def _have_twins(near: Arrays, exact: Arrays, twins: Twins) -> NDArray[np.bool_]:
    """Return which changes of near constraints have the change of a twin in the same commit."""
    found = np.zeros(len(near["id"]), np.bool_)
    if not len(found) or not len(exact["id"]):
        return found
    same = are_in(exact["commit"], np.unique(near["commit"]))
    known = marks(exact["commit"][same], exact["id"][same])
    ids, of = np.unique(near["id"], return_inverse=True)
    for twin in twins.of(ids)[of].T:
        found |= (twin != 0) & are_in(marks(near["commit"], twin), known)
    return found


def counts_of(turn: NDArray[np.int8]) -> dict[str, int]:
    """Return how many changes have each turn."""
    named = {"lost": ENDED, "nearly": NEARLY, "recovered": RECOVERED}
    return {name: int(np.count_nonzero(turn == number)) for name, number in named.items()}
