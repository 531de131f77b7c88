"""Laws of exceptions: whatever comes and goes, they are the least number of rows without which a constraint holds."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.constraints import PredicateSpace
from holdfast.indexes import exceptions, rows
from holdfast.indexes.exceptions import ClassExceptions, Exceptions, KeyExceptions
from holdfast.indexes.rows import RowSet
from holdfast.tables import ReadOptions, Table, from_arrow
from tests.invariants import check_invariants

Row = tuple[int | None, ...]
COLUMNS = ("a", "b", "c")
TYPES = pa.schema([(name, pa.int64()) for name in COLUMNS])

values = st.sampled_from([None, 0, 1, 2, 3, -(2**63)])
table_rows = st.tuples(values, values, values)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that grow with a few rows."""
    monkeypatch.setattr(exceptions, "_FEWEST", 2)
    monkeypatch.setattr(exceptions, "_AT_ONCE", 3)
    monkeypatch.setattr(rows, "_FILLED_AT_ONCE", 4)


def _table(some: Sequence[Row]) -> Table:
    columns = {name: [row[c] for row in some] for c, name in enumerate(COLUMNS)}
    return from_arrow(pa.table(columns, TYPES), "t", ReadOptions())


def _groups(some: Sequence[Row], context: Sequence[int]) -> list[list[Row]]:
    found: dict[Row, list[Row]] = {}
    for row in some:
        found.setdefault(tuple(row[c] for c in context), []).append(row)
    return list(found.values())


def _expected(some: Sequence[Row], counted: Exceptions) -> int:
    match counted:
        case KeyExceptions():
            return sum(len(group) - 1 for group in _groups(some, counted._columns.tolist()))
        case ClassExceptions():
            *context, dependent = counted._columns.tolist()
            largest = [max(Counter(row[dependent] for row in group).values()) for group in _groups(some, context)]
            return len(some) - sum(largest)
        case _:
            raise AssertionError(counted)


def _all(table: RowSet) -> list[Exceptions]:
    return [
        *(KeyExceptions(table, columns) for columns in ([0], [1, 2], [0, 1, 2])),
        *(ClassExceptions(table, context, a) for context, a in (([], 0), ([0], 1), ([2, 1], 0))),
    ]


@settings(deadline=None)
@given(
    first=st.lists(table_rows, max_size=5),
    batches=st.lists(st.lists(st.tuples(table_rows, st.integers(-2, 2)), max_size=4), max_size=4),
)
def test_exceptions_are_the_fewest_rows_that_have_to_go(first: list[Row], batches: list[list[tuple[Row, int]]]) -> None:
    table = RowSet(PredicateSpace(_table([]).schema))
    table.fill(_table(first))
    live = Counter(first)
    counted = _all(table)
    for batch in [[], *batches]:
        changes: Counter[Row] = Counter()
        for row, copies in batch:
            changes[row] += copies
        taken = {row: max(copies, -live[row]) for row, copies in changes.items()}
        if sum(live.values()) + sum(taken.values()) > 8:
            continue
        table.begin()
        codes, relabelled = table.encode(_table(list(taken)))
        if relabelled:
            for one in counted:
                one.rebuild()
        delta = table.change(codes, np.array(list(taken.values()), np.int64))
        live.update(taken)
        for one in counted:
            one.follow(delta)
        table.forget()
        some = list(live.elements())
        assert [one.count for one in counted] == [_expected(some, one) for one in counted]
        for one in counted:
            check_invariants(one)


def test_many_rows_with_copies() -> None:
    """Large groups, and many of them, against counts anew."""
    rng = np.random.default_rng(3)
    table = RowSet(PredicateSpace(_table([]).schema))
    first = [(int(n // 7), int(n), int(n % 5)) for n in range(700)]
    table.fill(_table(first))
    counted = _all(table)
    for _ in range(6):
        some = [(int(n // 7), int(n + rng.integers(-3, 3)), int(n % 5)) for n in rng.integers(0, 700, 40)]
        taken = dict.fromkeys(some, 1) | dict.fromkeys(set(first[:: int(rng.integers(5, 9))]), -1)
        table.begin()
        codes, _ = table.encode(_table(list(taken)))
        there = table.slots_of(codes)
        signs = np.array(list(taken.values()))
        known = (signs > 0) | (np.where(there >= 0, table.copies[there], 0) > 0)
        delta = table.change(codes[known], signs[known])
        for one in counted:
            one.follow(delta)
            check_invariants(one)
        table.forget()
    assert len({one.count for one in counted}) > 2
