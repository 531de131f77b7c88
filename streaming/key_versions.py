"""What is known of each key's last change, also of keys whose row is gone: late records are told by it.

It is a table of its own, of one row for each key: the key, the sequence of its last change, and since when it has no
row (0 while it has one). So it is stored, undone and restored as the rows of a table are.
"""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import Column, PredicateSpace, Schema
from holdfast.constraints.types import INTEGER
from holdfast.indexes.encoding import Codes
from holdfast.indexes.row_hash import first_equal
from holdfast.indexes.rows import RowSet
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.netting import DELETE
from holdfast.tables import EncodedColumn, Table

_SEQUENCE, _GONE_SINCE = " sequence", " gone since"  # no column of a source is called so: names are not trimmed
_LEAST = np.iinfo(np.int64).min + 1
_SWEEP_EVERY = 100


class KeyVersions:
    """The last sequence of each key.

    Parameters
    ----------
    schema, key : of the table.
    retention : for how many seconds keys without a row are remembered; None for ever.
    clock : seconds since 1970.
    """

    def __init__(
        self,
        schema: Schema,
        key: Sequence[str],
        retention: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        columns = [schema.columns[schema.index(name)] for name in key]
        extra = (Column(_SEQUENCE, INTEGER), Column(_GONE_SINCE, INTEGER))
        self._schema = Schema(schema.table, (*columns, *extra))
        self._key = tuple(key)
        self._rows = RowSet(PredicateSpace(self._schema), self._key)
        self.retention = retention
        self._clock = clock
        self._batches = 0
        self._oldest = _LEAST

    def __len__(self) -> int:
        return len(self._rows)

    def begin(self) -> None:
        """Begin a batch: `undo` leads back to here."""
        self._rows.begin()
        self._oldest = _LEAST

    def undo(self) -> None:
        """Take back what was done since `begin`."""
        self._rows.undo()

    def latest(self, table: Table) -> NDArray[np.int64]:
        """Return the last sequence known of each row's key, the least number where none is."""
        nothing = np.zeros(table.row_count, np.int64)
        codes, _ = self._rows.encode(self._table(table, nothing, nothing))
        slots = self._rows.slots_with_key(codes)
        found = np.where(slots >= 0, self._rows.codes[slots, -2], _LEAST)
        return np.where(found == _LEAST, _LEAST - 1, found)  # no sequence is less than what is known of a new key

    def note(
        self, table: Table, operations: NDArray[np.int8], sequence: NDArray[np.int64], which: NDArray[np.int64]
    ) -> None:
        """Remember some records; those that are late change nothing. O(records)."""
        now = int(self._clock())
        gone = np.where(operations == DELETE, now, 0)
        codes, _ = self._rows.encode(self._table(table, np.maximum(sequence, _LEAST), gone))
        self._drop_if(lambda codes: codes[:, -2] < self._oldest)
        codes = codes[which[np.argsort(sequence[which], kind="stable")]]
        slots = self._rows.slots_with_key(codes)
        codes = codes[(slots < 0) | (codes[:, -2] >= self._rows.codes[slots, -2])]
        last = np.full(len(codes), -1, np.int64)
        last[first_equal(codes, self._rows.key)] = np.arange(len(codes))
        self._replace(codes[last[last >= 0]])
        self._batches += 1
        if self.retention is not None and self._batches % _SWEEP_EVERY == 0:
            oldest = now - self.retention
            self._drop_if(lambda codes: (codes[:, -1] > 0) & (codes[:, -1] < oldest))
        self._rows.forget()  # at the end alone: until then `undo` needs the slots, and `encode` knows of no others

    def forget_before(self, sequence: int) -> None:
        """Forget keys whose last change is before a sequence, with what is noted next."""
        self._oldest = sequence

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since it was last saved, or everything."""
        return self._rows.save(prefix, everything=everything)

    def restore(self, store: Store, prefix: bytes) -> None:
        """Take over what was saved."""
        self._rows.restore(store, prefix)

    def check_invariants(self) -> None:
        """Assert what is promised. O(n)."""
        self._rows.check_invariants()

    def _replace(self, codes: NDArray[np.int64]) -> None:
        slots = self._rows.slots_with_key(codes)
        old = self._rows.codes[slots]
        differs = (slots < 0) | (old != codes).any(axis=1)
        out, into = old[differs & (slots >= 0)], codes[differs]
        signs = np.concatenate([np.full(len(out), -1), np.ones(len(into), np.int64)])
        self._rows.change(np.concatenate([out, into]), signs)

    def _drop_if(self, is_old: Callable[[Codes], NDArray[np.bool_]]) -> None:
        live = self._rows.codes[self._rows.live()]
        old = live[is_old(live)]
        if len(old):
            self._rows.change(old, np.full(len(old), -1))

    def _table(self, table: Table, sequence: NDArray[np.int64], gone: NDArray[np.int64]) -> Table:
        columns = [table[name] for name in self._key]
        extra = [EncodedColumn(c, v, None) for c, v in zip(self._schema.columns[-2:], (sequence, gone), strict=True)]
        return Table(self._schema, (*columns, *extra), table.row_count, locate=table.locate)
