"""The order of rows in which each constraint is searched or counted, so that few pairs of blocks have to be compared.

A constraint with an equality on a column whose values fit into blocks is searched block by block where rows are sorted
by this column; of several such columns the one that most constraints have is taken. Where the equalities leave more
rows together than a block has, or there are none, a second column cuts them, and ranges decide which blocks to compare.
Constraints with nothing but differences are searched in the base order.
"""

from collections.abc import Sequence

import numpy as np

from holdfast.constraints.operators import EQUAL, GREATER, LESS
from holdfast.discovery.blocks.storage.table import BlockTable, Order
from holdfast.discovery.detection.forms import Compared
from holdfast.tables.arrays import Flags, Positions


def orders_of(table: BlockTable, asked: Sequence[Sequence[Compared]], positions: Positions) -> dict[Order, Positions]:
    """Return for each order the constraints to search in it, by position, among the constraints at `positions`."""
    if len(table.base.units) == 1:
        return {(): positions}
    equal = np.zeros((len(table.schema), len(asked)), np.bool_)
    for position in positions.tolist():
        equal[_own(asked[position], EQUAL), position] = True
    found: dict[Order, list[int]] = {}
    left = np.zeros(len(asked), np.bool_)
    left[positions] = True
    while (column := _most_wanted(table, equal & left)) is not None:
        found[(column,)] = np.flatnonzero(equal[column] & left).tolist()
        left &= ~equal[column]
    for position in np.flatnonzero(left).tolist():
        found.setdefault(_order_of(table, asked[position]), []).append(position)
    return {order: np.array(members) for order, members in found.items()}


def _own(compared: Sequence[Compared], *allowed: int) -> list[int]:
    """Return the columns that are compared with themselves with these outcomes."""
    return [c.left for c in compared if c.left == c.right and c.allowed in allowed]


def _most_wanted(table: BlockTable, equal: Flags) -> int | None:
    """Return the column whose values fit into a block that most constraints require to be equal.

    Columns that rows are sorted by already come first.
    """
    counts = equal.sum(axis=1)
    fit = [c for c in range(len(counts)) if counts[c] and table.fits_a_block(c)]
    return max(fit, key=lambda c: ((c,) in table.orders, counts[c], -table.heaviest[c], -c), default=None)


def _order_of(table: BlockTable, compared: Sequence[Compared]) -> Order:
    """Return the order for a constraint without equalities, or whose equalities leave many rows together."""

    def lightest(columns: list[int]) -> list[int]:
        return sorted(columns, key=lambda c: (table.heaviest[c], c))

    ordered = [
        *lightest(_own(compared, EQUAL)),
        *lightest(_own(compared, LESS, GREATER, LESS | EQUAL, GREATER | EQUAL)),
    ]
    return tuple(ordered[:1] if ordered and table.fits_a_block(ordered[0]) else ordered[:2])
