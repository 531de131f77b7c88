"""How much constraints mean to people: the order in which lists of lost and recovered constraints are shown.

Sound constraints come first, then constraints of great strength, or of high score where no strength is known, then
those of few columns. A table without the columns `sound` and `strength` has scores alone.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.streaming.sinks.shapes import SHAPES

_COLUMNS = ("sound", "strength", "score", "size")
_SOUND = 2.0
_LEAST_SOUND = 1.5
_PER_COLUMN = 1e-6


def meaning_columns(table: str) -> tuple[str, ...]:
    """Return the columns of an output table that tell how much its constraints mean."""
    return tuple(name for name in _COLUMNS if name in SHAPES[table].names)


def meaning(columns: Mapping[str, Any]) -> NDArray[np.float32]:
    """Return a number per row: the greater, the more the constraint means.

    >>> given = {"size": [1, 2, 2], "score": [0.25, 0.5, 0.5], "sound": [False, False, True]}
    >>> found = meaning({name: pa.array(values) for name, values in given.items()})
    >>> np.argsort(-found).tolist(), are_sound(found).tolist()
    ([2, 1, 0], [False, False, True])
    """
    believed = [columns[name] for name in ("strength", "score") if name in columns]
    size = _numbers(columns["size"])
    found = _numbers(pc.coalesce(*believed)) if believed else np.zeros(len(size))
    if "sound" in columns:
        found = found + _SOUND * np.asarray(columns["sound"].fill_null(fill_value=False))
    return np.asarray(found - _PER_COLUMN * size, np.float32)


def are_sound(means: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which constraints are sound, by what they mean."""
    return means > _LEAST_SOUND


def _numbers(column: Any) -> NDArray[np.float64]:
    return np.asarray(column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False), np.float64)
