"""States of every format that there was: each is read, goes on, and comes back from a backup of its time."""

import json
import random
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.constraints import StateRefused, json_value
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.manifest import stored_names
from holdfast.discovery.discover import discover
from holdfast.state import codecs
from holdfast.state.commits import Commits, Identity
from holdfast.state.log import CommitLog
from holdfast.state.rocks import RocksStore
from holdfast.state.snapshots import Snapshots
from holdfast.state.store import WriteBatch
from holdfast.streaming.maintainers.holdings.contract import Restore
from holdfast.streaming.maintainers.holdings.in_blocks import BlockPlace, RowsInBlocks
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, Maintainer, Records
from holdfast.streaming.maintainers.near.suspects import SuspectBatches
from holdfast.streaming.seeding import restore
from tests.golden.make_state import FOLDER, drawn, table_of
from tests.invariants import check_invariants
from tests.maintained import stored_table

FORMATS = sorted(int(path.name.removesuffix(".tar.gz")) for path in FOLDER.glob("[0-9].tar.gz"))
FORMATS_OF_BLOCKS = sorted(int(path.name.removesuffix(".blocks.tar.gz")) for path in FOLDER.glob("*.blocks.tar.gz"))


@pytest.fixture(params=FORMATS)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """Return a state of some format, and what it has to be."""
    return unpacked(f"{request.param}.tar.gz", tmp_path)


def unpacked(name: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    with tarfile.open(FOLDER / name) as archive:
        archive.extractall(folder, filter="data")
    return folder / "state", json.loads((folder / "expected.json").read_text("utf-8"))


def check(store: RocksStore, expected: dict[str, Any], rows: Restore = RowsInMemory.restored) -> dict[str, Maintainer]:
    tables = restore(store, threads=1, rows=lambda _: rows)
    assert tables.keys() == expected["tables"].keys()
    for name, maintainer in tables.items():
        told = expected["tables"][name]
        live, owed = maintainer.rows()
        images = [{column: json_value(value) for column, value in row.items()} for row in live.to_pylist()]
        assert sorted(images, key=json.dumps) == told["rows"]
        assert len(owed) == told["owed"]
        assert sorted(map(str, maintainer.constraints)) == told["constraints"]
        assert sorted([str(one), one.exceptions] for one in maintainer.near) == told.get("near", [])
        assert sorted(one.example_id(name) for one in maintainer.near_examples) == told.get("exceptions", [])
        check_invariants(maintainer)
    return tables


def test_there_is_a_state_of_each_format_up_to_this_one() -> None:
    for formats in (FORMATS, FORMATS_OF_BLOCKS):
        assert list(range(formats[0], codecs.FORMAT + 1)) == formats, "make one: python -m tests.golden.make_state"


@pytest.mark.parametrize("found", FORMATS_OF_BLOCKS)
def test_rows_in_blocks_that_are_gone_stay_so(found: int, tmp_path: Path) -> None:
    """Also where the first start ends before anything was committed: the numbers are in the state until then."""
    state, expected = unpacked(f"{found}.blocks.tar.gz", tmp_path)
    blocks = BlockPlace(InProcess(2), Storage.at(str(tmp_path / "blocks")))
    place = blocks.storage.open()
    before = set(place.names())
    for dies in (True, False):
        store = RocksStore(state)
        Commits(store, "golden")
        named = stored_names(store, codecs.number(0))
        assert named <= before
        maintainer = Maintainer.restore(store, threads=1, rows=blocks.restored)
        check(store, expected, blocks.restored)
        assert isinstance(maintainer.holding, RowsInBlocks)
        marks = {one.name for one in maintainer.holding.blocks.manifest.marks}
        assert marks
        assert maintainer.files == named | marks
        if dies:
            place.remove(set(place.names()) - before)
            store.close()
    rows = [{**drawn(random.Random(3), 2), "k": k} for k in (300, 301)]
    maintainer.apply_records(Records(table_of("rows", rows), np.full(2, INSERT, np.int8)))
    maintainer.apply_records(Records(table_of("rows", rows[:1]), np.full(1, DELETE, np.int8)))
    again = maintainer
    for _ in range(2):
        change = WriteBatch()
        for part in again.save(0):
            change.add(part)
        store.write(change)
        assert stored_names(store, codecs.number(0)) == again.files
        again = Maintainer.restore(store, threads=1, rows=blocks.restored)
        check_invariants(again)
        assert again.row_count == len(expected["tables"]["rows"]["rows"]) + 1
    store.close()


def test_a_state_of_an_earlier_version_goes_on(golden: tuple[Path, dict[str, Any]]) -> None:
    state, expected = golden
    for upgrades in (expected["format"] != codecs.FORMAT, False):
        store = RocksStore(state)
        commits = Commits(store, "golden")
        assert commits.upgraded_from == (expected["format"] if upgrades else None)
        assert commits.last == expected["commit"] + (expected["format"] != codecs.FORMAT)
        assert [number for number, _ in commits.unlogged()] == list(range(expected["commit"], commits.last + 1))
        assert [number for number, _ in commits.unpublished()] == list(range(expected["commit"], commits.last + 1))
        tables = check(store, expected)
        store.close()
    store = RocksStore(state)
    commits = Commits(store, "golden")
    tables = restore(store, threads=1)
    dice = np.random.default_rng(5)
    for number, (name, maintainer) in enumerate(tables.items()):
        rows = [{**drawn(_Dice(dice), 3), "k": 50 + i} for i in range(4)]
        sequence = np.arange(1000, 1004) if name == "keyed" else None
        maintainer.follow_suspects(SuspectBatches(100))
        records = Records(table_of(name, rows), np.full(4, INSERT, np.int8), sequence=sequence)
        result = maintainer.apply_records(records)
        assert result.suspects.is_searched == (maintainer.near_maintainer is not None), "never searched before"
        change = WriteBatch()
        for part in maintainer.save(number):
            change.add(part)
        commits.commit(change, {})
    again = restore(store, threads=1)
    for name, maintainer in again.items():
        assert maintainer.row_count == len(expected["tables"][name]["rows"]) + 4
        bound = maintainer.bounds.max_predicates
        assert bound is not None
        found = discover(stored_table(maintainer), space=maintainer.space, max_predicates=bound, threads=1)
        assert set(map(str, maintainer.constraints)) == set(map(str, found))
        if maintainer.bounds.near is not None:
            nearly = discover(stored_table(maintainer), near=maintainer.bounds.near.share, threads=1)
            assert {str(one): one.exceptions for one in maintainer.near} == {str(n): n.exceptions for n in nearly}
            assert maintainer.near_maintainer is not None
            maintainer.follow_suspects(SuspectBatches(100))
            assert maintainer.near_maintainer.suspects.count == len(maintainer.suspects())
    store.close()


class _Dice:
    """Draws as `random.Random` does."""

    def __init__(self, dice: np.random.Generator) -> None:
        self._dice = dice

    def randrange(self, end: int) -> int:
        return int(self._dice.integers(end))

    def choice(self, values: list[Any]) -> Any:
        return values[self.randrange(len(values))]


def test_a_backup_of_an_earlier_version_gives_the_state_of_this_one(
    golden: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    state, expected = golden
    store = RocksStore(state)
    identity = Identity(**codecs.read_json(store.get("meta", b"identity") or b""))
    snapshots = Snapshots(tmp_path / "backup")
    snapshots.put(store.linked(), identity, expected["commit"])
    store.close()
    for lost in range(3):
        if lost == 1:  # with the log of what came since: the upgrade
            store = RocksStore(state)
            commits = Commits(store, "golden")
            log = CommitLog(tmp_path / "backup", commits.identity.epoch)
            for number, record in list(commits.unlogged()):
                log.put(number, record)
                commits.logged(number)
            store.close()
        state.rename(tmp_path / f"lost {lost}")
        snapshots.restore(state)
        store = RocksStore(state)
        commits = Commits(store, "golden")
        assert commits.identity.epoch == identity.epoch + lost + 1
        assert commits.last == expected["commit"] + (expected["format"] != codecs.FORMAT)
        check(store, expected)
        store.close()


@pytest.mark.parametrize("found", [0, FORMATS[0] - 1, codecs.FORMAT + 1])
def test_a_format_without_a_way_to_this_one_is_refused(tmp_path: Path, found: int) -> None:
    store = RocksStore(tmp_path / "state")
    Commits(store, "app")
    change = WriteBatch()
    change.put("meta", b"format", codecs.number(found))
    store.write(change)
    with pytest.raises(StateRefused, match=f"has format {found}, this version reads {codecs.FORMAT}.*seed --replace"):
        Commits(store, "app")
    store.close()
