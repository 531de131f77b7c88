"""`holdfast discover FILE...` without `--family`: what is in the files, each constraint once, those that say most first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.constraints import near_form, parse_rule_body
from holdfast.display.short_forms import KINDS
from holdfast.jobs.command_line import exit_code_of
from tests.flights import FOREIGN_KEYS, flight_tables

if TYPE_CHECKING:
    from pathlib import Path

FILES = ("airlines.csv", "airports.csv", "flights.csv", "planes.csv", "weather.csv")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, table in flight_tables(rows=1_500).items():
        table.to_csv(f"{name}.csv", index=False)
    return tmp_path


def _lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[str], list[str]]:
    assert exit_code_of(["discover", *arguments]) == 0
    shown = capsys.readouterr()
    return shown.out.splitlines(), shown.err.splitlines()


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _lines(capsys, *arguments, "--format", "json")[0]]


def test_all_files_in_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = _lines(capsys, *FILES)
    cells = [line.split(maxsplit=3) for line in out]
    texts = [text.partition("  (")[0] for *_, text in cells]
    assert {"key(tailnum)", "key(faa)", "key(carrier)", "model -> seats", "-> year", *FOREIGN_KEYS} <= set(texts)
    assert {kind for _, _, kind, _ in cells} <= set(KINDS)
    assert {table for _, table, _, _ in cells} == {"airlines", "airports", "flights", "planes", "weather"}
    assert [float(score) for score, *_ in cells] == sorted((float(score) for score, *_ in cells), reverse=True)
    (tailnum,) = (line for line in out if "flights.tailnum" in line)
    assert "% of rows; " in tailnum
    assert "planes: 200 rows, 5 columns; 1 key, " in "\n".join(err)
    assert err[-1].endswith("; --all shows all")
    assert any("--max-context" in line and "--max-predicates" in line for line in err)


def test_each_once_and_the_number_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = _lines(capsys, *FILES, "--all", "--formal")
    every = [tuple(line.split(maxsplit=3)[1:]) for line in out]
    assert len(set(every)) == len(every)
    sound = [line for line in _json(capsys, *FILES, "--all") if line["sound"]]
    shown = _json(capsys, *FILES, "--top", "1000")
    assert [line["rank"] for line in shown] == list(range(1, len(shown) + 1))
    assert len(shown) < len(sound) < len(every)
    assert {line["constraint"] for line in sound if line["kind"] != "functional_dependency"} == {
        line["constraint"] for line in shown if line["kind"] != "functional_dependency"
    }
    first, notes = _lines(capsys, *FILES, "--top", "3")
    assert first == _lines(capsys, *FILES)[0][:3]
    assert notes[-1] == (
        f"{len(sound)} of {len(every)} constraints are sound, 3 are shown: --top N shows more; --all shows all"
    )
    _, notes = _lines(capsys, *FILES, "--top", "1000")
    assert notes[-1] == (
        f"{len(sound)} of {len(every)} constraints are sound, {len(sound) - len(shown)} follows from others; "
        "--all shows all"
    )
    assert not [line for line in err if "--all" in line]


def test_programs_get_the_formal_text_with_the_fields_of_its_family(capsys: pytest.CaptureFixture[str]) -> None:
    lines = {line["constraint"]: line for line in _json(capsys, *FILES, "--top", "1000")}
    key = lines["not(t.tailnum = s.tailnum)"]
    assert (key["family"], key["kind"], key["table"]) == ("dc", "key", "planes")
    assert lines["not(t.model = s.model and t.seats != s.seats)"]["kind"] == "functional_dependency"
    foreign = lines["flights.tailnum in planes.tailnum"]
    assert (foreign["family"], foreign["kind"], foreign["referenced_table"]) == ("ind", "foreign_key", "planes")
    assert 0.6 < foreign["row_coverage"] < 1
    assert len(foreign["examples"]) == 3
    assert all("exceptions" not in line for line in lines.values())


def test_what_a_key_implies_is_no_finding(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = _lines(capsys, "planes.csv", "airports.csv", "--all")
    assert not [line for line in out if "tailnum ->" in line or "{tailnum}" in line or "faa ->" in line]


@pytest.mark.parametrize("kind", ["key", "foreign_key", "functional_dependency", "constant"])
def test_kinds_narrow_the_list(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    out, _ = _lines(capsys, *FILES, "--top", "1000")
    some, _ = _lines(capsys, *FILES, "--top", "1000", "--kind", kind)
    assert some
    assert some == [line for line in out if line.split()[2] == kind]
    assert _lines(capsys, *FILES, "--top", "1000", "--kind", f"{kind},other")[0] == [
        line for line in out if line.split()[2] in {kind, "other"}
    ]


def test_families_narrow_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    keys, _ = _lines(capsys, *FILES, "--family", "key")
    assert {line.split()[1] for line in keys} == {"key"}
    assert "planes    key                    key(tailnum)" in keys
    foreign = [
        line["constraint"].replace(" in ", " -> ") for line in _json(capsys, *FILES, "--family", "fk", "--top", "5")
    ]
    assert set(foreign) == FOREIGN_KEYS
    assert set(_lines(capsys, *FILES, "--family", "key,fk", "--top", "99")[0]) == {
        line for line in _lines(capsys, *FILES, "--top", "1000")[0] if line.split()[2] in {"key", "foreign_key"}
    }


def test_coverage_narrows_foreign_keys_and_goes_with_top(capsys: pytest.CaptureFixture[str]) -> None:
    whole = _json(capsys, *FILES, "--family", "fk", "--min-coverage", "1", "--top", "9")
    assert {line["coverage"] for line in whole} == {1.0}
    ranked = _json(capsys, *FILES, "--family", "ind", "--min-coverage", "0.5", "--top", "15")
    assert {line["constraint"].replace(" in ", " -> ") for line in ranked} == FOREIGN_KEYS
    every = _json(capsys, *FILES, "--family", "ind", "--min-coverage", "0.5", "--top", "15", "--all")
    assert every[: len(ranked)] == ranked
    assert len(every) == 15
    assert {line["sound"] for line in every[len(ranked) :]} == {False}


def test_rules_of_all_kinds_are_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("discover", *FILES, "--as-rules", "--quiet")
    assert exit_code_of([*arguments, "--top", "1000"]) == 0
    text = capsys.readouterr().out
    for part in ("key: [tailnum]", 'fd: "model -> seats"', "inclusion: ", "name: planes_model_seats, table: planes"):
        assert part in text
    assert exit_code_of([*arguments, "--top", "1000", "--output", "rules.yaml"]) == 0
    assert exit_code_of(["check", *FILES, "--rules", "rules.yaml", "--examples", "0"]) == 0
    assert text.count("\n") - 1 == capsys.readouterr().out.count("\n")


def test_texts_are_read_as_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    formal = [line["constraint"] for line in _json(capsys, "planes.csv", "--all")]
    texts = [line.split(maxsplit=2)[2] for line in _lines(capsys, "planes.csv", "--all", "--quiet")[0]]
    assert len(texts) == len(formal)
    read = [[near_form(parse_rule_body(text)) for text in some] for some in (texts, formal)]
    assert None not in read[0]
    assert read[0] == read[1]
