"""Publishing: every commit's rows once and in order, whatever step fails and is done again."""

import datetime
import shutil
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from holdfast.constraints import ExternalError, StateRefused
from holdfast.state.commits import Commits
from holdfast.state.log import CommitLog, logged_after
from holdfast.state.memory import MemoryStore
from holdfast.state.store import WriteBatch
from holdfast.streaming.sinks.choosing import open_tables
from holdfast.streaming.sinks.deltalake import DeltaLakeTable
from holdfast.streaming.sinks.publisher import Publisher
from holdfast.streaming.sinks.shapes import BATCHES, CONSTRAINT_CHANGES, CONSTRAINTS, SHAPES

WHEN = {"committed_at": "2026-11-18T10:00:00.000000Z"}


def _commit(commits: Commits, text: str, *, gone: str | None = None) -> None:
    number = commits.last + 1
    row = {"commit": number, "application": "app", "state_id": commits.identity.state_id}
    merged = [{**row, "constraint_id": text, "constraint": text}]
    if gone is not None:
        merged.append({**row, "constraint_id": gone, "_gone": True})
    payload = {
        "constraint_changes": [{**row, **WHEN, "date": "2026-11-18", "constraint": text, "change": "appeared"}],
        "constraints": merged,
        "batches": [{**row, **WHEN, "batch_id": number}] if number % 2 else [],
    }
    change = WriteBatch()
    change.put("rows", text.encode(), b"")
    commits.commit(change, payload)


def _tables(folder: Path, commits: Commits) -> dict[str, DeltaLakeTable]:
    identity = commits.identity
    return {
        shape.name: DeltaLakeTable(str(folder / shape.name), shape, identity.application, identity.state_id)
        for shape in (CONSTRAINT_CHANGES, CONSTRAINTS, BATCHES)
    }


def _read(folder: Path, name: str, column: str) -> list[Any]:
    table = DeltaTable(folder / name).to_pyarrow_table().sort_by("commit")
    return list(table.column(column).to_pylist())


def test_commits_come_out_once_and_in_order(tmp_path: Path) -> None:
    commits = Commits(MemoryStore(), "app")
    publisher = Publisher(commits, CommitLog(tmp_path / "backup", 0), _tables(tmp_path, commits), compact_every=3)
    _commit(commits, "before the start")
    publisher.start()
    for i in range(12):
        _commit(commits, f"c{i}", gone=f"c{i - 1}" if i else None)
        publisher.notify()
        publisher.wait_for_room()
    publisher.close()
    assert _read(tmp_path, "constraint_changes", "commit") == list(range(1, 14))
    assert _read(tmp_path, "constraint_changes", "constraint")[-2:] == ["c10", "c11"]
    assert sorted(_read(tmp_path, "constraints", "constraint_id")) == ["before the start", "c11"]
    assert _read(tmp_path, "batches", "commit") == [1, 3, 5, 7, 9, 11, 13]
    assert not list(commits.unpublished())
    assert not list(commits.unlogged())
    assert [n for n, _ in logged_after(tmp_path / "backup", 0)] == list(range(1, 14))


STEPS = [
    (CommitLog, "put"),
    (Commits, "logged"),
    (DeltaLakeTable, "publish"),
    (DeltaLakeTable, "_append"),
    (DeltaLakeTable, "_merge"),
    (DeltaLakeTable, "compact"),
    (Commits, "published"),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[0].__name__}.{step[1]}")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", [1, 2, 4])
def test_a_crash_at_any_step_is_repaired_by_the_next_start(
    step: tuple[type, str], when: str, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    commits = Commits(store, "app")
    owner, method = step
    original = getattr(owner, method)
    calls = 0

    def crash(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and when == "before":
            raise KeyboardInterrupt
        result = original(*given)
        if calls == call:
            raise KeyboardInterrupt
        return result

    for i in range(3):
        _commit(commits, f"c{i}", gone=f"c{i - 1}" if i else None)
    with monkeypatch.context() as patch:
        patch.setattr(owner, method, crash)
        publisher = Publisher(commits, CommitLog(tmp_path / "backup", 0), _tables(tmp_path, commits), compact_every=1)
        try:
            publisher.step()
            _commit(commits, "c3", gone="c2")
            publisher.step()
        except KeyboardInterrupt:
            if commits.last < 4:
                _commit(commits, "c3", gone="c2")
    commits = Commits(store, "app")
    publisher = Publisher(commits, CommitLog(tmp_path / "backup", 0), _tables(tmp_path, commits))
    publisher.start()
    publisher.close()
    assert _read(tmp_path, "constraint_changes", "commit") == [1, 2, 3, 4]
    assert _read(tmp_path, "constraints", "constraint_id") == ["c3"]
    assert _read(tmp_path, "batches", "commit") == [1, 3]
    assert not list(commits.unpublished())


def test_a_stream_that_runs_ahead_waits_and_a_failure_reaches_it(tmp_path: Path) -> None:
    class Stuck(DeltaLakeTable):
        published = 0

        def __init__(self) -> None:
            self.is_new, self.may_go = True, threading.Event()

        def publish(self, rows: Sequence[Mapping[str, Any]], upto: int) -> None:
            self.may_go.wait(10)
            raise OSError(f"{len(rows)} rows up to {upto}")

        def compact(self) -> None: ...

        def tidy(self, now: datetime.datetime) -> None: ...

    commits = Commits(MemoryStore(), "app")
    stuck = Stuck()
    tables = dict.fromkeys(("constraint_changes", "constraints", "batches"), stuck)
    publisher = Publisher(commits, CommitLog(tmp_path, 0), tables, most_behind=2)
    publisher.start()
    _commit(commits, "a")
    publisher.notify()
    publisher.wait_for_room()  # one commit may wait
    for text in "bc":
        _commit(commits, text)
    threading.Timer(0.3, stuck.may_go.set).start()
    with pytest.raises(OSError, match="rows up to"):
        publisher.wait_for_room()
    with pytest.raises(OSError, match="rows up to"):
        publisher.close()
    assert [n for n, _ in commits.unpublished()] == [1, 2, 3]


def test_tables_of_another_application_are_refused(tmp_path: Path) -> None:
    DeltaLakeTable(str(tmp_path / "t"), CONSTRAINTS, "one", "s")
    with pytest.raises(StateRefused, match="belongs to the application 'one', not to 'two'"):
        DeltaLakeTable(str(tmp_path / "t"), CONSTRAINTS, "two", "s")


def test_tables_say_what_they_are(tmp_path: Path) -> None:
    for shape in SHAPES.values():
        table = DeltaLakeTable(str(tmp_path / shape.name), shape, "app", "s")
        assert table.published == 0
        read = DeltaTable(tmp_path / shape.name)
        assert read.metadata().description == shape.description
        assert read.metadata().configuration["holdfast.application"] == "app"
        fields = {field.name: field for field in read.schema().fields}
        assert fields["commit"].metadata["comment"].startswith("number of the commit")
        assert read.metadata().partition_columns == list(shape.partition_by)
        assert (read.metadata().configuration["delta.enableChangeDataFeed"] == "true") == shape.change_feed


def test_slow_upkeep_holds_nobody_up_who_may_run_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = Commits(MemoryStore(), "app")
    tables = _tables(tmp_path, commits)
    started, may_end = threading.Event(), threading.Event()

    def slow(self: DeltaLakeTable) -> None:
        started.set()
        may_end.wait(10)

    monkeypatch.setattr(DeltaLakeTable, "compact", slow)
    publisher = Publisher(commits, CommitLog(tmp_path / "log", 0), tables, most_behind=3, compact_every=1)
    publisher.start()
    _commit(commits, "a")
    publisher.notify()
    assert started.wait(10)
    assert (publisher.published, publisher.behind) == (1, 0)  # what is compacted is published
    for text in "bcd":
        _commit(commits, text)
        publisher.wait_for_room()
    assert publisher.behind == 3
    may_end.set()
    publisher.close()
    assert (publisher.published, publisher.behind) == (4, 0)
    assert _read(tmp_path, "constraint_changes", "commit") == [1, 2, 3, 4]


@pytest.mark.parametrize("work", ["compact", "tidy"])
def test_upkeep_that_fails_stops_the_publisher_and_loses_nothing(
    work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = Commits(MemoryStore(), "app")
    folder = tmp_path / "log"
    with monkeypatch.context() as patch:
        patch.setattr(DeltaLakeTable, "_join", _full)
        often = 1 if work == "compact" else 1_000
        publisher = Publisher(commits, CommitLog(folder, 0), _tables(tmp_path, commits), compact_every=often)
        _commit(commits, "a")
        does = publisher.step if often == 1 else publisher.tidy
        if often > 1:
            publisher.step()
        with pytest.raises(ExternalError, match=r"could not be tidied up \(disk full\).*check the storage"):
            does()
    assert _read(tmp_path, "constraint_changes", "commit") == [1]
    _commit(commits, "b")
    publisher = Publisher(commits, CommitLog(folder, 0), _tables(tmp_path, commits))
    publisher.start()
    publisher.close()
    assert _read(tmp_path, "constraint_changes", "commit") == [1, 2]


def _full(*given: Any) -> None:
    raise OSError("disk full")


def test_somebody_who_writes_meanwhile_only_puts_upkeep_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def conflict(*given: Any) -> None:
        raise CommitFailedError("a concurrent transaction")

    commits = Commits(MemoryStore(), "app")
    monkeypatch.setattr(DeltaLakeTable, "_join", conflict)
    publisher = Publisher(commits, CommitLog(tmp_path / "log", 0), _tables(tmp_path, commits), compact_every=1)
    for text in "ab":
        _commit(commits, text)
        assert publisher.step()
    assert publisher.tidy()
    assert _read(tmp_path, "constraint_changes", "commit") == [1, 2]
    assert "left untidy till next time" in caplog.text


def test_tables_are_tidied_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tidied: list[str] = []
    monkeypatch.setattr(DeltaLakeTable, "tidy", lambda self, now: tidied.append(self.shape.name))
    commits = Commits(MemoryStore(), "app")
    publisher = Publisher(commits, CommitLog(tmp_path / "log", 0), _tables(tmp_path, commits), tidy_every=3_600)
    while publisher.tidy(3_600):
        pass
    assert sorted(tidied) == ["batches", "constraint_changes", "constraints"]


def test_outputs_that_are_gone_are_not_begun_anew(tmp_path: Path) -> None:
    commits = Commits(MemoryStore(), "app")
    identity = commits.identity
    about = {"commit": 1, "application": "app", "state_id": identity.state_id, "table_name": "t"}
    commits.commit(WriteBatch(), {"tables": [about]})  # as a seed does

    def started() -> Publisher:
        opened = open_tables(str(tmp_path / "out"), "app", identity.state_id)
        publisher = Publisher(commits, CommitLog(tmp_path / "log", 0), opened)
        publisher.start()
        return publisher

    for text in "ab":
        _commit(commits, text)
        started().close()
    (tmp_path / "out").rename(tmp_path / "moved")
    for _ in range(2):  # the tables that the first start made do not fool the second
        with pytest.raises(StateRefused, match=r"tables are gone that had commits up to 3"):
            started()
    shutil.rmtree(tmp_path / "out")
    shutil.copytree(tmp_path / "moved", tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "constraints")
    with pytest.raises(StateRefused, match=r"tables are gone that had commits up to 3 \(constraints\)"):
        started()
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "moved").rename(tmp_path / "out")
    _commit(commits, "c")
    started().close()
    assert _read(tmp_path / "out", "constraint_changes", "commit") == [2, 3, 4]


def test_rows_that_come_and_go_before_they_are_published_are_published(tmp_path: Path) -> None:
    """Their commits are in the output table, although nothing is in it: it has not lost its last versions."""
    commits = Commits(MemoryStore(), "app")
    row = {"application": "app", "state_id": commits.identity.state_id}

    def published() -> None:
        opened = open_tables(str(tmp_path / "out"), "app", commits.identity.state_id)
        publisher = Publisher(commits, CommitLog(tmp_path / "log", 0), opened)
        publisher.start()
        publisher.close()

    commits.commit(WriteBatch(), {"tables": [{"commit": 1, **row, "table_name": "t"}]})
    published()
    commits.commit(WriteBatch(), {"constraints": [{"commit": 2, **row, "constraint_id": "a"}]})
    commits.commit(WriteBatch(), {"constraints": [{"commit": 3, **row, "constraint_id": "a", "_gone": True}]})
    commits.commit(WriteBatch(), {"constraints": [{"commit": 4, **row, "constraint_id": "b", "_gone": True}]})
    published()
    published()
    assert _read(tmp_path / "out", "constraints", "commit") == []


@pytest.mark.parametrize("gone", ["near_constraints", "near_changes", "exceptions", "suspects", "concentrations"])
def test_what_nearly_holds_is_not_begun_anew_where_the_outputs_had_it(tmp_path: Path, gone: str) -> None:
    commits = Commits(MemoryStore(), "app")
    about = {"application": "app", "state_id": commits.identity.state_id, "table_name": "t"}

    def started() -> None:
        opened = open_tables(str(tmp_path / "out"), "app", commits.identity.state_id)
        publisher = Publisher(commits, CommitLog(tmp_path / "log", 0), opened)
        publisher.start()
        publisher.close()

    commits.commit(WriteBatch(), {"tables": [{"commit": 1, **about}]})  # as a seed without `near` does
    started()
    shutil.rmtree(tmp_path / "out" / gone)  # outputs of a version that did not know it
    row = {"commit": 2, **about, "constraint": "key(a)", "constraint_id": "a"}
    shown = {**row, "example_id": "e"}
    suspect = {"commit": 2, **about, "suspect_id": "s"}
    value = {"commit": 2, **about, "concentration_id": "c"}
    suspects = {"suspects": [suspect], "suspect_changes": [suspect], "concentrations": [value]}
    commits.commit(WriteBatch(), {"near_constraints": [row], "near_changes": [row], "exceptions": [shown], **suspects})
    started()
    assert _read(tmp_path / "out", gone, "commit") == [2]
    shutil.rmtree(tmp_path / "out" / gone)
    with pytest.raises(StateRefused, match=rf"tables are gone that had commits up to 2 \({gone}\)"):
        started()
    with pytest.raises(StateRefused, match=f"output table {gone} has lost its last versions"):  # made just before
        started()
