"""One constraint in all its published forms: whether it holds, how it came there, and the rows that break it.

A constraint has a page whether it is published as a denial constraint, an order dependency, an inclusion or a near
constraint. The exceptions over time are those of the near constraint that says the same.
"""

from typing import Any

from holdfast.dashboard.reading.changes import ChangeFilter
from holdfast.dashboard.reading.indexes import Indexes
from holdfast.dashboard.reading.outputs import Outputs
from holdfast.dashboard.reading.suspect_cells import SuspectCells
from holdfast.display.incidents import short_text

_VIOLATED = {"change": "disappeared", "reason": "violated"}
_NAMED = ("constraint_id", "table_name", "constraint", "sentence")

Shown = dict[str, Any]


def one_constraint(indexes: Indexes, constraint_id: str, points: int) -> Shown | None:
    """Return what is known of a constraint, by the identity of any of its forms; None where it was never published.

    O(known changes), and O(files with its last changes).

    Parameters
    ----------
    points : the largest number of counts of exceptions over time.
    """
    found = _exact(indexes, constraint_id)
    is_near = found is None
    if found is None:
        found = _near(indexes, constraint_id)
    if found is None:
        return None
    table, text = found["table_name"], found["constraint"]
    near_id = constraint_id if is_near else indexes.twins.near_of(table, text)
    exact_ids = indexes.twins.exact_of(table, text) if is_near else [constraint_id]
    proofs = [proof for one in exact_ids if (proof := _proof(indexes, one)) is not None]
    proof = max(proofs, key=lambda row: int(row["commit"]), default=None)
    held = next((row for one in exact_ids if (row := indexes.held.row(one)) is not None), None)
    near = None if near_id is None else indexes.near_held.row(near_id)
    course = [] if near_id is None else indexes.near_changes.course(near_id, points)
    index = indexes.near_changes if is_near else indexes.changes
    return {
        **{name: found[name] for name in _NAMED},
        "short": short_text(text),
        "is_near": is_near,
        "kind": found.get("kind"),
        "family": found.get("family"),
        "holds": held is not None or (near is not None and near["exceptions"] == 0),
        "held": held,
        "near": near,
        "near_id": near_id if course else None,
        "exact_id": next((one for one in exact_ids if indexes.changes.has(one)), None),
        "flaps": index.flaps_of(constraint_id),
        "course": course,
        "proof": None if proof is None else _with_suspects(indexes.outputs, proof),
    }


def _with_suspects(outputs: Outputs, proof: Shown) -> Shown:
    """Return the rows of a violation, with the cells that are suspects now."""
    cells = SuspectCells.of(outputs, proof["table_name"], [proof["constraint"]])
    return {"commit": proof["commit"], "at": proof["at"], "witness": cells.marked(proof["witness"])}


def _exact(indexes: Indexes, constraint_id: str) -> Shown | None:
    """Return a constraint as it stands in its table, or in its last change."""
    held = indexes.held.row(constraint_id)
    if held is not None:
        return held
    rows = indexes.changes.page(ChangeFilter({}, constraint_id=constraint_id), 0, 1)["rows"]
    return rows[0] if rows else None


def _near(indexes: Indexes, constraint_id: str) -> Shown | None:
    held = indexes.near_held.row(constraint_id)
    if held is not None:
        return held
    rows = indexes.near_changes.page(constraint_id, None, 0, 1)["rows"]
    return rows[0] if rows else None


def _proof(indexes: Indexes, constraint_id: str) -> Shown | None:
    """Return the last change with which a constraint was violated."""
    rows = indexes.changes.page(ChangeFilter(_VIOLATED, constraint_id=constraint_id), 0, 1)["rows"]
    return rows[0] if rows and rows[0]["witness"] is not None else None
