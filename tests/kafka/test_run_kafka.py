"""`holdfast run` on topics of a real broker: every committed record once, in the order of its partition."""

from __future__ import annotations

import json
import random
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic, TopicPartition

from holdfast.streaming.spark.sources import kafka
from tests.streams import Application, Row

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = {"k": "integer", "a": "integer", "b": "string"}
PARTITIONS = 3


class Topic:
    """A topic, and the rows that its records leave."""

    def __init__(self, broker: str, name: str, dice: random.Random | None = None, **config: str) -> None:
        self.broker, self.name = broker, name
        self.dice = dice or random.Random(1)
        self.rows: dict[int, Row] = {}
        self.bad: list[str] = []
        self.ends = [0] * PARTITIONS
        self.admin = AdminClient({"bootstrap.servers": broker, "log_level": 0})
        for future in self.admin.create_topics([NewTopic(name, PARTITIONS, 1, config=config)]).values():
            future.result(30)
        self.producer = Producer({"bootstrap.servers": broker, "log_level": 0})

    def put(self, *records: tuple[int, bytes | None, bytes | None]) -> None:
        """Write (partition, key, value)."""
        for partition, key, value in records:
            self.producer.produce(self.name, value, key, partition=partition)
            self.ends[partition] += 1
        assert self.producer.flush(30) == 0

    def row(self, key: int) -> Row:
        return {"k": key, "a": self.dice.choice([None, 1, 2]), "b": self.dice.choice([None, "x", "ü"])}

    def json_changes(self, count: int) -> None:
        dice = self.dice
        for _ in range(count):
            row = self.row(dice.randint(0, 11))
            partition = row["k"] % PARTITIONS
            word = dice.choice(["insert", "update", "delete", "bad"])
            if word == "bad":
                self.bad.append(f"{self.name}-{partition}-{self.ends[partition]}")
                value: bytes | None = dice.choice(
                    [None, b"", b"[1]", b'{"k": 1, "a": 1.5}', b'{"a": 1}', b'{"k": 1, "_op": 7}']
                )
            else:
                self.rows.pop(row["k"], None)
                if word != "delete":
                    self.rows[row["k"]] = row
                value = json.dumps({"_op": word, **row}).encode()
            self.put((partition, None, value))

    def upserts(self, count: int) -> None:
        for _ in range(count):
            row = self.row(self.dice.randint(0, 11))
            key = json.dumps({"k": row["k"]}).encode()
            self.rows.pop(row["k"], None)
            if self.dice.random() < 0.4:
                value = None
            else:
                self.rows[row["k"]] = row
                value = json.dumps({"a": row["a"], "b": row["b"]}).encode()
            self.put((row["k"] % PARTITIONS, key, value))

    def captured(self, count: int) -> None:
        """Write what Debezium writes: envelopes, tombstones, now and then a truncation."""
        for _ in range(count):
            row = self.row(self.dice.randint(0, 11))
            key, partition = json.dumps({"k": row["k"]}).encode(), 0  # a truncation is of all keys
            before = self.rows.pop(row["k"], None)
            envelope: Row = {"before": before, "after": row, "op": "c" if before is None else "u", "ts_ms": 1}
            if self.dice.random() < 0.05:
                self.rows = {}
                self.put((partition, None, json.dumps({"before": None, "after": None, "op": "t"}).encode()))
            elif before is not None and self.dice.random() < 0.5:
                self.put(
                    (partition, key, json.dumps({**envelope, "after": None, "op": "d"}).encode()),
                    (partition, key, None),
                )
            else:
                self.rows[row["k"]] = row
                if before is not None and before["b"] == row["b"]:
                    envelope = {**envelope, "after": {**row, "b": "__debezium_unavailable_value"}}
                self.put((partition, key, json.dumps(envelope).encode()))


def table(of: Topic, encoding: str = "json", **source: Any) -> dict[str, Any]:
    places = {"format": "kafka", "servers": of.broker, "topic": of.name, "encoding": encoding}
    return {"name": of.name, "key": ["k"], "columns": COLUMNS, "source": {**places, **source}}


@pytest.mark.parametrize(("engine", "most"), [("embedded", 15), ("spark", 25)])
@pytest.mark.usefixtures("executors_here")
def test_histories_of_three_topics(spark: SparkSession, broker: str, tmp_path: Path, engine: str, most: int) -> None:
    seed = 7
    print(f"seed {seed}")
    dice = random.Random(seed)
    topics = {encoding: Topic(broker, f"{engine}.{encoding}", dice) for encoding in ("json", "upsert", "debezium")}
    tables = [table(topic, encoding) for encoding, topic in topics.items()]
    rules: list[dict[str, Any]] = [
        {"name": "across", "inclusion": f"`{engine}.json`.b in `{engine}.upsert`.b"}
    ]  # no family has it
    for number, topic in enumerate(topics.values()):
        rules.append({"name": f"depends {number}", "table": topic.name, "fd": "a -> b", "max_violating_pairs": 2})
        rules.append({"name": f"grows {number}", "table": topic.name, "forbid": "t.k < s.k and t.a > s.a"})
    blocks = {"blocks": {"rows": 5}} if engine == "spark" else {}
    app = Application(tmp_path, tables, trigger={"max_records": most}, rules=rules, engine=engine, **blocks)

    def come(count: int) -> None:
        topics["json"].json_changes(count)
        topics["upsert"].upserts(count)
        topics["debezium"].captured(count)

    def check() -> None:
        app.check(
            {topic.name: topic.rows.values() for topic in topics.values()},
            {topic.name: topic.bad for topic in topics.values()},
        )

    come(30)
    app.drain()
    check()
    for lost in ("checkpoint", "state"):
        shutil.rmtree(tmp_path / lost)
        code, said = app("rebuild")
        assert code == 0, said
        come(10)
        app.drain()
        check()
    app.drain()
    come(25)
    app.drain()
    check()
    assert len(app.output("batches")) >= 12


def test_aborted_records_are_not_read(spark: SparkSession, broker: str, tmp_path: Path) -> None:
    topic = Topic(broker, "run.transactions")
    producer = Producer({"bootstrap.servers": broker, "transactional.id": "run", "log_level": 0})
    producer.init_transactions(30)
    rows = []
    for key in range(6):
        row = {"k": key, "a": key % 2, "b": "x"}
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic.name, json.dumps(row).encode(), partition=partition)
        if key % 2:
            producer.commit_transaction(30)
            rows.append(row)
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    app = Application(tmp_path, [table(topic)])
    app.drain()
    app.check({topic.name: rows}, {})
    app.drain()


def test_where_a_topic_is_read_from(spark: SparkSession, broker: str, tmp_path: Path) -> None:
    topic = Topic(broker, "run.starts")
    (tmp_path / "seed.csv").write_text("k,a,b\n100,1,x\n")
    first = {"k": 100, "a": 1, "b": "x"}

    def put(*keys: int) -> None:
        topic.put(*((key % PARTITIONS, None, json.dumps({"k": key}).encode()) for key in keys))

    put(0, 1, 2, 3)
    time.sleep(0.05)
    now = time.time()
    time.sleep(0.05)
    put(4, 5)
    after_seed = {"latest": [], "earliest": [0, 1, 2, 3, 4, 5], str(int(now * 1000)): [4, 5], "offsets": [3, 4, 5]}
    starts: dict[str, Any] = {
        "latest": "latest",
        "earliest": "earliest",
        str(int(now * 1000)): f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03}Z",
        "offsets": {"0": 1, "1": 1, "2": 1},
    }
    apps = {}
    for name, start in starts.items():
        folder = tmp_path / name
        folder.mkdir()
        app = apps[name] = Application(folder, [{**table(topic, start=start), "seed": {"path": "../seed.csv"}}])
        code, said = app("seed")
        assert code == 0, said
    put(6, 7)  # between the seed and the first run
    for name, app in apps.items():
        app.drain()
        rows = [{"k": k, "a": None, "b": None} for k in [*after_seed[name], 6, 7]]
        app.check({topic.name: [first, *rows]}, {})

    for start, words in [
        ({"0": 1}, "lacks partition 1"),
        ({"0": 1, "1": 1, "2": 99}, "says offset 99 of partition 2"),
        ({"0": 1, "1": 1, "2": 1, "3": 0}, "names partition 3"),
    ]:
        folder = tmp_path / words
        folder.mkdir()
        code, said = Application(folder, [table(topic, start=start)])("seed")
        assert code == 2, said
        assert words in said


def test_topics_that_cannot_be_followed(
    spark: SparkSession, broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "_TIMEOUT_MS", 3_000)
    topic = Topic(broker, "run.lost")
    topic.json_changes(8)
    app = Application(tmp_path, [table(topic)])

    def refused(code: int, *words: str) -> None:
        found, said = app("run", "--available-now")
        assert found == code, said
        assert all(word in said for word in words), said
        assert "Traceback" not in said

    def configure(**source: Any) -> None:
        app.tables = [table(topic, **source)]
        app.configure()

    configure(topic="run.lots")
    refused(2, "has no topic 'run.lots'", "run.lost")
    began = time.monotonic()
    configure(servers="127.0.0.1:1")
    refused(5, "Kafka at 127.0.0.1:1 does not answer", "Check 'servers'")
    assert time.monotonic() - began < 30
    configure()
    app.drain()
    app.check({topic.name: topic.rows.values()}, {topic.name: topic.bad})

    configure(servers="127.0.0.1:1")
    refused(5, "does not answer")
    configure()

    topic.json_changes(8)  # and they go before they are read
    places = [TopicPartition(topic.name, p, end) for p, end in enumerate(topic.ends)]
    for future in topic.admin.delete_records(places).values():
        future.result(30)
    before = app.output("batches")
    refused(3, "Kafka no longer has records that were not read yet", "holdfast seed --replace")
    assert app.output("batches") == before
