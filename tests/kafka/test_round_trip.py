"""Messages go through a real broker, and through Spark's Kafka source and sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from holdfast.jobs.application.machine import examine

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

MESSAGES = {f"key {number}".encode(): f"value {number}".encode() for number in range(20)}


def test_source_and_sink(spark: SparkSession, broker: str, tmp_path: Path) -> None:
    _create_topics(broker, "there", "back")
    producer = Producer({"bootstrap.servers": broker})
    for key, value in MESSAGES.items():
        producer.produce("there", value, key)
    assert producer.flush(30) == 0

    servers = {"kafka.bootstrap.servers": broker, "kafka.fetch.max.wait.ms": "5"}
    source = spark.readStream.format("kafka").options(**servers).option("startingOffsets", "earliest")
    sink = source.option("subscribe", "there").load().select("key", "value").writeStream.format("kafka")
    query = (
        sink.option("kafka.bootstrap.servers", broker)
        .option("topic", "back")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert _consume(broker, "back", len(MESSAGES)) == MESSAGES


def _create_topics(broker: str, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker})  # it must outlive the answers
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        future.result(30)


def _consume(broker: str, topic: str, count: int) -> dict[bytes | None, bytes | None]:
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        messages = consumer.consume(count, timeout=30)
    finally:
        consumer.close()
    return {message.key(): message.value() for message in messages}


def test_doctor_sees_the_broker(broker: str) -> None:
    findings = {finding.check: finding for finding in examine(kafka=broker)}
    assert findings[f"kafka {broker}"].found == "answers"
