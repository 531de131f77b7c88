"""Incidents and what was missed, against plain loops over the rows of the output tables."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from holdfast.constraints import DenialConstraint, OrderDependency, UsageError, parse_rule_body
from holdfast.constraints.mutes import Mute, Mutes
from holdfast.dashboard.actions import Actions
from holdfast.dashboard.answers import Answers
from holdfast.dashboard.reading.outputs import Outputs
from tests.dashboard.conftest import BOSTON, CAMBRIDGE, KEY, LOST, ZIP_CITY
from tests.dashboard.histories import History
from tests.dashboard.tables import Written, flattened

if TYPE_CHECKING:
    from pathlib import Path

Row = dict[str, Any]
LYNN = {**BOSTON, "Id": 3, "City": "Lynn"}


def rows_of(written: Written, name: str) -> list[Row]:
    found: list[Row] = DeltaTable(str(written.place / name)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["commit"])


def same(row: Row) -> tuple[Any, ...]:
    """Return what a constraint says, in whatever form it is published."""
    body = parse_rule_body(row["constraint"])
    body = body.as_denial() if isinstance(body, OrderDependency) else body
    if not isinstance(body, DenialConstraint):
        return row["table_name"], str(body)
    return row["table_name"], frozenset(frozenset(one.outcomes.items()) for one in (body, body.mirror))


def form(row: Row) -> int:
    return 2 if "shape" in row else ["dc", "od", "ind"].index(row["family"])


def jumps(fewer: int, more: int) -> bool:
    return fewer < more and (fewer == 0 or (more >= 2 * fewer and more - fewer >= 10))


def exact_turn(row: Row) -> str | None:
    if row["cause"] != "data":
        return None
    if row["change"] == "disappeared" and row["reason"] == "violated":
        return "lost" if row["exceptions"] is None else "nearly"
    return "recovered" if row["change"] == "appeared" and row["reason"] == "released" else None


def near_turn(row: Row) -> str | None:
    if row["cause"] != "data":
        return None
    if row["change"] == "left":
        return "lost" if row["reason"] == "violated" else None
    if row["change"] != "exceptions":
        return None
    before, now = row["exceptions_before"], row["exceptions"]
    return "nearly" if jumps(before, now) else "recovered" if jumps(now, before) else None


def incidents_of(written: Written) -> dict[tuple[int, str, str], list[tuple[str, Row]]]:
    """Return the members of each incident, each with its turn, those that mean most first."""
    exact = [(turn, row) for row in rows_of(written, "constraint_changes") if (turn := exact_turn(row))]
    near = [(turn, row) for row in rows_of(written, "near_changes") if (turn := near_turn(row))]
    found: dict[tuple[int, str, str], dict[Any, tuple[str, Row]]] = defaultdict(dict)
    for turn, row in sorted([*exact, *near], key=lambda member: form(member[1])):
        direction = "recovered" if turn == "recovered" else "lost"
        found[row["commit"], row["table_name"], direction].setdefault(same(row), (turn, row))
    return {key: sorted(members.values(), key=lambda member: order(member[1])) for key, members in found.items()}


def order(row: Row) -> tuple[Any, ...]:
    believed = [True, None, False].index(row.get("sound"))
    return believed, -(row.get("score") or 0), row.get("size") or 0, len(row["constraint"]), row["constraint_id"]


def is_as_before(written: Written, turn: str, row: Row) -> bool:
    held = {row["constraint_id"] for row in rows_of(written, "constraints")}
    near = {row["constraint_id"]: row["exceptions"] for row in rows_of(written, "near_constraints")}
    if "shape" not in row:
        return (row["constraint_id"] in held) == (turn != "recovered")
    if turn == "lost":
        return row["constraint_id"] in near
    now = near.get(row["constraint_id"])
    if turn == "nearly":
        return now is not None and not jumps(row["exceptions_before"], now)
    return now is None or jumps(row["exceptions"], now)


def flaps_of(written: Written, row: Row) -> int:
    if "shape" not in row:
        mine = [
            c["change"] for c in rows_of(written, "constraint_changes") if c["constraint_id"] == row["constraint_id"]
        ]
        return sum(b == "appeared" for a, b in pairwise(mine) if a == "disappeared")
    times, held = 0, False
    for change in rows_of(written, "near_changes"):
        if change["constraint_id"] == row["constraint_id"]:
            holds = change["change"] != "left" and change["exceptions"] == 0
            times, held = times + (holds and not held), holds
    return max(0, times - 1)


def in_most(members: list[tuple[str, Row]]) -> tuple[set[int], int] | None:
    """Return the ids of the rows that are in most witnesses, and in how many."""
    witnesses = [
        {image["key"]["Id"] for image in json.loads(row["witness"])} for _, row in members if "shape" not in row
    ]
    counts = Counter(identity for witness in witnesses for identity in witness)
    most = max(counts.values(), default=0)
    first = {identity for identity, count in counts.items() if count == most}
    return (first, most) if 2 * most > len(witnesses) and 0 < len(first) <= 2 else None


def answers_on(written: Written) -> Answers:
    return Answers(Outputs(str(written.place), written.application), every=0.0)


@pytest.mark.parametrize("seed", range(6))
def test_incidents_are_the_changes_of_a_commit_and_table(tmp_path: Path, seed: int) -> None:
    written = History(seed).write(tmp_path)
    answers, expected = answers_on(written), incidents_of(written)
    rows = answers.ask("incidents", {"limit": "500"})["rows"]
    assert [row["commit"] for row in rows] == sorted((row["commit"] for row in rows), reverse=True)
    assert {(row["commit"], row["table_name"], row["direction"]) for row in rows} == expected.keys()
    assert len(rows) == len(expected)
    for row in rows:
        members = expected[row["commit"], row["table_name"], row["direction"]]
        assert Counter(turn for turn, _ in members) == Counter(
            {name: row[name] for name in ("lost", "nearly", "recovered") if row[name]}
        )
        assert row["again"] == sum(is_as_before(written, *member) for member in members)
        shared = in_most(members)
        assert (row["named"] is None) == (shared is None)
        if shared is not None:
            assert set(row["named"]) == {f"Id {identity}" for identity in shared[0]}
        assert f"(file {row['source']}-{row['commit']}.json)" in row["text"]


@pytest.mark.parametrize("seed", range(3))
def test_one_incident_has_its_constraints(tmp_path: Path, seed: int) -> None:
    written = History(seed).write(tmp_path)
    answers = answers_on(written)
    for (commit, table, direction), members in list(incidents_of(written).items())[:8]:
        found = answers.ask("incident", {"commit": str(commit), "table_name": table, "direction": direction})
        rows = {row["constraint_id"]: row for row in found["rows"]}
        assert rows.keys() == {row["constraint_id"] for _, row in members}
        for turn, row in members:
            shown = rows[row["constraint_id"]]
            assert (shown["turn"], shown["turned_back"]) == (turn, is_as_before(written, turn, row))
            assert (shown["flaps"], shown["sound"]) == (flaps_of(written, row), row.get("sound"))
        ids = [row["constraint_id"] for _, row in members]
        assert [row["constraint_id"] for row in found["rows"]] == ids
        assert found["incident"]["first"]["constraint_id"] == ids[0]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("after", [1, 12, 33])
def test_what_was_missed_compares_two_moments(tmp_path: Path, seed: int, after: int) -> None:
    written = History(seed).write(tmp_path)
    found = answers_on(written).ask("since", {"commit": str(after)})
    expected: dict[str, dict[str, Row]] = {"lost": {}, "nearly": {}, "recovered": {}}
    changed: dict[tuple[bool, str], list[Row]] = defaultdict(list)
    for is_near, name in ((False, "constraint_changes"), (True, "near_changes")):
        for row in rows_of(written, name):
            if row["commit"] > after:
                changed[is_near, row["constraint_id"]].append(row)
    ends = [
        (is_near, next((row for row in rows if row["cause"] == "data"), rows[0]), rows[-1])
        for (is_near, _), rows in changed.items()
    ]
    best: dict[Any, tuple[str, Row]] = {}
    for is_near, first, last in sorted(ends, key=lambda end: form(end[2])):
        if is_near:
            jumped = {near_turn(row) for row in changed[True, last["constraint_id"]]}
            turn = net_near(first, last, jumped)
        else:
            turn = exact_turn(last)
            turn = None if (first["change"] == "disappeared") == (turn == "recovered") else turn
        if turn is not None:
            key = same(last), turn == "recovered"
            best[key] = turn, best.get(key, (turn, last))[1]
    for turn, last in best.values():
        expected[turn][last["constraint_id"]] = last
    for name, those in expected.items():
        shown = [row["constraint_id"] for row in found[name]["rows"]]
        assert found[name]["total"] == len(those)
        assert len(shown) == len(set(shown)) == min(len(those), 5)
        assert set(shown) <= those.keys()
    assert found["after"] == after


def net_near(first: Row, last: Row, jumped: set[str | None]) -> str | None:
    if first["change"] == "entered" or last["cause"] != "data":
        return None
    if last["change"] == "left":
        return "lost" if last["reason"] == "violated" else None
    before, now = first["exceptions_before"], last["exceptions"]
    turn = "nearly" if jumps(before, now) else "recovered" if jumps(now, before) else None
    return turn if turn in jumped else None


def test_incidents_go_by_pages_and_filters(tmp_path: Path) -> None:
    written = History(2).write(tmp_path)
    answers = answers_on(written)
    whole = answers.ask("incidents", {"limit": "500"})["rows"]
    pages: list[Row] = []
    while len(pages) < len(whole):
        pages += answers.ask("incidents", {"limit": "7", "offset": str(len(pages))})["rows"]
    assert pages == whole
    tax = answers.ask("incidents", {"limit": "500", "table_name": "tax", "direction": "recovered"})["rows"]
    assert tax == [row for row in whole if (row["table_name"], row["direction"]) == ("tax", "recovered")]
    old = answers.ask("incidents", {"limit": "500", "until": "20"})["rows"]
    assert old == [row for row in whole if row["commit"] <= 20]


def test_a_commit_is_told_in_a_sentence(written: Written) -> None:
    texts = [f"not(t.Zip = s.Zip and t.Column{number} != s.Column{number})" for number in range(4)]
    written.put(flattened([written.appeared(text, score=0.1 * number) for number, text in enumerate(texts)]))
    gone = [
        written.disappeared(text, [LYNN, (BOSTON, CAMBRIDGE)[number % 2]], score=0.1 * number)
        for number, text in enumerate(texts)
    ]
    files = {"batches": [written.batch(files='["s3://bucket/in/orders-17.json"]')]}
    commit = written.put(flattened([*gone, files]))
    (row, *_) = answers_on(written).ask("since", {"commit": str(commit - 1)})["incidents"]["rows"]
    assert row["text"] == (
        f"4 constraints of tax ended with commit {commit} (file orders-17.json), all by row Id 3; first Zip -> Column3"
    )
    written.put(written.appeared(texts[3], score=0.9))
    (row, *_) = answers_on(written).ask("incidents", {"direction": "lost"})["rows"]
    assert (row["again"], row["first"]["turned_back"]) == (1, True)


def test_news_of_a_pipeline_that_was_seeded_since_is_not_missed(written: Written) -> None:
    found = answers_on(written).ask("since", {})
    assert {row["constraint"] for row in found["lost"]["rows"]} == {ZIP_CITY, LOST}
    assert (found["span"], found["flapped"], found["recovered"]["total"]) == ("day", 0, 0)


def test_a_mark_of_outputs_that_began_anew_is_none(written: Written) -> None:
    answers = answers_on(written)
    assert answers.ask("since", {"commit": "999"})["span"] == "day"
    seen = answers.ask("since", {"commit": str(written.commit)})
    assert (seen["span"], seen["lost"]["total"], seen["incidents"]["total"]) == (None, 0, 0)


def test_a_constraint_that_came_back_flapped(written: Written) -> None:
    answers = answers_on(written)
    mark = str(written.commit)
    for _ in range(2):
        written.put(written.disappeared(KEY, [BOSTON, CAMBRIDGE]))
        written.put(written.appeared(KEY))
    found = answers.ask("since", {"commit": mark})
    assert (found["flapped"], found["lost"]["total"], found["recovered"]["total"]) == (1, 0, 0)
    (row,) = answers.ask("incident", {"commit": str(written.commit), "table_name": "tax", "direction": "recovered"})[
        "rows"
    ]
    assert row["flaps"] == 2


@pytest.mark.parametrize(
    ("question", "given", "part"),
    [
        ("incident", {}, "commit is missing"),
        ("incident", {"commit": "x"}, "whole number"),
        ("incident", {"commit": "1", "direction": "up"}, "expected one of lost, recovered"),
        ("incidents", {"direction": "up"}, "expected one of"),
        ("since", {"commit": "-1"}, "whole number"),
    ],
)
def test_parameters_are_checked(answers: Answers, question: str, given: dict[str, str], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        answers.ask(question, given)


def test_an_incident_that_is_not_there(answers: Answers) -> None:
    assert answers.ask("incident", {"commit": "77", "table_name": "nope"})["incident"] is None


@pytest.mark.parametrize("seed", range(3))
def test_a_constraint_has_its_state_its_flaps_and_its_last_proof(tmp_path: Path, seed: int) -> None:
    written = History(seed).write(tmp_path)
    answers = answers_on(written)
    changes, near_changes = rows_of(written, "constraint_changes"), rows_of(written, "near_changes")
    held = {row["constraint_id"]: same(row) for row in rows_of(written, "constraints")}
    near = {same(row): row["exceptions"] for row in rows_of(written, "near_constraints")}
    for row in {row["constraint_id"]: row for row in [*changes, *near_changes]}.values():
        found = answers.ask("constraint", {"id": row["constraint_id"]})["found"]
        key, is_near = same(row), "shape" in row
        forms = {c["constraint_id"] for c in changes if same(c) == key}
        if not is_near:
            forms = {row["constraint_id"]}
        assert found["flaps"] == flaps_of(written, row)
        assert found["is_near"] is is_near
        assert found["holds"] is (bool(forms & held.keys()) or near.get(key) == 0)
        counts = [c["exceptions"] for c in near_changes if same(c) == key and c["change"] != "left"]
        assert [count for _, count in found["course"] if count is not None][-1:] == counts[-1:] or not counts
        proofs = [c for c in changes if c["constraint_id"] in forms and c["reason"] == "violated"]
        assert (found["proof"] is None) == (not proofs)
        if proofs:
            assert found["proof"]["commit"] == proofs[-1]["commit"]
            assert found["proof"]["witness"]["columns"][0]["differs"] is not None


def test_a_constraint_that_was_never_published(answers: Answers) -> None:
    assert answers.ask("constraint", {"id": "0" * 64})["found"] is None
    with pytest.raises(UsageError, match="id is missing"):
        answers.ask("constraint", {})


@pytest.mark.parametrize("seed", range(3))
def test_muted_constraints_are_left_out_and_marked(tmp_path: Path, seed: int) -> None:
    written = History(seed).write(tmp_path)
    mutes = [Mutes((Mute("tax", "City, State -> Zip"),))]
    asked = Answers(
        Outputs(str(written.place), written.application), every=0.0, actions=Actions(mutes=lambda: (mutes[-1], None))
    )
    whole = asked.ask("incidents", {"limit": "500"})["rows"]
    mutes.append(Mutes((Mute("tax", "Zip -> City"), Mute("orders", "key(Id)"))))
    muted = {("tax", *same({"table_name": "", "constraint": "Zip -> City"})[1:])}
    muted |= {("orders", *same({"table_name": "", "constraint": "key(Id)"})[1:])}
    expected = {
        key: rest
        for key, members in incidents_of(written).items()
        if (rest := [member for member in members if same(member[1]) not in muted])
    }
    assert len(expected) < len(whole)
    rows = asked.ask("incidents", {"limit": "500"})["rows"]
    assert {(row["commit"], row["table_name"], row["direction"]) for row in rows} == expected.keys()
    for row in rows:
        members = expected[row["commit"], row["table_name"], row["direction"]]
        assert row["lost"] + row["nearly"] + row["recovered"] == len(members)
        shared = in_most(members)
        assert row["named"] is None if shared is None else len(row["named"]) == len(shared[0])
    news = asked.ask("since", {"commit": "1"})
    shown = [row for name in ("lost", "nearly", "recovered") for row in news[name]["rows"]]
    overview = asked.ask("overview", {"span": "month"})
    moved = overview["near"]["moved"]["rows"]
    assert not {same(row) for row in [*shown, *overview["recent"], *moved]} & muted
    for question in ("changes", "constraints", "near"):
        for row in asked.ask(question, {"limit": "500"})["rows"]:
            assert row["muted"] == (same(row) in muted)
    gone = [row for row in rows_of(written, "constraint_changes") if row["cause"] == "data" and same(row) not in muted]
    counted = {
        name: sum(row["change"] == name for row in gone if row["table_name"] == "tax")
        for name in ("appeared", "disappeared")
    }
    assert overview["changed"]["tax"] == counted


def test_a_constraint_has_the_lines_to_copy(written: Written) -> None:
    asked = Answers(
        Outputs(str(written.place), written.application),
        actions=Actions(lambda *about: f"rule {about}", lambda *about: f"mute {about}", "/etc/mutes.yaml"),
    )
    (row,) = asked.ask("constraints", {"family": "dc"})["rows"]
    found = asked.ask("constraint", {"id": row["constraint_id"]})["found"]
    assert (found["rule"], found["mute"]) == (f"rule {('tax', KEY)}", f"mute {('tax', KEY)}")
    assert (found["muted"], found["mutes_file"]) == (False, "/etc/mutes.yaml")
