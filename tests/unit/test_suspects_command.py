"""`holdfast suspects`: what it writes, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from holdfast.discovery.near import lattice
from holdfast.jobs.command_line import exit_code_of
from tests.properties.test_suspects import zips

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    table = zips()
    table.loc[[3, 700], "city"] = "wrong"
    path = tmp_path / "people.csv"
    table.to_csv(path, index=False)
    return path


def test_text(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["suspects", str(file), "--min-score", "0.5"]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert [line.split()[1:5] for line in lines] == [["row", "4", "city", '"wrong"'], ["row", "701", "city", '"wrong"']]
    assert all('expected "c' in line and "{zip}: [] -> city" in line for line in lines)
    assert "people: 2,000 rows, 4 columns" in said.err
    assert "2 suspect cells with a score of at least 0.5" in said.err


def test_json_into_a_file(file: Path, tmp_path: Path) -> None:
    output = tmp_path / "suspects.jsonl"
    options = ["--min-score", "0.5", "--format", "json", "--top", "1", "--output", str(output)]
    assert exit_code_of(["suspects", str(file), *options]) == 0
    (line,) = map(json.loads, output.read_text().splitlines())
    assert {name: line[name] for name in ("table", "row", "column", "value")} == {
        "table": "people",
        "row": 4,
        "column": "city",
        "value": "wrong",
    }
    assert line["expected"].startswith("c")
    assert 0.5 <= line["score"] <= 1
    assert "{zip}: [] -> city" in line["constraints"]


def test_nothing_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "clean.csv"
    zips().to_csv(path, index=False)
    assert exit_code_of(["suspects", str(path)]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "0 suspect cells" in said.err


def test_contexts_are_as_large_as_is_feasible(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pd.read_csv(file)
    chance = np.random.default_rng(3)
    table.assign(**{f"x{i}": chance.integers(0, 40, len(table)) for i in range(5)}).to_csv(file, index=False)
    monkeypatch.setattr(lattice, "MOST_CONTEXTS", 10)
    assert exit_code_of(["suspects", str(file), "--min-score", "0.5"]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2
    (line,) = (line for line in said.err.splitlines() if "contexts" in line)
    assert line.startswith("people: contexts of at most 1 column are searched, the most that is feasible: more than ")
    assert exit_code_of(["suspects", str(file), "--max-context", "2"]) == 2
    assert "set a smaller --max-context" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--near", "60%"], "expected a share of the rows from 0% to 50%"),
        (["--min-score", "2"], "is not in the range 0<=x<=1"),
        (["--output", "FILE"], "--output"),
    ],
)
def test_what_is_refused(file: Path, options: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["suspects", str(file), *(str(file) if one == "FILE" else one for one in options)]) == 2
    assert word in capsys.readouterr().err


def test_an_address_is_refused_without_naming_an_option_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["suspects", "s3://bucket/people.parquet"]) == 2
    said = capsys.readouterr().err
    assert "name a path" in said
    assert "--spark" not in said
