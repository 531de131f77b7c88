"""Places on a Z-order curve against the bits of each cell, written out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.indexes.curve import CELLS, interleaved


@given(st.lists(st.lists(st.integers(0, CELLS - 1), min_size=3, max_size=3), max_size=4))
def test_the_bits_of_cells_are_taken_in_turn(cells: list[list[int]]) -> None:
    digits = [[format(cell, "010b") for cell in column] for column in cells]
    expected = [
        int("0" + "".join("".join(d[row][i] for d in reversed(digits)) for i in range(10)), 2) for row in range(3)
    ]
    assert interleaved([np.array(column) for column in cells], 3).tolist() == expected


def test_neighbours_on_the_curve_are_neighbours_in_the_plane() -> None:
    side = 16
    cells = np.divmod(np.arange(side * side), side)
    place = interleaved(list(cells), side * side)
    assert sorted(place.tolist()) == list(range(side * side))
    quarter = place < side * side // 4  # the first quarter of the curve is a quarter of the square
    assert [int(cell[quarter].max()) for cell in cells] == [side // 2 - 1] * 2
