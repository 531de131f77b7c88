"""Ranks of constraints: the rows that are written come to the places that are right, and no others are written."""

import random

import numpy as np
import pytest

from holdfast import Maintainer, PredicateSpace, discover, from_arrow
from holdfast.discovery.evidence.codes import pair_codes
from holdfast.discovery.evidence.current import current_codes
from holdfast.discovery.ranking import PairSample, scores, scores_on
from holdfast.streaming.sinks.ranks import Ranks
from holdfast.tables.taxes import tax_records


@pytest.mark.parametrize("seed", range(20))
def test_what_is_written_is_the_order_by_score(seed: int) -> None:
    dice = random.Random(seed)
    places = dice.choice([1, 3, 100])
    ranks = Ranks(places=places)
    current: dict[str, float] = {}
    table: dict[str, int | None] = {}  # rows as a merged table has them
    for _ in range(40):
        for _ in range(dice.randint(0, 4)):
            key = dice.choice("abcdefgh")
            if key in current and dice.random() < 0.5:
                del current[key], table[key]
                ranks.disappeared([key])
            else:
                current[key], table[key] = dice.choice([0.25, 0.5, 0.75]), None
                ranks.appeared([(key, current[key])])
        if dice.random() < 0.2:  # a start: the scores of all are known again, the places from where they were kept
            ranks = Ranks(ranks.written, places)
            ranks.restored(current.items())
        if dice.random() < 0.5:
            continue
        for key, score, place in ranks.changed():
            assert score == current[key]
            assert table[key] != place
            table[key] = place
        order = sorted(current, key=lambda key: (-current[key], key))
        assert table == {key: place if place <= places else None for place, key in enumerate(order, 1)}
        assert ranks.changed() == []


def test_a_change_in_front_rewrites_no_more_than_the_places() -> None:
    ranks = Ranks(places=10)
    ranks.appeared((f"{n:05}", 0.5) for n in range(5_000))
    assert len(ranks.changed()) == 10
    ranks.appeared([("best", 0.9)])
    moved = ranks.changed()
    assert moved[0] == ("best", 0.9, 1)
    assert moved[-1] == ("00009", 0.5, None)
    assert len(moved) == 11
    ranks.appeared([("worst", 0.1)])
    assert ranks.changed() == []


def test_scores_of_live_rows_are_those_of_the_table() -> None:
    table = from_arrow(tax_records(500), "tax")
    space = PredicateSpace(table.schema)
    maintainer = Maintainer.seed(table, space=space, threads=1)
    masks = discover(table, space=space).constraints.masks
    rows = maintainer._rows
    live = scores_on(masks, PairSample.of_rows(rows, space), space)
    assert live.tolist() == scores(masks, current_codes(rows, space), space).tolist()
    assert ((live > 0) & (live <= 1)).all()
    batch = scores(masks, pair_codes(table, space), space)
    assert np.abs(live - batch).max() < 0.05  # other pairs are drawn


def test_no_rows_have_scores_too() -> None:
    table = from_arrow(tax_records(1), "tax")
    space = PredicateSpace(table.schema)
    rows = Maintainer.seed(table, space=space, threads=1)._rows
    masks = discover(from_arrow(tax_records(50), "tax"), space=space).constraints.masks
    assert (scores_on(masks, PairSample.of_rows(rows, space), space) >= 0).all()
