"""Which files of a live table in blocks are read, and for what."""

import errno
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from holdfast.constraints import ExternalError
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.storage import live, lookup, table
from holdfast.discovery.blocks.storage.block import Rows, write_blocks
from holdfast.discovery.blocks.storage.live import LiveBlocks
from holdfast.discovery.blocks.storage.location import Kept, Storage
from holdfast.discovery.blocks.storage.lookup import find_rows
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.state.places import Folder
from holdfast.streaming.maintainers.holdings.in_blocks import WholeInBlocks
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.tables import Table, from_arrow
from tests.invariants import check_invariants

ROWS, BLOCK = 100, 25


def rows_from(first: int, count: int) -> Table:
    """Return rows of which only a hash is small."""
    numbers = range(first, first + count)
    return from_arrow(pa.table({"k": [n * 611 % 1009 for n in numbers], "text": [f"{n}" * 1000 for n in numbers]}), "r")


@pytest.fixture
def blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveBlocks:
    """Return a table whose blocks are read from files whenever they are asked for."""
    kept = Kept(40 * ROWS)
    for module in (lookup, table):
        monkeypatch.setattr(module, "KEPT", kept)
    rows = rows_from(0, ROWS)
    source = Source(Storage.at(str(tmp_path)), rows.schema, BLOCK)
    written = list(write_blocks(source.storage.open(), Rows(np.arange(ROWS), rows), BLOCK))
    return LiveBlocks.of(BlockTable(source, written, InProcess()))


@pytest.fixture
def read(blocks: LiveBlocks, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that are read from now on."""
    assert blocks.manifest.rows
    names: list[str] = []
    get = Folder.get

    def noted(self: Folder, name: str) -> bytes | None:
        names.append(name)
        return get(self, name)

    monkeypatch.setattr(Folder, "get", noted)
    return names


def test_a_lookup_reads_what_it_finds(blocks: LiveBlocks, read: list[str]) -> None:
    """Once hashes are kept, a new row costs no reading."""

    def found(wanted: Table) -> list[int]:
        like = find_rows(blocks.table(), (), (0,), wanted, np.ones(wanted.row_count, np.int64))
        return [int(count) for count in like.counts]

    assert found(rows_from(ROWS, 2)) == [0, 0]
    assert len(read) == ROWS // BLOCK
    read.clear()
    assert found(rows_from(ROWS, 2)) == [0, 0]
    assert read == []
    assert found(rows_from(0, 1)) == [1]
    assert len(read) == 1


def test_how_often_all_rows_are_sampled(blocks: LiveBlocks, read: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as the table is another one, not as often as young blocks are sorted."""
    monkeypatch.setattr(live, "_MOST_YOUNG", 1)
    assert max(blocks.measured.heaviest) < 1
    sampled = 0
    for batch in range(ROWS // 2):
        blocks.enter(rows_from(ROWS + 4 * batch, 4))
        blocks.settle()
        read.clear()
        assert max(blocks.measured.heaviest) < 1
        sampled += bool(read)
    assert 1 <= sampled <= 5  # the table triples
    blocks.empty()
    blocks.enter(rows_from(0, 1))
    blocks.enter(rows_from(1, 1))
    blocks.settle()
    assert max(blocks.measured.heaviest) == 1 / 2


def test_a_storage_that_fails_is_told_as_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing of the batch was applied."""
    storage = Storage.at(str(tmp_path))
    storage.open().prepare()
    first = rows_from(0, 4)
    written = list(write_blocks(storage.open(), Rows(np.arange(4), first), 4))
    source = Source(storage, first.schema, 4)
    maintainer = Maintainer.seed(WholeInBlocks(BlockTable(source, written, InProcess())), max_predicates=2)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "put", full)
        with pytest.raises(ExternalError, match=r"rows of table .* cannot be read or written in .*No space left"):
            maintainer.step(rows_from(4, 2))
    check_invariants(maintainer)
    assert maintainer.row_count == 4
    assert maintainer.step(rows_from(4, 2)).rows == 6
