"""What can go wrong before Spark runs, and while it does. Invariant: each error says what was found and what to do."""

import re
from collections.abc import Callable
from typing import Any

from holdfast.constraints.errors import ExternalError, HoldfastError, InputError


class SetUpError(ExternalError):
    """A part that Spark needs is not to be had.

    Attributes
    ----------
    found, action : what was found, and what to do; the message is both.
    """

    def __init__(self, found: str, action: str = "") -> None:
        self.found = found
        self.action = action
        super().__init__(f"{found}: {action}" if action else found)


class CacheUnwritable(SetUpError):
    """The cache folder cannot be written."""


class JavaMissing(SetUpError):
    """No Java that can run Spark was found, and none could be made."""


class JarUnavailable(SetUpError):
    """A pinned jar could not be had from the repository."""


class JarMismatch(SetUpError):
    """A jar is not the one that was pinned; it was not put on any class path."""


class SparkMismatch(SetUpError):
    """SPARK_HOME names a Spark of another version than the PySpark that is installed."""


class ClusterUnreachable(SetUpError):
    """The cluster does not answer, does not take the application, or gives it no executor in time."""


class ExecutorsUnfit(SetUpError):
    """Executors run, but cannot do this program's work: another Python, or without what it imports."""


def explained(error: Exception, table: str, checkpoint: str = "", shown: Callable[[str], str] = str) -> HoldfastError:
    """Return what an error of a streaming query means to a person.

    Parameters
    ----------
    checkpoint : where the query notes how far it is.
    shown : takes from its words what is a secret.
    """
    text = shown(_said(error))
    where = f" (checkpoint {checkpoint})" if checkpoint else ""
    for pattern, kind, action in _KNOWN:
        if re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            return kind(f"table {table}: {first_line(text)}\n{action.replace('{checkpoint}', where)}")
    return ExternalError(
        f"table {table}: the stream failed{where}: {first_line(text)}\nMend what it names, and start again"
    )


_KNOWN: tuple[tuple[str, type[HoldfastError], str], ...] = (
    (
        r"No space left on device|Disk quota exceeded|File too large|not enough space",
        ExternalError,
        (
            "The disk of the checkpoint{checkpoint}, or of Spark's own files (spark.local.dir), is full: make room, "
            "then start again: nothing is lost"
        ),
    ),
    (
        r"Read-only file system|Input/output error",
        ExternalError,
        "Check the disk of the checkpoint{checkpoint}, then start again: nothing is lost",
    ),
    (
        r"OutOfMemoryError|GC overhead limit",
        ExternalError,
        (
            "Spark has too little memory: raise spark.driver.memory under 'spark', or let batches take less "
            "(trigger.max_records, trigger.max_bytes), then start again: nothing is lost"
        ),
    ),
    (
        (
            r"DELTA_CHANGE_DATA_FILE_NOT_FOUND|DELTA_VERSIONS_NOT_CONTIGUOUS|VersionNotFound|DELTA_LOG_FILE_NOT_FOUND|"
            r"DELTA_VERSION_NOT_FOUND|FileNotFoundException|cannot find.*_change_data|DELTA_FILE_NOT_FOUND|"
            r"DELTA_TRUNCATED_TRANSACTION_LOG|DELTA_MISSING_FILES_UNEXPECTED_VERSION|FAILED_READ_FILE"
        ),
        InputError,
        (
            "The change feed no longer has versions that were not read yet (VACUUM or log retention removed them). "
            "Keep them longer than the stream may stand still, and seed anew: holdfast seed --replace"
        ),
    ),
    (
        r"DELTA_MISSING_CHANGE_DATA|change data was not recorded|CHANGE_DATA_FEED|enableChangeDataFeed",
        InputError,
        (
            "The change feed was not on for some version since the seed (delta.enableChangeDataFeed). Switch it on, "
            "and seed anew: holdfast seed --replace"
        ),
    ),
    (
        (
            r"DELTA_SCHEMA_CHANGE|DELTA_STREAMING_INCOMPATIBLE|DELTA_CHANGE_DATA_FEED_INCOMPATIBLE|"
            r"DELTA_STREAMING_SCHEMA_MISMATCH|DELTA_STREAMING_METADATA_EVOLUTION|"
            r"DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION|incompatible schema"
        ),
        InputError,
        (
            "The table's schema has changed. Where columns were only added, start again; otherwise seed anew: holdfast "
            "seed --replace"
        ),
    ),
    (
        r"differentDeltaTable|DIFFERENT_DELTA_TABLE|does not match the table id",
        InputError,
        "The table was replaced by another one. Seed anew: holdfast seed --replace",
    ),
    (
        (
            r"DELTA_STREAMING_TRAILING_COMMIT_MISSING|DELTA_CDC_START_VERSION_AFTER_LATEST|DELTA_INVALID_CDC_RANGE|"
            r"load a non-existent version"
        ),
        InputError,
        (
            "The table has fewer versions than were seen before: an older copy stands in its place. Put the newest one "
            "back, or seed anew: holdfast seed --replace"
        ),
    ),
    (
        r"Some data may have been lost|data loss|failOnDataLoss|OffsetOutOfRange|KAFKA_DATA_LOSS",
        InputError,
        (
            "Kafka no longer has records that were not read yet (retention, or a topic made anew), so no answer would "
            "be exact. Keep records longer, and seed anew: holdfast seed --replace"
        ),
    ),
    (
        r"UnknownTopicOrPartition",
        InputError,
        "The topic is not there any more: correct 'source.topic', or make it again and seed anew",
    ),
    (
        r"TimeoutException|DisconnectException|KafkaException|Connection refused|UnknownHost",
        ExternalError,
        "Check that the servers answer, then start again: nothing is lost",
    ),
    (
        r"Permission denied|AccessDenied|AccessControlException|Forbidden",
        ExternalError,
        "Give the process access to the place that it names, then start again: nothing is lost",
    ),
)


def _said(error: Exception) -> str:
    parts, seen = [str(error)], 0
    cause: Any = getattr(error, "cause", None)
    while cause is not None and seen < _DEEPEST:
        parts.append(str(cause))
        cause, seen = getattr(cause, "cause", None), seen + 1
    return "\n".join(parts)


_DEEPEST = 10


def first_line(text: str) -> str:
    r"""Return the sentence that says most, without stacks.

    >>> first_line("[STREAM_FAILED] Query [id = 1] terminated with exception: no such file\n at x.y(z.scala)")
    'no such file'
    >>> first_line("An error occurred while calling o1.\n: x.E: y\n at x.y\nCaused by: java.io.IOError: no disk")
    'no disk'
    """
    causes = re.findall(r"^Caused by: (?:[\w.$]+: )?(.+)$", text, re.MULTILINE)
    if text.startswith("An error occurred while calling") and causes:
        return str(causes[-1])[:600]
    text = re.split(r"\n\s*at |\nJVM stacktrace|\n=== |\nTraceback", text)[0]
    text = re.sub(r"^.*?terminated with exception: ", "", text, flags=re.DOTALL)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines)[:600]
