"""Values as Python objects, and their texts in sources: the definition of the texts that fit a type.

There are two degrees. *Inference* accepts texts with one possible meaning: `01907` is an identifier and no number. A
*declared* type also accepts texts without loss: `01907`, `802.0` and `1e2` are integers, a date is a timestamp at
midnight. A float is the nearest double; a finite number beyond the largest double, such as `1e400`, is no float.
Neither strips spaces. The patterns are in the common subset of Python's `re` and RE2, to be matched against whole
texts.

Calendar dates are proleptic Gregorian, years 1 to 9999, in UTC too; a leap second is no time of day. A
`timestamp(9)` reaches from 1677-09-21T00:12:44 to 2262-04-11, as far as 64 bits of nanoseconds do.
"""

import datetime
import math
import re
from decimal import Decimal
from typing import Any

from holdfast.constraints.types import ColumnType

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FIRST_NANOSECOND = -9_223_372_036 * 10**9  # 1677-09-21T00:12:44, the first whole second within 64 bits

_WHOLE = ColumnType("decimal", 19, 0)

Value = int | float | str | bool | Decimal | datetime.date | datetime.datetime | None
"""The value of a cell as a Python object."""

_YEAR = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_DAY = _YEAR + r"-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
_OFFSET = r"(?:Z|[+-](?:0[0-9]|1[0-4])(?::?[0-5][0-9])?)"
_NOT_A_NUMBER = r"[+-]?(?:[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)"
_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"

INTEGER = r"[+-]?(?:0|[1-9][0-9]*)"
FLOAT = rf"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+){_EXPONENT}|{_NOT_A_NUMBER}"
DATE = _DAY
TIMESTAMP_WITHOUT_OFFSET = rf"{_DAY}[T ]{_TIME}"
TIMESTAMP_WITH_OFFSET = rf"{_DAY}[T ]{_TIME}{_OFFSET}"
NANOSECONDS = r".*\.[0-9]{7,9}(?:Z|[+-].*)?"
BOOLEAN = r"true|false"

PLAIN_INTEGER = r"[+-]?[0-9]+(?:\.0*)?"
DECLARED_NUMBER = rf"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+){_EXPONENT}"
DECLARED_FLOAT = rf"{DECLARED_NUMBER}|{_NOT_A_NUMBER}"
DECLARED_TIMESTAMP = rf"{_DAY}(?:[T ]{_TIME}{_OFFSET}?)?"
DECLARED_BOOLEAN = r"[tT][rR][uU][eE]|[fF][aA][lL][sS][eE]"

EXPECTED = {
    "integer": "a whole number within 64 bits",
    "float": "a number within 64 bits",
    "decimal": "a number with the declared digits",
    "string": "a text",
    "date": "a date such as 2024-02-29",
    "timestamp": "a time such as 2024-02-29T12:30:00 or 2024-02-29 12:30:00.5+02:00",
    "boolean": "true or false",
}
"""The expected form of a text, by the name of the type."""


def json_value(value: Value) -> Any:
    """Return a cell's value as a JSON value: numbers stay numbers, types that JSON lacks become texts.

    >>> json_value(float("nan")), json_value(Decimal("0.10")), json_value(datetime.date(2024, 2, 29))
    ('NaN', '0.10', '2024-02-29')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value


def read_value(text: str, column_type: ColumnType) -> Value:
    """Read one text as a value of a declared type; `ValueError` where it does not fit.

    The columnar readers do the same for whole columns. Of a `timestamp(9)`, nanoseconds are cut to what Python's
    times hold; a plain `timestamp` does not take them.

    Examples
    --------
    >>> from holdfast.constraints.types import parse_type
    >>> [read_value(text, parse_type("integer")) for text in ("802.0", "1e2")]
    [802, 100]
    >>> read_value("1.50", parse_type("decimal(4,1)"))
    Decimal('1.5')
    >>> read_value("2024-02-29 12:30+02", parse_type("timestamp")).isoformat()
    '2024-02-29T10:30:00+00:00'
    >>> read_value("80 000", parse_type("integer"))
    Traceback (most recent call last):
    ...
    ValueError: '80 000' is not a whole number within 64 bits
    """
    value = _read(text, column_type)
    if value is None:
        raise ValueError(f"'{text}' is not {EXPECTED[column_type.name]}")
    return value


def _read(text: str, column_type: ColumnType) -> Value:
    match column_type.name:
        case "string":
            return text
        case "integer" if re.fullmatch(DECLARED_NUMBER, text):
            return _integer(text)
        case "float" if re.fullmatch(DECLARED_FLOAT, text):
            return _float(text)
        case "decimal" if re.fullmatch(DECLARED_NUMBER, text):
            return _decimal(text, column_type)
        case "boolean" if re.fullmatch(DECLARED_BOOLEAN, text):
            return text.lower() == "true"
        case "date" if re.fullmatch(DATE, text):
            return _calendar(text)
        case "timestamp" if re.fullmatch(DECLARED_TIMESTAMP, text):
            return _instant(text, column_type.precision)
    return None


def _integer(text: str) -> int | None:
    whole = _decimal(text, _WHOLE)
    return int(whole) if whole is not None and -(2**63) <= whole < 2**63 else None


def _float(text: str) -> float | None:
    value = float(text)
    return None if math.isinf(value) and not text[-1].isalpha() else value


def _decimal(text: str, column_type: ColumnType) -> Decimal | None:
    mantissa, _, power = text.lower().partition("e")
    whole, _, fraction = mantissa.lstrip("+-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return Decimal((0, (0,), -column_type.scale))
    shift = _power(power) - len(fraction) + column_type.scale
    if len(digits) + shift > column_type.precision or -shift >= len(digits):
        return None
    unscaled = digits + "0" * shift if shift >= 0 else digits[:shift]
    if shift < 0 and digits[shift:].strip("0"):
        return None
    return Decimal((int(text.startswith("-")), tuple(map(int, unscaled)), -column_type.scale))


def _power(text: str) -> int:
    """Return an exponent; very long texts, which Python refuses, become a number of the same effect."""
    digits = text.lstrip("+-").lstrip("0")
    size = int(digits or "0") if len(digits) < 10 else 10**10
    return -size if text.startswith("-") else size


def _calendar(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


def _instant(text: str, precision: int) -> datetime.datetime | None:
    fraction = re.search(r"\.[0-9]{6}([0-9]+)", text)
    beyond_micro = fraction[1] if fraction else ""
    if beyond_micro and precision < 9:
        return None
    try:
        moment = datetime.datetime.fromisoformat(re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", text))
        moment = moment.replace(tzinfo=moment.tzinfo or datetime.UTC).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None
    if precision == 9:
        micros = (moment - _EPOCH) // datetime.timedelta(microseconds=1)
        nanos = micros * 1000 + int(beyond_micro.ljust(3, "0"))
        return moment if _FIRST_NANOSECOND <= nanos < 2**63 else None
    return moment
