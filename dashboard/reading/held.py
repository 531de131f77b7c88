"""The constraints that hold now, from the table `constraints`."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from holdfast.dashboard.reading.listed import ListedTable, Order

FILTERS = ("table_name", "family", "kind")
ORDERS: dict[str, Order] = {
    "score": (
        *(("believed", "descending"), ("score", "descending")),
        *(("rank", "ascending"), ("constraint", "ascending")),
    ),
    "newest": (("since_commit", "descending"), ("score", "descending"), ("constraint", "ascending")),
    "oldest": (("since_commit", "ascending"), ("score", "descending"), ("constraint", "ascending")),
    "text": (("table_name", "ascending"), ("constraint", "ascending")),
}


class Held(ListedTable):
    """The constraints that hold."""

    name: ClassVar[str] = "constraints"
    columns: ClassVar[Sequence[str]] = (
        *("constraint_id", "table_name", "referenced_table", "family", "constraint", "sentence", "kind", "size"),
        *("since_commit", "since", "score", "rank", "nulls_rule", "sound", "strength", "support", "why_not"),
    )
    orders: ClassVar[Mapping[str, Order]] = ORDERS

    def _sound(self, found: pa.Table) -> pa.ChunkedArray:
        return found["sound"]
