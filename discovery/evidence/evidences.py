"""The evidences of pairs of rows, each with a pair that has it: of listed pairs, of all within groups, or of all.

Equal rows are compared once, however often they occur; a row that occurs twice is also a pair with itself. Where
columns are compared with themselves only, the evidence of (s, t) is the mirror image of that of (t, s), so one of the
two is enough.

Invariant: all sets of one computation together take at most `MOST_BYTES`, whatever the number of threads; beyond it
they end with `TooManyEvidences`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.evidence.codes import PairCodes
from holdfast.discovery.kernels.evidence import TILE, Places, Words, insert_all_kernel, listed_kernel, pairs_kernel
from holdfast.discovery.threads import spread

MOST_BYTES = 1 << 30
_RECENT = 1 << 13
_LISTED_AT_ONCE = 1 << 6
_SMALLEST_TABLE = 1 << 12
_LARGE_TABLE = 1 << 20
_MOVED_AT_ONCE = 1 << 16

Progress = Callable[[int], object]
"""Called with the number of rows just done."""


class TooManyEvidences(MemoryError):
    """More evidences than may be kept.

    Parameters
    ----------
    held : how many there were.
    """

    def __init__(self, held: int) -> None:
        super().__init__(f"more than {held:,} evidences")
        self.held = held


def most_evidences(space: PredicateSpace, threads: int = 1) -> int:
    """Return how many evidences a set may hold for certain, where there is one set for each thread."""
    return MOST_BYTES // (4 * threads * (8 * space.word_count + 16))  # tables are a quarter full or more


@dataclass(frozen=True)
class RowGroups:
    """Rows in groups, all pairs within which are to be compared.

    Parameters
    ----------
    numbers : (m,) distinct rows, those of one group side by side.
    begins, ends : (m,) where the group of each begins and ends.
    """

    numbers: Places
    begins: Places
    ends: Places

    @classmethod
    def of(cls, numbers: Places, starts: Places) -> "RowGroups":
        """Make groups that begin at `starts`, which ends with the number of rows."""
        sizes = np.diff(starts)
        return cls(numbers, np.repeat(starts[:-1], sizes), np.repeat(starts[1:], sizes))

    def __len__(self) -> int:
        return len(self.numbers)


class EvidenceSet:
    """Distinct evidences of one table's rows, growing, each with the first pair that was seen to have it.

    Parameters
    ----------
    codes, space : the rows, and what their outcomes mean.
    most : how many it holds at least before it refuses more.
    """

    def __init__(self, codes: PairCodes, space: PredicateSpace, most: int | None = None) -> None:
        self._codes = codes
        self.most = most_evidences(space) if most is None else most
        self._layout = (
            np.array([p.ordered for p in space.pairs], np.bool_),
            np.array([p.offset // 64 for p in space.pairs], np.int64),
            np.array([p.offset % 64 for p in space.pairs], np.int64),
        )
        width = space.word_count
        self._table = np.zeros((_SMALLEST_TABLE, width), np.uint64)
        self._witness = np.zeros((_SMALLEST_TABLE, 2), np.int64)
        self._recent = np.zeros((_RECENT, width), np.uint64)
        self._buffer = np.zeros((width, TILE), np.uint64)
        self._keys = np.zeros((_LISTED_AT_ONCE, width), np.uint64)
        self._held = 0
        self._sorted = self._held_entries(slice(0))

    def __len__(self) -> int:
        return self._held

    def compare_rows(
        self, groups: RowGroups, side_by_side: PairCodes, first: int, last: int, *, both_ways: bool
    ) -> None:
        """Add the evidences of rows `first` to `last` of the groups against their groups, or those behind them there.

        `side_by_side` are the codes in the order of the groups.
        """
        at = first
        while at < last:
            at, self._held = pairs_kernel(
                side_by_side.left,
                side_by_side.right,
                *self._layout,
                groups.numbers,
                groups.begins,
                groups.ends,
                at,
                last,
                both_ways,
                side_by_side.second >= 0,
                self._table,
                self._witness,
                self._held,
                self._recent,
                self._buffer,
                self._keys[0],
            )
            if at < last:
                self._grow(self._held + int(groups.ends[at] - groups.begins[at]))

    def compare_pairs(self, pairs: Places) -> int:
        """Add the evidences of listed pairs of distinct rows; return how many are new."""
        before, at = self._held, 0
        while at < len(pairs):
            at, self._held = listed_kernel(
                self._codes.left,
                self._codes.right,
                *self._layout,
                pairs,
                at,
                self._table,
                self._witness,
                self._held,
                self._keys,
            )
            if at < len(pairs):
                self._grow()
        return self._held - before

    def add(self, words: Words, pairs: Places) -> None:
        """Add evidences that are known, with their pairs."""
        for start in range(0, len(words), _MOVED_AT_ONCE):
            some = slice(start, start + _MOVED_AT_ONCE)
            if (self._held + len(words[some])) * 2 > len(self._table):
                self._grow(self._held + len(words[some]))
            self._held += insert_all_kernel(words[some], pairs[some], self._table, self._witness)

    def entries(self) -> tuple[Words, Places]:
        """Return the evidences in ascending order, and their pairs of distinct rows. Sorted once for the same set."""
        if len(self._sorted[0]) != self._held:
            words, pairs = self._held_entries(slice(None))
            order = np.lexsort(words.T)
            self._sorted = words[order], pairs[order]
        return self._sorted

    def _held_entries(self, slots: slice) -> tuple[Words, Places]:
        used = self._table[slots].any(axis=1)
        return self._table[slots][used], self._witness[slots][used]

    def _grow(self, at_least: int = 0) -> None:
        """Make the table more than twice as large as `at_least`, and larger than it is."""
        if self._held > self.most:
            raise TooManyEvidences(self._held)
        size = len(self._table) * (4 if len(self._table) < _LARGE_TABLE else 2)
        while size <= at_least * 2:
            size *= 2
        table, witness = np.zeros((size, self._table.shape[1]), np.uint64), np.zeros((size, 2), np.int64)
        for start in range(0, len(self._table), _MOVED_AT_ONCE):
            insert_all_kernel(*self._held_entries(slice(start, start + _MOVED_AT_ONCE)), table, witness)
        self._table, self._witness = table, witness


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

    The evidences depend on the rows alone; which pair witnesses one depends on the number of threads too.
    """
    both_ways = bool(space.crossing)
    bounds = np.linspace(0, len(groups), min(len(groups), 64 * threads) + 1).astype(np.int64)
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

    Right for spaces without crossing pairs only: there the mirror image of an evidence is that of the
    exchanged pair of rows.
    """
    less = np.zeros(space.word_count, np.uint64)
    for pair in space.pairs:
        if pair.ordered:
            less[pair.offset // 64] |= np.uint64(1 << pair.offset % 64)
    greater, two = less << np.uint64(2), np.uint64(2)
    turned: Words = (words & ~(less | greater)) | ((words & less) << two) | ((words & greater) >> two)
    return turned
