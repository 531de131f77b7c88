"""A table in blocks that changes: inserted rows are young blocks, deleted rows are marks that all arrangements share.

    young     the blocks of the last batches: each belongs to every arrangement
    runs      of each arrangement: sorted blocks, in runs each of which is more than twice as large as the next run
    marks     the numbers of deleted rows; blocks that may have such rows know since when, and how many

Many young blocks are sorted into a new run of every arrangement, together with the last runs that are not larger: so a
row is written again as often as the table doubles. Blocks with many deleted rows are rewritten, and so are blocks that
only old marks are kept for, where there are many marks; arrangements that were not used since are dropped.

Invariant: every arrangement, young blocks included, has every live row exactly once among the rows that are not marked;
marks have every row that was deleted since its block was written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np

from holdfast.constraints import Schema
from holdfast.discovery.blocks.executors import Executors, InProcess
from holdfast.discovery.blocks.storage.block import Block, Rows, carried, write_block
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.manifest import (
    BLOCKS,
    HEAD,
    MARKS,
    Manifest,
    Placed,
    Run,
    read_record,
    record_of,
)
from holdfast.discovery.blocks.storage.marks import NOTHING_GONE, Marks, with_more
from holdfast.discovery.blocks.storage.table import Arrangement, BlockTable, Order, Report, Source
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.tables import Table
from holdfast.tables.arrays import RowNumbers

_MOST_YOUNG = 8
_MOST_MARKED = 16
_MOST_MARKS = 8
_SORTED_BY_ONE = 4
_FEW = 8
_HERE = InProcess()


class LiveBlocks:
    """The rows of a table that changes.

    Parameters
    ----------
    source : where blocks are.
    executors : where tasks run, once there are more than a few rows.
    manifest : the blocks.
    kept : an arrangement that is never dropped.
    """

    def __init__(self, source: Source, executors: Executors, manifest: Manifest, kept: Order = ()) -> None:
        self.kept = kept
        self._source = source
        self._executors = executors
        self._known = manifest.names
        self._asked: set[Order] = set()
        self._manifest = manifest
        self._saved: dict[str, Placed] = {}
        self._carried: tuple[str, ...] = ()
        self._measured: BlockTable | None = None
        self._measured_at = 0, 0
        self.report: Report = lambda _: None

    @classmethod
    def of(cls, table: BlockTable, kept: Order = ()) -> "LiveBlocks":
        """Return the blocks of a table as a table that changes, with its arrangements."""
        runs = {order: (arrangement.blocks,) for order, arrangement in table.arrangements.items()}
        following = max((block.last for block in table.base.blocks), default=-1) + 1
        source = replace(table.source, marks=())
        return cls(source, table.executors, Manifest(runs, (), table.row_count, following), kept)

    @property
    def source(self) -> Source:
        """Where blocks and marks are."""
        return replace(self._source, marks=self._manifest.marks)

    @property
    def manifest(self) -> Manifest:
        """The blocks."""
        return self._manifest

    @manifest.setter
    def manifest(self, manifest: Manifest) -> None:
        self._known |= manifest.names
        self._manifest = manifest

    @property
    def executors(self) -> Executors:
        """Where tasks run: in this process while there are few rows."""
        return executors_for(self._manifest.rows, self._source.most, self._executors)

    def table(self, *, but_last: bool = False) -> "LiveTable":
        """Return the present rows, valid until the next change; with `but_last` without the rows inserted last."""
        young = self._manifest.young
        return LiveTable(self, young[:-1] if but_last else young)

    def leave(self, rows: Rows) -> None:
        """Delete rows."""
        if len(rows.numbers):
            marks = with_more(self._source.storage, self._manifest.marks, rows.numbers)
            self.manifest = self._manifest.without(rows, marks)

    def enter(self, table: Table) -> RowNumbers:
        """Insert rows, and return their numbers."""
        before = self._manifest
        numbers = np.arange(before.following, before.following + table.row_count)
        if table.row_count:
            block = write_block(self.source.storage.open(), carried(Rows(numbers, table)), table.schema)
            rows, following = before.rows + table.row_count, before.following + table.row_count
            self.manifest = replace(before, young=(*before.young, block), rows=rows, following=following)
        return numbers

    def empty(self) -> None:
        """Delete all rows."""
        runs: dict[Order, tuple[Run, ...]] = dict.fromkeys(self._manifest.runs, ())
        self.manifest = replace(self._manifest, runs=runs, young=(), rows=0, marks=())

    def arranged_in(self, orders: Sequence[Order]) -> list[Run]:
        """Return the sorted blocks of arrangements; new arrangements are sorted now."""
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
        """The table at the last measurement: for its sample, and the frequencies of values."""
        if self._measured is None:
            measured = BlockTable(self.source, self._all(), self.executors)
            assert len(measured.heaviest) == len(self.source.schema)  # computed now, while its blocks exist
            self._measured, self._measured_at = measured, (self._manifest.rows, self._manifest.following)
        return self._measured

    def settle(self) -> None:
        """Sort young blocks and rewrite blocks with many marks, if there are enough. Amortised O(log n) a row."""
        young = self._manifest.young
        if len(young) > _MOST_YOUNG or sum(block.rows for block in young) > self.source.most:
            self._fold()
        self._rewrite()
        self.manifest = self._manifest.with_marks_in_use()

    # Storing

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield changes since the last save, or everything."""
        batch = WriteBatch()
        if everything:
            self._saved, self._carried = {}, ()
        now = {placed.block.name: placed for placed in self._manifest.placed}
        for name in self._saved.keys() - now.keys():
            batch.delete(BLOCKS, prefix + name.encode())
            batch.delete(MARKS, prefix + name.encode())
        for name, placed in now.items():
            before = self._saved.get(name)
            if before is None or before.where != placed.where:
                batch.put(BLOCKS, prefix + name.encode(), record_of(placed))
            gone = placed.block.gone
            if gone != (NOTHING_GONE if before is None else before.block.gone):
                batch.put(MARKS, prefix + name.encode(), codecs.json_bytes(astuple(gone)))
        for name in self._carried:
            batch.delete(MARKS, prefix + name.encode())
        self._saved, self._carried = now, ()
        head = {"orders": list(self._manifest.runs), "rows": self._manifest.rows, "most": self._source.most}
        head |= {"following": self._manifest.following, "kept": self.kept}
        head |= {"marks": [astuple(marks) for marks in self._manifest.marks]}
        batch.put("meta", prefix + HEAD, codecs.json_bytes(head))
        yield batch

    @staticmethod
    def are_stored(store: Reader, prefix: bytes) -> bool:
        """Whether a store has blocks of a table."""
        return store.get("meta", prefix + HEAD) is not None

    @classmethod
    def restore(
        cls, store: Reader, prefix: bytes, storage: Storage, schema: Schema, executors: Executors
    ) -> "LiveBlocks":
        """Return the table that was saved."""
        head = codecs.read_json(store.get("meta", prefix + HEAD) or b"{}")
        marks = tuple(Marks(*some) for some in head["marks"])
        carried = tuple(one.name for one in marks if store.get(MARKS, prefix + one.name.encode()) is not None)
        for name in carried:
            storage.open().put(name, store.get(MARKS, prefix + name.encode()) or b"")
        runs: dict[Order, dict[int, dict[int, Block]]] = {tuple(order): {} for order in head["orders"]}
        young: dict[int, Block] = {}
        saved = {}
        for key, value in store.scan(BLOCKS, prefix):
            name = key[len(prefix) :].decode()
            placed = read_record(name, value, store.get(MARKS, key))
            order, run, place = placed.where
            (young if order is None else runs[order].setdefault(run, {}))[place] = placed.block
            saved[name] = placed
        made = cls(
            Source(storage, schema, head["most"]),
            executors,
            Manifest(
                {order: tuple(_in_order(run) for run in _in_order(some)) for order, some in runs.items()},
                _in_order(young),
                head["rows"],
                head["following"],
                marks,
            ),
            tuple(head["kept"]),
        )
        made._saved, made._carried = saved, carried
        return made

    def retired(self) -> set[str]:
        """Return the names of files that became unused since the last call."""
        now = self._manifest.names
        gone, self._known = self._known - now, now
        return gone

    # Sorting

    def _all(self) -> list[Block]:
        return [*chain.from_iterable(self._manifest.runs[()]), *self._manifest.young]

    def _fold(self) -> None:
        """Sort the young blocks into all arrangements in use, with the last runs that are not larger."""
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
        """Whether a quarter of the measured number of rows was inserted, or a quarter was deleted."""
        (rows, following), now = self._measured_at, self._manifest
        return 4 * (now.following - following) >= rows or 4 * now.rows <= 3 * rows

    def _rewrite(self) -> None:
        """Rewrite blocks of which many rows are gone."""
        before = self._manifest
        heavy = [placed.block for placed in before.placed if self._is_heavy(placed.block)]
        if not heavy:
            return
        written = dict(
            zip((b.name for b in heavy), self._in_turn(partial(_rewritten, self.source), heavy), strict=True)
        )

        def renewed(run: Run) -> Run:
            return tuple(chain.from_iterable(written.get(block.name, (block,)) for block in run))

        left = {order: tuple(new for run in runs if (new := renewed(run))) for order, runs in before.runs.items()}
        self.manifest = replace(before, runs=left, young=renewed(before.young))

    def _is_heavy(self, block: Block) -> bool:
        """Whether many rows of a block are gone, or many marks are kept for it."""
        marks, rows = self._manifest.marks, self._manifest.rows
        are_many = sum(some.count for some in marks) * _MOST_MARKS > rows
        is_old = bool(block.gone.most) and block.gone.since <= marks[0].last
        return block.gone.most * _MOST_MARKED > block.rows or (are_many and is_old)

    def _in_turn(self, work: Any, tasks: Sequence[Any]) -> list[Run]:
        """Return the answers to tasks in the order of the tasks."""
        answers = dict(self.executors.run(partial(_numbered, work), list(enumerate(tasks))))
        return [answers[number] for number in range(len(tasks))]


def executors_for(rows: int, most: int, executors: Executors) -> Executors:
    """Return where tasks on a table with `rows` rows in blocks of `most` run: in this process if there are few."""
    return _HERE if rows * _FEW <= most else executors


class LiveTable(BlockTable):
    """The present rows of a table that changes.

    Parameters
    ----------
    live : the table.
    young : the young blocks to include.
    """

    def __init__(self, live: LiveBlocks, young: Run) -> None:
        base = (*chain.from_iterable(live.manifest.runs[()]), *young)
        super().__init__(live.source, base, live.executors, live.report)
        self.arrangements[()] = Arrangement((), base, self.schema, len(young))
        self.row_count = live.manifest.rows
        self._live = live
        self._young = young

    def arranged_in(self, orders: Sequence[Order]) -> list[Arrangement]:
        """Return the rows in several orders, young blocks at the end."""
        new = [order for order in orders if order not in self.arrangements]
        for order, run in zip(new, self._live.arranged_in(new), strict=True):
            self.arrangements[order] = Arrangement(order, (*run, *self._young), self.schema, len(self._young))
        return [self.arrangements[order] for order in orders]

    @cached_property
    def orders(self) -> frozenset[Order]:
        """The existing orders."""
        return frozenset(self._live.manifest.runs)

    @property
    def heaviest(self) -> list[float]:  # measured rarely, not for each change
        """For each column the share of rows with its most frequent value, estimated from a sample."""
        return self._live.measured.heaviest


def _rows(blocks: Sequence[Block]) -> int:
    return sum(block.rows for block in blocks)


def _in_order(found: Mapping[int, Any]) -> tuple[Any, ...]:
    return tuple(found[place] for place in sorted(found))


# Tasks


def _numbered(work: Any, task: tuple[int, Any]) -> tuple[int, Any]:
    number, what = task
    return number, work(what)


def _sorted_run(source: Source, task: tuple[Order, Run]) -> Run:
    order, blocks = task
    return tuple(source.write_sorted(source.read_all(blocks), order))


def _rewritten(source: Source, block: Block) -> Run:
    rows = source.read(block)
    return (write_block(source.storage.open(), rows, source.schema),) if len(rows) else ()
