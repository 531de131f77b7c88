"""The partners that rows of a batch have in a table in blocks, the sizes of their groups, and examples.

Each rule is counted in the arrangement that suits it, where a row of the batch meets few blocks; all rules of a batch
are one job. The process keeps indexes of a block for the rules of its arrangement (`indexed.py`). The rows of the batch
are held beside the rows of the block and never join them. Tasks send counts back.

Invariant: counts are those of the whole table, copies included: a row of the table is in one block of an arrangement.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa

from holdfast.constraints import PredicateSpace
from holdfast.discovery.blocks.counting.groups import AskedGroups, GroupSizes, SomeSizes
from holdfast.discovery.blocks.search.indexed import IndexedRows, kept_index
from holdfast.discovery.blocks.search.planning import orders_of
from holdfast.discovery.blocks.storage.block import Block, Rows, rows_of
from holdfast.discovery.blocks.storage.location import INDEXED_AT_LEAST
from holdfast.discovery.blocks.storage.ranges import rows_meeting
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.discovery.detection.columns import TableColumns
from holdfast.discovery.detection.examples import pair_with
from holdfast.discovery.detection.forms import Compared, PairForm, space_with
from holdfast.discovery.detection.grouping import Grouping
from holdfast.discovery.detection.partners import PartnerCounts
from holdfast.indexes.rows import RowDelta
from holdfast.indexes.sorted_groups import SortedGroups
from holdfast.tables import Table
from holdfast.tables.arrays import Codes, Ints, RowNumbers

Forms = tuple[PairForm, ...]

_BYTES_A_CELL, _BYTES_A_ROW_AND_TREE, _BYTES_A_ROW_AND_GROUPS = 16, 64, 16
_WAVES_A_CORE = 4


@dataclass(frozen=True)
class BatchCounts:
    """The counts for the rows of a batch.

    Parameters
    ----------
    partners : by rule, the number of partners of each row, as t and as s together, itself included.
    groups : for a key or a functional dependency instead: the sizes of the groups of the rows.
    """

    partners: dict[int, Ints]
    groups: dict[int, GroupSizes]


@dataclass(frozen=True)
class Partner:
    """A row that breaks a rule with another row: in the format of blocks, and whether it is t."""

    row: pa.Table
    is_first: bool


@dataclass(frozen=True)
class _Asked:
    """The input that all tasks share: the rules, the rows of the batch, and a row and the group of each part."""

    source: Source
    forms: Forms
    batch: Table
    groups: dict[int, tuple[Ints, Ints]]


@dataclass(frozen=True)
class _Task:
    """A block, the rules to count in it, and the rows of the batch that may have partners in it."""

    block: Block
    members: tuple[int, ...]
    rows: Ints


@dataclass(frozen=True)
class _Search:
    """A block, the rules of its index, and the searches, by number: a rule and a row each."""

    block: Block
    members: tuple[int, ...]
    wanted: dict[int, tuple[int, int]]


@dataclass(frozen=True)
class _Answer:
    rows: Ints
    partners: dict[int, Ints]
    groups: dict[int, SomeSizes]


class BlockPartners:
    """Finds the partners of rows in a table in blocks.

    Parameters
    ----------
    table : the table.
    forms : the rules, each of them possible.
    """

    def __init__(self, table: BlockTable, forms: Sequence[PairForm]) -> None:
        self._table = table
        self._forms = tuple(forms)
        self._blocks: dict[str, tuple[Block, list[int]]] = {}
        self._compared = [_sizes_of(form) for form in forms]
        if table.base.blocks and forms:
            orders = orders_of(table, self._compared, np.arange(len(forms)))
            for arrangement in table.arranged_in(list(orders)):
                for block in arrangement.blocks:
                    self._blocks.setdefault(block.name, (block, []))[1].extend(orders[arrangement.order].tolist())

    def follow(self, batch: Table) -> BatchCounts:
        """Return the partners of a batch's rows, and the sizes of their groups. One job."""
        grouping = Grouping(TableColumns(batch), self._forms)
        asked = {i: AskedGroups.of(grouping, form.groups) for i, form in enumerate(self._forms) if form.groups}
        partners = {i: np.zeros(batch.row_count, np.int64) for i in range(len(self._forms)) if i not in asked}
        sizes: dict[int, list[SomeSizes]] = {i: [] for i in asked}
        parts = {i: (groups.rows, groups.group[groups.rows]) for i, groups in asked.items()}
        work = partial(_followed, _Asked(self._table.source, self._forms, batch, parts))
        together = _together(self._tasks(batch), self._table.source.most)
        for answer in chain.from_iterable(self._table.executors.run(work, together)):
            for i, counts in answer.partners.items():
                partners[i][answer.rows] += counts
            for i, some in answer.groups.items():
                sizes[i].append(some)
        columns = batch.schema.columns
        return BatchCounts(partners, {i: GroupSizes.together(asked[i], found, columns) for i, found in sizes.items()})

    def partners(self, batch: Table, wanted: Sequence[tuple[int, int]]) -> list[Partner | None]:
        """Return for pairs (rule, row of the batch) another row of the table that breaks the rule with the row.

        A few blocks at a time, until all have a partner.
        """
        found: dict[int, Partner] = {}
        work = partial(_partners, _Asked(self._table.source, self._forms, batch, {}))
        size = _WAVES_A_CORE * self._table.executors.cores
        blocks = list(self._blocks.values())
        while blocks and len(found) < len(wanted):
            wave: list[_Search] = []
            while blocks and len(wave) < size:
                block, members = blocks.pop()
                left = {i: one for i, one in enumerate(wanted) if i not in found and one[0] in members}
                if meeting := self._meeting(batch, block, left):
                    wave.append(_Search(block, tuple(members), meeting))
            for answer in self._table.executors.run(work, wave):
                found |= answer
        return [found.get(i) for i in range(len(wanted))]

    def _tasks(self, batch: Table) -> Iterator[_Task]:
        """Yield the blocks in which rows of a batch may have partners."""
        for block, members in self._blocks.values():
            meeting = rows_meeting(batch, block, [self._compared[i] for i in members])
            if meeting.any():
                yield _Task(block, tuple(members), np.flatnonzero(meeting))

    def _meeting(self, batch: Table, block: Block, wanted: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        """Return the searches for which a block may have a partner."""
        forms = {form for form, _ in wanted.values()}
        meeting = {form: rows_meeting(batch, block, [self._forms[form].compared]) for form in forms}
        return {i: (form, row) for i, (form, row) in wanted.items() if meeting[form][row]}


def _sizes_of(form: PairForm) -> Sequence[Compared]:
    """Return the comparisons that counts of a rule need: sizes of groups do not need the differences."""
    return form.compared if form.groups is None else [c for c in form.compared if c not in form.differences]


def _together(tasks: Iterable[_Task], most: int) -> list[list[_Task]]:
    """Combine tasks on small blocks, such as young blocks, up to the rows of a full block."""
    found: list[list[_Task]] = []
    rows = most
    for task in sorted(tasks, key=lambda task: -task.block.rows):
        if rows + task.block.rows > most:
            found.append([])
            rows = 0
        found[-1].append(task)
        rows += task.block.rows
    return found


# What a task does


class _Indexed(IndexedRows):
    """The rows of a block, searchable for partners by some rules, given by their numbers."""

    def __init__(self, read: Rows, gone: RowNumbers, forms: dict[int, PairForm]) -> None:
        super().__init__(read, gone, space_with(PredicateSpace(read.table.schema), list(forms.values())))
        self.numbers = [i for i, form in forms.items() if form.groups is None]
        self.partners = PartnerCounts(self.rows, [forms[i] for i in self.numbers])
        self._grouped = {i: form.groups for i, form in forms.items() if form.groups is not None}
        self.groups = self._sorted()

    def codes_of(self, table: Table) -> Codes:
        """Return the codes of other rows."""
        codes, relabelled = self.rows.encode(table)
        if relabelled:
            self.partners.rebuild()
            self.groups = self._sorted()
        return codes

    def _follow(self, delta: RowDelta) -> None:
        self.partners.follow(delta)  # slots are not freed: sorted groups keep the rows that are gone
        for groups in self.groups.values():
            groups.weigh()

    def _sorted(self) -> dict[int, SortedGroups]:
        return {i: SortedGroups(self.rows, one.columns, one.dependent, one.present) for i, one in self._grouped.items()}


def _indexed(asked: _Asked, block: Block, members: tuple[int, ...]) -> AbstractContextManager[_Indexed]:
    """Give the index of a block for some rules."""
    forms = {i: asked.forms[i] for i in members}
    gone = asked.source.gone(block)

    def make() -> tuple[_Indexed, int]:
        found = _Indexed(rows_of(asked.source.written(block), asked.source.schema), gone, forms)
        bytes_a_row = _BYTES_A_CELL * (len(asked.source.schema) + 2) + _BYTES_A_ROW_AND_GROUPS * len(found.groups)
        bytes_a_row += _BYTES_A_ROW_AND_TREE * len(found.numbers)
        return found, (block.rows + INDEXED_AT_LEAST) * bytes_a_row

    return kept_index(("partners", tuple(forms.items()), block.name), make, gone)


def _followed(asked: _Asked, tasks: Sequence[_Task]) -> list[_Answer]:
    return [_followed_in(asked, task) for task in tasks]


def _followed_in(asked: _Asked, task: _Task) -> _Answer:
    """Return the partners that rows of a batch have in a block, and the sizes of their groups there."""
    some = asked.batch.taken(task.rows)
    sizes = {}
    with (
        _indexed(asked, task.block, task.members) as indexed,
        indexed.rows.beside(indexed.codes_of(some)) as slots,
    ):
        counts, _ = indexed.partners.count(slots, TableColumns(some), range(len(indexed.numbers)))
        for i, groups in indexed.groups.items():
            rows, group = asked.groups[i]
            part = np.flatnonzero(np.isin(rows, task.rows))
            numbers, near = np.unique(group[part], return_inverse=True)
            found = groups.sizes(slots[np.searchsorted(task.rows, rows[part])], near)
            form = asked.forms[i].groups
            assert form is not None
            column = form.columns[0] if form.dependent is None else form.dependent
            others = indexed.places[found.other[found.others == 1]]
            other = asked.source.written(task.block).column(str(column)).take(pa.array(others))
            sizes[i] = SomeSizes(numbers, found.groups, part, found.parts, found.others, other)
    partners = {i: counts[number] for number, i in enumerate(indexed.numbers)}
    return _Answer(task.rows, partners, sizes)


def _partners(asked: _Asked, task: _Search) -> dict[int, Partner]:
    """Return a partner for each row that has one in a block, by numbers of searches."""
    found: dict[int, tuple[int, bool]] = {}
    with _indexed(asked, task.block, task.members) as indexed:
        rows = indexed.rows
        codes = indexed.codes_of(asked.batch.taken(np.array([row for _, row in task.wanted.values()], np.int64)))
        own = rows.slots_of(codes)
        with rows.beside(codes) as slots:
            rows.copies[slots] = 0  # they are no partners of each other
            for i, slot in zip(task.wanted, np.where(own >= 0, own, slots).tolist(), strict=True):
                pair = pair_with(rows, asked.forms[task.wanted[i][0]], slot)
                if pair is not None:
                    found[i] = (pair[1], False) if pair[0] == slot else (pair[0], True)
        read = asked.source.written(task.block)
        return {
            i: Partner(read.take(pa.array([indexed.places[slot]])).combine_chunks(), is_first)
            for i, (slot, is_first) in found.items()
        }
