"""The scalar types of a configuration: texts, whole numbers, durations, sizes, shares, paths and addresses.

Each type reads a scalar, and refuses other values with a message that names the expected ones. Nothing is converted
silently: a number is no text, `no` is not false. A text in which an environment variable was replaced (`Filled`) is
read as if the file had its text unquoted, since a variable is always text.

Invariant: a value of these types does not depend on the working folder.
"""

import datetime
import os.path
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo

from holdfast.constraints import Threshold, UsageError
from holdfast.constraints.conditions import Literal
from holdfast.jobs.configuration.yaml_text import Filled, Number, core_value


def shown(value: Any) -> str:
    """Return a value for a message: short, and as the file has it.

    >>> shown(None), shown(True), shown({"a": 1}), shown(Filled("hunter2", "${SECRET}"))
    ('nothing', 'true', 'a mapping', '${SECRET}')
    """
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, str):
        text = value.written if isinstance(value, Filled) else value
        return text if isinstance(value, Filled) else repr(text if len(text) <= 60 else text[:57] + "...")
    return str(value)


def spelled(value: Any) -> Any:
    """Return the value that the text of a `Filled` has when it is unquoted; other values unchanged."""
    return core_value(str(value)) if isinstance(value, Filled) else value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        quoted = f' (in quotes, "{shown(value)}", it is one)' if isinstance(value, (int, float)) else ""
        raise ValueError(f"expected a text, given {shown(value)}{quoted}")
    if not value.strip() or "\0" in value:
        raise ValueError("expected a text that is not empty")
    return str(value)


def several(value: Any) -> Any:
    """Return a list with a value that stands alone; a list, a mapping or nothing unchanged.

    >>> several("tailnum"), several(["AreaCode", "Phone"])
    (['tailnum'], ['AreaCode', 'Phone'])
    """
    return [value] if isinstance(value, (str, int, float)) else value


def _whole(value: Any) -> int:
    number = spelled(value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError(f"expected a whole number, given {shown(value)}")
    return number


def _flag(value: Any) -> bool:
    flag = spelled(value)
    if not isinstance(flag, bool):
        raise ValueError(f"expected true or false, given {shown(value)}")
    return flag


def _option(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ValueError(f"expected a text, a number, true or false, given {shown(value)}")


_MILLISECONDS = {
    "ms": 1,
    **dict.fromkeys(("millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("week", "weeks"), 7 * 86_400_000),
}
_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]+)")
_LONGEST = datetime.timedelta(days=36_500)


def read_duration(value: Any) -> datetime.timedelta:
    """Read `500 ms`, `1 second`, `5 minutes`, `2 days`.

    >>> read_duration("500 ms"), read_duration("1.5 minutes")
    (datetime.timedelta(microseconds=500000), datetime.timedelta(seconds=90))
    """
    match = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    unit = _MILLISECONDS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(
            f"expected a duration with its unit, such as 500 ms, 1 second or 5 minutes; given {shown(value)}"
        )
    milliseconds = Fraction(match[1]) * unit
    if milliseconds.denominator != 1 or milliseconds > _LONGEST / datetime.timedelta(milliseconds=1):
        raise ValueError(f"expected whole milliseconds, at most 100 years; given {shown(value)}")
    return datetime.timedelta(milliseconds=int(milliseconds))


def duration_text(duration: datetime.timedelta) -> str:
    """Return a duration as a text for `read_duration`, in the largest unit that makes it a whole number.

    >>> [duration_text(read_duration(t)) for t in ("1500 ms", "60 s", "1 day", "36 hours")]
    ['1500 ms', '1 minute', '1 day', '36 hours']
    """
    milliseconds = duration // datetime.timedelta(milliseconds=1)
    for name, unit in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000)):
        if milliseconds and milliseconds % unit == 0:
            count = milliseconds // unit
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{milliseconds} ms"


def _positive_duration(value: Any) -> datetime.timedelta:
    duration = read_duration(value)
    if not duration:
        raise ValueError("expected a duration above zero")
    return duration


def _size(value: Any) -> int:
    match = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    unit = _BYTES.get(match[2].lower()) if match else None
    if match is None or unit is None or Fraction(match[1]) * unit < 1:
        raise ValueError(f"expected a size with its unit, such as 64 MB; given {shown(value)}")
    return int(Fraction(match[1]) * unit)


def _share(value: Any) -> float:
    given = spelled(value)
    percent = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)\s*%", given) if isinstance(given, str) else None
    number = float(percent[1]) / 100 if percent else given
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= 1:
        raise ValueError(f"expected a share between 0 and 1, or such as 50%; given {shown(value)}")
    return float(number)


def _threshold(value: Any) -> Threshold:
    if not isinstance(value, (int, str)):
        raise ValueError(f"expected a whole number such as 10, or a share such as 0.1%; given {shown(value)}")
    try:
        return Threshold.parse(str(value) if isinstance(value, str) else value)
    except UsageError:
        raise ValueError(f"expected a whole number such as 10, or a share such as 0.1%; given {shown(value)}") from None


def _constant(value: Any) -> Literal:
    """Return a value to compare cells with; the type of the column decides later whether it fits."""
    given = spelled(value)
    if given is None:
        raise ValueError("null is no value here: a missing value breaks the rule only with 'nulls: break'")
    if isinstance(given, bool):
        return Literal(str(given).lower(), is_text=False)
    if isinstance(given, int):
        return Literal(str(given), is_text=False)
    if isinstance(given, float):
        return Literal(given.written if isinstance(given, Number) else repr(given), is_text=False)
    if isinstance(given, str):
        return Literal(str(given), is_text=True)
    raise ValueError(f"expected a number, a text, true or false, given {shown(value)}")


def _range(value: Any) -> tuple[Literal | None, Literal | None]:
    """Return the least and the greatest value of a range; None where it has no end."""
    ends = value
    if isinstance(value, dict) and value and value.keys() <= {"min", "max"}:
        ends = [value.get("min"), value.get("max")]
    if not isinstance(ends, list) or len(ends) != 2 or ends == [None, None]:
        raise ValueError(
            f"expected the least and the greatest value, as in [1, 12] or {{min: 0}}; given {shown(value)}"
        )
    least, greatest = (None if end is None else _constant(end) for end in ends)
    if least is not None and greatest is not None:
        if least.is_text != greatest.is_text:
            one, other = map(shown, ends)
            raise ValueError(f"{one} and {other} are of different types: expected two numbers, or two texts")
        if not least.is_text and _rank(least) > _rank(greatest):
            one, other = map(shown, ends)
            raise ValueError(f"{one} is above {other}, so that no value would be accepted: exchange the two")
    return least, greatest


def _rank(number: Literal) -> tuple[bool, Decimal]:
    """Return the place of a number in the order of numbers, NaN above all others; the same for all that are none."""
    try:
        value = Decimal(number.text)
    except InvalidOperation:  # true and false; an exponent that no column takes
        return True, Decimal(0)
    return (True, Decimal(0)) if value.is_nan() else (False, value)


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}


def is_remote(place: str) -> bool:
    """Whether a text is an address (s3://...), not a path of this machine."""
    return _SCHEME.match(place) is not None


def _place(value: Any, info: ValidationInfo) -> str:
    text = _text(value)
    if text.lower().startswith("file://"):
        text = "/" + text[len("file://") :].lstrip("/")
    if is_remote(text):
        return text.rstrip("/")
    if text == "~" or text.startswith("~/"):
        raise ValueError(f"'~' is not replaced here: write ${{HOME}}{text[1:]}")
    folder = getattr(info.context, "folder", None)
    return os.path.normpath(Path(folder) / text if folder is not None else text)


def _local(why: str) -> Callable[[Any, ValidationInfo], str]:
    """Return the reader of a path of this machine; `why` follows the refusal of an address."""

    def local(value: Any, info: ValidationInfo) -> str:
        place = _place(value, info)
        if is_remote(place):
            raise ValueError(f"expected a path on this machine: {why}")
        return place

    return local


def contains(outer: str, inner: str) -> bool:
    """Whether the path or address `inner` is equal to `outer`, or inside it.

    >>> contains("s3a://b/out", "s3://b/out/x"), contains("/var/out", "/var/output")
    (True, False)
    """
    return (_comparable(inner) + "/").startswith(_comparable(outer).rstrip("/") + "/")


def _comparable(place: str) -> str:
    if not is_remote(place):
        return os.path.realpath(place)
    scheme, _, rest = place.partition("://")
    scheme = scheme.lower()
    return f"{_SAME_STORE.get(scheme, scheme)}://{os.path.normpath(rest)}"


Text = Annotated[str, BeforeValidator(_text)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(several)]
Constant = Annotated[Literal, BeforeValidator(_constant)]
Constants = Annotated[tuple[Constant, ...], BeforeValidator(several), Field(min_length=1)]
Range = Annotated[tuple[Literal | None, Literal | None], BeforeValidator(_range)]
Option = Annotated[str, BeforeValidator(_option)]
Count = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=2**63 - 1)]
AtLeastOne = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=2**63 - 1)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Duration = Annotated[datetime.timedelta, BeforeValidator(_positive_duration)]
Interval = Annotated[datetime.timedelta, BeforeValidator(read_duration)]
Size = Annotated[int, BeforeValidator(_size)]
Share = Annotated[float, BeforeValidator(_share)]
Limit = Annotated[Threshold, BeforeValidator(_threshold)]
StoragePlace = Annotated[str, BeforeValidator(_place)]
LocalPlace = Annotated[str, BeforeValidator(_local("this is an embedded store, only its backup can be elsewhere"))]
LocalFile = Annotated[str, BeforeValidator(_local("the file is kept with the configuration"))]
