"""A whole configuration as typed values, and what each setting is where it is not given.

Invariant: a `Settings` is complete, consistent and immutable; paths in it are absolute or addresses. `load`
(configuration.py) is the only place that makes one from a file.
"""

import datetime
import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from holdfast.constraints import Family
from holdfast.jobs.quantities import (
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
from holdfast.jobs.settings_model import Section
from holdfast.jobs.table_settings import TableSettings

RULE_FORMS = ("forbid", "require", "key", "fd", "od", "inclusion")
CHANGES = ("appeared", "disappeared")
STATES = ("broken", "recovered")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset(
    {"content-type", "content-length", "transfer-encoding", "host", "connection", "idempotency-key"}
)


class TriggerSettings(Section):
    """When a micro-batch starts, and how much it takes at most."""

    interval: Interval = datetime.timedelta(seconds=1)
    max_records: AtLeastOne = 50_000
    max_bytes: Size = 64_000_000


class PublishSettings(Section):
    """How the output tables are written: lags and intervals; which engine writes."""

    max_lag: AtLeastOne = 100
    compact_every: AtLeastOne = 100
    writer: Literal["auto", "deltalake", "spark"] = "auto"
    status_interval: Duration = datetime.timedelta(minutes=5)
    metrics_interval: Duration = datetime.timedelta(seconds=10)


class SnapshotSettings(Section):
    """How often the state is copied to the backup, and how many copies stay."""

    interval: Duration = datetime.timedelta(minutes=15)
    keep: AtLeastOne = 2


class RetentionSettings(Section):
    """How long output rows stay; `forever` where it is not given. The changes themselves always stay."""

    rule_status: Duration | None = None
    violations: Duration | None = None
    batches: Duration | None = None
    quarantine: Duration | None = None
    metrics: Duration | None = datetime.timedelta(days=30)
    delta_log: Duration = datetime.timedelta(days=2)

    @field_validator("rule_status", "violations", "batches", "quarantine", "metrics", mode="before")
    @classmethod
    def _forever(cls, value: Any) -> Any:
        return None if value == "forever" else value


class QuarantineSettings(Section):
    """Where the stream stops: more than `max_share` bad records among the last `window`."""

    max_share: Share = 0.5
    window: AtLeastOne = 1_000
    store_raw: Flag = True


class DenialSettings(Section):
    """Denial constraints: the largest that are reported, and which columns are compared across."""

    max_predicates: Count = 4
    cross_columns: Literal["auto", "none"] | tuple[tuple[str, str], ...] = "auto"

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


class InclusionSettings(Section):
    """Inclusion dependencies: no settings, being there switches them on."""


class ConstraintsSettings(Section):
    """The families that are maintained: those that are named here."""

    denial: DenialSettings | None = None
    order: OrderSettings | None = None
    inclusion: InclusionSettings | None = None

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
    table: Text | None = None
    forbid: Text | None = None
    require: Text | None = None
    key: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    fd: Text | None = None
    od: Text | None = None
    inclusion: Text | None = None
    severity: Literal["error", "warning"] = "error"
    max_violating_pairs: Limit | None = None
    max_violating_rows: Limit | None = None
    recount: Duration = datetime.timedelta(minutes=1)

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


class AlertSettings(Section):
    """Whom to tell about what."""

    on: Annotated[tuple[Literal["broken", "recovered", "appeared", "disappeared"], ...], Field(min_length=1)]
    webhook: Text
    headers: Mapping[str, Option] = {}
    rule: Text | None = None
    table: Text | None = None
    family: Literal["dc", "od", "ind"] | None = None
    kind: Literal["key", "constant", "functional_dependency", "other", "order_compatible"] | None = None

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
    address: Text = "127.0.0.1"

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
    state: LocalPlace
    backup: StoragePlace
    output: StoragePlace
    checkpoint: StoragePlace
    trigger: TriggerSettings = TriggerSettings()
    publish: PublishSettings = PublishSettings()
    snapshot: SnapshotSettings = SnapshotSettings()
    retention: RetentionSettings = RetentionSettings()
    quarantine: QuarantineSettings = QuarantineSettings()
    storage_options: Mapping[str, Option] = {}
    tables: Annotated[tuple[TableSettings, ...], Field(min_length=1)]
    constraints: ConstraintsSettings = ConstraintsSettings()
    rules: tuple[RuleSettings, ...] = ()
    alerts: tuple[AlertSettings, ...] = ()
    prometheus: PrometheusSettings | None = None
    spark: Mapping[str, Option] = {}

    @field_validator("spark")
    @classmethod
    def _spark_settings(cls, settings: Mapping[str, str]) -> Mapping[str, str]:
        for name in settings:
            if not name.startswith("spark."):
                raise ValueError(f"'{name}' is no Spark setting: their names start with 'spark.'")
        return settings
