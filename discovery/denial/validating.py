"""Searches for violations of covers that are not known to hold, until some are found or all are known to hold.

The search knows where the rows are; this module sees its answers only.
"""

from typing import Protocol, TypeVar

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.evidence.violations import UNLIMITED
from holdfast.discovery.explained import Explained, Report
from holdfast.indexes.masks import as_items
from holdfast.tables.arrays import Positions, Words

_PAIRS_PER_CONSTRAINT = 24
_NEW_EVIDENCES_A_ROUND = 200_000
_COMPARISONS_PER_ROW = 32
_MORE_COMPARISONS = 8
_FEW_CONSTRAINTS = 64


class SearchAnswer(Protocol):
    """The answer of a search: the positions of violated constraints, and of undecided constraints."""

    @property
    def constraint(self) -> Positions:
        """Violated constraints, perhaps several times."""

    @property
    def undecided(self) -> Positions:
        """Constraints that exhausted the budget."""


Found_co = TypeVar("Found_co", bound=SearchAnswer, covariant=True)


class CoverSearch(Protocol[Found_co]):
    """Searches the rows of one table."""

    def find(self, masks: Words, limit: int, budget: int) -> Found_co:
        """Search up to `limit` violating pairs of each constraint, with a budget of comparisons for each row."""


class Validation:
    """Searches for pairs that violate covers; a cover without violations is not searched again.

    One cover may take a hundred times as long as the others. Most such covers do not hold, and disappear once the
    evidences that violate other covers are known. So a search has a budget, and a cover that exhausts the budget is
    *postponed* until no other cover is violated; then the budget grows. A few covers are searched without a budget.

    Parameters
    ----------
    space : what masks mean.
    at_once : the number of covers in one search.
    explained, report : receive the steps.
    """

    def __init__(self, space: PredicateSpace, at_once: int, explained: Explained, report: Report) -> None:
        self._at_once = at_once
        self._budget = _COMPARISONS_PER_ROW
        self._holding = self._postponed = as_items(np.zeros((0, space.word_count), np.uint64))
        self._explained = explained
        self._report = report

    def violated(self, masks: Words, search: CoverSearch[Found_co]) -> list[Found_co]:
        """Search until a round finds a violation; return all answers of that round, or an empty list if all hold."""
        waiting = masks[~np.isin(as_items(masks), self._holding)]
        while len(waiting):
            fresh = waiting[~np.isin(as_items(waiting), self._postponed)]
            if len(waiting) <= _FEW_CONSTRAINTS:
                fresh, self._budget = waiting, UNLIMITED
            elif not len(fresh):
                self._postponed = self._postponed[:0]
                self._budget = min(self._budget * _MORE_COMPARISONS, UNLIMITED)
                continue
            broken, undecided, found = self._searched(fresh, search)
            left = f", {len(undecided):,} are undecided" if len(undecided) else ""
            self._explained.add(f"validated {len(fresh):,} constraints: {len(broken):,} do not hold{left}")
            holding = np.delete(fresh, np.concatenate([broken, undecided]), axis=0)
            self._holding = np.concatenate([self._holding, as_items(holding)])
            self._postponed = np.concatenate([self._postponed, as_items(fresh[undecided])])
            if len(broken):
                return found
            waiting = waiting[~np.isin(as_items(waiting), self._holding)]
        return []

    def _searched(self, masks: Words, search: CoverSearch[Found_co]) -> tuple[Positions, Positions, list[Found_co]]:
        """Return the violated constraints, the constraints that exhausted the budget, and all answers."""
        limit = max(1, min(_PAIRS_PER_CONSTRAINT, _NEW_EVIDENCES_A_ROUND // len(masks)))
        broken, undecided, answers = [], [], []
        for start in range(0, len(masks), self._at_once):
            self._report(f"validating {len(masks):,} constraints: {start:,} done")
            found = search.find(masks[start : start + self._at_once], limit, self._budget)
            broken.append(start + np.unique(found.constraint))
            undecided.append(start + np.setdiff1d(found.undecided, found.constraint))
            answers.append(found)
        return np.concatenate(broken), np.concatenate(undecided), answers
