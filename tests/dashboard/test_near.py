"""What nearly holds, as the views show it, against what stands in the tables, told by plain loops over all rows."""

from __future__ import annotations

import dataclasses
import datetime
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from holdfast.constraints import UsageError
from holdfast.dashboard.actions import Actions
from holdfast.dashboard.answers import Answers
from holdfast.dashboard.reading.near_changes import NearConstraintChanges
from holdfast.dashboard.reading.outputs import Outputs
from holdfast.jobs.configuration.rules_files import read_rules
from holdfast.jobs.files.found_rules import rule_line
from holdfast.streaming.sinks.shapes import CONSTRAINT_CHANGES, SHAPES
from tests.dashboard.conftest import BOSTON, CAMBRIDGE, ZIP_CITY
from tests.dashboard.tables import Written, flattened, many_near, near_constraint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NEAR_ZIP_CITY = "{Zip}: [] -> City"
LYNN = {**BOSTON, "Id": 3, "City": "Lynn"}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Return a hundred near constraints with two thousand changes, some of which leave the set and come back."""
    made = Written(tmp_path_factory.mktemp("large"))
    many_near(made, constraints=100, changes=1_500, days=4, at_once=400)
    chance = random.Random(3)
    known = {row["constraint"]: row for row in rows_at(made, "near_constraints")}
    for text in chance.sample(sorted(known), 12):
        table, count = known[text]["table_name"], known[text]["exceptions"]
        made.wait(chance.randrange(20_000))
        made.put(made.near_left(text, count + 500, count, table_name=table))
        if chance.random() < 0.5:
            made.put(made.near(text, 7, table_name=table))
            made.put(made.near(text, 9, 7, table_name=table))
    made.put({"batches": [made.batch()]})
    answers = Answers(Outputs(str(made.place), made.application))
    answers.look()
    return answers


def rows_at(made: Written, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(str(made.place / name)).to_pyarrow_table().to_pylist()
    return found


def rows_of(answers: Answers, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(f"{answers.outputs.place}/{name}").to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["commit"])


def every(answers: Answers, question: str, limit: int, **given: str) -> Iterator[dict[str, Any]]:
    """Yield all rows of a list, page by page."""
    offset = 0
    while True:
        page = answers.ask(question, {**given, "limit": str(limit), "offset": str(offset)})
        yield from page["rows"]
        offset += len(page["rows"])
        if not page["rows"]:
            assert page["total"] == offset
            return


def identity(text: str, table: str = "tax") -> str:
    return str(near_constraint(text, 0, table_name=table)["constraint_id"])


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"table_name": "table_3"},
        {"shape": "constant", "q": "COLUMN_1 group_1"},
        {"having": "none", "order": "text"},
        {"having": "some", "order": "most"},
        {"order": "newest"},
        {"order": "share"},
    ],
)
def test_what_nearly_holds_is_listed(large: Answers, given: dict[str, str]) -> None:
    expected = []
    for row in rows_of(large, "near_constraints"):
        text = f"{row['constraint']}\n{row['sentence']}".lower()
        named = {**row, "having": "some" if row["exceptions"] else "none"}
        fits = all(named[name] == value for name, value in given.items() if name not in {"q", "order"})
        if fits and all(word in text for word in given.get("q", "").lower().split()):
            expected.append(row)
    found = list(every(large, "near", 30, **given))
    assert len(found) > 1
    assert sorted(row["constraint_id"] for row in found) == sorted(row["constraint_id"] for row in expected)
    keys: dict[str, Any] = {
        "strength": lambda row: (-row["strength"], row["share"]),
        "share": lambda row: (row["exceptions"] == 0, row["share"]),
        "most": lambda row: -row["share"],
        "newest": lambda row: -row["since_commit"],
        "text": lambda row: (row["table_name"], row["constraint"]),
    }
    order = [keys[given.get("order", "strength")](row) for row in found]
    assert order == sorted(order)


def test_the_course_of_exceptions(large: Answers) -> None:
    rows = rows_of(large, "near_changes")
    changes = NearConstraintChanges(large.outputs)
    changes.refresh()
    held = {row["constraint_id"]: row["exceptions"] for row in rows_of(large, "near_constraints")}
    left = sorted({row["constraint_id"] for row in rows if row["change"] == "left"})
    assert len(left) == 12
    for one in (*left, *random.Random(5).sample(sorted({row["constraint_id"] for row in rows}), 5)):
        expected: list[list[int | None]] = []
        for row in rows:
            if row["constraint_id"] == one:
                ms = int(row["committed_at"].timestamp() * 1_000)
                expected += [[ms, row["exceptions"]], *([[ms, None]] if row["change"] == "left" else [])]
        assert changes.course(one, 10**9) == expected
        found = large.ask("near_constraint", {"id": one})
        assert found["course"][-1] == expected[-1]
        assert (found["held"] is None) == (one not in held)
        if one in held:
            assert found["course"][-1][1] == found["held"]["exceptions"] == held[one]


def test_a_long_course_has_few_points(large: Answers) -> None:
    changes = NearConstraintChanges(large.outputs)
    changes.refresh()
    (most, *_) = sorted(
        {row["constraint_id"] for row in rows_of(large, "near_changes")}, key=lambda one: -len(changes.course(one, 999))
    )
    whole, short = changes.course(most, 999), changes.course(most, 5)
    assert len(short) <= 5 < len(whole)
    assert short[-1] == whole[-1]
    assert all(point in whole for point in short)


@pytest.mark.parametrize("span", ["hour", "day", "week"])
def test_the_biggest_movers(large: Answers, span: str) -> None:
    rows = rows_of(large, "near_changes")
    length = {"hour": 3_600, "day": 86_400, "week": 7 * 86_400}[span]
    end = max(row["committed_at"] for row in (*rows, *rows_of(large, "batches")))
    first = end - datetime.timedelta(seconds=length)
    moved: dict[str, list[int]] = {}
    counts = {"entered": 0, "left": 0, "exceptions": 0}
    for row in rows:
        if row["cause"] == "data" and row["committed_at"] >= first:
            counts[row["change"]] += 1
            before = row["exceptions"] if row["exceptions_before"] is None else row["exceptions_before"]
            moved.setdefault(row["constraint_id"], [before, 0])[1] = row["exceptions"]
    found = large.ask("near", {"span": span})["moved"]
    assert (found["entered"], found["left"]) == (counts["entered"], counts["left"])
    assert found["moved"] == sum(before != after for before, after in moved.values())
    shown = [(row["constraint_id"], row["exceptions_before"], row["exceptions"]) for row in found["rows"]]
    assert shown == [(one, *moved[one]) for one, *_ in shown]
    largest = sorted((abs(after - before) for before, after in moved.values() if after != before), reverse=True)
    assert [abs(after - before) for _, before, after in shown] == largest[:8]
    assert large.ask("overview", {"span": span})["near"]["moved"] == found


def test_a_constraint_has_its_changes_and_its_rows(written: Written, answers: Answers) -> None:
    written.put(written.near("Zip -> City", 0, rows=200))
    undecided = written.exception("Zip -> City", CAMBRIDGE, undecided=True)
    moved = written.near("Zip -> City", 2, 0, [LYNN], rows=201)
    moved["exceptions"].append(undecided)
    written.put(moved)
    found = answers.ask("near_constraint", {"id": identity(NEAR_ZIP_CITY)})
    assert (found["held"]["exceptions"], found["held"]["rows"], found["held"]["share"]) == (2, 201, round(2 / 201, 9))
    assert found["held"]["sentence"] == "Rows with the same Zip have the same City, but for 2 of 201 rows."
    assert [point[1] for point in found["course"]] == [0, 2]
    assert [(row["change"], row["exceptions_before"], row["exceptions"]) for row in found["rows"]] == [
        ("exceptions", 0, 2),
        ("entered", None, 0),
    ]
    rows = found["exceptions"]
    assert [column["name"] for column in rows["columns"]][:3] == ["Zip", "City", "Id"]
    assert [column["name"] for column in rows["columns"] if column["spoken"]] == ["Zip", "City"]
    assert [cells[:3] for cells in rows["rows"]] == [["02139", "Lynn", "3"], ["02139", "Cambridge", "1"]]
    assert [one["undecided"] for one in rows["about"]] == [False, True]
    assert found["rows"][0]["examples"]["rows"] == [rows["rows"][0]]
    assert found["rows"][1]["examples"] is None
    written.put(written.near_left("Zip -> City", 90, 2, rows=201))
    found = answers.ask("near_constraint", {"id": identity(NEAR_ZIP_CITY)})
    assert (found["held"], found["exceptions"], found["total"]) == (None, None, 3)
    assert answers.ask("near_constraint", {"id": "0" * 64})["total"] == 0


def test_pages_of_its_changes_stay_those_of_one_moment(written: Written, answers: Answers) -> None:
    for number in range(5):
        written.put(written.near("Zip -> City", number, number - 1 if number else None))
    given = {"id": identity(NEAR_ZIP_CITY), "limit": "2"}
    first = answers.ask("near_constraint", given)
    written.put(written.near("Zip -> City", 9, 4))
    second = answers.ask("near_constraint", {**given, "offset": "2", "until": str(first["until"])})
    assert [row["exceptions"] for row in first["rows"] + second["rows"]] == [4, 3, 2, 1]
    assert second["total"] == 5


@pytest.mark.parametrize("text", ["Zip -> City", "{Zip}: [] -> City", "not(t.City != s.City and t.Zip = s.Zip)"])
def test_a_change_says_that_its_constraint_still_nearly_holds(written: Written, answers: Answers, text: str) -> None:
    written.put(flattened([written.disappeared(ZIP_CITY, [BOSTON, CAMBRIDGE], exceptions=3), written.near(text, 3)]))
    first, *others = answers.ask("changes", {})["rows"]
    one = identity(NEAR_ZIP_CITY)
    assert (first["exceptions"], first["near"]) == (3, {"constraint_id": one, "exceptions": 3})
    assert [(row["exceptions"], row["near"]) for row in others] == [(None, None)] * len(others)
    written.put(written.near(text, 5, 3))
    (now, *_) = answers.ask("overview", {})["recent"]
    assert (now["exceptions"], now["near"]) == (3, {"constraint_id": one, "exceptions": 5})
    written.put(written.near_left(text, 90, 5))
    (gone, *_) = answers.ask("changes", {"limit": "1"})["rows"]
    assert (gone["exceptions"], gone["near"]) == (3, None)


def test_which_tables_are_followed(written: Written, answers: Answers) -> None:
    assert answers.ask("near", {})["followed"] == {"tax": None}
    assert answers.ask("overview", {})["near"] is None
    near = '{"max_predicates":4,"near":{"share":"1/100","max_context":3,"orders":true}}'
    written.put({"tables": [{"table_name": "orders", "bounds": near}]})
    found = answers.ask("near", {})
    assert (found["followed"], found["total"], found["near"]) == ({"orders": "1/100", "tax": None}, 0, 0)


def test_outputs_of_an_older_version(tmp_path: Path) -> None:
    """Differential: an application that has no such tables, and none of the columns, shows what it showed."""
    added = {"near_constraints", "near_changes", "exceptions"}
    columns = [column for column in CONSTRAINT_CHANGES.columns if column[0] not in {"exceptions", "score"}]
    older = {name: shape for name, shape in SHAPES.items() if name not in added}
    older["constraint_changes"] = dataclasses.replace(CONSTRAINT_CHANGES, columns=columns)
    shown = []
    for name, shapes in (("older", older), ("newer", dict(SHAPES))):
        (tmp_path / name).mkdir()
        made = Written(tmp_path / name, shapes=shapes)
        made.put(flattened([made.appeared(ZIP_CITY), {"tables": [{"table_name": "tax", "bounds": "{}"}]}]))
        made.put(made.disappeared(ZIP_CITY, [BOSTON, CAMBRIDGE]))
        answers = Answers(Outputs(str(made.place), made.application))
        asked = [answers.ask(question, {"id": "0" * 64, "commit": "2"}) for question in answers.questions]
        shown.append([{**found, "state": None} for found in asked])
        assert answers.ask("changes", {})["total"] == 2
    assert shown[0] == shown[1]


def test_old_changes_beyond_the_most_are_left_out(large: Answers) -> None:
    changes = NearConstraintChanges(large.outputs, most=100)
    changes.refresh()
    assert changes.total == 100
    assert changes.left_out == len(rows_of(large, "near_changes")) - 100


def test_files_that_were_joined_bring_nothing_new(written: Written, answers: Answers) -> None:
    for number in range(3):
        written.put(written.near("Zip -> City", number, number - 1 if number else None, [LYNN]))
    given = {"id": identity(NEAR_ZIP_CITY)}
    before = answers.ask("near_constraint", given)
    for name in ("near_changes", "near_constraints", "exceptions"):
        table = DeltaTable(str(written.place / name))
        table.optimize.compact()
        table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    after = answers.ask("near_constraint", given)
    assert {**after, "state": None} == {**before, "state": None}


@pytest.mark.parametrize(
    ("question", "given", "part"),
    [
        ("near", {"order": "size"}, "expected one of share"),
        ("near", {"limit": "501"}, "at most 500"),
        ("near", {"span": "year"}, "expected one of hour"),
        ("near_constraint", {}, "id is missing"),
        ("near_constraint", {"id": "abc"}, "64 hexadecimal digits"),
        ("changes", {"id": "abc"}, "64 hexadecimal digits"),
    ],
)
def test_parameters_are_checked(answers: Answers, question: str, given: dict[str, str], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        answers.ask(question, given)


def test_strong_near_constraints_are_listed_and_the_others_are_counted(written: Written, answers: Answers) -> None:
    for number, strength in enumerate((0.9, 0.59, None, 0.6)):
        rows = written.near(f"A{number} -> B", 1, 0)
        rows["near_constraints"][0]["strength"] = strength
        written.put(rows)
    found = answers.ask("near", {})
    strengths = sorted(row["strength"] or 0.0 for row in found["rows"] if row["constraint"].startswith("{A"))
    assert strengths == [0.0, 0.6, 0.9], "one of unknown strength may be sound"
    assert found["unsound"] == 1
    every = answers.ask("near", {"every": "yes"})
    assert (every["total"], every["unsound"]) == (found["total"] + 1, 0)


def test_where_the_exceptions_are(written: Written, tmp_path: Path) -> None:
    ends = ("!= 'i''7'", "is null")
    rules = [f"not(t.Zip = s.Zip and t.City != s.City and t.State != 'i''7' and s.State {end})" for end in ends]
    written.put(
        flattened(
            [
                written.near("Zip -> City", 12, 0, [BOSTON]),
                written.near("State -> City", 7),
                written.concentration("Zip -> City", "Rate", None, place=2),
                written.concentration("Zip -> City", "State", "i'7", holds_elsewhere=True, rules=json.dumps(rules)),
            ]
        )
    )
    actions = Actions(rule_line)
    answers = Answers(Outputs(str(written.place), written.application), every=0.0, actions=actions)
    state, rate = answers.ask("near_constraint", {"id": near_constraint("Zip -> City", 0)["constraint_id"]})["where"]
    assert (state["column"], state["value"], state["exceptions"], state["of_exceptions"]) == ("State", "i'7", 11, 12)
    assert (state["share"], state["holds_elsewhere"], state["as_of_commit"]) == (0.03, True, written.commit)
    assert (rate["value"], rate["holds_elsewhere"], rate["rules"], rate["rule_lines"]) == (None, False, [], None)
    file = tmp_path / "rules.yaml"
    file.write_text("rules:\n" + "".join(f"  {line}\n" for line in state["rule_lines"]))
    declared = read_rules(file, (), ("tax",))
    assert [str(one.rule.body) for one in declared] == [rule[4:-1] for rule in rules]
    other = {"id": near_constraint("State -> City", 0)["constraint_id"]}
    assert answers.ask("near_constraint", other)["where"] == []
