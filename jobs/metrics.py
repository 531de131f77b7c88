"""The figures of a run in the formats of Prometheus, and where they are served.

Figures are read when somebody asks, from what the batches leave behind anyway; a batch itself adds its steps to
histograms, some microseconds. Nothing here takes a lock that a batch takes.

Invariant: whatever tables and rules are called, and whoever asks how slowly, a batch goes on.
"""

import datetime
import ipaddress
import socket
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

import holdfast
from holdfast.constraints import ExternalError, Family
from holdfast.jobs.watching import Followed

if TYPE_CHECKING:
    from holdfast.jobs.settings import PrometheusSettings
    from holdfast.streaming.spark.running import Done

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_NAMES = (*map(str, _BOUNDS), "+Inf")
_WHOLE = "whole"
_PATIENCE_SECONDS = 10


class Figures(Collector):
    """The figures of one run.

    Parameters
    ----------
    application : its name.
    """

    def __init__(self, application: str) -> None:
        self._application = application
        self._followed: Followed | None = None
        self._is_well: Callable[[], bool] = lambda: True
        self._held: dict[str, dict[Family, int]] = {}
        self._steps: dict[tuple[str, str], tuple[list[int], float]] = {}

    @property
    def is_well(self) -> bool:
        """Whether the run is alive and no batch has failed."""
        return self._is_well()

    def follow(self, followed: Followed | None) -> None:
        """Read figures from these parts from now on; from none once they end."""
        if followed is not None:
            self._held = {name: maintainer.counts for name, maintainer in followed.tables.items()}
        self._followed = followed

    def watch(self, is_well: Callable[[], bool]) -> None:
        """Let `is_well` be what this says."""
        self._is_well = is_well

    def done(self, done: "Done") -> None:
        """Note a committed batch. O(steps)."""
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
        self._steps[table, step] = counts, whole + seconds  # at once, for whoever reads

    # Asked for

    def describe(self) -> Iterator[Metric]:
        """Nothing is told in advance."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield all figures as they are now."""
        about = GaugeMetricFamily("holdfast_info", "This pipeline.", labels=["version", "application"])
        about.add_metric([holdfast.__version__, _label(self._application)], 1)
        yield about
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

    def _of_tables(self, progress: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
        held = GaugeMetricFamily("holdfast_constraints", "Constraints that hold.", labels=["table", "family"])
        for table, counts in list(self._held.items()):
            families = {family.value: float(count) for family, count in counts.items()}
            across = (progress.get(table, {}).get("constraints") or 0) - sum(counts.values())
            if across > 0:  # inclusions are kept for all tables together
                families[Family.INCLUSION.value] = float(across)
            for family, count in families.items():
                held.add_metric([_label(table), family], count)
        yield held
        for name, (key, text, kind) in _TABLE_FIGURES.items():
            figure = kind(name, text, labels=["table"])
            for table, about in progress.items():
                value = about.get(key)
                if value is not None or kind is CounterMetricFamily:
                    figure.add_metric([_label(table)], float(value or 0))
            yield figure


_TABLE_FIGURES: Mapping[str, tuple[str, str, Any]] = {
    "holdfast_rows": ("rows", "Rows of a table.", GaugeMetricFamily),
    "holdfast_batches": ("batches", "Batches since the seed.", CounterMetricFamily),
    "holdfast_records": ("records", "Records since the seed.", CounterMetricFamily),
    "holdfast_quarantined": ("quarantined", "Records put into quarantine since the seed.", CounterMetricFamily),
    "holdfast_late": ("late", "Records older than what is known of their key, since the seed.", CounterMetricFamily),
    "holdfast_lag_seconds": ("lag_seconds", "Age of the oldest record of the last batch.", GaugeMetricFamily),
    "holdfast_lag_records": ("lag_records", "Records not read yet, where the source tells.", GaugeMetricFamily),
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


def _of_commits(followed: Followed) -> Iterator[Metric]:
    times = [about["at"] for about in followed.pipeline.progress.values() if about.get("at")]
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
    """Return a text as UTF-8 can have it; the rest of the escaping is that of the format."""
    return text.encode("utf-8", "backslashreplace").decode()


class Endpoint:
    """Serves figures until it is closed.

    Parameters
    ----------
    figures : of the run.
    settings : where.
    """

    def __init__(self, figures: Figures, settings: "PrometheusSettings") -> None:
        registry = CollectorRegistry()
        registry.register(figures)
        ProcessCollector(registry=registry)
        try:
            self._server = _server(settings.address, settings.port, figures, registry)
        except OSError as error:
            raise ExternalError(
                f"prometheus: {settings.address}:{settings.port} cannot be served ({error.strerror or error}): stop "
                "what uses the port, or name another `port`"
            ) from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Serve no more, and give the port up."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _server(address: str, port: int, figures: Figures, registry: CollectorRegistry) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        """Answers one request."""

        timeout = _PATIENCE_SECONDS
        server_version, sys_version = f"holdfast/{holdfast.__version__}", ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                encode, kind = choose_encoder(self.headers.get("Accept", ""))
                self._answer(200, encode(registry), kind)
            elif path == "/healthz":
                well = figures.is_well
                self._answer(200 if well else 503, b"ok\n" if well else b"a batch failed\n", "text/plain")
            else:
                self._answer(404, b"/metrics or /healthz\n", "text/plain")

        do_HEAD = do_GET  # noqa: N815  (the name that the base class looks for)

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name of the base class)
            """Say nothing: who asks is nobody's business."""

    class Server(ThreadingHTTPServer):
        """A server whose slow clients end with the process."""

        daemon_threads = True
        block_on_close = False
        is_v6 = address != "localhost" and ipaddress.ip_address(address).version == 6
        address_family = socket.AF_INET6 if is_v6 else socket.AF_INET

        def server_bind(self) -> None:
            """Bind, without the look-up of the machine's own name that the base class does."""
            TCPServer.server_bind(self)
            self.server_name, self.server_port = address, self.server_address[1]

        def handle_error(self, *_: Any) -> None:
            """Say nothing: a client that went away is no news."""

    return Server((address, port), Handler)
