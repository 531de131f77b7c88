"""All pairs of rows in blocks that break a rule, of any number: tasks write them to files, which are read in turn.

The rows of a pair are in one block, or in two blocks that are checked together, t in either block. A few tasks run at a
time, so that the files that wait to be read are few.

Invariant: every violating pair is listed once; this process and each task have the pairs of one file in memory at most.
"""

import secrets
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from holdfast.discovery.blocks.counting.looking import BlocksTask, RuleRequest, looked_at
from holdfast.discovery.blocks.storage.location import bytes_of
from holdfast.discovery.blocks.storage.packing import packed, unpacked
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.discovery.detection.forms import PairForm
from holdfast.discovery.detection.listing import lists, pairs
from holdfast.state.places import Place
from holdfast.tables.arrays import Pairs

_PAIRS_A_FILE = 1 << 21


def listed(table: BlockTable, form: PairForm, tasks: Sequence[BlocksTask], at_once: int) -> Iterator[Pairs]:
    """Yield (m, 2) row numbers of pairs that break a rule, at most `at_once` at a time, from the blocks of tasks."""
    place, size = table.source.storage.open(), table.executors.cores
    for start in range(0, len(tasks), size):
        for names in table.executors.run(partial(_written, table.source, form), tasks[start : start + size]):
            for name in names:
                found = _read(place, name)
                place.remove([name])
                for first in range(0, len(found), at_once):
                    yield found[first : first + at_once]


def _written(source: Source, form: PairForm, task: BlocksTask) -> list[str]:
    """Write the pairs of a task, and return the names of the files."""
    looked, place = looked_at(RuleRequest(source, {0: form}, 1), task), source.storage.open()
    is_first = np.arange(len(looked.numbers)) < looked.ends[1]
    sides = [(is_first, is_first)] if len(task.units) == 1 else [(is_first, ~is_first), (~is_first, is_first)]
    names = []
    for t_among, s_among in sides:
        for some in pairs(lists(looked.columns, looked.grouping, form, t_among, s_among), _PAIRS_A_FILE):
            names.append(secrets.token_hex(16))
            left, right = looked.numbers[some].T
            rows = pa.table({"left": left, "right": right})
            place.put(names[-1], packed(rows))
    return names


def _read(place: Place, name: str) -> Pairs:
    until = "a check goes on. Name another one, and start again"
    data = bytes_of(place, name, "pairs that an executor wrote are", until)
    return np.column_stack([column.to_numpy() for column in unpacked(data).columns])
