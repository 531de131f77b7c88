"""Suspects among the rows that a constraint shows: which cells are probably wrong, with the values that are expected.

Invariant: a cell is marked only if the constraint names its column, and its row, with the key and all values, is the
row of a current suspect: a row that was changed since is not.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.dataset as ds

from holdfast.dashboard.reading.outputs import Outputs
from holdfast.dashboard.reading.wording import Shown, cell, named_columns, row_id

SUSPECTS = "suspects"

_READ = ("row_key", "row", "column", "expected", "score")


class SuspectCells:
    """The suspects of one table in some of its columns.

    Parameters
    ----------
    found : the suspects by the id of their row (`wording.row_id`).
    """

    def __init__(self, found: Mapping[str, Sequence[Shown]]) -> None:
        self._found = found

    @classmethod
    def of(cls, outputs: Outputs, table: str, texts: Iterable[str]) -> "SuspectCells":
        """Return the suspects of a table in columns that some constraints name. O(suspects of the table)."""
        names = sorted({name for text in texts for side in named_columns(text) for name in side})
        column, table_name = (ds.field(name).cast(pa.string()) for name in ("column", "table_name"))
        where = (table_name == table) & column.isin(pa.array(names, pa.string()))
        found: dict[str, list[Shown]] = defaultdict(list)
        for row in outputs.read(SUSPECTS, _READ, where).to_pylist():
            key, values = (json.loads(row[name]) if row[name] else {} for name in ("row_key", "row"))
            found[row_id(key, values)].append(_suspect(row))
        return cls(found)

    def marked(self, shown: Shown | None) -> Shown | None:
        """Return rows of the table with `suspects`: for each marked cell its row, its column, and what is expected.

        Parameters
        ----------
        shown : rows as `side_by_side` or `rows_below` returns them; None where there are none.
        """
        if shown is None:
            return None
        places = {column["name"]: place for place, column in enumerate(shown["columns"])}
        suspects = [
            {**one, "row": number, "column": places[one["column"]]}
            for number, row in enumerate(shown.get("row_ids", ()))
            for one in self._found.get(row, ())
            if one["column"] in places and _is_named(shown["columns"][places[one["column"]]], number)
        ]
        return {**shown, "suspects": suspects}


def _suspect(row: Shown) -> Shown:
    expected = None if row["expected"] is None else {"value": cell(json.loads(row["expected"]))}
    return {"column": row["column"], "expected": expected, "score": row["score"]}


def _is_named(column: Shown, row: int) -> bool:
    """Return whether the constraint names a column of a row; of rows below one another, of any row."""
    spoken = column["spoken"]
    return bool(spoken if isinstance(spoken, bool) else spoken[row])
