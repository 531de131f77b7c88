"""A table in blocks that changes: what enters is a young block, what leaves is a mark on the blocks that may have it.

    young     the blocks of the last batches, as they came: each belongs to every arrangement
    runs      of each arrangement: sorted blocks, in runs of which each is more than twice as large as the one after it

Where young blocks are many they are sorted into a run of every arrangement, together with the last runs, as far as
these are of its size: so a row is written again as often as the table doubles. Blocks with many marks are written
anew, and arrangements that nobody asked for since are given up.

Invariant: every arrangement, young blocks included, has every live row exactly once among the rows that are not marked.
A manifest is a value: whoever keeps one can go back to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.constraints import Schema
from holdfast.constraints.operators import EQUAL
from holdfast.discovery.blocks.block import Block, Range, RowNumbers, Rows, carried, write_block
from holdfast.discovery.blocks.executors import Executors, InProcess
from holdfast.discovery.blocks.ranges import rows_meeting
from holdfast.discovery.blocks.storage import Storage
from holdfast.discovery.blocks.table import Arrangement, BlockTable, Order, Report, Source
from holdfast.discovery.detection.forms import Compared
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.tables import Table

Run = tuple[Block, ...]

BLOCKS, MARKS = "blocks", "marks"
"""What a state has of blocks: where each is, and the numbers of its rows that are gone."""

_HEAD = b"blocks"
_MOST_YOUNG = 8
_MOST_MARKED = 16
_SORTED_BY_ONE = 4
_FEW = 8
_HERE = InProcess()


@dataclass(frozen=True)
class Placed:
    """A block with its arrangement, which a young one has not, its run and its place in it."""

    block: Block
    where: tuple[Order | None, int, int]


@dataclass(frozen=True)
class _Saved:
    """How a block is stored: where, and with which saves its marks were."""

    placed: Placed | None = None
    saves: tuple[int, ...] = ()

    @property
    def gone(self) -> bytes:
        return b"" if self.placed is None else self.placed.block.gone


_UNSAVED = _Saved()


@dataclass(frozen=True)
class Manifest:
    """The blocks of a table.

    Parameters
    ----------
    runs : of each arrangement, the large ones first.
    young : what came since they were written.
    rows : how many rows the table has.
    following : the number of the next row.
    """

    runs: Mapping[Order, tuple[Run, ...]] = field(default_factory=lambda: {(): ()})
    young: Run = ()
    rows: int = 0
    following: int = 0

    @property
    def placed(self) -> Iterator["Placed"]:
        """Every block once."""
        for order, runs in self.runs.items():
            for r, run in enumerate(runs):
                for place, block in enumerate(run):
                    yield Placed(block, (order, r, place))
        for place, block in enumerate(self.young):
            yield Placed(block, (None, 0, place))

    @property
    def names(self) -> set[str]:
        """The names of all blocks."""
        return {placed.block.name for placed in self.placed}

    def without(self, rows: Rows) -> "Manifest":
        """Mark rows as gone in all blocks that may have them. O(rows) for each block."""

        def marked(order: Order, run: Run) -> Run:
            equal = [[Compared(c, c, EQUAL) for c in order]]
            return tuple(_marked(block, rows, equal) for block in run)

        runs = {order: tuple(marked(order, run) for run in some) for order, some in self.runs.items()}
        left = self.rows - len(rows.numbers)
        return replace(self, runs=runs, young=marked((), self.young), rows=left)


class LiveBlocks:
    """The rows of a table that changes.

    Parameters
    ----------
    source : where blocks are.
    executors : where tasks run, once there are more than a few rows.
    manifest : which blocks there are.
    kept : an arrangement that is never given up.
    """

    def __init__(self, source: Source, executors: Executors, manifest: Manifest, kept: Order = ()) -> None:
        self.source = source
        self.kept = kept
        self._executors = executors
        self._known = manifest.names
        self._asked: set[Order] = set()
        self._manifest = manifest
        self._saved: dict[str, _Saved] = {}
        self._saves = 0
        self._measured: BlockTable | None = None
        self._measured_at = 0, 0
        self.report: Report = lambda _: None

    @classmethod
    def of(cls, table: BlockTable, kept: Order = ()) -> "LiveBlocks":
        """Take the blocks of a table over, with the arrangements that it has."""
        runs = {order: (arrangement.blocks,) for order, arrangement in table.arrangements.items()}
        following = max((block.last for block in table.base.blocks), default=-1) + 1
        return cls(table.source, table.executors, Manifest(runs, (), table.row_count, following), kept)

    @property
    def manifest(self) -> Manifest:
        """Which blocks there are."""
        return self._manifest

    @manifest.setter
    def manifest(self, manifest: Manifest) -> None:
        self._known |= manifest.names
        self._manifest = manifest

    @property
    def executors(self) -> Executors:
        """Where tasks run: in this process, while rows are so few that others would begin later than it ends."""
        return _HERE if self._manifest.rows * _FEW <= self.source.most else self._executors

    @property
    def row_count(self) -> int:
        """How many rows the table has."""
        return self._manifest.rows

    def table(self, *, but_last: bool = False) -> "LiveTable":
        """Return the rows as they are now, until the next change; without those that entered last, if that is said."""
        young = self._manifest.young
        return LiveTable(self, young[:-1] if but_last else young)

    def leave(self, rows: Rows) -> None:
        """Let rows go."""
        if len(rows.numbers):
            self.manifest = self._manifest.without(rows)

    def enter(self, table: Table) -> RowNumbers:
        """Take rows in, and return their numbers."""
        before = self._manifest
        numbers = np.arange(before.following, before.following + table.row_count)
        if table.row_count:
            block = write_block(self.source.storage.open(), carried(Rows(numbers, table)), table.schema)
            rows, following = before.rows + table.row_count, before.following + table.row_count
            self.manifest = replace(before, young=(*before.young, block), rows=rows, following=following)
        return numbers

    def empty(self) -> None:
        """Let all rows go."""
        self.manifest = replace(self._manifest, runs=dict.fromkeys(self._manifest.runs, ()), young=(), rows=0)

    def arranged_in(self, orders: Sequence[Order]) -> list[Run]:
        """Return the sorted blocks of some arrangements; made now, where nobody asked for them before."""
        self._asked.update(orders)
        new = [order for order in orders if order not in self._manifest.runs]
        if new:
            base = list(chain.from_iterable(self._manifest.runs[()]))
            made = BlockTable(self.source, base, self.executors, self.report).sorted_by(new)
            runs = {order: (tuple(blocks),) if blocks else () for order, blocks in made.items()}
            self.manifest = replace(self._manifest, runs={**self._manifest.runs, **runs})
        return [tuple(chain.from_iterable(self._manifest.runs[order])) for order in orders]

    @property
    def measured(self) -> BlockTable:
        """The table as it was when it was measured last: for its sample, and how frequent values are."""
        if self._measured is None:
            measured = BlockTable(self.source, self._all(), self.executors)
            assert len(measured.heaviest) == len(self.source.schema)  # taken now, while its blocks are there
            self._measured, self._measured_at = measured, (self._manifest.rows, self._manifest.following)
        return self._measured

    def settle(self) -> None:
        """Bring young blocks, and those with many marks, into order, where it is time. Amortised O(log n) a row."""
        young = self._manifest.young
        if len(young) > _MOST_YOUNG or sum(block.rows for block in young) > self.source.most:
            self._fold()
        self._rewrite()

    # What is stored

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since it was last saved, or everything."""
        batch = WriteBatch()
        if everything:
            self._saved = {}
        now = {placed.block.name: placed for placed in self._manifest.placed}
        for name in self._saved.keys() - now.keys():
            batch.delete(BLOCKS, prefix + name.encode())
            for save in self._saved.pop(name).saves:
                batch.delete(MARKS, prefix + name.encode() + codecs.number(save))
        self._saves += 1
        for name, placed in now.items():
            before = self._saved.get(name, _UNSAVED)
            if before.placed is None or before.placed.where != placed.where:
                batch.put(BLOCKS, prefix + name.encode(), _record(placed))
            if placed.block.gone != before.gone:
                marks = np.setdiff1d(placed.block.gone_numbers, np.frombuffer(before.gone, np.int64))
                batch.put(MARKS, prefix + name.encode() + codecs.number(self._saves), codecs.codes(marks))
                before = replace(before, saves=(*before.saves, self._saves))
            self._saved[name] = replace(before, placed=placed)
        orders = [list(order) for order in self._manifest.runs]
        head = {"rows": self._manifest.rows, "following": self._manifest.following, "orders": orders}
        head |= {"kept": list(self.kept), "saves": self._saves, "most": self.source.most}
        batch.put("meta", prefix + _HEAD, codecs.json_bytes(head))
        yield batch

    @staticmethod
    def are_stored(store: Reader, prefix: bytes) -> bool:
        """Whether a store has blocks of a table."""
        return store.get("meta", prefix + _HEAD) is not None

    @classmethod
    def restore(
        cls, store: Reader, prefix: bytes, storage: Storage, schema: Schema, executors: Executors
    ) -> "LiveBlocks":
        """Take over what was saved."""
        head = codecs.read_json(store.get("meta", prefix + _HEAD) or b"{}")
        source = Source(storage, schema, head["most"])
        gone: dict[str, list[RowNumbers]] = {}
        saves: dict[str, tuple[int, ...]] = {}
        for key, value in store.scan(MARKS, prefix):
            name = key[len(prefix) : -8].decode()
            gone.setdefault(name, []).append(codecs.read_codes(value))
            saves[name] = (*saves.get(name, ()), codecs.read_number(key))
        runs: dict[Order, dict[int, dict[int, Block]]] = {tuple(order): {} for order in head["orders"]}
        young: dict[int, Block] = {}
        saved = {}
        for key, value in store.scan(BLOCKS, prefix):
            name = key[len(prefix) :].decode()
            marks = np.unique(np.concatenate(gone[name])).tobytes() if name in gone else b""
            placed = _read_record(name, value, marks)
            order, run, place = placed.where
            (young if order is None else runs[order].setdefault(run, {}))[place] = placed.block
            saved[name] = _Saved(placed, saves.get(name, ()))
        made = cls(
            source,
            executors,
            Manifest(
                {order: tuple(_in_order(run) for run in _in_order(some)) for order, some in runs.items()},
                _in_order(young),
                head["rows"],
                head["following"],
            ),
            tuple(head["kept"]),
        )
        made._saved, made._saves = saved, head["saves"]
        return made

    def retired(self) -> set[str]:
        """Return the names of files that nothing refers to any more, once."""
        now = self._manifest.names
        gone, self._known = self._known - now, now
        return gone

    def check_invariants(self) -> None:
        """Assert what the class promises. O(n) for each arrangement."""
        base = self.source.read_all(self._all())
        numbers = base.column("row").to_numpy()
        assert len(np.unique(numbers)) == len(numbers) == self._manifest.rows
        assert (numbers < self._manifest.following).all()
        in_order = _by_number(base)
        for order in self._manifest.runs:
            assert _by_number(self.source.read_all(self.table().arranged(order).blocks)) == in_order, order
        for block in self._manifest.placed:
            assert self.source.storage.open().size(block.block.name) is not None

    # How it is kept in order

    def _all(self) -> list[Block]:
        return [*chain.from_iterable(self._manifest.runs[()]), *self._manifest.young]

    def _fold(self) -> None:
        """Sort the young blocks into all arrangements that somebody wants, with the last runs that are not larger."""
        before = self._manifest
        wanted = [order for order in before.runs if order in self._asked | {(), self.kept}]
        taken: dict[Order, list[Block]] = {}
        left: dict[Order, list[Run]] = {}
        for order in wanted:
            runs, some = list(before.runs[order]), list(before.young)
            while runs and _rows(runs[-1]) <= 2 * _rows(some) and (order or _rows(some) < self.source.most):
                some = [*runs.pop(), *some]
            taken[order], left[order] = some, runs
        self.report(f"sorting {_rows(before.young):,} rows into {len(wanted):,} arrangements")
        few = [order for order in wanted if not order or _rows(taken[order]) <= _SORTED_BY_ONE * self.source.most]
        made = dict(
            zip(few, self._in_turn(partial(_sorted_run, self.source), [(o, tuple(taken[o])) for o in few]), strict=True)
        )
        for order in wanted:
            if order not in made:
                large = BlockTable(self.source, taken[order], self.executors, self.report)
                made[order] = tuple(large.sorted_by([order])[order])
        folded = {order: tuple(run for run in (*left[order], made[order]) if run) for order in wanted}
        self.manifest = replace(before, runs=folded, young=())
        self._asked = set()
        if self._is_another_table:
            self._measured = None

    @property
    def _is_another_table(self) -> bool:
        """Whether a quarter as many rows came, or a quarter of them went, since it was measured."""
        (rows, following), now = self._measured_at, self._manifest
        return 4 * (now.following - following) >= rows or 4 * now.rows <= 3 * rows

    def _rewrite(self) -> None:
        """Write blocks anew of which many rows are gone."""
        before = self._manifest
        heavy = [p.block for p in before.placed if len(p.block.gone) // 8 * _MOST_MARKED > p.block.rows]
        if not heavy:
            return
        written = dict(
            zip((b.name for b in heavy), self._in_turn(partial(_rewritten, self.source), heavy), strict=True)
        )

        def renewed(run: Run) -> Run:
            return tuple(chain.from_iterable(written.get(block.name, (block,)) for block in run))

        left = {order: tuple(new for run in runs if (new := renewed(run))) for order, runs in before.runs.items()}
        self.manifest = replace(before, runs=left, young=renewed(before.young))

    def _in_turn(self, work: Any, tasks: Sequence[Any]) -> list[Run]:
        """Return the answers to some tasks in the order of these."""
        answers = dict(self.executors.run(partial(_numbered, work), list(enumerate(tasks))))
        return [answers[number] for number in range(len(tasks))]


class LiveTable(BlockTable):
    """The rows of a table that changes, as they are now.

    Parameters
    ----------
    live : keeps the arrangements.
    young : the young blocks that belong to it.
    """

    def __init__(self, live: LiveBlocks, young: Run) -> None:
        base = (*chain.from_iterable(live.manifest.runs[()]), *young)
        super().__init__(live.source, base, live.executors, live.report)
        self.arrangements[()] = Arrangement((), base, self.schema, len(young))
        self.row_count = live.row_count
        self._live = live
        self._young = young

    def arranged_in(self, orders: Sequence[Order]) -> list[Arrangement]:
        """Return the rows in several orders, those that came last behind the others."""
        new = [order for order in orders if order not in self.arrangements]
        for order, run in zip(new, self._live.arranged_in(new), strict=True):
            self.arrangements[order] = Arrangement(order, (*run, *self._young), self.schema, len(self._young))
        return [self.arrangements[order] for order in orders]

    @cached_property
    def orders(self) -> frozenset[Order]:
        """The orders that rows are sorted in already."""
        return frozenset(self._live.manifest.runs)

    @property
    def heaviest(self) -> list[float]:  # (measured now and then, not for each change)
        """For each column the share of rows that its most frequent value has, as far as a sample shows."""
        return self._live.measured.heaviest


def stored_names(store: Reader, prefix: bytes) -> set[str]:
    """Return the names of the blocks that a stored table has. O(blocks)."""
    return {key[len(prefix) :].decode() for key, _ in store.scan(BLOCKS, prefix)}


def _marked(block: Block, rows: Rows, equal: Sequence[Sequence[Compared]]) -> Block:
    """Mark those of some rows in a block that it may have, by its numbers and the columns that it is sorted by."""
    near = np.flatnonzero((rows.numbers >= block.first) & (rows.numbers <= block.last))
    if len(near) and equal[0]:
        near = near[rows_meeting(rows.table.taken(near), block, equal)]
    return block.without(rows.numbers[near])


def _rows(blocks: Sequence[Block]) -> int:
    return sum(block.rows for block in blocks)


def _in_order(found: Mapping[int, Any]) -> tuple[Any, ...]:
    return tuple(found[place] for place in sorted(found))


def _record(placed: Placed) -> bytes:
    block, (order, run, place) = placed.block, placed.where
    about = {"order": None if order is None else list(order), "run": run, "place": place}
    about |= {"rows": block.rows, "size": block.size, "first": block.first, "last": block.last}
    return codecs.json_bytes({**about, "ranges": [[r.low, r.high] for r in block.ranges]})


def _read_record(name: str, record: bytes, gone: bytes) -> Placed:
    about = codecs.read_json(record)
    ranges = tuple(Range(low, high) for low, high in about["ranges"])
    block = Block(name, about["rows"], about["size"], ranges, about["first"], about["last"], gone)
    order = about["order"]
    return Placed(block, (None if order is None else tuple(order), about["run"], about["place"]))


def _by_number(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


# What a task does


def _numbered(work: Any, task: tuple[int, Any]) -> tuple[int, Any]:
    number, what = task
    return number, work(what)


def _sorted_run(source: Source, task: tuple[Order, Run]) -> Run:
    order, blocks = task
    return tuple(source.write_sorted(source.read_all(blocks), order))


def _rewritten(source: Source, block: Block) -> Run:
    rows = source.read(block)
    return (write_block(source.storage.open(), rows, source.schema),) if len(rows) else ()
