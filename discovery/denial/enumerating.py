"""The minimal covers of evidences: the constraints that no evidence violates.

Invariant: memory is bounded. Too many constraints end in a `UsageError` that says how many there were so far and which
option to set.
"""

import numpy as np

from holdfast.constraints import PredicateSpace, UsageError
from holdfast.constraints.operators import GREATER, LESS
from holdfast.discovery.evidence.hitting_sets import HittingSetSearch, groups_of
from holdfast.discovery.explained import Explained, Report
from holdfast.indexes.masks import outcomes_of
from holdfast.tables.arrays import Flags, Words

FEWER = (
    "look for small constraints (--max-predicates, or max_predicates), at fewer columns or rows (--limit), "
    "or without crossing columns (--no-cross-columns, or cross_columns: none)"
)
_MOST_WORDS = 1 << 27
_MOST_WORDS_EXPECTED = 4 * _MOST_WORDS
_FEW_WORDS = _MOST_WORDS // 64
_MOST_WORDS_READ = 1 << 45


def too_many(held: int) -> UsageError:
    """Return the error for more evidences than fit the memory limit."""
    return UsageError(f"more than {held:,} different outcomes of pairs of rows so far, too many to keep: {FEWER}")


class Enumeration:
    """Enumerates the minimal covers of evidences in one predicate space.

    Parameters
    ----------
    space, max_predicates : the space, and the number of column pairs that a constraint may have (0: any number).
    explained, report : receive the steps.
    """

    def __init__(self, space: PredicateSpace, max_predicates: int, explained: Explained, report: Report) -> None:
        self._space = space
        self._max_predicates = min(max_predicates, len(space.pairs))
        self._explained = explained
        self._report = report
        self.tried = 0

    def covers(self, words: Words, limit: float) -> tuple[Words, bool]:
        """Return the masks of the minimal covers, of two mirror images the reported one, and whether these are all.

        The enumeration ends where there are more than `limit`.
        """
        width = self._space.word_count
        every = np.array(self._space.words(self._space.every), np.uint64)
        chunks = [np.zeros((0, width), np.uint64)]
        count, whole = 0, True
        search = HittingSetSearch(words, groups_of(self._space), self._max_predicates)
        for sets in search:
            masks = every & ~sets
            chunks.append(masks[reported_images(masks, self._space)])
            count += len(chunks[-1])
            self._report(f"enumerating: {count:,} constraints so far")
            if count * width > _MOST_WORDS:
                raise UsageError(f"more than {count:,} constraints of the table so far, too many to keep: {FEWER}")
            self._refuse_beyond_reach(search, count, limit)
            if count > limit:
                whole = False
                break
        self.tried = search.tried
        step = f"enumerated {count:,} constraints from {len(words):,} evidences"
        self._explained.add(step if whole else f"{step}, and there are more")
        return np.concatenate(chunks), whole

    def _refuse_beyond_reach(self, search: HittingSetSearch, count: int, limit: float) -> None:
        """Raise `UsageError` where the estimated rest of the search is far beyond time or memory.

        A few constraints are too few for an estimate.
        """
        times = min(search.times_ahead(), limit / max(count, 1))
        pairs = f"{len(self._space.pairs):,} column pairs"
        held = count * self._space.word_count
        if held > _FEW_WORDS and held * times > _MOST_WORDS_EXPECTED:
            raise UsageError(f"about {count * times:,.0f} constraints of {pairs} expected, too many to keep: {FEWER}")
        if search.words_read * times > _MOST_WORDS_READ:
            raise UsageError(f"the constraints of {pairs} are expected to take many hours: {FEWER}")

    def without_empty(self, covers: Words) -> Words:
        """Return covers without the box of everything, which is never reported."""
        left: Words = covers[(covers != np.array(self._space.words(self._space.every), np.uint64)).any(axis=1)]
        return left


def reported_images(masks: Words, space: PredicateSpace) -> Flags:
    """Return which masks are reported: all with a crossing predicate, else the smaller text of two mirror images.

    The texts differ first at the first column pair on which the mask is not its own mirror image, where `<` and `<=`
    sort before `>` and `>=`.
    """
    if not len(masks):
        return np.ones(0, np.bool_)
    own = PredicateSpace(space.schema, (), space.family)  # its column pairs are the first ones of the space
    every = np.array(space.words(space.every & ~own.every), np.uint64)
    decided = np.zeros(len(masks), np.bool_)
    crosses: Flags = ((masks & every) != every).any(axis=1)
    reported = np.ones(len(masks), np.bool_)
    for pair, outcomes in zip(own.pairs, outcomes_of(masks, own), strict=True):
        if pair.ordered:
            less, greater = (outcomes & LESS) != 0, (outcomes & GREATER) != 0
            reported[~decided & ~crosses & greater & ~less] = False
            decided |= less != greater
    return reported
