"""The constraints that hold now, from the table `constraints`."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

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

    @property
    def believed(self) -> dict[str, str]:
        """The filter of the constraints that are sound, or not known not to be; none if no constraint is sound."""
        return {"believed": "yes"} if "yes" in self.counts("is_sound") else {}

    def _prepared(self, found: pa.Table) -> pa.Table:
        is_sound = pc.if_else(found["sound"], "yes", "no")
        return found.append_column("is_sound", is_sound).append_column("believed", pc.coalesce(is_sound, "yes"))
