"""The threads of indexes: shared by all of them, and what is measured in them adds up."""

import threading
import time
from itertools import count

import numpy as np
import pytest

from holdfast.constraints import Column, PredicateSpace, Schema
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME
from holdfast.constraints.types import INTEGER
from holdfast.indexes import counting_index
from holdfast.indexes.counting_index import CountingIndex
from holdfast.indexes.rows import RowSet
from holdfast.indexes.table_index import TableIndex
from holdfast.indexes.threads import mapped

_SPACE = PredicateSpace(Schema("t", (Column("a", INTEGER), Column("b", INTEGER))), ())


@pytest.fixture
def rows() -> RowSet:
    found = RowSet(_SPACE)
    found.change(np.array([[i, i % 7] for i in range(2_000)], np.int32), np.ones(2_000, np.int64))
    return found


def test_many_indexes_have_few_threads(rows: RowSet) -> None:
    boxes = np.array([[EVERY_OUTCOME, EQUAL]], np.int8)
    kept = [TableIndex(rows, 2), CountingIndex(rows, _SPACE, boxes, threads=2)]
    before = threading.active_count()
    for _ in range(20):
        kept += [TableIndex(rows, 2), CountingIndex(rows, _SPACE, boxes, threads=2)]
    assert threading.active_count() == before


def test_the_seconds_of_all_parts_are_added_up(rows: RowSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """One second by the clock for each part, however the threads that look at it take turns."""
    index = CountingIndex(rows, _SPACE, np.array([[EVERY_OUTCOME, EQUAL]], np.int8), threads=4)
    mine = threading.local()

    def clock() -> float:
        time.sleep(0.001)  # another thread goes on between reading the clock and adding
        mine.ticks = getattr(mine, "ticks", None) or count()
        return float(next(mine.ticks))

    monkeypatch.setattr(counting_index, "_ROWS_A_PART", 20)
    monkeypatch.setattr(time, "perf_counter", clock)
    counts, seconds = index.count(rows.live(), [0])[0]
    assert seconds == 100
    assert counts.tolist() == [2_000 // 7 + (i % 7 < 2_000 % 7) for i in range(2_000)]


@pytest.mark.parametrize("threads", [1, 3])
def test_work_has_ended_when_one_task_fails(threads: int) -> None:
    under_way = []

    def work(task: int) -> int:
        under_way.append(task)
        time.sleep(0.01)
        if task == 1:
            raise ValueError(task)
        under_way.remove(task)
        return task * task

    assert mapped(threads, work, [2, 3, 4]) == [4, 9, 16]
    with pytest.raises(ValueError, match="1"):
        mapped(threads, work, range(50))
    assert under_way == [1]
