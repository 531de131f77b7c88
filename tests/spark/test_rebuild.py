"""`holdfast rebuild`: a lost or damaged state comes back, and the outputs are those of an undisturbed run."""

from __future__ import annotations

import json
import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.state.log import owner
from tests.object_store import ObjectStore
from tests.streams import Application, Row

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

TABLE: dict[str, Any] = {
    "name": "t",
    "key": ["k"],
    "columns": {"k": "integer", "a": "integer", "b": "string"},
    "source": {"format": "files", "path": "./changes", "encoding": "json", "options": {"maxFilesPerTrigger": "1"}},
    "near": "34%",
}
RULES = [
    {"name": "depends", "table": "t", "fd": "a -> b"},
    {"name": "grows", "table": "t", "forbid": "t.k < s.k and t.a > s.a"},
    {"name": "known", "inclusion": "t.a in t.k"},
]


class Lived(Application):
    """An application whose rows are followed."""

    def __init__(self, folder: Path, seed: int, **sections: Any) -> None:
        super().__init__(folder, [TABLE], rules=RULES, constraints={"denial": {}, "inclusion": {}}, **sections)
        self.dice = random.Random(seed)
        self.rows: dict[int, Row] = {}

    def come(self, files: int) -> None:
        for _ in range(files):
            lines = []
            for _ in range(self.dice.randint(1, 5)):
                row: Row = {"k": self.dice.randint(0, 9), "a": self.dice.randint(0, 2), "b": self.dice.choice("xy")}
                if self.dice.random() < 0.3:
                    self.rows.pop(row["k"], None)
                    lines.append({"_op": "delete", **row})
                else:
                    self.rows[row["k"]] = row
                    lines.append({"_op": "insert", **row})
            self.put(f"{self.written:04}.json", "\n".join(map(json.dumps, lines)).encode())

    def check_rows(self) -> None:
        self.check({"t": list(self.rows.values())})

    def refused(self, command: str, *words: str, code: int = 4) -> str:
        found, said = self(command, *(("--available-now",) if command == "run" else ()))
        assert found == code, said
        for word in words:
            assert word in said
        assert "Traceback" not in said
        return said


def test_a_state_that_is_lost_comes_back_from_its_backup(spark: SparkSession, tmp_path: Path) -> None:
    app = Lived(tmp_path, 3, snapshot={"interval": "1 second"})
    app.come(3)
    app.drain()
    app.refused("rebuild", "is whole, and so are the checkpoints: there is nothing to rebuild")
    for lost in ("removed", "damaged", "halved"):
        app.come(3)
        app.drain()
        state = tmp_path / "state"
        if lost == "removed":
            shutil.rmtree(state)
            app.refused("run", "is missing", "holdfast rebuild")
            assert not state.exists()
            app.refused("seed", "is missing", "holdfast seed --replace")
        else:
            for file in state.glob("MANIFEST-*" if lost == "damaged" else "CURRENT"):
                data = file.read_bytes()
                file.write_bytes(data[: len(data) // 2] + b"?" * 9)
            app.refused("run", "state")
        code, said = app("rebuild")
        assert code == 0, said
        assert "restored: " in said
        assert ("could not be used: it is now" in said) == (lost != "removed")
        app.check_rows()
        app.come(2)
        app.drain()
        app.check_rows()
    assert {owner(path.parent)["epoch"] for path in tmp_path.glob("backup/*/OWNER")} == {3}


def test_what_a_killed_run_acknowledged_is_in_the_backup(spark: SparkSession, tmp_path: Path) -> None:
    app = Lived(tmp_path, 5, trigger={"interval": "10 ms"})
    app.come(2)
    app.drain()
    app.come(12)
    process = app.started()
    process.wait_for(lambda: len(app.output("batches")) > 6)
    process.kill()
    shutil.rmtree(tmp_path / "state")
    assert app("rebuild")[0] == 0
    app.come(2)
    app.drain()
    app.check_rows()


def test_without_state_and_backup_the_outputs_go_on_from_the_source(spark: SparkSession, tmp_path: Path) -> None:
    app = Lived(tmp_path, 7)
    app.come(4)
    app.drain()
    shutil.rmtree(tmp_path / "state")
    shutil.rmtree(tmp_path / "backup")
    app.refused("run", "is missing", "holdfast rebuild")
    app.refused("rebuild", "has no snapshot", "--from-source")
    code, said = app("rebuild", "--from-source")
    assert code == 0, said
    app.drain()  # the folder has all changes still
    app.check_rows()


@pytest.mark.parametrize("broken", ["backup/state", "snapshots"])
def test_a_backup_that_is_damaged_is_named(spark: SparkSession, tmp_path: Path, broken: str) -> None:
    app = Lived(tmp_path, 11)
    app.come(1)
    app.drain()
    shutil.rmtree(tmp_path / "state")
    if broken == "snapshots":
        for manifest in tmp_path.glob("backup/*/snapshots/*.json"):
            manifest.write_text("{}")
        app.refused("rebuild", "has no snapshot of a state of 'app'", "--from-source")
    else:
        for file in tmp_path.glob("backup/*/files/*"):
            file.write_bytes(b"?")
        app.refused("rebuild", "is damaged", "--from-source")
        assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("lost", ["checkpoint", "both", "behind", "ahead"])
def test_a_checkpoint_that_does_not_fit_begins_anew_where_the_state_ended(
    spark: SparkSession, tmp_path: Path, lost: str
) -> None:
    app = Lived(tmp_path, 13)
    app.come(2)
    app.drain()
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "earlier")
    shutil.copytree(tmp_path / "state", tmp_path / "earlier state")
    rows = dict(app.rows)
    app.come(3)
    app.drain()
    if lost in {"checkpoint", "both", "behind"}:
        shutil.rmtree(tmp_path / "checkpoint")
    if lost == "both":
        shutil.rmtree(tmp_path / "state")
    elif lost == "behind":
        (tmp_path / "earlier").rename(tmp_path / "checkpoint")
    elif lost == "ahead":
        for name in ("state", "output", "backup"):
            shutil.rmtree(tmp_path / name)
        (tmp_path / "earlier state").rename(tmp_path / "state")
        app.rows, rows = rows, app.rows
    code, said = app("rebuild")
    assert code == 0, said
    assert "its checkpoint did not fit the state; a new one begins" in said
    app.refused("rebuild", "there is nothing to rebuild")
    if lost == "ahead":
        app.rows = rows
        return
    app.come(3)
    app.drain()
    app.check_rows()
    app.come(2)
    app.drain()
    app.check_rows()


def test_a_state_stays_where_a_new_one_cannot_be_seeded(spark: SparkSession, tmp_path: Path) -> None:
    app = Lived(tmp_path, 17)
    app.come(2)
    app.drain()
    for rule, words in (
        ({"name": "x", "table": "t", "forbid": "t.b = 1"}, "column b string is compared with 1"),
        ({"name": "x", "inclusion": "t.z in t.k"}, "has no"),
    ):
        app.configure(rules=[*RULES, rule])
        code, said = app("seed", "--replace")
        assert code == 2, said
        assert words in said
        assert not list(tmp_path.glob("*.replaced"))
    app.configure(rules=RULES)
    app.come(2)
    app.drain()
    app.check_rows()
    assert app("seed", "--replace")[0] == 0
    assert not [*tmp_path.glob("*.replaced"), *tmp_path.glob("backup/*.replaced")]
    assert len(list((tmp_path / "backup").iterdir())) == 1
    app.drain()
    app.check_rows()


def test_a_backup_on_an_object_store(spark: SparkSession, tmp_path: Path) -> None:
    store = ObjectStore()
    try:
        app = Lived(tmp_path, 11, backup="s3://bucket/backups", storage_options=store.options)
        app.come(3)
        app.drain()
        app.come(2)
        app.drain()
        shutil.rmtree(tmp_path / "state")
        app.refused("run", "is missing", "s3://bucket/backups/", "holdfast rebuild")
        code, said = app("rebuild")
        assert code == 0, said
        app.come(2)
        app.drain()
        app.check_rows()
        store.fails = lambda asked: 403 if asked.startswith("PUT") else None
        app.come(1)
        said = app.refused("run", "the backup s3://bucket/backups/", "cannot be used", "start again", code=5)
        assert "verysecretkey" not in said
        store.fails = lambda _: None
        app.drain()
        app.check_rows()
        (state_id,) = {name.split("/")[2] for name in store.objects}
        assert app("seed", "--replace")[0] == 0
        assert {name.split("/")[2] for name in store.objects}.isdisjoint({state_id})
        app.drain()
        app.check_rows()
    finally:
        store.close()
