"""From the records of a micro-batch to the rows that enter and leave the table (semantics, Rows).

With a key, the last record of each key counts, against the stored row. Without one, the table is the signed sum of its
records. What ends where it began is nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import InputError
from holdfast.indexes.encoding import NULL, Codes
from holdfast.indexes.row_hash import first_equal
from holdfast.indexes.rows import RowSet
from holdfast.tables import Table

INSERT, UPDATE, DELETE = 0, 1, 2


@dataclass(frozen=True)
class Records:
    """Changes in the order of their sequence.

    Parameters
    ----------
    table : their rows, with the columns of the monitored table. A delete by key needs its key only.
    operations : INSERT, UPDATE or DELETE for each.
    kept : (records, columns): cells that were not sent, since the row's did not change; of a table with a key.
    sequence : what orders the records of one key, where they may come out of order.
    versions : of a feed of whole rows that leave and enter: the version that each is of, ascending.
    from_nothing : whether the table was emptied before these records.
    """

    table: Table
    operations: NDArray[np.int8]
    kept: NDArray[np.bool_] | None = None
    sequence: NDArray[np.int64] | None = None
    versions: NDArray[np.int64] | None = None
    from_nothing: bool = False

    def __len__(self) -> int:
        return self.table.row_count


@dataclass(frozen=True)
class Netted:
    """What a batch comes down to.

    Parameters
    ----------
    codes, signs : distinct rows, and how many copies of each come or (negative) go.
    inserted, deleted, updated, ignored : rows of a keyed table; `ignored` are deletes of unknown keys.
    """

    codes: Codes
    signs: NDArray[np.int64]
    inserted: int = 0
    deleted: int = 0
    updated: int = 0
    ignored: int = 0


def net(records: Records, codes: Codes, rows: RowSet) -> Netted:
    """Net a batch against the stored rows. O(records)."""
    return _net_keyed(records, codes, rows) if rows.key else _net_keyless(records, codes)


def check(records: Records, key: tuple[int, ...]) -> None:
    """Refuse records that no table could take."""
    table = records.table
    for c in key:
        column = table.columns[c]
        if column.valid is not None and not column.valid.all():
            where = table.locate(int(np.argmin(column.valid)))
            raise InputError(
                f"{where}: the key column {column.column.name} is null; expected a value that identifies the row"
            )
    if not key and (records.operations == UPDATE).any():
        where = table.locate(int(np.argmax(records.operations == UPDATE)))
        raise InputError(
            f"{where}: an update, but table {table.schema.table} has no key: name one (--key), or write a delete of "
            "the old row and an insert of the new one"
        )


def _net_keyed(records: Records, codes: Codes, rows: RowSet) -> Netted:
    first = first_equal(codes, rows.key)
    last = np.full(len(codes), -1, np.int64)
    last[first] = np.arange(len(codes))  # of several, the one assigned last stays
    kept = last[last >= 0]
    stored = rows.slots_with_key(codes[kept])
    deleting = records.operations[kept] == DELETE
    known = stored >= 0
    same = known & ~deleting & (rows.codes[stored] == codes[kept]).all(axis=1)
    leaves = known & ~same
    enters = ~deleting & ~same
    out, into = rows.codes[stored[leaves]], codes[kept[enters]]
    return Netted(
        np.concatenate([out, into]),
        np.concatenate([np.full(len(out), -1), np.ones(len(into), np.int64)]),
        inserted=int((enters & ~known).sum()),
        deleted=int((deleting & known).sum()),
        updated=int((enters & known).sum()),
        ignored=int((deleting & ~known).sum()),
    )


def _net_keyless(records: Records, codes: Codes) -> Netted:
    first = first_equal(codes, range(codes.shape[1]))
    sums = np.zeros(len(codes), np.int64)
    np.add.at(sums, first, np.where(records.operations == DELETE, -1, 1))
    changed = np.flatnonzero(sums)
    return Netted(codes[changed], sums[changed])


def no_key_is_twice(table: Table, codes: Codes, key: tuple[int, ...]) -> None:
    """Refuse a seed with two rows of one key, or with a null in it."""
    for c in key:
        null = codes[:, c] == NULL
        if null.any():
            where = table.locate(int(np.argmax(null)))
            raise InputError(
                f"{where}: the key column {table.schema.names[c]} is null; expected a value that identifies the row"
            )
    first = first_equal(codes, key)
    again = np.flatnonzero(first != np.arange(len(codes)))
    if len(again):
        names = ", ".join(table.schema.names[c] for c in key)
        raise InputError(
            f"{table.locate(int(again[0]))}: the same key ({names}) as {table.locate(int(first[again[0]]))}; expected "
            "each key once: choose other key columns, or take one of the rows out"
        )
