"""Errors of streaming queries: what they mean, and what to do about them.

An error of Spark is a chain of causes: classes of Java, conditions of Spark and Delta (`[DELTA_...]`), and texts with
names of files. Its meaning depends on the kind of source, and on whether a missing file belongs to the source, to the
checkpoint, or to Spark itself.

Invariant: an error names its table and its place, and does not mention other kinds of sources; the advice to seed anew
is given only if nothing cheaper helps.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from holdfast.constraints.errors import ExternalError, HoldfastError, InputError, StateRefused
from holdfast.display.secrets import masked
from holdfast.streaming.spark.errors import first_line
from holdfast.streaming.spark.sources import Kind

_DEEPEST = 10


@dataclass(frozen=True)
class FollowedSource:
    """The source that a query follows.

    Parameters
    ----------
    table : the name of the table.
    kind : the kind of source.
    place : the folder, the Delta table, or the topic and its servers.
    checkpoint : the folder with the progress of the query.
    configuration : the name of the configuration file in messages.
    """

    table: str
    kind: Kind
    place: str
    checkpoint: str
    configuration: str = "CONF"


class SourceRefused(InputError):
    """Changes that were not read yet cannot be read from the source any more."""


class SourceFailed(ExternalError):
    """The source, or another part that the query needs, does not answer at the moment."""


class CheckpointLost(StateRefused):
    """Files of the checkpoint are missing, or cannot be read."""


@dataclass(frozen=True)
class Cause:
    """One error of a chain.

    Parameters
    ----------
    kind : the class in Java; empty if unknown.
    condition : the error condition of Spark or Delta; empty if there is none.
    text : the text of the error.
    """

    kind: str
    condition: str
    text: str

    @property
    def name(self) -> str:
        """The name of the class without its package."""
        return self.kind.rpartition(".")[2]


Failure = type[SourceRefused] | type[SourceFailed] | type[CheckpointLost]


@dataclass(frozen=True)
class _Meaning:
    """The meaning of a group of causes.

    Parameters
    ----------
    failure : the class of the error to raise.
    action : what to do about it.
    names : a pattern of classes in Java.
    conditions : a pattern of error conditions.
    texts : a pattern of texts, for errors without a class of their own.
    """

    failure: Failure
    action: str
    names: str = ""
    conditions: str = ""
    texts: str = ""

    def __call__(self, cause: Cause, followed: FollowedSource) -> tuple[Failure, str] | None:
        """Return the class of the error and what to do; None if this is not the meaning of the cause."""
        text = _without_places(cause.text, followed)
        fits = (
            (self.names and re.fullmatch(self.names, cause.name))
            or (self.conditions and re.match(self.conditions, cause.condition))
            or (self.texts and re.search(self.texts, text))
        )
        return (self.failure, self.action) if fits else None


def explained(error: BaseException, followed: FollowedSource) -> HoldfastError:
    """Return an error of a streaming query as one with a message for people."""
    causes = causes_of(error)
    failure, action, text = _meaning(causes, followed)
    return failure(f"table {followed.table}: {masked(text)}\n{masked(_filled(action, followed))}")


def causes_of(error: BaseException) -> list[Cause]:
    """Return the causes of an error of Spark or Py4J, the outermost first."""
    texts, seen = [], 0
    cause: Any = error
    while cause is not None and seen < _DEEPEST:
        texts.append(str(cause))
        cause, seen = getattr(cause, "_cause", None), seen + 1
    found: dict[Cause, None] = {}
    for text in texts:
        found.update(dict.fromkeys(_causes(text)))
    return list(found)


def is_conflict(error: BaseException) -> bool:
    """Whether a commit of a Delta table failed because of a concurrent commit."""
    return any(
        cause.condition.startswith("DELTA_CONCURRENT") or _CONFLICT.fullmatch(cause.kind) for cause in causes_of(error)
    )


_CONFLICT = re.compile(r"(org\.apache\.spark\.sql\.delta|io\.delta\.exceptions)\.Concurrent\w+")
_QUERY = re.compile(r"\n=== Streaming Query ===.*?(?=\n\nJVM stacktrace:|\Z)", re.DOTALL)
"""The text that Spark adds about a query: plan and offsets, with the names of the source and the checkpoint."""
_CAUSE = re.compile(
    r"^(?:Caused by: |: )?(?P<name>(?:[a-z_]\w*\.)+[A-Z][\w$]*)(?:: (?P<text>.*?))?(?=\n\s*at |\nCaused by: |\n: |\Z)",
    re.MULTILINE | re.DOTALL,
)
_CONDITION = re.compile(r"\s*\[([A-Z][A-Z0-9_.]+)\]")


def _causes(text: str) -> Iterator[Cause]:
    """Yield the causes in a text with stack traces of Java."""
    text = _QUERY.sub("", text)
    message = re.split(r"\n\nJVM stacktrace:|\n\s*at ", text)[0]
    if _CAUSE.match(message) is None and not message.startswith("An error occurred while calling"):
        yield _cause("", message)
    for found in _CAUSE.finditer(text):
        yield _cause(found["name"], found["text"] or "")


def _cause(kind: str, text: str) -> Cause:
    text = text.strip()
    condition = _CONDITION.match(text)
    return Cause(kind, "" if condition is None else condition[1], text)


def _meaning(causes: Sequence[Cause], followed: FollowedSource) -> tuple[Failure, str, str]:
    """Return the class of the error to raise, what to do, and the text of the error."""
    meanings: list[Callable[[Cause, FollowedSource], tuple[Failure, str] | None]]
    meanings = [*_OF_EVERY_KIND, *_OF_KIND[followed.kind], _checkpoint_lost, _file_missing, *_AT_LAST]
    for meaning in meanings:
        for cause in reversed(causes):
            if found := meaning(cause, followed):
                return *found, first_line(cause.text)
    last = next((cause.text for cause in causes if cause.text), "it says nothing")
    return SourceFailed, "{failed}", first_line(last)


def _checkpoint_lost(cause: Cause, followed: FollowedSource) -> tuple[Failure, str] | None:
    """Return the meaning of a file of the checkpoint that is missing or cannot be read; None for other causes."""
    is_flawed = _is_missing(cause) or _UNREADABLE.search(cause.text) is not None
    if not (
        re.fullmatch(_OF_CHECKPOINTS, cause.condition)
        or _NO_BATCH.match(cause.text)
        or (is_flawed and _names(cause.text, followed.checkpoint))
    ):
        return None
    return CheckpointLost, _CHECKPOINT_ELSEWHERE if "://" in followed.checkpoint else _CHECKPOINT_HERE


def _file_missing(cause: Cause, followed: FollowedSource) -> tuple[Failure, str] | None:
    """Return the meaning of a missing file that does not belong to the checkpoint; None for other causes."""
    if not _is_missing(cause):
        return None
    if not _names(cause.text, followed.place):
        return SourceFailed, _SPARKS_OWN
    if _ends_with(cause.text, followed.place):
        return SourceFailed, _PLACE_GONE
    return SourceRefused, _FEED_FILES_GONE if followed.kind == "delta" else _FILE_GONE


def _is_missing(cause: Cause) -> bool:
    return bool(
        re.fullmatch(r"(\w*FileNotFound|NoSuchFile|PathNotFound)Exception", cause.name)
        or re.match(r"(FAILED_READ_FILE\.FILE_NOT_EXIST|PATH_NOT_FOUND|DELTA_FILE_NOT_FOUND)", cause.condition)
        or _NOT_THERE.search(cause.text)
    )


_OF_CHECKPOINTS = (
    r"BATCH_METADATA_NOT_FOUND|CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED|STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
)
_NO_BATCH = re.compile(r"batch \d+ doesn't exist")
"""The error of Spark if a file below `offsets` is missing."""
_NOT_THERE = re.compile(r"\b(does not exist|doesn't exist|No such file or directory)\b")
_UNREADABLE = re.compile(
    r"[Ff]ailed to read log file|[Ii]ncomplete log file|Log file was malformed|[Mm]alformed|[Uu]nsupported log version|"
    r"Checksum error|checksum"
)


def _spellings(place: str) -> list[str]:
    plain = place.rstrip("/")
    return [spelled for spelled in dict.fromkeys((plain, quote(plain, safe="/:"))) if spelled]


def _names(text: str, place: str) -> bool:
    """Whether a text names a place, or a file in it."""
    return any(re.search(re.escape(spelled) + r"(?![\w-])", text) for spelled in _spellings(place))


def _ends_with(text: str, place: str) -> bool:
    """Whether a text names only a place itself, or the folder of its log, and no file in them."""
    within = r"/+(?!_delta_log(?![\w/]))[^\s/]"
    return not any(re.search(re.escape(spelled) + within, text) for spelled in _spellings(place))


def _without_places(text: str, followed: FollowedSource) -> str:
    """Return a text without the names of files and folders, which may contain any words."""
    for place in sorted((followed.checkpoint, followed.place), key=len, reverse=True):
        for spelled in _spellings(place):
            text = re.sub(re.escape(spelled) + r"[^\n]*?(?=[\s:)\]'\"]|$)", "<place>", text)
    return text


def _filled(action: str, followed: FollowedSource) -> str:
    return action.format(
        place=followed.place,
        checkpoint=followed.checkpoint,
        conf=followed.configuration,
        table=followed.table,
        failed=f"The stream failed (checkpoint {followed.checkpoint}). Mend what it names, and start again",
    )


_CHECKPOINT_HERE = (
    "The checkpoint {checkpoint} lacks a file, or has one that cannot be read. Nothing of the state is lost: let a new "
    "checkpoint begin where the state ended: holdfast rebuild {conf}"
)
_CHECKPOINT_ELSEWHERE = (
    "The checkpoint {checkpoint} lacks a file, or has one that cannot be read. Nothing of the state is lost: bring the "
    "file back from a copy, then start again. If there is none: remove the checkpoint, and seed anew: holdfast seed "
    "--replace {conf}"
)
_FILE_GONE = (
    "It was listed in {place}, and is not there any more: put it back where it was; or go on without its batch: "
    "holdfast skip-batch {conf} {table}"
)
_PLACE_GONE = (
    "{place} is not there at the moment: bring it back (is a disk or a share not mounted?), then start again: nothing "
    "is lost"
)
_FEED_FILES_GONE = (
    "The change feed of {place} no longer has versions that were not read yet (VACUUM or the retention of its log "
    "removed them, or somebody did). Put its files back from a copy, if there is one, and start again. If not: keep "
    "versions longer than the stream may stand still, and seed anew: holdfast seed --replace {conf}"
)
_SPARKS_OWN = (
    "It is neither a file of {place} nor of the checkpoint, but one of Spark's own (spark.local.dir), or one of its "
    "surroundings: see that nothing tidies that folder up, then start again: nothing is lost"
)

_OF_EVERY_KIND = (
    _Meaning(
        SourceFailed,
        "The disk of the checkpoint (checkpoint {checkpoint}), or of Spark's own files (spark.local.dir), is full: "
        "make room, then start again: nothing is lost",
        texts=r"No space left on device|Disk quota exceeded|File too large|not enough space",
    ),
    _Meaning(
        SourceFailed,
        "Check the disks of the checkpoint {checkpoint} and of the source {place}, then start again: nothing is lost",
        texts=r"Read-only file system|Input/output error",
    ),
    _Meaning(
        SourceFailed,
        "Spark has too little memory: raise spark.driver.memory under 'spark', or let batches take less "
        "(trigger.max_records, trigger.max_bytes), then start again: nothing is lost",
        names=r"OutOfMemoryError|SparkOutOfMemoryError",
        texts=r"java\.lang\.OutOfMemoryError|GC overhead limit",
    ),
    _Meaning(
        CheckpointLost,
        "Another process follows this source with the checkpoint {checkpoint}: stop one of them, then start again",
        conditions=r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY",
    ),
    _Meaning(
        SourceFailed,
        "Give this process access to the place that it names (source {place}, checkpoint {checkpoint}), then start "
        "again: nothing is lost",
        names=r"AccessControlException|AccessDeniedException",
        texts=r"Permission denied|AccessDenied|\bForbidden\b|\b403\b",
    ),
)

_DELTA = (
    _Meaning(
        SourceRefused,
        "The change feed was not on for some version since the seed (delta.enableChangeDataFeed of {place}). Switch it "
        "on, and seed anew: holdfast seed --replace {conf}",
        conditions=r"DELTA_MISSING_CHANGE_DATA",
        texts=r"change data was not recorded",
    ),
    _Meaning(
        SourceRefused,
        _FEED_FILES_GONE,
        names=r"VersionNotFoundException",
        conditions=(
            r"DELTA_CHANGE_DATA_FILE_NOT_FOUND|DELTA_VERSIONS_NOT_CONTIGUOUS|DELTA_LOG_FILE_NOT_FOUND|"
            r"DELTA_VERSION_NOT_FOUND|DELTA_TRUNCATED_TRANSACTION_LOG|DELTA_MISSING_FILES_UNEXPECTED_VERSION|DELTA_MISSING_PART_FILES"
        ),
    ),
    _Meaning(
        SourceRefused,
        "The schema of {place} has changed. Where columns were only added, start again; otherwise seed anew: holdfast "
        "seed --replace {conf}",
        conditions=(
            r"DELTA_SCHEMA_CHANGED|DELTA_STREAMING_INCOMPATIBLE|DELTA_CHANGE_DATA_FEED_INCOMPATIBLE|"
            r"DELTA_STREAMING_SCHEMA_MISMATCH|DELTA_STREAMING_METADATA_EVOLUTION|"
            r"DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION"
        ),
    ),
    _Meaning(
        SourceRefused,
        "{place} is another Delta table than the one that was followed. Put that one back; or seed anew: holdfast seed "
        "--replace {conf}",
        conditions=r"DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
    ),
    _Meaning(
        SourceRefused,
        "The table has fewer versions than were seen before: an older copy stands in the place of {place}. Put the "
        "newest one back; or seed anew: holdfast seed --replace {conf}",
        conditions=(
            r"DELTA_STREAMING_TRAILING_COMMIT_MISSING|DELTA_CDC_START_VERSION_AFTER_LATEST|DELTA_INVALID_CDC_RANGE"
        ),
        texts=r"load a non-existent version",
    ),
    _Meaning(
        SourceFailed,
        _PLACE_GONE,
        conditions=r"DELTA_TABLE_NOT_FOUND|DELTA_MISSING_DELTA_TABLE|DELTA_PATH_DOES_NOT_EXIST",
        texts=r"is not a Delta table",
    ),
)

_KAFKA = (
    _Meaning(
        SourceRefused,
        "Kafka no longer has records that were not read yet of {place} (retention, or a topic made anew), so no answer "
        "would be exact. Where this is another cluster than before, correct 'servers'; otherwise keep records longer, "
        "and seed anew: holdfast seed --replace {conf}",
        names=r"OffsetOutOfRangeException",
        conditions=r"KAFKA_DATA_LOSS",
        texts=r"Some data may have been lost|OffsetOutOfRange",
    ),
    _Meaning(
        SourceRefused,
        "The {place} is not there: correct 'source.topic' or 'servers'. Where it was deleted, make it again and seed "
        "anew: holdfast seed --replace {conf}",
        names=r"UnknownTopicOrPartitionException|UnknownTopicIdException",
        texts=r"UnknownTopicOrPartition",
    ),
    _Meaning(
        SourceFailed,
        "Kafka did not let this process read {place}: correct what 'options' say of security, or give its user access "
        "to the topic, then start again: nothing is lost",
        names=r"(Topic|Group|Cluster)?Authorization\w*Exception|\w*AuthenticationException",
    ),
    _Meaning(
        SourceFailed,
        "Check that the servers of {place} answer, then start again: nothing is lost",
        names=r"TimeoutException|DisconnectException|KafkaException|ConnectException|UnknownHostException",
        texts=r"Connection refused|UnknownHost",
    ),
)

_OF_KIND: dict[Kind, tuple[_Meaning, ...]] = {"files": (), "delta": _DELTA, "kafka": _KAFKA}

_AT_LAST = (
    _Meaning(
        SourceRefused,
        "A file of {place} cannot be read: bring it back whole from a copy, then start again; or go on without its "
        "batch: holdfast skip-batch {conf} {table}",
        conditions=r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER",
    ),
    _Meaning(
        SourceFailed,
        "Check that the storage of {place} and of the checkpoint {checkpoint} answers, then start again: nothing is "
        "lost",
        names=r"ConnectException|UnknownHostException|SocketTimeoutException|SocketException|NoRouteToHostException",
        texts=r"Connection refused|Connection reset",
    ),
)
