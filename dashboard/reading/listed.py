"""An output table as a list in memory, which is searched, filtered and ordered there; some hundred bytes per row.

Invariant: the list has the rows of one version of the table; a new version is read as a whole.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.dashboard.reading.arrays import short_ids
from holdfast.dashboard.reading.outputs import Outputs

Order = tuple[tuple[str, str], ...]


class ListedTable(ABC):
    """The rows of an output table with one row per constraint.

    A subclass names the table, the columns that are shown, and the orders of the list.

    Parameters
    ----------
    outputs : the output tables.

    Attributes
    ----------
    numbers : the first digits of the identities.
    """

    name: ClassVar[str]
    columns: ClassVar[Sequence[str]]
    orders: ClassVar[Mapping[str, Order]]

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._lock = threading.Lock()
        self._version = -2
        self._table = pa.table({})
        self._ordered: dict[str, pa.Array] = {}
        self.numbers = np.zeros(0, np.uint64)

    def refresh(self) -> None:
        """Read the table, if it has changed. O(rows)."""
        with self._lock:
            version = self._outputs.version(self.name)
            if version == self._version:
                return
            found = self._outputs.read(self.name, self.columns)
            searched = pc.binary_join_element_wise(
                *(pc.utf8_lower(pc.coalesce(found[name], "")) for name in ("constraint", "sentence")), "\n"
            )
            is_sound = pc.if_else(self._sound(found), "yes", "no")
            prepared = self._prepared(found).append_column("is_sound", is_sound)
            prepared = prepared.append_column("believed", pc.coalesce(is_sound, "yes"))
            self._table = prepared.append_column("searched", searched)
            self.numbers = short_ids(found["constraint_id"])
            self._ordered = {}
            self._version = version

    @property
    def version(self) -> int:
        """The version of the table that is listed."""
        return self._version

    @property
    def total(self) -> int:
        """The number of constraints."""
        return len(self._table)

    def counts(self, name: str, filters: Mapping[str, str] | None = None) -> dict[str, int]:
        """Return the number of constraints for each value of a column.

        Parameters
        ----------
        filters : the required values of other columns.
        """
        with self._lock:
            table = self._table.filter(self._matching(filters or {}, "")) if filters else self._table
            counted = pc.value_counts(table[name].combine_chunks()).to_pylist()
        return {found["values"]: found["counts"] for found in counted if found["values"] is not None}

    def has(self, constraint_id: str) -> bool:
        """Whether the table has a constraint."""
        return self.row(constraint_id) is not None

    def row(self, constraint_id: str) -> dict[str, Any] | None:
        """Return a constraint; None where the table does not have it. O(constraints)."""
        with self._lock:
            place = pc.index(self._table["constraint_id"], constraint_id).as_py()
            return None if place < 0 else self._rows(pa.array([place], pa.int64()))[0]

    def page(self, filters: Mapping[str, str], text: str, order: str, offset: int, limit: int) -> dict[str, Any]:
        """Return a page of constraints, and the number of all that match. O(constraints).

        Parameters
        ----------
        filters : the required values of columns.
        text : words of which each must occur in the constraint or its sentence.
        order : one of `orders`.
        """
        with self._lock:
            places = self._places(order)
            if filters or text.strip():
                places = places.filter(self._matching(filters, text).take(places))
            rows = self._rows(places.slice(offset, limit))
        return {"total": len(places), "rows": rows}

    def sound_page(
        self, filters: Mapping[str, str], text: str, order: str, place: tuple[int, int], *, every: bool
    ) -> dict[str, Any]:
        """Return a page as `page` does, without constraints that are not sound, and the number of these.

        All constraints are listed with `every`, or if none is sound.

        Parameters
        ----------
        place : offset and limit.
        """
        if every or "yes" not in self.counts("is_sound"):
            return {**self.page(filters, text, order, *place), "unsound": 0}
        page = self.page({**filters, "believed": "yes"}, text, order, *place)
        return {**page, "unsound": self.page(filters, text, order, 0, 0)["total"] - page["total"]}

    @abstractmethod
    def _sound(self, found: pa.Table) -> pa.ChunkedArray:
        """Return whether each constraint is sound; null where it is not known."""

    def _prepared(self, found: pa.Table) -> pa.Table:
        """Return the rows with further columns, by which the list is filtered or ordered."""
        return found

    def _rows(self, places: pa.Array) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._table.select([*self.columns, "is_sound"]).take(places).to_pylist()
        for row in rows:
            row["since"] = row["since"].isoformat() if row["since"] is not None else None
        return rows

    def _places(self, order: str) -> pa.Array:
        if order not in self._ordered:
            keys = [(name, direction, "at_end") for name, direction in self.orders[order]]
            self._ordered[order] = pc.sort_indices(self._table, sort_keys=keys)
        return self._ordered[order]

    def _matching(self, filters: Mapping[str, str], text: str) -> pa.ChunkedArray:
        matching = pa.chunked_array([pa.repeat(pa.scalar(value=True), len(self._table))])
        for name, value in filters.items():
            matching = pc.and_(matching, pc.coalesce(pc.equal(self._table[name], value), pa.scalar(value=False)))
        for word in text.lower().split():
            matching = pc.and_(matching, pc.match_substring(self._table["searched"], word))
        return matching
