"""Counts the exceptions of targets in contexts; all targets of a context share its groups.

Contexts are walked like a trie: the groups of a context are refined from the groups of its first columns, and live as
long as the walk is below them. Rows that are alone in their group are dropped. A count ends as soon as it exceeds
`enough`: then it is a lower bound, which proves that a constraint has more exceptions. Counts are never estimated.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.discovery.kernels.near import (
    OPPOSITE,
    SAME,
    ColumnCodes,
    ContextGroups,
    OrderScratch,
    constants_kernel,
    orders_kernel,
    refine_kernel,
)
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.targets import KEY, NearTargets
from holdfast.discovery.threads import shared_prefix
from holdfast.tables.arrays import Flags, Ints

Context = tuple[int, ...]
"""Columns in ascending order, numbered as `NearRows` has them."""

Candidate = tuple[Context, int]
"""A target in a context, both by number."""

_DIGITS = 1 << 11


class Counter:
    """Counts in one thread, with its scratch memory.

    Parameters
    ----------
    rows, targets : the rows, and the targets of their table.
    """

    def __init__(self, rows: NearRows, targets: NearTargets) -> None:
        self.rows = rows
        self._targets = targets
        most = int(rows.distinct.max(initial=1))
        self._sizes = np.zeros(most, np.int64)
        self._classes = np.full((most, 2), -1, np.int64)
        self._stamp = 0
        bits = np.array([int(count).bit_length() for count in rows.distinct], np.int64)
        self._columns = ColumnCodes(rows.codes, bits, rows.middles)
        room = rows.count + 1 if len(targets.left) else 0
        keys, other, tails = (np.empty(room, np.int64) for _ in range(3))
        self._scratch = OrderScratch(keys, other, tails, np.zeros(_DIGITS, np.int64))
        every = rows.rows
        starts = np.array([0, rows.count] if rows.count > 1 else [0], np.int64)
        self._path = [ContextGroups(every if rows.count > 1 else every[:0], starts)]
        self._last: Context = ()

    def groups(self, context: Context) -> ContextGroups:
        """Return the groups of a context; the groups of the prefix shared with the last context are reused."""
        shared = shared_prefix(self._last, context)
        del self._path[shared + 1 :]
        for column in context[shared:]:
            self._path.append(self._refined(self._path[-1], column))
        self._last = context
        return self._path[-1]

    def constants(self, groups: ContextGroups, columns: Ints, enough: int) -> Ints:
        """Return the exceptions of the constants of columns."""
        found = np.zeros(len(columns), np.int64)
        constants_kernel(
            groups.rows, groups.starts, self.rows.codes, columns, enough, self._classes, self._stamp, found
        )
        self._stamp += len(columns) * (len(groups.starts) - 1)
        return found

    def orders(self, groups: ContextGroups, numbers: Ints, enough: int) -> Ints:
        """Return the exceptions of order compatibilities, by their targets in ascending order."""
        pairs, opposite = np.divmod(numbers - 1 - self._targets.constants, 2)
        each, place = np.unique(pairs, return_inverse=True)
        wanted = np.zeros(len(each), np.int64)
        np.bitwise_or.at(wanted, place, np.where(opposite, OPPOSITE, SAME))
        found = np.zeros((len(each), 2), np.int64)
        left, right = self._targets.left[each], self._targets.right[each]
        orders_kernel(groups, self._columns, left, right, wanted, enough, self._scratch, found)
        return np.asarray(found[place, opposite])

    def exceptions(self, context: Context, number: int) -> int:
        """Return the exact number of exceptions of a target."""
        return self.count(self.groups(context), number, self.rows.count)

    def count(self, groups: ContextGroups, number: int, enough: int) -> int:
        """Return the number of exceptions of a target in groups: exact up to `enough`, else a lower bound above it."""
        if number == KEY:
            return groups.key_exceptions
        if number <= self._targets.constants:
            return int(self.constants(groups, np.array([number - 1]), enough)[0])
        return int(self.orders(groups, np.array([number]), enough)[0])

    def _refined(self, groups: ContextGroups, column: int) -> ContextGroups:
        out = np.empty(len(groups.rows), np.int32)
        ends = np.empty(len(groups.rows) // 2 + 1, np.int64)
        count, kept = refine_kernel(groups.rows, groups.starts, self.rows.codes[column], self._sizes, out, ends)
        return ContextGroups(out[:kept].copy(), ends[: count + 1].copy())


@dataclass(frozen=True, eq=False)
class CountedContext:
    """The counted exceptions in a context.

    Parameters
    ----------
    context : the context.
    numbers : the targets that were counted, in order.
    exceptions : of each target, exact up to `enough`, else a lower bound.
    """

    context: Context
    numbers: Ints
    exceptions: Ints


def counted(
    counter: Counter, targets: NearTargets, tasks: Sequence[tuple[Context, Ints]], most: int, enough: int
) -> Iterator[CountedContext]:
    """Count candidates by contexts in ascending order, without candidates that another target of the context hides.

    Parameters
    ----------
    tasks : contexts, and the targets to count in them.
    most : the number of exceptions that a near constraint may have.
    enough : a count ends when it exceeds this; at least `most`.
    """
    for context, numbers in tasks:
        groups = counter.groups(context)
        first_order = 1 + targets.constants
        found = np.zeros(len(numbers), np.int64)
        if numbers[0] == KEY and context:
            found[0] = groups.key_exceptions
            if found[0] <= most:
                yield CountedContext(context, numbers[:1], found[:1])
                continue
        elif numbers[0] == KEY:
            found[0] = enough + 1  # there is no key without columns
        constant = (numbers != KEY) & (numbers < first_order)
        columns = numbers[constant] - 1
        found[constant] = counter.constants(groups, columns, enough)
        order = numbers >= first_order
        order[order] = ~_hidden(targets, numbers[order], columns[found[constant] <= most])
        found[order] = counter.orders(groups, numbers[order], enough)
        kept = (numbers < first_order) | order
        yield CountedContext(context, numbers[kept], found[kept])


def by_context(candidates: Iterable[Candidate]) -> list[tuple[Context, Ints]]:
    """Return candidates by contexts, in ascending order."""
    found: dict[Context, list[int]] = {}
    for context, number in sorted(candidates):
        found.setdefault(context, []).append(number)
    return [(context, np.array(numbers)) for context, numbers in found.items()]


def by_candidate(counts: Iterable[CountedContext]) -> dict[Candidate, int]:
    """Return the exceptions of each candidate that was counted."""
    return {
        (one.context, number): exceptions
        for one in counts
        for number, exceptions in zip(one.numbers.tolist(), one.exceptions.tolist(), strict=True)
    }


def visible(one: CountedContext, targets: NearTargets, most: int) -> CountedContext:
    """Return what is known of a context without the targets that another one hides which is near in it."""
    near = one.numbers[one.exceptions <= most]
    if not len(near):
        return one
    if KEY in near:
        kept = one.numbers == KEY
    else:
        kept = one.numbers <= targets.constants
        kept[~kept] = ~_hidden(targets, one.numbers[~kept], near[near <= targets.constants] - 1)
    return CountedContext(one.context, one.numbers[kept], one.exceptions[kept])


def _hidden(targets: NearTargets, orders: Ints, constants: Ints) -> Flags:
    """Return which order compatibilities name a column whose constant is near."""
    pairs = (orders - 1 - targets.constants) // 2
    return np.isin(targets.left[pairs], constants) | np.isin(targets.right[pairs], constants)
