"""The evidences of pairs of rows, each with a pair that has it: of listed pairs, or of all.

Equal rows are compared once, however often
they occur; a row that occurs twice is also a pair with itself. Where columns are compared with themselves only, the
evidence of (s, t) is the mirror image of that of (t, s), so one of the two is enough.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.codes import PairCodes
from holdfast.discovery.kernels.evidence import TILE, Places, Words, insert_all_kernel, listed_kernel, pairs_kernel

_RECENT = 1 << 13
_SMALLEST_TABLE = 1 << 12

Progress = Callable[[int], object]
"""Called with the number of rows just done."""


class EvidenceSet:
    """Distinct evidences of one table's rows, growing, each with the first pair that was seen to have it.

    Parameters
    ----------
    codes, space : the rows, and what their outcomes mean.
    """

    def __init__(self, codes: PairCodes, space: PredicateSpace) -> None:
        self._codes = codes
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
        self._key = np.zeros(width, np.uint64)
        self._held = 0

    def __len__(self) -> int:
        return self._held

    def compare_rows(self, first: int, last: int, *, both_ways: bool) -> None:
        """Add the evidences of distinct rows `first` to `last` against all, or against all behind them."""
        at = first
        while at < last:
            at, self._held = pairs_kernel(
                self._codes.left,
                self._codes.right,
                *self._layout,
                at,
                last,
                both_ways,
                self._codes.second >= 0,
                self._table,
                self._witness,
                self._held,
                self._recent,
                self._buffer,
                self._key,
            )
            if at < last:
                self._grow(self._held + self._codes.rows)

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
                self._key,
            )
            if at < len(pairs):
                self._grow()
        return self._held - before

    def add(self, words: Words, pairs: Places) -> None:
        """Add evidences that are known, with their pairs."""
        self._grow(self._held + len(words))
        self._held += insert_all_kernel(words, pairs, self._table, self._witness)

    def entries(self) -> tuple[Words, Places]:
        """Return the evidences in ascending order, and their pairs of distinct rows."""
        words, pairs = self._held_entries()
        order = np.lexsort(words.T)
        return words[order], pairs[order]

    def _held_entries(self) -> tuple[Words, Places]:
        used = self._table.any(axis=1)
        return self._table[used], self._witness[used]

    def _grow(self, at_least: int = 0) -> None:
        words, pairs = self._held_entries()
        size = len(self._table) * 4
        while size < at_least * 4:
            size *= 2
        self._table = np.zeros((size, self._table.shape[1]), np.uint64)
        self._witness = np.zeros((size, 2), np.int64)
        insert_all_kernel(words, pairs, self._table, self._witness)


def all_evidences(
    codes: PairCodes, space: PredicateSpace, threads: int = 1, progress: Progress | None = None
) -> EvidenceSet:
    """Return every evidence of the table. O(d^2 P) for d distinct rows and P column pairs.

    The evidences depend on the rows alone; which pair witnesses one depends on the number of threads too.
    """
    rows = codes.left.shape[1]
    both_ways = bool(space.crossing)
    bounds = np.linspace(0, rows, min(rows, 64 * threads) + 1).astype(np.int64)
    sets = [EvidenceSet(codes, space) for _ in range(threads)]
    if not space.pairs:
        return sets[0]

    stopped = Event()

    def fill(part: int) -> None:
        for block in range(part, len(bounds) - 1, threads):
            if stopped.is_set():
                return
            sets[part].compare_rows(bounds[block], bounds[block + 1], both_ways=both_ways)
            if progress is not None:
                progress(int(bounds[block + 1] - bounds[block]))

    with ThreadPoolExecutor(threads) as pool:
        try:
            list(pool.map(fill, range(threads)))
        except BaseException:
            stopped.set()  # leaving the pool waits for its threads
            raise
    for other in sets[1:]:
        sets[0].add(*other.entries())
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
