"""The rows of one table, searched once for all families that are maintained on it.

The index is in the space of the table, which has every column pair and every order that some family compares; boxes
and evidences are seen from there and back (`indexes/masks.py`).
"""

from collections.abc import Sequence

import numpy as np

from holdfast.discovery.certificate import Pairs, Words
from holdfast.discovery.current import evidences_with
from holdfast.indexes.masks import seen_in
from holdfast.indexes.rows import RowDelta, RowSet, Slots
from holdfast.indexes.table_index import WITNESSES, TableIndex
from holdfast.streaming.maintainers.certified import CertifiedMaintainer
from holdfast.streaming.maintainers.spread_rows import SpreadRows


class SharedIndex:
    """Finds the pairs with new rows that break some constraint.

    Parameters
    ----------
    rows : the table.
    families : whose constraints are served.
    threads : how many to use.
    """

    def __init__(self, rows: RowSet, families: Sequence[CertifiedMaintainer], threads: int = 1) -> None:
        self._rows = rows
        self._families = families
        self._threads = threads
        self._held: list[Words] = []
        self.table = TableIndex(rows, threads)
        self.hold()

    def follow(self, delta: RowDelta) -> None:
        """Take rows out and in."""
        self.table.remove(delta.vanished)
        self.table.insert(delta.appeared)

    def hold(self) -> None:
        """Serve the boxes that the families have now, after a batch. O(1) where they are the same."""
        boxes = [_boxes_of(family, self._rows) for family in self._families]
        if len(self._held) != len(boxes) or any(a is not b for a, b in zip(boxes, self._held, strict=True)):
            self._held = boxes
            there = self._rows.space
            self.table.hold(
                np.concatenate([seen_in(b, f.space, there) for b, f in zip(boxes, self._families, strict=True)])
            )
        self.table.renew()

    def met(self, slots: Slots) -> list[tuple[Words, Pairs]]:
        """Return for each family the evidences of pairs with some rows, at least of those that violate its boxes."""
        here = self._rows.space
        if not len(slots):
            words, pairs = np.zeros((0, here.word_count), np.uint64), np.zeros((0, WITNESSES, 2), np.int64)
        elif self.table.is_used:
            words, pairs = self.table.probe(slots)
        else:
            words, one = evidences_with(self._rows, here, slots, self._threads)
            pairs = one[:, None, :]
        return [(seen_in(words, here, family.space), pairs) for family in self._families]

    def rebuild(self) -> None:
        """Make what is derived from codes anew, as is needed when they were relabelled. O(n log n)."""
        self.table.rebuild()

    def check_invariants(self) -> None:
        """Assert what the index promises. O(n) for each tree."""
        self.table.check_invariants()


class SpreadIndex:
    """Finds the same pairs where rows are in blocks; the blocks have their indexes where they are searched.

    Parameters
    ----------
    rows : the table.
    families : whose constraints are served.
    """

    def __init__(self, rows: SpreadRows, families: Sequence[CertifiedMaintainer]) -> None:
        self._rows = rows
        self._families = families

    def follow(self, delta: RowDelta) -> None:
        """Do nothing: the blocks have changed with the rows."""

    def hold(self) -> None:
        """Do nothing: each batch is asked about the boxes that there are."""

    def met(self, slots: Slots) -> list[tuple[Words, Pairs]]:
        """Return for each family the evidences of pairs with some rows, at least of those that violate its boxes."""
        here = self._rows.space
        if not (len(slots) and self._families):
            none = np.zeros((0, 1, 2), np.int64)
            return [(family.boxes[:0], none) for family in self._families]
        boxes = [seen_in(_boxes_of(family, self._rows), family.space, here) for family in self._families]
        words, pairs = self._rows.met_by(slots, np.unique(np.concatenate(boxes), axis=0))
        return [(seen_in(words, here, family.space), pairs[:, None, :]) for family in self._families]

    def rebuild(self) -> None:
        """Nothing is derived from codes."""

    def check_invariants(self) -> None:
        """Nothing is kept."""


def _boxes_of(family: CertifiedMaintainer, rows: RowSet) -> Words:
    """Return what to search for: where some columns are crossed, a row stands on both sides of every box."""
    both_sides = bool(rows.space.crossing)
    return family.masks if both_sides and not family.space.crossing else family.boxes
