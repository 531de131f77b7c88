"""The `tables` section: which columns, which seed, which stream of changes.

A table's rows are its seed's, then changed by its source's records. Invariant: whatever can be known to be
wrong about one table from its own settings is refused when they are read.
"""

import codecs
import datetime
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from holdfast.constraints import ColumnType, UsageError, parse_type
from holdfast.constraints.columns import unknown_name
from holdfast.jobs.quantities import (
    AtLeastOne,
    Count,
    Duration,
    Flag,
    Option,
    StoragePlace,
    Text,
    shown,
)
from holdfast.jobs.settings_model import Section

_TIMES = ("Date", "Time", "MicroTime", "NanoTime", "ZonedTime", "Year")
_INSTANTS = ("Timestamp", "MicroTimestamp", "NanoTimestamp", "ZonedTimestamp")
DEBEZIUM_ENCODINGS = (
    *(f"io.debezium.time.{name}" for name in (*_TIMES, *_INSTANTS)),
    "io.debezium.data.VariableScaleDecimal",
    *(f"org.apache.kafka.connect.data.{name}" for name in ("Date", "Time", "Timestamp", "Decimal")),
)
"""How a change record may write dates, times and decimals, by the names that its schema would give."""

_OWN_OPTIONS = {
    "subscribe": "set 'topic'",
    "assign": "set 'topic'",
    "subscribepattern": "set 'topic'",
    "kafka.bootstrap.servers": "set 'servers'",
    "startingoffsets": "set 'start'",
    "startingtimestamp": "set 'start'",
    "startingoffsetsbytimestamp": "set 'start'",
    "endingoffsets": "use holdfast run --available-now",
    "failondataloss": "it is always true, since lost records would make every answer wrong",
    "kafka.isolation.level": "it is always read_committed, since aborted records are no changes",
    "startingversion": "it follows from the seed",
    "readchangefeed": "it is always on",
    "maxoffsetspertrigger": "set 'trigger.max_records'",
    "maxbytespertrigger": "set 'trigger.max_bytes'",
    "maxfileage": "it is set so that no file is ever too old",
}


def _type(value: Any) -> ColumnType:
    if not isinstance(value, str):
        raise ValueError(f"expected a column type such as integer, decimal(10,2) or string, given {shown(value)}")
    try:
        return parse_type(value)
    except UsageError as error:
        raise ValueError(str(error)) from None


def _encoding(value: Any) -> str:
    if value not in DEBEZIUM_ENCODINGS:
        raise ValueError(unknown_name("unknown encoding", str(value), DEBEZIUM_ENCODINGS))
    return str(value)


def _charset(value: Any) -> str:
    try:
        codecs.lookup(str(value))
    except (LookupError, ValueError):
        raise ValueError(f"unknown encoding {shown(value)}: expected one such as utf-8, latin-1 or cp1252") from None
    return str(value)


def _delimiter(value: Any) -> str:
    text = "\t" if value in ("\\t", "tab") else value
    if not isinstance(text, str) or len(text.encode()) != 1 or text in '"\n\r':
        raise ValueError(f"expected one character such as ',', ';' or tab, given {shown(value)}")
    return text


def _null_tokens(value: Any) -> Any:
    if not isinstance(value, list) or not all(isinstance(token, str) for token in value):
        raise ValueError(f"expected a list of texts, such as ['', 'NULL'] (in quotes), given {shown(value)}")
    return tuple(value)


class ColumnSettings(Section):
    """What a source does not say about a column: type, order, how change records write it, how it was called before."""

    type: Annotated[ColumnType, BeforeValidator(_type)] | None = None
    ordered: Flag | None = None
    encoding: Annotated[str, BeforeValidator(_encoding)] | None = None
    was: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _type_alone(cls, given: Any) -> Any:
        return {"type": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _says_something(self) -> "ColumnSettings":
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise ValueError("expected a type such as long, or {type: string, ordered: true}")
        return self


class SeedSettings(Section):
    """Where a table's first rows are: a file as `ReadOptions` reads it, or a Delta table."""

    path: StoragePlace
    version: Count | None = None
    delimiter: Annotated[str, BeforeValidator(_delimiter)] = ","
    encoding: Annotated[Text, BeforeValidator(_charset)] = "utf-8"
    null_tokens: Annotated[tuple[str, ...], BeforeValidator(_null_tokens)] = ("",)
    typed_header: Flag = False
    strings: Literal["all"] | tuple[Text, ...] = ()
    limit: AtLeastOne | None = None

    @field_validator("strings", mode="before")
    @classmethod
    def _all_or_names(cls, value: Any) -> Any:
        if value != "all" and not (isinstance(value, list) and all(isinstance(name, str) and name for name in value)):
            raise ValueError(f"expected all, or a list of column names, given {shown(value)}")
        return value


class FilesSource(Section):
    """A folder into which files of changes are renamed."""

    format: Literal["files"]
    path: StoragePlace
    encoding: Literal["json", "csv", "parquet"]
    delimiter: Annotated[str, BeforeValidator(_delimiter)] = ","
    null_tokens: Annotated[tuple[str, ...], BeforeValidator(_null_tokens)] = ("",)
    options: Mapping[str, Option] = {}

    @property
    def has_schema(self) -> bool:
        """Whether the source may say its columns' types."""
        return self.encoding == "parquet"


def _servers(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (str, list)) or not all(isinstance(server, str) for server in value):
        raise ValueError(f"expected servers such as localhost:9092, given {shown(value)}")
    servers = [server.strip() for part in ([value] if isinstance(value, str) else value) for server in part.split(",")]
    for server in servers:
        match = re.fullmatch(r"(?:[A-Za-z]+://)?(?:[\w.-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})", server)
        if match is None or not 0 < int(match[1]) < 65_536:
            raise ValueError("expected host:port, several with commas between them, such as localhost:9092")
    return tuple(servers)


def _start(value: Any) -> Any:
    wanted = "expected earliest, latest, a time such as 2024-02-29T12:00:00Z, or {partition: offset, ...}"
    if isinstance(value, dict):
        if value and all(str(k).isdigit() and type(v) is int and 0 <= v < 2**63 for k, v in value.items()):
            return {int(k): v for k, v in value.items()}
        raise ValueError(wanted)
    if value in ("earliest", "latest"):
        return str(value)
    try:
        moment = datetime.datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"{wanted}; given {shown(value)}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


class KafkaSource(Section):
    """A topic whose records are changes."""

    format: Literal["kafka"]
    servers: Annotated[tuple[str, ...], BeforeValidator(_servers)]
    topic: Text
    encoding: Literal["json", "upsert", "debezium", "debezium-unwrapped"]
    start: Annotated[str | datetime.datetime | Mapping[int, int] | None, BeforeValidator(_start)] = None
    options: Mapping[str, Option] = {}

    @field_validator("topic")
    @classmethod
    def _one_topic(cls, topic: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic):
            raise ValueError("expected the name of one topic: letters, digits, '.', '_' and '-'")
        return topic

    @property
    def has_schema(self) -> bool:
        """Whether the source may say its columns' types."""
        return self.encoding != "json"


class DeltaSource(Section):
    """The change feed of a Delta table."""

    format: Literal["delta"]
    path: StoragePlace
    options: Mapping[str, Option] = {}

    @property
    def has_schema(self) -> bool:
        """Whether the source may say its columns' types."""
        return True


Source = FilesSource | KafkaSource | DeltaSource


class TableSettings(Section):
    """One table."""

    name: Text
    key: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    columns: Mapping[Text, ColumnSettings] = {}
    include: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    exclude: tuple[Text, ...] = ()
    seed: SeedSettings | None = None
    source: Annotated[Source, Field(discriminator="format")] | None = None
    sequence: Text | None = None
    sequence_retention: Duration | None = None
    settle: Count = 0
    new_columns: Literal["ignore", "stop"] = "ignore"

    @property
    def known_columns(self) -> frozenset[str] | None:
        """All columns that can be monitored, where the settings alone tell; else None."""
        if self.include is not None:
            return frozenset(self.include)
        if self.seed is None and self.source is not None and not self.source.has_schema:
            return frozenset(self.columns) - frozenset(self.exclude)
        return None

    @field_validator("key", "include", "exclude")
    @classmethod
    def _each_once(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        seen: set[str] = set()
        for name in names or ():
            if name in seen:
                raise ValueError(f"'{name}' is named twice: remove one")
            seen.add(name)
        return names

    @field_validator("source")
    @classmethod
    def _options_left_to_us(cls, source: Source | None) -> Source | None:
        for option in source.options if source else ():
            if option.lower() in _OWN_OPTIONS:
                raise ValueError(f"option '{option}' is not taken here: {_OWN_OPTIONS[option.lower()]}")
        return source
