"""Laws of where exceptions of live tables are: after a search as `holdfast exceptions` finds them, whatever came before."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast import Maintainer
from holdfast.constraints import NearShape
from holdfast.discovery.near import concentration, where
from holdfast.discovery.near.discover import exceptions_of
from holdfast.discovery.near.where import concentrations_of
from holdfast.state.memory import MemoryStore
from holdfast.streaming.incoming.netting import DELETE, INSERT, Records
from holdfast.streaming.maintainers.near import concentrations
from holdfast.streaming.maintainers.near.suspects import SuspectBatches
from holdfast.streaming.maintainers.table.maintainer import TableMaintainer
from holdfast.tables import from_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.constraints import NearConstraint
    from holdfast.streaming.maintainers.near.maintainer import NearMaintainer

SCHEMA = pa.schema(
    [("zip", pa.int64()), ("city", pa.string()), ("at", pa.timestamp("ns", "UTC")), ("source", pa.string())]
)
FEW = 2
FIRST = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
Row = tuple[Any, ...]
Told = dict[tuple[str, str, str], Any]


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """Few rows concentrate exceptions, and a search takes four members."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(concentration, "FEWEST", FEW)
        patch.setattr(where, "FEWEST", FEW)
        patch.setattr(concentrations, "FEWEST", FEW)
        patch.setattr(concentration, "SIGNIFICANT", 0.9)
        patch.setattr(concentrations, "SEARCHED_AT_ONCE", 8)
        yield


def arrow(rows: Iterable[Row]) -> pa.Table:
    """Return rows as a table."""
    some = list(rows)
    return pa.table({name: pa.array([row[c] for row in some], SCHEMA.types[c]) for c, name in enumerate(SCHEMA.names)})


def row(group: int, source: str | None, wrong: bool) -> Row:
    """Return a row whose city follows from its zip, unless it is wrong."""
    at = FIRST + datetime.timedelta(microseconds=group)
    return (group, "elsewhere" if wrong else f"c{group}", at, source)


def near_of(maintainer: Maintainer) -> NearMaintainer:
    assert maintainer.near_maintainer is not None
    return maintainer.near_maintainer


def on_file(rows: pa.Table, constraint: NearConstraint) -> list[dict[str, Any]]:
    """Return the values that a search of a file finds."""
    table = from_arrow(rows, "t")
    return [one.fields() for one in concentrations_of(table, constraint, exceptions_of(table, constraint))]


def plain(values: Sequence[Any]) -> list[dict[str, Any]]:
    """Return values without the totals that files have elsewhere."""
    return [{name: value[name] for name in value if name not in {"of_exceptions", "of_rows"}} for value in values]


rows = st.lists(
    st.builds(row, st.integers(0, 2), st.sampled_from(["web", "shop", None]), st.just(value=False)), max_size=14
)
odd = st.lists(st.builds(row, st.integers(0, 2), st.just("i'7"), st.just(value=True)), max_size=4)


class Histories(RuleBasedStateMachine):
    """Any history of batches, with undos and restarts."""

    @initialize(rows=rows, odd=odd, every=st.sampled_from([1, 2]), orders=st.booleans())
    def seed(self, rows: list[Row], odd: list[Row], every: int, orders: bool) -> None:
        self.batches = SuspectBatches(every)
        given: Any = {"name": "t", "max_predicates": None, "near": "40%", "near_context": 1, "near_orders": orders}
        self.maintainer = Maintainer.seed(arrow([*rows, *odd]), threads=1, **given)
        self.maintainer.follow_suspects(self.batches)
        near_of(self.maintainer).seed_searches()
        self.told = self._found()
        for constraint, values in near_of(self.maintainer).concentrations.found:
            assert plain(values) == on_file(self.maintainer.rows()[0], constraint)
        self.store = MemoryStore()
        self._save(everything=True)

    @rule(rows=rows, odd=odd, deleted=st.lists(st.integers(0, 100), max_size=3), undone=st.booleans())
    def change(self, rows: list[Row], odd: list[Row], deleted: list[int], undone: bool) -> None:
        there = self.maintainer.rows()[0]
        gone = there.take(pa.array(sorted({one % len(there) for one in deleted}), pa.int64())) if len(there) else there
        come = arrow([*rows, *odd])
        both = from_arrow(pa.concat_tables([gone.cast(SCHEMA), come]), "t")
        records = Records(both, np.repeat(np.array([DELETE, INSERT], np.int8), [len(gone), len(come)]))
        if undone:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(TableMaintainer, "_remember", _broken)
                with pytest.raises(ZeroDivisionError):
                    self.maintainer.apply_records(records)
            assert self._found() == self.told
            return
        result = self.maintainer.apply_records(records)
        changes = result.concentrations
        assert result.suspects.is_searched or not changes.searched
        for constraint, value in changes.gone:
            del self.told[str(constraint), value["column"], repr(value["value"])]
        for constraint, values in changes.searched:
            assert plain(values) == on_file(self.maintainer.rows()[0], constraint)
            self.told |= {(str(constraint), value["column"], repr(value["value"])): value for value in values}
        self._save()

    @precondition(lambda self: hasattr(self, "store"))
    @rule()
    def restart(self) -> None:
        self.maintainer = Maintainer.restore(self.store, threads=2)
        self.maintainer.follow_suspects(self.batches)

    @invariant()
    def the_changes_add_up(self) -> None:
        if not hasattr(self, "store"):
            return
        assert self._found() == self.told
        exceptions = {str(one): one.exceptions for one in self.maintainer.near}
        assert all(exceptions[text] >= FEW for text, _, _ in self.told)

    def _found(self) -> Told:
        return {
            (str(constraint), value["column"], repr(value["value"])): value
            for constraint, values in near_of(self.maintainer).concentrations.found
            for value in values
        }

    def _save(self, *, everything: bool = False) -> None:
        for batch in self.maintainer.save(everything=everything):
            self.store.write(batch)


def _broken(*_: object) -> None:
    raise ZeroDivisionError


Histories.TestCase.settings = settings(stateful_step_count=8, deadline=None, max_examples=25)
TestHistories = Histories.TestCase


def seeded(**given: Any) -> Maintainer:
    """Return a maintainer with two sources, of which one is wrong."""
    first = [row(number % 3, "web", wrong=False) for number in range(60)]
    wrong = [row(number % 3, "i'7", wrong=True) for number in range(6)]
    options: Any = {"name": "t", "max_predicates": None, "near": "20%", "near_context": 1, "threads": 1, **given}
    maintainer = Maintainer.seed(arrow([*first, *wrong]), **options)
    maintainer.follow_suspects(SuspectBatches(1))
    near_of(maintainer).seed_searches()
    return maintainer


def test_a_bad_source_is_named_with_the_rule_that_holds_elsewhere() -> None:
    near = near_of(seeded())
    found = {str(constraint): values for constraint, values in near.concentrations.found}
    (value,) = found["{zip}: [] -> city"]
    assert (value["column"], value["value"], value["exceptions"], value["of_exceptions"]) == ("source", "i'7", 6, 6)
    assert value["rules"] == ["not(t.zip = s.zip and t.city != s.city and t.source != 'i''7' and s.source != 'i''7')"]
    shapes = {constraint.shape for constraint, _ in near.concentrations.found}
    assert NearShape.ORDER in shapes, "order compatibilities too"


def test_members_take_turns() -> None:
    maintainer = seeded()
    near = near_of(maintainer)
    near.concentrations.clear()
    asked = [one for one in near.constraints if one.exceptions >= FEW]
    seen: list[str] = []
    some = arrow([row(0, "web", wrong=False)])
    for number in range(2 * len(asked)):
        changes = maintainer.step(**{"deletes" if number % 2 else "inserts": some}).concentrations
        seen += [str(constraint) for constraint, _ in changes.searched]
    assert set(seen) == set(map(str, asked))
    for of_orders in (False, True):
        counts = [seen.count(str(one)) for one in asked if (len(one.target) == 2) == of_orders]
        assert counts
        assert max(counts) - min(counts) <= 1


def test_searches_that_are_switched_off_forget_what_they_found() -> None:
    maintainer = seeded()
    count = sum(len(values) for _, values in near_of(maintainer).concentrations.found)
    maintainer.follow_suspects(None)
    changes = maintainer.step(inserts=arrow([row(0, "web", wrong=False)])).concentrations
    assert (len(changes.gone), changes.searched) == (count, [])
    assert near_of(maintainer).concentrations.found == []
