"""The rows of a table as codes for counting exceptions: one int32 a cell, equal rows kept apart, in random order.

The order is random, and the same for the same table, so that the first rows of a group are a sample of the group: a
count that ends early is typical of the group, however the table is sorted. The most selective column comes first, so
that refining groups by columns in this order soon leaves few rows.

Invariant: these codes are never stored; answers depend on neither order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.constraints import Family, Schema
from holdfast.discovery.evidence.codes import column_codes, column_numbers
from holdfast.indexes.threads import mapped
from holdfast.tables import Table
from holdfast.tables.arrays import DenseCodes, Ints, Rows

_COUNTED = 1 << 15


@dataclass(frozen=True, eq=False)
class NearRows:
    """Rows as codes.

    Parameters
    ----------
    codes : (columns, rows), the most selective column first.
    distinct : for each of these columns a number above all its codes.
    columns : for each of these columns its position in the schema.
    middles : for each of these columns the code that best halves the rows, into codes up to it and above it.
    ordered : for each of these columns whether its codes order as its values do.
    rows : the rows that count, in random order; rows with copies several times.
    order : for each row with codes its row of the table.
    """

    codes: DenseCodes
    distinct: Ints
    middles: Ints
    columns: Ints
    ordered: tuple[bool, ...]
    rows: Rows
    order: Ints

    @property
    def count(self) -> int:
        """The number of rows that count."""
        return len(self.rows)

    def names(self, schema: Schema) -> list[str]:
        """Return the names of these columns."""
        return [schema.names[column] for column in self.columns.tolist()]

    @classmethod
    def of_codes(
        cls, codes: Sequence[DenseCodes] | DenseCodes, columns: Ints, rows: int, copies: Ints | None = None
    ) -> "NearRows":
        """Return rows by the codes of columns, which give equality alone. O(n) a column.

        Parameters
        ----------
        columns : for each of these columns its position in the schema.
        rows : how many rows have codes.
        copies : how often each row counts; None for once.
        """
        some = slice(None, None, max(1, rows // _COUNTED))
        order = np.argsort([(np.bincount(column[some]).astype(float) ** 2).sum() for column in codes], kind="stable")
        every = np.arange(rows)
        return cls(
            np.stack([codes[place] for place in order]) if len(order) else np.zeros((0, rows), np.int32),
            np.array([int(codes[place].max(initial=0)) + 1 for place in order], np.int64),
            np.zeros(len(order), np.int64),
            columns[order],
            tuple(False for _ in order),
            (every if copies is None else np.repeat(every, copies)).astype(np.int32),
            every,
        )

    @classmethod
    def of(cls, table: Table, names: Sequence[str], *, ordered: bool = True, threads: int = 1) -> "NearRows":
        """Return the codes of columns of a table; without `ordered` they give equality alone, which is faster.

        O(n) a column, and a sort of its distinct values where they are ordered.
        """
        order = np.random.default_rng(0).permutation(table.row_count)
        wanted = [table.schema.index(name) for name in names]
        has_order = [ordered and table.schema.columns[number].ordered_in(Family.NEAR) for number in wanted]
        _ = ordered and table.text_ranks  # computed once, before threads need it

        def coded(place: int) -> tuple[DenseCodes, int, float, int]:
            column = table.columns[wanted[place]]
            codes = column_codes(column, table) if has_order[place] else column_numbers(column)
            sizes = np.bincount(codes)
            return codes.take(order), len(sizes), float((sizes.astype(float) ** 2).sum()), middle_of(sizes)

        found = mapped(threads, coded, range(len(wanted)))
        by_selectivity = sorted(range(len(wanted)), key=lambda place: (found[place][2], place))
        codes = np.empty((len(wanted), table.row_count), np.int32)
        for to, place in enumerate(by_selectivity):
            codes[to] = found[place][0]
        return cls(
            codes,
            np.array([max(found[place][1], 1) for place in by_selectivity], np.int64),
            np.array([found[place][3] for place in by_selectivity], np.int64),
            np.array([wanted[place] for place in by_selectivity], np.int64),
            tuple(has_order[place] for place in by_selectivity),
            np.arange(table.row_count, dtype=np.int32),
            order,
        )


def middle_of(sizes: Ints) -> int:
    """Return the code that best halves the rows into codes up to it and above it, by the number of rows of each code.

    >>> middle_of(np.array([1, 5, 5])), middle_of(np.array([0, 94, 3, 3])), middle_of(np.array([0, 3]))
    (1, 1, 0)
    """
    if not len(sizes):
        return 0
    upto = np.cumsum(sizes)
    return int(np.argmin(np.abs(2 * upto[:-1] - upto[-1]))) if len(sizes) > 1 else 0
