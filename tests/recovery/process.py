"""A process of `holdfast run` without Spark: its parts wired as the job does, and a source that keeps a checkpoint as Spark does.

Invariant: nothing of one process is known to the next but what lies in the folder.
"""

from __future__ import annotations

import datetime
import json
import random
import secrets
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from holdfast.constraints import Rule, parse_rule_body
from holdfast.discovery.detection.check import check_tables
from holdfast.discovery.discover import discover
from holdfast.jobs.application.checkpoints import refuse_damaged
from holdfast.jobs.command_line import exit_code_of
from holdfast.state.commits import READY, Commits
from holdfast.state.log import CommitLog
from holdfast.state.rocks import RocksStore
from holdfast.state.snapshots import Snapshots, own, refuse_behind
from holdfast.streaming.commits.output_rows import Position
from holdfast.streaming.commits.snapshotting import Snapshotter
from holdfast.streaming.commits.table_records import TableRecord, tables_of
from holdfast.streaming.incoming.arrivals import Arrivals, BadRecord
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, Maintainer, Records
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule
from holdfast.streaming.pipeline import Limits, Pipeline
from holdfast.streaming.seeding import SeededTable, restore, seed, table_rules
from holdfast.streaming.sinks.choosing import open_tables
from holdfast.streaming.sinks.publisher import Publisher
from holdfast.tables import Table, from_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

Change = tuple[int, tuple[int, int, str]]

RULES = [
    MonitoredRule(Rule(name, "r", parse_rule_body(text)), recount=0.0)
    for name, text in {"depends": "a -> b", "small": "not(t.a > 1)"}.items()
]
CONFIGURATION = {
    "name": "app",
    **{name: f"./{name}" for name in ("state", "backup", "output", "checkpoint")},
    "tables": [
        {
            "name": "r",
            "key": ["k"],
            "columns": {"k": "integer", "a": "integer", "b": "string"},
            "source": {"format": "kafka", "servers": "127.0.0.1:1", "topic": "r", "encoding": "json"},
        }
    ],
    "constraints": {"denial": {"max_predicates": 3}},
}


class History:
    """Changes by offset, each offset a few of them, and the rows that are left."""

    def __init__(self, seed_of: int, count: int) -> None:
        dice = random.Random(seed_of)

        def row(key: int) -> tuple[int, int, str]:
            return key, dice.randint(0, 2), dice.choice("xy")

        self.first = [row(key) for key in range(4)]
        self.changes: list[list[Change]] = []
        current = {key: (key, a, b) for key, a, b in self.first}
        for _ in range(count):
            changes: list[Change] = []
            for _ in range(dice.randint(0, 4)):
                changed = row(dice.randint(0, 9))
                if dice.random() < 0.4:
                    changes.append((DELETE, changed))
                    current.pop(changed[0], None)
                else:
                    changes.append((INSERT, changed))
                    current[changed[0]] = changed
            self.changes.append(changes)
        self.rows = list(current.values())

    def bad(self, offset: int) -> tuple[BadRecord, ...]:
        return (BadRecord(f"r-0-{offset}", "{", "not JSON"),) if offset % 2 else ()


class Process:
    """One process, from its start on.

    Parameters
    ----------
    folder : of everything.
    history : what the source brings.
    now : the clock.
    """

    def __init__(
        self,
        folder: Path,
        history: History,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        most_behind: int = 100,
    ) -> None:
        self.folder, self.history = folder, history
        (folder / "conf.yaml").write_text(json.dumps(CONFIGURATION), encoding="utf-8")
        self.checkpoint = folder / "checkpoint" / "r"
        self.store = RocksStore(folder / "state")
        try:
            self._begin(now, most_behind)
        except BaseException:
            self.store.close()
            raise

    def _begin(self, now: Callable[[], datetime.datetime], most_behind: int) -> None:
        commits = self.commits = Commits(self.store, "app")
        if commits.identity.status != READY:
            table = table_of(self.history.first)
            maintainer = Maintainer.seed(table, key=["k"], max_predicates=3, rules=table_rules(RULES, "r"), threads=1)
            seed(commits, [SeededTable(maintainer, TableRecord(source={"start": "0"}))], rules=RULES, now=now)
        backup = self.folder / "backup" / commits.identity.state_id
        own(backup, commits.identity)
        refuse_behind(backup, commits.identity.epoch, commits.last)
        log = CommitLog(backup, commits.identity.epoch)
        tables = open_tables(str(self.folder / "output"), "app", commits.identity.state_id)
        self.publisher = Publisher(commits, log, tables, most_behind, compact_every=4, now=now)
        self.maintainers = restore(self.store, threads=1, rules=RULES)
        self.publisher.start()
        try:
            self.snapshotter = Snapshotter(self.store, commits, Snapshots(backup), 0.0)
            self.snapshotter.first()
            self.pipeline = Pipeline(
                self.maintainers,
                self.publisher,
                Limits(metrics_every=0.0, places_every=0.0),
                rules=RULES,
                now=now,
            )
            self.pipeline.announce()
            refuse_damaged([str(self.checkpoint)])
        except BaseException:
            self.publisher.abandon()
            raise

    def follow(self, upto: int, snapshot_every: int = 3) -> None:
        """Bring the changes below an offset, one offset a batch, from where the checkpoint is."""
        while (end := self._batch(upto)) is not None:
            if end % snapshot_every == 0:
                self.snapshotter.maybe()
                self.snapshotter.close()
            self.publisher.check()

    def _batch(self, upto: int) -> int | None:
        """Do what a streaming query does for one batch; return where it ended, None where there is nothing more."""
        metadata = self.checkpoint / "metadata"
        if not metadata.exists():
            self._put(metadata, json.dumps({"id": secrets.token_hex(8)}))
        query = json.loads(metadata.read_text())["id"]
        begun, done = (_numbers(self.checkpoint / name) for name in ("offsets", "commits"))
        number = begun[-1] if begun and begun[-1] not in done else len(begun)
        start = self._offset(number - 1)
        if number not in begun:
            from_ = json.loads(start) if start else self._pinned()
            if from_ >= upto:
                return None
            self._put(self.checkpoint / "offsets" / str(number), f"v1\n{{}}\n{from_ + 1}")
        position = Position(query, number, start, self._offset(number))
        end: int = json.loads(position.end)
        changes = [change for one in self.history.changes[self._from(start) : end] for change in one]
        bad = [bad for offset in range(self._from(start), end) for bad in self.history.bad(offset)]
        records = Records(table_of([row for _, row in changes]), np.array([op for op, _ in changes], np.int8))
        self.pipeline.batch("r", position, Arrivals(records, tuple(bad)))
        self._put(self.checkpoint / "commits" / str(number), 'v1\n{"nextBatchWatermarkMs":0}')
        return end

    def _from(self, start: str) -> int:
        return int(json.loads(start)) if start else self._pinned()

    def _pinned(self) -> int:
        ((_, record),) = tables_of(self.store)
        return int(record.source["start"])

    def _offset(self, number: int) -> str:
        path = self.checkpoint / "offsets" / str(number)
        return "\n".join(path.read_text().splitlines()[2:]) if path.exists() else ""

    def _put(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def stop(self) -> None:
        """End as a run that was told to."""
        try:
            self.publisher.close()
            self.snapshotter.close()
        finally:
            self.store.close()

    def kill(self) -> None:
        """End without publishing what waits."""
        self.publisher.abandon()
        self.store.close()


def holdfast(folder: Path, command: str, capsys: Any) -> tuple[int, str]:
    """Run a command on the folder's configuration; return its exit code and what it said."""
    capsys.readouterr()
    code = exit_code_of([command, str(folder / "conf.yaml")])
    return code, capsys.readouterr().err


def table_of(rows: Sequence[tuple[int, int, str]]) -> Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    kinds = (pa.int64(), pa.int64(), pa.string())
    return from_arrow(pa.table({n: pa.array(c, k) for n, c, k in zip("kab", columns, kinds, strict=True)}), "r")


def check(folder: Path, history: History) -> None:
    """Assert that the outputs are those of the history's rows, and that nothing was lost or doubled on the way."""
    store = RocksStore(folder / "state")
    maintainer = Maintainer.restore(store, 0, threads=1)
    store.close()
    table = table_of(history.rows)
    assert maintainer.row_count == len(history.rows)
    expected = sorted(str(c) for c in discover(table, space=maintainer.space, max_predicates=3, threads=1))
    found = {name: rows_of(folder, name) for name in ("constraints", "constraint_changes", "batches", "quarantine")}
    assert sorted(row["constraint"] for row in found["constraints"]) == expected
    summed: list[str] = []
    for change in found["constraint_changes"]:
        if change["change"] == "appeared":
            assert change["constraint"] not in summed
            summed.append(change["constraint"])
        else:
            summed.remove(change["constraint"])
    assert sorted(summed) == expected
    commits = [row["commit"] for row in found["batches"]]
    assert commits == sorted(set(commits)), commits
    assert sum(row["rows_in"] for row in found["batches"]) == sum(
        len(changes) + len(history.bad(offset)) for offset, changes in enumerate(history.changes)
    )
    bad = [bad.record_id for offset in range(len(history.changes)) for bad in history.bad(offset)]
    assert sorted(row["record_id"] for row in found["quarantine"]) == sorted(bad)
    lines = {row["rule"]: row for row in rows_of(folder, "rule_status")}
    for checked in check_tables({"r": table}, [monitored.rule for monitored in RULES]):
        assert lines[checked.rule.name]["violating_rows"] == checked.violating_rows
        assert lines[checked.rule.name]["violating_pairs"] == checked.violating_pairs


def rows_of(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of an output table in the order of the commits."""
    rows: list[dict[str, Any]] = DeltaTable(folder / "output" / name).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["commit"])


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("[0-9]*"))
