"""The complete set of denial constraints of a table, with the certificate that proves it complete [Hydra].

    sample pairs of rows -> evidences E
    repeat: enumerate the minimal covers of E; search the table for pairs that violate a cover not yet known to hold;
            add their evidences to E
    until no cover is violated

Every constraint that holds is a cover of E, so contains a minimal cover; that one holds. So when all minimal covers
hold, they are exactly the maximal boxes, and E with its witness pairs is a certificate of completeness. Which pairs
were sampled changes the time and E, never the constraints.

Where the table is small, or the validation of covers would take longer, E is made of all pairs at once: then all covers
hold. This plan is not chosen where random pairs show that all pairs have too many evidences.

Invariant: memory is bounded. Too many evidences or constraints end in a `UsageError` that says how many there were so
far and which option to set.
"""

import math

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.denial.anchors import Anchors, Costs
from holdfast.discovery.denial.enumerating import Enumeration, too_many
from holdfast.discovery.denial.meaning import Meaning
from holdfast.discovery.denial.validating import Validation
from holdfast.discovery.evidence.codes import pair_codes
from holdfast.discovery.evidence.evidences import (
    EvidenceSet,
    TooManyEvidences,
    all_evidences,
    group_evidences,
    most_evidences,
)
from holdfast.discovery.evidence.sampling import RANDOM_PAIRS, Variety, both_ways, sample_neighbours, sample_random
from holdfast.discovery.evidence.violations import ViolationSearch
from holdfast.discovery.explained import Explained, Report
from holdfast.discovery.kernels.evidence import PairCodes
from holdfast.discovery.seed import Seed
from holdfast.tables import Table
from holdfast.tables.arrays import Words

_COSTS = Costs()
_NEGLIGIBLE_SECONDS = 0.2
_SECONDS_BETWEEN_REPORTS = 2.0
_SECONDS_A_PART = 60.0


def seed_denial(
    table: Table,
    space: PredicateSpace,
    max_predicates: int = 4,
    *,
    threads: int = 1,
    report: Report = lambda _: None,
) -> Seed:
    """Find all maximal boxes with at most `max_predicates` constrained column pairs (0: all)."""
    explained = Explained()
    codes = pair_codes(table, space)
    explained.add(f"codes of {codes.rows:,} distinct rows")
    finder = _Finder(codes, space, max_predicates, threads, explained, report)
    try:
        covers = finder.covers()
    except TooManyEvidences as error:
        raise too_many(error.held) from error
    evidences = finder.evidences
    words, pairs = evidences.entries()
    boxes = finder.enumeration.without_empty(covers)
    return Seed(finder.meaning.reported(boxes), boxes, words, codes.table_rows(pairs), explained)


class _Finder:
    """The two plans of a search.

    Costs are estimated from what was measured on two cores (seconds per outcome compared, per evidence kept, per row
    and constraint validated); a wrong estimate costs time, never an answer.
    """

    def __init__(
        self,
        codes: PairCodes,
        space: PredicateSpace,
        max_predicates: int,
        threads: int,
        explained: Explained,
        report: Report,
    ) -> None:
        self.evidences = EvidenceSet(codes, space)
        self._seconds_a_cover = max(codes.rows, 1) * _COSTS.validated
        self.enumeration = Enumeration(space, max_predicates, explained, report)
        self.meaning = Meaning(space)
        self._rng = np.random.default_rng(1)
        self._codes = codes
        self._space = space
        self._threads = threads
        self._explained = explained
        self._report = report

    def covers(self) -> Words:
        """Return the minimal covers, all of which hold, by the plan that should be the fastest."""
        compared = self._codes.rows**2 * len(self._space.pairs) * _COSTS.outcome
        if not self._space.crossing:
            compared /= 2
        if self._codes.rows**2 <= RANDOM_PAIRS and compared < _NEGLIGIBLE_SECONDS:
            return self._from_all_pairs()
        variety = sample_random(self.evidences, self._codes, self._rng)
        self._explained.add(f"{variety.total:,.0f} evidences expected of all pairs")
        seconds = math.inf
        if variety.total <= most_evidences(self._space, self._threads):
            seconds = compared + _COSTS.keeping(variety.total, self._space)
        covers = None if seconds < _NEGLIGIBLE_SECONDS else self._from_sample(variety, seconds)
        if covers is not None:
            return covers
        sampled = self.evidences
        try:
            return self._from_all_pairs()
        except TooManyEvidences as error:
            self._explained.add(f"more than {error.held:,} evidences of all pairs: too many to keep")
        self.evidences = sampled
        covers = self._from_sample(variety, math.inf)
        assert covers is not None
        return covers

    def _from_all_pairs(self) -> Words:
        """Compare all pairs of rows; every minimal cover of their evidences holds."""
        self._explained.plan = "all pairs"
        done = 0

        def progress(rows: int) -> None:
            nonlocal done
            done += rows
            self._report(f"comparing all pairs: {done:,} of {self._codes.rows:,} rows")

        self.evidences = all_evidences(self._codes, self._space, self._threads, progress)
        self._explained.add(f"{len(self.evidences):,} evidences of all pairs")
        return self._covers(math.inf)[0]

    def _from_sample(self, variety: Variety, all_pairs_seconds: float) -> Words | None:
        """Sample, enumerate, validate, until every minimal cover holds; None where all pairs would be cheaper.

        Where comparing all pairs is impossible (infinite), covers are validated in parts: the evidences of a violated
        part may leave far fewer covers; only after a part that holds, the next part is twice as large.
        """
        self._explained.plan = "sample, enumerate, validate"
        sample_neighbours(self.evidences, self._codes, variety, self._rng, self._report)
        self._explained.add(f"{len(self.evidences):,} evidences of a sample")
        in_parts = all_pairs_seconds == math.inf
        limit = (_SECONDS_A_PART if in_parts else all_pairs_seconds) / self._seconds_a_cover
        anchors = Anchors(self._codes, self._space, _COSTS, variety)
        at_once = max(1, int(_SECONDS_BETWEEN_REPORTS / self._seconds_a_cover))
        validation = Validation(self._space, at_once, self._explained, self._report)
        search = ViolationSearch(self._codes, self._space, self._threads)
        while True:
            covers, whole = self._covers(limit)
            if not whole and not in_parts:
                self._explained.add("so many constraints: comparing all pairs is cheaper")
                return None
            doubtful = covers[self.meaning.satisfiable(covers)]
            if self._anchored(anchors, doubtful):
                continue
            found = validation.violated(doubtful[anchors.unsettled(doubtful)], search)
            if found:
                pairs = np.concatenate([violations.pairs for violations in found])
                new = both_ways(self.evidences, pairs)
                self._explained.add(f"{new:,} evidences of {len(pairs):,} violating pairs")
            elif whole:
                return covers
            else:
                limit *= 2

    def _anchored(self, anchors: Anchors, covers: Words) -> bool:
        """Add the evidences of all pairs that agree on equalities of many covers; return whether any is new."""
        before = len(self.evidences)
        while (groups := anchors.choose(covers, len(self.evidences), self.enumeration.tried)) is not None:
            self._report(f"comparing all pairs of {len(groups.numbers):,} rows that agree on the same equalities")
            self.evidences.add(*group_evidences(self._codes, self._space, groups, self._threads).entries())
            self._explained.add(f"{len(self.evidences):,} evidences with pairs that agree on {anchors.last}")
        return len(self.evidences) > before

    def _covers(self, limit: float) -> tuple[Words, bool]:
        return self.enumeration.covers(self.evidences.entries()[0], limit)
