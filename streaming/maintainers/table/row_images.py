"""Rows with the names and values of their columns, as people recognise them; each image is made once."""

from collections.abc import Iterable

import numpy as np

from holdfast.constraints import RowImage
from holdfast.indexes.rows import RowSet


class RowImages:
    """The images of a table's rows; deleted rows have images until they are forgotten.

    Parameters
    ----------
    rows : the rows of the table.
    """

    def __init__(self, rows: RowSet) -> None:
        self._rows = rows
        self._key = [rows.space.schema.names[c] for c in rows.key]
        self._made: dict[int, RowImage] = {}

    def __call__(self, slot: int) -> RowImage:
        """Return the key and the values of the row in a slot."""
        self.make([slot])
        return self._made[slot]

    def make(self, slots: Iterable[int]) -> None:
        """Make the images of some rows together, which costs little more than one image."""
        missing = [slot for slot in dict.fromkeys(slots) if slot not in self._made]
        if missing:
            for slot, values in zip(missing, self._rows.values(np.array(missing)), strict=True):
                self._made[slot] = RowImage({name: values[name] for name in self._key}, values)
