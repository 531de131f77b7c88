"""Figures for Prometheus: their names and labels, and a place to ask that nobody can block."""

from __future__ import annotations

import gzip
import http.client
import math
import socket
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

import holdfast
from holdfast.constraints import ExternalError, Family
from holdfast.jobs.application import metrics
from holdfast.jobs.application.metrics import Endpoint, Figures
from holdfast.jobs.configuration.reading import read_configuration
from holdfast.jobs.configuration.settings import PrometheusSettings
from holdfast.streaming.alerts.sending import Counts
from holdfast.streaming.commits.table_records import TableProgress

if TYPE_CHECKING:
    from collections.abc import Iterator

ANYWHERE = PrometheusSettings(port=0)
AT = "2024-02-29T12:00:00.000000Z"


def followed(tables: list[str], rules: list[str] = []) -> Any:  # noqa: B006  (never changed)
    progress = {
        table: TableProgress(
            rows=5 + n, constraints=9, batches=3, records=30, quarantined=2, late=1, lag_seconds=0.5, at=AT
        )
        for n, table in enumerate(tables)
    }
    line = {"table_name": tables[0], "severity": "error", "violating_pairs": 4, "violating_rows": 2, "broken": True}
    return SimpleNamespace(
        commits=SimpleNamespace(last=7),
        pipeline=SimpleNamespace(progress=progress, rule_lines=dict.fromkeys(rules, line)),
        publisher=SimpleNamespace(behind=2),
        snapshotter=SimpleNamespace(age=12.5),
        tables={table: SimpleNamespace(counts={Family.DENIAL: 4, Family.ORDER: 3}) for table in tables},
        waiting=SimpleNamespace(count=6),
        alerts=Counts(sent=1, failed=2, given_up=3, dropped=4),
    )


def done(table: str, **seconds: float) -> Any:
    return SimpleNamespace(table=table, seconds=seconds, result=SimpleNamespace(seconds=0.02))


def samples(figures: Figures, *, is_open: bool = False) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    registry = CollectorRegistry()
    registry.register(figures)
    encoded, read = (generate_openmetrics, parse_openmetrics) if is_open else (generate_latest, parse_text)
    families = read(encoded(registry).decode())
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def of(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


class TestFigures:
    @pytest.mark.parametrize("is_open", [False, True], ids=["text", "openmetrics"])
    def test_their_names(self, is_open: bool) -> None:
        figures = Figures("app")
        figures.follow(followed(["t"], ["r"]))
        found = samples(figures, is_open=is_open)
        expected = {
            of("holdfast_rows", table="t"): 5,
            of("holdfast_constraints", table="t", family="dc"): 4,
            of("holdfast_constraints", table="t", family="od"): 3,
            of("holdfast_constraints", table="t", family="ind"): 2,
            of("holdfast_batches_total", table="t"): 3,
            of("holdfast_records_total", table="t"): 30,
            of("holdfast_quarantined_total", table="t"): 2,
            of("holdfast_late_total", table="t"): 1,
            of("holdfast_lag_seconds", table="t"): 0.5,
            of("holdfast_commits_to_publish"): 2,
            of("holdfast_last_commit"): 7,
            of("holdfast_last_commit_timestamp_seconds"): 1709208000,
            of("holdfast_rule_broken", rule="r", table="t", severity="error"): 1,
            of("holdfast_rule_violating_pairs", rule="r", table="t"): 4,
            of("holdfast_rule_violating_rows", rule="r", table="t"): 2,
            of("holdfast_alerts_waiting"): 6,
            of("holdfast_alerts_sent_total"): 1,
            of("holdfast_alerts_failed_total"): 2,
            of("holdfast_alerts_given_up_total"): 3,
            of("holdfast_alerts_dropped_total"): 4,
            of("holdfast_snapshot_age_seconds"): 12.5,
        }
        assert expected.items() <= found.items()
        assert {name for name, _ in found.keys() - expected.keys()} == {"holdfast_info"}

    def test_what_batches_took(self) -> None:
        figures = Figures("app")
        figures.follow(followed(["t"]))
        for seconds in (0.001, 0.1, 400.0):
            figures.done(done("t", read=seconds))
        found = samples(figures)
        buckets = {
            dict(labels)["le"]: value
            for (name, labels), value in found.items()
            if name == "holdfast_batch_seconds_bucket" and ("step", "read") in labels
        }
        assert (buckets["0.001"], buckets["0.0025"], buckets["0.1"], buckets["300.0"], buckets["+Inf"]) == (
            1,
            1,
            2,
            2,
            3,
        )
        assert found[of("holdfast_batch_seconds_count", table="t", step="read")] == 3
        assert found[of("holdfast_batch_seconds_sum", table="t", step="read")] == pytest.approx(400.101)
        assert found[of("holdfast_batch_seconds_sum", table="t", step="whole")] == pytest.approx(400.161)
        assert found[of("holdfast_batch_seconds_sum", table="t", step="apply")] == pytest.approx(0.06)

    def test_a_batch_pays_some_microseconds(self) -> None:
        figures = Figures("app")
        figures.follow(followed(["t"]))
        batch = done("t", wait=0.1, read=0.1, decode=0.1, save=0.1)
        best = math.inf
        for _ in range(5):
            began = time.perf_counter()
            for _ in range(1_000):
                figures.done(batch)
            best = min(best, (time.perf_counter() - began) / 1_000)
        assert best < 100e-6

    @settings(max_examples=300)
    @given(st.lists(st.text(st.characters(), min_size=1), min_size=1, max_size=4, unique=True))
    @example(['a"b\\c\nd', "\\n", "\\", '"', "\r", "é\u2028{}=,", "\ud800"])
    def test_any_name_of_a_table_comes_back(self, names: list[str]) -> None:
        figures = Figures(names[0])
        figures.follow(followed(names, names))
        for name in names:
            figures.done(done(name))
        registry = CollectorRegistry()
        registry.register(figures)
        head = 'holdfast_rows{table="'
        lines = [line for line in generate_latest(registry).decode().split("\n") if line.startswith(head)]
        shown = [name.encode("utf-8", "backslashreplace").decode() for name in names]
        assert [unescaped(line.removeprefix(head).rpartition('"} ')[0]) for line in lines] == shown


def unescaped(text: str) -> str:
    """Return the inverse of what the exposition format says of label values, refusing what it does not allow."""
    found, at = [], 0
    while at < len(text):
        letter = text[at]
        assert letter not in '"\n'
        if letter == "\\":
            at += 1
            letter = {"\\": "\\", '"': '"', "n": "\n"}[text[at]]
        found.append(letter)
        at += 1
    return "".join(found)


@pytest.fixture
def figures() -> Figures:
    made = Figures("app")
    made.follow(followed(["t"]))
    return made


@pytest.fixture
def endpoint(figures: Figures) -> Iterator[Endpoint]:
    made = Endpoint(figures, ANYWHERE)
    yield made
    made.close()


def get(endpoint: Endpoint, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.getheader("Content-Type") or "", answer.read().decode()
    connection.close()
    return found


class TestEndpoint:
    def test_what_it_serves(self, endpoint: Endpoint) -> None:
        status, kind, text = get(endpoint, "/metrics?x=y")
        assert (status, kind.split(";")[0]) == (200, "text/plain")
        assert 'holdfast_rows{table="t"} 5.0\n' in text
        assert "\nprocess_start_time_seconds " in text
        assert "\nprocess_resident_memory_bytes " in text
        assert "python_info" not in text
        kind = get(endpoint, "/metrics", Accept="application/openmetrics-text; version=1.0.0")[1]
        assert kind.startswith("application/openmetrics-text")
        assert get(endpoint, "/healthz") == (200, "text/plain", "ok\n")
        assert get(endpoint, "/")[0] == 404
        assert get(endpoint, "/metrics", "HEAD") == (200, get(endpoint, "/metrics")[1], "")
        assert get(endpoint, "/metrics", "POST")[0] == 405
        assert get(endpoint, "/nothing") == (404, "text/plain", "/metrics or /healthz\n")

    def test_a_query_leaves_no_figure_out(self, endpoint: Endpoint) -> None:
        assert 'holdfast_rows{table="t"} 5.0\n' in get(endpoint, "/metrics?name%5B%5D=other")[2]

    def test_figures_are_compressed_for_whoever_asks(self, endpoint: Endpoint) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=30)
        connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        assert (answer.getheader("Content-Encoding"), answer.getheader("Server")) == (
            "gzip",
            f"holdfast/{holdfast.__version__}",
        )
        assert b'holdfast_rows{table="t"} 5.0\n' in gzip.decompress(answer.read())
        connection.close()

    def test_how_the_run_is(self, endpoint: Endpoint, figures: Figures) -> None:
        figures.watch(lambda: False)
        assert get(endpoint, "/healthz")[0] == 503
        assert get(endpoint, "/metrics")[0] == 200

    def test_a_run_that_has_not_begun(self) -> None:
        endpoint = Endpoint(Figures("app"), ANYWHERE)
        text = get(endpoint, "/metrics")[2]
        endpoint.close()
        assert 'holdfast_info{application="app"' in text
        assert "holdfast_rows" not in text

    def test_a_slow_client_holds_up_nobody(self, endpoint: Endpoint, figures: Figures) -> None:
        slow = [socket.create_connection(("127.0.0.1", endpoint.port)) for _ in range(20)]
        for one in slow:
            one.sendall(b"GET /metr")
        assert get(endpoint, "/metrics")[0] == 200
        began = time.monotonic()
        figures.done(done("t"))
        endpoint.close()
        assert time.monotonic() - began < 5
        for one in slow:
            one.close()

    @pytest.mark.parametrize("asked", [b"GET /metr", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /h"])
    def test_a_client_that_says_nothing_more_is_let_go(
        self, asked: bytes, figures: Figures, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(metrics, "_PATIENCE_SECONDS", 0.3)
        endpoint = Endpoint(figures, ANYWHERE)
        with socket.create_connection(("127.0.0.1", endpoint.port), timeout=20) as slow:
            slow.sendall(asked)
            while slow.recv(1_000):
                pass
        endpoint.close()

    @pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no addresses of both kinds")
    def test_all_addresses_of_both_kinds(self, figures: Figures) -> None:
        endpoint = Endpoint(figures, PrometheusSettings(port=0, address="::"))
        assert get(endpoint, "/healthz")[0] == 200
        endpoint.close()

    def test_a_port_in_use(self, endpoint: Endpoint) -> None:
        with pytest.raises(ExternalError, match=rf"127.0.0.1:{endpoint.port} cannot be served .*name another `port`"):
            Endpoint(Figures("app"), PrometheusSettings(port=endpoint.port))

    def test_the_port_is_free_afterwards(self, figures: Figures) -> None:
        first = Endpoint(figures, ANYWHERE)
        first.close()
        again = Endpoint(figures, PrometheusSettings(port=first.port))
        assert get(again, "/healthz")[0] == 200
        again.close()


GOOD = (
    "name: a\nstate: ./s\nbackup: ./b\noutput: ./o\ncheckpoint: ./c\n"
    "tables: [{name: t, seed: {path: t.csv}}]\nconstraints: {denial: {}}\n"
)


class TestSettings:
    def test_off_unless_given(self) -> None:
        assert read_configuration(GOOD.encode(), "c.yaml", "/").settings.prometheus is None

    @pytest.mark.parametrize(
        ("given", "warns"),
        [
            ("{}", False),
            ("{address: '127.0.0.9'}", False),
            ("{address: '::1'}", False),
            ("{address: localhost}", False),
            ("{address: '0.0.0.0', port: 80}", True),
            ("{address: '::'}", True),
            ("{address: '10.0.0.1'}", True),
        ],
    )
    def test_others_are_warned_of(self, given: str, warns: bool) -> None:
        found = read_configuration(f"{GOOD}prometheus: {given}\n".encode(), "c.yaml", "/")
        assert found.settings.prometheus is not None
        assert [("not this machine alone" in warning.message) for warning in found.warnings] == [True] * warns
        assert [warning.place.line for warning in found.warnings] == [8] * warns

    @pytest.mark.parametrize("given", ["{port: 70000}", "{port: -1}", "{address: example.com}", "{adress: x}", "9464"])
    def test_refused(self, given: str) -> None:
        with pytest.raises(ValueError, match="prometheus"):
            read_configuration(f"{GOOD}prometheus: {given}\n".encode(), "c.yaml", "/")

    @pytest.mark.parametrize(
        ("given", "word"),
        [
            ("webhook: 'http://h/a b'", "without blanks"),
            ("webhook: 'http://h/é'", "ASCII"),
            ("webhook: 'http://h', headers: {'X Y': z}", "no name of a header"),
            ("webhook: 'http://h', headers: {Host: z}", "set by Holdfast"),
            ("webhook: 'http://h', headers: {idempotency-key: z}", "set by Holdfast"),
            ('webhook: "http://h", headers: {X: "a\\r\\nB: c"}', "cannot be sent"),
            ("webhook: 'http://h', headers: {X: 'Ω'}", "cannot be sent"),
        ],
    )
    def test_alerts_that_cannot_be_sent(self, given: str, word: str) -> None:
        with pytest.raises(ValueError, match=word):
            read_configuration(f"{GOOD}alerts: [{{on: [appeared], {given}}}]\n".encode(), "c.yaml", "/")
