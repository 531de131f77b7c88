"""The forms in which one constraint is published: as a denial constraint, an order dependency and a near constraint.

The forms are made from the columns of a constraint in the order of the table, as the published texts have them.

Invariant: identities are given as texts, or as the numbers of `arrays.short_ids`.
"""

import threading

import numpy as np
import pyarrow.dataset as ds
from numpy.typing import NDArray

from holdfast.constraints import Family, HoldfastError, constraint_id, parse_near
from holdfast.constraints.forms import exact_forms, published_near, simplest_form
from holdfast.constraints.parsing import parse_rule_body
from holdfast.dashboard.reading.arrays import are_in, first_digits, short_ids
from holdfast.dashboard.reading.batches import TABLES, tables
from holdfast.dashboard.reading.changes import CHANGES
from holdfast.dashboard.reading.near_changes import NEAR_CHANGES
from holdfast.dashboard.reading.outputs import Outputs

_NAMED = ("constraint_id", "table_name", "constraint")
_FIRST = {CHANGES: ds.field("family") == Family.ORDER.value, NEAR_CHANGES: ds.field("change") == "entered"}


class Twins:
    """Finds the other forms of constraints.

    Parameters
    ----------
    outputs : the output tables.
    """

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._lock = threading.Lock()
        self._known: dict[int, int] = {}
        self._version = -2
        self._order: dict[str, dict[str, int]] = {}

    def denial_of(self, name: str, ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the denial constraints that say what order dependencies or near constraints say.

        O(ids); O(changes) where an identity is new.

        Parameters
        ----------
        name : the table with their changes, `CHANGES` or `NEAR_CHANGES`.
        """
        with self._lock:
            self._look()
            new = set(ids.tolist()) - self._known.keys()
            if new:
                self._learn(name, np.array(sorted(new), np.uint64))
            return np.array([self._known[number] for number in ids.tolist()], np.uint64)

    def near_of(self, table: str, text: str) -> str | None:
        """Return the identity of the near constraint that says what a text says; None where there is no such shape."""
        try:
            near = simplest_form(parse_rule_body(text))
        except HoldfastError:  # a text of a later version
            return None
        return None if near is None else constraint_id(published_near(near, self._order_of(table)), table)

    def exact_of(self, table: str, text: str) -> list[str]:
        """Return the identities of the constraints that say what the text of a near constraint says."""
        return [constraint_id(form, table) for form in exact_forms(parse_near(text), self._order_of(table))]

    def _order_of(self, table: str) -> dict[str, int]:
        with self._lock:
            self._look()
            return self._order.get(table, {})

    def _look(self) -> None:
        """Read the order of columns again, if tables have changed."""
        version = self._outputs.version(TABLES)
        if version != self._version:
            self._version, self._known = version, {}
            self._order = column_orders(self._outputs)

    def _learn(self, name: str, new: NDArray[np.uint64]) -> None:
        self._known |= {number: number for number in new.tolist()}  # those of a later version stay
        rows = self._outputs.read(name, _NAMED, _FIRST[name])
        rows = rows.filter(are_in(short_ids(rows["constraint_id"]), new))
        texts = {(row["table_name"], row["constraint"]): row["constraint_id"] for row in rows.to_pylist()}
        for (table, text), identity in texts.items():
            try:
                denial, *_ = exact_forms(parse_near(text), self._order.get(table, {}))
            except HoldfastError:  # a text of a later version
                continue
            self._known[first_digits(identity)] = first_digits(constraint_id(denial, table))


def column_orders(outputs: Outputs) -> dict[str, dict[str, int]]:
    """Return the position of each column in its table, by table."""
    return {row["table_name"]: {name: at for at, name in enumerate(row["columns"] or ())} for row in tables(outputs)}
