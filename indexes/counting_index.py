"""The rows of one table, or some of them, searchable for how many lie in each of some boxes with a row.

The trees of a `TableIndex`, with the weights of what is below their nodes: where a whole zone lies in a box it is
counted without being walked, so a row that breaks a rule with a hundred thousand others costs as much as any.
"""

import time
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import PredicateSpace
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME
from holdfast.indexes.kernels.count import count_kernel
from holdfast.indexes.kernels.probe import STACK
from holdfast.indexes.masks import Outcomes
from holdfast.indexes.rows import RowDelta, RowSet, Slots
from holdfast.indexes.table_index import Order, TableIndex, is_plain
from holdfast.indexes.threads import mapped

Ints = NDArray[np.int64]
Among = Callable[[Slots], Slots]
"""Returns those of some rows that belong here: by what they are alone."""

_ROWS_A_PART = 256


class CountingIndex(TableIndex):
    """Counts the rows in boxes.

    Parameters
    ----------
    rows : the table.
    space : which columns are compared.
    boxes : (k, T) what each allows in each of the space's tests (`boxes.py`), `EVERY_OUTCOME` where it is not asked.
    among : chooses rows; None for all.
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
        """Bring the trees to where the rows are, before the slots of vanished rows are forgotten."""
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
                served.tree.weigh(slots, self._places(served.order, codes), copies)
        if len(self._rows) > 2 * self._measured_at + _ROWS_A_PART:
            self.rebuild()

    def rebuild(self) -> None:
        """Measure and make all trees anew."""
        self.measure()
        self._served, self._idle = {}, []
        self._hold_boxes(self._boxes)

    def count(self, slots: Slots, numbers: Sequence[int]) -> dict[int, tuple[Ints, float]]:
        """Return for some boxes how many copies of rows lie in them with each of some rows, itself included.

        And how many seconds of one thread a box took. O(log n) and what a box's border cuts, for each row and box.
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

    def _counted(self, order: Order, box: NDArray[np.int8], slots: Slots) -> Ints:
        served = self._served[order]
        tests = np.flatnonzero(box != EVERY_OUTCOME)
        sorted_by = {*served.order[0], *served.order[1]}
        tests = np.array(sorted(tests.tolist(), key=lambda t: self._tests.row_column[t] not in sorted_by), np.int64)
        x_column, row_column = self._tests.x_column[tests], self._tests.row_column[tests]
        anchor = -1
        if is_plain(served.order):
            equal = np.flatnonzero((row_column == served.order[0][0]) & (box[tests] == EQUAL))
            anchor = int(x_column[equal[0]]) if len(equal) else -1
        tree = served.tree
        out = np.empty(len(slots), np.int64)
        count_kernel(
            slots,
            self._rows.codes,
            self._rows.copies,
            x_column,
            row_column,
            box[tests].astype(np.int64),
            anchor,
            tree.leaf,
            tree.size,
            tree.entry,
            tree.place,
            tree.zone,
            tree.weight,
            tree.root,
            np.empty(STACK, np.int64),
            out,
        )
        return out

    def _live(self) -> Slots:
        return self._chosen(self._rows.live())

    def _copies(self) -> Ints:
        return self._rows.copies

    def _chosen(self, slots: Slots) -> Slots:
        return slots if self._among is None else self._among(slots)
