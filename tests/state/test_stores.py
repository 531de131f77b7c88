"""One suite for every store: whatever the implementation, the contract of `state/store.py`."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.constraints import ExternalError, StateRefused
from holdfast.state import rocks
from holdfast.state.commits import SEEDING, Commits
from holdfast.state.memory import MemoryStore
from holdfast.state.rocks import RocksReader, RocksStore
from holdfast.state.store import Store, WriteBatch


def _on_disk() -> Store:
    return RocksStore(Path(tempfile.mkdtemp(prefix="holdfast-")) / "state")


def _folder(store: Store) -> Path:
    assert isinstance(store, RocksStore)
    return store.path


def _closed(store: Store) -> None:
    """Close a store, and leave nothing of it."""
    store.close()
    if isinstance(store, RocksStore):
        shutil.rmtree(store.path.parent)


STORES: dict[str, Callable[[], Store]] = {"memory": MemoryStore, "rocks": _on_disk}
KEYS = st.binary(max_size=3)
FAMILIES = st.sampled_from(["a", "b"])


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    opened = STORES[request.param]()
    yield opened
    _closed(opened)


def test_a_batch_is_written_whole_and_the_last_word_on_a_key_counts(store: Store) -> None:
    batch = WriteBatch()
    batch.put("a", b"k", b"1")
    batch.put("a", b"k", b"2")
    batch.put("b", b"k", b"3")
    batch.put("a", b"gone", b"")
    batch.delete("a", b"gone")
    batch.delete("a", b"never")
    store.write(batch)
    assert [store.get("a", b"k"), store.get("b", b"k"), store.get("a", b"gone")] == [b"2", b"3", None]


def test_many_keys_are_looked_up_together(store: Store) -> None:
    assert store.get_many("a", [b"k"]) == [None]
    batch = WriteBatch()
    for i in range(0, 3_000, 3):
        batch.put("a", str(i).encode(), str(-i).encode())
    store.write(batch)
    keys = [str(i).encode() for i in range(2_999, -1, -1)]
    assert store.get_many("a", keys) == [store.get("a", key) for key in keys]
    assert store.get_many("a", []) == []


def test_sorted_keys_are_loaded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocks, "_LOADED_AT_ONCE", 7)
    keys = sorted(str(i).encode() for i in range(30))
    store.load("a", ((key, key + b"!") for key in keys))
    store.load("b", iter(()))
    batch = WriteBatch()
    batch.put("a", b"5", b"new")
    batch.delete("a", b"6")
    store.write(batch)
    expected = {key: key + b"!" for key in keys} | {b"5": b"new"}
    del expected[b"6"]
    assert list(store.scan("a")) == sorted(expected.items())
    assert list(store.scan("b")) == []
    store.load("c", [(b"x", b"y")])
    assert store.get("c", b"x") == b"y"


def test_what_a_killed_process_was_loading_goes(tmp_path: Path) -> None:
    RocksStore(tmp_path).close()
    (tmp_path / "loading-x").mkdir()
    (tmp_path / "loading-x" / "0.sst").write_bytes(b"half")
    RocksStore(tmp_path).close()
    assert not list(tmp_path.glob("loading-*"))


def test_a_scan_ascends_and_keeps_to_its_prefix_and_family(store: Store) -> None:
    batch = WriteBatch()
    for key in (b"\xff", b"\xff\xff", b"", b"\x00", b"ab", b"a", b"b"):
        batch.put("a", key, key + b"!")
    batch.put("b", b"aa", b"")
    store.write(batch)
    assert [k for k, _ in store.scan("a")] == [b"", b"\x00", b"a", b"ab", b"b", b"\xff", b"\xff\xff"]
    assert list(store.scan("a", b"a")) == [(b"a", b"a!"), (b"ab", b"ab!")]
    assert [k for k, _ in store.scan("a", b"\xff")] == [b"\xff", b"\xff\xff"]
    assert list(store.scan("empty")) == []


def test_a_scan_is_not_disturbed_by_a_batch(store: Store) -> None:
    batch = WriteBatch()
    for i in range(10):
        batch.put("a", bytes([i]), b"")
    store.write(batch)
    seen = []
    for key, _ in store.scan("a"):
        seen.append(key)
        change = WriteBatch()
        change.delete("a", key)
        store.write(change)
    assert len(seen) == 10


def test_a_closed_store_is_refused() -> None:
    for make in STORES.values():
        closed = make()
        _closed(closed)
        with pytest.raises(ValueError, match="closed"):
            closed.get("a", b"")


def test_a_scan_that_was_left_half_way_does_not_keep_the_lock(tmp_path: Path) -> None:
    store = RocksStore(tmp_path)
    batch = WriteBatch()
    for key in (b"1", b"2", b"3"):
        batch.put("a", key, b"")
    store.write(batch)
    left = store.scan("a")
    assert next(left) == (b"1", b"")
    store.close()
    reopened = RocksStore(tmp_path)
    with pytest.raises(ValueError, match="closed"):
        next(left)
    assert [key for key, _ in reopened.scan("a")] == [b"1", b"2", b"3"]
    reopened.close()


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    first = RocksStore(tmp_path / "state")
    with pytest.raises(StateRefused, match="in use by another process"):
        RocksStore(tmp_path / "state")
    first.close()
    RocksStore(tmp_path / "state").close()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_what_was_written_survives_a_killed_process(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from holdfast.state.rocks import RocksReader, RocksStore
from holdfast.state.store import WriteBatch
store = RocksStore(Path(sys.argv[1]))
for i in range(1_000_000):
    batch = WriteBatch()
    for family in "ab":
        batch.put(family, b"last", str(i).encode())
    store.write(batch)
    print(i, flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "state")], stdout=subprocess.PIPE)
    assert process.stdout is not None
    acknowledged = -1
    for _ in range(200):
        acknowledged = int(process.stdout.readline())
    process.kill()
    process.wait()
    acknowledged = max([acknowledged, *map(int, process.stdout.read().split(b"\n")[:-1])])
    store = RocksStore(tmp_path / "state")
    found = [int(store.get(family, b"last") or b"-1") for family in "ab"]
    store.close()
    assert found[0] == found[1] >= acknowledged


WRITER = """
import sys
from pathlib import Path
from holdfast.state.rocks import RocksStore
from holdfast.state.store import WriteBatch
store = RocksStore(Path(sys.argv[1]))
for i, line in enumerate(sys.stdin):
    batch = WriteBatch()
    for family in "ab":
        batch.put(family, b"last", str(i).encode())
        batch.put(family, i.to_bytes(4, "big"), bytes(int(line)))
        batch.delete(family, (i - 50).to_bytes(4, "big", signed=True))
    if i == 3:
        batch.put("new", b"k", b"v")
    store.write(batch)
    print(i, flush=True)
store.close()
print("closed", flush=True)
"""


def test_a_reader_sees_what_another_process_has_committed_and_does_not_disturb_it(tmp_path: Path) -> None:
    path = tmp_path / "state"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def commit(size: int = 10) -> int:
        stdin.write(f"{size}\n")
        stdin.flush()
        return int(stdout.readline())

    assert commit() == 0
    with RocksReader(path) as reader:
        assert (reader.get("a", b"last"), reader.get("new", b"k")) == (b"0", None)
        files = {file.name for file in path.iterdir()}
        for _ in range(3):
            commit()
        assert reader.get("a", b"last") == b"0"
        with RocksReader(path) as later:
            assert later.get("a", b"last") == later.get("b", b"last") == b"3"
            assert later.get("new", b"k") == b"v"
            assert [key for key, _ in later.scan("a", b"\0\0\0")] == [bytes([0, 0, 0, i]) for i in range(4)]
            assert list(later.scan("none")) == []
        for _ in range(60):  # far beyond what is held in memory: files come and go under the reader
            last = commit(1 << 20)
            if last % 20 == 0:
                with RocksReader(path) as later:
                    assert later.get("a", b"last") == later.get("b", b"last") == str(last).encode()
        assert {file.name for file in path.iterdir()} != files
    with pytest.raises(StateRefused, match="in use by another process"):
        RocksStore(path)
    last = commit()
    stdin.close()
    assert stdout.readline() == "closed\n"
    assert process.wait() == 0
    with RocksReader(path) as reader:
        assert reader.get("b", b"last") == str(last).encode()
        store = RocksStore(path)  # the reader holds no lock
        assert store.get("b", b"last") == str(last).encode()
        store.close()


def test_a_reader_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "private"))
    (tmp_path / "private").mkdir()
    with pytest.raises(StateRefused, match="holds no state: seed one first"):
        RocksReader(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    RocksStore(tmp_path / "state").close()
    before = {file.name: file.read_bytes() for file in (tmp_path / "state").iterdir()}
    reader = RocksReader(tmp_path / "state")
    assert len(list((tmp_path / "private").iterdir())) == 1
    reader.close()
    reader.close()
    assert list((tmp_path / "private").iterdir()) == []
    assert {file.name: file.read_bytes() for file in (tmp_path / "state").iterdir()} == before
    with pytest.raises(ValueError, match="closed"):
        reader.get("a", b"k")
    (tmp_path / "state" / "CURRENT").write_text("MANIFEST-999999\n")
    with pytest.raises((StateRefused, ExternalError)):
        RocksReader(tmp_path / "state")
    assert list((tmp_path / "private").iterdir()) == []


def test_a_seed_that_is_killed_is_found_seeding(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
import numpy as np
from holdfast.state.codecs import codes
from holdfast.state.commits import Commits
from holdfast.state.pieces import Pieces
from holdfast.state.rocks import RocksStore
commits = Commits(RocksStore(Path(sys.argv[1])), "app")
for batch in Pieces("rows").save_all(b"t", np.arange(3_000_000), codes):
    commits.bulk(batch)
    print("some", flush=True)
print("end", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "state")], stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(2):
        assert process.stdout.readline() == b"some\n"
    process.kill()
    process.wait()
    assert b"end" not in process.stdout.read()
    store = RocksStore(tmp_path / "state")
    assert Commits(store, "app").identity.status == SEEDING
    assert len(list(store.scan("rows"))) > 0
    store.close()


class StoreMachine(RuleBasedStateMachine):
    """Any batches, against dictionaries."""

    make: Callable[[], Store]

    def __init__(self) -> None:
        super().__init__()
        self.store = type(self).make()
        self.model: dict[str, dict[bytes, bytes]] = {"a": {}, "b": {}}

    @rule(changes=st.lists(st.tuples(FAMILIES, KEYS, st.none() | st.binary(max_size=2)), max_size=6))
    def write(self, changes: list[tuple[str, bytes, bytes | None]]) -> None:
        batch = WriteBatch()
        for family, key, value in changes:
            if value is None:
                batch.delete(family, key)
                self.model[family].pop(key, None)
            else:
                batch.put(family, key, value)
                self.model[family][key] = value
        self.store.write(batch)

    @rule(family=FAMILIES, prefix=KEYS)
    def scan(self, family: str, prefix: bytes) -> None:
        expected = sorted((k, v) for k, v in self.model[family].items() if k.startswith(prefix))
        assert list(self.store.scan(family, prefix)) == expected

    @invariant()
    def holds_the_model(self) -> None:
        for family, values in self.model.items():
            assert dict(self.store.scan(family)) == values
            assert all(self.store.get(family, key) == value for key, value in values.items())

    def teardown(self) -> None:
        _closed(self.store)


class MemoryMachine(StoreMachine):
    make = MemoryStore


class RocksMachine(StoreMachine):
    """On disk, closed and opened again at any time."""

    make = staticmethod(_on_disk)

    @rule()
    def open_again(self) -> None:
        path = _folder(self.store)
        self.store.close()
        self.store = RocksStore(path)


TestRocksStore = RocksMachine.TestCase
TestRocksStore.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
TestMemoryStore = MemoryMachine.TestCase
TestMemoryStore.settings = settings(max_examples=40, stateful_step_count=20)
