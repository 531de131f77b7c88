"""Which blocks a table has that changes, and what a state stores of them.

A manifest is a value: whoever keeps a manifest can go back to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from holdfast.constraints.operators import EQUAL
from holdfast.discovery.blocks.storage.block import Block, Range, Rows
from holdfast.discovery.blocks.storage.marks import NOTHING_GONE, Gone, Marks
from holdfast.discovery.blocks.storage.ranges import rows_meeting
from holdfast.discovery.blocks.storage.table import Order
from holdfast.discovery.detection.forms import Compared
from holdfast.state import codecs
from holdfast.state.store import Reader

Run = tuple[Block, ...]

BLOCKS, MARKS = "blocks", "marks"
"""The families of a state's keys: for each block its place and ranges, and what is known of its rows that are gone."""

HEAD = b"blocks"
"""The key of the rest of the manifest."""


@dataclass(frozen=True)
class Placed:
    """A block with its arrangement (None for a young block), its run and its position in the run."""

    block: Block
    where: tuple[Order | None, int, int]


@dataclass(frozen=True)
class Manifest:
    """The blocks of a table.

    Parameters
    ----------
    runs : the runs of each arrangement, large runs first.
    young : the blocks of the rows inserted since the runs were written.
    rows : how many rows the table has.
    following : the number of the next row.
    marks : files of the numbers of rows that are gone, large files first.
    """

    runs: Mapping[Order, tuple[Run, ...]] = field(default_factory=lambda: {(): ()})
    young: Run = ()
    rows: int = 0
    following: int = 0
    marks: tuple[Marks, ...] = ()

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
        """The names of all files."""
        return {placed.block.name for placed in self.placed} | {marks.name for marks in self.marks}

    def without(self, rows: Rows, marks: tuple[Marks, ...]) -> "Manifest":
        """Return the manifest after rows were marked as gone in the last file of `marks`. O(rows) for each block."""

        def marked(order: Order, run: Run) -> Run:
            equal = [[Compared(c, c, EQUAL) for c in order]]
            return tuple(_marked(block, rows, marks[-1], equal) for block in run)

        runs = {order: tuple(marked(order, run) for run in some) for order, some in self.runs.items()}
        left = self.rows - len(rows.numbers)
        return replace(self, runs=runs, young=marked((), self.young), rows=left, marks=marks)

    def with_marks_in_use(self) -> "Manifest":
        """Return the manifest without marks that are older than every block."""
        since = min((p.block.gone.since for p in self.placed if p.block.gone.most), default=None)
        return replace(self, marks=tuple(m for m in self.marks if since is not None and m.last >= since))


def stored_blocks(store: Reader, prefix: bytes) -> set[str]:
    """Return the names of the blocks that a stored table has. O(blocks)."""
    return {key[len(prefix) :].decode() for key, _ in store.scan(BLOCKS, prefix)}


def stored_names(store: Reader, prefix: bytes) -> set[str]:
    """Return the names of the files that a stored table needs, of blocks and of marks. O(blocks)."""
    head = codecs.read_json(store.get("meta", prefix + HEAD) or b'{"marks": []}')
    marks = {name for name, *_ in head["marks"] if store.get(MARKS, prefix + name.encode()) is None}
    return stored_blocks(store, prefix) | marks


def record_of(placed: Placed) -> bytes:
    """Return what a state stores of a block."""
    block, (order, run, place) = placed.block, placed.where
    about = {"order": None if order is None else list(order), "run": run, "place": place}
    about |= {"rows": block.rows, "size": block.size, "first": block.first, "last": block.last}
    return codecs.json_bytes({**about, "ranges": [[r.low, r.high] for r in block.ranges]})


def read_record(name: str, record: bytes, about_gone: bytes | None) -> Placed:
    """Return a block as a state has stored it, and its rows that are gone."""
    about = codecs.read_json(record)
    ranges = tuple(Range(low, high) for low, high in about["ranges"])
    gone = NOTHING_GONE if about_gone is None else Gone(*codecs.read_json(about_gone))
    block = Block(name, about["rows"], about["size"], ranges, about["first"], about["last"], gone)
    order = about["order"]
    return Placed(block, (None if order is None else tuple(order), about["run"], about["place"]))


def _marked(block: Block, rows: Rows, last: Marks, equal: Sequence[Sequence[Compared]]) -> Block:
    """Return a block after rows were marked as gone, of which it may have some by their numbers and by its order."""
    near = np.flatnonzero((rows.numbers >= block.first) & (rows.numbers <= block.last))
    if len(near) and equal[0]:
        near = near[rows_meeting(rows.table.taken(near), block, equal)]
    if not len(near):
        return block
    most = min(block.gone.most + len(near), block.rows)
    return replace(block, gone=Gone(most, block.gone.since or last.last, last.name))
