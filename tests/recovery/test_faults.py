"""Faults around a process, without Spark: two writers, slow tables, clocks that jump, no memory, files that may not grow.

Each has a defined result; once the cause is gone, the next start goes on, and the outputs are those of the rows.
"""

from __future__ import annotations

import datetime
import gc
import random
import resource
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from holdfast.constraints import Column, ExternalError, HoldfastError, Schema, StateRefused
from holdfast.constraints.types import INTEGER
from holdfast.jobs.command_line import exit_code_of
from holdfast.streaming.incoming.key_versions import KeyVersions, versions_definition
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory
from holdfast.streaming.maintainers.maintainer import DELETE
from holdfast.streaming.sinks.deltalake import DeltaLakeTable
from tests.recovery.disks import fill
from tests.recovery.process import History, Process, check, holdfast, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

OFFSETS = 8
PATIENCE_SECONDS = 60


@pytest.fixture
def app(tmp_path: Path) -> tuple[Path, History]:
    """An application that was stopped half way."""
    history = History(7, OFFSETS)
    folder = tmp_path / "app"
    folder.mkdir()
    process = Process(folder, history)
    process.follow(4)
    process.stop()
    return folder, history


def goes_on(folder: Path, history: History) -> None:
    """Assert that the next start brings the history to its end."""
    process = Process(folder, history)
    process.follow(OFFSETS)
    process.stop()
    check(folder, history)


def to_the_end(process: Process) -> None:
    """Follow the history, and publish it."""
    process.follow(OFFSETS)
    process.publisher.close()


def waits_for(seen: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.01)


# Two writers


def test_a_second_process_on_a_state(app: tuple[Path, History]) -> None:
    folder, history = app
    process = Process(folder, history)
    with pytest.raises(StateRefused, match="is in use by another process: one at a time may write a state"):
        Process(folder, history)
    process.stop()
    goes_on(folder, history)


def test_a_state_that_was_restored_elsewhere(app: tuple[Path, History], capsys: pytest.CaptureFixture[str]) -> None:
    folder, history = app
    elsewhere = folder.with_name("elsewhere")
    elsewhere.mkdir()
    shutil.copyfile(folder / "conf.yaml", elsewhere / "conf.yaml")
    shutil.copytree(folder / "checkpoint", elsewhere / "checkpoint")
    for shared in ("backup", "output"):
        (elsewhere / shared).symlink_to(folder / shared)
    process = Process(folder, history)
    code, said = holdfast(elsewhere, "rebuild", capsys)
    assert code == 0, said
    with pytest.raises(StateRefused, match=r"the state was restored elsewhere, and goes on there. Stop this process"):
        process.follow(OFFSETS)
    process.kill()
    goes_on(elsewhere, history)
    with pytest.raises(StateRefused, match=r"the state was restored elsewhere, and goes on there. Stop this process"):
        Process(folder, history)


def test_two_states_on_one_output(app: tuple[Path, History]) -> None:
    folder, history = app
    other = folder.with_name("other")
    other.mkdir()
    (other / "output").symlink_to(folder / "output")
    first = Process(folder, history)
    second = Process(other, history)
    with pytest.raises(StateRefused, match=r"another state of this application .* Stop one of them"):
        to_the_end(first)
    first.kill()
    second.follow(OFFSETS)
    second.stop()


# Slow tables, clocks


def test_batches_wait_for_slow_tables(app: tuple[Path, History], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, history = app
    history = History(7, 40)
    original, may = DeltaLakeTable.publish, threading.Event()

    def slow(*given: Any) -> None:
        may.wait(PATIENCE_SECONDS)
        original(*given)

    process = Process(folder, history, most_behind=3)
    monkeypatch.setattr(DeltaLakeTable, "publish", slow)
    followed = threading.Thread(target=process.follow, args=(40,))
    followed.start()
    waits_for(lambda: process.publisher.behind == 4)
    behind = set()
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        behind.add(process.publisher.behind)
        assert len(list(process.commits.unpublished())) <= 4
        assert len(list(process.commits.unlogged())) <= 1
        time.sleep(0.01)
    assert behind == {4}
    may.set()
    followed.join(PATIENCE_SECONDS)
    assert not followed.is_alive()
    process.stop()
    check(folder, history)


def test_a_clock_that_goes_back(tmp_path: Path) -> None:
    history = History(7, OFFSETS)
    dice = random.Random(3)
    start = datetime.datetime(2026, 3, 29, 2, tzinfo=datetime.UTC)

    def now() -> datetime.datetime:
        return start + datetime.timedelta(seconds=dice.uniform(-400 * 86_400, 86_400))

    for upto in (3, 6, OFFSETS):
        process = Process(tmp_path, history, now)
        process.follow(upto)
        process.publisher.close()
        while process.publisher.tidy(1e9):
            pass
        process.stop()
    check(tmp_path, history)
    batches = rows_of(tmp_path, "batches")
    assert [row["batch_id"] for row in batches] == list(range(OFFSETS))
    times = [row["committed_at"] for row in batches]
    assert times != sorted(times)
    metrics = {row["commit"] for row in rows_of(tmp_path, "metrics")}
    assert metrics == {row["commit"] for row in batches}


def test_keys_are_not_forgotten_early_by_a_clock_that_goes_back() -> None:
    import numpy as np
    import pyarrow as pa

    from holdfast.tables import from_arrow

    at = 1_000_000.0
    schema = Schema("t", (Column("k", INTEGER),))
    rows = RowsInMemory(versions_definition(schema, ["k"]).empty())
    versions = KeyVersions(rows, retention=10.0, clock=lambda: at)

    def note(key: int, sequence: int) -> None:
        table = from_arrow(pa.table({"k": pa.array([key], pa.int64())}), "t")
        versions.latest(table)
        versions.note(np.array([DELETE], np.int8), np.array([sequence], np.int64), np.arange(1))

    note(1, 5)
    at -= 500_000.0
    for sequence in range(200):
        note(2, sequence)
    table = from_arrow(pa.table({"k": pa.array([1, 2, 3], pa.int64())}), "t")
    assert versions.latest(table)[:2].tolist() == [5, 199]


# Memory, and files that may not grow


@pytest.mark.parametrize("kind", [MemoryError("Unable to allocate 3.1 GiB"), OSError(28, "No space left on device")])
def test_what_the_machine_lacks_is_no_defect(
    kind: BaseException, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from holdfast.jobs.configuration import reading as configuration

    def failing(*_: object) -> None:
        raise kind

    monkeypatch.setattr(configuration, "load", failing)
    assert exit_code_of(["run", str(tmp_path / "x.yaml")]) == 5
    said = capsys.readouterr().err
    assert "There is not enough memory" in said or "the disk is full: make room" in said


LIMITED = """
import resource, sys
from pathlib import Path
from holdfast.constraints import HoldfastError
from tests.recovery.process import History, Process
process = Process(Path(sys.argv[1]), History(7, 8))
taken = [int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmSize")][0]
resource.setrlimit(resource.RLIMIT_AS, (taken + int(sys.argv[2]), -1))
held = []
try:
    while len(held) < 100_000:
        held.append(bytearray(1 << 16))
except MemoryError:
    pass
try:
    process.follow(8)
except MemoryError:
    print("MemoryError", flush=True)
    import os
    os._exit(5)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
@pytest.mark.parametrize("more", [1 << 20, 64 << 20])
def test_a_process_that_gets_no_memory_leaves_its_state_unharmed(app: tuple[Path, History], more: int) -> None:
    folder, history = app
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, str(folder), str(more)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    print(ended.returncode, ended.stdout, ended.stderr[-2_000:])
    assert ended.returncode, "the limit was too high to matter"
    goes_on(folder, history)


def test_files_that_may_not_grow(app: tuple[Path, History]) -> None:
    """What stands in for a full disk where no file system can be mounted."""
    folder, history = app
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    process = Process(folder, history)
    size = max(path.stat().st_size for path in folder.glob("state/*.log"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
    try:
        with pytest.raises(ExternalError, match=r"raise the limit \(ulimit -f\) for .*, and start again"):
            to_the_end(process)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        process.kill()
    del process
    goes_on(folder, history)


# Full disks


@pytest.mark.parametrize("place", ["state", "backup", "output"])
def test_a_full_disk(app: tuple[Path, History], place: str, small_disk: Callable[[Path, int], None]) -> None:
    folder, history = app
    small_disk(folder / place, 64)
    ballast = folder / place / ("ballast" if place != "backup" else "ballast.bin")
    for _ in range(2):
        process: Process | None = None
        try:
            process = Process(folder, history)
            with ballast.open("wb", buffering=0) as file:
                fill(file)
            process.follow(OFFSETS)
            process.stop()
            said = ""
        except HoldfastError as error:
            said, code = str(error), error.exit_code
            assert code == 5, said
        finally:
            if process is not None:
                process.kill()
            process = None
            gc.collect()  # an error that its own frames refer to keeps the store open, and so locked
        assert "the disk is full: make room on the disk of " in said, said
        assert str(folder / place) in said
        assert "start again" in said
    ballast.unlink()
    goes_on(folder, history)
    assert not list(folder.glob(f"{place}/**/*.part"))


def test_outputs_that_fill_up_have_whole_commits(
    app: tuple[Path, History], small_disk: Callable[[Path, int], None]
) -> None:
    folder, history = app
    small_disk(folder / "output", 64)
    process = Process(folder, history)
    before = {name: DeltaTable(folder / "output" / name).version() for name in ("batches", "constraints")}
    with (folder / "output" / "ballast").open("wb", buffering=0) as file:
        fill(file)
    with pytest.raises(ExternalError, match="the disk is full"):
        to_the_end(process)
    process.kill()
    for name, version in before.items():
        table = DeltaTable(folder / "output" / name)
        assert table.version() >= version
        table.to_pyarrow_table()
    (folder / "output" / "ballast").unlink()
    goes_on(folder, history)
