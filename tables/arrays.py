"""Types of numpy arrays, named by what their elements are: the same names in all packages.

Names of *identities* say what a number refers to, and are used wherever arrays hold references of that kind; names of
*numbers* say the type alone, for counts, sizes, positions in other arrays, and whatever a function computes with.
"""

from typing import NewType, cast

import numpy as np
from numpy.typing import NDArray

# numbers

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Ints16 = NDArray[np.int16]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
"""Bytes of texts."""
Bits = NDArray[np.uint8]
"""Flags, eight a byte, as `np.packbits` makes them."""
Words = NDArray[np.uint64]
"""Bit sets in words of 64 bits: evidences, masks of constraints, sets of columns."""
Hashes = NDArray[np.uint64]
Outcomes = NDArray[np.int8]
"""Sets of outcomes of comparisons: the sum of those among LESS, EQUAL and GREATER that are allowed."""
Standing = NDArray[np.int8]
"""Whether rows are exceptions: NONE, CERTAIN or UNDECIDED (`indexes/kernels/exceptions.py`)."""

# identities

Keys = NDArray[np.int64]
"""Values as numbers whose order and equality are those of the values (`keys.py`)."""
Codes = NDArray[np.int64]
"""Values as numbers that stay as rows are inserted and deleted (`indexes/labels.py`)."""
DenseCodes = NDArray[np.int32]
"""Values as ranks, or numbers from 0 on, that live as long as one computation (`discovery/evidence/codes.py`)."""
ValueNumbers = NDArray[np.int32]
"""Values as small numbers without an order (`indexes/slot_numbers.py`)."""
Slot = NewType("Slot", np.int64)
"""A number of its own type: mypy takes an array of slots where integers are wanted, and no other integers for slots."""
Slots = NDArray[Slot]
"""Rows of a `RowSet`, by where it keeps them."""
SlotPairs = NDArray[np.int32]
"""Pairs of rows (t, s), by slot: an array of two columns."""
HashTable = NDArray[np.int32]
"""A hash table with open addressing: slots or numbers of what it holds, EMPTY or GONE elsewhere."""
RowNumbers = NDArray[np.int64]
"""Rows of a table in blocks, by the numbers they were inserted with."""
Rows = NDArray[np.int32]
"""Rows of a table in memory, by their positions."""
Pairs = NDArray[np.int64]
"""Pairs of rows (t, s): an array of two columns."""
Numbers = NDArray[np.int64]
"""Numbers of records that a state stores: rows, evidences, values."""
Positions = NDArray[np.int64]
"""Positions in another array."""


def as_slots(numbers: Ints) -> Slots:
    """Return numbers as the slots of a `RowSet` that they are."""
    return cast("Slots", numbers)
