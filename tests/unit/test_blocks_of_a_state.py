"""Files of a state's blocks at a start: what is removed, and what is not although the state does not name it yet."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from holdfast.constraints import Rule, parse_rule_body
from holdfast.discovery.blocks.storage.block import Rows, write_blocks
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.jobs.configuration.reading import load
from holdfast.state import codecs
from holdfast.state.commits import Commits
from holdfast.state.memory import MemoryStore
from holdfast.state.store import WriteBatch
from holdfast.streaming.maintainers.holdings.in_blocks import WholeInBlocks
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule
from holdfast.streaming.seeding import _FAMILIES, SeededTable, restore, seed
from holdfast.tables import from_arrow
from tests.invariants import check_invariants
from tests.streams import Application, BlocksHere


def test_what_a_new_rule_made_of_blocks_is_not_swept(tmp_path: Path) -> None:
    """It is counted before the sweep, in an order of rows that the state gets with the next commit."""
    blocks = _blocks(tmp_path)
    seeded, store, about = _seeded(blocks, [1, 2, 3]), MemoryStore(), WriteBatch()
    about.put("tables", codecs.number(0), codecs.json_bytes({"name": "t"}))
    for part in (about, *seeded.save(everything=True)):
        store.write(part)
    named = seeded.files
    tables = restore(store, 1, [MonitoredRule(Rule("r", "t", parse_rule_body("b -> a")))], blocks.restore)
    place = blocks.storage("t").open()
    place.put("left", b"")
    blocks.sweep(store, tables.values())
    restored = tables["t"]
    assert set(place.names()) == restored.files > named
    restored.apply(inserts=pa.table({"a": [4], "b": [3]}))
    assert restored.rules[0].violating_pairs == 2
    check_invariants(restored)


def test_blocks_of_an_interrupted_seed_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, store = _blocks(tmp_path), MemoryStore()
    commits = Commits(store, "app")
    interrupted = _seeded(blocks, range(9))
    interrupted.apply(deletes=pa.table({"a": [1]}))
    with monkeypatch.context() as failing:
        failing.setattr(Commits, "commit", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            seed(commits, [SeededTable(interrupted)])
    left = {family for family in store._families if any(store.scan(family))}
    assert {"blocks", "rows", "meta"} <= left
    assert left - {"meta"} <= set(_FAMILIES), "whatever a seed writes is wiped"
    seed(commits, [SeededTable(_seeded(blocks, range(5)))])
    (restored,) = restore(store, 1, rows=blocks.restore).values()
    check_invariants(restored)
    assert restored.row_count == 5


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def _blocks(folder: Path) -> BlocksHere:
    app = Application(folder, [{"name": "t", "seed": {"path": "./t.csv"}}], engine="spark", blocks={"rows": 1})
    blocks = BlocksHere(load(app.file).settings, "one")
    blocks.begin()
    blocks.storage("t").open().prepare()
    return blocks


def _seeded(blocks: BlocksHere, keys: Sequence[int]) -> Maintainer:
    """Seed a table with blocks of one row."""
    rows, storage = from_arrow(pa.table({"a": keys, "b": keys}), "t"), blocks.storage("t")
    written = list(write_blocks(storage.open(), Rows(np.arange(len(keys)), rows), 1))
    table = BlockTable(Source(storage, rows.schema, 1), written, blocks.executors)
    return Maintainer.seed(WholeInBlocks(table), key=["a"], max_predicates=None)
