"""A table in columns: 64-bit keys, nulls apart, one dictionary for all strings.

All code that searches, compares or stores rows works on these keys; values are restored for display only.
Invariant: two cells of the same column are equal (both null, or equal values) exactly when their keys and
validity are; two strings anywhere in the table are equal exactly when their keys are. A table never changes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import Column, InputError, Schema, Value
from holdfast.tables.arrays import Flags, Ints, Keys
from holdfast.tables.keys import (
    mapped,
    narrow_keys,
    narrow_values,
    needs_dictionary,
    normalised,
    ranked_keys,
    ranks_of,
    validity,
    with_dictionary,
)


def nowhere(row: int) -> str:
    """Return the place of a row that came from no file."""
    return f"row {row + 1}"


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """One column's keys.

    Parameters
    ----------
    column : name and type.
    keys : one int64 a row, 0 where null.
    valid : which rows are not null; None where no row is null.
    dictionary : values by key, for strings (shared by the table) and wide decimals (in order).
    """

    column: Column
    keys: Keys
    valid: Flags | None
    dictionary: pa.Array | None = None

    def values(self, rows: slice | Sequence[int] = slice(None)) -> pa.Array:
        """Return the values of some rows as an Arrow array. O(rows)."""
        keys = self.keys[rows]
        valid = None if self.valid is None else self.valid[rows]
        if self.dictionary is None:
            return narrow_values(keys, valid, self.column.type)
        return self.dictionary.take(pa.array(keys, mask=None if valid is None else ~valid))

    def at(self, rows: slice | Ints) -> "EncodedColumn":
        """Return the column with the rows at some positions. O(rows), for a slice O(1)."""
        valid = None if self.valid is None else self.valid[rows]
        return EncodedColumn(self.column, self.keys[rows], valid, self.dictionary)

    @cached_property
    def counts(self) -> tuple[Keys, Keys]:
        """The distinct keys of its values in ascending order, and how often each occurs; nulls left out."""
        present = self.keys if self.valid is None else self.keys[self.valid]
        if self.dictionary is not None and len(self.dictionary) <= 4 * len(present):  # keys are places in it
            counted = np.bincount(present, minlength=len(self.dictionary))
            distinct = np.flatnonzero(counted)
            return distinct, counted[distinct]
        distinct, count = np.unique(present, return_counts=True)
        return distinct, count.astype(np.int64)

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of one table, typed and encoded.

    Parameters
    ----------
    schema : name and columns.
    columns : the keys, in the order of the schema.
    row_count : the number of rows (a table may have no column).
    warnings : warnings of its reader.
    locate : returns where a row came from, as in `tax.csv, line 17`.

    Examples
    --------
    >>> from holdfast.tables import from_arrow
    >>> t = from_arrow(pa.table({"City": ["Rome", None, "Rome"], "Rate": [1.5, float("nan"), -0.0]}), "tax")
    >>> t.row(1), t.columns[0].keys.tolist()
    ({'City': None, 'Rate': nan}, [0, 0, 0])
    """

    schema: Schema
    columns: tuple[EncodedColumn, ...]
    row_count: int
    warnings: tuple[str, ...] = ()
    locate: Callable[[int], str] = field(default=nowhere, repr=False)

    def __getitem__(self, name: str) -> EncodedColumn:
        return self.columns[self.schema.index(name)]

    def row(self, row: int) -> dict[str, Value]:
        """Return one row's values by column name."""
        return {c.column.name: c.values([row])[0].as_py() for c in self.columns}

    def rows(self, rows: Sequence[int]) -> list[dict[str, Value]]:
        """Return some rows' values by column name."""
        values = {c.column.name: c.values(rows).to_pylist() for c in self.columns}
        return [{name: column[i] for name, column in values.items()} for i in range(len(rows))]

    def taken(self, rows: Ints) -> "Table":
        """Return rows by position, in the order given, without `locate`. O(rows)."""
        return Table(self.schema, tuple(c.at(rows) for c in self.columns), len(rows), self.warnings)

    def between(self, start: int, end: int) -> "Table":
        """Return the rows from position `start` to `end`, without `locate`. O(columns)."""
        columns = tuple(c.at(slice(start, end)) for c in self.columns)
        return Table(self.schema, columns, len(range(self.row_count)[start:end]), self.warnings)

    def to_arrow(self) -> pa.Table:
        """Return the values as an Arrow table."""
        return pa.table({c.column.name: c.values() for c in self.columns})

    @cached_property
    def text_ranks(self) -> Keys:
        """The rank of each string in code point order, by its key."""
        dictionary = next((c.dictionary for c in self.columns if c.column.type.name == "string"), None)
        if dictionary is None or not len(dictionary):
            return np.empty(0, np.int64)
        return ranks_of(dictionary)


def encoded(
    name: str,
    columns: Sequence[Column],
    arrays: dict[str, pa.ChunkedArray],
    row_count: int,
    *,
    warnings: Sequence[str] = (),
    locate: Callable[[int], str] = nowhere,
) -> Table:
    """Encode typed Arrow columns; strings may come dictionary-encoded. O(n) and a sort of wide decimals.

    `arrays` is emptied on the way, so that no more than one column is in memory twice.
    """
    schema = Schema(name, tuple(columns))
    made: dict[str, EncodedColumn] = {}
    texts: dict[str, pa.DictionaryArray] = {}
    for column in columns:
        try:
            array = arrays.pop(column.name)
            if column.type.name == "string":
                texts[column.name] = _distinct_texts(array)
                continue
            array = normalised(array, column.type)
        except InputError as error:
            raise InputError(f"table {name}, column {column.name}: {error}") from error
        if needs_dictionary(column.type):
            keys, dictionary = ranked_keys(array)
            made[column.name] = EncodedColumn(column, keys, validity(array), dictionary)
        else:
            made[column.name] = EncodedColumn(column, narrow_keys(array, column.type), validity(array))
    made.update(_with_one_dictionary({c.name: c for c in columns if c.name in texts}, texts))
    return Table(schema, tuple(made[c.name] for c in columns), row_count, tuple(warnings), locate)


def _distinct_texts(array: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a string column as one dictionary array."""
    if (
        not pa.types.is_dictionary(array.type) or array.type.index_type.bit_width < 32
    ):  # its indices might be too small for all chunks
        combined = with_dictionary(array.cast(pa.large_string()))
    else:
        combined = array.unify_dictionaries().combine_chunks()
    if isinstance(combined, pa.ChunkedArray):  # no rows
        combined = combined.chunk(0) if combined.num_chunks else pa.array([], array.type)
    distinct = combined.dictionary.cast(pa.large_string())
    try:
        distinct.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InputError(f"{error}. Store it as UTF-8, or leave the column out") from error
    return pa.DictionaryArray.from_arrays(combined.indices, distinct)


def _with_one_dictionary(
    columns: Mapping[str, Column], texts: Mapping[str, pa.DictionaryArray]
) -> dict[str, EncodedColumn]:
    """Renumber the columns' dictionaries into one, without repeated or null entries."""
    every = [texts[name].dictionary for name in columns]
    pooled = pc.dictionary_encode(pa.concat_arrays(every)) if every else None
    shared: dict[str, EncodedColumn] = {}
    start = 0
    for name, column in columns.items():
        assert pooled is not None
        places = pooled.indices.slice(start, len(texts[name].dictionary))
        start += len(places)
        codes = places.take(texts[name].indices)
        identity = np.arange(len(pooled.dictionary), dtype=np.int64)
        shared[name] = EncodedColumn(column, mapped(codes, identity), validity(codes), pooled.dictionary)
    return shared
