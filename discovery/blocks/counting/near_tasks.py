"""The tasks that count exceptions on blocks: what they share, the rows that they exchange, and their answers.

Rows are exchanged as *shipments* (`near.py`): a task reads a block and gives each row to the part of its shipment that
rows with the same values in some columns go to; another task counts the rows of a part.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.discovery.blocks.executors import Given, Taken, by_part
from holdfast.discovery.blocks.storage.block import Block, table_of
from holdfast.discovery.blocks.storage.location import KEPT
from holdfast.discovery.blocks.storage.lookup import hashed_with, value_hashes
from holdfast.discovery.blocks.storage.table import Source
from holdfast.discovery.blocks.values.records import part_of
from holdfast.discovery.evidence.codes import column_numbers, numbers
from holdfast.discovery.near.counting import Candidate, Context, Counter, counted
from holdfast.discovery.near.lattice import Tasks
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.targets import KEY, NearTargets
from holdfast.indexes.kernels.exceptions import CERTAIN, NONE, UNDECIDED
from holdfast.tables import Table
from holdfast.tables.arrays import DenseCodes, Flags, Floats, Hashes, Ints, Ints32, RowNumbers
from holdfast.tables.columnar import encoded

_BYTES_A_VALUE = 16
_SHIPMENT, _COPIES, _CHANGE, _NUMBER = "shipment", "copies", "change", "number"


@dataclass(frozen=True)
class Shipment:
    """Rows to send to parts.

    Parameters
    ----------
    together : the columns that decide the part: rows with equal values go to one part.
    tasks : the candidates to count on the rows of a part.
    first, parts : the first part, and the number of parts.
    """

    together: Context
    tasks: tuple[tuple[Context, Ints], ...]
    first: int
    parts: int

    @property
    def candidates(self) -> list[Candidate]:
        """The candidates to count, in order."""
        return [(context, number) for context, targets in self.tasks for number in targets.tolist()]

    @property
    def columns(self) -> list[int]:
        """The columns that the candidates name."""
        named = {number - 1 for _, number in self.candidates if number != KEY}
        return sorted(named.union(*(context for context, _ in self.tasks)))


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Rows as codes, with the values of codes.

    Parameters
    ----------
    numbers : the row numbers.
    codes : (columns, rows): equal values have equal codes, in no order.
    values, hashes : for each column the values and their hashes, by code.
    """

    numbers: RowNumbers
    codes: DenseCodes
    values: tuple[pa.Array, ...]
    hashes: tuple[Hashes, ...]

    def hashed(self, columns: Context, rows: Ints) -> Hashes:
        """Return hashes of rows in some columns."""
        found = np.zeros(len(rows), np.uint64)
        for c in columns:
            found = hashed_with(found, self.hashes[c][self.codes[c, rows]])
        return found


@dataclass(frozen=True, eq=False)
class BatchRows:
    """The rows of a batch, and the number of copies that each gained."""

    rows: CodedRows
    copies: Ints


class TouchedRows:
    """The rows of a block in groups with rows of the batch.

    Parameters
    ----------
    changed : the batch.
    coded, left : the rows of the block, and the positions of rows that are not gone.
    """

    def __init__(self, changed: BatchRows, coded: CodedRows, left: Ints) -> None:
        self._changed, self._coded, self._left = changed, coded, left
        self._is_there: dict[int, Flags] = {}

    def rows(self, context: Context) -> Ints:
        """Return at least all rows in a group with a row of the batch."""
        found = self._left
        if not context:
            return found
        found = found[np.logical_and.reduce([self._alike(c) for c in context])]
        if len(context) == 1:
            return found
        every = np.arange(len(self._changed.copies))
        is_touched = np.isin(self._coded.hashed(context, found), self._changed.rows.hashed(context, every))
        return np.asarray(found[is_touched])

    def _alike(self, column: int) -> Flags:
        """Return which rows of `left` have a value of the batch in a column."""
        if column not in self._is_there:
            is_there = np.isin(self._coded.hashes[column], self._changed.rows.hashes[column])
            self._is_there[column] = is_there[self._coded.codes[column, self._left]]
        return self._is_there[column]


@dataclass(frozen=True, eq=False)
class CountRequest:
    """The input that all tasks share; without a batch all rows are counted.

    Parameters
    ----------
    has_numbers : whether row numbers are sent with rows.
    """

    source: Source
    targets: NearTargets
    shipments: tuple[Shipment, ...]
    changed: BatchRows | None = None
    has_numbers: bool = False


def count_alone(source: Source, targets: NearTargets, tasks: Tasks, enough: int, unit: tuple[Block, ...]) -> Ints:
    """Return the sums of the exceptions of candidates over blocks, each counted alone."""
    found = np.zeros(sum(len(asked) for _, asked in tasks), np.int64)
    for block in unit:
        coded = _coded(source, targets, block)
        rows = np.random.default_rng(0).permutation(_left(source, block, coded)).astype(np.int32)
        counter = Counter(unordered_rows(coded.codes, targets.of_table, rows), targets)
        found += np.concatenate([one.exceptions for one in counted(counter, targets, tasks, -1, enough)])
    return found


def send_rows(asked: CountRequest, unit: tuple[Block, ...]) -> Given:
    """Yield the rows of blocks for the parts of all shipments; without blocks the rows of the batch."""
    together: dict[int, list[int]] = {}
    for number, shipment in enumerate(asked.shipments):
        together.setdefault(shipment.first, []).append(number)
    for block in unit:
        coded = _coded(asked.source, asked.targets, block)
        left = _left(asked.source, block, coded)
        touched = None if asked.changed is None else TouchedRows(asked.changed, coded, left)
        for several in together.values():
            yield from _by_part([_shipped(asked, number, coded, left, touched) for number in several])
    if not unit and asked.changed is not None:
        for several in together.values():
            yield from _by_part([_shipped_batch(asked.changed, asked, number) for number in several])


def _by_part(shipped: Sequence[tuple[pa.Table, Ints]]) -> Given:
    rows = pa.concat_tables([rows for rows, _ in shipped], promote_options="default")
    yield from by_part(rows, np.concatenate([parts for _, parts in shipped]))


def _shipped(
    asked: CountRequest, number: int, coded: CodedRows, rows: Ints, touched: TouchedRows | None
) -> tuple[pa.Table, Ints]:
    """Return the rows of a block for a shipment, with the part of each row."""
    shipment = asked.shipments[number]
    if touched is not None:
        ((context, _),) = shipment.tasks
        rows = touched.rows(context)
    copies = np.ones(len(rows), np.int64)
    if len(shipment.tasks) == 1:
        alike = _numbered(coded.codes[np.ix_(np.array(shipment.columns), rows)])
        first = np.full(int(alike.max(initial=-1)) + 1, -1, np.int64)
        first[alike[::-1]] = rows[::-1]
        rows, copies = first, np.bincount(alike, minlength=len(first))
    return _piece(asked, number, coded, rows, copies, np.zeros(len(rows), np.int64))


def _shipped_batch(changed: BatchRows, asked: CountRequest, number: int) -> tuple[pa.Table, Ints]:
    rows = np.arange(len(changed.copies))
    return _piece(asked, number, changed.rows, rows, np.zeros(len(rows), np.int64), changed.copies)


def _piece(
    asked: CountRequest, number: int, coded: CodedRows, rows: Ints, copies: Ints, change: Ints
) -> tuple[pa.Table, Ints]:
    shipment = asked.shipments[number]
    arrays = {_SHIPMENT: np.full(len(rows), number, np.int32), _COPIES: copies, _CHANGE: change}
    if asked.has_numbers:
        arrays[_NUMBER] = coded.numbers[rows]
    for c in shipment.columns:
        arrays[str(c)] = coded.values[c].take(pa.array(coded.codes[c, rows]))
    return pa.table(arrays), shipment.first + part_of(coded.hashed(shipment.together, rows), shipment.parts)


def count_together(asked: CountRequest, taken: Taken) -> Iterator[tuple[int, list[int], list[int]]]:
    """Yield for each shipment how many rows of a part stay, after and before the batch."""
    rows = pa.concat_tables(list(taken), promote_options="default")
    of_row = rows.column(_SHIPMENT).to_numpy()
    for number in np.unique(of_row).tolist():
        shipment = asked.shipments[number]
        some = rows.select([_COPIES, _CHANGE, *map(str, shipment.columns)]).filter(pa.array(of_row == number))
        codes = _codes_of(asked, shipment, some)
        copies, change = (some.column(name).to_numpy() for name in (_COPIES, _CHANGE))
        now = _staying(asked.targets, shipment, codes, copies)
        before = [0] * len(now) if asked.changed is None else _staying(asked.targets, shipment, codes, copies - change)
        yield number, now, before


def find_exceptions(asked: CountRequest, most: int, taken: Taken) -> Iterator[tuple[int, int]]:
    """Yield the standing and the row number of some exceptions of the requested candidate."""
    rows = pa.concat_tables(list(taken), promote_options="default")
    (shipment,) = asked.shipments
    ((context, (number,)),) = shipment.tasks
    codes = _codes_of(asked, shipment, rows)
    copies, numbers = (rows.column(name).to_numpy() for name in (_COPIES, _NUMBER))
    groups = _numbered(codes[list(context)])
    if number == KEY:
        standing = np.where(np.bincount(groups, copies)[groups] > 1, UNDECIDED, NONE)
    else:
        classes, largest = _classes(codes, copies, groups, number)
        sizes = np.bincount(classes, copies)
        of = np.zeros(len(sizes), np.int64)
        of[classes] = groups
        ties = np.bincount(of, sizes == largest[of])
        of_class = np.where(sizes < largest[of], CERTAIN, np.where(ties[of] > 1, UNDECIDED, NONE))
        standing = of_class[classes]
    some = np.flatnonzero(standing > NONE)
    some = some[np.argsort(standing[some], kind="stable")][:most]
    yield from zip(standing[some].tolist(), numbers[some].tolist(), strict=True)


def _codes_of(asked: CountRequest, shipment: Shipment, rows: pa.Table) -> DenseCodes:
    """Return the codes of the rows of a part, in the columns of a shipment."""
    schema, of_table = asked.source.schema, asked.targets.of_table
    columns = {c: schema.columns[int(of_table[c])] for c in shipment.columns}
    arrays = {column.name: rows.column(str(c)) for c, column in columns.items()}
    table = encoded(schema.table, list(columns.values()), arrays, len(rows))
    codes = np.zeros((asked.targets.columns, len(rows)), np.int32)
    for c, column in zip(columns, table.columns, strict=True):
        codes[c] = column_numbers(column)
    return codes


def _staying(targets: NearTargets, shipment: Shipment, codes: DenseCodes, copies: Ints) -> list[int]:
    """Return for each candidate of a shipment how many rows stay."""
    if len(shipment.tasks) == 1:
        ((context, asked),) = shipment.tasks
        return _staying_of_copies(codes, copies, context, asked)
    count = codes.shape[1]
    counter = Counter(unordered_rows(codes, targets.of_table, np.arange(count, dtype=np.int32)), targets)
    found = [one.exceptions for one in counted(counter, targets, shipment.tasks, -1, count)]
    return [int(count - exceptions) for exceptions in np.concatenate(found)]


def _staying_of_copies(codes: DenseCodes, copies: Ints, context: Context, asked: Ints) -> list[int]:
    groups = _numbered(codes[list(context)])
    sizes = np.bincount(groups, copies)
    found = []
    for number in asked.tolist():
        if number == KEY:
            found.append(int(np.count_nonzero(sizes)))
            continue
        found.append(int(_classes(codes, copies, groups, number)[1].sum()))
    return found


def _classes(codes: DenseCodes, copies: Ints, groups: Ints, number: int) -> tuple[Ints, Floats]:
    """Return the class of each row by a functional dependency, and the size of the largest class of each group."""
    classes = _numbered(np.stack([groups, codes[number - 1]]))
    of = np.zeros(int(classes.max(initial=-1)) + 1, np.int64)
    of[classes] = groups
    largest = np.zeros(int(groups.max(initial=-1)) + 1)
    np.maximum.at(largest, of, np.bincount(classes, copies))
    return classes, largest


def _numbered(columns: NDArray[np.integer]) -> Ints:
    """Return a number from 0 for each row, the same for rows equal in all columns. O(n) a column."""
    found = np.zeros(columns.shape[1], np.int64)
    for codes in columns:
        found = numbers(found * (int(codes.max(initial=0)) + 1) + codes).astype(np.int64)
    return found


def _coded(source: Source, targets: NearTargets, block: Block) -> CodedRows:
    """Return the rows that a block was written with; kept by the process while there is room."""
    columns = tuple(targets.of_table.tolist())

    def make() -> tuple[CodedRows, int]:
        arrays = source.written(block)
        found = coded_of(arrays, table_of(arrays, source.schema), columns)
        values = sum(array.nbytes + _BYTES_A_VALUE * len(array) for array in found.values)
        return found, found.codes.nbytes + found.numbers.nbytes + values

    return KEPT.get(("near", columns, block.name), make)


def coded_of(arrays: pa.Table, table: Table, columns: Sequence[int]) -> CodedRows:
    """Return rows as codes, given in the format of blocks and as a table."""
    codes = np.empty((len(columns), len(arrays)), np.int32)
    values, hashes = [], []
    for place, c in enumerate(columns):
        column = table.columns[c]
        codes[place] = column_numbers(column)
        first = np.zeros(int(codes[place].max(initial=-1)) + 1, np.int64)
        first[codes[place, ::-1]] = np.arange(len(arrays))[::-1]
        values.append(arrays.column(str(c)).take(pa.array(first)).combine_chunks())
        hashes.append(value_hashes(column.at(first)))
    return CodedRows(arrays.column("row").to_numpy(), codes, tuple(values), tuple(hashes))


def _left(source: Source, block: Block, coded: CodedRows) -> Ints:
    """Return the positions of a block's rows that are not gone."""
    gone = source.gone(block)
    return np.flatnonzero(~np.isin(coded.numbers, gone)) if len(gone) else np.arange(len(coded.numbers))


def unordered_rows(codes: DenseCodes, columns: Ints, rows: Ints32) -> NearRows:
    """Return rows for counting, without an order of values."""
    width = len(columns)
    distinct = np.maximum(codes.max(axis=1, initial=0) + 1, 1).astype(np.int64)
    return NearRows(
        codes, distinct, np.zeros(width, np.int64), columns, (False,) * width, rows, np.arange(codes.shape[1])
    )
