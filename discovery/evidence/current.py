"""The live rows of a maintained table as dense codes, and evidences of all pairs with given rows."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.evidence.codes import numbers, ranks
from holdfast.discovery.evidence.evidences import EvidenceSet, mirrored
from holdfast.discovery.kernels.evidence import PairCodes, RowGroups
from holdfast.indexes.rows import RowSet
from holdfast.tables.arrays import DenseCodes, Positions, Slots, Words


def current_codes(rows: RowSet, space: PredicateSpace, first: Slots | None = None) -> PairCodes:
    """Return the codes of all live rows, given rows first; `PairCodes.first` and `second` are slots.

    O(n) per column, and a sort of the distinct values.
    """
    live = rows.live()
    if first is not None:
        others = np.ones(len(rows.copies), np.bool_)
        others[first] = False
        live = np.concatenate([first, live[others[live]]])
    return codes_of(rows, space, live)


def codes_of(rows: RowSet, space: PredicateSpace, live: Slots) -> PairCodes:
    """Return the codes of some live rows, as `current_codes` does."""
    stable = rows.codes[live]
    left = np.empty((len(space.pairs), len(live)), np.int32)
    right: DenseCodes = np.empty_like(left)
    for p, pair in enumerate(space.pairs):
        dense = ranks if pair.ordered else numbers
        if pair.left == pair.right:
            left[p] = right[p] = dense(np.ascontiguousarray(stable[:, pair.left]))
        else:
            both = dense(np.concatenate([stable[:, pair.left], stable[:, pair.right]]))
            left[p], right[p] = both[: len(live)], both[len(live) :]
    return PairCodes(left, right, live, np.where(rows.copies[live] > 1, live, -1))


def evidences_with(rows: RowSet, space: PredicateSpace, slots: Slots, threads: int) -> tuple[Words, Positions]:
    """Return the evidences of all pairs with a given live row, as `t` and as `s`, and a pair of slots for each.

    O(k n P) for k rows: some nanoseconds a pair.
    """
    codes = current_codes(rows, space, slots)
    every = RowGroups.of(np.arange(codes.rows), np.array([0, codes.rows]))
    bounds = np.linspace(0, len(slots), threads + 1).astype(np.int64)

    def compared(part: int, seen: PairCodes) -> tuple[Words, Positions]:
        found = EvidenceSet(seen, space)
        found.compare_rows(every, seen, bounds[part], bounds[part + 1], both_ways=True)
        words, pairs = found.entries()
        return words, seen.table_rows(pairs)

    with ThreadPoolExecutor(threads) as pool:
        as_t = list(pool.map(lambda part: compared(part, codes), range(threads)))
        as_s = as_t
        if space.crossing:  # with t and s exchanged
            turned = PairCodes(codes.right, codes.left, codes.first, codes.second)
            as_s = list(pool.map(lambda part: compared(part, turned), range(threads)))
    found = [*as_t, *((mirrored(words, space), pairs[:, ::-1]) for words, pairs in as_s)]
    return np.concatenate([words for words, _ in found]), np.concatenate([pairs for _, pairs in found])
