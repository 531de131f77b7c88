"""The changes and the current rows of constraints and near constraints, and changed constraints in words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import Family
from holdfast.constraints.near import has_jumped
from holdfast.dashboard.reading.arrays import are_in, first_digits
from holdfast.dashboard.reading.changes import ConstraintChanges
from holdfast.dashboard.reading.held import Held
from holdfast.dashboard.reading.near_changes import NearConstraintChanges
from holdfast.dashboard.reading.near_held import NearHeld
from holdfast.dashboard.reading.outputs import Outputs
from holdfast.dashboard.reading.twins import Twins
from holdfast.display.incidents import short_text
from holdfast.streaming.commits.incidents import ENDED, RESTORED, TURNS
from holdfast.streaming.commits.output_rows import Row

_BRIEF = ("table_name", "constraint", "sentence")


CHANGED = np.dtype(
    [
        *(("commit", np.int64), ("id", np.uint64), ("turn", np.int8), ("is_near", np.bool_)),
        *(("before", np.int64), ("exceptions", np.int64), ("sound", np.object_)),
    ]
)
"""Changes with a turn, with the exceptions before and after of near constraints; `sound` is None if it is not known."""

Changed = NDArray[np.void]


def changed_of(rows: Sequence[Row]) -> Changed:
    """Return the changes of rows with a turn (`streaming/commits/incidents.py`)."""
    found = [
        (
            *(row["commit"], first_digits(row["constraint_id"]), row["turn"], row["family"] == Family.NEAR.value),
            *(row.get("exceptions_before") or 0, row["exceptions"] or 0, row.get("sound")),
        )
        for row in rows
    ]
    return np.array(found, CHANGED)


@dataclass(frozen=True)
class Indexes:
    """The changes and the current rows of constraints and near constraints."""

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

    def brief(self, changed: Changed) -> list[Row]:
        """Return constraints in words, with how often they ended and came back, where they are known. O(known)."""
        found: dict[tuple[bool, int, int], Row] = {}
        for is_near, index in ((False, self.changes), (True, self.near_changes)):
            those = changed[changed["is_near"] == is_near]
            more = ("shape", "exceptions_before", "exceptions") if is_near else ("family", "kind", "exceptions")
            for row in index.brief(those["commit"], those["id"], (*_BRIEF, *more)):
                row |= {"is_near": is_near, "short": short_text(row["constraint"])}
                found[is_near, row["commit"], first_digits(row["constraint_id"])] = row
        keys = zip(changed["is_near"].tolist(), changed["commit"].tolist(), changed["id"].tolist(), strict=True)
        about = {"flaps": self.flaps(changed), "turned_back": self.turned_back(changed).tolist()}
        about |= {"sound": changed["sound"].tolist(), "turn": [TURNS[turn] for turn in changed["turn"].tolist()]}
        each = zip(keys, zip(*about.values(), strict=True), strict=True)
        return [{**found[key], **dict(zip(about, values, strict=True))} for key, values in each if key in found]

    def flaps(self, changed: Changed) -> list[int]:
        """Return how often each constraint ended and came back. O(known)."""
        found = np.zeros(len(changed["id"]), np.int64)
        for is_near, index in ((False, self.changes), (True, self.near_changes)):
            those = changed["is_near"] == is_near
            if those.any():
                found[those] = index.flaps(changed["id"][those])
        return found.tolist()

    def means(self, changed: Changed) -> NDArray[np.float32]:
        """Return how much constraints mean: when they last appeared, or as near constraints now. O(known)."""
        found = np.zeros(len(changed["id"]), np.float32)
        ids, of = np.unique(changed["id"][~changed["is_near"]], return_inverse=True)
        found[~changed["is_near"]] = self.changes.meaning_of(ids)[of]
        found[changed["is_near"]] = self.near_held.numbers_of("strength", changed["id"][changed["is_near"]], 0.0)
        return found

    def turned_back(self, changed: Changed) -> NDArray[np.bool_]:
        """Return which constraints are now as they were before the change: hold again, or hold no more."""
        now, recovered = self.near_held.numbers_of("exceptions", changed["id"], -1), changed["turn"] == RESTORED
        nearly = np.where(recovered, has_jumped(changed["exceptions"], now), ~has_jumped(changed["before"], now))
        near = np.where(changed["turn"] == ENDED, now >= 0, np.where(now >= 0, nearly, recovered))
        return np.where(changed["is_near"], near, are_in(changed["id"], self.held.numbers) ^ recovered)
