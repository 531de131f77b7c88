"""Denial constraints kept exact from batch to batch.

    rows that vanished take their witnesses along; evidences left without one are *lost*
    rows that appeared are searched for pairs that violate a cover: their evidences are new
    a lost evidence is looked for once more; found, it stays
    covers are extended by the new evidences, and shrunk by those that are gone
    with a bound, covers that came with the loss of an evidence are searched on the whole table, until all hold

With no bound the certificate is the set of all evidences of the table: a pair whose evidence is not in it would violate
the cover that leaves out all but that one point. So the covers that a loss brings hold without a search, and a lost
evidence has to be looked for on the whole table.

Invariant: after `apply` the minimal covers of the certificate all hold, so they are the maximal boxes of the live rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.codes import PairCodes
from holdfast.discovery.current import current_codes, evidences_with
from holdfast.discovery.denial.certificate import Certificate, Numbers, Pairs, Words
from holdfast.discovery.denial.covers import Covers
from holdfast.discovery.denial.seeding import DenialSeed, reported_images
from holdfast.discovery.evidences import mirrored
from holdfast.discovery.violations import ViolationSearch
from holdfast.indexes.masks import as_items
from holdfast.indexes.rows import RowDelta, RowSet, Slots
from holdfast.indexes.table_index import WITNESSES, Noted, TableIndex
from holdfast.state import codecs
from holdfast.state.store import Store, WriteBatch

_PARTNER_PAIRS = 100_000
_PAIRS_PER_CONSTRAINT = 24
_MANY_LOST = 256
_RANDOM_PAIRS = 100_000
_MOST_RARE, _MOST_SEARCHED = 60_000, 100_000_000


@dataclass
class Effort:
    """What batches cost, for people: counts since the seed."""

    evidences_found: int = 0
    evidences_lost: int = 0
    evidences_found_again: int = 0
    candidates: int = 0
    refuted: int = 0


@dataclass(frozen=True)
class Step:
    """What a batch did to the minimal covers.

    Parameters
    ----------
    gone, come : masks of boxes that are not maximal and valid any more, or are now; mirror images too.
    found, found_pairs : evidences that are new, and a live pair (slots) for each.
    lost, lost_pairs : evidences that are gone, and a pair for each that had it and is no more.
    """

    gone: Words
    come: Words
    found: Words
    found_pairs: Pairs
    lost: Words
    lost_pairs: Pairs


@dataclass
class _Batch:
    """What is collected while a batch is applied; the whole table is made searchable once, where it is needed."""

    found: list[Numbers] = field(default_factory=list)
    lost: list[Words] = field(default_factory=list)
    lost_pairs: list[Pairs] = field(default_factory=list)
    table: tuple[PairCodes, ViolationSearch] | None = None


class DenialMaintainer:
    """The minimal covers of one table.

    Parameters
    ----------
    rows : the table, as seeded.
    bound : of which constraints have at most so many column pairs; 0 for any number.
    certificate, sets : evidences, and their minimal covers, which all hold.
    threads : how many to use.
    """

    def __init__(self, rows: RowSet, bound: int, certificate: Certificate, sets: Words, threads: int = 1) -> None:
        self._rows = rows
        self.space: PredicateSpace = rows.space
        self._bound = 0 if bound >= len(rows.space.pairs) else bound
        self._threads = threads
        self._every = np.array(self.space.words(self.space.every), np.uint64)
        self.certificate = certificate
        self.covers = Covers(self.space, self._bound, certificate, sets)
        self._saved = sets[:0]
        self._reported_of = self._reported = sets[:0]
        self.index = TableIndex(rows, threads)
        self.index.hold(self.covers.masks)
        self.effort = Effort()
        self.begin()

    @classmethod
    def seed(cls, rows: RowSet, bound: int, found: DenialSeed, threads: int = 1) -> "DenialMaintainer":
        """Begin with what a batch discovery found; its witnesses are slots of `rows`."""
        space = rows.space
        certificate = Certificate(space.word_count)
        certificate.add(found.evidences, found.witnesses[:, None, :])
        every = np.array(space.words(space.every), np.uint64)
        made = cls(rows, bound, certificate, every & ~_all_images(found, space), threads)
        made._find_more_witnesses()
        made.begin()
        return made

    @property
    def masks(self) -> Words:
        """The reported boxes: of two mirror images one, the box of everything never. O(1) until covers change."""
        if self._reported_of is not self.covers.sets:
            self._reported_of, self._reported = self.covers.sets, self.reported(self.covers.masks)
        return self._reported

    def reported(self, masks: Words) -> Words:
        """Return those of some boxes that are reported."""
        kept: Words = masks[reported_images(masks, self.space) & (masks != self._every).any(axis=1)]
        return kept

    def begin(self) -> None:
        """Begin a batch: `undo` leads back to here."""
        self.certificate.begin()
        self._before = self.covers.sets, self.covers.proven

    def apply(self, delta: RowDelta) -> Step:
        """Follow what a batch did to the rows."""
        self.index.remove(delta.vanished)
        self.index.insert(delta.appeared)
        step = self._followed(delta)
        if self.covers.sets is not self._before[0]:
            self.index.hold(self.covers.masks)
        self.index.renew()
        return step

    def undo(self) -> None:
        """Take a batch back, after the rows are as they were. O(n log n)."""
        self.certificate.rollback()
        self.covers.restore(*self._before)
        self.index = TableIndex(self._rows, self._threads)
        self.index.hold(self.covers.masks)

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since it was last saved, or everything, in batches of bounded size."""
        yield from self.certificate.save(prefix, everything=everything)
        gone, come = _differences(self._saved, self.covers.sets)
        if everything:
            come = self.covers.sets
        batch = WriteBatch()
        for cover in gone:
            batch.delete("covers", prefix + codecs.words(cover))
        for cover in come:
            batch.put("covers", prefix + codecs.words(cover), b"")
        yield batch
        self._saved = self.covers.sets

    @classmethod
    def restore(cls, rows: RowSet, bound: int, threads: int, store: Store, prefix: bytes) -> "DenialMaintainer":
        """Take over what was saved. O(n log n)."""
        certificate = Certificate(rows.space.word_count)
        certificate.restore(store, prefix)
        sets = np.array([codecs.read_words(key[len(prefix) :]) for key, _ in store.scan("covers", prefix)], np.uint64)
        restored = cls(rows, bound, certificate, sets.reshape(-1, rows.space.word_count), threads)
        restored._saved = restored.covers.sets
        return restored

    def check_invariants(self) -> None:
        """Assert what the class promises but the validity of covers. Exponential."""
        self.certificate.check_invariants()
        self.covers.check_invariants()
        self.index.check_invariants()
        assert self.covers.proven.all()

    def _followed(self, delta: RowDelta) -> Step:
        before = self.covers.sets
        batch = _Batch()
        lost, dead = self.certificate.kill(delta.vanished, delta.single)
        newcomers = np.concatenate([delta.appeared, delta.doubled])
        if len(newcomers):
            self._take(*self._met(newcomers), batch)
        if len(lost):
            self._let_go(self._still_lost(lost, dead, newcomers, batch), dead, batch)
        self._prove(batch)
        found = np.concatenate([lost[:0], *batch.found])
        found = found[self.certificate.witnesses_left(found) > 0]
        gone, come = _differences(before, self.covers.sets)
        none = np.zeros((0, 2), np.int64)
        return Step(
            self._every & ~gone,
            self._every & ~come,
            self.certificate.words[found],
            self.certificate.a_witness(found),
            np.concatenate([before[:0], *batch.lost]),
            np.concatenate([none, *batch.lost_pairs]),
        )

    def _met(self, newcomers: Slots) -> tuple[Words, Pairs]:
        """Return evidences of pairs with new rows, at least those that violate a cover."""
        if self.index.is_used:
            return self.index.probe(newcomers)
        words, pairs = evidences_with(self._rows, self.space, newcomers, self._threads)
        return words, pairs[:, None, :]

    def _take(self, words: Words, pairs: Pairs, batch: _Batch) -> None:
        """Let evidences of live pairs into the certificate, and cover them."""
        if not len(words):
            return
        if not self.space.crossing:
            words, pairs = (
                np.concatenate([words, mirrored(words, self.space)]),
                np.concatenate([pairs, pairs[:, :, ::-1]]),
            )
        _, first = np.unique(as_items(words), return_index=True)
        words, pairs = words[first], pairs[first]
        fresh = self.certificate.find(words) < 0
        words, pairs = words[fresh], pairs[fresh]
        if not self._bound:
            self._cover(words, pairs, batch)
            return
        images = self._images(words)
        at = 0
        while (at := self.covers.next_missed(words, at)) < len(words):  # others would be kept for nothing
            together = np.unique([at, images[at]])
            self._cover(words[together], pairs[together], batch)
            at += 1

    def _images(self, words: Words) -> Numbers:
        """Return where the mirror image of each of some evidences is; each itself where columns are crossed."""
        if self.space.crossing:
            return np.arange(len(words))
        order = np.argsort(as_items(words))
        places: Numbers = order[np.searchsorted(as_items(words)[order], as_items(mirrored(words, self.space)))]
        return places

    def _cover(self, words: Words, pairs: Pairs, batch: _Batch) -> None:
        """Let evidences into the certificate that it does not have, and cover them."""
        new = self.certificate.add(words, pairs)
        self.effort.evidences_found += len(new)
        self.covers.extend(new)
        batch.found.append(new)

    def _still_lost(self, lost: Numbers, dead: Pairs, newcomers: Slots, batch: _Batch) -> Numbers:
        """Look for lost evidences among pairs of new rows with the partners of dead witnesses, then everywhere."""
        lost = lost[self.certificate.witnesses_left(lost) == 0]
        count = len(lost)
        if not self.space.crossing:  # the mirror image may have kept a witness
            images = self.certificate.find(mirrored(self.certificate.words[lost], self.space))
            self.certificate.witness(lost[images >= 0], self.certificate.pairs[images[images >= 0], :, ::-1])
            lost = lost[self.certificate.witnesses_left(lost) == 0]
        partners = np.unique(dead[np.isin(dead[:, 0], lost), 2:])
        partners = partners[self._rows.copies[partners] > 0]
        if len(partners) and len(newcomers) and len(partners) * len(newcomers) <= _PARTNER_PAIRS:
            t, s = (side.ravel() for side in np.meshgrid(newcomers, partners))
            pairs = np.concatenate([np.column_stack([t, s]), np.column_stack([s, t])])
            self._witness(pairs[pairs[:, 0] != pairs[:, 1]])
            lost = lost[self.certificate.witnesses_left(lost) == 0]
        if len(lost) > _MANY_LOST and len(partners):
            words, pairs = evidences_with(self._rows, self.space, partners, self._threads)
            numbers = self.certificate.find(words)
            self.certificate.witness(numbers[numbers >= 0], pairs[numbers >= 0, None, :])
            lost = lost[self.certificate.witnesses_left(lost) == 0]
        if len(lost) and not self._bound:
            self._witness(self._violating(self._point_boxes(lost), WITNESSES, batch)[1])
            lost = lost[self.certificate.witnesses_left(lost) == 0]
        self.effort.evidences_found_again += count - len(lost)
        return lost

    def _find_more_witnesses(self) -> None:
        """Look for further pairs of each evidence, so that few are lost when rows go.

        First random pairs, which see what is frequent. Then a witness with one row replaced by the next one in the
        order of some column, which often has the same outcomes. What is rare still is searched for, if that is quick.
        """
        live = self._rows.live()
        if len(live) < 2:
            return
        rng = np.random.default_rng(1)
        pairs = rng.choice(live, (_RANDOM_PAIRS, 2))
        self._witness(pairs[pairs[:, 0] != pairs[:, 1]])
        rare = self._rarely_witnessed()
        if len(rare) * self._rows.codes.shape[1] <= _MOST_RARE:
            self._witness(self._beside(self.certificate.a_witness(rare), live))
        rare = self._rarely_witnessed()
        if len(rare) * self._rows.codes.shape[1] <= _MOST_RARE and len(rare) * len(live) <= _MOST_SEARCHED:
            self._witness(self._violating(self._point_boxes(rare), WITNESSES, _Batch())[1])

    def _rarely_witnessed(self) -> Numbers:
        held = self.certificate.held
        few: Numbers = held[self.certificate.witnesses_left(held) < WITNESSES - 1]
        return few

    def _beside(self, pairs: Pairs, live: Slots) -> Pairs:
        """Return pairs with one of their rows replaced by a neighbour of it in the order of each column."""
        found = [pairs[:0]]
        place = np.empty(len(self._rows.copies), np.int64)
        for codes in self._rows.codes[live].T:
            order = live[np.argsort(codes, kind="stable")]
            place[order] = np.arange(len(order))
            for side, step in ((0, -1), (0, 1), (1, -1), (1, 1)):
                at = place[pairs[:, side]] + step
                inside = (at >= 0) & (at < len(order))
                turned = pairs[inside]
                turned[:, side] = order[at[inside]]
                found.append(turned[turned[:, 0] != turned[:, 1]])
        return np.concatenate(found)

    def _witness(self, pairs: Pairs) -> None:
        """Give evidences of the certificate witnesses among live pairs."""
        if not self.space.crossing:
            pairs = np.concatenate([pairs, pairs[:, ::-1]])
        noted = Noted(self.space)
        noted.add_pairs(self._rows.codes, pairs.astype(np.int32))
        words, witnesses = noted.entries()
        numbers = self.certificate.find(words)
        self.certificate.witness(numbers[numbers >= 0], witnesses[numbers >= 0])

    def _point_boxes(self, lost: Numbers) -> Words:
        """Return lost evidences as boxes of one point each; of two mirror images one."""
        words = self.certificate.words[lost]
        if not self.space.crossing:
            both = np.concatenate([words, mirrored(words, self.space)])
            words = np.unique(both[reported_images(both, self.space)], axis=0)
        return words

    def _let_go(self, lost: Numbers, dead: Pairs, batch: _Batch) -> None:
        """Drop evidences that no live pair has."""
        if not len(lost):
            return
        words = self.certificate.words[lost].copy()
        where = np.searchsorted(lost, dead[:, 0])
        one = np.full((len(lost), 2), -1, np.int64)
        within = np.minimum(where, len(lost) - 1)
        of_lost = lost[within] == dead[:, 0]
        one[within[of_lost]] = dead[of_lost, 2:]
        self.effort.evidences_lost += len(lost)
        self.certificate.drop(lost)
        before = len(self.covers)
        self.covers.shrink(lost, words, prove=not self._bound)
        self.effort.candidates += max(len(self.covers) - before, 0)
        batch.lost.append(words)
        batch.lost_pairs.append(one)

    def _prove(self, batch: _Batch) -> None:
        """Search for violations of covers that are not known to hold, until all are."""
        while not self.covers.proven.all():
            masks = self.covers.masks[~self.covers.proven]
            broken, pairs = self._violating(self._one_of_each_image(masks), _PAIRS_PER_CONSTRAINT, batch)
            if not broken:
                self.covers.proven = np.ones(len(self.covers), np.bool_)
                return
            self.effort.refuted += broken
            noted = Noted(self.space)
            noted.add_pairs(self._rows.codes, pairs.astype(np.int32))
            self._take(*noted.entries(), batch)

    def _one_of_each_image(self, masks: Words) -> Words:
        """Return boxes that are enough to search for: where no columns are crossed, evidences come in mirror images."""
        return masks if self.space.crossing else masks[reported_images(masks, self.space)]

    def _violating(self, masks: Words, limit: int, batch: _Batch) -> tuple[int, Pairs]:
        """Return how many boxes some live pair violates, and such pairs, both ways round."""
        if batch.table is None:
            codes = current_codes(self._rows, self.space)
            batch.table = codes, ViolationSearch(codes, self.space, self._threads)
        codes, search = batch.table
        found = search.find(masks, limit)
        pairs = codes.table_rows(found.pairs)
        return len(np.unique(found.constraint)), np.concatenate([pairs, pairs[:, ::-1]])


def _all_images(seed: DenialSeed, space: PredicateSpace) -> Words:
    """Return the boxes of a seed with the mirror images that are not reported; without evidences that of everything."""
    if not len(seed.evidences):
        return np.array([space.words(space.every)], np.uint64)
    turned = mirrored(seed.masks, space)
    own = ~_crosses(seed.masks, space) & (turned != seed.masks).any(axis=1)
    return np.concatenate([seed.masks, turned[own]])


def _crosses(masks: Words, space: PredicateSpace) -> np.ndarray:
    crossing = sum(pair.every for pair in space.pairs if pair.left != pair.right)
    bits = np.array(space.words(crossing), np.uint64)
    return np.asarray(((masks & bits) != bits).any(axis=1))


def _differences(before: Words, after: Words) -> tuple[Words, Words]:
    """Return the rows of one array that are not in the other, both ways. O(1) where they are the same array."""
    if before is after:
        return before[:0], after[:0]
    old, new = as_items(before), as_items(after)
    return before[~np.isin(old, new)], after[~np.isin(new, old)]
