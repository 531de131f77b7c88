"""Denial constraints kept exact from batch to batch (see `maintainer.py`).

New evidences extend the covers, and lost evidences shrink them. With a bound, the covers that appeared with the loss of
an evidence are searched on the whole table, until all hold.

Without a bound the certificate is the set of all evidences of the table: a pair whose evidence is missing would violate
the cover that leaves out all points but that one. So the covers that appear with a loss hold without a search, but a
lost evidence has to be searched on the whole table.

Invariant: after `apply` the minimal covers of the certificate all hold, so they are the maximal boxes of the live rows.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.denial.covers import Covers
from holdfast.discovery.denial.enumerating import reported_images
from holdfast.discovery.denial.meaning import Meaning
from holdfast.discovery.evidence.certificate import Certificate
from holdfast.discovery.evidence.evidences import mirrored
from holdfast.discovery.seed import Seed
from holdfast.indexes.masks import as_items
from holdfast.state import codecs
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.maintainers.certified.maintainer import BatchEvidences, CertifiedMaintainer, differences
from holdfast.streaming.maintainers.holdings.contract import Holding
from holdfast.tables.arrays import Numbers, Pairs, Slots, Words

_PAIRS_PER_CONSTRAINT = 24


class DenialMaintainer(CertifiedMaintainer):
    """The minimal covers of one table.

    Parameters
    ----------
    holding, space : the rows of the table, and the column pairs that are compared.
    bound : the most column pairs of a constraint; 0 for any number.
    certificate, sets : the evidences, and their minimal covers, all of which hold.
    """

    def __init__(
        self, holding: Holding, space: PredicateSpace, bound: int, certificate: Certificate, sets: Words
    ) -> None:
        super().__init__(holding, space, certificate)
        self._bound = 0 if bound >= len(space.pairs) else bound
        self.covers = Covers(space, self._bound, certificate, sets)
        self._saved = sets[:0]
        self._meaning = Meaning(space)
        self._derived_of: Words | None = None
        self._boxes = self._standing = self._masks = sets[:0]
        self.begin()

    @classmethod
    def seed(cls, holding: Holding, space: PredicateSpace, bound: int, found: Seed) -> "DenialMaintainer":
        """Return a maintainer of the constraints that a discovery found; the witnesses of `found` are slots."""
        certificate = Certificate(space.word_count)
        certificate.add(found.evidences, found.witnesses[:, None, :])
        every = np.array(space.words(space.every), np.uint64)
        made = cls(holding, space, bound, certificate, every & ~_all_images(found, space))
        made._find_more_witnesses()
        made.begin()
        return made

    @property
    def masks(self) -> Words:
        """The reported boxes: one of two mirror images, without the box of everything."""
        self._derive()
        return self._masks

    @property
    def standing(self) -> Words:
        """The reported boxes, and the box of everything if it holds."""
        self._derive()
        return self._standing

    @property
    def boxes(self) -> Words:
        """The boxes of all covers that some pair of rows could violate, with mirror images."""
        self._derive()
        return self._boxes

    def wider(self, mask: Words, boxes: Words) -> Words | None:
        """Return the first of `boxes`, or its mirror image, that implies the box `mask`, transitivity considered."""
        return self._meaning.wider(mask, boxes)

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since the last save, or everything, in batches of bounded size."""
        yield from self.certificate.save(prefix, everything=everything)
        removed, added = differences(self._saved, self.covers.sets)
        if everything:
            added = self.covers.sets
        changed = [(cover, None) for cover in removed] + [(cover, b"") for cover in added]
        yield WriteBatch("covers", {prefix + codecs.words(cover): value for cover, value in changed})
        self._saved = self.covers.sets

    @classmethod
    def restore(
        cls, holding: Holding, space: PredicateSpace, bound: int, store: Store, prefix: bytes
    ) -> "DenialMaintainer":
        """Return the maintainer that was saved. O(n log n)."""
        certificate = Certificate(space.word_count)
        certificate.restore(store, prefix)
        sets = np.array([codecs.read_words(key[len(prefix) :]) for key, _ in store.scan("covers", prefix)], np.uint64)
        restored = cls(holding, space, bound, certificate, sets.reshape(-1, space.word_count))
        restored._saved = restored.covers.sets
        return restored

    def _derive(self) -> None:
        """Derive the boxes from the covers, if the covers changed."""
        if self._derived_of is self.covers.sets:
            return
        masks = self.covers.masks
        boxes, standing = masks[self._meaning.satisfiable(masks)], self._meaning.reported(masks)
        reported = standing[(standing != self._every).any(axis=1)]
        self._boxes, self._standing, self._masks, self._derived_of = boxes, standing, reported, self.covers.sets

    def _memo(self) -> Any:
        return self.covers.sets, self.covers.proven

    def _take_back(self, memo: Any) -> None:
        self.covers.restore(*memo)

    def _kept(self, words: Words, pairs: Pairs) -> tuple[Words, Pairs]:
        """Return both mirror images: each is an edge of its own."""
        if self.space.crossing:
            return words, pairs
        return np.concatenate([words, mirrored(words, self.space)]), np.concatenate([pairs, pairs[:, :, ::-1]])

    def _mirrored(self, words: Words, pairs: Pairs) -> tuple[Words, Pairs]:
        return words, pairs

    def _take(self, words: Words, pairs: Pairs, batch: BatchEvidences) -> None:
        words, pairs = self._fresh(words, pairs)
        if not self._bound:
            self._cover(words, pairs, batch)
            return
        images = self._places_of_images(words)
        at = 0
        while (at := self.covers.next_missed(words, at)) < len(words):  # other evidences change no cover
            together = np.unique([at, images[at]])
            self._cover(words[together], pairs[together], batch)
            at += 1

    def _places_of_images(self, words: Words) -> Numbers:
        """Return the place of each evidence's mirror image; the evidence's own place where columns are crossed."""
        if self.space.crossing:
            return np.arange(len(words))
        order = np.argsort(as_items(words))
        places: Numbers = order[np.searchsorted(as_items(words)[order], as_items(mirrored(words, self.space)))]
        return places

    def _cover(self, words: Words, pairs: Pairs, batch: BatchEvidences) -> None:
        self.covers.extend(self._enter(words, pairs, batch))

    def _still_lost(self, lost: Numbers, dead: Pairs, newcomers: Slots) -> Numbers:
        """Take witnesses from the mirror images of lost evidences, then search the others as all families do."""
        if not self.space.crossing:
            images = self.certificate.find(mirrored(self.certificate.words[lost], self.space))
            self.certificate.witness(lost[images >= 0], self.certificate.pairs[images[images >= 0], :, ::-1])
            lost = self._without_witness(lost)
        return super()._still_lost(lost, dead, newcomers)

    def _sought(self, lost: Numbers, batch: BatchEvidences) -> Numbers:
        """Search the whole table for lost evidences: without a bound every evidence counts."""
        if len(lost) and not self._bound:
            self._witness(self._with_evidences(lost, batch))
            lost = self._without_witness(lost)
        return lost

    def _points(self, numbers: Numbers) -> Words:
        """Return evidences as boxes, one of two mirror images."""
        words = self.certificate.words[numbers]
        if not self.space.crossing:
            both = np.concatenate([words, mirrored(words, self.space)])
            words = np.unique(both[reported_images(both, self.space)], axis=0)
        return words

    def _dropped(self, numbers: Numbers) -> None:
        before = len(self.covers)
        self.covers.shrink(numbers, self.certificate.words[numbers], prove=not self._bound)
        self.effort["candidates"] += max(len(self.covers) - before, 0)

    def _prove(self, batch: BatchEvidences) -> None:
        while not self.covers.proven.all():
            masks = self.covers.masks[~self.covers.proven]
            masks = masks[self._meaning.satisfiable(masks)]
            if not self.space.crossing:  # the certificate has mirror images, so one of two boxes is enough
                masks = masks[reported_images(masks, self.space)]
            broken, pairs = self._search(batch).find(masks, _PAIRS_PER_CONSTRAINT)
            if not len(broken):
                self.covers.proven = np.ones(len(self.covers), np.bool_)
                return
            self.effort["refuted"] += len(broken)
            self._take(*self._noted(np.concatenate([pairs, pairs[:, ::-1]])), batch)


def _all_images(seed: Seed, space: PredicateSpace) -> Words:
    """Return the boxes of a seed with their mirror images; without evidences the box of everything."""
    if not len(seed.evidences):
        return np.array([space.words(space.every)], np.uint64)
    turned = mirrored(seed.boxes, space)
    own = ~_crosses(seed.boxes, space) & (turned != seed.boxes).any(axis=1)
    return np.concatenate([seed.boxes, turned[own]])


def _crosses(masks: Words, space: PredicateSpace) -> np.ndarray:
    crossing = sum(pair.every for pair in space.pairs if pair.left != pair.right)
    bits = np.array(space.words(crossing), np.uint64)
    return np.asarray(((masks & bits) != bits).any(axis=1))
