"""What is remembered of rules and of places changes with commits that are kept, and with no others."""

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.constraints import Constraint, Rule, parse_constraint, parse_rule_body
from holdfast.state.memory import MemoryStore
from holdfast.state.store import WriteBatch
from holdfast.streaming.maintainers.rule_state import RuleState
from holdfast.streaming.output_rows import Described
from holdfast.streaming.rule_reports import RuleReports
from holdfast.streaming.standing import Moves, Standing


def _state(name: str, rows: int) -> RuleState:
    return RuleState(Rule(name, "t", parse_rule_body("not(t.x > 1)")), 9, None, rows)


def test_a_line_is_the_last_one_once_its_commit_is_kept() -> None:
    reports = RuleReports(MemoryStore())
    first = reports.lines([_state("a", 0), _state("b", 0)], "t", 1, 10.0, WriteBatch())
    assert [line["rule"] for line in first.lines] == ["a", "b"]
    assert reports.last == {}
    reports.keep(first)
    before = reports.last
    for _ in range(2):  # two that are not kept
        lost = reports.lines([_state("a", 5)], "t", 2, 20.0, WriteBatch())
        forgotten = reports.forgotten([_state("b", 0).rule], WriteBatch())
        assert [(line["rule"], line["broken"], line["rows_as_of"]) for line in lost.lines] == [("a", True, 2)]
        assert forgotten.lines == [{"rule": "a", "table_name": "t"}]
        assert (reports.last, reports.broken) == (before, frozenset())
    reports.keep(lost)
    assert reports.broken == {"a"}
    assert (reports.last["a"]["commit"], reports.last["b"]) == (2, before["b"])
    reports.keep(reports.forgotten([_state("b", 0).rule], WriteBatch()))
    assert reports.last == {"b": before["b"]}


class Subject:
    """A table whose constraints score by their length."""

    name = "t"

    def __init__(self, *texts: str) -> None:
        self.constraints: list[Constraint] = [parse_constraint(text) for text in texts]

    def scores(self, constraints: Sequence[Any]) -> list[float]:
        return [1 / len(str(constraint)) for constraint in constraints]


def _told(change: str, text: str) -> Described:
    """Return a change whose row has no text: whoever reads one looks at what was printed."""
    about = {"constraint_id": _id(text), "family": "dc"}
    return Described({"change": change}, about, parse_constraint(text))


def _id(text: str) -> str:
    (found,) = Standing(MemoryStore()).seeded(Subject(text)).score_of
    return found


def _places(standing: Standing, subject: Subject, moves: Moves, now: float) -> dict[str, int]:
    return {row["constraint_id"]: row["rank"] for row in standing.places(subject, moves, WriteBatch(), now)}


@pytest.mark.parametrize("now", [10.0, 1_000.0])
def test_places_move_with_commits_that_are_kept(now: float) -> None:
    a, b, c = "not(t.a = s.a)", "not(t.a = s.a and t.b = s.b)", "not(t.c = s.c and t.dd = s.dd)"
    subject, standing = Subject(a, c), Standing(MemoryStore(), every=100.0)
    seeded = standing.seeded(subject)
    assert _places(standing, subject, seeded, 5_000.0) == {_id(a): 1, _id(c): 2}
    standing.keep(subject, seeded)
    subject.constraints = Subject(b, c).constraints
    told = [_told("disappeared", a), _told("appeared", b)]
    expected = {_id(b): 1}
    for _ in range(2):  # the first is not kept
        moves = standing.scored(subject, told)
        assert moves.score_of == {_id(b): round(1 / len(b), 6)}
        assert _places(standing, subject, moves, 5_000.0 + now) == (expected if now > 100 else {})
    standing.keep(subject, moves)
    nothing = standing.scored(subject, [])
    assert _places(standing, subject, nothing, 6_050.0) == ({} if now > 100 else expected)


def test_places_are_right_after_a_start() -> None:
    a, b = "not(t.a = s.a)", "not(t.a = s.a and t.b = s.b)"
    store, change = MemoryStore(), WriteBatch()
    standing, subject = Standing(store), Subject(a, b)
    seeded = standing.seeded(subject)
    standing.places(subject, seeded, change, 1_000.0)
    store.write(change)
    again = Standing(store)
    moves = again.scored(subject, [_told("appeared", b)])  # its row is a new one, without a place
    assert _places(again, subject, moves, 2_000.0) == {_id(b): 2}
