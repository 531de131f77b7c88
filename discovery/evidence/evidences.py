"""The evidences of pairs of rows, each with a pair that has it: of listed pairs, within groups, or of all pairs.

Equal rows are compared once, however often they occur; a row that occurs twice is also a pair with itself. Where
columns are compared with themselves only, the evidence of (s, t) is the mirror image of that of (t, s), so one order is
enough.

Invariant: all sets of one computation together take at most `MOST_BYTES`, whatever the number of threads; beyond that
they raise `TooManyEvidences`.
"""

from collections.abc import Callable
from threading import Event

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.kernels.evidence import TILE, PairCodes, RowGroups, groups_kernel, listed_kernel
from holdfast.discovery.threads import spread
from holdfast.indexes.evidence_table import EvidenceTable
from holdfast.tables.arrays import Pairs, Words

MOST_BYTES = 1 << 30
_RECENT = 1 << 13
_LISTED_AT_ONCE, _FEWEST_AT_ONCE, _LISTED_WORDS = 1 << 9, 1 << 6, 1 << 20

Progress = Callable[[int], object]
"""Called with the number of rows that were compared since the last call."""


class TooManyEvidences(MemoryError):
    """There are more evidences than fit the memory limit.

    Parameters
    ----------
    held : the number of evidences when the limit was reached.
    """

    def __init__(self, held: int) -> None:
        super().__init__(f"more than {held:,} evidences")
        self.held = held


def most_evidences(space: PredicateSpace, threads: int = 1) -> int:
    """Return the number of evidences that each set may hold at least, with a set for each thread."""
    return MOST_BYTES // (4 * threads * (8 * space.word_count + 16))  # tables are a quarter full or more


class EvidenceSet(EvidenceTable):
    """Distinct evidences of one table's rows, growing in number, each with the first pair that was seen to have it.

    Parameters
    ----------
    codes, space : the rows, and what their outcomes mean.
    most : the number of evidences that the set holds at least before it refuses more.
    """

    def __init__(self, codes: PairCodes, space: PredicateSpace, most: int | None = None) -> None:
        super().__init__(space, 1)
        self._codes = codes
        self.most = most_evidences(space) if most is None else most
        width = space.word_count
        self._recent = np.zeros((_RECENT, width), np.uint64)
        self._buffer = np.zeros((width, TILE), np.uint64)
        at_once = min(_LISTED_AT_ONCE, max(_FEWEST_AT_ONCE, _LISTED_WORDS // width))
        self._keys = np.zeros((at_once, width), np.uint64)
        self._sorted = np.zeros((0, width), np.uint64), np.zeros((0, 2), np.int64)

    def compare_rows(
        self, groups: RowGroups, side_by_side: PairCodes, first: int, last: int, *, both_ways: bool
    ) -> None:
        """Add the evidences of rows `first` to `last` against their groups, or against the rows behind them there.

        `side_by_side` are the codes in the order of the groups.
        """
        at, scratch = first, (self._recent, self._buffer)
        while at < last:
            at = groups_kernel(side_by_side, self.layout, groups, at, last, both_ways, self.arrays, *scratch)
            if at < last:
                self.grow(len(self) + int(groups.ends[at] - groups.begins[at]))

    def compare_pairs(self, pairs: Pairs) -> int:
        """Add the evidences of listed pairs of distinct rows; return how many are new."""
        before, at = len(self), 0
        while at < len(pairs):
            at = listed_kernel(self._codes, self.layout, pairs, at, self.arrays, self._keys)
            if at < len(pairs):
                self.grow()
        return len(self) - before

    def entries(self) -> tuple[Words, Pairs]:
        """Return the evidences in ascending order, and a pair of distinct rows each. Sorted once for the same set."""
        if len(self._sorted[0]) != len(self):
            words, pairs = super().entries()
            order = np.lexsort(words.T)
            self._sorted = words[order], pairs[order, 0]
        return self._sorted

    def grow(self, at_least: int = 0) -> None:
        """Make the table larger, and more than twice as large as `at_least`, or raise `TooManyEvidences`."""
        if len(self) > self.most:
            raise TooManyEvidences(len(self))
        super().grow(at_least)


def all_evidences(
    codes: PairCodes, space: PredicateSpace, threads: int = 1, progress: Progress | None = None
) -> EvidenceSet:
    """Return every evidence of the table. O(d^2 P) for d distinct rows and P column pairs."""
    every = RowGroups.of(np.arange(codes.rows), np.array([0, codes.rows]))
    return group_evidences(codes, space, every, threads, progress)


def group_evidences(
    codes: PairCodes, space: PredicateSpace, groups: RowGroups, threads: int = 1, progress: Progress | None = None
) -> EvidenceSet:
    """Return every evidence of two rows of one group. O(g^2 P) for a group of g rows and P column pairs.

    The evidences depend on the rows alone; their witnesses depend on the number of threads, too.
    """
    both_ways = bool(space.crossing)
    rows = len(groups.numbers)
    bounds = np.linspace(0, rows, min(rows, 64 * threads) + 1).astype(np.int64)
    sets = [EvidenceSet(codes, space, most_evidences(space, threads)) for _ in range(threads)]
    if not space.pairs:
        return sets[0]
    side_by_side = codes.taken(groups.numbers)

    def fill(part: int, stopped: Event) -> None:
        for block in range(part, len(bounds) - 1, threads):
            if stopped.is_set():
                return
            sets[part].compare_rows(groups, side_by_side, bounds[block], bounds[block + 1], both_ways=both_ways)
            if progress is not None:
                progress(int(bounds[block + 1] - bounds[block]))

    spread(range(threads), threads, fill)
    while len(sets) > 1:
        sets[0].add(*sets.pop().entries())
    if not both_ways:
        words, pairs = sets[0].entries()
        sets[0].add(mirrored(words, space), pairs[:, ::-1].copy())
    return sets[0]


def mirrored(words: Words, space: PredicateSpace) -> Words:
    """Exchange less and greater in every ordered column pair of evidences or masks.

    For spaces without crossing pairs only: there the mirror image is the evidence of the exchanged pair of rows.
    """
    less = np.zeros(space.word_count, np.uint64)
    for pair in space.pairs:
        if pair.ordered:
            less[pair.offset // 64] |= np.uint64(1 << pair.offset % 64)
    greater, two = less << np.uint64(2), np.uint64(2)
    turned: Words = (words & ~(less | greater)) | ((words & less) << two) | ((words & greater) >> two)
    return turned
