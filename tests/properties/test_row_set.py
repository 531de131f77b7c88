"""Distinct rows with their copies, against a plain counter."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.constraints import PredicateSpace
from holdfast.indexes import rows as module
from holdfast.indexes.rows import RowSet
from holdfast.tables import Table, from_arrow
from tests.invariants import check_invariants

CELLS = st.tuples(st.integers(0, 3), st.sampled_from(["x", "y", None]))


def _table(rows: list[tuple[int, str | None]]) -> Table:
    columns = {"a": pa.array([a for a, _ in rows], pa.int64()), "b": pa.array([b for _, b in rows], pa.string())}
    return from_arrow(pa.table(columns), "r")


@settings(max_examples=150)
@given(st.lists(st.lists(st.tuples(CELLS, st.integers(-3, 3)), max_size=5), max_size=6), st.booleans())
def test_signed_copies_add_up(batches: list[list[tuple[tuple[int, str | None], int]]], undo: bool) -> None:
    rows = RowSet(PredicateSpace(_table([]).schema))
    model: Counter[tuple[int, str | None]] = Counter()
    for batch in batches:
        netted: Counter[tuple[int, str | None]] = Counter()
        for row, sign in batch:
            netted[row] += sign
        netted = Counter({row: sign for row, sign in netted.items() if sign})
        codes, _ = rows.encode(_table(list(netted)))
        signs = np.array(list(netted.values()), np.int64)
        if undo:
            rows.begin()
            rows.change(codes, signs)
            rows.undo()
            check_invariants(rows)
        before = model.copy()
        model.update(netted)
        delta = rows.change(codes, signs)
        check_invariants(rows)
        names = dict(zip(netted, rows.slots_of(codes).tolist(), strict=True))
        assert set(delta.appeared.tolist()) == {names[r] for r in netted if before[r] <= 0 < model[r]}
        assert set(delta.vanished.tolist()) == {names[r] for r in netted if model[r] <= 0 < before[r]}
        assert set(delta.doubled.tolist()) == {names[r] for r in netted if before[r] == 1 and model[r] > 1}
        assert set(delta.single.tolist()) == {names[r] for r in netted if before[r] > 1 and model[r] == 1}
        assert delta.copies_in == sum(max(max(model[r], 0) - max(before[r], 0), 0) for r in netted)
        assert delta.copies_out == sum(max(max(before[r], 0) - max(model[r], 0), 0) for r in netted)
        assert delta.newly_owed == sum(max(max(-model[r], 0) - max(-before[r], 0), 0) for r in netted)
        rows.forget()
        check_invariants(rows)
        assert len(rows) == sum(max(count, 0) for count in model.values())
        assert rows.owed_copies == sum(max(-count, 0) for count in model.values())
        found = {tuple(row.values()) for row in rows.values(rows.live())}
        assert found == {row for row, count in model.items() if count > 0}


@given(st.lists(CELLS, max_size=12), st.integers(1, 5))
def test_first_rows_are_the_same_however_many_are_taken_at_once(cells: list[tuple[int, str | None]], size: int) -> None:
    """Copies that are far from each other, and values that come later, included."""
    filled, whole = (RowSet(PredicateSpace(_table([]).schema)) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FILLED_AT_ONCE", size)
        filled.fill(_table(cells))
    whole.fill(_table(cells))
    for rows in (filled, whole):
        check_invariants(rows)
        assert len(rows) == len(cells)
        found = zip(rows.values(rows.live()), rows.copies[rows.live()].tolist(), strict=True)
        assert [(tuple(row.values()), copies) for row, copies in found] == list(Counter(cells).items())
        before = rows.codes[rows.live()]
        rows.change(*_one_more(rows))
        rows.undo()
        assert np.array_equal(rows.codes[rows.live()], before)


def _one_more(rows: RowSet) -> tuple[np.ndarray, np.ndarray]:
    codes, _ = rows.encode(_table([(9, "new")]))
    return codes, np.ones(1, np.int64)


def test_a_key_names_the_live_row() -> None:
    rows = RowSet(PredicateSpace(_table([]).schema), ["a"])
    old, _ = rows.encode(_table([(1, "x"), (2, "y")]))
    rows.change(old, np.ones(2, np.int64))
    new, _ = rows.encode(_table([(1, "y"), (3, None)]))
    assert rows.slots_with_key(new).tolist()[1] == -1
    rows.change(np.concatenate([old[:1], new]), np.array([-1, 1, 1]))
    assert [row["b"] for row in rows.values(rows.slots_with_key(new))] == ["y", None]
    check_invariants(rows)
