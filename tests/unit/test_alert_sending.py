"""How alerts reach their receivers: tries, pauses, what is given up, and that nobody can hold the thread."""

from __future__ import annotations

import json
import random
import threading
import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import pytest

import holdfast
from holdfast.jobs.application.alerting import sender_of, waiting_of
from holdfast.jobs.configuration.reading import read_configuration
from holdfast.jobs.terminal.progress import PlainProgress
from holdfast.state.store import WriteBatch
from holdfast.streaming.alerts.deciding import Alert, Turned
from holdfast.streaming.alerts.posting import HttpAnswer, NoAnswer, Post, Receiver
from holdfast.streaming.alerts.sending import LONGEST_ASKED, LONGEST_PAUSE, Sender
from holdfast.streaming.alerts.waiting import Waiting, alert_status
from tests.memory_store import MemoryStore
from tests.unit.test_alert_deciding import BOTH, line_of, rows_of
from tests.webhooks import CUT, DRIP, HANG, RUBBISH, Webhook, wait_until, webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import StringIO

ALERT = Alert(BOTH)
START = 1_700_000_000.0


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    with webhook() as running:
        yield running


class Bench:
    """A sender with a clock of its own, and what it said."""

    def __init__(self, *addresses: str, post: Any = None, alerts: list[Alert] | None = None) -> None:
        self.store, self.said, self.time = MemoryStore(), list[str](), 0.0
        self.waiting = Waiting(self.store, alerts or [ALERT] * len(addresses))
        channels = self.waiting.channels
        self.sender = Sender(
            self.waiting,
            {
                c: Receiver(a, {"X-Own": "é"}, f"alert {n}")
                for n, (c, a) in enumerate(zip(channels, addresses, strict=True))
            },
            lambda text, level: self.said.append(f"{level} {text}"),
            post=post or Post(connect=2, read=0.3, whole=1),
            now=lambda: self.time,
            wall=lambda: START + self.time,
            dice=random.Random(1),
        )
        self.commits = 0

    def put(self, count: int = 1) -> None:
        """Commit some messages."""
        for _ in range(count):
            self.commits += 1
            change = WriteBatch()
            self.waiting.decide(rows_of(self.commits), [Turned(line_of())], change)
            self.store.write(change)
            self.waiting.committed()

    def until_idle(self, most: float = float("inf")) -> list[float]:
        """Send until nothing waits, or the next pause is longer; return the pauses that were waited for."""
        pauses = []
        while (pause := self.sender.turn()) is not None:
            if pause > most:
                break
            if pause:
                pauses.append(pause)
            self.time += pause
        return pauses


class Answers:
    """Posts nothing, and answers what it is told to."""

    def __init__(self, *answers: HttpAnswer | Exception) -> None:
        self.answers = list(answers)
        self.bodies: list[Any] = []

    def __call__(self, receiver: Receiver, body: bytes, headers: Any, at_most: float | None = None) -> HttpAnswer:
        self.bodies.append(json.loads(body))
        answer = self.answers.pop(0) if self.answers else HttpAnswer(200)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def break_off(self) -> None:
        raise AssertionError("nothing is under way")


class TestReceivers:
    def test_what_is_sent(self, hook: Webhook) -> None:
        bench = Bench(hook.address.replace("//", "//me:s%40cret@") + "/a/b?c=d")
        bench.put()
        bench.until_idle()
        (got,) = hook.got
        assert (got.path, got.body["commit"], got.body["alert"]) == ("/a/b?c=d", 1, ["broken"])
        assert got.headers["content-type"] == "application/json"
        assert got.headers["user-agent"] == f"holdfast/{holdfast.__version__}"
        assert got.headers["x-own"] == "é"
        assert got.headers["authorization"] == "Basic bWU6c0BjcmV0"
        assert len(got.key) == 64
        assert (bench.waiting.count, alert_status(bench.store)["alerts_waiting"], bench.sender.counts.sent) == (0, 0, 1)

    @pytest.mark.parametrize("answer", [500, 503, 408, 425, 429, HANG, CUT, RUBBISH, DRIP], ids=str)
    def test_tried_again_with_the_same_key(self, hook: Webhook, answer: Any) -> None:
        hook.answers = [answer, answer]
        bench = Bench(f"{hook.address}/x")
        bench.put(2)
        pauses = bench.until_idle()
        assert [got.body["commit"] for got in hook.got] == [1, 1, 1, 2]
        assert len({got.key for got in hook.got}) == 2
        assert 0.5 <= pauses[0] <= 1 <= pauses[1] <= 2
        counts = bench.sender.counts
        assert (counts.sent, counts.failed, counts.given_up, bench.waiting.count) == (2, 2, 0, 0)
        assert len(bench.said) == 1
        assert "it is tried again" in bench.said[0]

    @pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 410, 422])
    def test_given_up_with_a_word(self, hook: Webhook, status: int) -> None:
        hook.answers = [(status, {"Location": f"{hook.address}/elsewhere"})]
        bench = Bench(f"{hook.address}/x")
        bench.put(2)
        assert bench.until_idle() == []
        assert [(got.path, got.body["commit"]) for got in hook.got] == [("/x", 1), ("/x", 2)]
        counts = bench.sender.counts
        assert (counts.sent, counts.given_up, bench.waiting.count) == (1, 1, 0)
        (said,) = bench.said
        assert f"warning warning: alert 0, commit 1: answered {status}" in said
        assert "given up" in said

    def test_nobody_listens(self) -> None:
        bench = Bench("http://127.0.0.1:1/")
        bench.put()
        bench.until_idle(most=20)
        failure = alert_status(bench.store)["alert_failure"]
        assert failure["tries"] == bench.sender.counts.failed > 3
        assert "ConnectionRefusedError" in failure["error"]
        assert failure["at"].startswith("2023-11-14T22:1")

    def test_a_dead_one_does_not_hold_up_the_others(self, hook: Webhook) -> None:
        bench = Bench("http://127.0.0.1:1/", f"{hook.address}/alive")
        bench.put(5)
        bench.until_idle(most=60)
        assert [got.body["commit"] for got in hook.got] == [1, 2, 3, 4, 5]
        assert bench.waiting.count == 5


class TestPauses:
    def test_they_grow_to_a_limit(self) -> None:
        bench = Bench("http://h/", post=Answers(*[NoAnswer("x")] * 30))
        bench.put()
        pauses = bench.until_idle()
        assert len(pauses) == 30
        for tries, pause in enumerate(pauses):
            longest = min(LONGEST_PAUSE, 2**tries)
            assert longest / 2 <= pause <= longest
        assert len({round(pause / min(LONGEST_PAUSE, 2**n), 6) for n, pause in enumerate(pauses)}) == 30  # by chance

    @pytest.mark.parametrize(
        ("asked", "least", "most"),
        [
            ("120", 120, 120),
            (formatdate(START + 90, usegmt=True), 90, 90),
            (formatdate(START - 90, usegmt=True), 0.5, 1),
            ("0", 0.5, 1),
            ("9" * 40, LONGEST_ASKED, LONGEST_ASKED),
            ("soon", 0.5, 1),
            ("-5", 0.5, 1),
            ("", 0.5, 1),
            (None, 0.5, 1),
        ],
    )
    def test_a_receiver_may_ask_for_more(self, asked: str | None, least: float, most: float) -> None:
        bench = Bench("http://h/", post=Answers(HttpAnswer(429, asked)))
        bench.put()
        (pause,) = bench.until_idle()
        assert least <= pause <= most

    def test_what_nobody_expects_is_tried_again(self) -> None:
        bench = Bench("http://h/", post=Answers(ValueError("odd")))
        bench.put()
        assert len(bench.until_idle()) == 1
        assert "ValueError: odd" in bench.said[0]


def test_an_alert_that_is_not_configured_any_more_is_given_up() -> None:
    bench = Bench("http://h/", post=Answers())
    bench.put()
    other = Waiting(bench.store, [Alert(BOTH, rule="other")])
    said: list[str] = []
    sender = Sender(
        other, {other.channels[0]: Receiver("http://h/")}, lambda text, _: said.append(text), post=Answers()
    )
    while sender.turn() is not None:
        pass
    assert "no alert of the configuration asks for it any more: it is given up" in said[0]
    assert alert_status(bench.store)["alerts_waiting"] == 0


class TestThread:
    def test_sends_what_comes_while_it_runs(self, hook: Webhook) -> None:
        bench = Bench(f"{hook.address}/x")
        bench.sender.start()
        bench.put()
        wait_until(lambda: len(hook.got) == 1)
        bench.put(2)
        wait_until(lambda: len(hook.got) == 3 and not bench.waiting.count)
        assert bench.sender.close() == 0

    def test_the_end_tries_once_more_and_says_what_is_left(self, hook: Webhook) -> None:
        bench = Bench(f"{hook.address}/x", f"{hook.address}/x")
        hook.then = 500
        bench.sender.start()
        bench.put(2)
        wait_until(lambda: len(hook.got) == 2)
        hook.answers = [200, 500, 200, 200]  # of one alert both, of the other none
        assert bench.sender.close() == 2
        assert len(hook.got) == 5
        assert alert_status(bench.store)["alerts_waiting"] == 2

    @pytest.mark.parametrize("answer", [HANG, DRIP])
    def test_the_end_does_not_wait_for_a_receiver(self, hook: Webhook, answer: str) -> None:
        hook.then = answer
        bench = Bench(f"{hook.address}/x", post=Post())
        bench.sender.start()
        bench.put()
        wait_until(lambda: len(hook.got) == 1)
        began = time.monotonic()
        assert bench.sender.close(0.5) == 1
        assert time.monotonic() - began < 5
        assert not any(thread.name == "alerts" and thread.is_alive() for thread in threading.enumerate())
        assert alert_status(bench.store)["alerts_waiting"] == 1

    def test_a_batch_does_not_wait_for_a_receiver(self, hook: Webhook) -> None:
        hook.then = HANG
        bench = Bench(f"{hook.address}/x", post=Post())
        bench.sender.start()
        bench.put()
        wait_until(lambda: len(hook.got) == 1)
        began = time.monotonic()
        bench.put(200)
        assert time.monotonic() - began < 1
        assert bench.sender.close(0.1) == 201


def configured(*alerts: str) -> Any:
    text = (
        "name: app\nstate: ./s\nbackup: ./b\noutput: ./o\ncheckpoint: ./c\ntables: [{name: t, seed: {path: t.csv}}]\n"
    )
    text += "constraints: {denial: {}}\nalerts:\n" + "".join(f"  - {alert}\n" for alert in alerts)
    return read_configuration(text.encode(), "c.yaml", "/srv", {"TOKEN": "hunter2hunter2"})


def test_no_secret_is_said_or_stored(tmp_path: Any) -> None:
    import io

    out: StringIO = io.StringIO()
    configuration = configured(
        '{on: [broken], webhook: "http://u:pw12345@127.0.0.1:1/${TOKEN}/plain-path", headers: {X-Key: "${TOKEN}", X-Other: quiet-header}}'
    )
    store = MemoryStore()
    waiting = waiting_of(configuration.settings, store)
    sender = sender_of(configuration, waiting, PlainProgress(out))
    errors: list[Callable[[], Exception]] = [
        lambda: NoAnswer("cannot send to http://u:pw12345@127.0.0.1:1/hunter2hunter2/plain-path"),
        lambda: ValueError("header quiet-header"),
    ]
    for number, error in enumerate(errors, 1):
        sender._post = Answers(error(), HttpAnswer(404))
        change = WriteBatch()
        waiting.decide(rows_of(number), [Turned(line_of())], change)
        store.write(change)
        waiting.committed()
        while (pause := sender.turn()) == 0:
            pass
        assert pause is not None
        sender._pauses.clear()
        said = out.getvalue() + json.dumps(alert_status(store))
        assert "alert broken of everything to http://***@127.0.0.1:1/***" in said
        for secret in ("hunter2", "plain-path", "pw12345", "quiet-header"):
            assert secret not in said
        while sender.turn() is not None:
            pass
    stored = b"".join(value for family in store.families.values() for value in family.values())
    assert b"hunter2" not in stored
