"""Counts exceptions of candidates on the live rows of a table: of few candidates, in the middle of a batch.

Constants and keys are counted on numbers of values that follow the rows. Orders need ranks, which are made for a sample
first: where its exceptions, which all rows have at least, are more than enough, no other row is looked at.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import NearShape
from holdfast.discovery.near.counting import Context, Counted, Counter, visible
from holdfast.discovery.near.lattice import Tasks, counting
from holdfast.discovery.near.removal import standing_of
from holdfast.discovery.near.rows import NearRows, middle_of
from holdfast.discovery.near.targets import NearTargets
from holdfast.indexes.exceptions import Standing
from holdfast.indexes.kernels.exceptions import NONE
from holdfast.indexes.rows import RowSet, Slots
from holdfast.indexes.slot_numbers import SlotNumbers

Ints = NDArray[np.int64]
Rows = NDArray[np.int32]

_SAMPLED = 3
"""A sample has so many times as many rows as are enough exceptions."""


class LiveCounts:
    """Counts candidates on the live rows.

    Parameters
    ----------
    rows : the table.
    ordered : for each column whether its codes order as its values do.
    threads : how many to use.

    Attributes
    ----------
    targets : what is counted.
    """

    def __init__(self, rows: RowSet, ordered: Sequence[bool], threads: int = 1) -> None:
        self._rows = rows
        self.ordered = tuple(ordered)
        self._threads = threads
        self._numbers = SlotNumbers(rows)
        self._random = np.random.default_rng(0)
        self._shuffled: Rows = np.zeros(0, np.int32)
        self._live: Rows | None = None
        self._ranks: dict[tuple[int, int], tuple[Rows, int, int]] = {}
        self.targets = NearTargets(self._near_rows(self._numbers.numbers, self._numbers.known, self._shuffled))

    def follow(self, appeared: Ints) -> None:
        """Take rows over that came, before the slots of vanished ones are forgotten."""
        self._numbers.follow(appeared)
        self._forget()

    def rebuild(self) -> None:
        """Take all live rows over anew. O(n) a column."""
        self._numbers.rebuild()
        self._forget()

    def counted(self, tasks: Tasks, most: int, enough: int) -> Iterator[Counted]:
        """Count candidates; a count of more than `enough` may be one of some rows alone, and is then a lower bound."""
        plain, orders = [], []
        for context, numbers in tasks:
            is_order = numbers > self.targets.constants
            plain.append((context, numbers[~is_order]))
            orders.append((context, numbers[is_order]))
        found = dict(self._by_numbers([task for task in plain if len(task[1])], most, enough))
        left = []
        for context, numbers in orders:
            known = found.get(context)
            every = Counted(context, numbers, np.full(len(numbers), enough + 1))
            asked = every if known is None else visible(together(known, every), self.targets, most)
            asked_orders = asked.numbers[asked.numbers > self.targets.constants]
            if len(asked_orders):
                left.append((context, asked_orders))
        of_orders = dict(self._by_ranks(left, most, enough))
        for context, _ in tasks:
            parts = [part[context] for part in (found, of_orders) if context in part]
            if parts:
                yield parts[0] if len(parts) == 1 else together(*parts)

    def exceptions(self, context: Context, number: int) -> tuple[Slots, Standing]:
        """Return the slots of all exceptions of a candidate, and the standing of each. O(n log n)."""
        shape, target = self.targets.form(number)
        slots = self._random_rows()
        if shape.targets == 2:  # a place for every copy of a row
            rows = self._ranked(slots, sorted({*context, *target}))
        else:
            rows = self._near_rows(self._numbers.numbers, self._numbers.known, slots)
            slots = np.arange(rows.codes.shape[1], dtype=np.int32)
        counter = Counter(rows, NearTargets(rows, frozenset({NearShape.KEY})))
        standing, _, _ = standing_of(rows, counter, shape, context, target)
        found, first = np.unique(slots[standing > NONE], return_index=True)
        return found.astype(np.int64), standing[standing > NONE][first]

    def check_invariants(self) -> None:
        """Assert what numbers promise. O(n log n)."""
        self._numbers.check_invariants()

    def _by_numbers(self, tasks: Tasks, most: int, enough: int) -> Iterator[tuple[Context, Counted]]:
        if tasks:
            rows = self._near_rows(self._numbers.numbers, self._numbers.known, self._random_rows())
            count = counting(rows, self.targets, enough=enough, threads=self._threads)
            yield from ((one.context, one) for one in count(tasks, most))

    def _by_ranks(self, tasks: Tasks, most: int, enough: int) -> Iterator[tuple[Context, Counted]]:
        every = self._random_rows() if tasks else np.zeros(0, np.int32)
        size = min(len(every), _SAMPLED * (enough + 1))
        while tasks:
            some = every[:size]
            rows = self._ranked(
                some, sorted({c for context, numbers in tasks for c in self._columns(context, numbers)})
            )
            left = []
            for one in counting(rows, self.targets, enough=enough, threads=self._threads)(tasks, most):
                sure = one.exceptions > enough if size < len(every) else np.ones(len(one.numbers), np.bool_)
                if sure.all():
                    yield one.context, one
                else:
                    left.append((one.context, one.numbers))
            tasks, size = left, len(every)

    def _columns(self, context: Context, numbers: Ints) -> Iterator[int]:
        yield from context
        for number in numbers.tolist():
            yield from self.targets.form(number)[1]

    def _ranked(self, some: Rows, columns: Sequence[int]) -> NearRows:
        """Return some rows with codes that order as values do, in the columns that are needed."""
        codes = np.zeros((len(self.ordered), len(some)), np.int32)
        known, middles = np.ones((2, len(self.ordered)), np.int64)
        for column in columns:
            if (len(some), column) not in self._ranks:
                _, ranks, sizes = np.unique(self._rows.codes[some, column], return_inverse=True, return_counts=True)
                self._ranks[len(some), column] = ranks.astype(np.int32), len(sizes), middle_of(sizes)
            codes[column], known[column], middles[column] = self._ranks[len(some), column]
        return self._near_rows(codes, known, np.arange(len(some), dtype=np.int32), middles)

    def _near_rows(self, codes: Rows, known: Ints, rows: Rows, middles: Ints | None = None) -> NearRows:
        """Return what is counted; middles of columns are only asked for orders."""
        columns = np.arange(len(self.ordered))
        middles = np.zeros(len(columns), np.int64) if middles is None else middles
        return NearRows(codes, np.maximum(known, 1), middles, columns, self.ordered, rows, columns)

    def _forget(self) -> None:
        """Make what was made of the rows of a batch anew when it is asked for."""
        self._live, self._ranks = None, {}

    def _random_rows(self) -> Rows:
        """Return the slots of all live rows in random order, each as often as it has copies. O(n) a batch."""
        if self._live is None:
            room = len(self._rows.copies)
            if len(self._shuffled) < room:
                self._shuffled = self._random.permutation(room).astype(np.int32)
            copies = np.maximum(self._rows.copies[self._shuffled], 0)
            self._live = self._shuffled[copies > 0] if copies.max(initial=0) <= 1 else np.repeat(self._shuffled, copies)
        return self._live


def together(one: Counted, other: Counted) -> Counted:
    """Return the counts of different targets in one context, by targets in order."""
    numbers = np.concatenate([one.numbers, other.numbers])
    order = np.argsort(numbers)
    return Counted(one.context, numbers[order], np.concatenate([one.exceptions, other.exceptions])[order])
