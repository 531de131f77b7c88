"""Distinct evidences, growing in number, each with a few pairs of rows that have it (`kernels/evidences.py`)."""

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.indexes.growing import doubled
from holdfast.indexes.kernels.evidences import EvidenceArrays, Layout, insert_all_kernel, listed_kernel, rehash_kernel
from holdfast.tables.arrays import Codes, Pairs, SlotPairs, Words

WITNESSES = 4
"""How many pairs are kept with each evidence of a maintained table."""

_SMALLEST = 1 << 10
_LARGE = 1 << 20
_AT_ONCE = 1 << 16


class EvidenceTable:
    """Distinct evidences of pairs of rows.

    Parameters
    ----------
    space : what outcomes mean.
    witnesses : the most pairs that are kept with an evidence; no two of them share a row.

    Attributes
    ----------
    arrays, layout : what kernels take.
    """

    def __init__(self, space: PredicateSpace, witnesses: int = WITNESSES) -> None:
        self.layout = Layout(
            left=np.array([p.left for p in space.pairs], np.int64),
            right=np.array([p.right for p in space.pairs], np.int64),
            ordered=np.array([p.ordered for p in space.pairs], np.bool_),
            word=np.array([p.offset // 64 for p in space.pairs], np.int64),
            shift=np.array([p.offset % 64 for p in space.pairs], np.int64),
        )
        self.arrays = _empty(_SMALLEST, space.word_count, witnesses)

    def __len__(self) -> int:
        return int(self.arrays.held[0])

    def add(self, words: Words, pairs: Pairs) -> None:
        """Insert evidences with a pair each."""
        for start in range(0, len(words), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            held = len(self) + len(words[some])
            if held * 2 > len(self.arrays.words):
                self.grow(held)
            insert_all_kernel(words[some], pairs[some], self.arrays)

    def add_pairs(self, codes: Codes, pairs: SlotPairs) -> None:
        """Insert the evidences of listed pairs of slots, by the codes of the rows."""
        at = 0
        while at < len(pairs):
            at = listed_kernel(pairs, at, codes, self.layout, self.arrays)
            if at < len(pairs):
                self.grow()

    def entries(self) -> tuple[Words, Pairs]:
        """Return (e, W) evidences in any order, and (e, witnesses, 2) pairs, -1 where there are fewer."""
        words, pairs, filled, _ = self.arrays
        used = np.flatnonzero(words[:, 0])
        found = pairs[used].astype(np.int64)
        if len(filled):
            found[np.arange(pairs.shape[1]) >= filled[used, None]] = -1
        return words[used], found

    def grow(self, at_least: int = 0) -> None:
        """Make the table larger, and more than twice as large as `at_least`."""
        words, pairs, *_ = self.arrays
        size = len(words) * (4 if len(words) < _LARGE else 2)
        larger = _empty(doubled(size, 2 * at_least + 1), words.shape[1], pairs.shape[1])
        rehash_kernel(self.arrays, larger)
        self.arrays = larger


def _empty(size: int, width: int, witnesses: int) -> EvidenceArrays:
    """Return a table without evidences."""
    return EvidenceArrays(
        words=np.zeros((size, width), np.uint64),
        pairs=np.zeros((size, witnesses, 2), np.int32),
        filled=np.zeros(size if witnesses > 1 else 0, np.int64),
        held=np.zeros(1, np.int64),
    )
