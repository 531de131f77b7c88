"""Counts of what violates monitored rules in a whole table, and how they are made where its rows are in memory.

keys, functional dependencies   sizes of groups                     indexes/group_counts.py
other rules about pairs         partners of the rows that changed   discovery/detection/partners.py
conditions on single rows       nothing: the changed rows tell

Where rows are in blocks: `counting_blocks.py`.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.discovery.detection.columns import RowColumns
from holdfast.discovery.detection.counting import count
from holdfast.discovery.detection.examples import pair_with, some_pairs
from holdfast.discovery.detection.grouping import Grouping
from holdfast.discovery.detection.partners import PartnerCounts
from holdfast.indexes.group_counts import GroupCounts
from holdfast.indexes.rows import RowSet
from holdfast.streaming.maintainers.rules.watches import (
    ChangedRows,
    Found,
    GroupsWatch,
    PairsWatch,
    PartnersWatch,
    SingleWatch,
    Watch,
)
from holdfast.tables.arrays import Flags, Slots

_MEASURED = 10_000
_MANY_CHANGED, _TRIED = 1024, 128


class Counting(ABC):
    """Counts what breaks the rules of one table, and finds some of it.

    Parameters
    ----------
    watches : the rules; their counts are set here.
    """

    def __init__(self, watches: Sequence[Watch]) -> None:
        self.singles = [watch for watch in watches if isinstance(watch, SingleWatch)]
        self.groups = [watch for watch in watches if isinstance(watch, GroupsWatch)]
        self.partners = [w for w in watches if isinstance(w, PartnersWatch) and w.form.is_possible]

    def follow(self, batch: ChangedRows) -> None:
        """Bring the counts to where the rows are, and say which rows of the batch are seen to break a rule."""
        for watch in self.singles:
            watch.follow(batch)
        self._follow_pairs(batch)

    @abstractmethod
    def _follow_pairs(self, batch: ChangedRows) -> None:
        """Do so for rules about pairs."""

    @abstractmethod
    def count(self, watches: Sequence[Watch]) -> None:
        """Count all rows anew for some rules. O(n log n) for each."""

    @abstractmethod
    def with_rows(self, wanted: Sequence[tuple[PairsWatch, int]]) -> list[Found | None]:
        """Return for some rules a violation with a row each. O(n) each."""

    @abstractmethod
    def some(self, watches: Sequence[Watch], most: int) -> list[list[Found]]:
        """Return some violations of each of some rules that have any. O(n log n) for each."""

    @abstractmethod
    def rebuild(self) -> None:
        """Make what is derived from codes anew."""

    @abstractmethod
    def check_invariants(self) -> None:
        """Assert what is promised of what is derived. O(n log n)."""


class CountingInMemory(Counting):
    """Asks rows that are all here.

    Parameters
    ----------
    rows : the table.
    threads : how many to use.
    """

    def __init__(self, rows: RowSet, watches: Sequence[Watch], threads: int = 1) -> None:
        super().__init__(watches)
        self._rows = rows
        self._threads = threads
        self._sizes = {watch: _sizes(rows, watch) for watch in self.groups}
        self._partners = PartnerCounts(rows, [watch.form for watch in self.partners], threads)
        self._seconds_a_row = np.zeros(len(self.partners))

    def _follow_pairs(self, batch: ChangedRows) -> None:
        delta = batch.delta
        for watch, sizes in self._sizes.items():
            sizes.change(delta.changed, delta.copies)
            watch.counted(sizes.pairs, sizes.breaking)
            if watch.wants_examples:
                watch.see(batch, sizes.breaks(delta.changed))
        self._partners.follow(delta)
        anew = self._quicker_anew(batch)
        asked = [number for number in range(len(self.partners)) if number not in anew]
        partners = self._asked(batch, delta.changed, asked)
        columns = RowColumns(self._rows) if anew else None
        for number, asking in enumerate(self.partners):
            if columns is None or number not in anew:
                asking.follow(batch, partners[number])
                continue
            breaks = np.zeros(len(self._rows.copies), np.bool_)
            breaks[columns.slots[self._count_partners(asking, columns)]] = True
            asking.see(batch, breaks[delta.changed])

    def count(self, watches: Sequence[Watch]) -> None:
        """Count all rows anew for some rules. O(n log n) for each."""
        for watch in watches:
            columns = RowColumns(self._rows)
            if isinstance(watch, SingleWatch):
                assert columns.weight is not None
                passes = columns.passing_any(watch.form.alternatives)
                watch.counted(None, int(columns.weight[passes].sum()))
            elif isinstance(watch, GroupsWatch):
                watch.counted(self._sizes[watch].pairs, self._sizes[watch].breaking)
            elif isinstance(watch, PartnersWatch):
                self._count_partners(watch, columns)

    def with_rows(self, wanted: Sequence[tuple[PairsWatch, int]]) -> list[Found | None]:
        """Return for some rules a violation with a row each. O(n) each."""
        return [pair_with(self._rows, watch.form, row) for watch, row in wanted]

    def some(self, watches: Sequence[Watch], most: int) -> list[list[Found]]:
        """Return some violations of each of some rules that have any. O(n log n) for each."""
        return [self._some(watch, most) for watch in watches]

    def rebuild(self) -> None:
        """Make what is derived from codes anew. O(n log n)."""
        for sizes in self._sizes.values():
            sizes.rebuild()
        self._partners.rebuild()

    def check_invariants(self) -> None:
        """Assert what is promised of what is derived. O(n log n)."""
        for sizes in self._sizes.values():
            sizes.check_invariants()
        self._partners.check_invariants()

    def _count_partners(self, watch: PartnersWatch, columns: RowColumns) -> Flags:
        """Count all rows anew; return which of them break the rule."""
        began = time.perf_counter()
        counted = count(columns, Grouping(columns), watch.form)
        watch.counted(counted.pairs, counted.rows)
        if columns.rows > _MEASURED:  # of few rows it takes as long as of none
            watch.seconds_a_row = (time.perf_counter() - began) / columns.rows
        return counted.first | counted.second

    def _some(self, watch: Watch, most: int) -> list[Found]:
        columns = RowColumns(self._rows)
        if isinstance(watch, SingleWatch):
            slots = columns.slots[columns.passing_any(watch.form.alternatives)]
            return [(slot,) for slot in slots[:most].tolist()]
        assert isinstance(watch, PairsWatch)
        found = some_pairs(columns, Grouping(columns), watch.form, most)
        return [(int(columns.slots[t]), int(columns.slots[s])) for t, s in found]

    def _quicker_anew(self, batch: ChangedRows) -> set[int]:
        """Return the rules for which counting all rows is quicker than asking for each row that changed.

        By what asking took before; where that is not known, and many rows changed, by asking for a few of them.
        """
        slots = batch.delta.changed
        unknown = [number for number, seconds in enumerate(self._seconds_a_row) if not seconds]
        if unknown and len(slots) > _MANY_CHANGED:
            self._asked(batch, slots[:: len(slots) // _TRIED], unknown)
        asking = self._seconds_a_row * len(slots) / self._threads
        return {number for number, watch in enumerate(self.partners) if asking[number] > watch.seconds_anew}

    def _asked(self, batch: ChangedRows, slots: Slots, numbers: Collection[int]) -> dict[int, NDArray[np.int64]]:
        """Return the partners of some rows of a batch, and remember how long asking for one of them took."""
        columns = batch.columns if len(slots) == len(batch.delta.changed) else RowColumns(self._rows, slots)
        partners, seconds = self._partners.count(slots, columns, numbers)
        for number, took in seconds.items():
            self._seconds_a_row[number] = took / max(1, len(slots))
        return partners


def _sizes(rows: RowSet, watch: GroupsWatch) -> GroupCounts:
    groups = watch.form.groups
    assert groups is not None
    return GroupCounts(rows, groups.columns, groups.dependent)
