"""The rows of a table in one order, searchable by zones (`kernels/zones.py`): equality and inequality index in one.

The order decides how fast a search is, never what it finds. A row is inserted and removed in O(log n).
"""

import numpy as np

from holdfast.indexes.kernels.zones import (
    DEPTH,
    FANOUT,
    Tree,
    build_kernel,
    insert_kernel,
    order_kernel,
    remove_kernel,
    weigh_kernel,
)
from holdfast.tables.arrays import Codes, Ints, Slots

_NONE: Ints = np.zeros(0, np.int64)


class ZoneTree:
    """Rows sorted by (key, slot).

    Parameters
    ----------
    codes : the codes of all rows by slot, as `RowSet.codes`.
    slots, keys : the first rows, and their sort keys.
    copies : the number of copies of each row by slot, as `RowSet.copies`; empty where each row counts once.

    Attributes
    ----------
    nodes : the arrays that kernels take.
    """

    def __init__(self, codes: Codes, slots: Slots, keys: Ints, copies: Ints = _NONE) -> None:
        self.nodes = _empty_tree(codes.shape[1], 2 * len(slots) // (FANOUT // 2) + 4 * DEPTH)
        build_kernel(*_in_order(slots, keys), codes, copies, self.nodes)
        self._held = len(slots)

    def __len__(self) -> int:
        return self._held

    def insert(self, codes: Codes, slots: Slots, keys: Ints, copies: Ints = _NONE) -> None:
        """Insert rows that are not in the tree. O(log n) each."""
        at = 0
        while at < len(slots):
            at = insert_kernel(slots, keys, at, codes, copies, self.nodes)
            if at < len(slots):
                self._grow()
        self._held += len(slots)

    def remove(self, codes: Codes, slots: Slots, keys: Ints, copies: Ints = _NONE) -> None:
        """Remove rows, whose codes and keys are those they were inserted with. O(log n) each."""
        missing = remove_kernel(slots, keys, codes, copies, self.nodes)
        assert missing == 0, f"{missing} rows were not where they belong"
        self._held -= len(slots)

    def weigh(self, slots: Slots, keys: Ints, copies: Ints) -> None:
        """Update the weights above rows whose numbers of copies changed. O(log n) each."""
        weigh_kernel(slots, keys, copies, self.nodes)

    def _grow(self) -> None:
        """Add half as many nodes."""
        more = _empty_tree(self.nodes.zone.shape[2], len(self.nodes.size) // 2 + 4 * DEPTH)
        *grown, _ = (np.concatenate([own, free]) for own, free in zip(self.nodes, more, strict=True))
        self.nodes = Tree._make([*grown, self.nodes.root])


def _empty_tree(columns: int, nodes: int) -> Tree:
    """Return a tree without rows."""
    return Tree(
        size=np.zeros(nodes, np.int64),
        leaf=np.zeros(nodes, np.int64),
        entry=np.zeros((nodes, FANOUT), np.int32),
        key=np.zeros((nodes, FANOUT), np.int64),
        first=np.zeros((nodes, FANOUT), np.int32),
        zone=np.zeros((nodes, 2, columns), np.int64),
        weight=np.zeros(nodes, np.int64),
        root=np.zeros(3, np.int64),
    )


def _in_order(slots: Slots, keys: Ints) -> tuple[Slots, Ints]:
    """Return rows sorted by (key, slot). O(n)."""
    if not len(slots):
        return slots, keys
    if (slots[1:] < slots[:-1]).any():
        ascending = np.argsort(slots)
        slots, keys = slots[ascending], keys[ascending]
    room = np.empty_like(slots), np.empty_like(keys)
    ordered: tuple[Slots, Ints] = order_kernel(slots.copy(), keys.copy(), *room)
    return ordered
