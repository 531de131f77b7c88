"""Two columns beside each other: keys that compare across types, common values, and the pairs a space takes.

*Oracle*: `tests/oracles/values.py` for order and equality by exact value, `tests/oracles/denial.py` for the share of
common values and the automatic space.
"""

from __future__ import annotations

from collections import Counter
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.constraints import PredicateSpace, UsageError
from holdfast.tables import Table, common_keys, from_arrow, overlap
from tests.oracles import denial
from tests.oracles.values import Column, Value, compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.tables import EncodedColumn

INF, NAN = float("inf"), float("nan")
MEETING = [
    Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-1, 2), Fraction(1, 10), Fraction(1, 4), Fraction(3, 2),
    Fraction(2**53), Fraction(2**53 + 1), Fraction(-(2**53) - 1), Fraction(2**63 - 1), Fraction(-(2**63)), Fraction(2**63),
    Fraction(2**63 - 1024), Fraction(2**64 - 1), Fraction(10**18), Fraction(10**18 - 1), Fraction(10**30), Fraction(-(10**30)),
    Fraction(10**37) + 1, Fraction(0.1), Fraction(5e-324), Fraction(1, 10**38), Fraction(1e22), Fraction(10**17, 3),
]  # fmt: skip
"""Numbers at which types meet or nearly do."""

EXACT = Context(prec=60)
DECIMAL_TYPES = [(1, 0), (4, 1), (10, 2), (18, 0), (18, 18), (18, 9), (19, 0), (20, 0), (38, 0), (38, 10), (38, 38)]
TYPES: list[str | tuple[int, int]] = ["integer", "float", *DECIMAL_TYPES]


def nearest(number: Fraction, kind: str | tuple[int, int]) -> int | float | Decimal:
    """A value of the type at or near `number`."""
    if kind == "integer":
        return max(-(2**63), min(2**63 - 1, round(number)))
    if isinstance(kind, str):
        return float(number)
    precision, scale = kind
    limit = 10**precision - 1
    return Decimal(max(-limit, min(limit, round(number * 10**scale)))).scaleb(-scale, EXACT)


def arrow_type(kind: str | tuple[int, int]) -> pa.DataType:
    if isinstance(kind, str):
        return pa.int64() if kind == "integer" else pa.float64()
    return pa.decimal128(*kind)


@st.composite
def number_columns(draw: st.DrawFn, rows: int) -> tuple[pa.DataType, list[Value]]:
    kind = draw(st.sampled_from(TYPES))
    numbers = st.sampled_from(MEETING) | st.fractions(-100, 100, max_denominator=100)
    values = numbers.map(lambda number: nearest(number, kind))
    if kind == "float":
        values = values | st.sampled_from([NAN, INF, -INF, -0.0, 1e300, -1e300]) | st.floats()
    return arrow_type(kind), draw(st.lists(st.none() | values, min_size=rows, max_size=rows))


@st.composite
def pairs_of_columns(draw: st.DrawFn) -> list[tuple[pa.DataType, list[Value]]]:
    rows = draw(st.integers(0, 8))
    return [draw(number_columns(rows)) for _ in range(2)]


def table_of(columns: Sequence[tuple[pa.DataType, list[Any]]]) -> Table:
    return from_arrow(
        pa.table({f"c{i}": pa.array(values, kind, from_pandas=False) for i, (kind, values) in enumerate(columns)}), "t"
    )


def nulls(column: EncodedColumn) -> list[bool]:
    return [False] * len(column) if column.valid is None else (~column.valid).tolist()


@given(columns=pairs_of_columns())
@example(columns=[(pa.int64(), [2**53 + 1, 2**53]), (pa.float64(), [2.0**53, 2.0**53 + 2])])
@example(columns=[(pa.decimal128(38, 38), [Decimal("0.1"), None]), (pa.float64(), [0.1, NAN])])
@example(columns=[(pa.int64(), [2**63 - 1, -(2**63)]), (pa.float64(), [2.0**63, -(2.0**63)])])
@example(columns=[(pa.decimal128(18, 18), [Decimal("-0.1")]), (pa.decimal128(18, 0), [Decimal(0)])])
def test_common_keys_are_exact(columns: list[tuple[pa.DataType, list[Value]]]) -> None:
    table = table_of(columns)
    for first, second in ((0, 1), (1, 0)):
        left, right = table.columns[first], table.columns[second]
        left_keys, right_keys = (keys.tolist() for keys in common_keys(left, right))
        both = [(k, v) for k, v in zip(left_keys + right_keys, columns[first][1] + columns[second][1], strict=True)]
        absent = nulls(left) + nulls(right)
        assert absent == [value is None for _, value in both]
        assert all(key == 0 for (key, _), null in zip(both, absent, strict=True) if null)
        for key, value in both:
            for other_key, other in both:
                if value is not None and other is not None:
                    assert (key > other_key) - (key < other_key) == compare(value, other)


@given(columns=pairs_of_columns())
def test_overlap_counts_common_values(columns: list[tuple[pa.DataType, list[Value]]]) -> None:
    shared, larger = overlap(table_of(columns), 0, 1)
    share = denial.common_share(columns[0][1], columns[1][1])
    assert (Fraction(shared, larger) if larger else 0) == share


@given(
    micros=st.lists(st.none() | st.integers(-(2**62), 2**57) | st.sampled_from([0, -1, 1]), max_size=6),
    nanos=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, -1, 1, -1000, 1000]), max_size=6),
)
def test_timestamps_of_two_units(micros: list[int | None], nanos: list[int | None]) -> None:
    rows = min(len(micros), len(nanos))
    lowest, highest = -62_135_596_800_000_000, 253_402_300_799_999_999
    micros = [None if n is None else max(lowest, min(highest, n)) for n in micros[:rows]]
    table = from_arrow(
        pa.table(
            {
                "us": pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC")),
                "ns": pa.array(nanos[:rows], pa.int64()).cast(pa.timestamp("ns")),
            }
        ),
        "t",
    )
    left, right = (keys.tolist() for keys in common_keys(*table.columns))
    exact = [None if n is None else n * 1000 for n in micros] + nanos[:rows]
    for key, value in zip(left + right, exact, strict=True):
        for other_key, other in zip(left + right, exact, strict=True):
            if value is not None and other is not None:
                assert (key > other_key) - (key < other_key) == (value > other) - (value < other)
    counts = [Counter(v for v in values if v is not None) for values in (exact[:rows], exact[rows:])]
    assert overlap(table, 0, 1) == ((counts[0] & counts[1]).total(), (counts[0] | counts[1]).total())


def test_groups_do_not_compare() -> None:
    table = from_arrow(pa.table({"a": [1], "b": ["1"]}), "t")
    with pytest.raises(UsageError, match="a integer and b string cannot be compared"):
        common_keys(*table.columns)


SMALL: dict[str, list[tuple[pa.DataType, list[Any]]]] = {
    "number": [
        (pa.int64(), [0, 1, 2, None]),
        (pa.float64(), [0.0, -0.0, 1.0, 0.5, NAN, None]),
        (pa.decimal128(3, 1), [Decimal(1), Decimal("0.5"), Decimal(0), None]),
        (pa.decimal128(30, 2), [Decimal(1), Decimal("0.5"), Decimal(2), None]),
    ],
    "string": [(pa.string(), ["", "a", "b", None])],
    "boolean": [(pa.bool_(), [True, False, None])],
    "date": [(pa.date32(), [0, 1, None])],
    "timestamp": [(pa.timestamp("us"), [0, 1, None]), (pa.timestamp("ns"), [0, 1000, None])],
}


@st.composite
def small_tables(draw: st.DrawFn) -> tuple[list[str], list[tuple[pa.DataType, list[Value]]]]:
    rows = draw(st.integers(0, 6))
    groups = draw(st.lists(st.sampled_from(sorted(SMALL)), min_size=1, max_size=5))
    columns = []
    for group in groups:
        kind, values = draw(st.sampled_from(SMALL[group]))
        drawn = draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows))
        columns.append((kind, pa.array(drawn, kind, from_pandas=False).to_pylist()))
    return groups, columns


@given(drawn=small_tables())
def test_the_automatic_space(drawn: tuple[list[str], list[tuple[pa.DataType, list[Value]]]]) -> None:
    groups, columns = drawn
    table = table_of(columns)
    space = PredicateSpace.build(table.schema, "auto", partial(overlap, table))
    rows = list(zip(*(values for _, values in columns), strict=True))
    expected = denial.automatic_space([Column(f"c{i}", group) for i, group in enumerate(groups)], rows)
    assert {(pair.left, pair.right, pair.ordered) for pair in space.pairs} == {
        (pair.left, pair.right, pair.ordered) for pair in expected
    }


@pytest.mark.parametrize(("common", "crossed"), [(2, False), (3, True)])
def test_three_in_ten_are_enough(common: int, crossed: bool) -> None:
    """`common` of ten values are shared."""
    left = [*range(common), *[100 + i for i in range(10 - common)]]
    right = [*range(common)] + [None] * (10 - common)
    table = from_arrow(pa.table({"a": left, "b": pa.array(right, pa.float64())}), "t")
    space = PredicateSpace.build(table.schema, "auto", partial(overlap, table))
    assert bool(space.crossing) == crossed


def test_many_numbers_of_different_types_are_compared_quickly() -> None:
    rows = 100_000
    whole = pa.array(range(rows), pa.int64())
    cents = pa.array([Decimal(i).scaleb(-2) for i in range(rows)], pa.decimal128(12, 2))
    table = from_arrow(
        pa.table({"i": whole, "c": cents, "f": whole.cast(pa.float64()), "w": whole.cast(pa.decimal128(38, 0))}), "t"
    )
    assert [overlap(table, 0, i)[0] for i in (1, 2, 3)] == [rows // 100, rows, rows]
    assert overlap(table, 1, 2)[0] == rows // 100
