"""Texts for people: how many of what, and what is safe to show of data, names and files."""

import re


def counted(count: int, what: str, several: str = "") -> str:
    """Return a number of things.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {what if count == 1 else several or what + 's'}"


def printable(text: str) -> str:
    r"""Return a text with nothing that a terminal would obey: lines and tabs stay, other control characters are named.

    So are those that turn the direction of writing, and those that end lines without being line feeds. What is said of
    data, names and files goes through here; escapes are those of JSON, which reads them back.

    >>> printable("a\x1b[31m\r\x9b\u202eb\n")
    'a\\u001b[31m\\u000d\\u009b\\u202eb\n'
    """
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
