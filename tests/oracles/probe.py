"""Evidences of pairs of rows, noted with a few pairs each, and the pairs that lie in boxes, by plain loops.

Twin of `probe.py`, `evidences.py` and `count.py` in `indexes/kernels/`. An evidence is a number: for each compared pair
of columns the bit of its outcome, where that pair's bits begin.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

LESS, EQUAL, GREATER = 1, 2, 4

Row = Sequence[int]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Compared:
    """Two columns that are compared, whether by order, and the first of their two or three bits."""

    left: int
    right: int
    ordered: bool
    offset: int

    @property
    def width(self) -> int:
        return 3 if self.ordered else 2


def evidence(t: Row, s: Row, space: Sequence[Compared]) -> int:
    """Return the evidence of two rows: of a pair without an order, equal and unequal."""
    bits = 0
    for pair in space:
        one, other = t[pair.left], s[pair.right]
        outcomes = [one < other, one == other, one > other] if pair.ordered else [one == other, one != other]
        bits += 1 << (pair.offset + outcomes.index(True))
    return bits


@dataclass
class PlainNotes:
    """Evidences with up to so many pairs each; no two of these share a row."""

    most: int
    found: dict[int, list[Pair]] = field(default_factory=dict)

    def note(self, bits: int, t: int, s: int) -> bool:
        """Note the evidence of a pair; return whether nobody has had it."""
        if bits not in self.found:
            self.found[bits] = [(t, s)]
            return True
        pairs = self.found[bits]
        rows = {row for pair in pairs for row in pair}
        if len(pairs) < self.most and not rows & {t, s}:
            pairs.append((t, s))
        return False


@dataclass(frozen=True)
class Test:
    """Column of x, column of the other row, for each box the outcomes that it allows."""

    x_column: int
    row_column: int
    allowed: tuple[int, ...]

    __test__ = False


def outcome(one: int, other: int) -> int:
    return LESS if one < other else EQUAL if one == other else GREATER


def in_a_box(x: Row, row: Row, tests: Sequence[Test], boxes: int) -> bool:
    """Return whether all tests of some box allow the outcomes of a new row x against another."""
    return any(
        all(outcome(x[test.x_column], row[test.row_column]) & test.allowed[box] for test in tests)
        for box in range(boxes)
    )


def breaking(
    xs: Sequence[int],
    codes: Sequence[Row],
    live: Sequence[int],
    copies: Sequence[int],
    tests: Sequence[Test],
    boxes: int,
) -> set[Pair]:
    """Return the pairs of one of some rows and a live one that are in a box; a row with two copies pairs with itself."""
    return {
        (x, row)
        for x in xs
        for row in live
        if (row != x or copies[x] > 1) and in_a_box(codes[x], codes[row], tests, boxes)
    }


def count_in_box(
    x: int, codes: Sequence[Row], live: Sequence[int], copies: Sequence[int], tests: Sequence[Test]
) -> int:
    """Return how many copies of live rows are in the one box of a row, itself included."""
    return sum(int(copies[row]) for row in live if in_a_box(codes[x], codes[row], tests, 1))
