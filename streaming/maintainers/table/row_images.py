"""Rows with the names and values of their columns, as people recognise them; each image is made once."""

from collections.abc import Callable
from functools import cache

import numpy as np

from holdfast.constraints import RowImage
from holdfast.indexes.rows import RowSet

RowImages = Callable[[int], RowImage]
"""Returns the key and the values of the row in a slot."""


def row_images(rows: RowSet) -> RowImages:
    """Return the images of a table's rows; deleted rows have images until they are forgotten."""
    names = [rows.space.schema.names[c] for c in rows.key]

    @cache
    def image(slot: int) -> RowImage:
        values = rows.values(np.array([slot]))[0]
        return RowImage({name: values[name] for name in names}, values)

    return image
