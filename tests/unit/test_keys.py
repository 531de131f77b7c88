"""Keys against plain Python: equal keys are equal values, the order of keys is the order of values, null is apart.

*Oracle*: `tests/oracles/values.py` says what is the same and what comes first; nanoseconds, which Python's times
lack, are compared as integers.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.constraints import InputError
from holdfast.tables import ReadOptions, Table, common_keys, from_arrow
from tests.oracles.values import Value, compare, same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.tables import EncodedColumn

INT64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1])
FLOATS = st.floats() | st.sampled_from(
    [math.nan, -math.nan, -0.0, 0.0, 5e-324, -5e-324, 2.2250738585072014e-308, math.inf, -math.inf, 1e308, -1e308]
)
ASTRAL = "aAz\x00\x7f\x80é\u0301\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"
TEXTS = st.text(alphabet=ASTRAL, max_size=4) | st.text(max_size=4)
MICROS = st.datetimes(timezones=st.just(UTC)) | st.sampled_from(
    [
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ]
)
LAYOUTS = ("whole", "sliced", "chunked", "dictionary")


def nullable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values, max_size=10)


def laid_out(array: pa.Array, layout: str) -> pa.ChunkedArray:
    """The same values in the forms in which Arrow may hold them."""
    match layout:
        case "sliced":
            padded = pa.concat_arrays([array[:1], array, array[-1:]])
            return pa.chunked_array([padded.slice(len(array[:1]), len(array))])
        case "chunked":
            middle = len(array) // 2
            return pa.chunked_array([array[:middle], array[:0], array[middle:]])
        case "dictionary":
            return pa.chunked_array([array.dictionary_encode()])
    return pa.chunked_array([array])


def column_of(values: Sequence[Value], arrow_type: pa.DataType, layout: str = "whole") -> EncodedColumn:
    array = pa.array(values, arrow_type, from_pandas=False)
    return from_arrow(pa.table({"a": laid_out(array, layout)}), "t")["a"]


def is_valid(column: EncodedColumn) -> list[bool]:
    return [True] * len(column) if column.valid is None else column.valid.tolist()


def check(column: EncodedColumn, values: Sequence[Value], *, ordered: bool = True) -> None:
    """Keys, nulls, counts and decoding of one column are those of `values`."""
    keys, valid = column.keys.tolist(), is_valid(column)
    assert column.keys.dtype == np.int64
    assert len(keys) == len(values)
    assert valid == [value is not None for value in values]
    assert all(key == 0 for key, present in zip(keys, valid, strict=True) if not present)
    present = [(key, value) for key, value in zip(keys, values, strict=True) if value is not None]
    for key, value in present:
        for other_key, other in present:
            assert (key == other_key) == same(value, other)
            if ordered:
                assert (key > other_key) - (key < other_key) == compare(value, other)
    decoded = column.values().to_pylist()
    assert all(same(a, b) for a, b in zip(decoded, values, strict=True))
    assert [type(a) for a in decoded] == [type(b) for b in values]
    distinct, counts = column.counts
    assert sorted({key for key, _ in present}) == distinct.tolist()
    assert [sum(key == d for key, _ in present) for d in distinct.tolist()] == counts.tolist()
    if len(values):
        picked = [len(values) - 1, 0]
        assert all(same(a, values[i]) for a, i in zip(column.values(picked).to_pylist(), picked, strict=True))


@pytest.mark.parametrize("layout", LAYOUTS)
@given(values=nullable(INT64))
def test_integers(values: list[int | None], layout: str) -> None:
    column = column_of(values, pa.int64(), layout)
    check(column, values)
    assert [k for k, v in zip(column.keys.tolist(), values, strict=True) if v is not None] == [
        v for v in values if v is not None
    ]


@pytest.mark.parametrize("arrow_type", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32()])
def test_narrow_integers(arrow_type: pa.DataType) -> None:
    values = [0, None, 1, 127, 1]
    column = column_of(values, arrow_type)
    assert str(column.column.type) == "integer"
    check(column, values)


def test_unsigned_integers_stay_exact() -> None:
    column = column_of([2**64 - 1, None, 2**63, 0], pa.uint64())
    assert str(column.column.type) == "decimal(20,0)"
    check(column, [Decimal(2**64 - 1), None, Decimal(2**63), Decimal(0)])


@pytest.mark.parametrize("layout", LAYOUTS)
@given(values=nullable(FLOATS))
@example(values=[math.nan, -math.nan, None, math.inf, 0.0, -0.0, -math.inf, 5e-324, -5e-324])
def test_floats(values: list[float | None], layout: str) -> None:
    check(column_of(values, pa.float64(), layout), values)


def test_zeros_and_nans_decode_to_one_form_each() -> None:
    zero, nan = column_of([-0.0], pa.float64()), column_of([-math.nan], pa.float64())
    assert math.copysign(1, zero.values()[0].as_py()) == 1
    assert math.copysign(1, nan.values()[0].as_py()) == 1


@given(values=nullable(st.floats(width=16)))
def test_half_and_single_floats(values: list[float | None]) -> None:
    halves = pa.array([None if v is None else np.float16(v) for v in values], pa.float16())
    for array in (halves, pa.array(values, pa.float32(), from_pandas=False)):
        column = from_arrow(pa.table({"a": array}), "t")["a"]
        assert str(column.column.type) == "float"
        check(column, values)


@st.composite
def decimals(draw: st.DrawFn) -> tuple[int, int, list[Decimal | None]]:
    precision = draw(st.integers(1, 38) | st.sampled_from([1, 18, 19, 38]))
    scale = draw(st.integers(0, precision) | st.sampled_from([0, precision]))
    limit = 10**precision - 1
    whole = st.integers(-limit, limit) | st.sampled_from([limit, -limit, 0, 1, -1])
    exact = Context(prec=40)
    return precision, scale, [None if n is None else Decimal(n).scaleb(-scale, exact) for n in draw(nullable(whole))]


@pytest.mark.parametrize("layout", LAYOUTS)
@given(drawn=decimals())
def test_decimals_of_every_width(drawn: tuple[int, int, list[Decimal | None]], layout: str) -> None:
    precision, scale, values = drawn
    column = column_of(values, pa.decimal128(precision, scale), layout)
    assert str(column.column.type) == f"decimal({precision},{scale})"
    check(column, values)


@pytest.mark.parametrize("arrow_type", [pa.decimal32(7, 2), pa.decimal64(15, 2), pa.decimal256(38, 2)])
def test_decimals_of_other_storage(arrow_type: pa.DataType) -> None:
    values = [Decimal("-1.50"), None, Decimal("99999.99"), Decimal("-1.5")]
    check(column_of(values, arrow_type), values)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(values=nullable(st.dates() | st.sampled_from([date.min, date.max, date(1970, 1, 1), date(1969, 12, 31)])))
def test_dates(values: list[date | None], layout: str) -> None:
    check(column_of(values, pa.date32(), layout), values)
    check(column_of(values, pa.date64(), layout), values)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("zone", [None, "UTC", "+05:30"])
@given(values=nullable(MICROS))
def test_timestamps_are_instants(values: list[datetime | None], zone: str | None, layout: str) -> None:
    micros = pa.array(values, pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone or "UTC"))
    array = micros if zone else micros.cast(pa.timestamp("us"))
    column = from_arrow(pa.table({"a": laid_out(array, layout)}), "t")["a"]
    assert str(column.column.type) == "timestamp"
    check(column, values)


@pytest.mark.parametrize("unit", ["s", "ms"])
@given(moments=nullable(MICROS))
def test_coarse_timestamps(moments: list[datetime | None], unit: str) -> None:
    values = [None if m is None else m.replace(microsecond=0) for m in moments]
    check(column_of(values, pa.timestamp(unit, "UTC")), values)


@given(nanos=nullable(INT64))
def test_nanoseconds_stay(nanos: list[int | None]) -> None:
    array = pa.array(nanos, pa.int64()).cast(pa.timestamp("ns"))
    column = from_arrow(pa.table({"a": array}), "t")["a"]
    assert str(column.column.type) == "timestamp(9)"
    assert column.values().cast(pa.int64()).to_pylist() == nanos
    assert [k if ok else None for k, ok in zip(column.keys.tolist(), is_valid(column), strict=True)] == nanos


def test_one_instant_in_two_zones_is_one_key() -> None:
    rome = timezone(timedelta(hours=2))
    instants = [datetime(2024, 6, 1, 12, tzinfo=rome), datetime(2024, 6, 1, 10, tzinfo=UTC)]
    check(column_of(instants, pa.timestamp("us", "UTC")), [i.astimezone(UTC) for i in instants])


@pytest.mark.parametrize("layout", LAYOUTS)
@given(values=nullable(st.booleans()))
def test_booleans(values: list[bool | None], layout: str) -> None:
    check(column_of(values, pa.bool_(), layout), values)


@pytest.mark.parametrize("arrow_type", [pa.string(), pa.large_string(), pa.string_view()])
@given(left=nullable(TEXTS), right=nullable(TEXTS))
def test_strings_share_one_dictionary(left: list[str | None], right: list[str | None], arrow_type: pa.DataType) -> None:
    right = (right + [None] * len(left))[: len(left)]
    table = from_arrow(pa.table({"a": pa.array(left, arrow_type), "b": pa.array(right).dictionary_encode()}), "t")
    check(table["a"], left, ordered=False)
    check(table["b"], right, ordered=False)
    texts = [*left, *right]
    keys, valid = (table["a"].keys.tolist() + table["b"].keys.tolist()), is_valid(table["a"]) + is_valid(table["b"])
    ranks = table.text_ranks.tolist()
    assert sorted(ranks) == list(range(len(ranks)))
    assert len(ranks) == len({text for text in texts if text is not None})
    present = [(key, text) for key, ok, text in zip(keys, valid, texts, strict=True) if ok and text is not None]
    for key, text in present:
        for other_key, other in present:
            assert (key == other_key) == same(text, other)
            assert (ranks[key] > ranks[other_key]) - (ranks[key] < ranks[other_key]) == compare(text, other)


@given(left=nullable(TEXTS), right=nullable(TEXTS))
def test_strings_of_two_tables_compare(left: list[str | None], right: list[str | None]) -> None:
    a, b = column_of(left, pa.string()), column_of(right, pa.string())
    keys = [k.tolist() for k in common_keys(a, b)]
    for key, value in zip(keys[0], left, strict=True):
        for other_key, other in zip(keys[1], right, strict=True):
            if value is not None and other is not None:
                assert (key > other_key) - (key < other_key) == compare(value, other)


def test_a_dictionary_may_hold_repeats_and_nulls() -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 3], pa.int8()), pa.array(["x", None, "x", "y"]))
    column = from_arrow(pa.table({"a": coded}), "t")["a"]
    check(column, ["x", None, None, "x", "y"], ordered=False)


def test_chunks_with_small_dictionaries_of_their_own() -> None:
    values = [f"{chunk}-{i}" for chunk in range(3) for i in range(100)]
    small = pa.dictionary(pa.int8(), pa.string())
    chunks = [pa.array(values[i : i + 100]).dictionary_encode().cast(small) for i in (0, 100, 200)]
    assert from_arrow(pa.table({"a": pa.chunked_array(chunks)}), "t").to_arrow()["a"].to_pylist() == values


@pytest.mark.parametrize(
    "arrow_type",
    [
        pa.int64(), pa.float32(), pa.string(), pa.null(), pa.bool_(), pa.date32(), pa.timestamp("ns"),
        pa.decimal128(5, 2), pa.decimal128(38, 2), pa.dictionary(pa.int8(), pa.string()),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rows", [0, 2])
def test_no_values_at_all(arrow_type: pa.DataType, rows: int) -> None:
    nulls = pa.nulls(rows, arrow_type)
    tables = [from_arrow(pa.table({"a": nulls}), "t")]
    if not rows:
        tables.append(from_arrow(pa.table([pa.chunked_array([], arrow_type)], ["a"]), "t"))
    for table in tables:
        check(table["a"], [None] * rows)
        assert table.row_count == rows
        assert table.text_ranks.tolist() == []
        assert table["a"].column.assumed == pa.types.is_null(arrow_type)


@pytest.mark.parametrize(
    ("number", "arrow_type"),
    [
        (2**62, pa.timestamp("us")), (2**40, pa.timestamp("s")), (2**50, pa.timestamp("ms")),
        (253402300800, pa.timestamp("s")), (-62135596801, pa.timestamp("s")),
        (2932897, pa.date32()), (-719163, pa.date32()), (2**30, pa.date32()),
    ],
)  # fmt: skip
def test_times_outside_the_years_1_to_9999_are_refused(number: int, arrow_type: pa.DataType) -> None:
    width = pa.int32() if pa.types.is_date32(arrow_type) else pa.int64()
    array = pa.array([0, number], width).cast(arrow_type)
    with pytest.raises(InputError, match="column a: a"):
        from_arrow(pa.table({"a": array}), "t")


def test_a_text_that_is_no_utf8_is_refused() -> None:
    offsets = pa.py_buffer(np.array([0, 1], np.int32).tobytes())
    wrong = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff")])
    with pytest.raises(InputError, match=r"table t, column a: .*UTF8"):
        from_arrow(pa.table({"a": wrong}), "t")


def test_rows_give_values_back() -> None:
    data = pa.table(
        {
            "i": pa.array([1, None]),
            "d": pa.array([Decimal("1.5"), None], pa.decimal128(30, 2)),
            "s": ["x", None],
            "t": pa.array([datetime(2024, 1, 1, tzinfo=UTC), None]),
            "b": [False, None],
        }
    )
    table = from_arrow(data, "t")
    first = {"i": 1, "d": Decimal("1.50"), "s": "x", "t": datetime(2024, 1, 1, tzinfo=UTC), "b": False}
    nulls = dict.fromkeys("idstb")
    assert table.row(0) == first
    assert table.rows([1, 0, 1]) == [nulls, first, nulls]
    assert isinstance(table, Table)
    assert table.to_arrow().to_pylist() == [first, nulls]


def test_a_table_without_columns_keeps_its_rows() -> None:
    table = from_arrow(pa.table({"a": [1, 2]}), "t", ReadOptions(exclude=["a"]))
    assert (table.columns, table.row_count, table.rows([0])) == ((), 2, [{}])
