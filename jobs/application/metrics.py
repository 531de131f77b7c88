"""Serves the figures of a run in the formats of Prometheus.

Figures are computed when they are requested, from the parts of the run; a batch only adds its seconds to histograms,
which takes some microseconds. No lock is shared with a batch.

Invariant: no request delays a batch, however slow its client is, and whatever tables and rules are called.
"""

import asyncio
import datetime
import ipaddress
import socket
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector, make_asgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

import holdfast
from holdfast.constraints import ExternalError, Family
from holdfast.dashboard.background import Background
from holdfast.jobs.application.watching import RunParts
from holdfast.streaming.commits.table_records import TableProgress

if TYPE_CHECKING:
    from holdfast.jobs.configuration.settings import PrometheusSettings
    from holdfast.streaming.spark.running import Done

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_NAMES = (*map(str, _BOUNDS), "+Inf")
_WHOLE = "whole"
_PATIENCE_SECONDS = 10


class Figures(Collector):
    """The figures of one run.

    Parameters
    ----------
    application : the name of the pipeline.

    Attributes
    ----------
    is_well : returns whether neither a batch nor the publisher has failed.
    """

    def __init__(self, application: str) -> None:
        self._application = application
        self._followed: RunParts | None = None
        self.is_well: Callable[[], bool] = lambda: True
        self._held: dict[str, dict[Family, int]] = {}
        self._steps: dict[tuple[str, str], tuple[list[int], float]] = {}

    def follow(self, followed: RunParts | None) -> None:
        """Read figures from the parts of a run from now on; None ends this."""
        if followed is not None:
            self._held = {name: maintainer.counts for name, maintainer in followed.tables.items()}
        self._followed = followed

    def watch(self, is_well: Callable[[], bool]) -> None:
        """Report the health of the run by this function from now on."""
        self.is_well = is_well

    def done(self, done: "Done") -> None:
        """Add a committed batch to the histograms. O(steps)."""
        followed = self._followed
        if followed is not None:
            self._held[done.table] = followed.tables[done.table].counts
        took = done.seconds.values()
        self._step(done.table, _WHOLE, sum(took) + done.result.seconds)
        for step, seconds in done.seconds.items():
            self._step(done.table, step, seconds)
        self._step(done.table, "apply", done.result.seconds)

    def _step(self, table: str, step: str, seconds: float) -> None:
        counts, whole = self._steps.get((table, step)) or ([0] * len(_NAMES), 0.0)
        counts = counts.copy()
        counts[bisect_left(_BOUNDS, seconds)] += 1
        self._steps[table, step] = counts, whole + seconds  # in one assignment, as another thread reads

    # For requests

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: the figures are not known in advance."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield all figures."""
        info = GaugeMetricFamily("holdfast_info", "This pipeline.", labels=["version", "application"])
        info.add_metric([holdfast.__version__, _label(self._application)], 1)
        yield info
        yield self._seconds()
        followed = self._followed
        if followed is not None:
            yield from self._of_tables(followed.pipeline.progress)
            yield from _of_rules(followed.pipeline.rule_lines)
            yield from _of_commits(followed)

    def _seconds(self) -> Metric:
        found = HistogramMetricFamily(
            "holdfast_batch_seconds", "What batches took since the start, by step.", labels=["table", "step"]
        )
        for (table, step), (counts, whole) in list(self._steps.items()):
            buckets = [(name, float(n)) for name, n in zip(_NAMES, accumulate(counts), strict=True)]
            found.add_metric([_label(table), step], buckets, whole)
        return found

    def _of_tables(self, progress: Mapping[str, TableProgress]) -> Iterator[Metric]:
        held = GaugeMetricFamily("holdfast_constraints", "Constraints that hold.", labels=["table", "family"])
        for table, counts in list(self._held.items()):
            families = {family.value: float(count) for family, count in counts.items()}
            across = (progress[table].constraints or 0 if table in progress else 0) - sum(counts.values())
            if across > 0:  # inclusions are kept for all tables together
                families[Family.INCLUSION.value] = float(across)
            for family, count in families.items():
                held.add_metric([_label(table), family], count)
        yield held
        for name, (key, text, kind) in _TABLE_FIGURES.items():
            figure = kind(name, text, labels=["table"])
            for table, about in progress.items():
                value = getattr(about, key)
                if value is not None or kind is CounterMetricFamily:
                    figure.add_metric([_label(table)], float(value or 0))
            yield figure


_TABLE_FIGURES: Mapping[str, tuple[str, str, Any]] = {
    "holdfast_rows": ("rows", "Rows of a table.", GaugeMetricFamily),
    "holdfast_near_constraints": ("near", "Constraints that nearly hold.", GaugeMetricFamily),
    "holdfast_near_with_exceptions": (
        "near_with_exceptions",
        "Constraints that nearly hold and have exceptions.",
        GaugeMetricFamily,
    ),
    "holdfast_suspects": ("suspects", "Cells that are probably wrong, in the outputs.", GaugeMetricFamily),
    "holdfast_batches": ("batches", "Batches since the seed.", CounterMetricFamily),
    "holdfast_records": ("records", "Records since the seed.", CounterMetricFamily),
    "holdfast_quarantined": ("quarantined", "Records put into quarantine since the seed.", CounterMetricFamily),
    "holdfast_late": ("late", "Records older than the last record of their key, since the seed.", CounterMetricFamily),
    "holdfast_lag_seconds": ("lag_seconds", "Age of the oldest record of the last batch.", GaugeMetricFamily),
    "holdfast_lag_records": ("lag_records", "Records not read yet, if the source reports them.", GaugeMetricFamily),
}


def _of_rules(lines: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    labels = ["rule", "table", "severity"]
    broken = GaugeMetricFamily("holdfast_rule_broken", "1 where a rule is broken.", labels=labels)
    pairs = GaugeMetricFamily("holdfast_rule_violating_pairs", "Pairs of rows that break a rule.", labels=labels[:2])
    rows = GaugeMetricFamily("holdfast_rule_violating_rows", "Rows that break a rule.", labels=labels[:2])
    for name, line in lines.items():
        of = [_label(name), _label(line["table_name"])]
        broken.add_metric([*of, line["severity"]], float(line["broken"]))
        for figure, key in ((pairs, "violating_pairs"), (rows, "violating_rows")):
            if line[key] is not None:
                figure.add_metric(of, float(line[key]))
    yield from (broken, pairs, rows)


def _of_commits(followed: RunParts) -> Iterator[Metric]:
    times = [about.at for about in followed.pipeline.progress.values() if about.at]
    gauges: dict[str, tuple[str, float | None]] = {
        "holdfast_last_commit": ("Number of the last commit.", followed.commits.last),
        "holdfast_last_commit_timestamp_seconds": (
            "When the last batch was committed.",
            datetime.datetime.fromisoformat(max(times)).timestamp() if times else None,
        ),
        "holdfast_commits_to_publish": ("Commits that are not in all output tables.", followed.publisher.behind),
        "holdfast_snapshot_age_seconds": (
            "Age of the last snapshot that this process brought into the backup.",
            followed.snapshotter.age,
        ),
        "holdfast_alerts_waiting": ("Alerts that are to be delivered.", followed.waiting.count),
    }
    for name, (text, value) in gauges.items():
        if value is not None:
            yield GaugeMetricFamily(name, text, value=float(value))
    alerts = followed.alerts
    counters = {
        "holdfast_alerts_sent": ("Alerts that were delivered since the start.", alerts.sent),
        "holdfast_alerts_failed": ("Tries that failed since the start.", alerts.failed),
        "holdfast_alerts_given_up": ("Alerts that a receiver refused for good since the start.", alerts.given_up),
        "holdfast_alerts_dropped": ("Alerts dropped as too many waited, since the start.", alerts.dropped),
    }
    for name, (text, count) in counters.items():
        yield CounterMetricFamily(name, text, value=float(count))


def _label(text: str) -> str:
    """Return a text that can be encoded as UTF-8; the library escapes the rest."""
    return text.encode("utf-8", "backslashreplace").decode()


class Endpoint:
    """Serves figures until it is closed.

    Parameters
    ----------
    figures : the figures of the run.
    settings : address and port.
    """

    def __init__(self, figures: Figures, settings: "PrometheusSettings") -> None:
        registry = CollectorRegistry()
        registry.register(figures)
        ProcessCollector(registry=registry)
        try:
            listening = _listening(settings.address, settings.port)
        except OSError as error:
            raise ExternalError(
                f"prometheus: {settings.address}:{settings.port} cannot be served ({error.strerror or error}): stop "
                "the program that uses the port, or name another `port`"
            ) from error
        headers = [("Server", f"holdfast/{holdfast.__version__}")]
        self._server = Background(_application(figures, registry), listening, "metrics", http=_Patient, headers=headers)
        self.port = self._server.port
        self._server.start()

    def close(self) -> None:
        """Stop serving, and release the port."""
        self._server.close()


def _application(figures: Figures, registry: CollectorRegistry) -> Starlette:
    """Return the application: the figures of a registry, and the health of the run."""

    async def health(_: Request) -> Response:
        well = figures.is_well()
        return _plain(200 if well else 503, "ok\n" if well else "a batch failed\n")

    async def nothing(_: Request, __: Exception) -> Response:
        return _plain(404, "/metrics or /healthz\n")

    routes = [Route("/metrics", _Metrics(registry), methods=["GET"]), Route("/healthz", health)]
    return Starlette(routes=routes, exception_handlers={404: nothing})


def _plain(status: int, text: str) -> Response:
    return Response(text, status, {"Content-Type": "text/plain"})


class _Metrics:
    """The application of `prometheus_client`, as an object, since a route would call a function differently."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._app = make_asgi_app(registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, "query_string": b""}, receive, send)  # figures are not known by name in advance


class _Patient(H11Protocol):
    """Closes connections that send no complete request within some seconds, so that slow clients do not accumulate."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait_for_the_next(None)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        cycle = self.cycle
        super().on_response_complete()
        self._wait_for_the_next(cycle)

    def _wait_for_the_next(self, cycle: object) -> None:
        self.loop.call_later(_PATIENCE_SECONDS, self._give_up, cycle)

    def _give_up(self, cycle: object) -> None:
        if self.cycle is cycle:
            self.transport.close()


def _listening(address: str, port: int) -> socket.socket:
    """Return a listening socket; for an unspecified IPv6 address, on all addresses of both versions."""
    is_v6 = address != "localhost" and ipaddress.ip_address(address).version == 6
    is_both = is_v6 and ipaddress.ip_address(address).is_unspecified and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if is_v6 else socket.AF_INET
    return socket.create_server((address, port), family=family, dualstack_ipv6=is_both, backlog=64)
