"""The targets of near constraints, numbered, so that sets of targets are bits.

    0                 the key of the context
    1 .. d            the constants, by column
    d + 1 ..          for two ordered columns a < b: a ~ b, then a ~ b desc

Columns are numbered as `NearRows` has them. Invariant: a target names a context's columns only if it is its key.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from holdfast.constraints import NearShape
from holdfast.discovery.near.rows import NearRows
from holdfast.tables.arrays import Bits, Ints

KEY = 0


class NearTargets:
    """The targets of a table.

    Parameters
    ----------
    rows : the columns, and which of them are ordered.
    shapes : the wanted shapes; shapes that hide a wanted shape are counted as well.

    Attributes
    ----------
    of_table : for each column its position in the table.
    """

    def __init__(self, rows: NearRows, shapes: frozenset[NearShape] = frozenset(NearShape)) -> None:
        columns = len(rows.distinct)
        with_orders = bool(shapes & {NearShape.ORDER, NearShape.ORDER_DESC})
        self.columns = columns
        self.constants = columns if with_orders or NearShape.CONSTANT in shapes else 0
        pairs = list(combinations([c for c in range(columns) if rows.ordered[c]], 2)) if with_orders else []
        self.left: Ints = np.array([a for a, _ in pairs], np.int64)
        self.right: Ints = np.array([b for _, b in pairs], np.int64)
        self.of_table = rows.columns
        self._shapes = shapes
        self._key = self.bits(np.array([KEY]))

    def __len__(self) -> int:
        return 1 + self.constants + 2 * len(self.left)

    def every(self) -> Bits:
        """Return the set of all targets."""
        return self.bits(np.arange(len(self)))

    def bits(self, numbers: Ints) -> Bits:
        """Return a set of targets."""
        flags = np.zeros(len(self), np.bool_)
        flags[numbers] = True
        return np.packbits(flags, bitorder="little")

    def numbers(self, bits: Bits) -> Ints:
        """Return the targets of a set, in order."""
        return np.flatnonzero(np.unpackbits(bits, count=len(self), bitorder="little"))

    def touching(self) -> list[Bits]:
        """Return for each column the targets that name it."""
        pairs = np.arange(len(self.left))
        found = []
        for column in range(self.columns):
            naming = pairs[(self.left == column) | (self.right == column)]
            first = 1 + self.constants + 2 * naming
            constant = [1 + column] if self.constants else []
            found.append(self.bits(np.concatenate([np.array(constant, np.int64), first, first + 1])))
        return found

    def is_wanted(self, number: int) -> bool:
        """Whether a target has a wanted shape."""
        return self.form(number)[0] in self._shapes

    def asks_for(self, bits: Bits) -> bool:
        """Whether a set is not empty; the key does not count if keys are not wanted."""
        return bool(bits.any()) if NearShape.KEY in self._shapes else bool((bits & ~self._key).any())

    def number(self, shape: NearShape, target: Sequence[int]) -> int | None:
        """Return the target of a shape and columns, in ascending order; None where there is no such target."""
        if shape is NearShape.KEY:
            return KEY
        if shape is NearShape.CONSTANT:
            return 1 + target[0] if self.constants else None
        pair = np.flatnonzero((self.left == target[0]) & (self.right == target[1]))
        return 1 + self.constants + 2 * int(pair[0]) + (shape is NearShape.ORDER_DESC) if len(pair) else None

    def form(self, number: int) -> tuple[NearShape, tuple[int, ...]]:
        """Return shape and columns of a target."""
        if number == KEY:
            return NearShape.KEY, ()
        if number <= self.constants:
            return NearShape.CONSTANT, (number - 1,)
        pair, opposite = divmod(number - 1 - self.constants, 2)
        shape = NearShape.ORDER_DESC if opposite else NearShape.ORDER
        return shape, (int(self.left[pair]), int(self.right[pair]))
