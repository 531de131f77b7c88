"""Counts of the violations of monitored rules where rows are in blocks: for all rules together, in a few jobs.

    a batch     partners and group sizes of the changed rows             one job, discovery/blocks/counting/partners.py
    examples    partners of a few changed rows, or any violations        jobs that end when they have found enough
    anew        all rows, as `holdfast check --spark` counts them

The rows of examples become resident: they have slots from then on.

Invariant: counts are those of all rows of the table, most of which have no slot.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from holdfast.discovery.blocks.counting.checking import check_blocks, some_violations
from holdfast.discovery.blocks.counting.partners import BlockPartners
from holdfast.discovery.detection.columns import RowColumns
from holdfast.discovery.detection.counting import breaks_alone
from holdfast.streaming.maintainers.holdings.residents import Residents
from holdfast.streaming.maintainers.rules.counting import Counting
from holdfast.streaming.maintainers.rules.watches import ChangedRows, Found, PairsWatch, RuleWatch, SingleWatch

_MANY_CHANGED = 1024


class CountingInBlocks(Counting):
    """Counts violations on rows in blocks.

    Parameters
    ----------
    rows : the residents, and the blocks.
    watches : the rules.
    """

    def __init__(self, rows: Residents, watches: Sequence[RuleWatch]) -> None:
        super().__init__(watches)
        self._rows = rows
        self._pair_watches: list[PairsWatch] = [*self.groups, *self.partners]

    def follow(self, batch: ChangedRows) -> None:
        """Apply a batch to the counts, and set which rows of the batch violate each rule."""
        delta = batch.delta
        if int(delta.copies.sum()) != delta.copies_in - delta.copies_out:  # rows were deleted that have no slot
            self.count([*self.singles, *self._pair_watches])
        else:
            super().follow(batch)

    def _follow_pairs(self, batch: ChangedRows) -> None:
        if len(batch.delta.changed) > max(_MANY_CHANGED, len(self._rows) // 2):
            self.count(self._pair_watches)
        elif self._pair_watches:
            found = self._partners().follow(self._rows.table(batch.delta.changed))
            for number, grouped in enumerate(self.groups):
                change = found.groups[number].change(batch.delta.copies)
                grouped.counted((grouped.pairs or 0) + change.pairs, grouped.breaking + change.rows)
                grouped.see(batch, change.breaks)
            for number, watch in enumerate(self.partners, len(self.groups)):
                watch.follow(batch, found.partners[number])

    def count(self, watches: Sequence[RuleWatch]) -> None:
        """Count all rows anew for the given rules, all of them in one job."""
        rules = [watch.rule for watch in watches]
        found = check_blocks({self._rows.space.schema.table: self._rows.blocks.table()}, rules, examples=0)
        for watch, checked in zip(watches, found, strict=True):
            assert checked.violating_rows is not None
            watch.counted(checked.violating_pairs, checked.violating_rows)

    def with_rows(self, wanted: Sequence[tuple[PairsWatch, int]]) -> list[Found | None]:
        """Return, for each rule and row, a violation with the row; None if there is none. One job."""
        found: list[Found | None] = [
            (row, row) if self._breaks_with_its_copy(watch, row) else None for watch, row in wanted
        ]
        left = [place for place, one in enumerate(found) if one is None]
        rows = np.unique([wanted[place][1] for place in left])
        tasks = [(self._pair_watches.index(watch), int(np.searchsorted(rows, row))) for watch, row in wanted]
        answers = self._partners().partners(self._rows.table(rows), [tasks[place] for place in left]) if left else []
        partners = [(place, one) for place, one in zip(left, answers, strict=True) if one is not None]
        slots = self._brought([partner.row for _, partner in partners])
        for (place, partner), (other,) in zip(partners, slots, strict=True):
            row = wanted[place][1]
            found[place] = (other, row) if partner.is_first else (row, other)
        return found

    def some(self, watches: Sequence[RuleWatch], most: int) -> list[list[Found]]:
        """Return up to `most` violations of each of the given rules, all of which have violations. One job."""
        forms = [watch.form for watch in watches if isinstance(watch, SingleWatch | PairsWatch)]
        found = some_violations(self._rows.blocks.table(), forms, most)
        slots = iter(self._brought([rows for several in found for rows in several]))
        return [[next(slots) for _ in several] for several in found]

    def _partners(self) -> BlockPartners:
        return BlockPartners(self._rows.blocks.table(), [watch.form for watch in self._pair_watches])

    def _breaks_with_its_copy(self, watch: PairsWatch, row: int) -> bool:
        alone = breaks_alone(RowColumns(self._rows, np.array([row])), watch.form)
        return alone is not None and bool(alone[0]) and bool(self._rows.copies[row] > 1)

    def _brought(self, found: Sequence[pa.Table]) -> list[Found]:
        """Make the rows of violations resident, and return the slots of each violation."""
        if not found:
            return []
        rows = pa.concat_tables(found)
        _, first, of_row = np.unique(rows.column("row").to_numpy(), return_index=True, return_inverse=True)
        slots = self._rows.bring(rows.take(pa.array(first)))[of_row]
        ends = np.cumsum([len(one) for one in found])[:-1]
        return [tuple(some.tolist()) for some in np.split(slots, ends)]
