"""Constraints that no table can break, and implication by transitivity, where three columns and more are compared across.

*Oracle*: `tests/oracles/denial.py`, which ranks the values of two rows in all ways.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.constraints import Column, DenialConstraint, PredicateSpace, Schema
from holdfast.constraints.operators import EQUAL, GREATER, LESS
from holdfast.constraints.types import INTEGER
from holdfast.discovery.blocks.search.seeding import seed_blocks
from holdfast.discovery.denial import seeding
from holdfast.discovery.denial.meaning import Meaning
from holdfast.discovery.discover import discover
from holdfast.discovery.reported import ReportedSet
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.tables import ReadOptions, from_arrow
from tests.oracles import denial as oracle
from tests.oracles.values import Column as OracleColumn
from tests.properties.test_blocks import blocked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.tables import Table

OUTCOMES = {"<": LESS, "=": EQUAL, ">": GREATER, "!=": LESS | GREATER}
THREE = [(0, 1), (0, 2), (1, 2)]


class Compared:
    """Columns `a`, `b`, ... of integers, ordered or not, of which some are compared across."""

    def __init__(self, ordered: Sequence[bool], crossing: Sequence[tuple[int, int]]) -> None:
        self.names = "abcde"[: len(ordered)]
        self.columns = [OracleColumn(n, "number", ordered=o) for n, o in zip(self.names, ordered, strict=True)]
        self.expected = oracle.listed_space(self.columns, crossing)
        own = tuple(Column(n, INTEGER, o) for n, o in zip(self.names, ordered, strict=True))
        self.space = PredicateSpace(Schema("r", own), tuple(crossing))
        self.options = ReadOptions(ordered=dict(zip(self.names, ordered, strict=True)))

    def table(self, rows: Sequence[tuple[int | None, ...]]) -> Table:
        data = {name: pa.array([row[i] for row in rows], pa.int64()) for i, name in enumerate(self.names)}
        return from_arrow(pa.table(data), "r", self.options)

    def mask(self, box: oracle.Box) -> list[int]:
        bits = 0
        for pair, allowed in zip(self.space.pairs, box, strict=True):
            bits |= pair.bits(sum(OUTCOMES[outcome] for outcome in allowed))
        return list(self.space.words(bits))


@st.composite
def compared(draw: st.DrawFn, four: bool = False) -> Compared:
    """Draw what is compared of three columns; with `four` also four, all with each other."""
    if four and draw(st.booleans()):
        return Compared([True] * 4, list(itertools.combinations(range(4), 2)))
    crossing = draw(st.sets(st.sampled_from(THREE), min_size=2) | st.just(set(THREE)))
    return Compared(draw(st.lists(st.booleans(), min_size=3, max_size=3)), sorted(crossing))


@st.composite
def boxes(draw: st.DrawFn, space: oracle.Space) -> oracle.Box:
    """Draw boxes with few predicates and many."""
    box = list(oracle.everything(space))
    for place in draw(st.sets(st.integers(0, len(space) - 1), min_size=1)):
        box[place] = draw(st.sets(st.sampled_from(sorted(space[place].outcomes)), min_size=1).map(frozenset))
    return tuple(box)


def hull_of(box: oracle.Box, space: oracle.Space) -> oracle.Box:
    """Return the outcomes of all points in a box that two rows can have."""
    hull = list(box)
    for part in oracle.parts(space):
        points = oracle.satisfiable_points(tuple(space[place] for place in part))
        inside = [p for p in points if oracle.lies_in(p, tuple(box[place] for place in part))]
        for i, place in enumerate(part):
            hull[place] = frozenset(point[i] for point in inside)
    return tuple(hull)


@given(compared(four=True), st.data())
def test_a_hull_has_the_outcomes_that_two_rows_can_have(case: Compared, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(boxes(case.expected), min_size=1, max_size=8))
    masks = np.array([case.mask(box) for box in drawn], np.uint64)
    hulls, satisfiable = Meaning(case.space).hulls(masks)
    for box, hull, possible in zip(drawn, hulls.tolist(), satisfiable.tolist(), strict=True):
        assert possible == (not oracle.is_vacuous(box, case.expected))
        assert hull == case.mask(hull_of(box, case.expected) if possible else box)


def test_column_pairs_form_a_cycle_where_three_columns_are_compared_across() -> None:
    for count, crossing, expected in [
        (3, THREE, True), (3, THREE[:2], False), (3, THREE[1:], False), (2, [(0, 1)], False), (3, [], False),
        (4, [(0, 1), (1, 2), (2, 3)], False), (4, [(0, 2), (0, 3), (1, 2), (1, 3)], True), (4, [(0, 3), *THREE], True),
    ]:  # fmt: skip
        case = Compared([True] * count, crossing)
        assert Meaning(case.space).has_cycle == expected
        largest = max(oracle.parts(case.expected), key=len)
        points = oracle.satisfiable_points(tuple(case.expected[p] for p in largest))
        assert (len(points) < 3 ** len(largest)) == expected


CELLS = st.sampled_from([None, 0, 1, 2, 3])


def rows_of(case: Compared, most: int) -> st.SearchStrategy[list[tuple[int | None, ...]]]:
    return st.lists(st.tuples(*[CELLS] * len(case.columns)), max_size=most)


@settings(max_examples=2 * settings().max_examples)
@given(compared(), st.data(), st.integers(0, 5), st.booleans())
def test_the_reported_set_is_that_of_the_definition(
    case: Compared, data: st.DataObject, bound: int, sampled: bool
) -> None:
    rows = data.draw(rows_of(case, 8))
    with pytest.MonkeyPatch.context() as patch:
        if sampled:
            patch.setattr(seeding, "_NEGLIGIBLE_SECONDS", -1)
        found = [str(c) for c in discover(case.table(rows), space=case.space, max_predicates=bound, threads=1)]
    assert len(found) == len(set(found))
    assert set(found) == set(oracle.reported(rows, case.expected, case.columns, bound))


@given(compared(), st.data(), st.integers(1, 4), st.integers(1, 3))
def test_it_is_in_blocks_too(case: Compared, data: st.DataObject, bound: int, most: int) -> None:
    rows = data.draw(rows_of(case, 7))
    with blocked(case.table(rows), most) as table:
        seed = seed_blocks(table, case.space, bound)
    found = set(map(str, ReportedSet(case.space, seed.masks)))
    assert found == set(oracle.reported(rows, case.expected, case.columns, bound))


@given(st.sampled_from([[True] * 3, [False] * 3, [True, False, True]]), st.data(), st.integers(0, 4))
def test_what_holds_is_implied_by_something_reported(ordered: list[bool], data: st.DataObject, bound: int) -> None:
    """By the definition alone: all boxes, not the maximal ones."""
    case = Compared(ordered, THREE)
    rows = data.draw(rows_of(case, 6).filter(lambda rows: len(rows) > 1))
    reported = {
        oracle.meaning(image, case.expected)
        for box in oracle.reported(rows, case.expected, case.columns, bound).values()
        for image in ([box] if oracle.has_cross(box, case.expected) else [box, oracle.mirror(box)])
    }
    for box in data.draw(st.lists(boxes(case.expected), max_size=40)):
        if bound and oracle.size(box, case.expected) > bound:
            continue
        if oracle.is_vacuous(box, case.expected):
            assert oracle.holds(rows, box, case.expected)
        else:
            found = oracle.meaning(box, case.expected)
            assert oracle.holds(rows, box, case.expected) == any(oracle.within(found, other) for other in reported)


@given(compared(), st.data(), st.sampled_from([0, 2, 3, 4]))
def test_changes_name_reported_constraints_alone(case: Compared, data: st.DataObject, bound: int) -> None:
    """Two steps: what appears and disappears, with its reason, is the difference of the two reported sets."""
    versions = dict(enumerate(data.draw(rows_of(case, 6))))
    table = case.table(list(versions.values()))
    maintainer = Maintainer.seed(table, max_predicates=bound, space=case.space, threads=1)
    added = data.draw(rows_of(case, 2))
    removed = data.draw(st.sets(st.sampled_from(sorted(versions)), max_size=3)) if versions else set()
    after = {k: row for k, row in versions.items() if k not in removed} | {10 + i: r for i, r in enumerate(added)}
    changes = maintainer.apply(
        inserts=case.table(added).to_arrow(), deletes=case.table([versions[k] for k in sorted(removed)]).to_arrow()
    )
    sets = [oracle.reported(list(v.values()), case.expected, case.columns, bound) for v in (versions, after)]
    assert set(map(str, maintainer.constraints)) == set(sets[1])
    assert {str(c.constraint) for c in changes if c.appeared} == set(sets[1]) - set(sets[0])
    assert {str(c.constraint) for c in changes if not c.appeared} == set(sets[0]) - set(sets[1])
    for change in changes:
        if change.by is not None and str(change.by) != "not()":
            known = sets[0] if change.appeared else sets[1]
            mine = sets[1] if change.appeared else sets[0]
            assert oracle.implies_up_to_mirror(known[str(change.by)], mine[str(change.constraint)], case.expected)


def test_random_rows_report_nothing_that_no_table_can_break() -> None:
    case = Compared([True] * 3, THREE)
    rng = np.random.default_rng(0)
    found = discover(case.table([tuple(row) for row in rng.integers(0, 20, (400, 3)).tolist()]), space=case.space)
    assert len(found)
    for constraint in found:
        assert isinstance(constraint, DenialConstraint)
        predicates = [(p.left, str(p.operator), p.right) for p in constraint.predicates]
        assert not oracle.is_vacuous(oracle.box_of(predicates, case.expected, case.columns), case.expected)
