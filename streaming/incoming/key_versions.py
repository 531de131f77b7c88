"""The sequence of the last change of each key, also of keys without a row, by which late records are recognised.

The versions are a table of their own, with one row a key: the key, the sequence of its last change, and the time when
its row was deleted (0 while it has a row). So they are stored, undone and restored like the rows of a table, and are
in the same place: in memory, or in blocks.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import Column, PredicateSpace, Schema
from holdfast.constraints.types import INTEGER
from holdfast.indexes.row_hash import first_equal
from holdfast.state.store import WriteBatch
from holdfast.streaming.incoming.netting import DELETE
from holdfast.streaming.maintainers.holdings.contract import Holding, RowsDefinition, WholeTable
from holdfast.streaming.maintainers.part import TablePart
from holdfast.tables import EncodedColumn, Table

_SEQUENCE, _GONE_SINCE = " sequence", " gone since"  # no column of a source is called so: names are not trimmed
_LEAST = np.iinfo(np.int64).min + 1
_SWEEP_EVERY = 100


class KeyVersions(TablePart):
    """The last sequence of each key.

    Parameters
    ----------
    holding : the rows of the table of versions (`versions_definition`).
    retention : for how many seconds keys without a row are remembered; None for ever.
    clock : the clock, in seconds since 1970.
    """

    def __init__(
        self, holding: Holding, retention: float | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.holding = holding
        self._rows = holding.rows
        self._schema = holding.rows.space.schema
        self.retention = retention
        self._clock = clock
        self._batches = 0
        self._oldest = _LEAST
        self._asked = np.zeros((0, len(self._schema)), np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def begin(self) -> None:
        """Begin a batch: `undo` leads back to here."""
        self.holding.begin()
        self._oldest = _LEAST

    def undo(self) -> None:
        """Take back the changes since `begin`."""
        self.holding.undo()

    def latest(self, table: Table) -> NDArray[np.int64]:
        """Return the last known sequence of each row's key; the least number if none is known."""
        nothing = np.zeros(table.row_count, np.int64)
        self._asked, _ = self._rows.encode(versions_table(self._schema, nothing, table))
        slots = self._rows.slots_with_key(self._asked)
        found = np.where(slots >= 0, self._rows.codes[slots, -2], _LEAST)
        return np.where(found == _LEAST, _LEAST - 1, found)  # less than any sequence, also of a new key

    def note(self, operations: NDArray[np.int8], sequence: NDArray[np.int64], which: NDArray[np.int64]) -> None:
        """Remember the records `which` of the last call of `latest`; late records change nothing. O(records)."""
        now = int(self._clock())
        codes = self._asked
        codes[:, -2], codes[:, -1] = np.maximum(sequence, _LEAST), np.where(operations == DELETE, now, 0)
        if self._oldest != _LEAST:
            self._drop_between(-2, _LEAST, self._oldest - 1)
        codes = codes[which[np.argsort(sequence[which], kind="stable")]]
        slots = self._rows.slots_with_key(codes)
        codes = codes[(slots < 0) | (codes[:, -2] >= self._rows.codes[slots, -2])]
        last = np.full(len(codes), -1, np.int64)
        last[first_equal(codes, self._rows.key)] = np.arange(len(codes))
        self._replace(codes[last[last >= 0]])
        self._batches += 1
        if self.retention is not None and self._batches % _SWEEP_EVERY == 1:  # also the first: a run may have few
            self._drop_between(-1, 1, math.ceil(now - self.retention) - 1)
        self._rows.forget()  # only at the end: until then `undo` needs the slots, and `encode` uses them

    def forget_before(self, sequence: int) -> None:
        """Forget keys whose last change is before a sequence, with the next call of `note`."""
        self._oldest = sequence

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since the last save, or everything."""
        return self.holding.save(prefix, everything=everything)

    def _replace(self, codes: NDArray[np.int64]) -> None:
        slots = self._rows.slots_with_key(codes)
        old = self._rows.codes[slots]
        differs = (slots < 0) | (old != codes).any(axis=1)
        out, into = old[differs & (slots >= 0)], codes[differs]
        signs = np.concatenate([np.full(len(out), -1), np.ones(len(into), np.int64)])
        self._rows.change(np.concatenate([out, into]), signs)

    def _drop_between(self, column: int, low: int, high: int) -> None:
        slots = self._rows.slots_between(len(self._schema) + column, low, high)
        if len(slots):
            self._rows.change(self._rows.codes[slots], np.full(len(slots), -1))


def schema_of_versions(schema: Schema, key: Sequence[str]) -> Schema:
    """Return the schema of the versions of a table's keys."""
    columns = [schema.columns[schema.index(name)] for name in key]
    return Schema(schema.table, (*columns, Column(_SEQUENCE, INTEGER), Column(_GONE_SINCE, INTEGER)))


def versions_definition(schema: Schema, key: Sequence[str], threads: int = 1) -> RowsDefinition:
    """Return the definition of the rows with the versions of a table's keys."""
    return RowsDefinition(PredicateSpace(schema_of_versions(schema, key)), key, threads=threads)


def first_versions(whole: WholeTable, key: Sequence[str], sequence: str | None) -> WholeTable:
    """Return the versions of the keys of a table's first rows, in the same place; none without a sequence column."""
    schema = schema_of_versions(whole.schema, key)
    if sequence is None:
        return whole.nothing(schema)
    return whole.made_anew(schema, partial(versions_table, schema, sequence))


def versions_table(schema: Schema, sequence: str | NDArray[np.int64], rows: Table) -> Table:
    """Return the versions of the keys of rows; `sequence` has the versions, or is the name of their column."""
    columns = [rows[column.name] for column in schema.columns[:-2]]
    given = rows[sequence].keys if isinstance(sequence, str) else sequence
    numbers = np.maximum(given, _LEAST), np.zeros(rows.row_count, np.int64)
    extra = [EncodedColumn(c, values, None) for c, values in zip(schema.columns[-2:], numbers, strict=True)]
    return Table(schema, (*columns, *extra), rows.row_count, locate=rows.locate)
