"""No crash loses a message or makes one up: every step of alerts, with every history of crashes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.constraints import Rule, parse_rule_body
from holdfast.state.commits import Commits
from holdfast.streaming.alerts.deciding import Alert, Message, turned
from holdfast.streaming.alerts.posting import HttpAnswer, Receiver
from holdfast.streaming.alerts.sending import Sender
from holdfast.streaming.alerts.waiting import Waiting, alert_status
from holdfast.streaming.commits.draft import CommitDraft
from holdfast.streaming.commits.rule_reports import RuleReports
from holdfast.streaming.maintainers.rules.state import RuleState
from tests.memory_store import MemoryStore
from tests.unit.test_alert_deciding import BOTH, NOW

# A model: random histories, with crashes between any two steps

NAMES = ("a", "b", "c")


ALERTS = [Alert(BOTH), Alert(frozenset({"broken"}), rule="a"), Alert(BOTH)]


STEPS = ("decided", "written", "logged", "handed out", "sent", "noted")


class Crash(BaseException):
    """The process ends here."""


@dataclass
class World:
    """What outlives a process, and what should be true of it."""

    store: MemoryStore = field(default_factory=MemoryStore)
    backup: dict[int, bytes] = field(default_factory=dict)
    received: list[tuple[int, Message]] = field(default_factory=list)
    broken: dict[str, bool] = field(default_factory=dict)
    expected: list[tuple[int, str, str]] = field(default_factory=list)
    crash_at: str | None = None
    resends: int = 0


@dataclass
class Process:
    """One process, from its start to its crash."""

    world: World
    answers: list[int]

    def __post_init__(self) -> None:
        store = self.world.store
        self.commits = Commits(store, "app")
        self.log()
        self.reports = RuleReports(store, every=1e9)
        self.waiting = Waiting(store, ALERTS)
        channels = self.waiting.channels
        receivers = {channel: Receiver(str(n)) for n, channel in enumerate(channels)}
        self.clock = 0.0
        self.sender = Sender(self.waiting, receivers, post=self, now=lambda: self.clock)

    def crashes(self, step: str) -> None:
        if self.world.crash_at == step:
            self.world.crash_at = None
            raise Crash

    def log(self) -> None:
        for number, record in list(self.commits.unlogged()):
            self.world.backup[number] = record
            self.commits.logged(number)

    def commit(self, broken: dict[str, bool], words: dict[str, int]) -> None:
        """Commit the states of rules; those that are not given were left out of the configuration."""
        draft = CommitDraft(self.commits, NOW)
        states = [
            RuleState(Rule(n, "t", parse_rule_body(f"not(t.x > {words[n]})")), 9, None, int(is_broken))
            for n, is_broken in broken.items()
        ]
        were = self.reports.broken & broken.keys()
        self.reports.forget([state.rule for state in states], draft)
        lines = self.reports.publish(states, None, draft)
        self.waiting.decide(draft.rows, turned(states, lines, were), draft.change)
        self.crashes("decided")
        draft.commit()
        self.note_expected(draft.number, broken)
        self.crashes("written")
        self.log()
        self.crashes("logged")
        self.waiting.committed()
        self.crashes("handed out")

    def note_expected(self, commit: int, broken: dict[str, bool]) -> None:
        before = self.world.broken
        for name, is_broken in broken.items():
            if is_broken != before.get(name, False):
                self.world.expected.append((commit, name, "broken" if is_broken else "recovered"))
        self.world.broken = dict(broken)

    def send(self) -> None:
        """Send all that is due, while receivers answer."""
        while (pause := self.sender.turn()) is not None:
            self.clock += pause

    def __call__(self, receiver: Receiver, body: bytes, headers: Any, at_most: float | None = None) -> HttpAnswer:
        status = self.answers.pop() if self.answers else 200
        found = json.loads(body)
        assert found["commit"] in self.world.backup, "sent before the log record is in the backup"
        if status == 200:
            message = Message(headers["Idempotency-Key"], found)
            self.world.received.append((int(receiver.address), message))
            self.crashes("sent")
        return HttpAnswer(status)

    def break_off(self) -> None:
        raise AssertionError("nothing is broken off here")


def check(world: World) -> None:
    """Assert that each receiver was told what it asks for: in order, nothing else, again with the same key alone."""
    for number, alert in enumerate(ALERTS):
        of_it = [message for to, message in world.received if to == number]
        firsts = {message.key: message for message in of_it}
        seen = [(m.body["commit"], m.body["rule"], m.body["alert"][0]) for m in firsts.values()]
        wanted = [e for e in world.expected if e[2] in alert.on and alert.rule in {None, e[1]}]
        assert seen == wanted
        for message in of_it:
            assert message.body == firsts[message.key].body
    assert len(world.received) <= len({(to, m.key) for to, m in world.received}) + world.resends


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, Any]]:
    states = st.dictionaries(st.sampled_from(NAMES), st.booleans(), max_size=3)
    return draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("batch"), states),
                st.tuples(st.just("crash"), st.sampled_from(STEPS)),
                st.tuples(st.just("fail"), st.lists(st.sampled_from([500, 503, 200, 429, 408]), max_size=4)),
                st.tuples(st.just("restart"), st.none()),
                st.tuples(st.just("reword"), st.sampled_from(NAMES)),
                st.tuples(st.just("lose"), st.none()),
            ),
            max_size=25,
        )
    )


@settings(max_examples=300, deadline=None)
@given(histories())
def test_no_crash_loses_a_message_or_makes_one_up(history: list[tuple[str, Any]]) -> None:
    world, words = World(), dict.fromkeys(NAMES, 1)
    process = Process(world, [])
    for what, about in history:
        if what == "crash":
            world.crash_at = about
        elif what == "fail":
            process.answers = list(about)
        elif what == "restart":
            process = Process(world, process.answers)
        elif what == "reword":
            words[about] += 1
        elif what == "lose":  # the state; its backup brings it back, and what was delivered since its last commit again
            process.log()
            world.store = world.store.restored(world.backup[number] for number in sorted(world.backup))
            world.resends += len(world.received)
            process = Process(world, process.answers)
        else:
            last = process.commits.last
            for _ in range(3):
                try:
                    if process.commits.last == last:  # a batch that is not done is delivered again
                        process.commit(about, words)
                    process.send()
                    process.crashes("noted")
                    break
                except Crash:
                    world.resends += 1
                    process = Process(world, process.answers)
    world.crash_at = None
    process = Process(world, [])
    process.send()
    check(world)
    assert alert_status(world.store)["alerts_waiting"] == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_the_log_knows_what_was_delivered_before_a_commit(restarts: bool) -> None:
    world = World()
    process = Process(world, [])
    for number in range(3):
        if restarts:
            process = Process(world, [])
        process.commit({"a": number % 2 == 0}, {"a": 1})
        process.send()
    restored = world.store.restored(world.backup[number] for number in sorted(world.backup))
    assert alert_status(restored)["alerts_waiting"] == len(ALERTS)
    left = Waiting(restored, ALERTS)
    assert {message.body["commit"] for key in left.heads().values() if (message := left.read(key))} == {3}
