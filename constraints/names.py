"""The notation of names of columns and tables inside constraints.

A plain identifier (`[A-Za-z_][A-Za-z0-9_]*`) is written unchanged; every other name in backquotes, with a backquote
inside doubled. Invariant: a text names exactly one column.
"""

import re

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quoted(name: str) -> str:
    """Write `name` so that a parser reads it back.

    Examples
    --------
    >>> quoted("Salary"), quoted("Native-country"), quoted("a`b"), quoted("1")
    ('Salary', '`Native-country`', '`a``b`', '`1`')
    """
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"
