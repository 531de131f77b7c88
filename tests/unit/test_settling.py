"""Changes wait for as many batches as they are told to, and those taken back are never told."""

import datetime
import random

import pytest

from holdfast.constraints import parse_constraint
from holdfast.state.commits import Commits
from holdfast.state.memory import MemoryStore
from holdfast.streaming.commits.draft import CommitDraft
from holdfast.streaming.commits.output_rows import Described
from holdfast.streaming.commits.settling import Settling


def _change(name: str, *, appeared: bool) -> Described:
    text = f"not(t.{name} = s.{name})"
    about = {"constraint_id": name, "constraint": text}
    return Described({"change": "appeared" if appeared else "disappeared", **about}, about, parse_constraint(text))


NOW = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("wait", [0, 1, 2, 5])
def test_what_is_told_is_what_lasted(seed: int, wait: int) -> None:
    dice = random.Random(seed)
    store = MemoryStore()
    commits = Commits(store, "app")
    settling = Settling(store, {"t": wait})
    history: list[frozenset[str]] = [frozenset()]
    told: set[str] = set()
    for number in range(1, 60):
        now = history[-1] ^ {name for name in "abcd" if dice.random() < 0.2}
        changes = [_change(name, appeared=name in now) for name in sorted(now ^ history[-1])]
        history.append(now)
        draft = CommitDraft(commits, NOW)
        due = settling.step("t", number, changes, draft)
        if dice.random() < 0.1:  # the commit fails: nothing may be remembered of it
            again = CommitDraft(commits, NOW)
            assert settling.step("t", number, changes, again) == due
            assert again.change.changes == draft.change.changes
        draft.commit()
        for one in due:
            if one.row["change"] == "appeared":
                assert one.about["constraint_id"] not in told
                told.add(one.about["constraint_id"])
            else:
                told.remove(one.about["constraint_id"])
        for name in "abcd":
            lately = {name in held for held in history[max(0, len(history) - 1 - wait) :]}
            if len(lately) == 1:  # it has been so for `wait` batches
                assert (name in told) == (name in now)
        if dice.random() < 0.2:
            settling = Settling(store, {"t": wait})


def test_tables_do_not_mix() -> None:
    store = MemoryStore()
    settling = Settling(store, {"t": 1, "tt": 1, "u": 0})
    commits = Commits(store, "app")
    draft = CommitDraft(commits, NOW)
    for table in ("t", "tt"):
        assert not settling.step(table, 1, [_change("a", appeared=True)], draft)
    draft.commit()
    later = CommitDraft(commits, NOW)
    assert settling.step("u", 1, [_change("a", appeared=True)], later) == [_change("a", appeared=True)]
    again = Settling(store, {"t": 1})
    assert again.step("t", 2, [], later) == [_change("a", appeared=True)]
