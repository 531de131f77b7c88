"""What a person missed: the constraints that hold no more, or hold again, compared with an earlier commit.

*Then* is the moment before the constraint's first change by data since that commit, so that what a seed or an edited
configuration found since is not missed. Only the comparison of then and now counts, and the last change has to be one
by data:

    lost       held then; ended since by a violation, and does not nearly hold
    nearly     held then; ended since by a violation, and nearly holds
    recovered  did not hold then; holds since the rows that violated it are gone
    flapped    changed since, and is now as it was then

A near constraint is lost if it has too many exceptions since, nearly lost if it had none then and has some now, and
recovered if it had some then and has none now. A constraint that is published as a near constraint too counts once, as
the near constraint does.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.dashboard.reading.arrays import are_in, places_in
from holdfast.dashboard.reading.change_index import ENDED, NEARLY, NO_TURN, RECOVERED, Arrays
from holdfast.dashboard.reading.incidents import Indexes
from holdfast.dashboard.reading.near_changes import ENTERED, LEFT
from holdfast.dashboard.reading.turned import TurnedChanges
from holdfast.tables.arrays import Positions

_NAMES = {"lost": ENDED, "nearly": NEARLY, "recovered": RECOVERED}


@dataclass(frozen=True)
class _Net:
    """The constraints of one kind that changed: their last changes, their net turns, and which of them flapped."""

    last: Positions
    turn: NDArray[np.int8]
    flapped: NDArray[np.bool_]


def missed(indexes: Indexes, after: int, most: int, muted: NDArray[np.uint64]) -> dict[str, Any]:
    """Return what changed with later commits than one. O(known).

    Parameters
    ----------
    most : how many constraints of each sort are returned at most, those that mean most.
    muted : the constraints that are left out, by the first digits of their identities.
    """
    exact, near = (_heard(index.window(after), muted) for index in (indexes.changes, indexes.near_changes))
    appeared = indexes.changes.number("change", "appeared")
    of_exact = _exact(exact, appeared, exact["cause"] == indexes.changes.number("cause", "data"))
    of_near = _near(near)
    turns = _merged(exact["id"][of_exact.last], of_exact.turn, near["id"][of_near.last], of_near.turn, indexes)
    tables = dict.fromkeys([*indexes.changes.tables, *indexes.near_changes.tables])
    every = _together(exact, near, of_exact.last, of_near.last, turns, tuple(tables))
    means = indexes.means(every)
    places = {name: np.flatnonzero(every.turn == turn) for name, turn in _NAMES.items()}
    best = [those[np.argsort(-means[those], kind="stable")[:most]] for those in places.values()]
    chosen = np.concatenate(best)
    rows = indexes.brief(every.taken(chosen), means[chosen])
    found: dict[str, Any] = {"flapped": int(of_exact.flapped.sum() + of_near.flapped.sum())}
    for name, those in places.items():
        found[name] = {"total": len(those), "rows": [row for row in rows if row["turn"] == name]}
    return found


def _heard(window: Arrays, muted: NDArray[np.uint64]) -> Arrays:
    if not len(muted):
        return window
    chosen = ~are_in(window["id"], muted)
    return {name: column[chosen] for name, column in window.items()}


def _ends(ids: NDArray[np.uint64], by_data: NDArray[np.bool_]) -> tuple[Positions, Positions]:
    """Return the positions of the first change by data, and of the last change, of each constraint, ordered by id.

    The first change of a constraint without a change by data is any other.
    """
    order, by_data_first = np.argsort(ids, kind="stable"), np.lexsort((~by_data, ids))
    in_order = ids[order]
    differs = in_order[1:] != in_order[:-1]
    edge = np.ones(min(len(ids), 1), np.bool_)
    return by_data_first[np.concatenate([edge, differs])], order[np.concatenate([differs, edge])]


def _exact(window: Arrays, appeared: int, by_data: NDArray[np.bool_]) -> _Net:
    """Return the net turns of constraints."""
    first, last = _ends(window["id"], by_data)
    held = window["change"][first] != appeared
    turn = window["turn"][last]
    lost = held & ((turn == ENDED) | (turn == NEARLY))
    recovered = ~held & (turn == RECOVERED)
    holds = window["change"][last] == appeared
    flapped = (held == holds) & (turn != NO_TURN)
    return _Net(last, np.where(lost | recovered, turn, NO_TURN).astype(np.int8), flapped)


def _near(window: Arrays) -> _Net:
    """Return the net turns of near constraints."""
    first, last = _ends(window["id"], window["by_data"])
    before, entered = window["before"][first], window["change"][first] == ENTERED
    is_there = (window["change"][last] != LEFT) & window["by_data"][last]
    now = window["exceptions"][last]
    nearly = ~entered & (before == 0) & is_there & (now > 0)
    recovered = ~entered & (before > 0) & is_there & (now == 0)
    lost = ~entered & (window["turn"][last] == ENDED)
    turn = np.select([lost, nearly, recovered], [ENDED, NEARLY, RECOVERED], NO_TURN)
    flapped = ~entered & is_there & ((before == 0) == (now == 0)) & (first != last) & (window["turn"][last] != NO_TURN)
    return _Net(last, turn.astype(np.int8), flapped)


def _merged(
    ids: NDArray[np.uint64],
    turn: NDArray[np.int8],
    near_ids: NDArray[np.uint64],
    near_turn: NDArray[np.int8],
    indexes: Indexes,
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return the net turns of both kinds, with each constraint in one of them, as the near constraint changed."""
    turn, near_turn = turn.copy(), near_turn.copy()
    those = np.flatnonzero(near_turn != NO_TURN)
    if not len(those) or not len(ids):
        return turn, near_turn
    of_near, theirs = near_turn[those], indexes.twins.of(near_ids[those])
    for twin in theirs.T:
        at = places_in(twin, ids)
        same = (at >= 0) & (turn[at] != NO_TURN) & ((turn[at] == RECOVERED) == (of_near == RECOVERED))
        turn[at[same]] = of_near[same]
        near_turn[those[same]] = NO_TURN
    return turn, near_turn


def _together(
    exact: Arrays,
    near: Arrays,
    last: Positions,
    near_last: Positions,
    turns: tuple[NDArray[np.int8], NDArray[np.int8]],
    tables: tuple[str, ...],
) -> TurnedChanges:
    """Return the last changes of the constraints with a net turn, with this turn."""
    chosen, near_chosen = (np.flatnonzero(turn != NO_TURN) for turn in turns)
    parts = ((exact, last[chosen]), (near, near_last[near_chosen]))
    columns = {name: np.concatenate([window[name][at] for window, at in parts]) for name in ("commit", "time", "id")}
    turn = np.concatenate([turns[0][chosen], turns[1][near_chosen]])
    is_near = np.repeat([False, True], [len(chosen), len(near_chosen)])
    table = np.zeros(len(turn), np.int16)  # rows in words have the names of their tables
    return TurnedChanges(columns["commit"], columns["time"], table, turn, columns["id"], is_near, tables)
