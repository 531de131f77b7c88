"""What Spark says when a stream fails, and what a person is told, for each kind of source.

The texts are those of Spark 4.2, Delta 4.4 and Py4J, with other names of files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException

from holdfast.constraints import ExternalError, HoldfastError, InputError, StateRefused
from holdfast.display.secrets import forget, remember
from holdfast.streaming.spark.failures import FollowedSource, causes_of, explained, is_conflict

if TYPE_CHECKING:
    from holdfast.streaming.spark.sources import Kind

CHECKPOINT = "/data/check points/shop"
PLACES: dict[Kind, str] = {
    "files": "/data/changes",
    "delta": "/lake/shop",
    "kafka": "topic shop at broker:9092",
}
SEED = "holdfast seed --replace"
REBUILD = "holdfast rebuild CONF"
SKIP = "holdfast skip-batch CONF shop"
NOTHING_LOST = "start again: nothing is lost"

QUERY = """
=== Streaming Query ===
Identifier: shop [id = 7d3c, runId = 91aa]
Current Committed Offsets: {FileStreamSource[file:/data/changes]: {"logOffset":11}}
Current Available Offsets: {FileStreamSource[file:/data/changes]: {"logOffset":12}}

Current State: ACTIVE
Thread State: RUNNABLE

Logical Plan:
WriteToMicroBatchDataSource ForeachBatchSink, 7d3c, [checkpointLocation=/data/check points/shop, failOnDataLoss=true]
"""
STACK = """
	at org.apache.spark.sql.execution.streaming.runtime.StreamExecution.org$apache$spark$sql$runStream(StreamExecution.scala:372)
	at org.apache.spark.sql.execution.streaming.runtime.StreamExecution$$anon$1.run(StreamExecution.scala:226)
"""


class Captured(StreamingQueryException):
    """As PySpark gives an error of the JVM to Python: with the stack in its text, and causes as attributes."""

    def __init__(self, message: str, stack: str, cause: Captured | None = None) -> None:
        super().__init__(message)
        self._text, self._cause = f"{message}\n\nJVM stacktrace:\n{stack}", cause

    def __str__(self) -> str:
        return self._text


def ended(*causes: tuple[str, str]) -> Captured:
    """Return what a query ended with, of classes in Java and what each said, the outermost first."""
    stack = ""
    for number, (name, text) in enumerate(causes):
        stack += f"{'Caused by: ' if number else ''}{name}: {text}{STACK}"
    inner = Captured(f"{causes[0][0]}: {causes[0][1]}", stack)
    return Captured(
        f"[STREAM_FAILED] Query [id = 7d3c, runId = 91aa] terminated with exception: {causes[0][1]} SQLSTATE: XXKST{QUERY}",
        STACK,
        inner,
    )


def called(*causes: tuple[str, str]) -> Py4JError:
    """Return what Py4J raises where a call into the JVM failed."""
    text = "".join(
        f"{'Caused by' if number else ''}: {name}: {said}{STACK}" for number, (name, said) in enumerate(causes)
    )
    return Py4JError(f"An error occurred while calling o82.load.\n{text}")


def job(name: str, text: str) -> tuple[tuple[str, str], ...]:
    """Return the causes of a failed job."""
    failed = (
        f"Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in "
        f"stage 3.0 (TID 3) (host executor driver): {name}: {text}{STACK}\nDriver stacktrace:"
    )
    return ("org.apache.spark.SparkException", failed), (name, text)


FILE = "java.io.FileNotFoundException"
DELTA = "org.apache.spark.sql.delta.DeltaFileNotFoundException"
ILLEGAL = "org.apache.spark.sql.delta.DeltaIllegalStateException"
SPARK = "org.apache.spark.SparkException"

Case = tuple[str, Exception, type[HoldfastError], tuple[str, ...], tuple[str, ...]]
"""A name; what Spark raised; the kind of error; what is said; what is not."""


def of_checkpoint(kind: Kind) -> list[Case]:
    not_said = (SEED, "change feed", "Kafka", "skip-batch", "not mounted")
    return [
        (
            "a batch of the checkpoint",
            ended((FILE, f"File file:{CHECKPOINT}/offsets/12 does not exist")),
            StateRefused,
            (REBUILD, CHECKPOINT, "offsets/12"),
            not_said,
        ),
        (
            "a batch of the checkpoint, with an address",
            called((FILE, "File file:/data/check%20points/shop/offsets/12 does not exist")),
            StateRefused,
            (REBUILD, "offsets/12"),
            not_said,
        ),
        (
            "a batch that Spark does not find",
            ended(("java.lang.IllegalStateException", "batch 12 doesn't exist")),
            StateRefused,
            (REBUILD, CHECKPOINT),
            not_said,
        ),
        (
            "a batch that Spark does not find, by its condition",
            ended(
                (
                    "org.apache.spark.SparkFileNotFoundException",
                    f"[BATCH_METADATA_NOT_FOUND] Unable to find batch {CHECKPOINT}/offsets/12. SQLSTATE: 42K03",
                )
            ),
            StateRefused,
            (REBUILD,),
            not_said,
        ),
        (
            "a list of files of the checkpoint",
            ended(
                (
                    "java.lang.IllegalStateException",
                    f"{CHECKPOINT}/sources/0/9.compact doesn't exist when compacting batch 19 (compactInterval: 10)",
                )
            ),
            StateRefused,
            (REBUILD, "9.compact"),
            not_said,
        ),
        (
            "an unreadable batch of the checkpoint",
            ended(
                (SPARK, f"Failed to read log file {CHECKPOINT}/offsets/12. Incomplete log file"),
                ("java.lang.IllegalStateException", "Incomplete log file"),
            ),
            StateRefused,
            (REBUILD,),
            not_said,
        ),
        (
            "two processes on a checkpoint",
            ended(
                (
                    "java.util.ConcurrentModificationException",
                    "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 12.",
                )
            ),
            StateRefused,
            ("Another process follows this source", "stop one of them"),
            (SEED, REBUILD),
        ),
    ]


def of_machine(kind: Kind) -> list[Case]:
    place = PLACES[kind]
    none = (SEED, REBUILD, SKIP)
    return [
        (
            "a full disk",
            ended(("java.io.IOException", f"No space left on device: {CHECKPOINT}/offsets/.12.tmp")),
            ExternalError,
            ("make room", CHECKPOINT, NOTHING_LOST),
            none,
        ),
        (
            "a broken disk",
            ended(*job("java.io.IOException", "Input/output error")),
            ExternalError,
            (place, CHECKPOINT, NOTHING_LOST),
            none,
        ),
        (
            "no memory",
            called(("java.lang.OutOfMemoryError", "Java heap space")),
            ExternalError,
            ("spark.driver.memory", NOTHING_LOST),
            none,
        ),
        (
            "no access",
            ended(
                (
                    "org.apache.hadoop.security.AccessControlException",
                    f"Permission denied: user=etl, access=WRITE, inode={CHECKPOINT}",
                )
            ),
            ExternalError,
            ("Give this process access", CHECKPOINT, NOTHING_LOST),
            none,
        ),
        (
            "a file of Spark's own",
            ended(*job(FILE, "/tmp/blockmgr-0b1e/0c/shuffle_0_3_0.data (No such file or directory)")),
            ExternalError,
            ("one of Spark's own (spark.local.dir)", NOTHING_LOST),
            (*none, "change feed", "Kafka"),
        ),
        (
            "something new",
            ended(("java.lang.ArithmeticException", "long overflow")),
            ExternalError,
            ("The stream failed", "long overflow", CHECKPOINT, "start again"),
            none,
        ),
    ]


OF_FILES: list[Case] = [
    (
        "a change file",
        ended(
            *job(
                "org.apache.spark.SparkException",
                "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///data/changes/0012.json. "
                "File does not exist. It is possible the underlying files have been updated.",
            ),
            (FILE, "File file:/data/changes/0012.json does not exist"),
        ),
        InputError,
        ("0012.json", "put it back where it was", SKIP, PLACES["files"]),
        (SEED, REBUILD, "change feed"),
    ),
    (
        "a change file, as Py4J says it",
        called((FILE, "File file:/data/changes/0012.json does not exist")),
        InputError,
        ("0012.json", "put it back where it was", SKIP),
        (SEED, REBUILD, "change feed"),
    ),
    (
        "the folder",
        ended((FILE, "File file:/data/changes does not exist")),
        ExternalError,
        ("is not there at the moment", PLACES["files"], NOTHING_LOST),
        (SEED, REBUILD, SKIP),
    ),
    (
        "the folder, as a path",
        ended(
            (
                "org.apache.spark.sql.AnalysisException",
                "[PATH_NOT_FOUND] Path does not exist: file:/data/changes. SQLSTATE: 42K03",
            )
        ),
        ExternalError,
        ("is not there at the moment", NOTHING_LOST),
        (SEED, REBUILD, SKIP),
    ),
    (
        "a file that cannot be read",
        ended(
            *job(
                "org.apache.spark.SparkException",
                "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///data/changes/0012.json.",
            ),
            ("java.io.EOFException", "Reached the end of stream with 12 bytes left to read"),
        ),
        InputError,
        ("bring it back whole", SKIP),
        (SEED, REBUILD, "change feed"),
    ),
    (
        "Spark's own clock",
        ended(("java.util.concurrent.TimeoutException", "Futures timed out after [120 seconds]")),
        ExternalError,
        ("The stream failed", "start again"),
        (SEED, REBUILD, "servers"),
    ),
    (
        "a name that says something else",
        ended((FILE, "File file:/data/changes/No space left on device does not exist")),
        InputError,
        ("put it back where it was",),
        ("make room", SEED),
    ),
]

OF_DELTA: list[Case] = [
    (
        "change data",
        ended(
            *job(
                "org.apache.spark.SparkException",
                "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file "
                "file:///lake/shop/_change_data/cdc-00000-1.c000.snappy.parquet. File does not exist.",
            ),
            (FILE, "File file:/lake/shop/_change_data/cdc-00000-1.c000.snappy.parquet does not exist"),
        ),
        InputError,
        ("no longer has versions that were not read yet", "Put its files back", SEED, PLACES["delta"]),
        (REBUILD, SKIP, "Kafka"),
    ),
    (
        "a data file",
        ended(
            *job(FILE, "File file:/lake/shop/part-00000-9d.snappy.parquet does not exist"),
        ),
        InputError,
        ("no longer has versions that were not read yet", "Put its files back", SEED),
        (REBUILD,),
    ),
    (
        "the log",
        ended(
            (
                DELTA,
                (
                    "[DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE] If you never deleted it, it's likely your query is lagging "
                    "behind. Please delete its checkpoint to restart from scratch."
                ),
            )
        ),
        InputError,
        ("no longer has versions that were not read yet", "Put its files back", SEED),
        (REBUILD,),
    ),
    (
        "versions of the log",
        ended(
            (
                ILLEGAL,
                (
                    "[DELTA_MISSING_FILES_UNEXPECTED_VERSION] Delta stream cannot resume from version 3; transaction log starts "
                    "at 7."
                ),
            )
        ),
        InputError,
        ("no longer has versions that were not read yet", SEED),
        (REBUILD,),
    ),
    (
        "the table",
        ended((FILE, "File file:/lake/shop does not exist")),
        ExternalError,
        ("is not there at the moment", NOTHING_LOST),
        (SEED, REBUILD),
    ),
    (
        "the table with its log",
        ended((FILE, "File file:/lake/shop/_delta_log does not exist")),
        ExternalError,
        ("is not there at the moment", NOTHING_LOST),
        (SEED, REBUILD),
    ),
    (
        "a file of the log",
        ended((FILE, "File file:/lake/shop/_delta_log/00000000000000000004.json does not exist")),
        InputError,
        ("no longer has versions that were not read yet", "Put its files back", SEED),
        (REBUILD,),
    ),
    (
        "the table, as Delta says it",
        called(
            (
                "org.apache.spark.sql.delta.DeltaAnalysisException",
                "[DELTA_PATH_DOES_NOT_EXIST] /lake/shop doesn't exist, or is not a Delta table.",
            )
        ),
        ExternalError,
        ("is not there at the moment", NOTHING_LOST),
        (SEED, REBUILD),
    ),
    (
        "a feed that was off",
        ended(
            (
                "org.apache.spark.sql.delta.DeltaAnalysisException",
                (
                    "[DELTA_MISSING_CHANGE_DATA] Error getting change data for range [4 , 6] as change data was not recorded for "
                    "version [5]."
                ),
            )
        ),
        InputError,
        ("change feed was not on", SEED),
        (REBUILD,),
    ),
    (
        "another schema",
        ended(
            (
                ILLEGAL,
                "[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected schema change in version 5: streaming source schema: root",
            )
        ),
        InputError,
        ("only added, start again", SEED),
        (REBUILD,),
    ),
    (
        "another table",
        ended(
            (
                "org.apache.spark.sql.delta.DeltaIllegalStateException",
                (
                    "[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] The streaming query was reading from an unexpected Delta "
                    "table (id = 'a')."
                ),
            )
        ),
        InputError,
        ("another Delta table", "Put that one back", SEED),
        (REBUILD,),
    ),
    (
        "an older copy",
        ended(
            (
                ILLEGAL,
                (
                    "[DELTA_STREAMING_TRAILING_COMMIT_MISSING] Delta stream detected commits up to version 9 but files after "
                    "version 7 are missing from the transaction log."
                ),
            )
        ),
        InputError,
        ("fewer versions than were seen before", "Put the newest one back", SEED),
        (REBUILD,),
    ),
    (
        "a file that cannot be read",
        ended(
            *job(
                "org.apache.spark.SparkException",
                "[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Encountered error while reading file "
                "file:///lake/shop/part-00000-9d.snappy.parquet. Could not read footer.",
            )
        ),
        InputError,
        ("bring it back whole",),
        (SEED, "no longer has versions"),
    ),
]

OF_KAFKA: list[Case] = [
    (
        "records that are gone",
        ended(
            (
                "org.apache.spark.sql.kafka010.KafkaIllegalStateException",
                (
                    "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost because they are not available in "
                    "Kafka any more; Could not read records in offset [3, 9) for topic partition shop-0."
                ),
            ),
            (
                "org.apache.kafka.clients.consumer.OffsetOutOfRangeException",
                "Fetch position FetchPosition{offset=3} is out of range for partition shop-0",
            ),
        ),
        InputError,
        ("Kafka no longer has records that were not read yet of topic shop at broker:9092", "correct 'servers'", SEED),
        (REBUILD, "change feed"),
    ),
    (
        "the topic",
        ended(
            (
                "org.apache.kafka.common.errors.UnknownTopicOrPartitionException",
                "This server does not host this topic-partition.",
            )
        ),
        InputError,
        ("topic shop at broker:9092 is not there", "correct 'source.topic' or 'servers'"),
        (REBUILD, "change feed"),
    ),
    (
        "no access to the topic",
        ended(
            ("org.apache.kafka.common.errors.TopicAuthorizationException", "Not authorized to access topics: [shop]")
        ),
        ExternalError,
        ("security", NOTHING_LOST),
        (SEED, REBUILD),
    ),
    (
        "servers",
        ended(
            (
                "org.apache.kafka.common.errors.TimeoutException",
                "Timed out waiting for a node assignment. Call: describeTopics",
            )
        ),
        ExternalError,
        ("Check that the servers of topic shop at broker:9092 answer", NOTHING_LOST),
        (SEED, REBUILD),
    ),
]

CASES: list[tuple[Kind, Case]] = [
    *((kind, case) for kind in PLACES for case in (*of_checkpoint(kind), *of_machine(kind))),
    *(("files", case) for case in OF_FILES),
    *(("delta", case) for case in OF_DELTA),
    *(("kafka", case) for case in OF_KAFKA),
]


@pytest.mark.parametrize(("kind", "case"), CASES, ids=[f"{kind}: {case[0]}" for kind, case in CASES])
def test_an_error_is_explained_by_its_source(kind: Kind, case: Case) -> None:
    _, error, expected, words, absent = case
    followed = FollowedSource("shop", kind, PLACES[kind], CHECKPOINT)
    meant = explained(error, followed)
    said = str(meant)
    assert isinstance(meant, expected), said
    assert meant.exit_code == expected.exit_code
    assert said.startswith("table shop: ")
    for word in words:
        assert word in said
    for word in absent:
        assert word not in said
    assert "\tat " not in said
    assert "Streaming Query" not in said
    assert re.search(r"\{[a-z]+\}", said) is None


def test_a_checkpoint_elsewhere_is_not_rebuilt() -> None:
    """`holdfast rebuild` looks at checkpoints of this machine alone."""
    followed = FollowedSource("shop", "kafka", PLACES["kafka"], "s3a://lake/check/shop")
    meant = str(explained(ended((FILE, "No such file or directory: s3a://lake/check/shop/offsets/12")), followed))
    assert "bring the file back from a copy" in meant
    assert REBUILD not in meant


def test_a_checkpoint_in_the_folder_of_the_source_is_still_the_checkpoint() -> None:
    followed = FollowedSource("shop", "files", "/data", "/data/checkpoint/shop")
    missing = ended((FILE, "File file:/data/checkpoint/shop/offsets/12 does not exist"))
    assert isinstance(explained(missing, followed), StateRefused)
    missing = ended((FILE, "File file:/data/checkpoint/shopping.json does not exist"))
    assert isinstance(explained(missing, followed), InputError)


def test_secrets_are_not_said() -> None:
    followed = FollowedSource("shop", "kafka", PLACES["kafka"], CHECKPOINT)
    error = ended(("java.lang.IllegalArgumentException", "password hunter2 is wrong"))
    remember(["hunter2"])
    assert "hunter2" not in str(explained(error, followed))
    forget()


def test_a_commit_that_another_one_overtook_is_known_by_its_class() -> None:
    appended = "[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] Transaction conflict detected."
    assert is_conflict(called(("io.delta.exceptions.ConcurrentAppendException", appended)))
    assert is_conflict(
        ended(("org.apache.spark.sql.delta.ConcurrentWriteException", "A concurrent transaction has written"))
    )
    assert is_conflict(ended((SPARK, "Job aborted."), ("a.b.C", appended)))
    assert not is_conflict(ended((FILE, "File file:/lake/DELTA_CONCURRENT_APPEND does not exist")))
    assert not is_conflict(ended(("java.util.ConcurrentModificationException", "a map")))


def test_causes_are_the_chain() -> None:
    found = causes_of(ended(("a.b.OneException", "[SOME_CONDITION.OF_IT] first"), ("a.b.TwoException", "second\nline")))
    assert [(cause.name, cause.condition) for cause in found if cause.name] == [
        ("OneException", "SOME_CONDITION.OF_IT"),
        ("TwoException", ""),
    ]
    assert found[-1].text == "second\nline"
