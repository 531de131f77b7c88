"""Faults around `holdfast run` itself: a broker that goes away, a disk that is full, memory that is not there."""

from __future__ import annotations

import json
import random
import signal
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.streaming.maintainers.maintainer import Maintainer
from tests.kafka.broker import StoppableBroker
from tests.recovery.disks import fill
from tests.recovery.feeds import TopicFeed
from tests.recovery.kills import SECTIONS
from tests.streams import Application, Row, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

TABLE: dict[str, Any] = {
    "name": "t",
    "key": ["k"],
    "columns": {"k": "integer", "a": "integer"},
    "source": {"format": "files", "path": "./changes", "encoding": "json", "options": {"maxFilesPerTrigger": "1"}},
}


def come(app: Application, rows: list[Row], files: int) -> None:
    for _ in range(files):
        row = {"k": len(rows), "a": len(rows) % 3}
        rows.append(row)
        app.put(f"{app.written:04}.json", json.dumps(row).encode())


def test_a_checkpoint_on_a_full_disk(
    spark: SparkSession, tmp_path: Path, small_disk: Callable[[Path, int], None]
) -> None:
    app = Application(tmp_path, [TABLE])
    rows: list[Row] = []
    come(app, rows, 2)
    place = tmp_path / "checkpoint"
    small_disk(place, 2)
    app.drain()
    come(app, rows, 3)
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        fill(file)
    for _ in range(2):
        refused(app, 5, "No space left on device", str(place), "make room, then start again: nothing is lost")
    ballast.unlink()
    app.drain()
    app.check({"t": rows}, {"t": []})


def test_a_batch_that_gets_no_memory(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Application(tmp_path, [TABLE])
    rows: list[Row] = []
    come(app, rows, 1)
    app.drain()
    come(app, rows, 2)
    original = Maintainer.apply_records

    def failing(*given: Any) -> Any:
        original(*given)
        raise MemoryError("Unable to allocate 3.1 GiB")

    with monkeypatch.context() as patch:
        patch.setattr(Maintainer, "apply_records", failing)
        for _ in range(4):  # more often than a batch may fail: it is not the batch's fault
            refused(app, 5, "table t, batch 1: there is not enough memory", "3.1 GiB", "trigger.max_records")
    app.drain()
    app.check({"t": rows}, {"t": []})


@pytest.mark.parametrize("name", ["metadata", "offsets", "commits"])
def test_a_checkpoint_that_is_damaged(spark: SparkSession, tmp_path: Path, name: str) -> None:
    app = Application(tmp_path, [TABLE])
    rows: list[Row] = []
    come(app, rows, 3)
    app.drain()
    place = tmp_path / "checkpoint" / "t" / name
    path = place if name == "metadata" else max(place.glob("[0-9]*"), key=lambda found: int(found.name))
    path.write_bytes(path.read_bytes()[:3])
    come(app, rows, 1)
    refused(app, 4, str(tmp_path / "checkpoint" / "t"), "is damaged", path.name, "holdfast rebuild")
    code, said = app("rebuild")
    assert code == 0, said
    assert "its checkpoint did not fit the state; a new one begins" in said
    app.drain()
    app.check({"t": rows}, {"t": []})


@pytest.mark.kafka
def test_a_broker_that_is_stopped_and_started_again(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    (tmp_path / "app").mkdir()
    broker = StoppableBroker(tmp_path / "broker")
    broker.start()
    try:
        feed = TopicFeed(broker.address, "t", random.Random(9))
        app = Application(tmp_path / "app", [feed.table], **SECTIONS)
        feed.come()
        process = app.started()
        process.wait_for(lambda: bool(app.output("batches")))
        broker.stop()
        broker.start()
        feed.come()
        feed.come()
        process.wait_for(lambda: sum(row["rows_in"] for row in app.output("batches")) == feed.sent)
        assert process.signal(signal.SIGTERM) == 0
        assert "Traceback" not in process.said
        app.check({"t": feed.rows()}, {"t": feed.bad})

        broker.stop()
        refused(app, 5, "does not answer", "Check 'servers'", command=["run"])
        broker.start()
        feed.come()
        app.drain()
        app.check({"t": feed.rows()}, {"t": feed.bad})
    finally:
        broker.stop()
