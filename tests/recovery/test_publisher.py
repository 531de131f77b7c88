"""Publishing: every commit's rows once and in order, whatever step fails and is done again."""

import datetime
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from holdfast.constraints import StateRefused
from holdfast.state.commits import Commits
from holdfast.state.log import CommitLog
from holdfast.state.memory import MemoryStore
from holdfast.state.store import WriteBatch
from holdfast.streaming.publisher import Publisher
from holdfast.streaming.sinks.deltalake import DeltaLakeTable
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
    assert [n for n, _ in CommitLog(tmp_path / "backup", 0).records()] == list(range(1, 14))


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
    class Stuck:
        published, is_new = 0, True

        def __init__(self) -> None:
            self.may_go = threading.Event()

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
