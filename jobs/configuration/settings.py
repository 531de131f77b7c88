"""A configuration as typed values, with the default of each setting.

Invariant: a `Settings` is complete, consistent and immutable; its paths are absolute, or addresses. Only `load`
(reading.py) makes a `Settings` from a file.
"""

import datetime
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, field_validator, model_validator

from holdfast.constraints import Family
from holdfast.jobs.configuration.quantities import (
    AtLeastOne,
    Constants,
    Count,
    Duration,
    Flag,
    Interval,
    Limit,
    LocalFile,
    LocalPlace,
    Option,
    Range,
    Share,
    Size,
    StoragePlace,
    Text,
    Texts,
    several,
    shown,
)
from holdfast.jobs.configuration.settings_model import Section
from holdfast.jobs.configuration.table_settings import TableSettings

OWN_PLACES = ("state", "backup", "output", "checkpoint")
"""The folders and addresses that every configuration names."""
RULE_FORMS = (
    *("key", "unique", "not_null", "values", "range", "matches"),
    *("fd", "od", "inclusion", "require", "forbid"),
)
"""The forms of a rule: a rule has exactly one."""
CHANGES = ("appeared", "disappeared")
STATES = ("broken", "recovered")
NEAR = ("nearly", "restored", "left")
SUSPECT = "suspect"
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset(
    {"content-type", "content-length", "transfer-encoding", "host", "connection", "idempotency-key"}
)


class TriggerSettings(Section):
    """When a micro-batch starts, and how many records it reads at most."""

    interval: Interval = datetime.timedelta(seconds=1)
    """Least time between the starts of two batches; `0 s`: at once."""
    max_records: AtLeastOne = 50_000
    """Largest number of records of a topic that a batch reads."""
    max_bytes: Size = 64_000_000
    """Largest number of bytes of files or of a change feed that a batch reads."""


class PublishSettings(Section):
    """How the output tables are written: by which engine, and at which intervals."""

    max_lag: AtLeastOne = 100
    """Number of unpublished commits from which on batches wait for the output tables."""
    compact_every: AtLeastOne = 100
    """Number of writes of an output table between two compactions of its small files."""
    writer: Literal["auto", "deltalake", "spark"] = "auto"
    """`deltalake` (delta-rs), `spark`, or `auto`: delta-rs where it reaches the storage."""
    status_interval: Duration = datetime.timedelta(minutes=5)
    """Longest time between two rows of a rule in `rule_status`."""
    metrics_interval: Duration = datetime.timedelta(seconds=10)
    """Time between two rows of each figure in `metrics`."""


class SnapshotSettings(Section):
    """How often the state is copied to the backup, and how many copies are kept."""

    interval: Duration = datetime.timedelta(minutes=15)
    """Time between two snapshots of the state."""
    keep: AtLeastOne = 2
    """Number of snapshots that the backup keeps, with the log since the oldest."""


class RetentionSettings(Section):
    """How long output rows are kept; by default `forever`. Changes of constraints are always kept."""

    rule_status: Duration | None = None
    """How long rows of `rule_status` are kept."""
    violations: Duration | None = None
    """How long rows of `violations` are kept."""
    batches: Duration | None = None
    """How long rows of `batches` are kept."""
    quarantine: Duration | None = None
    """How long rows of `quarantine` are kept."""
    metrics: Duration | None = datetime.timedelta(days=30)
    """How long rows of `metrics` are kept."""
    suspect_changes: Duration | None = None
    """How long rows of `suspect_changes` are kept."""
    delta_log: Duration = datetime.timedelta(days=2)
    """How long an output table keeps its log, and files that it no longer needs, for slow readers."""

    @field_validator("rule_status", "violations", "batches", "quarantine", "metrics", "suspect_changes", mode="before")
    @classmethod
    def _forever(cls, value: Any) -> Any:
        return None if value == "forever" else value


class QuarantineSettings(Section):
    """When a run stops: at more than `max_share` bad records among the last `window`."""

    max_share: Share = 0.5
    """Share of bad records among the last `window` above which the run stops."""
    window: AtLeastOne = 1_000
    """Number of last records of which the share is computed."""
    store_raw: Flag = True
    """Whether the text of bad records is kept, beside their reason and position."""


class DenialSettings(Section):
    """Denial constraints: the size of the largest, and which different columns are compared."""

    max_predicates: Count = 4
    """Largest number of column pairs in a constraint; `0`: any number."""
    cross_columns: Literal["auto", "related", "none"] | tuple[tuple[str, str], ...] = "auto"
    """Which different columns are compared: `auto` (those that share values), `related` (those that share them beyond
    chance), `none`, or pairs `[[A, B], ...]`."""

    @field_validator("cross_columns", mode="before")
    @classmethod
    def _pairs(cls, value: Any) -> Any:
        if value in ("auto", "related", "none"):
            return str(value)
        pairs = value if isinstance(value, list) else [None]
        for pair in pairs:
            if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(name, str) and name for name in pair)):
                raise ValueError(
                    f"expected auto, related, none, or pairs of columns such as [[A, B]]; given {shown(value)}"
                )
            if pair[0] == pair[1]:
                raise ValueError(f"[{pair[0]}, {pair[1]}]: every column is compared with itself anyway: remove it")
        return value


class OrderSettings(Section):
    """Order dependencies: the size of their largest context."""

    max_context: Count = 3
    """Largest number of columns in a context; `0`: any number."""


class InclusionSettings(Section):
    """Inclusion dependencies, which have no settings."""


class ConstraintsSettings(Section):
    """The families of constraints that are maintained: those that are named here."""

    denial: DenialSettings | None = None
    """Denial constraints, such as keys and functional dependencies."""
    order: OrderSettings | None = None
    """Order dependencies."""
    inclusion: InclusionSettings | None = None
    """Inclusion dependencies, among all tables; `{}`, as it has no settings."""

    @model_validator(mode="before")
    @classmethod
    def _named_is_on(cls, given: Any) -> Any:
        if isinstance(given, dict):
            for name in given:
                if given[name] is None:
                    given[name] = {}
        return given

    @property
    def families(self) -> tuple[Family, ...]:
        """The families that are switched on."""
        named = ((Family.DENIAL, self.denial), (Family.ORDER, self.order), (Family.INCLUSION, self.inclusion))
        return tuple(family for family, settings in named if settings is not None)


class RuleSettings(Section):
    """A declared rule; `build_rules` makes a `Rule` of each of its parts."""

    name: Text
    """Name of the rule in notes, tables and alerts; unique in a configuration."""
    table: Text | None = None
    """The table that the rule is checked on; an inclusion names its tables itself."""
    forbid: Text | None = None
    """A forbidden combination: predicates joined by `and`, on rows `t` and `s` or on `t` alone."""
    require: Text | None = None
    """A condition that every row `t` must satisfy."""
    key: Annotated[Texts, Field(min_length=1)] | None = None
    """Columns in which no two rows have equal values, all together."""
    unique: Annotated[Texts, Field(min_length=1)] | None = None
    """The same as `key`."""
    not_null: Annotated[Texts, Field(min_length=1)] | None = None
    """Columns that have a value in every row."""
    values: Annotated[Mapping[Text, Constants], Field(min_length=1)] | None = None
    """The accepted values of columns, such as `{state: [MA, NY]}`."""
    range: Annotated[Mapping[Text, Range], Field(min_length=1)] | None = None
    """The least and the greatest accepted value of columns, such as `{month: [1, 12], salary: {min: 0}}`."""
    matches: Annotated[Mapping[Text, Text], Field(min_length=1)] | None = None
    """Regular expressions that the whole texts of columns match, such as `{zip: "[0-9]{5}"}`."""
    fd: Text | None = None
    """A functional dependency, such as `Zip -> City, State`."""
    od: Text | None = None
    """An order dependency, such as `{State}: Salary ~ Rate`."""
    inclusion: Text | None = None
    """An inclusion dependency, such as `orders.customer in customers.id`."""
    nulls: Literal["equal", "apart", "break"] | None = None
    """How the rule treats nulls: `equal` to each other, `apart` from all values, or `break` the rule."""
    severity: Literal["error", "warning"] = "error"
    """A broken rule of severity `error` makes `status` exit with 1."""
    max_violating_pairs: Limit | None = None
    """Accepted number of violating pairs, or share of all pairs."""
    max_violating_rows: Limit | None = None
    """Accepted number of violating rows, or share of all rows."""
    recount: Duration = datetime.timedelta(minutes=1)
    """Shortest time between two recounts of violating rows that cannot be derived from a batch."""

    @property
    def form(self) -> str:
        """The one of `RULE_FORMS` that is given."""
        return next(form for form in RULE_FORMS if getattr(self, form) is not None)

    @model_validator(mode="after")
    def _one_form(self) -> "RuleSettings":
        given = [form for form in RULE_FORMS if getattr(self, form) is not None]
        if len(given) != 1:
            found = f"given {' and '.join(given)}" if given else "given none"
            raise ValueError(f"expected exactly one of {', '.join(RULE_FORMS)}; {found}")
        return self


class BlocksSettings(Section):
    """The files that Spark's executors store rows in, with `engine: spark`."""

    path: StoragePlace | None = None
    """Folder or object store that this machine and all executors reach; by default, with Spark on this machine, the
    folder `blocks` beside the state."""
    rows: AtLeastOne = 262_144
    """Number of rows in a block."""


class AlertSettings(Section):
    """An alert: the events that it is sent for, and its receiver."""

    on: Annotated[
        tuple[Literal["broken", "recovered", "appeared", "disappeared", "nearly", "restored", "left", "suspect"], ...],
        BeforeValidator(several),
        Field(min_length=1),
    ]
    """Events: `broken`, `recovered` of rules; `appeared`, `disappeared` of constraints; `nearly`, `restored`, `left` of
    near constraints; `suspect` of cells that are probably wrong."""
    webhook: Text
    """Address that the alert is sent to, by `POST`."""
    headers: Mapping[str, Option] = {}
    """Headers of the request; their values are always masked."""
    rule: Text | None = None
    """Only events of this rule."""
    table: Text | None = None
    """Only events of this table."""
    family: Literal["dc", "od", "ind"] | None = None
    """Only events of constraints of this family."""
    kind: Literal["key", "constant", "functional_dependency", "other", "order_compatible"] | None = None
    """Only events of constraints of this kind."""

    @field_validator("webhook")
    @classmethod
    def _address(cls, webhook: str) -> str:
        try:
            parts = urlsplit(webhook)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable:
            raise ValueError("expected an address that starts with http:// or https://")
        if not webhook.isascii() or not webhook.isprintable() or " " in webhook:
            raise ValueError("expected an address in ASCII without blanks: write other characters as %XX")
        return webhook

    @field_validator("headers")
    @classmethod
    def _can_be_sent(cls, headers: Mapping[str, str]) -> Mapping[str, str]:
        for name, value in headers.items():
            if _HEADER.fullmatch(name) is None:
                raise ValueError(f"'{name}' is no name of a header")
            if name.lower() in _OWN_HEADERS:
                raise ValueError(f"'{name}' is set by Holdfast: leave it out")
            if not value.isprintable() or any(ord(letter) > 0xFF for letter in value):
                raise ValueError(f"the value of '{name}' cannot be sent: expected Latin letters, on one line")
        return headers

    @model_validator(mode="after")
    def _fits(self) -> "AlertSettings":
        if self.rule is not None and not set(self.on) & set(STATES):
            raise ValueError(f"'rule' goes with on: [{', '.join(STATES)}]; use 'table' for constraints that change")
        if (self.family or self.kind) is not None and not set(self.on) & set(CHANGES):
            raise ValueError(f"'family' and 'kind' go with on: [{', '.join(CHANGES)}]; use 'rule' for rules")
        return self


class MuteSettings(Section):
    """A muted constraint, in the file that `mutes` names."""

    table: Text
    """Its table; of an inclusion, the dependent table."""
    constraint: Text
    """The constraint, as the page shows it or as in a rule: `Zip -> City`, `key(Phone)`, `not(...)`."""
    why: Text | None = None
    """The reason, for people."""


class PrometheusSettings(Section):
    """Serves figures in the format of Prometheus."""

    port: Annotated[Count, Field(le=65_535)] = 9_464
    """Port to listen on; `0`: any free port."""
    address: Text = "127.0.0.1"
    """Address of this machine to listen on."""

    @field_validator("address")
    @classmethod
    def _is_address(cls, address: str) -> str:
        try:
            ip_address(address)
        except ValueError:
            if address != "localhost":
                raise ValueError("expected an IP address of this machine, such as 127.0.0.1 or 0.0.0.0") from None
        return address

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return self.address == "localhost" or ip_address(self.address).is_loopback


class Settings(Section):
    """One configuration file."""

    name: Text
    """Name of the pipeline, in output tables and alerts."""
    state: LocalPlace
    """Folder of the embedded store, on a local disk."""
    backup: StoragePlace
    """Folder or object store for the log of changes and for snapshots of the state."""
    output: StoragePlace
    """Folder or object store for the output tables."""
    checkpoint: StoragePlace
    """Folder or object store for Spark's positions in the sources."""
    trigger: TriggerSettings = TriggerSettings()
    """When a batch starts, and how many records it reads."""
    publish: PublishSettings = PublishSettings()
    """How output tables are written."""
    snapshot: SnapshotSettings = SnapshotSettings()
    """How often the state is copied to the backup."""
    retention: RetentionSettings = RetentionSettings()
    """How long rows of output tables are kept."""
    quarantine: QuarantineSettings = QuarantineSettings()
    """How records that cannot be read are handled."""
    storage_options: Mapping[str, Option] = {}
    """Options and keys of object stores, for backup, output and blocks."""
    tables: Annotated[tuple[TableSettings, ...], Field(min_length=1)]
    """The tables to follow."""
    constraints: ConstraintsSettings = ConstraintsSettings()
    """The families of constraints that are maintained; by default none."""
    rules: tuple[RuleSettings, ...] = ()
    """Constraints that people declare, and how much may break them."""
    alerts: tuple[AlertSettings, ...] = ()
    """Alerts: which events are sent to which receivers."""
    mutes: LocalFile | None = None
    """File of muted constraints, left out of incidents, the first view and alerts: a list of
    `{table: tax, constraint: "Zip -> City", why: known}`."""
    prometheus: PrometheusSettings | None = None
    """Serves figures in the format of Prometheus; by default off."""
    spark: Mapping[str, Option] = {}
    """Settings of Spark, whose names start with `spark.`."""
    engine: Literal["embedded", "spark"] = "embedded"
    """Where rows are stored and searched: in this process, or by Spark's executors, for tables of any size."""
    blocks: BlocksSettings | None = None
    """Where rows are stored with `engine: spark`."""

    @field_validator("spark")
    @classmethod
    def _spark_settings(cls, settings: Mapping[str, str]) -> Mapping[str, str]:
        for name in settings:
            if not name.startswith("spark."):
                raise ValueError(f"'{name}' is no Spark setting: their names start with 'spark.'")
        return settings

    @property
    def places(self) -> dict[str, str]:
        """The folders and addresses that Holdfast writes to, by the names of their settings."""
        places = {name: getattr(self, name) for name in OWN_PLACES}
        return {**places, **({"blocks": self.blocks_place} if self.engine == "spark" else {})}

    @property
    def blocks_place(self) -> str:
        """The folder or object store of the blocks, with `engine: spark`."""
        return blocks_place(self.state, self.blocks)


def blocks_place(state: str, blocks: BlocksSettings | None) -> str:
    """Return the folder or object store of the blocks: the configured one, or a folder beside the state."""
    return (blocks and blocks.path) or str(Path(state).with_name("blocks"))
