"""Rows with the names and values of their columns, as people recognise them; each image is made once."""

import numpy as np

from holdfast.constraints import RowImage
from holdfast.indexes.rows import RowSet


class RowImages:
    """Images of one table's rows.

    Parameters
    ----------
    rows : the table; deleted rows have images until they are forgotten.
    """

    def __init__(self, rows: RowSet) -> None:
        self._rows = rows
        self._made: dict[int, RowImage] = {}

    def of(self, slot: int) -> RowImage:
        """Return the key and the values of the row in a slot."""
        if slot not in self._made:
            values = self._rows.values(np.array([slot]))[0]
            key = {name: values[name] for name in (self._rows.space.schema.names[c] for c in self._rows.key)}
            self._made[slot] = RowImage(key, values)
        return self._made[slot]
