"""Laws of near constraints that are kept: after every batch they are those of the definition, whatever came before."""

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations

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
from holdfast.streaming.maintainers.near import counting
from holdfast.streaming.maintainers.near.maintainer import NearMaintainer
from holdfast.tables import ReadOptions, Table, from_arrow

Row = tuple[int | None, ...]
COLUMNS = ("a", "b", "c", "d")
TYPES = pa.schema([(name, pa.int64()) for name in COLUMNS])
ORDERED = (True, True, False, True)

Near = tuple[str, frozenset[int], tuple[int, ...], int]
"""Shape, context, target, exceptions."""


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterable[None]:
    """Tables that grow with a few rows, and samples that are smaller than the table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exceptions, "_FEWEST", 2)
        patch.setattr(counting, "_SAMPLED", 1)
        yield


def _table(some: Sequence[Row]) -> Table:
    columns = {name: [row[c] for row in some] for c, name in enumerate(COLUMNS)}
    return from_arrow(pa.table(columns, TYPES), "t", ReadOptions())


def _above(value: int | None, other: int | None) -> bool:
    """Null is below every value."""
    return value is not None and (other is None or value > other)


def _groups(some: Iterable[Row], context: Iterable[int]) -> list[list[Row]]:
    found: dict[Row, list[Row]] = {}
    for row in some:
        found.setdefault(tuple(row[c] for c in context), []).append(row)
    return list(found.values())


@cache
def _longest(some: tuple[Row, ...], a: int, b: int, *, descending: bool) -> int:
    """Return how many rows stay at most, of which no two are a swap: all sets, row by row."""

    def swapped(t: Row, s: Row) -> bool:
        if not _above(s[a], t[a]):
            return False
        return _above(s[b], t[b]) if descending else _above(t[b], s[b])

    best = 0
    stack: list[tuple[int, tuple[Row, ...]]] = [(0, ())]
    while stack:
        at, kept = stack.pop()
        if len(kept) + len(some) - at <= best:
            continue
        if at == len(some):
            best = len(kept)
            continue
        stack.append((at + 1, kept))
        if not any(swapped(some[at], row) or swapped(row, some[at]) for row in kept):
            stack.append((at + 1, (*kept, some[at])))
    return best


def _exceptions(rows: Sequence[Row], shape: str, context: Iterable[int], target: tuple[int, ...]) -> int:
    count = 0
    for group in _groups(rows, context):
        match shape:
            case "key":
                count += len(group) - 1
            case "constant":
                count += len(group) - max(Counter(row[target[0]] for row in group).values())
            case _:
                both = tuple(sorted(group, key=repr))
                count += len(group) - _longest(both, *target, descending=shape == "order_desc")
    return count


def expected(rows: Sequence[Row], share: Fraction, bound: int) -> set[Near]:
    """Return the minimal near constraints by their definition."""
    most = int(share * len(rows))
    columns = range(len(COLUMNS))
    contexts = [frozenset(c) for size in range(bound + 1) for c in combinations(columns, size)]
    shapes: list[tuple[str, tuple[int, ...]]] = [("key", ()), *(("constant", (a,)) for a in columns)]
    ordered = [c for c in columns if ORDERED[c]]
    shapes += [(shape, pair) for pair in combinations(ordered, 2) for shape in ("order", "order_desc")]
    near: dict[tuple[str, tuple[int, ...], frozenset[int]], int] = {}
    for shape, target in shapes:
        for context in contexts:
            if context & set(target) or (shape == "key" and not context):
                continue
            count = _exceptions(rows, shape, sorted(context), target)
            if count <= most:
                near[shape, target, context] = count

    def hides(shape: str, target: tuple[int, ...], context: frozenset[int]) -> bool:
        for smaller in (c for c in contexts if c <= context):
            if smaller < context and (shape, target, smaller) in near:
                return True
            if shape != "key" and ("key", (), smaller) in near:
                return True
            if shape in {"order", "order_desc"} and any(("constant", (one,), smaller) in near for one in target):
                return True
        return False

    return {
        (shape, context, target, count)
        for (shape, target, context), count in near.items()
        if not hides(shape, target, context)
    }


values = st.sampled_from([None, 0, 1, 2])
table_rows = st.tuples(values, values, values, values)
shares = st.sampled_from([Fraction(0), Fraction(1, 10), Fraction(1, 5), Fraction(1, 3), Fraction(1, 2)])


class Histories(RuleBasedStateMachine):
    """Any history of batches, with undos and restarts."""

    @initialize(rows=st.lists(table_rows, max_size=8), share=shares, bound=st.integers(1, 3))
    def seed(self, rows: list[Row], share: Fraction, bound: int) -> None:
        self.share, self.bound = share, bound
        self.live = Counter(rows)
        self.rows = RowSet(PredicateSpace(_table([]).schema))
        self.rows.fill(_table(rows))
        self.store = MemoryStore()
        self.near = NearMaintainer.seed(self.rows, share, bound, ORDERED)
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
        if self.live.total() + changes.total() > 10:
            return
        self.rows.begin()
        self.near.begin()
        codes, relabelled = self.rows.encode(_table(list(changes)))
        self.near.relabel(relabelled)
        delta = self.rows.change(codes, np.array(list(changes.values()), np.int64))
        if not (undone and late):
            self.near.follow(delta)
        if undone:
            self.rows.undo()
            self.near.undo()
            self.near.begin()
            return
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
        self.near = NearMaintainer.restore(self.store, b"n", rows, ORDERED)

    @invariant()
    def they_are_those_of_the_definition(self) -> None:
        if not hasattr(self, "near"):
            return
        names = {name: c for c, name in enumerate(COLUMNS)}
        found = {
            (
                one.shape.value,
                frozenset(names[name] for name in one.context),
                tuple(names[name] for name in one.target),
                one.exceptions,
            )
            for one in self.near.constraints
        }
        rows = list(self.live.elements())
        assert all(one.rows == len(rows) for one in self.near.constraints)
        assert found == expected(rows, self.share, self.bound)
        self.near.check_invariants()

    def _save(self, *, everything: bool = False) -> None:
        for batch in self.rows.save(b"r", everything=everything):
            self.store.write(batch)
        for batch in self.near.save(b"n", everything=everything):
            self.store.write(batch)


Histories.TestCase.settings = settings(stateful_step_count=12, deadline=None)
TestHistories = Histories.TestCase
