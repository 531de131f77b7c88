"""Files of a state's blocks at a start: what is removed, and what is not although the state does not name it yet."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.constraints import Rule, parse_rule_body
from holdfast.discovery.blocks.block import Rows, write_blocks
from holdfast.discovery.blocks.table import BlockTable, Source
from holdfast.jobs.configuration import load
from holdfast.state import codecs
from holdfast.state.memory import MemoryStore
from holdfast.state.store import WriteBatch
from holdfast.streaming.maintainers.block_maintainer import BlockMaintainer
from holdfast.streaming.maintainers.rules import MonitoredRule
from holdfast.streaming.seeding import restore
from holdfast.tables import from_arrow
from tests.streams import Application, BlocksHere


def test_what_a_new_rule_made_of_blocks_is_not_swept(tmp_path: Path) -> None:
    """It is counted before the sweep, in an order of rows that the state gets with the next commit."""
    app = Application(tmp_path, [{"name": "t", "seed": {"path": "./t.csv"}}], engine="spark", blocks={"rows": 1})
    blocks = BlocksHere(load(app.file).settings, "one")
    blocks.begin()
    rows = from_arrow(pa.table({"a": [1, 2, 3], "b": [1, 2, 3]}), "t")
    storage = blocks.storage("t")
    storage.open().prepare()
    written = list(write_blocks(storage.open(), Rows(np.arange(3), rows), 1))
    seeded = BlockMaintainer.seed(
        BlockTable(Source(storage, rows.schema, 1), written, blocks.executors), key=["a"], max_predicates=None
    )
    store, about = MemoryStore(), WriteBatch()
    about.put("tables", codecs.number(0), codecs.json_bytes({"name": "t"}))
    for part in (about, *seeded.save(everything=True)):
        store.write(part)
    named = seeded.blocks.manifest.names
    tables = restore(store, 1, [MonitoredRule(Rule("r", "t", parse_rule_body("b -> a")))], blocks.spread)
    storage.open().put("left", b"")
    blocks.sweep(store, tables.values())
    restored = tables["t"]
    assert isinstance(restored, BlockMaintainer)
    assert set(storage.open().names()) == restored.blocks.manifest.names > named
    restored.apply(inserts=pa.table({"a": [4], "b": [3]}))
    assert restored.rules[0].violating_pairs == 2
    restored.check_invariants()
