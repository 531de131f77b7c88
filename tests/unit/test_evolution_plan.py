"""What an edited configuration asks of a state: plans, and what is refused, without Spark and without sources."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from holdfast.constraints import ColumnType, StateRefused, parse_type
from holdfast.jobs.application import evolve
from holdfast.jobs.application.evolution import Plan, planned
from holdfast.jobs.application.opening import OpenState
from holdfast.jobs.application.seeding import TableSeeder, monitored_rules
from holdfast.jobs.application.state_rows import RowsOfProcess
from holdfast.jobs.configuration.reading import read_configuration
from holdfast.state import codecs
from holdfast.state.commits import Commits
from holdfast.state.rocks import RocksStore
from holdfast.state.store import WriteBatch
from holdfast.streaming.commits.table_records import progress_of, tables_of
from holdfast.streaming.seeding import Earlier, restore, seed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FILES = {"format": "files", "path": "./changes", "encoding": "json"}
Row = dict[str, Any]


class Quiet:
    """Progress that nobody sees."""

    def note(self, *_: Any, **__: Any) -> None:
        """Say nothing."""

    @contextmanager
    def task(self, _text: str) -> Iterator[Any]:
        """Do not tell how far it is."""

        class Task:
            def describe(self, _text: str) -> None:
                """Say nothing."""

        yield Task()


class State:
    """A state, and the configuration that it was seeded with."""

    def __init__(self, folder: Path, rows: str = "a,b,id\n1,10,x\n2,20,y\n", bound: int = 2, **table: Any) -> None:
        self.folder, self.number, self.bound = folder, 0, bound
        (folder / "seed.csv").write_text(rows, "utf-8")
        configuration = self._read(table)
        settings, self.rules = configuration.settings, monitored_rules(configuration)
        self._open()
        place = RowsOfProcess(self._no_spark)
        seeder = TableSeeder(settings, self.rules, self._no_spark, place, Quiet())  # type: ignore[arg-type]
        tables = [seeder.seeded(settings.tables[0])]
        seed(self.commits, tables)

    def to(self, arrived: Mapping[str, ColumnType | None] | None = None, **table: Any) -> Plan:
        """Edit the table, and let the state follow."""
        configuration = self._read(table)
        settings = configuration.settings
        plan = planned(settings, self.rules, self.store, lambda _: arrived or {})
        if plan.changes:
            self.number += 1
            new = RocksStore(self.folder / f"state {self.number}")
            place = RowsOfProcess(self._no_spark)
            seeder = TableSeeder(settings, self.rules, self._no_spark, place, Quiet())  # type: ignore[arg-type]
            evolution = evolve._Evolution(seeder, plan, OpenState(settings, self.store, self.commits, self._no_spark))
            earlier = Earlier(kept=evolve._taken_over(self.store, plan), cause="config")
            tables = map(evolution.seeded, plan.tables)
            seed(Commits.succeeding(new, self.commits), tables, earlier)
            self.store.close()
            new.close()
            self._open()
        return plan

    def refused(self, words: str, arrived: Mapping[str, ColumnType | None] | None = None, **table: Any) -> None:
        before = self.rows
        with pytest.raises(StateRefused, match=words):
            self.to(arrived, **table)
        assert self.rows == before

    def note(self, **progress: Any) -> None:
        """Change what is noted of how far the table is."""
        batch = WriteBatch()
        batch.put("progress", b"t", codecs.json_bytes(replace(progress_of(self.store, "t"), **progress).fields()))
        self.store.write(batch)

    @property
    def rows(self) -> list[Row]:
        (maintainer,) = restore(self.store, threads=1).values()
        rows: list[Row] = maintainer.rows()[0].to_pylist()
        return rows

    def close(self) -> None:
        self.store.close()

    def _open(self) -> None:
        self.store = RocksStore(self.folder / f"state {self.number}")
        self.commits = Commits(self.store, "app")

    def _read(self, table: Row) -> Any:
        places = {name: f"./{name}" for name in ("state", "output", "checkpoint", "backup")}
        whole = {"name": "t", "seed": {"path": "./seed.csv"}, "source": FILES, **table}
        if whole["source"]["format"] == "delta":
            del whole["seed"]
        text = {"name": "app", **places, "tables": [whole], "constraints": {"denial": {"max_predicates": self.bound}}}
        return read_configuration(json.dumps(text).encode(), "c.yaml", str(self.folder))

    @staticmethod
    def _no_spark() -> Any:
        raise AssertionError


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    """Seed a table of the columns a, b and id."""
    made = State(tmp_path)
    yield made
    made.close()


def test_nothing_is_done_where_nothing_changed(state: State) -> None:
    assert state.to().changes == ()
    assert state.number == 0


@pytest.mark.parametrize(("bound", "is_new"), [(2, False), (4, True), (0, True)])
def test_what_an_earlier_version_reported_and_no_table_can_break_goes(tmp_path: Path, bound: int, is_new: bool) -> None:
    numbers = np.random.default_rng(0).integers(0, 5, (40, 3)).tolist()
    state = State(tmp_path, "a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in numbers), bound)
    key = codecs.number(0) + b"table"
    meta = codecs.read_json(state.store.get("meta", key) or b"")
    assert state.to().changes == ()
    earlier = WriteBatch()
    earlier.put("meta", key, codecs.json_bytes({name: value for name, value in meta.items() if name != "definition"}))
    state.store.write(earlier)
    assert ["constraints that no table can break" in text for text in state.to().changes] == [True] * is_new
    assert state.to().changes == ()
    state.close()


def test_names_go_there_and_back(state: State) -> None:
    state.to(columns={"c": {"was": "a"}})
    assert state.rows[0] == {"c": 1, "b": 10, "id": "x"}
    assert state.to(columns={"c": {"was": "a"}}).changes == ()
    state.to(columns={"a": {"was": "c"}})
    assert state.rows[0] == {"a": 1, "b": 10, "id": "x"}


@pytest.mark.parametrize(
    "columns",
    [
        {"a": {"was": "b"}, "b": {"was": "a"}},
        {"c": {"was": "b"}, "b": {"was": "a"}},
        {"b": {"was": "a"}},
        {"c": {"was": "a"}, "d": {"was": "a"}},
    ],
)
def test_one_column_is_renamed_at_a_time_to_a_name_that_is_free(state: State, columns: Row) -> None:
    state.refused("Rename one column at a time, each to a name that is free", columns=columns)


def test_a_name_that_is_left_out_is_not_free(tmp_path: Path) -> None:
    state = State(tmp_path, exclude=["b"])
    state.refused("to a name that is free", columns={"b": {"was": "a"}})
    state.close()


def test_a_column_that_was_added_before_its_rename_was_told(state: State) -> None:
    state.to(columns={"a2": "integer"})
    state.refused("a2 is to take over a: a2 is a column itself", columns={"a2": {"type": "integer", "was": "a"}})


@pytest.mark.parametrize("columns", [{"c": "integer"}, {"c": {"was": "a"}}])
def test_values_that_were_left_out_are_missed(state: State, columns: Row) -> None:
    state.note(left_out={"c": "t-0-7"})
    state.refused(
        "values were left out since record t-0-7|of which values were left out since record t-0-7", columns=columns
    )
    state.to(columns={"d": "integer"})
    state.refused("left out since record t-0-7", columns=columns)


def test_many_fields_stay_many(state: State) -> None:
    state.note(left_out={f"f{i}": f"r-{i}" for i in range(100)})
    state.refused("left out since some record", columns={"z": "integer"})
    state.to(exclude=["f0"])
    state.refused("left out since some record", exclude=["f0"], columns={"z": "integer"})


def test_a_state_that_did_not_look_at_fields_takes_none_in(state: State) -> None:
    ((number, record),) = tables_of(state.store)
    batch = WriteBatch()
    replace(record, watches_fields=False).put(number, batch)
    state.store.write(batch)
    state.refused("did not note which fields no column has", columns={"z": "integer"})
    state.to(exclude=["b"])
    state.refused("did not note which fields no column has", exclude=["b"], columns={"z": "integer"})


def test_how_declared_values_were_written_is_not_known_by_a_detour(tmp_path: Path) -> None:
    state = State(tmp_path, columns={"a": "integer"})
    state.refused("how its values were written was not kept", columns={"a": "string"})
    state.to()
    state.refused("how its values were written was not kept", columns={"a": "string"})
    state.to(columns={"c": {"was": "a"}})
    state.refused("how its values were written was not kept", columns={"c": {"was": "a", "type": "string"}})
    state.to(columns={"c": {"was": "a"}, "b": "string"})
    assert state.rows[0] == {"c": 1, "b": "10", "id": "x"}
    state.close()


@pytest.mark.parametrize("kind", ["decimal(10,2)", "float"])
def test_types_by_which_sequences_are_remembered_stay(tmp_path: Path, kind: str) -> None:
    state = State(tmp_path, key=["a"], sequence="b")
    state.refused("sequences and versions are remembered by its values", key=["a"], sequence="b", columns={"a": kind})
    state.refused("sequences and versions are remembered by its values", key=["a"], sequence="b", columns={"b": kind})
    state.refused("'sequence' is not set, and was b", key=["a"])
    state.refused("by whose name sequences are remembered", key=["k"], sequence="b", columns={"k": {"was": "a"}})
    state.to(key=["a"], sequence="b", exclude=["id"], sequence_retention="1 day")
    assert state.rows == [{"a": 1, "b": 10}, {"a": 2, "b": 20}]
    state.close()


def test_the_type_of_a_sequence_that_is_not_monitored_stays(tmp_path: Path) -> None:
    state = State(tmp_path, key=["a"], sequence="b", exclude=["b"])
    state.refused("the sequence b is decimal", key=["a"], sequence="b", exclude=["b"], columns={"b": "decimal(10,2)"})
    state.close()


INTEGER = parse_type("integer")
ALL = {"a": INTEGER, "b": INTEGER, "id": parse_type("string")}


def test_columns_that_a_source_says_itself(state: State) -> None:
    assert state.to(ALL).changes == ()
    state.to({**ALL, "new": INTEGER, "nested": None})
    assert state.rows[0] == {"a": 1, "b": 10, "id": "x", "new": None}
    assert state.to({**ALL, "new": INTEGER, "nested": None}).changes == ()


def test_a_new_column_may_be_an_old_one(tmp_path: Path) -> None:
    state = State(tmp_path, include=["id", "a"])
    renamed = {"a2": INTEGER, "b": INTEGER, "id": ALL["id"]}
    state.refused(r"new columns \(a2\), and lacks a: a column may have been renamed", renamed, include=["id", "a2"])
    moved = {"a": INTEGER, "b2": INTEGER, "id": ALL["id"]}
    state.refused(r"new columns \(b2\), and lacks b: a column may have been renamed", moved, include=["id", "a", "b2"])
    state.to(renamed, include=["id", "a2"], columns={"a2": {"was": "a"}})
    assert state.rows[0] == {"a2": 1, "id": "x"}
    state.close()


def test_what_is_owed_is_told_anew(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.note(owed=3)
    state.refused("remembered by the old key", key=["id"])
    state.to(exclude=["b"])
    assert progress_of(state.store, "t").owed == 0
    state.to(exclude=["b"], key=["id"])
    state.close()
