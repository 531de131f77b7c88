"""Errors of Spark as they were seen, by the source and the cause: what each means, and what its message has to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException

from holdfast.constraints import ExternalError, HoldfastError, InputError, StateRefused

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
