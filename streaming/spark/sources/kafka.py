"""A topic of Kafka. Only committed records are read, in the order of (partition, offset); lost records are an error.

The start of the stream is pinned before the first batch: `latest` and times become offsets, so that records written
between two starts are not skipped.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast.constraints import ExternalError, UsageError
from holdfast.constraints.columns import unknown_name
from holdfast.streaming.incoming.arrivals import Draft, Target
from holdfast.streaming.spark.sources import Kind, StreamSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Decoder = Callable[["pa.Table", Target, str, Mapping[str, str]], Draft]
Start = str | datetime | Mapping[int, int]

_TIMEOUT_MS = 15_000
_EARLIEST = -2
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


class TopicSource(StreamSource):
    """One topic of Kafka.

    Parameters
    ----------
    servers, topic : the servers, and the topic.
    decode : turns messages into a draft.
    encodings : how columns are written in messages without a schema.
    start : offsets in Spark's form (see `pinned_start`).
    max_records : the most records of a micro-batch.
    options : further options for Spark's source; those that begin with `kafka.` are for the client.
    """

    kind: Kind = "kafka"

    def __init__(
        self,
        servers: Sequence[str],
        topic: str,
        decode: Decoder,
        encodings: Mapping[str, str] | None = None,
        start: str = "earliest",
        max_records: int = 50_000,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.servers = ",".join(servers)
        self.topic = topic
        self.place = f"topic {topic} at {self.servers}"
        self.start = start
        self._decode = decode
        self._encodings = dict(encodings or {})
        self._options = {
            "kafka.fetch.max.wait.ms": "5",  # the default of 500 makes each small batch wait for it
            "maxOffsetsPerTrigger": str(max_records),
            **(options or {}),
            "kafka.bootstrap.servers": self.servers,
            "subscribe": topic,
            "failOnDataLoss": "true",
            "kafka.isolation.level": "read_committed",
        }

    def check(self, spark: "SparkSession") -> None:
        """Raise `ExternalError` if no broker answers, `UsageError` if the topic does not exist."""
        with _Client(spark, self.servers, self._options) as client:
            client.partitions(self.topic)

    def pinned_start(self, spark: "SparkSession", start: Start) -> str:
        """Return a start as offsets of every current partition."""
        with _Client(spark, self.servers, self._options) as client:
            return client.offsets(self.topic, start)

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return the stream of messages."""
        stream = spark.readStream.format("kafka").options(**self._options)
        stream = stream.option("startingOffsets", self._whole_start(spark))
        return stream.load().select("key", "value", "partition", "offset", "timestamp")

    def _whole_start(self, spark: "SparkSession") -> str:
        """Return the start, with newer partitions from their beginning."""
        if not self.start.startswith("{"):
            return self.start
        known = json.loads(self.start)[self.topic]
        with _Client(spark, self.servers, self._options) as client:
            every = {str(p): known.get(str(p), _EARLIEST) for p in client.partitions(self.topic)}
        return json.dumps({self.topic: {**every, **known}})

    def first_value(self, spark: "SparkSession") -> bytes | None:
        """Return the first message that has a value; None if the topic is empty."""
        reading = {k: v for k, v in self._options.items() if k != "maxOffsetsPerTrigger"}
        start = self.start if self.start != "latest" else "earliest"
        messages = spark.read.format("kafka").options(**reading).option("startingOffsets", start).load()
        found = messages.where("value is not null").select("value").limit(1).collect()
        return bytes(found[0][0]) if found else None

    def draft(self, arrived: "pa.Table", target: Target) -> Draft:
        """Return the records of a micro-batch."""
        return self._decode(arrived, target, self.topic, self._encodings)


class _Client:
    """A Kafka consumer in the JVM, for questions about a topic."""

    def __init__(self, spark: "SparkSession", servers: str, options: Mapping[str, str]) -> None:
        self._servers = servers
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        settings = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
        settings |= {"key.deserializer": _BYTES, "value.deserializer": _BYTES, "allow.auto.create.topics": "false"}
        settings |= {"default.api.timeout.ms": str(_TIMEOUT_MS)}
        properties = java_properties(jvm, settings)
        self._consumer = self._answer(lambda: jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties))

    def __enter__(self) -> "_Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close(self._jvm.java.time.Duration.ofMillis(0))

    def partitions(self, topic: str) -> list[int]:
        """Return the partitions of a topic."""
        found = self._answer(lambda: self._consumer.partitionsFor(topic))
        if not found:
            every = sorted(str(name) for name in self._answer(self._consumer.listTopics))
            known = [name for name in every if not name.startswith("__")]
            raise UsageError(unknown_name(f"{self._servers} has no topic", topic, known))
        return sorted(int(info.partition()) for info in found)

    def offsets(self, topic: str, start: Start) -> str:
        """Return a start as offsets in Spark's form."""
        partitions = self.partitions(topic)
        places = {p: self._jvm.org.apache.kafka.common.TopicPartition(topic, p) for p in partitions}
        every = self._jvm.java.util.ArrayList()
        for place in places.values():
            every.add(place)
        begins = self._answer(lambda: self._consumer.beginningOffsets(every))
        ends = self._answer(lambda: self._consumer.endOffsets(every))
        if start == "earliest":
            found = {p: int(begins[place]) for p, place in places.items()}
        elif start == "latest":
            found = {p: int(ends[place]) for p, place in places.items()}
        elif isinstance(start, datetime):
            times = self._jvm.java.util.HashMap()
            for place in places.values():
                times.put(place, int(start.timestamp() * 1000))
            first = self._answer(lambda: self._consumer.offsetsForTimes(times))
            found = {p: int(first[place].offset() if first[place] else ends[place]) for p, place in places.items()}
        elif isinstance(start, Mapping):
            found = dict(start)
            for p, offset in found.items():
                if p not in places:
                    raise UsageError(f"'source.start' names partition {p}; topic {topic} has {len(partitions)}, from 0")
                low, high = int(begins[places[p]]), int(ends[places[p]])
                if not low <= offset <= high:
                    raise UsageError(
                        f"'source.start' says offset {offset} of partition {p}; topic {topic} has {low} to {high} there"
                    )
            missing = [p for p in partitions if p not in found]
            if missing:
                raise UsageError(f"'source.start' lacks partition {missing[0]} of topic {topic}: name all of them")
        else:
            raise UsageError(f"'source.start' is '{start}': expected earliest, latest, a time or offsets")
        return json.dumps({topic: {str(p): offset for p, offset in sorted(found.items())}}, separators=(",", ":"))

    def _answer(self, question: Callable[[], Any]) -> Any:
        settings = "'servers', the network, and security settings under 'options'"
        return answer(question, f"Kafka at {self._servers}", settings)


def answer(question: Callable[[], Any], broker: str, what: str) -> Any:
    """Return what Java answers to a question to a broker; raise `ExternalError`, with what to check, where it fails."""
    from py4j.protocol import Py4JJavaError

    try:
        return question()
    except Py4JJavaError as error:
        cause = error.java_exception.getCause() or error.java_exception
        why = f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
        raise ExternalError(f"{broker} does not answer ({why}). Check {what}") from None


def java_properties(jvm: Any, settings: Mapping[str, str]) -> Any:
    """Return settings as Java's properties."""
    properties = jvm.java.util.Properties()
    for name, value in settings.items():
        properties.put(name, value)
    return properties
