"""Suspects, as the view and the report show them."""

from __future__ import annotations

import datetime
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.constraints import UsageError
from holdfast.dashboard.reporting import page_with
from tests.dashboard.conftest import BOSTON, CAMBRIDGE, ZIP_CITY
from tests.dashboard.tables import Written, constraint, flattened, near_constraint

if TYPE_CHECKING:
    from holdfast.dashboard.answers import Answers

NOW = datetime.datetime(2026, 3, 31, tzinfo=datetime.UTC)
LYNN = {**BOSTON, "Id": 3, "City": "Lynn"}


def put_suspects(written: Written) -> None:
    """Put three suspects of two tables, and a near constraint that two of them violate."""
    written.put(
        flattened(
            [
                written.near("Zip -> City", 2, 0, [BOSTON]),
                written.suspect(BOSTON, "City", "Cambridge", ["{Zip}: [] -> City", "{Zip}: [] -> State"]),
                written.suspect(LYNN, "City", None, ["{Zip}: [] -> City"], score=0.99),
                written.suspect(CAMBRIDGE, "Zip", None, ["{Zip}: [] -> City"], table_name="other", expected=None),
            ]
        )
    )


def report_of(answers: Answers) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page_with(answers, NOW), re.DOTALL)
    assert found is not None
    told: dict[str, Any] = json.loads(found[1])["answers"]
    return told


def test_suspects_are_listed_with_their_rows(written: Written, answers: Answers) -> None:
    put_suspects(written)
    found = answers.ask("suspects", {})
    assert (found["all"], found["total"]) == (3, 3)
    assert found["values"] == {"table_name": {"tax": 2, "other": 1}, "column": {"City": 2, "Zip": 1}}
    lynn, *others = found["rows"]
    assert (lynn["value"], lynn["expected"], lynn["score"]) == ("Lynn", {"value": None}, 0.99)
    boston, other = sorted(others, key=lambda row: str(row["table_name"]), reverse=True)
    assert (boston["value"], boston["expected"]) == ("Boston", {"value": "Cambridge"})
    assert other["expected"] is None, "no certain value is expected"
    assert [(one["name"], one["named"], one["key"]) for one in boston["columns"]][:4] == [
        ("City", True, False),
        ("Zip", True, False),
        ("State", True, False),
        ("Id", False, True),
    ]
    assert boston["cells"][:4] == ["Boston", "02139", "MA", "2"]
    zip_city, zip_state = boston["constraints"]
    assert zip_city["constraint_id"] == near_constraint("Zip -> City", 0)["constraint_id"]
    assert (zip_city["exceptions"], zip_state["constraint_id"]) == (2, None)
    assert zip_state["sentence"] == "Rows with the same Zip have the same State."
    assert found["as_of"] == {"tax": boston["as_of_commit"], "other": other["as_of_commit"]}


def test_they_are_filtered_and_go_by_pages(written: Written, answers: Answers) -> None:
    put_suspects(written)
    cities = answers.ask("suspects", {"column": "City", "limit": "1", "offset": "1"})
    assert (cities["all"], cities["total"], [row["value"] for row in cities["rows"]]) == (3, 2, ["Boston"])
    assert answers.ask("suspects", {"table_name": "nobody"})["rows"] == []
    with pytest.raises(UsageError, match="limit"):
        answers.ask("suspects", {"limit": "many"})


def test_a_suspect_that_disappeared_is_not_listed(written: Written, answers: Answers) -> None:
    assert answers.ask("suspects", {})["rows"] == []
    put_suspects(written)
    written.put(written.suspect(BOSTON, "City", "Cambridge", [], change="disappeared", reason="changed"))
    assert {row["value"] for row in answers.ask("suspects", {})["rows"]} == {"Lynn", "02139"}


def test_a_report_has_them_where_there_are_any(written: Written, answers: Answers) -> None:
    assert "suspects" not in report_of(answers)
    put_suspects(written)
    assert len(report_of(answers)["suspects"]["rows"]) == 3


def test_suspects_since_the_last_look_are_told(written: Written, answers: Answers) -> None:
    before = written.commit
    put_suspects(written)
    found = answers.ask("since", {"commit": str(before)})["suspects"]
    assert found["total"] == 3
    assert found["rows"][0]["value"] == "Lynn", "the surest comes first"
    assert answers.ask("since", {"commit": str(written.commit)})["suspects"] == {"total": 0, "rows": []}


def marks(shown: Any) -> list[tuple[int, str, Any]]:
    """Return the marked cells: the number of the row, the column, and what is expected."""
    return [(one["row"], shown["columns"][one["column"]]["name"], one["expected"]) for one in shown["suspects"]]


def test_the_rows_of_a_violation_mark_suspects(written: Written, answers: Answers) -> None:
    asked = {"id": constraint(ZIP_CITY)["constraint_id"]}
    assert marks(answers.ask("constraint", asked)["found"]["proof"]["witness"]) == []
    elsewhere = written.suspect(CAMBRIDGE, "City", "Boston", [], table_name="other")
    unnamed = written.suspect(BOSTON, "Rate", 5.5, ["{State}: [] -> Rate"])
    written.put(flattened([written.suspect(BOSTON, "City", "Cambridge", ["{Zip}: [] -> City"]), elsewhere, unnamed]))
    witness = answers.ask("constraint", asked)["found"]["proof"]["witness"]
    assert marks(witness) == [(0, "City", {"value": "Cambridge"})], "neither of another table nor in another column"
    assert witness["suspects"][0]["score"] == 0.95
    written.put(written.suspect(BOSTON, "City", "Cambridge", [], change="disappeared", reason="changed"))
    assert marks(answers.ask("constraint", asked)["found"]["proof"]["witness"]) == []


def test_a_row_that_was_changed_since_is_not_marked(written: Written, answers: Answers) -> None:
    written.put(written.suspect({**BOSTON, "Salary": 1}, "City", "Cambridge", ["{Zip}: [] -> City"]))
    found = answers.ask("constraint", {"id": constraint(ZIP_CITY)["constraint_id"]})["found"]
    assert marks(found["proof"]["witness"]) == []


def test_exceptions_mark_suspects(written: Written, answers: Answers) -> None:
    put_suspects(written)
    asked = {"id": near_constraint("Zip -> City", 0)["constraint_id"]}
    written.put(written.near("Zip -> City", 3, 2, [LYNN, CAMBRIDGE]))
    found = answers.ask("near_constraint", asked)
    shown = found["exceptions"]
    named = {(shown["rows"][row][2], column, str(expected)) for row, column, expected in marks(shown)}
    assert named == {("2", "City", "{'value': 'Cambridge'}"), ("3", "City", "{'value': None}")}
    assert marks(found["rows"][0]["examples"]) == [(0, "City", {"value": None})], "a null is expected"
    report = report_of(answers)["near_constraint"][asked["id"]]
    assert report["exceptions"]["suspects"] == shown["suspects"]
