"""The rows of a table as dense codes, one int32 for each column pair of a space, for comparing many pairs of rows.

Codes are ranks within the table, so they live only as long as one computation and are never stored. Null is 0, values
start at 1: null is lowest where values have an order, and different from all values where they have none.
"""

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from holdfast.constraints import PredicateSpace
from holdfast.discovery.kernels.evidence import PairCodes
from holdfast.tables import EncodedColumn, Table, common_keys, key_space
from holdfast.tables.arrays import DenseCodes, Ints, Ints32, Keys

_DENSE = 2


def pair_codes(table: Table, space: PredicateSpace) -> PairCodes:
    """Return the codes of the table's distinct rows. O(n log n) per column."""
    own = [column_codes(column, table) for column in table.columns]
    first, second = _distinct(own, table.row_count)
    columns = table.columns
    if len(first) < table.row_count:
        own, columns = [codes[first] for codes in own], tuple(column.at(first) for column in columns)
    return PairCodes(*_sides(own, columns, table, space), first, second)


def row_codes(table: Table, space: PredicateSpace, rows: Ints) -> PairCodes:
    """Return the codes of some rows of a table, where equal rows are rows of their own."""
    columns = table.columns if len(rows) == table.row_count else tuple(column.at(rows) for column in table.columns)
    own = [column_codes(column, table) for column in columns]
    return PairCodes(*_sides(own, columns, table, space), rows, np.full(len(rows), -1))


def _sides(
    own: list[DenseCodes], columns: Sequence[EncodedColumn], table: Table, space: PredicateSpace
) -> tuple[DenseCodes, DenseCodes]:
    """Return the codes of rows as t and as s for each column pair, given the codes of each column alone."""
    rows = len(own[0]) if own else min(table.row_count, 1)
    left = np.empty((len(space.pairs), rows), np.int32)
    right = np.empty_like(left)
    pool_of = {column: pool for pool in _pools(columns, table, space) for column in pool}
    for p, pair in enumerate(space.pairs):
        if pair.left == pair.right:
            left[p] = right[p] = own[pair.left]
        elif (pool := pool_of.get(pair.left)) is not None and pair.right in pool:
            left[p], right[p] = pool[pair.left], pool[pair.right]
        else:
            left[p], right[p] = _crossing_codes(columns[pair.left], columns[pair.right], table)
    return left, right


def _pools(columns: Sequence[EncodedColumn], table: Table, space: PredicateSpace) -> Iterator[dict[int, DenseCodes]]:
    """Yield ranks of crossing columns among the values of all columns whose keys compare, where there are few values.

    With many columns this is much less work than ranking two columns at a time. Where the columns together have many
    more values than each column, ranks would not be dense, and two columns are ranked at a time.
    """
    alike: dict[Hashable, list[int]] = {}
    for number in sorted({number for crossing in space.crossing for number in crossing}):
        alike.setdefault(key_space(columns[number]), []).append(number)
    for numbers in alike.values():
        some = [columns[number] for number in numbers]
        distinct = [_in_order(column.counts[0], column, table) for column in some]
        values = np.unique(np.concatenate(distinct))
        if len(values) <= _DENSE * max(map(len, distinct)):
            keys = (_in_order(column.keys, column, table) for column in some)
            codes = (np.searchsorted(values, own) for own in keys)
            yield {
                number: _with_nulls(ranks, column) for number, column, ranks in zip(numbers, some, codes, strict=True)
            }


def column_codes(column: EncodedColumn, table: Table) -> DenseCodes:
    """Return for each row of one column the rank of its value, from 1 on, and 0 for null."""
    return _with_nulls(ranks(_in_order(column.keys, column, table)), column)


def column_numbers(column: EncodedColumn) -> DenseCodes:
    """Return a number for each row of one column, 0 for null: equal values have equal numbers, in no order. O(n)."""
    return _with_nulls(numbers(column.keys).astype(np.int64), column)


def _crossing_codes(left: EncodedColumn, right: EncodedColumn, table: Table) -> tuple[DenseCodes, DenseCodes]:
    """Return the ranks of the values of two columns among the values of both."""
    left_keys, right_keys = (_in_order(keys, left, table) for keys in common_keys(left, right))
    pooled = np.unique(np.concatenate([left_keys, right_keys]))
    return (
        _with_nulls(np.searchsorted(pooled, left_keys), left),
        _with_nulls(np.searchsorted(pooled, right_keys), right),
    )


def _in_order(keys: Keys, column: EncodedColumn, table: Table) -> Keys:
    """Return keys that order as the values do: keys of strings give equality alone and are replaced by ranks."""
    if column.column.type.name != "string" or not len(table.text_ranks):
        return keys
    return np.asarray(table.text_ranks[keys])


def numbers(keys: Keys) -> Ints32:
    """Return a number from 0 for each key, the same for equal keys. O(n)."""
    return np.asarray(pa.array(keys).dictionary_encode().indices.to_numpy())


def ranks(keys: Keys) -> Ints:
    """Return for each key the number of different keys below it. O(n), and a sort of the distinct keys."""
    encoded = pa.array(keys).dictionary_encode()
    distinct = encoded.dictionary.to_numpy()
    rank = np.empty(len(distinct), np.int64)
    rank[np.argsort(distinct)] = np.arange(len(distinct))
    return np.asarray(rank[encoded.indices.to_numpy()])


def _with_nulls(codes: Ints, column: EncodedColumn) -> DenseCodes:
    shifted = (codes + 1).astype(np.int32)
    if column.valid is not None:
        shifted[~column.valid] = 0
    return shifted


def _distinct(columns: list[DenseCodes], rows: int) -> tuple[Ints, Ints]:
    """Return a row for each distinct combination of codes, and a second row with these codes or -1."""
    if not columns or not rows:
        return np.arange(min(rows, 1)), np.full(min(rows, 1), 1 if rows > 1 else -1)
    combined = np.zeros(rows, np.int64)
    count = 1
    for codes in sorted(columns, key=lambda codes: -int(codes.max())):
        combined = combined * (int(codes.max()) + 1) + codes  # less than 2^31 times 2^31
        combined = pa.array(combined).dictionary_encode().indices.to_numpy().astype(np.int64)
        count = int(combined.max()) + 1
        if count == rows:
            return np.arange(rows), np.full(rows, -1, np.int64)
    first, second = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    first[combined[::-1]] = np.arange(rows)[::-1]
    again = np.flatnonzero(first[combined] != np.arange(rows))
    second[combined[again[::-1]]] = again[::-1]
    return first, second
