"""The `tables` section: the columns of each table, its seed, and its source of changes.

The rows of a table are those of its seed, changed by the records of its source. Invariant: every problem that follows
from the settings of a table alone is found when they are read.
"""

import codecs
import datetime
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from holdfast.constraints import ColumnType, UsageError, parse_share, parse_type
from holdfast.constraints.columns import unknown_name
from holdfast.jobs.configuration.quantities import (
    AtLeastOne,
    Count,
    Duration,
    Flag,
    Option,
    StoragePlace,
    Text,
    Texts,
    shown,
    spelled,
)
from holdfast.jobs.configuration.settings_model import Section

_TIMES = ("Date", "Time", "MicroTime", "NanoTime", "ZonedTime", "Year")
_INSTANTS = ("Timestamp", "MicroTimestamp", "NanoTimestamp", "ZonedTimestamp")
DEBEZIUM_ENCODINGS = (
    *(f"io.debezium.time.{name}" for name in (*_TIMES, *_INSTANTS)),
    "io.debezium.data.VariableScaleDecimal",
    *(f"org.apache.kafka.connect.data.{name}" for name in ("Date", "Time", "Timestamp", "Decimal")),
)
"""Encodings of dates, times and decimals in change records, by the names that a schema would give."""

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
    if value == "auto":
        return value
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(token, str) for token in value):
        raise ValueError(f"expected auto, or a list of texts, such as ['', 'NULL'] (in quotes), given {shown(value)}")
    return tuple(value)


NullTokens = Annotated[tuple[str, ...] | Literal["auto"], BeforeValidator(_null_tokens)]
"""Texts that stand for null. `auto`: the empty text; and `NA`, `NULL`, `-` and the like, except in columns of texts."""


def nulls_of(given: tuple[str, ...] | Literal["auto"]) -> dict[str, Any]:
    """Return which texts stand for null, as parameters of `ReadOptions`."""
    is_auto = given == "auto"
    return {"null_tokens": ("",) if is_auto else given, "nulls_by_look": is_auto}


class ColumnSettings(Section):
    """What a source does not define of a column: its type, order, encoding in change records, and former name."""

    type: Annotated[ColumnType, BeforeValidator(_type)] | None = None
    """The column's type, such as `integer`, `decimal(10,2)` or `string`."""
    ordered: Flag | None = None
    """Whether values are compared by `<`, in all families."""
    encoding: Annotated[str, BeforeValidator(_encoding)] | None = None
    """Encoding of the column in change records of Debezium that have no schema."""
    was: Text | None = None
    """Name of the column when the state was seeded, if it was renamed since."""

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
    """The first rows of a table: a file, read with `ReadOptions`, or a Delta table."""

    path: StoragePlace
    """CSV (compressed too), Parquet, Arrow or a Delta table."""
    version: Count | None = None
    """Version of a Delta table."""
    delimiter: Annotated[str, BeforeValidator(_delimiter)] = ","
    """Delimiter of the fields of a text file: one character, or `tab`."""
    encoding: Annotated[Text, BeforeValidator(_charset)] = "utf-8"
    """Character encoding of a text file, such as `latin-1`."""
    null_tokens: NullTokens = ("",)
    """Texts that stand for null: a list; or `auto`: the empty text, and `NA`, `NULL`, `-`, `?` and the like in columns
    of other types than text."""
    typed_header: Flag = False
    """Whether the header names types: `age(Integer)` or `age int`."""
    strings: Literal["all"] | tuple[Text, ...] = ()
    """Columns to read as text: `all`, a name, or a list."""
    limit: AtLeastOne | None = None
    """Number of rows to read, from the first on."""

    @field_validator("strings", mode="before")
    @classmethod
    def _all_or_names(cls, value: Any) -> Any:
        value = [value] if isinstance(value, str) and value != "all" else value
        if value != "all" and not (isinstance(value, list) and all(isinstance(name, str) and name for name in value)):
            raise ValueError(f"expected all, or a list of column names, given {shown(value)}")
        return value


def _near_share(value: Any) -> Fraction:
    given = spelled(value)
    try:
        if isinstance(given, bool) or not isinstance(given, int | float | str | Fraction):
            raise UsageError("")
        return parse_share(given)
    except UsageError:
        raise ValueError(f"expected a share of the rows from 0% to 50%, such as 1%; given {shown(value)}") from None


def _suspects(value: Any) -> Any:
    if isinstance(value, bool) or value in ("auto", "off"):
        return {True: "auto", False: "off"}.get(value, value)
    try:
        number = int(value) if isinstance(value, int | str) else 0
    except ValueError:
        number = 0
    if not 1 <= number < 2**63:
        raise ValueError(f"expected auto, off, or a number of batches, given {shown(value)}")
    return number


class NearSettings(Section):
    """Near constraints: the share of the rows that may be exceptions, and the size of the largest constraints."""

    share: Annotated[Fraction, BeforeValidator(_near_share)] = Fraction(1, 100)
    """Share of the rows that may be exceptions, at most 50%."""
    max_context: Count = 3
    """Largest number of columns of a key, or in the context of another constraint; `0`: any number."""
    orders: Flag | None = None
    """Whether order compatibilities are maintained, beside keys and functional dependencies; by default with
    `engine: embedded`."""
    suspects: Annotated[Literal["auto", "off"] | int, BeforeValidator(_suspects)] = "auto"
    """How often suspects, cells that are probably wrong, are searched: `off`, every so many batches, or `auto`."""

    @model_validator(mode="before")
    @classmethod
    def _share_alone(cls, given: Any) -> Any:
        return given if isinstance(given, dict) else {"share": given}


class FilesSource(Section):
    """A folder that files of changes are renamed into."""

    format: Literal["files"]
    """`files`."""
    path: StoragePlace
    """The folder of the files."""
    encoding: Literal["json", "csv", "parquet"]
    """Format of the files."""
    delimiter: Annotated[str, BeforeValidator(_delimiter)] = ","
    """Delimiter of the fields of CSV."""
    null_tokens: NullTokens = ("",)
    """Texts in CSV that stand for null: a list, or `auto`, as for the seed."""
    options: Mapping[str, Option] = {}
    """Options of Spark's file source."""


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
    """`kafka`."""
    servers: Annotated[tuple[str, ...], BeforeValidator(_servers)]
    """Brokers as `host:port`, separated by commas."""
    topic: Text
    """Name of the topic."""
    encoding: Literal["json", "upsert", "debezium", "debezium-unwrapped"]
    """Format of the records."""
    start: Annotated[str | datetime.datetime | Mapping[int, int] | None, BeforeValidator(_start)] = None
    """Position in the topic where the seed ends: `earliest`, `latest`, a time, or offsets `{0: 4711, 1: 4690}`."""
    options: Mapping[str, Option] = {}
    """Options of Spark's Kafka source, such as `kafka.security.protocol`."""

    @field_validator("topic")
    @classmethod
    def _one_topic(cls, topic: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic):
            raise ValueError("expected the name of one topic: letters, digits, '.', '_' and '-'")
        return topic


class DeltaSource(Section):
    """The change feed of a Delta table."""

    format: Literal["delta"]
    """`delta`."""
    path: StoragePlace
    """Delta table whose change data feed is switched on."""
    options: Mapping[str, Option] = {}
    """Options of Spark's Delta source."""


Source = FilesSource | KafkaSource | DeltaSource


class TableSettings(Section):
    """One table."""

    name: Text
    """Name of the table."""
    key: Annotated[Texts, Field(min_length=1)] | None = None
    """Columns that identify a row; by default all columns."""
    columns: Mapping[Text, ColumnSettings] = {}
    """Settings of columns whose types are not inferred right: a type by column, or a mapping."""
    include: Annotated[Texts, Field(min_length=1)] | None = None
    """The columns that are monitored; by default all."""
    exclude: Texts = ()
    """Columns that are not monitored."""
    seed: SeedSettings | None = None
    """The first rows; by default none, or the snapshot of a Delta source."""
    source: Annotated[Source, Field(discriminator="format")] | None = None
    """Source of the changes; a table without a source does not change."""
    sequence: Text | None = None
    """Column that orders the changes of a key, where its records arrive over several partitions."""
    sequence_retention: Duration | None = None
    """How long the last sequence of a deleted key is remembered."""
    settle: Count = 0
    """Number of batches for which a change must persist before it is published."""
    new_columns: Literal["ignore", "stop"] = "ignore"
    """`stop` ends the run before the first record with a field that is not a column."""
    near: NearSettings | None = None
    """Near constraints of the table: `near: 1%`, or a mapping; by default none."""

    @model_validator(mode="before")
    @classmethod
    def _named_is_on(cls, given: Any) -> Any:
        if isinstance(given, dict) and "near" in given and given["near"] is None:
            given["near"] = {}
        return given

    def monitors(self, name: str) -> bool:
        """Whether a column is monitored, if the table has it."""
        return (self.include is None or name in self.include) and name not in self.exclude

    @property
    def has_schema(self) -> bool:
        """Whether the source may define the types of its columns."""
        source = self.source
        return isinstance(source, DeltaSource) or (source is not None and source.encoding not in {"json", "csv"})

    @property
    def known_columns(self) -> frozenset[str] | None:
        """All columns that can be monitored, where they follow from the settings; None where only the data has them."""
        if self.include is not None:
            return frozenset(self.include)
        if self.seed is None and self.source is not None and not self.has_schema:
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


def has_suspects(table: TableSettings) -> bool:
    """Whether suspects of a table are searched where its rows are in memory."""
    return table.near is not None and table.near.suspects != "off"
