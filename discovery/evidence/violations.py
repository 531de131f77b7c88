"""Pairs of rows that violate denial constraints, found by refining stripped partitions [FACET].

Constraints are searched in an order in which neighbours share work:

1. the equalities split the rows into groups, the most selective first; groups without a pair are dropped, so that few
   rows are left after a near-key. Constraints with the same first equalities share these partitions (a trie, walked
   depth first);
2. the other predicates are searched inside the groups: short groups pair by pair, long groups by two trees of zones.
   The rows were sorted by the constraint's inequalities at the root, and refining is stable, so the zones are tight
   without any group being sorted. Two inequalities that hold together make one column follow the other, so rows are
   sorted by one; three or more need zones that are small in several columns, so rows follow a Z-order curve.

The last orders of all rows are kept for later constraints, within a limit of bytes.

The search for one constraint ends after `limit` pairs, each from other zones. It may have a budget of comparisons; a
constraint that exhausts the budget is reported as undecided.

*Differs from the paper*: all orders of inequalities are searched by one method, zones, in place of one algorithm per
shape; crossing equalities split two lists of rows at once.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event, Lock

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME, GREATER, LESS
from holdfast.discovery.kernels.evidence import PairCodes
from holdfast.discovery.kernels.partitions import (
    LEAF,
    Partition,
    Predicates,
    Zones,
    refine_same_kernel,
    refine_two_kernel,
    search_kernel,
)
from holdfast.discovery.threads import cut, shared_prefix, spread
from holdfast.indexes.curve import CELLS, interleaved
from holdfast.indexes.growing import doubled
from holdfast.indexes.masks import outcomes_of
from holdfast.tables.arrays import Positions, Rows, Words

MOST_SORTED_BYTES = 1 << 28
_NEEDS_NO_ORDER = 32.0
_SORTED_BY = 3
_MOST_COMPARISONS = 1 << 62
UNLIMITED = 1 << 40
"""A budget in comparisons for each row that is never exhausted."""


@dataclass(frozen=True)
class Violations:
    """The result of a search.

    Parameters
    ----------
    constraint : (m,) the position of the constraint that each pair violates.
    pairs : (m, 2) numbers of distinct rows (`PairCodes`), `t` and `s`.
    undecided : the positions of constraints that exhausted the budget.
    comparisons : the number of comparisons for each constraint.
    """

    constraint: Positions
    pairs: Positions
    undecided: Positions
    comparisons: Positions


@dataclass(frozen=True)
class _Task:
    """A constraint as the search takes it: the order of the rows, equalities, other predicates."""

    order: tuple[int, ...]
    equalities: tuple[int, ...]
    others: tuple[tuple[int, int], ...]
    position: int


class ViolationSearch:
    """Searches one table.

    Parameters
    ----------
    codes, space : the table's rows, and what masks mean.
    threads : the number of threads that share the constraints.
    most_sorted_bytes : the memory for orders of all rows that are kept for later constraints.
    """

    def __init__(
        self,
        codes: PairCodes,
        space: PredicateSpace,
        threads: int = 1,
        *,
        most_sorted_bytes: int = MOST_SORTED_BYTES,
    ) -> None:
        self._codes = codes
        self._space = space
        self._threads = threads
        self._rows = codes.left.shape[1]
        self._weight = np.where(codes.second >= 0, 2, 1).astype(np.int64)
        self._distinct = [int(max(left.max(), right.max())) + 1 if self._rows else 1 for left, right in self._sides()]
        self._group_size = [self._expected_group(left, right) for left, right in self._sides()]
        self._roots = _Roots(self._root, most_sorted_bytes)

    @property
    def most_bytes(self) -> int:
        """The bytes that the search keeps at most, besides the codes."""
        return self._weight.nbytes + self._roots.most

    def find(self, masks: Words, limit: int, budget: int = UNLIMITED) -> Violations:
        """Return up to `limit` violating pairs of each constraint. O(n) per equality where the constraint holds.

        `budget` is the number of comparisons for each row.
        """
        most = min(budget * max(self._rows, 1), _MOST_COMPARISONS)
        tasks = sorted(self._tasks(masks), key=lambda t: (t.order, t.equalities, t.position))
        found = spread(
            cut(tasks, self._threads),
            self._threads,
            lambda part, stopped: _Walk(self, limit, most, stopped).walk(part),
        )
        empty = np.zeros((0, 3), np.int64)
        rows = np.concatenate([empty, *(f for f, _ in found)])
        comparisons = np.zeros(len(masks), np.int64)
        for _, effort in found:
            for task, made in effort:
                comparisons[task.position] = made
        return Violations(rows[:, 0], rows[:, 1:], np.flatnonzero(comparisons > most), comparisons)

    def _sides(self) -> "zip[tuple[Rows, Rows]]":
        return zip(self._codes.left, self._codes.right, strict=True)

    def _expected_group(self, left: Rows, right: Rows) -> float:
        """Return the mean number of partners of a row that agree on a column pair."""
        if not self._rows:
            return 0.0
        size = int(max(left.max(), right.max())) + 1
        return float(np.bincount(left, minlength=size) @ np.bincount(right, minlength=size) / self._rows)

    def _tasks(self, masks: Words) -> list[_Task]:
        return [self._task(row, i) for i, row in enumerate(outcomes_of(masks, self._space).T.astype(np.int64))]

    def _task(self, outcomes: Positions, position: int) -> _Task:
        constrained = np.flatnonzero(outcomes != EVERY_OUTCOME).tolist()
        equalities = sorted((p for p in constrained if outcomes[p] == EQUAL), key=lambda p: (self._group_size[p], p))
        others = [p for p in constrained if outcomes[p] != EQUAL]
        if equalities and self._group_size[equalities[0]] <= _NEEDS_NO_ORDER:
            order: Sequence[int] = ()
        else:
            inequalities = [p for p in others if outcomes[p] != LESS | GREATER]
            order = sorted(inequalities or others, key=lambda p: (-self._distinct[p], p))
        # rarely satisfied predicates first: they end a comparison soonest
        others.sort(key=lambda p: (outcomes[p] == LESS | GREATER, -self._distinct[p]))
        return _Task(
            tuple(order[:_SORTED_BY]), tuple(equalities), tuple((p, int(outcomes[p])) for p in others), position
        )

    def _root(self, order: tuple[int, ...]) -> Partition:
        """Return all rows as one group, sorted by some column pairs."""
        crossing = any(self._space.pairs[p].left != self._space.pairs[p].right for p in order)
        t_rows = self._sorted(self._codes.left, order)
        s_rows = self._sorted(self._codes.right, order) if crossing else t_rows
        starts = np.array([0, self._rows])
        return Partition(t_rows, starts, s_rows, starts)

    def _sorted(self, codes: Rows, order: tuple[int, ...]) -> Rows:
        if not order:
            return np.arange(self._rows, dtype=np.int32)
        keys = [codes[p] for p in order]
        if len(order) > 2:
            keys.insert(
                0, interleaved([codes[p].astype(np.int64) * CELLS // self._distinct[p] for p in order], self._rows)
            )
        return np.lexsort(keys[::-1]).astype(np.int32)


class _Roots:
    """All rows in the orders of the last requests, within a limit of bytes.

    An order that takes more than the limit is not kept.

    Parameters
    ----------
    make : sorts the rows.
    most : bytes.
    """

    def __init__(self, make: Callable[[tuple[int, ...]], Partition], most: int) -> None:
        self.most = most
        self._make = make
        self._held: OrderedDict[tuple[int, ...], Partition] = OrderedDict()
        self.bytes = 0
        self._lock = Lock()

    def get(self, order: tuple[int, ...]) -> Partition:
        """Return the rows in an order; one thread sorts while others wait, as most of them need the same order."""
        with self._lock:
            if order in self._held:
                self._held.move_to_end(order)
                return self._held[order]
            root = self._make(order)
            self._held[order] = root
            self.bytes += root.nbytes
            while self.bytes > self.most:
                _, oldest = self._held.popitem(last=False)
                self.bytes -= oldest.nbytes
            return root


class _Walk:
    """One thread's walk through a sorted list of tasks, with its scratch memory."""

    def __init__(self, search: ViolationSearch, limit: int, budget: int, stopped: Event) -> None:
        self._search = search
        self._budget = budget
        self._stopped = stopped
        size = max(search._distinct, default=1)
        self._t_sizes, self._s_sizes = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self._out = np.zeros((limit, 2), np.int64)
        self._zones = _zones(0, 1)
        self._stack = np.zeros((512, 2), np.int64)

    def walk(self, tasks: Sequence[_Task]) -> tuple[Positions, list[tuple[_Task, int]]]:
        """Return (constraint, t, s) of all pairs found, and the comparisons made for each task."""
        rows: list[Positions] = [np.zeros((0, 3), np.int64)]
        made = []
        path: list[Partition] = []
        last: _Task | None = None
        for task in tasks:
            if self._stopped.is_set():
                break
            if last is None or last.order != task.order:
                path = [self._search._roots.get(task.order)]
                shared = 0
            else:
                shared = shared_prefix(last.equalities, task.equalities)
            del path[shared + 1 :]
            while len(path) <= len(task.equalities) and len(path[-1].t_rows):
                path.append(self._refined(path[-1], task.equalities[len(path) - 1]))
            found, comparisons = self._searched(path[-1], task)
            made.append((task, comparisons))
            rows.append(np.column_stack([np.full(found, task.position), self._out[:found]]))
            last = task
        return np.concatenate(rows), made

    def _refined(self, partition: Partition, pair: int) -> Partition:
        codes, sizes = self._search._codes, (self._t_sizes, self._s_sizes)
        crosses = self._search._space.pairs[pair].left != self._search._space.pairs[pair].right
        t_out, t_ends = np.empty(len(partition.t_rows), np.int32), np.empty(len(partition.t_rows) + 1, np.int64)
        if partition.same and not crosses:
            weight = self._search._weight
            own = partition.t_rows, partition.t_starts, codes.left[pair]
            groups, kept = refine_same_kernel(*own, weight, *sizes, t_out, t_ends)
            rows, starts = t_out[:kept].copy(), t_ends[: groups + 1].copy()
            return Partition(rows, starts, rows, starts)
        s_out, s_ends = np.empty(len(partition.s_rows), np.int32), np.empty_like(t_ends)
        out = Partition(t_out, t_ends, s_out, s_ends)
        groups, t_kept, s_kept = refine_two_kernel(partition, codes.left[pair], codes.right[pair], *sizes, out)
        return Partition(
            t_out[:t_kept].copy(), t_ends[: groups + 1].copy(), s_out[:s_kept].copy(), s_ends[: groups + 1].copy()
        )

    def _searched(self, partition: Partition, task: _Task) -> tuple[int, int]:
        if not len(partition.t_rows):
            return 0, 0
        longest = int(
            max(np.diff(partition.t_starts).max(initial=0), 0 if partition.same else np.diff(partition.s_starts).max())
        )
        room, nodes = self._zones.t_low.shape
        if room < len(task.others) or nodes * LEAF < 4 * longest:
            self._zones = _zones(longest, max(room, len(task.others)))
        space_pairs = self._search._space.pairs
        one_side = partition.same and all(space_pairs[p].left == space_pairs[p].right for p, _ in task.others)
        pairs, allowed = np.array(task.others, np.int64).reshape(-1, 2).T
        predicates = Predicates(pairs.copy(), allowed.copy())
        scratch = self._zones, self._stack, self._out
        return search_kernel(partition, one_side, self._search._codes, predicates, self._budget, *scratch)


def _zones(rows: int, predicates: int) -> Zones:
    """Return room for zone trees of so many rows."""
    nodes = doubled(2 * LEAF, 4 * rows / LEAF)
    return Zones(*(np.zeros((predicates, nodes), np.int32) for _ in range(4)))
