"""The evidences of all pairs of rows, each with a pair that has it.

For tables small enough that comparing all pairs is the fastest plan. Equal rows are compared once, however often
they occur; a row that occurs twice is also a pair with itself. Where columns are compared with themselves only, the
evidence of (s, t) is the mirror image of that of (t, s), so one of the two is enough.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import PredicateSpace
from holdfast.discovery.codes import PairCodes, pair_codes
from holdfast.discovery.kernels.evidence import TILE, Places, Words, insert_all_kernel, pairs_kernel
from holdfast.tables import Table

_RECENT = 1 << 13
_SMALLEST_TABLE = 1 << 12

_Layout = tuple[NDArray[np.bool_], Places, Places]

Progress = Callable[[int, int], None]
"""Called with the rows compared so far, and all rows."""


@dataclass(frozen=True)
class WitnessedEvidences:
    """Distinct evidences, each with one ordered pair of rows that has it.

    Parameters
    ----------
    words : (n, W), bits of the space.
    witnesses : (n, 2) row numbers of the table.
    """

    words: Words
    witnesses: Places

    def __len__(self) -> int:
        return len(self.words)


class _EvidenceSet:
    """A growing hash table of evidences, owned by one thread."""

    def __init__(self, width: int) -> None:
        self.table = np.zeros((_SMALLEST_TABLE, width), np.uint64)
        self.witness = np.zeros((_SMALLEST_TABLE, 2), np.int64)
        self.recent = np.zeros((_RECENT, width), np.uint64)
        self.buffer = np.zeros((width, TILE), np.uint64)
        self.key = np.zeros(width, np.uint64)
        self.held = 0

    def compare(self, codes: PairCodes, layout: _Layout, first: int, last: int, *, both_ways: bool) -> None:
        """Add the evidences of distinct rows `first` to `last` against all, or against all behind them."""
        at = first
        while at < last:
            at, self.held = pairs_kernel(
                codes.left,
                codes.right,
                *layout,
                at,
                last,
                both_ways,
                codes.second >= 0,
                self.table,
                self.witness,
                self.held,
                self.recent,
                self.buffer,
                self.key,
            )
            if at < last:
                self.grow()

    def grow(self, at_least: int = 0) -> None:
        words, witnesses = self.entries()
        size = len(self.table) * 4
        while size < at_least * 4:
            size *= 2
        self.table = np.zeros((size, self.table.shape[1]), np.uint64)
        self.witness = np.zeros((size, 2), np.int64)
        insert_all_kernel(words, witnesses, self.table, self.witness)

    def entries(self) -> tuple[Words, Places]:
        used = self.table.any(axis=1)
        return self.table[used], self.witness[used]

    def add(self, words: Words, witnesses: Places) -> None:
        self.grow(self.held + len(words))
        self.held += insert_all_kernel(words, witnesses, self.table, self.witness)


def all_evidences(
    table: Table, space: PredicateSpace, threads: int = 1, progress: Progress | None = None
) -> WitnessedEvidences:
    """Return every evidence of the table. O(d^2 P) for d distinct rows and P column pairs.

    The result's order depends on the rows alone, not on the number of threads.
    """
    codes = pair_codes(table, space)
    width = space.word_count
    rows = codes.left.shape[1]
    if not space.pairs or not rows:
        return WitnessedEvidences(np.zeros((0, width), np.uint64), np.zeros((0, 2), np.int64))
    both_ways = bool(space.crossing)
    layout = (
        np.array([p.ordered for p in space.pairs]),
        np.array([p.offset // 64 for p in space.pairs]),
        np.array([p.offset % 64 for p in space.pairs]),
    )
    bounds = np.linspace(0, rows, min(rows, 64 * threads) + 1).astype(np.int64)
    sets = [_EvidenceSet(width) for _ in range(threads)]

    def fill(part: int) -> None:
        """Compare every so-manieth block of rows with all rows."""
        for block in range(part, len(bounds) - 1, threads):
            sets[part].compare(codes, layout, bounds[block], bounds[block + 1], both_ways=both_ways)
            if progress is not None:
                progress(int(bounds[block + 1]), rows)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fill, range(threads)))
    merged = sets[0]
    for other in sets[1:]:
        merged.add(*other.entries())
    words, witnesses = merged.entries()
    witnesses = _table_rows(witnesses, codes)
    if not both_ways:
        words = np.concatenate([words, mirrored(words, space)])
        witnesses = np.concatenate([witnesses, witnesses[:, ::-1]])
    order = np.lexsort(words.T)
    words, witnesses = words[order], witnesses[order]
    keep = np.ones(len(words), np.bool_)
    keep[1:] = (words[1:] != words[:-1]).any(axis=1)
    return WitnessedEvidences(words[keep], witnesses[keep])


def _table_rows(witnesses: Places, codes: PairCodes) -> Places:
    """Turn numbers of distinct rows into rows of the table; a row with itself into two equal rows."""
    rows = codes.first[witnesses]
    same = witnesses[:, 0] == witnesses[:, 1]
    rows[same, 1] = codes.second[witnesses[same, 0]]
    return np.asarray(rows)


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
