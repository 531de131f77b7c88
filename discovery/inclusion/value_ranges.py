"""How many values of one column another column has by chance, from where the values of both lie.

Numbers, dates and times have a lowest and a highest value and a step, the least difference of two values: 200 numbers
from 1 to 200 are all that there can be, so any whole number from 1 to 200 is one of them. Of texts the length counts:
a text of three characters is one of 36^3.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import TypeGroup
from holdfast.tables.arrays import Floats
from holdfast.tables.columnar import EncodedColumn
from holdfast.tables.keys import floats

_LETTERS = 36.0


@dataclass(frozen=True)
class ValueRange:
    """Where the values of a column lie.

    Parameters
    ----------
    group : the type group, and
    count : the number of distinct values.
    lowest, highest, step : of numbers, dates and times.
    length : the mean number of characters of texts.
    """

    group: TypeGroup
    count: int
    lowest: float = 0.0
    highest: float = 0.0
    step: float = 0.0
    length: float = 0.0

    @classmethod
    def of(cls, column: EncodedColumn, *, texts: bool = False) -> "ValueRange":
        """Measure a column; with `texts` only the values of texts. O(distinct values)."""
        keys, _ = column.counts
        group, name = column.column.type.group, column.column.type.name
        if name == "string" and len(keys) and column.dictionary is not None:
            lengths = pc.utf8_length(column.dictionary.take(pa.array(keys)))
            return cls(group, len(keys), length=float(pc.mean(lengths).as_py()))
        if not len(keys) or texts or name in {"string", "boolean"}:
            return cls(group, len(keys))
        values = _numbers(column)
        steps = np.diff(values)
        step = float(steps[steps > 0].min(initial=np.inf))
        return cls(group, len(keys), float(values[0]), float(values[-1]), step if np.isfinite(step) else 1.0)

    def chance_in(self, other: "ValueRange") -> float:
        """Return the chance that a value of this column is one of another column: 1 where nothing is known.

        >>> ids, days = (ValueRange(TypeGroup.NUMBERS, last, 1.0, float(last), 1.0) for last in (200, 31))
        >>> days.chance_in(ids), round(ids.chance_in(days), 3)
        (1.0, 0.151)
        >>> airports, origins = (ValueRange(TypeGroup.STRINGS, count, length=3.0) for count in (1_458, 3))
        >>> round(origins.chance_in(airports), 3)
        0.031
        """
        if self.group is TypeGroup.STRINGS:
            return min(1.0, other.count / _LETTERS**self.length) if self.length else 1.0
        if not other.step:
            return 1.0
        density = min(1.0, other.count * other.step / (other.highest - other.lowest + other.step))
        common = min(self.highest, other.highest) - max(self.lowest, other.lowest)
        if common < 0:
            return 0.0
        reach = self.highest - self.lowest
        return density * (common / reach if reach else 1.0)

    def reach_in(self, other: "ValueRange") -> float:
        """Return how much of the range of another column the values of this column reach, from 0 to 1."""
        whole = other.highest - other.lowest
        common = min(self.highest, other.highest) - max(self.lowest, other.lowest)
        return min(1.0, max(0.0, common / whole)) if whole else 0.0


def _numbers(column: EncodedColumn) -> Floats:
    """Return the distinct values of a column of numbers, dates or times, in order."""
    keys, _ = column.counts
    kind = column.column.type
    if kind.name == "float":
        values = floats(keys)
        return np.asarray(values[np.isfinite(values)]) if np.isfinite(values).any() else np.zeros(1)
    if kind.name == "decimal":
        if column.dictionary is not None:
            return np.array([float(value) for value in column.dictionary.take(pa.array(keys)).to_pylist()])
        return np.asarray(keys / 10.0**kind.scale)
    if kind.name == "timestamp":
        return np.asarray(keys / 10.0**kind.precision)
    return keys.astype(np.float64)
