"""Marks of rows that are gone: as sets of numbers, through files; kept as long as a block needs them, and no longer."""

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import ExternalError
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.storage import live, marks
from holdfast.discovery.blocks.storage.block import Rows, write_blocks
from holdfast.discovery.blocks.storage.live import LiveBlocks
from holdfast.discovery.blocks.storage.location import Kept, Storage
from holdfast.discovery.blocks.storage.marks import Marks, marked_among, set_of, with_more
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.tables import Table, from_arrow
from tests.invariants import check_invariants

numbers = st.one_of(st.integers(0, 40), st.integers(2**31, 2**31 + 40), st.integers(2**33, 2**33 + 40))


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Storage:
    found = Storage.at(str(tmp_path_factory.mktemp("marks")))
    found.open().prepare()
    return found


@pytest.fixture(params=[0, 1 << 20], autouse=True)
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without room to keep what was read."""
    monkeypatch.setattr(marks, "KEPT", Kept(request.param))


@given(changes=st.lists(st.lists(numbers, min_size=1, unique=True), max_size=12), asked=st.lists(numbers))
def test_marks_are_the_numbers_that_were_said(storage: Storage, changes: list[list[int]], asked: list[int]) -> None:
    runs: tuple[Marks, ...] = ()
    gone: set[int] = set()
    for number, change in enumerate(changes, 1):
        new = sorted(set(change) - gone)
        if not new:
            continue
        runs = with_more(storage, runs, np.random.default_rng(number).permutation(new))
        gone.update(new)
        assert sum(run.count for run in runs) == len(gone)
        assert all(one.count > 2 * other.count and one.last < other.last for one, other in itertools.pairwise(runs))
    found = marked_among(storage, set_of(np.array(asked, np.int64)), runs)
    assert found.dtype == np.int64
    assert found.tolist() == sorted(gone & set(asked))


def test_a_file_that_is_gone_or_damaged_is_said(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = with_more(storage, (), np.arange(5, 90, 3))
    path = Path(storage.address, runs[0].name)
    written = path.read_bytes()
    for damaged in (b"", written[:9], written[:-1], b"\xff" * len(written), set_of(np.arange(3)).serialize()):
        monkeypatch.setattr(marks, "KEPT", Kept(0))
        path.write_bytes(damaged)
        with pytest.raises(ExternalError, match=f"marks {runs[0].name} in .* are damaged.*seed --replace"):
            marked_among(storage, set_of(np.arange(9)), runs)
    path.unlink()
    with pytest.raises(ExternalError, match=f"marks {runs[0].name} are gone from .*Bring the file back"):
        marked_among(storage, set_of(np.arange(9)), runs)


ROWS, BLOCK = 640, 64


@pytest.fixture
def blocks(tmp_path: Path) -> LiveBlocks:
    """A table in two orders: as it came, and by a column that has another order."""
    table = _table(range(ROWS))
    source = Source(Storage.at(str(tmp_path)), table.schema, BLOCK)
    source.storage.open().prepare()
    written = list(write_blocks(source.storage.open(), Rows(np.arange(ROWS), table), BLOCK))
    found = LiveBlocks.of(BlockTable(source, written, InProcess()))
    found.table().arranged((1,))
    return found


def _table(numbers: "range | list[int]") -> Table:
    return from_arrow(pa.table({"n": list(numbers), "mixed": [n * 611 % 1009 for n in numbers]}), "r")


def _leave(blocks: LiveBlocks, numbers: list[int]) -> None:
    blocks.leave(Rows(np.array(numbers), _table(numbers)))


def test_marks_that_no_block_needs_are_given_up(blocks: LiveBlocks) -> None:
    """All of an old order's rows are gone from it, while the other one still has them."""
    _leave(blocks, [0])
    blocks.settle()
    assert [m.count for m in blocks.manifest.marks] == [1]
    _leave(blocks, list(range(1, 5)))  # more than a sixteenth of the first block: it is written anew
    blocks.settle()
    assert [m.count for m in blocks.manifest.marks] == [5]  # the other order has them in several blocks
    check_invariants(blocks)
    blocks.empty()
    assert blocks.manifest.marks == ()
    check_invariants(blocks)


@pytest.mark.parametrize("step", [1, 7])
def test_marks_are_few_however_rows_go(blocks: LiveBlocks, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of each block, again and again: blocks never have many marks, the table has; it lets old ones go."""
    monkeypatch.setattr(live, "_MOST_MARKED", 1)  # no block is written anew for its own marks
    order = [n * step % ROWS for n in range(ROWS)] if step > 1 else list(range(ROWS))
    counts = []
    for at in range(0, ROWS - 100, 4):
        _leave(blocks, order[at : at + 4])
        blocks.settle()
        counts.append(sum(m.count for m in blocks.manifest.marks))
        assert counts[-1] * live._MOST_MARKS <= blocks.manifest.rows + 4 * live._MOST_MARKS
    check_invariants(blocks)
    assert max(counts) > 16  # they were not given up with each batch
    assert blocks.source.read_all(blocks.table().base.blocks).column("row").to_numpy().tolist() == sorted(
        order[at + 4 :]
    )


def test_who_goes_back_sees_what_was_there(blocks: LiveBlocks) -> None:
    """Rows that left after a manifest was noted are there in it, and other rows may leave instead."""
    _leave(blocks, [3])
    before = blocks.manifest
    _leave(blocks, [10, 11])
    table = blocks.table()
    assert len(table.source.read_all(table.base.blocks)) == ROWS - 3
    blocks.manifest = before
    _leave(blocks, [20, 21])
    check_invariants(blocks)
    left = blocks.source.read_all(blocks.table().arranged((1,)).blocks).column("row").to_pylist()
    assert sorted(set(range(ROWS)) - set(left)) == [3, 20, 21]
