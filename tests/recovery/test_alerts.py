"""Alerts of a pipeline on RocksDB: what receivers were told is what the output tables say, whatever crashed."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from holdfast.discovery.inclusion.seeding import column_values
from holdfast.state.commits import READY, Commits
from holdfast.state.log import CommitLog
from holdfast.state.rocks import RocksStore
from holdfast.streaming.alerts.deciding import Alert
from holdfast.streaming.alerts.posting import HttpAnswer, Receiver
from holdfast.streaming.alerts.sending import Sender
from holdfast.streaming.alerts.waiting import Waiting, alert_status, carried
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, Maintainer
from holdfast.streaming.pipeline import Limits, Pipeline
from holdfast.streaming.seeding import Earlier, SeededTable, restore, seed, table_rules
from holdfast.streaming.sinks.deltalake import DeltaLakeTable
from holdfast.streaming.sinks.publisher import Publisher
from holdfast.streaming.sinks.shapes import SHAPES
from tests.recovery.pipelines import RULES, Running, _history, _table

if TYPE_CHECKING:
    from pathlib import Path

ALERTS = [
    Alert(frozenset({"broken", "recovered"})),
    Alert(frozenset({"broken"}), rule="depends"),
    Alert(frozenset({"appeared", "disappeared"}), family="dc"),
    Alert(frozenset({"disappeared"}), table="r", family="ind"),
    Alert(frozenset({"broken"}), table="elsewhere"),
]


class Telling(Running):
    """One process that tells `received`, by alert."""

    def __init__(self, folder: Path, received: list[tuple[int, str, Any]], first: Any = None, settle: int = 0) -> None:
        self.received = received
        self.folder = folder
        self.store = RocksStore(folder / "state")
        self.commits = Commits(self.store, "app")
        if self.commits.identity.status != READY:
            table = _table(first or [])
            maintainer = Maintainer.seed(table, key=["k"], max_context=3, rules=table_rules(RULES, "r"), threads=1)
            seeded = [SeededTable(maintainer, values=column_values(table))]
            seed(self.commits, seeded, rules=RULES, alerts=ALERTS)
        identity = self.commits.identity
        tables = {
            name: DeltaLakeTable(str(folder / "out" / name), shape, identity.application, identity.state_id)
            for name, shape in SHAPES.items()
        }
        self.publisher = Publisher(self.commits, CommitLog(folder / "backup", identity.epoch), tables)
        self.publisher.start()
        self.tables = restore(self.store, threads=1, rules=RULES)
        self.waiting = Waiting(self.store, ALERTS)
        self.pipeline = Pipeline(*(self.tables, self.publisher, Limits(settle={"r": settle}), RULES, self.waiting))
        receivers = {channel: Receiver(str(n)) for n, channel in enumerate(self.waiting.channels)}
        self.sender = Sender(self.waiting, receivers, post=self)

    def __call__(self, receiver: Receiver, body: bytes, headers: Any, at_most: float | None = None) -> HttpAnswer:
        found = json.loads(body)
        logged = {int(path.name) for path in (self.folder / "backup" / "log").glob("*/" + "[0-9]" * 20)}
        assert found["commit"] in logged, "sent before the log record is in the backup"
        self.received.append((int(receiver.address), headers["Idempotency-Key"], found))
        return HttpAnswer(200)

    def break_off(self) -> None:
        raise AssertionError("nothing is under way")

    def send(self) -> None:
        while self.sender.turn() is not None:
            pass


def published(folder: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(folder / "out" / name).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["commit"])


def expected(folder: Path) -> dict[int, list[tuple[Any, ...]]]:
    """Return what each alert has to tell, by the output tables."""
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    broken: set[str] = set()
    for line in published(folder, "rule_status"):
        if line["broken"] != (line["rule"] in broken):
            broken ^= {line["rule"]}
            word = "broken" if line["broken"] else "recovered"
            found[0].append((line["commit"], line["rule"], word, line["violating_pairs"], line["violating_rows"]))
            if word == "broken" and line["rule"] == "depends":
                found[1].append(found[0][-1])
    of_commits: dict[tuple[int, int], list[str]] = defaultdict(list)
    for change in published(folder, "constraint_changes"):
        if change["cause"] != "seed":
            if change["family"] == "dc":
                of_commits[2, change["commit"]].append(change["change"] + change["constraint"])
            if change["family"] == "ind" and change["change"] == "disappeared":
                of_commits[3, change["commit"]].append(change["change"] + change["constraint"])
    for (alert, commit), changes in of_commits.items():
        found[alert].append((commit, sorted(changes)))
    return found


def check(folder: Path, received: list[tuple[int, str, Any]], most_again: int) -> None:
    """Assert that what was told is what the outputs say; each once, but for so many."""
    firsts: dict[tuple[int, str], Any] = {}
    for alert, key, body in received:
        assert firsts.setdefault((alert, key), body) == body
    assert len(received) - len(firsts) <= most_again
    shown: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    wanted = expected(folder)
    for (alert, _), body in firsts.items():
        if "rule" in body:
            counts = (body["violating_pairs"], body["violating_rows"])
            shown[alert].append((body["commit"], body["rule"], *body["alert"], *counts))
            assert bool(body["examples"]) == (body["alert"] == ["broken"]), body
            assert all(one.get("rows") or "value" in one for one in body["examples"])
        else:
            changes = sorted(change["change"] + change["constraint"] for change in body["changes"])
            assert body["count"] == body["appeared"] + body["disappeared"]
            assert len(changes) == min(100, body["count"])
            (all_of_it,) = (about for commit, about in wanted[alert] if commit == body["commit"])
            assert body["count"] == len(all_of_it)
            assert set(changes) <= set(all_of_it)
            shown[alert].append((body["commit"], all_of_it))
    assert {n: sorted(map(repr, s)) for n, s in shown.items()} == {n: sorted(map(repr, w)) for n, w in wanted.items()}
    for told_of in shown.values():
        commits = [one[0] for one in told_of]
        assert commits == sorted(commits)


@pytest.mark.parametrize("settle", [0, 2])
@pytest.mark.parametrize("seed_of", range(4))
def test_alerts_say_what_is_published(seed_of: int, settle: int, tmp_path: Path) -> None:
    first, history, _ = _history(random.Random(seed_of), 10)
    received: list[tuple[int, str, Any]] = []
    running = Telling(tmp_path, received, first, settle)
    for number, changes in enumerate(history):
        assert running.batch(number, changes) is not None
        if number % 3:
            running.send()
        assert running.batch(number, changes) is None  # delivered again
        if number in {4, 7}:
            running.stop()
            running = Telling(tmp_path, received, settle=settle)
    running.send()
    assert alert_status(running.store)["alerts_waiting"] == 0
    running.stop()
    check(tmp_path, received, most_again=0)


CRASHES: list[tuple[type, str]] = [
    (Waiting, "decide"),
    (Commits, "commit"),
    (RocksStore, "write"),
    (CommitLog, "put"),
    (Waiting, "committed"),
    (Telling, "__call__"),
    (Waiting, "done"),
]


@pytest.mark.parametrize("crash", CRASHES, ids=lambda crash: f"{crash[0].__name__}.{crash[1]}")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", [1, 3])
def test_a_crash_anywhere_tells_nothing_else(
    crash: tuple[type, str], when: str, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, method = crash
    original = getattr(owner, method)
    first, history, _ = _history(random.Random(11), 6)
    received: list[tuple[int, str, Any]] = []
    running = Telling(tmp_path, received, first)
    calls = 0

    def crashing(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and when == "before":
            raise KeyboardInterrupt
        result = original(*given, **named)
        if calls == call:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, crashing)
        for number, changes in enumerate(history):
            try:
                running.batch(number, changes)
                running.publisher.wait_for_room()
                running.send()
            except KeyboardInterrupt:
                break
    assert calls >= call
    running.kill()
    running = Telling(tmp_path, received)
    for number, changes in enumerate(history):
        if (entry := running.commits.entry("r")) is None or number >= entry.batch_id:
            running.batch(number, changes)
    running.send()
    running.stop()
    check(tmp_path, received, most_again=1)


def test_nothing_is_handed_out_before_the_backup_has_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[tuple[int, str, Any]] = []
    running = Telling(tmp_path, received, [(1, 0, "x")])
    running.send()
    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "put", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            running.batch(0, [(INSERT, (2, 2, "x"))])
    assert alert_status(running.store)["alerts_waiting"] > 0
    assert running.waiting.heads() == {}
    running.kill()
    running = Telling(tmp_path, received)
    running.send()
    running.stop()
    check(tmp_path, received, most_again=0)


def test_a_state_in_place_of_another_tells_nothing_twice(tmp_path: Path) -> None:
    rows = [(1, 2, "x"), (2, 0, "x")]  # `small` is broken
    received: list[tuple[int, str, Any]] = []
    running = Telling(tmp_path, received, rows)
    running.send()
    assert {body["rule"] for alert, _, body in received if alert == 0} >= {"small"}
    running.batch(0, [(INSERT, (3, 2, "y")), (DELETE, (1, 2, "x"))])
    left = carried(running.store)
    last, broken = running.commits.last, {n for n, line in running.pipeline.rule_lines.items() if line["broken"]}
    running.stop()
    del received[:]

    store = RocksStore(tmp_path / "other")
    commits = Commits(store, "app")
    table = _table([(2, 0, "x"), (3, 2, "y")])
    maintainer = Maintainer.seed(table, key=["k"], rules=table_rules(RULES, "r"), threads=1)
    seeded = [SeededTable(maintainer, values=column_values(table))]
    earlier = Earlier(broken=broken, commit=last, waiting=left)
    seed(commits, seeded, earlier, rules=RULES, alerts=ALERTS)
    waiting = Waiting(store, ALERTS)
    bodies = [message.body for key in waiting._keys if (message := waiting.read(key))]
    assert len(bodies) == len(left)
    assert all(body["commit"] <= last for body in bodies)
    store.close()
