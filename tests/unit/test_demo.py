"""The demo's table and steps are what they say, its messages are changes, and its broker never outlives it."""

from __future__ import annotations

import csv
import io
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from rich.console import Console

from holdfast.constraints import ConstraintChange, DenialConstraint
from holdfast.display.incidents import short_text
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.configuration.reading import load
from holdfast.jobs.demo.account import Account
from holdfast.jobs.demo.broker import BrokerFailed, _started, _stop, _wait
from holdfast.jobs.demo.feeds import FolderFeed, debezium, write_configuration
from holdfast.jobs.demo.tables import KEY, Change, Record, steps, tax_records, write_csv
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.tables import read_table, space_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.fixture
def maintainer(tmp_path: Path) -> Maintainer:
    """Take the first records over, as the pipeline does."""
    write_csv(tmp_path / "tax.csv", tax_records())
    table = read_table(tmp_path / "tax.csv")
    return Maintainer.seed(table, name="tax", key=[KEY], max_predicates=3, space=space_of(table, "none"))


def shorts(changes: Sequence[ConstraintChange]) -> list[str]:
    found = []
    for change in changes:
        assert isinstance(change.constraint, DenialConstraint)
        found.append(f"{'+' if change.appeared else '-'} {short_text(str(change.constraint))}")
    return sorted(found)


def witness(change: ConstraintChange) -> list[Any]:
    assert change.witness is not None
    return sorted(row.key[KEY] for row in change.witness.rows)


class TestTable:
    def test_is_the_same_at_every_run(self) -> None:
        assert tax_records() == tax_records()
        assert steps(tax_records()) == steps(tax_records())
        ids = [record[KEY] for record in tax_records()]
        ids += [
            c.row[KEY] for step in steps(tax_records()) for c in step.changes if c.operation in ("insert", "replace")
        ]
        assert ids == list(range(1, len(ids) + 1))

    def test_what_holds_is_what_was_meant_to(self, maintainer: Maintainer) -> None:
        places = ("Zip", "City", "State")
        assert sorted(short_text(str(c)) for c in maintainer.constraints if isinstance(c, DenialConstraint)) == sorted(
            [
                "key(Id)",
                "key(Phone)",
                "Zip -> City",
                "Zip -> State",
                "City -> State",
                "ChildExemp -> HasChild",
                "Salary, Rate -> State",
                *(f"{place}, HasChild -> ChildExemp" for place in places),
                *(f"{place}, Salary -> Rate" for place in places),
                *(f"not(t.{place} = s.{place} and t.Salary <= s.Salary and t.Rate > s.Rate)" for place in places),
            ]
        )

    def test_each_step_changes_what_it_says(self, maintainer: Maintainer) -> None:
        def rows(records: list[Record]) -> pa.Table | None:
            return pa.Table.from_pylist(records, pa.Table.from_pylist(tax_records()).schema) if records else None

        found = []
        for step in steps(tax_records())[:-1]:
            comes = [change.row for change in step.changes if change.operation != "delete"]
            goes = [change.before or change.row for change in step.changes if change.operation != "insert"]
            found.append(maintainer.apply(inserts=rows(comes), deletes=rows(goes)))
        new, wrong, lowered, mended = found
        assert shorts(new) == []
        assert shorts(wrong) == ["- Zip -> City"]
        assert witness(wrong[0]) == [21, 321]
        assert len(lowered) == 3
        assert all("t.Rate > s.Rate" in text and text[0] == "-" for text in shorts(lowered))
        assert shorts(mended) == ["+ Zip -> City"]
        assert witness(mended[0]) == [321]


class TestFeeds:
    def test_a_file_is_a_change_a_line(self, tmp_path: Path) -> None:
        feed = FolderFeed(tmp_path)
        changes = steps(tax_records())[-1].changes
        assert feed.put(5, changes) == len(changes)
        assert [file.name for file in (tmp_path / "changes").iterdir()] == ["step-5.json"]
        assert list((tmp_path / "unfinished").iterdir()) == []
        lines = (tmp_path / "changes" / "step-5.json").read_text().splitlines()
        assert json.loads(lines[0]) == {"_op": "insert", **changes[0].row}
        with pytest.raises(ValueError, match="Unterminated"):
            json.loads(lines[1])

    def test_its_configuration_is_valid(self, tmp_path: Path) -> None:
        write_configuration(tmp_path / "holdfast.yaml", FolderFeed(tmp_path), tax_records())
        settings = load(tmp_path / "holdfast.yaml").settings
        assert [table.name for table in settings.tables] == ["tax"]
        with (tmp_path / "tax.csv").open() as stream:
            assert len(list(csv.DictReader(stream))) == len(tax_records())

    def test_messages_are_those_of_debezium(self) -> None:
        before = tax_records()[0]
        after = before | {"Rate": 1.5}
        ((key, value),) = debezium(Change("update", after, before), with_schema=True)
        assert value is not None
        told = json.loads(value)
        assert {name: told["payload"][name] for name in ("before", "after", "op")} == {
            "before": before,
            "after": after,
            "op": "u",
        }
        columns = {field["field"]: field["type"] for field in told["schema"]["fields"][1]["fields"]}
        assert (list(columns), columns["Salary"], columns["Rate"]) == (list(before), "int32", "double")
        assert json.loads(key)["payload"] == {KEY: before[KEY]}
        assert [value is None for _, value in debezium(Change("delete", before), with_schema=False)] == [False, True]


class TestFolder:
    @pytest.mark.parametrize(("name", "part"), [("full", "is not empty"), ("full/file", "is a file")])
    def test_one_that_is_in_use_is_refused(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, part: str
    ) -> None:
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "file").write_text("mine")
        assert exit_code_of(["demo", "--folder", str(tmp_path / name)]) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert part in shown.err
        assert [(path.name, path.read_text()) for path in (tmp_path / "full").iterdir()] == [("file", "mine")]


class TestBroker:
    """What keeps the broker, with another program in its place."""

    def test_it_is_stopped(self, tmp_path: Path) -> None:
        process = _started(["sleep", "600"], tmp_path / "log")
        began = time.monotonic()
        _stop(process)
        assert process.returncode is not None
        assert time.monotonic() - began < 30

    def test_it_ends_with_whoever_started_it(self, tmp_path: Path) -> None:
        code = (
            "import os, pathlib, signal, sys; from holdfast.jobs.demo.broker import _started;"
            "_started(['sh', '-c', 'exec sleep 600 >' + sys.argv[1]], pathlib.Path(sys.argv[2]));"
            "sys.stdin.readline(); os.kill(os.getpid(), signal.SIGKILL)"
        )
        held = tmp_path / "held"
        os.mkfifo(held)
        command = [sys.executable, "-c", code, str(held), str(tmp_path / "log")]
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
        with held.open("rb") as end:  # opens with the program that takes its place, ends with it
            assert not select.select([end], [], [], 0.5)[0]
            process.communicate(b"\n", timeout=30)
            assert process.returncode == -signal.SIGKILL
            assert select.select([end], [], [], 30)[0]
            assert end.read() == b""

    def test_why_it_did_not_start_is_said(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        process = _started(["sh", "-c", "echo no room here; exit 1"], log)
        with pytest.raises(BrokerFailed, match="no room here"):
            _wait(process, 1, log)
        _stop(process)
        assert process.returncode == 1


def test_an_interrupt_as_waiting_begins_is_all_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), force_terminal=True)
    account = Account(console, quiet=False)

    def interrupted(_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(console, "set_live", interrupted)
    with pytest.raises(KeyboardInterrupt):
        account.wait("starting")
    account.waited()
