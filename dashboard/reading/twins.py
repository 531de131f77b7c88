"""Which changes of near constraints are changes of constraints too.

A key is a denial constraint; a functional dependency is a denial constraint and an order dependency; an order is an
order dependency. With near constraints and these families switched on, each is published in both kinds of tables. The
*twins* of a near constraint are the identities of these constraints, made from its columns in the order of the table,
as the published texts have them.

Invariant: identities are given as the numbers of `arrays.short_ids`; 0 stands for no twin.
"""

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow.dataset as ds
from numpy.typing import NDArray

from holdfast.constraints import HoldfastError, constraint_id, parse_near
from holdfast.constraints.forms import exact_forms, published_near
from holdfast.dashboard.reading.batches import TABLES, tables
from holdfast.dashboard.reading.near_changes import NEAR_CHANGES
from holdfast.dashboard.reading.outputs import Outputs

_NAMED = ("constraint_id", "table_name", "constraint")
_MOST = 2


class Twins:
    """Finds the twins of near constraints.

    Parameters
    ----------
    outputs : the output tables.
    """

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._lock = threading.Lock()
        self._known: dict[int, tuple[int, ...]] = {}
        self._version = -2
        self._order: dict[str, dict[str, int]] = {}

    def of(self, near_ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the twins of near constraints, a line each. O(near constraints); O(near changes) where one is new."""
        found = np.zeros((len(near_ids), _MOST), np.uint64)
        with self._lock:
            self._learn(set(near_ids.tolist()))
            for place, number in enumerate(near_ids.tolist()):
                twins = self._known[number]
                found[place, : len(twins)] = twins
        return found

    def near_of(self, table: str, text: str) -> str | None:
        """Return the identity of the near constraint that says what a text says; None where there is no such shape."""
        with self._lock:
            self._look()
            order = self._order.get(table, {})
        try:
            return constraint_id(published_near(parse_near(text), order), table)
        except HoldfastError:  # not a shape of near constraints, or a text of a later version
            return None

    def exact_of(self, table: str, text: str) -> list[str]:
        """Return the identities of the constraints that say what the text of a near constraint says."""
        with self._lock:
            self._look()
            order = self._order.get(table, {})
        return [constraint_id(form, table) for form in exact_forms(parse_near(text), order)]

    def _look(self) -> None:
        """Read the order of columns again, if tables have changed."""
        version = self._outputs.version(TABLES)
        if version != self._version:
            self._version, self._known = version, {}
            self._order = column_orders(self._outputs)

    def _learn(self, asked: set[int]) -> None:
        self._look()
        if asked <= self._known.keys():
            return
        for row in self._outputs.read(NEAR_CHANGES, _NAMED, ds.field("change") == "entered").to_pylist():
            number = _short(row["constraint_id"])
            if number in asked and number not in self._known:
                self._known[number] = tuple(_twins(row, self._order.get(row["table_name"], {})))
        for number in asked - self._known.keys():
            self._known[number] = ()


def _twins(row: Mapping[str, Any], order: Mapping[str, int]) -> Iterator[int]:
    try:
        near = parse_near(row["constraint"])
    except HoldfastError:  # a text of a later version
        return
    for form in exact_forms(near, order):
        yield _short(constraint_id(form, row["table_name"]))


def column_orders(outputs: Outputs) -> dict[str, dict[str, int]]:
    """Return the position of each column in its table, by table."""
    return {row["table_name"]: {name: at for at, name in enumerate(row["columns"] or ())} for row in tables(outputs)}


def _short(constraint_id: str) -> int:
    return int(constraint_id[:16], 16)
