"""Files of changes: records for one table, read with the types of its base.

A file has the base's columns in any order (a missing one is null, except in the key), and perhaps two more:

    _op     insert, update or delete; without it every record is an insert
    _seq    the order of the records; without it they are in the order of the file

Invariant: a bad record does not keep the others from being read: it is marked, and has a problem with file and
line. A file whose columns or `_seq` are wrong is refused as a whole.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import Column, InputError, Schema, read_value
from holdfast.constraints.columns import unknown_name
from holdfast.constraints.types import INTEGER, STRING
from holdfast.constraints.values import EXPECTED
from holdfast.streaming.decoding.files import SEQUENCE
from holdfast.streaming.decoding.operations import OPERATION, operations_of
from holdfast.streaming.incoming.arrivals import UNREADABLE
from holdfast.streaming.maintainers.maintainer import INSERT, UPDATE, Records
from holdfast.tables import EncodedColumn, ReadOptions, Table, from_arrow, read_table
from holdfast.tables.arrays import Flags, Keys, Positions
from holdfast.tables.keys import arrow_type_of, needs_dictionary


class ChangeFile:
    """The records of one file.

    Parameters
    ----------
    path, options : which file; how its base was read.
    schema : the table's columns.
    known : all columns of the base, also those that are not monitored: they are no mistake, and not read.
    key : columns of the table that identify a row; none for a table without a key.

    Attributes
    ----------
    sequence : the place of each record, where the file says it.
    bad : which records cannot be applied; `problem` says why.
    """

    def __init__(
        self, path: Path, options: ReadOptions, schema: Schema, known: Collection[str], key: Sequence[str]
    ) -> None:
        self.path = path
        self.schema = schema
        self._key = tuple(key)
        present = self._checked_names(column_names(path, options), known)
        types = {c.name: c.type for c in schema} | {OPERATION: STRING, SEQUENCE: INTEGER}
        ordered = {c.name: c.ordered for c in schema if c.ordered is not None}
        wanted = replace(
            options,
            types={name: types[name] for name in present},
            ordered={name: ordered[name] for name in present if name in ordered},
            include=present,
            strings=frozenset(),
        )
        read, self._misfits = _read_leniently(path, wanted, schema.table)
        self._locate = read.locate
        self.warnings = read.warnings
        self.sequence = self._checked_sequence(read)
        self._table = _with_all_columns(read, schema)
        self._texts = read[OPERATION] if OPERATION in read.schema else None
        words = pa.nulls(read.row_count, pa.large_string()) if self._texts is None else self._texts.values()
        self._operations, self._unknown = operations_of(words, INSERT if self._texts is None else UNREADABLE)
        self.bad = self._bad_records()

    def __len__(self) -> int:
        return self._table.row_count

    def records(self, rows: Positions) -> Records:
        """Return some records, none of them bad, which arrive in the order of `rows`. O(rows log rows)."""
        return Records(_taken(self._table, rows, self._locate), self._operations[rows])

    def problem(self, row: int) -> str:
        """Return what is wrong with a bad record, and where it is."""
        at = self._locate(row)
        operation = int(self._operations[row])
        if operation == UNREADABLE:
            return f"{at}: {self._unknown(row)}"
        if operation == UPDATE and not self._key:
            return f"{at}: an update needs a key that tells its row: name one with --key, or write delete and insert"
        for misfit in self._misfits:
            if misfit.rows[row]:
                return misfit.problem(at, row)
        nulls = [name for name in self._key if _is_null(self._table[name], row)]
        return f"{at}: key column {nulls[0]} is null: a record needs its whole key"

    # Checks

    def _checked_names(self, given: Sequence[str], known: Collection[str]) -> list[str]:
        """Return the columns to read, or refuse the file."""
        for name in given:
            if name not in known and name not in {OPERATION, SEQUENCE}:
                raise InputError(
                    unknown_name(f"{self.path}: its header has a column that the base has not,", name, known)
                )
        for name in self._key:
            if name not in given:
                raise InputError(f"{self.path}: its header lacks the key column '{name}'; add it, or change --key")
        return [name for name in given if name in self.schema or name in {OPERATION, SEQUENCE}]

    def _checked_sequence(self, read: Table) -> Keys | None:
        if SEQUENCE not in read.schema:
            return None
        column = read[SEQUENCE]
        for misfit in self._misfits:
            if misfit.column.name == SEQUENCE:
                row = int(np.argmax(misfit.rows))
                raise InputError(misfit.problem(read.locate(row), row))
        if column.valid is not None and not column.valid.all():
            raise InputError(
                f"{read.locate(int(np.argmin(column.valid)))}: {SEQUENCE} is null: a record needs its place"
            )
        return column.keys

    def _bad_records(self) -> Flags:
        bad: Flags = self._operations == UNREADABLE
        if not self._key:
            bad |= self._operations == UPDATE
        for name in self._key:
            valid = self._table[name].valid
            if valid is not None:
                bad |= ~valid
        for misfit in self._misfits:
            bad |= misfit.rows
        return bad


def column_names(path: Path, options: ReadOptions) -> tuple[str, ...]:
    """Return the names of a file's columns."""
    return read_table(
        path, replace(options, limit=0, types={}, ordered={}, include=None, strings=frozenset())
    ).schema.names


# Reading what fits


@dataclass(frozen=True, eq=False)
class _Misfit:
    """A column with texts that do not fit its type.

    Parameters
    ----------
    column, rows : which column, and in which rows.
    texts : the column as it was written.
    """

    column: Column
    rows: Flags
    texts: EncodedColumn

    def problem(self, at: str, row: int) -> str:
        text = self.texts.values([row])[0].as_py()
        kind = self.column.type
        return f"{at}, column {self.column.name}: '{_shortened(text)}' is not {EXPECTED[kind.name]} ({kind})"


def _read_leniently(path: Path, options: ReadOptions, name: str) -> tuple[Table, list[_Misfit]]:
    """Return a table in which what does not fit its type is null, and where that is."""
    try:
        return read_table(path, options, name), []
    except InputError as error:
        texts = read_table(path, replace(options, types={}, ordered={}, strings="all"), name)
        misfits = _misfits(texts, options)
        if not misfits:
            raise
        wrong = {misfit.column.name: misfit.rows for misfit in misfits}
        arrays = {c.column.name: _without(c.values(), wrong.get(c.column.name)) for c in texts.columns}
        try:
            fitting = from_arrow(pa.table(arrays), name, replace(options, limit=None))
        except InputError:
            raise error from None
        return replace(fitting, warnings=texts.warnings, locate=texts.locate), misfits


def _misfits(texts: Table, options: ReadOptions) -> list[_Misfit]:
    found = []
    for column in texts.columns:
        name = column.column.name
        kind = options.types[name]
        distinct = column.counts[0]
        assert column.dictionary is not None
        values = column.dictionary.take(pa.array(distinct)).to_pylist()
        wrong = distinct[[not _fits(value, Column(name, kind)) for value in values]]
        rows = np.isin(column.keys, wrong)
        if column.valid is not None:
            rows &= column.valid
        if rows.any():
            found.append(_Misfit(Column(name, kind), rows, column))
    return found


def _fits(text: str, column: Column) -> bool:
    try:
        read_value(text, column.type)
    except ValueError:
        return False
    return True


def _without(texts: pa.Array, wrong: Flags | None) -> pa.Array:
    return texts if wrong is None else pc.if_else(pa.array(~wrong), texts, None)


# Tables of records


def _with_all_columns(read: Table, schema: Schema) -> Table:
    """Return the table's columns in its order; those that the file lacks are null."""
    texts = next((c.dictionary for c in read.columns if c.column.type == STRING), pa.array([], pa.large_string()))

    def nulls(column: Column) -> EncodedColumn:
        dictionary = texts if column.type == STRING else None
        if needs_dictionary(column.type) and dictionary is None:
            dictionary = pa.array([], arrow_type_of(column.type))
        rows = read.row_count
        return EncodedColumn(column, np.zeros(rows, np.int64), np.zeros(rows, np.bool_), dictionary)

    columns = (replace(read[c.name], column=c) if c.name in read.schema else nulls(c) for c in schema)
    return Table(schema, tuple(columns), read.row_count)


def _taken(table: Table, rows: Positions, locate: Callable[[int], str]) -> Table:
    """Return some rows as a table of their own; its dictionaries hold their values only. O(rows log rows)."""
    valid = {c.column.name: _flags(c, rows) for c in table.columns}
    texts = [c for c in table.columns if c.column.type == STRING]
    pooled = np.unique(np.concatenate([_present(c, rows) for c in texts])) if texts else None
    dictionary = texts[0].dictionary.take(pa.array(pooled)) if texts and texts[0].dictionary is not None else None

    def taken(column: EncodedColumn) -> EncodedColumn:
        flags = valid[column.column.name]
        keys = column.keys[rows]
        if column.dictionary is None:
            return EncodedColumn(column.column, keys, flags)
        if column.column.type == STRING:
            assert pooled is not None
            return EncodedColumn(column.column, _places(pooled, keys, flags), flags, dictionary)
        distinct = np.unique(_present(column, rows))
        values = column.dictionary.take(pa.array(distinct))
        return EncodedColumn(column.column, _places(distinct, keys, flags), flags, values)

    columns = tuple(taken(column) for column in table.columns)
    return Table(table.schema, columns, len(rows), locate=lambda row: locate(int(rows[row])))


def _flags(column: EncodedColumn, rows: Positions) -> Flags | None:
    if column.valid is None:
        return None
    valid = column.valid[rows]
    return None if valid.all() else valid


def _present(column: EncodedColumn, rows: Positions) -> Keys:
    keys = column.keys[rows]
    return keys if column.valid is None else keys[column.valid[rows]]


def _places(distinct: Keys, keys: Keys, valid: Flags | None) -> Keys:
    places = np.searchsorted(distinct, keys).astype(np.int64, copy=False)
    if valid is not None:
        places[~valid] = 0
    return places


def _is_null(column: EncodedColumn, row: int) -> bool:
    return column.valid is not None and not column.valid[row]


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
