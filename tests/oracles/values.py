"""Plain values: their order, their identity, and the types of text columns.

Restates *Types, order, nulls* and the first line of *Rows* of the definition, over plain Python values. A
value belongs to one of five type groups: numbers (int, float, Decimal), strings, booleans, dates,
timestamps. Nothing here is fast, and nothing is shared with the product.

Readings taken where the definition leaves room:

- A float is written `[+-]` digits with an optional point and an optional exponent; `.5` and `5.` are floats;
  the digits before the point have no leading zero (`01907.5` is a string, as `01907` is); `1e999` is beyond
  the largest float, so it is none.
- An integer outside int64 makes the column decimal(38,0) if every value has at most 38 digits; a longer one
  is still written like a float, so the column is float.
- An ISO date is `YYYY-MM-DD` of a real day. An ISO timestamp is a date, `T` or one space, `HH:MM`,
  optionally `:SS` with an optional fraction of one to six digits, optionally `Z` or `+HH:MM`. A date alone
  is no timestamp.
- `true` and `false` are lower case. Digits are ASCII.
- A Decimal NaN is a NaN.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Value: TypeAlias = bool | int | float | Decimal | str | date | datetime | None
Row: TypeAlias = tuple[Value, ...]
Number: TypeAlias = int | float | Decimal

ORDERED_GROUPS = ("number", "date", "timestamp")


@dataclass(frozen=True)
class Column:
    """A named column of one type group: `number`, `string`, `boolean`, `date` or `timestamp`.

    `ordered` overrides the group's default in denial constraints; `assumed` marks a type that no value,
    configuration or schema supports (the string type of a column without values).
    """

    name: str
    group: str
    ordered: bool | None = None
    assumed: bool = False

    @property
    def is_ordered(self) -> bool:
        """*Order*: numbers, dates, timestamps are ordered in denial constraints; configurable per column."""
        return self.group in ORDERED_GROUPS if self.ordered is None else self.ordered


@dataclass(frozen=True)
class Table:
    """A named bag of rows."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def index(self, name: str) -> int:
        """Return the position of the column of this name."""
        return [column.name for column in self.columns].index(name)


# Order and identity


def type_group(value: Value) -> str | None:
    """Return the type group of a value; null has none (*Types*)."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float | Decimal):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, datetime):
        return "timestamp"
    return "date"


def compare(left: Value, right: Value) -> int:
    """Return -1, 0 or 1: the order of two values of one group, null equal to null and below all (*Nulls*)."""
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if type_group(left) != type_group(right):
        raise ValueError(f"{left!r} and {right!r} are of different type groups")
    if isinstance(left, datetime) and isinstance(right, datetime):
        return _sign(_as_utc(left), _as_utc(right))
    return _compared(left, right)


@lru_cache(maxsize=1 << 16, typed=True)
def _compared(left: Value, right: Value) -> int:
    """Compare values of one group, none of them null; of timestamps equality is not the same moment, so none is here."""
    if isinstance(left, str) and isinstance(right, str):
        return _sign([ord(letter) for letter in left], [ord(letter) for letter in right])
    if isinstance(left, bool) and isinstance(right, bool):
        return _sign(int(left), int(right))
    if isinstance(left, int | float | Decimal) and isinstance(right, int | float | Decimal):
        return _sign(_number_order(left), _number_order(right))
    if isinstance(left, date) and isinstance(right, date):
        return _sign(left.toordinal(), right.toordinal())
    raise TypeError(f"{left!r} is no value")


def same(left: Value, right: Value) -> bool:
    """Tell whether two values are equal: null = null, NaN = NaN, -0.0 = 0.0 (*Rows*); groups never match."""
    both = left is not None and right is not None
    if both and type_group(left) != type_group(right):
        return False
    return compare(left, right) == 0


def same_row(left: Sequence[Value], right: Sequence[Value]) -> bool:
    """Equality for identity of two rows (*Rows*)."""
    return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))


def outcome(left: Value, right: Value, *, ordered: bool) -> str:
    """Return the outcome of two values: `<`, `=`, `>`, or `=`, `!=` if unordered (*Denial constraints*)."""
    sign = compare(left, right)
    if ordered:
        return {-1: "<", 0: "=", 1: ">"}[sign]
    return "=" if sign == 0 else "!="


def canonical(value: Value) -> tuple[object, ...]:
    """Return a hashable stand-in: two values are `same` exactly when their stand-ins are equal."""
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int | float | Decimal):
        return ("number", *_number_order(value))
    if isinstance(value, datetime):
        return ("timestamp", _as_utc(value))
    if isinstance(value, date):
        return ("date", value)
    return ("string", value)


def canonical_row(row: Sequence[Value]) -> tuple[tuple[object, ...], ...]:
    """Return a hashable stand-in of a row, equal for rows of equal identity."""
    return tuple(canonical(value) for value in row)


def _sign(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _as_utc(moment: datetime) -> datetime:
    """A timestamp without a zone is UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _number_order(number: Number) -> tuple[int, Fraction]:
    """-inf, then the finite numbers by exact mathematical value, then inf, then NaN."""
    if not isinstance(number, int):
        if math.isnan(number):
            return (3, Fraction(0))
        if math.isinf(number):
            return (2, Fraction(0)) if number > 0 else (0, Fraction(0))
    return (1, Fraction(number))


# Types of text columns

_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SPECIAL_FLOAT = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE | re.ASCII)
_DECIMAL = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?")
_DECIMAL_TYPE = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
)

INFERRED_TYPES = ("integer", "decimal(38,0)", "float", "date", "timestamp", "boolean", "string")


def group_of_type(type_name: str) -> str:
    """Return the type group of a type name."""
    if type_name in {"integer", "float"} or _DECIMAL_TYPE.fullmatch(type_name):
        return "number"
    return type_name


def parse(type_name: str, text: str) -> Value:
    """Read one non-null text as a value of a type, or raise ValueError: the value does not fit its type."""
    if match := _DECIMAL_TYPE.fullmatch(type_name):
        return _parse_decimal(text, int(match[1]), int(match[2]))
    return _PARSERS[type_name](text)


@dataclass(frozen=True)
class InferredColumn:
    """The inferred type of a text column, its values, and whether the type is only assumed (no values)."""

    type_name: str
    values: tuple[Value, ...]
    assumed: bool


def infer(texts: Sequence[str], null_token: str = "") -> InferredColumn:
    """*Inference*: the first type that fits all non-null values; without values, string."""
    present = [text for text in texts if text != null_token]
    if not present:
        return InferredColumn("string", (None,) * len(texts), assumed=True)
    type_name = next(name for name in INFERRED_TYPES if all(_fits(name, text) for text in present))
    values = tuple(None if text == null_token else parse(type_name, text) for text in texts)
    return InferredColumn(type_name, values, assumed=False)


def _fits(type_name: str, text: str) -> bool:
    """Tell whether inference takes a text for this type; decimal(38,0) takes integers only, not `1.0`."""
    if type_name == "decimal(38,0)" and not _INTEGER.fullmatch(text):
        return False
    try:
        parse(type_name, text)
    except ValueError:
        return False
    return True


def _parse_integer(text: str) -> int:
    _demand(_INTEGER.fullmatch(text) is not None, text, "integer")
    _demand(-(2**63) <= int(text) < 2**63, text, "64-bit integer")
    return int(text)


def _parse_decimal(text: str, digits: int, scale: int) -> Decimal:
    _demand(_DECIMAL.fullmatch(text) is not None, text, "decimal")
    scaled = Fraction(text) * 10**scale
    _demand(scaled.denominator == 1 and abs(scaled) < 10**digits, text, f"decimal({digits},{scale})")
    return Decimal(text)


def _parse_float(text: str) -> float:
    _demand(bool(_FLOAT.fullmatch(text) or _SPECIAL_FLOAT.fullmatch(text)), text, "float")
    _demand(bool(_SPECIAL_FLOAT.fullmatch(text)) or math.isfinite(float(text)), text, "float")
    return float(text)


def _parse_date(text: str) -> date:
    _demand(_DATE.fullmatch(text) is not None, text, "ISO date")
    return date.fromisoformat(text)


def _parse_timestamp(text: str) -> datetime:
    _demand(_TIMESTAMP.fullmatch(text) is not None, text, "ISO timestamp")
    try:
        return _as_utc(datetime.fromisoformat(text))
    except OverflowError:
        raise ValueError(f"{text!r} leaves the years 1 to 9999 in UTC") from None


def _parse_boolean(text: str) -> bool:
    _demand(text in {"true", "false"}, text, "boolean")
    return text == "true"


def _demand(condition: bool, text: str, wanted: str) -> None:
    if not condition:
        raise ValueError(f"{text!r} is no {wanted}")


_PARSERS: dict[str, Callable[[str], Value]] = {
    "integer": _parse_integer,
    "float": _parse_float,
    "date": _parse_date,
    "timestamp": _parse_timestamp,
    "boolean": _parse_boolean,
    "string": str,
}


def constraint_id(family: str, table: str, constraint: str) -> str:
    """Return the SHA-256 of the compact JSON of family, table and text."""
    line = json.dumps([family, table, constraint], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(line.encode()).hexdigest()
