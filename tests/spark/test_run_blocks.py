"""`engine: spark`: whole applications whose rows are in tiny blocks say, batch by batch, what those in memory say.

Sources are followed by Spark in all tests. Where its executors are not the subject, tasks on blocks run in this process.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.manifest import stored_names
from holdfast.jobs.application import machine as doctor
from holdfast.state import codecs
from holdfast.state.rocks import RocksReader
from holdfast.streaming.maintainers.table.stored_definition import versions_prefix
from tests.short_lives import quick_environment
from tests.spark.test_run_delta import FEED, Source
from tests.streams import Application, Row, refused
from tests.taxes import tax_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

BLOCKS: dict[str, Any] = {"engine": "spark", "blocks": {"rows": 3}}
RULES: list[dict[str, Any]] = [
    {"name": "depends", "table": "t", "fd": "a -> b", "recount": "1 ms"},
    {"name": "grows", "table": "t", "forbid": "t.k < s.k and t.a > s.a", "recount": "1 ms"},
    {"name": "small", "table": "t", "require": "t.a < 2"},
]
CONSTRAINTS = {"denial": {"max_predicates": 3}, "order": {"max_context": 2}}
FILES: dict[str, Any] = {
    "name": "t",
    "key": ["k"],
    "columns": {"k": "integer", "a": "integer", "b": "string"},
    "source": {"format": "files", "path": "../changes", "encoding": "json", "options": {"maxFilesPerTrigger": "1"}},
    "near": {"share": "25%", "max_context": 2, "orders": False},
}
PLAIN = {name: value for name, value in FILES.items() if name != "near"}
"""The same where near constraints are not the subject: in blocks they are dozens of jobs a batch."""


tasks_here = pytest.mark.usefixtures("executors_here")


class Twins:
    """Two applications with one source: rows of the one are in memory, of the other in blocks."""

    def __init__(self, folder: Path, tables: Sequence[Mapping[str, Any]], **sections: Any) -> None:
        whole = {"constraints": CONSTRAINTS, "rules": RULES, **sections}
        (folder / "memory").mkdir()
        (folder / "blocks").mkdir()
        self.memory = Application(folder / "memory", tables, **{**whole, "blocks": None})
        self.blocks = Application(folder / "blocks", tables, **{**BLOCKS, **whole})
        self.both = (self.memory, self.blocks)

    def configure(self, **sections: Any) -> None:
        for app in self.both:
            app.configure(**sections)

    def drain(self) -> None:
        for app in self.both:
            app.drain()

    def check(self) -> None:
        """Assert that the outputs are the same up to every commit."""
        memory, blocks = (answers(app) for app in self.both)
        assert blocks.keys() == memory.keys()
        for commit in memory:
            assert blocks[commit] == memory[commit], commit


def answers(app: Application) -> dict[int, Any]:
    """Return by commit what does not depend on which rows are shown, nor on when it was."""
    found: dict[int, Any] = {}
    shown: dict[str, Sequence[str]] = {
        "constraint_changes": ("table_name", "constraint", "change", "cause"),
        "rule_status": ("rule", "violating_pairs", "violating_rows", "missing_values", "holds", "broken"),
        "batches": (
            *("source", "batch_id", "rows_in", "inserted", "updated", "deleted", "ignored", "owed", "late"),
            *("quarantined", "table_rows", "constraints"),
        ),
        "quarantine": ("table_name", "record_id", "reason"),
        "near_changes": ("table_name", "constraint", "change", "reason", "exceptions_before", "exceptions", "cause"),
    }
    for name, columns in shown.items():
        for row in app.output(name):
            about = found.setdefault(row["commit"], {}).setdefault(name, [])
            about.append(repr([row[column] for column in columns]))
            about.sort()
    last = max(found, default=0)
    found[last + 1] = sorted((r["table_name"], r["constraint"], r["sentence"]) for r in app.output("constraints"))
    near = ("constraint", "exceptions", "rows", "share", "strength", "since_commit", "commit")
    found[last + 2] = sorted(repr([row[name] for name in near]) for row in app.output("near_constraints"))
    return found


def state_of(app: Application) -> str:
    with RocksReader(app.folder / "state") as reader:
        return str(codecs.read_json(reader.get("meta", b"identity") or b"")["state_id"])


def files_of(app: Application, table: str = "t") -> set[str]:
    return {path.name for path in (app.folder / "blocks" / state_of(app) / table).iterdir()}


def has_batches(app: Application, least: int) -> bool:
    return len(app.output("batches")) >= least


class Changes:
    """Files of changes beside an application, which another one may follow too, and the rows that they leave."""

    def __init__(self, app: Application, seed: int, folder: str = "../changes") -> None:
        print(f"seed {seed}")
        self.app, self.dice, self.rows = app, random.Random(seed), dict[int, Row]()
        self.folder = folder

    def come(self, files: int) -> None:
        for _ in range(files):
            lines = []
            for _ in range(self.dice.randint(1, 6)):
                row: Row = {"k": self.dice.randint(0, 14), "a": self.dice.choice([None, 0, 1, 2]), "b": None}
                row["b"] = self.dice.choice(["x", "y", "ü", None])
                if self.dice.random() < 0.3:
                    self.rows.pop(row["k"], None)
                    lines.append({"_op": "delete", **row})
                else:
                    self.rows[row["k"]] = row
                    lines.append({"_op": "insert", **row})
            if self.dice.random() < 0.2:
                lines.append({"_op": "insert", "k": None, "a": 1, "b": "bad"})
            self.app.put(f"{self.app.written:04}.json", "\n".join(map(json.dumps, lines)).encode(), self.folder)

    def check(self, *apps: Application) -> None:
        for app in apps:
            app.check({"t": list(self.rows.values())})


def files_with_restarts(folder: Path, history: Sequence[int]) -> None:
    """Let so many files come before each start."""
    twins = Twins(folder, [FILES])
    changes = Changes(twins.memory, 1)
    for files in history:
        changes.come(files)
        twins.drain()
        twins.check()
        changes.check(*twins.both)
    status = twins.blocks.status()["t"]
    assert (status["rows"], status["engine"]) == (len(changes.rows), "spark")
    assert status["blocks"] == len(files_of(twins.blocks))
    assert twins.memory.status()["t"]["blocks"] is None


def test_files_with_restarts(spark: SparkSession, tmp_path: Path) -> None:
    files_with_restarts(tmp_path, [3, 2])


@tasks_here
def test_more_files_with_restarts(spark: SparkSession, tmp_path: Path) -> None:
    files_with_restarts(tmp_path, [4, 5, 6])


@tasks_here
def test_a_seed_and_rows_without_a_key(spark: SparkSession, tmp_path: Path) -> None:
    rows = tax_records(40, ("State", "Zip", "City", "Salary", "Rate"), error_rate=0.1)
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=7)
    table = {"name": "t", "seed": {"path": "../t.parquet"}, "source": {**FILES["source"], "encoding": "parquet"}}
    rules = [{"name": "city", "table": "t", "fd": "Zip -> City"}]
    twins = Twins(tmp_path, [table], rules=rules, blocks={"rows": 6})
    (tmp_path / "changes").mkdir()
    for app in twins.both:
        code, said = app("seed")
        assert code == 0, said
        assert app.status()["t"]["rows"] == 40
    twins.check()
    dice = random.Random(2)
    for number in range(4):
        some = rows.take(dice.choices(range(40), k=6))
        words = pa.array(dice.choices(["insert", "delete"], k=6))
        pq.write_table(some.append_column("_op", words), tmp_path / "made")
        twins.memory.put(f"{number}.parquet", (tmp_path / "made").read_bytes(), "../changes")
    twins.drain()
    twins.check()


@tasks_here
@pytest.mark.parametrize("key", [True, False])
def test_the_feed_of_a_delta_table(spark: SparkSession, tmp_path: Path, key: bool) -> None:
    dice = random.Random(5)
    source = Source(tmp_path / "source", dice, key=key)
    source.write([source.row() for _ in range(6)])
    table: dict[str, Any] = {"name": "t", "exclude": ["note"], **({"key": ["k"]} if key else {})}
    table["source"] = {"format": "delta", "path": "../source", "options": {"maxFilesPerTrigger": "1"}}
    rules = [{"name": "grows", "table": "t", "forbid": "t.k < s.k and t.a > s.a and t.b = s.b", "recount": "1 ms"}]
    twins = Twins(tmp_path, [table], rules=rules)
    for _ in range(2):
        for _ in range(4):
            source.change()
        twins.drain()
        twins.check()
    twins.blocks.check({"t": source.monitored()})


class Numbered(Changes):
    """Changes that come in any order; each says where it has its place."""

    def __init__(self, app: Application, seed: int, first: Sequence[Row]) -> None:
        super().__init__(app, seed)
        self.last = {row["k"]: row["at"] for row in first}
        self.rows = {row["k"]: row for row in first}

    def come(self, files: int) -> None:
        for _ in range(files):
            lines = []
            for _ in range(self.dice.randint(1, 6)):
                row: Row = {"k": self.dice.randint(0, 14), "a": self.dice.choice([None, 0, 1, 2])}
                row |= {"b": self.dice.choice(["x", "y", None]), "at": self.dice.randint(0, 30)}
                word = self.dice.choice(["insert", "insert", "delete"])
                lines.append({"_op": word, **row})
                if row["at"] >= self.last.get(row["k"], -1):
                    self.last[row["k"]] = row["at"]
                    self.rows.pop(row["k"], None)
                    if word == "insert":
                        self.rows[row["k"]] = row
            self.app.put(f"{self.app.written:04}.json", "\n".join(map(json.dumps, lines)).encode(), self.folder)


@tasks_here
@pytest.mark.parametrize("monitored", [True, False])
def test_records_that_come_late(spark: SparkSession, tmp_path: Path, monitored: bool) -> None:
    first: list[Row] = [{"k": k, "a": k % 3, "b": "x", "at": 10 + k} for k in range(8)]
    pq.write_table(pa.Table.from_pylist(first), tmp_path / "first.parquet")
    table: dict[str, Any] = {**PLAIN, "seed": {"path": "../first.parquet"}, "sequence": "at"}
    table |= {"columns": {**FILES["columns"], "at": "integer"}, "exclude": [] if monitored else ["at"]}
    twins = Twins(tmp_path, [table], constraints={"denial": {"max_predicates": 2}})
    changes = Numbered(twins.memory, 10, first)
    for step, files in enumerate((7, 3, 2)):
        changes.come(files)
        twins.drain()
        twins.check()
        changes.check(*twins.both)
        if not step:  # what is known of keys is taken over where the table is made anew
            for app in twins.both:
                app.tables[0] = {**table, "columns": {**table["columns"], "a": "float"}, "sequence_retention": "1 day"}
                app.configure(constraints={"denial": {"max_predicates": 1}})
    assert sum(row["late"] for row in twins.blocks.output("batches")) > 2
    gone = twins.blocks.folder / "blocks" / state_of(twins.blocks) / "t"
    with RocksReader(twins.blocks.folder / "state") as reader:
        named = stored_names(reader, versions_prefix(0))
    assert named <= files_of(twins.blocks)
    (gone / min(named)).unlink()
    refused(twins.blocks, 4, "files with rows", min(named), "holdfast seed --replace")


@tasks_here
def test_what_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    """State and checkpoint come back from the backup; blocks do not, and somebody is told what to do."""
    twins = Twins(tmp_path, [FILES])
    changes, app = Changes(twins.memory, 3), twins.blocks
    changes.come(5)
    app.drain()
    shutil.rmtree(app.folder / "state")
    assert app("rebuild")[0] == 0
    changes.come(3)
    app.drain()
    changes.check(app)
    gone = app.folder / "blocks" / state_of(app) / "t" / min(files_of(app))
    kept = gone.read_bytes()
    gone.unlink()
    refused(app, 4, "files with rows", gone.name, "holdfast seed --replace")
    refused(app, 4, "files with rows", gone.name, command=["rebuild"])
    shutil.rmtree(app.folder / "state")
    refused(app, 4, "files with rows", gone.name, command=["rebuild"])
    gone.write_bytes(kept)
    app.drain()
    changes.check(app)
    shutil.rmtree(app.folder / "blocks")
    refused(app, 4, "files with rows", "holdfast seed --replace")
    assert app("seed", "--replace")[0] == 0
    app.drain()
    changes.check(app)
    assert [path.name for path in (app.folder / "blocks").iterdir()] == [state_of(app)]


@tasks_here
def test_blocks_of_a_state_that_is_replaced_go_with_it(spark: SparkSession, tmp_path: Path) -> None:
    twins = Twins(tmp_path, [FILES])
    changes, app = Changes(twins.memory, 4), twins.blocks
    changes.come(3)
    app.drain()
    first = state_of(app)
    (app.folder / "blocks" / first / "t" / "left").write_bytes(b"of a batch that was not committed")
    app.drain()
    assert "left" not in files_of(app)
    app.configure(rules=[{"name": "none", "table": "t", "fd": "a -> z"}])
    refused(app, 2, "'z'", command=["seed", "--replace"])
    assert [path.name for path in (app.folder / "blocks").iterdir()] == [first]
    app.configure(rules=RULES)
    app.drain()
    changes.check(app)
    assert app("seed", "--replace")[0] == 0
    assert state_of(app) != first
    assert [path.name for path in (app.folder / "blocks").iterdir()] == [state_of(app)]
    app.configure(engine="embedded", blocks=None)
    refused(app, 4, "'engine' is embedded, and was spark", "holdfast seed --replace")
    assert app("seed", "--replace")[0] == 0
    assert list((app.folder / "blocks").iterdir()) == []
    app.drain()
    changes.check(app)
    app.configure(**BLOCKS)
    refused(app, 4, "'engine' is spark, and was embedded", "holdfast seed --replace")


@tasks_here
def test_values_are_followed_across_tables(spark: SparkSession, tmp_path: Path) -> None:
    other = {**PLAIN, "name": "u", "source": {**FILES["source"], "path": "../others"}}
    known = {"name": "known", "inclusion": "t.a in u.k"}
    rows: list[Row] = [{"k": 100 + number, "a": number % 3, "b": None} for number in range(5)]
    (tmp_path / "first.csv").write_text("k,a,b\n" + "".join(f"{r['k']},{r['a']},\n" for r in rows), encoding="utf-8")
    tables = [{**table, "seed": {"path": "../first.csv"}} for table in (PLAIN, other)]
    twins = Twins(tmp_path, tables, constraints={**CONSTRAINTS, "inclusion": {}}, rules=[*RULES[:1], known])
    changes, others = Changes(twins.memory, 8), Changes(twins.memory, 9, "../others")
    for each in (changes, others):
        each.rows |= {row["k"]: row for row in rows}
    for files in (2, 3):
        changes.come(files)
        others.come(files)
        twins.drain()
    for app in twins.both:  # the tables take turns as they like
        app.check({"t": list(changes.rows.values()), "u": list(others.rows.values())})
    assert files_of(twins.blocks, "=values")
    assert {r["constraint"] for r in twins.blocks.output("constraints")} == {
        r["constraint"] for r in twins.memory.output("constraints")
    }
    for app in twins.both:
        app.configure(constraints=CONSTRAINTS)
        app.drain()
        app.check({"t": list(changes.rows.values()), "u": list(others.rows.values())})


@tasks_here
def test_an_edited_configuration_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    twins = Twins(tmp_path, [FILES])
    changes = Changes(twins.memory, 6)
    changes.come(5)
    twins.drain()
    more = [*RULES, {"name": "wide", "table": "t", "forbid": "t.k = s.a and t.b != s.b", "recount": "1 ms"}]
    edits: list[dict[str, Any]] = [
        {"rules": more},
        {"constraints": {"denial": {"max_predicates": 2}}, "rules": more[:1]},
        {"constraints": CONSTRAINTS},
    ]
    for edit in edits:
        twins.configure(**edit)
        changes.come(1)
        twins.drain()
        twins.check()
    for app in twins.both:
        app.tables[0] = {**FILES, "columns": {"k": "integer", "a": "float", "c": {"type": "string", "was": "b"}}}
        app.configure(rules=[])
        app.drain()
    twins.check()
    before = files_of(twins.blocks)
    for app in twins.both:
        app.tables[0] = {**app.tables[0], "exclude": ["c"], "key": None}
        app.configure()
        app.drain()
    twins.check()
    assert not before & files_of(twins.blocks)


def test_a_process_that_is_killed_then_told_to_stop(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    app = Application(tmp_path / "app", [PLAIN], **BLOCKS, rules=RULES[:1], trigger={"interval": "10 ms"})
    changes = Changes(app, 7)
    changes.come(3)
    process = app.started()
    process.wait_for(partial(has_batches, app, 1))
    process.kill()
    changes.come(3)
    process = app.started()
    process.wait_for(partial(has_batches, app, 4))
    assert process.signal(signal.SIGTERM) == 0
    app.drain()
    changes.check(app)


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "s", pa.table({"k": [1]}), configuration=FEED)
    table = {"name": "t", "key": ["k"], "source": {"format": "delta", "path": "./s"}}
    app = Application(tmp_path, [table], **BLOCKS, spark={"spark.master": "spark://127.0.0.1:1"})
    refused(app, 2, "have to reach the blocks of rows", "blocks: {path: ...}")
    (tmp_path / "file").write_text("", encoding="utf-8")
    app = Application(tmp_path, [table], engine="spark", blocks={"path": "./file/x"})
    refused(app, 5, "cannot be used", "blocks.path", command=["seed"])


def test_the_doctor_lets_executors_try_the_blocks(spark: SparkSession, tmp_path: Path) -> None:
    found = doctor._blocks(spark, Storage.at(str(tmp_path / "some" / "blocks")))
    assert (found.status, found.check) == ("ok", "executors write blocks")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("", encoding="utf-8")
    found = doctor._blocks(spark, Storage.at(str(tmp_path / "file" / "blocks")))
    assert found.status == "fail"
    assert "blocks.path" in found.action
    Application(tmp_path, [FILES], **BLOCKS)
    command = [
        sys.executable,
        "-m",
        "holdfast",
        "doctor",
        str(tmp_path / "holdfast.yaml"),
        "--spark",
        "--format",
        "json",
    ]
    environment = {**os.environ, **quick_environment()}
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert said.returncode == 0, said.stdout + said.stderr
    found_by = {line["check"]: line for line in map(json.loads, said.stdout.splitlines())}
    assert found_by["executors write blocks"]["status"] == "ok"
    assert found_by["write blocks"]["status"] == "ok"
    assert not (tmp_path / "blocks").exists()
