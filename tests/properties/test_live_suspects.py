"""Laws of suspects of live tables: they are those that a search of the same rows finds, whatever came before."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import holdfast
from holdfast import Maintainer
from holdfast.constraints import UsageError, json_value
from holdfast.discovery.near import suspects as searching
from holdfast.state.memory import MemoryStore
from holdfast.streaming.incoming.netting import DELETE, INSERT, Records
from holdfast.streaming.maintainers.near import maintainer as near_maintainer
from holdfast.streaming.maintainers.near import suspects as following
from holdfast.streaming.maintainers.near.suspects import CHANGED, CLEARED, SuspectBatches
from holdfast.streaming.maintainers.table.maintainer import TableMaintainer
from holdfast.tables import from_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.display.suspects import Suspect
    from holdfast.streaming.maintainers.near.suspects import FollowedSuspect

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.float64()), ("c", pa.string()), ("d", pa.int64())])
LEAST = 0.3
Row = tuple[Any, ...]
Cell = tuple[Any, ...]


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """Few rows make suspects, and tables of some rows are searched with every second or third batch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near_maintainer, "LEAST_SCORE", LEAST)
        patch.setattr(searching, "_KEPT", 2)
        patch.setattr(following, "_ROWS_A_BATCH", 10)
        patch.setattr(following, "MOST_FOLLOWED", 5)
        yield


def arrow(rows: Iterable[Row]) -> pa.Table:
    """Return rows as a table."""
    some = list(rows)
    return pa.table({name: [row[c] for row in some] for c, name in enumerate(SCHEMA.names)}, SCHEMA)


def described(one: Suspect, values: dict[str, Any]) -> Cell:
    """Return a suspect without the number of its row."""
    shown = tuple(json_value(values[name]) for name in SCHEMA.names)
    expected = (one.is_expected, json_value(one.expected))
    return (shown, one.column, json_value(one.value), expected, one.score, tuple(map(str, one.constraints)))


def searched(rows: pa.Table, least: float, share: str, bound: int) -> set[Cell]:
    """Return the suspects that a search of a table finds; copies of a row are the same."""
    table = from_arrow(rows, "t")
    found = holdfast.suspects(table, near=share, max_context=bound, min_score=least, threads=1)
    return {described(one, table.rows([one.row or 0])[0]) for one in found}


def live(maintainer: Maintainer, least: float) -> list[Cell]:
    """Return the suspects of a maintainer."""
    return [described(one, dict(one.image.values)) for one in maintainer.suspects(least) if one.image is not None]


def identity(one: FollowedSuspect) -> tuple[Row, str]:
    """Return what a suspect is known by."""
    return tuple(json_value(one.row.values[name]) for name in SCHEMA.names), one.column


groups = st.integers(0, 2)
cells = st.one_of(st.none(), st.integers(0, 3))
odd = st.tuples(groups, st.integers(0, 3), st.sampled_from([None, float("nan"), -0.0, 1.0, 2.0]), cells)


def regular(number: int) -> Row:
    """Return a row in which each column says what the others are."""
    return (number, number / 2, f"c{number}", -number)


def wrong(given: tuple[int, int, float | None, int | None]) -> Row:
    """Return a row with a wrong cell."""
    number, column, real, whole = given
    row = list(regular(number))
    row[column] = real if column == 1 else whole if column != 2 else (None if whole is None else f"c{whole}")
    return tuple(row)


class Histories(RuleBasedStateMachine):
    """Any history of batches, with undos and restarts."""

    @initialize(
        rows=st.lists(groups, max_size=24),
        odd=st.lists(odd, max_size=3),
        share=st.sampled_from(["10%", "20%", "40%"]),
        bound=st.integers(1, 2),
        every=st.sampled_from([None, 1, 3]),
    )
    def seed(self, rows: list[int], odd: list[Any], share: str, bound: int, every: int | None) -> None:
        self.share, self.bound, self.batches = share, bound, SuspectBatches(every)
        first = [*map(regular, rows), *map(wrong, odd)]
        self.maintainer = Maintainer.seed(
            arrow(first), name="t", max_predicates=None, near=share, near_context=bound, threads=1
        )
        near = self.maintainer.near_maintainer
        assert near is not None
        near.suspects.batches = self.batches
        near.suspects.seed()
        self.told = {identity(one) for one in near.suspects.found}
        self.is_searched = True
        self.store = MemoryStore()
        self._save(everything=True)

    @rule(
        rows=st.lists(groups, max_size=4),
        odd=st.lists(odd, max_size=2),
        deleted=st.lists(st.integers(0, 100), max_size=3),
        undone=st.booleans(),
    )
    def change(self, rows: list[int], odd: list[Any], deleted: list[int], undone: bool) -> None:
        there = self.maintainer.rows()[0]
        gone = there.take(pa.array(sorted({one % len(there) for one in deleted}), pa.int64())) if len(there) else there
        come = arrow([*map(regular, rows), *map(wrong, odd)])
        both = from_arrow(pa.concat_tables([gone.cast(SCHEMA), come]), "t")
        operations = np.repeat(np.array([DELETE, INSERT], np.int8), [len(gone), len(come)])
        near = self.maintainer.near_maintainer
        assert near is not None
        before = list(near.suspects.found)
        if undone:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(TableMaintainer, "_remember", _broken)
                with pytest.raises(ZeroDivisionError):
                    self.maintainer.apply_records(Records(both, operations))
            assert near.suspects.found == before
            return
        changes = self.maintainer.apply_records(Records(both, operations)).suspects
        live_rows = {tuple(map(json_value, row.values())) for row in self.maintainer.rows()[0].to_pylist()}
        for one, reason in changes.disappeared:
            assert reason == (CLEARED if identity(one)[0] in live_rows else CHANGED)
            self.told.remove(identity(one))
        assert not self.told & {identity(one) for one in changes.appeared}
        self.told |= {identity(one) for one in changes.appeared}
        self.is_searched = changes.is_searched
        assert {row for row, _ in self.told} <= live_rows
        self._save()

    @precondition(lambda self: hasattr(self, "store"))
    @rule()
    def restart(self) -> None:
        near = self.maintainer.near_maintainer
        assert near is not None
        before = [(identity(one), vars(one)) for one in near.suspects.found]
        self.maintainer = Maintainer.restore(self.store, threads=2)
        near = self.maintainer.near_maintainer
        assert near is not None
        near.suspects.batches = self.batches
        assert Counter(map(repr, before)) == Counter(
            map(repr, [(identity(one), vars(one)) for one in near.suspects.found])
        )

    @invariant()
    def they_are_those_of_the_rows(self) -> None:
        if not hasattr(self, "store"):
            return
        rows = self.maintainer.rows()[0]
        found = live(self.maintainer, 0.05)
        assert len(set(found)) == len(found)
        assert set(found) == searched(rows, 0.05, self.share, self.bound)
        near = self.maintainer.near_maintainer
        assert near is not None
        assert {identity(one) for one in near.suspects.found} == self.told
        if self.is_searched:
            every = searched(rows, LEAST, self.share, self.bound)
            assert near.suspects.count == len(every)
            scores = sorted((cell[4] for cell in every), reverse=True)[:5]
            assert [one.score for one in near.suspects.found] == [round(score, 4) for score in scores]
            assert self.told <= {cell[:2] for cell in every}

    def _save(self, *, everything: bool = False) -> None:
        for batch in self.maintainer.save(everything=everything):
            self.store.write(batch)


def _broken(*_: object) -> None:
    raise ZeroDivisionError


Histories.TestCase.settings = settings(stateful_step_count=8, deadline=None)
TestHistories = Histories.TestCase


def test_suspects_that_are_switched_off_are_dropped_by_the_next_seed_or_batch() -> None:
    first = [*map(regular, [0] * 9 + [1] * 9), (0, 0.5, "c0", 0)]
    given: Any = {"name": "t", "max_predicates": None, "near": "20%", "threads": 1}
    for seeded in (True, False):
        near = (maintainer := Maintainer.seed(arrow(first), **given)).near_maintainer
        assert near is not None
        maintainer.follow_suspects(SuspectBatches())
        near.suspects.seed()
        (suspect,) = near.suspects.found
        maintainer.follow_suspects(None)
        if seeded:
            near.suspects.seed()
        else:
            changes = maintainer.step(inserts=arrow([regular(0)])).suspects
            assert (changes.disappeared, changes.found) == ([(suspect, None)], None)
        assert near.suspects.found == []


def test_a_maintainer_without_near_constraints_has_no_suspects() -> None:
    with pytest.raises(UsageError, match="near='1%'"):
        Maintainer.seed(arrow([regular(1)]), name="t").suspects()
