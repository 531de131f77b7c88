"""What the constraints of a table are measured on: rows that are drawn by lot, and all rows where a decision is close.

Rows count with their copies. The drawn rows depend on the rows of the table and their order alone.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.detection.columns import EncodedColumns, RowColumns, TableColumns
from holdfast.discovery.evidence.codes import row_codes
from holdfast.discovery.evidence.current import codes_of
from holdfast.discovery.kernels.evidence import PairCodes
from holdfast.indexes.rows import RowSet
from holdfast.tables import Table, related
from holdfast.tables.arrays import Positions

_ROWS = 1 << 15


@dataclass(frozen=True, eq=False)
class Measured:
    """The rows of a table.

    Parameters
    ----------
    codes : of the rows that are drawn by lot, in the space of the constraints; a copy is a row of its own.
    rows : how many rows the table has.
    source : all rows; or, where these are out of reach, as many of them as one process reads.
    """

    codes: PairCodes
    rows: int
    source: Table | RowSet

    @classmethod
    def of_table(cls, table: Table, space: PredicateSpace, rows: int | None = None) -> "Measured":
        """Draw rows of a table.

        Parameters
        ----------
        rows : how many rows the table has; by default all its rows are in `table`.
        """
        codes = row_codes(table, space, _drawn(table.row_count))
        return cls(codes, table.row_count if rows is None else rows, table)

    @classmethod
    def of_rows(cls, rows: RowSet, space: PredicateSpace) -> "Measured":
        """Draw live rows of a maintained table. O(n), nanoseconds a row."""
        live = rows.live()
        ends = np.cumsum(rows.copies[live])
        drawn = live[np.searchsorted(ends, _drawn(len(rows)), side="right")]
        return cls(codes_of(rows, space, drawn), len(rows), rows)

    @property
    def is_whole(self) -> bool:
        """Whether the rows that are drawn are all rows."""
        return self.codes.rows == self.rows

    @cached_property
    def every(self) -> EncodedColumns:
        """The columns of all rows, each encoded when it is needed. O(n) a column."""
        return RowColumns(self.source) if isinstance(self.source, RowSet) else TableColumns(self.source)

    @property
    def at_hand(self) -> int:
        """How many rows `every` has, with copies."""
        return len(self.source) if isinstance(self.source, RowSet) else self.source.row_count

    def are_related(self, left: str, right: str) -> bool:
        """Return whether two columns have values in common beyond chance. O(n)."""
        return left == right or related(self.every.column(left), self.every.column(right))


def _drawn(rows: int) -> Positions:
    """Return the places of the rows that are drawn, of a number of rows."""
    if rows <= _ROWS:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, _ROWS, replace=False))
