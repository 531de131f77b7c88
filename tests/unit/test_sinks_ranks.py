"""Ranks of constraints: the rows that are written come to the places that are right, and no others are written."""

import datetime
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Maintainer, PredicateSpace, discover, from_arrow
from holdfast.constraints import Constraint, ConstraintChange, Reason, Violation, parse_constraint
from holdfast.constraints.scores import Score
from holdfast.discovery.ranking import scores_on
from holdfast.discovery.soundness.measured import Measured
from holdfast.state.commits import Commits
from holdfast.state.memory import MemoryStore
from holdfast.streaming.commits.draft import CommitDraft
from holdfast.streaming.commits.output_rows import Described, described
from holdfast.streaming.commits.published_ranks import Ranking, ranked
from tests.taxes import tax_records


@pytest.mark.parametrize("seed", range(20))
def test_what_is_written_is_the_order_by_score(seed: int) -> None:
    dice = random.Random(seed)
    places = dice.choice([1, 3, 100])
    current: dict[str, Score] = {}
    table: dict[str, int | None] = {}  # rows as a merged table has them
    for _ in range(40):
        for _ in range(dice.randint(0, 4)):
            key = dice.choice("abcdefgh")
            if key in current and dice.random() < 0.5:
                del current[key], table[key]
            else:
                current[key], table[key] = Score(dice.choice([0.25, 0.5, 0.75]), dice.choice([0.1, 0.7])), None
        if dice.random() < 0.5:
            continue
        published = {key: place for key, place in table.items() if place is not None}
        ranks, moved = ranked(current, published, places)
        for key, score, place in moved:
            assert score == current[key]
            assert table[key] != place
            table[key] = place
        order = sorted(current, key=lambda key: (not current[key].sound, -current[key], key))
        assert table == {key: place if place <= places else None for place, key in enumerate(order, 1)}
        assert ranks == {key: place for key, place in table.items() if place is not None}
        assert ranked(current, ranks, places) == (ranks, [])


def test_a_change_in_front_rewrites_no_more_than_the_places() -> None:
    scores = {f"{n:05}": Score(0.5) for n in range(5_000)}
    ranks, moved = ranked(scores, {}, 10)
    assert len(moved) == 10
    ranks, moved = ranked(scores | {"best": Score(0.9)}, ranks, 10)
    assert moved[0] == ("best", 0.9, 1)
    assert moved[-1] == ("00009", 0.5, None)
    assert len(moved) == 11
    assert ranked(scores | {"best": Score(0.9), "worst": Score(0.1)}, ranks, 10) == (ranks, [])


@pytest.mark.parametrize("seed", range(10))
def test_published_ranks_are_those_of_the_scores_after_any_commits(seed: int) -> None:
    """Commits with and without ranks, kept or not, and restarts: the rows end with the ranks of their scores."""
    dice, store = random.Random(seed), MemoryStore()
    commits, standing, now = Commits(store, "app"), Ranking(store, every=100.0), 1_000.0
    texts = [f"not(t.{name} = s.{name})" for name in "abcdefgh"]
    rows: dict[str, int | None] = {}
    held: dict[str, Described] = {}
    for _ in range(40):
        now += dice.choice([1.0, 60.0])
        draft = CommitDraft(commits, datetime.datetime.fromtimestamp(now, datetime.UTC))
        after, due = dict(held), []
        for text in dice.sample(texts, dice.randint(0, 3)):
            row = next(described("t", 1, [_change(text, appeared=text not in after)], {"t": 1}))
            due.append(row)
            if after.pop(text, None) is None:
                after[text] = row
        subject = _Subject([one.constraint for one in after.values()])
        standing.publish(subject, due, draft)
        if dice.random() < 0.3:
            continue  # not kept
        draft.commit()
        held = after
        for published in draft.rows.payload.get("constraints", ()):
            name = published["constraint_id"]
            if published.get("_gone"):
                del rows[name]
            elif not published.get("_amends"):
                rows[name] = None
            elif name in rows:
                rows[name] = published["rank"]
        if dice.random() < 0.2:
            standing = Ranking(store, every=100.0)
    now += 1_000.0
    draft = CommitDraft(commits, datetime.datetime.fromtimestamp(now, datetime.UTC))
    text = next(text for text in texts if text not in held)
    row = next(described("t", 1, [_change(text, appeared=True)], {"t": 1}))
    standing.publish(_Subject([row.constraint, *(one.constraint for one in held.values())]), [row], draft)
    rows[row.about["constraint_id"]] = None
    for moved in draft.rows.payload["constraints"]:
        if moved.get("_amends"):
            rows[moved["constraint_id"]] = moved["rank"]
    scores = {one.about["constraint_id"]: _score(one.constraint) for one in (row, *held.values())}
    order = sorted(scores, key=lambda name: (-scores[name], name))
    assert rows == {name: rank for rank, name in enumerate(order, 1)}


class _Subject:
    name = "t"

    def __init__(self, constraints: list[Constraint]) -> None:
        self.constraints = constraints

    def scores(self, constraints: Sequence[Any]) -> list[Score]:
        return [_score(constraint) for constraint in constraints]


def _score(constraint: Constraint) -> Score:
    return Score((ord(str(constraint)[6]) % 3) / 10)


def _change(text: str, *, appeared: bool) -> ConstraintChange:
    if appeared:
        return ConstraintChange(parse_constraint(text), "t", Reason.RELEASED)
    return ConstraintChange(parse_constraint(text), "t", Reason.VIOLATED, witness=Violation(value=1))


def test_scores_of_live_rows_are_those_of_the_table() -> None:
    table = from_arrow(tax_records(500), "tax")
    space = PredicateSpace(table.schema)
    maintainer = Maintainer.seed(table, space=space, threads=1)
    masks = discover(table, space=space).constraints.masks
    rows = maintainer._rows
    live = scores_on(masks, Measured.of_rows(rows, space), space)
    assert all(0 < score <= 1 for score in live)
    batch = scores_on(masks, Measured.of_table(table, space), space)
    assert len(batch) == len(live)
    assert np.abs(np.array(live) - np.array(batch)).max() < 0.1  # other pairs are drawn
    assert {score.sound for score in live} == {True, False}


_KINDS = {
    "string": st.sampled_from(["Lynn", "Rome", "Bonn", None]),
    "int64": st.one_of(st.none(), st.integers(0, 3)),
    "float64": st.sampled_from([0.5, -0.0, 2.0, float("nan"), None]),
    "decimal128(30, 2)": st.sampled_from([Decimal("1.50"), Decimal(10) ** 20, Decimal(0), None]),
}


@pytest.mark.parametrize("kind", _KINDS)
@given(data=st.data())
def test_columns_of_live_rows_are_related_as_in_the_table(kind: str, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(_KINDS[kind], _KINDS[kind]), min_size=1, max_size=12))
    arrow = pa.decimal128(30, 2) if kind.startswith("decimal") else pa.type_for_alias(kind)
    columns = {name: pa.array(values, arrow) for name, values in zip("ab", zip(*rows, strict=True), strict=True)}
    table = from_arrow(pa.table({"k": range(len(rows)), **columns}), "t")
    space = PredicateSpace(table.schema, ((1, 2),))
    live = Measured.of_rows(Maintainer.seed(table, space=space, max_predicates=1, threads=1)._rows, space)
    assert live.are_related("a", "b") == Measured.of_table(table, space).are_related("a", "b")


def test_published_rows_say_which_constraints_are_sound() -> None:
    maintainer = Maintainer.seed(from_arrow(tax_records(500), "tax"), threads=1)
    scores = Ranking(MemoryStore()).seeded(maintainer).score_of
    rows = CommitDraft(Commits(MemoryStore(), "app"), datetime.datetime.now(datetime.UTC)).rows
    constraints = [(constraint, "tax") for constraint in maintainer.constraints]
    rows.seeded(constraints, {"tax": len(constraints)}, (), scores)
    published = rows.payload["constraints"]
    assert {row["sound"] for row in published} == {True, False}
    for row in published:
        assert row["sound"] is (row["why_not"] is None)
        assert row["support"] >= 0
        assert row["strength"] >= 0.6 or not row["sound"]
    assert all("chance explains" in row["why_not"] for row in published if not row["sound"])


def test_no_rows_have_scores_too() -> None:
    table = from_arrow(tax_records(1), "tax")
    space = PredicateSpace(table.schema)
    rows = Maintainer.seed(table, space=space, threads=1)._rows
    masks = discover(from_arrow(tax_records(50), "tax"), space=space).constraints.masks
    nothing = Measured.of_table(table.between(0, 0), space, 100)  # a sample that missed all rows
    for measured in (Measured.of_rows(rows, space), nothing):
        assert {(score.sound, score.support) for score in scores_on(masks, measured, space)} == {(False, 0)}
