"""Exceptions of keys and functional dependencies on tables in blocks: exact, or more than enough.

    some blocks   each alone: exceptions of some rows are at most those of all, and those of different blocks add up
    all blocks    the same, for what is left
    exact         for what is left then: rows that agree on a context come together on one executor, group by group

Rows come together in *shipments*. Contexts that have a column in common, no value of which has more rows than a block,
share a shipment of all rows. Each other context has its distinct rows sent, with their copies: as it has few exceptions
in each block alone, these are hardly more than its groups.

After a batch only groups with rows of the batch have other exceptions: blocks send the distinct rows of these groups,
which are counted as they are now, and as they were.

What is counted are the rows that *stay*: of a key one of each group; of a functional dependency the largest class of
each group, and without a context the largest class of all, which is the largest one of some part.

Invariant: counts are those of all rows, or lower bounds; what the driver holds does not grow with the rows.
"""

from collections import Counter as Tally
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.constraints import NearShape
from holdfast.discovery.blocks.executors import Given, Taken, by_part
from holdfast.discovery.blocks.storage.block import Block, Rows, carried, table_of
from holdfast.discovery.blocks.storage.location import KEPT
from holdfast.discovery.blocks.storage.lookup import hashed_with, value_hashes
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.discovery.blocks.values.records import part_of
from holdfast.discovery.evidence.codes import column_numbers, numbers
from holdfast.discovery.near.counting import Candidate, Context, Counted, Counter, by_context, counted, visible
from holdfast.discovery.near.lattice import Tasks
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.targets import KEY, NearTargets
from holdfast.indexes.kernels.exceptions import CERTAIN, NONE, UNDECIDED
from holdfast.tables import EncodedColumn, Table
from holdfast.tables.arrays import DenseCodes, Flags, Floats, Hashes, Ints, Ints32, RowNumbers, Standing
from holdfast.tables.columnar import encoded

SHAPES = frozenset({NearShape.KEY, NearShape.CONSTANT})
"""What is counted in blocks."""

_SAMPLED = 4
"""The blocks that are counted first have so many times as many rows as are enough exceptions."""

_PARTS_A_CORE, _BLOCKS_A_PART = 2, 8
"""Distinct rows go to so many parts a core, or to more: those of so many blocks come together in one."""

_MOST_COUNTED = np.iinfo(np.int32).max
_BYTES_A_VALUE = 16
_SHIPMENT, _COPIES, _CHANGE, _NUMBER = "shipment", "copies", "change", "number"


def unordered_targets(columns: Ints, shapes: frozenset[NearShape] = SHAPES) -> NearTargets:
    """Return the targets of some columns of a table, given by position, but for order compatibilities."""
    width = len(columns)
    none = np.zeros((width, 0), np.int32)
    return NearTargets(_near_rows(none, columns, none[0] if width else np.zeros(0, np.int32)), shapes & SHAPES)


class BlockCounts:
    """Counts candidates on a table in blocks.

    Parameters
    ----------
    table : the rows, as they are now.
    targets : keys and constants.
    """

    def __init__(self, table: BlockTable, targets: NearTargets) -> None:
        self._table = table
        self._targets = targets
        self._blocks = max(1, -(-table.row_count // table.source.most))
        self._few_parts = max(_PARTS_A_CORE * table.executors.cores, -(-self._blocks // _BLOCKS_A_PART))

    def counted(self, tasks: Tasks, most: int, enough: int) -> Iterator[Counted]:
        """Count candidates, as `discovery.near.counting.counted` does. Three jobs at most."""
        found = [np.zeros(len(targets), np.int64) for _, targets in tasks]
        for (context, targets), exceptions in zip(tasks, found, strict=True):
            if not context:
                exceptions[targets == KEY] = enough + 1  # there is no key without columns
        for units in self._waves(enough):
            self._add_alone(tasks, found, units, enough)
        exact = self.exactly(
            [
                (context, number)
                for (context, targets), exceptions in zip(tasks, found, strict=True)
                for number in targets[exceptions <= enough].tolist()
            ]
        )
        for (context, targets), exceptions in zip(tasks, found, strict=True):
            for place in np.flatnonzero(exceptions <= enough).tolist():
                exceptions[place] = exact[context, int(targets[place])]
            yield visible(Counted(context, targets, np.minimum(exceptions, _MOST_COUNTED)), self._targets, most)

    def exactly(self, candidates: Collection[Candidate]) -> dict[Candidate, int]:
        """Return the exceptions of some candidates, whatever their number. One job."""
        staying = self._staying(_Asked(self._table.source, self._targets, self._shipments(candidates)))
        return {one: self._table.row_count - staying[one] for one in candidates}

    def follow(self, batch: Table, copies: Ints, before: Mapping[Candidate, int]) -> dict[Candidate, int]:
        """Return the exceptions of some candidates after a batch. One job.

        Parameters
        ----------
        batch, copies : the rows that changed, and how many more copies of each there are now.
        before : the exceptions of the candidates before the batch.
        """
        arrays = carried(Rows(np.zeros(len(copies), np.int64), batch))
        changed = _Changed(_coded_of(arrays, batch, self._targets.of_table.tolist()), copies)
        apart = tuple(self._distinct(*task) for one in by_context(before) for task in _alone_in(one))
        more = self._staying(_Asked(self._table.source, self._targets, apart, changed))
        rows, added = self._table.row_count, int(copies.sum())
        return {one: before[one] + added - more[one] if one[0] else rows - more[one] for one in before}

    def some(self, candidate: Candidate, most: int) -> tuple[RowNumbers, Standing]:
        """Return the numbers of some exceptions of a candidate, certain ones first, and their standing. One job."""
        context, number = candidate
        shipment = _Shipment(context, ((context, np.array([number])),), 0, self._few_parts)
        asked = _Asked(self._table.source, self._targets, (shipment,), has_numbers=True)
        tasks = [unit for unit in self._table.base.units if unit]
        work = partial(_sent, asked), tasks, self._few_parts, partial(_exceptions_together, asked, most)
        found = sorted(one for one in self._table.executors.exchange(*work))[:most]
        standing, numbers = np.array(found, np.int64).reshape(-1, 2).T
        return numbers, standing.astype(np.int8)

    def _waves(self, enough: int) -> Iterator[Sequence[tuple[Block, ...]]]:
        """Yield which blocks are counted first, and which then; none where all rows are not enough."""
        units, rows = [unit for unit in self._table.base.units if unit], self._table.row_count
        if enough >= rows:
            return
        count = max(self._table.executors.cores, -(-len(units) * _SAMPLED * (enough + 1) // rows))
        if 2 * count >= len(units):
            yield units
            return
        first = set(np.linspace(0, len(units) - 1, count).astype(int).tolist())
        yield [unit for place, unit in enumerate(units) if place in first]
        yield [unit for place, unit in enumerate(units) if place not in first]

    def _add_alone(self, tasks: Tasks, found: Sequence[Ints], units: Sequence[tuple[Block, ...]], enough: int) -> None:
        """Add the exceptions of some blocks, each counted alone, for what has not enough of them yet."""
        is_open = [exceptions <= enough for exceptions in found]
        every = zip(tasks, is_open, strict=True)
        asked = [(context, targets[some]) for (context, targets), some in every if some.any()]
        if not asked:
            return
        total = np.zeros(sum(len(targets) for _, targets in asked), np.int64)
        work = partial(_alone, self._table.source, self._targets, asked, enough)
        for exceptions in self._table.executors.run(work, units):
            total += exceptions
        end = 0
        for exceptions, some in zip(found, is_open, strict=True):
            start, end = end, end + int(some.sum())
            exceptions[some] += total[start:end]

    def _staying(self, asked: "_Asked") -> dict[Candidate, int]:
        """Return for each candidate how many rows stay; in a context, after a batch, how many more than before it."""
        found: dict[Candidate, int] = {one: 0 for shipment in asked.shipments for one in shipment.candidates}
        tasks: list[tuple[Block, ...]] = [unit for unit in self._table.base.units if unit]
        if asked.changed is not None:
            tasks.append(())
        parts = max((one.first + one.parts for one in asked.shipments), default=0)
        if not parts:
            return found
        work = partial(_sent, asked), tasks, parts, partial(_counted_together, asked)
        for number, now, before in self._table.executors.exchange(*work):
            for one, stay, stayed in zip(asked.shipments[number].candidates, now, before, strict=True):
                found[one] = found[one] + stay - stayed if one[0] else max(found[one], stay)
        return found

    def _shipments(self, candidates: Collection[Candidate]) -> tuple["_Shipment", ...]:
        """Return how rows come together so that some candidates can be counted."""
        left = by_context(candidates)
        fitting = {c for c, column in enumerate(self._targets.of_table.tolist()) if self._table.fits_a_block(column)}
        found: list[_Shipment] = []
        first = self._few_parts
        while wanted := Tally(c for context, _ in left for c in context if c in fitting):
            column = min(wanted, key=lambda c: (-wanted[c], c))
            found.append(_Shipment((column,), tuple(task for task in left if column in task[0]), first, self._blocks))
            left, first = [task for task in left if column not in task[0]], first + self._blocks
        return (*found, *(self._distinct(*task) for one in left for task in _alone_in(one)))

    def _distinct(self, context: Context, targets: Ints) -> "_Shipment":
        """Return the shipment of the distinct rows of one context, or of one column where it has none."""
        together = context or (int(targets[0]) - 1,)
        return _Shipment(together, ((context, targets),), 0, self._few_parts)


def _alone_in(task: tuple[Context, Ints]) -> list[tuple[Context, Ints]]:
    """Return the tasks that have shipments of their own: without a context one for each target."""
    context, targets = task
    return [task] if context else [(context, targets[place : place + 1]) for place in range(len(targets))]


# What travels


@dataclass(frozen=True)
class _Shipment:
    """Rows that come together.

    Parameters
    ----------
    together : columns: rows that agree on them come to one part.
    tasks : what is counted on the rows of a part.
    first, parts : which parts they go to.
    """

    together: Context
    tasks: tuple[tuple[Context, Ints], ...]
    first: int
    parts: int

    @property
    def candidates(self) -> list[Candidate]:
        """What is counted, in order."""
        return [(context, number) for context, targets in self.tasks for number in targets.tolist()]

    @property
    def columns(self) -> list[int]:
        """The columns that are counted on."""
        named = {number - 1 for _, number in self.candidates if number != KEY}
        return sorted(named.union(*(context for context, _ in self.tasks)))


@dataclass(frozen=True, eq=False)
class _Coded:
    """Rows as small numbers, and what they stand for.

    Parameters
    ----------
    numbers : of the rows in their table.
    codes : (columns, rows): equal values have equal codes, in no order.
    values, hashes : of each column, by code.
    """

    numbers: RowNumbers
    codes: DenseCodes
    values: tuple[pa.Array, ...]
    hashes: tuple[Hashes, ...]

    def hashed(self, columns: Context, rows: Ints) -> Hashes:
        """Return a hash of some rows in some columns."""
        found = np.zeros(len(rows), np.uint64)
        for c in columns:
            found = hashed_with(found, self.hashes[c][self.codes[c, rows]])
        return found


@dataclass(frozen=True, eq=False)
class _Changed:
    """The rows of a batch, and how many more copies of each there are now."""

    rows: _Coded
    copies: Ints


class _Touched:
    """The groups of a block that have rows of the batch.

    Parameters
    ----------
    changed : the batch.
    coded, left : the block's rows, and the places of those that are not gone.
    """

    def __init__(self, changed: _Changed, coded: _Coded, left: Ints) -> None:
        self._changed, self._coded, self._left = changed, coded, left
        self._is_there: dict[int, Flags] = {}

    def rows(self, context: Context) -> Ints:
        """Return at least all rows that are in a group with a row of the batch."""
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
        """Return which rows that are left have a value of the batch in a column."""
        if column not in self._is_there:
            is_there = np.isin(self._coded.hashes[column], self._changed.rows.hashes[column])
            self._is_there[column] = is_there[self._coded.codes[column, self._left]]
        return self._is_there[column]


@dataclass(frozen=True, eq=False)
class _Asked:
    """What all tasks share; without a batch all rows are counted as they are.

    Parameters
    ----------
    has_numbers : whether a row that travels tells its number in the table.
    """

    source: Source
    targets: NearTargets
    shipments: tuple[_Shipment, ...]
    changed: _Changed | None = None
    has_numbers: bool = False


# What a task does


def _alone(source: Source, targets: NearTargets, tasks: Tasks, enough: int, unit: tuple[Block, ...]) -> Ints:
    """Return the exceptions of candidates within some blocks, each by itself."""
    found = np.zeros(sum(len(asked) for _, asked in tasks), np.int64)
    for block in unit:
        coded = _coded(source, targets, block)
        rows = np.random.default_rng(0).permutation(_left(source, block, coded)).astype(np.int32)
        counter = Counter(_near_rows(coded.codes, targets.of_table, rows), targets)
        found += np.concatenate([one.exceptions for one in counted(counter, targets, tasks, -1, enough)])
    return found


def _sent(asked: _Asked, unit: tuple[Block, ...]) -> Given:
    """Yield the rows of some blocks, by shipments; without a block the rows of the batch."""
    together: dict[int, list[int]] = {}
    for number, shipment in enumerate(asked.shipments):
        together.setdefault(shipment.first, []).append(number)
    for block in unit:
        coded = _coded(asked.source, asked.targets, block)
        left = _left(asked.source, block, coded)
        touched = None if asked.changed is None else _Touched(asked.changed, coded, left)
        for several in together.values():
            yield from _by_part([_shipped(asked, number, coded, left, touched) for number in several])
    if not unit and asked.changed is not None:
        for several in together.values():
            yield from _by_part([_shipped_batch(asked.changed, asked, number) for number in several])


def _by_part(shipped: Sequence[tuple[pa.Table, Ints]]) -> Given:
    rows = pa.concat_tables([rows for rows, _ in shipped], promote_options="default")
    yield from by_part(rows, np.concatenate([parts for _, parts in shipped]))


def _shipped(asked: _Asked, number: int, coded: _Coded, rows: Ints, touched: _Touched | None) -> tuple[pa.Table, Ints]:
    """Return the rows of a block as a shipment has them, with the part of each."""
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


def _shipped_batch(changed: _Changed, asked: _Asked, number: int) -> tuple[pa.Table, Ints]:
    rows = np.arange(len(changed.copies))
    return _piece(asked, number, changed.rows, rows, np.zeros(len(rows), np.int64), changed.copies)


def _piece(asked: _Asked, number: int, coded: _Coded, rows: Ints, copies: Ints, change: Ints) -> tuple[pa.Table, Ints]:
    shipment = asked.shipments[number]
    arrays = {_SHIPMENT: np.full(len(rows), number, np.int32), _COPIES: copies, _CHANGE: change}
    if asked.has_numbers:
        arrays[_NUMBER] = coded.numbers[rows]
    for c in shipment.columns:
        arrays[str(c)] = coded.values[c].take(pa.array(coded.codes[c, rows]))
    return pa.table(arrays), shipment.first + part_of(coded.hashed(shipment.together, rows), shipment.parts)


def _counted_together(asked: _Asked, taken: Taken) -> Iterator[tuple[int, list[int], list[int]]]:
    """Yield for each shipment how many rows of a part stay, now and before the batch."""
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


def _exceptions_together(asked: _Asked, most: int, taken: Taken) -> Iterator[tuple[int, int]]:
    """Yield the standing and the number of some exceptions of the one candidate that is asked for."""
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


def _codes_of(asked: _Asked, shipment: _Shipment, rows: pa.Table) -> DenseCodes:
    """Return the codes of the rows of a part, in the columns that a shipment counts on."""
    schema, of_table = asked.source.schema, asked.targets.of_table
    columns = {c: schema.columns[int(of_table[c])] for c in shipment.columns}
    arrays = {column.name: rows.column(str(c)) for c, column in columns.items()}
    table = encoded(schema.table, list(columns.values()), arrays, len(rows))
    codes = np.zeros((asked.targets.columns, len(rows)), np.int32)
    for c, column in zip(columns, table.columns, strict=True):
        codes[c] = column_numbers(column)
    return codes


def _staying(targets: NearTargets, shipment: _Shipment, codes: DenseCodes, copies: Ints) -> list[int]:
    """Return for each candidate of a shipment how many of some rows stay."""
    if len(shipment.tasks) == 1:
        ((context, asked),) = shipment.tasks
        return _staying_of_copies(codes, copies, context, asked)
    count = codes.shape[1]
    counter = Counter(_near_rows(codes, targets.of_table, np.arange(count, dtype=np.int32)), targets)
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
    """Return a number from 0 for each row, the same for those that are alike in all columns. O(n) a column."""
    found = np.zeros(columns.shape[1], np.int64)
    for codes in columns:
        found = numbers(found * (int(codes.max(initial=0)) + 1) + codes).astype(np.int64)
    return found


def _coded(source: Source, targets: NearTargets, block: Block) -> _Coded:
    """Return the rows that a block was written with; kept, where there is room."""
    columns = tuple(targets.of_table.tolist())

    def make() -> tuple[_Coded, int]:
        arrays = source.written(block)
        found = _coded_of(arrays, table_of(arrays, source.schema), columns)
        values = sum(array.nbytes + _BYTES_A_VALUE * len(array) for array in found.values)
        return found, found.codes.nbytes + found.numbers.nbytes + values

    return KEPT.get(("near", columns, block.name), make)


def _coded_of(arrays: pa.Table, table: Table, columns: Sequence[int]) -> _Coded:
    """Return some rows, given as they are carried and as they compare."""
    codes = np.empty((len(columns), len(arrays)), np.int32)
    values, hashes = [], []
    for place, c in enumerate(columns):
        column = table.columns[c]
        codes[place] = column_numbers(column)
        first = np.zeros(int(codes[place].max(initial=-1)) + 1, np.int64)
        first[codes[place, ::-1]] = np.arange(len(arrays))[::-1]
        valid = None if column.valid is None else column.valid[first]
        values.append(arrays.column(str(c)).take(pa.array(first)).combine_chunks())
        hashes.append(value_hashes(EncodedColumn(column.column, column.keys[first], valid, column.dictionary)))
    return _Coded(arrays.column("row").to_numpy(), codes, tuple(values), tuple(hashes))


def _left(source: Source, block: Block, coded: _Coded) -> Ints:
    """Return the places of a block's rows that are not gone."""
    gone = source.gone(block)
    return np.flatnonzero(~np.isin(coded.numbers, gone)) if len(gone) else np.arange(len(coded.numbers))


def _near_rows(codes: DenseCodes, columns: Ints, rows: Ints32) -> NearRows:
    """Return rows as they are counted, without any order of values."""
    width = len(columns)
    distinct = np.maximum(codes.max(axis=1, initial=0) + 1, 1).astype(np.int64)
    return NearRows(
        codes, distinct, np.zeros(width, np.int64), columns, (False,) * width, rows, np.arange(codes.shape[1])
    )
