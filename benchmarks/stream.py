"""How long from Kafka to the output tables, how much in a second, how long to start again?

`latency`: batches of 100 changes (inserts, updates, deletes) to a table of 30,000 rows and 11 columns, one after the
other: from the broker's acknowledgement to all output tables having the commit. The floor is the same stream with a
callback that does nothing, in the same run, before and after. `sustained`: changes offered at a rate, for minutes: how
far the stream falls behind, and what memory does. `drain`: a backlog. `restart`: from the start of the process to
the first committed batch on a state of a million rows. `seeding`: `holdfast seed` against `holdfast discover` in the
same run.

The broker is a process of its own on the same machine; it, the producer and Spark share its processors.
"""

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measuring import Point, measured

BATCHES, FLOOR_BATCHES = 2_000, 150
RATE, SECONDS = 10_000, 300
RESTARTED = 1_000_000
STEPS = ("read", "decode", "apply")


def points() -> Iterator[Point]:
    wanted = os.environ.get("HOLDFAST_STREAM", "latency,sustained,drain,restart,seeding").split(",")
    with tempfile.TemporaryDirectory(prefix="holdfast-stream-") as folder:
        if "latency" in wanted:
            yield measured(_latency, Path(folder, "latency"), BATCHES).answer
        if "drain" in wanted:
            yield measured(_drain, Path(folder, "drain"), 500_000).answer
        if "sustained" in wanted:
            yield measured(_sustained, Path(folder, "sustained"), RATE, SECONDS).answer
        if "seeding" in wanted or "restart" in wanted:
            yield from _seeding_and_restart(Path(folder, "large"))


# Workloads


class Changes:
    """Changes to a table of tax records with a key, as JSON, and the rows that are left.

    Parameters
    ----------
    rows, columns : of the base.
    """

    def __init__(self, rows: int, columns: tuple[str, ...], seed: int = 5) -> None:
        from tests import taxes

        self.base = _with_id(taxes.tax_records(rows, columns), 0)
        more = _with_id(taxes.tax_records(200_000, columns, first_row=rows), rows)
        self._more = more.to_pylist()
        self._rows = {row["id"]: row for row in self.base.to_pylist()}
        self._ids = list(self._rows)
        self._next = 0
        self._dice = random.Random(seed)

    def batch(self, count: int) -> list[tuple[str, str]]:
        """Return keys and values: two inserts to two deletes and an update, so that the table keeps its size."""
        dice, made = self._dice, []
        for _ in range(count):
            kind = dice.random()
            if kind < 0.4 or len(self._ids) < 10:
                row = dict(self._more[self._next % len(self._more)])
                row["id"] = len(self.base) + self._next
                self._next += 1
                self._rows[row["id"]] = row
                self._ids.append(row["id"])
                made.append({"_op": "insert", **row})
            elif kind < 0.6:
                row = dict(self._more[dice.randrange(len(self._more))])
                row["id"] = self._ids[dice.randrange(len(self._ids))]
                self._rows[row["id"]] = row
                made.append({"_op": "update", **row})
            else:
                place = dice.randrange(len(self._ids))
                self._ids[place], self._ids[-1] = self._ids[-1], self._ids[place]
                gone = self._ids.pop()
                del self._rows[gone]
                made.append({"_op": "delete", "id": gone})
        return [(str(change["id"]), json.dumps(change)) for change in made]

    def broken(self, value: str) -> str:
        """Give the row of a change a rate that its state and salary do not have."""
        change = json.loads(value)
        row = self._rows.get(change["id"])
        if row is None or change["_op"] == "delete":
            return value
        row["Rate"] = change["Rate"] = 99.75
        return json.dumps(change)

    def rows(self) -> list[dict[str, Any]]:
        return list(self._rows.values())


def _with_id(table: Any, first: int) -> Any:
    import pyarrow as pa

    return table.add_column(0, "id", pa.array(range(first, first + len(table)), pa.int64()))


# A running application


class Application:
    """A configuration, its state and its queries, in this process."""

    def __init__(self, folder: Path, broker: str, base: Any, topic: str, key: tuple[str, ...] = ("id",)) -> None:
        import pyarrow.parquet as pq

        folder.mkdir(parents=True)
        pq.write_table(base, folder / "base.parquet")
        self.file = folder / "conf.yaml"
        self.file.write_text(
            f"""name: bench
state: ./state
backup: ./backup
output: ./tables
checkpoint: ./checkpoint
trigger: {{interval: 0 ms}}
tables:
  - name: tax
    key: [{", ".join(key)}]
    seed: {{path: ./base.parquet}}
    source: {{format: kafka, servers: "{broker}", topic: {topic}, encoding: json, start: earliest}}
constraints: {{denial: {{max_predicates: 4, cross_columns: none}}}}
"""
        )

    @contextmanager
    def running(self, done: Callable[[Any], object]) -> Iterator[Any]:
        """Run until the block ends; give the publisher."""
        from holdfast.jobs.application.opening import OpenState
        from holdfast.jobs.application.session import Session
        from holdfast.jobs.application.streams import streams
        from holdfast.jobs.configuration.reading import load
        from holdfast.jobs.seed import seed_tables
        from holdfast.jobs.terminal.progress import progress_on
        from holdfast.state.commits import Commits
        from holdfast.state.rocks import RocksStore
        from holdfast.streaming.pipeline import Pipeline
        from holdfast.streaming.sinks.publisher import Publisher
        from holdfast.streaming.spark.running import Running
        from holdfast.streaming.state_view import StateView

        configuration = load(self.file)
        settings = configuration.settings
        progress = progress_on(sys.stderr)
        store = RocksStore(Path(settings.state))
        commits = Commits(store, settings.name)
        session = Session(settings)
        state = OpenState(settings, store, commits, session)
        tables = seed_tables(configuration, state, progress)
        publisher = Publisher(commits, state.log(), state.outputs())
        publisher.start()
        pipeline = Pipeline(tables, publisher)
        found = streams(settings, pipeline.schemas, StateView(store))
        running = Running(session(), pipeline, found, {"processingTime": "0 milliseconds"}, done)
        stop = threading.Event()
        failed: list[BaseException] = []

        def follow() -> None:
            try:
                running.run(stop, publisher.check)
            except BaseException as error:  # noqa: BLE001
                failed.append(error)

        thread = threading.Thread(target=follow)
        thread.start()
        self.tables, self.commits, self.spark = tables, commits, session()
        try:
            yield publisher
        finally:
            stop.set()
            thread.join()
            publisher.close()
            store.close()
        if failed:
            raise failed[0]


def _producer(broker: str) -> Any:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": broker, "linger.ms": 0, "queue.buffering.max.messages": 1_000_000}
    return Producer(settings)


def _create(broker: str, *topics: str) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": broker})
    for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        future.result(30)


def _send(producer: Any, topic: str, messages: list[tuple[str, str]]) -> None:
    for number, (key, value) in enumerate(messages):
        producer.produce(topic, value, key)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def _check(application: Application, changes: Changes) -> None:
    """Assert that the table and its constraints are what a discovery says."""
    import pyarrow as pa

    from holdfast import discover, from_arrow

    maintainer = application.tables["tax"]
    table = from_arrow(pa.Table.from_pylist(changes.rows(), schema=changes.base.schema), "tax")
    assert maintainer.row_count == table.row_count, (maintainer.row_count, table.row_count)
    anew = discover(table, space=maintainer.space, max_predicates=4)
    assert {str(c) for c in anew} == {str(c) for c in maintainer.constraints}


# Points


def _latency(folder: Path, batches: int) -> Point:
    from tests import taxes
    from tests.kafka.broker import running_broker

    folder.mkdir(parents=True)
    changes = Changes(30_000, taxes.WIDE[:10])
    with running_broker(folder) as broker:
        _create(broker, "tax", "floor")
        producer = _producer(broker)
        came, done = 0, threading.Condition()
        steps: list[dict[str, float]] = []

        def note(batch: Any) -> None:
            nonlocal came
            steps.append({**batch.seconds, "apply": batch.result.seconds})
            with done:
                came += len(batch.arrived.records)
                done.notify()

        application = Application(folder / "app", broker, changes.base, "tax")
        with application.running(note) as publisher:
            floor = _floor(application.spark, folder, broker, producer, changes)
            taken = []
            for number in range(batches + 20):
                messages = changes.batch(100)
                _send(producer, "tax", messages)
                began = time.perf_counter()
                with done:
                    while came < 100 * (number + 1):
                        done.wait(60)
                while publisher.behind:
                    time.sleep(0.0005)
                if number >= 20:
                    taken.append(time.perf_counter() - began)
            floor += _floor(application.spark, folder, broker, producer, changes, "again")
            _check(application, changes)
    half = len(taken) // 4
    in_ms = [t * 1_000 for t in taken]
    p50, floor_p50 = statistics.median(in_ms), statistics.median(floor) * 1_000
    return {
        "what": "latency",
        "table": "tax 30,000 x 11",
        "changes": 100,
        "batches": len(in_ms),
        "p50_ms": round(p50),
        "p99_ms": round(statistics.quantiles(in_ms, n=100)[98]),
        "floor_ms": round(floor_p50),
        "goal_ms": round(1.3 * floor_p50 + 60),
        "first_quarter_ms": round(statistics.median(in_ms[:half])),
        "last_quarter_ms": round(statistics.median(in_ms[-half:])),
        "steps_ms": {
            name: round(statistics.median(step.get(name, 0.0) for step in steps) * 1_000, 1) for name in STEPS
        },
    }


def _floor(spark: Any, folder: Path, broker: str, producer: Any, changes: Changes, name: str = "first") -> list[float]:
    """Return how long an empty callback takes from the acknowledgement."""
    called = threading.Semaphore(0)
    options = {"kafka.bootstrap.servers": broker, "subscribe": "floor", "kafka.fetch.max.wait.ms": "5"}
    frame = spark.readStream.format("kafka").options(**options).option("startingOffsets", "latest").load()
    writer = frame.writeStream.foreachBatch(lambda *_: called.release())
    writer = writer.option("checkpointLocation", str(folder / f"floor-{name}"))
    query = writer.trigger(processingTime="0 milliseconds").start()
    messages = Changes(100, tuple(changes.base.column_names[1:4])).batch(100)
    taken = []
    time.sleep(3)
    for number in range(FLOOR_BATCHES):
        _send(producer, "floor", messages)
        began = time.perf_counter()
        if not called.acquire(timeout=20):
            raise RuntimeError("the empty callback was not called")
        if number >= 10:
            taken.append(time.perf_counter() - began)
    query.stop()
    return taken


def _drain(folder: Path, count: int) -> Point:
    from tests import taxes
    from tests.kafka.broker import running_broker

    folder.mkdir(parents=True)
    changes = Changes(100_000, taxes.NARROW)
    with running_broker(folder) as broker:
        _create(broker, "tax")
        _send(_producer(broker), "tax", changes.batch(count))
        seen: list[tuple[float, int, dict[str, float]]] = []
        finished = threading.Event()

        def note(batch: Any) -> None:
            records = len(batch.arrived.records)
            seen.append((time.perf_counter(), records, {**batch.seconds, "apply": batch.result.seconds}))
            if sum(n for _, n, _ in seen) >= count:
                finished.set()

        application = Application(folder / "app", broker, changes.base, "tax")
        with application.running(note) as publisher:
            assert finished.wait(900)
            while publisher.behind:
                time.sleep(0.01)
            ended = time.perf_counter()
            _check(application, changes)
    first = seen[0]
    rate = (count - first[1]) / (ended - first[0])
    steps = {name: round(statistics.median(s.get(name, 0.0) for _, _, s in seen), 3) for name in STEPS}
    return {
        "what": "drain",
        "table": "tax 100,000 x 9",
        "changes": count,
        "changes_a_second": round(rate),
        "steps_s": steps,
    }


def _sustained(folder: Path, rate: int, seconds: int) -> Point:
    """Offer changes at a rate from a process of its own."""
    from tests import taxes
    from tests.kafka.broker import running_broker

    folder.mkdir(parents=True)
    changes = Changes(100_000, taxes.NARROW)
    with running_broker(folder) as broker:
        _create(broker, "tax")
        total = rate * seconds
        file = folder / "changes.jsonl"
        with file.open("w", encoding="utf-8") as out:
            for _ in range(seconds):
                for _, value in changes.batch(rate):
                    out.write(value + "\n")
        seen: list[tuple[float, int, int]] = []
        came = 0
        finished = threading.Event()

        def note(batch: Any) -> None:
            nonlocal came
            came += len(batch.arrived.records)
            seen.append((time.perf_counter(), came, _resident()))
            if came >= total:
                finished.set()

        application = Application(folder / "app", broker, changes.base, "tax")
        with application.running(note) as publisher:
            sender = subprocess.Popen(_offering(broker, "tax", file, rate))
            began = time.perf_counter()
            assert finished.wait(seconds * 4)
            sender.wait()
            while publisher.behind:
                time.sleep(0.01)
            ended = time.perf_counter()
            _check(application, changes)
    offset = began + 2.0  # the sender starts
    lags = [max(0, min(total, int((at - offset) * rate)) - n) for at, n, _ in seen]
    third = len(seen) // 3
    return {
        "what": "sustained",
        "table": "tax 100,000 x 9",
        "offered_a_second": rate,
        "seconds": seconds,
        "changes_a_second": round(total / (ended - offset)),
        "batches": len(seen),
        "largest_lag": max(lags),
        "lag_by_third": [round(statistics.mean(lags[third * i : third * (i + 1)])) for i in range(3)],
        "memory_mb_by_third": [seen[i][2] for i in (third, 2 * third, len(seen) - 1)],
        "rows_at_end": application.tables["tax"].row_count,
    }


def _resident() -> int:
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def _seeding_and_restart(folder: Path) -> Iterator[Point]:
    import pyarrow.parquet as pq

    from tests import taxes

    folder.mkdir(parents=True)
    base = _with_id(taxes.tax_records(RESTARTED, taxes.NARROW), 0)
    pq.write_table(base, folder / "base.parquet")
    (folder / "changes").mkdir()
    (folder / "conf.yaml").write_text(
        """name: bench
state: ./state
backup: ./backup
output: ./tables
checkpoint: ./checkpoint
tables:
  - name: tax
    key: [id]
    seed: {path: ./base.parquet}
    source: {format: files, path: ./changes, encoding: json}
constraints: {denial: {max_predicates: 4, cross_columns: none}}
"""
    )
    _holdfast(folder, "validate", "conf.yaml")
    discovering, _ = _holdfast(folder, "discover", "base.parquet", "--family", "dc", "--no-cross-columns")
    seeding, _ = _holdfast(folder, "seed", "conf.yaml")
    yield {
        "what": "seeding",
        "table": f"tax {RESTARTED:,} x 9",
        "discover_seconds": round(discovering, 1),
        "seed_seconds": round(seeding, 1),
        "times": round(seeding / discovering, 2),
        "goal_times": 1.5,
    }
    taken = []
    for number in range(3):
        (folder / "changes" / f"{number}.json").write_text(json.dumps({"_op": "delete", "id": number}) + "\n")
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, "run", "conf.yaml"], cwd=folder, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append((time.perf_counter() - began, line.strip()))
            if f"batch={number}" in line:
                break
        else:
            raise RuntimeError("\n".join(line for _, line in lines))
        taken.append(time.perf_counter() - began)
        process.terminate()
        process.communicate()
        assert process.returncode == 0, process.returncode
    shutil.rmtree(folder)
    yield {
        "what": "restart",
        "table": f"tax {RESTARTED:,} x 9",
        "seconds": [round(t, 1) for t in taken],
        "goal": 20,
        "steps": [f"{at:.1f} {line[:60]}" for at, line in lines],
    }


_MAIN = "from holdfast.jobs.command_line import main; main()"


def _holdfast(folder: Path, *arguments: str) -> tuple[float, str]:
    began = time.perf_counter()
    command = [sys.executable, "-c", _MAIN, *arguments]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return time.perf_counter() - began, ran.stderr


def _offering(broker: str, topic: str, file: Path, rate: int) -> list[str]:
    """Return the command that offers the lines of a file."""
    return [sys.executable, "-m", "benchmarks.stream", broker, topic, str(file), str(rate)]


def _offer(broker: str, topic: str, file: str, rate: str) -> None:
    """Send the lines of a file at a rate."""
    producer = _producer(broker)
    each = int(rate) // 20
    began = time.perf_counter()
    with Path(file).open("rb") as lines:
        number = 0
        while True:
            sent = 0
            for line in lines:
                producer.produce(topic, line.rstrip(b"\n"))
                sent += 1
                if sent == each:
                    break
            if not sent:
                break
            producer.poll(0)
            number += 1
            time.sleep(max(0.0, began + number / 20 - time.perf_counter()))
    producer.flush(120)


if __name__ == "__main__":
    _offer(*sys.argv[1:])
