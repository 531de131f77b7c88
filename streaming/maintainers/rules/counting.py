"""Counts of the violations of monitored rules in a whole table: the contract, and the counter of rows in memory.

keys, functional dependencies   from the sizes of groups                  indexes/group_counts.py
other rules about pairs         from the partners of the changed rows     discovery/detection/partners.py
conditions on single rows       from the changed rows alone

`counting_blocks.py` has the counter of rows in blocks.
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
    RuleWatch,
    SingleWatch,
)
from holdfast.tables.arrays import Flags, Slots

_MEASURED = 10_000
_MANY_CHANGED, _TRIED = 1024, 128


class Counting(ABC):
    """Counts the violations of the rules of one table, and searches for examples.

    Parameters
    ----------
    watches : the rules, whose counts are set here.
    """

    def __init__(self, watches: Sequence[RuleWatch]) -> None:
        self.singles = [watch for watch in watches if isinstance(watch, SingleWatch)]
        self.groups = [watch for watch in watches if isinstance(watch, GroupsWatch)]
        self.partners = [w for w in watches if isinstance(w, PartnersWatch) and w.form.is_possible]

    def follow(self, batch: ChangedRows) -> None:
        """Apply a batch to the counts, and set which rows of the batch violate each rule."""
        for watch in self.singles:
            watch.follow(batch)
        self._follow_pairs(batch)

    @abstractmethod
    def _follow_pairs(self, batch: ChangedRows) -> None:
        """Apply a batch to the rules about pairs."""

    @abstractmethod
    def count(self, watches: Sequence[RuleWatch]) -> None:
        """Count all rows anew for the given rules. O(n log n) for each."""

    @abstractmethod
    def with_rows(self, wanted: Sequence[tuple[PairsWatch, int]]) -> list[Found | None]:
        """Return, for each rule and row, a violation with the row; None if there is none. O(n) each."""

    @abstractmethod
    def some(self, watches: Sequence[RuleWatch], most: int) -> list[list[Found]]:
        """Return up to `most` violations of each given rule, all of which have violations. O(n log n) each."""

    def rebuild(self) -> None:  # noqa: B027 (nothing, where nothing is derived)
        """Derive everything anew from the codes of the rows. O(n log n)."""

    def check_invariants(self) -> None:  # noqa: B027 (nothing, where nothing is derived)
        """Assert that what is derived from rows is right. O(n log n)."""


class CountingInMemory(Counting):
    """Counts violations on rows that are all in memory.

    Parameters
    ----------
    rows : the table.
    threads : how many to use.
    """

    def __init__(self, rows: RowSet, watches: Sequence[RuleWatch], threads: int = 1) -> None:
        super().__init__(watches)
        self._rows = rows
        self._threads = threads
        self._sizes = {watch: _sizes(rows, watch) for watch in self.groups}
        self._partners = PartnerCounts(rows, [watch.form for watch in self.partners], threads)
        self._seconds_a_row = np.zeros(len(self.partners))

    def _follow_pairs(self, batch: ChangedRows) -> None:
        delta = batch.delta
        for grouped, sizes in self._sizes.items():
            sizes.change(delta.changed, delta.copies)
            grouped.counted(sizes.pairs, sizes.breaking)
            if grouped.wants_examples:
                grouped.see(batch, sizes.breaks(delta.changed))
        self._partners.follow(delta)
        anew = self._quicker_anew(batch)
        left = [number for number in range(len(self.partners)) if number not in anew]
        partners = self._partners_of(batch, delta.changed, left)
        columns = RowColumns(self._rows) if anew else None
        for number, watch in enumerate(self.partners):
            if columns is None or number not in anew:
                watch.follow(batch, partners[number])
                continue
            breaks = np.zeros(len(self._rows.copies), np.bool_)
            breaks[columns.slots[self._count_partners(watch, columns)]] = True
            watch.see(batch, breaks[delta.changed])

    def count(self, watches: Sequence[RuleWatch]) -> None:
        """Count all rows anew for the given rules. O(n log n) for each."""
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
        """Return, for each rule and row, a violation with the row; None if there is none. O(n) each."""
        return [pair_with(self._rows, watch.form, row) for watch, row in wanted]

    def some(self, watches: Sequence[RuleWatch], most: int) -> list[list[Found]]:
        """Return up to `most` violations of each given rule, all of which have violations. O(n log n) each."""
        return [self._some(watch, most) for watch in watches]

    def rebuild(self) -> None:
        """Derive everything anew from the codes of the rows. O(n log n)."""
        for sizes in self._sizes.values():
            sizes.rebuild()
        self._partners.rebuild()

    def check_invariants(self) -> None:
        """Assert that what is derived from rows is right. O(n log n)."""
        for sizes in self._sizes.values():
            sizes.check_invariants()

    def _count_partners(self, watch: PartnersWatch, columns: RowColumns) -> Flags:
        """Count all rows anew for a rule; return, per row, whether it violates the rule."""
        began = time.perf_counter()
        counted = count(columns, Grouping(columns), watch.form)
        watch.counted(counted.pairs, counted.rows)
        if columns.rows > _MEASURED:  # fewer rows say nothing about the seconds a row
            watch.seconds_a_row = (time.perf_counter() - began) / columns.rows
        return counted.first | counted.second

    def _some(self, watch: RuleWatch, most: int) -> list[Found]:
        columns = RowColumns(self._rows)
        if isinstance(watch, SingleWatch):
            slots = columns.slots[columns.passing_any(watch.form.alternatives)]
            return [(slot,) for slot in slots[:most].tolist()]
        assert isinstance(watch, PairsWatch)
        found = some_pairs(columns, Grouping(columns), watch.form, most)
        return [(int(columns.slots[t]), int(columns.slots[s])) for t, s in found]

    def _quicker_anew(self, batch: ChangedRows) -> set[int]:
        """Return the rules for which counting all rows is quicker than counting the partners of each changed row.

        Decided by the duration of earlier counts; for a rule without earlier counts, and many changed rows, by counting
        the partners of a few of them.
        """
        slots = batch.delta.changed
        unknown = [number for number, seconds in enumerate(self._seconds_a_row) if not seconds]
        if unknown and len(slots) > _MANY_CHANGED:
            self._partners_of(batch, slots[:: len(slots) // _TRIED], unknown)
        seconds = self._seconds_a_row * len(slots) / self._threads
        return {number for number, watch in enumerate(self.partners) if seconds[number] > watch.seconds_anew}

    def _partners_of(self, batch: ChangedRows, slots: Slots, numbers: Collection[int]) -> dict[int, NDArray[np.int64]]:
        """Return, per rule, the number of partners of each given row of a batch; note the seconds a row."""
        columns = batch.columns if len(slots) == len(batch.delta.changed) else RowColumns(self._rows, slots)
        partners, seconds = self._partners.count(slots, columns, numbers)
        for number, took in seconds.items():
            self._seconds_a_row[number] = took / max(1, len(slots))
        return partners


def _sizes(rows: RowSet, watch: GroupsWatch) -> GroupCounts:
    groups = watch.form.groups
    assert groups is not None
    return GroupCounts(rows, groups.columns, groups.dependent, groups.present)
