"""The rows of blocks that rules are checked on together, as one table.

Invariant: tables that a process keeps have a version that depends on the marks of their blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from holdfast.discovery.blocks.storage.block import Block, names_of, rows_of, versions_of
from holdfast.discovery.blocks.storage.location import KEPT
from holdfast.discovery.blocks.storage.table import Source
from holdfast.discovery.detection.check import Example
from holdfast.discovery.detection.columns import TableColumns
from holdfast.discovery.detection.examples import some_pairs
from holdfast.discovery.detection.forms import PairForm, RowForm
from holdfast.discovery.detection.grouping import Grouping
from holdfast.tables.arrays import Flags

_COPIES_OF_ROWS = 4


@dataclass(frozen=True)
class RuleRequest:
    """The input that all tasks of a count share."""

    source: Source
    forms: Mapping[int, PairForm | RowForm]
    parts: int


@dataclass(frozen=True)
class BlocksTask:
    """Units of blocks to check together, by their positions in an arrangement, and the rules to check."""

    places: tuple[int, ...]
    units: tuple[tuple[Block, ...], ...]
    rules: tuple[int, ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of all units."""
        return tuple(chain.from_iterable(self.units))


class Looked:
    """Rows of some blocks, read into one table, in which violations of rules are looked for."""

    def __init__(self, source: Source, task: BlocksTask, forms: Mapping[int, PairForm | RowForm]) -> None:
        read = [source.read_all(unit) for unit in task.units]
        rows = rows_of(pa.concat_tables(read), source.schema)
        self.ends = np.cumsum([0, *map(len, read)]).tolist()
        self.numbers = rows.numbers
        self.table = rows.table
        self.columns = TableColumns(rows.table)
        self.grouping = Grouping(self.columns, [form for form in forms.values() if isinstance(form, PairForm)])

    def some(self, form: PairForm | RowForm, most: int, among: Flags | None = None) -> list[tuple[int, ...]]:
        """Return a few violations by row positions, by default among all rows."""
        if isinstance(form, RowForm):
            broken = self.columns.passing_any(form.alternatives)
            return [(row,) for row in np.flatnonzero(broken if among is None else broken & among)[:most].tolist()]
        return list(some_pairs(self.columns, self.grouping, form, most, among, among))

    def example(self, rows: Sequence[int]) -> Example:
        """Return the violation of these row positions."""
        some = [int(row) for row in rows]
        return Example(tuple(int(self.numbers[row]) for row in some), images=tuple(self.table.rows(some)))


def looked_at(asked: RuleRequest, task: BlocksTask) -> Looked:
    """Return the rows of a task; kept by the process while there is room."""

    def make() -> tuple[Looked, int]:
        size = sum(block.size for block in task.blocks)
        return Looked(asked.source, task, asked.forms), _COPIES_OF_ROWS * size

    what = ("looked", *(names_of(unit) for unit in task.units))
    return KEPT.get(what, make, versions_of(task.blocks))
