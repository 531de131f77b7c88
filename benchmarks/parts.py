"""What do single parts cost, beside what could stand in their place?

Labels of values in order (`indexes/labels.py`) beside a sorted dictionary, placing values by our hash beside that of
pandas, clusters of inclusions by how many there are, the decision which constraints say anything
(`discovery/denial/meaning.py`) beside the search that finds them, the marks of rows that are gone from blocks
(`discovery/blocks/storage/marks.py`) beside lists of their numbers, and exceptions of near constraints that follow a
batch (`indexes/exceptions.py`), by shape. Seconds are processor time, of the fastest of some runs.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from sortedcontainers import SortedDict

from benchmarks.measuring import Point, measured
from holdfast.constraints import ColumnRef
from holdfast.constraints.types import INTEGER
from holdfast.discovery.blocks.storage.hashing import hashed
from holdfast.discovery.blocks.storage.location import KEPT, Storage
from holdfast.discovery.blocks.storage.marks import marked_among, read_marks, set_of, with_more
from holdfast.discovery.denial.meaning import Meaning
from holdfast.discovery.denial.seeding import seed_denial
from holdfast.discovery.inclusion.clusters import Clusters, Member
from holdfast.indexes.exceptions import ClassExceptions, Exceptions, KeyExceptions
from holdfast.indexes.labels import Labels
from holdfast.indexes.order_keys import TextKeys
from holdfast.indexes.rows import RowSet
from holdfast.tables import EncodedColumn, ReadOptions, from_arrow, space_of

_TEXTS = 1_000_000
_WIDTH = 273
_RUNS = 5
_ROWS = 1_000_000_000
_BLOCK = 262_144


def points() -> Iterator[Point]:
    """Yield one point for each part and size."""
    for new in (1_000, 100_000):
        ours, theirs = measured(_labels, new), measured(_sorted_dictionary, new)
        seconds, undone = ours.answer
        yield {
            "part": "labels", "texts": _TEXTS, "new": new, "seconds": seconds, "undo_seconds": undone,
            "peak_mb": ours.peak_mb, "sorted_dictionary_seconds": theirs.answer,
            "ratio": round(theirs.answer / seconds, 1),
        }  # fmt: skip
    for size in (10, 45):
        ours = measured(_hashes, size)
        seconds, of_pandas = ours.answer
        yield {
            "part": "hash", "values": _TEXTS, "bytes": size, "seconds": seconds, "pandas_seconds": of_pandas,
            "ratio": round(of_pandas / seconds, 1),
        }  # fmt: skip
    for clusters, columns in ((60_000, 10), (663_584, 10), (663_584, 40)):
        ours = measured(_clusters, clusters, columns)
        seconds, held = ours.answer
        yield {
            "part": "clusters", "clusters": clusters, "columns_of_each": columns, "columns": _WIDTH,
            "batch_seconds": seconds, "held_mb": held >> 20, "peak_mb": ours.peak_mb,
        }  # fmt: skip
    for columns in (4, 6):
        ours = measured(_meaning, columns)
        enumerated, decided, boxes, reported = ours.answer
        yield {
            "part": "meaning", "columns": columns, "boxes": boxes, "reported": reported,
            "seed_seconds": enumerated, "seconds": decided,
        }  # fmt: skip
    for share in (0.01, 0.06):
        for which in ("oldest", "random"):
            ours = measured(_marks, share, which == "random")
            marks, size, batch, read, met = ours.answer
            yield {
                "part": "marks", "rows": _ROWS, "share": share, "gone": which, "marks": marks,
                "mb": round(size / 1e6, 3), "list_mb": round(8 * marks / 1e6, 3), "ratio": round(8 * marks / size, 1),
                "batch_seconds": batch, "read_seconds": read, "block_seconds": met,
            }  # fmt: skip
    for rows in (30_000, 1_000_000):
        yield {"part": "exceptions", "rows": rows, "batch": "1,000 in, 1,000 out", **measured(_exceptions, rows).answer}


def _texts(seed: int, count: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [f"{a:016x}-{seed}" for a in rng.integers(0, 2**63, count).tolist()]


def _ordered(texts: list[str]) -> EncodedColumn:
    table = from_arrow(pa.table({"a": pa.array(texts)}), "r", ReadOptions(ordered={"a": True}))
    return table.columns[0]


def _best(work: Callable[[], Any], after: Callable[[], Any] = lambda: None) -> float:
    """Return the processor seconds of the fastest of some runs."""
    found = []
    for _ in range(_RUNS):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
        after()
    return round(min(found), 6)


def _labels(new: int) -> tuple[float, float]:
    labels = Labels((0,), TextKeys())
    labels.add([_ordered(_texts(1, _TEXTS))])
    column, memo = _ordered(_texts(2, new)), labels.memo()
    undo: list[float] = []

    def undone() -> None:
        start = time.process_time()
        labels.take_back(memo)
        undo.append(time.process_time() - start)

    seconds = _best(lambda: labels.add([column]), undone)
    assert len(labels) == _TEXTS
    return seconds, round(min(undo), 6)


def _sorted_dictionary(new: int) -> float:
    labels = SortedDict.fromkeys(_texts(1, _TEXTS), 0)
    texts = _texts(2, new)

    def add() -> None:
        for text in texts:
            labels[text] = labels.bisect_left(text)

    def undo() -> None:
        for text in texts:
            del labels[text]

    return _best(add, undo)


def _hashes(size: int) -> tuple[float, float]:
    texts = pa.array([text.ljust(size, "x")[:size].encode() for text in _texts(1, _TEXTS)], pa.binary())
    objects = np.array(texts.to_pylist(), object)
    hashed(texts.slice(0, 1))
    return _best(lambda: hashed(texts)), _best(lambda: pd.util.hash_array(objects, categorize=False))


def _clusters(count: int, columns: int) -> tuple[float, int]:
    clusters = Clusters([Member(ColumnRef("t", f"c{i}"), INTEGER) for i in range(_WIDTH)])
    rng = np.random.default_rng(1)
    for start in range(0, count, 10_000):
        some = min(10_000, count - start)
        chosen = rng.random((some, _WIDTH)).argpartition(columns, axis=1)[:, :columns]
        places = np.repeat(np.arange(some), columns)
        numbers = np.unique(clusters.numbers(clusters.bits_of(some, places, chosen.ravel())))
        clusters.change(numbers, np.ones(len(numbers), np.int64), np.ones(int(clusters.sizes(numbers).sum()), np.int64))
    batch = rng.choice(clusters.count, 1_000, replace=False)
    values, occurrences = np.ones(1_000, np.int64), np.ones(int(clusters.sizes(batch).sum()), np.int64)
    return _best(lambda: clusters.change(batch, values, occurrences)), clusters.nbytes


def _meaning(columns: int) -> tuple[float, float, int, int]:
    data = {f"c{i}": np.random.default_rng(i).integers(0, 30, 300) for i in range(columns)}
    table = from_arrow(pa.table(data), "r")
    space = space_of(table)
    seed_denial(table, space, 1)
    start = time.process_time()
    seed = seed_denial(table, space, 4)
    enumerated = time.process_time() - start
    meaning = Meaning(space)
    seconds = _best(lambda: meaning.reported(seed.boxes))
    assert len(meaning.reported(seed.boxes)) == len(seed.masks)
    return round(enumerated, 6), seconds, len(seed.boxes), len(seed.masks)


def _marks(share: float, is_random: bool) -> tuple[int, int, float, float, float]:
    """Return how many there are, the bytes of their file, and seconds: of 1,000 more, of reading it, of one block."""
    rng = np.random.default_rng(1)
    gone = np.flatnonzero(rng.random(_ROWS, np.float32) < share) if is_random else np.arange(int(share * _ROWS))
    with tempfile.TemporaryDirectory() as folder:
        storage = Storage.at(folder)
        storage.open().prepare()
        runs = with_more(storage, (), gone)
        size = storage.open().size(runs[0].name) or 0
        more = _ROWS + rng.permutation(1_000_000)[:1_000]
        batch = _best(lambda: with_more(storage, runs, more))
        block = set_of(rng.choice(_ROWS, _BLOCK, replace=False))  # one of an arrangement: numbers from everywhere

        def forget() -> None:
            KEPT.drop(("marks", runs[0].name))

        forget()
        read = _best(lambda: read_marks(storage, runs[0]), forget)
        found = marked_among(storage, block, runs)
        assert abs(len(found) / _BLOCK - share) < share / 4
        return len(gone), size, batch, read, _best(lambda: marked_among(storage, block, runs))


def _exceptions(rows: int) -> Point:
    """Return the median milliseconds of one batch for a key and a functional dependency."""
    rng = np.random.default_rng(1)

    def records(count: int, first: int) -> Any:
        zips, salary = rng.integers(0, 30_000, count), rng.integers(0, 200_000, count)
        city, tax = (np.where(rng.random(count) < 0.005, 0, right) for right in (zips // 3, salary // 5))
        columns = {"id": first + np.arange(count), "zip": zips, "city": city, "salary": salary, "tax": tax}
        return from_arrow(pa.table(columns), "r")

    table = records(rows, 0)
    held = RowSet(space_of(table, "none"), ["id"])
    held.fill(table)
    followed: dict[str, Exceptions] = {
        "key": KeyExceptions(held, [1, 3]),
        "constant": ClassExceptions(held, [1], 2),
    }
    seconds: dict[str, list[float]] = {name: [] for name in followed}
    for batch in range(11):
        old = table.between(batch * 1_000, (batch + 1) * 1_000)
        held.begin()
        codes = np.concatenate([held.encode(some)[0] for some in (records(1_000, rows + batch * 1_000), old)])
        delta = held.change(codes, np.repeat([1, -1], 1_000))
        for name, exceptions in followed.items():
            start = time.process_time()
            exceptions.follow(delta)
            seconds[name].append(time.process_time() - start)
        held.forget()
    for exceptions in followed.values():
        exceptions.check_invariants()
    return {f"{name}_ms": round(float(np.median(took[1:])) * 1_000, 2) for name, took in seconds.items()}
