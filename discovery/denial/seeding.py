"""The complete set of denial constraints of a table, with the certificate that proves it complete [Hydra].

    sample pairs of rows -> evidences E
    repeat: enumerate the minimal covers of E; search the table for pairs that violate a cover not yet known to hold;
            add their evidences to E
    until no cover is violated

Every constraint that holds is a cover of E, so contains a minimal cover; that one holds. So when all minimal covers
hold, they are exactly the maximal boxes, and E with its witness pairs is a certificate of completeness. Which pairs
were sampled changes how long it takes and what E is, never the constraints.

Where the table is small, or so many covers would have to be validated that it would take longer, E is made of all
pairs at once: then all covers hold. Not so where random pairs tell that all pairs have too many evidences.

Invariant: memory is bounded. More evidences or more constraints than may be kept end in a `UsageError` that says how
many there were so far and what to set.
"""

import math
import time

import numpy as np

from holdfast.constraints import PredicateSpace, UsageError
from holdfast.constraints.operators import EVERY_OUTCOME, GREATER, LESS
from holdfast.discovery.codes import PairCodes, pair_codes
from holdfast.discovery.denial.anchors import Anchors, Costs
from holdfast.discovery.evidences import (
    EvidenceSet,
    TooManyEvidences,
    all_evidences,
    group_evidences,
    most_evidences,
)
from holdfast.discovery.explained import Explained, Report
from holdfast.discovery.hitting_sets import HittingSetSearch
from holdfast.discovery.kernels.evidence import Places, Words
from holdfast.discovery.sampling import RANDOM_PAIRS, Variety, both_ways, sample_neighbours, sample_random
from holdfast.discovery.seed import Seed
from holdfast.discovery.violations import ViolationSearch
from holdfast.indexes.masks import as_items, outcomes_of
from holdfast.tables import Table
from holdfast.tables.keys import Flags

_PAIRS_PER_CONSTRAINT = 24
_NEW_EVIDENCES_A_ROUND = 200_000
_COMPARISONS_PER_ROW = 32
_MORE_COMPARISONS = 8
_FEW_CONSTRAINTS = 64
_UNLIMITED = 1 << 62
_COSTS = Costs()
_NEGLIGIBLE_SECONDS = 0.2
_SECONDS_BETWEEN_REPORTS = 2.0
_SECONDS_A_PART = 60.0
_MOST_WORDS = 1 << 27
_FEWER = (
    "look for small constraints (--max-predicates), at fewer columns or rows (--limit), "
    "or without crossing columns (--no-cross-columns)"
)


def seed_denial(
    table: Table,
    space: PredicateSpace,
    max_predicates: int = 4,
    *,
    threads: int = 1,
    seed: int = 1,
    report: Report = lambda _: None,
) -> Seed:
    """Find all maximal boxes with at most `max_predicates` constrained column pairs (0: all)."""
    explained = Explained()
    started = time.perf_counter()
    max_predicates = min(max_predicates, len(space.pairs))
    codes = pair_codes(table, space)
    explained.add(f"codes of {codes.rows:,} distinct rows", started)
    finder = _Finder(codes, space, max_predicates, threads, seed, explained, report)
    try:
        covers = finder.covers()
    except TooManyEvidences as error:
        raise UsageError(
            f"more than {error.held:,} different outcomes of pairs of rows so far, too many to keep: {_FEWER}"
        ) from error
    evidences = finder.evidences
    words, pairs = evidences.entries()
    masks = covers[(covers != np.array(space.words(space.every), np.uint64)).any(axis=1)]
    return Seed(masks, words, codes.table_rows(pairs), explained)


class _Finder:
    """The two plans, and what they share.

    Costs are estimated from what was measured on two cores (seconds per outcome compared, per evidence kept, per row
    and constraint validated); a wrong estimate costs time, never an answer.
    """

    def __init__(
        self,
        codes: PairCodes,
        space: PredicateSpace,
        max_predicates: int,
        threads: int,
        seed: int,
        explained: Explained,
        report: Report,
    ) -> None:
        self.evidences = EvidenceSet(codes, space)
        self._seconds_a_cover = max(codes.rows, 1) * _COSTS.validated
        self._tried = 0
        self._rng = np.random.default_rng(seed)
        self._codes = codes
        self._space = space
        self._max_predicates = max_predicates
        self._threads = threads
        self._explained = explained
        self._report = report

    def covers(self) -> Words:
        """Return the minimal covers, all of which hold, by the plan that is expected to be the fastest."""
        compared = self._codes.rows**2 * len(self._space.pairs) * _COSTS.outcome
        if not self._space.crossing:
            compared /= 2
        if self._codes.rows**2 <= RANDOM_PAIRS and compared < _NEGLIGIBLE_SECONDS:
            return self._from_all_pairs()
        started = time.perf_counter()
        variety = sample_random(self.evidences, self._codes, self._rng)
        self._explained.add(f"{variety.total:,.0f} evidences expected of all pairs", started)
        seconds = math.inf
        if variety.total <= most_evidences(self._space, self._threads):
            seconds = compared + _COSTS.keeping(variety.total, self._space)
        covers = None if seconds < _NEGLIGIBLE_SECONDS else self._from_sample(variety, seconds)
        if covers is not None:
            return covers
        sampled, started = self.evidences, time.perf_counter()
        try:
            return self._from_all_pairs()
        except TooManyEvidences as error:
            self._explained.add(f"more than {error.held:,} evidences of all pairs: too many to keep", started)
        self.evidences = sampled
        covers = self._from_sample(variety, math.inf)
        assert covers is not None
        return covers

    def _from_all_pairs(self) -> Words:
        """Compare all pairs of rows; every minimal cover of their evidences holds."""
        self._explained.plan = "all pairs"
        started = time.perf_counter()
        done = 0

        def progress(rows: int) -> None:
            nonlocal done
            done += rows
            self._report(f"comparing all pairs: {done:,} of {self._codes.rows:,} rows")

        self.evidences = all_evidences(self._codes, self._space, self._threads, progress)
        self._explained.add(f"{len(self.evidences):,} evidences of all pairs", started)
        return self._covers(math.inf)[0]

    def _from_sample(self, variety: Variety, all_pairs_seconds: float) -> Words | None:
        """Sample, enumerate, validate, until every minimal cover holds; None where all pairs would be cheaper.

        Where comparing all pairs is out of the question (infinite), covers are validated in parts: where a part
        breaks, its evidences may leave far fewer covers; only where it holds is the next part twice as large.
        """
        self._explained.plan = "sample, enumerate, validate"
        started = time.perf_counter()
        sample_neighbours(self.evidences, self._codes, variety, self._rng, self._report)
        self._explained.add(f"{len(self.evidences):,} evidences of a sample", started)
        in_parts = all_pairs_seconds == math.inf
        limit = (_SECONDS_A_PART if in_parts else all_pairs_seconds) / self._seconds_a_cover
        anchors = Anchors(self._codes, self._space, _COSTS, variety)
        validation = _Validation(self._codes, self._space, self._threads, self._explained, self._report)
        while True:
            started = time.perf_counter()
            covers, whole = self._covers(limit)
            if not whole and not in_parts:
                self._explained.add("so many constraints: comparing all pairs is cheaper", started)
                return None
            if self._anchored(anchors, covers):
                continue
            pairs = validation.violating_pairs(covers[anchors.unsettled(covers)])
            if len(pairs):
                started = time.perf_counter()
                new = both_ways(self.evidences, pairs)
                self._explained.add(f"{new:,} evidences of {len(pairs):,} violating pairs", started)
            elif whole:
                return covers
            else:
                limit *= 2

    def _anchored(self, anchors: Anchors, covers: Words) -> bool:
        """Add the evidences of all pairs that agree on equalities of many covers; say whether any is new."""
        before = len(self.evidences)
        while (groups := anchors.choose(covers, len(self.evidences), self._tried)) is not None:
            started = time.perf_counter()
            self._report(f"comparing all pairs of {len(groups):,} rows that agree on the same equalities")
            self.evidences.add(*group_evidences(self._codes, self._space, groups, self._threads).entries())
            self._explained.add(f"{len(self.evidences):,} evidences with pairs that agree on {anchors.last}", started)
        return len(self.evidences) > before

    def _covers(self, limit: float) -> tuple[Words, bool]:
        """Return the masks of the minimal covers, the reported one of two images, and whether these are all.

        The enumeration is left where there are more than the limit.
        """
        started = time.perf_counter()
        words, _ = self.evidences.entries()
        width = self._space.word_count
        groups = np.array([self._space.words(pair.every) for pair in self._space.pairs], np.uint64).reshape(-1, width)
        every = np.array(self._space.words(self._space.every), np.uint64)
        chunks = [np.zeros((0, width), np.uint64)]
        count, whole = 0, True
        search = HittingSetSearch(words, groups, self._max_predicates)
        for sets in search:
            masks = every & ~sets
            chunks.append(masks[reported_images(masks, self._space)])
            count += len(chunks[-1])
            self._report(f"enumerating: {count:,} constraints so far")
            if count * width > _MOST_WORDS:
                raise UsageError(f"more than {count:,} constraints of the table so far, too many to keep: {_FEWER}")
            if count > limit:
                whole = False
                break
        self._tried = search.tried
        step = f"enumerated {count:,} constraints from {len(words):,} evidences"
        self._explained.add(step if whole else f"{step}, and there are more", started)
        return np.concatenate(chunks), whole


class _Validation:
    """Searches for pairs that violate covers, the same cover never twice in vain.

    One cover may take a hundred times as long as the others. Most of those do not hold, and are gone once the
    evidences that violate others are known. So a search has a budget, and a cover that exhausts it is *postponed*
    until no other one is violated; then the budget grows. A few covers are searched without one.
    """

    def __init__(
        self, codes: PairCodes, space: PredicateSpace, threads: int, explained: Explained, report: Report
    ) -> None:
        rows = max(codes.rows, 1)
        self._search = ViolationSearch(codes, space, threads)
        self._at_once = max(1, int(_SECONDS_BETWEEN_REPORTS / (rows * _COSTS.validated)))
        self._budget = _COMPARISONS_PER_ROW * rows
        self._holding = self._postponed = as_items(np.zeros((0, space.word_count), np.uint64))
        self._explained = explained
        self._report = report

    def violating_pairs(self, masks: Words) -> Places:
        """Return pairs that violate some of the constraints; none where all of them hold."""
        waiting = masks[~np.isin(as_items(masks), self._holding)]
        while len(waiting):
            fresh = waiting[~np.isin(as_items(waiting), self._postponed)]
            if len(waiting) <= _FEW_CONSTRAINTS:
                fresh, self._budget = waiting, _UNLIMITED
            elif not len(fresh):
                self._postponed = self._postponed[:0]
                self._budget = min(self._budget * _MORE_COMPARISONS, _UNLIMITED)
                continue
            started = time.perf_counter()
            broken, undecided, pairs = self._searched(fresh)
            left = f", {len(undecided):,} are undecided" if len(undecided) else ""
            self._explained.add(f"validated {len(fresh):,} constraints: {len(broken):,} do not hold{left}", started)
            holding = np.delete(fresh, np.concatenate([broken, undecided]), axis=0)
            self._holding = np.concatenate([self._holding, as_items(holding)])
            self._postponed = np.concatenate([self._postponed, as_items(fresh[undecided])])
            if len(pairs):
                return pairs
            waiting = waiting[~np.isin(as_items(waiting), self._holding)]
        return np.zeros((0, 2), np.int64)

    def _searched(self, masks: Words) -> tuple[Places, Places, Places]:
        """Return which constraints are violated, which the budget left undecided, and the violating pairs."""
        limit = max(1, min(_PAIRS_PER_CONSTRAINT, _NEW_EVIDENCES_A_ROUND // len(masks)))
        broken, undecided, pairs = [], [], []
        for start in range(0, len(masks), self._at_once):
            self._report(f"validating {len(masks):,} constraints: {start:,} done")
            found = self._search.find(masks[start : start + self._at_once], limit, self._budget)
            broken.append(start + np.unique(found.constraint))
            undecided.append(start + np.setdiff1d(found.undecided, found.constraint))
            pairs.append(found.pairs)
        return np.concatenate(broken), np.concatenate(undecided), np.concatenate(pairs)


def reported_images(masks: Words, space: PredicateSpace) -> Flags:
    """Return which masks are reported: all with a crossing predicate, and else the smaller text of two mirror images.

    The two texts differ first at the first column pair on which the mask is not its own mirror image, and there `<`
    and `<=` come before `>` and `>=`.
    """
    decided = np.zeros(len(masks), np.bool_)
    reported = np.ones(len(masks), np.bool_)
    for pair, outcomes in zip(space.pairs, outcomes_of(masks, space), strict=True):
        if pair.left != pair.right:
            reported |= outcomes != EVERY_OUTCOME
        elif pair.ordered:
            less, greater = (outcomes & LESS) != 0, (outcomes & GREATER) != 0
            reported[~decided & greater & ~less] = False
            decided |= less != greater
    return reported
