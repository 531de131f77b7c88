"""A table's rows in one order, searchable by zones (`kernels/zones.py`): the equality and the inequality index in one.

The order decides how fast a search is, never what it finds. A row goes in and out in O(log n).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.indexes.encoding import Codes
from holdfast.indexes.kernels.zones import (
    DEPTH,
    FANOUT,
    build_kernel,
    insert_kernel,
    order_kernel,
    remove_kernel,
    weigh_kernel,
)
from holdfast.indexes.rows import Slots

Places = NDArray[np.int64]

_NONE: Places = np.zeros(0, np.int64)


class ZoneTree:
    """Slots in the order of their places.

    Parameters
    ----------
    codes : the rows, as `RowSet.codes`.
    slots, places : the first rows.
    copies : of how many each row counts, as `RowSet.copies`; none where each counts as one.
    """

    def __init__(self, codes: Codes, slots: Slots, places: Places, copies: Places = _NONE) -> None:
        self._make(codes.shape[1], 2 * len(slots) // (FANOUT // 2) + 4 * DEPTH)
        build_kernel(*_in_order(slots, places), codes, copies, *self.nodes)
        self._held = len(slots)

    def __len__(self) -> int:
        return self._held

    @property
    def nodes(self) -> tuple[NDArray[Any], ...]:
        """The arrays that kernels take: size, leaf, entry, place, first, zone, weight, root."""
        return self.size, self.leaf, self.entry, self.place, self._first, self.zone, self.weight, self.root

    def insert(self, codes: Codes, slots: Slots, places: Places, copies: Places = _NONE) -> None:
        """Insert rows that are not there. O(log n) each."""
        at = 0
        while at < len(slots):
            at = insert_kernel(slots, places, at, codes, copies, *self.nodes)
            if at < len(slots):
                self._grow()
        self._held += len(slots)

    def remove(self, codes: Codes, slots: Slots, places: Places, copies: Places = _NONE) -> None:
        """Take rows out that are there, with the codes and places they were put in with. O(log n) each."""
        missing = remove_kernel(slots, places, codes, copies, *self.nodes)
        assert missing == 0, f"{missing} rows were not where they belong"
        self._held -= len(slots)

    def weigh(self, slots: Slots, places: Places, copies: Places) -> None:
        """Count the copies of rows anew that are there. O(log n) each."""
        tree = (self.size, self.leaf, self.entry, self.place, self._first, self.weight, self.root)
        weigh_kernel(slots, places, copies, *tree)

    def check_invariants(self, codes: Codes, copies: Places = _NONE) -> None:
        """Assert the order, the depth, the zones and the weights of the whole tree. O(n)."""
        seen: list[tuple[int, int]] = []
        depths = set()

        def check(node: int, depth: int) -> None:
            assert 0 < self.size[node] < FANOUT or (node == self.root[0] and self.size[node] == 0)
            keys = [(int(self.place[node, i]), int(self._first[node, i])) for i in range(self.size[node])]
            assert keys == sorted(keys)
            if self.leaf[node]:
                depths.add(depth)
                seen.extend(keys)
                weight = copies[self.entry[node, : self.size[node]]].sum() if len(copies) else self.size[node]
                rows = codes[self.entry[node, : self.size[node]]]
                assert [slot for _, slot in keys] == self.entry[node, : self.size[node]].tolist()
                low, high = rows.min(axis=0, initial=2**63 - 1), rows.max(axis=0, initial=-(2**63))
            else:
                below = self.entry[node, : self.size[node]]
                low, high = self.zone[below, 0].min(axis=0), self.zone[below, 1].max(axis=0)
                weight = self.weight[below].sum()
                for key, child in zip(keys, below.tolist(), strict=True):
                    assert key == (self.place[child, 0], self._first[child, 0])
                    check(child, depth + 1)
            assert self.weight[node] == weight
            if self.size[node]:
                assert (self.zone[node, 0] == low).all()
                assert (self.zone[node, 1] == high).all()

        check(int(self.root[0]), 0)
        assert seen == sorted(seen)
        assert len(seen) == self._held
        assert len(depths) == 1

    def _make(self, columns: int, nodes: int) -> None:
        self.size, self.leaf = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
        self.entry, self._first = (np.zeros((nodes, FANOUT), np.int32) for _ in range(2))
        self.place = np.zeros((nodes, FANOUT), np.int64)
        self.zone = np.zeros((nodes, 2, columns), np.int64)
        self.weight = np.zeros(nodes, np.int64)
        self.root = np.zeros(3, np.int64)

    def _grow(self) -> None:
        """Add half as many nodes."""
        more = len(self.size) // 2 + 4 * DEPTH
        self.size, self.leaf, self.entry, self.place, self._first, self.zone, self.weight = (
            np.concatenate([a, np.zeros((more, *a.shape[1:]), a.dtype)])
            for a in (self.size, self.leaf, self.entry, self.place, self._first, self.zone, self.weight)
        )


def _in_order(slots: Slots, places: Places) -> tuple[Slots, Places]:
    """Return rows in the order of (place, slot). O(n)."""
    if not len(slots):
        return slots, places
    if (slots[1:] < slots[:-1]).any():
        ascending = np.argsort(slots)
        slots, places = slots[ascending], places[ascending]
    room = np.empty_like(slots), np.empty_like(places)
    ordered: tuple[Slots, Places] = order_kernel(slots.copy(), places.copy(), *room)
    return ordered
