"""Names of folders for tables.

Invariant: a table's name becomes a single folder, inside its parent; two tables never have the same folder.
"""

from hashlib import sha256
from urllib.parse import quote

_LONGEST_FOLDER, _KEPT_OF_FOLDER = 200, 150


def folder_name(name: str) -> str:
    """Return the name of a table's folder.

    >>> folder_name("orders"), folder_name("../etc"), folder_name(".")
    ('orders', '..%2Fetc', '%2E')
    >>> folder_name("x" * 300)[145:]
    'xxxxx%-0d4e2ca9e9cbced7'
    """
    quoted = quote(name, safe="")
    if len(quoted) > _LONGEST_FOLDER:  # '%-' occurs in no quoted name
        return f"{quoted[:_KEPT_OF_FOLDER]}%-{sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"
    return quoted.replace(".", "%2E") if set(quoted) == {"."} else quoted
