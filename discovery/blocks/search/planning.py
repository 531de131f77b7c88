"""In which order of rows each of some constraints is searched or counted, so that few blocks have to meet.

A constraint that wants a column equal whose values fit into blocks is searched block by block where rows are sorted by
it; of those columns the one is taken that most constraints want. Where all equalities leave more rows together than a
block holds, or there are none, a second column cuts them, and ranges tell which blocks meet. What wants nothing but
differences is searched in the rows as they came.
"""

from collections.abc import Sequence

import numpy as np

from holdfast.constraints.operators import EQUAL, GREATER, LESS
from holdfast.discovery.blocks.storage.table import BlockTable, Order
from holdfast.discovery.detection.forms import Compared
from holdfast.tables.arrays import Flags, Positions


def orders_of(table: BlockTable, asked: Sequence[Sequence[Compared]], positions: Positions) -> dict[Order, Positions]:
    """Choose an order for each of some constraints, given by their positions among all that are asked about."""
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
    """Return the columns that are compared with themselves so."""
    return [c.left for c in compared if c.left == c.right and c.allowed in allowed]


def _most_wanted(table: BlockTable, equal: Flags) -> int | None:
    """Return the column that most of some constraints want equal, of those whose values fit into a block.

    Rows that are sorted by a column already are searched in that order first.
    """
    counts = equal.sum(axis=1)
    fit = [c for c in range(len(counts)) if counts[c] and table.fits_a_block(c)]
    return max(fit, key=lambda c: ((c,) in table.orders, counts[c], -table.heaviest[c], -c), default=None)


def _order_of(table: BlockTable, compared: Sequence[Compared]) -> Order:
    """Return the order for a constraint whose equalities, if it has some, leave many rows together."""

    def lightest(columns: list[int]) -> list[int]:
        return sorted(columns, key=lambda c: (table.heaviest[c], c))

    ordered = [
        *lightest(_own(compared, EQUAL)),
        *lightest(_own(compared, LESS, GREATER, LESS | EQUAL, GREATER | EQUAL)),
    ]
    return tuple(ordered[:1] if ordered and table.fits_a_block(ordered[0]) else ordered[:2])
