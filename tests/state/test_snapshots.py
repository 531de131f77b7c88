"""Snapshots and the log give a store back as it was, or say what is wrong with them."""

import json
import random
from pathlib import Path

import pytest

from holdfast.constraints import StateRefused
from holdfast.state import snapshots
from holdfast.state.commits import READY, Commits, Identity
from holdfast.state.log import CommitLog, owner
from holdfast.state.places import Place
from holdfast.state.rocks import RocksStore
from holdfast.state.snapshots import Snapshots, backups, own
from holdfast.state.store import WriteBatch
from holdfast.streaming.commits.snapshotting import Snapshotter

Content = dict[tuple[str, bytes], bytes]


class Writer:
    """A process that writes to a state and its backup."""

    def __init__(self, folder: Path, name: str = "state", keep: int = 2) -> None:
        self.folder = folder
        self.store = RocksStore(folder / name)
        self.commits = Commits(self.store, "app")
        if self.commits.identity.status != READY:
            self.commits.commit(_change({b"first": b"1"}), [])
        self.backup = folder / "backup" / self.commits.identity.state_id
        own(self.backup, self.commits.identity)
        self.log = CommitLog(self.backup, self.commits.identity.epoch)
        self.snapshotter = Snapshotter(self.store, self.commits, Snapshots(self.backup, keep), 0.0)
        self._put()

    def commit(self, changes: dict[bytes, bytes | None]) -> None:
        self.commits.commit(_change(changes), [])
        self._put()

    def snapshot(self) -> None:
        self.snapshotter.maybe()
        self.snapshotter.close()

    def _put(self) -> None:
        for number, record in self.commits.unlogged():
            self.log.put(number, record)
            self.commits.logged(number)


def _change(changes: dict[bytes, bytes | None]) -> WriteBatch:
    batch = WriteBatch()
    for key, value in changes.items():
        for family in ("rows", "values"):
            if value is None:
                batch.delete(family, key)
            else:
                batch.put(family, key, value)
    return batch


def _content(store: RocksStore) -> Content:
    families = ("rows", "values", "ledger", "meta")
    found = {(family, key): value for family in families for key, value in store.scan(family)}
    del found["meta", b"identity"]
    return found


@pytest.mark.parametrize("seed", range(6))
def test_what_was_logged_comes_back_after_any_history(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    writer = Writer(tmp_path)
    writer.snapshotter.first()
    for step in range(40):
        some = {bytes([dice.randrange(12)]): dice.choice([None, b"x" * dice.randrange(3_000)]) for _ in range(3)}
        writer.commit(some)
        if dice.random() < 0.2:
            writer.snapshot()
        if dice.random() < 0.1:
            before, epoch = _content(writer.store), writer.commits.identity.epoch
            writer.store.close()
            restored = Snapshots(writer.backup).restore(tmp_path / f"state {step}")
            writer = Writer(tmp_path, f"state {step}")
            assert restored.commit == writer.commits.last
            assert _content(writer.store) == before
            assert writer.commits.identity.epoch == epoch + 1 == owner(writer.backup)["epoch"]
            assert not list(writer.commits.unlogged())
    assert list(map(str, backups(tmp_path / "backup", "app"))) == [str(writer.backup)]
    assert not backups(tmp_path / "backup", "other")
    writer.store.close()


def test_two_copies_stay_and_the_log_behind_them(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    for i in range(5):
        writer.commit({b"k": bytes([i]) * 100_000})
        writer.snapshot()
    writer.commit({b"k": b"last"})
    kept = [snapshot for _, snapshot in Snapshots(writer.backup).all()]
    assert [snapshot.commit for snapshot in kept if snapshot] == [6, 5]
    assert sorted(int(path.name) for path in writer.backup.glob("log/*/0*")) == [6, 7]
    needed = {checksum for snapshot in kept if snapshot for _, checksum in snapshot.files.values()}
    assert {path.name for path in (writer.backup / "files").iterdir()} == needed
    assert not list(tmp_path.rglob("*.part"))
    assert not list((tmp_path / "state").glob("linked-*"))
    for path in writer.backup.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    writer.store.close()


@pytest.mark.parametrize("damage", ["manifest", "cut manifest", "file", "missing file"])
def test_an_older_copy_serves_where_the_newest_is_damaged(tmp_path: Path, damage: str) -> None:
    writer = Writer(tmp_path)
    for i in range(3):
        writer.commit({b"k%d" % i: b"v"})
        writer.snapshot()
    writer.commit({b"k": b"last"})
    expected = _content(writer.store)
    writer.store.close()
    (name, snapshot), (_, older) = Snapshots(writer.backup).all()
    newest = writer.backup / "snapshots" / name
    assert snapshot is not None
    assert older is not None
    if damage == "manifest":
        newest.write_text(newest.read_text().replace('\\"commit\\": 4', '\\"commit\\": 3'))
    elif damage == "cut manifest":
        newest.write_bytes(newest.read_bytes()[:-9])
    else:
        own_files = {c for _, c in snapshot.files.values()} - {c for _, c in older.files.values()}
        file = writer.backup / "files" / min(own_files)
        data = file.read_bytes()
        if damage == "file":
            file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        else:
            file.unlink()
    restored = Snapshots(writer.backup).restore(tmp_path / "again")
    assert restored.snapshot.commit == older.commit
    assert len(restored.damaged) == 1
    store = RocksStore(tmp_path / "again")
    assert _content(store) == expected
    store.close()


def test_what_cannot_be_restored_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.snapshotter.first()
    for i in range(3):
        writer.commit({b"k": bytes([i])})
    writer.store.close()
    (record,) = writer.backup.glob(f"log/*/{3:020d}")
    content = record.read_bytes()
    record.unlink()
    with pytest.raises(StateRefused, match="commit 3 is missing, 4 is there"):
        Snapshots(writer.backup).restore(tmp_path / "again")
    record.write_bytes(content[:-1])
    with pytest.raises(StateRefused, match="is damaged"):
        Snapshots(writer.backup).restore(tmp_path / "again")
    (manifest,) = writer.backup.glob("snapshots/*")
    manifest.write_text(json.dumps({"snapshot": "{}"}))
    with pytest.raises(StateRefused, match=r"rebuild --from-source"):
        Snapshots(writer.backup).restore(tmp_path / "again")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "state"]


def test_who_was_taken_over_from_is_stopped_and_does_not_count(tmp_path: Path) -> None:
    old = Writer(tmp_path)
    old.snapshotter.first()
    old.commit({b"k": b"1"})
    Snapshots(old.backup).restore(tmp_path / "new")
    old.commits.commit(_change({b"k": b"lost"}), [])
    (number, record), *_ = old.commits.unlogged()
    with pytest.raises(StateRefused, match=r"written to by epoch 1 of this state.*this one is epoch 0"):
        old.log.put(number, record)
    forced = old.backup / "log" / f"{0:010d}" / f"{number:020d}"  # as one that had looked a moment before
    forced.write_bytes(b"late")
    with pytest.raises(StateRefused, match="restored elsewhere"):
        own(old.backup, old.commits.identity)
    old.store.close()
    new = Writer(tmp_path, "new")
    new.commit({b"k": b"2"})
    new.commit({b"k": b"3"})
    expected = _content(new.store)
    new.store.close()
    Snapshots(new.backup).restore(tmp_path / "newer")
    newer = Writer(tmp_path, "newer")
    assert newer.commits.identity.epoch == 2
    assert _content(newer.store) == expected
    newer.store.close()


def test_what_goes_wrong_with_a_snapshot_is_raised_after_the_next_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(tmp_path)
    monkeypatch.setattr(Snapshots, "put", lambda *_: (_ for _ in ()).throw(InterruptedError))
    writer.snapshotter.maybe()
    assert writer.snapshotter._thread is not None
    writer.snapshotter._thread.join()
    with pytest.raises(InterruptedError):
        writer.snapshotter.maybe()
    monkeypatch.undo()
    writer.snapshot()
    assert len(Snapshots(writer.backup).all()) == 1
    writer.store.close()


def test_a_restore_that_fails_takes_no_commit_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(tmp_path)
    writer.snapshotter.first()
    writer.commit({b"k": b"1"})
    for step in ("_take_over", "CommitLog.begin"):
        with monkeypatch.context() as patch:
            patch.setattr(f"holdfast.state.snapshots.{step}", _fails)
            with pytest.raises(OSError, match="slow down"):
                Snapshots(writer.backup).restore(tmp_path / "elsewhere")
        assert not (tmp_path / "elsewhere").exists()
        if step == "_take_over":  # nobody has taken over: the writer goes on, and what it writes counts
            writer.commit({b"k": b"2"})
    with pytest.raises(StateRefused, match="restored elsewhere"):
        writer.commit({b"k": b"3"})
    writer.store.close()
    assert Snapshots(writer.backup).restore(tmp_path / "new").commit == 3


def _fails(*_: object) -> None:
    raise OSError("slow down")


def test_commits_that_come_while_a_state_is_restored_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(tmp_path)
    writer.snapshotter.first()
    writer.commit({b"k": b"1"})
    taken_over = snapshots._take_over

    def meanwhile(place: Place, identity: Identity) -> None:
        writer.commit({b"k": b"2"})
        taken_over(place, identity)

    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "_take_over", meanwhile)
        with pytest.raises(StateRefused, match="got further commits while it was restored"):
            Snapshots(writer.backup).restore(tmp_path / "new")
    last = writer.commits.last
    writer.store.close()
    assert Snapshots(writer.backup).restore(tmp_path / "new").commit == last


def test_an_earlier_epoch_brings_no_snapshot(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.snapshotter.first()
    Snapshots(writer.backup).restore(tmp_path / "new")
    with pytest.raises(StateRefused, match="restored elsewhere"):
        writer.snapshot()
    writer.store.close()
