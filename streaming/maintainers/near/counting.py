"""Counts exceptions where rows are in memory.

Constants and keys are counted on numbers of values, which follow the rows. Order compatibilities need ranks. These are
made for a sample first: all rows have at least the exceptions of the sample, so more than enough of them end the count.

A candidate that stays for several batches is followed row by row (`indexes/exceptions.py`), if that is quicker.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.constraints import NearShape
from holdfast.discovery.near.concentration import concentrating_values
from holdfast.discovery.near.counting import (
    Candidate,
    Context,
    CountedContext,
    Counter,
    by_candidate,
    by_context,
    visible,
)
from holdfast.discovery.near.lattice import NearMember, Tasks, counting
from holdfast.discovery.near.ranking import swapping
from holdfast.discovery.near.removal import standing_of
from holdfast.discovery.near.rows import NearRows, middle_of
from holdfast.discovery.near.suspects import suspect_cells
from holdfast.discovery.near.swaps import Swaps, swaps_in
from holdfast.discovery.near.targets import KEY, NearTargets
from holdfast.indexes.exceptions import ClassExceptions, Exceptions, KeyExceptions
from holdfast.indexes.kernels.exceptions import NONE
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.indexes.slot_numbers import SlotNumbers
from holdfast.indexes.touched_groups import TouchedGroupSearch
from holdfast.streaming.maintainers.near.counts import (
    ConcentratingIn,
    ExceptionCount,
    Followed,
    NearCounts,
    SlotSuspect,
)
from holdfast.tables.arrays import Ints, Rows, Slots, Standing

_ROWS_A_GROUP = 8
"""Constants are followed row by row only in contexts with at least so many rows a group."""

_BATCHES_YOUNG = 8
"""A member is counted anew with each of so many batches before it is followed row by row."""

_LARGE, _MOST = 8, 2
"""All rows are counted where a batch is more than an eighth of them, or the changed groups have more than half."""

_SAMPLED = 3
"""The sample has three times as many rows as exceptions are enough."""

_SWAPPED_AMONG = 1 << 15
"""Swaps are looked for among so many rows."""


@dataclass
class _Recounted:
    """A candidate that is counted anew with every batch, since the batch with this number."""

    count: int
    since: int


class LiveCounts(NearCounts):
    """Counts the exceptions of candidates on the live rows.

    Parameters
    ----------
    rows : the table.
    ordered : for each column whether its codes order as its values do.
    threads : how many to use.

    Attributes
    ----------
    targets : the targets of all candidates.
    """

    def __init__(self, rows: RowSet, ordered: Sequence[bool], threads: int = 1) -> None:
        self._rows = rows
        self.ordered = tuple(ordered)
        self._threads = threads
        self._numbers = SlotNumbers(rows)
        self._random = np.random.default_rng(0)
        self._shuffled: Rows = np.zeros(0, np.int32)
        self._live: Rows | None = None
        self._compacted: NearRows | None = None
        self._batches = 0
        self._ranks: dict[tuple[int, int], tuple[Rows, int, int]] = {}
        self.targets = NearTargets(self._near_rows(self._numbers.numbers, self._numbers.known, self._shuffled))

    def counted(self, tasks: Tasks, most: int, enough: int) -> Iterator[CountedContext]:
        """Count candidates on the current rows."""
        plain, orders = [], []
        for context, numbers in tasks:
            is_order = numbers > self.targets.constants
            plain.append((context, numbers[~is_order]))
            orders.append((context, numbers[is_order]))
        found = dict(self._by_numbers([task for task in plain if len(task[1])], most, enough))
        left = []
        for context, numbers in orders:
            known = found.get(context)
            every = CountedContext(context, numbers, np.full(len(numbers), enough + 1))
            open_ = every if known is None else visible(together(known, every), self.targets, most)
            open_orders = open_.numbers[open_.numbers > self.targets.constants]
            if len(open_orders):
                left.append((context, open_orders))
        of_orders = dict(self._by_ranks(left, most, enough))
        for context, _ in tasks:
            parts = [part[context] for part in (found, of_orders) if context in part]
            if parts:
                yield parts[0] if len(parts) == 1 else together(*parts)

    def exactly(self, candidates: Collection[Candidate]) -> dict[Candidate, int]:
        """Return the exact exceptions of each candidate. O(n log n) each."""
        return by_candidate(self.counted(by_context(candidates), -1, len(self._rows)))

    def entered(self, counts: Mapping[Candidate, int]) -> Followed:
        """Follow candidates by counting them anew with each batch, as most of them leave soon."""
        return {candidate: _Recounted(count, self._batches) for candidate, count in counts.items()}

    def first(self, counts: Mapping[Candidate, int]) -> Followed:
        """Follow all members as candidates that have stayed for long. O(n) each."""
        return self._grown(self.entered(counts), counts)

    def follow(self, delta: RowDelta, followed: Followed) -> Followed:
        """Apply a batch; candidates that were counted anew for `_BATCHES_YOUNG` batches are followed row by row now."""
        self._batches += 1
        self._numbers.follow(delta.appeared)
        self._forget()
        for one in _kept(followed):
            one.follow(delta)
        self._recount(followed, delta)
        self._numbers.settle()
        last = self._batches - _BATCHES_YOUNG
        return self._grown(followed, {one for one, count in _young(followed).items() if count.since == last})

    def outlasts(self, count: ExceptionCount) -> bool:
        """Whether a candidate is followed row by row."""
        return isinstance(count, Exceptions)

    def standing(self, count: ExceptionCount, slots: Slots) -> Standing | None:
        """Return whether the given live rows are exceptions; None of a candidate that is not followed row by row."""
        return count.standing(slots) if isinstance(count, Exceptions) else None

    def exceptions(self, candidate: Candidate, most: int) -> tuple[Slots, Standing]:
        """Return the slots of up to `most` exceptions of a candidate, and the standing of each. O(n log n)."""
        context, number = candidate
        shape, target = self.targets.form(number)
        slots = self._random_rows()
        if shape.targets == 2:  # one place for every copy of a row
            rows = self._ranked(slots, sorted({*context, *target}))
        else:
            rows = self._near_rows(self._numbers.numbers, self._numbers.known, slots)
            slots = np.arange(rows.codes.shape[1], dtype=np.int32)
        counter = Counter(rows, NearTargets(rows, frozenset({NearShape.KEY})))
        standing, _, _ = standing_of(rows, counter, shape, context, target)
        found, first = np.unique(slots[standing > NONE], return_index=True)
        standing = standing[standing > NONE][first]
        some = np.argsort(standing, kind="stable")[:most]
        return found[some].astype(np.int64), standing[some]

    def swaps(self, members: Sequence[NearMember]) -> dict[Context, Swaps]:
        """Return the swaps in the contexts of order compatibilities and in parts of these, on a sample of the rows."""
        orders = [member for member in members if self.targets.form(member.number)[0].targets == 2]
        columns = {c for one in orders for c in self._columns(one.context, np.array([one.number]))}
        rows = self._ranked(self._random_rows()[:_SWAPPED_AMONG] if orders else np.zeros(0, np.int32), sorted(columns))
        return swaps_in(swapping(orders, self.targets), rows, self.targets, threads=self._threads)

    def suspects(self, members: Mapping[Candidate, int], least: float) -> list[SlotSuspect]:
        """Return the cells with a score of at least `least`, the surest first. O(n) a member, its context and parts."""
        self._compacted = rows = self._compact()  # the search where exceptions are follows
        slots, columns, places = rows.order, rows.columns, np.argsort(rows.columns)
        targets = NearTargets(rows, frozenset({NearShape.CONSTANT}))
        candidates: dict[Candidate, Candidate] = {}
        for context, number in members:
            if self._is_constant(number):
                place = int(places[number - 1])
                candidates[tuple(sorted(places[list(context)].tolist())), 1 + place] = context, number
        exceptions = [NearMember(*one, members[candidate]) for one, candidate in candidates.items()]
        found: dict[tuple[int, int], SlotSuspect] = {}  # copies of a row are one
        for cell in suspect_cells(rows, targets, exceptions, least, threads=self._threads):
            violated = tuple(candidates[one.context, one.number] for one in cell.violated)
            slot, column = int(slots[cell.row]), int(columns[cell.column])
            like = None if cell.expected is None else int(slots[cell.expected])
            found.setdefault((slot, column), SlotSuspect(slot, column, cell.score, like, violated))
        return list(found.values())

    def concentrating(self, some: Sequence[Candidate]) -> ConcentratingIn:
        """Return the values in which the exceptions of candidates are concentrated. O(columns x n), O(n log n) each."""
        forms = [self.targets.form(number) for _, number in some]
        ordered = {column for shape, target in forms if shape.targets == 2 for column in target}
        rows = self._compact(ordered) if ordered or self._compacted is None else self._compacted
        self._compacted = None
        places = np.argsort(rows.columns)
        targets = NearTargets(rows, frozenset(shape for shape, _ in forms))
        candidates: list[Candidate] = []
        for (context, _), (shape, target) in zip(some, forms, strict=True):
            number = targets.number(shape, sorted(places[list(target)].tolist()))
            assert number is not None
            candidates.append((tuple(sorted(places[list(context)].tolist())), number))
        return ConcentratingIn(rows, concentrating_values(rows, targets, candidates, threads=self._threads))

    def _compact(self, ordered: Collection[int] = ()) -> NearRows:
        """Return the live rows without gaps, each copy with its own place. O(n) a column, O(n log n) an ordered one.

        Parameters
        ----------
        ordered : the columns whose codes have the order of the values.
        """
        slots = self._rows.live()
        slots = np.repeat(slots, self._rows.copies[slots])
        columns = np.argsort(-self._numbers.known, kind="stable")  # the most selective column first
        codes = np.empty((len(columns), len(slots)), np.int32)
        known, middles = np.maximum(self._numbers.known[columns], 1), np.zeros(len(columns), np.int64)
        for to, column in enumerate(columns.tolist()):
            if column in ordered:
                _, codes[to], sizes = np.unique(
                    self._rows.codes[slots, column], return_inverse=True, return_counts=True
                )
                known[to], middles[to] = max(len(sizes), 1), middle_of(sizes)
            else:
                self._numbers.numbers[column].take(slots, out=codes[to])
        every, have_order = np.arange(len(slots), dtype=np.int32), tuple(c in ordered for c in columns.tolist())
        return NearRows(codes, known, middles, columns, have_order, every, slots)

    def rebuild(self, followed: Followed) -> None:
        """Derive everything anew from the live rows. O(n log n) a candidate that is followed row by row."""
        self._numbers.rebuild()
        self._forget()
        for one in _kept(followed):
            one.rebuild()
        self._recount(followed)

    def anew(self) -> "LiveCounts":
        """Return a new counter of the same rows."""
        return LiveCounts(self._rows, self.ordered, self._threads)

    def check_invariants(self, followed: Followed) -> None:
        """Assert the invariants of numbers and of candidates that are followed row by row. O(n log n)."""
        self._numbers.check_invariants()
        for one in _kept(followed):
            one.check_invariants()

    def _recount(self, followed: Followed, delta: RowDelta | None = None) -> None:
        """Count the candidates that are not followed row by row; keys and constants only in the groups of a batch.

        Without a batch, or where these groups have most of the rows, all rows are counted.
        """
        young = _young(followed)
        if delta is not None and _LARGE * len(delta.changed) <= len(self._rows):
            young = self._with_touched(young, delta)
        for candidate, count in self.exactly(young).items():
            young[candidate].count = count

    def _with_touched(self, young: dict[Candidate, _Recounted], delta: RowDelta) -> dict[Candidate, _Recounted]:
        """Update the counts of keys and constants by the groups of a batch; return the other candidates."""
        search = TouchedGroupSearch(self._rows, self._numbers, delta)
        few = [one for one in young if one[0] and one[1] <= self.targets.constants]
        for context, numbers in by_context(few):
            groups = search.in_columns(context)
            if _MOST * len(groups.slots) > len(self._rows):
                continue
            for number in numbers.tolist():
                is_key = number == KEY
                more = groups.more_of_key if is_key else search.more_of_constant(groups, number - 1)
                young.pop((context, number)).count += more
        return young

    def _grown(self, followed: Followed, some: Collection[Candidate]) -> Followed:
        """Follow keys and constants row by row, except constants whose context has many groups.

        With many groups a table of them would be larger than the rows, and counting anew is quick where groups are
        small. Orders are always quicker counted anew than followed.
        """
        keys = {(context, KEY) for context, number in some if context and self._is_constant(number)}
        rows = len(self._rows)
        many = {context for (context, _), count in self.exactly(keys).items() if (rows - count) * _ROWS_A_GROUP > rows}
        grown = {one for one in some if one[1] == KEY or (self._is_constant(one[1]) and one[0] not in many)}
        return {one: self._follower(*one) if one in grown else count for one, count in followed.items()}

    def _is_constant(self, number: int) -> bool:
        return self.targets.form(number)[0] is NearShape.CONSTANT

    def _follower(self, context: Context, number: int) -> Exceptions:
        if number == KEY:
            return KeyExceptions(self._rows, context)
        _, (dependent, *_) = self.targets.form(number)
        return ClassExceptions(self._rows, context, dependent)

    def _by_numbers(self, tasks: Tasks, most: int, enough: int) -> Iterator[tuple[Context, CountedContext]]:
        if tasks:
            rows = self._near_rows(self._numbers.numbers, self._numbers.known, self._random_rows())
            count = counting(rows, self.targets, enough=enough, threads=self._threads)
            yield from ((one.context, one) for one in count(tasks, most))

    def _by_ranks(self, tasks: Tasks, most: int, enough: int) -> Iterator[tuple[Context, CountedContext]]:
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
        """Return rows with codes in the order of the values, in the given columns."""
        codes = np.zeros((len(self.ordered), len(some)), np.int32)
        known, middles = np.ones((2, len(self.ordered)), np.int64)
        for column in columns:
            if (len(some), column) not in self._ranks:
                _, ranks, sizes = np.unique(self._rows.codes[some, column], return_inverse=True, return_counts=True)
                self._ranks[len(some), column] = ranks.astype(np.int32), len(sizes), middle_of(sizes)
            codes[column], known[column], middles[column] = self._ranks[len(some), column]
        return self._near_rows(codes, known, np.arange(len(some), dtype=np.int32), middles)

    def _near_rows(self, codes: Rows, known: Ints, rows: Rows, middles: Ints | None = None) -> NearRows:
        """Return rows in the form that is counted; only orders need the middles of columns."""
        columns = np.arange(len(self.ordered))
        middles = np.zeros(len(columns), np.int64) if middles is None else middles
        return NearRows(codes, np.maximum(known, 1), middles, columns, self.ordered, rows, columns)

    def _forget(self) -> None:
        """Forget everything derived from the rows before a batch."""
        self._live, self._ranks, self._compacted = None, {}, None

    def _random_rows(self) -> Rows:
        """Return the slots of all live rows in random order, one for each copy of a row. O(n) a batch."""
        if self._live is None:
            room = len(self._rows.copies)
            if len(self._shuffled) < room:
                self._shuffled = self._random.permutation(room).astype(np.int32)
            copies = np.maximum(self._rows.copies[self._shuffled], 0)
            self._live = self._shuffled[copies > 0] if copies.max(initial=0) <= 1 else np.repeat(self._shuffled, copies)
        return self._live


def together(one: CountedContext, other: CountedContext) -> CountedContext:
    """Return the counts of different targets in one context, in the order of the targets."""
    numbers = np.concatenate([one.numbers, other.numbers])
    order = np.argsort(numbers)
    return CountedContext(one.context, numbers[order], np.concatenate([one.exceptions, other.exceptions])[order])


def _young(followed: Followed) -> dict[Candidate, _Recounted]:
    """Return the candidates that are counted anew with every batch."""
    return {one: count for one, count in followed.items() if isinstance(count, _Recounted)}


def _kept(followed: Followed) -> Iterator[Exceptions]:
    """Yield the candidates that are followed row by row."""
    return (count for count in followed.values() if isinstance(count, Exceptions))
