"""Inclusions that nearly hold, from the output tables and, if it can be read, from the state.

    declared  rules on inclusions, whose missing values are counted after every batch
    lost      inclusions that held until a batch inserted a value that is missing, and do not hold again
    near      all pairs of columns by their share of covered values, from the state alone

Invariant: an unknown part is None, never empty.
"""

from collections.abc import Callable
from typing import Any

from holdfast.dashboard.reading.changes import ChangeFilter, ConstraintChanges
from holdfast.dashboard.reading.held import Held
from holdfast.dashboard.reading.rules import Rules

NearInclusions = Callable[[], list[dict[str, Any]] | None]
"""Returns the inclusions that nearly hold, best covered first; None where the state cannot be read."""

_MOST = 200
_AT_ONCE = 100


def inclusion_parts(changes: ConstraintChanges, held: Held, rules: Rules, near: NearInclusions) -> dict[str, Any]:
    """Return the three parts. O(known changes)."""
    return {
        "declared": [rule for rule in rules.all if rule["missing_values"] is not None],
        "lost": _lost(changes, held),
        "near": near(),
    }


def _lost(changes: ConstraintChanges, held: Held) -> list[dict[str, Any]]:
    """Return the newest violation of each inclusion that does not hold."""
    wanted = ChangeFilter({"family": "ind", "change": "disappeared", "reason": "violated"})
    found: dict[str, dict[str, Any]] = {}
    offset = 0
    while len(found) < _MOST:
        page = changes.page(wanted, offset, _AT_ONCE)["rows"]
        if not page:
            break
        for row in page:
            if row["constraint_id"] not in found and not held.has(row["constraint_id"]):
                found[row["constraint_id"]] = row
        offset += _AT_ONCE
    return list(found.values())[:_MOST]
