"""Exceptions of keys and functional dependencies on tables in blocks: exact counts, or sufficient lower bounds.

    some blocks   each alone: exceptions of some rows are at most those of all, and those of different blocks add up
    all blocks    the same, for the candidates left
    exact         for the candidates left: rows that agree on a context are sent to one executor, group by group

Rows are sent in *shipments*. Contexts with a common column, no value of which has more rows than a block, share a
shipment of all rows. For each other context the distinct rows are sent, with their copies: as the context has few
exceptions in each block alone, these are hardly more than its groups.

A batch changes the exceptions of groups with rows of the batch only: blocks send the distinct rows of these groups,
which are counted with the copies after and before the batch.

Counted are the rows that *stay*: of a key one row of each group; of a functional dependency the largest class of each
group, and without a context the largest class of all, which is the largest class of some part.

Invariant: counts are those of all rows, or lower bounds; the memory of the driver does not grow with the rows.
"""

from collections import Counter as Tally
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from holdfast.constraints import NearShape
from holdfast.discovery.blocks.counting.near_tasks import (
    BatchRows,
    CountRequest,
    Shipment,
    coded_of,
    count_alone,
    count_together,
    find_exceptions,
    send_rows,
    unordered_rows,
)
from holdfast.discovery.blocks.storage.block import Block, Rows, carried
from holdfast.discovery.blocks.storage.table import BlockTable
from holdfast.discovery.near.counting import Candidate, Context, CountedContext, by_context, visible
from holdfast.discovery.near.lattice import Tasks
from holdfast.discovery.near.targets import KEY, NearTargets
from holdfast.tables import Table
from holdfast.tables.arrays import Ints, RowNumbers, Standing

SHAPES = frozenset({NearShape.KEY, NearShape.CONSTANT})
"""The shapes that are counted in blocks."""

_SAMPLED = 4
"""The rows of the blocks that are counted first, as a multiple of `enough`."""

_PARTS_A_CORE, _BLOCKS_A_PART = 2, 8
"""The parts for distinct rows: at least so many for each core, and one for each so many blocks."""

_MOST_COUNTED = np.iinfo(np.int32).max


def unordered_targets(columns: Ints, shapes: frozenset[NearShape] = SHAPES) -> NearTargets:
    """Return the targets of columns of a table, given by position, without order compatibilities."""
    width = len(columns)
    none = np.zeros((width, 0), np.int32)
    return NearTargets(unordered_rows(none, columns, none[0] if width else np.zeros(0, np.int32)), shapes & SHAPES)


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

    def counted(self, tasks: Tasks, most: int, enough: int) -> Iterator[CountedContext]:
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
            yield visible(CountedContext(context, targets, np.minimum(exceptions, _MOST_COUNTED)), self._targets, most)

    def exactly(self, candidates: Collection[Candidate]) -> dict[Candidate, int]:
        """Return the exact exceptions of candidates. One job."""
        staying = self._staying(CountRequest(self._table.source, self._targets, self._shipments(candidates)))
        return {one: self._table.row_count - staying[one] for one in candidates}

    def follow(self, batch: Table, copies: Ints, before: Mapping[Candidate, int]) -> dict[Candidate, int]:
        """Return the exceptions of candidates after a batch. One job.

        Parameters
        ----------
        batch, copies : the rows that changed, and the number of copies that each gained.
        before : the exceptions of the candidates before the batch.
        """
        arrays = carried(Rows(np.zeros(len(copies), np.int64), batch))
        changed = BatchRows(coded_of(arrays, batch, self._targets.of_table.tolist()), copies)
        apart = tuple(self._distinct(*task) for one in by_context(before) for task in _alone_in(one))
        more = self._staying(CountRequest(self._table.source, self._targets, apart, changed))
        rows, added = self._table.row_count, int(copies.sum())
        return {one: before[one] + added - more[one] if one[0] else rows - more[one] for one in before}

    def some(self, candidate: Candidate, most: int) -> tuple[RowNumbers, Standing]:
        """Return the row numbers of some exceptions of a candidate, certain first, and their standing. One job."""
        context, number = candidate
        shipment = Shipment(context, ((context, np.array([number])),), 0, self._few_parts)
        asked = CountRequest(self._table.source, self._targets, (shipment,), has_numbers=True)
        tasks = [unit for unit in self._table.base.units if unit]
        work = partial(send_rows, asked), tasks, self._few_parts, partial(find_exceptions, asked, most)
        found = sorted(one for one in self._table.executors.exchange(*work))[:most]
        standing, numbers = np.array(found, np.int64).reshape(-1, 2).T
        return numbers, standing.astype(np.int8)

    def _waves(self, enough: int) -> Iterator[Sequence[tuple[Block, ...]]]:
        """Yield the blocks in one or two waves, a sample first; nothing if even all rows are at most `enough`."""
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
        """Add the exceptions of blocks, each counted alone, for candidates that do not have enough yet."""
        is_open = [exceptions <= enough for exceptions in found]
        every = zip(tasks, is_open, strict=True)
        asked = [(context, targets[some]) for (context, targets), some in every if some.any()]
        if not asked:
            return
        total = np.zeros(sum(len(targets) for _, targets in asked), np.int64)
        work = partial(count_alone, self._table.source, self._targets, asked, enough)
        for exceptions in self._table.executors.run(work, units):
            total += exceptions
        end = 0
        for exceptions, some in zip(found, is_open, strict=True):
            start, end = end, end + int(some.sum())
            exceptions[some] += total[start:end]

    def _staying(self, asked: "CountRequest") -> dict[Candidate, int]:
        """Return for each candidate the rows that stay; after a batch, in a context, the growth of that number."""
        found: dict[Candidate, int] = {one: 0 for shipment in asked.shipments for one in shipment.candidates}
        tasks: list[tuple[Block, ...]] = [unit for unit in self._table.base.units if unit]
        if asked.changed is not None:
            tasks.append(())
        parts = max((one.first + one.parts for one in asked.shipments), default=0)
        if not parts:
            return found
        work = partial(send_rows, asked), tasks, parts, partial(count_together, asked)
        for number, now, before in self._table.executors.exchange(*work):
            for one, stay, stayed in zip(asked.shipments[number].candidates, now, before, strict=True):
                found[one] = found[one] + stay - stayed if one[0] else max(found[one], stay)
        return found

    def _shipments(self, candidates: Collection[Candidate]) -> tuple["Shipment", ...]:
        """Return the shipments that the count of candidates needs."""
        left = by_context(candidates)
        fitting = {c for c, column in enumerate(self._targets.of_table.tolist()) if self._table.fits_a_block(column)}
        found: list[Shipment] = []
        first = self._few_parts
        while wanted := Tally(c for context, _ in left for c in context if c in fitting):
            column = min(wanted, key=lambda c: (-wanted[c], c))
            found.append(Shipment((column,), tuple(task for task in left if column in task[0]), first, self._blocks))
            left, first = [task for task in left if column not in task[0]], first + self._blocks
        return (*found, *(self._distinct(*task) for one in left for task in _alone_in(one)))

    def _distinct(self, context: Context, targets: Ints) -> "Shipment":
        """Return the shipment of the distinct rows of a context; without a context, of the target's column."""
        together = context or (int(targets[0]) - 1,)
        return Shipment(together, ((context, targets),), 0, self._few_parts)


def _alone_in(task: tuple[Context, Ints]) -> list[tuple[Context, Ints]]:
    """Return the parts of a task with a shipment each: without a context a part for each target."""
    context, targets = task
    return [task] if context else [(context, targets[place : place + 1]) for place in range(len(targets))]
