"""What a batch did to constraints, in sentences for the log of a run: one for each table and direction."""

from collections.abc import Sequence

from holdfast.constraints import ConstraintChange, Reason
from holdfast.display.incidents import LOST, RECOVERED, Incident, shared_rows, short_text

_MOST_WITNESSES = 2_000
_DIRECTIONS = {Reason.VIOLATED: LOST, Reason.RELEASED: RECOVERED}


def batch_incidents(changes: Sequence[ConstraintChange]) -> list[Incident]:
    """Return the incidents of the changes of a batch that is not published yet, what was lost first. O(changes)."""
    groups: dict[tuple[str, str], list[ConstraintChange]] = {}
    for change in changes:
        direction = _DIRECTIONS.get(change.reason)
        if direction is not None:
            groups.setdefault((direction, change.table), []).append(change)
    return [_incident(*key, groups[key]) for key in sorted(groups)]


def _incident(direction: str, table: str, changes: Sequence[ConstraintChange]) -> Incident:
    nearly = sum(change.exceptions is not None for change in changes)
    first = min(changes, key=lambda change: int(change.constraint.fields().get("size") or 0))
    return Incident(
        table,
        None,
        direction,
        lost=len(changes) - nearly if direction == LOST else 0,
        nearly=nearly if direction == LOST else 0,
        recovered=len(changes) if direction == RECOVERED else 0,
        first=short_text(str(first.constraint)),
        shared=shared_rows(c.witness.to_json() for c in changes[:_MOST_WITNESSES] if c.witness is not None),
    )
