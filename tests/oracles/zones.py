"""A tree of zones as what it means: a set of rows, each with a place, in the order of (place, slot).

Twin of `indexes/kernels/zones.py`, without any tree: what is below a node is listed, and its zone and weight are those
of the list.
"""

from collections.abc import Sequence

Row = tuple[int, int]
"""(place, slot)"""

LEAST, GREATEST = -(2**63), 2**63 - 1


class PlainRows:
    """The rows that are in; each operation returns what the kernel of its name does."""

    def __init__(self) -> None:
        self.rows: set[Row] = set()

    def insert(self, rows: Sequence[Row]) -> None:
        self.rows |= set(rows)

    def remove(self, rows: Sequence[Row]) -> int:
        missing = sum(row not in self.rows for row in rows)
        self.rows -= set(rows)
        return missing

    def listed(self) -> list[Row]:
        return sorted(self.rows)


def zone(slots: Sequence[int], codes: Sequence[Sequence[int]], column: int) -> tuple[int, int]:
    """Return the least and the greatest code of a column; of no rows the greatest and the least number there is."""
    values = [int(codes[slot][column]) for slot in slots]
    return min(values, default=GREATEST), max(values, default=LEAST)


def weight(slots: Sequence[int], copies: Sequence[int]) -> int:
    """Return of how many copies the rows are; every row counts as one where no copies are kept."""
    return sum(int(copies[slot]) if len(copies) else 1 for slot in slots)
