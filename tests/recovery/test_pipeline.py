"""Batches through commits to tables: every crash is repaired by going on from the store, nothing lost, nothing doubled."""

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from deltalake import DeltaTable

from holdfast.constraints import InputError, Rule, StateRefused, Threshold, parse_rule_body
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.values.parts import ValueFiles, ValueParts
from holdfast.discovery.near import concentration, where
from holdfast.state.commits import Commits, StateCheckpointMismatch
from holdfast.state.log import CommitLog
from holdfast.state.places import Folder
from holdfast.state.rocks import RocksStore
from holdfast.state.snapshots import Snapshots
from holdfast.streaming.commits.output_rows import Position
from holdfast.streaming.commits.rule_reports import published_lines
from holdfast.streaming.incoming.arrivals import Arrivals, BadRecord
from holdfast.streaming.maintainers.inclusion.held_values import HeldValues, files_in_use
from holdfast.streaming.maintainers.inclusion.maintainer import InclusionMaintainer
from holdfast.streaming.maintainers.maintainer import INSERT, Maintainer, Records
from holdfast.streaming.maintainers.near import concentrations
from holdfast.streaming.maintainers.near import maintainer as near_maintainer
from holdfast.streaming.maintainers.near.maintainer import NearMaintainer
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule, RuleMaintainer
from holdfast.streaming.maintainers.rules.watches import PartnersWatch
from holdfast.streaming.pipeline import Limits, Pipeline
from holdfast.streaming.seeding import SeededTable, restore, seed
from holdfast.streaming.sinks.deltalake import DeltaLakeTable
from holdfast.streaming.sinks.publisher import Publisher
from tests.recovery import pipelines
from tests.recovery.pipelines import LEAST, RULES, Rows, Running, _check_outputs, _history, _table, seeded

__all__ = ["seeded"]  # fixtures


@pytest.fixture(autouse=True)
def few_rows_make_suspects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_maintainer, "LEAST_SCORE", LEAST)
    for module in (concentration, where, concentrations):
        monkeypatch.setattr(module, "FEWEST", 1)
    monkeypatch.setattr(concentration, "SIGNIFICANT", 1.0)
    monkeypatch.setattr(concentrations, "SEARCHED_AT_ONCE", 1_000)


@pytest.mark.parametrize("seed_of", range(3))
def test_a_run_leaves_tables_that_say_what_holds(seed_of: int, tmp_path: Path) -> None:
    first, history, current = _history(random.Random(seed_of), 8)
    running = Running(tmp_path, first)
    for number, changes in enumerate(history):
        assert running.batch(number, changes) is not None
        assert running.batch(number, changes) is None  # delivered again
        if number == 4:
            running.stop()
            running = Running(tmp_path)
    running.stop()
    _check_outputs(tmp_path, current, len(history))


CRASHES: list[tuple[type, str]] = [
    (Maintainer, "apply_records"),
    (Maintainer, "save"),
    (InclusionMaintainer, "apply"),
    (RuleMaintainer, "apply"),
    (NearMaintainer, "follow"),
    (NearMaintainer, "save"),
    (Commits, "commit"),
    (RocksStore, "write"),
    (CommitLog, "put"),
    (Folder, "put_new"),
    (CommitLog, "forget"),
    (Commits, "logged"),
    (Publisher, "log"),
    (Publisher, "step"),
    (DeltaLakeTable, "publish"),
    (DeltaLakeTable, "_write"),
    (DeltaLakeTable, "compact"),
    (DeltaLakeTable, "tidy"),
    (Commits, "published"),
    (RocksStore, "linked"),
    (Snapshots, "put"),
    (Snapshots, "_take"),
    (Snapshots, "_forget"),
]


@pytest.mark.parametrize("crash", CRASHES, ids=lambda crash: f"{crash[0].__name__}.{crash[1]}")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", [1, 2])
def test_a_crash_anywhere_is_repaired_by_the_next_start(
    crash: tuple[type, str], when: str, call: int, seeded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(seeded, tmp_path / "state")
    _crash_once(crash, when, call, tmp_path, monkeypatch)


def test_a_commit_that_fails_leaves_what_is_published_of_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(tmp_path, [(1, 0, "x")])
    before = running.pipeline.rule_lines
    with monkeypatch.context() as patch:
        patch.setattr(Commits, "commit", Mock(side_effect=OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            running.batch(0, [(INSERT, (2, 5, "y"))])
    assert running.pipeline.rule_lines == before
    assert not before["small"]["broken"]
    running.kill()


def test_a_file_in_quarantine_leaves_no_column_out(tmp_path: Path) -> None:
    """What is left out of rows hinders the column later; a file of which nothing was applied does not."""
    running = Running(tmp_path, [(1, 0, "x")])
    none = Records(_table([]), np.array([], np.int8))
    came = Arrivals(none, (BadRecord("f.csv", None, "unknown"),), refused_columns={"new": "f.csv"})
    for number, files in enumerate((came, replace(came, refused_columns={}, new_fields={"hat": "r-1"}))):
        running.pipeline._progress["r"] = replace(running.pipeline._progress["r"], good=1)
        running.pipeline.batch("r", Position("q", number, str(number), str(number + 1)), files)
    assert running.pipeline.progress["r"].left_out == {"hat": "r-1"}
    running.pipeline._strict = frozenset({"r"})
    with pytest.raises(
        InputError, match=r"record f\.csv has a field 'new' that no column has, and 'new_columns' is stop"
    ):
        running.pipeline.batch("r", Position("q", 2, "2", "3"), came)
    running.kill()


def _crash_once(
    crash: tuple[type, str],
    when: str,
    call: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: ValueFiles | None = None,
) -> int:
    """Run a history with a crash at the so many-th call of a method, and what is left of it in a second process.

    The table is seeded at first, unless there is a state.

    Returns how often it was called.
    """
    owner, method = crash
    original = getattr(owner, method)
    first, history, current = _history(random.Random(11), 6)
    running = Running(folder, first, files)
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
            except KeyboardInterrupt:
                break
    running.kill()
    running = Running(folder, files=files)
    for number, changes in enumerate(history):
        if (entry := running.commits.entry("r")) is None or number >= entry.batch_id:
            running.batch(number, changes)  # the stream delivers again what it has not seen acknowledged
    running.stop()
    _check_outputs(folder, current, len(history), files)
    return calls


SPREAD_CRASHES: list[tuple[type, str]] = [
    (ValueParts, "with_more"),
    (HeldValues, "save"),
    (RocksStore, "write"),
    (CommitLog, "put"),
    (InclusionMaintainer, "committed"),  # removes files
]


@pytest.mark.parametrize("crash", SPREAD_CRASHES, ids=lambda crash: f"{crash[0].__name__}.{crash[1]}")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_anywhere_loses_no_file_of_values(
    crash: tuple[type, str], when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ValueFiles(InProcess(), Storage.at(str(tmp_path / "values")), 2, most_changed=1)
    assert _crash_once(crash, when, 1, tmp_path, monkeypatch, files)  # in threads, it may be called once more
    store = RocksStore(tmp_path / "state")
    used = files_in_use(store)
    store.close()
    assert used <= set(files.storage.open().names())


def test_an_interrupted_seed_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: Rows = [(key, key % 2, "x") for key in range(5)]
    store = RocksStore(tmp_path / "state")
    commits = Commits(store, "app")
    with monkeypatch.context() as patch:
        patch.setattr(Commits, "commit", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            seed(commits, [SeededTable(Maintainer.seed(_table([*rows, (9, 9, "y")]), key=["k"], threads=1))])
    with pytest.raises(StateRefused, match="not seeded to the end"):
        Pipeline({}, Publisher(commits, CommitLog(tmp_path / "backup", 0), {}))
    seed(commits, [SeededTable(Maintainer.seed(_table(rows), key=["k"], threads=1))])
    (restored,) = restore(store, threads=1).values()
    assert restored.row_count == 5
    with pytest.raises(StateRefused, match="seeded already"):
        seed(commits, [])
    store.close()


def test_a_stream_that_jumped_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    running = Running(tmp_path, [(1, 1, "x")])
    running.batch(0, [(INSERT, (2, 2, "y"))])
    with pytest.raises(StateCheckpointMismatch, match="holdfast rebuild"):
        running.batch(2, [(INSERT, (3, 3, "y"))])
    assert running.tables["r"].row_count == 2
    running.stop()


@pytest.mark.parametrize("settle", [0, 2])
def test_every_published_constraint_has_its_score_and_its_place(settle: int, tmp_path: Path) -> None:
    first, history, _ = _history(random.Random(4), 12)
    running = Running(tmp_path, first)
    limits = Limits(places_every=0.0, settle={"r": settle})
    running.pipeline = Pipeline(running.tables, running.publisher, limits, RULES)
    sound: set[str] = set()
    for number, changes in enumerate(history):
        published = running.batch(number, changes).published.payload.get("constraint_changes", ())
        sound |= {row["constraint_id"] for row in published if row["sound"]}
    running.stop()
    held = DeltaTable(tmp_path / "out" / "constraints").to_pyarrow_table().to_pylist()
    summed: set[str] = set()
    for change in DeltaTable(tmp_path / "out" / "constraint_changes").to_pyarrow_table().sort_by("commit").to_pylist():
        (summed.add if change["change"] == "appeared" else summed.remove)(change["constraint_id"])
        assert (change["score"] is None) == (change["change"] == "disappeared" and change["family"] == "ind")
        assert not change["sound"] or change["cause"] == "seed" or change["constraint_id"] in sound
    assert {row["constraint_id"] for row in held} == summed
    assert all(0 < row["score"] <= 1 for row in held)
    if not settle:  # with it, those that are gone already keep their places until that is told
        for family in {row["family"] for row in held}:
            ranks = sorted(row["rank"] for row in held if row["family"] == family)
            assert ranks == list(range(1, len(ranks) + 1)), family


def test_a_batch_names_the_first_files_that_it_read(tmp_path: Path) -> None:
    running = Running(tmp_path, [(1, 0, "x")])
    names = [f"/in/{number}.json" for number in range(120)]
    for number, files in enumerate((names, [])):
        records = Records(_table([(number, 0, "y")]), np.array([INSERT], np.int8))
        position = Position("q", number, str(number), str(number + 1))
        running.pipeline.batch("r", position, Arrivals(records), names=files)
    running.stop()
    found = DeltaTable(tmp_path / "out" / "batches").to_pyarrow_table().sort_by("batch_id").to_pylist()
    assert [row["files"] and json.loads(row["files"]) for row in found] == [names[:100], None]


def _line(running: Running, name: str) -> dict[str, Any]:
    return dict(published_lines(running.store))[name]


def test_a_rule_that_is_left_out_for_a_while_is_counted_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = MonitoredRule(Rule("one", "r", parse_rule_body("not(t.a > 1)")))
    two = MonitoredRule(Rule("two", "r", parse_rule_body("not(t.k < s.k and t.a > s.a)")))
    for number, declared in enumerate(([one, two], [two], [one, two], [one])):
        monkeypatch.setattr(pipelines, "RULES", declared)
        running = Running(tmp_path, [(1, 1, "x"), (2, 1, "y")])
        told = {state.rule.name for state in running.pipeline.announce()}
        assert told == [set(), set(), {"one"}, set()][number]
        assert dict(published_lines(running.store)).keys() == {m.rule.name for m in declared}
        running.batch(number, [(INSERT, (10 + number, 2 + number, "z"))])
        if one in declared:
            assert _line(running, "one")["violating_rows"] == number + 1
        running.stop()
    lines = DeltaTable(tmp_path / "out" / "rule_status").to_pyarrow_table().sort_by("commit").to_pylist()
    assert [row["rule"] for row in lines if row["holds"] is None] == ["one", "two"]


def test_rows_that_are_counted_now_and_then_are_counted_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = parse_rule_body("not(t.k < s.k and t.a > s.a)")
    rule = MonitoredRule(Rule("grows", "r", body, max_violating_rows=Threshold.parse(2)), recount=1e9)
    monkeypatch.setattr(pipelines, "RULES", [rule])
    monkeypatch.setattr(PartnersWatch, "seconds_anew", 1e9)  # so few rows would be counted anew with every batch
    running = Running(tmp_path, [(5, 5, "x"), (6, 6, "y")])
    running.batch(0, [(INSERT, (7, 5, "z"))])
    assert _line(running, "grows")["violating_rows"] == 2  # a count of none would say nothing
    assert not _line(running, "grows")["broken"]
    running.batch(1, [(INSERT, (8, 1, "z"))])
    line = _line(running, "grows")
    assert (line["violating_pairs"], line["violating_rows"], line["rows_as_of"] < line["commit"]) == (4, 2, True)
    running.pipeline.announce()
    line = _line(running, "grows")
    assert (line["violating_rows"], line["broken"], line["rows_as_of"] == line["commit"]) == (4, True, True)
    running.stop()
