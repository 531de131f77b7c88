"""Texts for people: numbers of things, cells in columns, and data and names that are safe to print."""

import json
import math
import re
from collections.abc import Sequence

from holdfast.constraints import Value, json_value

_LONGEST_VALUE = 100


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, in the plural unless the number is 1.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def shown_value(value: Value) -> str:
    """Return a value as JSON, truncated where it is long; numbers that JSON does not have are written as in rules.

    >>> shown_value("Lynn"), shown_value(None), len(shown_value("a" * 200))
    ('"Lynn"', 'null', 100)
    >>> shown_value("NaN"), shown_value(float("nan")), shown_value(-math.inf)
    ('"NaN"', 'nan', '-inf')
    """
    is_number = isinstance(value, float) and not math.isfinite(value)
    text = str(value) if is_number else json.dumps(json_value(value), ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of cells as texts, each cell as wide as its column.

    >>> columns([["row", "City"], ["t", "Lynn"]])
    ['row  City', 't    Lynn']
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [aligned(line, widths) for line in lines]


def aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return cells as one line, each padded to its width."""
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def printable(text: str) -> str:
    r"""Return a text in which control characters are escaped, except line feeds and tabs.

    Characters that change the direction of writing, and separators of lines other than line feeds, are escaped too.
    Every text that quotes data, names or files is printed through this function; the escapes are those of JSON.

    >>> printable("a\x1b[31m\r\x9b\u202eb\n")
    'a\\u001b[31m\\u000d\\u009b\\u202eb\n'
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
