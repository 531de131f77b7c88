"""Configurations against their data: all problems at once, each with its line, before anything is written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from holdfast.jobs.application import checking
from holdfast.jobs.application.checking import refuse_misfits
from holdfast.jobs.application.machine import Finding
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.configuration.problems import ConfigurationError
from holdfast.jobs.configuration.reading import load

CARS = "model,year,seats\nFord,1999,4\nSaab,NA,5\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a function that writes a configuration of the table `cars`, which has a seed and a folder of changes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cars.csv").write_text(CARS)
    (tmp_path / "in").mkdir()

    def written(rules: list[dict[str, Any]] | None = None, **table: Any) -> Path:
        cars = {"seed": {"path": "./cars.csv"}, "source": {"format": "files", "path": "./in", "encoding": "csv"}}
        settings = {
            **{name: f"./{name}" for name in ("state", "backup", "output", "checkpoint")},
            "name": "app",
            "tables": [{"name": "cars", **cars, **table}],
            "rules": [{"name": f"r{i}", "table": "cars", **rule} for i, rule in enumerate(rules or [])],
            "constraints": {"denial": {"max_predicates": 1}},
        }
        path = tmp_path / "c.yaml"
        path.write_text(json.dumps(settings, indent=1))
        return path

    return written


def problems(path: Path, **how: bool) -> dict[str, str]:
    """Return the problems by the path of their setting; each has its line."""
    configuration = load(path)
    try:
        refuse_misfits(configuration, **how)
    except ConfigurationError as error:
        assert all(problem.place.line for problem in error.problems)
        return dict(problem.located("").split(": ", 2)[1:] for problem in error.problems)
    return {}


def test_what_fits_is_not_refused(write: Callable[..., Path]) -> None:
    rules = [{"require": "t.seats >= 2"}, {"fd": "model -> seats"}, {"key": ["model"]}]
    assert problems(write(rules, key=["model"], exclude=["year"])) == {}
    assert problems(write([{"require": "t.year >= 1940"}], seed={"path": "./cars.csv", "null_tokens": "auto"})) == {}
    assert problems(write([{"require": "t.year >= 1940"}], columns={"year": "string"})) != {}


def test_everything_is_told_at_once(write: Callable[..., Path]) -> None:
    rules = [
        {"require": "t.yaer >= 1940"},
        {"forbid": "t.seats = 'old'"},
        {"fd": "modell -> color"},
        {"inclusion": "cars.seats in cars.sets"},
    ]
    found = problems(
        write(
            rules,
            key=["modle"],
            columns={"sets": "integer"},
            source={"format": "files", "path": "./nowhere", "encoding": "csv"},
        )
    )
    tables = {"tables[0].key", "tables[0].columns.sets", "tables[0].source.path"}
    assert found.keys() == tables | {"rules[0].require", "rules[2].fd", "rules[3].inclusion"}
    assert "did you mean 'model'?" in found["tables[0].key"]
    assert "table cars has no column 'yaer'" in found["rules[0].require"]
    assert "nowhere does not exist: make it" in found["tables[0].source.path"]


def test_types_of_rules(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [{"require": "t.seats >= 'old'"}, {"forbid": "t.model < 3"}]
    assert list(problems(write(wrong))) == ["rules[0].require", "rules[1].forbid"]
    assert problems(write([{"forbid": "t.year < 3"}]))["rules[0].forbid"].startswith(
        "rule r0: 't.year < 3': column year"
    )
    monkeypatch.setattr(checking, "_MOST_BYTES", 10)
    assert problems(write(wrong)) == {}, "the file is too large to find its types"
    assert list(problems(write([{"require": "t.seat >= 2"}]))) == ["rules[0].require"]


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_typed_seeds(write: Callable[..., Path], tmp_path: Path, form: str) -> None:
    rows = pa.table({"model": ["Ford"], "seats": [4]})
    if form == "delta":
        write_deltalake(tmp_path / "cars.delta", rows)
    else:
        pq.write_table(rows, tmp_path / "cars.parquet")
    seed = {"path": f"./cars.{form}"}
    wrong = [{"require": "t.seats >= 'old'"}, {"require": "t.year > 3"}]
    assert list(problems(write(wrong, seed=seed))) == ["rules[0].require", "rules[1].require"]


def test_delta_sources(write: Callable[..., Path], tmp_path: Path) -> None:
    source = {"format": "delta", "path": "./cars.delta"}
    assert "is no Delta table" in problems(write(source=source, seed=None))["tables[0].source.path"]
    rows = pa.table({"model": ["Ford"], "seats": [4]})
    write_deltalake(tmp_path / "cars.delta", rows)
    assert "has no change feed" in problems(write(source=source, seed=None))["tables[0].source.path"]
    write_deltalake(tmp_path / "fed.delta", rows, configuration={"delta.enableChangeDataFeed": "true"})
    fed = {"format": "delta", "path": "./fed.delta"}
    rules = [{"require": "t.seats >= 2"}, {"require": "t.seats >= 'old'"}, {"fd": "modell -> seats"}]
    assert list(problems(write(rules, source=fed, seed=None))) == ["rules[1].require", "rules[2].fd"]


def test_seeds_that_cannot_be_read(write: Callable[..., Path], tmp_path: Path) -> None:
    assert "does not exist" in problems(write(seed={"path": "./bikes.csv"}))["tables[0].seed.path"]
    (tmp_path / "cars.csv").write_text("")
    assert "is empty" in problems(write())["tables[0].seed.path"]


def test_brokers_are_asked_by_validate_alone(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    status: Literal["fail", "warn"] = "fail"
    monkeypatch.setattr(checking, "broker", lambda server: Finding(f"kafka {server}", status, "refused"))
    path = write(
        source={"format": "kafka", "servers": "h:1,i:2", "topic": "t", "encoding": "json", "start": "earliest"},
        key=["model"],
    )
    told = problems(path)["tables[0].source.servers"]
    assert told.startswith("no broker answers (kafka h:1: refused; kafka i:2: refused)")
    assert problems(path, servers=False) == {}
    status = "warn"
    assert problems(path) == {}


def test_commands_refuse_before_anything_is_written(
    write: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write([{"require": "t.yaer >= 1940"}, {"fd": "modell -> seats"}]))
    before = sorted(one.name for one in tmp_path.iterdir())
    for command in (["validate"], ["seed"], ["run", "--available-now"]):
        assert exit_code_of([*command, path]) == 2
        told = capsys.readouterr().err
        assert "2 errors in" in told
        assert "rules[0].require: table cars has no column 'yaer'" in told
        assert sorted(one.name for one in tmp_path.iterdir()) == before
    assert exit_code_of(["validate", path, "--offline"]) == 0


def test_advice_names_the_configuration(write: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write())
    assert exit_code_of(["seed", path]) == 0
    assert exit_code_of(["seed", path]) == 4
    told = capsys.readouterr().err
    assert f"follow its sources with holdfast run {path}, or replace it with holdfast seed --replace {path}" in told


def test_a_state_says_which_columns_there_are(write: Callable[..., Path], tmp_path: Path) -> None:
    assert exit_code_of(["seed", str(write())]) == 0
    (tmp_path / "cars.csv").unlink()
    path = write([{"require": "t.yaer >= 1940"}, {"require": "t.seats >= 'old'"}, {"require": "t.seats >= 2"}])
    assert list(problems(path)) == ["rules[0].require", "rules[1].require"]
    assert list(problems(path, replaces=True)) == ["tables[0].seed.path"]
    assert problems(write([{"require": "t.size >= 2"}], columns={"size": {"was": "seats"}})) == {}
