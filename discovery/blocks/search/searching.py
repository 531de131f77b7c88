"""The search for pairs of rows that violate constraints in tables in blocks.

    a few blocks alone                    most constraints that do not hold are violated there
    the rest, in the arrangement that     blocks alone, then the pairs of blocks whose ranges allow a violation; a
    suits each constraint                 constraint that is violated is searched no further

Every task reads one or two blocks and searches them as `ViolationSearch` searches a table; its answers are the distinct
evidences of violating pairs, each with the numbers of two rows that have it.

Invariant: a constraint that is neither violated nor undecided has no violating pair in the whole table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa

from holdfast.constraints import PredicateSpace
from holdfast.constraints.operators import EVERY_OUTCOME
from holdfast.discovery.blocks.search.planning import orders_of
from holdfast.discovery.blocks.storage.block import Block, names_of, rows_of, versions_of
from holdfast.discovery.blocks.storage.location import KEPT
from holdfast.discovery.blocks.storage.table import Arrangement, BlockTable, Source
from holdfast.discovery.detection.forms import Compared
from holdfast.discovery.evidence.codes import pair_codes
from holdfast.discovery.evidence.evidences import EvidenceSet
from holdfast.discovery.evidence.sampling import both_ways, sample_neighbours, sample_random
from holdfast.discovery.evidence.violations import UNLIMITED, ViolationSearch
from holdfast.discovery.kernels.evidence import PairCodes
from holdfast.indexes.masks import as_items, outcomes_of
from holdfast.tables.arrays import Positions, Words

Report = Callable[[str], object]

_WAVES_A_CORE = 4
_SAMPLED_BLOCKS = 8
_SORTED_PART = 4


@dataclass(frozen=True)
class Evidences:
    """Evidences, each with the numbers of two rows that have it.

    Parameters
    ----------
    words, rows : evidences, and (e, 2) row numbers.
    images : these rows in the format of blocks, if requested; some of them more than once.
    """

    words: Words
    rows: Positions
    images: tuple[pa.Table, ...] = ()

    @classmethod
    def none(cls, space: PredicateSpace) -> "Evidences":
        """Return no evidences."""
        return cls(np.zeros((0, space.word_count), np.uint64), np.zeros((0, 2), np.int64))

    @classmethod
    def together(cls, parts: Sequence["Evidences"], space: PredicateSpace) -> "Evidences":
        """Return the distinct evidences of several answers."""
        parts = [cls.none(space), *parts]
        words = np.concatenate([part.words for part in parts])
        _, first = np.unique(as_items(words), return_index=True)
        images = tuple(chain.from_iterable(part.images for part in parts))
        return cls(words[first], np.concatenate([part.rows for part in parts])[first], images)


@dataclass(frozen=True)
class Broken:
    """The answer of a search, or of one of its tasks: violated and undecided constraints, and evidences.

    Parameters
    ----------
    constraint : positions of violated constraints.
    undecided : positions of constraints that exhausted the budget.
    evidences : of violating pairs, in both orders.
    """

    constraint: Positions
    undecided: Positions
    evidences: Evidences


@dataclass(frozen=True)
class _Asked:
    """The input that all tasks of a search share."""

    source: Source
    space: PredicateSpace
    masks: Words
    limit: int
    budget: int
    images: bool


@dataclass(frozen=True)
class _Task:
    """Blocks to search together, and the constraints to search."""

    blocks: tuple[Block, ...]
    positions: Positions


class BlockSearch:
    """Searches a table in blocks.

    Parameters
    ----------
    table, space : the table, and the space of masks.
    report : receives what is being done.
    images : whether the rows of evidences are returned with their numbers.
    """

    def __init__(
        self, table: BlockTable, space: PredicateSpace, report: Report = lambda _: None, *, images: bool = False
    ) -> None:
        self._table = table
        self._space = space
        self._report = report
        self._images = images

    def sample(self) -> Evidences:
        """Return the evidences of a sample of pairs within some blocks."""
        blocks = self._table.base.blocks
        count = min(len(blocks), max(_SAMPLED_BLOCKS, self._table.executors.cores))
        some = [blocks[i] for i in np.unique(np.linspace(0, len(blocks) - 1, count).astype(int))] if blocks else []
        self._report(f"sampling pairs of rows in {len(some):,} of {len(blocks):,} blocks")
        work = partial(_sampled, self._table.source, self._space)
        return Evidences.together(list(self._table.executors.run(work, some)), self._space)

    def find(self, masks: Words, limit: int, budget: int = UNLIMITED) -> Broken:
        """Return the violated constraints, with evidences of up to `limit` pairs for each constraint and task.

        `budget` is the number of comparisons for each row of a task.
        """
        asked = _Asked(self._table.source, self._space, masks, limit, budget, self._images)
        state = _Progress(len(masks))
        units = self._table.base.units
        few = [_Task(unit, np.arange(len(masks))) for unit in units[: self._table.executors.cores]]
        self._do(asked, [few], state)
        if len(units) > 1 and state.open.any():
            tasks = self._tasks(compared_of(masks, self._space), np.flatnonzero(state.open))
            size = _WAVES_A_CORE * self._table.executors.cores
            self._do(asked, [tasks[start : start + size] for start in range(0, len(tasks), size)], state)
        return state.result(self._space)

    def _tasks(self, compared: Sequence[Sequence[Compared]], positions: Positions) -> list[_Task]:
        """Return the tasks of a search, those with most constraints first."""
        orders = orders_of(self._table, compared, positions)
        arrangements = self._table.arranged_in(list(orders))
        blocks = sum(len(arrangement.blocks) for arrangement in arrangements)
        self._report(f"validating {len(positions):,} constraints in {blocks:,} blocks")
        found = [task for a in arrangements for task in _tasks(a, compared, orders[a.order])]
        return [task for _, task in sorted(found, key=lambda one: one[0])]

    def _do(self, asked: _Asked, waves: Sequence[Sequence[_Task]], state: "_Progress") -> None:
        for wave in waves:
            tasks = [_Task(task.blocks, state.open_among(task.positions)) for task in wave]
            for answer in self._table.executors.run(partial(_searched, asked), [t for t in tasks if len(t.positions)]):
                state.add(answer)


def _tasks(
    arrangement: Arrangement, compared: Sequence[Sequence[Compared]], positions: Positions
) -> list[tuple[tuple[int, int], _Task]]:
    """Return the tasks of an arrangement with their wave: blocks alone first, then pairs of blocks."""
    units = arrangement.units
    last = len(units) - 1 if arrangement.young else -1
    members: dict[tuple[int, int], list[int]] = {}
    for position in positions.tolist():
        meeting = arrangement.ranges.meeting(compared[position])
        with_young = {i for i, j in meeting if i < j == last}  # together with the young blocks
        for i, j in meeting:
            if i != j or i not in with_young:
                members.setdefault((i, j), []).append(position)
    return [
        ((j - i, i), _Task(units[i] if i == j else (*units[i], *units[j]), np.array(asked)))
        for (i, j), asked in members.items()
    ]


def compared_of(masks: Words, space: PredicateSpace) -> list[list[Compared]]:
    """Return the comparisons of each constraint, column pair by column pair."""
    return [
        [
            Compared(pair.left, pair.right, outcomes)
            for pair, outcomes in zip(space.pairs, forbidden, strict=True)
            if outcomes != EVERY_OUTCOME
        ]
        for forbidden in outcomes_of(masks, space).T.tolist()
    ]


# What a task does


@dataclass(frozen=True)
class _Coded:
    """The rows of some blocks as codes."""

    numbers: Positions
    codes: PairCodes
    search: ViolationSearch

    def evidences(self, pairs: Positions, space: PredicateSpace) -> Evidences:
        """Return the evidences of pairs of distinct rows, in both orders."""
        found = EvidenceSet(self.codes, space)
        both_ways(found, pairs)
        return self.of(found)

    def of(self, found: EvidenceSet) -> Evidences:
        """Return evidences with the numbers of rows."""
        words, pairs = found.entries()
        return Evidences(words, self.numbers[self.codes.table_rows(pairs)])


def _coded(source: Source, space: PredicateSpace, blocks: tuple[Block, ...]) -> _Coded:
    """Return the rows of blocks together; kept by the process while there is room."""

    def make() -> tuple[_Coded, int]:
        rows = rows_of(source.read_all(blocks), source.schema)
        codes = pair_codes(rows.table, space)
        size = codes.left.nbytes + codes.right.nbytes
        search = ViolationSearch(codes, space, most_sorted_bytes=size // _SORTED_PART)
        size += rows.numbers.nbytes + 2 * codes.first.nbytes + search.most_bytes
        return _Coded(rows.numbers, codes, search), size

    return KEPT.get(("coded", space.fingerprint, *names_of(blocks)), make, versions_of(blocks))


def _searched(asked: _Asked, task: _Task) -> Broken:
    coded = _coded(asked.source, asked.space, task.blocks)
    found = coded.search.find(asked.masks[task.positions], asked.limit, asked.budget)
    broken = task.positions[np.unique(found.constraint)]
    undecided = np.setdiff1d(task.positions[found.undecided], broken)
    evidences = coded.evidences(found.pairs, asked.space)
    if asked.images:
        evidences = with_images(evidences, asked.source.read_all(task.blocks))
    return Broken(broken, undecided, evidences)


def with_images(evidences: Evidences, rows: pa.Table) -> Evidences:
    """Add the images of the rows of evidences, as far as `rows` has them."""
    wanted = np.isin(rows.column("row").to_numpy(), evidences.rows)
    return replace(evidences, images=(rows.filter(pa.array(wanted)).combine_chunks(),))


def _sampled(source: Source, space: PredicateSpace, block: Block) -> Evidences:
    coded = _coded(source, space, (block,))
    found, rng = EvidenceSet(coded.codes, space), np.random.default_rng(1)
    variety = sample_random(found, coded.codes, rng)
    sample_neighbours(found, coded.codes, variety, rng)
    return coded.of(found)


class _Progress:
    """Which constraints are open, violated or undecided, and the evidences found so far."""

    def __init__(self, count: int) -> None:
        self.open = np.ones(count, np.bool_)
        self._undecided = np.zeros(count, np.bool_)
        self._evidences: list[Evidences] = []
        self._broken = np.zeros(count, np.bool_)

    def open_among(self, positions: Positions) -> Positions:
        """Return the constraints that are still to be searched."""
        found: Positions = positions[self.open[positions]]
        return found

    def add(self, answer: Broken) -> None:
        """Add the answer of a task."""
        self._broken[answer.constraint] = True
        self._undecided[answer.undecided] = True
        self.open[answer.constraint] = False
        self.open[answer.undecided] = False
        self._evidences.append(answer.evidences)

    def result(self, space: PredicateSpace) -> Broken:
        """Return the result of all tasks."""
        return Broken(
            np.flatnonzero(self._broken),
            np.flatnonzero(self._undecided & ~self._broken),
            Evidences.together(self._evidences, space),
        )
