"""The complete set of order dependencies of a table, with the certificate that proves it complete [HyOD].

    sample pairs of rows -> evidences E -> minimal contexts of every target
    level by level, smallest contexts first: search the table for pairs that break a dependency not yet known to hold,
        and add their evidences to E, until all dependencies of the level hold

Level n has the constants with n columns in their context, and the order compatibilities with n - 1, so that
dependencies hidden by a constant are not searched. New evidences only make contexts larger, so a finished level stays
finished. A dependency that holds has a minimal context among those of E; the reported dependencies all hold, so they
are the complete set, and E with its witness pairs is a certificate. Which pairs were sampled changes the time and E,
never the dependencies.
"""

from typing import TYPE_CHECKING

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.evidence.codes import pair_codes
from holdfast.discovery.evidence.evidences import EvidenceSet
from holdfast.discovery.evidence.sampling import sample_neighbours, sample_random
from holdfast.discovery.explained import Explained, Report
from holdfast.discovery.order.contexts import Contexts
from holdfast.discovery.order.search import OrderSearch
from holdfast.discovery.order.targets import Targets, one_way
from holdfast.discovery.seed import Seed
from holdfast.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.tables.arrays import Ints, Words

    Search = Callable[[Ints, Words], tuple[Ints, Words, Ints]]
    """Returns, for targets and contexts, the broken dependencies, and evidences with pairs that break them."""

PAIRS = 24
"""The most pairs of rows that are taken for a broken dependency."""


def seed_order(
    table: Table,
    space: PredicateSpace,
    max_context: int = 3,
    *,
    threads: int = 1,
    report: Report = lambda _: None,
) -> Seed:
    """Find all order dependencies with at most `max_context` columns in the context (0: all)."""
    explained = Explained()
    codes = pair_codes(table, space)
    explained.add(f"codes of {codes.rows:,} distinct rows")
    finder = OrderFinder(space, max_context, threads, explained, report)
    evidences, rng = EvidenceSet(codes, space), np.random.default_rng(1)
    variety = sample_random(evidences, codes, rng)
    sample_neighbours(evidences, codes, variety, rng, report)
    explained.add(f"{len(evidences):,} evidences of a sample")
    finder.take(*evidences.entries())
    search = OrderSearch(codes, finder.contexts.targets, threads)

    def broken(targets: "Ints", sets: "Words") -> tuple["Ints", "Words", "Ints"]:
        which, pairs = search.find(targets, sets, PAIRS)
        evidences = EvidenceSet(codes, space)
        evidences.compare_pairs(pairs)
        return np.unique(which), *evidences.entries()

    finder.complete(broken)
    return finder.seed(codes.table_rows)


class OrderFinder:
    """Adds evidences until all remaining dependencies are known to hold.

    Parameters
    ----------
    space, max_context : the space, and the number of columns that contexts may have (0: any number).
    threads : the number of threads that enumerate contexts.
    explained, report : receive the steps.
    """

    def __init__(
        self, space: PredicateSpace, max_context: int, threads: int, explained: Explained, report: Report
    ) -> None:
        self._space = space
        self._explained = explained
        self._report = report
        self.contexts = Contexts(Targets(space), max_context, threads)
        self._words: Words = np.zeros((0, space.word_count), np.uint64)
        self._pairs: Ints = np.zeros((0, 2), np.int64)

    def complete(self, broken: "Search") -> None:
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
            self._report(f"validating {len(targets):,} dependencies with about {columns} columns in the context")
            which, words, pairs = broken(targets, sets)
            contexts.prove(np.delete(targets, which), np.delete(places, which))
            step = f"validated {len(targets):,} dependencies with about {columns} columns in the context"
            self._explained.add(f"{step}: {len(which):,} do not hold")
            if len(words):
                self.take(words, pairs)

    def take(self, words: "Words", pairs: "Ints") -> None:
        """Add evidences of live pairs."""
        words, pairs = one_way(self._space, words, pairs)
        _, first = np.unique(words, axis=0, return_index=True)
        words, pairs = words[first], pairs[first]

        def enter(used: "Ints") -> "Ints":
            numbers = np.arange(len(self._words), len(self._words) + len(used))
            self._words = np.concatenate([self._words, words[used]])
            self._pairs = np.concatenate([self._pairs, pairs[used]])
            return numbers

        before = len(self._words)
        touched = self.contexts.add(words, enter)
        step = f"{len(self._words) - before:,} of {len(words):,} evidences change {len(touched):,} targets"
        self._explained.add(f"{step}: {len(self.contexts):,} contexts")

    def seed(self, rows_of: "Callable[[Ints], Ints]") -> Seed:
        """Return the dependencies that hold and their certificate; `rows_of` converts pairs to rows of the table."""
        proofs = np.unique(np.concatenate([np.zeros(0, np.int64), *self.contexts.proofs]))
        masks = self.contexts.masks
        return Seed(masks, masks, self._words[proofs], rows_of(self._pairs[proofs]), self._explained)
