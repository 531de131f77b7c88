"""The complete set of denial constraints of a table, with the certificate that proves it complete [Hydra].

    sample pairs of rows -> evidences E
    repeat: enumerate the minimal covers of E; search the table for pairs that violate a cover not yet known to hold;
            add their evidences to E
    until no cover is violated

Every constraint that holds is a cover of E, so contains a minimal cover; that one holds. So when all minimal covers
hold, they are exactly the maximal boxes, and E with its witness pairs is a certificate of completeness. Which pairs were
sampled changes how long it takes and what E is, never the constraints.

Where the table is small, or the loop would take longer, E is made of all pairs at once: then all covers hold.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.codes import pair_codes
from holdfast.discovery.denial.sampling import both_ways, sample
from holdfast.discovery.evidences import EvidenceSet, all_evidences, mirrored
from holdfast.discovery.hitting_sets import HittingSetSearch
from holdfast.discovery.kernels.evidence import Places, Words
from holdfast.discovery.violations import ViolationSearch
from holdfast.tables import Table

_PAIRS_PER_CONSTRAINT = 24
_ALL_PAIRS_AT_ONCE = 3_000

Report = Callable[[str], object]


@dataclass
class Explained:
    """What a discovery did and how long it took, step by step."""

    plan: str = ""
    steps: list[tuple[str, float]] = field(default_factory=list)

    def add(self, step: str, started: float) -> None:
        """Note a step that began at `started`."""
        self.steps.append((step, time.perf_counter() - started))


@dataclass(frozen=True)
class DenialSeed:
    """The constraints of a table and their certificate.

    Parameters
    ----------
    masks : (k, W) the maximal boxes, one of each two mirror images, as bits of the space.
    evidences, witnesses : (e, W) and (e, 2): the certificate, each evidence with a pair of the table's rows.
    explained : how it was found.
    """

    masks: Words
    evidences: Words
    witnesses: Places
    explained: Explained


def seed_denial(
    table: Table,
    space: PredicateSpace,
    max_predicates: int = 4,
    threads: int = 1,
    seed: int = 1,
    report: Report = lambda _: None,
) -> DenialSeed:
    """Find all maximal boxes with at most `max_predicates` constrained column pairs (0: all)."""
    explained = Explained()
    started = time.perf_counter()
    codes = pair_codes(table, space)
    explained.add(f"codes of {codes.rows:,} distinct rows", started)
    if codes.rows <= _ALL_PAIRS_AT_ONCE:
        explained.plan = "all pairs"
        started = time.perf_counter()
        evidences = all_evidences(codes, space, threads)
        explained.add(f"{len(evidences):,} evidences of all pairs", started)
        covers = _covers(evidences, space, max_predicates, explained, report)
    else:
        explained.plan = "sample, enumerate, validate"
        started = time.perf_counter()
        evidences = EvidenceSet(codes, space)
        sample(evidences, codes, seed)
        explained.add(f"{len(evidences):,} evidences of a sample", started)
        search = ViolationSearch(codes, space, threads)
        covers = _completed(evidences, search, space, max_predicates, explained, report)
    words, pairs = evidences.entries()
    masks = covers[(covers != np.array(space.words(space.every), np.uint64)).any(axis=1)]
    return DenialSeed(masks, words, codes.table_rows(pairs), explained)


def _completed(
    evidences: EvidenceSet,
    search: ViolationSearch,
    space: PredicateSpace,
    max_predicates: int,
    explained: Explained,
    report: Report,
) -> Words:
    """Add evidences until every minimal cover holds; return the covers."""
    known = _as_items(np.zeros((0, space.word_count), np.uint64))
    while True:
        covers = _covers(evidences, space, max_predicates, explained, report)
        items = _as_items(covers)
        fresh = covers[~np.isin(items, known)]
        started = time.perf_counter()
        report(f"validating {len(fresh):,} of {len(covers):,} constraints")
        found = search.find(fresh, _PAIRS_PER_CONSTRAINT)
        broken = np.unique(found.constraint)
        explained.add(f"validated {len(fresh):,} constraints: {len(broken):,} do not hold", started)
        if not len(broken):
            return covers
        known = np.concatenate([known, _as_items(np.delete(fresh, broken, axis=0))])
        started = time.perf_counter()
        new = both_ways(evidences, found.pairs)
        explained.add(f"{new:,} evidences of {len(found.pairs):,} violating pairs", started)


def _covers(
    evidences: EvidenceSet, space: PredicateSpace, max_predicates: int, explained: Explained, report: Report
) -> Words:
    """Return the masks of the minimal covers, one of each two mirror images where the space has them."""
    started = time.perf_counter()
    words, _ = evidences.entries()
    groups = np.array([space.words(pair.every) for pair in space.pairs], np.uint64).reshape(-1, space.word_count)
    every = np.array(space.words(space.every), np.uint64)
    chunks = [np.zeros((0, space.word_count), np.uint64)]
    count = 0
    for sets in HittingSetSearch(words, groups, max_predicates):
        masks = every & ~sets
        if not space.crossing:
            masks = masks[_not_above(masks, mirrored(masks, space))]
        chunks.append(masks)
        count += len(masks)
        report(f"enumerating: {count:,} constraints so far")
    explained.add(f"enumerated {count:,} constraints from {len(words):,} evidences", started)
    return np.concatenate(chunks)


def _not_above(masks: Words, others: Words) -> Places:
    """Return the places where a mask is not greater than another, word by word from the first."""
    differs = masks != others
    first = np.argmax(differs, axis=1)
    places = np.arange(len(masks))
    return np.flatnonzero(~differs.any(axis=1) | (masks[places, first] < others[places, first]))


def _as_items(masks: Words) -> np.ndarray:
    """Return each mask as one opaque item, for set operations."""
    masks = np.ascontiguousarray(masks)
    return masks.view(np.dtype((np.void, masks.shape[1] * 8))).reshape(-1)
