"""The rows of one table: each distinct row once, with its number of copies.

A table without a key is the signed sum of its changes (semantics), so a row may have a negative number of copies: owed
deletes. A row is *live* while it has a positive number. Slots name distinct rows; a slot is given to another row only
after `forget`, when all users of the slot have seen its row vanish.

Invariant: no two slots that are in use have the same codes; a slot is in use while its row has copies, live or owed.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.constraints import PredicateSpace, Value
from holdfast.indexes.encoding import NULL, Encoding, Relabelled
from holdfast.indexes.growing import with_room
from holdfast.indexes.row_hash import RowHash, first_equal
from holdfast.state import codecs
from holdfast.state.pieces import Pieces
from holdfast.state.store import Reader, WriteBatch
from holdfast.tables import Table
from holdfast.tables.arrays import Codes, Ints, Slots, as_slots
from holdfast.tables.columnar import encoded

_FEWEST = 1 << 10
_FILLED_AT_ONCE = 1 << 19


@dataclass(frozen=True)
class RowDelta:
    """How a batch changed the distinct rows.

    Parameters
    ----------
    appeared, vanished : slots of rows that became live, or are live no longer.
    doubled, single : slots of rows that are live before and after and now have two copies or more, or a single copy:
        they became a pair with themselves, or are no such pair any more.
    copies_in, copies_out : the numbers of live copies inserted and deleted.
    newly_owed : the number of deletes that found no copy.
    changed, copies : slots of rows whose number of live copies changed, and by how much.
    """

    appeared: Slots
    vanished: Slots
    doubled: Slots
    single: Slots
    copies_in: int
    copies_out: int
    newly_owed: int
    changed: Slots
    copies: Ints

    @property
    def is_empty(self) -> bool:
        """Whether the pairs of rows are the same as before."""
        return not (len(self.appeared) or len(self.vanished) or len(self.doubled) or len(self.single))


class RowSet:
    """The distinct rows of one table.

    - Looking up: `slots_of`, `slots_with_key`, `live`, `values`, `arrow`, `key_is_unique`
    - Changing: `fill`, `fill_from`, `begin`, `encode`, `change`, `forget`, `undo`
    - Checking: `check_invariants`

    Parameters
    ----------
    space : columns, types, and which columns are compared with each other.
    key : names of the columns that identify a row; none for a table without a key.
    coding : a space with more comparisons that codes have to support; by default `space`.
    """

    def __init__(self, space: PredicateSpace, key: Sequence[str] = (), coding: PredicateSpace | None = None) -> None:
        self.space = space
        self.coding = coding or space
        self.encoding = Encoding(self.coding)
        self.key = tuple(space.schema.index(name) for name in key)
        self.codes: Codes = np.zeros((_FEWEST, len(space.schema)), np.int64)
        self.copies = np.zeros(_FEWEST, np.int64)
        self.live_copies = 0
        self.owed_copies = 0
        self._used = 0
        self._free: list[int] = []
        self._ended: list[Slots] = []
        self._before: list[tuple[Slots, Ints]] = []
        self._relabelled: list[tuple[int, Codes]] = []
        self._encoding_before = self.encoding.memo()
        self._pieces = Pieces("rows")
        self._changed: list[Slots] = [np.zeros(0, np.int64)]
        self._all_changed = False
        self._whole = RowHash(range(len(space.schema)))
        self._by_key = RowHash(self.key) if key else None

    def __len__(self) -> int:
        """Return the number of rows, copies counted."""
        return self.live_copies

    def live(self) -> Slots:
        """Return the slots of all live rows. O(n)."""
        return as_slots(np.flatnonzero(self.copies[: self._used] > 0))

    def begin(self) -> None:
        """Begin a batch: `undo` restores this state."""
        self._before.clear()
        self._relabelled.clear()
        if self.encoding.can_waste:
            self.encoding.release(self._held())
        self._encoding_before = self.encoding.memo()

    def undo(self) -> None:
        """Undo all changes since `begin`, wherever they stopped. O(n)."""
        self.encoding.take_back(self._encoding_before)
        for column, codes in self._relabelled[::-1]:
            self.codes[: len(codes), column] = codes
        for slots, copies in self._before[::-1]:
            self.copies[slots] = copies
        self._ended.clear()
        self._take_stock()

    def _take_stock(self) -> None:
        """Find the slots in use, their copies and their places in the hash tables from scratch. O(n)."""
        used = self._in_use()
        self._used = int(used.max(initial=-1)) + 1
        self._free = np.flatnonzero(self.copies[: self._used] == 0)[::-1].tolist()
        self.live_copies, self.owed_copies = (int(side.sum()) for side in _sides(self.copies[used]))
        self._rehash()

    def encode(self, table: Table) -> tuple[Codes, list[Relabelled]]:
        """Return the codes of rows to look up or change; the rows held are relabelled where new values need that."""
        codes, relabelled = self.encoding.encode(table, lambda: self.codes[self._in_use()])
        for change in relabelled:
            for c in change.columns:
                old = self.codes[: self._used, c].copy()
                self._relabelled.append((c, old))
                self.codes[: self._used, c] = change.apply(old)
        if relabelled:
            self._all_changed = True
            self._rehash()
        return codes, relabelled

    def slots_of(self, codes: Codes) -> Slots:
        """Return the slot of each row, -1 where no copies are held or owed. O(k)."""
        return as_slots(self._whole.find(self.codes, codes))

    def slots_with_key(self, codes: Codes) -> Slots:
        """Return the slot of the live row with each row's key, -1 where there is none. O(k)."""
        assert self._by_key is not None, "the table has no key"
        return as_slots(self._by_key.find(self.codes, codes))

    def slots_between(self, column: int, low: int, high: int) -> Slots:
        """Return the slots of live rows with a number from `low` to `high` in a column of integers. O(n)."""
        live = self.live()
        numbers = self.codes[live, column]  # integers are their codes, unless one is the least
        found: Slots = live[(low <= numbers) & (numbers <= high)]
        return found

    def values(self, slots: Slots) -> list[dict[str, Value]]:
        """Return the values of some rows by column name."""
        return self.encoding.decode(self.codes[slots])

    def table(self, slots: Slots) -> Table:
        """Return rows as a table. O(k)."""
        schema = self.space.schema
        arrays = self.encoding.arrow(self.codes[slots])
        return encoded(schema.table, schema.columns, {name: arrays.column(name) for name in schema.names}, len(slots))

    def arrow(self) -> tuple[pa.Table, pa.Table]:
        """Return all live rows, copies included, and the owed deletes, as Arrow tables. O(n)."""
        used = self._in_use()
        copies = self.copies[used]
        live, owed = (self.encoding.arrow(np.repeat(self.codes[used], side, axis=0)) for side in _sides(copies))
        return live, owed

    def owed(self) -> pa.Table:
        """Return the owed deletes, copies included. O(slots)."""
        owing = np.flatnonzero(self.copies[: self._used] < 0)
        return self.encoding.arrow(np.repeat(self.codes[owing], -self.copies[owing], axis=0))

    def change(self, codes: Codes, signs: Ints) -> RowDelta:
        """Add `signs[i]` copies of row `codes[i]`, each row listed once. O(k).

        Vanished rows keep their slots and codes until `forget`.
        """
        slots, before = self._places_for(codes)
        after = before + signs
        appeared, vanished = self._put(slots, before, after)
        change = np.maximum(after, 0) - np.maximum(before, 0)
        owed = np.maximum(-after, 0) - np.maximum(-before, 0)
        return RowDelta(
            appeared,
            vanished,
            slots[(before == 1) & (after > 1)],
            slots[(before > 1) & (after == 1)],
            int(np.maximum(change, 0).sum()),
            int(np.maximum(-change, 0).sum()),
            int(np.maximum(owed, 0).sum()),
            slots[change != 0],
            change[change != 0],
        )

    def fill(self, table: Table) -> None:
        """Insert the first rows, some at a time, so that codes are in memory once. O(n)."""
        starts = range(0, table.row_count, _FILLED_AT_ONCE)
        self.fill_from((table.between(start, start + _FILLED_AT_ONCE) for start in starts), table.row_count)

    def fill_from(self, parts: Iterable[Table], row_count: int) -> None:
        """Insert the first rows from tables that each have some of them, `row_count` in all. O(n)."""
        self._reserve(row_count)
        for table in (self._whole, self._by_key):
            if table is not None and self.key:  # else rows may be the same
                table.reserve(self.codes, row_count)
        for part in parts:
            self._take_part(part)
        self._all_changed = True
        self.encoding.let_go()
        self.begin()

    def key_is_unique(self) -> bool:
        """Whether each row has one copy, no two rows have one key, and no key has a null. O(n)."""
        assert self._by_key is not None, "the table has no key"
        for start in range(0, self._used, _FILLED_AT_ONCE):
            slots = np.arange(start, min(start + _FILLED_AT_ONCE, self._used))
            codes = self.codes[slots[0] : slots[-1] + 1]
            if (codes[:, self.key] == NULL).any() or (self.copies[slots] > 1).any():
                return False
            if not np.array_equal(self.slots_with_key(codes), slots):
                return False
        return True

    def hold(self, codes: Codes, copies: Ints) -> Slots:
        """Set the copies of row `codes[i]`, each listed once, to `copies[i]`, outside of any batch; return slots.

        O(k). Rows without copies keep their slots and codes until `forget`.
        """
        slots, before = self._places_for(codes)
        self._put(slots, before, copies)
        return slots

    @contextmanager
    def beside(self, codes: Codes) -> Iterator[Slots]:
        """Give rows slots while they are compared with the rows of the table, of which they do not become a part.

        Amortised O(k).
        """
        used, end = self._used, self._used + len(codes)
        self._reserve(end)
        self.codes[used:end], self.copies[used:end] = codes, 1
        try:
            yield as_slots(np.arange(used, end))
        finally:
            self.copies[used:end] = 0

    def forget(self) -> None:
        """Free the slots of rows that lost their last copy. O(rows that did so since the last call)."""
        ended = np.unique(np.concatenate([np.zeros(0, np.int64), *self._ended]))
        gone = ended[self.copies[ended] == 0]
        self._whole.remove(self.codes, gone)
        self._free.extend(gone.tolist())
        self._ended.clear()

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield changes since the last save, or everything, in batches of bounded size."""
        yield from self.encoding.save(prefix, everything=everything)
        if everything or self._all_changed:
            yield from self._pieces.save_all(prefix, self._in_use(), self._stored)
        else:
            changed = np.unique(np.concatenate(self._changed))
            yield from self._pieces.save(prefix, changed, lambda slots: self.copies[slots] != 0, self._stored)
        self._changed, self._all_changed = [np.zeros(0, np.int64)], False

    def restore(self, store: Reader, prefix: bytes) -> None:
        """Read what was saved. O(n)."""
        found = list(self._pieces.restore(store, prefix))
        self._take(max((int(piece.records.max(initial=-1)) for piece, _ in found), default=-1) + 1)
        for piece, stored in found:
            slots = piece.records
            numbers = codecs.read_codes(stored)
            self.copies[slots] = numbers[: len(slots)]
            self.codes[slots] = numbers[len(slots) :].reshape(-1, self.codes.shape[1])
            self.copies[piece.ended[piece.ended < self._used]] = 0
        del found
        self._take_stock()
        self.encoding.restore(store, prefix, self._held())
        self._encoding_before = self.encoding.memo()

    def check_invariants(self) -> None:
        """Assert the invariants. O(n)."""
        used = self._in_use()
        assert len(np.unique(self.codes[used], axis=0)) == len(used)
        assert (self.slots_of(self.codes[used]) == used).all()
        assert self.live_copies == np.maximum(self.copies[used], 0).sum()
        assert self.owed_copies == np.maximum(-self.copies[used], 0).sum()
        if self._by_key is not None:
            live = self.live()
            assert (self.slots_with_key(self.codes[live]) == live).all()
        self.encoding.check_invariants()

    def check_saved(self) -> None:
        """Assert that the last save has all rows. O(n)."""
        self._pieces.check_invariants(self._in_use())

    def _take_part(self, part: Table) -> None:
        """Insert some of the first rows."""
        codes, _ = self.encode(part)
        first, copies = np.unique(first_equal(codes, range(codes.shape[1])), return_counts=True)
        self.change(codes if len(first) == len(codes) else codes[first], copies)
        self._before.clear()
        self._relabelled.clear()
        self._changed.clear()

    def _stored(self, slots: Ints) -> bytes:
        """Return rows as they are stored: their copies, then the codes row by row."""
        return codecs.codes(self.copies[slots]) + codecs.codes(self.codes[slots])

    def _places_for(self, codes: Codes) -> tuple[Slots, Ints]:
        """Return the slots of rows, new slots where rows have none, and their numbers of copies."""
        slots = self.slots_of(codes)
        before = np.where(slots >= 0, self.copies[slots], 0)
        new = slots < 0
        slots[new] = self._take(int(np.count_nonzero(new)))
        self.codes[slots[new]] = codes[new]
        self._whole.insert(self.codes, slots[new])
        return slots, before

    def _put(self, slots: Slots, before: Ints, after: Ints) -> tuple[Slots, Slots]:
        """Set the copies of rows; return the rows that became live, and the rows that are live no longer."""
        self._before.append((slots, before))
        self.copies[slots] = after
        self._ended.append(slots[after == 0])
        self._changed.append(slots)
        appeared, vanished = slots[(before <= 0) & (after > 0)], slots[(before > 0) & (after <= 0)]
        if self._by_key is not None:  # first: the new version of a row has the key of the old version
            self._by_key.remove(self.codes, vanished)
            self._by_key.insert(self.codes, appeared)
        (live, owed), (live_before, owed_before) = _sides(after), _sides(before)
        self.live_copies += int(live.sum() - live_before.sum())
        self.owed_copies += int(owed.sum() - owed_before.sum())
        return appeared, vanished

    def _rehash(self) -> None:
        self._whole.rebuild(self.codes, self._in_use())
        if self._by_key is not None:
            self._by_key.rebuild(self.codes, self.live())

    def _held(self) -> Codes:
        """Return the codes of all rows with copies; a view where every slot is in use."""
        is_dense = np.count_nonzero(self.copies[: self._used]) == self._used
        return self.codes[: self._used] if is_dense else self.codes[self._in_use()]

    def _in_use(self) -> Slots:
        return as_slots(np.flatnonzero(self.copies[: self._used] != 0))

    def _take(self, count: int) -> Slots:
        """Return free slots."""
        reused = min(count, len(self._free))
        slots = np.array(self._free[len(self._free) - reused :] + [0] * (count - reused), np.int64)
        del self._free[len(self._free) - reused :]
        slots[reused:] = np.arange(self._used, self._used + count - reused)
        self._used += count - reused
        self._reserve(self._used)
        return as_slots(slots)

    def _reserve(self, room: int) -> None:
        """Make room for `room` slots; unused room costs no memory."""
        self.codes, self.copies = with_room(self.codes, room), with_room(self.copies, room)


def _sides(copies: Ints) -> tuple[Ints, Ints]:
    """Return the numbers of live copies, and of owed copies."""
    return np.maximum(copies, 0), np.maximum(-copies, 0)
