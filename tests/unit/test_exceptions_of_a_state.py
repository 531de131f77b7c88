"""`holdfast exceptions CONF`: the rows of a state, also while another process has it, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from holdfast.jobs.command_line import exit_code_of
from holdfast.state.rocks import RocksStore
from tests.streams import Application

if TYPE_CHECKING:
    from pathlib import Path

PEOPLE = {
    "name": "people",
    "key": ["id"],
    "columns": {"id": "integer", "zip": "string", "city": "string"},
    "seed": {"path": "people.csv"},
    "near": "20%",
}
ROWS = "id,zip,city\n1,a,A\n2,a,A\n3,a,B\n4,b,C\n5,b,D\n6,,A\n"
ZIP_CITY = "zip -> city"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Application:
    folder = tmp_path_factory.mktemp("state")
    (folder / "people.csv").write_text(ROWS)
    made = Application(folder, [PEOPLE])
    code, said = made("seed")
    assert code == 0, said
    return made


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = exit_code_of(["exceptions", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_rows_are_listed_without_numbers(app: Application, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _run(capsys, str(app.file), ZIP_CITY)
    assert code == 0
    assert sorted(csv.reader(io.StringIO(out))) == [
        ["_undecided", "id", "zip", "city"],
        ["false", "3", "a", "B"],
        ["true", "4", "b", "C"],
        ["true", "5", "b", "D"],
    ]
    assert err.splitlines() == [
        "table people as of commit 1",
        "people: {zip}: [] -> city: 2 exceptions of 6 rows; 1 certain, 2 undecided",
    ]


def test_another_process_may_have_the_state(
    app: Application, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    store = RocksStore(app.folder / "state")
    try:
        target = tmp_path / "rows.parquet"
        words = (str(app.file), "key(zip, city)", "--table", "people", "--output", str(target), "--quiet")
        assert _run(capsys, *words) == (0, "", "")
    finally:
        store.close()
    assert sorted(row["id"] for row in pq.read_table(target).to_pylist()) == [1, 2]


def test_what_is_shown_in_the_outputs_is_among_them(app: Application, capsys: pytest.CaptureFixture[str]) -> None:
    shown = app.output("exceptions")
    assert shown
    for constraint in {row["constraint"] for row in shown}:
        _, out, _ = _run(capsys, str(app.file), constraint)
        listed = {row["id"]: row["_undecided"] == "true" for row in csv.DictReader(io.StringIO(out))}
        for row in (one for one in shown if one["constraint"] == constraint):
            assert listed[str(json.loads(row["row"])["id"])] == row["undecided"]


def test_where_the_exceptions_are_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        f"{i},z{i % 9},{'n/a' if i % 20 == 7 else f'c{i % 9}'},{'2024-03-01' if i % 20 == 7 else ''}"
        for i in range(200)
    ]
    (tmp_path / "people.csv").write_text("\n".join(["id,zip,city,moved", *rows]))
    columns = {"id": "integer", "zip": "string", "city": "string", "moved": "date"}
    made = Application(tmp_path, [{**PEOPLE, "columns": columns}])
    code, said = made("seed")
    assert code == 0, said
    code, _, err = _run(capsys, str(made.file), ZIP_CITY)
    assert code == 0
    assert err.splitlines() == [
        "table people as of commit 1",
        "people: {zip}: [] -> city: 10 exceptions of 200 rows; 10 certain, 0 undecided",
        'where: moved = "2024-03-01": 10 of 10 exceptions, 5 % of all rows',
        (
            'holds except where moved = "2024-03-01": '
            "not(t.zip = s.zip and t.city != s.city and t.moved is null and s.moved is null)"
        ),
    ]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ((ZIP_CITY, "--table", "peple"), "no table called 'peple'; did you mean 'people'?"),
        (("zip -> town",), "table people has no column 'town'"),
        (("not(t.id < s.id)",), "exceptions are counted of keys"),
        ((ZIP_CITY, "--limit", "3"), "--limit is for a file: leave it out with a configuration."),
        ((ZIP_CITY, "--output", "x.json"), "expected .csv or .parquet"),
    ],
)
def test_refusals(app: Application, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], part: str) -> None:
    code, out, err = _run(capsys, str(app.file), *words)
    assert (code, out) == (2, "")
    assert part in err


def test_before_there_is_a_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "people.csv").write_text(ROWS)
    two = Application(tmp_path, [PEOPLE, {**PEOPLE, "name": "others"}])
    code, _, err = _run(capsys, str(two.file), ZIP_CITY)
    assert code == 2
    assert "has several tables: name one with --table: people, others" in err
    code, _, err = _run(capsys, str(two.file), ZIP_CITY, "--table", "others")
    assert code == 4
    assert "holds no state yet: holdfast run" in err
    code, _, err = _run(capsys, str(tmp_path / "people.csv"), ZIP_CITY, "--table", "others")
    assert code == 2
    assert "--table is for a configuration" in err
