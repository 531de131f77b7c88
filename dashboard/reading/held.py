"""The constraints that hold now, searched, filtered and ranked in memory: some hundred bytes each.

Invariant: what is shown is the table as of one version, which is read again once there is another one.
"""

import threading
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.dashboard.reading.outputs import Outputs

CONSTRAINTS = "constraints"
FILTERS = ("table_name", "family", "kind")
ORDERS: dict[str, tuple[tuple[str, str], ...]] = {
    "score": (("score", "descending"), ("rank", "ascending"), ("constraint", "ascending")),
    "newest": (("since_commit", "descending"), ("score", "descending"), ("constraint", "ascending")),
    "oldest": (("since_commit", "ascending"), ("score", "descending"), ("constraint", "ascending")),
    "text": (("table_name", "ascending"), ("constraint", "ascending")),
}

_COLUMNS = (
    *("constraint_id", "table_name", "referenced_table", "family", "constraint", "sentence", "kind", "size"),
    *("since_commit", "since", "score", "rank", "nulls_rule"),
)


class Held:
    """What holds.

    Parameters
    ----------
    outputs : where it is read from.
    """

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._lock = threading.Lock()
        self._version = -2
        self._table = pa.table({})
        self._ordered: dict[str, pa.Array] = {}

    def refresh(self) -> None:
        """Read the table, where it has changed. O(constraints)."""
        with self._lock:
            version = self._outputs.version(CONSTRAINTS)
            if version == self._version:
                return
            found = self._outputs.read(CONSTRAINTS, _COLUMNS)
            searched = pc.binary_join_element_wise(
                *(pc.utf8_lower(pc.coalesce(found[name], "")) for name in ("constraint", "sentence")), "\n"
            )
            self._table = found.append_column("searched", searched)
            self._ordered = {}
            self._version = version

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self._table)

    def counts(self, name: str, words: Mapping[str, str] | None = None) -> dict[str, int]:
        """Return how many constraints there are of each value of a column.

        Parameters
        ----------
        words : the values that some of `FILTERS` have to have.
        """
        with self._lock:
            table = self._table.filter(self._matching(words or {}, "")) if words else self._table
            counted = pc.value_counts(table[name].combine_chunks()).to_pylist()
        return {found["values"]: found["counts"] for found in counted if found["values"] is not None}

    def has(self, constraint_id: str) -> bool:
        """Whether a constraint holds."""
        with self._lock:
            return bool(pc.any(pc.equal(self._table["constraint_id"], constraint_id)).as_py())

    def page(self, words: Mapping[str, str], text: str, order: str, offset: int, limit: int) -> dict[str, Any]:
        """Return some constraints, and how many there are. O(constraints).

        Parameters
        ----------
        words : the values that some of `FILTERS` have to have.
        text : every word of it stands in the constraint or its sentence.
        order : one of `ORDERS`.
        """
        with self._lock:
            places = self._places(order)
            if words or text.strip():
                places = places.filter(self._matching(words, text).take(places))
            rows = self._table.drop_columns("searched").take(places.slice(offset, limit)).to_pylist()
        for row in rows:
            row["since"] = row["since"].isoformat() if row["since"] is not None else None
        return {"total": len(places), "rows": rows}

    def _places(self, order: str) -> pa.Array:
        if order not in self._ordered:
            keys = [(name, direction, "at_end") for name, direction in ORDERS[order]]
            self._ordered[order] = pc.sort_indices(self._table, sort_keys=keys)
        return self._ordered[order]

    def _matching(self, words: Mapping[str, str], text: str) -> pa.ChunkedArray:
        matching = pa.chunked_array([pa.repeat(pa.scalar(value=True), len(self._table))])
        for name, word in words.items():
            matching = pc.and_(matching, pc.coalesce(pc.equal(self._table[name], word), pa.scalar(value=False)))
        for word in text.lower().split():
            matching = pc.and_(matching, pc.match_substring(self._table["searched"], word))
        return matching
