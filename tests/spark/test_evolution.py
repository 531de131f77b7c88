"""`holdfast run` on an edited configuration: the state follows from its own rows, sources go on where they were."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from holdfast.jobs.application import evolve, moving
from holdfast.state.log import owner
from tests.streams import Application, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

SOURCE = {"format": "files", "path": "./changes", "encoding": "json", "options": {"maxFilesPerTrigger": "2"}}
PEOPLE: dict[str, Any] = {
    "name": "people",
    "key": ["name"],
    "columns": {"name": "string", "zip": "integer", "city": "string", "rate": "float"},
    "source": SOURCE,
}
RULES = [{"name": "zip_city", "table": "people", "fd": "zip -> city"}]


class Edited(Application):
    """An application whose table is edited; its rows are followed with all that ever came."""

    def __init__(self, folder: Path, seed: int = 1, **sections: Any) -> None:
        super().__init__(folder, [PEOPLE], **{"rules": RULES, **sections})
        self.dice = random.Random(seed)
        self.rows: dict[str, Row] = {}

    def come(self, files: int = 2, **more: Sequence[Any]) -> None:
        """Write changes; `more` are further fields, with their values to choose from."""
        for _ in range(files):
            lines = []
            for _ in range(self.dice.randint(1, 6)):
                name = self.dice.choice("ABCDEFGH")
                row: Row = {"name": name, "zip": self.dice.randint(0, 2), "city": self.dice.choice("xy")}
                row |= {"rate": self.dice.choice([None, 0.5, 1.5])}
                row |= {field: self.dice.choice(values) for field, values in more.items()}
                if self.dice.random() < 0.3:
                    self.rows.pop(name, None)
                    lines.append({"_op": "delete", "name": name})
                else:
                    self.rows[name] = row
                    lines.append(row)
            self.put(f"{self.written:04}.json", "\n".join(map(json.dumps, lines)).encode())

    def edit(self, **change: Any) -> None:
        self.configure(tables=[{**self.tables_now[0], **change}])

    @property
    def tables_now(self) -> list[Row]:
        tables: list[Row] = self.sections.get("tables", self.tables)
        return tables

    def drained(self, columns: dict[str, str], *words: str) -> str:
        """Drain, and compare: the columns that are monitored, each with the field that it shows."""
        said = self.drain()
        for word in words:
            assert word in said, said
        rows = [{name: row.get(field) for name, field in columns.items()} for row in self.rows.values()]
        self.check({self.tables_now[0]["name"]: rows})
        self.check_one_state()
        return said

    def check_one_state(self) -> None:
        assert len({row["state_id"] for row in self.output("constraint_changes")}) == 1
        assert {path.name for path in self.folder.iterdir()} <= {
            *("state", "backup", "output", "checkpoint", "changes", "others", "holdfast.yaml", "said.txt"),
            *("people.csv", "lake"),
        }


ALL = {"name": "name", "zip": "zip", "city": "city", "rate": "rate"}


def test_families_and_rules_are_switched_again_and_again(spark: SparkSession, tmp_path: Path) -> None:
    app = Edited(tmp_path)
    app.come(4)
    app.drained(ALL)
    batches = len(app.output("batches"))

    app.configure(constraints={"denial": {"max_predicates": 3}, "order": {"max_context": 1}})
    app.drained(ALL, "'max_context' is 1, and was not set", "made anew")
    assert len(app.output("batches")) == batches
    assert {row["cause"] for row in app.output("constraint_changes")} == {"data", "config"}
    app.come()
    app.drained(ALL)

    app.configure(constraints={"denial": {"max_predicates": 2}, "inclusion": {}})
    app.come()
    app.drained(ALL, "'max_predicates' is 2, and was 3", "'inclusion' is True, and was False")

    crossing = {"name": "grows", "table": "people", "forbid": "t.city = s.name and t.zip > s.zip"}
    app.configure(constraints={"denial": {"max_predicates": 3}})
    app.come()
    app.drained(ALL, "'inclusion' is False, and was True")
    app.configure(rules=[*RULES, crossing])
    app.come()
    app.drained(ALL, "rule grows compares columns that were not compared before")


def test_near_constraints_are_switched_on_widened_and_off(spark: SparkSession, tmp_path: Path) -> None:
    app = Edited(tmp_path, 3)
    app.come(4)
    app.drained(ALL)
    assert not app.output("near_changes")
    assert app.status()["people"]["near"] is None
    app.edit(near={"share": "10%", "max_context": 1})
    app.drained(ALL, "'near' is {'share': '1/10', 'max_context': 1, 'orders': True}, and was not set", "made anew")
    held = app.output("near_constraints")
    assert held
    assert app.status()["people"]["near"] == len(held)
    assert app.status()["people"]["near_with_exceptions"] == sum(row["exceptions"] > 0 for row in held)
    app.edit(near="40%")
    app.come()
    app.drained(ALL, "'near' is {'share': '2/5', 'max_context': 3, 'orders': True}")
    told = app.output("constraint_changes")
    nearly = [row for row in told if row["exceptions"] is not None]
    assert nearly
    assert all((row["change"], row["reason"]) == ("disappeared", "violated") for row in nearly)
    app.come()
    app.drained(ALL)
    app.edit(near=None)  # a key without a value: its defaults
    app.drained(ALL, "'near' is {'share': '1/100', 'max_context': 3, 'orders': True}")
    app.configure(tables=[PEOPLE])
    app.drained(ALL, "'near' is not set, and was")
    assert not app.output("near_constraints")
    assert not app.output("exceptions")
    assert {row["cause"] for row in app.output("near_changes")} == {"config", "data"}


def test_columns_come_and_go(spark: SparkSession, tmp_path: Path) -> None:
    app = Edited(tmp_path)
    app.come(4)
    app.drained(ALL)
    app.edit(exclude=["rate"])
    app.come()
    app.drained({"name": "name", "zip": "zip", "city": "city"}, "'exclude' is ['rate'], and was not set")
    app.configure(tables=[PEOPLE])
    code, said = app("run", "--available-now")
    assert code == 4
    assert "column rate was left out before: its values were not kept" in said

    app.edit(exclude=["rate"], columns={**PEOPLE["columns"], "age": "integer"})
    for row in app.rows.values():
        row["age"] = None
    app.come(age=[None, 1, 2])
    now = {"name": "name", "zip": "zip", "city": "city", "age": "age"}
    app.drained(now, "column age is new: it is null in the existing rows")

    app.edit(key=["name", "zip"])  # every name has one zip
    app.drained(now, "'key' is ['name', 'zip'], and was ['name']")
    app.edit(key=["zip"])
    code, said = app("run", "--available-now")
    assert (code, "cannot be changed as the configuration says" in said) == (4, True), said
    app.edit(key=["name"])

    text = {"name": "string", "zip": "float", "town": {"type": "string", "was": "city"}, "age": "integer"}
    app.edit(columns=text)
    app.configure(rules=[{"name": "zip_city", "table": "people", "fd": "zip -> town"}])
    for row in app.rows.values():
        row["town"] = row["city"]
    now = {"name": "name", "zip": "zip", "town": "town", "age": "age"}
    app.drained(now, "column city is called town", "zip")
    app.come(age=[None, 1, 2], town=["x", "z"])
    app.drained(now)
    epochs = {owner(path.parent)["epoch"] for path in tmp_path.glob("backup/*/OWNER")}
    shutil.rmtree(tmp_path / "state")
    code, said = app("rebuild")
    assert code == 0, said
    app.come(age=[1], town=["x"])
    app.drained(now)
    assert {owner(path.parent)["epoch"] for path in tmp_path.glob("backup/*/OWNER")} == {max(epochs) + 1}


def test_tables_come_and_go(spark: SparkSession, tmp_path: Path) -> None:
    app = Edited(tmp_path, constraints={"denial": {"max_predicates": 2}, "inclusion": {}})
    app.come()
    app.drained(ALL)
    others = {
        "name": "others",
        "columns": {"n": "string", "z": "integer"},
        "source": {**SOURCE, "path": "./others"},
    }
    app.put("1.json", b'{"n": "A", "z": 1}\n{"n": "A", "z": 1}', "others")
    app.configure(tables=[others, PEOPLE], rules=[*RULES, {"name": "known", "inclusion": "others.n in people.name"}])
    app.come()
    rows = [{"n": "A", "z": 1}] * 2
    said = app.drain()
    assert "table others is new: it is seeded" in said
    people = [dict(row) for row in app.rows.values()]
    app.check({"others": rows, "people": people})
    assert set(app.status()) == {"others", "people"}

    app.configure(tables=[others], rules=[])
    said = app.drain()
    assert "table people is not in the configuration any more: it is left out" in said
    app.check({"others": rows})
    assert [row["table_name"] for row in app.output("tables")] == ["others"]
    assert {row["table_name"] for row in app.output("constraints")} == {"others"}
    assert not (tmp_path / "checkpoint" / "people").exists()

    app.configure(tables=[others, PEOPLE], rules=RULES)  # it comes back from the beginning of its folder
    app.put("2.json", b'{"n": "B", "z": 1}', "others")
    app.drain()
    app.check({"others": [*rows, {"n": "B", "z": 1}], "people": people})


def test_what_the_state_cannot_know_is_refused_all_at_once(spark: SparkSession, tmp_path: Path) -> None:
    app = Edited(tmp_path)
    app.come()
    app.drained(ALL)
    columns = {"name": "string", "zip": "string", "town": {"type": "string", "was": "citty"}, "rate": "float"}
    app.edit(columns=columns, source={**SOURCE, "path": "./others"}, sequence="zip")
    app.configure(rules=[])
    (tmp_path / "others").mkdir()
    code, said = app("run", "--available-now")
    assert code == 4, said
    for words in (
        "table people: 'source' is",
        "table people: 'sequence' is zip, and was not set",
        "column town is to take over 'citty'; did you mean 'city'?",
        "Change it back, or seed anew: holdfast seed --replace",
    ):
        assert words in said, said
    app.configure(tables=[{**PEOPLE, "columns": {**PEOPLE["columns"], "zip": "string"}}])
    code, said = app("run", "--available-now")
    assert (code, "column zip is string, and was integer: how its values were written" in said) == (4, True), said
    app.configure(tables=[PEOPLE], rules=RULES)
    app.come()
    app.drained(ALL)


@pytest.mark.parametrize("step", ["seeding", "renamed", "swapped", "before the snapshot"])
def test_a_crash_while_a_state_follows_its_configuration(
    spark: SparkSession, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Edited(tmp_path)
    app.come()
    app.drained(ALL)
    app.configure(constraints={"denial": {"max_predicates": 2}})

    class Crash(BaseException):
        pass

    def crash(*_: object, **__: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        if step == "seeding":
            patch.setattr(evolve, "swap", crash)
        elif step == "renamed":
            patch.setattr(Path, "rename", _once(Path.rename, crash))
        elif step == "swapped":
            removed = shutil.rmtree

            def remove(place: Path, *, ignore_errors: bool = False) -> None:
                if place.name == f"state{moving.OLD}" and place.exists():
                    crash()
                removed(place, ignore_errors=ignore_errors)

            patch.setattr("holdfast.jobs.application.moving.shutil.rmtree", remove)
        else:
            patch.setattr("holdfast.streaming.commits.snapshotting.Snapshotter._begin", crash)
        with pytest.raises(Crash):
            app("run", "--available-now")
    there = {path.name for path in tmp_path.iterdir() if path.name.startswith("state")}
    new, old = f"state{moving.NEW}", f"state{moving.OLD}"
    left = {"seeding": {"state", new}, "renamed": {old, new}, "swapped": {"state", old}}
    assert there == left.get(step, {"state"})
    app.come()
    app.drained(ALL)
    app.configure(constraints={"denial": {"max_predicates": 3}})
    app.drained(ALL)
    shutil.rmtree(tmp_path / "state")
    code, said = app("rebuild")
    assert code == 0, said
    app.drained(ALL)


def _once(first: Any, then: Any) -> Any:
    """Return what calls one function the first time, and another one from then on."""
    calls: list[int] = []

    def called(*given: Any) -> Any:
        calls.append(1)
        return (first if len(calls) == 1 else then)(*given)

    return called


def test_a_column_that_a_delta_source_adds_is_taken_in(spark: SparkSession, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(lake, pa.table({"k": [1, 2, 3], "a": ["x", "x", "y"]}), configuration=feed)
    table = {"name": "t", "key": ["k"], "source": {"format": "delta", "path": "./lake"}}
    app = Application(tmp_path, [table])
    app.drain()
    write_deltalake(lake, pa.table({"k": [4], "a": ["y"]}), mode="append")
    app.drain()
    rows = [{"k": k, "a": a} for k, a in ((1, "x"), (2, "x"), (3, "y"), (4, "y"))]
    app.check({"t": rows})
    write_deltalake(lake, pa.table({"k": [5], "a": ["z"]}), mode="append")
    write_deltalake(lake, pa.table({"k": [6], "a": ["z"], "b": [1.5]}), mode="append", schema_mode="merge")
    DeltaTable(lake).delete("k = 1")
    said = app.drain()
    assert "table t: column b is new: it is null in the existing rows" in said
    rows = [{**row, "b": None} for row in [*rows[1:], {"k": 5, "a": "z"}]] + [{"k": 6, "a": "z", "b": 1.5}]
    app.check({"t": rows})
    app.configure(tables=[{**table, "exclude": ["a"]}])
    write_deltalake(lake, pa.table({"k": [7], "a": ["z"], "b": [2.5], "c": [[1]]}), mode="append", schema_mode="merge")
    app.drain()
    app.check({"t": [{"k": row["k"], "b": row["b"]} for row in rows] + [{"k": 7, "b": 2.5}]})
    assert "changes to the state" not in app.drain()


def test_a_field_that_no_column_has_stops_the_run_or_is_named_once(spark: SparkSession, tmp_path: Path) -> None:
    app = Edited(tmp_path)
    app.come()
    app.drained(ALL)
    app.edit(new_columns="stop")
    app.come(age=[1, 2])
    for _ in range(4):  # more often than a batch is tried in vain
        code, said = app("run", "--available-now")
        assert code in {3, 4}, said
        assert "has a field 'age' that no column has" in said
        assert "Give its type under 'columns', or add it to 'exclude'" in said
    for row in app.rows.values():
        row.setdefault("age", None)
    app.edit(columns={**PEOPLE["columns"], "age": "integer"})
    now = {**ALL, "age": "age"}
    app.drained(now, "column age is new: it is null in the existing rows")
    app.edit(exclude=["hat"])
    app.come(age=[3], hat=["x"])
    app.drained(now)

    app.edit(new_columns="ignore", exclude=["hat"])
    app.come(age=[3], hat=["x"], shoe=[41])
    app.drained(now, "warning: no column of people has the field 'shoe' (first in ")
    app.come(age=[3], shoe=[41, 42])
    assert "warning" not in app.drained(now)
    assert list(app.status()["people"]["left_out"]) == ["shoe"]
    app.edit(columns={**PEOPLE["columns"], "age": "integer", "shoe": "integer"})
    code, said = app("run", "--available-now")
    assert code == 4
    assert "column shoe: its values were left out since record" in said
