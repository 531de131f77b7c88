"""`holdfast suspects CONF`: the suspects of live tables, and what `seed` and `status` say of those in the outputs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast.constraints import json_value
from holdfast.jobs.command_line import exit_code_of
from holdfast.state.rocks import RocksStore
from tests.near_outputs import check_suspect_changes
from tests.properties.test_suspects import zips
from tests.streams import Application

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

COLUMNS = {"id": "integer", "zip": "string", "city": "string", "state": "string", "size": "integer"}
PEOPLE = {
    "name": "people",
    "key": ["id"],
    "columns": COLUMNS,
    "seed": {"path": "people.csv"},
    "near": {"share": "2%", "max_context": 2},
}
PLAIN = {"name": "plain", "columns": {"a": "integer", "b": "string"}, "seed": {"path": "plain.csv"}}


def people() -> pd.DataFrame:
    """Return a table with two wrong cells, whose rows violate three strong dependencies each."""
    table = zips()
    table["area"] = table["zip"].map(lambda text: f"a{text}")
    table = table.drop(columns="size")
    table.loc[[3, 700], "zip"] = table["zip"].iloc[9]
    table.insert(0, "id", range(1, len(table) + 1))
    return table


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Application:
    folder = tmp_path_factory.mktemp("state")
    people().to_csv(folder / "people.csv", index=False)
    (folder / "plain.csv").write_text("a,b\n1,x\n")
    columns = {**COLUMNS, "area": "string"}
    del columns["size"]
    made = Application(folder, [{**PEOPLE, "columns": columns}, PLAIN])
    code, said = made("seed")
    assert code == 0, said
    return made


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = exit_code_of(["suspects", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_rows_have_their_keys_in_place_of_numbers(app: Application, capsys: pytest.CaptureFixture[str]) -> None:
    store = RocksStore(app.folder / "state")
    try:
        code, out, err = _run(capsys, str(app.file))
    finally:
        store.close()
    assert code == 0
    assert [line.split()[1:3] for line in out.splitlines()] == [["id=4", "zip"], ["id=701", "zip"]]
    assert "table people as of commit 1" in err
    assert "people: 2,000 rows, 5 columns" in err
    assert "at most 40 exceptions; 2 suspect cells with a score of at least 0.9" in err
    assert "plain: 1 row, 2 columns" in err


def test_they_are_those_of_a_file_with_the_same_rows(app: Application, capsys: pytest.CaptureFixture[str]) -> None:
    words = (str(app.file), "--table", "people", "--min-score", "0.05", "--format", "json")
    _, out, _ = _run(capsys, *words)
    found = list(map(json.loads, out.splitlines()))
    expected = holdfast.suspects(people(), name="people", near="2%", max_context=2, min_score=0.05)
    assert len(expected) == 2
    assert [(row["key"], row["column"], row["value"], row["score"], row["constraints"]) for row in found] == [
        (
            {"id": (one.row or 0) + 1},
            one.column,
            json_value(one.value),
            round(one.score, 4),
            [*map(str, one.constraints)],
        )
        for one in expected
    ]
    _, out, _ = _run(capsys, *words, "--near", "0%", "--max-context", "1")
    assert out == ""


def test_the_seed_publishes_them(app: Application, capsys: pytest.CaptureFixture[str]) -> None:
    held = app.output("suspects")
    assert {(row["row_key"], row["column"], row["as_of_commit"]) for row in held} == {
        ('{"id":4}', "zip", 1),
        ('{"id":701}', "zip", 1),
    }
    changes = app.output("suspect_changes")
    assert {(row["change"], row["cause"], row["source"]) for row in changes} == {("appeared", "seed", "people")}
    check_suspect_changes({"suspects": held, "suspect_changes": changes})
    assert exit_code_of(["status", str(app.file)]) == 0
    heading, first, other = [line.split("  ") for line in capsys.readouterr().out.splitlines()[2:5]]
    assert "suspects" in map(str.strip, heading)
    assert "2 (commit 1)" in map(str.strip, first)
    assert "-" in map(str.strip, other)


def test_the_seed_publishes_where_exceptions_are(tmp_path: Path) -> None:
    table = people().assign(source=["web", "shop"] * 1_000)
    table.loc[[3, 700, 1_100, 1_200, 1_300, 1_400], "source"] = "import-7"
    table.loc[[1_100, 1_200, 1_300, 1_400], "zip"] = table["zip"].iloc[9]
    table.to_csv(tmp_path / "people.csv", index=False)
    columns = {"id": "integer", **dict.fromkeys(("zip", "city", "state", "area", "source"), "string")}
    made = Application(tmp_path, [{**PEOPLE, "columns": columns}])
    code, said = made("seed")
    assert code == 0, said
    held = {(row["constraint"], row["column"]): row for row in made.output("concentrations")}
    row = held["{zip}: [] -> city", "source"]
    assert (json.loads(row["value"]), row["exceptions"], row["of_exceptions"]) == ("import-7", 6, 6)
    assert (row["rows"], row["of_rows"], row["holds_elsewhere"], row["as_of_commit"]) == (6, 2_000, True, 1)
    (rule,) = json.loads(row["rules"])
    assert rule == "not(t.zip = s.zip and t.city != s.city and t.source != 'import-7' and s.source != 'import-7')"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["CONF", "--table", "nobody"], "has no table called 'nobody'"),
        (["CONF", "CONF"], "is a configuration: name it alone"),
        (["CONF", "--limit", "3"], "--limit is for a file"),
        (["FILE", "--table", "people"], "--table is for a configuration"),
    ],
)
def test_what_is_refused(
    app: Application, words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "people.csv").write_text("a\n1\n")
    places = {"CONF": str(app.file), "FILE": str(tmp_path / "people.csv")}
    code, out, err = _run(capsys, *(places.get(word, word) for word in words))
    assert (code, out) == (2, "")
    assert said in err
