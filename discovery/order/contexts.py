"""The minimal contexts of every target, kept as evidences are added and removed.

For each target: its *edges*, none of which contains another, with the number of an evidence that proves each; and its
*contexts*, the minimal sets of columns that meet every edge, with a bound on their size. Contexts of order
compatibilities that a constant hides are kept too, and filtered out when reported.

- An evidence is added: it is an edge of the targets that it breaks and of which some context misses the edge. Where all
  contexts meet the edge, nothing changes: a minimal context with the edge would contain a context without it.
- Evidences are removed: targets with an edge that a removed evidence proved keep the other edges, and all evidences
  left are added again.

The contexts of targets whose edges change are enumerated from scratch.

Invariant: contexts depend on the evidences alone, not on the order of additions and removals.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from holdfast.constraints import UsageError
from holdfast.discovery.kernels.contexts import (
    breaking_kernel,
    contexts_kernel,
    grow_kernel,
    held_kernel,
    missed_kernel,
)
from holdfast.discovery.order.targets import Targets
from holdfast.indexes.masks import as_items
from holdfast.indexes.threads import mapped
from holdfast.tables.arrays import Flags, Ints, Words

Memo = tuple[list[Words], list[Ints], list[Words], list[Flags]]
Given = tuple[Words, Ints, Words, Ints]
"""Evidences as kernels take them: the sets of columns in which rows differ; for each evidence the position of its set,
the columns in which the first row comes first, and its number."""

_ROOM = 1 << 10
_MUCH = 1 << 14
_FIRST, _FASTER = 1_000, 4
_MOST_WORDS = 1 << 27
_MOST_WORDS_EXPECTED = 4 * _MOST_WORDS
_FEWER = "look for small contexts (--max-context), or at fewer columns"
_FIRST_TARGETS = 16
_WORDS_BEFORE_A_FORECAST = 1 << 30
_WORDS_HELD_BEFORE_A_FORECAST = 1 << 23
_MOST_WORDS_READ = 1 << 45


class Contexts:
    """Minimal contexts, and for each whether it is known to hold on the table.

    Parameters
    ----------
    targets : the targets.
    bound : the number of columns that a context may have; 0 for any number.
    threads : the number of threads that share the targets.
    """

    def __init__(self, targets: Targets, bound: int, threads: int = 1) -> None:
        self.targets = targets
        self.bound = bound
        self._threads = threads
        width = targets.space.word_count
        none = np.zeros((0, width), np.uint64)
        self.edges = [none] * len(targets)
        self.proofs = [np.zeros(0, np.int64)] * len(targets)
        self.sets = [np.zeros((1, width), np.uint64)] * len(targets)
        self.proven: list[Flags] = [np.zeros(1, np.bool_)] * len(targets)
        self._stale = set(range(len(targets)))
        self._reported = [none] * len(targets)
        self._masks = none

    def __len__(self) -> int:
        return sum(map(len, self.sets))

    @property
    def masks(self) -> Words:
        """The reported dependencies as boxes; the same array until a change."""
        if self._stale:
            constants = np.zeros(self.targets.constants, np.bool_)
            constants[[t for t in self._stale if t < len(constants)]] = True
            hiding = np.flatnonzero(constants[self.targets.left] | constants[self.targets.right]).tolist()
            for t in self._stale.union(hiding):
                kept = self.sets[t][~self._hidden(t, self.sets[t])]
                self._reported[t] = self.targets.masks(np.full(len(kept), t), kept)
            self._masks = np.concatenate([self._masks[:0], *self._reported])
            self._stale.clear()  # last: an interrupt before costs work, never an answer
        return self._masks

    def add(self, words: Words, enter: Callable[[Ints], Ints]) -> Ints:
        """Add the evidences that change targets; return these targets.

        Parameters
        ----------
        enter : receives the positions of these evidences, and returns their numbers for `proofs`.
        """
        touched = self._come(words, -1 - np.arange(len(words)), range(len(self.targets)))  # temporary numbers
        proofs = np.unique(np.concatenate([np.zeros(0, np.int64), *(self.proofs[t] for t in touched)]))
        used = -1 - proofs[proofs < 0]
        number = np.empty(len(words), np.int64)
        number[used] = enter(used)
        for t in touched:
            fresh = self.proofs[t] < 0
            self.proofs[t] = np.where(fresh, number[np.where(fresh, -1 - self.proofs[t], 0)], self.proofs[t])
        return np.array(touched, np.int64)

    def remove(self, gone: Ints, words: Words, numbers: Ints) -> None:
        """Remove the evidences numbered `gone`; `words` and `numbers` are all evidences left."""
        owners = np.repeat(np.arange(len(self.targets)), [len(proofs) for proofs in self.proofs])
        touched = np.unique(owners[np.isin(np.concatenate([gone[:0], *self.proofs]), gone)])
        changed = {}
        for t in touched.tolist():
            left = ~np.isin(self.proofs[t], gone)
            changed[t] = self.edges[t][left], self.proofs[t][left]
        self._change(changed)
        self._come(words, numbers, touched.tolist())

    def doubtful(self) -> tuple[Ints, Ints, Words]:
        """Return the reported dependencies not known to hold: targets, positions among their contexts, and contexts."""
        targets, places, sets = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [self._masks[:0]]
        for t, proven in enumerate(self.proven):
            if not proven.all():
                unknown = np.flatnonzero(~proven)
                shown = unknown[~self._hidden(t, self.sets[t][unknown])]
                targets.append(np.full(len(shown), t))
                places.append(shown)
                sets.append(self.sets[t][shown])
        return np.concatenate(targets), np.concatenate(places), np.concatenate(sets)

    def levels(self, targets: Ints, sets: Words) -> Ints:
        """Return the level of each dependency.

        The level of a constant is the size of its context, that of an order compatibility one more: constants that hide
        it are decided before.
        """
        sizes = np.bitwise_count(sets).sum(axis=1, dtype=np.int64)
        return np.asarray(sizes + (targets >= self.targets.constants))

    def prove(self, targets: Ints, places: Ints) -> None:
        """Mark dependencies as known to hold."""
        for t in np.unique(targets).tolist():
            proven = self.proven[t].copy()
            proven[places[targets == t]] = True
            self.proven[t] = proven

    def trust(self) -> None:
        """Mark all dependencies as known to hold: hidden dependencies hold when all reported dependencies do."""
        for t, proven in enumerate(self.proven):
            if not proven.all():
                self.proven[t] = np.ones(len(proven), np.bool_)

    def memo(self) -> Memo:
        """Return the argument of `take_back`. O(targets)."""
        return list(self.edges), list(self.proofs), list(self.sets), list(self.proven)

    def take_back(self, memo: Memo) -> None:
        """Restore the state at the memo."""
        edges, proofs, sets, proven = memo
        self._stale.update(t for t, (one, other) in enumerate(zip(sets, self.sets, strict=True)) if one is not other)
        self.edges, self.proofs, self.sets, self.proven = list(edges), list(proofs), list(sets), list(proven)

    def _come(self, words: Words, numbers: Ints, targets: Sequence[int]) -> list[int]:
        """Add evidences that change targets, and return these targets.

        First evidences that agree on most columns, then more and more: contexts meet most of the others by then.
        """
        differs, less = self.targets.differs(words), self.targets.less(words)
        order = np.argsort(np.bitwise_count(differs).sum(axis=1), kind="stable")
        touched: set[int] = set()
        start, size = 0, _FIRST
        while start < len(order):
            some = order[start : start + size]
            _, first, which = np.unique(as_items(differs[some]), return_index=True, return_inverse=True)
            given = differs[some][first], which, less[some], numbers[some]
            grown = self._each(partial(self._grown, given), targets, len(some))
            changed = {t: new for t, new in zip(targets, grown, strict=True) if new is not None}
            self._change(changed)
            touched |= changed.keys()
            start, size = start + size, size * _FASTER
        return sorted(touched)

    def _grown(self, given: Given, target: int) -> tuple[Words, Ints] | None:
        """Return the edges of a target with the edges of more evidences; None where they change nothing."""
        differs, which, less, numbers = given
        left, right = (int(self.targets.bit[side[target]]) for side in (self.targets.left, self.targets.right))
        missed, found = np.empty(len(differs), np.bool_), np.empty(len(which), np.int64)
        missed_kernel(differs, left, right, self.sets[target], missed)
        if not missed.any():
            return None
        more = breaking_kernel(less, which, missed, left, right, bool(self.targets.opposite[target]), found)
        if not more:
            return None
        breaking, count = found[:more], len(self.edges[target])
        edges, proofs = np.empty((count + more + 1, differs.shape[1]), np.uint64), np.empty(count + more + 1, np.int64)
        edges[:count], proofs[:count] = self.edges[target], self.proofs[target]
        count = grow_kernel(differs[which[breaking]], numbers[breaking], left, right, edges, proofs, count)
        return edges[:count].copy(), proofs[:count].copy()

    def _change(self, changed: dict[int, tuple[Words, Ints]]) -> None:
        """Set the edges of targets, and enumerate their contexts.

        A context that contains a context known to hold is known to hold. That is so after new rows, too, once the
        evidences of all pairs that break a dependency have been added.
        """
        found = self._all_enumerated({t: edges for t, (edges, _) in changed.items()})
        for (t, (edges, proofs)), (sets, proven) in zip(changed.items(), found, strict=True):
            self.edges[t], self.proofs[t] = edges, proofs
            if not np.array_equal(sets, self.sets[t]):
                self.sets[t], self.proven[t] = sets, proven
                self._stale.add(t)
        if sum(sets.size for sets in self.sets) > _MOST_WORDS:
            raise _too_many(len(self))

    def _all_enumerated(self, edges: dict[int, Words]) -> list[tuple[Words, Flags]]:
        """Return the results of `_enumerated` for targets.

        More and more targets at a time, in a random order, so that an enumeration far beyond time or memory is refused
        early.
        """
        targets, done = list(edges), dict[int, tuple[Words, Flags]]()
        order = np.random.default_rng(len(targets)).permutation(len(targets)).tolist()
        words_read, words_held, size = 0, 0, _FIRST_TARGETS
        while len(done) < len(targets):
            some = [targets[place] for place in order[len(done) : len(done) + size]]
            found = self._each(lambda t: self._enumerated(t, edges[t]), some, _MUCH)
            for t, (sets, proven, read) in zip(some, found, strict=True):
                done[t] = sets, proven
                words_read, words_held = words_read + read, words_held + sets.size
            times = len(targets) / len(done)
            if words_held > _WORDS_HELD_BEFORE_A_FORECAST and words_held * times > _MOST_WORDS_EXPECTED:
                count = sum(len(sets) for sets, _ in done.values()) * times
                raise UsageError(f"about {count:,.0f} order dependencies expected, too many to keep: {_FEWER}")
            if words_read > _WORDS_BEFORE_A_FORECAST and words_read * times > _MOST_WORDS_READ:
                raise UsageError(f"the contexts of {len(targets):,} targets are expected to take many hours: {_FEWER}")
            size *= 2
        return [done[t] for t in targets]

    def _enumerated(self, target: int, edges: Words) -> tuple[Words, Flags, int]:
        """Return the contexts of a target with these edges, in order, which are known to hold, and the words read."""
        room, work = _ROOM, np.zeros(1, np.int64)
        while True:
            out = np.empty((room, edges.shape[1]), np.uint64)
            found = contexts_kernel(edges, self.targets.groups, self.targets.columns, self.bound, work, out)
            if found >= 0:
                break
            room *= 8
            if room * edges.shape[1] > _MOST_WORDS:
                raise _too_many(room // 8)
        sets = out[:found][np.lexsort(out[:found].T)]
        proven = np.empty(found, np.bool_)
        held_kernel(sets, self.sets[target][self.proven[target]], proven)
        return sets, proven, int(work[0])

    def _hidden(self, target: int, sets: Words) -> Flags:
        """Return which contexts of a target are hidden, as a constant holds within them."""
        found = np.zeros(len(sets), np.bool_)
        if target >= self.targets.constants:
            left, right = self.targets.left[target], self.targets.right[target]
            held_kernel(sets, np.concatenate([self.sets[left], self.sets[right]]), found)
        return found

    def _each(self, work: Callable[[int], Any], targets: Sequence[int], much: int) -> list[Any]:
        """Run `work` on targets, in threads where there is much work."""
        if self._threads == 1 or len(targets) * much < _MUCH:
            return [work(t) for t in targets]
        parts = [targets[i :: 4 * self._threads] for i in range(4 * self._threads)]
        done = mapped(self._threads, lambda part: [work(t) for t in part], parts)
        return [done[i % len(parts)][i // len(parts)] for i in range(len(targets))]


def _too_many(count: int) -> UsageError:
    return UsageError(f"more than {count:,} order dependencies so far, too many to keep: {_FEWER}")
