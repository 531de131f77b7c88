"""The muted constraints among the published ones, by identity."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from holdfast.constraints.mutes import Mutes
from holdfast.dashboard.reading.arrays import short_ids
from holdfast.dashboard.reading.batches import TABLES
from holdfast.dashboard.reading.changes import CHANGES
from holdfast.dashboard.reading.near_changes import NEAR_CHANGES
from holdfast.dashboard.reading.outputs import Outputs
from holdfast.dashboard.reading.twins import column_orders


class Muted:
    """The identities of muted constraints.

    Parameters
    ----------
    outputs : the output tables.
    mutes : returns the muted constraints as of now, and the problem of their file.
    """

    def __init__(self, outputs: Outputs, mutes: Callable[[], tuple[Mutes, str | None]]) -> None:
        self._outputs = outputs
        self._mutes = mutes
        self._lock = threading.Lock()
        self._of: tuple[Mutes, int] | None = None
        self._ids: frozenset[str] = frozenset()
        self.numbers = np.zeros(0, np.uint64)
        self.problem: str | None = None

    def refresh(self) -> None:
        """Read the mutes again, if they or the tables have changed. O(mutes)."""
        with self._lock:
            mutes, self.problem = self._mutes()
            key = mutes, self._outputs.version(TABLES)
            if key != self._of:
                self._ids = frozenset(mutes.identities(column_orders(self._outputs)) if mutes.mutes else ())
                self.numbers = np.sort(short_ids(pa.array(sorted(self._ids), pa.string())))
                self._of = key

    def __len__(self) -> int:
        """Return the number of identities."""
        return len(self._ids)

    def has(self, constraint_id: str) -> bool:
        """Whether a constraint is muted."""
        return constraint_id in self._ids

    def marked(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return an answer whose rows say whether they are muted."""
        return {**answer, "rows": [{**row, "muted": row["constraint_id"] in self._ids} for row in answer["rows"]]}


def published(outputs: Outputs, mutes: Mutes) -> int:
    """Return how many of some muted constraints are or were published, in any form. O(files)."""
    orders = column_orders(outputs)
    named = {identity: mute for mute in mutes.mutes for identity in mute.identities(orders.get(mute.table, {}))}
    where = ds.field("constraint_id").isin(list(named))
    tables = (outputs.read(name, ("constraint_id",), where) for name in (CHANGES, NEAR_CHANGES))
    return len({named[identity] for table in tables for identity in table["constraint_id"].to_pylist()})
