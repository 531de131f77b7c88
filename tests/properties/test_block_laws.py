"""Laws of the maintainer of tables in blocks: those of `test_maintainer_laws.py`, with blocks of a few rows."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.search import probing
from holdfast.discovery.blocks.storage import live
from holdfast.discovery.blocks.storage.block import Rows, write_blocks
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.state.memory import MemoryStore
from holdfast.streaming.maintainers.holdings import residents
from holdfast.streaming.maintainers.holdings.in_blocks import BlockPlace, WholeInBlocks
from holdfast.streaming.maintainers.maintainer import Maintainer
from tests.oracles.values import Row
from tests.properties.maintained_tables import Law, tiny_pieces
from tests.properties.test_maintainer_laws import Histories

__all__ = ["tiny_pieces"]

MOST = 3


@pytest.fixture(autouse=True, scope="module")
def tiny_blocks() -> Iterator[None]:
    """Fold after two batches, and let no resident stay that is not needed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "_MOST_YOUNG", 2)
        patch.setattr(live, "_MOST_MARKED", 2)
        patch.setattr(live, "_MOST_MARKS", 2)
        patch.setattr(live, "_SORTED_BY_ONE", 1)
        patch.setattr(residents, "_FEW_RESIDENTS", 0)
        patch.setattr(probing, "_MANY", 1)  # rows that are alike are always indexed for the batch alone
        yield


class BlockLaw(Law):
    """A maintainer of blocks beside its model."""

    def seeded(self, seed: Sequence[Row]) -> Maintainer:
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-laws-"))
        self.place = BlockPlace(InProcess(2), Storage.at(str(self.folder)))
        storage = self.place.storage.open()
        storage.prepare()
        table = self.setting.table(seed)
        blocks = list(write_blocks(storage, Rows(np.arange(table.row_count), table), MOST))
        source = Source(self.place.storage, table.schema, MOST)
        whole = WholeInBlocks(BlockTable(source, blocks, self.place.executors))
        return Maintainer.seed(whole, **self.setting.asked(table))

    def restored(self, store: MemoryStore) -> Maintainer:
        self.maintainer.committed()
        restored = Maintainer.restore(store, threads=1, rows=self.place.restored)
        assert set(self.place.storage.open().names()) >= restored.files
        return restored


class BlockHistories(Histories):
    """Any history of batches on blocks."""

    law_of = BlockLaw

    def teardown(self) -> None:
        if hasattr(self, "law"):
            assert isinstance(self.law, BlockLaw)
            shutil.rmtree(self.law.folder)


BlockHistories.TestCase.settings = settings(max_examples=2 * settings().max_examples, stateful_step_count=15)
TestBlockHistories = BlockHistories.TestCase
