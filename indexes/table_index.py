"""The rows of one table, searchable for violations of a changing set of boxes.

Each box is served by one zone tree, whose order fits the box: a selective equality of the box, else its equalities and
then a curve through two of its inequalities. Trees are built for the boxes that need them; the last few without a box
are kept, as constraints that disappear often appear again.

    insert / remove   every tree inserts or removes the rows
    probe             given rows against all rows: the evidences of the pairs that violate a box

Invariant: every tree holds exactly the live rows, and every box is in exactly one tree.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME, GREATER, LESS
from holdfast.indexes.boxes import Tests, turned_boxes
from holdfast.indexes.curve import CELLS, interleaved
from holdfast.indexes.evidence_table import EvidenceTable
from holdfast.indexes.kernels.probe import Boxes, probe_kernel
from holdfast.indexes.rows import RowSet
from holdfast.indexes.threads import mapped
from holdfast.indexes.zone_tree import ZoneTree
from holdfast.tables.arrays import Codes, Flags, Ints, Ints16, Outcomes, Pairs, Slots, Words

Order = tuple[tuple[int, ...], tuple[int, ...]]
"""How a tree sorts rows: by columns with equalities, most selective first, then by columns with inequalities."""

_SELECTIVE = 64.0
_EQUALITIES, _INEQUALITIES = 3, 2
_FEW_ROWS = 32
_FEW_MEASURED = 1_000
_IDLE = 4
_MOST_TREES = 40
_ONE_EACH = np.zeros(0, np.int64)
# measured on two cores, for one row
_SECONDS_PER_TREE, _SECONDS_PER_BOX, _SECONDS_PER_OUTCOME = 3e-6, 5e-9, 8e-10


@dataclass
class _Served:
    """A tree, the boxes that it serves, and those boxes as kernels take them."""

    order: Order
    tree: ZoneTree
    boxes: Outcomes
    arrays: Boxes
    effort: int = 0


class TableIndex:
    """Zone trees over the live rows of one table, for the boxes that are held at the moment.

    Columns are measured when the first trees are built: a table without boxes is never sorted.

    Parameters
    ----------
    rows : the table.
    threads : how many threads work on the trees.
    space : which columns are compared; by default the space of the rows.

    Attributes
    ----------
    is_used : whether trees are searched; else comparing with every row is cheaper, and there are no trees.
    """

    def __init__(self, rows: RowSet, threads: int = 1, space: PredicateSpace | None = None) -> None:
        self._rows = rows
        self._space: PredicateSpace = space or rows.space
        self._tests = Tests.of(self._space)
        self._threads = threads
        self.masks: Words = np.zeros((0, self._space.word_count), np.uint64)
        self._served: dict[Order, _Served] = {}
        self._idle: list[Order] = []
        self.is_used = True
        self.effort = np.zeros(2, np.int64)
        self._is_measured = False
        self._measured_at = len(rows)

    def measure(self) -> None:
        """Measure the columns: how selective an equality is, and where the cells of a curve begin. O(n log n)."""
        codes = self._live_codes()
        self._is_measured, self._measured_at = True, len(self._rows)
        measured = mapped(self._threads, lambda c: _measured(np.sort(codes[:, c])), range(codes.shape[1]))
        self._bounds, self._group, self._values = ([*values] for values in zip(*measured, strict=True))

    def hold(self, masks: Words, *, trees: bool | None = None) -> None:
        """Serve these boxes from now on, and no others. O(boxes), and O(n log n) for each new tree.

        By default this decides whether trees are cheaper than comparing with every row.
        """
        self.masks = masks
        self.is_used = self._pays(len(masks)) if trees is None else trees
        if not self.is_used:
            self._served, self._idle = {}, []
            return
        self._hold_boxes(turned_boxes(masks, self._space))

    def _hold_boxes(self, boxes: Outcomes) -> None:
        if len(boxes) and not self._is_measured:
            self.measure()
        orders = self._orders_of(boxes)
        self._idle = [order for order in self._idle if order not in orders]
        for order in self._served.keys() - orders.keys() - set(self._idle):
            self._served[order] = self._serve(order, self._served[order].tree, boxes[:0])
            self._idle.append(order)
        while len(self._idle) > _IDLE:
            del self._served[self._idle.pop(0)]
        made = self._trees([order for order in orders if order not in self._served])
        for order, members in orders.items():
            served = self._served.get(order)
            if served is None:
                self._served[order] = self._serve(order, made[order], boxes[members])
            elif not np.array_equal(served.boxes, boxes[members]):
                self._served[order] = self._serve(order, served.tree, boxes[members])

    def insert(self, slots: Slots) -> None:
        """Insert rows into every tree. O(log n) for each row and tree."""
        self._change(ZoneTree.insert, slots)

    def remove(self, slots: Slots) -> None:
        """Remove rows from every tree, while their codes are still there. O(log n) for each row and tree."""
        self._change(ZoneTree.remove, slots)

    def renew(self) -> None:
        """Rebuild if there are more than twice as many rows as were measured. Amortised O(log n)."""
        if len(self._rows) > 2 * self._measured_at + _FEW_MEASURED:
            self.rebuild()

    def rebuild(self) -> None:
        """Measure the columns and build all trees again, as is also needed when codes were relabelled."""
        self._is_measured, self._measured_at = False, len(self._rows)
        self._served, self._idle = {}, []
        self.hold(self.masks)

    def probe(self, slots: Slots) -> tuple[Words, Pairs]:
        """Return the evidences of pairs with a given row that violate a box, and pairs of slots that have them.

        The rows are in the trees. Where no columns are crossed the given rows stand as `t` only.
        """
        trees, parts = list(self._served.values()), [slots]
        threads = 1 if len(slots) < _FEW_ROWS else self._threads
        if threads > 1:  # in parts, the slowest trees of the last probe first, so that all threads end together
            trees.sort(key=lambda served: -served.effort)
            parts = np.array_split(slots, threads)
        tasks = list(product(trees, parts))
        probed = mapped(threads, lambda task: self._probe(*task), tasks)
        for served in trees:
            served.effort = 0
        for (served, _), (_, effort) in zip(tasks, probed, strict=True):
            self.effort += effort
            served.effort += int(effort.sum())
        found = [table.entries() for table, _ in probed] or [EvidenceTable(self._space).entries()]
        return np.concatenate([words for words, _ in found]), np.concatenate([pairs for _, pairs in found])

    def _live(self) -> Slots:
        """Return the rows that belong in the trees."""
        return self._rows.live()

    def _copies(self) -> Ints:
        """Return how often each row counts in a tree; an empty array where each row counts once."""
        return _ONE_EACH

    def _pays(self, boxes: int) -> bool:
        """Whether walking the trees is cheaper than a comparison with every row; in doubt the present way is kept."""
        walk = min(boxes, _MOST_TREES) * _SECONDS_PER_TREE + boxes * _SECONDS_PER_BOX
        scan = len(self._rows) * len(self._space.pairs) * _SECONDS_PER_OUTCOME
        return walk < scan * (2 if self.is_used else 0.5)

    def _change(self, method: Callable[[ZoneTree, Codes, Slots, Ints, Ints], None], slots: Slots) -> None:
        """Call a method of every tree with rows, in threads where there are enough rows to start threads for."""
        codes, copies = self._rows.codes[slots], self._copies()
        mapped(
            1 if len(slots) < _FEW_ROWS else self._threads,
            lambda s: method(s.tree, self._rows.codes, slots, self._sort_keys(s.order, codes), copies),
            self._served.values(),
        )

    def _probe(self, served: _Served, slots: Slots) -> tuple[EvidenceTable, Ints]:
        """Return the evidences that one tree finds for some rows, and the numbers of nodes and rows compared."""
        into, effort = EvidenceTable(self._space), np.zeros(2, np.int64)
        at = 0 if len(served.boxes) else len(slots)
        rows, space = self._rows, self._space
        while at < len(slots):
            how = served.arrays, served.tree.nodes, into.layout, bool(space.crossing), into.arrays
            at = probe_kernel(slots, at, rows.codes, rows.copies, *how, effort)
            if at < len(slots):
                into.grow()
        return into, effort

    def _orders_of(self, boxes: Outcomes) -> dict[Order, Ints]:
        """Return for each order of rows the boxes that are searched fastest in that order."""
        if not len(boxes):
            return {}
        group = np.array(self._group)[self._tests.row_column]
        size = np.where(boxes == EQUAL, group, np.inf)
        anchored = size.min(axis=1, initial=np.inf) <= _SELECTIVE
        orders: dict[Order, list[int]] = {}
        anchor = self._tests.row_column[size.argmin(axis=1)] if len(self._tests) else np.zeros(len(boxes), np.int64)
        for column in np.unique(anchor[anchored]).tolist():
            orders[(column,), ()] = np.flatnonzero(anchored & (anchor == column)).tolist()
        for i in np.flatnonzero(~anchored).tolist():
            orders.setdefault(self._order_of(boxes[i]), []).append(i)
        if len(orders) > _MOST_TREES:
            orders = _coarser(orders)
        return {order: np.array(members) for order, members in orders.items()}

    def _order_of(self, box: Outcomes) -> Order:
        """Return the order of rows in which a box without a selective equality is searched fastest."""
        asked = np.flatnonzero(box != EVERY_OUTCOME).tolist()
        equal = sorted({int(self._tests.row_column[t]) for t in asked if box[t] == EQUAL}, key=self._group.__getitem__)
        unequal = {int(self._tests.row_column[t]) for t in asked if box[t] not in {EQUAL, LESS | GREATER}}
        ranked = sorted(unequal - set(equal), key=lambda c: (-self._values[c], c))
        return tuple(equal[:_EQUALITIES]), tuple(ranked[:_INEQUALITIES])

    def _trees(self, orders: list[Order]) -> dict[Order, ZoneTree]:
        """Build a tree of all live rows in each order."""
        if not orders:
            return {}
        slots, codes, copies = self._live(), self._live_codes(), self._copies()
        curved = sorted({c for order in orders if not is_plain(order) for c in (*order[0], *order[1])})
        columns = mapped(self._threads, lambda c: self._cells(c, np.ascontiguousarray(codes[:, c])), curved)
        cells = dict(zip(curved, columns, strict=True))

        def made(order: Order) -> ZoneTree:
            column = np.ascontiguousarray(codes[:, order[0][0]]) if is_plain(order) else None
            keys = _curve(order, cells, len(codes)) if column is None else column
            return ZoneTree(self._rows.codes, slots, keys, copies)

        return dict(zip(orders, mapped(self._threads, made, orders), strict=True))

    def _sort_keys(self, order: Order, codes: Codes) -> Ints:
        """Return the sort keys of rows in an order."""
        if is_plain(order):
            return np.ascontiguousarray(codes[:, order[0][0]])
        return _curve(order, {c: self._cells(c, codes[:, c]) for c in (*order[0], *order[1])}, len(codes))

    def _cells(self, c: int, codes: Codes) -> Ints16:
        """Return the cell of a curve that each code of a column lies in."""
        return np.searchsorted(self._bounds[c], codes, "right").astype(np.int16)

    def _live_codes(self) -> Codes:
        """Return the codes of all live rows; a view where all rows are live."""
        live = self._live()
        return self._rows.codes[: len(live)] if len(live) and live[-1] + 1 == len(live) else self._rows.codes[live]

    def _serve(self, order: Order, tree: ZoneTree, boxes: Outcomes) -> _Served:
        """Lay out the boxes of one tree as bits; the tests that exclude most rows come first."""
        asked = (boxes != EVERY_OUTCOME).sum(axis=0)
        sorted_by = [*order[0], *order[1]]
        tests = sorted(
            np.flatnonzero(asked).tolist(),
            key=lambda t: (self._tests.row_column[t] not in sorted_by, -asked[t]),
        )
        width = -(-len(boxes) // 64)
        allow = np.zeros((len(tests), 8, width), np.uint64)
        for i, t in enumerate(tests):
            for possible in range(1, 8):
                allow[i, possible] = _bitmap((boxes[:, t] & possible) != 0, width)
        every = _bitmap(np.ones(len(boxes), np.bool_), width)
        wanted = [t for t in tests if order == ((int(self._tests.row_column[t]),), ()) and (boxes[:, t] == EQUAL).any()]
        arrays = Boxes(
            self._tests.x_column[tests],
            self._tests.row_column[tests],
            every,
            allow,
            np.unique(self._tests.x_column[wanted]),
        )
        return _Served(order, tree, boxes, arrays)


def _measured(codes: Codes) -> tuple[Codes, float, int]:
    """Return the bounds of a curve's cells in a sorted column, the mean size of a row's group, the number of values."""
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])) if len(codes) else np.zeros(0, np.int64)
    counts = np.diff(np.append(starts, len(codes))).astype(float)
    places = np.linspace(0, max(len(codes) - 1, 0), CELLS + 1).astype(np.int64)[1:-1]
    bounds = np.unique(codes[places]) if len(codes) else codes
    return bounds, float((counts**2).sum() / max(len(codes), 1)), len(starts)


def is_plain(order: Order) -> bool:
    """Whether rows are sorted by the codes of one column."""
    return len(order[0]) == 1 and not order[1]


def _curve(order: Order, cells: Mapping[int, Ints16], rows: int) -> Ints:
    """Return the sort keys of rows in an order, by the cells of its columns."""
    equalities, inequalities = order
    keys = np.zeros(rows, np.int64)
    for c in equalities:
        keys = keys * CELLS + cells[c]
    keys <<= (CELLS.bit_length() - 1) * len(inequalities)
    for c, part in zip(inequalities, _curve_bits(len(inequalities)), strict=True):
        keys |= part[cells[c]]
    return keys


@cache
def _curve_bits(columns: int) -> list[Codes]:
    """Return for each column of a curve the bits that each of its cells sets in the position on the curve."""
    every, none = np.arange(CELLS), np.zeros(CELLS, np.int64)
    return [interleaved([every if i == c else none for i in range(columns)], CELLS) for c in range(columns)]


def _coarser(orders: dict[Order, list[int]]) -> dict[Order, list[int]]:
    """Return fewer orders for the same boxes: by the most selective equality alone, or by one inequality."""
    coarser: dict[Order, list[int]] = {}
    for (equalities, inequalities), boxes in orders.items():
        coarse: Order = (equalities[:1], ()) if equalities else ((), inequalities[:1])
        coarser.setdefault(coarse, []).extend(boxes)
    return coarser


def _bitmap(flags: Flags, width: int) -> Words:
    bits = np.zeros(width * 64, np.uint8)
    bits[: len(flags)] = flags
    return np.packbits(bits, bitorder="little").view(np.uint64)
