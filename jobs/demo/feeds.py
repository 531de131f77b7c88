"""Sends the demo's changes to the pipeline: as files in a folder, or as Debezium messages in a Kafka topic.

A feed has the settings of the table's source, and sends all changes of a step together: as a file that is renamed into
the folder, or as messages in one request to the broker.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.jobs.demo.tables import COLUMNS, KEY, TABLE, Change, Record, write_csv
from holdfast.streaming.spark.sources.kafka import answer, java_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = f"demo.public.{TABLE}"

_CONFIGURATION = """\
# The pipeline of holdfast demo. `holdfast init` writes a configuration with all that can be set, explained.
name: demo
state: ./var/state
backup: ./var/backup
output: ./var/tables
checkpoint: ./var/checkpoint
trigger: {{interval: 100 ms}}

tables:
  - name: {table}
    key: [{key}]
    seed: {{path: ./{table}.csv}}
    source: {{{source}}}
    near: {{share: 1%, orders: false}}

constraints:
  denial: {{max_predicates: 3, cross_columns: none}}

rules:
  - {{name: city of a zip, table: {table}, fd: "Zip -> City"}}
  - {{name: rate follows salary, table: {table},
     forbid: "t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate"}}
"""
_KINDS = {"Id": "int32", "ChildExemp": "int32", "Salary": "int32", "Rate": "double"}
_LETTERS = {"insert": "c", "update": "u", "delete": "d"}

Message = tuple[bytes, bytes | None]


def write_configuration(file: Path, feed: "Feed", records: Sequence[Record]) -> None:
    """Write a configuration for `holdfast run`, and the first records beside it."""
    write_csv(file.with_name(f"{TABLE}.csv"), records)
    file.write_text(_CONFIGURATION.format(table=TABLE, key=KEY, source=feed.source), encoding="utf-8")


class FolderFeed:
    """Files of JSON lines.

    Parameters
    ----------
    folder : the parent of the folder `changes`, which the pipeline follows.
    """

    source = "format: files, path: ./changes, encoding: json"

    def __init__(self, folder: Path) -> None:
        self._changes = folder / "changes"
        self._unfinished = folder / "unfinished"
        for made in (self._changes, self._unfinished):
            made.mkdir()

    def put(self, number: int, changes: Sequence[Change]) -> int:
        """Write a file to another folder, then rename it into the source, so that it is never read in part."""
        lines = [_cut(json.dumps({"_op": change.operation, **change.row}), change) for change in changes]
        file = self._unfinished / f"step-{number}.json"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        file.rename(self._changes / file.name)
        return len(lines)


class TopicFeed:
    """Debezium messages: in the first step with their schema, as connectors write them by default, later without.

    Parameters
    ----------
    spark : the session whose Java process sends the messages.
    address : the broker's `host:port`.
    """

    def __init__(self, spark: "SparkSession", address: str) -> None:
        self.source = f'format: kafka, servers: "{address}", topic: {TOPIC}, encoding: debezium, start: earliest'
        self._spark = spark
        self._address = address
        self._make_topic()

    def put(self, number: int, changes: Sequence[Change]) -> int:
        """Send the messages in one request."""
        messages = [message for change in changes for message in debezium(change, with_schema=number == _FIRST)]
        settings = dict.fromkeys(_SERIALIZERS, "org.apache.kafka.common.serialization.ByteArraySerializer")
        settings |= {"acks": "all", "linger.ms": "10000", "batch.size": "500000"}
        kafka = self._jvm.org.apache.kafka.clients.producer
        producer = self._asked(lambda: kafka.KafkaProducer(self._properties(settings)))
        try:
            sent = [self._asked(lambda m=m: producer.send(kafka.ProducerRecord(TOPIC, *m))) for m in messages]
            self._asked(producer.flush)
            for answer in sent:
                self._asked(answer.get)
        finally:
            producer.close()
        return len(messages)

    def _make_topic(self) -> None:
        nothing = self._jvm.java.util.Optional.empty()
        topics = self._jvm.java.util.ArrayList()
        topics.add(self._jvm.org.apache.kafka.clients.admin.NewTopic(TOPIC, nothing, nothing))
        admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(self._properties({}))
        try:
            self._asked(lambda: admin.createTopics(topics).all().get())
        finally:
            admin.close()

    @property
    def _jvm(self) -> Any:
        return self._spark.sparkContext._jvm

    def _properties(self, settings: dict[str, str]) -> Any:
        return java_properties(self._jvm, {"bootstrap.servers": self._address, **settings})

    def _asked(self, question: Any) -> Any:
        return answer(question, "the demo's Kafka broker", "whether 0.5 GB of memory are free, then try again")


Feed: TypeAlias = FolderFeed | TopicFeed


def debezium(change: Change, *, with_schema: bool) -> Iterator[Message]:
    """Yield the Debezium messages of a change, as key and value: a delete is followed by a tombstone.

    >>> from holdfast.jobs.demo.tables import Change
    >>> for key, value in debezium(Change("delete", {"Id": 7, "Zip": "02139"}), with_schema=False):
    ...     print(key, value)
    b'{"Id": 7}' b'{"before": {"Id": 7, "Zip": "02139"}, "after": null, "op": "d", "ts_ms": 1700000000000}'
    b'{"Id": 7}' None
    """
    is_delete = change.operation == "delete"
    envelope: dict[str, Any] = {
        "before": change.row if is_delete else change.before,
        "after": None if is_delete else change.row,
        "op": _LETTERS.get(change.operation, change.operation),
        "ts_ms": _WHEN_MS,
    }
    key: dict[str, Any] = {KEY: change.row[KEY]}
    if with_schema:
        columns = [_field(name) for name in COLUMNS]
        row = {"type": "struct", "optional": True, "fields": columns}
        rows: list[dict[str, Any]] = [{**row, "field": "before"}, {**row, "field": "after"}]
        rows += [{"type": "string", "field": "op"}, {"type": "int64", "optional": True, "field": "ts_ms"}]
        envelope = _wrapped(envelope, rows)
        key = _wrapped(key, [_field(KEY)])
    yield _bytes(key), _cut(json.dumps(envelope), change).encode()
    if is_delete:
        yield _bytes(key), None


_FIRST = 2
_WHEN_MS = 1_700_000_000_000
_SERIALIZERS = ("key.serializer", "value.serializer")


def _field(name: str) -> dict[str, Any]:
    return {"type": _KINDS.get(name, "string"), "optional": name != KEY, "field": name}


def _wrapped(payload: dict[str, Any], fields: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"schema": {"type": "struct", "optional": False, "fields": list(fields)}, "payload": payload}


def _bytes(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _cut(text: str, change: Change) -> str:
    return text[: len(text) // 2] if change.is_cut else text
