"""Stable codes: order and equality of values of every type, whatever comes later; and back to the values."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.constraints import Column, PredicateSpace, Schema
from holdfast.indexes import labels
from holdfast.indexes.rows import RowSet
from holdfast.indexes.texts import Texts
from holdfast.tables import ReadOptions, Table, from_arrow
from tests.invariants import check_invariants
from tests.oracles import denial as oracle
from tests.oracles.values import Column as OracleColumn
from tests.oracles.values import Row
from tests.properties.tables import DOMAINS

STRINGS = [None, "z", "b", "m", "", "é", "\U0001f600", "\uffff"]


def _table(kinds: list[str], rows: list[Row]) -> Table:
    arrays = {f"c{i}": pa.array([r[i] for r in rows], DOMAINS[k][0], from_pandas=False) for i, k in enumerate(kinds)}
    return from_arrow(pa.table(arrays), "r")


@st.composite
def _batches(draw: st.DrawFn) -> tuple[list[str], list[list[Row]]]:
    numbers = ["integer", "float", "decimal", "wide"]
    kinds = draw(st.lists(st.sampled_from(sorted(DOMAINS)), min_size=1, max_size=2))
    kinds += draw(st.lists(st.sampled_from(numbers), min_size=2, max_size=3))
    cells = [st.sampled_from([None, *DOMAINS[kind][2]]) for kind in kinds]
    return kinds, draw(st.lists(st.lists(st.tuples(*cells), max_size=3), min_size=1, max_size=5))


@settings(max_examples=150)
@given(_batches(), st.booleans())
def test_codes_compare_as_values_do_batch_after_batch(batches: tuple[list[str], list[list[Row]]], tight: bool) -> None:
    kinds, lists = batches
    schema = _table(kinds, []).schema
    crossing = tuple(
        (a, b)
        for a in range(len(kinds))
        for b in range(a + 1, len(kinds))
        if schema.columns[a].type.group is schema.columns[b].type.group
    )
    space = PredicateSpace(schema, crossing)
    columns = [OracleColumn(f"c{i}", DOMAINS[kind][1]) for i, kind in enumerate(kinds)]
    theirs = oracle.listed_space(columns, list(crossing))
    rows = RowSet(space)
    held: list[Row] = []
    with pytest.MonkeyPatch.context() as patch:
        if tight:  # gaps are used up at once
            patch.setattr(labels, "_STEP", 1)
            patch.setattr(labels, "_HIGHEST", 64)
            patch.setattr(labels, "_NOT_A_NUMBER", 65)
        for batch in lists:
            codes, _ = rows.encode(_table(kinds, batch))
            distinct, copies = np.unique(codes, axis=0, return_counts=True)
            rows.change(distinct, copies)
            check_invariants(rows)
            held += batch
            slots = rows.slots_of(rows.encode(_table(kinds, held))[0])
            for t, a in zip(slots, held, strict=True):
                for s, b in zip(slots, held, strict=True):
                    outcomes = []
                    for pair in space.pairs:
                        x, y = rows.codes[t, pair.left], rows.codes[s, pair.right]
                        ordered = "<" if x < y else ">" if x > y else "="
                        outcomes.append(ordered if pair.ordered or x == y else "!=")
                    assert tuple(outcomes) == oracle.evidence(a, b, theirs)
            for row, decoded in zip(held, rows.values(slots), strict=True):
                assert len(row) == len(decoded)
                for value, found in zip(row, decoded.values(), strict=True):
                    same = value == found or (
                        isinstance(value, float)
                        and isinstance(found, float)
                        and math.isnan(value)
                        and math.isnan(found)
                    )
                    assert same or getattr(value, "tzinfo", 1) is None
                    assert type(found) is type(value) or value is None


@given(st.lists(st.sampled_from(STRINGS), max_size=8), st.booleans())
def test_strings_declared_ordered_keep_code_point_order(cells: list[str | None], tight: bool) -> None:
    options = ReadOptions(ordered={"a": True})
    schema = Schema("r", (Column("a", from_arrow(pa.table({"a": ["x"]}), "r").schema.columns[0].type, ordered=True),))
    rows = RowSet(PredicateSpace(schema))
    with pytest.MonkeyPatch.context() as patch:
        if tight:
            patch.setattr(labels, "_STEP", 1)
            patch.setattr(labels, "_HIGHEST", 64)
        for cell in cells:
            codes, _ = rows.encode(from_arrow(pa.table({"a": pa.array([cell], pa.string())}), "r", options))
            rows.change(codes, np.ones(1, np.int64))
            check_invariants(rows)
    live = rows.live()
    in_order = live[np.argsort(rows.codes[live, 0])]
    found = [row["a"] for row in rows.values(in_order)]
    assert found == sorted(set(cells), key=lambda text: (text is not None, text))


def test_values_that_no_row_has_are_forgotten_in_time() -> None:
    space = PredicateSpace(
        from_arrow(pa.table({"a": ["x"], "b": pa.array([Decimal(1)], pa.decimal128(30))}), "r").schema
    )
    rows = RowSet(space)
    for start in range(0, 60_000, 10_000):
        rows.begin()
        numbers = range(start, start + 10_000)
        data = pa.table({"a": [f"text {i}" for i in numbers], "b": pa.array(map(Decimal, numbers), pa.decimal128(30))})
        codes, _ = rows.encode(from_arrow(data, "r"))
        rows.change(codes, np.ones(len(codes), np.int64))
        rows.forget()
        if start < 50_000:
            rows.change(codes, -np.ones(len(codes), np.int64))
            rows.forget()
    rows.begin()
    texts, held = (rows.encoding._domains[c] for c in (0, 1))
    assert isinstance(texts, Texts)
    assert isinstance(held, labels.Labels)
    assert len(texts) <= 30_000
    assert len(held) <= 30_000
    assert [row["a"] for row in rows.values(rows.live()[:2])] == ["text 50000", "text 50001"]
    assert len(rows.copies) < 40_000
