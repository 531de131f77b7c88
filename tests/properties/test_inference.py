"""Types of text columns: inferred as the oracle says, and declared types read as `read_value` reads them.

*Oracle*: `tests/oracles/values.py`. Decided differences from it, each pinned below: whole numbers of more than 38
digits stay strings, as do times of which only some have an offset; seven to nine fractional digits make a
`timestamp(9)`; offsets may be `+HH` or `+HHMM`, and reach to 14:59.
"""

from __future__ import annotations

import csv
import re
import tempfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from holdfast.constraints import Column, InputError, Value, parse_type, read_value
from holdfast.tables import ReadOptions, read_table
from holdfast.tables.fitting import fit
from holdfast.tables.inference import infer, typed
from tests.oracles import values as oracle
from tests.oracles.values import same

DIGITS = st.text("0123456789", min_size=1, max_size=45)
SIGNS = st.sampled_from(["", "", "+", "-"])


def joined(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map("".join)


WHOLE = joined(
    SIGNS,
    st.integers(0, 999).map(str)
    | st.sampled_from([str(2**63 - 1), str(2**63), str(2**63 + 1), "0", "00", "01907", "9" * 38, "1" + "0" * 38])
    | DIGITS,
)
EXPONENTS = joined(st.sampled_from("eE"), SIGNS, st.integers(0, 400).map(str) | st.just("9" * 20) | st.just("0" * 30))
FRACTIONS = joined(
    SIGNS,
    st.integers(0, 99).map(str) | st.just("") | DIGITS,
    st.sampled_from([".", ""]),
    st.text("0123456789", max_size=4) | DIGITS,
    st.just("") | EXPONENTS,
)
NOT_NUMBERS = joined(
    SIGNS, st.sampled_from(["nan", "NaN", "NAN", "inf", "Inf", "infinity", "Infinity", "INFINITY", "infin", "na"])
)
YEARS = st.integers(0, 10000).map("{:04d}".format) | st.sampled_from(["0001", "1677", "2262", "2263", "9999", "2024"])
DAYS = joined(
    YEARS, st.just("-"), st.integers(0, 13).map("{:02d}".format), st.just("-"), st.integers(0, 32).map("{:02d}".format)
)
GOOD_DAYS = st.dates().map(str) | st.sampled_from(["0001-01-01", "9999-12-31", "2024-02-29", "1970-01-01"])
OFFSETS = st.sampled_from(
    ["", "Z", "+00:00", "-00:00", "+05:30", "-14:00", "+14:59", "+02", "-0330", "+15:00", "+2:00"]
)
FINE = st.sampled_from(["", ":00", ":59", ":60", ":07.5", ":07.123456", ":07.1234567", ":07.123456789", ":07.", ":7"])
TIMES = joined(
    GOOD_DAYS | DAYS,
    st.sampled_from("T T  t"),
    st.sampled_from(["00:00", "23:59", "24:00", "12:30", "1:30"]),
    FINE,
    OFFSETS,
)
FLAGS = st.sampled_from(["true", "false", "True", "FALSE", "t", "0", "1"])
ODD = st.sampled_from([
    " 1", "1 ", "1\n", "\n1", "\n", "\r", "1\r\n2", "\u0661", "\uff11\uff12", "\u00b2", "1_000", "0x10", "1e", "e5", ".", "+", "-",
    "--1", "+-1", "1.2.3", "1,5", "true\n", "nan\n", "2024-02-30", "2024-1-1", "2024-02-29T", "12:00", "1.5f", "NULL", "NA",
    "\u22121", "1\u00a0000", "Infinity ", "\x00", '"', '""', '"x"',
])  # fmt: skip
FORMS = [WHOLE, FRACTIONS, NOT_NUMBERS, DAYS, GOOD_DAYS, TIMES, FLAGS, ODD, st.text(max_size=3)]


@st.composite
def columns(draw: st.DrawFn) -> list[str]:
    """Texts of mostly one form."""
    form = draw(st.sampled_from(FORMS))
    texts = draw(st.lists(form, min_size=1, max_size=5))
    if draw(st.integers(0, 3)) == 0:
        texts.insert(draw(st.integers(0, len(texts))), draw(st.one_of(FORMS)))
    return [text for text in texts if text]


def is_decided_difference(texts: list[str]) -> bool:
    """Whether the product departs from the oracle here."""
    if all(re.fullmatch(r"[+-]?(0|[1-9][0-9]*)", text) for text in texts):
        return any(len(text.lstrip("+-")) > 38 for text in texts)
    time = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(?:\.[0-9]+)?)?(|Z|[+-].*)")
    matches = [time.fullmatch(text) for text in texts]
    parts = [(match[1] or "", match[2]) for match in matches if match]
    if len(parts) < len(texts):
        return False
    offsets = {offset for _, offset in parts}
    return (
        any(len(seconds) > len(":07.123456") for seconds, _ in parts)
        or ("" in offsets and len(offsets) > 1)
        or any(re.fullmatch(r"[+-]([0-9]{2}|[0-9]{4}|1[5-9].*|2.*)", offset) for offset in offsets)
    )


def all_same(left: list[Value], right: list[Value]) -> bool:
    return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))


def plain(values: pa.Array) -> list[Value]:
    """Values as plain Python has them: nanoseconds cut."""
    if pa.types.is_timestamp(values.type) and values.type.unit == "ns":
        values = values.cast(pa.timestamp("us", "UTC"), safe=False)
    return list(values.to_pylist())


@given(texts=columns())
@example(texts=["-" + "9" * 45, "1"])
@example(texts=["0001-01-01T00:00+14:00"])
@example(texts=["9999-12-31T23:59:59.999999Z", "9999-12-31T23:59-00:01"])
def test_inferred_as_the_definition_says(texts: list[str]) -> None:
    assume(texts)
    distinct = list(dict.fromkeys(texts))
    assume(not is_decided_difference(distinct))
    column_type, values = infer(pa.array(distinct, pa.string()))
    expected = oracle.infer(distinct)
    assert str(column_type) == expected.type_name
    assert all_same(values.to_pylist(), list(expected.values))


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@given(texts=columns().map(lambda texts: [*texts, "", *texts[:1]]), beside=st.booleans())
def test_inferred_from_a_file(quoting: Literal[0, 1], texts: list[str], beside: bool) -> None:
    assume(not is_decided_difference([text for text in texts if text]))
    assume(not any("\x00" in text for text in texts))  # a file with a zero byte is no text
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.csv")
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, quoting=quoting)
            writer.writerows(
                [["a", "b"], *([text, "x"] for text in texts)] if beside else [["a"], *([t] for t in texts)]
            )
        table = read_table(path)
    expected = oracle.infer(texts)
    assert str(table["a"].column.type) == expected.type_name
    assert table["a"].column.assumed == expected.assumed
    assert all_same(table["a"].values().to_pylist(), list(expected.values))


DECLARED = ["integer", "float", "date", "timestamp", "timestamp(9)", "boolean", "string"]
DECIMALS = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: f"decimal({p},{s})"))


def read_or_none(text: str, type_name: str) -> Value:
    try:
        return read_value(text, parse_type(type_name))
    except ValueError:
        return None


@given(texts=columns(), type_name=st.sampled_from(DECLARED) | DECIMALS)
@example(texts=["79769260835963331263265078028986"], type_name="decimal(38,10)")  # Arrow alone wraps around
@example(texts=["9223372036854775808"], type_name="decimal(38,38)")
@example(
    texts=["1e2", "15e-1", "1.50e1", "-9223372036854775808", "92233720368547758.07e2", "0e999999999999"],
    type_name="integer",
)
@example(texts=["1e2", "-1.50E+1", ".0", "100e-2", "0e999999999999", "9223372036854775807.0"], type_name="integer")
@example(texts=["1e19", "1"], type_name="integer")
@example(texts=["1.5", "1e400"], type_name="float")
@example(texts=["1.5", "-" + "9" * 400 + "."], type_name="float")
@example(texts=["1.5", "-inf", "+Infinity", "1e308"], type_name="float")
@example(texts=["-361918851131154444279953011019386769931000"], type_name="integer")
@example(texts=["1" + "0" * 30 + "." + "0" * 40, "0" * 50 + "1"], type_name="decimal(38,2)")
@example(texts=["-.5e-99999999999999999999"], type_name="decimal(10,2)")
@example(texts=["0e99999999999999999999", "-0.000"], type_name="decimal(10,2)")
@example(texts=["0001-01-01T00:00+14:00"], type_name="timestamp")
@example(texts=["1677-09-21T00:12:44Z", "2262-04-11T23:47:16.854775807"], type_name="timestamp(9)")
@example(texts=["1677-09-21T00:12:43.999999999Z"], type_name="timestamp(9)")
@example(texts=["2262-04-11T23:47:16.854775808"], type_name="timestamp(9)")
@example(texts=["0999-07-03"], type_name="timestamp(9)")
def test_declared_types_read_like_read_value(texts: list[str], type_name: str) -> None:
    read = [read_or_none(text, type_name) for text in texts]
    given_texts = pa.chunked_array([pa.array(texts, pa.string())])
    try:
        column, values = typed(given_texts, "a", parse_type(type_name), "row {}".format, ordered=None)
    except InputError as error:
        first = next(i for i, value in enumerate(read) if value is None)
        assert str(error).startswith(f"row {first}, column a: '")
        return
    assert str(column.type) == type_name
    if type_name == "string":
        assert values.to_pylist() == texts
    else:
        assert all_same(plain(pa.concat_arrays(values.chunks)), read)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "9" * 39], "string"),
        (["1.5", "9" * 39], "float"),
        (["2024-01-01T00:00", "2024-01-01T00:00Z"], "string"),
        (["2024-01-01T00:00:00.1234567"], "timestamp(9)"),
        (["2024-01-01T00:00:00", "2024-01-01T00:00:00.000000001"], "timestamp(9)"),
        (["2263-01-01T00:00:00.000000001"], "string"),
        (["2024-01-01 12:30+02", "2024-01-01 12:30-0330"], "timestamp"),
        (["2024-01-01 12:30+14:59"], "timestamp"),
        (["2024-01-01 12:30+15:00"], "string"),
        (["01907", "1"], "string"),
        (["01907.5", "1.5"], "string"),
        (["9223372036854775808", "-1"], "decimal(38,0)"),
        (["NA", "1"], "string"),
        (["true", "True"], "string"),
        (["2024-02-29", "2023-02-29"], "string"),
        (["2024-02-29", "2024-02-29T00:00"], "string"),
        (["0000-01-01"], "string"),
        (["1e308", "1e-400", "-1.7976931348623157e+308"], "float"),
        (["1e400", "1"], "string"),
        (["-1e400"], "string"),
        (["1e309", "inf"], "string"),
        (["9" * 400 + ".", "1.5"], "string"),
        (["-inf", "1.5", "Infinity", "nan"], "float"),
    ],
)
def test_examples(texts: list[str], expected: str) -> None:
    assert str(infer(pa.array(texts))[0]) == expected


def test_whole_numbers_with_an_exponent_are_declared_integers() -> None:
    texts = {"1e2": 100, "-1.50E+1": -15, "100e-2": 1, ".0": 0, "92233720368547758.07e2": 2**63 - 1}
    assert {text: read_value(text, parse_type("integer")) for text in texts} == texts
    for text in ("15e-1", "1e19", "0.1", "9223372036854775808e0", "1e-400", "inf", "e2"):
        assert read_or_none(text, "integer") is None


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e309", "1.8e308", "9" * 400, "9" * 400 + "."])
def test_a_number_beyond_all_floats_is_none(text: str, tmp_path: Path) -> None:
    """It is not read as infinite: neither from a file, nor from records, whatever says that the column is a float."""
    with pytest.raises(ValueError, match="is not a number within 64 bits"):
        read_value(text, parse_type("float"))
    values, wrong = fit(pa.array(["1.5", text, "inf"]), Column("a", parse_type("float")))
    assert wrong is not None
    assert (values.to_pylist(), wrong.tolist()) == ([1.5, None, float("inf")], [False, True, False])
    path = tmp_path / "t.csv"
    path.write_text(f"a\n1.5\n{text}\n")
    assert str(read_table(path)["a"].column.type) == "string"
    with pytest.raises(InputError, match=r"t.csv, line 3, column a: '.*' is not a number within 64 bits"):
        read_table(path, ReadOptions(types={"a": parse_type("float")}))


def test_values_of_the_decided_differences() -> None:
    _, nanos = infer(pa.array(["2024-01-01T00:00:00.1234567+01:00"]))
    assert nanos.cast(pa.int64()).to_pylist() == [1704063600_123456700]
    _, short = infer(pa.array(["2024-01-01 12:30+02", "2024-01-01 12:30-0330"]))
    assert short.to_pylist() == [datetime(2024, 1, 1, 10, 30, tzinfo=UTC), datetime(2024, 1, 1, 16, 0, tzinfo=UTC)]


def test_a_column_of_many_texts_is_judged_by_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{i},{i}\n" for i in range(5000)) + "x,5000.5\n")
    table = read_table(path)
    assert [str(c.type) for c in table.schema] == ["string", "float"]


@pytest.mark.parametrize("type_name", ["decimal(38,10)", "decimal(5,2)", "float", "integer"])
def test_a_declared_type_in_a_file(tmp_path: Path, type_name: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a\n1.00\n\n"007"\n-2.\n')
    table = read_table(path, ReadOptions(types={"a": parse_type(type_name)}))
    assert table["a"].values().to_pylist() == [Decimal(1), None, Decimal(7), Decimal(-2)]
