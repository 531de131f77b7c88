"""The oracles against hand-worked examples, against themselves, and against Desbordante.

Every expected value of the first kind was worked out on paper from the definition. *Self-checks* compare two
ways of the oracle on random tables; *differential* tests compare it with Desbordante. All seeds are fixed.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from tests.oracles import denial
from tests.oracles.values import (
    Column,
    Row,
    Value,
    canonical,
    compare,
    group_of_type,
    infer,
    outcome,
    parse,
    same,
    same_row,
    type_group,
)

NAN = math.nan
INF = math.inf
A, B, C = (Column(name, "number") for name in "ABC")
S = Column("S", "string")
SEEDS = range(40)


# Values, their order and identity


@pytest.mark.parametrize(
    ("left", "right", "sign"),
    [
        (None, None, 0),
        (None, -INF, -1),
        (None, "", -1),
        (False, None, 1),
        (NAN, NAN, 0),
        (NAN, INF, 1),
        (-INF, -(10**400), -1),
        (INF, 10**400, 1),
        (-0.0, 0.0, 0),
        (0, -0.0, 0),
        (2**53 + 1, 9007199254740992.0, 1),
        (2**53, 9007199254740992.0, 0),
        (Decimal("0.1"), 0.1, -1),  # the float is 0.1000000000000000055...
        (Decimal("0.50"), 0.5, 0),
        (Decimal("1.0"), 1, 0),
        (2**63 - 1, Decimal(2**63), -1),
        (Decimal("NaN"), NAN, 0),
        ("Z", "a", -1),
        ("a", "ab", -1),
        ("\uffff", "\U00010000", -1),  # the other way round in UTF-16
        ("e\u0301", "\u00e9", -1),  # no normalisation
        (False, True, -1),
        (date(2020, 2, 29), date(2020, 3, 1), -1),
        (datetime(2020, 1, 1, 12), datetime(2020, 1, 1, 12, tzinfo=UTC), 0),  # noqa: DTZ001
        (
            datetime(2020, 1, 1, 12, tzinfo=timezone(timedelta(hours=1))),
            datetime(2020, 1, 1, 11, tzinfo=UTC),
            0,
        ),
        (
            datetime(2020, 1, 1, 12, tzinfo=timezone(timedelta(hours=1))),
            datetime(2020, 1, 1, 12, tzinfo=UTC),
            -1,
        ),
    ],
)
def test_compare(left: Value, right: Value, sign: int) -> None:
    assert compare(left, right) == sign
    assert compare(right, left) == -sign
    assert same(left, right) == (sign == 0) == (canonical(left) == canonical(right))


@pytest.mark.parametrize(
    ("left", "right", "ordered", "expected"),
    [
        (1, 2, True, "<"),
        (2, 2, True, "="),
        (3, 2, True, ">"),
        (1, 2, False, "!="),
        ("a", "b", False, "!="),
        ("a", "a", False, "="),
        ("a", "b", True, "<"),
        (None, None, False, "="),
        (None, "a", False, "!="),
        (None, -5, True, "<"),
        (NAN, 5, True, ">"),
        (NAN, None, True, ">"),
        (NAN, NAN, False, "="),
    ],
)
def test_outcome(left: Value, right: Value, ordered: bool, expected: str) -> None:
    assert outcome(left, right, ordered=ordered) == expected


@pytest.mark.parametrize(
    ("left", "right"), [(True, 1), ("1", 1), (date(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)), ("", None)]
)
def test_groups_never_match(left: Value, right: Value) -> None:
    assert not same(left, right)
    assert canonical(left) != canonical(right)


def test_comparing_two_groups_is_an_error() -> None:
    with pytest.raises(ValueError, match="different type groups"):
        compare(1, "1")


def test_row_identity() -> None:
    assert same_row((None, NAN, -0.0, Decimal("1.10")), (None, NAN, 0.0, Decimal("1.1")))
    assert not same_row((None,), ("",))
    assert not same_row((1,), (1, 1))


# Values, the types of text columns


@pytest.mark.parametrize(
    ("texts", "type_name", "values"),
    [
        (["1", "-2", "+3", "0", ""], "integer", (1, -2, 3, 0, None)),
        (["9223372036854775807", "-9223372036854775808"], "integer", (2**63 - 1, -(2**63))),
        (["9223372036854775808", "1"], "decimal(38,0)", (Decimal(2**63), Decimal(1))),
        (["9" * 38], "decimal(38,0)", (Decimal("9" * 38),)),
        (["9" * 39], "float", (1e39,)),
        (["01907", "1907"], "string", ("01907", "1907")),
        (["00"], "string", ("00",)),
        (["1", "2.5"], "float", (1.0, 2.5)),
        (["1.0"], "float", (1.0,)),
        (["1e3", "-2E-1", ".5", "5."], "float", (1000.0, -0.2, 0.5, 5.0)),
        (["inf", "-Infinity", "1"], "float", (INF, -INF, 1.0)),
        (["01907.5"], "string", ("01907.5",)),
        ([" 1"], "string", (" 1",)),
        (["1_000"], "string", ("1_000",)),
        (["١"], "string", ("١",)),
        (["NA", "1"], "string", ("NA", "1")),
        (["NULL", ""], "string", ("NULL", None)),
        (["2020-02-29", ""], "date", (date(2020, 2, 29), None)),
        (["2021-02-29"], "string", ("2021-02-29",)),
        (["20200229"], "integer", (20200229,)),
        (["2020-02-29", "5"], "string", ("2020-02-29", "5")),
        (["2020-01-01T10:00:00", "2020-01-01 10:00:00.5Z"], "timestamp", None),
        (["2020-01-01", "2020-01-01T00:00:00"], "string", ("2020-01-01", "2020-01-01T00:00:00")),
        (["true", "false", ""], "boolean", (True, False, None)),
        (["True"], "string", ("True",)),
        (["true", "1"], "string", ("true", "1")),
    ],
)
def test_inference(texts: list[str], type_name: str, values: tuple[Value, ...] | None) -> None:
    inferred = infer(texts)
    assert (inferred.type_name, inferred.assumed) == (type_name, False)
    if values is not None:
        assert inferred.values == values
        assert [type(value) for value in inferred.values] == [type(value) for value in values]


def test_inference_of_timestamps_reads_naive_as_utc() -> None:
    inferred = infer(["2020-01-01T10:00", "2020-01-01T12:00:00+02:00", "2020-01-01 10:00:00.000Z"])
    assert inferred.type_name == "timestamp"
    assert inferred.values == (datetime(2020, 1, 1, 10, tzinfo=UTC),) * 3


def test_inference_without_values_assumes_string() -> None:
    assert infer(["", ""]) == infer(["NA", "NA"], null_token="NA")
    assert infer([]).type_name == "string"
    assert infer([]).assumed
    assert infer([""]).values == (None,)


def test_inference_with_another_null_token() -> None:
    assert infer(["1", "NA"], null_token="NA").values == (1, None)
    assert infer(["1", ""], null_token="NA").type_name == "string"


def test_inference_of_nan_in_any_case() -> None:
    inferred = infer(["nan", "-NaN", "NAN", "1"])
    assert inferred.type_name == "float"
    assert [same(value, NAN) for value in inferred.values] == [True, True, True, False]


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("integer", "9223372036854775808"),
        ("integer", "1.0"),
        ("integer", ""),
        ("float", "0x1"),
        ("decimal(4,2)", "1.234"),
        ("decimal(4,2)", "100"),
        ("date", "2020-1-1"),
        ("timestamp", "2020-01-01"),
        ("timestamp", "2020-01-01T24:00:00"),
        ("timestamp", "0001-01-01T00:00:00+01:00"),
        ("boolean", "yes"),
    ],
)
def test_a_value_that_does_not_fit_its_type(type_name: str, text: str) -> None:
    with pytest.raises(ValueError):
        parse(type_name, text)


def test_parsing_declared_decimals() -> None:
    assert parse("decimal(4,2)", "-99.99") == Decimal("-99.99")
    assert parse("decimal(4,2)", "1.500") == Decimal("1.5")
    assert group_of_type("decimal(4,2)") == type_group(Decimal(1)) == "number"


# Denial constraints: spaces


def test_default_orders_of_the_groups() -> None:
    groups = ["number", "date", "timestamp", "string", "boolean"]
    assert [Column("X", group).is_ordered for group in groups] == [True, True, True, False, False]
    assert Column("X", "string", ordered=True).is_ordered
    assert not Column("X", "number", ordered=False).is_ordered


@pytest.mark.parametrize(
    ("left", "right", "share"),
    [
        ([1, 1, 2, None], [1, 2, 2, 3], Fraction(2, 5)),  # smaller 1+1+0, larger 2+2+1
        ([1, 2, 3, 4, 5, 6], [1, 2, 3, 7, 8, 9, 10], Fraction(3, 10)),
        ([1, 2, 3, 4, 5, 6], [1, 2, 3, 7, 8, 9, 10, 11], Fraction(3, 11)),
        ([None], [None], Fraction(0)),
        ([], [1], Fraction(0)),
        ([NAN, -0.0], [NAN, 0], Fraction(1)),
        ([0.1], [Decimal("0.1")], Fraction(0)),
    ],
)
def test_share_of_common_values(left: list[Value], right: list[Value], share: Fraction) -> None:
    assert denial.common_share(left, right) == denial.common_share(right, left) == share


def test_automatic_space_takes_thirty_percent_exactly() -> None:
    seed: list[Row] = list(itertools.zip_longest([1, 2, 3, 4, 5, 6], [1, 2, 3, 7, 8, 9, 10]))
    assert [(pair.left, pair.right) for pair in denial.automatic_space([A, B], seed)] == [
        (0, 0),
        (1, 1),
        (0, 1),
    ]
    assert [(pair.left, pair.right) for pair in denial.automatic_space([A, B], [*seed, (None, 11)])] == [
        (0, 0),
        (1, 1),
    ]


def test_automatic_space_keeps_groups_apart() -> None:
    rows: list[Row] = [(1, True, "1"), (0, False, "0")]
    space = denial.automatic_space([A, Column("B", "boolean"), S], rows)
    assert space == denial.own_space([A, Column("B", "boolean"), S])


def test_listed_space_orders_pairs_and_needs_one_group() -> None:
    space = denial.listed_space([A, B, C], [(2, 0)])
    assert [(pair.left, pair.right, pair.ordered) for pair in space] == [
        (0, 0, True),
        (1, 1, True),
        (2, 2, True),
        (0, 2, True),
    ]
    with pytest.raises(ValueError, match="different type groups"):
        denial.listed_space([A, S], [(0, 1)])


def test_a_cross_pair_is_ordered_when_both_columns_are() -> None:
    space = denial.listed_space([S, Column("T", "string", ordered=True)], [(0, 1)])
    assert [pair.ordered for pair in space] == [False, True, False]


def test_the_oracles_share_nothing_with_the_product() -> None:
    folder = Path(denial.__file__).parent
    for source in folder.glob("*.py"):
        imported = re.findall(r"^\s*(?:from|import)\s+([\w.]+)", source.read_text(encoding="utf-8"), re.MULTILINE)
        for name in imported:
            assert name.startswith("tests.oracles") or name.split(".")[0] in sys.stdlib_module_names, source
