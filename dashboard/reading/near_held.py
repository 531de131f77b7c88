"""The current near constraints, from the table `near_constraints`, and rows that are exceptions of a constraint.

Invariant: a denial constraint, an order dependency and a near constraint on the same columns are the same constraint
here, in whatever order their texts name the columns.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from holdfast.constraints import HoldfastError
from holdfast.constraints.near import parse_near
from holdfast.constraints.scores import SOUND
from holdfast.dashboard.reading.arrays import places_in
from holdfast.dashboard.reading.batches import tables
from holdfast.dashboard.reading.listed import ListedTable, Order
from holdfast.dashboard.reading.outputs import Outputs
from holdfast.dashboard.reading.wording import rows_below

EXCEPTIONS = "exceptions"
SOME, NONE = "some", "none"
NEAR_FILTERS = ("table_name", "shape", "having")
NEAR_ORDERS: dict[str, Order] = {
    "share": (("holds", "ascending"), ("share", "ascending"), ("exceptions", "ascending"), ("constraint", "ascending")),
    "most": (("share", "descending"), ("exceptions", "descending"), ("constraint", "ascending")),
    "strength": (("strength", "descending"), ("share", "ascending"), ("constraint", "ascending")),
    "newest": (("since_commit", "descending"), ("share", "ascending"), ("constraint", "ascending")),
    "text": (("table_name", "ascending"), ("constraint", "ascending")),
}

_MOST_EXAMPLES = 10
_EXAMPLE = ("example_id", "row_key", "row", "undecided", "since", "commit")
_Same = tuple[str, str, frozenset[str], frozenset[str]]


class NearHeld(ListedTable):
    """The current near constraints."""

    name: ClassVar[str] = "near_constraints"
    columns: ClassVar[Sequence[str]] = (
        *("constraint_id", "table_name", "shape", "context", "target", "constraint", "sentence", "exceptions"),
        *("rows", "share", "strength", "commit", "since_commit", "since"),
    )
    orders: ClassVar[Mapping[str, Order]] = NEAR_ORDERS

    def __init__(self, outputs: Outputs) -> None:
        super().__init__(outputs)
        self._ids: dict[_Same, str] = {}
        self._ids_of = -2

    @property
    def with_exceptions(self) -> int:
        """The number of near constraints with exceptions."""
        return self.counts("having").get(SOME, 0)

    def numbers_of(self, column: str, ids: NDArray[np.uint64], otherwise: float) -> NDArray[np.float64]:
        """Return a number of each of some near constraints, given the first digits of their identities. O(n).

        Parameters
        ----------
        otherwise : the number of those that do not nearly hold now, or have none.
        """
        with self._lock:
            at = places_in(ids, self.numbers)
            numbers = np.asarray(self._table[column].cast(pa.float64()).fill_null(otherwise))
        found = np.full(len(ids), otherwise, np.float64)
        found[at >= 0] = numbers[at[at >= 0]]
        return found

    def of(self, table: str, text: str) -> dict[str, Any] | None:
        """Return the near constraint for the text of any family; None where it does not nearly hold now."""
        try:
            near = parse_near(text)
        except HoldfastError:  # not a shape of near constraints, or a text of a later version
            return None
        with self._lock:
            if self._ids_of != self._version:
                self._ids = {_same(row): row["constraint_id"] for row in self._table.select(_NAMED).to_pylist()}
                self._ids_of = self._version
            found = self._ids.get((table, near.shape.value, frozenset(near.context), frozenset(near.target)))
        return None if found is None else self.row(found)

    def _sound(self, found: pa.Table) -> pa.ChunkedArray:
        return pc.greater_equal(found["strength"], SOUND)

    def _prepared(self, found: pa.Table) -> pa.Table:
        holds = pc.coalesce(pc.equal(found["exceptions"], 0), pa.scalar(value=False))
        having = pc.if_else(holds, NONE, SOME)
        return found.append_column("holds", holds).append_column("having", having)


def followed_on(outputs: Outputs) -> dict[str, str | None]:
    """Return the share of rows that may be exceptions by table; None where no near constraints are maintained."""
    return {row["table_name"]: ((row["bounds"] or {}).get("near") or {}).get("share") for row in tables(outputs)}


def exceptions_of(outputs: Outputs, constraint_id: str, text: str) -> dict[str, Any] | None:
    """Return rows that are exceptions of a constraint, certain ones first; None where none are known.

    O(files of the table, which has ten rows per constraint).
    """
    found = outputs.read(EXCEPTIONS, _EXAMPLE, ds.field("constraint_id").cast(pa.string()) == constraint_id)
    order = [("undecided", "ascending"), ("since", "descending"), ("example_id", "ascending")]
    rows = found.sort_by(order).slice(0, _MOST_EXAMPLES).to_pylist()
    if not rows:
        return None
    keys, values = ([json.loads(row[name]) if row[name] else {} for row in rows] for name in ("row_key", "row"))
    about = [
        {"id": row["example_id"][:16], "undecided": row["undecided"], "since": row["since"].isoformat()} for row in rows
    ]
    return {**rows_below(keys, values, text), "about": about}


_NAMED = ["constraint_id", "table_name", "shape", "context", "target"]


def _same(row: Mapping[str, Any]) -> _Same:
    context, target = (frozenset(json.loads(row[name])) for name in ("context", "target"))
    return row["table_name"], row["shape"], context, target
