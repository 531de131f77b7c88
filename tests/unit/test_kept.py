"""What a process keeps of blocks takes about as much memory as its makers say, however small the blocks are."""

import gc
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from holdfast import parse_denial, parse_rule_body
from holdfast.constraints import PredicateSpace, Rule
from holdfast.discovery.blocks.counting.partners import BlockPartners
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.search import indexed
from holdfast.discovery.blocks.search.probing import probe_blocks
from holdfast.discovery.blocks.storage.block import Rows, write_blocks
from holdfast.discovery.blocks.storage.location import Kept, Storage
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.discovery.detection.forms import PairForm, form_of
from holdfast.tables import from_arrow

BLOCKS = 20


@pytest.mark.parametrize("rows", [1, 300])
def test_indexes_take_what_is_said_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Those of small blocks are mostly room: after days of small batches there would be no end of them."""
    numbers = np.random.default_rng(1).integers(0, 9, (4, BLOCKS * rows))
    table = from_arrow(pa.table({f"c{i}": column for i, column in enumerate(numbers)}), "r")
    source = Source(Storage.at(str(tmp_path)), table.schema, rows)
    blocks = BlockTable(
        source, list(write_blocks(source.storage.open(), Rows(np.arange(len(numbers[0])), table), rows)), InProcess()
    )
    text = "not(t.c0 <= s.c0 and t.c1 >= s.c1 and t.c2 <= s.c2)"
    space = PredicateSpace(table.schema)
    masks = np.array([space.words(space.mask(parse_denial(text)))], np.uint64)
    form = form_of(Rule("r", "r", parse_rule_body(text)), {"r": table.schema})
    assert isinstance(form, PairForm)
    batch = Rows(np.array([len(numbers[0])]), table.taken(np.array([0])))
    work = (
        lambda: probe_blocks(blocks, space, batch, masks),
        lambda: BlockPartners(blocks, [form]).follow(batch.table),
    )
    for asked in work:
        asked()  # what is read and compiled once
        kept = Kept(1 << 30)
        monkeypatch.setattr(indexed, "KEPT", kept)
        tracemalloc.start()
        asked()
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert kept.bytes / 3 < taken < 2 * kept.bytes
