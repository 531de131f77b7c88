"""The minimal covers of a certificate's evidences, kept as evidences are added and removed.

A cover is the set of outcomes that a box excludes, so minimal covers are the maximal boxes without an evidence
(`hitting_sets.py`).

- An evidence is added: a cover that misses the evidence is replaced by its extensions by one outcome of the evidence
  that are minimal. No other cover changes, and no cover appears twice, as only that outcome hits the evidence.
- An evidence is removed: covers with an outcome that only this evidence needed are no longer minimal; the new covers
  are the minimal covers that miss the evidence, enumerated within the outcomes that it does not have.

Both directions agree with an enumeration from scratch [MMCS], with the bound on column pairs too: a bounded cover is
the extension of a bounded cover.
"""

import time

import numpy as np

from holdfast.constraints import PredicateSpace, UsageError
from holdfast.discovery.evidence.certificate import Certificate
from holdfast.discovery.evidence.hitting_sets import HittingSetSearch, groups_of
from holdfast.discovery.kernels.covers import extend_kernel, needed_kernel, next_missed_kernel
from holdfast.tables.arrays import Flags, Numbers, Words

_ROOM = 1 << 12
_MOST_WORDS = 1 << 27
_SECONDS_AT_LEAST, _SECONDS_PER_COVER = 0.05, 1e-4


class Covers:
    """Minimal covers, and for each whether it is known to hold on the table.

    Parameters
    ----------
    space, bound : the space, and the number of column pairs that a cover may touch; 0 for any number.
    certificate : the evidences to cover, by number.
    sets : the minimal covers of these evidences, all known to hold.
    """

    def __init__(self, space: PredicateSpace, bound: int, certificate: Certificate, sets: Words) -> None:
        width = space.word_count
        self._every = np.array(space.words(space.every), np.uint64)
        self._groups = groups_of(space)
        self._bound = bound
        self._certificate = certificate
        self._occurrence = np.zeros((64 * width, 4), np.uint64)
        self.sets = sets
        self.proven: Flags = np.ones(len(sets), np.bool_)
        held = certificate.held
        self._place(held, certificate.words[held])

    def __len__(self) -> int:
        return len(self.sets)

    @property
    def masks(self) -> Words:
        """The boxes: the complements of the covers."""
        return self._every & ~self.sets

    def extend(self, numbers: Numbers) -> None:
        """Cover evidences that are new in the certificate. O(violated covers x edges) for each missed evidence."""
        words = self._certificate.words[numbers]
        at = 0
        while at < len(words):
            following = self.next_missed(words, at)
            self._place(numbers[at:following], words[at:following])  # evidences that no cover misses
            at = following
            if at < len(words):
                missed = ~(self.sets & words[at]).any(axis=1)
                extended, origin = self._extended(self.sets[missed], words[at])
                self.sets = np.concatenate([self.sets[~missed], extended])
                self.proven = np.concatenate([self.proven[~missed], self.proven[missed][origin]])
                self._check_size()
                self._place(numbers[at : at + 1], words[at : at + 1])
                at += 1

    def next_missed(self, words: Words, start: int) -> int:
        """Return the first evidence from position `start` on that a cover misses; their number where there is none."""
        return int(next_missed_kernel(words, start, self.sets))

    def shrink(self, numbers: Numbers, words: Words, *, prove: bool) -> None:
        """Remove evidences; new covers are known to hold only where the caller proves that (`prove`)."""
        if not len(numbers):
            return
        self._erase(numbers, words)
        doubted = np.zeros_like(self.sets)
        for edge in words:
            hit = self.sets & edge
            alone = np.bitwise_count(hit).sum(axis=1) == 1
            doubted[alone] |= hit[alone]
        keep = np.ones(len(self.sets), np.bool_)
        needed_kernel(self.sets, doubted, self._occurrence, keep)
        fresh = self._fresh(words)
        self.sets = np.concatenate([self.sets[keep], fresh])
        self.proven = np.concatenate([self.proven[keep], np.full(len(fresh), prove)])
        self._check_size()

    def _fresh(self, words: Words) -> Words:
        """Return the minimal covers that miss a removed evidence.

        One evidence after another; where that takes longer than an enumeration of all covers, all are enumerated.
        """
        until = time.perf_counter() + _SECONDS_AT_LEAST + len(self.sets) * _SECONDS_PER_COVER
        found = [self.sets[:0]]
        for edge in words:
            for chunk in self._search(self._every & ~edge):
                found.append(chunk)
                if time.perf_counter() > until:
                    every = np.concatenate([self.sets[:0], *self._search(self._every)])
                    missing = np.zeros(len(every), np.bool_)
                    for gone in words:
                        missing |= ~(every & gone).any(axis=1)
                    return every[missing]
        return np.unique(np.concatenate(found), axis=0)

    def restore(self, sets: Words, proven: Flags) -> None:
        """Restore earlier covers, after the certificate was rolled back."""
        self.sets, self.proven = sets, proven
        self._occurrence[:] = 0
        held = self._certificate.held
        self._place(held, self._certificate.words[held])

    def check_invariants(self) -> None:
        """Assert that the covers are those of an enumeration from scratch. Exponential."""
        search = HittingSetSearch(self._certificate.words[self._certificate.held], self._groups, self._bound)
        anew = np.concatenate([self.sets[:0], *search])
        assert {tuple(s) for s in anew.tolist()} == {tuple(s) for s in self.sets.tolist()}
        assert len(anew) == len(self.sets)

    def _extended(self, sets: Words, edge: Words) -> tuple[Words, Numbers]:
        edges = self._occurrence.shape[1]
        critical = np.empty((len(self._occurrence), edges), np.uint64)
        many = np.empty(edges, np.uint64)
        made, origins = [sets[:0]], [np.zeros(0, np.int64)]
        out, origin = np.empty((_ROOM, sets.shape[1]), np.uint64), np.empty(_ROOM, np.int64)
        at = 0
        while at < len(sets):
            at, count = extend_kernel(
                sets, at, edge, self._occurrence, self._groups, self._bound, critical, many, out, origin
            )
            made.append(out[:count].copy())
            origins.append(origin[:count].copy())
        return np.concatenate(made), np.concatenate(origins)

    def _search(self, within: Words) -> HittingSetSearch:
        """Return the minimal covers of the remaining edges that have no vertices but `within`."""
        return HittingSetSearch(
            self._certificate.words, self._groups, self._bound, within=within, occurrence=self._occurrence
        )

    def _place(self, numbers: Numbers, words: Words) -> None:
        """Add edges to the bitmaps."""
        needed = len(self._certificate.words) // 64 + 1
        if needed > self._occurrence.shape[1]:
            more = np.zeros((len(self._occurrence), needed - self._occurrence.shape[1]), np.uint64)
            self._occurrence = np.hstack([self._occurrence, more])
        vertices, members = _bits(words)
        np.bitwise_or.at(
            self._occurrence,
            (vertices, numbers[members] // 64),
            np.uint64(1) << (numbers[members] % 64).astype(np.uint64),
        )

    def _erase(self, numbers: Numbers, words: Words) -> None:
        vertices, members = _bits(words)
        gone = ~(np.uint64(1) << (numbers[members] % 64).astype(np.uint64))
        np.bitwise_and.at(self._occurrence, (vertices, numbers[members] // 64), gone)

    def _check_size(self) -> None:
        if self.sets.size > _MOST_WORDS:
            raise UsageError(
                f"more than {len(self.sets):,} constraints of the table so far, too many to keep: maintain small ones "
                "(max_predicates), fewer columns, or none across columns (cross_columns: none)"
            )


def _bits(words: Words) -> tuple[Numbers, Numbers]:
    """Return the vertex of every bit that is set, and its row of `words`."""
    flags = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1, bitorder="little")
    members, vertices = np.nonzero(flags)
    return vertices, members
