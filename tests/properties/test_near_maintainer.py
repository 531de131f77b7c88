"""Laws of near constraints that are kept: after every batch they are those of the definition, whatever came before."""

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.constraints import PredicateSpace
from holdfast.indexes import exceptions
from holdfast.indexes.rows import RowSet
from holdfast.state.memory import MemoryStore
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.near import counting, maintainer
from holdfast.streaming.maintainers.near.changes import NearExample
from holdfast.streaming.maintainers.near.counts import ordered_in
from holdfast.streaming.maintainers.near.maintainer import NearMaintainer
from holdfast.streaming.maintainers.near.shown import MOST_SHOWN
from holdfast.streaming.maintainers.table.bounds import NearBounds
from holdfast.tables import ReadOptions, Table, from_arrow
from tests.invariants import check_invariants
from tests.oracles import near as oracle

Row = tuple[int | None, ...]
COLUMNS = ("a", "b", "c", "d")
TYPES = pa.schema([(name, pa.int64()) for name in COLUMNS])
MOST_ROWS = 7


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterable[None]:
    """Tables that grow with a few rows, samples that are smaller than the table, and members that grow up soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exceptions, "_FEWEST", 2)
        patch.setattr(counting, "_SAMPLED", 1)
        patch.setattr(counting, "_BATCHES_YOUNG", 4)
        patch.setattr(counting, "_LARGE", 0)
        patch.setattr(counting, "_MOST", 0)
        patch.setattr(maintainer, "_BATCHES_FOLLOWED", 3)
        yield


def _table(some: Sequence[Row]) -> Table:
    columns = {name: [row[c] for row in some] for c, name in enumerate(COLUMNS)}
    return from_arrow(pa.table(columns, TYPES), "t", ReadOptions())


@cache
def _exceptions(some: tuple[Row, ...], one: oracle.Near) -> int:
    return oracle.exceptions(some, one)


@cache
def _removed(some: tuple[Row, ...], one: oracle.Near) -> dict[Row, bool]:
    return {some[place]: is_undecided for place, is_undecided in oracle.removed(some, one).items()}


def _values(one: NearExample) -> Row:
    return cast("Row", tuple(one.row.values[name] for name in COLUMNS))


def _shown(one: NearExample) -> tuple[str, Row]:
    return str(one.constraint), _values(one)


def expected(some: Sequence[Row], share: Fraction, bound: int) -> dict[oracle.Near, int]:
    """Return the near set by its definition, with the exceptions of each."""
    rows = tuple(sorted(some, key=repr))
    found = oracle.near(rows, len(COLUMNS), share, bound, lambda _, one: _exceptions(rows, one))
    return {one: count for one, count in found.items() if not any(oracle.leaves_out(other, one) for other in found)}


values = st.sampled_from([None, 0, 1, 2])
table_rows = st.tuples(values, values, values, values)
shares = st.sampled_from([Fraction(0), Fraction(1, 10), Fraction(1, 5), Fraction(1, 3), Fraction(1, 2)])


class Histories(RuleBasedStateMachine):
    """Any history of batches, with undos and restarts."""

    @initialize(rows=st.lists(table_rows, max_size=MOST_ROWS), share=shares, bound=st.integers(1, 3), few=st.booleans())
    def seed(self, rows: list[Row], share: Fraction, bound: int, few: bool) -> None:
        """Begin; where only `few` members are searched with a batch, nothing may be shown of others."""
        self.share, self.bound, self.few = share, bound, few
        self.live = Counter(rows)
        self.rows = RowSet(PredicateSpace(_table([]).schema))
        self.rows.fill(_table(rows))
        self.store = MemoryStore()
        self.near = self._maintainer()
        self.near.seed()
        self.told = {_shown(one): one.undecided for one in self.near.shown.examples}
        self._save(everything=True)

    @rule(
        come=st.lists(table_rows, max_size=3),
        go=st.lists(st.integers(0, 100), max_size=3),
        undone=st.booleans(),
        late=st.booleans(),
    )
    def change(self, come: list[Row], go: list[int], undone: bool, late: bool) -> None:
        there = sorted(self.live.elements(), key=repr)
        changes = Counter(come)
        for place in {one % len(there) for one in go} if there else ():
            changes[there[place]] -= 1
        changes = Counter({row: copies for row, copies in changes.items() if copies})
        if self.live.total() + changes.total() > MOST_ROWS:
            return
        self.rows.begin()
        self.near.begin()
        codes, relabelled = self.rows.encode(_table(list(changes)))
        if relabelled:
            self.near.rebuild()
        delta = self.rows.change(codes, np.array(list(changes.values()), np.int64))
        if not (undone and late):
            self.near.follow(delta)
        if undone:
            self.rows.undo()
            self.near.undo()
            return
        for one in self.near.shown.removed:
            del self.told[_shown(one)]
        self.told |= {_shown(one): one.undecided for one in self.near.shown.added}
        self.rows.forget()
        self.live.update(changes)
        self.live = +self.live
        self._save()

    @precondition(lambda self: hasattr(self, "near"))
    @rule()
    def restart(self) -> None:
        rows = RowSet(PredicateSpace(_table([]).schema))
        rows.restore(self.store, b"r")
        self.rows = rows
        self.near = self._maintainer()
        self.near.restore(self.store, b"n")

    @invariant()
    def they_are_those_of_the_definition(self) -> None:
        if not hasattr(self, "near"):
            return
        place = {name: c for c, name in enumerate(COLUMNS)}
        found = {
            oracle.Near(
                one.shape.value, tuple(place[name] for name in one.context), tuple(place[name] for name in one.target)
            ): one.exceptions
            for one in self.near.constraints
        }
        rows = list(self.live.elements())
        assert all(one.rows == len(rows) for one in self.near.constraints)
        assert found == expected(rows, self.share, self.bound)
        check_invariants(self.near)
        self._what_is_shown_is_an_exception(rows, place)

    def _what_is_shown_is_an_exception(self, rows: list[Row], place: dict[str, int]) -> None:
        assert {_shown(one): one.undecided for one in self.near.shown.examples} == self.told
        for one in self.near.shown.examples:
            constraint = one.constraint
            context, target = (tuple(place[name] for name in some) for some in (constraint.context, constraint.target))
            removed = _removed(tuple(sorted(rows, key=repr)), oracle.Near(constraint.shape.value, context, target))
            assert removed[_values(one)] == one.undecided, (str(constraint), one.row)
        named = {str(one.constraint) for one in self.near.shown.examples}
        broken = {str(one) for one in self.near.constraints if one.exceptions}
        assert named <= broken
        assert self.few or named == broken
        if self.few:
            return
        copies: Counter[str] = Counter()  # of the rows that are shown; all are, as MOST_SHOWN is above MOST_ROWS
        for one in self.near.shown.examples:
            copies[str(one.constraint)] += self.live[_values(one)]
        assert all(copies[str(one)] >= one.exceptions for one in self.near.constraints)

    def _maintainer(self) -> NearMaintainer:
        bounds = NearBounds(self.share, self.bound)
        ordered = ordered_in(self.rows.space.schema.columns, bounds)
        near = NearMaintainer(self.rows, bounds, counting.LiveCounts(self.rows, ordered))
        if self.few:
            near.shown.rows_a_batch = 1
        return near

    def _save(self, *, everything: bool = False) -> None:
        for batch in self.rows.save(b"r", everything=everything):
            self.store.write(batch)
        for batch in self.near.save(b"n", everything=everything):
            self.store.write(batch)


Histories.TestCase.settings = settings(stateful_step_count=12, deadline=None)
TestHistories = Histories.TestCase


PEOPLE = {"id": range(8), "zip": [1, 1, 1, 1, 2, 2, 2, 2], "city": list("aaaabbbb"), "mood": list("xyzxyzxy")}


def test_a_wrong_record_makes_a_constraint_nearly_hold_and_its_correction_restores_it() -> None:
    people = pa.table({name: list(values) for name, values in PEOPLE.items()})
    followed = Maintainer.seed(people, name="people", key="id", max_predicates=None, near="12.5%", near_context=1)
    assert "{zip}: [] -> city" in map(str, followed.near)
    wrong = pa.table({"id": [3], "zip": [1], "city": ["b"], "mood": ["x"]})
    result = followed.step(inserts=wrong)
    assert "~ {zip}: [] -> city (0 to 1 exception of 8 rows)" in map(str, result.near)
    (now,) = [one for one in followed.near if str(one) == "{zip}: [] -> city"]
    assert (now.exceptions, now.rows, now.share) == (1, 8, Fraction(1, 8))
    store = MemoryStore()
    for batch in followed.save(everything=True):
        store.write(batch)
    again = Maintainer.restore(store)
    assert list(again.near) == list(followed.near)
    right = pa.table({"id": [3], "zip": [1], "city": ["a"], "mood": ["x"]})
    for one in (followed, again):
        assert "~ {zip}: [] -> city (1 to 0 exceptions of 8 rows)" in map(str, one.step(inserts=right).near)
        check_invariants(one)
    two_wrong = pa.table({"id": [2, 3], "zip": [1, 1], "city": ["b", "b"], "mood": ["x", "x"]})
    assert "- {zip}: [] -> city (violated, 0 to 2 exceptions of 8 rows)" in map(str, again.step(inserts=two_wrong).near)
    assert "+ {zip}: [] -> city (entered, 1 exception of 8 rows)" in map(
        str, again.step(inserts=right.set_column(0, "id", [[2]])).near
    )


def test_a_batch_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    people = pa.table({name: list(values) for name, values in PEOPLE.items()})
    followed = Maintainer.seed(people, name="people", key="id", near=0.25)
    before = list(followed.near)

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(RowSet, "forget", broken)
        with pytest.raises(RuntimeError, match="broken"):
            followed.step(deletes=pa.table({"id": [0, 1, 4]}))
    assert list(followed.near) == before
    check_invariants(followed)
    assert followed.step(deletes=pa.table({"id": [0, 1, 4]})).near
    check_invariants(followed)


def test_new_exceptions_are_shown_beside_old_ones() -> None:
    homes = pa.table(
        {"id": range(600), "zip": [n // 3 for n in range(600)], "city": [f"c{n // 3}" for n in range(600)]}
    )
    first = homes.set_column(2, "city", [["x", *homes["city"].to_pylist()[1:]]])
    followed = Maintainer.seed(first, name="homes", key="id", max_predicates=2, near="5%", near_context=1)
    numbers = [3 * zip_code for zip_code in range(1, 16)]
    wrong = pa.table({"id": numbers, "zip": [n // 3 for n in numbers], "city": ["y"] * len(numbers)})
    result = followed.step(inserts=wrong)
    shown = [one.row for one in result.exceptions_shown if str(one.constraint) == "{zip}: [] -> city"]
    assert len(shown) == MOST_SHOWN - 1, "beside the exception that is shown already"
    assert {row.values["id"] for row in shown} < set(numbers)
    assert not [one for one in result.exceptions_hidden if str(one.constraint) == "{zip}: [] -> city"]
