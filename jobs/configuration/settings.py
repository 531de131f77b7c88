"""A whole configuration as typed values, and what each setting is where it is not given.

Invariant: a `Settings` is complete, consistent and immutable; paths in it are absolute or addresses. `load`
(configuration.py) is the only place that makes one from a file.
"""

import datetime
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from holdfast.constraints import Family
from holdfast.jobs.configuration.quantities import (
    AtLeastOne,
    Count,
    Duration,
    Flag,
    Interval,
    Limit,
    LocalPlace,
    Option,
    Share,
    Size,
    StoragePlace,
    Text,
    shown,
)
from holdfast.jobs.configuration.settings_model import Section
from holdfast.jobs.configuration.table_settings import TableSettings

OWN_PLACES = ("state", "backup", "output", "checkpoint")
"""The places that every configuration names."""
RULE_FORMS = ("forbid", "require", "key", "fd", "od", "inclusion")
CHANGES = ("appeared", "disappeared")
STATES = ("broken", "recovered")
NEAR = ("nearly", "restored", "left")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset(
    {"content-type", "content-length", "transfer-encoding", "host", "connection", "idempotency-key"}
)


class TriggerSettings(Section):
    """When a micro-batch starts, and how much it takes at most."""

    interval: Interval = datetime.timedelta(seconds=1)
    """Least time between the starts of two batches; `0 s`: at once."""
    max_records: AtLeastOne = 50_000
    """Records of a topic that a batch takes at most."""
    max_bytes: Size = 64_000_000
    """Bytes of files or of a change feed that a batch takes at most."""


class PublishSettings(Section):
    """How the output tables are written: lags and intervals; which engine writes."""

    max_lag: AtLeastOne = 100
    """Commits that may wait for the output tables before batches wait."""
    compact_every: AtLeastOne = 100
    """Writes of an output table between two times its small files are brought together."""
    writer: Literal["auto", "deltalake", "spark"] = "auto"
    """`deltalake` (delta-rs), `spark`, or `auto`: delta-rs where it reaches the storage."""
    status_interval: Duration = datetime.timedelta(minutes=5)
    """Longest time between two lines of a rule in `rule_status`."""
    metrics_interval: Duration = datetime.timedelta(seconds=10)
    """Time between two lines of each figure in `metrics`."""


class SnapshotSettings(Section):
    """How often the state is copied to the backup, and how many copies stay."""

    interval: Duration = datetime.timedelta(minutes=15)
    """Time between two snapshots of the state."""
    keep: AtLeastOne = 2
    """Snapshots that stay in the backup, with the log behind the oldest."""


class RetentionSettings(Section):
    """How long output rows stay; `forever` where it is not given. The changes themselves always stay."""

    rule_status: Duration | None = None
    """How long rows of `rule_status` stay."""
    violations: Duration | None = None
    """How long rows of `violations` stay."""
    batches: Duration | None = None
    """How long rows of `batches` stay."""
    quarantine: Duration | None = None
    """How long rows of `quarantine` stay."""
    metrics: Duration | None = datetime.timedelta(days=30)
    """How long rows of `metrics` stay."""
    delta_log: Duration = datetime.timedelta(days=2)
    """How long files that an output table no longer needs, and its log, stay for slow readers."""

    @field_validator("rule_status", "violations", "batches", "quarantine", "metrics", mode="before")
    @classmethod
    def _forever(cls, value: Any) -> Any:
        return None if value == "forever" else value


class QuarantineSettings(Section):
    """Where the stream stops: more than `max_share` bad records among the last `window`."""

    max_share: Share = 0.5
    """Share of bad records among the last `window` above which the run stops."""
    window: AtLeastOne = 1_000
    """Over how many records that share is taken."""
    store_raw: Flag = True
    """Whether bad records themselves are kept, or only their reason and place."""


class DenialSettings(Section):
    """Denial constraints: the largest that are reported, and which columns are compared across."""

    max_predicates: Count = 4
    """Largest constraints that are kept, by column pairs; `0`: all."""
    cross_columns: Literal["auto", "none"] | tuple[tuple[str, str], ...] = "auto"
    """Which different columns are compared: `auto` (those that share values), `none`, or pairs `[[A, B], ...]`."""

    @field_validator("cross_columns", mode="before")
    @classmethod
    def _pairs(cls, value: Any) -> Any:
        if value in ("auto", "none"):
            return str(value)
        pairs = value if isinstance(value, list) else [None]
        for pair in pairs:
            if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(name, str) and name for name in pair)):
                raise ValueError(f"expected auto, none, or pairs of columns such as [[A, B]]; given {shown(value)}")
            if pair[0] == pair[1]:
                raise ValueError(f"[{pair[0]}, {pair[1]}]: every column is compared with itself anyway: remove it")
        return value


class OrderSettings(Section):
    """Order dependencies: how many columns their context has at most."""

    max_context: Count = 3
    """Most columns in a context; `0`: any number."""


class InclusionSettings(Section):
    """Inclusion dependencies: no settings, being there switches them on."""


class ConstraintsSettings(Section):
    """The families that are maintained: those that are named here."""

    denial: DenialSettings | None = None
    """Denial constraints: keys, functional dependencies and all others."""
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
    """A rule as it is written; `configured_rules` makes the domain's `Rule` of it."""

    name: Text
    """What the rule is called in lines, tables and alerts; once in a configuration."""
    table: Text | None = None
    """The table it is about; an inclusion names its tables itself."""
    forbid: Text | None = None
    """What must not occur: predicates joined by `and`, on `t` and `s` or on `t` alone."""
    require: Text | None = None
    """What every row `t` must satisfy."""
    key: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    """Columns on which no two rows agree."""
    fd: Text | None = None
    """A functional dependency, such as `Zip -> City`."""
    od: Text | None = None
    """An order dependency, such as `{State}: Salary ~ Rate`."""
    inclusion: Text | None = None
    """An inclusion dependency, such as `orders.customer in customers.id`."""
    severity: Literal["error", "warning"] = "error"
    """A broken rule of severity `error` makes `status` exit with 1."""
    max_violating_pairs: Limit | None = None
    """Pairs that may break it: a number, or a share of all pairs."""
    max_violating_rows: Limit | None = None
    """Rows that may break it: a number, or a share of all rows."""
    recount: Duration = datetime.timedelta(minutes=1)
    """Least time between two countings of rows that a batch does not tell by itself."""

    @property
    def form(self) -> str:
        """Which of `RULE_FORMS` it has."""
        return next(form for form in RULE_FORMS if getattr(self, form) is not None)

    @model_validator(mode="after")
    def _one_form(self) -> "RuleSettings":
        given = [form for form in RULE_FORMS if getattr(self, form) is not None]
        if len(given) != 1:
            found = f"given {' and '.join(given)}" if given else "given none"
            raise ValueError(f"expected exactly one of {', '.join(RULE_FORMS)}; {found}")
        return self


class BlocksSettings(Section):
    """Where rows are with `engine: spark`: in files that Spark's executors write and read."""

    path: StoragePlace | None = None
    """Folder or object store that this machine and all executors reach; `blocks` beside the state where Spark runs on
    this machine."""
    rows: AtLeastOne = 262_144
    """Rows of a block."""


class AlertSettings(Section):
    """Whom to tell about what."""

    on: Annotated[
        tuple[Literal["broken", "recovered", "appeared", "disappeared", "nearly", "restored", "left"], ...],
        Field(min_length=1),
    ]
    """What is told: `broken`, `recovered` of rules; `appeared`, `disappeared` of constraints; `nearly`, `restored`,
    `left` of constraints that nearly hold."""
    webhook: Text
    """Where it is sent, by `POST`."""
    headers: Mapping[str, Option] = {}
    """Headers to send along; all are masked in whatever is shown."""
    rule: Text | None = None
    """Only of this rule."""
    table: Text | None = None
    """Only of this table."""
    family: Literal["dc", "od", "ind"] | None = None
    """Only constraints of this family."""
    kind: Literal["key", "constant", "functional_dependency", "other", "order_compatible"] | None = None
    """Only constraints of this kind."""

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


class PrometheusSettings(Section):
    """Where figures are served, in the format of Prometheus."""

    port: Annotated[Count, Field(le=65_535)] = 9_464
    """Where to listen; `0`: any free port."""
    address: Text = "127.0.0.1"
    """On which address of this machine."""

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
        """Whether only this machine reaches it."""
        return self.address == "localhost" or ip_address(self.address).is_loopback


class Settings(Section):
    """One configuration file."""

    name: Text
    """Name of the pipeline: output tables and alerts carry it."""
    state: LocalPlace
    """Folder of the embedded store, on a local disk."""
    backup: StoragePlace
    """Folder or object store for the log of changes and for snapshots of the state."""
    output: StoragePlace
    """Folder or object store for the output tables."""
    checkpoint: StoragePlace
    """Where Spark notes how far the sources are read."""
    trigger: TriggerSettings = TriggerSettings()
    """When a batch starts, and how much it takes."""
    publish: PublishSettings = PublishSettings()
    """How output tables are written."""
    snapshot: SnapshotSettings = SnapshotSettings()
    """How often the state is copied to the backup."""
    retention: RetentionSettings = RetentionSettings()
    """How long rows of output tables stay."""
    quarantine: QuarantineSettings = QuarantineSettings()
    """What becomes of records that cannot be read."""
    storage_options: Mapping[str, Option] = {}
    """Options and keys of object stores, for backup, output and blocks."""
    tables: Annotated[tuple[TableSettings, ...], Field(min_length=1)]
    """The tables to follow."""
    constraints: ConstraintsSettings = ConstraintsSettings()
    """The families to discover and keep; none where it is left out."""
    rules: tuple[RuleSettings, ...] = ()
    """Constraints that people declare, and how much may break them."""
    alerts: tuple[AlertSettings, ...] = ()
    """Whom to tell about what."""
    prometheus: PrometheusSettings | None = None
    """Serves figures; off where it is left out."""
    spark: Mapping[str, Option] = {}
    """Settings of Spark, whose names start with `spark.`."""
    engine: Literal["embedded", "spark"] = "embedded"
    """Who holds rows and searches them: this process, or Spark's executors, for tables that one machine cannot hold."""
    blocks: BlocksSettings | None = None
    """Where rows are with `engine: spark`."""

    @field_validator("spark")
    @classmethod
    def _spark_settings(cls, settings: Mapping[str, str]) -> Mapping[str, str]:
        for name in settings:
            if not name.startswith("spark."):
                raise ValueError(f"'{name}' is no Spark setting: their names start with 'spark.'")
        return settings

    @property
    def places(self) -> dict[str, str]:
        """What Holdfast writes to, by the names of the settings."""
        places = {name: getattr(self, name) for name in OWN_PLACES}
        return {**places, **({"blocks": self.blocks_place} if self.engine == "spark" else {})}

    @property
    def blocks_place(self) -> str:
        """The folder or object store of the blocks; with `engine: spark`."""
        return blocks_place(self.state, self.blocks)


def blocks_place(state: str, blocks: BlocksSettings | None) -> str:
    """Return where the blocks are: as it was given, or beside the state."""
    return (blocks and blocks.path) or str(Path(state).with_name("blocks"))
