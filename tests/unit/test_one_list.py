"""`holdfast discover --near SHARE --family ...,dc`: one list of near constraints and denial constraints, each rule once."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from holdfast.constraints import DenialConstraint, parse_constraint
from holdfast.constraints.parsing import parse_rule_body
from holdfast.discovery.near import lattice
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.searches.stated import NearForms
from tests.taxes import tax_records

SEARCH = ("discover", "tax.csv", "--near", "1%", "--family", "key,fd,od,dc", "--max-predicates", "3", "--examples", "0")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    records = tax_records(1_500).to_pandas()[["State", "Zip", "City", "Salary", "Rate", "HasChild"]]
    records["City"] = records["City"].astype(str)
    frequent = records["Zip"].value_counts().index[:3]
    wrong = [int(records.index[records["Zip"] == code][1]) for code in frequent]
    records.loc[wrong, "City"] = "Nowhere"
    records.to_csv("tax.csv", index=False)
    return tmp_path


def _lines(capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, object]]:
    assert exit_code_of([*SEARCH, "--format", "json", "--quiet", *more]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_counts_are_in_the_singular(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "one.csv").write_text("a\n1\n")
    (folder / "grows.csv").write_text(
        "k,f,g\n" + "".join(f"{n % 5},{'abcca'[n % 5]},{n * n % 7 % 3}\n" for n in range(200))
    )
    assert exit_code_of(["discover", "one.csv", *SEARCH[2:], "--top", "5"]) == 0
    assert capsys.readouterr().err.count("one: 1 row, 1 column; ") == 2
    assert exit_code_of(["discover", "grows.csv", "--family", "dc", "--top", "5"]) == 0
    assert re.search("1 of [0-9]+ is sound; ", capsys.readouterr().err)


def test_the_first_are_sound_ones_of_both_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _lines(capsys, "--top", "30")
    assert {line["family"] for line in lines} == {"near", "dc"}
    assert all(line["sound"] for line in lines)
    assert [line["rank"] for line in lines] == list(range(1, len(lines) + 1))
    scores = [float(str(line["score"])) for line in lines]
    assert scores == sorted(scores, reverse=True)
    (city,) = (line for line in lines if line["constraint"] == "{Zip}: [] -> City")
    assert city["exceptions"] == 3
    assert _lines(capsys, "--top", "2") == lines[:2]


def test_no_rule_is_listed_twice_and_all_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    forms = NearForms(dict.fromkeys(("key", "fd", "od"), 3))
    lines = _lines(capsys)
    exact = {str(line["constraint"]) for line in lines if line["family"] == "dc"}
    assert exact
    assert not [text for text in exact if parse_constraint(text) in forms]
    assert exit_code_of(["discover", "tax.csv", "--family", "dc", "--max-predicates", "3", "--format", "json"]) == 0
    every = [json.loads(line)["constraint"] for line in capsys.readouterr().out.splitlines()]
    assert exact == {text for text in every if parse_constraint(text) not in forms}
    ranked = _lines(capsys, "--top", "100000", "--all")
    assert sorted(str(line["constraint"]) for line in ranked) == sorted(str(line["constraint"]) for line in lines)
    assert {line["sound"] for line in ranked} == {True, False}
    assert all(("why_not" in line) is not line["sound"] for line in ranked)


def test_contexts_that_are_too_many_leave_no_denial_constraint_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lattice, "MOST_CONTEXTS", 10)  # six columns have 15 contexts of two
    lines = _lines(capsys)
    searched, every = NearForms(dict.fromkeys(("key", "fd", "od"), 1)), NearForms(dict.fromkeys(("key", "fd", "od"), 3))
    exact = [parse_constraint(str(line["constraint"])) for line in lines if line["family"] == "dc"]
    assert not [one for one in exact if one in searched]
    assert [one for one in exact if one in every], "near constraints of two columns were not searched"


def test_a_constraint_without_near_form_is_never_left_out() -> None:
    forms = NearForms(dict.fromkeys(("key", "fd", "od"), 2))
    near = ["key(a)", "a, b -> c", "not(t.a = s.a and t.b < s.b and t.c < s.c)", "not(t.b > s.b and t.c < s.c)"]
    other = [
        "key(a, b, c)",
        "a, b, c -> d",
        "not(t.a <= s.a and t.b > s.b)",
        "not(t.a = s.b)",
        "not(t.a = s.a and t.b != s.c)",
        "not(t.a != s.a and t.b != s.b)",
    ]
    said = [text if text.startswith("not") else _as_denial(text) for text in near + other]
    assert [parse_constraint(text) in forms for text in said] == [True] * len(near) + [False] * len(other)


def _as_denial(rule: str) -> str:
    body = parse_rule_body(rule)
    assert isinstance(body, DenialConstraint)
    return str(body)


def test_dc_alone_is_no_near_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["discover", "tax.csv", "--near", "1%", "--family", "dc"]) == 2
    assert "name one of these too" in capsys.readouterr().err


def test_rules_of_one_list_hold_on_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of([*SEARCH, "--top", "12", "--as-rules", "--output", "rules.yaml", "--quiet"]) == 0
    assert exit_code_of(["check", "tax.csv", "--rules", "rules.yaml"]) == 0
    assert pd.read_csv("tax.csv").shape == (1_500, 6)
    assert "Nowhere" in capsys.readouterr().out
