"""The complete set of order dependencies of a table, with the certificate that proves it complete [HyOD].

    sample pairs of rows -> evidences E -> minimal contexts of every target
    level by level, smallest contexts first: search the table for pairs that break a dependency not yet known to hold,
        and take their evidences into E, until all dependencies of the level hold

On a level stand constants with so many columns in their context, and order compatibilities with one less, so that what
a constant hides is known before anything hidden would be searched for. New evidences only ever make contexts larger,
so a level that is done stays done. A dependency that holds has a minimal context among those of E; the reported ones
all hold, so they are the complete set, and E with its witness pairs is a certificate. Which pairs were sampled changes
how long it takes and what E is, never the dependencies.
"""

import time
from typing import TYPE_CHECKING

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.codes import PairCodes, pair_codes
from holdfast.discovery.evidences import EvidenceSet
from holdfast.discovery.explained import Explained, Report
from holdfast.discovery.order.contexts import Contexts
from holdfast.discovery.order.search import OrderSearch
from holdfast.discovery.order.targets import Targets, one_way
from holdfast.discovery.sampling import sample_neighbours, sample_random
from holdfast.discovery.seed import Seed
from holdfast.tables import Table

if TYPE_CHECKING:
    from holdfast.discovery.kernels.contexts import Ints, Words

PAIRS = 24
"""How many pairs of rows are taken that break a dependency."""


def seed_order(
    table: Table,
    space: PredicateSpace,
    max_context: int = 3,
    *,
    threads: int = 1,
    seed: int = 1,
    report: Report = lambda _: None,
) -> Seed:
    """Find all order dependencies with at most `max_context` columns in the context (0: all)."""
    explained = Explained()
    started = time.perf_counter()
    codes = pair_codes(table, space)
    explained.add(f"codes of {codes.rows:,} distinct rows", started)
    finder = _Finder(codes, space, max_context, threads, seed, explained, report)
    finder.sample()
    finder.complete()
    proofs = np.unique(np.concatenate([np.zeros(0, np.int64), *finder.contexts.proofs]))
    return Seed(finder.contexts.masks, finder.words[proofs], codes.table_rows(finder.pairs[proofs]), explained)


class _Finder:
    def __init__(
        self,
        codes: PairCodes,
        space: PredicateSpace,
        max_context: int,
        threads: int,
        seed: int,
        explained: Explained,
        report: Report,
    ) -> None:
        self._codes = codes
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._explained = explained
        self._report = report
        targets = Targets(space)
        self.contexts = Contexts(targets, max_context, threads)
        self._search = OrderSearch(codes, targets, threads)
        self.words: Words = np.zeros((0, space.word_count), np.uint64)
        self.pairs: Ints = np.zeros((0, 2), np.int64)

    def sample(self) -> None:
        """Begin with the evidences of some pairs."""
        started = time.perf_counter()
        evidences = EvidenceSet(self._codes, self._space)
        variety = sample_random(evidences, self._codes, self._rng)
        sample_neighbours(evidences, self._codes, variety, self._rng, self._report)
        self._explained.add(f"{len(evidences):,} evidences of a sample", started)
        self._take(evidences)

    def complete(self) -> None:
        """Validate level by level, until every dependency holds."""
        contexts = self.contexts
        while True:
            targets, places, sets = contexts.doubtful()
            if not len(targets):
                contexts.trust()
                return
            levels = contexts.levels(targets, sets)
            lowest = np.flatnonzero(levels == levels.min())
            targets, places, sets = targets[lowest], places[lowest], sets[lowest]
            columns = int(np.bitwise_count(sets[0]).sum())
            started = time.perf_counter()
            self._report(f"validating {len(targets):,} dependencies with about {columns} columns in the context")
            which, pairs = self._search.find(targets, sets, PAIRS)
            broken = np.unique(which)
            contexts.prove(np.delete(targets, broken), np.delete(places, broken))
            step = f"validated {len(targets):,} dependencies with about {columns} columns in the context"
            self._explained.add(f"{step}: {len(broken):,} do not hold", started)
            if len(pairs):
                evidences = EvidenceSet(self._codes, self._space)
                evidences.compare_pairs(pairs)
                self._take(evidences)

    def _take(self, evidences: EvidenceSet) -> None:
        started = time.perf_counter()
        words, pairs = one_way(self._space, *evidences.entries())
        _, first = np.unique(words, axis=0, return_index=True)
        words, pairs = words[first], pairs[first]

        def enter(used: "Ints") -> "Ints":
            numbers = np.arange(len(self.words), len(self.words) + len(used))
            self.words = np.concatenate([self.words, words[used]])
            self.pairs = np.concatenate([self.pairs, pairs[used]])
            return numbers

        before = len(self.words)
        touched = self.contexts.add(words, enter)
        step = f"{len(self.words) - before:,} of {len(words):,} evidences change {len(touched):,} targets"
        self._explained.add(f"{step}: {len(self.contexts):,} contexts", started)
