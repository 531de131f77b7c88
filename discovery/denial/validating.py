"""Constraints that are not known to hold are searched for violations, until some are found or all are known to hold.

Where the rows are is the search's business: here are only its answers.
"""

import time
from typing import Protocol, TypeVar

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.explained import Explained, Report
from holdfast.indexes.masks import as_items
from holdfast.tables.arrays import Positions, Words

_PAIRS_PER_CONSTRAINT = 24
_NEW_EVIDENCES_A_ROUND = 200_000
_COMPARISONS_PER_ROW = 32
_MORE_COMPARISONS = 8
_FEW_CONSTRAINTS = 64
UNLIMITED = 1 << 40
"""A budget, in comparisons for each row, that is never exhausted."""


class SearchAnswer(Protocol):
    """What a search tells: positions of constraints that are violated, and of those it left undecided."""

    @property
    def constraint(self) -> Positions:
        """Constraints that are violated, perhaps several times."""

    @property
    def undecided(self) -> Positions:
        """Constraints whose budget did not do."""


Found_co = TypeVar("Found_co", bound=SearchAnswer, covariant=True)


class CoverSearch(Protocol[Found_co]):
    """Searches the rows of one table."""

    def find(self, masks: Words, limit: int, budget: int) -> Found_co:
        """Look for up to `limit` violating pairs of each constraint, with a budget of comparisons for each row."""


class Validation:
    """Searches for pairs that violate covers, the same cover never twice in vain.

    One cover may take a hundred times as long as the others. Most of those do not hold, and are gone once the
    evidences that violate others are known. So a search has a budget, and a cover that exhausts it is *postponed*
    until no other one is violated; then the budget grows. A few covers are searched without one.

    Parameters
    ----------
    space : what masks mean.
    at_once : how many covers go into one search.
    explained, report : are told what is done.
    """

    def __init__(self, space: PredicateSpace, at_once: int, explained: Explained, report: Report) -> None:
        self._at_once = at_once
        self._budget = _COMPARISONS_PER_ROW
        self._holding = self._postponed = as_items(np.zeros((0, space.word_count), np.uint64))
        self._explained = explained
        self._report = report

    def violated(self, masks: Words, search: CoverSearch[Found_co]) -> list[Found_co]:
        """Return what a search finds of constraints that do not hold; nothing where all of them hold."""
        waiting = masks[~np.isin(as_items(masks), self._holding)]
        while len(waiting):
            fresh = waiting[~np.isin(as_items(waiting), self._postponed)]
            if len(waiting) <= _FEW_CONSTRAINTS:
                fresh, self._budget = waiting, UNLIMITED
            elif not len(fresh):
                self._postponed = self._postponed[:0]
                self._budget = min(self._budget * _MORE_COMPARISONS, UNLIMITED)
                continue
            started = time.perf_counter()
            broken, undecided, found = self._searched(fresh, search)
            left = f", {len(undecided):,} are undecided" if len(undecided) else ""
            self._explained.add(f"validated {len(fresh):,} constraints: {len(broken):,} do not hold{left}", started)
            holding = np.delete(fresh, np.concatenate([broken, undecided]), axis=0)
            self._holding = np.concatenate([self._holding, as_items(holding)])
            self._postponed = np.concatenate([self._postponed, as_items(fresh[undecided])])
            if len(broken):
                return found
            waiting = waiting[~np.isin(as_items(waiting), self._holding)]
        return []

    def _searched(self, masks: Words, search: CoverSearch[Found_co]) -> tuple[Positions, Positions, list[Found_co]]:
        """Return which constraints are violated, which the budget left undecided, and all that was found."""
        limit = max(1, min(_PAIRS_PER_CONSTRAINT, _NEW_EVIDENCES_A_ROUND // len(masks)))
        broken, undecided, answers = [], [], []
        for start in range(0, len(masks), self._at_once):
            self._report(f"validating {len(masks):,} constraints: {start:,} done")
            found = search.find(masks[start : start + self._at_once], limit, self._budget)
            broken.append(start + np.unique(found.constraint))
            undecided.append(start + np.setdiff1d(found.undecided, found.constraint))
            answers.append(found)
        return np.concatenate(broken), np.concatenate(undecided), answers
