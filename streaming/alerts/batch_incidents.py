"""What a batch did to constraints, in sentences for the log of a run: one for each table and direction."""

from collections.abc import Collection, Sequence

from holdfast.constraints import ConstraintChange, Reason
from holdfast.constraints.identity import constraint_id
from holdfast.display.incidents import LOST, RECOVERED, Incident, shared_rows, short_text

_MOST_WITNESSES = 2_000
_DIRECTIONS = {Reason.VIOLATED: LOST, Reason.RELEASED: RECOVERED}


def sound_first(changes: Sequence[ConstraintChange], sound: Collection[str]) -> list[ConstraintChange]:
    """Return changes in their order, but those of sound constraints first. O(changes).

    Parameters
    ----------
    sound : the ids of the changed constraints that are sound.
    """
    return sorted(changes, key=lambda change: constraint_id(change.constraint, change.table) not in sound)


def batch_incidents(changes: Sequence[ConstraintChange], sound: Collection[str] = ()) -> list[Incident]:
    """Return the incidents of the changes of a batch that is not published yet, what was lost first. O(changes).

    Parameters
    ----------
    sound : the ids of the changed constraints that are sound, as far as that is known.
    """
    groups: dict[tuple[str, str], list[ConstraintChange]] = {}
    for change in changes:
        direction = _DIRECTIONS.get(change.reason)
        if direction is not None:
            groups.setdefault((direction, change.table), []).append(change)
    return [_incident(*key, groups[key], sound) for key in sorted(groups)]


def _incident(direction: str, table: str, changes: Sequence[ConstraintChange], sound: Collection[str]) -> Incident:
    nearly = sum(change.exceptions is not None for change in changes)
    sound_ones = [change for change in changes if constraint_id(change.constraint, table) in sound]
    first = min(sound_ones or changes, key=lambda change: int(change.constraint.fields().get("size") or 0))
    return Incident(
        table,
        None,
        direction,
        lost=len(changes) - nearly if direction == LOST else 0,
        nearly=nearly if direction == LOST else 0,
        recovered=len(changes) if direction == RECOVERED else 0,
        sound=len(sound_ones),
        first=short_text(str(first.constraint)),
        shared=shared_rows(c.witness.to_json() for c in changes[:_MOST_WITNESSES] if c.witness is not None),
    )
