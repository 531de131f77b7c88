"""Does it stay what it was, over millions of changes and restarts?

Mixed changes (40 % inserts, 20 % updates, 40 % deletes; of each hundred one that is no record) through Kafka into a
table of tax records with a key, 100,000 rows and 9 columns, followed by `holdfast run` as a process, with rules,
snapshots and a backup. Now and then a row breaks dependencies, until it goes again. The process is ended ten times, by
SIGKILL to all of its group or by SIGTERM, and started again. At the end rows, constraints, rules, quarantine, batches
have to be what a discovery on the rows says. What memory and disk took is sampled by how many changes were committed,
and told by tenths of the run; between 60 % and 90 % there is no restart, so that what one process does shows.

`python -m benchmarks soak --changes 100000` is a smaller one.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring import Point, measured

CHANGES, ROWS, RESTARTS = 2_000_000, 100_000, 10
QUIET_FROM, QUIET_TO = 0.6, 0.9
EVERY_SECONDS = 1.0
LONGEST_SECONDS = 3_600
AT_ONCE = 5_000
BAD_SHARE, BREAKING_SHARE = 0.01, 1e-5
BAD = (b"", b"[1]", b'{"State": 7}', b'{"id": 1, "Salary": "much"}', b'{"id": 1', b"\xff")
RULES = [
    {"name": "city", "table": "tax", "fd": "Zip -> City"},
    {"name": "rates", "table": "tax", "forbid": "t.State = s.State and t.Salary < s.Salary and t.Rate > s.Rate"},
    {"name": "paid", "table": "tax", "require": "t.Salary > 20000"},
]
PLACES = ("state", "backup", "output", "checkpoint")


def points() -> Iterator[Point]:
    asked = [given for flag, given in zip(sys.argv, sys.argv[1:], strict=False) if flag == "--changes"]
    changes = int(asked[0] if asked else os.environ.get("HOLDFAST_SOAK", CHANGES))
    with tempfile.TemporaryDirectory(prefix="holdfast-soak-") as folder:
        yield measured(_soak, Path(folder), changes, min(ROWS, changes)).answer


@dataclass(frozen=True)
class Sample:
    """What was taken when so many changes were committed, in megabytes."""

    at: float
    changes: int
    python: int
    java: int
    state: float
    backup: float
    output: float
    checkpoint: float


class Soaked:
    """The application, its process, and what was seen of it."""

    def __init__(self, folder: Path, broker: str, base: Any, total: int) -> None:
        import pyarrow.parquet as pq

        from tests.streams import Application

        self.folder, self.total = folder, total
        folder.mkdir()
        pq.write_table(base, folder / "base.parquet")
        source = {"format": "kafka", "servers": broker, "topic": "tax", "encoding": "json", "start": "earliest"}
        self.app = Application(
            folder,
            [{"name": "tax", "key": ["id"], "seed": {"path": "./base.parquet"}, "source": source}],
            constraints={"denial": {"max_predicates": 4, "cross_columns": "none"}},
            rules=RULES,
            trigger={"interval": "0 ms", "max_records": min(20_000, total // 40)},
            snapshot={"interval": "20 seconds"},
        )
        self.samples: list[Sample] = []
        self.restarts: list[dict[str, Any]] = []
        self._began = time.monotonic()

    def run(self, ends: Sequence[tuple[int, str]]) -> None:
        """Follow the topic to its end, ended on the way when so many changes are committed."""
        for upto, how in (*ends, (self.total, "SIGTERM")):
            process = self._started()
            began, before, first = time.monotonic(), self._committed(), 0.0
            while (
                (committed := self._sampled(process)) < upto
                or committed == before < self.total
                or "following" not in self._said()
            ):
                if not first and committed > before:
                    first = time.monotonic() - began
                assert process.poll() is None, f"it ended with {process.returncode}: {self._said()}"
                assert time.monotonic() - self._began < LONGEST_SECONDS, f"it takes too long: {self._said()}"
                time.sleep(EVERY_SECONDS)
            first = first or time.monotonic() - began
            if how == "SIGKILL":
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)
            else:
                process.terminate()
                assert process.wait(300) == 0, f"it ended with {process.returncode}: {self._said()}"
            assert "Traceback" not in self._said(), self._said()
            self.restarts.append({"at": committed, "by": how, "first_batch_s": round(first, 1)})

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "from holdfast.jobs.command_line import main; main()", "run"]
        with (self.folder / "said.txt").open("wb") as log:
            return subprocess.Popen(
                [*command, str(self.app.file)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _sampled(self, process: "subprocess.Popen[bytes]") -> int:
        committed = self._committed()
        own, java = _resident(process.pid)
        sizes = [round(sum(_size(path) for path in (self.folder / place).rglob("*")) / 2**20, 1) for place in PLACES]
        self.samples.append(Sample(time.monotonic() - self._began, committed, own, java, *sizes))
        return committed

    def _committed(self) -> int:
        from holdfast.constraints import HoldfastError
        from holdfast.state.rocks import RocksReader
        from holdfast.streaming.commits.table_records import progress_of

        if not (self.folder / "state" / "CURRENT").exists():
            return 0
        try:
            with RocksReader(self.folder / "state") as reader:
                return progress_of(reader, "tax").records
        except HoldfastError:  # it is being made
            return 0

    def _said(self) -> str:
        return (self.folder / "said.txt").read_text(errors="replace")


def _soak(folder: Path, total: int, rows: int) -> Point:
    from benchmarks.stream import Changes, _create, _producer
    from tests import taxes
    from tests.kafka.broker import running_broker

    changes = Changes(rows, taxes.NARROW)
    with running_broker(folder) as broker:
        _create(broker, "tax")
        bad: list[str] = []
        failed: list[BaseException] = []

        def produce() -> None:
            try:
                _produce(_producer(broker), changes, total, bad)
            except BaseException as error:  # noqa: BLE001  (raised where somebody waits)
                failed.append(error)

        soaked = Soaked(folder / "app", broker, changes.base, total)
        producing = threading.Thread(target=produce)
        producing.start()
        began = time.monotonic()
        soaked.run(_ends(total))
        taken = time.monotonic() - began
        producing.join()
        if failed:
            raise failed[0]
        began = time.monotonic()
        soaked.app.check({"tax": changes.rows()}, {"tax": bad})
        checked = time.monotonic() - began
        counted = sum(row["rows_in"] for row in soaked.app.output("batches"))
        assert counted == total, (counted, total)
    return {
        "what": "soak",
        "table": f"tax {rows:,} x 9",
        "changes": total,
        "bad_records": len(bad),
        "rows_at_end": len(changes.rows()),
        "seconds": round(taken),
        "changes_a_second": round(total / taken),
        "batches": len(soaked.app.output("batches")),
        "constraint_changes": len(soaked.app.output("constraint_changes")),
        "ended": soaked.restarts,
        "equal_to_discovery": True,
        "checking_s": round(checked),
        "largest_by_tenth_mb": _by_part(soaked.samples, total, 10),
        "undisturbed_by_tenth_mb": _by_part(
            [s for s in soaked.samples if QUIET_FROM * total <= s.changes < QUIET_TO * total], total, 10
        ),
    }


def _produce(producer: Any, changes: Any, total: int, bad: list[str]) -> None:
    """Send so many records, note which are none; one row in 100,000 breaks what follows from its state."""
    dice, sent = random.Random(11), 0
    while sent < total:
        are_bad = [dice.random() < BAD_SHARE for _ in range(min(AT_ONCE, total - sent))]
        good = iter(changes.batch(len(are_bad) - sum(are_bad)))
        for is_bad in are_bad:
            if is_bad:
                bad.append(f"tax-0-{sent}")
                key, value = None, dice.choice(BAD)
            else:
                key, value = next(good)
                if dice.random() < BREAKING_SHARE:
                    value = changes.broken(value)
            producer.produce("tax", value, key)
            sent += 1
        producer.poll(0)
    assert producer.flush(300) == 0


def _ends(total: int) -> list[tuple[int, str]]:
    """Return when and how the process is ended: not while one is to be watched for long."""
    dice = random.Random(12)
    places = sorted(dice.uniform(0.02, QUIET_FROM) for _ in range(RESTARTS - 2))
    places += sorted(dice.uniform(QUIET_TO, 0.97) for _ in range(2))
    return [(int(place * total), "SIGKILL" if i % 2 == 0 else "SIGTERM") for i, place in enumerate(places)]


def _by_part(samples: Sequence[Sample], total: int, parts: int) -> dict[str, list[float]]:
    """Return the largest of each figure, by part of the changes."""
    found: dict[str, list[float]] = {}
    names = [name for name in asdict(samples[0]) if name not in {"at", "changes"}]
    for part in range(parts):
        some = [s for s in samples if part <= s.changes * parts / total < part + 1]
        for name in names if some else ():
            found.setdefault(name, []).append(max(getattr(s, name) for s in some))
    return found


def _resident(pid: int) -> tuple[int, int]:
    """Return what a process has in memory, and the Java process that it started, in megabytes."""
    own, java = 0, 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            group = os.getpgid(int(status.parent.name))
        except (OSError, ValueError):
            continue
        if group == pid and "VmRSS" in fields:
            size = int(fields["VmRSS"].split()[0]) >> 10
            if int(status.parent.name) == pid:
                own = size
            elif fields["Name"].strip() == "java":
                java = max(java, size)
    return own, java


def _size(path: Path) -> int:
    try:
        found = path.lstat()
    except OSError:
        return 0
    return found.st_blocks * 512


if __name__ == "__main__":
    for point in points():
        print(json.dumps(point))
