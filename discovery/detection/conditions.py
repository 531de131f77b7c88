"""Which rows pass tests of single rows: comparisons with literals and within the row, and tests of one cell.

A literal becomes a position among the keys of a column: the least key whose value is not below the literal, and whether
it is equal. So a literal is compared exactly whatever its type: an integer column with 1.5, a float column with 0.1.
A text is tested once for each value of the dictionary; patterns are those of RE2, whose time is linear in the text.

Invariant: a null passes no test but `is null`.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import Column, TypeGroup, UsageError, read_value
from holdfast.constraints.conditions import Atom, Cell, Comparison, Literal, MemberTest, NullTest, PatternTest
from holdfast.constraints.operators import EQUAL, GREATER, LESS
from holdfast.tables.arrays import Flags, Keys
from holdfast.tables.columnar import EncodedColumn
from holdfast.tables.comparable import common_keys
from holdfast.tables.frames import from_arrow
from holdfast.tables.keys import arrow_type_of, float_keys, needs_dictionary, ranks_of

ColumnOf = Callable[[str], EncodedColumn]
"""Returns the column with a name; all columns have the same number of rows."""

_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class _Place:
    """Where a literal stands among keys: `key` is the least one not below it, and `is_value` whether that is it."""

    key: int
    is_value: bool


def passing(alternatives: Sequence[Sequence[Atom]], column: ColumnOf, rows: int) -> Flags:
    """Return which rows pass all tests of at least one alternative. O(rows) for each test."""
    found = np.zeros(rows, np.bool_)
    for tests in alternatives:
        one = np.ones(rows, np.bool_)
        for test in tests:
            one &= _passing(test, column)
        found |= one
    return found


def check_literal(comparison: Comparison, column: Column) -> None:
    """Raise `UsageError` where the literal of a comparison is not a value of the column's type group."""
    assert isinstance(comparison.right, Literal)
    try:
        _read(comparison.right, column)
    except ValueError as error:
        expected = "a text in quotes" if column.type.group is TypeGroup.STRINGS else str(error)
        raise UsageError(f"'{comparison}': column {column} is compared with {comparison.right}: {expected}") from error


def check_pattern(test: PatternTest, column: Column) -> None:
    """Raise `UsageError` where a pattern is no regular expression, or the column has no texts."""
    if column.type.group is not TypeGroup.STRINGS:
        raise UsageError(f"'{test}': a pattern is for texts, and column {column} has none: use comparisons, or `in`")
    check_expression(test.pattern)


def check_expression(pattern: str) -> None:
    """Raise `UsageError` where a pattern is no regular expression of RE2."""
    for expression in (pattern, _whole(pattern)):  # the second alone may hide an unbalanced parenthesis
        try:
            pc.match_substring_regex(pa.array([""]), expression)
        except pa.ArrowInvalid as error:
            reason = str(error).partition("Invalid regular expression: ")[2] or str(error)
            raise UsageError(f"pattern '{pattern}' is no regular expression (RE2): {reason}") from error


def _passing(test: Atom, column: ColumnOf) -> Flags:
    if isinstance(test, NullTest):
        found = column(test.cell.column)
        valid = np.ones(len(found), np.bool_) if found.valid is None else found.valid
        return ~valid if test.is_null else valid
    if isinstance(test, MemberTest):
        found = column(test.cell.column)
        return _where_valid(_members(found, test.literals) == test.is_member, found)
    if isinstance(test, PatternTest):
        found = column(test.cell.column)
        matches = pc.match_substring_regex(_dictionary(found), _whole(test.pattern))
        return _where_valid(_of_rows(matches, found) == test.is_match, found)
    left = column(test.left.column)
    if isinstance(test.right, Cell):
        right = column(test.right.column)
        left_keys, right_keys = _ordered_keys(left, right)
        outcomes = _outcomes(left_keys, right_keys)
        passes = (outcomes & test.operator.outcomes) != 0
        return _where_valid(passes, left, right)
    return _where_valid((_outcomes_with(left, test.right) & test.operator.outcomes) != 0, left)


def _where_valid(passes: Flags, *columns: EncodedColumn) -> Flags:
    for column in columns:
        if column.valid is not None:
            passes &= column.valid
    return passes


def _ordered_keys(left: EncodedColumn, right: EncodedColumn) -> tuple[Keys, Keys]:
    """Return keys of two columns that compare as the values do, strings in code point order."""
    if left.column.type.name != "string":
        return common_keys(left, right)
    pooled = pc.unique(pa.concat_arrays([_dictionary(left), _dictionary(right)]))
    rank = ranks_of(pooled)

    def ranked(column: EncodedColumn) -> Keys:
        places = pc.index_in(_dictionary(column), pooled).to_numpy(zero_copy_only=False)
        return np.asarray(rank[places][column.keys]) if len(places) else np.zeros(len(column), np.int64)

    return ranked(left), ranked(right)


def _dictionary(column: EncodedColumn) -> pa.Array:
    assert column.dictionary is not None
    return column.dictionary


def _whole(pattern: str) -> str:
    """Return the expression that matches a text if the pattern matches the whole text."""
    return rf"\A(?:{pattern})\z"


def _of_rows(by_value: pa.Array, column: EncodedColumn) -> Flags:
    """Return the answers of rows, by the answers of the values in a dictionary."""
    flags = by_value.to_numpy(zero_copy_only=False)
    return np.asarray(flags[column.keys]) if len(flags) else np.zeros(len(column), np.bool_)


def _members(column: EncodedColumn, literals: Sequence[Literal]) -> Flags:
    """Return which rows have one of some values (undefined for nulls). O(rows log literals)."""
    if column.column.type.group is TypeGroup.STRINGS:
        texts = [_read(literal, column.column) for literal in literals]
        dictionary = _dictionary(column)
        return _of_rows(pc.is_in(dictionary, value_set=pa.array(texts, dictionary.type)), column)
    places = [_literal_place(literal, column) for literal in literals]
    keys = [place.key for place in places if place.is_value and _LEAST <= place.key <= _GREATEST]
    return np.isin(column.keys, np.array(keys, np.int64))


def _outcomes(left: Any, right: Any) -> Any:
    return np.where(left < right, LESS, np.where(left == right, EQUAL, GREATER)).astype(np.int8)


def _outcomes_with(column: EncodedColumn, literal: Literal) -> Any:
    """Return the outcome of every row's value against a literal (undefined for nulls)."""
    if column.column.type.group is TypeGroup.STRINGS:
        dictionary = _dictionary(column)
        text = pa.scalar(_read(literal, column.column), dictionary.type)
        below = pc.less(dictionary, text).to_numpy(zero_copy_only=False)
        alike = pc.equal(dictionary, text).to_numpy(zero_copy_only=False)
        by_key = np.where(below, LESS, np.where(alike, EQUAL, GREATER)).astype(np.int8)
        return by_key[column.keys] if len(by_key) else np.zeros(len(column), np.int8)
    place = _literal_place(literal, column)
    if place.key > _GREATEST:
        return np.full(len(column), LESS, np.int8)
    if place.key < _LEAST:
        return np.full(len(column), GREATER, np.int8)
    outcomes = np.where(column.keys < place.key, LESS, GREATER).astype(np.int8)
    if place.is_value:
        outcomes[column.keys == place.key] = EQUAL
    return outcomes


def _literal_place(literal: Literal, column: EncodedColumn) -> _Place:
    """Return the position of a literal among the keys of a column that is not of strings."""
    place = _place(_read(literal, column.column), column)
    if column.column.type.precision == 9 and column.column.type.name == "timestamp":
        return _Place(place.key + _nanoseconds(literal.text), is_value=True)  # Python's times have no nanoseconds
    return place


def _read(literal: Literal, column: Column) -> Any:
    """Return a literal as a value of a column's type group: an exact number, or NaN or an infinity as a float."""
    group, kind = column.type.group, column.type
    if group is TypeGroup.NUMBERS:
        if literal.is_text or literal.text in {"true", "false"}:
            raise ValueError("a number without quotes")
        number = literal.text.lstrip("+-")
        if number == "nan":
            return math.nan
        if number.startswith("inf"):
            return -math.inf if literal.text.startswith("-") else math.inf
        power = number.partition("e")[2]
        if len(power.lstrip("+-0")) > 4:
            raise ValueError("a number with an exponent of at most four digits")
        return Fraction(Decimal(literal.text))
    if group is TypeGroup.STRINGS:
        if not literal.is_text:
            raise ValueError("a text in quotes")
        return literal.text
    if group is TypeGroup.BOOLEANS:
        if literal.is_text or literal.text not in {"true", "false"}:
            raise ValueError("true or false, without quotes")
        return literal.text == "true"
    if not literal.is_text:
        raise ValueError(f"a {kind.name} in quotes, such as '2024-02-29'")
    return read_value(literal.text, kind)


def _nanoseconds(text: str) -> int:
    """Return the nanoseconds of a time beyond its microseconds."""
    beyond = re.search(r"\.[0-9]{6}([0-9]{1,3})", text)
    return int(beyond[1].ljust(3, "0")) if beyond else 0


def _place(value: Any, column: EncodedColumn) -> _Place:
    """Return the position of a value among the keys of a column that is not of strings."""
    kind = column.column.type
    if kind.group is not TypeGroup.NUMBERS:
        made = from_arrow(pa.table({"a": pa.array([value], arrow_type_of(kind))}), "a").columns[0]
        return _Place(int(made.keys[0]), is_value=True)
    if kind.name == "float":
        return _place_among_floats(value)
    if isinstance(value, float):  # equal to no decimal and no integer
        return _Place(_LEAST - 1 if value < 0 else _GREATEST + 1, is_value=False)
    units = value * 10**kind.scale if kind.name == "decimal" else value
    whole = math.ceil(units)
    if not needs_dictionary(kind):
        return _Place(whole, is_value=whole == units)
    dictionary = _dictionary(column)
    key = bisect_left(range(len(dictionary)), value, key=lambda at: Fraction(dictionary[at].as_py()))
    return _Place(key, is_value=key < len(dictionary) and Fraction(dictionary[key].as_py()) == value)


def _place_among_floats(value: Any) -> _Place:
    if isinstance(value, float):
        return _Place(int(float_keys(np.array([value]))[0]), is_value=True)
    try:
        near = value.numerator / value.denominator  # correctly rounded
    except OverflowError:
        near = math.inf if value > 0 else -math.inf
    exact = math.isfinite(near) and Fraction(near) == value
    key = int(float_keys(np.array([near]))[0])
    below = near < value if math.isfinite(near) else near < 0
    return _Place(key + 1 if below and not exact else key, is_value=exact)
