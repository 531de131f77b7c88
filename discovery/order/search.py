"""Searches a table for pairs of rows that break order dependencies.

Dependencies with one context share its partition, contexts with the same first columns the partitions of these: the
contexts are walked like a trie, the most selective column first, so that few rows are left after a near-key. Rows that
are alone in their group are dropped. Within a partition

- a split is two rows of a group that differ in the target: one pass;
- for swaps of (A, B) the rows of each group are sorted by A, once for all B: a row breaks the dependency when its B is
  below the greatest B of the rows with a smaller A.

*Differs from the paper*: partitions live as long as the walk is below them, so there is no cache to evict from.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Event

import numpy as np

from holdfast.discovery.kernels.evidence import PairCodes
from holdfast.discovery.kernels.near import ContextGroups, refine_kernel
from holdfast.discovery.kernels.order import (
    group_numbers_kernel,
    in_order_kernel,
    sort_groups_kernel,
    split_kernel,
    swap_kernel,
)
from holdfast.discovery.order.targets import Targets
from holdfast.discovery.threads import cut, shared_prefix, spread
from holdfast.tables.arrays import Ints, Rows, Words

_SORTED_BY_GROUPS = 8
_NO_GROUP = -1


@dataclass(frozen=True)
class _Task:
    """A context, with its columns in the order of refinement, and the dependencies with it."""

    columns: tuple[int, ...]
    members: Ints


class OrderSearch:
    """Searches one table.

    Parameters
    ----------
    codes, targets : the table's rows, and the targets of its space.
    threads : the number of threads that share the contexts.
    """

    def __init__(self, codes: PairCodes, targets: Targets, threads: int = 1) -> None:
        self.codes = codes
        self._targets = targets
        self._threads = threads
        self._distinct = [int(column.max()) + 1 if codes.rows else 1 for column in codes.left]
        self._group_size = [float((np.bincount(column).astype(float) ** 2).sum()) for column in codes.left]
        self._orders: dict[int, Rows] = {}

    def find(self, numbers: Ints, contexts: Words, limit: int) -> tuple[Ints, Ints]:
        """Return up to `limit` pairs of rows that break each dependency (target, context).

        Returns (m,) positions of dependencies and (m, 2) pairs. O(n) for each column of a context and each target.
        """
        tasks = sorted(self._tasks(contexts), key=lambda task: task.columns)
        for column in {int(self._targets.left[t]) for t in numbers if t >= self._targets.constants}:
            self._order(column)
        found = spread(
            cut(tasks, self._threads),
            self._threads,
            lambda part, stopped: _Walk(self, numbers, limit, stopped).walk(part),
        )
        rows = np.concatenate([np.zeros((0, 3), np.int64), *found])
        return rows[:, 0], rows[:, 1:]

    def _tasks(self, contexts: Words) -> Iterator[_Task]:
        by_context: dict[bytes, list[int]] = {}
        for i, context in enumerate(contexts):
            by_context.setdefault(context.tobytes(), []).append(i)
        bit = self._targets.bit
        for members in by_context.values():
            context = contexts[members[0]]
            columns = np.flatnonzero(context[bit // 64] >> (bit % 64).astype(np.uint64) & np.uint64(1)).tolist()
            columns.sort(key=lambda c: (self._group_size[c], c))
            yield _Task(tuple(columns), np.array(members))

    def _order(self, column: int) -> Rows:
        """Return all rows in the order of a column. Sorted once, then kept."""
        if column not in self._orders:
            self._orders[column] = np.argsort(self.codes.left[column], kind="stable").astype(np.int32)
        return self._orders[column]


class _Walk:
    """One thread's walk through a sorted list of tasks, with its scratch memory."""

    def __init__(self, search: OrderSearch, numbers: Ints, limit: int, stopped: Event) -> None:
        self._search = search
        self._numbers = numbers
        self._stopped = stopped
        rows = search.codes.rows
        size = max(search._distinct, default=1)
        self._sizes = np.zeros(size, np.int64)
        self._group = np.full(rows, _NO_GROUP, np.int32)
        self._out = np.zeros((limit, 2), np.int64)

    def walk(self, tasks: Sequence[_Task]) -> Ints:
        """Return (position, t, s) of all pairs found."""
        rows = self._search.codes.rows
        found: list[Ints] = [np.zeros((0, 3), np.int64)]
        path = [ContextGroups(np.arange(rows, dtype=np.int32), np.array([0, rows]))]
        last: tuple[int, ...] = ()
        for task in tasks:
            if self._stopped.is_set():
                break
            del path[shared_prefix(last, task.columns) + 1 :]
            while len(path) <= len(task.columns) and len(path[-1].rows):
                path.append(self._refined(path[-1], task.columns[len(path) - 1]))
            if len(path[-1].rows):
                found.extend(self._searched(path[-1], task.members))
            last = task.columns
        return np.concatenate(found)

    def _refined(self, partition: ContextGroups, column: int) -> ContextGroups:
        out = np.empty(len(partition.rows), np.int32)
        ends = np.empty(len(partition.rows) + 1, np.int64)
        codes = self._search.codes.left[column]
        groups, kept = refine_kernel(*partition, codes, self._sizes, out, ends)
        return ContextGroups(out[:kept].copy(), ends[: groups + 1].copy())

    def _searched(self, partition: ContextGroups, members: Ints) -> Iterator[Ints]:
        targets, codes = self._search._targets, self._search.codes.left
        wanted = self._numbers[members]
        left, right = targets.left[wanted], targets.right[wanted]
        ordered, by = partition.rows, -1
        for i in np.lexsort((right, left)).tolist():
            a, b = int(left[i]), int(right[i])
            if a == b:
                found = split_kernel(partition.rows, partition.starts, codes[a], self._out)
            else:
                if by != a:
                    ordered, by = self._in_order(partition, a), a
                found = swap_kernel(
                    ordered, partition.starts, codes[a], codes[b], bool(targets.opposite[wanted[i]]), self._out
                )
            if found:
                yield np.column_stack([np.full(found, members[i]), self._out[:found]])

    def _in_order(self, partition: ContextGroups, column: int) -> Rows:
        """Return the rows of a partition, sorted by a column within each group."""
        rows, starts = partition.rows, partition.starts
        if len(starts) == 2 and len(rows) == self._search.codes.rows:
            return self._search._order(column)
        out = np.empty(len(rows), np.int32)
        if len(rows) * _SORTED_BY_GROUPS < len(self._group):
            sort_groups_kernel(rows, starts, self._search.codes.left[column], out)
            return out
        group_numbers_kernel(rows, starts, self._group)
        in_order_kernel(self._search._order(column), self._group, starts[:-1].copy(), out)
        self._group[rows] = _NO_GROUP
        return out
