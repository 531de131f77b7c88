"""What a person missed: the constraints that hold no more, or hold again, compared with an earlier commit.

*Then* is the moment before the constraint's first change by data since that commit, so that what a seed or an edited
configuration found since is not missed. Only the comparison of then and now counts, and the last change has to be one
by data:

    lost       held then; ended since by a violation, and does not nearly hold
    nearly     held then; ended since by a violation, and nearly holds
    recovered  did not hold then; holds since the rows that violated it are gone
    flapped    changed since, and is now as it was then

A near constraint is lost if it has too many exceptions since. It is nearly lost, or recovered, if its exceptions then
and now are a jump (`has_jumped`) and a jump of one commit is part of it. A constraint that is published in several
forms counts once, as the near constraint does where there is one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints.near import has_jumped
from holdfast.dashboard.reading.arrays import are_in
from holdfast.dashboard.reading.change_index import Arrays
from holdfast.dashboard.reading.changes import CHANGES, ConstraintChanges
from holdfast.dashboard.reading.indexes import CHANGED, Changed, Indexes
from holdfast.dashboard.reading.meaning import are_sound
from holdfast.dashboard.reading.near_changes import ENTERED, LEFT, NEAR_CHANGES
from holdfast.streaming.commits.incidents import ENDED, NEARLY, NO_TURN, RESTORED, TURNS
from holdfast.tables.arrays import Positions


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
    exact, near = (_unmuted(index.window(after), muted) for index in (indexes.changes, indexes.near_changes))
    of_exact, of_near = _exact(exact, indexes.changes), _near(near)
    parts = _turned(exact, of_exact, is_near=False), _turned(near, of_near, is_near=True)
    is_order = exact["family"][of_exact.last[of_exact.turn != NO_TURN]] == indexes.changes.number("family", "od")
    denial = [part["id"].copy() for part in parts]
    denial[0][is_order] = indexes.twins.denial_of(CHANGES, denial[0][is_order])
    denial[1] = indexes.twins.denial_of(NEAR_CHANGES, denial[1])
    form = np.concatenate([is_order.astype(np.int64), np.full(len(denial[1]), 2)])
    every = _once(np.concatenate(parts), np.concatenate(denial), form)
    means = indexes.means(every)
    places = {name: np.flatnonzero(every["turn"] == turn) for turn, name in TURNS.items()}
    best = np.concatenate([those[np.argsort(-means[those], kind="stable")[:most]] for those in places.values()])
    every["sound"] = are_sound(means)
    rows = indexes.brief(every[best])
    found: dict[str, Any] = {"flapped": int(of_exact.flapped.sum() + of_near.flapped.sum())}
    for name, those in places.items():
        found[name] = {"total": len(those), "rows": [row for row in rows if row["turn"] == name]}
    return found


def _unmuted(window: Arrays, muted: NDArray[np.uint64]) -> Arrays:
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


def _exact(window: Arrays, index: ConstraintChanges) -> _Net:
    """Return the net turns of constraints."""
    appeared, by_data = index.number("change", "appeared"), window["cause"] == index.number("cause", "data")
    first, last = _ends(window["id"], by_data)
    held = window["change"][first] != appeared
    turn = window["turn"][last]
    is_net = (turn != NO_TURN) & (held != (turn == RESTORED))
    flapped = (held == (window["change"][last] == appeared)) & (turn != NO_TURN)
    return _Net(last, np.where(is_net, turn, NO_TURN).astype(np.int8), flapped)


def _near(window: Arrays) -> _Net:
    """Return the net turns of near constraints."""
    first, last = _ends(window["id"], window["by_data"])
    was_there = window["change"][first] != ENTERED
    is_there = was_there & (window["change"][last] != LEFT) & window["by_data"][last]
    before, now = window["before"][first], window["exceptions"][last]
    nearly, recovered = has_jumped(before, now), has_jumped(now, before)
    turns = [was_there & (window["turn"][last] == ENDED)]
    for jumped, turn in ((nearly, NEARLY), (recovered, RESTORED)):  # not in many small steps
        turns.append(is_there & jumped & are_in(window["id"][last], window["id"][window["turn"] == turn]))
    flapped = is_there & ~(nearly | recovered) & (first != last) & (window["turn"][last] != NO_TURN)
    return _Net(last, np.select(turns, [ENDED, NEARLY, RESTORED], NO_TURN).astype(np.int8), flapped)


def _turned(window: Arrays, net: _Net, *, is_near: bool) -> Changed:
    """Return the last changes of the constraints with a net turn, with this turn."""
    chosen = net.turn != NO_TURN
    found = np.zeros(np.count_nonzero(chosen), CHANGED)
    for name in window.keys() & set(CHANGED.names or ()):
        found[name] = window[name][net.last[chosen]]
    found["turn"], found["is_near"] = net.turn[chosen], is_near
    return found


def _once(every: Changed, denial: NDArray[np.uint64], form: NDArray[np.int64]) -> Changed:
    """Return each constraint once for each direction: in its first form, with the turn of its last form.

    Parameters
    ----------
    denial : the identities of the constraints as denial constraints.
    form : 0 for a denial constraint, 1 for an order dependency, 2 for a near constraint.
    """
    recovered = every["turn"] == RESTORED
    order = np.lexsort((form, recovered, denial))
    differs = (denial[order][1:] != denial[order][:-1]) | (recovered[order][1:] != recovered[order][:-1])
    edge = np.ones(min(len(order), 1), np.bool_)
    first, last = order[np.concatenate([edge, differs])], order[np.concatenate([differs, edge])]
    found: Changed = every[first]
    found["turn"] = every["turn"][last]
    return found
