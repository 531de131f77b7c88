"""`holdfast dashboard` and `holdfast report` as they are called."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest

from holdfast.jobs.application.outputs import answers_of
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.configuration.reading import load
from tests.dashboard.conftest import ZIP_CITY
from tests.dashboard.tables import Written

if TYPE_CHECKING:
    from pathlib import Path

_PATIENCE_SECONDS = 60


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_dashboard_serves_until_it_is_ended(written: Written, sent: signal.Signals) -> None:
    command = [sys.executable, "-m", "holdfast", "dashboard", str(written.file), "--port", "0", "--no-browser"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("shop: http://127.0.0.1:")
    with urllib.request.urlopen(f"{line.split()[1]}api/overview", timeout=_PATIENCE_SECONDS) as response:
        assert b'"application":"shop"' in response.read()
    process.send_signal(sent)
    out, errors = process.communicate(timeout=_PATIENCE_SECONDS)
    assert (process.returncode, out, errors) == (0, "", "")


@pytest.mark.parametrize("command", ["dashboard", "report"])
def test_outputs_that_are_not_there_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    made = Written(tmp_path)
    made.place.rename(tmp_path / "elsewhere")
    assert exit_code_of([command, str(made.file)]) == 4
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "holds no output tables yet: holdfast run" in shown.err
    assert not made.place.exists()


def test_outputs_of_another_application(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Written(tmp_path, "shop")
    made.file.write_text(made.file.read_text().replace('"shop"', '"market"'))
    assert exit_code_of(["report", str(made.file)]) == 4
    assert "belongs to the application 'shop'" in capsys.readouterr().err


def test_a_port_that_nobody_can_serve(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["dashboard", str(written.file), "--host", "192.0.2.1", "--no-browser"]) == 5
    assert "192.0.2.1: cannot be served" in capsys.readouterr().err


def test_report_is_one_file(written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.html"
    assert exit_code_of(["report", str(written.file), "-o", str(file)]) == 0
    assert file.read_text("utf-8").startswith("<!doctype html>")
    shown = capsys.readouterr()
    assert (shown.out, "report.html: 0." in shown.err) == ("", True)
    assert exit_code_of(["report", str(written.file), "--quiet"]) == 0
    shown = capsys.readouterr()
    assert (shown.out.startswith("<!doctype html>"), shown.err) == (True, "")


def test_nothing_is_written_but_the_report(written: Written, tmp_path: Path) -> None:
    before = sorted(path for path in tmp_path.rglob("*"))
    assert exit_code_of(["report", str(written.file), "-o", str(tmp_path / "report.html")]) == 0
    assert sorted(path for path in tmp_path.rglob("*") if path.name != "report.html") == before


def test_incidents_are_printed(written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["incidents", str(written.file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2026-03-01 09:00:03  1 constraint of orders ended with commit 3: orders.customer in customers.id",
        "2026-03-01 09:00:02  1 constraint of tax ended with commit 2, by the rows Id 2 and Id 1: Zip -> City",
    ]
    written.put({**written.appeared(ZIP_CITY), "batches": [written.batch(files='["/in/mended.json"]')]})
    assert exit_code_of(["incidents", str(written.file), "--table", "tax", "--last", "2"]) == 0
    mended, ended = capsys.readouterr().out.splitlines()
    assert mended.endswith("1 constraint of tax recovered with commit 4 (file mended.json): Zip -> City")
    assert ended.endswith("Id 1: Zip -> City (all recovered since)")
    assert exit_code_of(["incidents", str(written.file), "--last", "1", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["recovered"], found["position"], found["first"]["flaps"]) == (1, "file mended.json", 1)
    assert exit_code_of(["incidents", str(written.file), "--table", "taxes"]) == 2
    assert "did you mean" in capsys.readouterr().err.lower()


def test_what_a_seed_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The pipeline's own tables and state, and what nearly holds by the latter."""
    customers = "".join(f"{number},name {number}\n" for number in range(10, 20))
    (tmp_path / "customers.csv").write_text(f"id,name\n{customers}")
    orders = "".join(f"{number},{number},7\n" for number in range(11, 21))
    (tmp_path / "orders.csv").write_text(f"order_id,customer,total\n{orders}")
    tables = [
        {
            "name": name,
            "key": [key],
            "seed": {"path": f"./{name}.csv"},
            "source": {"format": "files", "path": f"./changes/{name}", "encoding": "json"},
        }
        for name, key in (("customers", "id"), ("orders", "order_id"))
    ]
    places = {name: f"./{name}" for name in ("state", "backup", "output", "checkpoint")}
    rules = [
        {"name": "known", "inclusion": "orders.customer in customers.id"},
        {"name": "paid", "table": "orders", "forbid": "t.total <= 0"},
    ]
    constraints = {"denial": {"max_predicates": 2}, "inclusion": {}}
    whole = {"name": "shop", **places, "tables": tables, "constraints": constraints, "rules": rules}
    file = tmp_path / "shop.yaml"
    file.write_text(json.dumps(whole))
    assert exit_code_of(["seed", str(file), "--quiet"]) == 0
    answers = answers_of(load(file))
    overview = answers.ask("overview", {})
    assert {row["table_name"]: row["rows"] for row in overview["tables"]} == {"customers": 10, "orders": 10}
    assert overview["held"] == answers.ask("changes", {})["total"] > 0
    known, paid = answers.ask("rules", {})["rows"]
    assert (known["rule"], known["broken"], known["missing_values"]) == ("known", True, 1)
    assert [example["witness"]["value"] for example in known["examples"]] == ["20"]
    assert (paid["rule"], paid["holds"]) == ("paid", True)
    assert paid["sentence"] == "There is no row where total is at most 0."
    found = answers.ask("inclusions", {})
    assert {row["constraint"]: row["coverage"] for row in found["near"]}["orders.customer in customers.id"] == 0.9
    named = {"dependent_table": "orders", "dependent_column": "customer"}
    named |= {"referenced_table": "customers", "referenced_column": "id"}
    assert [named.items() <= row.items() for row in found["near"]].count(True) == 1
    capsys.readouterr()
    assert exit_code_of(["status", str(file), "--format", "json"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [named.items() <= rule.items() for line in lines for rule in line["rules"]] == [True, False]
    assert exit_code_of(["report", str(file), "-o", str(tmp_path / "report.html")]) == 0
    shutil.rmtree(tmp_path / "state")
    assert answers.ask("inclusions", {})["near"] is None


@pytest.mark.parametrize("broken", ["first", "second"])
@pytest.mark.parametrize("format_", ["text", "json"])
def test_status_ends_with_1_whichever_table_has_the_broken_rule(tmp_path: Path, broken: str, format_: str) -> None:
    (tmp_path / "rows.csv").write_text("id,total\n1,0\n2,5\n")
    tables = [
        {
            "name": name,
            "key": ["id"],
            "seed": {"path": "./rows.csv"},
            "source": {"format": "files", "path": f"./changes/{name}", "encoding": "json"},
        }
        for name in ("first", "second")
    ]
    places = {name: f"./{name}" for name in ("state", "backup", "output", "checkpoint")}
    rules = [{"name": "paid", "table": broken, "forbid": "t.total <= 0"}]
    file = tmp_path / "shop.yaml"
    file.write_text(json.dumps({"name": "shop", **places, "tables": tables, "rules": rules}))
    assert exit_code_of(["seed", str(file), "--quiet"]) == 0
    assert exit_code_of(["status", str(file), "--format", format_]) == 1


def test_validate_counts_the_mutes(written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mutes = tmp_path / "mutes.yaml"
    settings = json.loads(written.file.read_text())
    written.file.write_text(json.dumps({**settings, "mutes": "./mutes.yaml"}))
    assert exit_code_of(["validate", str(written.file), "--offline"]) == 2
    assert f"{mutes}: cannot be read: No such file or directory" in capsys.readouterr().err
    mutes.write_text("- {table: tax, constraint: Zip -> City}\n- {table: tax, constraint: key(Zip)}\n")
    assert exit_code_of(["validate", str(written.file), "--offline"]) == 0
    assert f"mutes in {mutes}: 2 constraints, 1 published" in capsys.readouterr().out.splitlines()
    assert exit_code_of(["validate", str(written.file), "--offline", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["mutes"]
    assert found == {"file": str(mutes), "constraints": 2, "published": 1}
    shutil.rmtree(written.place)
    assert exit_code_of(["validate", str(written.file), "--offline"]) == 0
    assert f"mutes in {mutes}: 2 constraints, no output tables could be read" in capsys.readouterr().out
