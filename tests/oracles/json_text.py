"""What a record of JSON says, by Python's own reader: slow, one record at a time, nothing shared with the product.

Restates: one object in UTF-8 with nothing but white space around it; RFC 8259 to the letter (no NaN, no control
characters in texts, no byte order mark); no half of a surrogate pair; at most 256 levels; of names that occur twice the
last counts.

Python's reader takes more, so: the bytes are decoded first; constants, halves of pairs and depth are refused here; numbers
are kept as they are written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

DEEPEST = 256


@dataclass(frozen=True)
class Number:
    """A number as it is written."""

    text: str


@dataclass(frozen=True)
class Members:
    """An object as it is written: names may occur twice."""

    pairs: tuple[tuple[str, Any], ...]

    @property
    def last(self) -> dict[str, Any]:
        return dict(self.pairs)


def read(record: bytes) -> Any:
    """Read any JSON value; `ValueError` where it is none."""
    value = json.loads(
        record.decode("utf-8"),
        parse_int=Number,
        parse_float=Number,
        parse_constant=_refused,
        object_pairs_hook=lambda pairs: Members(tuple(pairs)),
    )
    _checked(value)
    return value


def fields(record: bytes) -> dict[str, Any] | None:
    """Return the fields of a record, None where it is not one JSON object."""
    try:
        value = read(record)
    except (ValueError, RecursionError):
        return None
    return value.last if isinstance(value, Members) else None


def text(value: Any) -> str | None:
    """Return what a field says; objects and arrays are for `plain`, since their text is not kept here."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case Number():
            return value.text
    return str(value)


def plain(value: Any) -> Any:
    """Return a value so that it can be compared with what `json.loads` makes of its text."""
    match value:
        case Number(text):
            return ("number", text)
        case Members():
            return {name: plain(member) for name, member in value.last.items()}
        case list():
            return [plain(member) for member in value]
    return value


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _checked(value: Any) -> None:
    """Refuse half pairs and depths that Python lets pass; without recursion, since records may be deep."""
    open_values = [(value, 0)]
    while open_values:
        one, depth = open_values.pop()
        inner: list[Any] = []
        match one:
            case str():
                one.encode("utf-8")  # raises UnicodeEncodeError, a ValueError, for half a pair
            case Members():
                inner = [part for pair in one.pairs for part in pair]
            case list():
                inner = one
        if isinstance(one, (Members, list)) and depth == DEEPEST:
            raise ValueError("too deep")
        open_values += [(part, depth + 1) for part in inner]
