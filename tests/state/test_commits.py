"""Commits: exactly once, in order, and whole, whatever is done again."""

import os
from pathlib import Path

import pytest

from holdfast.constraints import ExternalError, StateRefused
from holdfast.state import codecs
from holdfast.state.commits import READY, SEEDING, Commits, LedgerEntry, StateCheckpointMismatch
from holdfast.state.log import CommitLog, logged_after
from holdfast.state.memory import MemoryStore
from holdfast.state.rocks import RocksStore
from holdfast.state.store import WriteBatch


def _change(key: bytes, value: bytes) -> WriteBatch:
    batch = WriteBatch()
    batch.put("rows", key, value)
    return batch


def _entry(batch_id: int, start: str, end: str, query_id: str = "q") -> LedgerEntry:
    return LedgerEntry(query_id, batch_id, start, end, 0)


def test_a_batch_is_new_once() -> None:
    commits = Commits(MemoryStore(), "app")
    assert not commits.is_done("s", "q", 0, "0", "10")
    assert commits.commit(_change(b"k", b"1"), ["one"], source="s", batch=_entry(0, "0", "10")) == 1
    assert commits.is_done("s", "q", 0, "0", "10")
    assert not commits.is_done("s", "q", 1, "10", "15")
    assert not commits.is_done("other", "q", 0, "0", "10")
    entry = commits.entry("s")
    assert entry == LedgerEntry("q", 0, "0", "10", 1)


@pytest.mark.parametrize(
    ("query_id", "batch_id", "start", "end"),
    [
        ("q", 0, "0", "11"),
        ("q", 2, "10", "15"),
        ("q", 1, "9", "15"),
        ("new", 5, "10", "15"),
        ("new", 0, "0", "15"),
        ("new", 0, "", "15"),
    ],
    ids=[
        "same batch, other rows",
        "one left out",
        "starts elsewhere",
        "new query, not its first",
        "new query, too early",
        "new query, from the very beginning",
    ],
)
def test_a_checkpoint_that_does_not_follow_is_refused(query_id: str, batch_id: int, start: str, end: str) -> None:
    commits = Commits(MemoryStore(), "app")
    commits.commit(_change(b"k", b"1"), [], source="s", batch=_entry(0, "0", "10"))
    with pytest.raises(StateCheckpointMismatch, match=r"checkpoint is at batch.*up to 10.*holdfast rebuild"):
        commits.is_done("s", query_id, batch_id, start, end)


def test_a_new_query_may_go_on_where_the_last_one_ended() -> None:
    commits = Commits(MemoryStore(), "app")
    commits.commit(_change(b"k", b"1"), [], source="s", batch=_entry(4, "0", "10"))
    assert not commits.is_done("s", "new", 0, "10", "15")


def test_a_stream_that_was_told_to_resume_may_say_nothing_of_its_start() -> None:
    store = MemoryStore()
    commits = Commits(store, "app")
    commits.commit(_change(b"k", b"1"), [], source="s", batch=_entry(4, "0", "10"))
    resumed = WriteBatch()
    commits.resume("s", resumed)
    store.write(resumed)
    assert not commits.is_done("s", "new", 0, "", "15")
    assert not commits.is_done("s", "new", 0, "10", "15")
    for batch_id, start in ((0, "9"), (1, ""), (1, "10")):
        with pytest.raises(StateCheckpointMismatch):
            commits.is_done("s", "new", batch_id, start, "15")


def test_numbers_have_no_gaps_and_what_is_due_comes_in_order() -> None:
    store = MemoryStore()
    commits = Commits(store, "app")
    for i in range(1, 300):
        assert commits.commit(_change(b"k", bytes([i % 256])), {"n": i}) == i
    assert commits.last == 299
    assert [n for n, _ in commits.unpublished()] == list(range(1, 300))
    assert [payload["n"] for _, payload in commits.unpublished()] == list(range(1, 300))
    commits.published(298)
    assert [n for n, _ in commits.unpublished()] == [299]
    for number, _ in list(commits.unlogged())[:5]:
        commits.logged(number)
    assert next(iter(commits.unlogged()))[0] == 6


def test_records_replayed_on_an_empty_store_give_the_store() -> None:
    store = MemoryStore()
    commits = Commits(store, "app")
    for i in range(5):
        change = _change(bytes([i]), b"v")
        change.delete("rows", bytes([i - 1]) if i else b"none")
        commits.commit(change, [i], source="s", batch=_entry(i, str(i), str(i + 1)))
    copy = MemoryStore()
    for _, record in commits.unlogged():
        copy.write(codecs.read_batch(record))
    for family in ("rows", "ledger", "outbox"):
        assert list(copy.scan(family)) == list(store.scan(family))
    assert copy.get("meta", b"commit") == store.get("meta", b"commit")


def test_the_state_knows_whose_it_is_and_what_it_is_at(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "state")
    commits = Commits(store, "app")
    assert commits.identity.status == SEEDING
    commits.bulk(_change(b"k", b"1"))
    commits.commit(_change(b"k", b"2"), [])
    assert commits.identity.status == READY
    with pytest.raises(StateRefused, match="seeded already"):
        commits.bulk(_change(b"k", b"3"))
    identity = commits.identity
    store.close()
    store = RocksStore(tmp_path / "state")
    assert Commits(store, "app").identity == identity
    with pytest.raises(StateRefused, match="of the application 'app', not of 'other'"):
        Commits(store, "other")
    change = WriteBatch()
    change.put("meta", b"format", codecs.number(99))
    store.write(change)
    with pytest.raises(StateRefused, match="has format 99"):
        Commits(store, "app")
    store.close()


def test_the_log_takes_a_record_once_and_gives_them_back(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 0)
    for i in (1, 2, 3):
        log.put(i, codecs.batch_bytes(_change(b"k", bytes([i]))))
    log.put(2, codecs.batch_bytes(_change(b"k", b"\2")))
    assert [(n, b.changes["rows", b"k"]) for n, b in logged_after(tmp_path, 1)] == [(2, b"\2"), (3, b"\3")]
    with pytest.raises(StateRefused, match="holds another commit 2"):
        log.put(2, b"other")
    assert not list(tmp_path.rglob("*.part"))
    files = sorted(tmp_path.rglob("0*3"))
    assert files[0].stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_a_damaged_log_is_refused(tmp_path: Path, damage: str) -> None:
    log = CommitLog(tmp_path, 3)
    for i in (1, 2, 3):
        log.put(i, codecs.batch_bytes(_change(b"key", bytes([i]))))
    (file,) = tmp_path.rglob(f"{2:020d}")
    data = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(data[:-1] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(StateRefused, match="is missing" if damage == "gone" else "is damaged"):
        list(logged_after(tmp_path, 0))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_backup_that_may_not_be_written_is_said(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 0)
    (tmp_path / "log" / f"{0:010d}").chmod(0o500)
    with pytest.raises(ExternalError, match="safe in the state"):
        log.put(1, b"record")
