"""The *residents* of a table in blocks: the rows that this process has, with slots.

Residents are the rows of the current batch, and the rows that certificates and examples of rules refer to by slot.
Before a batch is netted its rows are looked up in the blocks, and become resident with all their copies. Of other
residents only those copies are known that some answer of the blocks contained.

Invariant: a resident is live exactly if its row is in the table; a resident of the current batch has as many copies as
the table. Owed deletes are kept here, as no block has them.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from holdfast.discovery.blocks.search.probing import probe_among, probe_blocks
from holdfast.discovery.blocks.search.searching import Evidences
from holdfast.discovery.blocks.storage.block import Rows, rows_of, table_of
from holdfast.discovery.blocks.storage.live import LiveBlocks
from holdfast.discovery.blocks.storage.lookup import find_rows, rows_between
from holdfast.indexes.encoding import Relabelled
from holdfast.indexes.row_hash import first_equal
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.state.store import WriteBatch
from holdfast.streaming.maintainers.holdings.contract import RowsDefinition
from holdfast.tables import Table
from holdfast.tables.arrays import Codes, Pairs, RowNumbers, Slots, Words

_FEW_RESIDENTS = 10_000


class Residents(RowSet):
    """The residents of a table in blocks, and the blocks.

    Parameters
    ----------
    definition : of all rows.
    blocks : all live rows.

    Attributes
    ----------
    held : returns the slots that the parts of the maintainer refer to.
    """

    def __init__(self, definition: RowsDefinition, blocks: LiveBlocks) -> None:
        super().__init__(definition.space, definition.key, definition.coding)
        self.blocks = blocks
        self._before_batch = blocks.manifest
        self._many = _FEW_RESIDENTS
        self._met_slots: list[Slots] = []
        self._met_numbers: list[RowNumbers] = []
        self.truncated = False
        self.threads = definition.threads
        self.held: Callable[[], Slots] = lambda: np.zeros(0, np.int64)

    def __len__(self) -> int:
        """How many rows the table has, counting copies."""
        return self.blocks.manifest.rows

    def begin(self) -> None:
        """Begin a batch: `undo` leads back to here. Before, residents that no part refers to may be removed."""
        self._begin()
        try:
            self._let_go()  # before the state that `undo` restores: the slots may be reused
        except BaseException:
            self.undo()
            raise
        self._begin()

    def _begin(self) -> None:
        super().begin()
        self._before_batch = self.blocks.manifest
        self._met_slots, self._met_numbers = [], []

    def undo(self) -> None:
        """Take back the changes since `begin`."""
        super().undo()
        self.blocks.manifest = self._before_batch

    def encode(self, table: Table) -> tuple[Codes, list[Relabelled]]:
        """Return the codes of rows that a batch changes or looks up; rows of the table among them become resident."""
        codes, first_relabelled = super().encode(table)
        columns = self.key or tuple(range(codes.shape[1]))
        distinct, counts = np.unique(first_equal(codes, columns), return_counts=True)
        found = find_rows(self.blocks.table(), self.blocks.kept, columns, table.taken(distinct), counts)
        stored, more_relabelled = super().encode(table_of(found.rows, self.space.schema))
        codes, _ = super().encode(table)
        numbers = found.rows.column("row").to_numpy()
        if self.key:
            slots = self.hold(stored, np.ones(len(stored), np.int64))
            self._met(slots, numbers)
        else:
            there = np.flatnonzero(found.counts)
            slots = np.full(len(distinct), -1, np.int64)
            slots[there] = self.hold(codes[distinct[there]], found.counts[there])
            self._met(slots[found.places], numbers)
        return codes, [*first_relabelled, *more_relabelled]

    def change(self, codes: Codes, signs: np.ndarray) -> RowDelta:
        """Add and remove copies of rows, in the blocks too.

        If the batch truncated the table, only residents stay in the table.
        """
        before, delta = len(self), super().change(codes, signs)
        entering = np.maximum(delta.copies, 0)
        if self.truncated:
            self.blocks.empty()
            staying = self.copies.copy()
            staying[delta.changed] -= entering
            live = np.flatnonzero(staying > 0)
            self._enter(np.repeat(live, staying[live]))
            self._enter(np.repeat(delta.changed, entering))
            return replace(delta, copies_out=before + delta.copies_in - len(self))
        slots, numbers = self._numbers_of(delta.changed, -delta.copies)
        self.blocks.leave(Rows(numbers, self.table(slots)))
        self._enter(np.repeat(delta.changed, entering))
        return delta

    def forget(self) -> None:
        """Free the slots of rows without copies, and merge or sort blocks if it is time."""
        super().forget()
        self.blocks.settle()

    def bring(self, images: pa.Table) -> Slots:
        """Make rows of the table resident, given as their numbers and values; return the slot of each."""
        rows = rows_of(images, self.space.schema)
        codes, _ = super().encode(rows.table)
        first, of_row = np.unique(first_equal(codes, range(codes.shape[1])), return_inverse=True)
        known = self.slots_of(codes[first])
        copies = np.where(known >= 0, self.copies[known], 0)
        met = np.bincount(np.unique(np.column_stack([of_row, rows.numbers]), axis=0)[:, 0], minlength=len(first))
        slots = self.hold(codes[first], np.maximum(copies, met))
        found: Slots = slots[of_row]
        self._met(found, rows.numbers)
        return found

    def slots_between(self, column: int, low: int, high: int) -> Slots:
        """Make all rows resident whose number in a column is from `low` to `high`; return their slots."""
        return np.unique(self.bring(rows_between(self.blocks.table(), column, low, high)))

    def slots_numbered(self, numbers: RowNumbers) -> Slots:
        """Return the slots of rows by their numbers; this batch must have looked up, brought, or inserted the rows."""
        known = np.concatenate([np.zeros(0, np.int64), *self._met_numbers])
        order = np.argsort(known, kind="stable")
        slots = np.concatenate([np.zeros(0, np.int64), *self._met_slots])[order]
        places = np.searchsorted(known[order], numbers)
        assert (places < len(known)).all(), "a row was not met"
        assert (known[order][places] == numbers).all(), "a row was not met"
        found: Slots = slots[places]
        return found

    def met_by(self, newcomers: Slots, masks: Words) -> tuple[Words, Pairs]:
        """Return the evidences of pairs with rows inserted by this batch, at least those in one of the masks."""
        space = self.space
        batch = Rows(self._entered(newcomers), self.table(newcomers))
        others = probe_blocks(self.blocks.table(but_last=True), space, batch, masks)
        among = probe_among(space, batch, self.copies[newcomers], masks, self.threads)
        found = Evidences.together([others, among], space)
        return found.words, self.pairs_of(found)

    def pairs_of(self, evidences: Evidences) -> Pairs:
        """Return the pairs of evidences as slots."""
        if evidences.images:
            self.bring(pa.concat_tables(evidences.images))
        return self.slots_numbered(evidences.rows.ravel()).reshape(-1, 2)

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since the last save, or everything: residents, and the manifest of the blocks."""
        yield from super().save(prefix, everything=everything)
        yield from self.blocks.save(prefix, everything=everything)

    def arrow(self) -> tuple[pa.Table, pa.Table]:
        """Return all live rows, read into memory, and the owed deletes. O(n)."""
        table = self.blocks.table()
        live = table_of(table.source.read_all(table.base.blocks), self.space.schema).to_arrow()
        return live, super().arrow()[1]

    def _let_go(self) -> None:
        """Remove residents that no part refers to, if there are many. Amortised O(1) a resident."""
        live = self.live()
        if len(live) <= self._many:
            return
        unheld = np.setdiff1d(live, self.held())
        self.hold(self.codes[unheld], np.zeros(len(unheld), np.int64))
        super().forget()
        self._many = 2 * (len(live) - len(unheld)) + _FEW_RESIDENTS

    def _met(self, slots: Slots, numbers: RowNumbers) -> None:
        self._met_slots.append(slots)
        self._met_numbers.append(numbers)

    def _enter(self, slots: Slots) -> None:
        self._met(slots, self.blocks.enter(self.table(slots)))

    def _entered(self, slots: Slots) -> RowNumbers:
        """Return, per slot, the number of the last row that was inserted into it."""
        last = np.zeros(len(self.copies), np.int64)
        last[self._met_slots[-1]] = self._met_numbers[-1]
        found: RowNumbers = last[slots]
        return found

    def _numbers_of(self, slots: Slots, counts: np.ndarray) -> tuple[Slots, RowNumbers]:
        """Return slots and numbers of the rows to delete, `counts` of them for each slot."""
        known = np.concatenate([np.zeros(0, np.int64), *self._met_slots])
        numbers = np.concatenate([np.zeros(0, np.int64), *self._met_numbers])
        wanted = np.zeros(len(self.copies), np.int64)
        wanted[slots] = np.maximum(counts, 0)
        order = np.argsort(known, kind="stable")
        nth = np.arange(len(order)) - np.searchsorted(known[order], known[order])
        taken = order[nth < wanted[known[order]]]
        assert len(taken) == wanted.sum(), "rows of the table were not looked up"
        return known[taken], numbers[taken]
