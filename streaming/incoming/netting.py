"""Netting: from the records of a micro-batch to the rows that are inserted and deleted (semantics, Rows).

With a key, the last record of each key is compared with the stored row. Without a key, the table is the signed sum of
its records. Changes that cancel each other have no effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import InputError
from holdfast.indexes.row_hash import first_equal
from holdfast.indexes.rows import RowSet
from holdfast.tables import Table
from holdfast.tables.arrays import Codes

INSERT, UPDATE, DELETE = 0, 1, 2

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Records:
    """Records of changes, in their order.

    Parameters
    ----------
    table : the rows, with the columns of the monitored table. A delete by key needs only the key columns.
    operations : INSERT, UPDATE or DELETE for each record.
    kept : (records, columns): cells that were not sent, since they did not change; only of a table with a key.
    sequence : orders the records of one key, if they may arrive out of order.
    versions : of a feed of inserted and deleted whole rows, the version of each record, ascending.
    truncated : whether the table is truncated before these records.
    """

    table: Table
    operations: NDArray[np.int8]
    kept: NDArray[np.bool_] | None = None
    sequence: NDArray[np.int64] | None = None
    versions: NDArray[np.int64] | None = None
    truncated: bool = False

    def __len__(self) -> int:
        return self.table.row_count


@dataclass(frozen=True)
class Netted:
    """The net changes of a batch.

    Parameters
    ----------
    codes, signs : distinct rows, and how many copies of each are added or (negative) removed.
    inserted, updated, ignored : counts for a table with a key; `ignored` are deletes of unknown keys.
    late : how many records are older than the last known change of their key.
    incomplete : numbers of records that keep cells of rows that do not exist.
    """

    codes: Codes
    signs: NDArray[np.int64]
    inserted: int = 0
    updated: int = 0
    ignored: int = 0
    late: int = 0
    incomplete: NDArray[np.int64] = field(default_factory=lambda: _NONE)


def net(records: Records, codes: Codes, rows: RowSet, latest: NDArray[np.int64] | None = None) -> Netted:
    """Net a batch against the stored rows. O(records).

    Parameters
    ----------
    records, codes : the records, and the codes of their rows.
    rows : the stored rows.
    latest : the last known sequence (or version) of each record's key; the least number if none is known.
    """
    return _net_keyed(records, codes, rows, latest) if rows.key else _net_keyless(records, codes, rows)


def check(records: Records, key: tuple[int, ...]) -> None:
    """Refuse a record with a null in its key, or an update of a table without a key."""
    table = records.table
    _refuse_null(table, key)
    if not key and (records.operations == UPDATE).any():
        where = table.locate(int(np.argmax(records.operations == UPDATE)))
        raise InputError(
            f"{where}: an update, but table {table.schema.table} has no key: name one (--key), or write a delete of "
            "the old row and an insert of the new one"
        )


def _net_keyed(records: Records, codes: Codes, rows: RowSet, latest: NDArray[np.int64] | None) -> Netted:
    order = np.arange(len(records))
    late = 0
    if records.sequence is not None and latest is not None:
        in_time = records.sequence >= latest
        late = int(np.count_nonzero(~in_time))
        order = order[np.argsort(records.sequence, kind="stable")]
        order = order[in_time[order]]
    codes, operations = codes[order], records.operations[order]
    incomplete = _NONE
    if records.kept is not None and records.kept.any():
        codes, whole = _completed(codes, operations, records.kept[order], rows, truncated=records.truncated)
        incomplete = np.sort(order[~whole])
        order, codes, operations = order[whole], codes[whole], operations[whole]
    first = first_equal(codes, rows.key)
    if records.versions is not None:
        before = None if latest is None else latest[order]
        deciding, deleting, ignored = _decided_by_images(
            codes, operations, records.versions[order], before, first, rows
        )
    else:
        last = np.full(len(codes), -1, np.int64)
        last[first] = np.arange(len(codes))  # of several records the last one stays
        deciding = last[last >= 0]
        deleting, ignored = operations[deciding] == DELETE, 0
    entering = codes[deciding]
    stored = rows.slots_with_key(entering)
    known = stored >= 0
    same = known & ~deleting & (rows.codes[stored] == entering).all(axis=1)
    leaves = known & ~same
    enters = ~deleting & ~same
    others = np.setdiff1d(rows.live(), stored[known]) if records.truncated else _NONE
    out, into = rows.codes[np.concatenate([stored[leaves], others])], entering[enters]
    return Netted(
        np.concatenate([out, into]),
        np.concatenate([np.full(len(out), -1), np.ones(len(into), np.int64)]),
        inserted=int((enters & ~known).sum()),
        updated=int((enters & known).sum()),
        ignored=ignored + int((deleting & ~known).sum()),
        late=late,
        incomplete=incomplete,
    )


def _completed(
    codes: Codes, operations: NDArray[np.int8], kept: NDArray[np.bool_], rows: RowSet, *, truncated: bool
) -> tuple[Codes, NDArray[np.bool_]]:
    """Return the codes with kept cells from the earlier version of the row; and, per record, whether it is complete.

    An incomplete record is not a version of its row: later records look further back. O(records) a column and round.
    """
    stored = rows.slots_with_key(codes)
    stored = np.full(len(codes), -1) if truncated else stored
    deletes = operations == DELETE
    kept = kept & ~deletes[:, None]
    whole = np.ones(len(codes), np.bool_)
    while True:
        used = np.flatnonzero(whole)
        first = first_equal(codes[used], rows.key)
        grouped = used[np.argsort(first, kind="stable")]
        starts = np.zeros(len(grouped), np.int64)
        changes = np.flatnonzero(np.diff(np.sort(first))) + 1
        starts[changes] = changes
        starts = np.maximum.accumulate(starts)
        filled = codes.copy()
        missing = np.zeros(len(codes), np.bool_)
        for c in range(codes.shape[1]):
            sent = np.where(kept[grouped, c], -1, np.arange(len(grouped)))
            at = np.maximum.accumulate(sent)
            filling = np.flatnonzero(kept[grouped, c])
            at = at[filling]
            earlier = at >= starts[filling]
            source = grouped[np.where(earlier, at, 0)]
            slot = stored[grouped[filling]]
            usable = np.where(earlier, ~deletes[source], slot >= 0)
            value = np.where(earlier, codes[source, c], rows.codes[slot, c])
            filled[grouped[filling], c] = value
            missing[grouped[filling[~usable]]] = True
        if not missing.any():
            return filled, whole
        whole &= ~missing  # cells taken from incomplete records are searched again


def _decided_by_images(
    codes: Codes,
    operations: NDArray[np.int8],
    versions: NDArray[np.int64],
    written: NDArray[np.int64] | None,
    first: NDArray[np.int64],
    rows: RowSet,
) -> tuple[NDArray[np.int64], NDArray[np.bool_], int]:
    """Return the deciding record of each key, whether it deletes the row, and how many removals have no effect.

    In a feed of inserted and deleted whole rows, a removal deletes only exactly its row, and not a row that its own
    version wrote: the records of a version may arrive in parts, additions before removals.
    """
    adds = np.flatnonzero(operations != DELETE)
    removals = np.flatnonzero(operations == DELETE)
    last = np.full(len(codes), -1, np.int64)
    last[first[adds]] = adds
    by = last[first[removals]]
    stored = rows.slots_with_key(codes[removals])
    of_batch = (by >= 0) & (removals > by) & (codes[by] == codes[removals]).all(axis=1)
    of_batch &= versions[by] != versions[removals]
    of_store = (by < 0) & (stored >= 0) & (rows.codes[stored] == codes[removals]).all(axis=1)
    if written is not None:
        of_store &= written[removals] != versions[removals]
    effective = removals[of_batch | of_store]
    goes = np.zeros(len(codes), np.bool_)
    goes[first[effective]] = True
    deciding = last.copy()
    unseen = effective[last[first[effective]] < 0]
    deciding[first[unseen]] = unseen
    keys = np.flatnonzero(deciding >= 0)
    ineffective = int(np.count_nonzero((by < 0) & ~of_store))
    return deciding[keys], goes[keys], ineffective


def _net_keyless(records: Records, codes: Codes, rows: RowSet) -> Netted:
    signs = np.where(records.operations == DELETE, -1, 1)
    if records.truncated:  # all stored rows, and owed deletes, are taken back
        held = np.flatnonzero(rows.copies)
        codes, signs = np.concatenate([rows.codes[held], codes]), np.concatenate([-rows.copies[held], signs])
    first = first_equal(codes, range(codes.shape[1]))
    sums = np.zeros(len(codes), np.int64)
    np.add.at(sums, first, signs)
    changed = np.flatnonzero(sums)
    return Netted(codes[changed], sums[changed])


def no_key_is_twice(table: Table, key: tuple[int, ...]) -> None:
    """Refuse a seed with two rows of one key, or with a null in a key."""
    if not key:
        return
    _refuse_null(table, key)
    keys = np.stack([table.columns[c].keys for c in key], axis=1)
    first = first_equal(keys, range(len(key)))
    again = np.flatnonzero(first != np.arange(len(keys)))
    if len(again):
        names = [table.schema.names[c] for c in key]
        raise key_twice(table.locate(int(again[0])), table.locate(int(first[again[0]])), names)


def _refuse_null(table: Table, key: tuple[int, ...]) -> None:
    for c in key:
        valid = table.columns[c].valid
        if valid is not None and not valid.all():
            raise null_in_key(table.locate(int(np.argmin(valid))), table.schema.names[c])


def null_in_key(where: str, column: str) -> InputError:
    """Return the error for a row with a null in its key."""
    return InputError(f"{where}: the key column {column} is null; expected a value that identifies the row")


def key_twice(where: str, before: str, key: Sequence[str]) -> InputError:
    """Return the error for a row whose key an earlier row has."""
    return InputError(
        f"{where}: the same key ({', '.join(key)}) as {before}; expected each key once: choose other key columns, or "
        "take one of the rows out"
    )
