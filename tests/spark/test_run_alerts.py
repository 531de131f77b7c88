"""`holdfast run` with somebody who is told: a rule breaks and recovers, a key disappears, receivers fail, processes die."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

import pytest

from holdfast.jobs.command_line import exit_code_of
from tests.streams import Application, Row
from tests.webhooks import HANG, Webhook, webhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

RULES = [{"name": "zip_city", "table": "people", "fd": "zip -> city"}]
SEED = [("1", "a@x", "z1", "u"), ("2", "b@x", "z1", "u"), ("3", "c@x", "z2", "v")]


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    with webhook() as running:
        yield running


def people(folder: Path, hook: Webhook, **sections: Any) -> Application:
    (folder / "people.csv").write_text("\n".join(["id,mail,zip,city", *map(",".join, SEED)]) + "\n")
    (folder / "changes").mkdir()
    table = {
        "name": "people",
        "key": ["id"],
        "seed": {"path": "./people.csv"},
        "source": {"format": "files", "path": "./changes", "encoding": "json"},
    }
    alerts = [
        {"on": ["broken", "recovered"], "rule": "zip_city", "webhook": f"{hook.address}/rules/s3cr3t-path"},
        {"on": ["disappeared"], "table": "people", "family": "dc", "kind": "key", "webhook": f"{hook.address}/keys"},
    ]
    return Application(folder, [table], rules=RULES, alerts=alerts, **sections)


def put(app: Application, *records: tuple[str, str, str, str]) -> None:
    rows = [dict(zip(("id", "mail", "zip", "city"), record, strict=True)) for record in records]
    app.put(f"{app.written:04}.json", "\n".join(map(json.dumps, rows)).encode())


def rules_of(hook: Webhook) -> list[tuple[str, int]]:
    return [(*body["alert"], body["violating_pairs"]) for body in hook.bodies("/rules/s3cr3t-path")]


def status(app: Application) -> Row:
    return app.status()["people"]


def check_bodies(app: Application, hook: Webhook) -> None:
    """Assert what was told of one batch."""
    (body,) = hook.bodies("/rules/s3cr3t-path")
    assert (body["application"], body["table"], body["severity"]) == ("app", "people", "error")
    assert {row["row"]["city"] for example in body["examples"] for row in example["rows"]} == {"u", "w"}
    (body,) = hook.bodies("/keys")
    (mail,) = (change for change in body["changes"] if change["constraint"] == "not(t.mail = s.mail)")
    assert (mail["change"], mail["kind"], mail["sentence"]) == ("disappeared", "key", "No two rows have the same mail.")
    assert sorted(image["row"]["id"] for image in mail["witness"]) == [1, 4]
    last = max(row["commit"] for row in app.output("constraint_changes"))
    assert body["commit"] == last


def test_what_receivers_are_told(
    spark: SparkSession, tmp_path: Path, hook: Webhook, capsys: pytest.CaptureFixture[str]
) -> None:
    app = people(tmp_path, hook)
    app.drain()
    assert hook.got == []  # the first seed has changed nothing

    put(app, ("4", "a@x", "z1", "w"))  # breaks the rule, and mail is no key any more
    app.drain()
    assert rules_of(hook) == [("broken", 4)]
    check_bodies(app, hook)

    put(app, ("5", "e@x", "z1", "w"))  # broken still
    app.drain()
    app.configure(rules=[{**RULES[0], "recount": "1 second", "severity": "warning"}])
    app.drain()
    assert [word for word, _ in rules_of(hook)] == ["broken"]

    hook.then = 500
    put(app, ("4", "d@x", "z1", "u"), ("5", "e@x", "z1", "u"))
    said = app.drain()
    assert re.search(r"alerts: [12] could not be delivered yet: the next start tries again", said), said
    assert "warning: alert broken, recovered of zip_city to http://127.0.0.1" in said
    assert "s3cr3t" not in said
    found = status(app)
    left = found["alerts_waiting"]
    assert left in {1, 2}  # of the rule, and where another key implies one, of that
    assert found["alert_failure"]["error"] == "answered 500"
    assert "s3cr3t" not in json.dumps(found)
    capsys.readouterr()
    assert exit_code_of(["status", str(app.file)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"\n[12] alerts? to be delivered\nlast failure of an alert, [0-9]+ s ago: alert ", shown), shown
    assert "s3cr3t" not in shown

    put(app, ("6", "f@x", "z1", "w"))  # breaks again
    code, said = app("seed", "--replace")  # takes along what waits, and sends nothing
    assert code == 0, said
    assert status(app)["alerts_waiting"] >= left
    hook.then = 200
    app.drain()
    assert [word for word, _ in rules_of(hook)] == ["broken", "recovered", "broken"]
    assert len({got.key for got in hook.got if got.path.startswith("/rules")}) == 3
    assert status(app)["alerts_waiting"] == 0

    (tmp_path / "people.csv").write_text("id,mail,zip,city\n1,a@x,z1,u\n2,b@x,z1,w\n")
    (tmp_path / "changes").rename(tmp_path / "old changes")
    (tmp_path / "changes").mkdir()
    code, said = app("seed", "--replace")  # broken before, and in the new state
    assert code == 0, said
    app.drain()
    assert [word for word, _ in rules_of(hook)] == ["broken", "recovered", "broken"]


def test_a_rule_that_is_broken_from_the_first(spark: SparkSession, tmp_path: Path, hook: Webhook) -> None:
    app = people(tmp_path, hook)
    with (tmp_path / "people.csv").open("a") as file:
        file.write("4,d@x,z1,w\n")
    lines = [json.loads(line) for line in app("run", "--available-now", "--log-format", "json")[1].splitlines()]
    assert rules_of(hook) == [("broken", 4)]
    assert hook.bodies("/keys") == []
    assert all({"time", "level", "event"} <= line.keys() for line in lines)
    put(app, ("4", "d@x", "z1", "u"))
    code, said = app("run", "--available-now", "--log-format", "json", "--log-level", "info")
    assert code == 0, said
    lines = [json.loads(line) for line in said.splitlines()]
    (batch,) = (line for line in lines if line["event"] == "batch")
    assert (batch["table"], batch["records"], batch["rows"]) == ("people", 1, 4)
    (rule,) = (line for line in lines if line["event"] == "rule")
    assert (rule["rule"], rule["broken"]) == ("zip_city", False)
    assert [word for word, _ in rules_of(hook)] == ["broken", "recovered"]


def got(address: str) -> tuple[int, str]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.slow
def test_killed_between_sending_and_noting_it(spark: SparkSession, tmp_path: Path, hook: Webhook) -> None:
    app = people(tmp_path, hook, trigger={"interval": "100 ms"}, prometheus={"port": 0})
    hook.then = HANG
    put(app, ("4", "d@x", "z1", "w"))
    process = app.started()
    process.wait_for(lambda: len(hook.got) >= 1)
    found = re.search(r"figures for Prometheus: (http://127\.0\.0\.1:[0-9]+)/metrics", process.said)
    assert found is not None, process.said
    assert got(f"{found[1]}/healthz") == (200, "ok\n")
    put(app, ("5", "e@x", "z3", "w"))  # a receiver that hangs holds up no batch

    def rows() -> str:
        return got(f"{found[1]}/metrics")[1]

    process.wait_for(lambda: 'holdfast_rows{table="people"} 5.0\n' in rows())
    process.wait_for(lambda: "\nholdfast_commits_to_publish 0.0\n" in rows())
    assert 'holdfast_rule_broken{rule="zip_city",severity="error",table="people"} 1.0\n' in rows()
    assert "\nholdfast_alerts_waiting 1.0\n" in rows()
    process.kill()
    first = hook.got[0]

    hook.then = 200
    app.drain()
    assert [one.path for one in hook.got] == ["/rules/s3cr3t-path"] * 2
    assert (hook.got[1].key, hook.got[1].body) == (first.key, first.body)
    assert status(app)["alerts_waiting"] == 0
