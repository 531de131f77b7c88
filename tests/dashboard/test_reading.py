"""What the views show, against what stands in the tables, told by plain loops over all rows."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from holdfast.constraints import ExternalError, StateRefused, UsageError
from holdfast.dashboard.answers import Answers
from holdfast.dashboard.reading.changes import ChangeFilter, ConstraintChanges
from holdfast.dashboard.reading.outputs import Outputs
from tests.dashboard.conftest import BOSTON, CAMBRIDGE, KEY, LOST, SALARY, ZIP_CITY
from tests.dashboard.tables import Written, flattened, many
from tests.object_store import ObjectStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Return some thousand changes of five tables, in several files a day."""
    made = Written(tmp_path_factory.mktemp("large"))
    many(made, held=400, changes=3_000, days=4, at_once=700)
    return Answers(Outputs(str(made.place), made.application))


def rows_of(answers: Answers, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(f"{answers.outputs.place}/{name}").to_pyarrow_table().to_pylist()
    return found


def every(answers: Answers, question: str, limit: int, **given: str) -> list[dict[str, Any]]:
    """Return all rows of a list, page by page."""
    rows: list[dict[str, Any]] = []
    while True:
        page = answers.ask(question, {**given, "limit": str(limit), "offset": str(len(rows))})
        rows += page["rows"]
        if not page["rows"]:
            assert page["total"] == len(rows)
            return rows


def needed(question: str) -> dict[str, str]:
    """Return the parameters without which a question cannot be asked."""
    one = {"id": "0" * 64}
    return {"near_constraint": one, "constraint": one, "incident": {"commit": "2", "table_name": "tax"}}.get(
        question, {}
    )


def names(rows: list[dict[str, Any]]) -> list[tuple[int, str, str]]:
    return [(row["commit"], row["constraint_id"], row["change"]) for row in rows]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"change": "disappeared"},
        {"table_name": "table_3", "kind": "key"},
        {"q": "column_3 AMOUNT_7"},
        {"q": "value"},
        {"reason": "released", "q": "rate_1"},
        {"cause": "seed", "table_name": "table_0"},
        {"family": "od"},
        {"day": "2026-03-02", "change": "appeared"},
    ],
)
def test_pages_of_changes_are_the_rows_that_fit(large: Answers, given: dict[str, str]) -> None:
    expected = []
    words = given.get("q", "").lower().split()
    for row in rows_of(large, "constraint_changes"):
        text = f"{row['constraint']}\n{row['sentence']}\n{row['by'] or ''}".lower()
        fits = all(row[name] == value for name, value in given.items() if name not in {"q", "day"})
        fits &= str(row["date"]) <= given.get("day", "9999")
        if fits and all(word in text for word in words):
            expected.append(row)
    found = every(large, "changes", 137, **given)
    assert sorted(names(found)) == sorted(names(expected))
    assert [row["commit"] for row in found] == sorted((row["commit"] for row in found), reverse=True)


def test_pages_stay_those_of_one_moment(written: Written, answers: Answers) -> None:
    first = answers.ask("changes", {"limit": "2"})
    written.put(written.appeared("not(t.Phone = s.Phone)"))
    second = answers.ask("changes", {"limit": "9", "offset": "2", "until": str(first["until"])})
    assert len(names(first["rows"] + second["rows"])) == len(set(names(first["rows"] + second["rows"]))) == 6
    assert second["total"] == first["total"] == 6


def test_a_change_has_its_rows_side_by_side(answers: Answers) -> None:
    (found,) = answers.ask("changes", {"change": "disappeared", "table_name": "tax"})["rows"]
    assert found["constraint"] == ZIP_CITY
    assert found["sentence"] == "Rows with the same Zip have the same City."
    witness = found["witness"]
    shown = {
        column["name"]: (column["spoken"], column["differs"], cells)
        for column, *cells in zip(witness["columns"], *witness["rows"], strict=True)
    }
    assert shown["Zip"] == ([True, True], False, ["02139", "02139"])
    assert shown["City"] == ([True, True], True, ["Boston", "Cambridge"])
    assert shown["Salary"] == ([False, False], True, ["60000", "50000"])
    assert [column["name"] for column in witness["columns"]][:3] == ["Zip", "City", "Id"]


def test_the_history_of_one_constraint(large: Answers) -> None:
    rows = rows_of(large, "constraint_changes")
    for row in random.Random(5).sample(rows, 10):
        expected = [other for other in rows if other["constraint_id"] == row["constraint_id"]]
        found = every(large, "changes", 100, id=row["constraint_id"])
        assert sorted(names(found)) == sorted(names(expected))


def test_counts_over_time_end_with_what_holds(large: Answers) -> None:
    rows = rows_of(large, "constraint_changes")
    for given in ({}, {"table_name": "table_2"}):
        fitting = [row for row in rows if all(row[name] == value for name, value in given.items())]
        (points,) = large.ask("history", given)["families"].values()
        held = large.ask("constraints", {**given, "limit": "0"})["total"]
        assert points[-1][1] == held
        for ms, count in points[:: len(points) // 7]:
            until = [row for row in fitting if row["committed_at"].timestamp() * 1_000 < ms + 1]
            assert count == sum(1 if row["change"] == "appeared" else -1 for row in until)


@pytest.mark.parametrize(
    "given",
    [{}, {"q": "column_3 amount_7"}, {"table_name": "table_1", "kind": "key"}, {"q": "SAME Rate_2", "order": "newest"}],
)
def test_constraints_are_searched_and_ranked(large: Answers, given: dict[str, str]) -> None:
    expected = []
    for row in rows_of(large, "constraints"):
        text = f"{row['constraint']}\n{row['sentence']}".lower()
        fits = all(row[name] == value for name, value in given.items() if name not in {"q", "order"})
        if fits and all(word in text for word in given.get("q", "").lower().split()):
            expected.append(row)
    found = every(large, "constraints", 100, **given)
    assert sorted(row["constraint_id"] for row in found) == sorted(row["constraint_id"] for row in expected)
    order = [row["since_commit"] if given.get("order") == "newest" else row["score"] for row in found]
    assert order == sorted(order, reverse=True)


def test_old_changes_beyond_the_most_are_left_out(large: Answers) -> None:
    changes = ConstraintChanges(large.outputs, most=100)
    changes.refresh()
    page = changes.page(ChangeFilter({}), 0, 200)
    newest = sorted((row["commit"] for row in rows_of(large, "constraint_changes")), reverse=True)
    assert [row["commit"] for row in page["rows"]] == newest[:100]
    assert changes.left_out == len(newest) - 100


def test_what_changed_counts_the_data_alone(written: Written, answers: Answers) -> None:
    found = answers.ask("overview", {"span": "hour"})["changed"]
    assert found == {"orders": {"appeared": 0, "disappeared": 1}, "tax": {"appeared": 0, "disappeared": 1}}
    written.wait(30 * 3_600)
    written.put(written.appeared("not(t.Phone = s.Phone)"))
    written.put({"batches": [written.batch()]})
    assert answers.ask("overview", {"span": "day"})["changed"] == {"tax": {"appeared": 1, "disappeared": 0}}


def test_files_that_were_joined_bring_nothing_new(written: Written, answers: Answers) -> None:
    before = answers.ask("changes", {})
    table = DeltaTable(str(written.place / "constraint_changes"))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    again = Answers(Outputs(str(written.place), written.application)).ask("changes", {})
    after = answers.ask("changes", {})
    assert after["state"] != before["state"]
    assert after["rows"] == before["rows"] == again["rows"]


def test_files_that_go_while_they_are_read_are_looked_for_anew(written: Written, answers: Answers) -> None:
    answers.every = 1_000.0  # as if the commits that took the files away came behind the last look
    before = answers.ask("changes", {"limit": "1"})["rows"]
    table = DeltaTable(str(written.place / "constraint_changes"))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert answers.ask("changes", {"limit": "1"})["rows"] == before


def test_rules_begin_with_the_broken_ones(answers: Answers) -> None:
    broken, holding = answers.ask("rules", {})["rows"]
    assert (broken["rule"], broken["broken"], broken["violating_pairs"]) == ("salaries", True, 2)
    assert (holding["rule"], holding["holds"], holding["examples"]) == ("keys", True, [])
    assert [count for _, count in broken["passed"]] == [0, 2, 2]
    (example,) = broken["examples"]
    differing = [c["name"] for c in example["witness"]["columns"] if c["differs"] and any(c["spoken"])]
    assert differing == ["Salary", "Rate"]
    assert broken["sentence"].startswith("Among rows with the same State, no row with a higher Salary")


def test_examples_that_were_removed_are_shown_no_more(written: Written, answers: Answers) -> None:
    other = [BOSTON, {**CAMBRIDGE, "Id": 3}]
    answers.ask("rules", {})
    gone, come = written.example("salaries", [BOSTON, CAMBRIDGE], "removed"), written.example("salaries", other)
    written.put({"violations": [gone, come], "rule_status": [written.rule("salaries", SALARY, 1)]})
    fresh = Answers(Outputs(str(written.place), written.application))
    for asked in (answers, fresh):
        (example,) = asked.ask("rules", {})["rows"][0]["examples"]
        assert "3" in example["witness"]["rows"][1]
    written.put({"violations": [written.example("salaries", other, "removed")]})
    written.put({"rule_status": [written.rule("salaries", SALARY, 0)]})
    assert all(not row["examples"] and not row["broken"] for row in answers.ask("rules", {})["rows"])


def test_a_rule_that_is_declared_no_more_is_not_shown(written: Written, answers: Answers) -> None:
    written.put(
        {
            "rule_status": [
                {"rule": "keys", "table_name": "tax", "committed_at": written.rule("", KEY, 0)["committed_at"]}
            ]
        }
    )
    assert [row["rule"] for row in answers.ask("rules", {})["rows"]] == ["salaries"]


def test_near_inclusions(written: Written) -> None:
    near = [{"constraint": LOST, "coverage": 0.9, "missing_values": 1, "missing_occurrences": 1}]
    answers = Answers(Outputs(str(written.place), written.application), lambda: near, every=0.0)
    rule = {"missing_values": 3, "violating_pairs": None}
    written.put({"rule_status": [written.rule("customers", LOST, 3, **rule)]})
    found = answers.ask("inclusions", {})
    assert [row["constraint"] for row in found["lost"]] == [LOST]
    assert found["lost"][0]["witness"]["value"] == "4711"
    assert [row["rule"] for row in found["declared"]] == ["customers"]
    assert found["near"] == near
    written.put(written.appeared(LOST, "orders"))
    assert answers.ask("inclusions", {})["lost"] == []


def test_batches_of_a_span(written: Written, answers: Answers) -> None:
    for number in range(10):
        written.wait(599)
        line = written.batch(rows_in=number, seconds=f'{{"apply":{number}}}', lag_records=number)
        written.put({"batches": [line]})
    found = answers.ask("batches", {"span": "hour"})
    assert (found["batches"], found["sums"]["rows_in"]) == (7, sum(range(3, 10)))
    assert (found["seconds"]["longest"], found["newest"][0]["seconds"]) == (9.0, 9.0)
    assert sum(point["records"] for point in found["course"]) == sum(range(3, 10))
    assert found["course"][-1]["behind"] == 9
    assert answers.ask("batches", {"span": "day", "table_name": "nope"})["batches"] == 0


def test_quarantine_by_reason(written: Written, answers: Answers) -> None:
    written.put({"quarantine": [written.bad("x" * 10_000, "too long", f"tax-0-{n}") for n in range(5)]})
    found = answers.ask("quarantine", {"reason": "too long", "limit": "3", "offset": "3"})
    assert (found["total"], len(found["rows"])) == (5, 2)
    assert found["rows"][0]["raw"].endswith("… (10,000 characters)")
    assert found["reasons"][0] == {"reason": "too long", "count": 5}
    assert [row["raw"] for row in answers.ask("quarantine", {"reason": "JSON"})["rows"]] == ['{"Id": 7']


def test_tables_of_a_pipeline_that_has_just_begun(tmp_path: Path) -> None:
    made = Written(tmp_path)
    answers = Answers(Outputs(str(made.place), made.application))
    for question in answers.questions:
        assert answers.ask(question, needed(question))["state"]
    assert answers.ask("overview", {})["held"] == 0


@pytest.mark.parametrize(
    ("question", "given", "part"),
    [
        ("nope", {}, "no question"),
        ("changes", {"limit": "501"}, "at most 500"),
        ("changes", {"limit": "-1"}, "whole number"),
        ("changes", {"offset": "1e9"}, "whole number"),
        ("changes", {"q": "x" * 3_000}, "3,000 characters"),
        ("constraints", {"order": "size; drop"}, "expected one of score"),
        ("changes", {"day": "yesterday"}, "such as 2026-03-31"),
        ("changes", {"day": "0001-01-01"}, "from 1970-01-01"),
        ("batches", {"span": "year"}, "expected one of hour"),
    ],
)
def test_parameters_are_checked(answers: Answers, question: str, given: dict[str, str], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        answers.ask(question, given)


def test_tables_of_another_application_are_refused(written: Written) -> None:
    with pytest.raises(StateRefused, match="belongs to the application 'shop'"):
        Outputs(str(written.place), "market").refresh()


def test_storage_that_is_damaged(written: Written, answers: Answers) -> None:
    answers.ask("changes", {})
    for file in (written.place / "constraint_changes").rglob("*.parquet"):
        file.write_bytes(b"PAR1 no more")
    with pytest.raises(ExternalError, match="constraint_changes could not be read"):
        answers.ask("changes", {"q": "anything"})


def test_a_place_that_only_spark_reaches() -> None:
    with pytest.raises(UsageError, match="read by Spark only"):
        Outputs("hdfs://host/tables", "shop")


def test_half_a_commit_is_shown_as_it_is(written: Written, answers: Answers) -> None:
    """Tables get a commit one after the other: in between the list of changes is ahead of the set."""
    rows = written.appeared("not(t.Phone = s.Phone)")
    written.put({"constraint_changes": rows["constraint_changes"]})
    assert answers.ask("changes", {})["total"] == 7
    assert answers.ask("constraints", {})["total"] == 2
    written.put(flattened([{"constraints": rows["constraints"]}]))
    assert answers.ask("constraints", {})["total"] == 3


def test_outputs_on_an_object_store(written: Written, answers: Answers) -> None:
    store = ObjectStore()
    for file in written.place.rglob("*"):
        if file.is_file():
            store.objects[f"bucket/tables/{file.relative_to(written.place)}"] = file.read_bytes()
    there = Answers(Outputs("s3://bucket/tables", written.application, store.options), every=0.0)
    for question in answers.questions:
        assert there.ask(question, needed(question)) == answers.ask(question, needed(question))
    store.fails = lambda _: 403
    with pytest.raises(ExternalError, match=r"s3://bucket/tables/.* could not be"):
        there.ask("changes", {"q": "anything"})
    store.close()


def test_sound_constraints_are_listed_and_the_others_are_counted(written: Written, answers: Answers) -> None:
    texts = {f"not(t.C{n} = s.C{n})": n % 3 == 0 for n in range(6)}
    rows = [written.appeared(text, score=0.9 - 0.1 * n) for n, text in enumerate(texts)]
    for one, is_sound in zip(rows, texts.values(), strict=True):
        one["constraints"][0] |= {"sound": is_sound}
    before = answers.ask("constraints", {})["total"]
    assert answers.ask("constraints", {})["unsound"] == 0, "it is not known which of them are sound"
    written.put(flattened(rows))
    found = answers.ask("constraints", {"limit": "50"})
    assert (found["total"], found["unsound"], found["held"]) == (before + 2, 4, before + 6)
    assert {row["constraint"] for row in found["rows"]} & texts.keys() == {
        text for text, sound in texts.items() if sound
    }
    every = answers.ask("constraints", {"limit": "50", "every": "yes"})
    assert (every["total"], every["unsound"]) == (before + 6, 0)
    assert [row["sound"] for row in every["rows"]][-4:] == [False] * 4, "sound ones come first"
    assert answers.ask("constraints", {"q": "C1"})["unsound"] == 1
    with pytest.raises(UsageError, match="every"):
        answers.ask("constraints", {"every": "maybe"})


def test_a_constraint_has_the_query_that_proves_it(written: Written, answers: Answers) -> None:
    written.put(flattened([written.appeared(ZIP_CITY)]))
    (row,) = answers.ask("constraints", {"q": "Zip City"})["rows"][:1]
    text = answers.ask("constraint", {"id": row["constraint_id"]})["found"]["query"]
    assert text.startswith(f"-- {row['constraint']}\n")
    assert "from tax as t" in text
    assert 'group by t."Zip", t."City"' in text
