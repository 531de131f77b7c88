"""The rows of one table, or some of them, searchable for the number of rows that lie in a box with a given row.

The trees of a `TableIndex`, with the weights of all nodes: a zone that lies in a box as a whole is counted without
being walked, so a row that breaks a rule with a hundred thousand others costs as much as any other row.
"""

import time
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME
from holdfast.indexes.kernels.count import Box, count_kernel
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.indexes.table_index import Order, TableIndex, is_plain
from holdfast.indexes.threads import mapped
from holdfast.tables.arrays import Ints, Outcomes, Slots

Among = Callable[[Slots], Slots]
"""Chooses the rows that belong in the trees, by the values of each row alone."""

_ROWS_A_PART = 256


class CountingIndex(TableIndex):
    """Counts the rows that lie in boxes with given rows.

    Parameters
    ----------
    rows : the table.
    space : which columns are compared.
    boxes : (k, T) the outcomes that each box allows in each of the space's tests (`boxes.py`).
    among : chooses the rows; None for all rows.
    threads : how many to use.
    """

    def __init__(
        self, rows: RowSet, space: PredicateSpace, boxes: Outcomes, among: Among | None = None, threads: int = 1
    ) -> None:
        self._among = among
        self._boxes = boxes
        super().__init__(rows, threads, space)
        self._hold_boxes(boxes)

    def follow(self, delta: RowDelta) -> None:
        """Apply a batch to the trees, before the slots of its vanished rows are freed."""
        if 2 * len(delta.changed) > len(self._rows):
            self.rebuild()
            return
        self.remove(self._chosen(delta.vanished))
        self.insert(self._chosen(delta.appeared))
        left = np.setdiff1d(delta.changed, np.concatenate([delta.vanished, delta.appeared]))
        slots = self._chosen(left)
        if len(slots):
            codes, copies = self._rows.codes[slots], self._copies()
            for served in self._served.values():
                served.tree.weigh(slots, self._sort_keys(served.order, codes), copies)
        if len(self._rows) > 2 * self._measured_at + _ROWS_A_PART:
            self.rebuild()

    def rebuild(self) -> None:
        """Measure the columns and build all trees again."""
        self.measure()
        self._served, self._idle = {}, []
        self._hold_boxes(self._boxes)

    def count(self, slots: Slots, numbers: Sequence[int]) -> dict[int, tuple[Ints, float]]:
        """Return, per box, the number of copies of rows in the box with each given row, the row itself included.

        With it the seconds of one thread that the box took. For each row and box O(log n + z) for z zones in part in
        the box.
        """
        found = {number: np.zeros(len(slots), np.int64) for number in numbers}
        parts = np.array_split(np.arange(len(slots)), max(1, -(-len(slots) // _ROWS_A_PART)))
        tasks = [
            (order, number, part)
            for (order, members), part in product(self._orders_of(self._boxes).items(), parts)
            for number in members.tolist()
            if number in found
        ]

        def counted(task: tuple[Order, int, Ints]) -> float:
            order, number, part = task
            began = time.perf_counter()
            found[number][part] = self._counted(order, self._boxes[number], slots[part])
            return time.perf_counter() - began

        seconds = dict.fromkeys(found, 0.0)
        for (_, number, _), took in zip(tasks, mapped(self._threads, counted, tasks), strict=True):
            seconds[number] += took
        return {number: (counts, seconds[number]) for number, counts in found.items()}

    def _counted(self, order: Order, box: Outcomes, slots: Slots) -> Ints:
        served = self._served[order]
        tests = np.flatnonzero(box != EVERY_OUTCOME)
        sorted_by = {*served.order[0], *served.order[1]}
        tests = np.array(sorted(tests.tolist(), key=lambda t: self._tests.row_column[t] not in sorted_by), np.int64)
        asked = Box(self._tests.x_column[tests], self._tests.row_column[tests], box[tests].astype(np.int64))
        anchor = -1
        if is_plain(served.order):
            equal = np.flatnonzero((asked.row_column == served.order[0][0]) & (asked.allowed == EQUAL))
            anchor = int(asked.x_column[equal[0]]) if len(equal) else -1
        out = np.empty(len(slots), np.int64)
        count_kernel(slots, self._rows.codes, self._rows.copies, asked, anchor, served.tree.nodes, out)
        return out

    def _live(self) -> Slots:
        return self._chosen(self._rows.live())

    def _copies(self) -> Ints:
        return self._rows.copies

    def _chosen(self, slots: Slots) -> Slots:
        return slots if self._among is None else self._among(slots)
