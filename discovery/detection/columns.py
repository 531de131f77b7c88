"""The columns of a table as codes that compare, each computed once for all rules.

Codes are dense or nearly dense, 0 for null; `alike` codes give equality alone, `ranked` codes order as well. They live
as long as one computation over the table and are never stored.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from holdfast.constraints.conditions import Atom
from holdfast.discovery.detection.conditions import passing
from holdfast.discovery.evidence.codes import numbers, ranks
from holdfast.indexes.encoding import NULL
from holdfast.indexes.rows import RowSet
from holdfast.tables import EncodedColumn, Table, common_keys
from holdfast.tables.arrays import DenseCodes, Flags, Ints, Keys, Slots

Made = TypeVar("Made")

_CODES_A_ROW, _FEW_CODES = 4, 1024


@dataclass(frozen=True, eq=False)
class Sides:
    """Codes of each row as t and as s, all below `count`; of a column with itself the two are one array."""

    left: DenseCodes
    right: DenseCodes
    count: int

    @property
    def same(self) -> bool:
        """Whether a row has the same code on both sides."""
        return self.left is self.right


class Once:
    """Computes each result once, in the first thread that needs it; other threads wait."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Future[Any]] = {}
        self._lock = Lock()

    def get(self, what: Hashable, make: Callable[[], Made]) -> Made:
        """Return the result of `make` under a name, computed by the first call."""
        with self._lock:
            future = self._made.get(what)
            mine = future is None
            if future is None:
                future = self._made[what] = Future()
        if mine:
            try:
                future.set_result(make())
            except BaseException as error:
                with self._lock:
                    del self._made[what]
                future.set_exception(error)
                raise
        made: Made = future.result()
        return made


class Columns(ABC):
    """The rows that rules are about, column by column.

    Parameters
    ----------
    rows : the number of rows.
    weight : the copies of each row; None where each row is one.
    """

    def __init__(self, rows: int, weight: Ints | None = None) -> None:
        self.rows = rows
        self.weight = weight
        self.once = Once()

    def ranked(self, left: int, right: int) -> Sides:
        """Return codes that order as values do. O(n), and a sort of the distinct values."""
        return self.once.get(("ranked", left, right), lambda: self._made(left, right, ordered=True))

    def alike(self, left: int, right: int) -> Sides:
        """Return codes that are equal exactly where values are. O(n)."""
        if left != right:
            return self.ranked(left, right)
        return self.once.get(("alike", left, right), lambda: self._made(left, right, ordered=False))

    def passing(self, tests: tuple[Atom, ...]) -> Flags | None:
        """Return which rows pass all tests of single rows; None for all rows."""
        if not tests:
            return None
        return self.once.get(("passing", tests), lambda: self.passing_any((tests,)))

    @abstractmethod
    def passing_any(self, alternatives: tuple[tuple[Atom, ...], ...]) -> Flags:
        """Return which rows pass all tests of at least one alternative."""

    @abstractmethod
    def _made(self, left: int, right: int, *, ordered: bool) -> Sides:
        """Return codes of two columns."""


class EncodedColumns(Columns):
    """Rows whose values are keys."""

    @abstractmethod
    def column(self, name: str) -> EncodedColumn:
        """Return a column's values."""

    @abstractmethod
    def _keys(self, place: int, *, ordered: bool) -> tuple[Keys, Flags | None]:
        """Return the keys of a column, and which are not null."""

    @abstractmethod
    def _common(self, left: int, right: int) -> list[tuple[Keys, Flags | None]]:
        """Return the keys of two columns, comparable with each other, and which are not null."""

    def passing_any(self, alternatives: tuple[tuple[Atom, ...], ...]) -> Flags:
        """Return which rows pass all tests of at least one alternative."""
        return passing(alternatives, self.column, self.rows)

    def _made(self, left: int, right: int, *, ordered: bool) -> Sides:
        if left == right:
            codes, count = _dense(*self._keys(left, ordered=ordered), ordered=ordered)
            return Sides(codes, codes, count)
        (a, a_valid), (b, b_valid) = self._common(left, right)
        valid = None
        if a_valid is not None or b_valid is not None:
            valid = np.concatenate([np.ones(len(a), np.bool_) if v is None else v for v in (a_valid, b_valid)])
        codes, count = _dense(np.concatenate([a, b]), valid, ordered=ordered)
        return Sides(codes[: self.rows], codes[self.rows :], count)


class TableColumns(EncodedColumns):
    """The rows of a table in memory."""

    def __init__(self, table: Table) -> None:
        super().__init__(table.row_count)
        self._table = table

    def column(self, name: str) -> EncodedColumn:
        """Return a column's values."""
        return self._table[name]

    def _keys(self, place: int, *, ordered: bool) -> tuple[Keys, Flags | None]:
        column = self._table.columns[place]
        return self._in_order(column.keys, column) if ordered else column.keys, column.valid

    def _common(self, left: int, right: int) -> list[tuple[Keys, Flags | None]]:
        columns = self._table.columns[left], self._table.columns[right]
        keys = common_keys(*columns)
        return [(self._in_order(k, c), c.valid) for k, c in zip(keys, columns, strict=True)]

    def _in_order(self, keys: Keys, column: EncodedColumn) -> Keys:
        ranked = self._table.text_ranks if column.column.type.name == "string" else ()
        return np.asarray(ranked[keys]) if len(ranked) else keys


class SomeRows(Columns):
    """Some rows of other columns, numbered from 0 on."""

    def __init__(self, whole: Columns, rows: Ints) -> None:
        super().__init__(len(rows), None if whole.weight is None else whole.weight[rows])
        self._whole, self._taken = whole, rows

    def passing(self, tests: tuple[Atom, ...]) -> Flags | None:
        """Return which rows pass all tests of single rows; None for all rows."""
        passes = self._whole.passing(tests)
        return None if passes is None else passes[self._taken]

    def passing_any(self, alternatives: tuple[tuple[Atom, ...], ...]) -> Flags:
        """Return which rows pass all tests of at least one alternative."""
        return self._whole.passing_any(alternatives)[self._taken]

    def _made(self, left: int, right: int, *, ordered: bool) -> Sides:
        whole = self._whole.ranked(left, right) if ordered else self._whole.alike(left, right)
        codes = whole.left[self._taken]
        return Sides(codes, codes if whole.same else whole.right[self._taken], whole.count)


class RowColumns(EncodedColumns):
    """Rows of a maintained table, by default all live rows; row numbers are positions in `slots`.

    By default each row counts as often as it has copies.
    """

    def __init__(self, rows: RowSet, slots: Slots | None = None, weight: Ints | None = None) -> None:
        self.slots = rows.live() if slots is None else slots
        super().__init__(len(self.slots), rows.copies[self.slots] if weight is None else weight)
        self._rows = rows

    def column(self, name: str) -> EncodedColumn:
        """Return a column's values."""
        place = self._rows.space.schema.index(name)
        return self.once.get(("column", place), lambda: values_of(self._rows, self.slots, place))

    def _keys(self, place: int, *, ordered: bool = False) -> tuple[Keys, Flags | None]:  # noqa: ARG002  (always are)
        codes = self._rows.codes[self.slots, place]
        valid: Flags = codes != NULL
        return codes, None if valid.all() else valid

    def _common(self, left: int, right: int) -> list[tuple[Keys, Flags | None]]:
        return [self._keys(place) for place in (left, right)]


def values_of(rows: RowSet, slots: Slots, place: int) -> EncodedColumn:
    """Return the values of rows in a column, as a column of a table. O(k)."""
    codes = rows.codes[slots, place]
    valid: Flags = codes != NULL
    distinct, where = np.unique(codes[valid], return_inverse=True)
    made = rows.encoding.column(place, distinct)
    keys = np.zeros(len(codes), np.int64)
    keys[valid] = made.keys[where]
    return EncodedColumn(made.column, keys, None if valid.all() else valid, made.dictionary)


def most_codes(rows: int) -> int:
    """Return the most codes for which arrays with an element a code are small enough."""
    return _CODES_A_ROW * rows + _FEW_CODES


def _dense(keys: Keys, valid: Flags | None, *, ordered: bool) -> tuple[DenseCodes, int]:
    """Return codes from 1 on, 0 for null, and a number above all codes."""
    if not len(keys):
        return np.zeros(0, np.int32), 1
    least, greatest = int(keys.min()), int(keys.max())
    if greatest - least < most_codes(len(keys)):
        codes, count = np.empty(len(keys), np.int32), greatest - least + 2
        np.subtract(keys, least, out=codes, casting="unsafe", dtype=np.int64)
        codes += 1
    else:
        dense = ranks(keys) if ordered else numbers(keys)
        codes = dense.astype(np.int32) + np.int32(1)
        count = int(codes.max()) + 1
    if valid is not None:
        codes[~valid] = 0
    return codes, count
