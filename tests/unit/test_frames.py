"""Data frames of pandas and Arrow, and conversions of values to the types of columns."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from holdfast.constraints import InputError, UsageError, parse_type
from holdfast.tables import ReadOptions, from_arrow, from_pandas
from tests.unit.test_readers import AS_TEXT, NAN, types
from tests.unit.test_typed_readers import EVERY_TYPE, EVERYTHING, check_rows


class TestFrames:
    def test_arrow(self) -> None:
        table = from_arrow(EVERYTHING, "t")
        assert types(table) == EVERY_TYPE
        check_rows(table, EVERYTHING)
        assert from_arrow(EVERYTHING, "t", ReadOptions(limit=1)).row_count == 1
        assert from_arrow(pa.record_batch({"a": [1]}), "t").row(0) == {"a": 1}
        assert table.locate(0) == "t, row 1"

    def test_pandas(self) -> None:
        frame = pd.DataFrame({
            "i": [1, 2],
            "f": [1.5, NAN],
            "t": pd.to_datetime(["2024-01-01", "NaT"]),
            "z": pd.to_datetime(["2024-01-01", "NaT"]).tz_localize("Europe/Rome"),
            "s": ["x", None],
            "o": [None, None],
            "n": pd.array([1, None], "Int64"),
            "b": pd.array([True, None], "boolean"),
            "p": pd.array(["x", None], "string[pyarrow]"),
            "c": pd.Categorical(["x", None], categories=["z", "x"], ordered=True),
            "k": pd.Categorical([7, None]),
            "d": [Decimal("1.5"), None],
            "day": [date(2024, 1, 1), None],
        }, index=[7, 7])  # fmt: skip
        table = from_pandas(frame, "t")
        assert types(table) == [
            "integer", "float", "timestamp(9)", "timestamp(9)", "string", "string", "integer", "boolean", "string", "string", "integer",
            "decimal(2,1)", "date",
        ]  # fmt: skip
        assert list(table.row(0).values()) == [
            1, 1.5, datetime(2024, 1, 1, tzinfo=UTC), datetime(2023, 12, 31, 23, tzinfo=UTC), "x", None, 1, True, "x", "x", 7,
            Decimal("1.5"), date(2024, 1, 1),
        ]  # fmt: skip
        assert list(table.row(1).values()) == [2] + [None] * 12
        assert from_pandas(frame, "t", ReadOptions(limit=1, include=["s", "i"])).rows([0]) == [{"i": 1, "s": "x"}]

    def test_names_of_pandas_columns(self) -> None:
        assert from_pandas(pd.DataFrame([[1, 2]]), "t").schema.names == ("0", "1")
        for names in (["a", "a"], [0, "0"]):
            with pytest.raises(InputError, match=r"more than one column named"):
                from_pandas(pd.DataFrame([[1, 2]], columns=names), "t")
        assert from_pandas(pd.DataFrame(), "t").schema.names == ()
        assert from_pandas(pd.DataFrame({"a": []}), "t").row_count == 0

    @pytest.mark.parametrize(
        "values",
        [
            [1, "x"], ["x", 1], [True, "x"], [True, 1], [1.5, Decimal(1)], [2**53 + 1, 0.5], [2**70], [object()], [1j], ["\ud800"],
            [date(2024, 1, 1), datetime(2024, 1, 1, 5, tzinfo=UTC)], [b"x", "y"], ["y", b"x"],
            [1.5, True], [None, 1.5, True], [np.True_, 2], [False, Decimal(1)], [datetime(2024, 1, 1, tzinfo=UTC), 5],
            [datetime.fromisoformat("2024-01-01"), datetime(2024, 1, 1, tzinfo=UTC)], [pd.Timestamp("2024", tz="UTC"), pd.Timestamp("2024")],
        ],
        ids=lambda values: " and ".join(type(value).__name__ for value in values),
    )  # fmt: skip
    def test_columns_of_mixed_types_are_refused(self, values: list[Any]) -> None:
        with pytest.raises(InputError, match=r"table t, column a: .*Give it one type first") as caught:
            from_pandas(pd.DataFrame({"a": pd.Series(values, dtype=object)}), "t")
        str(caught.value).encode()

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ([1, 1.5, None, np.float32(0.5)], "float"),
            ([1, Decimal("1.5")], "decimal(2,1)"),
            ([True, None, np.False_], "boolean"),
            ([np.str_("a"), "b"], "string"),
            ([pd.Timestamp("2024", tz="UTC"), datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2)))], "timestamp"),
        ],
    )
    def test_columns_of_like_types_are_read(self, values: list[Any], expected: str) -> None:
        assert types(from_pandas(pd.DataFrame({"a": pd.Series(values, dtype=object)}), "t")) == [expected]

    def test_sparse_and_other_frames(self) -> None:
        with pytest.raises(InputError, match="column a"):
            from_pandas(pd.DataFrame({"a": pd.arrays.SparseArray([0, 1])}), "t")
        left_out = from_pandas(pd.DataFrame({"a": pd.to_timedelta([1]), "b": pd.period_range("2024", periods=1)}), "t")
        assert left_out.schema.names == ()
        assert "a (duration" in left_out.warnings[0]
        for wrong in (None, [1], pd.Series([1])):
            with pytest.raises(UsageError, match="expected a pandas data frame"):
                from_pandas(wrong, "t")
        with pytest.raises(UsageError, match="expected an Arrow table"):
            from_arrow({"a": [1]}, "t")


class TestConversions:
    @pytest.mark.parametrize(
        ("values", "type_name", "expected"),
        [
            ([5, None], "decimal(5,2)", [Decimal(5), None]),
            ([0.1, -0.0, None], "decimal(5,2)", [Decimal("0.1"), Decimal(0), None]),
            ([0.1, 1e22], "decimal(38,2)", [Decimal("0.1"), Decimal(10**22)]),
            ([Decimal("0.1"), Decimal("-2.00")], "float", [0.1, -2.0]),
            ([1.0, 2.0**62], "integer", [1, 2**62]),
            ([Decimal("5.00"), None], "integer", [5, None]),
            ([Decimal("5.10")], "decimal(3,1)", [Decimal("5.1")]),
            ([2**53], "float", [2.0**53]),
            (["01", None, "2."], "integer", [1, None, 2]),
            (["2024-01-01", None], "timestamp", [datetime(2024, 1, 1, tzinfo=UTC), None]),
            ([None, None], "decimal(38,2)", [None, None]),
            ([1.5, NAN, None, -0.0, 1e22, 0.1], "string", ["1.5", "nan", None, "0", "1e+22", "0.1"]),
            ([Decimal("1.50"), Decimal("0.00"), Decimal("-100.00")], "string", ["1.5", "0", "-100"]),
            ([Decimal("0.00000001")], "string", ["0.00000001"]),
            ([date(1, 1, 1), None], "string", ["0001-01-01", None]),
            ([datetime(999, 1, 1, 0, 0, 1, 500000, tzinfo=UTC)], "string", ["0999-01-01T00:00:01.5"]),
            ([True, None], "string", ["true", None]),
        ],
    )  # fmt: skip
    def test_without_loss(self, values: list[Any], type_name: str, expected: list[Any]) -> None:
        table = from_arrow(
            pa.table({"a": pa.array(values, from_pandas=False)}), "t", ReadOptions(types={"a": parse_type(type_name)})
        )
        assert types(table) == [type_name]
        assert table["a"].values().to_pylist() == expected

    def test_numbers_of_other_widths(self) -> None:
        data = pa.table(
            {
                "h": pa.array(np.array([1.5], np.float16)),
                "u": pa.array([7], pa.uint64()),
                "c": pa.array([1]).dictionary_encode(),
            }
        )
        to_decimal = dict.fromkeys("huc", parse_type("decimal(4,1)"))
        assert from_arrow(data, "t", ReadOptions(types=to_decimal)).row(0) == {"h": Decimal("1.5"), "u": 7, "c": 1}
        assert from_arrow(data, "t", ReadOptions(**AS_TEXT)).row(0) == {"h": "1.5", "u": "7", "c": "1"}
        assert types(from_arrow(data, "t", ReadOptions(types={"u": parse_type("int")})))[1] == "integer"

    @pytest.mark.parametrize(
        ("values", "type_name", "row"),
        [
            ([5, 70000], "decimal(5,2)", 2), ([0.125], "decimal(5,2)", 1), ([0.5, NAN], "decimal(5,2)", 2),
            ([Decimal(1), Decimal(2**53 + 1)], "float", 2), ([Decimal("5.11")], "decimal(3,1)", 1), (["1", "x"], "integer", 2),
            ([1.5], "integer", None), ([NAN], "integer", None), ([2.0**63], "integer", None), ([Decimal("5.1")], "integer", None),
            ([2**53 + 1], "float", None), ([True], "integer", None), ([date(2024, 1, 1)], "timestamp", None), ([1], "boolean", None),
            ([datetime(9999, 1, 1, tzinfo=UTC)], "timestamp(9)", None),
        ],
        ids=repr,
    )  # fmt: skip
    def test_with_loss_is_refused(self, values: list[Any], type_name: str, row: int | None) -> None:
        where = "t, column a: " if row is None else f"t, row {row}, column a: "
        with pytest.raises(InputError) as caught:
            from_arrow(
                pa.table({"a": pa.array(values, from_pandas=False)}),
                "t",
                ReadOptions(types={"a": parse_type(type_name)}),
            )
        assert str(caught.value).startswith(where)
