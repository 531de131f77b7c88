"""The live rows of a maintained table as batch searches take them."""

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.codes import Codes, PairCodes, numbers, ranks
from holdfast.indexes.rows import RowSet


def current_codes(rows: RowSet, space: PredicateSpace) -> PairCodes:
    """Return the codes of all live rows; the "table's rows" are slots.

    O(n) per column, and a sort of the distinct values.
    """
    live = rows.live()
    stable = rows.codes[live]
    left = np.empty((len(space.pairs), len(live)), np.int32)
    right: Codes = np.empty_like(left)
    for p, pair in enumerate(space.pairs):
        dense = ranks if pair.ordered else numbers
        if pair.left == pair.right:
            left[p] = right[p] = dense(np.ascontiguousarray(stable[:, pair.left]))
        else:
            both = dense(np.concatenate([stable[:, pair.left], stable[:, pair.right]]))
            left[p], right[p] = both[: len(live)], both[len(live) :]
    return PairCodes(left, right, live, np.where(rows.copies[live] > 1, live, -1))
