"""Where backups lie: one contract, for folders and object stores; and a backup on an object store."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.constraints import ExternalError, StateRefused
from holdfast.state import codecs
from holdfast.state.commits import Commits
from holdfast.state.log import CommitLog, logged_after
from holdfast.state.places import Folder, ObjectPlace, Place, StoreError, object_place
from holdfast.state.rocks import RocksStore
from holdfast.state.snapshots import Snapshots, backups, own
from holdfast.state.store import WriteBatch
from tests.object_store import ObjectStore


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    """Start an object store."""
    started = ObjectStore()
    yield started
    started.close()


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, store: ObjectStore) -> Place:
    """Return a place of each kind."""
    if request.param == "folder":
        return Folder(tmp_path / "deep" / "place")
    return object_place("s3://bucket/some/place", store.options)


def test_files(place: Place, tmp_path: Path) -> None:
    place.prepare()
    assert place.names() == []
    assert (place.get("a"), place.size("a")) == (None, None)
    assert not place.fetch("a", tmp_path / "fetched")
    place.put("a", b"first")
    place.put("a", b"second")
    assert (place.get("a"), place.size("a")) == (b"second", 6)
    assert place.put_new("b", b"mine")
    assert not place.put_new("b", b"theirs")
    assert place.get("b") == b"mine"
    large = os.urandom(12_000_000)  # in several parts
    (tmp_path / "large").write_bytes(large)
    inner = place.at("inner")
    inner.take("large", tmp_path / "large")
    inner.at("more").put("c", b"")
    assert inner.size("large") == len(large)
    assert inner.fetch("large", tmp_path / "fetched")
    assert (tmp_path / "fetched").read_bytes() == large
    assert place.names() == ["a", "b", "inner"]
    assert inner.names() == ["large", "more"]
    assert inner.path("large") == f"{place}/inner/large" == str(inner.at("large"))
    for number in range(10):  # more than a page
        inner.put(f"{number}", b"")
    assert len(inner.names()) == 12
    inner.remove(["large", "3", "missing"])
    assert "large" not in inner.names()
    inner.clear()
    assert inner.names() == []
    assert place.at("nothing").names() == []
    place.at("nothing").clear()
    assert place.names()[:2] == ["a", "b"]


def test_a_folder_is_private_and_swept(tmp_path: Path) -> None:
    place = Folder(tmp_path / "place")
    place.at("x").put("a", b"")
    (tmp_path / "place" / "x" / "a.7.part").touch()
    place.prepare()
    assert place.at("x").names() == ["a"]
    for path in (tmp_path / "place").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "address", ["s3://bucket/a", "s3a://bucket/a", "gs://bucket/a", "abfss://container@account.dfs.core.windows.net/a"]
)
def test_addresses(address: str, store: ObjectStore) -> None:
    place = object_place(address, store.options if address.startswith("s3") else {"azure_storage_account_key": "a2V5"})
    assert str(place.at("x")) == f"{address}/x"


def test_a_store_that_fails_says_so_without_secrets(store: ObjectStore) -> None:
    options = {**store.options, "aws_secret_access_key": "verysecretkey"}
    place = object_place("s3://bucket/a", options)
    store.fails = lambda _: 403
    log = CommitLog(place, 0)
    with pytest.raises(ExternalError, match=r"to the backup s3://bucket/a.*safe in the state") as found:
        log.put(1, b"record")
    assert "verysecretkey" not in str(found.value)
    assert "\n" not in str(found.value)
    for ask in (place.names, lambda: place.get("a"), lambda: place.size("a"), lambda: place.put("a", b""), place.clear):
        with pytest.raises(StoreError):
            ask()
    with pytest.raises(StoreError, match="nowhere"):
        object_place("nowhere://x", {})


def test_a_backup_on_an_object_store(store: ObjectStore, tmp_path: Path) -> None:
    dice = random.Random(3)
    root = object_place("s3://bucket/backup", store.options)
    state = tmp_path / "state 0"
    for life in range(4):
        rocks = RocksStore(state)
        commits = Commits(rocks, "app")
        place: ObjectPlace = root.at(commits.identity.state_id)
        own(place, commits.identity)
        log, snapshots = CommitLog(place, commits.identity.epoch), Snapshots(place)
        for _ in range(dice.randint(3, 9)):
            change = WriteBatch()
            change.put("rows", bytes([dice.randrange(9)]), os.urandom(50_000))
            commits.commit(change, {})
            for number, record in list(commits.unlogged()):
                log.put(number, record)
                log.put(number, record)
                commits.logged(number)
            if dice.random() < 0.5 or not life:
                snapshots.put(rocks.linked(), commits.identity, commits.last, commits.base)
        before, last = list(rocks.scan("rows")), commits.last
        rocks.close()
        state = tmp_path / f"state {life + 1}"
        assert list(map(str, backups(root, "app"))) == [str(place)]
        assert Snapshots(backups(root, "app")[0]).restore(state).commit == last
        restored = RocksStore(state)
        assert list(restored.scan("rows")) == before
        restored.close()
        with pytest.raises(StateRefused, match="restored elsewhere"):
            log.put(last + 1, b"")
    assert not [name for name in store.objects if not name.startswith("bucket/backup/")]
    own_log(root.at("other"), b"one")
    with pytest.raises(StateRefused, match="holds another commit"):
        own_log(root.at("other"), b"two")
    (name,) = (name for name in store.objects if "/other/log/" in name)
    store.objects[name] = store.objects[name][:-1]
    with pytest.raises(StateRefused, match="is damaged"):
        list(logged_after(root.at("other"), 0))


def own_log(place: Place, content: bytes) -> None:
    change = WriteBatch()
    change.put("rows", b"k", content)
    CommitLog(place, 0).put(1, codecs.batch_bytes(change))
