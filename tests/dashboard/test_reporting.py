"""The page as one file: what it holds, that nothing in it comes from elsewhere, and that data stay data."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from holdfast.dashboard import reporting
from holdfast.dashboard.reporting import joined, page_with
from holdfast.dashboard.serving import PAGE
from tests.dashboard.conftest import BOSTON, ZIP_CITY
from tests.dashboard.tables import flattened, near_constraint

if TYPE_CHECKING:
    import pytest

    from holdfast.dashboard.answers import Answers
    from tests.dashboard.tables import Written

NOW = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)


def data_of(page: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    found: dict[str, Any] = json.loads(text)
    return found


def test_it_has_the_answers(answers: Answers) -> None:
    data = data_of(page_with(answers, NOW))
    assert data["about"]["written"] == "2026-03-02T00:00:00+00:00"
    told = data["answers"]
    assert [row["constraint"] for row in told["changes"]["rows"] if row["change"] == "disappeared"][1] == ZIP_CITY
    assert told["rules"]["rows"][0]["broken"] is True
    assert told["constraints"]["total"] == len(told["constraints"]["rows"]) == 2
    assert told["history"][""]["families"].keys() == {"dc", "od", "ind"}
    assert told["quarantine"]["rows"][0]["raw"] == '{"Id": 7'
    assert told["overview"] == {**answers.ask("overview", {}), "state": told["overview"]["state"]}


def test_it_has_what_nearly_holds_where_there_is_any(
    written: Written, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = data_of(page_with(answers, NOW))["answers"]
    assert (told["overview"]["near"], "near" in told, "near_constraint" in told) == (None, False, False)
    written.put(flattened([written.near("Zip -> City", 0), written.near("key(Id)", 0)]))
    written.put(flattened([written.near("Zip -> City", 2, 0, [BOSTON]), written.near("State -> Rate", 1)]))
    told = data_of(page_with(answers, NOW))["answers"]
    shown = [(row["constraint"], row["exceptions"]) for row in told["near"]["rows"]]
    assert shown == [("key(Id)", 0), ("{State}: [] -> Rate", 1), ("{Zip}: [] -> City", 2)]
    assert [row["constraint"] for row in told["near"]["moved"]["rows"]] == ["{Zip}: [] -> City"]
    assert told["overview"]["near"]["with_exceptions"] == 2
    zip_city, state_rate = (near_constraint(text, 0)["constraint_id"] for text in ("Zip -> City", "State -> Rate"))
    assert list(told["near_constraint"]) == [zip_city, state_rate]
    assert told["near_constraint"][zip_city] == {
        **answers.ask("near_constraint", {"id": zip_city}),
        "state": told["near_constraint"][zip_city]["state"],
    }
    monkeypatch.setattr(reporting, "MOST_NEAR", 1)
    monkeypatch.setattr(reporting, "MOST_DETAILED", 1)
    told = data_of(page_with(answers, NOW))["answers"]
    assert (len(told["near"]["rows"]), told["near"]["total"], list(told["near_constraint"])) == (1, 3, [zip_city])


def test_long_lists_are_cut_and_say_so(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "MOST_CHANGES", 3)
    told = data_of(page_with(answers, NOW))["answers"]["changes"]
    assert (told["total"], len(told["rows"])) == (6, 3)
    assert told["rows"] == answers.ask("changes", {"limit": "3"})["rows"]


def test_nothing_comes_from_elsewhere(answers: Answers) -> None:
    page = page_with(answers, NOW)
    assert re.findall(r"(?:src|href)=\"?(?!#)[^\s>]*", page.partition("<style>")[0]) == []
    assert "<link" not in page
    assert re.findall(r"^(?:import|export) ", page, re.MULTILINE) == []


def test_its_policy_lets_only_its_own_script_and_style_run(answers: Answers) -> None:
    page = page_with(answers, NOW)
    policy = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[0]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for pattern, directive in (
        (r"<style>(.*?)</style>", "style-src"),
        (r'<script type="module">(.*?)</script>', "script-src"),
    ):
        (text,) = re.findall(pattern, page, re.DOTALL)
        checksum = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{checksum}'" in policy


def test_hostile_values_end_no_element(written: Written, answers: Answers) -> None:
    hostile = "</script><!--<script>alert(1)</script>&amp;\u2028\u202e\x00\ud800"
    row = {"Id": 1, "Zip": hostile}
    written.put(written.disappeared("not(t.Zip = s.Zip)", [row, {**row, "Id": 2}]))
    written.put({"quarantine": [written.bad("<img src=x onerror=alert(1)>", "</script>")]})
    page = page_with(answers, NOW)
    page.encode()
    (found,) = data_of(page)["answers"]["changes"]["rows"][:1]
    assert found["witness"]["rows"][0][0] == hostile
    assert page.count("</script>") == 2
    assert "alert(1)" not in re.sub(r'id="data">.*?</script>', "", page, flags=re.DOTALL)


def test_modules_are_joined_each_once_behind_what_they_need() -> None:
    text = joined("app.js")
    order = re.findall(r"^// (\w+\.js)$", text, re.MULTILINE)
    assert sorted(order) == sorted(file.name for file in PAGE.glob("*.js"))
    assert order[-1] == "app.js"
    for name in order:
        needed = re.findall(r'from "\./(\w+\.js)"', (PAGE / name).read_text("utf-8"))
        assert all(order.index(other) < order.index(name) for other in needed), name
    names = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", text, re.MULTILINE)
    twice = {name for name in names if names.count(name) > 1}
    assert twice == set(), "names of two modules that are joined into one"


def test_a_scheme_changes_colours_alone_and_a_width_hides_nothing() -> None:
    """Why `test_everybody_can_use_it` looks at each scheme once and at each width once."""
    style = (PAGE / "style.css").read_text("utf-8")
    blocks = re.findall(r"@media \(([\w-]+)[^{]*\{(.*?)(?:\n\}|\} \}\n)", style, re.DOTALL)
    (dark,) = (text for name, text in blocks if name == "prefers-color-scheme")
    properties = re.findall(r"([\w-]+): ", dark)
    assert len(properties) > 20
    assert all(name.startswith("--") for name in properties)
    widths = [text for name, text in blocks if name.endswith("width")]
    assert len(widths) == len(re.findall(r"@media .*width", style)) == 3
    assert not re.search(r"color|background|opacity|none|visibility|#|var\(", "".join(widths))
