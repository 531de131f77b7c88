"""Reads files of changes: records for one table, with the types of its base.

A file has the base's columns in any order (a missing column is null, except in the key), and optionally two more:

    _op     insert, update or delete; without this column every record is an insert
    _seq    the order of the records; without this column, the order of the lines

Invariant: a bad record does not prevent the others from being read: it is marked, and its problem names file and line.
A file whose columns or `_seq` are wrong is refused as a whole.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.constraints import Column, InputError, Schema
from holdfast.constraints.columns import unknown_name
from holdfast.constraints.types import INTEGER, STRING
from holdfast.streaming.decoding.files import SEQUENCE
from holdfast.streaming.decoding.operations import OPERATION, operations_of
from holdfast.streaming.incoming.arrivals import UNREADABLE
from holdfast.streaming.maintainers.maintainer import INSERT, UPDATE, Records
from holdfast.tables import ReadOptions, Table, read_table
from holdfast.tables.arrays import Flags, Keys, RowNumbers
from holdfast.tables.columnar import EncodedColumn, encoded
from holdfast.tables.fitting import fit, misfit
from holdfast.tables.keys import arrow_type_of


class ChangeFile:
    """The records of one file.

    Parameters
    ----------
    path, options : the file, and how its base was read.
    schema : the monitored columns of the table.
    known : all columns of the base. Columns that are not monitored are accepted, and not read.
    key : the columns that identify a row; empty for a table without a key.

    Attributes
    ----------
    sequence : the number in `_seq` of each record; None where the file has no such column.
    bad : which records cannot be applied; `problem` returns the reason.
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
        has_words = OPERATION in read.schema
        words = read[OPERATION].values() if has_words else pa.nulls(read.row_count, pa.large_string())
        self._operations, self._unknown = operations_of(words, UNREADABLE if has_words else INSERT)
        self.bad = self._bad_records()

    def __len__(self) -> int:
        return self._table.row_count

    def records(self, rows: RowNumbers) -> Records:
        """Return records, none of them bad, in the order of `rows`. O(rows log rows)."""
        table = _compacted(self._table.taken(rows))
        return Records(replace(table, locate=lambda row: self._locate(int(rows[row]))), self._operations[rows])

    def problem(self, row: int) -> str:
        """Return what is wrong with a bad record, and where the record is."""
        at = self._locate(row)
        operation = int(self._operations[row])
        if operation == UNREADABLE:
            return f"{at}: {self._unknown(row)}"
        if operation == UPDATE and not self._key:
            return f"{at}: an update needs a key that tells its row: name one with --key, or write delete and insert"
        for wrong in self._misfits:
            if wrong.rows[row]:
                return wrong.problem(at, row)
        null = next(name for name in self._key if _is_null(self._table[name])[row])
        return f"{at}: key column {null} is null: a record needs all key columns"

    # Checks

    def _checked_names(self, given: Sequence[str], known: Collection[str]) -> list[str]:
        """Return the columns to read, or refuse the file."""
        for name in given:
            if name not in known and name not in {OPERATION, SEQUENCE}:
                raise InputError(
                    unknown_name(f"{self.path}: its header has a column that the base does not have,", name, known)
                )
        for name in self._key:
            if name not in given:
                raise InputError(f"{self.path}: its header lacks the key column '{name}'; add it, or change --key")
        return [name for name in given if name in self.schema or name in {OPERATION, SEQUENCE}]

    def _checked_sequence(self, read: Table) -> Keys | None:
        if SEQUENCE not in read.schema:
            return None
        for wrong in self._misfits:
            if wrong.column.name == SEQUENCE:
                row = int(np.argmax(wrong.rows))
                raise InputError(wrong.problem(read.locate(row), row))
        nulls = _is_null(read[SEQUENCE])
        if nulls.any():
            raise InputError(f"{read.locate(int(np.argmax(nulls)))}: {SEQUENCE} is null: a record needs a sequence")
        return read[SEQUENCE].keys

    def _bad_records(self) -> Flags:
        bad: Flags = self._operations == UNREADABLE
        if not self._key:
            bad |= self._operations == UPDATE
        for name in self._key:
            bad |= _is_null(self._table[name])
        for wrong in self._misfits:
            bad |= wrong.rows
        return bad


def column_names(path: Path, options: ReadOptions) -> tuple[str, ...]:
    """Return the names of a file's columns."""
    return read_table(
        path, replace(options, limit=0, types={}, ordered={}, include=None, strings=frozenset())
    ).schema.names


@dataclass(frozen=True, eq=False)
class _Misfit:
    """A column with texts that do not fit its type.

    Parameters
    ----------
    column, rows : the column, and which rows do not fit.
    texts : the column as the file has it.
    """

    column: Column
    rows: Flags
    texts: pa.Array

    def problem(self, at: str, row: int) -> str:
        return f"{at}, {misfit(self.texts[row].as_py(), self.column)}"


def _read_leniently(path: Path, options: ReadOptions, name: str) -> tuple[Table, list[_Misfit]]:
    """Return a table, and the cells that do not fit their type, which are null in the table."""
    try:
        return read_table(path, options, name), []
    except InputError:
        read = read_table(path, replace(options, types={}, ordered={}, strings="all"), name)
        columns = [Column(c.name, options.types[c.name]) for c in read.schema]
        cells, misfits = {}, []
        for column in columns:
            texts = read[column.name].values()
            typed, wrong = fit(texts, column)
            cells[column.name] = typed if isinstance(typed, pa.ChunkedArray) else pa.chunked_array([typed])
            if wrong is not None and wrong.any():
                misfits.append(_Misfit(column, wrong, texts))
        if not misfits:
            raise
        table = encoded(name, columns, cells, read.row_count, warnings=read.warnings, locate=read.locate)
        return table, misfits


def _with_all_columns(read: Table, schema: Schema) -> Table:
    """Return a table with the columns of a schema; a missing column is null."""
    if all(name in read.schema for name in schema.names):
        columns = (replace(read[column.name], column=column) for column in schema)
        return Table(schema, tuple(columns), read.row_count)
    cells = {
        c.name: pa.chunked_array(
            [read[c.name].values() if c.name in read.schema else pa.nulls(read.row_count, arrow_type_of(c.type))]
        )
        for c in schema
    }
    return encoded(schema.table, schema.columns, cells, read.row_count)


def _compacted(table: Table) -> Table:
    """Return a table whose dictionaries have its own values only. O(rows log rows)."""
    present: dict[int, list[Keys]] = {}
    dictionaries: dict[int, pa.Array] = {}
    for column in table.columns:
        if column.dictionary is not None:
            keys = column.keys if column.valid is None else column.keys[column.valid]
            present.setdefault(id(column.dictionary), []).append(keys)
            dictionaries[id(column.dictionary)] = column.dictionary
    used = {number: np.unique(np.concatenate(keys)) for number, keys in present.items()}
    dictionaries = {number: values.take(pa.array(used[number])) for number, values in dictionaries.items()}

    def compacted(column: EncodedColumn) -> EncodedColumn:
        if column.dictionary is None:
            return column
        keys = np.searchsorted(used[id(column.dictionary)], column.keys).astype(np.int64, copy=False)
        if column.valid is not None:
            keys[~column.valid] = 0
        return replace(column, keys=keys, dictionary=dictionaries[id(column.dictionary)])

    return replace(table, columns=tuple(map(compacted, table.columns)))


def _is_null(column: EncodedColumn) -> Flags:
    return np.zeros(len(column), np.bool_) if column.valid is None else ~column.valid
