"""What is remembered of rules and of places changes with commits that are kept, and with no others."""

import datetime
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.constraints import Constraint, Rule, parse_constraint, parse_rule_body
from holdfast.constraints.scores import Score
from holdfast.state.commits import Commits
from holdfast.state.memory import MemoryStore
from holdfast.streaming.commits.draft import CommitDraft
from holdfast.streaming.commits.output_rows import Described
from holdfast.streaming.commits.published_ranks import RankChanges, Ranking
from holdfast.streaming.commits.rule_reports import RuleReports
from holdfast.streaming.maintainers.rules.state import RuleState


def _state(name: str, rows: int) -> RuleState:
    return RuleState(Rule(name, "t", parse_rule_body("not(t.x > 1)")), 9, None, rows)


class Drafts:
    """Commits of a store."""

    def __init__(self, store: MemoryStore) -> None:
        self._commits = Commits(store, "app")

    def at(self, seconds: float) -> CommitDraft:
        return CommitDraft(self._commits, datetime.datetime.fromtimestamp(seconds, datetime.UTC))


def test_a_line_is_the_last_one_once_its_commit_is_kept() -> None:
    store = MemoryStore()
    reports, drafts = RuleReports(store), Drafts(store)
    first = drafts.at(10.0)
    lines = reports.publish([_state("a", 0), _state("b", 0)], "t", first)
    assert [line["rule"] for line in lines] == ["a", "b"]
    assert reports.last == {}
    first.commit()
    before = reports.last
    for _ in range(2):  # the first is not kept
        draft, other = drafts.at(20.0), drafts.at(20.0)
        lines = reports.publish([_state("a", 5)], "t", draft)
        reports.forget([_state("b", 0).rule], other)
        assert [(line["rule"], line["broken"], line["rows_as_of"]) for line in lines] == [("a", True, 2)]
        (forgotten,) = other.rows.payload["rule_status"]
        assert (forgotten["rule"], forgotten["table_name"], "holds" in forgotten) == ("a", "t", False)
        assert (reports.last, reports.broken) == (before, frozenset())
    draft.commit()
    assert reports.broken == {"a"}
    assert (reports.last["a"]["commit"], reports.last["b"]) == (2, before["b"])
    last = drafts.at(30.0)
    reports.forget([_state("b", 0).rule], last)
    last.commit()
    assert reports.last == {"b": before["b"]}


class Subject:
    """A table whose constraints score by their length."""

    name = "t"

    def __init__(self, *texts: str) -> None:
        self.constraints: list[Constraint] = [parse_constraint(text) for text in texts]

    def scores(self, constraints: Sequence[Any]) -> list[Score]:
        return [Score(1 / len(str(constraint))) for constraint in constraints]


def _told(change: str, text: str) -> Described:
    """Return a change whose row has no text: whoever reads one looks at what was printed."""
    about = {"constraint_id": _id(text), "family": "dc"}
    return Described({"change": change}, about, parse_constraint(text))


def _id(text: str) -> str:
    (found,) = Ranking(MemoryStore()).seeded(Subject(text)).score_of
    return found


def _placed(standing: Ranking, subject: Subject, moves: RankChanges, draft: CommitDraft) -> dict[str, int]:
    standing.place(subject, moves, draft)
    return {row["constraint_id"]: row["rank"] for row in draft.rows.payload.get("constraints", ())}


@pytest.mark.parametrize("now", [10.0, 1_000.0])
def test_places_move_with_commits_that_are_kept(now: float) -> None:
    a, b, c = "not(t.a = s.a)", "not(t.a = s.a and t.b = s.b)", "not(t.c = s.c and t.dd = s.dd)"
    store = MemoryStore()
    subject, standing, drafts = Subject(a, c), Ranking(store, every=100.0), Drafts(store)
    first = drafts.at(5_000.0)
    assert _placed(standing, subject, standing.seeded(subject), first) == {_id(a): 1, _id(c): 2}
    first.commit()
    subject.constraints = Subject(b, c).constraints
    told = [_told("disappeared", a), _told("appeared", b)]
    expected = {_id(b): 1}
    for _ in range(2):  # the first is not kept
        moves, draft = standing.scored(subject, told), drafts.at(5_000.0 + now)
        assert moves.score_of == {_id(b): round(1 / len(b), 6)}
        assert _placed(standing, subject, moves, draft) == (expected if now > 100 else {})
    draft.commit()
    nothing = standing.scored(subject, [])
    assert _placed(standing, subject, nothing, drafts.at(6_050.0)) == ({} if now > 100 else expected)


def test_places_are_right_after_a_start() -> None:
    a, b = "not(t.a = s.a)", "not(t.a = s.a and t.b = s.b)"
    store = MemoryStore()
    standing, subject, drafts = Ranking(store), Subject(a, b), Drafts(store)
    first = drafts.at(1_000.0)
    standing.place(subject, standing.seeded(subject), first)
    first.commit()
    again = Ranking(store)
    moves = again.scored(subject, [_told("appeared", b)])  # its row is a new one, without a place
    assert _placed(again, subject, moves, drafts.at(2_000.0)) == {_id(b): 2}
